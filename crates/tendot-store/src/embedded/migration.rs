//! Embedded store as migration source and target.

use std::path::Path;
use std::sync::Arc;

use heed::RwTxn;

use super::error::store_error;
use super::format::dictionary::Interner;
use super::format::{checksum, log_entry, record};
use super::lmdb::META_ITEM;
use super::scrub::Scrub;
use super::{EmbeddedStore, Lmdb, OpenError, backend_error, history};
use crate::migration::batch::{
    AuxChange, MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MigratedHistoryEntry, MigratedRecord, MigrationBatch,
    history_memory_size, record_memory_size,
};
use crate::migration::traits::{HistoryBatch, HistoryPosition, MigrationSource, MigrationTarget};
use crate::migration::{Checkpoint, MigrationError};
use crate::model::name_key;
use crate::{
    EditKind, HistoryEntry, HistoryOrder, NameKey, PriorState, StoreError, StoredRecord, fail_point,
};

/// Key in `meta` of the migration checkpoint.
pub(crate) const CHECKPOINT_META_KEY: &[u8] = b"migration";

/// Decodes a checkpoint and the id of the LMDB transaction that wrote it.
pub(crate) fn decode_checkpoint(body: &[u8]) -> Option<(u64, Checkpoint)> {
    let (transaction, checkpoint) = body.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*transaction), Checkpoint::decode(checkpoint)?))
}

impl MigrationSource for EmbeddedStore {
    async fn read_records(&self, names: &[NameKey]) -> Result<Vec<Option<StoredRecord>>, StoreError> {
        self.read_with_fallback(|lmdb| {
            let (txn, mut records, mut size) = (lmdb.begin_read()?, Vec::new(), 0);
            for name in names {
                let record = lmdb.get_record(&txn, name)?;
                size += record.as_ref().map_or(0, record_memory_size);
                records.push(record);
                if size >= MAX_BATCH_BYTES {
                    break;
                }
            }
            Ok(records)
        })
    }

    async fn read_histories(
        &self,
        names: &[NameKey],
        at: HistoryPosition,
    ) -> Result<HistoryBatch, StoreError> {
        self.read_with_fallback(|lmdb| {
            let (txn, mut entries, mut size) = (lmdb.begin_read()?, Vec::new(), 0);
            let HistoryPosition { name: first, mut after, base } = at;
            for (index, name) in names.iter().enumerate().skip(first) {
                let history =
                    lmdb.history_in_txn(&txn, name, HistoryOrder::OldestFirst { after }, MAX_BATCH_ITEMS)?;
                after = base;
                size += history.entries.iter().map(history_memory_size).sum::<usize>();
                entries.extend(history.entries.into_iter().map(|history_entry| (index, history_entry)));
                let next = match history.next {
                    Some(after) => Some(HistoryPosition { name: index, after, base }),
                    None if size >= MAX_BATCH_BYTES || entries.len() >= MAX_BATCH_ITEMS => {
                        Some(HistoryPosition::start_of(index + 1, base))
                    }
                    None => None,
                };
                if next.is_some() {
                    return Ok(HistoryBatch { entries, next });
                }
            }
            Ok(HistoryBatch { entries, next: None })
        })
    }
}

/// Embedded store opened as a migration target; locked while this value lives.
#[derive(Debug)]
pub struct EmbeddedTarget {
    store: EmbeddedStore,
    interner: Interner,
}

impl EmbeddedStore {
    /// Opens the store in a directory as a target of [`migrate`](crate::migrate); creates it if missing.
    pub fn open_target(directory: &Path) -> Result<EmbeddedTarget, OpenError> {
        let (lmdb, lock) = Lmdb::open_allowing_incomplete(directory)?;
        // Aux entries are written directly.
        lmdb.merge_buffered().map_err(store_error(directory))?;
        let interner = Interner::open(&lmdb).map_err(store_error(directory))?;
        Ok(EmbeddedTarget {
            store: Self { scrub: Scrub::default(), lmdb, writer: None, _lock: Some(lock) },
            interner,
        })
    }
}

impl MigrationTarget for EmbeddedTarget {
    type Store = EmbeddedStore;

    fn store(&self) -> &EmbeddedStore {
        &self.store
    }

    async fn checkpoint(&self) -> Result<Option<(Checkpoint, bool)>, StoreError> {
        let lmdb = &self.store.lmdb;
        let txn = lmdb.begin_read()?;
        let Some((transaction, checkpoint)) = lmdb.checkpoint(&txn)? else { return Ok(None) };
        Ok(Some((checkpoint, lmdb.read_transaction_id(&txn)? == transaction)))
    }

