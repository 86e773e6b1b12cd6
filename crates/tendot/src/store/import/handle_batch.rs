//! Handle.Net batch text: blocks of lines, separated by empty lines.

use tendot_proto::record::{Admin, AdminPermissions, HandleRecord, Ttl, ValueList, ValuePermissions};
use tendot_proto::{HandleValue, ValueReference};

use super::source::ImportSource;
use super::{ImportItem, ItemSink};
use crate::CliError;
use crate::line_reader::LineReader;
use crate::terminal::quote_input;

/// Maximum size of a line: the largest value and its other fields.
const MAX_BATCH_LINE_BYTES: usize = 2 << 20;

pub(super) fn read(source: ImportSource, take: &mut ItemSink<'_>) -> Result<(), CliError> {
    let (name, reader) = source.into_parts();
    let mut lines = LineReader::new(reader, &name, MAX_BATCH_LINE_BYTES);
    let mut number = 0;
    let mut block = BatchBlock::None;
    while let Some(line) = lines.next_line()? {
        number += 1;
        if line.trim_ascii().is_empty() {
            finish_block(std::mem::replace(&mut block, BatchBlock::None), take)?;
            continue;
        }
        let text = if line.len() > MAX_BATCH_LINE_BYTES {
            Err(format!("line exceeds {MAX_BATCH_LINE_BYTES} bytes"))
        } else {
            str::from_utf8(line).map_err(|_| "line is not valid UTF-8".to_owned())
        };
        block = match (block, text) {
            (BatchBlock::None, Ok(line)) => match start_block(number, line) {
                Ok(block) => block,
                Err(reason) => refuse_block(number, reason, take)?,
            },
            (BatchBlock::Skipped, _) => BatchBlock::Skipped,
            (_, Err(reason)) => refuse_block(number, reason, take)?,
            (BatchBlock::Create(first_line, mut record), Ok(line)) => match parse_value(line) {
                Ok(value) => {
                    record.values.push(value);
                    BatchBlock::Create(first_line, record)
                }
                Err(reason) => refuse_block(number, reason, take)?,
            },
            (BatchBlock::Home, Ok(line)) => {
                take(number, ImportItem::HomePrefix(parse_prefix(line)))?;
                BatchBlock::Home
            }
        };
    }
    finish_block(block, take)
}

/// Operation block of a batch file.
enum BatchBlock {
    None,
    /// `CREATE`: the record, and the line it begins at.
    Create(u64, HandleRecord<'static>),
    Home,
    Skipped,
}

/// Refuses the whole block because of one of its lines.
fn refuse_block(number: u64, reason: String, take: &mut ItemSink<'_>) -> Result<BatchBlock, CliError> {
    take(number, ImportItem::Refused(reason))?;
    Ok(BatchBlock::Skipped)
}

fn finish_block(block: BatchBlock, take: &mut ItemSink<'_>) -> Result<(), CliError> {
    match block {
        BatchBlock::Create(first_line, record) => take(first_line, ImportItem::Record(record)),
        _ => Ok(()),
    }
}

fn start_block(number: u64, line: &str) -> Result<BatchBlock, String> {
    let (operation, rest) = split_word(line);
    let is = |name: &str| operation.eq_ignore_ascii_case(name);
    if is("CREATE") {
        let handle = rest.trim().as_bytes().to_vec();
        Ok(BatchBlock::Create(number, HandleRecord { handle: handle.into(), values: Vec::new() }))
    } else if is("HOME") {
        // The rest of the line names a server; the prefix is homed on this one.
        Ok(BatchBlock::Home)
    } else if is("AUTHENTICATE") || is("SESSIONSETUP") {
        Ok(BatchBlock::Skipped)
    } else if ["ADD", "MODIFY", "REMOVE", "DELETE", "UNHOME"].iter().any(|name| is(name)) {
        Err(format!(
            "unsupported operation {}; only CREATE and HOME are imported",
            operation.to_ascii_uppercase()
        ))
    } else {
        Err(format!("invalid batch operation `{}`", quote_input(operation.as_bytes())))
    }
}

/// Parses `index type ttl permissions data-type data`.
fn parse_value(line: &str) -> Result<HandleValue<'static>, String> {
    let (index, rest) = split_word(line);
    let (value_type, rest) = split_word(rest);
    let (ttl, rest) = split_word(rest);
    let (permissions, rest) = split_word(rest);
    let (data_type, data) = split_word(rest);
    let number = |field: &str, text: &str| {
        text.parse::<u32>()
            .map_err(|_| format!("invalid {field} `{}`: not a number", quote_input(text.as_bytes())))
    };
    let index = number("index", index)?;
    let ttl = Ttl::Relative(number("TTL", ttl)?);
    let permissions =
        u8::try_from(parse_bits(permissions, 4)?).map(ValuePermissions).unwrap_or(ValuePermissions::DEFAULT);
    let data = match data_type.to_ascii_uppercase().as_str() {
        "UTF8" => data.as_bytes().to_vec(),
        "ADMIN" => parse_admin(data)?,
        "LIST" => parse_value_list(data)?,
        "FILE" => return Err("data of type FILE is not supported".into()),
        "" => return Err("missing data; expected `index type ttl permissions UTF8 data`".into()),
        _ => {
            return Err(format!(
                "unknown data type `{}`; expected UTF8, ADMIN or LIST",
                quote_input(data_type.as_bytes())
            ));
        }
    };
    Ok(HandleValue { ttl, permissions, ..HandleValue::with_data(index, value_type.to_owned(), data) })
}

