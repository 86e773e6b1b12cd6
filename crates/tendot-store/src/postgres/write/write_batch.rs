//! State and writes of one transaction.

use std::collections::{BTreeSet, HashSet};

use crate::apply::{HistoryRedaction, WriteSet};
use crate::memory_state::{AppendedEntry, MemoryState};
use crate::{ChangeSet, CommitError, CommitInfo, Edit, NameKey};

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
                Edit::RequireAux { key, .. } | Edit::AdjustCounter { key, .. } => {
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
    pub(crate) state: MemoryState,
    /// Latest time of a new log entry.
    pub(crate) max_timestamp_ms: u64,
    pub(crate) changed_records: BTreeSet<NameKey>,
    pub(crate) changed_homed: BTreeSet<NameKey>,
    pub(crate) changed_aux: BTreeSet<Box<[u8]>>,
    pub(crate) log_entries: Vec<AppendedEntry>,
    pub(crate) redactions: Vec<HistoryRedaction>,
}

impl WriteBatch {
    /// Applies a change set atomically.
    pub(crate) fn apply_change_set(&mut self, change: &ChangeSet) -> Result<CommitInfo, CommitError> {
        let ChangeSet { author, timestamp_ms, edits } = change;
        let revision = self.state.head.revision + 1;
        let mut writes = WriteSet::compute(&mut self.state, edits.clone(), revision)?;
        self.redactions.append(&mut writes.redactions);
        self.changed_records.extend(writes.records.keys().cloned());
        self.changed_homed.extend(writes.homed.keys().cloned());
        self.changed_aux.extend(writes.aux.keys().cloned());
        self.log_entries.extend(self.state.apply(author, (*timestamp_ms).min(self.max_timestamp_ms), writes));
        Ok(CommitInfo { revision: self.state.head.revision })
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.log_entries.is_empty() && self.changed_aux.is_empty()
    }
}
