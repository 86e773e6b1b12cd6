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
pub use gather::Batch;
use heed::{Env, RoTxn, RwTxn, WithTls};
pub use import::{ImportError, ImportSummary, EmbeddedImporter};
use lock::Lock;
pub use lock::LockError;
pub use moving::EmbeddedTarget;
use open::Databases;
use parts::Parts;
use record::{Head, Record};
pub use verify::Verified;
#[cfg(feature = "postgres")]
pub(crate) use verify::disagreement;
use writer::Writer;
pub(crate) use writer::check_size;

use crate::{
    Change, CommitError, CommitInfo, Counted, Entry, History, Key, Listed, LogEntry, Note, HistoryOrder, Piece, Store,
    StoreError, ChangeCounters, fail_point,
};

/// A store in a directory of this machine's disk.
///
/// When it is closed, threads that have read from it must run on or have been joined: at its very end, after its function
/// has returned, a thread clears its entry in the engine's table of readers. [`std::thread::scope`] does not wait for that.
///
/// ```
/// use tendot_store::{Change, Edit, Embedded, Precondition, Key, Store};
/// use tendot_proto::Value;
///
/// # pollster::block_on(async {
/// let directory = tempfile::tempdir()?;
/// let store = Embedded::open(directory.path())?;
/// let values = vec![Value::new(1, "URL", "https://example.org/")];
/// let put = Edit::Put { name: "10.1000/182".into(), values, expect: Precondition::Absent };
/// store.commit(Change { by: "operator".into(), at: 1_700_000_000_000, edits: vec![put] }).await?;
///
/// // One process writes; others may read.
/// assert!(Embedded::open(directory.path()).is_err());
/// drop(store);
/// let store = Embedded::open(directory.path())?;
/// assert!(store.get(&Key::new("10.1000/182")?).await?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Embedded {
    tables: Arc<Tables>,
    /// None if the store was opened for reading only.
    writer: Option<Writer>,
    /// Held as long as the store is open for writing; let go last.
    _lock: Option<Lock>,
}

/// What the readers and the writer have in common.
#[derive(Debug)]
struct Tables {
    env: Env,
    databases: Databases,
    parts: Parts,
    /// The same once more, for reading, if the engine is lost to us.
    standby: OnceLock<Option<Box<Self>>>,
}

/// Records that are looked at in one call for those of a revision: some milliseconds.
const LOOKED_AT: usize = 10_000;

/// What `format` in `meta` says.
const STORE_FORMAT: &[u8] = b"tendot 1";

/// Where a store is made.
const CREATE_DIR: &str = "creating";

impl Embedded {
    /// Opens the store of a directory, and makes both if they are not there. No other process may have it open for
    /// writing.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let (tables, lock) = Tables::open(directory)?;
        let writer = Writer::start(Arc::clone(&tables))
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
        let env = open::environment(directory, true)?;
        let databases = Databases::open(&env).map_err(failed)?;
        let databases = databases.ok_or_else(|| OpenError::NoStore { directory: directory.into() })?;
        let tables = Arc::new(Tables { env, databases, parts: Parts::new(), standby: OnceLock::new() });
        tables.check_format(directory)?;
        tables.check_complete(directory)?;
        Ok(Self { tables, writer: None, _lock: None })
    }
}

impl Embedded {
    /// What is read from.
    fn tables(&self) -> &Tables {
        self.tables.standby.get().and_then(Option::as_deref).unwrap_or(&self.tables)
    }

    /// Reads; once more if the engine is lost to us.
    fn read<T>(&self, read: impl Fn(&Tables) -> Result<T, StoreError>) -> Result<T, StoreError> {
        read(self.tables()).or_else(|error| match self.tables.is_lost().then(|| self.tables.standby()) {
            Some(Some(standby)) => read(standby),
            _ => Err(error),
        })
    }

    /// Records in the order of their keys, tombstones among them: at most `limit`, after `after`.
    pub fn scan(&self, after: Option<&Key>, limit: usize) -> Result<Vec<Entry>, StoreError> {
        self.read(|tables| tables.scan(after, limit))
    }

    /// How many records there are, tombstones among them.
    pub fn count(&self) -> Result<u64, StoreError> {
        self.read(|tables| {
            let txn = tables.read_txn()?;
            tables.databases.records.len(&txn).map_err(|error| failed("counting records", error))
        })
    }
}

