//! Batch language of Handle.Net (`hdl-genericbatch`): entries such as `CREATE`, `MODIFY` and `DELETE` in a text file.
//!
//! Operations with values end at an empty line; `DELETE` and `REMOVE` are one line, `AUTHENTICATE` two.

use std::io::Read;
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;
use tendot_proto::record::{Admin, AdminPermissions, HandleRecord, Site, Ttl, ValueList, ValuePermissions};
use tendot_proto::{Handle, HandleValue, ValueReference, limits};

use crate::CliError;
use crate::key::read_small_file;
use crate::line_reader::LineReader;
use crate::terminal::quote_input;

/// Maximum size of a line: the largest value and its other fields.
const MAX_BATCH_LINE_BYTES: usize = 2 << 20;

/// Maximum bytes of the lines of one entry.
const MAX_ENTRY_BYTES: usize = 64 << 20;

/// One entry of a batch file.
#[derive(Debug)]
pub(crate) struct BatchEntry {
    /// Line at which it begins.
    pub(crate) line: u64,
    /// SHA-256 of its lines, in hexadecimal digits.
    pub(crate) digest: String,
    /// Operation, or the reason why the entry is invalid.
    pub(crate) operation: Result<BatchOperation, HandleBatchError>,
}

/// Reason why an entry is invalid, and the line that is.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct HandleBatchError {
    pub(crate) line: u64,
    pub(crate) reason: String,
    /// Whether it is an `AUTHENTICATE` entry: the identity of the following entries is unknown.
    pub(crate) is_authentication: bool,
}

impl HandleBatchError {
    const fn new(line: u64, reason: String) -> Self {
        Self { line, reason, is_authentication: false }
    }
}

/// Operation of a batch file.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum BatchOperation {
    /// `AUTHENTICATE`: identity of the following entries.
    Authenticate(BatchIdentity),
    /// `SESSIONSETUP`: options of a session.
    SessionSetup,
    /// `CREATE`: new record.
    Create(HandleRecord<'static>),
    /// `ADD`: values to add.
    Add(HandleRecord<'static>),
    /// `MODIFY`: values that replace those at the same indexes.
    Modify(HandleRecord<'static>),
    /// `REMOVE`: indexes of values to remove.
    Remove { handle: String, indexes: Vec<u32> },
    /// `DELETE`: record to delete.
    Delete { handle: String },
    /// One prefix of a `HOME` block, as written.
    Home { prefix: String },
    /// One prefix of an `UNHOME` block, as written.
    Unhome { prefix: String },
}

/// Identity in an `AUTHENTICATE` entry.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct BatchIdentity {
    pub(crate) reference: ValueReference<'static>,
    pub(crate) key: BatchKey,
}

/// Key of an identity in a batch file.
#[derive(Eq, PartialEq)]
pub(crate) enum BatchKey {
    /// `SECKEY`: the secret itself.
    Secret(String),
    /// `PUBKEY`: private key file and its passphrase, if it is encrypted.
    PrivateKeyFile { path: String, passphrase: Option<String> },
}

impl std::fmt::Debug for BatchKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret",
            Self::PrivateKeyFile { .. } => "PrivateKeyFile",
        })
    }
}

impl BatchOperation {
    /// Keyword of the operation.
    pub(crate) const fn keyword(&self) -> &'static str {
        match self {
            Self::Authenticate(_) => "AUTHENTICATE",
            Self::SessionSetup => "SESSIONSETUP",
            Self::Create(_) => "CREATE",
            Self::Add(_) => "ADD",
            Self::Modify(_) => "MODIFY",
            Self::Remove { .. } => "REMOVE",
            Self::Delete { .. } => "DELETE",
            Self::Home { .. } => "HOME",
            Self::Unhome { .. } => "UNHOME",
        }
    }

    /// Handle or prefix that it changes.
    pub(crate) fn handle(&self) -> &str {
        match self {
            Self::Authenticate(_) | Self::SessionSetup => "",
            // The lines of a batch file are valid UTF-8.
            Self::Create(record) | Self::Add(record) | Self::Modify(record) => {
                Handle::new(&record.handle).to_str().unwrap_or_default()
            }
            Self::Remove { handle, .. } | Self::Delete { handle } => handle,
            Self::Home { prefix } | Self::Unhome { prefix } => prefix,
        }
    }
}

/// Reader of the entries of a batch file; memory is bounded by one entry.
pub(crate) struct BatchReader<R> {
    lines: LineReader<R>,
    number: u64,
    /// Block of prefixes that is being read.
    prefixes: Option<PrefixBlock>,
    /// Whether values may be read from files (`FILE`).
    allows_files: bool,
}

