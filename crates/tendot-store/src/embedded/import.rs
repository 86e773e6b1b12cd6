//! Bulk import: records are sorted and then written in key order, which is LMDB's fastest path.
//!
//! One thread merges the sorted runs and encodes records, another writes them to LMDB.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use heed::{PutFlags, RwTxn};
use tendot_proto::HandleValue;

use super::error::{io_error, store_error};
use super::format::dictionary::Interner;
use super::format::{checksum, log_entry, record};
use super::lmdb::META_ITEM;
use super::name_hashes;
use super::{Lmdb, OpenError, backend_error, history};
use crate::directory_lock::DirectoryLock;
use crate::import::MAX_REPORTED_TOMBSTONES;
use crate::import::import_buffer::ImportBuffer;
use crate::import::merge::{RawRecord, RunMerge};
use crate::model::{name_key, values_codec};
use crate::{
    ChainLink, EditKind, ImportBatch, ImportError, ImportSummary, LogEntry, NameKey, RecordStatus,
    StoreError, StoreHead, fail_point,
};

/// Default number of records per transaction, and maximum size of a transaction in memory.
const DEFAULT_RECORDS_PER_TRANSACTION: u64 = 50_000;
const MAX_TRANSACTION_BYTES: usize = 16 << 20;

/// Maximum size of a batch between the threads.
const MAX_BATCH_RECORDS: u64 = 1_000;
const MAX_BATCH_BYTES: usize = 1 << 18;

/// Maximum number of name hashes written together with the last records; more are written before, in several transactions.
const MAX_HASHES_IN_LAST_TRANSACTION: usize = 4_096;

/// LMDB page size: what a record may take in memory that is not adjacent to the previous one.
const LMDB_PAGE_BYTES: usize = 4_096;

/// Bulk import into an embedded store; has exclusive access.
///
/// Of records with equal names the last one counts; unchanged records are not written. After an interruption, committed records
/// stay, and repeating the import writes the rest.
///
/// ```
/// use tendot_store::{EmbeddedImporter, EmbeddedStore, Store};
/// use tendot_proto::HandleValue;
///
/// # pollster::block_on(async {
/// let directory = tempfile::tempdir()?;
/// let mut importer = EmbeddedImporter::open(directory.path(), "operator", 1_700_000_000_000)?;
/// importer.add("10.1000/2".into(), &[HandleValue::new(1, "URL", "https://example.org/2")])?;
/// importer.add("10.1000/1".into(), &[HandleValue::new(1, "URL", "https://example.org/1")])?;
/// importer.home_prefix("10.1000")?;
/// let summary = importer.finish(|_| {})?;
/// assert_eq!((summary.created, summary.changed, summary.unchanged), (2, 0, 0));
///
/// let store = EmbeddedStore::open(directory.path())?;
/// assert_eq!(store.list_names(b"10.1000", None, 10).await?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct EmbeddedImporter {
    lmdb: Arc<Lmdb>,
    interner: Interner,
    author: Box<str>,
    timestamp_ms: u64,
    records_per_transaction: u64,
    /// Dropped before the lock.
    buffer: ImportBuffer,
    _lock: DirectoryLock,
}

impl EmbeddedImporter {
    /// Opens the store in a directory for an import; creates it if missing.
    pub fn open(directory: &Path, author: &str, timestamp_ms: u64) -> Result<Self, OpenError> {
        let (lmdb, lock) = Lmdb::open(directory)?;
        // Times never decrease.
        let timestamp_ms = lmdb.last_timestamp_ms().map_err(store_error(directory))?.max(timestamp_ms);
        let interner = Interner::open(&lmdb).map_err(store_error(directory))?;
        let buffer = ImportBuffer::new(directory.join("import-runs")).map_err(io_error(directory))?;
        Ok(Self {
            lmdb,
            interner,
            author: author.into(),
            timestamp_ms,
            records_per_transaction: DEFAULT_RECORDS_PER_TRANSACTION,
            buffer,
            _lock: lock,
        })
    }