impl Tables {
    /// Opens the store of a directory for the one who writes.
    fn open(directory: &Path) -> Result<(Arc<Self>, Lock), OpenError> {
        let (tables, lock) = Self::open_unfinished(directory)?;
        tables.check_complete(directory)?;
        Ok((tables, lock))
    }

    /// The same of one that may be the unfinished copy of another.
    fn open_unfinished(directory: &Path) -> Result<(Arc<Self>, Lock), OpenError> {
        let failed = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let unmade = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        folder::make(directory).map_err(unmade)?;
        let lock = Lock::take(directory)?;
        backup::settle(directory).map_err(unmade)?;
        if directory.join("data.mdb").try_exists().map_err(unmade)? {
            folder::remove(&directory.join(CREATE_DIR)).map_err(unmade)?;
        } else {
            Self::create(directory)?;
        }
        let env = open::environment(directory, false)?;
        // Readers that were killed would keep old pages from being used again.
        env.clear_stale_readers().map_err(failed)?;
        let databases = Databases::open(&env).map_err(failed)?;
        let databases = databases.ok_or_else(|| OpenError::Foreign { directory: directory.into() })?;
        let mut tables = Self { env, databases, parts: Parts::new(), standby: OnceLock::new() };
        tables.check_format(directory)?;
        let store = |error| OpenError::Store { directory: directory.into(), error };
        import::Interrupted::settle(&tables).map_err(store)?;
        tables.complete().map_err(store)?;
        Ok((Arc::new(tables), lock))
    }

    /// Makes a store where none is. It is made in a folder of its own and moved when it is whole and durable, so that
    /// whatever is found under its name once is a store.
    fn create(directory: &Path) -> Result<(), OpenError> {
        let failed = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let unmade = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let making = directory.join(CREATE_DIR);
        folder::renew(&making).map_err(unmade)?;
        fail_point::pass("create: the folder is made");
        let env = open::environment(&making, false)?;
        let databases = Databases::create(&env).map_err(failed)?;
        let tables = Self { env, databases, parts: Parts::new(), standby: OnceLock::new() };
        let mut txn = tables.env.write_txn().map_err(failed)?;
        let mut value = STORE_FORMAT.to_vec();
        checksum::seal(b"format", &mut value);
        tables.databases.meta.put(&mut txn, b"format", &value).map_err(failed)?;
        for counter in [b"revision" as &[u8], b"sequence", history::SINCE] {
            tables.write_counter(&mut txn, counter, 0).map_err(failed)?;
        }
        tables.commit(txn).map_err(failed)?;
        tables.renew_lineage().map_err(failed)?;
        drop(tables);
        fail_point::pass("create: the store is made");
        std::fs::rename(making.join("data.mdb"), directory.join("data.mdb")).map_err(unmade)?;
        folder::sync(directory).map_err(unmade)?;
        fail_point::pass("create: the store is in place");
        std::fs::remove_dir_all(&making).map_err(unmade)
    }

    /// Makes what a store of an earlier version has not, and begins to keep its history. An import of such a version must
    /// have been settled.
    fn complete(&mut self) -> Result<(), StoreError> {
        let has_history = self.databases.history.is_some();
        if has_history && self.databases.notes.is_some() && self.databases.registrations.is_some() {
            return Ok(());
        }
        let sequence = self.counter(&*self.read_txn()?, b"sequence")?;
        let (env, mut databases) = (&self.env, self.databases);
        let made = databases.complete(env, |txn| {
            if !has_history {
                self.write_counter(txn, history::SINCE, sequence)?;
            }
            let number = txn.id() as u64;
            self.write_counter(txn, b"transaction", number)
        });
        made.map_err(|error| failed("making what earlier versions had not", error))?;
        self.databases = databases;
        Ok(())
    }

    /// A number that goes up: the last revision, the last line of the log.
    fn counter(&self, txn: &RoTxn<'_>, name: &'static [u8]) -> Result<u64, StoreError> {
        let value = self.databases.meta.get(txn, name).map_err(|error| failed("reading counters", error))?;
        let value = value.ok_or_else(|| checksum::damaged(name, "counter", "it is missing"))?;
        let body = checksum::open(name, value, "counter")?;
        let number = body.try_into().map(u64::from_le_bytes);
        number.map_err(|_| checksum::damaged(name, "counter", "it has another size"))
    }

