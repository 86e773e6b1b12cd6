//! Encodes and decodes log entries: see `docs/background/storage-format.md`.

use heed::{PutFlags, RwTxn};

use super::{checksum, varint};
use crate::embedded::Lmdb;
use crate::{EditKind, LogEntry};

pub(crate) fn encode(log_entry: &LogEntry) -> Vec<u8> {
    // Usually enough for the integers and the checksum.
    let mut out = Vec::with_capacity(32 + log_entry.author.len() + log_entry.name.len());
    varint::write(&mut out, log_entry.kind.code().into());
    varint::write(&mut out, log_entry.revision);
    varint::write(&mut out, log_entry.timestamp_ms);
    varint::write_bytes(&mut out, log_entry.author.as_bytes());
    varint::write_bytes(&mut out, log_entry.name.as_bytes());
    if log_entry.kind == EditKind::Import {
        varint::write(&mut out, log_entry.record_count);
    }
    out
}

/// Appends an entry to the change log.
pub(crate) fn append(lmdb: &Lmdb, txn: &mut RwTxn<'_>, log_entry: &LogEntry) -> Result<(), heed::Error> {
    let key = log_entry.sequence.to_be_bytes();
    let mut value = encode(log_entry);
    checksum::append(&key, &mut value);
    // Entries are never overwritten: LMDB rejects keys that are not last.
    lmdb.databases.log.put_with_flags(txn, PutFlags::APPEND, &key, &value)
}

pub(crate) fn decode(sequence: u64, mut bytes: &[u8]) -> Option<LogEntry> {
    let bytes = &mut bytes;
    let kind = EditKind::from_code(varint::read(bytes)?)?;
    let mut log_entry = LogEntry {
        record_count: 1,
        sequence,
        kind,
        revision: varint::read(bytes)?,
        timestamp_ms: varint::read(bytes)?,
        author: read_string(bytes)?,
        name: read_string(bytes)?,
    };
    if log_entry.kind == EditKind::Import {
        log_entry.record_count = varint::read(bytes)?;
    }
    bytes.is_empty().then_some(log_entry)
}

fn read_string(bytes: &mut &[u8]) -> Option<Box<str>> {
    std::str::from_utf8(varint::read_bytes(bytes)?).ok().map(Into::into)
}
