//! `tendot handle home`: makes a server responsible for prefixes.

use clap::Args;

use super::connection::HandleConnection;
use super::{HandleConnectionArguments, report_write};
use crate::{CliError, CommandStatus};

/// Home prefixes: make the server responsible for their handles
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot handle home 10.5555 --token-file tendot-data/operator.token
  tendot handle home 10.5555 --server hdl://127.0.0.1:2641 --auth 300:0.NA/10.5555 --key admpriv.bin

Exit codes: 0 success, 2 error")]
pub(crate) struct HomeArguments {
    /// Prefixes, such as `10.5555` or `0.NA/10.5555`
    #[arg(value_name = "PREFIX", required = true)]
    prefixes: Vec<String>,
}

pub(super) fn run(
    connection: &HandleConnectionArguments,
    arguments: &HomeArguments,
) -> Result<CommandStatus, CliError> {
    let mut server = HandleConnection::open(connection)?;
    for prefix in &arguments.prefixes {
        server.home(prefix).map_err(|error| error.into_cli_error(prefix))?;
        report_write(connection.json, "homed", prefix)?;
    }
    server.close();
    Ok(CommandStatus::Success)
}
