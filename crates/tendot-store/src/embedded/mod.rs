//! The embedded store: one directory on this machine's disk.
//!
//! `open.rs` opens LMDB, `record.rs` is the layout of records (with `shape.rs`, `varint.rs`, `checksum.rs` and `key.rs`),
//! `parts.rs` and `share.rs` keep what records have in common, `writer.rs` commits the changes of all callers together,
//! `history.rs` keeps what was before, `registration.rs` what the registry knows, `commit.rs` ends each transaction, `lock.rs`
//! lets one process write, `import.rs` writes many records at once (with `gather.rs` and `run.rs`, which sort them),
//! `folder.rs` keeps folders durable, `verify.rs` reads everything (with `pages.rs`, which reads the engine's own), `backup.rs`
//! copies it, and `moving.rs` lets it be moved from and to. The layout is drawn in `docs/storage-format.md`.

mod backup;
mod checksum;
mod commit;
mod folder;
pub(crate) mod gather;
mod history;
pub(crate) mod import;
pub(crate) mod key;
mod lock;
pub(crate) mod log;
mod moving;
mod open;
mod pages;
mod parts;
mod record;
mod registration;
pub(crate) mod run;
mod shape;
mod share;
mod varint;
mod verify;
mod writer;

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub use backup::{RestoreError, restore};
pub use gather::ImportBatch;
use heed::{Env, RoTxn, RwTxn, WithTls};
pub use import::{EmbeddedImporter, ImportError, ImportSummary};
use lock::DirectoryLock;
pub use lock::LockError;
pub use moving::EmbeddedTarget;
use open::Databases;
use parts::DictionaryCache;
use record::{DiskRecord, RecordHeader};
pub use verify::VerifyReport;
#[cfg(feature = "postgres")]
pub(crate) use verify::find_inconsistency;
use writer::WriteQueue;
pub(crate) use writer::check_size;

use crate::{
    ChangeCounters, ChangeSet, CommitError, CommitInfo, CountPage, History, HistoryOrder, LogEntry,
    NameEntry, NameKey, NamePage, Note, Store, StoreError, StoredRecord, fail_point,
};

/// Embedded store: one LMDB environment in a local directory.
///
/// When it is closed, threads that have read from it must run on or have been joined: at its very end, after its function
/// has returned, a thread clears its entry in the engine's table of readers. [`std::thread::scope`] does not wait for that.
///
/// ```
/// use tendot_store::{ChangeSet, Edit, EmbeddedStore, Precondition, NameKey, Store};
/// use tendot_proto::HandleValue;
///
/// # pollster::block_on(async {
/// let directory = tempfile::tempdir()?;
/// let store = EmbeddedStore::open(directory.path())?;
/// let values = vec![HandleValue::new(1, "URL", "https://example.org/")];
/// let put = Edit::Put { name: "10.1000/182".into(), values, expect: Precondition::Absent };
/// store.commit(ChangeSet { by: "operator".into(), at: 1_700_000_000_000, edits: vec![put] }).await?;
///
/// // One process writes; others may read.
/// assert!(EmbeddedStore::open(directory.path()).is_err());
/// drop(store);
/// let store = EmbeddedStore::open(directory.path())?;
/// assert!(store.get(&NameKey::new("10.1000/182")?).await?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct EmbeddedStore {
    tables: Arc<Lmdb>,
    /// None if the store was opened for reading only.
    writer: Option<WriteQueue>,
    /// Held as long as the store is open for writing; let go last.
    _lock: Option<DirectoryLock>,
}

/// LMDB environment with its databases and dictionary cache; shared by readers and the writer.
#[derive(Debug)]
struct Lmdb {
    env: Env,
    databases: Databases,
    parts: DictionaryCache,
    /// The same once more, for reading, if the engine is lost to us.
    standby: OnceLock<Option<Box<Self>>>,
}

/// Records that are looked at in one call for those of a revision: some milliseconds.
const MAX_SCANNED_RECORDS: usize = 10_000;

