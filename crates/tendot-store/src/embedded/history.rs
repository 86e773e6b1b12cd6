//! Reads and writes history entries: see `docs/background/storage-format.md`.
//!
//! Most changes have an entry with the replaced record. A creation usually has none: it is found by the revision of the next
//! entry's record, or of the current record, and its log entry.

use std::ops::Bound;

use heed::{RoTxn, RwTxn};

use super::format::record::{self, DiskRecord, Intern};
use super::format::{checksum, log_entry};
use super::read::{MAX_SCANNED_RECORDS, RawEntry, decode_disk_record};
use super::{Lmdb, backend_error};
use crate::model::history::{MAX_HISTORY_PAGE_BYTES, redact_secrets};
use crate::model::name_key;
use crate::{
    EditKind, History, HistoryEntry, HistoryOrder, LogEntry, NameKey, PriorState, StoreError, StoredRecord,
};

/// Separator between storage key and sequence number: occurs neither in UTF-8 nor at its position in a hashed key, so the
/// entries of a name are adjacent.
const KEY_SEPARATOR: u8 = 0xfe;

/// Maximum number of edits of a change set whose creations have no entry: as many log entries are scanned to find one.
pub(crate) const MAX_IMPLICIT_CREATIONS: usize = 4_096;

/// Name of a history entry in error messages.
pub(crate) const ITEM: &str = "history entry";

/// Name of a log entry in error messages.
pub(crate) const LOG_ITEM: &str = "log entry";

fn entry_key(storage_key: &[u8], sequence: u64) -> Vec<u8> {
    [storage_key, &[KEY_SEPARATOR], &sequence.to_be_bytes()].concat()
}

/// Splits an entry key into storage key and sequence number.
pub(crate) fn split_key(entry_key: &[u8]) -> Option<(&[u8], u64)> {
    let (rest, sequence) = entry_key.split_last_chunk::<8>()?;
    let (separator, storage_key) = rest.split_last()?;
    (*separator == KEY_SEPARATOR).then_some((storage_key, u64::from_be_bytes(*sequence)))
}

/// Writes a history entry: the replaced record without its checksum, or nothing.
pub(crate) fn write_entry(
    lmdb: &Lmdb,
    txn: &mut RwTxn<'_>,
    storage_key: &[u8],
    sequence: u64,
    replaced: &[u8],
) -> Result<(), heed::Error> {
    let entry_key = entry_key(storage_key, sequence);
    lmdb.databases.history.put(txn, &entry_key, &checksum::with_checksum(&entry_key, replaced))
}

/// Reads the replaced record of a history entry inside a write transaction; `None` if there is none.
pub(crate) fn replaced_record(
    lmdb: &Lmdb,
    txn: &RwTxn<'_>,
    storage_key: &[u8],
    sequence: u64,
) -> Result<Option<DiskRecord>, StoreError> {
    let entry_key = entry_key(storage_key, sequence);
    let found = lmdb.databases.history.get(txn, &entry_key);
    let Some(value) = found.map_err(|error| backend_error("reading the history", error))? else {
        return Ok(None);
    };
    let body = checksum::verify_and_strip(&entry_key, value, ITEM)?;
    if body.is_empty() {
        return Ok(None);
    }
    decode_disk_record(storage_key, body, |id| lmdb.dictionary_entry(txn, id)).map(Some)
}

/// Encodes a replaced record for the history: the stored bytes, unless it has secrets or was never stored.
pub(crate) fn encode_replaced(
    lmdb: &Lmdb,
    txn: &RoTxn<'_>,
    storage_key: &[u8],
    replaced: DiskRecord,
    interner: &mut impl Intern,
) -> Result<Vec<u8>, heed::Error> {
    let DiskRecord { record, registration } = replaced;
    let redacted = redact_secrets(&record);
    let stored = lmdb.databases.records.get(txn, storage_key)?.and_then(<[u8]>::split_last_chunk::<4>);
    Ok(match stored {
        Some((body, _)) if redacted.is_none() && record::decode_revision(body) == Some(record.revision) => {
            body.to_vec()
        }
        // Has secrets, or was written by an earlier edit of the same change set and is not stored.
        _ => {
            let replaced = DiskRecord { record: redacted.unwrap_or(record), registration };
            record::encode(&replaced, name_key::is_hashed_key(storage_key), interner)
        }
    })
}

