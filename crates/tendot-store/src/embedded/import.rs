//! Many records at once: sorted first, then written in the order of their keys, which is what the engine does best.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heed::{PutFlags, RwTxn};
use tendot_proto::Value;
use tendot_proto::wire::{Item as _, Reader, Writer};

use super::run::{self, Merge, Waiting};
use super::share::Sharing;
use super::{Lock, OpenError, Tables, checksum, failed, folder, key, log, record, writer};
use crate::{EditKind, Entry, Key, KeyError, Logged, State, StoreError, fail_point};

/// Bytes of records that wait in memory, unless told otherwise.
const BUFFER: usize = 32 << 20;

/// Records that are committed together, unless told otherwise.
const TOGETHER: usize = 50_000;

/// An import under way. It has the store for itself.
///
/// Records that come twice count once, the last one; those that are there as they are stay untouched. If it is
/// interrupted, what was written stays, and the same import again writes the rest.
///
/// ```
/// use tendot_store::{Embedded, Importer, Key, Store};
/// use tendot_proto::Value;
///
/// let directory = tempfile::tempdir()?;
/// let mut importer = Importer::open(directory.path(), "operator", 1_700_000_000_000)?;
/// importer.put("10.1000/2".into(), &[Value::new(1, "URL", "https://example.org/2")])?;
/// importer.put("10.1000/1".into(), &[Value::new(1, "URL", "https://example.org/1")])?;
/// importer.home("10.1000")?;
/// let imported = importer.finish(|_| {})?;
/// assert_eq!((imported.created, imported.changed, imported.unchanged), (2, 0, 0));
///
/// let store = Embedded::open(directory.path())?;
/// assert_eq!(store.scan(None, 10)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Importer {
    tables: Arc<Tables>,
    _lock: Lock,
    sharing: Sharing,
    by: Box<str>,
    at: u64,
    waiting: Vec<Waiting>,
    waiting_size: usize,
    buffer: usize,
    together: usize,
    /// Sorted runs, oldest first, in a folder of their own.
    folder: PathBuf,
    runs: Vec<PathBuf>,
    superseded: u64,
    homed: BTreeSet<Key>,
}

/// What came of an import.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Imported {
    /// Records that were not there.
    pub created: u64,
    /// Records that were there and were something else.
    pub changed: u64,
    /// Records that were there as they are.
    pub unchanged: u64,
    /// Records in whose place another one of the same import was taken.
    pub superseded: u64,
    /// Names that have been ended, and are not given again.
    pub ended: Vec<Box<str>>,
}

impl Importer {
    /// Begins an import into the store of a directory, which is made if it is not there.
    pub fn open(directory: &Path, by: &str, at: u64) -> Result<Self, OpenError> {
        let (tables, lock) = Tables::open(directory)?;
        let store = |error| OpenError::Store { directory: directory.into(), error };
        let txn = tables.read_txn().map_err(store)?;
        let sharing = Sharing::load(&tables.databases, &txn).map_err(store)?;
        drop(txn);
        let folder = directory.join("tendot-import-runs");
        // What an interrupted import left is of no use: its input comes again.
        folder::renew(&folder)
            .map_err(|error| OpenError::Failed { directory: directory.into(), error: Box::new(error) })?;
        Ok(Self {
            tables,
            _lock: lock,
            sharing,
            by: by.into(),
            at,
            waiting: Vec::new(),
            waiting_size: 0,
            buffer: BUFFER,
            together: TOGETHER,
            folder,
            runs: Vec::new(),
            superseded: 0,
            homed: BTreeSet::new(),
        })
    }

    /// Lets so many bytes of records wait in memory before they go to disk.
    #[must_use]
    pub const fn buffer(mut self, bytes: usize) -> Self {
        self.buffer = bytes;
        self
    }

    /// Commits so many records together.
    #[must_use]
    pub const fn together(mut self, records: usize) -> Self {
        self.together = if records == 0 { 1 } else { records };
        self
    }

