//! `tendot same`: compares two written forms.

use std::ffi::OsString;

use clap::Args;
use serde::Serialize;
use tendot_names::{DoiOrShortDoi, ErrorKind, Parser};

use super::ParseArguments;
use super::name::InvalidNameJson;
use crate::terminal::{StdoutWriter, eprint_line, quote_input};
use crate::{CliError, CommandStatus};

/// Says whether two texts are written forms of the same DOI name
///
/// Case counts only outside ASCII; percent-encoding counts only in bare names.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot same 10.1000/ABC https://doi.org/10.1000/abc && echo same

Exit codes: 0 the same, 1 different names, 2 one of them is no name.")]
pub(crate) struct SameArguments {
    /// One written form
    #[arg(value_name = "A", allow_hyphen_values = true)]
    pub(crate) a: OsString,

    /// The other
    #[arg(value_name = "B", allow_hyphen_values = true)]
    pub(crate) b: OsString,

    #[command(flatten)]
    pub(crate) reading: ParseArguments,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct ComparisonJson<'a> {
    same: bool,
    a: &'a str,
    b: &'a str,
}

pub(crate) fn run(arguments: &SameArguments) -> Result<CommandStatus, CliError> {
    let parser = arguments.reading.parser();
    let a = parse_argument(&parser, arguments.a.as_encoded_bytes(), arguments.json)?;
    let b = parse_argument(&parser, arguments.b.as_encoded_bytes(), arguments.json)?;
    let same = a == b;
    if arguments.json {
        let mut output = StdoutWriter::new();
        output.write_json(&ComparisonJson { same, a: a.as_str(), b: b.as_str() })?;
        output.flush()?;
    }
    if same {
        return Ok(CommandStatus::Success);
    }
    eprint_line(format_args!("`{}` and `{}` are different names", a.as_str(), b.as_str()));
    Ok(CommandStatus::Negative)
}

fn parse_argument<'a>(parser: &Parser, text: &'a [u8], json: bool) -> Result<DoiOrShortDoi<'a>, CliError> {
    match parser.parse_bytes(text) {
        Ok(parsed) => Ok(parsed.into_identifier()),
        Err(error) => {
            if json {
                let mut output = StdoutWriter::new();
                output.write_json(&InvalidNameJson::new(text, &error))?;
                output.flush()?;
            }
            let failure = CliError::new(format!("`{}` is no DOI name: {error}", quote_input(text)));
            Err(match error.kind() {
                ErrorKind::UnknownForm => {
                    failure.with_hint("`tendot extract` finds names inside other addresses")
                }
                _ => failure,
            })
        }
    }
}
