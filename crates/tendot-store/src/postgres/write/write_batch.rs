//! State and writes of one transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::apply::{PendingLogEntry, StateView, WriteSet};
use crate::{ChangeSet, CommitError, CommitInfo, Edit, LogEntry, NameKey, PriorState, StoredRecord};

/// Keys to read before change sets are applied.
#[derive(Debug, Default)]
pub(crate) struct PrefetchKeys {
    pub(crate) records: HashSet<NameKey>,
    pub(crate) prefixes: HashSet<NameKey>,
    pub(crate) aux: HashSet<Box<[u8]>>,
}

impl PrefetchKeys {
    pub(crate) fn of<'c>(changes: impl IntoIterator<Item = &'c ChangeSet>) -> Self {
        let mut keys = Self::default();
        for edit in changes.into_iter().flat_map(|change| &change.edits) {
            match edit {
                Edit::RequireAux { key, .. } => {
                    keys.aux.insert(key.clone());
                }
                Edit::PutAux { .. } | Edit::RemoveAux { .. } | Edit::Home { .. } | Edit::Unhome { .. } => {}
                // Invalid names are rejected later, with the index of the edit.
                Edit::RequireHomed { .. } => keys.prefixes.extend(edit.name_key()),
                _ => keys.records.extend(edit.name_key()),
            }
        }
        keys
    }
}

/// State read for a group of change sets, and the writes they produce.
#[derive(Debug, Default)]
pub(crate) struct WriteBatch {
    pub(crate) revision: u64,
    pub(crate) sequence: u64,
    pub(crate) records: HashMap<NameKey, StoredRecord>,
    pub(crate) homed: HashSet<NameKey>,
    pub(crate) aux: BTreeMap<Box<[u8]>, Box<[u8]>>,
    pub(crate) changed_records: BTreeSet<NameKey>,
    pub(crate) changed_homed: BTreeSet<NameKey>,
    pub(crate) changed_aux: BTreeSet<Box<[u8]>>,
    pub(crate) log_entries: Vec<(LogEntry, Option<(NameKey, PriorState)>)>,
}

impl WriteBatch {
    /// Applies a change set atomically.
    pub(crate) fn apply_change_set(&mut self, change: &ChangeSet) -> Result<CommitInfo, CommitError> {
        let revision = self.revision + 1;
        let WriteSet { records, homed, aux, log_entries } = WriteSet::compute(self, change, revision)?;
        for (key, value) in aux {
            self.changed_aux.insert(key.clone());
            match value {
                Some(value) => self.aux.insert(key, value),
                None => self.aux.remove(&key),
            };
        }
        for (key, record) in records {
            self.changed_records.insert(key.clone());
            match record {
                Some(record) => self.records.insert(key, record),
                None => self.records.remove(&key),
            };
        }
        for (prefix, is_homed) in homed {
            self.changed_homed.insert(prefix.clone());
            if is_homed {
                self.homed.insert(prefix);
            } else {
                self.homed.remove(&prefix);
            }
        }
        // A change set of aux edits only gets no revision.
        self.revision += u64::from(!log_entries.is_empty());
        for PendingLogEntry { kind, name, prior } in log_entries {
            self.sequence += 1;
            let (sequence, timestamp_ms, author) =
                (self.sequence, change.timestamp_ms, change.author.clone());
            let log_entry =
                LogEntry { sequence, revision, timestamp_ms, author, kind, name, record_count: 1 };
            self.log_entries.push((log_entry, prior));
        }
        Ok(CommitInfo { revision: self.revision })
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.log_entries.is_empty() && self.changed_aux.is_empty()
    }
}

impl StateView for WriteBatch {
    fn record(&self, key: &NameKey) -> Option<&StoredRecord> {
        self.records.get(key)
    }

    fn is_homed(&self, prefix: &NameKey) -> bool {
        self.homed.contains(prefix)
    }

    fn aux(&self, key: &[u8]) -> Option<&[u8]> {
        self.aux.get(key).map(|value| &**value)
    }
}