    /// Adds a record. It is written when the import is finished.
    pub fn put(&mut self, name: Box<str>, values: &[Value<'_>]) -> Result<(), ImportError> {
        let key = Key::new(&name)?;
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        for value in values {
            value.encode(&mut out);
        }
        if bytes.len() > writer::RECORD {
            return Err(ImportError::TooLarge { length: bytes.len(), limit: writer::RECORD });
        }
        let record = Waiting { key, name, values: bytes.into() };
        self.waiting_size += record.size();
        self.waiting.push(record);
        if self.waiting_size >= self.buffer {
            self.superseded += run::sort(&mut self.waiting);
            let path = self.folder.join(format!("run-{}", self.runs.len()));
            run::write(&path, &self.waiting)
                .map_err(|error| ImportError::Run { path: path.clone(), error })?;
            self.runs.push(path);
            fail_point::pass("import: a run is written");
            self.waiting.clear();
            self.waiting_size = 0;
        }
        Ok(())
    }

    /// Names under this prefix are to be kept here.
    pub fn home(&mut self, prefix: &str) -> Result<(), ImportError> {
        self.homed.insert(Key::of_prefix(prefix)?);
        Ok(())
    }

    /// Writes all records. `progress` is told after each transaction how many there are so far.
    pub fn finish(mut self, mut progress: impl FnMut(&Imported)) -> Result<Imported, ImportError> {
        self.superseded += run::sort(&mut self.waiting);
        let folder = self.folder.clone();
        let in_runs = |error| ImportError::Run { path: folder.clone(), error };
        let mut merge = Merge::new(&self.runs, std::mem::take(&mut self.waiting)).map_err(in_runs)?;
        let mut run = Run::begin(&self)?;
        loop {
            let mut records = Vec::with_capacity(1_024);
            while records.len() < self.together
                && let Some(record) = merge.next().map_err(in_runs)?
            {
                records.push(record);
            }
            let is_last = records.len() < self.together;
            run.imported.superseded = self.superseded + merge.superseded();
            run.write(&mut self, records, is_last)?;
            progress(&run.imported);
            if is_last {
                // They are not needed any more, and the next import would remove them.
                let _ = std::fs::remove_dir_all(&self.folder);
                return Ok(run.imported);
            }
        }
    }
}

/// The writing of an import.
struct Run {
    revision: u64,
    /// Whether all keys come after those that are there, so that nothing has to be looked for.
    appends: bool,
    imported: Imported,
}

impl Run {
    fn begin(importer: &Importer) -> Result<Self, StoreError> {
        let txn = importer.tables.read_txn()?;
        let empty = importer.tables.databases.records.is_empty(&txn);
        let appends = empty.map_err(|error| failed("reading records", error))?;
        let revision = importer.tables.counter(&txn, b"revision")? + 1;
        Ok(Self { revision, appends, imported: Imported::default() })
    }

    fn write(
        &mut self,
        importer: &mut Importer,
        records: Vec<Waiting>,
        is_last: bool,
    ) -> Result<(), StoreError> {
        let tables = Arc::clone(&importer.tables);
        let committing = |error| failed("committing an import", error);
        fail_point::pass("import: before a transaction");
        let mut txn = tables.env.write_txn().map_err(committing)?;
        for record in records {
            self.write_record(importer, &mut txn, record)?;
        }
        importer.sharing.write(&tables.databases, &mut txn).map_err(committing)?;
        let count = self.imported.created + self.imported.changed;
        if count > 0 {
            tables.put_counter(&mut txn, b"revision", self.revision).map_err(committing)?;
        }
        if is_last {
            self.log(importer, &mut txn, count)?;
            tables.databases.meta.delete(&mut txn, Interrupted::NAME).map_err(committing)?;
        } else {
            let interrupted =
                Interrupted { revision: self.revision, count, at: importer.at, by: importer.by.clone() };
            interrupted.put(&tables, &mut txn).map_err(committing)?;
        }
        if is_last {
            fail_point::pass("import: before the last commit");
        }
        tables.commit(txn).map_err(committing)?;
        fail_point::pass(if is_last {
            "import: after the last commit"
        } else {
            "import: between two transactions"
        });
        importer.sharing.keep();
        Ok(())
    }

    fn write_record(
        &mut self,
        importer: &mut Importer,
        txn: &mut RwTxn<'_>,
        record: Waiting,
    ) -> Result<(), StoreError> {
        let tables = &importer.tables;
        let there = if self.appends { None } else { tables.get_uncommitted(txn, &record.key)? };
        let values = decode_values(&record.values).ok_or_else(|| StoreError::Damaged {
            what: format!("a run of the import, at `{}`", record.name),
        })?;
        let name = match there {
            None => {
                self.imported.created += 1;
                record.name
            }
            Some(entry) if entry.state == State::Tombstone => {
                self.imported.ended.push(entry.name);
                return Ok(());
            }
            Some(entry) if entry.values == values => {
                self.imported.unchanged += 1;
                return Ok(());
            }
            Some(entry) => {
                self.imported.changed += 1;
                entry.name
            }
        };
        let entry = Entry { name, revision: self.revision, state: State::Live, values };
        let record_key = key::record_key(&record.key);
        let mut value = record::encode(&entry, key::is_shortened(&record_key), &mut importer.sharing);
        checksum::seal(&record_key, &mut value);
        let records = importer.tables.databases.records;
        let put = if self.appends {
            // Long names share the beginning of their keys, and are in order only up to there.
            let flags = if key::is_shortened(&record_key) { PutFlags::empty() } else { PutFlags::APPEND };
            match records.put_with_flags(txn, flags, &record_key, &value) {
                Err(heed::Error::Mdb(heed::MdbError::KeyExist)) => records.put(txn, &record_key, &value),
                put => put,
            }
        } else {
            records.put(txn, &record_key, &value)
        };
        put.map_err(|error| failed("writing a record", error))
    }