#[derive(Clone, Copy)]
enum PrefixBlock {
    Home,
    Unhome,
}

/// Handle and values of an entry, and the line at which it begins.
struct ValueEntry {
    line: u64,
    record: HandleRecord<'static>,
}

/// Record of an entry that changes values. Without values, it would be the whole record in Handle.Net's JSON API.
fn require_values(entry: ValueEntry) -> Result<HandleRecord<'static>, HandleBatchError> {
    match entry.record.values.is_empty() {
        true => Err(HandleBatchError::new(entry.line, "no values".into())),
        false => Ok(entry.record),
    }
}

/// Line of an entry, or the reason why it is invalid.
type EntryLine = Result<String, String>;

impl<R: Read> BatchReader<R> {
    pub(crate) fn new(reader: R, source: &str) -> Self {
        let lines = LineReader::new(reader, source, MAX_BATCH_LINE_BYTES);
        Self { lines, number: 0, prefixes: None, allows_files: false }
    }

    /// Reads data of type `FILE` from files.
    pub(crate) const fn allow_files(mut self) -> Self {
        self.allows_files = true;
        self
    }

    /// Next entry; `None` at the end of the file.
    pub(crate) fn next_entry(&mut self) -> Result<Option<BatchEntry>, CliError> {
        loop {
            let Some(line) = self.next_line()? else { return Ok(None) };
            if is_empty(&line) {
                self.prefixes = None;
                continue;
            }
            let first_line = self.number;
            let mut digest = Context::new(&SHA256);
            // The line of a prefix does not have the keyword of its block.
            digest.update(match self.prefixes {
                Some(PrefixBlock::Home) => &b"HOME "[..],
                Some(PrefixBlock::Unhome) => b"UNHOME ",
                None => b"",
            });
            update(&mut digest, &line);
            let operation = match (self.prefixes, line) {
                (Some(block), Ok(line)) => {
                    let prefix = line.trim().to_owned();
                    Ok(match block {
                        PrefixBlock::Home => BatchOperation::Home { prefix },
                        PrefixBlock::Unhome => BatchOperation::Unhome { prefix },
                    })
                }
                (None, Ok(line)) => match self.read_operation(&line, &mut digest)? {
                    Some(operation) => operation,
                    None => continue,
                },
                (block, Err(reason)) => {
                    if block.is_none() {
                        self.skip_block()?;
                    }
                    Err(HandleBatchError::new(first_line, reason))
                }
            };
            let digest = HEXLOWER.encode(digest.finish().as_ref());
            return Ok(Some(BatchEntry { line: first_line, digest, operation }));
        }
    }

    /// Reads the rest of an operation; `None` for the begin of a block of prefixes.
    fn read_operation(
        &mut self,
        line: &str,
        digest: &mut Context,
    ) -> Result<Option<Result<BatchOperation, HandleBatchError>>, CliError> {
        let (word, rest) = split_word(line);
        let (first_line, rest) = (self.number, rest.trim());
        let invalid = |reason| Ok(Some(Err(HandleBatchError::new(first_line, reason))));
        let invalid_identity = |reason| {
            Ok(Some(Err(HandleBatchError {
                is_authentication: true,
                ..HandleBatchError::new(first_line, reason)
            })))
        };
        let operation = match word.to_ascii_uppercase().as_str() {
            "CREATE" => self.read_values(rest, digest)?.map(|entry| BatchOperation::Create(entry.record)),
            "ADD" => self.read_values(rest, digest)?.and_then(require_values).map(BatchOperation::Add),
            "MODIFY" => self.read_values(rest, digest)?.and_then(require_values).map(BatchOperation::Modify),
            "DELETE" if rest.is_empty() => return invalid("missing handle".into()),
            "DELETE" => Ok(BatchOperation::Delete { handle: rest.to_owned() }),
            "REMOVE" => match parse_remove(rest) {
                Ok(operation) => Ok(operation),
                Err(reason) => return invalid(reason),
            },
            // The rest of the line names a server.
            "HOME" => {
                self.prefixes = Some(PrefixBlock::Home);
                return Ok(None);
            }
            "UNHOME" => {
                self.prefixes = Some(PrefixBlock::Unhome);
                return Ok(None);
            }
            "AUTHENTICATE" => {
                let Some(key) = self.next_line()? else { return invalid_identity("missing key".into()) };
                update(digest, &key);
                match key.and_then(|key| parse_identity(rest, &key)) {
                    Ok(identity) => Ok(BatchOperation::Authenticate(identity)),
                    Err(reason) => return invalid_identity(reason),
                }
            }
            "SESSIONSETUP" => {
                self.skip_block()?;
                Ok(BatchOperation::SessionSetup)
            }
            _ => {
                self.skip_block()?;
                return invalid(format!("invalid batch operation `{}`", quote_input(word.as_bytes())));
            }
        };
        Ok(Some(operation))
    }

