//! `tendot same`

use serde::Serialize;
use tendot_names::{ErrorKind, Parser, DoiOrShortDoi};

use super::name::Refused;
use crate::args::SameArguments;
use crate::failure::{shown, tell};
use crate::output::Output;
use crate::{Answer, Failure};

#[derive(Serialize)]
struct ComparisonJson<'a> {
    same: bool,
    a: &'a str,
    b: &'a str,
}

pub(crate) fn run(arguments: &SameArguments) -> Result<Answer, Failure> {
    let reader = arguments.reading.reader();
    let a = target(&reader, arguments.a.as_encoded_bytes(), arguments.json)?;
    let b = target(&reader, arguments.b.as_encoded_bytes(), arguments.json)?;
    let same = a == b;
    if arguments.json {
        let mut output = Output::new();
        output.json(&ComparisonJson { same, a: a.as_str(), b: b.as_str() })?;
        output.flush()?;
    }
    if same {
        return Ok(Answer::Yes);
    }
    tell(format_args!("`{}` and `{}` are different names", a.as_str(), b.as_str()));
    Ok(Answer::No)
}

fn target<'a>(reader: &Parser, text: &'a [u8], json: bool) -> Result<DoiOrShortDoi<'a>, Failure> {
    match reader.parse_bytes(text) {
        Ok(reading) => Ok(reading.into_identifier()),
        Err(error) => {
            if json {
                let mut output = Output::new();
                output.json(&Refused::new(text, &error))?;
                output.flush()?;
            }
            let failure = Failure::new(format!("`{}` is no DOI name: {error}", shown(text)));
            Err(match error.kind() {
                ErrorKind::UnknownForm => failure.hint("`tendot extract` finds names inside other addresses"),
                _ => failure,
            })
        }
    }
}
