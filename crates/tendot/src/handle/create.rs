//! `tendot handle create`: creates a record.

use clap::Args;

use super::connection::HandleConnection;
use super::value_argument::ValueArguments;
use super::{HandleConnectionArguments, report_write};
use crate::resolve::handle_input::parse_handle_input;
use crate::{CliError, CommandStatus};

/// Create a record
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot handle create 10.5555/1 1:URL:https://example.org/1 --auth 300:0.NA/10.5555 --key admpriv.bin
  tendot handle create 10.5555/1 1,ttl=3600:URL:https://example.org/1 2,permissions=1100:EMAIL:me@example.org \\
      100:HS_ADMIN:300:0.NA/10.5555
  tendot handle show 10.5555/1 --json | tendot handle create 10.5555/2 --values -

Exit codes: 0 success, 1 the handle already exists, 2 error")]
pub(crate) struct CreateArguments {
    /// Handle, or DOI name in any written form
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    values: ValueArguments,

    /// Replace the record if it exists
    #[arg(long)]
    overwrite: bool,
}

pub(super) fn run(
    connection: &HandleConnectionArguments,
    arguments: &CreateArguments,
) -> Result<CommandStatus, CliError> {
    let name = parse_handle_input(&arguments.name)?;
    let values = arguments.values.parse()?;
    if values.is_empty() {
        return Err(CliError::new("no values").with_hint("add a value such as `1:URL:https://example.org/`"));
    }
    let mut server = HandleConnection::open(connection)?;
    let created = server.create(&name, &values, arguments.overwrite);
    server.close();
    created.map_err(|error| error.into_cli_error(&name))?;
    report_write(connection.json, if arguments.overwrite { "wrote" } else { "created" }, &name)
}
