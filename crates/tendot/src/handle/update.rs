//! `tendot handle update`: adds, replaces and removes values of a record.

use clap::Args;

use super::connection::HandleConnection;
use super::value_argument::ValueArguments;
use super::{HandleConnectionArguments, report_write};
use crate::resolve::handle_input::parse_handle_input;
use crate::{CliError, CommandStatus};

/// Add, replace and remove values of a record
///
/// Each VALUE replaces the value at its index, or is added; other values stay. To replace a whole record, use `tendot handle create
/// --overwrite`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot handle update 10.5555/1 1:URL:https://example.org/new --auth 300:0.NA/10.5555 --key admpriv.bin
  tendot handle update 10.5555/1 --remove 2 --remove 3

Exit codes: 0 success, 1 handle or value not found, 2 error")]
pub(crate) struct UpdateArguments {
    /// Handle, or DOI name in any written form
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    values: ValueArguments,

    /// Remove the value at this index, after the others are written; repeatable
    #[arg(long, value_name = "INDEX", value_parser = clap::value_parser!(u32).range(1..))]
    remove: Vec<u32>,
}

pub(super) fn run(
    connection: &HandleConnectionArguments,
    arguments: &UpdateArguments,
) -> Result<CommandStatus, CliError> {
    let name = parse_handle_input(&arguments.name)?;
    let values = arguments.values.parse()?;
    if values.is_empty() && arguments.remove.is_empty() {
        return Err(
            CliError::new("nothing to update").with_hint("add a VALUE, `--values FILE` or `--remove INDEX`")
        );
    }
    let mut server = HandleConnection::open(connection)?;
    let mut updated = if values.is_empty() { Ok(()) } else { server.add_values(&name, &values, true) };
    if updated.is_ok() && !arguments.remove.is_empty() {
        updated = server.remove_values(&name, &arguments.remove);
    }
    server.close();
    updated.map_err(|error| error.into_cli_error(&name))?;
    report_write(connection.json, "updated", &name)
}