impl Lmdb {
    pub(crate) fn history(
        &self,
        key: &NameKey,
        order: HistoryOrder,
        limit: usize,
    ) -> Result<History, StoreError> {
        self.history_in_txn(&*self.begin_read()?, key, order, limit)
    }

    /// Reads a history page inside a transaction.
    pub(crate) fn history_in_txn(
        &self,
        txn: &RoTxn<'_>,
        key: &NameKey,
        order: HistoryOrder,
        limit: usize,
    ) -> Result<History, StoreError> {
        let name = NameHistory::new(self, txn, key);
        let (mut history, mut bytes_left) = (History::default(), MAX_HISTORY_PAGE_BYTES);
        let mut at = match order {
            HistoryOrder::OldestFirst { after } => name.last_entry_at(after)?,
            HistoryOrder::NewestFirst { before } => name.last_entry_at(before.saturating_sub(1))?,
        };
        loop {
            let mut changes = name.changes_at(at)?;
            if matches!(order, HistoryOrder::NewestFirst { .. }) {
                changes.reverse();
            }
            for history_entry in changes
                .into_iter()
                .flatten()
                .filter(|history_entry| order.contains(history_entry.log_entry.sequence))
            {
                if !history.push(history_entry, limit, &mut bytes_left) {
                    return Ok(history);
                }
            }
            at = match (order, at) {
                (HistoryOrder::OldestFirst { .. }, _) => match name.next_entry(at)? {
                    None => return Ok(history),
                    Some((sequence, _)) => Some(sequence),
                },
                (HistoryOrder::NewestFirst { .. }, None) => return Ok(history),
                (HistoryOrder::NewestFirst { .. }, Some(sequence)) => {
                    name.last_entry_at(sequence.saturating_sub(1))?
                }
            };
        }
    }

    /// Reads a log entry; `None` if there is none (yet).
    pub(crate) fn log_entry(&self, txn: &RoTxn<'_>, sequence: u64) -> Result<Option<LogEntry>, StoreError> {
        let key = sequence.to_be_bytes();
        let found = self
            .databases
            .log
            .get(txn, &key)
            .map_err(|error| backend_error("reading the change log", error))?;
        found.map(|value| Self::decode_log_entry(&key, value)).transpose()
    }

    /// Decodes the log entry stored under a key.
    pub(crate) fn decode_log_entry(key: &[u8], value: &[u8]) -> Result<LogEntry, StoreError> {
        let body = checksum::verify_and_strip(key, value, LOG_ITEM)?;
        let sequence = key.try_into().map(u64::from_be_bytes).ok();
        let log_entry = sequence.and_then(|sequence| log_entry::decode(sequence, body));
        log_entry.ok_or_else(|| checksum::corrupt(key, LOG_ITEM, "cannot be decoded"))
    }
}

/// Reader of one name's history.
pub(crate) struct NameHistory<'a> {
    lmdb: &'a Lmdb,
    txn: &'a RoTxn<'a>,
    key: &'a NameKey,
    storage_key: std::borrow::Cow<'a, [u8]>,
}

impl<'a> NameHistory<'a> {
    pub(crate) fn new(lmdb: &'a Lmdb, txn: &'a RoTxn<'a>, key: &'a NameKey) -> Self {
        Self { lmdb, txn, key, storage_key: name_key::storage_key(key) }
    }

    /// Sequence number of the last entry up to `sequence`.
    fn last_entry_at(&self, sequence: u64) -> Result<Option<u64>, StoreError> {
        let history = self.lmdb.databases.history;
        let found = history.get_lower_than_or_equal_to(self.txn, &entry_key(&self.storage_key, sequence));
        Ok(self.entry_of_name(found)?.map(|(sequence, _)| sequence))
    }

    /// Next entry after `at`, or the first one.
    fn next_entry(&self, at: Option<u64>) -> Result<Option<(u64, &'a [u8])>, StoreError> {
        let history = self.lmdb.databases.history;
        let after = entry_key(&self.storage_key, at.unwrap_or_default());
        self.entry_of_name(history.get_greater_than(self.txn, &after))
    }

    /// Whether the name was changed after a log entry, other than by its first creation.
    pub(crate) fn has_entry_after(&self, sequence: u64) -> Result<bool, StoreError> {
        Ok(self.next_entry(Some(sequence))?.is_some())
    }

