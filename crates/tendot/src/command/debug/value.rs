//! `tendot debug value`

use std::borrow::Cow;

use serde_json::value::{RawValue, to_raw_value};
use tendot_proto::HandleValue;
use tendot_proto::record::ValueData;

use super::description::{FieldList, FieldValue};
use super::{bytes_of_hex, hex_of_bytes, read_input};
use crate::args::DebugValueArguments;
use crate::output::StdoutWriter;
use crate::{CliError, CommandStatus};

pub(super) fn run(arguments: &DebugValueArguments) -> Result<CommandStatus, CliError> {
    let bytes = match &arguments.hex {
        Some(hex) => bytes_of_hex(hex)?,
        None => bytes_of_hex(&read_input()?)?,
    };
    let value_type = &*arguments.value_type;
    let data = ValueData::decode(value_type.as_bytes(), &bytes)
        .map_err(|error| CliError::new(format!("malformed {value_type}: {error}")))?;
    let mut output = StdoutWriter::new();
    if arguments.reencode {
        output.write_line(hex_of_bytes(&data.encode()))?;
    } else {
        let mut description = FieldList::default();
        description.add("type", value_type);
        description.add("length", bytes.len() as u64);
        description.append(describe(value_type, &bytes)?);
        if arguments.json { output.write_json(&description)? } else { description.write(&mut output)? }
    }
    output.flush()?;
    Ok(CommandStatus::Yes)
}

/// Format and value, as in the JSON of records.
pub(super) fn describe(value_type: &str, data: &[u8]) -> Result<FieldList, CliError> {
    let (format, value) = format_and_value(value_type, data)?;
    let shown = json_text(&value);
    let mut description = FieldList::default();
    description.add("format", format);
    description.add("value", FieldValue::Json { json: value, shown });
    Ok(description)
}

/// The value in a line, for people.
pub(super) fn format_data(value_type: &str, data: &[u8]) -> Result<String, CliError> {
    format_and_value(value_type, data).map(|(_, value)| json_text(&value))
}

/// Text without its quotes, anything else as JSON.
fn json_text(value: &RawValue) -> String {
    serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned())
}

fn format_and_value(value_type: &str, data: &[u8]) -> Result<(String, Box<RawValue>), CliError> {
    #[derive(serde::Deserialize)]
    struct ValueJson<'a> {
        #[serde(borrow)]
        data: DataJson<'a>,
    }
    #[derive(serde::Deserialize)]
    struct DataJson<'a> {
        format: &'a str,
        #[serde(borrow)]
        value: &'a RawValue,
    }
    let unwritable = |error| CliError::new(format!("the value has no JSON form: {error}"));
    let value = HandleValue::with_data(1, value_type, Cow::Borrowed(data));
    let json = to_raw_value(&value).map_err(unwritable)?;
    let whole: ValueJson<'_> = serde_json::from_str(json.get()).map_err(unwritable)?;
    Ok((whole.data.format.to_owned(), whole.data.value.to_owned()))
}