    /// Sets the bytes of records kept in memory before a run is written.
    #[must_use]
    pub const fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer.max_buffer_bytes = bytes;
        self
    }

    /// Sets the number of records per transaction.
    #[must_use]
    pub const fn records_per_transaction(mut self, records: u64) -> Self {
        self.records_per_transaction = if records == 0 { 1 } else { records };
        self
    }

    /// Adds a record. Nothing is written before [`finish`](Self::finish).
    pub fn add(&mut self, name: Box<str>, values: &[HandleValue<'_>]) -> Result<(), ImportError> {
        self.buffer.add(&name, values)
    }

    /// Adds the records of a batch, after those added before.
    pub fn add_batch(&mut self, batch: &ImportBatch) -> Result<(), ImportError> {
        self.buffer.add_batch(batch)
    }

    /// Homes a prefix when the import is written.
    pub fn home_prefix(&mut self, prefix: &str) -> Result<(), ImportError> {
        self.buffer.home_prefix(prefix)
    }

    /// Writes all records. `progress` is called after each transaction.
    pub fn finish(mut self, progress: impl FnMut(&ImportSummary)) -> Result<ImportSummary, ImportError> {
        let lmdb = &*self.lmdb;
        let txn = lmdb.begin_read()?;
        let is_empty = lmdb.databases.records.is_empty(&txn);
        let appends = is_empty.map_err(|error| backend_error("reading records", error))?;
        let revision = lmdb.read_head(&txn)?.revision + 1;
        drop(txn);

        let homed = &std::mem::take(&mut self.buffer.homed);
        let (merge, superseded) = self.buffer.merge()?;
        let summary = ImportSummary { superseded, ..ImportSummary::default() };
        let interner = Mutex::new(self.interner);
        let records_per_transaction = self.records_per_transaction;
        let encoder = ImportEncoder {
            lmdb,
            interner: &interner,
            revision,
            appends,
            batch_records: records_per_transaction.min(MAX_BATCH_RECORDS),
        };
        let writer = ImportWriter {
            lmdb,
            interner: &interner,
            revision,
            appends,
            records_per_transaction,
            author: &self.author,
            timestamp_ms: self.timestamp_ms,
            homed,
            summary,
            name_hashes: Vec::new(),
            is_complete: false,
        };
        thread::scope(|scope| {
            let (sender, batches) = sync_channel(2);
            let encoder = thread::Builder::new()
                .name("tendot-import".into())
                .spawn_scoped(scope, move || encoder.run(merge, &sender))
                .map_err(|error| StoreError::Backend {
                    operation: "starting the encoder thread",
                    error: Box::new(error),
                })?;
            let _encoder = JoinOnDrop(Some(encoder));
            writer.run(batches, progress)
        })
    }
}

/// Joins a scoped thread when it is dropped, also while a panic of the progress callback unwinds.
///
/// The scope waits only for the thread's function, but the thread must also have cleared its slot in LMDB's reader table before
/// the store is closed.
struct JoinOnDrop<'scope>(Option<ScopedJoinHandle<'scope, ()>>);

impl Drop for JoinOnDrop<'_> {
    fn drop(&mut self) {
        // If the thread panicked, batches are missing, which the writer reports.
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

/// Encoded records on their way from the encoder thread to the writer thread.
#[derive(Default)]
struct EncodedBatch {
    bytes: Vec<u8>,
    /// Lengths of key, value and replaced record, if there was one.
    lengths: Vec<(usize, usize, Option<usize>)>,
    /// Number of records processed.
    records: u64,
    summary: ImportSummary,
}

impl EncodedBatch {
    fn push(&mut self, key: &[u8], value: &[u8], replaced: Option<&[u8]>) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(replaced.unwrap_or_default());
        self.lengths.push((key.len(), value.len(), replaced.map(<[u8]>::len)));
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], Option<&[u8]>)> {
        let mut rest = &*self.bytes;
        self.lengths.iter().map_while(move |(key, value, replaced)| {
            let (key, after) = rest.split_at_checked(*key)?;
            let (value, after) = after.split_at_checked(*value)?;
            let (replaced_bytes, after) = after.split_at_checked(replaced.unwrap_or_default())?;
            rest = after;
            Some((key, value, replaced.map(|_| replaced_bytes)))
        })
    }
}

/// Encoder thread: merges sorted runs and encodes records.
struct ImportEncoder<'a> {
    lmdb: &'a Lmdb,
    interner: &'a Mutex<Interner>,
    revision: u64,
    /// Whether the store was empty, so that no lookups are needed.
    appends: bool,
    /// Maximum number of records per batch.
    batch_records: u64,
}

