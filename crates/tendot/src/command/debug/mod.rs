//! `tendot debug`: what messages and values are made of.

mod description;
mod fields;
mod message;
mod value;

use std::io::Read as _;

pub(crate) use fields::format_value;

use crate::args::{DebugArguments, DebugCommand};
use crate::failure::{eprint_stdin_notice, shown};
use crate::{CliError, CommandStatus};

pub(crate) fn run(arguments: &DebugArguments) -> Result<CommandStatus, CliError> {
    match &arguments.command {
        DebugCommand::Message(arguments) => message::run(arguments),
        DebugCommand::Value(arguments) => value::run(arguments),
    }
}

/// The bytes of hexadecimal digits, between which white space and colons may stand, and `0x` before them.
fn bytes_of_hex(text: &str) -> Result<Vec<u8>, CliError> {
    let digits = text.trim().strip_prefix("0x").unwrap_or(text);
    let digits: Vec<u8> =
        digits.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b':').collect();
    let malformed = |why: String| {
        CliError::new(format!("`{}` is not hexadecimal: {why}", shown(text.as_bytes())))
            .with_hint("two digits a byte, as in `020b020b 00000000`; white space and colons are passed over")
    };
    if let Some(at) = digits.iter().position(|digit| !digit.is_ascii_hexdigit()) {
        return Err(malformed(format!("digit {} is none", at + 1)));
    }
    if digits.len() % 2 == 1 {
        return Err(malformed(format!("{} digits are no whole bytes", digits.len())));
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
    Ok(digits.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect())
}

/// All of standard input.
fn read_input() -> Result<String, CliError> {
    eprint_stdin_notice();
    let mut input = String::new();
    std::io::stdin()
        .read_to_string(&mut input)
        .map_err(|error| CliError::io("standard input can't be read", &error))?;
    Ok(input)
}

fn hex_of_bytes(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
