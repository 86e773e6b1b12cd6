//! `tendot handle list`: lists the handles under a prefix, or the homed prefixes.

use std::ops::ControlFlow;

use clap::Args;
use serde::Serialize;

use super::HandleConnectionArguments;
use super::connection::HandleConnection;
use crate::terminal::{StdoutWriter, eprint_line, escape_control};
use crate::{CliError, CommandStatus};

/// List the handles under a prefix, or the prefixes homed at the server
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot handle list 10.5555 --auth 300:0.NA/10.5555 --key admpriv.bin
  tendot handle list --token-file tendot-data/operator.token

Exit codes: 0 success, 2 error")]
pub(crate) struct HandleListArguments {
    /// Prefix, such as `10.5555` [default: list the homed prefixes]
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,

    /// Maximum number of results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

#[derive(Serialize)]
struct HandleJson<'a> {
    handle: &'a str,
}

pub(super) fn run(
    connection: &HandleConnectionArguments,
    arguments: &HandleListArguments,
) -> Result<CommandStatus, CliError> {
    let mut server = HandleConnection::open(connection)?;
    let (names, receiver) = std::sync::mpsc::sync_channel::<String>(1_024);
    let (prefix, limit, json) =
        (arguments.prefix.as_deref(), arguments.limit.unwrap_or(u64::MAX), connection.json);
    // The lock of standard output belongs to a thread, so that the callback can be called by any other.
    let printer = std::thread::spawn(move || -> Result<u64, CliError> {
        let mut output = StdoutWriter::new();
        let mut count = 0;
        for name in receiver {
            if json {
                output.write_json(&HandleJson { handle: &name })?;
            } else {
                output.write_line(escape_control(&name))?;
            }
            count += 1;
        }
        output.flush()?;
        Ok(count)
    });
    let mut left = limit;
    let listed = server.list(prefix, |name| {
        left = left.saturating_sub(1);
        // Sending fails if nothing can be printed any more.
        if names.send(name.to_owned()).is_err() || left == 0 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    drop(names);
    server.close();
    let printed = printer.join().unwrap_or_else(|_| Err(CliError::new("cannot print the list")))?;
    listed.map_err(|error| error.into_cli_error(prefix.unwrap_or("0.NA")))?;
    if printed == 0 {
        eprint_line("no results");
    }
    Ok(CommandStatus::Success)
}
