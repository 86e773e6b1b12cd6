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
use crate::migration::traits::{At, MigrationSource, MigrationTarget, PastPiece};
use crate::migration::{Checkpoint, MigrationError};
use crate::model::name_key;
use crate::store::StoreHead;
use crate::{EditKind, HistoryOrder, NameKey, PriorState, StoreError, StoredRecord, fail_point};

/// Key in `meta` of the migration checkpoint.
pub(crate) const CHECKPOINT_META_KEY: &[u8] = b"moving";

/// Decodes the LMDB transaction id that wrote the checkpoint, and the checkpoint.
pub(crate) fn decode_checkpoint(body: &[u8]) -> Option<(u64, Checkpoint)> {
    let (number, mark) = body.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*number), Checkpoint::decode(mark)?))
}

impl MigrationSource for EmbeddedStore {
    async fn head(&self) -> Result<StoreHead, StoreError> {
        self.read_with_fallback(|tables| {
            let txn = tables.begin_read()?;
            let (revision, sequence) =
                (tables.read_counter(&txn, b"revision")?, tables.read_counter(&txn, b"sequence")?);
            Ok(StoreHead { revision, sequence })
        })
    }

    async fn read_records(&self, names: &[NameKey]) -> Result<Vec<Option<StoredRecord>>, StoreError> {
        self.read_with_fallback(|tables| {
            let (txn, mut entries, mut size) = (tables.begin_read()?, Vec::new(), 0);
            for name in names {
                let entry = tables.get_record(&txn, name)?;
                size += entry.as_ref().map_or(0, record_memory_size);
                entries.push(entry);
                if size >= MAX_BATCH_BYTES {
                    break;
                }
            }
            Ok(entries)
        })
    }

    async fn read_histories(&self, names: &[NameKey], at: At) -> Result<PastPiece, StoreError> {
        self.read_with_fallback(|tables| {
            let (txn, mut pasts, mut size) = (tables.begin_read()?, Vec::new(), 0);
            let (first, mut after) = at;
            for (number, name) in names.iter().enumerate().skip(first) {
                let history = tables.history_in_txn(
                    &txn,
                    name,
                    HistoryOrder::OldestFirst { after },
                    MAX_BATCH_ITEMS,
                )?;
                after = 0;
                size += history.items.iter().map(history_memory_size).sum::<usize>();
                pasts.extend(history.items.into_iter().map(|past| (number, past)));
                if let Some(next) = history.next {
                    return Ok((pasts, Some((number, next))));
                }
                if size >= MAX_BATCH_BYTES || pasts.len() >= MAX_BATCH_ITEMS {
                    return Ok((pasts, Some((number + 1, 0))));
                }
            }
            Ok((pasts, None))
        })
    }
}

/// Embedded store opened as a migration target; locked while this value lives.
#[derive(Debug)]
pub struct EmbeddedTarget {
    store: EmbeddedStore,
    sharing: Interner,
}

impl EmbeddedStore {
    /// Opens the store in a directory as a target of [`migrate`](crate::migrate); creates it if missing.
    pub fn open_target(directory: &Path) -> Result<EmbeddedTarget, OpenError> {
        let (tables, lock) = Lmdb::open_allowing_incomplete(directory)?;
        let store = |error| OpenError::Store { directory: directory.into(), error };
        let txn = tables.begin_read().map_err(store)?;
        let sharing = Interner::load(&tables.databases, &txn).map_err(store)?;
        drop(txn);
        Ok(EmbeddedTarget { store: Self { tables, writer: None, _lock: Some(lock) }, sharing })
    }
}

impl MigrationTarget for EmbeddedTarget {
    type Store = EmbeddedStore;

    fn store(&self) -> &EmbeddedStore {
        &self.store
    }

    async fn checkpoint(&self) -> Result<Option<(Checkpoint, bool)>, StoreError> {
        let tables = &self.store.tables;
        let txn = tables.begin_read()?;
        let Some((number, mark)) = tables.checkpoint(&txn)? else { return Ok(None) };
        let last = tables.read_counter(&txn, b"transaction")?;
        Ok(Some((mark, number == last)))
    }

    async fn write_batch(&mut self, piece: &MigrationBatch, mark: &Checkpoint) -> Result<(), MigrationError> {
        let tables = Arc::clone(&self.store.tables);
        let taken = MigrationWriter { tables: &tables, sharing: &mut self.sharing }.write(piece, mark);
        match taken {
            Ok(()) => self.sharing.commit(),
            Err(_) => self.sharing.rollback(),
        }
        taken.map_err(MigrationError::Target)
    }
}