/// Parses `index:permissions:handle`; the first permission bit is that to create handles.
fn parse_admin(text: &str) -> Result<Vec<u8>, String> {
    let mut parts = text.trim().splitn(3, ':');
    let (Some(index), Some(permissions), Some(handle)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("invalid ADMIN data; expected index:permissions:handle".into());
    };
    let index: u32 = index.parse().map_err(|_| "invalid ADMIN index: not a number".to_owned())?;
    let reversed: String = permissions.chars().rev().collect();
    let permissions = AdminPermissions(parse_bits(&reversed, 12)?);
    let reference = ValueReference::new(index, handle.as_bytes());
    Ok(Admin { permissions, reference, legacy_byte_length: false }.to_bytes())
}

/// Parses `index:handle;index:handle;`.
fn parse_value_list(text: &str) -> Result<Vec<u8>, String> {
    let mut members = Vec::new();
    for member in text.trim().split(';').filter(|member| !member.is_empty()) {
        let parsed = member.split_once(':').and_then(|(index, handle)| Some((index.parse().ok()?, handle)));
        let (index, handle) = parsed.ok_or("invalid LIST data; expected index:handle;index:handle;")?;
        members.push(ValueReference::new(index, handle.as_bytes()));
    }
    Ok(ValueList { members }.to_bytes())
}

/// Parses exactly `count` binary digits, the most significant first.
fn parse_bits(digits: &str, count: usize) -> Result<u16, String> {
    if digits.len() != count || !digits.bytes().all(|digit| matches!(digit, b'0' | b'1')) {
        return Err(format!("permissions must be {count} binary digits"));
    }
    Ok(digits.bytes().fold(0, |bits, digit| bits << 1 | u16::from(digit & 1)))
}

/// Prefix in a line of a `HOME` block: `0.NA/10.5555` or `10.5555`.
fn parse_prefix(line: &str) -> String {
    let line = line.trim();
    match line.split_at_checked(5) {
        Some((start, prefix)) if start.eq_ignore_ascii_case("0.NA/") => prefix.into(),
        _ => line.into(),
    }
}

/// Splits the first word from the rest.
fn split_word(line: &str) -> (&str, &str) {
    line.split_once([' ', '\t']).unwrap_or((line, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_values() {
        let url = parse_value("1 URL 86400 1110 UTF8 https://example.org/a b").unwrap();
        assert_eq!(url, HandleValue::new(1, "URL", "https://example.org/a b"));
        let admin = parse_value("100 HS_ADMIN 3600 1100 ADMIN 300:110011111111:0.NA/10.5555").unwrap();
        assert_eq!((admin.ttl, admin.permissions), (Ttl::Relative(3600), ValuePermissions(0b1100)));
        let admin = Admin::from_bytes(&admin.data).unwrap();
        assert_eq!(admin.permissions, AdminPermissions(0x0ff3));
        assert_eq!(admin.reference, ValueReference::parse("300:0.NA/10.5555"));
        let list = parse_value("200 HS_VLIST 86400 1110 LIST 300:10.1/a;301:10.1/b:c;").unwrap();
        let members = vec![ValueReference::parse("300:10.1/a"), ValueReference::parse("301:10.1/b:c")];
        assert_eq!(ValueList::from_bytes(&list.data), Ok(ValueList { members }));
    }

    #[test]
    fn rejects_invalid_values() {
        check("x URL 86400 1110 UTF8 a", "invalid index `x`: not a number");
        check("1 URL never 1110 UTF8 a", "invalid TTL `never`: not a number");
        check("1 URL 86400 111 UTF8 a", "permissions must be 4 binary digits");
        check("1 URL 86400 1110 FILE a", "data of type FILE is not supported");
        check("1 URL 86400 1110 XML a", "unknown data type `XML`; expected UTF8, ADMIN or LIST");
        check("1 HS_ADMIN 86400 1110 ADMIN 1:x", "invalid ADMIN data; expected index:permissions:handle");
        check("1 HS_ADMIN 86400 1110 ADMIN 1:11:x", "permissions must be 12 binary digits");
        check("1 HS_VLIST 86400 1110 LIST x", "invalid LIST data; expected index:handle;index:handle;");
    }

    #[track_caller]
    fn check(line: &str, reason: &str) {
        assert_eq!(parse_value(line).unwrap_err(), reason, "{line}");
    }
}