/// What `format` in `meta` says.
const STORE_FORMAT: &[u8] = b"tendot 1";

/// Where a store is made.
const CREATE_DIR: &str = "creating";

impl EmbeddedStore {
    /// Opens the store of a directory, and makes both if they are not there. No other process may have it open for
    /// writing.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let (tables, lock) = Lmdb::open(directory)?;
        let writer = WriteQueue::start(Arc::clone(&tables))
            .map_err(|error| OpenError::Store { directory: directory.into(), error })?;
        Ok(Self { tables, writer: Some(writer), _lock: Some(lock) })
    }

    /// Opens the store of a directory for reading, also while another process writes.
    pub fn open_read_only(directory: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let unread = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        if !directory.join("data.mdb").try_exists().map_err(unread)? {
            return Err(OpenError::NoStore { directory: directory.into() });
        }
        let env = open::open_environment(directory, true)?;
        let databases = Databases::open(&env).map_err(failed)?;
        let databases = databases.ok_or_else(|| OpenError::NoStore { directory: directory.into() })?;
        let tables =
            Arc::new(Lmdb { env, databases, parts: DictionaryCache::new(), standby: OnceLock::new() });
        tables.check_format(directory)?;
        tables.check_migration_complete(directory)?;
        Ok(Self { tables, writer: None, _lock: None })
    }
}

impl EmbeddedStore {
    /// What is read from.
    fn lmdb(&self) -> &Lmdb {
        self.tables.standby.get().and_then(Option::as_deref).unwrap_or(&self.tables)
    }

    /// Reads; once more if the engine is lost to us.
    fn read_with_fallback<T>(&self, read: impl Fn(&Lmdb) -> Result<T, StoreError>) -> Result<T, StoreError> {
        read(self.lmdb()).or_else(|error| {
            match self.tables.is_poisoned().then(|| self.tables.read_only_fallback()) {
                Some(Some(standby)) => read(standby),
                _ => Err(error),
            }
        })
    }

    /// Records in the order of their keys, tombstones among them: at most `limit`, after `after`.
    pub fn scan(&self, after: Option<&NameKey>, limit: usize) -> Result<Vec<StoredRecord>, StoreError> {
        self.read_with_fallback(|tables| tables.scan(after, limit))
    }

    /// How many records there are, tombstones among them.
    pub fn count(&self) -> Result<u64, StoreError> {
        self.read_with_fallback(|tables| {
            let txn = tables.begin_read()?;
            tables.databases.records.len(&txn).map_err(|error| backend_error("counting records", error))
        })
    }
}

impl Lmdb {
    /// Opens the store of a directory for the one who writes.
    fn open(directory: &Path) -> Result<(Arc<Self>, DirectoryLock), OpenError> {
        let (tables, lock) = Self::open_allowing_incomplete(directory)?;
        tables.check_migration_complete(directory)?;
        Ok((tables, lock))
    }

    /// The same of one that may be the unfinished copy of another.
    fn open_allowing_incomplete(directory: &Path) -> Result<(Arc<Self>, DirectoryLock), OpenError> {
        let failed = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let unmade = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        folder::create_dir(directory).map_err(unmade)?;
        let lock = DirectoryLock::acquire(directory)?;
        backup::recover_interrupted(directory).map_err(unmade)?;
        if directory.join("data.mdb").try_exists().map_err(unmade)? {
            folder::remove_dir(&directory.join(CREATE_DIR)).map_err(unmade)?;
        } else {
            Self::create(directory)?;
        }
        let env = open::open_environment(directory, false)?;
        // Readers that were killed would keep old pages from being used again.
        env.clear_stale_readers().map_err(failed)?;
        let databases = Databases::open(&env).map_err(failed)?;
        let databases = databases.ok_or_else(|| OpenError::Foreign { directory: directory.into() })?;
        let mut tables = Self { env, databases, parts: DictionaryCache::new(), standby: OnceLock::new() };
        tables.check_format(directory)?;
        let store = |error| OpenError::Store { directory: directory.into(), error };
        import::PendingImport::recover_interrupted(&tables).map_err(store)?;
        tables.complete().map_err(store)?;
        Ok((Arc::new(tables), lock))
    }

