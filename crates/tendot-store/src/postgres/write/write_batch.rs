//! State and writes of one transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::apply::{SplitRecord, StateView, WriteSet};
use crate::{
    ChangeSet, CommitError, CommitInfo, Edit, LogEntry, NameKey, PriorState, StoreError, StoreHead,
    StoredRecord,
};

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
    pub(crate) head: StoreHead,
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
        let ChangeSet { author, timestamp_ms, edits } = change;
        let revision = self.head.revision + 1;
        let WriteSet { records, homed, aux, log_entries } = WriteSet::compute(self, edits.clone(), revision)?;
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
                Some(record) => self.records.insert(key, record.into()),
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
        let mut content = Vec::new();
        // A change set of aux edits only gets no revision.
        self.head.revision += u64::from(!log_entries.is_empty());
        for mut pending in log_entries {
            let prior = pending.take_prior_state();
            let mut entry = LogEntry::new(author, *timestamp_ms, revision, pending.kind, pending.name);
            self.head.append(&mut entry, &mut content);
            self.log_entries.push((entry, prior));
        }
        Ok(CommitInfo { revision: self.head.revision })
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.log_entries.is_empty() && self.changed_aux.is_empty()
    }
}

impl StateView for WriteBatch {
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
}