    async fn write_batch(
        &mut self,
        batch: &MigrationBatch,
        checkpoint: &Checkpoint,
    ) -> Result<(), MigrationError> {
        let lmdb = Arc::clone(&self.store.lmdb);
        let written = MigrationWriter { lmdb: &lmdb, interner: &mut self.interner }.write(batch, checkpoint);
        match written {
            Ok(()) => self.interner.commit(),
            Err(_) => self.interner.rollback(),
        }
        written.map_err(MigrationError::Target)
    }
}

impl Lmdb {
    /// Rejects the target of an incomplete migration.
    pub(crate) fn check_migration_complete(&self, directory: &Path) -> Result<(), OpenError> {
        let checkpoint = self.begin_read().and_then(|txn| self.checkpoint(&txn));
        match checkpoint.map_err(store_error(directory))? {
            Some((_, checkpoint)) if !checkpoint.is_complete() => {
                Err(OpenError::IncompleteMigration { directory: directory.into() })
            }
            _ => Ok(()),
        }
    }

    fn write_checkpoint(&self, txn: &mut RwTxn<'_>, checkpoint: &Checkpoint) -> Result<(), heed::Error> {
        let value = [&(txn.id() as u64).to_le_bytes()[..], &checkpoint.encode()].concat();
        self.write_meta(txn, CHECKPOINT_META_KEY, &value)
    }

    /// Reads the migration checkpoint, if there is one, and the id of the transaction that wrote it.
    fn checkpoint(&self, txn: &heed::RoTxn<'_>) -> Result<Option<(u64, Checkpoint)>, StoreError> {
        let Some(body) = self.read_meta(txn, CHECKPOINT_META_KEY)? else { return Ok(None) };
        let corrupt = || checksum::corrupt(CHECKPOINT_META_KEY, META_ITEM, "cannot be decoded");
        decode_checkpoint(body).map(Some).ok_or_else(corrupt)
    }
}

/// Writes one migration batch in one LMDB transaction.
struct MigrationWriter<'a> {
    lmdb: &'a Lmdb,
    interner: &'a mut Interner,
}