    /// Makes a store where none is. It is made in a folder of its own and moved when it is whole and durable, so that
    /// whatever is found under its name once is a store.
    fn create(directory: &Path) -> Result<(), OpenError> {
        let failed = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let unmade = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let making = directory.join(CREATE_DIR);
        folder::recreate_private_dir(&making).map_err(unmade)?;
        fail_point::hit("create: the folder is made");
        let env = open::open_environment(&making, false)?;
        let databases = Databases::create(&env).map_err(failed)?;
        let tables = Self { env, databases, parts: DictionaryCache::new(), standby: OnceLock::new() };
        let mut txn = tables.env.write_txn().map_err(failed)?;
        let mut value = STORE_FORMAT.to_vec();
        checksum::append(b"format", &mut value);
        tables.databases.meta.put(&mut txn, b"format", &value).map_err(failed)?;
        for counter in [b"revision" as &[u8], b"sequence", history::SINCE] {
            tables.write_counter(&mut txn, counter, 0).map_err(failed)?;
        }
        tables.commit(txn).map_err(failed)?;
        tables.renew_lineage().map_err(failed)?;
        drop(tables);
        fail_point::hit("create: the store is made");
        std::fs::rename(making.join("data.mdb"), directory.join("data.mdb")).map_err(unmade)?;
        folder::sync_dir(directory).map_err(unmade)?;
        fail_point::hit("create: the store is in place");
        std::fs::remove_dir_all(&making).map_err(unmade)
    }

    /// Makes what a store of an earlier version has not, and begins to keep its history. An import of such a version must
    /// have been settled.
    fn complete(&mut self) -> Result<(), StoreError> {
        let has_history = self.databases.history.is_some();
        if has_history && self.databases.notes.is_some() && self.databases.registrations.is_some() {
            return Ok(());
        }
        let sequence = self.read_counter(&*self.begin_read()?, b"sequence")?;
        let (env, mut databases) = (&self.env, self.databases);
        let made = databases.complete(env, |txn| {
            if !has_history {
                self.write_counter(txn, history::SINCE, sequence)?;
            }
            let number = txn.id() as u64;
            self.write_counter(txn, b"transaction", number)
        });
        made.map_err(|error| backend_error("making what earlier versions had not", error))?;
        self.databases = databases;
        Ok(())
    }

    /// A number that goes up: the last revision, the last line of the log.
    fn read_counter(&self, txn: &RoTxn<'_>, name: &'static [u8]) -> Result<u64, StoreError> {
        let value =
            self.databases.meta.get(txn, name).map_err(|error| backend_error("reading counters", error))?;
        let value = value.ok_or_else(|| checksum::corrupt(name, "counter", "it is missing"))?;
        let body = checksum::verify_and_strip(name, value, "counter")?;
        let number = body.try_into().map(u64::from_le_bytes);
        number.map_err(|_| checksum::corrupt(name, "counter", "it has another size"))
    }

    fn write_counter(
        &self,
        txn: &mut RwTxn<'_>,
        name: &'static [u8],
        number: u64,
    ) -> Result<(), heed::Error> {
        let mut value = number.to_le_bytes().to_vec();
        checksum::append(name, &mut value);
        self.databases.meta.put(txn, name, &value)
    }

    fn scan(&self, after: Option<&NameKey>, limit: usize) -> Result<Vec<StoredRecord>, StoreError> {
        let mut entries = Vec::new();
        if limit > 0 {
            self.scan_records(None, after, |entry| {
                entries.push(entry);
                entries.len() < limit
            })?;
        }
        Ok(entries)
    }

    fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        mut visit: impl FnMut(StoredRecord) -> bool,
    ) -> Result<(), StoreError> {
        let txn = self.begin_read()?;
        if let Some(prefix) = prefix {
            let read = |key: &[u8], value: &[u8]| Ok(visit(self.decode_record(&txn, key, value)?));
            return self.scan_prefix(&txn, prefix, after, read);
        }
        let failed = |error| backend_error("reading records", error);
        let after = after.map(|key| key::storage_key(key).into_owned());
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for record in self.databases.records.range(&txn, &(from, Bound::Unbounded)).map_err(failed)? {
            let (key, value) = record.map_err(failed)?;
            if !visit(self.decode_record(&txn, key, value)?) {
                break;
            }
        }
        Ok(())
    }

    /// Checks what the store says of itself.
    fn check_format(&self, directory: &Path) -> Result<(), OpenError> {
        let failed = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let txn = self.env.read_txn().map_err(failed)?;
        let found = self.databases.meta.get(&txn, b"format").map_err(failed)?;
        let found = found.ok_or_else(|| OpenError::Foreign { directory: directory.into() })?;
        let found = checksum::verify_and_strip(b"format", found, "format")
            .map_err(|error| OpenError::Store { directory: directory.into(), error })?;
        if found == STORE_FORMAT {
            return Ok(());
        }
        let found = String::from_utf8_lossy(found).into_owned();
        Err(OpenError::OtherFormat { directory: directory.into(), found })
    }

    fn get_record(&self, txn: &RoTxn<'_>, key: &NameKey) -> Result<Option<StoredRecord>, StoreError> {
        self.get_disk_record(txn, key)?.map(|record| self.with_registration(txn, record)).transpose()
    }

    /// The record of a name, its registration unread.
    fn get_disk_record(&self, txn: &RoTxn<'_>, key: &NameKey) -> Result<Option<DiskRecord>, StoreError> {
        self.find_disk_record(txn, key, |number| {
            self.parts.get_or_load(number, || self.load_dictionary_entry(txn, number))
        })
    }

    /// The same within a transaction that writes. Its parts may come to nothing, so none are kept.
    fn get_disk_record_in_write(
        &self,
        txn: &RwTxn<'_>,
        key: &NameKey,
    ) -> Result<Option<DiskRecord>, StoreError> {
        self.find_disk_record(txn, key, |number| self.dictionary_entry(txn, number))
    }

    fn find_disk_record<'p>(
        &self,
        txn: &RoTxn<'_>,
        key: &NameKey,
        part: impl Fn(u32) -> Result<Option<&'p [u8]>, StoreError>,
    ) -> Result<Option<DiskRecord>, StoreError> {
        let record_key = key::storage_key(key);
        let found = self.databases.records.get(txn, &record_key);
        let Some(value) = found.map_err(|error| backend_error("reading a record", error))? else {
            return Ok(None);
        };
        let record =
            decode_disk_record(&record_key, checksum::verify_and_strip(&record_key, value, "record")?, part)?;
        // Two long names could have the same key; then only one of them is here.
        let is_it = !key::is_hashed_key(&record_key)
            || record.entry.name.as_bytes().eq_ignore_ascii_case(key.as_bytes());
        Ok(is_it.then_some(record))
    }

    fn decode_record(
        &self,
        txn: &RoTxn<'_>,
        record_key: &[u8],
        value: &[u8],
    ) -> Result<StoredRecord, StoreError> {
        self.decode_record_body(txn, record_key, checksum::verify_and_strip(record_key, value, "record")?)
    }

    /// The same of a record without its checksum.
    fn decode_record_body(
        &self,
        txn: &RoTxn<'_>,
        record_key: &[u8],
        body: &[u8],
    ) -> Result<StoredRecord, StoreError> {
        let part = |number| self.parts.get_or_load(number, || self.load_dictionary_entry(txn, number));
        self.with_registration(txn, decode_disk_record(record_key, body, part)?)
    }

    fn load_dictionary_entry(&self, txn: &RoTxn<'_>, number: u32) -> Result<Option<Box<[u8]>>, StoreError> {
        Ok(self.dictionary_entry(txn, number)?.map(Into::into))
    }

    fn dictionary_entry<'t>(&self, txn: &'t RoTxn<'_>, number: u32) -> Result<Option<&'t [u8]>, StoreError> {
        let key = number.to_be_bytes();
        let part =
            self.databases.parts.get(txn, &key).map_err(|error| backend_error("reading a part", error))?;
        part.map(|part| checksum::verify_and_strip(&key, part, "part")).transpose()
    }

    /// What can be known of a record without its values.
    fn record_header(&self, txn: &RoTxn<'_>, record_key: &[u8]) -> Result<Option<RecordHeader>, StoreError> {
        let value = self
            .databases
            .records
            .get(txn, record_key)
            .map_err(|error| backend_error("reading a record", error))?;
        value.map(|value| Self::decode_header(record_key, value)).transpose()
    }

    fn decode_header(record_key: &[u8], value: &[u8]) -> Result<RecordHeader, StoreError> {
        let body = checksum::verify_and_strip(record_key, value, "record")?;
        let head = RecordHeader::decode(record_key, body).map(|(head, _)| head);
        head.ok_or_else(|| checksum::corrupt(record_key, "record", "its layout is not known"))
    }

    fn begin_read(&self) -> Result<RoTxn<'_, WithTls>, StoreError> {
        self.env.read_txn().map_err(|error| backend_error("beginning to read", error))
    }

    /// Walks over the records under a prefix, after a key, as long as `visit` wants more.
    fn scan_prefix(
        &self,
        txn: &RoTxn<'_>,
        prefix: &[u8],
        after: Option<&NameKey>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        if prefix.len() > NameKey::MAX_PREFIX_LEN {
            return Ok(());
        }
        let failed = |error| backend_error("listing names", error);
        let records = self.databases.records;
        let folded = prefix.to_ascii_uppercase();
        // A name that is nothing but the prefix sorts before all that have a slash, though not right before them.
        if after.is_none()
            && !folded.is_empty()
            && let Some(value) = records.get(txn, &folded).map_err(failed)?
            && !visit(&folded, value)?
        {
            return Ok(());
        }
        let begin = [&folded[..], b"/"].concat();
        let after = after.map(|key| key::storage_key(key).into_owned());
        let from = match &after {
            Some(after) if *after > begin => Bound::Excluded(&after[..]),
            _ => Bound::Included(&begin[..]),
        };
        for record in records.range(txn, &(from, Bound::Unbounded)).map_err(failed)? {
            let (key, value) = record.map_err(failed)?;
            if !key.starts_with(&begin) || !visit(key, value)? {
                break;
            }
        }
        Ok(())
    }

    fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<NameEntry>, StoreError> {
        let mut listed = Vec::new();
        if limit > 0 {
            self.scan_prefix(&*self.begin_read()?, prefix, after, |key, value| {
                let head = Self::decode_header(key, value)?;
                listed.push(NameEntry { name: head.name, state: head.state });
                Ok(listed.len() < limit)
            })?;
        }
        Ok(listed)
    }

    /// Of each record only the first byte is looked at, and of the last one its name.
    fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        let mut counted = CountPage::default();
        let mut seen = 0;
        self.scan_prefix(&*self.begin_read()?, prefix, after, |key, value| {
            seen += 1;
            counted.live += u64::from(!record::is_tombstone(value));
            if seen >= limit {
                counted.next = NameKey::new(&Self::decode_header(key, value)?.name).ok();
            }
            Ok(seen < limit)
        })?;
        Ok(counted)
    }

    fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        let txn = self.begin_read()?;
        let failed = |error| backend_error("reading records", error);
        let after = after.map(|key| key::storage_key(key).into_owned());
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.databases.records.range(&txn, &(from, Bound::Unbounded)).map_err(failed)?;
        let mut piece = NamePage::default();
        for (number, record) in (1..=MAX_SCANNED_RECORDS).zip(records) {
            let (key, value) = record.map_err(failed)?;
            // Its name only if it is wanted: of many records, few may be.
            let there = record::revision(checksum::verify_and_strip(key, value, "record")?);
            let unknown = || checksum::corrupt(key, "record", "its layout is not known");
            let is_of_it = there.ok_or_else(unknown)? == revision;
            if !is_of_it && number < MAX_SCANNED_RECORDS {
                continue;
            }
            let head = Self::decode_header(key, value)?;
            let is_full = is_of_it && piece.names.len() + 1 >= limit;
            if is_full || number == MAX_SCANNED_RECORDS {
                piece.next = NameKey::new(&head.name).ok();
            }
            if is_of_it {
                piece.names.push(NameEntry { name: head.name, state: head.state });
            }
            if is_full {
                break;
            }
        }
        Ok(piece)
    }

    fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        if prefix.is_empty() || prefix.len() > NameKey::MAX_PREFIX_LEN {
            return Ok(false);
        }
        self.contains_homed(&*self.begin_read()?, &prefix.to_ascii_uppercase())
    }

    /// The same of a prefix in upper case, which is not too long.
    fn contains_homed(&self, txn: &RoTxn<'_>, folded: &[u8]) -> Result<bool, StoreError> {
        let found = self
            .databases
            .homed
            .get(txn, folded)
            .map_err(|error| backend_error("reading a prefix", error))?;
        found.map_or(Ok(false), |value| checksum::verify_and_strip(folded, value, "prefix").map(|_| true))
    }

    fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        let txn = self.begin_read()?;
        let failed = |error| backend_error("listing prefixes", error);
        let mut after = after.unwrap_or_default().to_ascii_uppercase();
        // No prefix is longer, so none is between.
        after.truncate(NameKey::MAX_PREFIX_LEN + 1);
        let from = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(&after[..]) };
        let range = (from, Bound::Unbounded);
        let mut homed = Vec::new();
        for entry in self.databases.homed.range(&txn, &range).map_err(failed)?.take(limit) {
            let (key, value) = entry.map_err(failed)?;
            checksum::verify_and_strip(key, value, "prefix")?;
            homed.push(String::from_utf8_lossy(key).into());
        }
        Ok(homed)
    }

    fn get_aux(&self, txn: &RoTxn<'_>, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        let Some(notes) = self.databases.notes.filter(|_| NameKey::is_valid_key(key)) else {
            return Ok(None);
        };
        let found = notes.get(txn, key).map_err(|error| backend_error("reading a note", error))?;
        found.map(|value| checksum::verify_and_strip(key, value, "note").map(Into::into)).transpose()
    }

    fn list_aux(
        &self,
        beginning: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Note>, StoreError> {
        let Some(database) = self.databases.notes else { return Ok(Vec::new()) };
        let failed = |error| backend_error("reading notes", error);
        let from = match after {
            Some(after) if after >= beginning && !after.is_empty() => Bound::Excluded(after),
            _ if beginning.is_empty() => Bound::Unbounded,
            _ => Bound::Included(beginning),
        };
        let (txn, mut notes) = (self.begin_read()?, Vec::new());
        for note in database.range(&txn, &(from, Bound::Unbounded)).map_err(failed)?.take(limit) {
            let (key, value) = note.map_err(failed)?;
            if !key.starts_with(beginning) {
                break;
            }
            notes.push((key.into(), checksum::verify_and_strip(key, value, "note")?.into()));
        }
        Ok(notes)
    }

    fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let txn = self.begin_read()?;
        let failed = |error| backend_error("reading the log", error);
        let after = after.to_be_bytes();
        let range = (Bound::Excluded(&after[..]), Bound::Unbounded);
        let mut lines = Vec::new();
        for entry in self.databases.log.range(&txn, &range).map_err(failed)?.take(limit) {
            let (key, value) = entry.map_err(failed)?;
            lines.push(Self::decode_log_entry(key, value)?);
        }
        Ok(lines)
    }
}