    /// Reads value lines up to an empty line.
    fn read_values(
        &mut self,
        handle: &str,
        digest: &mut Context,
    ) -> Result<Result<ValueEntry, HandleBatchError>, CliError> {
        let first_line = self.number;
        let (mut values, mut bytes, mut error) = (Vec::new(), 0, None);
        while let Some(line) = self.next_line()? {
            if is_empty(&line) {
                break;
            }
            update(digest, &line);
            if error.is_some() {
                continue;
            }
            bytes += line.as_ref().map_or(0, String::len);
            let value = match line {
                Ok(_) if bytes > MAX_ENTRY_BYTES => Err(format!("entry exceeds {MAX_ENTRY_BYTES} bytes")),
                Ok(_) if values.len() >= limits::MAX_VALUES => {
                    Err(format!("more than {} values", limits::MAX_VALUES))
                }
                Ok(line) => parse_value(&line, self.allows_files),
                Err(reason) => Err(reason),
            };
            match value {
                Ok(value) => values.push(value),
                Err(reason) => error = Some(HandleBatchError::new(self.number, reason)),
            }
        }
        if handle.is_empty() {
            error = Some(HandleBatchError::new(first_line, "missing handle".into()));
        }
        Ok(match error {
            Some(error) => Err(error),
            None => {
                let record = HandleRecord { handle: handle.as_bytes().to_vec().into(), values };
                Ok(ValueEntry { line: first_line, record })
            }
        })
    }

    fn skip_block(&mut self) -> Result<(), CliError> {
        while let Some(line) = self.next_line()? {
            if is_empty(&line) {
                break;
            }
        }
        Ok(())
    }

    fn next_line(&mut self) -> Result<Option<EntryLine>, CliError> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        self.number += 1;
        Ok(Some(if line.len() > MAX_BATCH_LINE_BYTES {
            Err(format!("line exceeds {MAX_BATCH_LINE_BYTES} bytes"))
        } else {
            str::from_utf8(line).map(ToOwned::to_owned).map_err(|_| "line is not valid UTF-8".to_owned())
        }))
    }
}

fn is_empty(line: &EntryLine) -> bool {
    line.as_ref().is_ok_and(|line| line.trim().is_empty())
}

fn update(digest: &mut Context, line: &EntryLine) {
    digest.update(line.as_ref().map_or(b"", |line| line.as_bytes()));
    digest.update(b"\n");
}

/// Parses `SECKEY:index:handle` and the secret, or `PUBKEY:index:handle` and `key file|passphrase`.
fn parse_identity(identity: &str, key: &str) -> Result<BatchIdentity, String> {
    const EXPECTED: &str = "expected SECKEY:index:handle or PUBKEY:index:handle";
    let mut parts = identity.splitn(3, ':');
    let (Some(kind), Some(index), Some(handle)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(EXPECTED.into());
    };
    let index: u32 = index.trim().parse().map_err(|_| "invalid index of the identity: not a number")?;
    let key = match kind.trim().to_ascii_uppercase().as_str() {
        "SECKEY" if key.is_empty() => return Err("missing secret key".into()),
        "SECKEY" => BatchKey::Secret(key.to_owned()),
        "PUBKEY" => {
            let (path, passphrase) = match key.split_once('|') {
                Some((path, passphrase)) => (path, Some(passphrase.to_owned())),
                None => (key, None),
            };
            if path.trim().is_empty() {
                return Err("missing private key file".into());
            }
            let passphrase = passphrase.filter(|passphrase| !passphrase.is_empty());
            BatchKey::PrivateKeyFile { path: path.trim().to_owned(), passphrase }
        }
        _ => return Err(EXPECTED.into()),
    };
    Ok(BatchIdentity { reference: ValueReference::new(index, handle.trim().as_bytes().to_vec()), key })
}

/// Parses `index,index:handle`.
fn parse_remove(text: &str) -> Result<BatchOperation, String> {
    let (indexes, handle) = text.split_once(':').ok_or("expected index,index:handle")?;
    let handle = handle.trim();
    if handle.is_empty() {
        return Err("missing handle".into());
    }
    let parse = |index: &str| {
        let index = index.trim();
        index.parse().map_err(|_| format!("invalid index `{}`: not a number", quote_input(index.as_bytes())))
    };
    let indexes = indexes.split(',').map(parse).collect::<Result<Vec<u32>, String>>()?;
    Ok(BatchOperation::Remove { handle: handle.to_owned(), indexes })
}

