//! Encodes and decodes log entries: see `docs/background/storage-format.md`.

use heed::{PutFlags, RwTxn};

use super::{checksum, varint};
use crate::embedded::Lmdb;
use crate::model::log_entry::KIND_CODES;
use crate::{EditKind, LogEntry};

pub(crate) fn encode(line: &LogEntry) -> Vec<u8> {
    let number = KIND_CODES.iter().find(|(_, kind)| *kind == line.kind).map_or(0, |(number, _)| *number);
    // Usually enough for the integers and the checksum.
    let mut out = Vec::with_capacity(32 + line.by.len() + line.name.len());
    varint::write(&mut out, number);
    varint::write(&mut out, line.revision);
    varint::write(&mut out, line.at);
    varint::write_bytes(&mut out, line.by.as_bytes());
    varint::write_bytes(&mut out, line.name.as_bytes());
    if line.kind == EditKind::Import {
        varint::write(&mut out, line.count);
    }
    out
}

/// Appends an entry to the change log.
pub(crate) fn append(lmdb: &Lmdb, txn: &mut RwTxn<'_>, line: &LogEntry) -> Result<(), heed::Error> {
    let key = line.sequence.to_be_bytes();
    let mut value = encode(line);
    checksum::append(&key, &mut value);
    // Entries are never overwritten: LMDB rejects keys that are not last.
    lmdb.databases.log.put_with_flags(txn, PutFlags::APPEND, &key, &value)
}

pub(crate) fn decode(sequence: u64, mut bytes: &[u8]) -> Option<LogEntry> {
    let bytes = &mut bytes;
    let number = varint::read(bytes)?;
    let (_, kind) = KIND_CODES.iter().find(|(known, _)| *known == number)?;
    let mut line = LogEntry {
        count: 1,
        sequence,
        kind: *kind,
        revision: varint::read(bytes)?,
        at: varint::read(bytes)?,
        by: read_string(bytes)?,
        name: read_string(bytes)?,
    };
    if line.kind == EditKind::Import {
        line.count = varint::read(bytes)?;
    }
    bytes.is_empty().then_some(line)
}

fn read_string(bytes: &mut &[u8]) -> Option<Box<str>> {
    std::str::from_utf8(varint::read_bytes(bytes)?).ok().map(Into::into)
}