    /// One line for the import, and one for each prefix that is new here.
    fn log(&self, importer: &Importer, txn: &mut RwTxn<'_>, count: u64) -> Result<(), StoreError> {
        let tables = &importer.tables;
        let writing = |error| failed("writing the log", error);
        let mut lines = Vec::new();
        if count > 0 {
            lines.push((EditKind::Import, "".into(), count));
        }
        for prefix in &importer.homed {
            let known = tables.databases.homed.get(txn, prefix.as_bytes()).map_err(writing)?.is_some();
            if !known {
                let mut value = Vec::new();
                checksum::seal(prefix.as_bytes(), &mut value);
                tables.databases.homed.put(txn, prefix.as_bytes(), &value).map_err(writing)?;
                lines.push((EditKind::Home, prefix.to_string().into(), 1));
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        let mut sequence = tables.counter(txn, b"sequence")?;
        for (kind, name, count) in lines {
            sequence += 1;
            let (revision, at, by) = (self.revision, importer.at, importer.by.clone());
            log::append(tables, txn, &Logged { sequence, revision, at, by, kind, name, count })
                .map_err(writing)?;
        }
        tables.put_counter(txn, b"sequence", sequence).map_err(writing)?;
        tables.put_counter(txn, b"revision", self.revision).map_err(writing)
    }
}

/// What stands in `meta` while an import is under way, so that its line in the log is written even if it is interrupted.
pub(super) struct Interrupted {
    revision: u64,
    count: u64,
    at: u64,
    by: Box<str>,
}

impl Interrupted {
    pub(super) const NAME: &'static [u8] = b"import";

    /// Writes the line of an import that was interrupted, if one was.
    pub(super) fn settle(tables: &Tables) -> Result<(), StoreError> {
        let settling = |error| failed("settling an interrupted import", error);
        let mut txn = tables.env.write_txn().map_err(settling)?;
        let found = tables.databases.meta.get(&txn, Self::NAME).map_err(settling)?;
        let Some(found) = found else { return Ok(()) };
        let body = checksum::open(Self::NAME, found, "interrupted import")?;
        let line = log::decode(0, body)
            .ok_or_else(|| checksum::damaged(Self::NAME, "interrupted import", "it is not understood"))?;
        let sequence = tables.counter(&txn, b"sequence")? + 1;
        log::append(tables, &mut txn, &Logged { sequence, ..line }).map_err(settling)?;
        tables.put_counter(&mut txn, b"sequence", sequence).map_err(settling)?;
        tables.databases.meta.delete(&mut txn, Self::NAME).map_err(settling)?;
        fail_point::pass("import: before it is settled");
        tables.commit(txn).map_err(settling)?;
        fail_point::pass("import: after it is settled");
        Ok(())
    }

    fn put(self, tables: &Tables, txn: &mut RwTxn<'_>) -> Result<(), heed::Error> {
        let Self { revision, count, at, by } = self;
        let line = Logged { sequence: 0, revision, at, by, kind: EditKind::Import, name: "".into(), count };
        let mut value = log::encode(&line);
        checksum::seal(Self::NAME, &mut value);
        tables.databases.meta.put(txn, Self::NAME, &value)
    }
}

fn decode_values(bytes: &[u8]) -> Option<Vec<Value<'static>>> {
    let mut reader = Reader::new(bytes);
    let mut values = Vec::new();
    while !reader.is_empty() {
        values.push(Value::decode(&mut reader).ok()?.into_owned());
    }
    Some(values)
}

/// Why an import cannot go on, or a record cannot be part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A name cannot be kept.
    #[error(transparent)]
    Name(#[from] KeyError),
    /// A record is too large to be kept.
    #[error("the record has {length} bytes, at most {limit} are kept")]
    TooLarge {
        /// Its bytes.
        length: usize,
        /// The most that are kept.
        limit: usize,
    },
    /// What waits on disk cannot be written or read.
    #[error("{}: {error}", path.display())]
    Run {
        /// Where it waits.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
