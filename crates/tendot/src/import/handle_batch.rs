//! Handle.Net's batch text: blocks of lines, an empty line between two.

use tendot_proto::record::{Admin, AdminPermissions, Permissions, Record, Ttl, ValueList};
use tendot_proto::{Reference, Value};

use super::{Item, Source, Take};
use crate::Failure;
use crate::failure::shown;
use crate::lines::Lines;

/// Bytes of a line: a value of the largest size, and what stands before it.
const LONGEST: usize = 2 << 20;

pub(super) fn read(source: Source, take: &mut Take<'_>) -> Result<(), Failure> {
    let (name, reader) = source.into_parts();
    let mut lines = Lines::of(reader, &name, LONGEST);
    let mut number = 0;
    let mut block = Block::None;
    while let Some(line) = lines.next()? {
        number += 1;
        if line.trim_ascii().is_empty() {
            end(std::mem::replace(&mut block, Block::None), take)?;
            continue;
        }
        let read = if line.len() > LONGEST {
            Err(format!("the line has more than {LONGEST} bytes"))
        } else {
            str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())
        };
        block = match (block, read) {
            (Block::None, Ok(line)) => match begin(number, line) {
                Ok(block) => block,
                Err(reason) => refuse(number, reason, take)?,
            },
            (Block::PassedOver, _) => Block::PassedOver,
            (_, Err(reason)) => refuse(number, reason, take)?,
            (Block::Record(began, mut record), Ok(line)) => match value(line) {
                Ok(value) => {
                    record.values.push(value);
                    Block::Record(began, record)
                }
                Err(reason) => refuse(number, reason, take)?,
            },
            (Block::Home, Ok(line)) => {
                take(number, Item::Home(prefix(line)))?;
                Block::Home
            }
        };
    }
    end(block, take)
}

/// The block that a line stands in.
enum Block {
    None,
    /// A record, and the line where it began.
    Record(u64, Record<'static>),
    Home,
    PassedOver,
}

/// Refuses all of a block for a line in it.
fn refuse(number: u64, reason: String, take: &mut Take<'_>) -> Result<Block, Failure> {
    take(number, Item::Refused(reason))?;
    Ok(Block::PassedOver)
}

fn end(block: Block, take: &mut Take<'_>) -> Result<(), Failure> {
    match block {
        Block::Record(began, record) => take(began, Item::Record(record)),
        _ => Ok(()),
    }
}

fn begin(number: u64, line: &str) -> Result<Block, String> {
    let (operation, rest) = word(line);
    let is = |name: &str| operation.eq_ignore_ascii_case(name);
    if is("CREATE") {
        let handle = rest.trim().as_bytes().to_vec();
        Ok(Block::Record(number, Record { handle: handle.into(), values: Vec::new() }))
    } else if is("HOME") {
        // What follows in this line is a server, which is this one.
        Ok(Block::Home)
    } else if is("AUTHENTICATE") || is("SESSIONSETUP") {
        Ok(Block::PassedOver)
    } else if ["ADD", "MODIFY", "REMOVE", "DELETE", "UNHOME"].iter().any(|name| is(name)) {
        Err(format!("an import takes CREATE and HOME, not {}", operation.to_ascii_uppercase()))
    } else {
        Err(format!("`{}` is no operation of a batch", shown(operation.as_bytes())))
    }
}

/// `index type ttl permissions form data`
fn value(line: &str) -> Result<Value<'static>, String> {
    let (index, rest) = word(line);
    let (value_type, rest) = word(rest);
    let (ttl, rest) = word(rest);
    let (permissions, rest) = word(rest);
    let (form, data) = word(rest);
    let number = |what: &str, text: &str| {
        text.parse::<u32>().map_err(|_| format!("the {what} `{}` is no number", shown(text.as_bytes())))
    };
    let index = number("index", index)?;
    let ttl = Ttl::Relative(number("TTL", ttl)?);
    let permissions = u8::try_from(binary(permissions, 4)?).map(Permissions).unwrap_or(Permissions::DEFAULT);
    let data = match form.to_ascii_uppercase().as_str() {
        "UTF8" => data.as_bytes().to_vec(),
        "ADMIN" => admin(data)?,
        "LIST" => list(data)?,
        "FILE" => return Err("data in another FILE is not taken".into()),
        "" => return Err("the value has no data: index, type, TTL, permissions, UTF8 and data are it".into()),
        _ => {
            return Err(format!("data is UTF8, ADMIN or LIST, not `{}`", shown(form.as_bytes())));
        }
    };
    Ok(Value { ttl, permissions, ..Value::with_data(index, value_type.to_owned(), data) })
}

