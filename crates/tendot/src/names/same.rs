//! `tendot same`: compares two written forms.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

use clap::Args;
use serde::Serialize;
use tendot_names::{ErrorKind, InputForm, ParsedHandle, Parser};
use tendot_registry::{look_alike, uri_form};

use super::ParseArguments;
use super::name::InvalidNameJson;
use crate::terminal::{eprint_line, escape_control, print_json, quote_input};
use crate::{CliError, CommandStatus};

/// Check whether two inputs denote the same DOI name
///
/// The comparison ignores the case of ASCII letters. In URLs and URIs, percent-encoding is decoded first; in bare names it is
/// significant. Handles of other prefixes are compared, too. If different names look alike, their URI forms are printed.
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

    /// Print a JSON object: same, a, b; a_uri and b_uri if different names look alike
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct ComparisonJson<'a> {
    same: bool,
    a: &'a str,
    b: &'a str,
    /// URI forms, if the names look alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    a_uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b_uri: Option<&'a str>,
}

pub(crate) fn run(arguments: &SameArguments) -> Result<CommandStatus, CliError> {
    let parser = arguments.syntax.parser();
    let parse = |text| {
        parse_argument(&parser, arguments.syntax.strict, OsStr::as_encoded_bytes(text), arguments.json)
    };
    let (a, b) = (parse(&arguments.a)?, parse(&arguments.b)?);
    let same = a.eq_ignore_ascii_case(&b);
    // Only the URI form tells such names apart (2024 draft, section 2, note 2).
    let uris = look_alike(&a, &b).then(|| (uri_form(&a), uri_form(&b)));
    if arguments.json {
        let (a_uri, b_uri) = (uris.as_ref().map(|uris| &*uris.0), uris.as_ref().map(|uris| &*uris.1));
        print_json(&ComparisonJson { same, a: &a, b: &b, a_uri, b_uri })?;
    }
    if same {
        return Ok(CommandStatus::Success);
    }
    let (a, b) = (escape_control(&a), escape_control(&b));
    match uris {
        Some((a_uri, b_uri)) => eprint_line(format_args!(
            "`{a}` ({a_uri}) and `{b}` ({b_uri}) are different names that look alike"
        )),
        None => eprint_line(format_args!("`{a}` and `{b}` are different DOI names")),
    }
    Ok(CommandStatus::Negative)
}

/// Whether text that is not a DOI is a handle of another prefix. A bare name with an invalid registrant code is a typing error.
fn is_other_prefix(error: &tendot_names::Error, handle: &ParsedHandle<'_>) -> bool {
    match error.kind() {
        ErrorKind::BadDirectoryIndicator => true,
        ErrorKind::BadRegistrant | ErrorKind::MissingRegistrant => handle.input_form() != InputForm::Bare,
        _ => false,
    }
}

/// Name of an argument: a DOI, or a handle of another prefix.
fn parse_argument<'a>(
    parser: &Parser,
    is_strict: bool,
    text: &'a [u8],
    json: bool,
) -> Result<Cow<'a, str>, CliError> {
    match parser.parse_bytes(text) {
        Ok(parsed) => Ok(Cow::Owned(parsed.into_identifier().as_str().to_owned())),
        Err(error) => {
            if !is_strict
                && let Ok(text) = str::from_utf8(text)
                && let Ok(handle) = tendot_names::parse_handle(text)
                && is_other_prefix(&error, &handle)
            {
                return Ok(handle.into_name());
            }
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
