//! Planning of a change set inside a write transaction.

use std::collections::BTreeMap;

use heed::RwTxn;

use super::format::record::{DiskRecord, RecordHeader};
use super::history;
use super::writer::WriterLoop;
use crate::model::change_set::check_size;
use crate::model::name_key;
use crate::{
    ChangeSet, CommitError, Edit, EditKind, NameKey, RecordConflict, RecordStatus, StoreError, StoredRecord,
};

impl WriterLoop {
    /// Computes the writes of a change set, edit by edit, without writing.
    pub(crate) fn plan_changes(
        &self,
        txn: &RwTxn<'_>,
        change: &mut ChangeSet,
    ) -> Result<LmdbWriteSet, CommitError> {
        let revision = self.revision + 1;
        let mut prepared = LmdbWriteSet::default();
        let is_large = change.edits.len() > history::LINES;
        for (number, edit) in change.edits.iter_mut().enumerate() {
            if edit.is_aux() {
                self.plan_aux(txn, &mut prepared, edit, number)?;
                continue;
            }
            let key = edit.name_key().map_err(|error| CommitError::Name { edit: number, error })?;
            let kind = match edit {
                Edit::RequireHomed { prefix, is_homed: expected } => {
                    let prepared = prepared.homed.get(&key).copied();
                    let is_homed =
                        prepared.map_or_else(|| self.tables.contains_homed(txn, key.as_bytes()), Ok)?;
                    if is_homed != *expected {
                        let prefix = std::mem::take(prefix);
                        return Err(CommitError::Homed { edit: number, prefix, is_homed });
                    }
                    continue;
                }
                Edit::Home { .. } | Edit::Unhome { .. } => {
                    let is_homed = matches!(edit, Edit::Home { .. });
                    prepared.homed.insert(key, is_homed);
                    let kind = if is_homed { EditKind::Home } else { EditKind::Unhome };
                    prepared.lines.push(PendingLmdbEntry { kind, name: take_name(edit), old: None });
                    continue;
                }
                // `Require` falls through as an update, but writes nothing.
                Edit::Tombstone { .. } => EditKind::Tombstone,
                Edit::Remove { .. } => EditKind::Remove,
                _ => EditKind::Update,
            };
            let with_values = !matches!(edit, Edit::Require { .. });
            let earlier = prepared.records.get(&key);
            let is_first = earlier.is_none();
            let there = earlier.cloned().map_or_else(|| self.current_record(txn, &key, with_values), Ok)?;
            if !edit.is_satisfied_by(there.as_ref().map(|there| (there.entry.revision, there.entry.state))) {
                let there = there.map(|there| (there.entry.name, there.entry.revision, there.entry.state));
                return Err(RecordConflict { edit: number, name: edit.name().into(), there }.into());
            }
            if matches!(edit, Edit::Require { .. }) {
                continue;
            }
            let name = there.as_ref().map_or_else(|| take_name(edit), |there| there.entry.name.clone());
            let kind = if kind == EditKind::Update && there.is_none() { EditKind::Create } else { kind };
            check_size(edit, number)?;
            let known = there.as_ref().and_then(|there| there.registration);
            let put = match edit {
                Edit::Put { values, .. } => Some((RecordStatus::Live, std::mem::take(values), known)),
                Edit::Register { values, registration, .. } => {
                    let registration = std::mem::take(registration);
                    let values = std::mem::take(values);
                    Some((RecordStatus::Live, values, self.plan_registration(&mut prepared, registration)))
                }
                Edit::Tombstone { .. } => {
                    let values = there.as_ref().map(|there| there.entry.values.clone()).unwrap_or_default();
                    Some((RecordStatus::Tombstone, values, known))
                }
                _ => None,
            };
            let record = put.map(|(state, values, registration)| {
                let entry = StoredRecord {
                    name: name.clone(),
                    revision,
                    state,
                    values,
                    registration: Box::default(),
                };
                DiskRecord { entry, registration }
            });
            // A creation needs no history entry: it is found by the revision of the record, and most deposits are creations.
            // Exceptions: the revision has several log entries of the name, or too many to scan.
            let needs_entry = kind != EditKind::Create || !is_first || is_large;
            let old = needs_entry.then(|| (key.clone(), there));
            prepared.records.insert(key, record);
            prepared.lines.push(PendingLmdbEntry { kind, name, old });
        }
        Ok(prepared)
    }

