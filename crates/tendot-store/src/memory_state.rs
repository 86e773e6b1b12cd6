//! State in memory that change sets are applied to.

use std::collections::{BTreeMap, BTreeSet};

use crate::apply::{HistoryRedaction, SplitRecord, StateView, WriteSet};
use crate::{LogEntry, NameKey, PriorState, StoreError, StoreHead, StoredRecord};

/// Records, homed prefixes and aux entries in memory: all of a store, or those that a transaction has read.
#[derive(Debug, Default)]
pub(crate) struct MemoryState {
    pub(crate) head: StoreHead,
    /// Time of the last log entry; later ones are never earlier.
    pub(crate) timestamp_ms: u64,
    pub(crate) records: BTreeMap<NameKey, StoredRecord>,
    pub(crate) homed: BTreeSet<NameKey>,
    pub(crate) aux: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

/// Log entry, with key and prior state of its history entry.
pub(crate) type AppendedEntry = (LogEntry, Option<(NameKey, PriorState)>);

impl MemoryState {
    /// Applies the writes of a change set except redactions of the history, which is stored elsewhere; returns its log entries.
    pub(crate) fn apply(
        &mut self,
        author: &str,
        timestamp_ms: u64,
        writes: WriteSet<Box<[u8]>>,
    ) -> Vec<AppendedEntry> {
        self.head.revision = writes.next_revision(self.head.revision);
        let WriteSet { records, homed, aux, log_entries, .. } = writes;
        for (key, value) in aux {
            match value {
                Some(value) => self.aux.insert(key, value),
                None => self.aux.remove(&key),
            };
        }
        for (key, record) in records {
            match record {
                Some(record) => self.records.insert(key, record.into()),
                None => self.records.remove(&key),
            };
        }
        for (prefix, is_homed) in homed {
            if is_homed {
                self.homed.insert(prefix)
            } else {
                self.homed.remove(&prefix)
            };
        }
        let (mut appended, mut content) = (Vec::with_capacity(log_entries.len()), Vec::new());
        if !log_entries.is_empty() {
            self.timestamp_ms = self.timestamp_ms.max(timestamp_ms);
        }
        for mut pending in log_entries {
            let prior = pending.take_prior_state();
            let mut entry =
                LogEntry::new(author, self.timestamp_ms, self.head.revision, pending.kind, pending.name);
            self.head.append(&mut entry, &mut content);
            appended.push((entry, prior));
        }
        appended
    }
}

impl StateView for MemoryState {
    type Registration = Box<[u8]>;

    fn record(&self, key: &NameKey, with_values: bool) -> Result<Option<SplitRecord<Box<[u8]>>>, StoreError> {
        Ok(self.records.get(key).map(|record| SplitRecord::copy_of(record, with_values)))
    }

    fn is_homed(&self, prefix: &NameKey) -> Result<bool, StoreError> {
        Ok(self.homed.contains(prefix))
    }

    fn aux(&self, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        Ok(self.aux.get(key).map(|value| &**value))
    }

    fn add_registration(&mut self, registration: Box<[u8]>, _log_index: usize) -> Box<[u8]> {
        registration
    }

    fn redact(
        &mut self,
        _redaction: &HistoryRedaction,
        _current: Option<&Box<[u8]>>,
        prior_registration: Box<[u8]>,
    ) -> Result<Box<[u8]>, StoreError> {
        Ok(prior_registration)
    }
}