impl Store for EmbeddedStore {
    async fn get(&self, key: &NameKey) -> Result<Option<StoredRecord>, StoreError> {
        self.read_with_fallback(|tables| {
            let txn = tables.begin_read()?;
            tables.get_record(&txn, key)
        })
    }

    async fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<NameEntry>, StoreError> {
        self.read_with_fallback(|tables| tables.list_names(prefix, after, limit))
    }

    async fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        self.read_with_fallback(|tables| tables.count_names(prefix, after, limit))
    }

    async fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        mut visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> Result<(), StoreError> {
        // Not tried again if the engine is lost: what has been seen would be seen twice.
        self.lmdb().scan_records(prefix, after, |entry| visit(&entry))
    }

    async fn name_count(&self) -> Result<Option<u64>, StoreError> {
        self.count().map(Some)
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        self.read_with_fallback(|tables| tables.is_homed(prefix))
    }

    async fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        self.read_with_fallback(|tables| tables.list_homed(after, limit))
    }

    async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        match &self.writer {
            Some(writer) => writer.commit(change).await,
            None => Err(StoreError::ReadOnly { why: "it was opened so".into() }.into()),
        }
    }

    fn change_counters(&self) -> Option<&ChangeCounters> {
        // Who only reads beside another process does not hear of its changes.
        self.writer.as_ref().map(|writer| &*writer.versions)
    }

    async fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.read_with_fallback(|tables| tables.read_log(after, limit))
    }

    async fn get_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        self.read_with_fallback(|tables| tables.get_aux(&*tables.begin_read()?, key))
    }

    async fn list_aux(
        &self,
        beginning: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Note>, StoreError> {
        self.read_with_fallback(|tables| tables.list_aux(beginning, after, limit))
    }

    async fn history(&self, key: &NameKey, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        self.read_with_fallback(|tables| tables.history(key, order, limit))
    }

    async fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        self.read_with_fallback(|tables| tables.names_at_revision(revision, after, limit))
    }
}