    fn plan_aux(
        &self,
        txn: &RwTxn<'_>,
        prepared: &mut LmdbWriteSet,
        edit: &mut Edit,
        number: usize,
    ) -> Result<(), CommitError> {
        check_size(edit, number)?;
        match edit {
            Edit::PutNote { key, body } if NameKey::is_valid_key(key) => {
                prepared.notes.insert(std::mem::take(key), Some(std::mem::take(body)));
            }
            Edit::RemoveNote { key } if NameKey::is_valid_key(key) => {
                prepared.notes.insert(std::mem::take(key), None);
            }
            Edit::RequireNote { key, body } if NameKey::is_valid_key(key) => {
                let prepared = prepared.notes.get(key).cloned();
                let there = prepared.map_or_else(|| self.tables.get_aux(txn, key), Ok)?;
                if there != *body {
                    return Err(CommitError::Note { edit: number });
                }
            }
            _ => return Err(CommitError::Note { edit: number }),
        }
        Ok(())
    }

    /// Adds a registration; returns the log sequence number it is stored under, `None` if it is empty.
    fn plan_registration(&self, prepared: &mut LmdbWriteSet, registration: Box<[u8]>) -> Option<u64> {
        let number = self.sequence + 1 + prepared.lines.len() as u64;
        (!registration.is_empty()).then(|| {
            prepared.registrations.push((number, registration));
            number
        })
    }

    /// Reads the current record of a name, optionally without values.
    fn current_record(
        &self,
        txn: &RwTxn<'_>,
        key: &NameKey,
        with_values: bool,
    ) -> Result<Option<DiskRecord>, StoreError> {
        if with_values {
            return self.tables.get_disk_record_in_write(txn, key);
        }
        let head = self.tables.record_header(txn, &name_key::storage_key(key))?;
        Ok(head.map(|head| {
            let RecordHeader { name, decode_revision: revision, state, registration, .. } = head;
            let entry =
                StoredRecord { name, revision, state, values: Vec::new(), registration: Box::default() };
            DiskRecord { entry, registration }
        }))
    }
}

/// Writes of a change set, before they are put into LMDB.
#[derive(Debug, Default)]
pub(crate) struct LmdbWriteSet {
    pub(crate) records: BTreeMap<NameKey, Option<DiskRecord>>,
    /// Registrations by log sequence number.
    pub(crate) registrations: Vec<(u64, Box<[u8]>)>,
    pub(crate) homed: BTreeMap<NameKey, bool>,
    pub(crate) notes: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    pub(crate) lines: Vec<PendingLmdbEntry>,
}

impl LmdbWriteSet {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.notes.is_empty()
    }
}

/// Log entry to be appended, with the replaced record if the history needs it.
#[derive(Debug)]
pub(crate) struct PendingLmdbEntry {
    pub(crate) kind: EditKind,
    pub(crate) name: Box<str>,
    pub(crate) old: Option<(NameKey, Option<DiskRecord>)>,
}

/// Moves the name out of an edit.
fn take_name(edit: &mut Edit) -> Box<str> {
    match edit {
        Edit::Put { name, .. }
        | Edit::Register { name, .. }
        | Edit::Tombstone { name, .. }
        | Edit::Remove { name, .. }
        | Edit::Home { prefix: name }
        | Edit::Unhome { prefix: name } => std::mem::take(name),
        _ => edit.name().into(),
    }
}