/// Parses `index type ttl permissions data-type data`.
fn parse_value(line: &str, allows_files: bool) -> Result<HandleValue<'static>, String> {
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
    let permissions = parse_permissions(permissions)?;
    let data = match data_type.to_ascii_uppercase().as_str() {
        "UTF8" => data.as_bytes().to_vec(),
        "ADMIN" => parse_admin(data)?,
        "LIST" => parse_value_list(data)?,
        "FILE" if allows_files => read_data_file(value_type, Path::new(data.trim()))?,
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

/// Whether an entry can name a record: its name stands on one line.
pub(crate) fn can_name(handle: &str) -> bool {
    handle.trim() == handle && !handle.is_empty() && !handle.contains(char::is_control)
}

/// Line of a value; `None` if it would be read as another value, such as one with bytes or several lines. There are no
/// timestamps in a batch file.
pub(crate) fn format_value(value: &HandleValue<'_>) -> Option<String> {
    let Ttl::Relative(ttl) = value.ttl else { return None };
    let data = match &*value.value_type {
        b"HS_ADMIN" => format!("ADMIN {}", format_admin(&Admin::from_bytes(&value.data).ok()?)?),
        b"HS_VLIST" => format!("LIST {}", format_value_list(&ValueList::from_bytes(&value.data).ok()?)?),
        _ => format!("UTF8 {}", str::from_utf8(&value.data).ok()?),
    };
    let (index, value_type) = (value.index, str::from_utf8(&value.value_type).ok()?);
    let line = format!("{index} {value_type} {ttl} {:04b} {data}", value.permissions.0);
    let is_one_line = can_name(&line) || value.data.is_empty();
    let read = parse_value(&line, false).ok().filter(|_| is_one_line)?;
    let is_equal = read.index == value.index
        && read.value_type == value.value_type
        && read.data == value.data
        && read.permissions == value.permissions
        && value.references.is_empty();
    is_equal.then_some(line)
}

/// `index:permissions:handle`; the first permission bit is that to create handles.
fn format_admin(admin: &Admin<'_>) -> Option<String> {
    let permissions: String = format!("{:012b}", admin.permissions.0).chars().rev().collect();
    Some(format!("{}:{permissions}:{}", admin.reference.index, str::from_utf8(&admin.reference.handle).ok()?))
}

/// `index:handle;index:handle;`.
fn format_value_list(list: &ValueList<'_>) -> Option<String> {
    let member = |member: &ValueReference<'_>| {
        Some(format!("{}:{};", member.index, str::from_utf8(&member.handle).ok()?))
    };
    list.members.iter().map(member).collect()
}

/// Data of a value in a file; a site record may be JSON.
pub(super) fn read_data_file(value_type: &str, path: &Path) -> Result<Vec<u8>, String> {
    let data = read_small_file(path).map_err(|error| error.to_string())?;
    if value_type.eq_ignore_ascii_case("HS_SITE") && data.trim_ascii_start().starts_with(b"{") {
        return Site::from_json(&data).map(|site| site.to_bytes()).map_err(|error| error.to_string());
    }
    Ok(data)
}

/// Parses four binary digits: admin read, admin write, public read, public write.
pub(super) fn parse_permissions(digits: &str) -> Result<ValuePermissions, String> {
    let bits = u8::try_from(parse_bits(digits, 4)?);
    Ok(bits.map_or(ValuePermissions::DEFAULT, ValuePermissions))
}