/// A record without its checksum.
fn decode_disk_record<'p>(
    record_key: &[u8],
    body: &[u8],
    part: impl Fn(u32) -> Result<Option<&'p [u8]>, StoreError>,
) -> Result<DiskRecord, StoreError> {
    let mut problem = None;
    let record = record::decode(record_key, body, |number| {
        part(number).unwrap_or_else(|error| {
            problem = Some(error);
            None
        })
    });
    record.ok_or_else(|| {
        problem.unwrap_or_else(|| checksum::corrupt(record_key, "record", "its layout is not known"))
    })
}

fn backend_error(doing: &'static str, error: heed::Error) -> StoreError {
    StoreError::Failed { doing, error: Box::new(error) }
}

/// Reason why an embedded store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open for writing.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// There is nothing to be read.
    #[error("there is no store in {}", directory.display())]
    NoStore {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// There is something else.
    #[error("data.mdb in {} is not a store of this program", directory.display())]
    Foreign {
        /// Where it is.
        directory: PathBuf,
    },
    /// The file has been cut off.
    #[error("data.mdb in {} has been cut off: {there} bytes are there, {expected} should be", directory.display())]
    CutOff {
        /// Where it is.
        directory: PathBuf,
        /// How long it should be at least.
        expected: u64,
        /// How long it is.
        there: u64,
    },
    /// It was written by a version of this program that is newer, or by another program.
    #[error("the store in {} has the format `{found}`, which this version does not know", directory.display())]
    OtherFormat {
        /// Where it is.
        directory: PathBuf,
        /// What it says.
        found: String,
    },
    /// Another one was being moved here, and that was not finished.
    #[error("the store in {} is the unfinished copy of another", directory.display())]
    Unfinished {
        /// Where it is.
        directory: PathBuf,
    },
    /// The disk or the engine failed.
    #[error("the store in {} can't be opened: {error}", directory.display())]
    Failed {
        /// Where it is.
        directory: PathBuf,
        /// What was said.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What was read is not right.
    #[error("the store in {} can't be opened: {error}", directory.display())]
    Store {
        /// Where it is.
        directory: PathBuf,
        /// What was found.
        error: StoreError,
    },
}