    /// Returns sequence number and replaced record of an LMDB entry if it belongs to this name.
    fn entry_of_name(
        &self,
        found: Result<Option<RawEntry<'a>>, heed::Error>,
    ) -> Result<Option<(u64, &'a [u8])>, StoreError> {
        let found = found.map_err(|error| backend_error("reading the history", error))?;
        let Some((entry_key, value)) = found else { return Ok(None) };
        match split_key(entry_key) {
            Some((storage_key, sequence)) if *storage_key == *self.storage_key => {
                Ok(Some((sequence, checksum::verify_and_strip(entry_key, value, ITEM)?)))
            }
            _ => Ok(None),
        }
    }

    /// Returns the change at `at`, and the implicit creation between it and the next entry. With `at` = `None`, the creation
    /// before all entries.
    fn changes_at(&self, at: Option<u64>) -> Result<[Option<HistoryEntry>; 2], StoreError> {
        let mut first = None;
        if let Some(sequence) = at
            // The log entry of an import in progress is not written yet.
            && let Some(log_entry) = self.lmdb.log_entry(self.txn, sequence)?
            && let Some((_, replaced)) = self.next_entry(Some(sequence.saturating_sub(1)))?
        {
            let replaced = self.lmdb.decode_replaced(self.txn, &self.storage_key, replaced)?;
            let prior = replaced.map_or(PriorState::Absent, PriorState::Record);
            first = Some(HistoryEntry { log_entry, prior });
        }
        let revision = self.revision_after(at)?.filter(|revision| {
            first.as_ref().is_none_or(|first: &HistoryEntry| first.log_entry.revision != *revision)
        });
        let creation = revision.map(|revision| self.log_entry_of_revision(revision, at)).transpose()?;
        let second =
            creation.flatten().map(|log_entry| HistoryEntry { log_entry, prior: PriorState::Absent });
        Ok([first, second])
    }

    /// Revision of the record after `at`: that of the next entry's replaced record, or of the current record; `None` if there
    /// was none.
    pub(crate) fn revision_after(&self, at: Option<u64>) -> Result<Option<u64>, StoreError> {
        match self.next_entry(at)? {
            Some((_, [])) => Ok(None),
            Some((_, replaced)) => {
                let unknown = || checksum::corrupt(&self.storage_key, ITEM, "unknown layout");
                record::decode_revision(replaced).map(Some).ok_or_else(unknown)
            }
            None => Ok(self.lmdb.record_header(self.txn, self.key)?.map(|header| header.revision)),
        }
    }

    /// Finds the log entry of a revision between `at` and the next entry, by bisection: revisions grow with the log.
    fn log_entry_of_revision(&self, revision: u64, at: Option<u64>) -> Result<Option<LogEntry>, StoreError> {
        let first = at.unwrap_or_default().saturating_add(1);
        let end = match self.next_entry(at)? {
            Some((sequence, _)) => sequence,
            None => self.lmdb.read_head(self.txn)?.sequence.saturating_add(1),
        };
        let (mut low, mut high) = (first, end);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.lmdb.log_entry(self.txn, middle)? {
                Some(log_entry) if log_entry.revision <= revision => low = middle + 1,
                _ => high = middle,
            }
        }
        // Backwards: the entry of an import follows those of the prefixes it homed.
        let range = first.to_be_bytes()..low.to_be_bytes();
        let range = (Bound::Included(&range.start[..]), Bound::Excluded(&range.end[..]));
        let read_error = |error| backend_error("reading the change log", error);
        for item in
            self.lmdb.databases.log.rev_range(self.txn, &range).map_err(read_error)?.take(MAX_SCANNED_RECORDS)
        {
            let (key, value) = item.map_err(read_error)?;
            let log_entry = Lmdb::decode_log_entry(key, value)?;
            if log_entry.revision != revision {
                break;
            }
            let is_of_name = || NameKey::new(&log_entry.name).is_ok_and(|key| key == *self.key);
            if log_entry.kind == EditKind::Import || log_entry.kind.is_record_change() && is_of_name() {
                return Ok(Some(log_entry));
            }
        }
        Ok(None)
    }
}

impl Lmdb {
    /// Decodes the replaced record of a history entry, if it has one.
    pub(crate) fn decode_replaced(
        &self,
        txn: &RoTxn<'_>,
        storage_key: &[u8],
        replaced: &[u8],
    ) -> Result<Option<StoredRecord>, StoreError> {
        if replaced.is_empty() {
            return Ok(None);
        }
        self.decode_record_body(txn, storage_key, replaced).map(Some)
    }
}