impl ImportEncoder<'_> {
    fn run(&self, mut merge: RunMerge<'_>, sender: &SyncSender<Result<EncodedBatch, ImportError>>) {
        loop {
            let batch = self.next_batch(&mut merge);
            let is_last = !matches!(&batch, Ok(batch) if batch.records > 0);
            // Fails when the writer thread has failed.
            if sender.send(batch).is_err() || is_last {
                return;
            }
        }
    }

    /// Encodes the next batch; empty at the end.
    fn next_batch(&self, merge: &mut RunMerge<'_>) -> Result<EncodedBatch, ImportError> {
        let mut batch = EncodedBatch::default();
        // A new transaction per batch, so that old pages can be reused. No key occurs twice, so existing records are older than
        // this import.
        let txn = self.lmdb.begin_read()?;
        let mut interner = self.interner.lock().unwrap_or_else(PoisonError::into_inner);
        let superseded_before = merge.superseded;
        while batch.records < self.batch_records
            && batch.bytes.len() < MAX_BATCH_BYTES
            && let Some(RawRecord { name, values }) = merge.next()?
        {
            batch.records += 1;
            self.encode_record(&txn, &mut interner, name, values, &mut batch)?;
        }
        batch.summary.superseded = merge.superseded - superseded_before;
        Ok(batch)
    }

    fn encode_record(
        &self,
        txn: &heed::RoTxn<'_>,
        interner: &mut Interner,
        name: &[u8],
        values: &[u8],
        batch: &mut EncodedBatch,
    ) -> Result<(), ImportError> {
        let corrupt = || StoreError::Corrupt { detail: format!("import run, at `{}`", name.escape_ascii()) };
        let name = std::str::from_utf8(name).map_err(|_| corrupt())?;
        let values = values_codec::decode(values).map_err(|_| corrupt())?;
        let key = NameKey::new(name)?;
        let current = if self.appends { None } else { self.lmdb.get_disk_record(txn, &key)? };
        let summary = &mut batch.summary;
        match current.as_ref().map(|current| &current.record) {
            None => summary.created += 1,
            Some(record) if record.status == RecordStatus::Tombstone => {
                summary.tombstoned += 1;
                if summary.tombstoned_names.len() < MAX_REPORTED_TOMBSTONES {
                    summary.tombstoned_names.push(record.name.clone());
                }
                return Ok(());
            }
            Some(record) if record.values == values => {
                summary.unchanged += 1;
                return Ok(());
            }
            Some(_) => summary.changed += 1,
        }
        let name = current.as_ref().map_or(name, |current| &current.record.name);
        // Imports have no registrations; existing ones stay.
        let registration = current.as_ref().and_then(|current| current.registration);
        let storage_key = name_key::storage_key(&key);
        let is_hashed_key = name_key::is_hashed_key(&storage_key);
        let mut value = record::encode_values(
            name,
            self.revision,
            RecordStatus::Live,
            &values,
            registration,
            is_hashed_key,
            interner,
        );
        checksum::append(&storage_key, &mut value);
        let replaced = match current {
            Some(current) => Some(
                history::encode_replaced(self.lmdb, txn, &storage_key, current, interner)
                    .map_err(|error| backend_error("reading a record", error))?,
            ),
            None => None,
        };
        batch.push(&storage_key, &value, replaced.as_deref());
        Ok(())
    }
}

/// Writer thread of an import.
struct ImportWriter<'a> {
    lmdb: &'a Lmdb,
    interner: &'a Mutex<Interner>,
    revision: u64,
    appends: bool,
    records_per_transaction: u64,
    author: &'a str,
    timestamp_ms: u64,
    homed: &'a BTreeSet<NameKey>,
    summary: ImportSummary,
    /// Hashes of new names, which are written in their order, not in that of the names: each could change a page of its own. If the
    /// import is interrupted, the next open for writing recomputes all of them.
    name_hashes: Vec<u64>,
    /// Whether all records are written.
    is_complete: bool,
}