impl MigrationWriter<'_> {
    fn write(&mut self, batch: &MigrationBatch, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let lmdb = self.lmdb;
        let write_error = |error| backend_error("writing a migration batch", error);
        fail_point::hit("migrate-before-txn");
        if checkpoint.is_complete() {
            // The previous checkpoint again, with the number of the transaction: this is not a change by others.
            let current = lmdb.checkpoint(&*lmdb.begin_read()?)?;
            lmdb.recompute_name_hashes(&mut |txn| {
                current.as_ref().map_or(Ok(()), |(_, current)| lmdb.write_checkpoint(txn, current))
            })?;
        }
        let mut txn = lmdb.env.write_txn().map_err(write_error)?;
        let mut head = lmdb.read_head(&txn)?;
        let mut value = Vec::new();
        for log_entry in &batch.log_entries {
            if log_entry.sequence > head.sequence {
                value.clear();
                log_entry.encode_content(&mut value);
                log_entry::append(lmdb, &mut txn, log_entry, &mut value).map_err(write_error)?;
                head.advance_to(log_entry);
            }
        }
        for history_entry in &batch.history {
            self.write_history(&mut txn, history_entry)?;
        }
        for (key, migrated) in &batch.records {
            self.write_record(&mut txn, key, migrated.as_ref())?;
        }
        for (prefix, is_homed) in &batch.homed {
            lmdb.write_homed(&mut txn, prefix, *is_homed).map_err(write_error)?;
        }
        if !checkpoint.is_complete() {
            // Written at the end, in their order; until then they would contradict the records.
            lmdb.databases.name_hashes.clear(&mut txn).map_err(write_error)?;
        }
        for AuxChange { key, value } in &batch.aux {
            lmdb.write_aux(&mut txn, key, value.as_deref()).map_err(write_error)?;
        }
        self.interner.write_new(&lmdb.databases, &mut txn).map_err(write_error)?;
        lmdb.write_head(&mut txn, &head).map_err(write_error)?;
        lmdb.write_checkpoint(&mut txn, checkpoint).map_err(write_error)?;
        fail_point::hit("migrate-before-commit");
        lmdb.commit(txn).map_err(write_error)?;
        fail_point::hit("migrate-after-commit");
        Ok(())
    }

    fn write_history(
        &mut self,
        txn: &mut RwTxn<'_>,
        migrated: &MigratedHistoryEntry,
    ) -> Result<(), StoreError> {
        let storage_key = name_key::storage_key(&migrated.key);
        let HistoryEntry { log_entry, prior } = &migrated.history_entry;
        let replaced = match prior {
            PriorState::Absent if self.is_implicit_creation(txn, migrated)? => return Ok(()),
            PriorState::Absent => Vec::new(),
            PriorState::Record(record) => {
                self.encode_with_registration(txn, &storage_key, record, migrated.registration_sequence)?
            }
        };
        let written = history::write_entry(self.lmdb, txn, &storage_key, log_entry.sequence, &replaced);
        written.map_err(|error| backend_error("writing the history", error))
    }

    /// Whether a creation needs no history entry: see `history.rs`.
    fn is_implicit_creation(
        &self,
        txn: &RwTxn<'_>,
        migrated: &MigratedHistoryEntry,
    ) -> Result<bool, StoreError> {
        let log_entry = &migrated.history_entry.log_entry;
        if log_entry.kind != EditKind::Create {
            return Ok(true);
        }
        // Not if it would have to be searched in the log of a large change set.
        let later = log_entry.sequence.saturating_add(history::MAX_IMPLICIT_CREATIONS as u64);
        let later = self.lmdb.log_entry(txn, later)?;
        Ok(migrated.is_first && later.is_none_or(|later| later.revision != log_entry.revision))
    }

    fn write_record(
        &mut self,
        txn: &mut RwTxn<'_>,
        key: &NameKey,
        migrated: Option<&MigratedRecord>,
    ) -> Result<(), StoreError> {
        let storage_key = name_key::storage_key(key);
        let write_error = |error| backend_error("writing a record", error);
        let Some(MigratedRecord { record, registration_sequence }) = migrated else {
            return self.lmdb.delete_record(txn, &storage_key).map_err(write_error);
        };
        let mut value = self.encode_with_registration(txn, &storage_key, record, *registration_sequence)?;
        checksum::append(&storage_key, &mut value);
        self.lmdb.put_record(txn, &storage_key, &value).map_err(write_error)
    }

    /// Encodes a record without checksum, and writes its registration.
    fn encode_with_registration(
        &mut self,
        txn: &mut RwTxn<'_>,
        storage_key: &[u8],
        record: &StoredRecord,
        registration_sequence: Option<u64>,
    ) -> Result<Vec<u8>, StoreError> {
        if !record.registration.is_empty() {
            let unknown =
                || checksum::corrupt(storage_key, "record", "no log entry introduces its registration");
            let key = registration_sequence.ok_or_else(unknown)?.to_be_bytes();
            let value = checksum::with_checksum(&key, &record.registration);
            let written = self.lmdb.databases.registrations.put(txn, &key, &value);
            written.map_err(|error| backend_error("writing a registration", error))?;
        }
        let StoredRecord { name, revision, status, values, .. } = record;
        let is_hashed_key = name_key::is_hashed_key(storage_key);
        Ok(record::encode_values(
            name,
            *revision,
            *status,
            values,
            registration_sequence,
            is_hashed_key,
            self.interner,
        ))
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_testing::ram_dir;

    use super::*;
    use crate::embedded::lmdb::TRANSACTION_META_KEY;

    /// A missing or invalid transaction id is corruption, not a change by others.
    #[test]
    fn invalid_transaction_id_is_corrupt() {
        let directory = ram_dir();
        let mut target = EmbeddedStore::open_target(directory.path()).unwrap();
        let checkpoint = Checkpoint::decode(b"1 0 0 catching-up 0 ").unwrap();
        block_on(target.write_batch(&MigrationBatch::default(), &checkpoint)).unwrap();
        assert_eq!(block_on(target.checkpoint()).unwrap(), Some((checkpoint, true)));
        let lmdb = Arc::clone(&target.store.lmdb);
        for fault in ["wrong length", "missing"] {
            let mut txn = lmdb.env.write_txn().unwrap();
            if fault == "missing" {
                assert!(lmdb.databases.meta.delete(&mut txn, TRANSACTION_META_KEY).unwrap());
            } else {
                lmdb.write_meta(&mut txn, TRANSACTION_META_KEY, &[0; 7]).unwrap();
            }
            // Not by `Lmdb::commit`, which would write the id.
            txn.commit().unwrap();
            let error = block_on(target.checkpoint()).unwrap_err();
            assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
            assert!(error.to_string().ends_with(fault), "{error}");
        }
    }
}
