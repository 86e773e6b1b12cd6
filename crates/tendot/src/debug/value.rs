//! `tendot debug value`: decodes the data of a value.

use clap::Args;
use data_encoding::HEXLOWER;
use tendot_proto::record::ValueData;

use super::field_list::{FieldList, FieldValue};
use super::{parse_hex, read_stdin};
use crate::resolve::value_text::{format_and_value, json_text};
use crate::terminal::StdoutWriter;
use crate::{CliError, CommandStatus};

/// Decodes the data of a value, given in hexadecimal
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot debug value HS_ADMIN 07f300000007302e4e412f3130000000c8
  tendot debug value --json HS_VLIST 0000000100000007302e4e412f313000000000

Exit codes: 0 decoded, 2 malformed (told with the field and its place).")]
pub(crate) struct DebugValueArguments {
    /// The type, such as HS_ADMIN, HS_SITE or HS_PUBKEY; data of types that are not known is shown as it is
    #[arg(value_name = "TYPE")]
    pub(crate) value_type: String,

    /// The bytes of the data [default: standard input]
    #[arg(value_name = "HEX")]
    pub(crate) hex: Option<String>,

    /// Encode what was decoded, and print that in hexadecimal
    #[arg(long, conflicts_with = "json")]
    pub(crate) reencode: bool,

    /// Print a JSON object: type, format and value as in records
    #[arg(long)]
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