impl ImportWriter<'_> {
    fn run(
        mut self,
        batches: Receiver<Result<EncodedBatch, ImportError>>,
        mut progress: impl FnMut(&ImportSummary),
    ) -> Result<ImportSummary, ImportError> {
        let (mut is_first, mut is_last) = (true, false);
        while !is_last {
            is_last = self.write_transaction(&batches, is_first)?;
            is_first = false;
            if !is_last && (self.is_complete || self.name_hashes.len() >= name_hashes::MAX_COLLECTED) {
                self.lmdb.write_name_hashes(&mut self.name_hashes, &mut |_| Ok(()))?;
            }
            progress(&self.summary);
        }
        Ok(self.summary)
    }

    /// Writes one transaction; returns whether it was the last.
    fn write_transaction(
        &mut self,
        batches: &Receiver<Result<EncodedBatch, ImportError>>,
        is_first: bool,
    ) -> Result<bool, ImportError> {
        let lmdb = self.lmdb;
        let commit_error = |error| backend_error("committing an import", error);
        fail_point::hit("import-before-txn");
        let mut txn = lmdb.env.write_txn().map_err(commit_error)?;
        let mut head = lmdb.read_head(&txn)?;
        if is_first {
            self.home_prefixes(&mut txn, &mut head)?;
        }
        // Sequence number of the import's log entry: it is next, since this is the only writer.
        let sequence = head.sequence + 1;
        let (mut records, mut bytes) = (0, 0);
        let hasher = *lmdb.name_hasher(&txn)?;
        while !self.is_complete && records < self.records_per_transaction && bytes < MAX_TRANSACTION_BYTES {
            let encoder_stopped = || StoreError::Backend {
                operation: "encoding records",
                error: "encoder thread stopped".into(),
            };
            let batch = batches.recv().map_err(|_| encoder_stopped())??;
            for (key, value, replaced) in batch.iter() {
                if replaced.is_none() {
                    self.name_hashes.push(hasher.name(key));
                }
                if let Some(replaced) = replaced {
                    history::write_entry(lmdb, &mut txn, key, sequence, replaced)
                        .map_err(|error| backend_error("writing the history", error))?;
                    bytes += key.len() + replaced.len() + LMDB_PAGE_BYTES;
                }
                self.put_record(&mut txn, key, value)
                    .map_err(|error| backend_error("writing a record", error))?;
                let is_adjacent = self.appends && value.len() < LMDB_PAGE_BYTES / 4;
                bytes += key.len() + value.len() + if is_adjacent { 0 } else { LMDB_PAGE_BYTES };
            }
            records += batch.records;
            self.is_complete = batch.records == 0;
            self.summary.merge(batch.summary);
        }
        {
            let mut interner = self.interner.lock().unwrap_or_else(PoisonError::into_inner);
            interner.write_new(&lmdb.databases, &mut txn).map_err(commit_error)?;
            // If the transaction fails, so does the import, and the interner is not used again.
            interner.commit();
        }
        let is_last = self.is_complete && self.name_hashes.len() <= MAX_HASHES_IN_LAST_TRANSACTION;
        if is_last {
            self.name_hashes.sort_unstable();
            lmdb.insert_name_hashes(&mut txn, &self.name_hashes).map_err(commit_error)?;
        }
        self.write_log_entry(&mut txn, &mut head, is_last).map_err(commit_error)?;
        lmdb.write_head(&mut txn, &head).map_err(commit_error)?;
        if is_last {
            fail_point::hit("import-before-last-commit");
        }
        lmdb.commit(txn).map_err(|error| lmdb.commit_error("committing an import", error))?;
        fail_point::hit(if is_last { "import-after-last-commit" } else { "import-between-txns" });
        Ok(is_last)
    }

    /// Writes the log entry: in the last transaction to the log, before as pending.
    fn write_log_entry(
        &self,
        txn: &mut RwTxn<'_>,
        head: &mut StoreHead,
        is_last: bool,
    ) -> Result<(), heed::Error> {
        let mut log_entry = self.log_entry(EditKind::Import, "");
        log_entry.record_count = self.summary.created + self.summary.changed;
        // An import without changes gets no revision and no log entry.
        if log_entry.record_count == 0 {
            return Ok(());
        }
        head.revision = self.revision;
        if !is_last {
            return save_pending(self.lmdb, txn, &log_entry);
        }
        append_log_entry(self.lmdb, txn, head, log_entry)?;
        self.lmdb.databases.meta.delete(txn, PENDING_META_KEY).map(drop)
    }

    fn put_record(&self, txn: &mut RwTxn<'_>, storage_key: &[u8], value: &[u8]) -> Result<(), heed::Error> {
        let records = self.lmdb.databases.records;
        // Long names with the same start are not in storage-key order.
        if self.appends && !name_key::is_hashed_key(storage_key) {
            match records.put_with_flags(txn, PutFlags::APPEND, storage_key, value) {
                Err(heed::Error::Mdb(heed::MdbError::KeyExist)) => {}
                put => return put,
            }
        }
        records.put(txn, storage_key, value)
    }

    /// Homes new prefixes before the first record is written, so that no stored name is denied.
    fn home_prefixes(&self, txn: &mut RwTxn<'_>, head: &mut StoreHead) -> Result<(), StoreError> {
        let lmdb = self.lmdb;
        let write_error = |error| backend_error("homing prefixes", error);
        for prefix in self.homed {
            if !lmdb.contains_homed(txn, prefix.as_bytes())? {
                lmdb.write_homed(txn, prefix, true).map_err(write_error)?;
                head.revision = self.revision;
                let log_entry = self.log_entry(EditKind::Home, &prefix.to_string());
                append_log_entry(lmdb, txn, head, log_entry).map_err(write_error)?;
            }
        }
        Ok(())
    }

    fn log_entry(&self, kind: EditKind, name: &str) -> LogEntry {
        LogEntry::new(self.author, self.timestamp_ms, self.revision, kind, name.into())
    }
}

