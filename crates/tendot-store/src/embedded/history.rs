//! Reads and writes history entries: see `docs/background/storage-format.md`.
//!
//! Most changes have an entry with the replaced record. A creation usually has none: it is found by the revision of the next
//! entry's record, or of the current record, and its log entry.

use std::ops::Bound;

use heed::{RoTxn, RwTxn};

use super::format::record::{self, DiskRecord, Intern};
use super::format::{checksum, log_entry};
use super::read::MAX_SCANNED_RECORDS;
use super::{Lmdb, backend_error};
use crate::model::history::{MAX_HISTORY_PAGE_BYTES, is_record_change, redact_secrets};
use crate::model::name_key;
use crate::{
    EditKind, History, HistoryEntry, HistoryOrder, LogEntry, NameKey, PriorState, StoreError, StoredRecord,
};

/// Separator between storage key and sequence number: occurs neither in UTF-8 nor at its place in a shortened key, so the
/// entries of a name are adjacent.
const KEY_SEPARATOR: u8 = 0xfe;

/// Maximum number of edits of a change set whose creations have no entry: as many log entries are scanned to find one.
pub(crate) const MAX_IMPLICIT_CREATIONS: usize = 4_096;

/// Key in `meta` of the last log sequence number that may have no history entry.
pub(crate) const HISTORY_START_META_KEY: &[u8] = b"history";

pub(crate) const ITEM: &str = "change in the history";

fn entry_key(record_key: &[u8], sequence: u64) -> Vec<u8> {
    [record_key, &[KEY_SEPARATOR], &sequence.to_be_bytes()].concat()
}

/// Splits an entry key into storage key and sequence number.
pub(crate) fn split_key(entry_key: &[u8]) -> Option<(&[u8], u64)> {
    let (rest, sequence) = entry_key.split_last_chunk::<8>()?;
    let (mark, record_key) = rest.split_last()?;
    (*mark == KEY_SEPARATOR).then_some((record_key, u64::from_be_bytes(*sequence)))
}

/// Writes a history entry: the replaced record without its checksum, or nothing.
pub(crate) fn write_entry(
    lmdb: &Lmdb,
    txn: &mut RwTxn<'_>,
    record_key: &[u8],
    sequence: u64,
    old: &[u8],
) -> Result<(), heed::Error> {
    // Only read-only stores of earlier versions lack it.
    let Some(history) = lmdb.databases.history else { return Ok(()) };
    let entry_key = entry_key(record_key, sequence);
    let mut value = old.to_vec();
    checksum::append(&entry_key, &mut value);
    history.put(txn, &entry_key, &value)
}