    fn write_counter(&self, txn: &mut RwTxn<'_>, name: &'static [u8], number: u64) -> Result<(), heed::Error> {
        let mut value = number.to_le_bytes().to_vec();
        checksum::seal(name, &mut value);
        self.databases.meta.put(txn, name, &value)
    }

    fn scan(&self, after: Option<&Key>, limit: usize) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        if limit > 0 {
            self.visit(None, after, |entry| {
                entries.push(entry);
                entries.len() < limit
            })?;
        }
        Ok(entries)
    }

    fn visit(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&Key>,
        mut visit: impl FnMut(Entry) -> bool,
    ) -> Result<(), StoreError> {
        let txn = self.read_txn()?;
        if let Some(prefix) = prefix {
            let read = |key: &[u8], value: &[u8]| Ok(visit(self.entry(&txn, key, value)?));
            return self.scan_prefix(&txn, prefix, after, read);
        }
        let failed = |error| failed("reading records", error);
        let after = after.map(|key| key::record_key(key).into_owned());
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for record in self.databases.records.range(&txn, &(from, Bound::Unbounded)).map_err(failed)? {
            let (key, value) = record.map_err(failed)?;
            if !visit(self.entry(&txn, key, value)?) {
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
        let found = checksum::open(b"format", found, "format")
            .map_err(|error| OpenError::Store { directory: directory.into(), error })?;
        if found == STORE_FORMAT {
            return Ok(());
        }
        let found = String::from_utf8_lossy(found).into_owned();
        Err(OpenError::OtherFormat { directory: directory.into(), found })
    }

    fn get(&self, txn: &RoTxn<'_>, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.get_record(txn, key)?.map(|record| self.registered(txn, record)).transpose()
    }

    /// The record of a name, its registration unread.
    fn get_record(&self, txn: &RoTxn<'_>, key: &Key) -> Result<Option<Record>, StoreError> {
        self.find(txn, key, |number| self.parts.get(number, || self.load_dictionary_entry(txn, number)))
    }

    /// The same within a transaction that writes. Its parts may come to nothing, so none are kept.
    fn get_disk_record_in_write(&self, txn: &RwTxn<'_>, key: &Key) -> Result<Option<Record>, StoreError> {
        self.find(txn, key, |number| self.part(txn, number))
    }

    fn find<'p>(
        &self,
        txn: &RoTxn<'_>,
        key: &Key,
        part: impl Fn(u32) -> Result<Option<&'p [u8]>, StoreError>,
    ) -> Result<Option<Record>, StoreError> {
        let record_key = key::record_key(key);
        let found = self.databases.records.get(txn, &record_key);
        let Some(value) = found.map_err(|error| failed("reading a record", error))? else { return Ok(None) };
        let record = decode(&record_key, checksum::open(&record_key, value, "record")?, part)?;
        // Two long names could have the same key; then only one of them is here.
        let is_it = !key::is_shortened(&record_key)
            || record.entry.name.as_bytes().eq_ignore_ascii_case(key.as_bytes());
        Ok(is_it.then_some(record))
    }

    fn entry(&self, txn: &RoTxn<'_>, record_key: &[u8], value: &[u8]) -> Result<Entry, StoreError> {
        self.decode_record_body(txn, record_key, checksum::open(record_key, value, "record")?)
    }

    /// The same of a record without its checksum.
    fn decode_record_body(&self, txn: &RoTxn<'_>, record_key: &[u8], body: &[u8]) -> Result<Entry, StoreError> {
        let part = |number| self.parts.get(number, || self.load_dictionary_entry(txn, number));
        self.registered(txn, decode(record_key, body, part)?)
    }

    fn load_dictionary_entry(&self, txn: &RoTxn<'_>, number: u32) -> Result<Option<Box<[u8]>>, StoreError> {
        Ok(self.part(txn, number)?.map(Into::into))
    }

    fn part<'t>(&self, txn: &'t RoTxn<'_>, number: u32) -> Result<Option<&'t [u8]>, StoreError> {
        let key = number.to_be_bytes();
        let part = self.databases.parts.get(txn, &key).map_err(|error| failed("reading a part", error))?;
        part.map(|part| checksum::open(&key, part, "part")).transpose()
    }

    /// What can be known of a record without its values.
    fn head(&self, txn: &RoTxn<'_>, record_key: &[u8]) -> Result<Option<Head>, StoreError> {
        let value =
            self.databases.records.get(txn, record_key).map_err(|error| failed("reading a record", error))?;
        value.map(|value| Self::decode_header(record_key, value)).transpose()
    }

    fn decode_header(record_key: &[u8], value: &[u8]) -> Result<Head, StoreError> {
        let body = checksum::open(record_key, value, "record")?;
        let head = Head::take(record_key, body).map(|(head, _)| head);
        head.ok_or_else(|| checksum::damaged(record_key, "record", "its layout is not known"))
    }

    fn read_txn(&self) -> Result<RoTxn<'_, WithTls>, StoreError> {
        self.env.read_txn().map_err(|error| failed("beginning to read", error))
    }

    /// Walks over the records under a prefix, after a key, as long as `visit` wants more.
    fn scan_prefix(
        &self,
        txn: &RoTxn<'_>,
        prefix: &[u8],
        after: Option<&Key>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        if prefix.len() > Key::MAX_PREFIX_LEN {
            return Ok(());
        }
        let failed = |error| failed("listing names", error);
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
        let after = after.map(|key| key::record_key(key).into_owned());
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

    fn list(&self, prefix: &[u8], after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let mut listed = Vec::new();
        if limit > 0 {
            self.scan_prefix(&*self.read_txn()?, prefix, after, |key, value| {
                let head = Self::decode_header(key, value)?;
                listed.push(Listed { name: head.name, state: head.state });
                Ok(listed.len() < limit)
            })?;
        }
        Ok(listed)
    }

    /// Of each record only the first byte is looked at, and of the last one its name.
    fn count_under(&self, prefix: &[u8], after: Option<&Key>, limit: usize) -> Result<Counted, StoreError> {
        let mut counted = Counted::default();
        let mut seen = 0;
        self.scan_prefix(&*self.read_txn()?, prefix, after, |key, value| {
            seen += 1;
            counted.live += u64::from(!record::is_tombstone(value));
            if seen >= limit {
                counted.next = Key::new(&Self::decode_header(key, value)?.name).ok();
            }
            Ok(seen < limit)
        })?;
        Ok(counted)
    }

    fn of_revision(&self, revision: u64, after: Option<&Key>, limit: usize) -> Result<Piece, StoreError> {
        let txn = self.read_txn()?;
        let failed = |error| failed("reading records", error);
        let after = after.map(|key| key::record_key(key).into_owned());
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.databases.records.range(&txn, &(from, Bound::Unbounded)).map_err(failed)?;
        let mut piece = Piece::default();
        for (number, record) in (1..=LOOKED_AT).zip(records) {
            let (key, value) = record.map_err(failed)?;
            // Its name only if it is wanted: of many records, few may be.
            let there = record::revision(checksum::open(key, value, "record")?);
            let unknown = || checksum::damaged(key, "record", "its layout is not known");
            let is_of_it = there.ok_or_else(unknown)? == revision;
            if !is_of_it && number < LOOKED_AT {
                continue;
            }
            let head = Self::decode_header(key, value)?;
            let is_full = is_of_it && piece.names.len() + 1 >= limit;
            if is_full || number == LOOKED_AT {
                piece.next = Key::new(&head.name).ok();
            }
            if is_of_it {
                piece.names.push(Listed { name: head.name, state: head.state });
            }
            if is_full {
                break;
            }
        }
        Ok(piece)
    }

    fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        if prefix.is_empty() || prefix.len() > Key::MAX_PREFIX_LEN {
            return Ok(false);
        }
        self.has_homed(&*self.read_txn()?, &prefix.to_ascii_uppercase())
    }

    /// The same of a prefix in upper case, which is not too long.
    fn has_homed(&self, txn: &RoTxn<'_>, folded: &[u8]) -> Result<bool, StoreError> {
        let found =
            self.databases.homed.get(txn, folded).map_err(|error| failed("reading a prefix", error))?;
        found.map_or(Ok(false), |value| checksum::open(folded, value, "prefix").map(|_| true))
    }

    fn homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        let txn = self.read_txn()?;
        let failed = |error| failed("listing prefixes", error);
        let mut after = after.unwrap_or_default().to_ascii_uppercase();
        // No prefix is longer, so none is between.
        after.truncate(Key::MAX_PREFIX_LEN + 1);
        let from = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(&after[..]) };
        let range = (from, Bound::Unbounded);
        let mut homed = Vec::new();
        for entry in self.databases.homed.range(&txn, &range).map_err(failed)?.take(limit) {
            let (key, value) = entry.map_err(failed)?;
            checksum::open(key, value, "prefix")?;
            homed.push(String::from_utf8_lossy(key).into());
        }
        Ok(homed)
    }

    fn note(&self, txn: &RoTxn<'_>, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        let Some(notes) = self.databases.notes.filter(|_| Key::is_valid_key(key)) else { return Ok(None) };
        let found = notes.get(txn, key).map_err(|error| failed("reading a note", error))?;
        found.map(|value| checksum::open(key, value, "note").map(Into::into)).transpose()
    }

    fn notes(&self, beginning: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Note>, StoreError> {
        let Some(database) = self.databases.notes else { return Ok(Vec::new()) };
        let failed = |error| failed("reading notes", error);
        let from = match after {
            Some(after) if after >= beginning && !after.is_empty() => Bound::Excluded(after),
            _ if beginning.is_empty() => Bound::Unbounded,
            _ => Bound::Included(beginning),
        };
        let (txn, mut notes) = (self.read_txn()?, Vec::new());
        for note in database.range(&txn, &(from, Bound::Unbounded)).map_err(failed)?.take(limit) {
            let (key, value) = note.map_err(failed)?;
            if !key.starts_with(beginning) {
                break;
            }
            notes.push((key.into(), checksum::open(key, value, "note")?.into()));
        }
        Ok(notes)
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let txn = self.read_txn()?;
        let failed = |error| failed("reading the log", error);
        let after = after.to_be_bytes();
        let range = (Bound::Excluded(&after[..]), Bound::Unbounded);
        let mut lines = Vec::new();
        for entry in self.databases.log.range(&txn, &range).map_err(failed)?.take(limit) {
            let (key, value) = entry.map_err(failed)?;
            lines.push(Self::logged(key, value)?);
        }
        Ok(lines)
    }
}

