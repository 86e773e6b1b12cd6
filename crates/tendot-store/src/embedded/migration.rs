//! Embedded store as migration source and target.

use std::path::Path;
use std::sync::Arc;

use heed::RwTxn;

use super::format::dictionary::Interner;
use super::format::{checksum, log_entry, record};
use super::{EmbeddedStore, Lmdb, OpenError, backend_error, history};
use crate::migration::batch::{
    MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MigratedHistoryEntry, MigratedRecord, MigrationBatch,
    history_memory_size, record_memory_size,
};
use crate::migration::traits::{HistoryBatch, HistoryPosition, MigrationSource, MigrationTarget};
use crate::migration::{Checkpoint, MigrationError};
use crate::model::name_key;
use crate::store::StoreHead;
use crate::{EditKind, HistoryOrder, NameKey, PriorState, StoreError, StoredRecord, fail_point};

/// Key in `meta` of the migration checkpoint.
pub(crate) const CHECKPOINT_META_KEY: &[u8] = b"moving";

/// Decodes the LMDB transaction id that wrote the checkpoint, and the checkpoint.
pub(crate) fn decode_checkpoint(body: &[u8]) -> Option<(u64, Checkpoint)> {
    let (number, checkpoint) = body.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*number), Checkpoint::decode(checkpoint)?))
}

impl MigrationSource for EmbeddedStore {
    async fn head(&self) -> Result<StoreHead, StoreError> {
        self.read_with_fallback(|lmdb| {
            let txn = lmdb.begin_read()?;
            let (revision, sequence) =
                (lmdb.read_counter(&txn, b"revision")?, lmdb.read_counter(&txn, b"sequence")?);
            Ok(StoreHead { revision, sequence })
        })
    }

    async fn read_records(&self, names: &[NameKey]) -> Result<Vec<Option<StoredRecord>>, StoreError> {
        self.read_with_fallback(|lmdb| {
            let (txn, mut entries, mut size) = (lmdb.begin_read()?, Vec::new(), 0);
            for name in names {
                let entry = lmdb.get_record(&txn, name)?;
                size += entry.as_ref().map_or(0, record_memory_size);
                entries.push(entry);
                if size >= MAX_BATCH_BYTES {
                    break;
                }
            }
            Ok(entries)
        })
    }

