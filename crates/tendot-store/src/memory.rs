//! Memory store; reference for the other stores.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use crate::apply::WriteSet;
use crate::memory_state::MemoryState;
use crate::model::history;
use crate::{
    AuxEntry, ChangeCounters, ChangeSet, CommitError, CommitInfo, CountPage, History, HistoryEntry,
    HistoryOrder, LogEntry, NameEntry, NameKey, NamePage, PriorState, RecordStatus, Store, StoreError,
    StoreHead, StoredRecord,
};

/// Volatile in-memory store, for trials and as the reference implementation.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: RwLock<MemoryTables>,
    counters: ChangeCounters,
}

/// Tables of the memory store.
#[derive(Debug, Default)]
struct MemoryTables {
    state: MemoryState,
    log: Vec<LogEntry>,
    /// Prior states by name and log sequence number.
    history: BTreeMap<NameKey, BTreeMap<u64, PriorState>>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn with_tables<T>(&self, read: impl FnOnce(&MemoryTables) -> T) -> T {
        // No call panics between two writes, so the tables are consistent even if the lock is poisoned.
        read(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for MemoryStore {
    async fn get(&self, key: &NameKey) -> Result<Option<StoredRecord>, StoreError> {
        Ok(self.with_tables(|tables| tables.state.records.get(key).cloned()))
    }

    async fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<NameEntry>, StoreError> {
        if prefix.len() > NameKey::MAX_PREFIX_LEN {
            return Ok(Vec::new());
        }
        Ok(self.with_tables(|tables| {
            let under =
                tables.records_after(after).filter(|(key, _)| key.prefix().eq_ignore_ascii_case(prefix));
            under.take(limit).map(|(_, record)| record.into()).collect()
        }))
    }

    async fn seek_names(
        &self,
        prefix: &[u8],
        starts: &[Vec<u8>],
    ) -> Result<Vec<Option<NameEntry>>, StoreError> {
        if prefix.len() > NameKey::MAX_PREFIX_LEN {
            return Ok(vec![None; starts.len()]);
        }
        let begin = [&prefix.to_ascii_uppercase()[..], b"/"].concat();
        Ok(self.with_tables(|tables| {
            let seek = |start: &Vec<u8>| {
                let from: &[u8] = start.max(&begin);
                let first =
                    tables.state.records.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)).next();
                first.filter(|(key, _)| key.as_bytes().starts_with(&begin)).map(|(_, record)| record.into())
            };
            starts.iter().map(seek).collect()
        }))
    }

    async fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        if prefix.len() > NameKey::MAX_PREFIX_LEN {
            return Ok(CountPage::default());
        }
        Ok(self.with_tables(|tables| {
            let under =
                tables.records_after(after).filter(|(key, _)| key.prefix().eq_ignore_ascii_case(prefix));
            let mut page = CountPage::default();
            for (number, (key, record)) in (1..=limit.max(1)).zip(under) {
                page.live += u64::from(record.status == RecordStatus::Live);
                page.next = (number >= limit).then(|| key.clone());
            }
            page
        }))
    }

    async fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        mut visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> Result<(), StoreError> {
        if prefix.is_some_and(|prefix| prefix.len() > NameKey::MAX_PREFIX_LEN) {
            return Ok(());
        }
        self.with_tables(|tables| {
            let is_under =
                |key: &NameKey| prefix.is_none_or(|prefix| key.prefix().eq_ignore_ascii_case(prefix));
            let mut matching = tables.records_after(after).filter(|(key, _)| is_under(key));
            while matching.next().is_some_and(|(_, record)| visit(record)) {}
        });
        Ok(())
    }

