//! Applies a change set to a state view.

use std::collections::BTreeMap;

use crate::model::change_set::check_size;
use crate::model::history;
use crate::{
    ChangeSet, CommitError, Edit, EditKind, NameKey, PriorState, RecordConflict, RecordStatus, StoredRecord,
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
    pub(crate) notes: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    pub(crate) lines: Vec<PendingLogEntry>,
}

/// Log entry to be appended, with the history entry that belongs to it.
#[derive(Debug)]
pub(crate) struct PendingLogEntry {
    pub(crate) kind: EditKind,
    pub(crate) name: Box<str>,
    pub(crate) past: Option<(NameKey, PriorState)>,
}

impl WriteSet {
    /// Computes the writes of a change set that gets this revision. Each edit sees the effects of those before it.
    pub(crate) fn compute(
        there: &impl StateView,
        change: &ChangeSet,
        revision: u64,
    ) -> Result<Self, CommitError> {
        let mut prepared = Self::default();
        for (number, edit) in change.edits.iter().enumerate() {
            if edit.is_aux() {
                prepared.apply_aux(there, edit, number)?;
                continue;
            }
            let key = edit.name_key().map_err(|error| CommitError::Name { edit: number, error })?;
            match edit {
                Edit::Home { .. } | Edit::Unhome { .. } => prepared.apply_home(edit, key),
                Edit::RequireHomed { prefix, is_homed: expected } => {
                    let earlier = prepared.homed.get(&key).copied();
                    let is_homed = earlier.unwrap_or_else(|| there.is_homed(&key));
                    if is_homed != *expected {
                        return Err(CommitError::Homed { edit: number, prefix: prefix.clone(), is_homed });
                    }
                }
                _ => prepared.apply_record(there, edit, number, key, revision)?,
            }
        }
        Ok(prepared)
    }

    fn apply_home(&mut self, edit: &Edit, prefix: NameKey) {
        let is_homed = matches!(edit, Edit::Home { .. });
        self.homed.insert(prefix, is_homed);
        let kind = if is_homed { EditKind::Home } else { EditKind::Unhome };
        self.lines.push(PendingLogEntry { kind, name: edit.name().into(), past: None });
    }

    fn apply_aux(&mut self, there: &impl StateView, edit: &Edit, number: usize) -> Result<(), CommitError> {
        check_size(edit, number)?;
        match edit {
            Edit::PutNote { key, body } if NameKey::is_valid_key(key) => {
                self.notes.insert(key.clone(), Some(body.clone()));
            }
            Edit::RemoveNote { key } if NameKey::is_valid_key(key) => {
                self.notes.insert(key.clone(), None);
            }
            Edit::RequireNote { key, body } if NameKey::is_valid_key(key) => {
                let note = self.notes.get(key).map_or_else(|| there.aux(key), Option::as_deref);
                if note != body.as_deref() {
                    return Err(CommitError::Note { edit: number });
                }
            }
            _ => return Err(CommitError::Note { edit: number }),
        }
        Ok(())
    }

    fn apply_record(
        &mut self,
        there: &impl StateView,
        edit: &Edit,
        number: usize,
        key: NameKey,
        revision: u64,
    ) -> Result<(), CommitError> {
        let there = self.records.get(&key).map_or_else(|| there.record(&key), Option::as_ref);
        if !edit.is_satisfied_by(there.map(|entry| (entry.revision, entry.state))) {
            let there = there.map(|entry| (entry.name.clone(), entry.revision, entry.state));
            return Err(RecordConflict { edit: number, name: edit.name().into(), there }.into());
        }
        check_size(edit, number)?;
        let name = there.map_or_else(|| edit.name().into(), |entry| entry.name.clone());
        let known = || there.map(|entry| entry.registration.clone()).unwrap_or_default();
        let is_new = if there.is_some() { EditKind::Update } else { EditKind::Create };
        let (kind, put) = match edit {
            Edit::Put { values, .. } => (is_new, Some((RecordStatus::Live, values.clone(), known()))),
            Edit::Register { values, registration, .. } => {
                (is_new, Some((RecordStatus::Live, values.clone(), registration.clone())))
            }
            Edit::Tombstone { .. } => {
                let values = there.map(|entry| entry.values.clone()).unwrap_or_default();
                (EditKind::Tombstone, Some((RecordStatus::Tombstone, values, known())))
            }
            Edit::Remove { .. } => (EditKind::Remove, None),
            // A precondition that holds writes nothing.
            _ => return Ok(()),
        };
        let before = there.map_or(PriorState::Nothing, |entry| {
            PriorState::Record(history::redact_secrets(entry).unwrap_or_else(|| entry.clone()))
        });
        let entry = put.map(|(state, values, registration)| StoredRecord {
            name: name.clone(),
            revision,
            state,
            values,
            registration,
        });
        self.lines.push(PendingLogEntry { kind, name, past: Some((key.clone(), before)) });
        self.records.insert(key, entry);
        Ok(())
    }
}