/// Parses `index:permissions:handle`; the first permission bit is that to create handles.
pub(super) fn parse_admin(text: &str) -> Result<Vec<u8>, String> {
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
pub(super) fn parse_value_list(text: &str) -> Result<Vec<u8>, String> {
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

/// Splits the first word from the rest.
fn split_word(line: &str) -> (&str, &str) {
    line.split_once([' ', '\t']).unwrap_or((line, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_values() {
        let parse = |line: &str| parse_value(line, false).unwrap();
        let url = parse("1 URL 86400 1110 UTF8 https://example.org/a b");
        assert_eq!(url, HandleValue::new(1, "URL", "https://example.org/a b"));
        let admin = parse("100 HS_ADMIN 3600 1100 ADMIN 300:110011111111:0.NA/10.5555");
        assert_eq!((admin.ttl, admin.permissions), (Ttl::Relative(3600), ValuePermissions(0b1100)));
        let admin = Admin::from_bytes(&admin.data).unwrap();
        assert_eq!(admin.permissions, AdminPermissions(0x0ff3));
        assert_eq!(admin.reference, ValueReference::parse("300:0.NA/10.5555"));
        let list = parse("200 HS_VLIST 86400 1110 LIST 300:10.1/a;301:10.1/b:c;");
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
        assert_eq!(parse_value(line, false).unwrap_err(), reason, "{line}");
    }

    /// Line, keyword and handle of each entry; or the line and reason of an error.
    fn entries(text: &str) -> Vec<String> {
        let mut reader = BatchReader::new(text.as_bytes(), "test");
        let mut found = Vec::new();
        while let Some(entry) = reader.next_entry().unwrap() {
            found.push(match entry.operation {
                Ok(operation) => format!("{} {} {}", entry.line, operation.keyword(), operation.handle()),
                Err(error) => format!("{} {}", error.line, error.reason),
            });
        }
        found
    }

    #[test]
    fn reads_all_operations() {
        let text = "AUTHENTICATE PUBKEY:300:0.NA/10.5\nadmpriv.bin|pass\nauthenticate seckey:301:10.5/a:b\nsecret\n\n\
                    SESSIONSETUP\nUSESESSION:1\n\nCREATE 10.5/1\n1 URL 86400 1110 UTF8 a:b\n\nADD 10.5/1\r\n\
                    2 URL 86400 1110 UTF8 a:b\r\n\r\nMODIFY 10.5/1\n2 URL 60 1110 UTF8 c\n\nREMOVE 1,2:10.5/1:x\n\
                    DELETE 10.5/1\nHOME 127.0.0.1:2641:TCP\n0.NA/10.6\n0.NA/10.7\n\nUNHOME 127.0.0.1:2641:TCP\n\
                    0.NA/10.6\n";
        let expected = [
            "1 AUTHENTICATE ",
            "3 AUTHENTICATE ",
            "6 SESSIONSETUP ",
            "9 CREATE 10.5/1",
            "12 ADD 10.5/1",
            "15 MODIFY 10.5/1",
            "18 REMOVE 10.5/1:x",
            "19 DELETE 10.5/1",
            "21 HOME 0.NA/10.6",
            "22 HOME 0.NA/10.7",
            "25 UNHOME 0.NA/10.6",
        ];
        assert_eq!(entries(text), expected);
        let mut reader = BatchReader::new(text.as_bytes(), "test");
        let mut next = || reader.next_entry().unwrap().unwrap().operation.unwrap();
        let key = BatchKey::PrivateKeyFile { path: "admpriv.bin".into(), passphrase: Some("pass".into()) };
        let reference = ValueReference::parse("300:0.NA/10.5").into_owned();
        assert_eq!(next(), BatchOperation::Authenticate(BatchIdentity { reference, key }));
        let (reference, key) =
            (ValueReference::parse("301:10.5/a:b").into_owned(), BatchKey::Secret("secret".into()));
        assert_eq!(next(), BatchOperation::Authenticate(BatchIdentity { reference, key }));
    }

    #[test]
    fn reports_invalid_entries() {
        let text = "NONSENSE x\n1 URL\n\nCREATE 10.5/1\n1 URL 86400 1110 UTF8 a\nx\ny\n\nDELETE\nREMOVE x:10.5/1\n\
                    REMOVE 1\nCREATE\n1 URL 86400 1110 UTF8 a\n\nAUTHENTICATE KEY:1:a\nx\nADD 10.5/1\n\nMODIFY 10.5/1\n\n\
                    AUTHENTICATE SECKEY:1:a";
        let expected = [
            "1 invalid batch operation `NONSENSE`",
            "6 invalid index `x`: not a number",
            "9 missing handle",
            "10 invalid index `x`: not a number",
            "11 expected index,index:handle",
            "12 missing handle",
            "15 expected SECKEY:index:handle or PUBKEY:index:handle",
            "17 no values",
            "19 no values",
            "21 missing key",
        ];
        assert_eq!(entries(text), expected);
    }

    #[test]
    fn digests_identify_entries() {
        let digests = |text: &str| {
            let mut reader = BatchReader::new(text.as_bytes(), "test");
            std::iter::from_fn(|| reader.next_entry().unwrap().map(|entry| entry.digest)).collect::<Vec<_>>()
        };
        let [first, second] =
            [digests("DELETE 10.5/1\nDELETE 10.5/2\n"), digests("\n\nDELETE 10.5/2\nDELETE 10.5/1")];
        assert_eq!((&first[0], &first[1]), (&second[1], &second[0]));
        assert_ne!(first[0], first[1]);
        let [home, unhome] = [digests("HOME a\n10.5\n"), digests("UNHOME a\n10.5\n")];
        assert_ne!(home, unhome, "the same prefix");
    }
}
