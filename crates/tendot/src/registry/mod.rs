//! Commands over the registry API of a running server.
//!
//! `api_session.rs` sends requests and prints responses, `table.rs` formats them as text; then one file per command;
//! `batch_import.rs` uploads batches, and `batch_report.rs` reports the result of each line.

pub(crate) mod agency;
mod api_session;
pub(crate) mod batch_import;
mod batch_report;
pub(crate) mod doi;
pub(crate) mod prefix;
pub(crate) mod registrant;
mod table;
pub(crate) mod token;
mod transfer;

use std::path::PathBuf;

pub(crate) use api_session::{ApiSession, flag_value, json_object};
use clap::{Args, ValueEnum};
pub(crate) use table::ResourceKind;

/// Which service is asked, and by whom; all commands of the registry have these.
#[derive(Args, Clone, Debug)]
pub(crate) struct ApiConnectionArguments {
    /// The service that is asked [default: TENDOT_SERVER, else http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,

    /// The token that says who asks [default: TENDOT_TOKEN, which others on this machine can't see]
    #[arg(long, value_name = "TOKEN", global = true)]
    pub(crate) token: Option<String>,

    /// Believe the certificates in this file (PEM) instead of those of public authorities
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) trust: Option<PathBuf>,

    /// Print one JSON object a line, as the service gives it
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ListArguments {
    /// At most so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
}

/// Whether metadata has to be there.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MetadataPolicyArgument {
    /// A name is not registered without
    Required,
    /// It may come later, or never
    Optional,
}
