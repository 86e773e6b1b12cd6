//! One handle value as a line of text.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::value::{RawValue, to_raw_value};
use tendot_proto::{HandleValue, Ttl, ValuePermissions};

use crate::CliError;

/// Handle value as one line; permissions, TTL, timestamp and references follow in parentheses unless default.
pub(crate) fn format_value(value: &HandleValue<'_>) -> Result<String, CliError> {
    let data = format_data(&value.type_name(), &value.data)?;
    let mut line = format!("{:>5} {} {data}", value.index, value.type_name());
    let mut attributes = Vec::new();
    if value.permissions != ValuePermissions::DEFAULT {
        attributes.push(format!("permissions {}", value.permissions));
    }
    match value.ttl {
        Ttl::DEFAULT => {}
        Ttl::Relative(seconds) => attributes.push(format!("TTL {seconds} s")),
        Ttl::Absolute(date) => attributes.push(format!("TTL until {}", format_timestamp(date))),
        Ttl::Unknown { kind, seconds } => attributes.push(format!("TTL type {kind}: {seconds}")),
    }
    if value.timestamp != 0 {
        attributes.push(format_timestamp(value.timestamp));
    }
    attributes.extend(value.references.iter().map(|reference| format!("see {reference}")));
    if !attributes.is_empty() {
        line += &format!("  ({})", attributes.join(", "));
    }
    Ok(line)
}

/// Timestamp of the protocol (seconds since 1970) as RFC 3339.
pub(crate) fn format_timestamp(seconds: u32) -> String {
    Timestamp::from_second(seconds.into()).map_or_else(|_| seconds.to_string(), |date| date.to_string())
}

/// Data of a value as one line.
pub(crate) fn format_data(value_type: &str, data: &[u8]) -> Result<String, CliError> {
    format_and_value(value_type, data).map(|(_, value)| json_text(&value))
}

/// JSON string without quotes; other JSON as it is.
pub(crate) fn json_text(value: &RawValue) -> String {
    serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned())
}

/// Format and JSON value of the data, as in a JSON record.
pub(crate) fn format_and_value(value_type: &str, data: &[u8]) -> Result<(String, Box<RawValue>), CliError> {
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
    let failed = |error| CliError::new(format!("cannot serialize the value as JSON: {error}"));
    let value = HandleValue::with_data(1, value_type, Cow::Borrowed(data));
    let json = to_raw_value(&value).map_err(failed)?;
    let parsed: ValueJson<'_> = serde_json::from_str(json.get()).map_err(failed)?;
    Ok((parsed.data.format.to_owned(), parsed.data.value.to_owned()))
}