/// Encodes a replaced record for the history: the stored bytes, unless it has secrets or was never stored.
pub(crate) fn encode_replaced(
    lmdb: &Lmdb,
    txn: &RoTxn<'_>,
    record_key: &[u8],
    record: DiskRecord,
    interner: &mut impl Intern,
) -> Result<Vec<u8>, heed::Error> {
    let DiskRecord { entry, registration } = record;
    let without = redact_secrets(&entry);
    let stored = lmdb.databases.records.get(txn, record_key)?.and_then(<[u8]>::split_last_chunk::<4>);
    Ok(match stored {
        Some((body, _)) if without.is_none() && record::decode_revision(body) == Some(entry.revision) => {
            body.to_vec()
        }
        // Has secrets, or was written by an earlier edit of the same change set and is not stored.
        _ => {
            let record = DiskRecord { entry: without.unwrap_or(entry), registration };
            record::encode(&record, name_key::is_hashed_key(record_key), interner)
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
        let name = NameHistory::new(self, txn, key)?;
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
                .filter(|history_entry| order.contains(history_entry.line.sequence))
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
        let found =
            self.databases.log.get(txn, &key).map_err(|error| backend_error("reading the log", error))?;
        found.map(|value| Self::decode_log_entry(&key, value)).transpose()
    }

    /// Decodes the log entry stored under a key.
    pub(crate) fn decode_log_entry(key: &[u8], value: &[u8]) -> Result<LogEntry, StoreError> {
        let what = "line of the log";
        let body = checksum::verify_and_strip(key, value, what)?;
        let sequence = key.try_into().map(u64::from_be_bytes).ok();
        let line = sequence.and_then(|sequence| log_entry::decode(sequence, body));
        line.ok_or_else(|| checksum::corrupt(key, what, "it is not understood"))
    }
}

/// Key and value of an LMDB entry.
type RawEntry<'a> = (&'a [u8], &'a [u8]);

/// Reader of one name's history.
pub(crate) struct NameHistory<'a> {
    lmdb: &'a Lmdb,
    txn: &'a RoTxn<'a>,
    key: &'a NameKey,
    record_key: std::borrow::Cow<'a, [u8]>,
    /// Last log sequence number that may have no history entry.
    since: u64,
}

impl<'a> NameHistory<'a> {
    pub(crate) fn new(lmdb: &'a Lmdb, txn: &'a RoTxn<'a>, key: &'a NameKey) -> Result<Self, StoreError> {
        let since = match lmdb.databases.history {
            Some(_) => lmdb.read_counter(txn, HISTORY_START_META_KEY)?,
            None => u64::MAX,
        };
        Ok(Self { lmdb, txn, key, record_key: name_key::storage_key(key), since })
    }

    /// Sequence number of the last entry up to `sequence`.
    fn last_entry_at(&self, sequence: u64) -> Result<Option<u64>, StoreError> {
        let Some(history) = self.lmdb.databases.history else { return Ok(None) };
        let found = history.get_lower_than_or_equal_to(self.txn, &entry_key(&self.record_key, sequence));
        Ok(self.entry_of_name(found)?.map(|(sequence, _)| sequence))
    }

    /// Next entry after `at`, or the first one.
    fn next_entry(&self, at: Option<u64>) -> Result<Option<(u64, &'a [u8])>, StoreError> {
        let Some(history) = self.lmdb.databases.history else { return Ok(None) };
        let after = entry_key(&self.record_key, at.unwrap_or_default());
        self.entry_of_name(history.get_greater_than(self.txn, &after))
    }

    /// Returns sequence number and replaced record of an LMDB entry if it belongs to this name.
    fn entry_of_name(
        &self,
        found: Result<Option<RawEntry<'a>>, heed::Error>,
    ) -> Result<Option<(u64, &'a [u8])>, StoreError> {
        let found = found.map_err(|error| backend_error("reading the history", error))?;
        let Some((entry_key, value)) = found else { return Ok(None) };
        match split_key(entry_key) {
            Some((record_key, sequence)) if *record_key == *self.record_key => {
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
            && let Some(line) = self.lmdb.log_entry(self.txn, sequence)?
            && let Some((_, old)) = self.next_entry(Some(sequence.saturating_sub(1)))?
        {
            let before = self.lmdb.decode_replaced(self.txn, &self.record_key, old)?;
            first =
                Some(HistoryEntry { line, before: before.map_or(PriorState::Nothing, PriorState::Record) });
        }
        let made = self
            .revision_after(at)?
            .filter(|made| first.as_ref().is_none_or(|first: &HistoryEntry| first.line.revision != *made));
        let second =
            made.map(|made| self.log_entry_of_revision(made, at)).transpose()?.flatten().map(|line| {
                let is_new = line.kind == EditKind::Create || line.sequence > self.since;
                HistoryEntry { line, before: if is_new { PriorState::Nothing } else { PriorState::Unknown } }
            });
        Ok([first, second])
    }

    /// Revision of the record after `at`: that of the next entry's replaced record, or of the current record; `None` if there
    /// was none.
    pub(crate) fn revision_after(&self, at: Option<u64>) -> Result<Option<u64>, StoreError> {
        match self.next_entry(at)? {
            Some((_, [])) => Ok(None),
            Some((_, old)) => {
                let unknown = || checksum::corrupt(&self.record_key, ITEM, "its layout is not known");
                record::decode_revision(old).map(Some).ok_or_else(unknown)
            }
            None => Ok(self.lmdb.record_header(self.txn, &self.record_key)?.map(|head| head.revision)),
        }
    }

    /// Finds the log entry of a revision between `at` and the next entry, by bisection: revisions grow with the log.
    fn log_entry_of_revision(&self, revision: u64, at: Option<u64>) -> Result<Option<LogEntry>, StoreError> {
        let first = at.unwrap_or_default().saturating_add(1);
        let end = match self.next_entry(at)? {
            Some((sequence, _)) => sequence,
            None => self.lmdb.read_counter(self.txn, b"sequence")?.saturating_add(1),
        };
        let (mut low, mut high) = (first, end);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.lmdb.log_entry(self.txn, middle)? {
                Some(line) if line.revision <= revision => low = middle + 1,
                _ => high = middle,
            }
        }
        // Backwards: the entry of an import follows those of the prefixes it homed.
        let range = first.to_be_bytes()..low.to_be_bytes();
        let range = (Bound::Included(&range.start[..]), Bound::Excluded(&range.end[..]));
        let reading = |error| backend_error("reading the log", error);
        for line in
            self.lmdb.databases.log.rev_range(self.txn, &range).map_err(reading)?.take(MAX_SCANNED_RECORDS)
        {
            let (key, value) = line.map_err(reading)?;
            let line = Lmdb::decode_log_entry(key, value)?;
            if line.revision != revision {
                break;
            }
            let is_match = match line.kind {
                // An import without records was interrupted before its first transaction, and its revision was reused.
                EditKind::Import => line.count > 0,
                kind => is_record_change(kind) && NameKey::new(&line.name).is_ok_and(|key| key == *self.key),
            };
            if is_match {
                return Ok(Some(line));
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
        record_key: &[u8],
        old: &[u8],
    ) -> Result<Option<StoredRecord>, StoreError> {
        if old.is_empty() {
            return Ok(None);
        }
        self.decode_record_body(txn, record_key, old).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, OnceLock};

    use heed::CommitOrAbort;
    use heed::types::Bytes;
    use pollster::block_on;
    use tendot_proto::HandleValue;

    use super::super::EmbeddedStore;
    use super::super::format::dictionary::DictionaryCache;
    use super::super::lmdb::STORE_FORMAT;
    use super::super::lmdb::environment::{Databases, open_environment};
    use super::super::writer::WriteQueue;
    use super::*;
    use crate::{ChangeSet, Edit, Precondition, Store as _};

    fn change(name: &str, data: &'static str) -> ChangeSet {
        let values = vec![HandleValue::new(1, "URL", data)];
        let put =
            |name: &str| Edit::Put { name: name.into(), values: values.clone(), expect: Precondition::Any };
        ChangeSet { by: "test".into(), at: 1, edits: vec![put("10.1/beside"), put(name)] }
    }

    /// Creates a store of an earlier version, without history or without aux entries.
    fn old_store(directory: &Path, has_history: bool, changes: Vec<ChangeSet>) {
        let env = open_environment(directory, false).unwrap();
        env.create_databases_and_commit(env.write_txn().unwrap(), |opener, txn| {
            let names = ["meta", "records", "parts", "homed", "log", "history"];
            for name in &names[..5 + usize::from(has_history)] {
                opener.create_database::<Bytes, Bytes>(txn, Some(name))?;
            }
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(()))
        })
        .unwrap();
        let databases = Databases::open(&env).unwrap().unwrap();
        assert!(databases.history.is_some() == has_history && databases.aux.is_none());
        let lmdb =
            Lmdb { env, databases, dictionary: DictionaryCache::new(), read_only_fallback: OnceLock::new() };
        let mut txn = lmdb.env.write_txn().unwrap();
        let mut format = STORE_FORMAT.to_vec();
        checksum::append(b"format", &mut format);
        databases.meta.put(&mut txn, b"format", &format).unwrap();
        for counter in [&b"revision"[..], b"sequence"] {
            lmdb.write_counter(&mut txn, counter, 0).unwrap();
        }
        if has_history {
            lmdb.write_counter(&mut txn, HISTORY_START_META_KEY, 0).unwrap();
        }
        lmdb.commit(txn).unwrap();
        lmdb.renew_lineage().unwrap();
        let writer = WriteQueue::start(Arc::new(lmdb)).unwrap();
        for change in changes {
            block_on(writer.commit(change)).unwrap();
        }
    }

    #[test]
    fn stores_of_earlier_versions() {
        let directory = tempfile::tempdir().unwrap();
        let old = vec![change("10.1/a", "1"), change("10.1/b", "1"), change("10.1/A", "2")];
        old_store(directory.path(), false, old);
        let (a, b) = (NameKey::new("10.1/a").unwrap(), NameKey::new("10.1/b").unwrap());
        let all = HistoryOrder::OldestFirst { after: 0 };
        let check = |store: &EmbeddedStore, key: &NameKey, expected: &[(u64, &str)]| {
            assert_eq!(store.verify(|_| {}).unwrap().damage, [""; 0]);
            let told = |history_entry: HistoryEntry| match history_entry.before {
                PriorState::Nothing => (history_entry.line.sequence, "nothing".into()),
                PriorState::Unknown => (history_entry.line.sequence, "unknown".into()),
                PriorState::Record(entry) => {
                    (history_entry.line.sequence, String::from_utf8_lossy(&entry.values[0].data).into_owned())
                }
            };
            let items = block_on(store.history(key, all, 10)).unwrap().items;
            let found: Vec<(u64, String)> = items.into_iter().map(told).collect();
            let expected: Vec<_> = expected.iter().map(|(line, data)| (*line, (*data).to_owned())).collect();
            assert_eq!(found, expected, "{key}");
        };
        let store = EmbeddedStore::open_read_only(directory.path()).unwrap();
        check(&store, &a, &[(6, "unknown")]);
        check(&store, &b, &[(4, "nothing")]);
        drop(store);
        let store = EmbeddedStore::open(directory.path()).unwrap();
        check(&store, &a, &[(6, "unknown")]);
        for data in ["3", "4"] {
            block_on(store.commit(change("10.1/a", data))).unwrap();
        }
        drop(store);
        let store = EmbeddedStore::open(directory.path()).unwrap();
        check(&store, &a, &[(6, "unknown"), (8, "2"), (10, "3")]);
        check(&store, &b, &[(4, "nothing")]);
    }

    #[test]
    fn stores_without_notes_and_registrations() {
        for has_history in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            old_store(directory.path(), has_history, vec![change("10.1/a", "1"), change("10.1/a", "2")]);
            let key = NameKey::new("10.1/a").unwrap();
            let store = EmbeddedStore::open_read_only(directory.path()).unwrap();
            assert_eq!(block_on(store.get_aux(b"note")).unwrap(), None);
            assert_eq!(block_on(store.list_aux(b"", None, 9)).unwrap(), []);
            assert_eq!(&*block_on(store.get(&key)).unwrap().unwrap().registration, b"");
            assert_eq!(store.verify(|_| {}).unwrap().damage, [""; 0]);
            drop(store);
            let store = EmbeddedStore::open(directory.path()).unwrap();
            let edits = vec![
                Edit::PutNote { key: b"note"[..].into(), body: b"body"[..].into() },
                Edit::Register {
                    name: "10.1/a".into(),
                    values: Vec::new(),
                    registration: b"known"[..].into(),
                    expect: Precondition::Live,
                },
            ];
            block_on(store.commit(ChangeSet { by: "test".into(), at: 1, edits })).unwrap();
            drop(store);
            let store = EmbeddedStore::open(directory.path()).unwrap();
            assert_eq!(&*block_on(store.get_aux(b"note")).unwrap().unwrap(), b"body");
            assert_eq!(&*block_on(store.get(&key)).unwrap().unwrap().registration, b"known");
            let verified = store.verify(|_| {}).unwrap();
            assert_eq!((verified.notes, verified.registrations, verified.damaged), (1, 1, 0));
            let history = block_on(store.history(&key, HistoryOrder::OldestFirst { after: 0 }, 9)).unwrap();
            assert_eq!(history.items.len(), if has_history { 3 } else { 2 });
        }
    }
}
