//! Applies a change set to a state view.

use std::collections::BTreeMap;

use crate::model::change_set::check_size;
use crate::model::history;
use crate::{
    AuxEntry, ChangeSet, CommitError, CurrentRecord, Edit, EditKind, NameKey, PriorState, RecordConflict,
    RecordStatus, StoredRecord,
};

/// Current state that a change set is applied to.
pub(crate) trait StateView {
    /// Current record of a name.
    fn record(&self, key: &NameKey) -> Option<&StoredRecord>;

    /// Whether a prefix is homed.
    fn is_homed(&self, prefix: &NameKey) -> bool;

    /// Current value of an aux entry.
    fn aux(&self, key: &[u8]) -> Option<&[u8]>;
}

/// Writes of a change set, computed before any of them is applied.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    pub(crate) records: BTreeMap<NameKey, Option<StoredRecord>>,
    pub(crate) homed: BTreeMap<NameKey, bool>,
    pub(crate) aux: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    pub(crate) log_entries: Vec<PendingLogEntry>,
}

/// Log entry to be appended, with the history entry that belongs to it.
#[derive(Debug)]
pub(crate) struct PendingLogEntry {
    pub(crate) kind: EditKind,
    pub(crate) name: Box<str>,
    /// Prior state of the record, if the edit changes one.
    pub(crate) prior: Option<(NameKey, PriorState)>,
}

impl WriteSet {
    /// Computes the writes of a change set that gets this revision. Each edit sees the effects of those before it.
    pub(crate) fn compute(
        state: &impl StateView,
        change: &ChangeSet,
        revision: u64,
    ) -> Result<Self, CommitError> {
        let mut write_set = Self::default();
        for (edit_index, edit) in change.edits.iter().enumerate() {
            if edit.is_aux() {
                write_set.apply_aux(state, edit, edit_index)?;
                continue;
            }
            let key =
                edit.name_key().map_err(|error| CommitError::InvalidName { edit: edit_index, error })?;
            match edit {
                Edit::Home { .. } | Edit::Unhome { .. } => write_set.apply_home(edit, key),
                Edit::RequireHomed { prefix, is_homed: expected } => {
                    let earlier = write_set.homed.get(&key).copied();
                    let is_homed = earlier.unwrap_or_else(|| state.is_homed(&key));
                    if is_homed != *expected {
                        return Err(CommitError::HomedConflict {
                            edit: edit_index,
                            prefix: prefix.clone(),
                            is_homed,
                        });
                    }
                }
                _ => write_set.apply_record(state, edit, edit_index, key, revision)?,
            }
        }
        Ok(write_set)
    }

    fn apply_home(&mut self, edit: &Edit, prefix: NameKey) {
        let is_homed = matches!(edit, Edit::Home { .. });
        self.homed.insert(prefix, is_homed);
        let kind = if is_homed { EditKind::Home } else { EditKind::Unhome };
        self.log_entries.push(PendingLogEntry { kind, name: edit.name().into(), prior: None });
    }

    fn apply_aux(
        &mut self,
        state: &impl StateView,
        edit: &Edit,
        edit_index: usize,
    ) -> Result<(), CommitError> {
        check_size(edit, edit_index)?;
        match edit {
            Edit::PutAux { key, value } if AuxEntry::is_valid_key(key) => {
                self.aux.insert(key.clone(), Some(value.clone()));
            }
            Edit::RemoveAux { key } if AuxEntry::is_valid_key(key) => {
                self.aux.insert(key.clone(), None);
            }
            Edit::RequireAux { key, value } if AuxEntry::is_valid_key(key) => {
                let current = self.aux.get(key).map_or_else(|| state.aux(key), Option::as_deref);
                if current != value.as_deref() {
                    return Err(CommitError::AuxConflict { edit: edit_index });
                }
            }
            _ => return Err(CommitError::InvalidAuxKey { edit: edit_index }),
        }
        Ok(())
    }

    fn apply_record(
        &mut self,
        state: &impl StateView,
        edit: &Edit,
        edit_index: usize,
        key: NameKey,
        revision: u64,
    ) -> Result<(), CommitError> {
        let current = self.records.get(&key).map_or_else(|| state.record(&key), Option::as_ref);
        if !edit.is_satisfied_by(current.map(|record| (record.revision, record.status))) {
            let current = current.map(|record| CurrentRecord {
                name: record.name.clone(),
                revision: record.revision,
                status: record.status,
            });
            return Err(RecordConflict { edit: edit_index, name: edit.name().into(), current }.into());
        }
        check_size(edit, edit_index)?;
        let name = current.map_or_else(|| edit.name().into(), |record| record.name.clone());
        let registration = || current.map(|record| record.registration.clone()).unwrap_or_default();
        let create_or_update = if current.is_some() { EditKind::Update } else { EditKind::Create };
        let (kind, put) = match edit {
            Edit::Put { values, .. } => {
                (create_or_update, Some((RecordStatus::Live, values.clone(), registration())))
            }
            Edit::Register { values, registration, .. } => {
                (create_or_update, Some((RecordStatus::Live, values.clone(), registration.clone())))
            }
            Edit::Tombstone { .. } => {
                let values = current.map(|record| record.values.clone()).unwrap_or_default();
                (EditKind::Tombstone, Some((RecordStatus::Tombstone, values, registration())))
            }
            Edit::Remove { .. } => (EditKind::Remove, None),
            // A precondition that holds writes nothing.
            _ => return Ok(()),
        };
        let prior = current.map_or(PriorState::Absent, |record| {
            PriorState::Record(history::redact_secrets(record).unwrap_or_else(|| record.clone()))
        });
        let record = put.map(|(status, values, registration)| StoredRecord {
            name: name.clone(),
            revision,
            status,
            values,
            registration,
        });
        self.log_entries.push(PendingLogEntry { kind, name, prior: Some((key.clone(), prior)) });
        self.records.insert(key, record);
        Ok(())
    }
}
