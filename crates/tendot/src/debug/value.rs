//! `tendot debug value`: decodes the data of a value.

use clap::Args;
use data_encoding::HEXLOWER;
use tendot_proto::record::ValueData;

use super::field_list::{FieldList, FieldValue};
use super::{parse_hex, read_stdin};
use crate::resolve::value_text::{format_and_value, json_text};
use crate::terminal::StdoutWriter;
use crate::{CliError, CommandStatus};

/// Decode the data of a handle value given in hex
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot debug value HS_ADMIN 07f300000007302e4e412f3130000000c8
  tendot debug value --json HS_VLIST 0000000100000007302e4e412f313000000000

Exit codes: 0 success, 2 error, or the data is malformed")]
pub(crate) struct DebugValueArguments {
    /// Value type, such as HS_ADMIN, HS_SITE or HS_PUBKEY; unknown types are printed as raw data
    #[arg(value_name = "TYPE")]
    pub(crate) value_type: String,

    /// Data bytes in hex [default: standard input]
    #[arg(value_name = "HEX")]
    pub(crate) hex: Option<String>,

    /// Encode the decoded input again and print it in hex
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub(crate) reencode: bool,

    /// Print a JSON object: type, length, format, value (as in records)
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

pub(super) fn run(arguments: &DebugValueArguments) -> Result<CommandStatus, CliError> {
    let bytes = match &arguments.hex {
        Some(hex) => parse_hex(hex)?,
        None => parse_hex(&read_stdin()?)?,
    };
    let value_type = &*arguments.value_type;
    let data = ValueData::decode(value_type.as_bytes(), &bytes)
        .map_err(|error| CliError::new(format!("malformed {value_type}: {error}")))?;
    let mut output = StdoutWriter::new();
    if arguments.reencode {
        output.write_line(HEXLOWER.encode(&data.encode()))?;
    } else {
        let mut description = FieldList::default();
        description.add("type", value_type);
        description.add("length", bytes.len() as u64);
        description.append(describe(value_type, &bytes)?);
        if arguments.json { output.write_json(&description)? } else { description.write(&mut output)? }
    }
    output.flush()?;
    Ok(CommandStatus::Success)
}

/// Fields `format` and `value` of the data, as in a JSON record.
pub(super) fn describe(value_type: &str, data: &[u8]) -> Result<FieldList, CliError> {
    let (format, value) = format_and_value(value_type, data)?;
    let text = json_text(&value);
    let mut description = FieldList::default();
    description.add("format", format);
    description.add("value", FieldValue::Json { json: value, text });
    Ok(description)
}
