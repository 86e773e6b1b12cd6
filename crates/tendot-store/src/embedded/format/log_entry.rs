//! Encodes and decodes log entries: see `docs/background/storage-format.md`.

use heed::{PutFlags, RwTxn};

use super::checksum;
use crate::embedded::Lmdb;
use crate::{ChainLink, LogEntry, LogHash};

/// Appends an entry to the change log; `value` has its encoded content.
pub(crate) fn append(
    lmdb: &Lmdb,
    txn: &mut RwTxn<'_>,
    log_entry: &LogEntry,
    value: &mut Vec<u8>,
) -> Result<(), heed::Error> {
    let key = log_entry.sequence.to_be_bytes();
    value.extend_from_slice(&log_entry.link.previous_hash.0);
    value.extend_from_slice(&log_entry.link.content_digest.0);
    checksum::append(&key, value);
    // Entries are never overwritten: LMDB rejects keys that are not last.
    lmdb.databases.log.put_with_flags(txn, PutFlags::APPEND, &key, value)
}

/// Decodes an entry without its checksum; `None` if it is invalid.
pub(crate) fn decode(sequence: u64, bytes: &[u8]) -> Option<LogEntry> {
    let (bytes, digest) = bytes.split_last_chunk()?;
    let (content, previous) = bytes.split_last_chunk()?;
    let link = ChainLink { previous_hash: LogHash(*previous), content_digest: LogHash(*digest) };
    LogEntry::decode_content(sequence, link, content)
}
