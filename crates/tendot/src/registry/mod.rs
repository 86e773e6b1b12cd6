//! Commands over the registry API of a running server.
//!
//! `api_session.rs` sends requests and prints responses, `table.rs` formats them as text; then one file per command: `agency.rs`,
//! `registrant.rs`, `prefix.rs`, `doi.rs`, `transfer.rs`, `token.rs`, `session.rs`, `report.rs`; `batch_import.rs` uploads batches,
//! and `batch_report.rs` reports the result of each line.

pub(crate) mod agency;
mod api_session;
pub(crate) mod batch_import;
mod batch_report;
pub(crate) mod doi;
pub(crate) mod prefix;
pub(crate) mod registrant;
pub(crate) mod report;
pub(crate) mod session;
mod table;
pub(crate) mod token;
pub(crate) mod transfer;

use std::path::PathBuf;

use api_session::DRY_RUN;
pub(crate) use api_session::{
    ApiSession, flag_value, json_object, read_token, server_from_environment, server_or_default,
};
use clap::{Args, ValueEnum};
pub(crate) use table::ResourceKind;

/// Server and credentials; all registry commands have these.
#[derive(Args, Clone, Debug)]
pub(crate) struct ApiConnectionArguments {
    /// Server URL [env: TENDOT_SERVER] [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", global = true, help_heading = "Connection")]
    pub(crate) server: Option<String>,

    /// API token, visible in the process list [env: TENDOT_TOKEN]
    #[arg(long, value_name = "TOKEN", global = true, help_heading = "Connection")]
    pub(crate) token: Option<String>,

    /// Read the API token from this file [env: TENDOT_TOKEN_FILE]
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "token", help_heading = "Connection")]
    pub(crate) token_file: Option<PathBuf>,

    /// Trust the CA certificates in this PEM file instead of the public CAs
    #[arg(long, value_name = "FILE", global = true, help_heading = "Connection")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Print the server's JSON, one object per line
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ListArguments {
    /// Maximum number of results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
}

/// Metadata policy of an agency or prefix.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MetadataPolicyArgument {
    /// registration requires metadata (default)
    Required,
    /// metadata may be added later
    Optional,
}
