//! `tendot same`

use serde::Serialize;
use tendot_names::{DoiOrShortDoi, ErrorKind, Parser};

use super::name::InvalidNameJson;
use crate::args::SameArguments;
use crate::failure::{eprint_line, shown};
use crate::output::StdoutWriter;
use crate::{CliError, CommandStatus};

#[derive(Serialize)]
struct ComparisonJson<'a> {
    same: bool,
    a: &'a str,
    b: &'a str,
}

pub(crate) fn run(arguments: &SameArguments) -> Result<CommandStatus, CliError> {
    let reader = arguments.reading.parser();
    let a = parse_argument(&reader, arguments.a.as_encoded_bytes(), arguments.json)?;
    let b = parse_argument(&reader, arguments.b.as_encoded_bytes(), arguments.json)?;
    let same = a == b;
    if arguments.json {
        let mut output = StdoutWriter::new();
        output.write_json(&ComparisonJson { same, a: a.as_str(), b: b.as_str() })?;
        output.flush()?;
    }
    if same {
        return Ok(CommandStatus::Yes);
    }
    eprint_line(format_args!("`{}` and `{}` are different names", a.as_str(), b.as_str()));
    Ok(CommandStatus::No)
}

fn parse_argument<'a>(reader: &Parser, text: &'a [u8], json: bool) -> Result<DoiOrShortDoi<'a>, CliError> {
    match reader.parse_bytes(text) {
        Ok(reading) => Ok(reading.into_identifier()),
        Err(error) => {
            if json {
                let mut output = StdoutWriter::new();
                output.write_json(&InvalidNameJson::new(text, &error))?;
                output.flush()?;
            }
            let failure = CliError::new(format!("`{}` is no DOI name: {error}", shown(text)));
            Err(match error.kind() {
                ErrorKind::UnknownForm => {
                    failure.with_hint("`tendot extract` finds names inside other addresses")
                }
                _ => failure,
            })
        }
    }
}
