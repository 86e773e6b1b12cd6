//! `tendot handle unhome`: ends the responsibility of a server for prefixes.

use clap::Args;

use super::connection::HandleConnection;
use super::{HandleConnectionArguments, report_write};
use crate::{CliError, CommandStatus};

/// Unhome prefixes: end the responsibility of the server; the records stay stored
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot handle unhome 10.5555 --token-file tendot-data/operator.token
  tendot handle unhome 10.5555 --server hdl://127.0.0.1:2641 --auth 300:0.NA/10.5555 --key admpriv.bin

Exit codes: 0 success, 2 error")]
pub(crate) struct UnhomeArguments {
    /// Prefixes, such as `10.5555` or `0.NA/10.5555`
    #[arg(value_name = "PREFIX", required = true)]
    prefixes: Vec<String>,
}

pub(super) fn run(
    connection: &HandleConnectionArguments,
    arguments: &UnhomeArguments,
) -> Result<CommandStatus, CliError> {
    let mut server = HandleConnection::open(connection)?;
    for prefix in &arguments.prefixes {
        server.unhome(prefix).map_err(|error| error.into_cli_error(prefix))?;
        report_write(connection.json, "unhomed", prefix)?;
    }
    server.close();
    Ok(CommandStatus::Success)
}
