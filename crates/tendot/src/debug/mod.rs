//! `tendot debug`: decodes native messages and values.
//!
//! In reading order:
//!
//! - `message`, `value`: the two commands
//! - `fields`: fields of a message in wire order
//! - `field_list`: output as text or JSON

mod field_list;
mod fields;
mod message;
mod value;

use std::io::Read as _;

use clap::{Args, Subcommand};
use data_encoding::{DecodeKind, HEXLOWER_PERMISSIVE};
use message::DebugMessageArguments;
use value::DebugValueArguments;

use crate::terminal::{eprint_stdin_notice, quote_input};
use crate::{CliError, CommandStatus};

/// Decode native messages and handle values
#[derive(Args, Debug)]
pub(crate) struct DebugArguments {
    #[command(subcommand)]
    pub(crate) command: DebugCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    Message(DebugMessageArguments),
    Value(DebugValueArguments),
}

pub(crate) fn run(arguments: &DebugArguments) -> Result<CommandStatus, CliError> {
    match &arguments.command {
        DebugCommand::Message(arguments) => message::run(arguments),
        DebugCommand::Value(arguments) => value::run(arguments),
    }
}

/// Parses hexadecimal digits; white space, colons and a leading `0x` are ignored.
fn parse_hex(text: &str) -> Result<Vec<u8>, CliError> {
    let digits = text.trim().strip_prefix("0x").unwrap_or(text);
    let digits: Vec<u8> =
        digits.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b':').collect();
    HEXLOWER_PERMISSIVE.decode(&digits).map_err(|error| {
        let why = match error.kind {
            DecodeKind::Length => format!("odd number of digits ({})", digits.len()),
            _ => format!("invalid digit at position {}", error.position + 1),
        };
        CliError::new(format!("invalid hex `{}`: {why}", quote_input(text.as_bytes()))).with_hint(
            "use two digits per byte, as in `020b020b 00000000`; white space and colons are ignored",
        )
    })
}

/// Reads all of standard input.
fn read_stdin() -> Result<String, CliError> {
    eprint_stdin_notice();
    let mut input = String::new();
    std::io::stdin()
        .read_to_string(&mut input)
        .map_err(|error| CliError::io("cannot read standard input", &error))?;
    Ok(input)
}
