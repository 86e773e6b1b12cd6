//! `tendot handle`: administers handle records at a server.
//!
//! `connection.rs` has the operations at a server; then one file per verb.

mod connection;
mod sign;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{CliError, CommandStatus};

/// Administer handle records at a server
#[derive(Args, Debug)]
pub(crate) struct HandleArguments {
    #[command(flatten)]
    pub(crate) connection: HandleConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: HandleCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HandleCommand {
    Sign(sign::SignArguments),
}

/// Server and credentials; all handle commands have these.
#[derive(Args, Clone, Debug)]
pub(crate) struct HandleConnectionArguments {
    /// Server: `hdl://HOST[:PORT]` (native protocol)
    #[arg(long, value_name = "URL", global = true, help_heading = "Connection")]
    pub(crate) server: Option<String>,

    /// Identity: index and handle of the key value, such as `300:0.NA/10.5555`
    #[arg(long, value_name = "INDEX:HANDLE", global = true, help_heading = "Authentication")]
    pub(crate) auth: Option<String>,

    /// Private key of the identity (HS_PUBKEY)
    #[arg(long, value_name = "FILE", global = true, requires = "auth", help_heading = "Authentication")]
    pub(crate) key: Option<PathBuf>,

    /// Read the passphrase of an encrypted key from this file
    #[arg(long, value_name = "FILE", global = true, requires = "key", help_heading = "Authentication")]
    pub(crate) passphrase_file: Option<PathBuf>,

    /// Print JSON, one object per line
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &HandleArguments) -> Result<CommandStatus, CliError> {
    let connection = &arguments.connection;
    match &arguments.command {
        HandleCommand::Sign(arguments) => sign::run(connection, arguments),
    }
}