fn append_log_entry(
    lmdb: &Lmdb,
    txn: &mut RwTxn<'_>,
    head: &mut StoreHead,
    mut log_entry: LogEntry,
) -> Result<(), heed::Error> {
    let mut value = Vec::new();
    head.append(&mut log_entry, &mut value);
    log_entry::append(lmdb, txn, &log_entry, &mut value)
}

/// Key in `meta` of the log entry of an import in progress, stored so that it is logged even after a crash.
pub(crate) const PENDING_META_KEY: &[u8] = b"pending_import";

/// Decodes the log entry of an import in progress, which is not in the log yet; `None` if it is invalid.
pub(crate) fn decode_pending(body: &[u8]) -> Option<LogEntry> {
    LogEntry::decode_content(0, ChainLink::default(), body)
}

fn save_pending(lmdb: &Lmdb, txn: &mut RwTxn<'_>, log_entry: &LogEntry) -> Result<(), heed::Error> {
    let mut content = Vec::new();
    log_entry.encode_content(&mut content);
    lmdb.write_meta(txn, PENDING_META_KEY, &content)
}

/// Completes an interrupted import, if there is one: computes the name hashes, and writes the log entry.
pub(crate) fn recover_interrupted(lmdb: &Lmdb) -> Result<(), StoreError> {
    let recovery_error = |error| backend_error("recovering an interrupted import", error);
    if lmdb.read_meta(&*lmdb.begin_read()?, PENDING_META_KEY)?.is_none() {
        return Ok(());
    }
    lmdb.recompute_name_hashes(&mut |_| Ok(()))?;
    let mut txn = lmdb.env.write_txn().map_err(recovery_error)?;
    let Some(body) = lmdb.read_meta(&txn, PENDING_META_KEY)? else { return Ok(()) };
    let log_entry = decode_pending(body)
        .ok_or_else(|| checksum::corrupt(PENDING_META_KEY, META_ITEM, "cannot be decoded"))?;
    let mut head = lmdb.read_head(&txn)?;
    head.revision = head.revision.max(log_entry.revision);
    append_log_entry(lmdb, &mut txn, &mut head, log_entry).map_err(recovery_error)?;
    lmdb.write_head(&mut txn, &head).map_err(recovery_error)?;
    lmdb.databases.meta.delete(&mut txn, PENDING_META_KEY).map_err(recovery_error)?;
    fail_point::hit("import-before-recovery-commit");
    lmdb.commit(txn).map_err(recovery_error)?;
    fail_point::hit("import-after-recovery-commit");
    Ok(())
}