    async fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        Ok(self.with_tables(|tables| {
            let mut page = NamePage::default();
            let matching = tables.records_after(after).filter(|(_, record)| record.revision == revision);
            for (key, record) in matching.take(limit.max(1)) {
                page.names.push(record.into());
                page.next = (page.names.len() >= limit).then(|| key.clone());
            }
            page
        }))
    }

    async fn name_count(&self) -> Result<Option<u64>, StoreError> {
        Ok(Some(self.with_tables(|tables| tables.state.records.len() as u64)))
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        let Some(key) = std::str::from_utf8(prefix).ok().and_then(|prefix| NameKey::from_prefix(prefix).ok())
        else {
            return Ok(false);
        };
        Ok(self.with_tables(|tables| tables.state.homed.contains(&key)))
    }

    async fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        let after = after.map(<[u8]>::to_ascii_uppercase).unwrap_or_default();
        Ok(self.with_tables(|tables| {
            let later = tables.state.homed.iter().filter(|homed| homed.as_bytes() > &*after);
            later.take(limit).map(|homed| homed.to_string().into()).collect()
        }))
    }

    async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let _write_guard = self.counters.begin_write([&change]);
        tables.commit(change)
    }

    fn change_counters(&self) -> Option<&ChangeCounters> {
        Some(&self.counters)
    }

    async fn history(&self, key: &NameKey, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        Ok(self.with_tables(|tables| tables.history(key, order, limit)))
    }

    async fn get_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        Ok(self.with_tables(|tables| tables.state.aux.get(key).cloned()))
    }

    async fn list_aux(
        &self,
        key_prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<AuxEntry>, StoreError> {
        let from = match after {
            Some(after) if after >= key_prefix => Bound::Excluded(after),
            _ => Bound::Included(key_prefix),
        };
        Ok(self.with_tables(|tables| {
            let later = tables.state.aux.range::<[u8], _>((from, Bound::Unbounded));
            let matching = later.take_while(|(key, _)| key.starts_with(key_prefix)).take(limit);
            matching.map(|(key, value)| AuxEntry { key: key.clone(), value: value.clone() }).collect()
        }))
    }

    async fn head(&self) -> Result<StoreHead, StoreError> {
        Ok(self.with_tables(|tables| tables.state.head))
    }

    async fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(self.with_tables(|tables| tables.log.iter().skip(after).take(limit).cloned().collect()))
    }
}

impl From<&StoredRecord> for NameEntry {
    fn from(record: &StoredRecord) -> Self {
        Self { name: record.name.clone(), status: record.status }
    }
}

impl MemoryTables {
    /// Records after a key, in key order.
    fn records_after(&self, after: Option<&NameKey>) -> btree_map::Range<'_, NameKey, StoredRecord> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.state.records.range::<NameKey, _>((from, Bound::Unbounded))
    }

    fn history(&self, key: &NameKey, order: HistoryOrder, limit: usize) -> History {
        let (mut history, mut bytes_left) = (History::default(), history::MAX_HISTORY_PAGE_BYTES);
        let none = BTreeMap::new();
        let entries = self.history.get(key).unwrap_or(&none).iter();
        let mut entries: Vec<_> = entries.filter(|(sequence, _)| order.contains(**sequence)).collect();
        if matches!(order, HistoryOrder::NewestFirst { .. }) {
            entries.reverse();
        }
        for (sequence, prior) in entries {
            let log_entry = usize::try_from(*sequence - 1).ok().and_then(|index| self.log.get(index));
            let history_entry = log_entry
                .map(|log_entry| HistoryEntry { log_entry: log_entry.clone(), prior: prior.clone() });
            if !history_entry.is_none_or(|history_entry| history.push(history_entry, limit, &mut bytes_left))
            {
                break;
            }
        }
        history
    }

    fn commit(&mut self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        let ChangeSet { author, timestamp_ms, edits } = change;
        let revision = self.state.head.revision + 1;
        let mut writes = WriteSet::compute(&mut self.state, edits, revision)?;
        for redaction in std::mem::take(&mut writes.redactions) {
            let Some(states) = self.history.get_mut(&redaction.key) else { continue };
            for (sequence, registration) in &redaction.entries {
                if let Some(state) = states.get_mut(sequence) {
                    redaction.redact(state, registration);
                }
            }
        }
        for (entry, prior) in self.state.apply(&author, timestamp_ms, writes) {
            if let Some((key, prior)) = prior {
                self.history.entry(key).or_default().insert(entry.sequence, prior);
            }
            self.log.push(entry);
        }
        Ok(CommitInfo { revision: self.state.head.revision })
    }
}