    async fn read_histories(
        &self,
        names: &[NameKey],
        at: HistoryPosition,
    ) -> Result<HistoryBatch, StoreError> {
        self.read_with_fallback(|lmdb| {
            let (txn, mut entries, mut size) = (lmdb.begin_read()?, Vec::new(), 0);
            let (first, mut after) = at;
            for (number, name) in names.iter().enumerate().skip(first) {
                let history =
                    lmdb.history_in_txn(&txn, name, HistoryOrder::OldestFirst { after }, MAX_BATCH_ITEMS)?;
                after = 0;
                size += history.items.iter().map(history_memory_size).sum::<usize>();
                entries.extend(history.items.into_iter().map(|history_entry| (number, history_entry)));
                if let Some(next) = history.next {
                    return Ok((entries, Some((number, next))));
                }
                if size >= MAX_BATCH_BYTES || entries.len() >= MAX_BATCH_ITEMS {
                    return Ok((entries, Some((number + 1, 0))));
                }
            }
            Ok((entries, None))
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
        let store = |error| OpenError::Store { directory: directory.into(), error };
        let txn = lmdb.begin_read().map_err(store)?;
        let interner = Interner::load(&lmdb.databases, &txn).map_err(store)?;
        drop(txn);
        Ok(EmbeddedTarget { store: Self { lmdb, writer: None, _lock: Some(lock) }, interner })
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
        let Some((number, checkpoint)) = lmdb.checkpoint(&txn)? else { return Ok(None) };
        let last = lmdb.read_counter(&txn, b"transaction")?;
        Ok(Some((checkpoint, number == last)))
    }

    async fn write_batch(
        &mut self,
        batch: &MigrationBatch,
        checkpoint: &Checkpoint,
    ) -> Result<(), MigrationError> {
        let lmdb = Arc::clone(&self.store.lmdb);
        let migrated = MigrationWriter { lmdb: &lmdb, interner: &mut self.interner }.write(batch, checkpoint);
        match migrated {
            Ok(()) => self.interner.commit(),
            Err(_) => self.interner.rollback(),
        }
        migrated.map_err(MigrationError::Target)
    }
}

impl Lmdb {
    /// Rejects the target of an incomplete migration.
    pub(crate) fn check_migration_complete(&self, directory: &Path) -> Result<(), OpenError> {
        let checkpoint = self.begin_read().and_then(|txn| self.checkpoint(&txn));
        let checkpoint =
            checkpoint.map_err(|error| OpenError::Store { directory: directory.into(), error })?;
        match checkpoint {
            Some((_, checkpoint)) if !checkpoint.is_complete() => {
                Err(OpenError::Unfinished { directory: directory.into() })
            }
            _ => Ok(()),
        }
    }

    /// Reads the migration checkpoint, if there is one, and the id of the transaction that wrote it.
    fn checkpoint(&self, txn: &heed::RoTxn<'_>) -> Result<Option<(u64, Checkpoint)>, StoreError> {
        let found = self
            .databases
            .meta
            .get(txn, CHECKPOINT_META_KEY)
            .map_err(|error| backend_error("reading settings", error))?;
        let Some(value) = found else { return Ok(None) };
        let checkpoint =
            decode_checkpoint(checksum::verify_and_strip(CHECKPOINT_META_KEY, value, "setting")?);
        checkpoint
            .map(Some)
            .ok_or_else(|| checksum::corrupt(CHECKPOINT_META_KEY, "setting", "it is not understood"))
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
        let doing = "writing what is moved";
        let writing = |error| backend_error(doing, error);
        fail_point::hit("move: before a transaction");
        let mut txn = lmdb.env.write_txn().map_err(writing)?;
        let mut sequence = lmdb.read_counter(&txn, b"sequence")?;
        let mut revision = lmdb.read_counter(&txn, b"revision")?;
        for line in batch.log_entries.iter().filter(|line| line.sequence > sequence) {
            log_entry::append(lmdb, &mut txn, line).map_err(writing)?;
        }
        if let Some(last) = batch.log_entries.last() {
            (sequence, revision) = (sequence.max(last.sequence), revision.max(last.revision));
        }
        for history_entry in &batch.history {
            self.write_history(&mut txn, history_entry)?;
        }
        for (key, migrated) in &batch.records {
            self.write_record(&mut txn, key, migrated.as_ref())?;
        }
        let databases = lmdb.databases;
        for (prefix, is_homed) in &batch.homed {
            if *is_homed {
                let mut value = Vec::new();
                checksum::append(prefix.as_bytes(), &mut value);
                databases.homed.put(&mut txn, prefix.as_bytes(), &value).map_err(writing)?;
            } else {
                databases.homed.delete(&mut txn, prefix.as_bytes()).map_err(writing)?;
            }
        }
        for (key, body) in &batch.aux {
            // Only read-only stores of earlier versions lack it.
            let Some(notes) = databases.aux else { continue };
            if let Some(body) = body {
                let mut value = body.to_vec();
                checksum::append(key, &mut value);
                notes.put(&mut txn, key, &value).map_err(writing)?;
            } else {
                notes.delete(&mut txn, key).map_err(writing)?;
            }
        }
        self.interner.write_new(&databases, &mut txn).map_err(writing)?;
        lmdb.write_counter(&mut txn, b"sequence", sequence).map_err(writing)?;
        lmdb.write_counter(&mut txn, b"revision", revision).map_err(writing)?;
        let mut value = [&(txn.id() as u64).to_le_bytes()[..], &checkpoint.encode()].concat();
        checksum::append(CHECKPOINT_META_KEY, &mut value);
        databases.meta.put(&mut txn, CHECKPOINT_META_KEY, &value).map_err(writing)?;
        fail_point::hit("move: before the engine commits");
        lmdb.commit(txn).map_err(writing)?;
        fail_point::hit("move: after a transaction");
        Ok(())
    }

    fn write_history(
        &mut self,
        txn: &mut RwTxn<'_>,
        migrated: &MigratedHistoryEntry,
    ) -> Result<(), StoreError> {
        let record_key = name_key::storage_key(&migrated.key);
        let line = &migrated.history_entry.line;
        let old = match &migrated.history_entry.before {
            PriorState::Unknown => {
                // All log entries up to there without history entry are unknown.
                let since = self.lmdb.read_counter(txn, history::HISTORY_START_META_KEY)?.max(line.sequence);
                let put = self.lmdb.write_counter(txn, history::HISTORY_START_META_KEY, since);
                return put.map_err(|error| backend_error("writing the history", error));
            }
            PriorState::Nothing if self.is_implicit_creation(txn, migrated)? => return Ok(()),
            PriorState::Nothing => Vec::new(),
            PriorState::Record(entry) => {
                self.encode_with_registration(txn, &record_key, entry, migrated.registration_sequence)?
            }
        };
        let put = history::write_entry(self.lmdb, txn, &record_key, line.sequence, &old);
        put.map_err(|error| backend_error("writing the history", error))
    }

    /// Whether a creation needs no history entry: see `history.rs`.
    fn is_implicit_creation(
        &self,
        txn: &RwTxn<'_>,
        migrated: &MigratedHistoryEntry,
    ) -> Result<bool, StoreError> {
        let line = &migrated.history_entry.line;
        if line.kind != EditKind::Create {
            return Ok(true);
        }
        // Not if it would have to be searched in the log of a large change set.
        let far =
            self.lmdb.log_entry(txn, line.sequence.saturating_add(history::MAX_IMPLICIT_CREATIONS as u64))?;
        Ok(migrated.is_first && far.is_none_or(|far| far.revision != line.revision))
    }

    fn write_record(
        &mut self,
        txn: &mut RwTxn<'_>,
        key: &NameKey,
        migrated: Option<&MigratedRecord>,
    ) -> Result<(), StoreError> {
        let record_key = name_key::storage_key(key);
        let writing = |error| backend_error("writing a record", error);
        let records = self.lmdb.databases.records;
        let Some(MigratedRecord { entry, registration_sequence }) = migrated else {
            return records.delete(txn, &record_key).map(|_| ()).map_err(writing);
        };
        let mut value = self.encode_with_registration(txn, &record_key, entry, *registration_sequence)?;
        checksum::append(&record_key, &mut value);
        records.put(txn, &record_key, &value).map_err(writing)
    }

    /// Encodes a record without checksum, and writes its registration.
    fn encode_with_registration(
        &mut self,
        txn: &mut RwTxn<'_>,
        record_key: &[u8],
        entry: &StoredRecord,
        registration_sequence: Option<u64>,
    ) -> Result<Vec<u8>, StoreError> {
        if !entry.registration.is_empty() {
            let unknown = || checksum::corrupt(record_key, "record", "no change tells of its registration");
            let number = registration_sequence.ok_or_else(unknown)?.to_be_bytes();
            let mut value = entry.registration.to_vec();
            checksum::append(&number, &mut value);
            // Only read-only stores of earlier versions lack it.
            if let Some(registrations) = self.lmdb.databases.registrations {
                let put = registrations.put(txn, &number, &value);
                put.map_err(|error| backend_error("writing a registration", error))?;
            }
        }
        let StoredRecord { name, revision, state, values, .. } = entry;
        let is_shortened = name_key::is_hashed_key(record_key);
        Ok(record::encode_values(
            name,
            *revision,
            *state,
            values,
            registration_sequence,
            is_shortened,
            self.interner,
        ))
    }
}
