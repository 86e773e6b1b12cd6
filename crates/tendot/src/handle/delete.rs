//! `tendot handle delete`: deletes records.

use clap::Args;

use super::connection::HandleConnection;
use super::{HandleConnectionArguments, report_write};
use crate::resolve::handle_input::parse_handle_input;
use crate::{CliError, CommandStatus};

/// Delete records
///
/// At a Tendot server, a name that was registered, or whose prefix the registry has allocated, becomes a tombstone and can't be
/// created again.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot handle delete 10.5555/1 10.5555/2 --auth 300:0.NA/10.5555 --key admpriv.bin

Exit codes: 0 success, 1 a handle was not found, 2 error")]
pub(crate) struct DeleteArguments {
    /// Handles, or DOI names in any written form
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

pub(super) fn run(
    connection: &HandleConnectionArguments,
    arguments: &DeleteArguments,
) -> Result<CommandStatus, CliError> {
    // All names are checked before the first record is deleted.
    let names = arguments.names.iter().map(|name| parse_handle_input(name));
    let names = names.collect::<Result<Vec<_>, CliError>>()?;
    let mut server = HandleConnection::open(connection)?;
    let mut status = CommandStatus::Success;
    for name in &names {
        match server.delete(name) {
            Ok(()) => drop(report_write(connection.json, "deleted", name)?),
            Err(error) if error.is_negative() => {
                error.into_cli_error(name).print();
                status = CommandStatus::Negative;
            }
            Err(error) => return Err(error.into_cli_error(name)),
        }
    }
    server.close();
    Ok(status)
}