impl Lmdb {
    /// Rejects the target of an incomplete migration.
    pub(crate) fn check_migration_complete(&self, directory: &Path) -> Result<(), OpenError> {
        let mark = self.begin_read().and_then(|txn| self.checkpoint(&txn));
        let mark = mark.map_err(|error| OpenError::Store { directory: directory.into(), error })?;
        match mark {
            Some((_, mark)) if !mark.is_complete() => {
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
        let mark = decode_checkpoint(checksum::verify_and_strip(CHECKPOINT_META_KEY, value, "setting")?);
        mark.map(Some)
            .ok_or_else(|| checksum::corrupt(CHECKPOINT_META_KEY, "setting", "it is not understood"))
    }
}

/// Writes one migration batch in one LMDB transaction.
struct MigrationWriter<'a> {
    tables: &'a Lmdb,
    sharing: &'a mut Interner,
}

impl MigrationWriter<'_> {
    fn write(&mut self, piece: &MigrationBatch, mark: &Checkpoint) -> Result<(), StoreError> {
        let tables = self.tables;
        let doing = "writing what is moved";
        let writing = |error| backend_error(doing, error);
        fail_point::hit("move: before a transaction");
        let mut txn = tables.env.write_txn().map_err(writing)?;
        let mut sequence = tables.read_counter(&txn, b"sequence")?;
        let mut revision = tables.read_counter(&txn, b"revision")?;
        for line in piece.lines.iter().filter(|line| line.sequence > sequence) {
            log_entry::append(tables, &mut txn, line).map_err(writing)?;
        }
        if let Some(last) = piece.lines.last() {
            (sequence, revision) = (sequence.max(last.sequence), revision.max(last.revision));
        }
        for past in &piece.pasts {
            self.write_history(&mut txn, past)?;
        }
        for (key, taken) in &piece.records {
            self.write_record(&mut txn, key, taken.as_ref())?;
        }
        let databases = tables.databases;
        for (prefix, is_homed) in &piece.homed {
            if *is_homed {
                let mut value = Vec::new();
                checksum::append(prefix.as_bytes(), &mut value);
                databases.homed.put(&mut txn, prefix.as_bytes(), &value).map_err(writing)?;
            } else {
                databases.homed.delete(&mut txn, prefix.as_bytes()).map_err(writing)?;
            }
        }
        for (key, body) in &piece.notes {
            // Only read-only stores of earlier versions lack it.
            let Some(notes) = databases.notes else { continue };
            if let Some(body) = body {
                let mut value = body.to_vec();
                checksum::append(key, &mut value);
                notes.put(&mut txn, key, &value).map_err(writing)?;
            } else {
                notes.delete(&mut txn, key).map_err(writing)?;
            }
        }
        self.sharing.write_new(&databases, &mut txn).map_err(writing)?;
        tables.write_counter(&mut txn, b"sequence", sequence).map_err(writing)?;
        tables.write_counter(&mut txn, b"revision", revision).map_err(writing)?;
        let mut value = [&(txn.id() as u64).to_le_bytes()[..], &mark.encode()].concat();
        checksum::append(CHECKPOINT_META_KEY, &mut value);
        databases.meta.put(&mut txn, CHECKPOINT_META_KEY, &value).map_err(writing)?;
        fail_point::hit("move: before the engine commits");
        tables.commit(txn).map_err(writing)?;
        fail_point::hit("move: after a transaction");
        Ok(())
    }

    fn write_history(&mut self, txn: &mut RwTxn<'_>, taken: &MigratedHistoryEntry) -> Result<(), StoreError> {
        let record_key = name_key::storage_key(&taken.key);
        let line = &taken.past.line;
        let old = match &taken.past.before {
            PriorState::Unknown => {
                // All log entries up to there without history entry are unknown.
                let since = self.tables.read_counter(txn, history::SINCE)?.max(line.sequence);
                let put = self.tables.write_counter(txn, history::SINCE, since);
                return put.map_err(|error| backend_error("writing the history", error));
            }
            PriorState::Nothing if self.is_implicit_creation(txn, taken)? => return Ok(()),
            PriorState::Nothing => Vec::new(),
            PriorState::Record(entry) => {
                self.encode_with_registration(txn, &record_key, entry, taken.brought)?
            }
        };
        let put = history::write_entry(self.tables, txn, &record_key, line.sequence, &old);
        put.map_err(|error| backend_error("writing the history", error))
    }

    /// Whether a creation needs no history entry: see `history.rs`.
    fn is_implicit_creation(
        &self,
        txn: &RwTxn<'_>,
        taken: &MigratedHistoryEntry,
    ) -> Result<bool, StoreError> {
        let line = &taken.past.line;
        if line.kind != EditKind::Create {
            return Ok(true);
        }
        // Not if it would have to be searched in the log of a large change set.
        let far = self.tables.log_entry(txn, line.sequence.saturating_add(history::LINES as u64))?;
        Ok(taken.is_first && far.is_none_or(|far| far.revision != line.revision))
    }

    fn write_record(
        &mut self,
        txn: &mut RwTxn<'_>,
        key: &NameKey,
        taken: Option<&MigratedRecord>,
    ) -> Result<(), StoreError> {
        let record_key = name_key::storage_key(key);
        let writing = |error| backend_error("writing a record", error);
        let records = self.tables.databases.records;
        let Some(MigratedRecord { entry, brought }) = taken else {
            return records.delete(txn, &record_key).map(|_| ()).map_err(writing);
        };
        let mut value = self.encode_with_registration(txn, &record_key, entry, *brought)?;
        checksum::append(&record_key, &mut value);
        records.put(txn, &record_key, &value).map_err(writing)
    }

    /// Encodes a record without checksum, and writes its registration.
    fn encode_with_registration(
        &mut self,
        txn: &mut RwTxn<'_>,
        record_key: &[u8],
        entry: &StoredRecord,
        brought: Option<u64>,
    ) -> Result<Vec<u8>, StoreError> {
        if !entry.registration.is_empty() {
            let unknown = || checksum::corrupt(record_key, "record", "no change tells of its registration");
            let number = brought.ok_or_else(unknown)?.to_be_bytes();
            let mut value = entry.registration.to_vec();
            checksum::append(&number, &mut value);
            // Only read-only stores of earlier versions lack it.
            if let Some(registrations) = self.tables.databases.registrations {
                let put = registrations.put(txn, &number, &value);
                put.map_err(|error| backend_error("writing a registration", error))?;
            }
        }
        let StoredRecord { name, revision, state, values, .. } = entry;
        let is_shortened = name_key::is_hashed_key(record_key);
        Ok(record::encode_values(name, *revision, *state, values, brought, is_shortened, self.sharing))
    }
}