/// `index:permissions:handle`, the permission to create names first.
fn admin(text: &str) -> Result<Vec<u8>, String> {
    let mut parts = text.trim().splitn(3, ':');
    let (Some(index), Some(permissions), Some(handle)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("an ADMIN is written as index:permissions:handle".into());
    };
    let index: u32 = index.parse().map_err(|_| "the index of an ADMIN is no number".to_owned())?;
    let reversed: String = permissions.chars().rev().collect();
    let permissions = AdminPermissions(binary(&reversed, 12)?);
    let reference = Reference::new(index, handle.as_bytes());
    Ok(Admin { permissions, reference, legacy_byte_length: false }.to_bytes())
}

/// `index:handle;index:handle;`
fn list(text: &str) -> Result<Vec<u8>, String> {
    let mut members = Vec::new();
    for member in text.trim().split(';').filter(|member| !member.is_empty()) {
        let parsed = member.split_once(':').and_then(|(index, handle)| Some((index.parse().ok()?, handle)));
        let (index, handle) = parsed.ok_or("a LIST is written as index:handle;index:handle;")?;
        members.push(Reference::new(index, handle.as_bytes()));
    }
    Ok(ValueList { members }.to_bytes())
}

/// So many binary digits, the highest first.
fn binary(digits: &str, count: usize) -> Result<u16, String> {
    if digits.len() != count || !digits.bytes().all(|digit| matches!(digit, b'0' | b'1')) {
        return Err(format!("permissions are {count} digits, 0 or 1"));
    }
    Ok(digits.bytes().fold(0, |bits, digit| bits << 1 | u16::from(digit & 1)))
}

/// The prefix that a line of HOME is about: `0.NA/10.5555`, or just `10.5555`.
fn prefix(line: &str) -> String {
    let line = line.trim();
    match line.split_at_checked(5) {
        Some((start, prefix)) if start.eq_ignore_ascii_case("0.NA/") => prefix.into(),
        _ => line.into(),
    }
}

/// The first word, and what follows the space after it.
fn word(line: &str) -> (&str, &str) {
    line.split_once([' ', '\t']).unwrap_or((line, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let url = value("1 URL 86400 1110 UTF8 https://example.org/a b").unwrap();
        assert_eq!(url, Value::new(1, "URL", "https://example.org/a b"));
        let admin = value("100 HS_ADMIN 3600 1100 ADMIN 300:110011111111:0.NA/10.5555").unwrap();
        assert_eq!((admin.ttl, admin.permissions), (Ttl::Relative(3600), Permissions(0b1100)));
        let admin = Admin::from_bytes(&admin.data).unwrap();
        assert_eq!(admin.permissions, AdminPermissions(0x0ff3));
        assert_eq!(admin.reference, Reference::parse("300:0.NA/10.5555"));
        let list = value("200 HS_VLIST 86400 1110 LIST 300:10.1/a;301:10.1/b:c;").unwrap();
        let members = vec![Reference::parse("300:10.1/a"), Reference::parse("301:10.1/b:c")];
        assert_eq!(ValueList::from_bytes(&list.data), Ok(ValueList { members }));
    }

    #[test]
    fn no_values() {
        check("x URL 86400 1110 UTF8 a", "the index `x` is no number");
        check("1 URL never 1110 UTF8 a", "the TTL `never` is no number");
        check("1 URL 86400 111 UTF8 a", "permissions are 4 digits, 0 or 1");
        check("1 URL 86400 1110 FILE a", "data in another FILE is not taken");
        check("1 URL 86400 1110 XML a", "data is UTF8, ADMIN or LIST, not `XML`");
        check("1 HS_ADMIN 86400 1110 ADMIN 1:x", "an ADMIN is written as index:permissions:handle");
        check("1 HS_ADMIN 86400 1110 ADMIN 1:11:x", "permissions are 12 digits, 0 or 1");
        check("1 HS_VLIST 86400 1110 LIST x", "a LIST is written as index:handle;index:handle;");
    }

    #[track_caller]
    fn check(line: &str, reason: &str) {
        assert_eq!(value(line).unwrap_err(), reason, "{line}");
    }
}