impl Store for Embedded {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.read(|tables| {
            let txn = tables.read_txn()?;
            tables.get(&txn, key)
        })
    }

    async fn list(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        self.read(|tables| tables.list(prefix, after, limit))
    }

    async fn count_under(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Counted, StoreError> {
        self.read(|tables| tables.count_under(prefix, after, limit))
    }

    async fn visit(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&Key>,
        mut visit: impl FnMut(&Entry) -> bool + Send,
    ) -> Result<(), StoreError> {
        // Not tried again if the engine is lost: what has been seen would be seen twice.
        self.tables().visit(prefix, after, |entry| visit(&entry))
    }

    async fn size(&self) -> Result<Option<u64>, StoreError> {
        self.count().map(Some)
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        self.read(|tables| tables.is_homed(prefix))
    }

    async fn homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        self.read(|tables| tables.homed(after, limit))
    }

    async fn commit(&self, change: Change) -> Result<CommitInfo, CommitError> {
        match &self.writer {
            Some(writer) => writer.commit(change).await,
            None => Err(StoreError::ReadOnly { why: "it was opened so".into() }.into()),
        }
    }

    fn versions(&self) -> Option<&ChangeCounters> {
        // Who only reads beside another process does not hear of its changes.
        self.writer.as_ref().map(|writer| &*writer.versions)
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.read(|tables| tables.changes(after, limit))
    }

    async fn note(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        self.read(|tables| tables.note(&*tables.read_txn()?, key))
    }

    async fn notes(
        &self,
        beginning: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Note>, StoreError> {
        self.read(|tables| tables.notes(beginning, after, limit))
    }

    async fn history(&self, key: &Key, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        self.read(|tables| tables.history(key, order, limit))
    }

    async fn of_revision(
        &self,
        revision: u64,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Piece, StoreError> {
        self.read(|tables| tables.of_revision(revision, after, limit))
    }
}

/// A record without its checksum.
fn decode<'p>(
    record_key: &[u8],
    body: &[u8],
    part: impl Fn(u32) -> Result<Option<&'p [u8]>, StoreError>,
) -> Result<Record, StoreError> {
    let mut problem = None;
    let record = record::decode(record_key, body, |number| {
        part(number).unwrap_or_else(|error| {
            problem = Some(error);
            None
        })
    });
    record.ok_or_else(|| {
        problem.unwrap_or_else(|| checksum::damaged(record_key, "record", "its layout is not known"))
    })
}

fn failed(doing: &'static str, error: heed::Error) -> StoreError {
    StoreError::Failed { doing, error: Box::new(error) }
}

/// Why a store cannot be opened.
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
