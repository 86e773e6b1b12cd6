//! Planning of a change set inside a write transaction.

use std::collections::BTreeMap;

use heed::RwTxn;

use super::format::record::{DiskRecord, RecordHeader};
use super::history;
use super::writer::WriterLoop;
use crate::model::change_set::check_size;
use crate::model::name_key;
use crate::{
    AuxEntry, ChangeSet, CommitError, CurrentRecord, Edit, EditKind, NameKey, RecordConflict, RecordStatus,
    StoreError, StoredRecord,
};

impl WriterLoop {
    /// Computes the writes of a change set, edit by edit, without writing.
    pub(crate) fn plan_changes(
        &self,
        txn: &RwTxn<'_>,
        change: &mut ChangeSet,
    ) -> Result<LmdbWriteSet, CommitError> {
        let revision = self.revision + 1;
        let mut write_set = LmdbWriteSet::default();
        let is_large = change.edits.len() > history::MAX_IMPLICIT_CREATIONS;
        for (edit_index, edit) in change.edits.iter_mut().enumerate() {
            if edit.is_aux() {
                self.plan_aux(txn, &mut write_set, edit, edit_index)?;
                continue;
            }
            let key =
                edit.name_key().map_err(|error| CommitError::InvalidName { edit: edit_index, error })?;
            let kind = match edit {
                Edit::RequireHomed { prefix, is_homed: expected } => {
                    let earlier = write_set.homed.get(&key).copied();
                    let is_homed =
                        earlier.map_or_else(|| self.lmdb.contains_homed(txn, key.as_bytes()), Ok)?;
                    if is_homed != *expected {
                        let prefix = std::mem::take(prefix);
                        return Err(CommitError::HomedConflict { edit: edit_index, prefix, is_homed });
                    }
                    continue;
                }
                Edit::Home { .. } | Edit::Unhome { .. } => {
                    let is_homed = matches!(edit, Edit::Home { .. });
                    write_set.homed.insert(key, is_homed);
                    let kind = if is_homed { EditKind::Home } else { EditKind::Unhome };
                    write_set.log_entries.push(PendingLmdbEntry {
                        kind,
                        name: take_name(edit),
                        replaced: None,
                    });
                    continue;
                }
                // `RequireRevision` falls through as an update, but writes nothing.
                Edit::Tombstone { .. } => EditKind::Tombstone,
                Edit::Remove { .. } => EditKind::Remove,
                _ => EditKind::Update,
            };
            let with_values = !matches!(edit, Edit::RequireRevision { .. });
            let earlier = write_set.records.get(&key);
            let is_first = earlier.is_none();
            let current = earlier.cloned().map_or_else(|| self.current_record(txn, &key, with_values), Ok)?;
            if !edit.is_satisfied_by(
                current.as_ref().map(|current| (current.record.revision, current.record.status)),
            ) {
                let current = current.map(|current| {
                    let StoredRecord { name, revision, status, .. } = current.record;
                    CurrentRecord { name, revision, status }
                });
                return Err(RecordConflict { edit: edit_index, name: edit.name().into(), current }.into());
            }
            if matches!(edit, Edit::RequireRevision { .. }) {
                continue;
            }
            let name =
                current.as_ref().map_or_else(|| take_name(edit), |current| current.record.name.clone());
            let kind = if kind == EditKind::Update && current.is_none() { EditKind::Create } else { kind };
            check_size(edit, edit_index)?;
            let registration_sequence = current.as_ref().and_then(|current| current.registration);
            let put = match edit {
                Edit::Put { values, .. } => {
                    Some((RecordStatus::Live, std::mem::take(values), registration_sequence))
                }
                Edit::Register { values, registration, .. } => {
                    let registration = std::mem::take(registration);
                    let values = std::mem::take(values);
                    Some((RecordStatus::Live, values, self.plan_registration(&mut write_set, registration)))
                }
                Edit::Tombstone { .. } => {
                    let values =
                        current.as_ref().map(|current| current.record.values.clone()).unwrap_or_default();
                    Some((RecordStatus::Tombstone, values, registration_sequence))
                }
                _ => None,
            };
            let record = put.map(|(status, values, registration)| {
                let (name, no_registration) = (name.clone(), Box::default());
                let record = StoredRecord { name, revision, status, values, registration: no_registration };
                DiskRecord { record, registration }
            });
            // A creation needs no history entry: it is found by the revision of the record, and most changes are creations.
            // Exceptions: the revision has several log entries of the name, or too many to scan.
            let needs_entry = kind != EditKind::Create || !is_first || is_large;
            let replaced = needs_entry.then(|| (key.clone(), current));
            write_set.records.insert(key, record);
            write_set.log_entries.push(PendingLmdbEntry { kind, name, replaced });
        }
        Ok(write_set)
    }

    fn plan_aux(
        &self,
        txn: &RwTxn<'_>,
        write_set: &mut LmdbWriteSet,
        edit: &mut Edit,
        edit_index: usize,
    ) -> Result<(), CommitError> {
        check_size(edit, edit_index)?;
        match edit {
            Edit::PutAux { key, value } if AuxEntry::is_valid_key(key) => {
                write_set.aux.insert(std::mem::take(key), Some(std::mem::take(value)));
            }
            Edit::RemoveAux { key } if AuxEntry::is_valid_key(key) => {
                write_set.aux.insert(std::mem::take(key), None);
            }
            Edit::RequireAux { key, value } if AuxEntry::is_valid_key(key) => {
                let earlier = write_set.aux.get(key).cloned();
                let current = earlier.map_or_else(|| self.lmdb.get_aux(txn, key), Ok)?;
                if current != *value {
                    return Err(CommitError::AuxConflict { edit: edit_index });
                }
            }
            _ => return Err(CommitError::InvalidAuxKey { edit: edit_index }),
        }
        Ok(())
    }

    /// Adds a registration; returns the log sequence number it is stored under, `None` if it is empty.
    fn plan_registration(&self, write_set: &mut LmdbWriteSet, registration: Box<[u8]>) -> Option<u64> {
        let sequence = self.sequence + 1 + write_set.log_entries.len() as u64;
        (!registration.is_empty()).then(|| {
            write_set.registrations.push((sequence, registration));
            sequence
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
            return self.lmdb.get_disk_record_in_write(txn, key);
        }
        let header = self.lmdb.record_header(txn, &name_key::storage_key(key))?;
        Ok(header.map(|header| {
            let RecordHeader { name, revision, status, registration, .. } = header;
            let record =
                StoredRecord { name, revision, status, values: Vec::new(), registration: Box::default() };
            DiskRecord { record, registration }
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
    pub(crate) aux: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    pub(crate) log_entries: Vec<PendingLmdbEntry>,
}

impl LmdbWriteSet {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.log_entries.is_empty() && self.aux.is_empty()
    }
}

/// Log entry to be appended, with the replaced record if the history needs it.
#[derive(Debug)]
pub(crate) struct PendingLmdbEntry {
    pub(crate) kind: EditKind,
    pub(crate) name: Box<str>,
    pub(crate) replaced: Option<(NameKey, Option<DiskRecord>)>,
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
