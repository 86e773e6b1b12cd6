//! `tendot debug value`

use std::borrow::Cow;

use serde_json::value::{RawValue, to_raw_value};
use tendot_proto::Value;
use tendot_proto::record::Data;

use super::description::{Description, Field};
use super::{bytes_of_hex, hex_of_bytes, read_input};
use crate::args::DebugValueArguments;
use crate::output::Output;
use crate::{Answer, Failure};

pub(super) fn run(arguments: &DebugValueArguments) -> Result<Answer, Failure> {
    let bytes = match &arguments.hex {
        Some(hex) => bytes_of_hex(hex)?,
        None => bytes_of_hex(&read_input()?)?,
    };
    let value_type = &*arguments.value_type;
    let data = Data::decode(value_type.as_bytes(), &bytes)
        .map_err(|error| Failure::new(format!("malformed {value_type}: {error}")))?;
    let mut output = Output::new();
    if arguments.reencode {
        output.line(hex_of_bytes(&data.encode()))?;
    } else {
        let mut description = Description::default();
        description.add("type", value_type);
        description.add("length", bytes.len() as u64);
        description.append(describe(value_type, &bytes)?);
        if arguments.json { output.json(&description)? } else { description.write(&mut output)? }
    }
    output.flush()?;
    Ok(Answer::Yes)
}

/// Format and value, as in the JSON of records.
pub(super) fn describe(value_type: &str, data: &[u8]) -> Result<Description, Failure> {
    let (format, value) = format_and_value(value_type, data)?;
    let shown = shown_value(&value);
    let mut description = Description::default();
    description.add("format", format);
    description.add("value", Field::Json { json: value, shown });
    Ok(description)
}

/// The value in a line, for people.
pub(super) fn shown(value_type: &str, data: &[u8]) -> Result<String, Failure> {
    format_and_value(value_type, data).map(|(_, value)| shown_value(&value))
}

/// Text without its quotes, anything else as JSON.
fn shown_value(value: &RawValue) -> String {
    serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned())
}

fn format_and_value(value_type: &str, data: &[u8]) -> Result<(String, Box<RawValue>), Failure> {
    #[derive(serde::Deserialize)]
    struct Whole<'a> {
        #[serde(borrow)]
        data: DataJson<'a>,
    }
    #[derive(serde::Deserialize)]
    struct DataJson<'a> {
        format: &'a str,
        #[serde(borrow)]
        value: &'a RawValue,
    }
    let unwritable = |error| Failure::new(format!("the value has no JSON form: {error}"));
    let value = Value::with_data(1, value_type, Cow::Borrowed(data));
    let json = to_raw_value(&value).map_err(unwritable)?;
    let whole: Whole<'_> = serde_json::from_str(json.get()).map_err(unwritable)?;
    Ok((whole.data.format.to_owned(), whole.data.value.to_owned()))
}
