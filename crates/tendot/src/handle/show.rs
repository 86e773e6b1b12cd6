//! `tendot handle show`: prints a record.

use clap::Args;
use serde::Serialize;
use tendot_client::native::ResolveOptions;
use tendot_proto::{HandleValue, ResponseCode};

use super::HandleConnectionArguments;
use super::connection::HandleConnection;
use crate::resolve::handle_input::parse_handle_input;
use crate::resolve::value_text::format_value;
use crate::terminal::{StdoutWriter, escape_control};
use crate::{CliError, CommandStatus};

/// Show a record with all values that you may read
///
/// Without credentials, the public values are shown. The server is asked for its own record, not a cached one.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot handle show 10.5555/1
  tendot handle show 10.5555/1 --type URL --server hdl://127.0.0.1:2641
  tendot handle show 10.5555/1 --auth 300:0.NA/10.5555 --key admpriv.bin --json

Exit codes: 0 success, 1 handle or value not found, 2 error")]
pub(crate) struct ShowArguments {
    /// Handle, or DOI name in any written form
    #[arg(value_name = "NAME")]
    name: String,

    /// Return only values of this type; repeatable
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,

    /// Return the value at this index, in addition to those of `--type`; repeatable
    #[arg(long = "index", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    indexes: Vec<u32>,
}

#[derive(Serialize)]
struct RecordJson<'a> {
    #[serde(rename = "responseCode")]
    code: u32,
    handle: &'a str,
    values: &'a [HandleValue<'static>],
}

pub(super) fn run(
    connection: &HandleConnectionArguments,
    arguments: &ShowArguments,
) -> Result<CommandStatus, CliError> {
    let name = parse_handle_input(&arguments.name)?;
    let mut server = HandleConnection::open(connection)?;
    let options = ResolveOptions {
        types: arguments.types.clone(),
        indexes: arguments.indexes.clone(),
        is_authoritative: true,
    };
    let values = server.resolve(&name, &options);
    server.close();
    let values = values.map_err(|error| error.into_cli_error(&name))?;
    let mut output = StdoutWriter::new();
    if connection.json {
        output.write_json(&RecordJson { code: ResponseCode::SUCCESS.0, handle: &name, values: &values })?;
    } else {
        output.write_line(escape_control(&name))?;
        for value in &values {
            output.write_line(escape_control(&format_value(value)?))?;
        }
    }
    output.flush()?;
    Ok(CommandStatus::Success)
}
