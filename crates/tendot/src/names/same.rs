//! `tendot same`: compares two written forms.

use std::ffi::OsString;

use clap::Args;
use serde::Serialize;
use tendot_names::{DoiOrShortDoi, ErrorKind, Parser};

use super::ParseArguments;
use super::name::InvalidNameJson;
use crate::terminal::{eprint_line, print_json, quote_input};
use crate::{CliError, CommandStatus};

/// Check whether two inputs denote the same DOI name
///
/// The comparison ignores the case of ASCII letters. In URLs and URIs, percent-encoding is decoded first; in bare names it is
/// significant.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot same 10.1000/ABC https://doi.org/10.1000/abc && echo same

Exit codes: 0 same name, 1 different names, 2 error, or an input is not a DOI name")]
pub(crate) struct SameArguments {
    /// First input
    #[arg(value_name = "A")]
    pub(crate) a: OsString,

    /// Second input
    #[arg(value_name = "B")]
    pub(crate) b: OsString,

    #[command(flatten)]
    pub(crate) syntax: ParseArguments,

    /// Print a JSON object: same, a, b
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct ComparisonJson<'a> {
    same: bool,
    a: &'a str,
    b: &'a str,
}

pub(crate) fn run(arguments: &SameArguments) -> Result<CommandStatus, CliError> {
    let parser = arguments.syntax.parser();
    let a = parse_argument(&parser, arguments.a.as_encoded_bytes(), arguments.json)?;
    let b = parse_argument(&parser, arguments.b.as_encoded_bytes(), arguments.json)?;
    let same = a == b;
    if arguments.json {
        print_json(&ComparisonJson { same, a: a.as_str(), b: b.as_str() })?;
    }
    if same {
        return Ok(CommandStatus::Success);
    }
    eprint_line(format_args!("`{}` and `{}` are different DOI names", a.as_str(), b.as_str()));
    Ok(CommandStatus::Negative)
}

fn parse_argument<'a>(parser: &Parser, text: &'a [u8], json: bool) -> Result<DoiOrShortDoi<'a>, CliError> {
    match parser.parse_bytes(text) {
        Ok(parsed) => Ok(parsed.into_identifier()),
        Err(error) => {
            if json {
                print_json(&InvalidNameJson::new(text, &error))?;
            }
            let failure = CliError::new(format!("invalid DOI name `{}`: {error}", quote_input(text)));
            Err(match error.kind() {
                ErrorKind::UnknownForm => {
                    failure.with_hint("use `tendot extract` to find names inside other URLs")
                }
                _ => failure,
            })
        }
    }
}
