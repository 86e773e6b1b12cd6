//! Embedded store: one LMDB environment in a local directory.
//!
//! In reading order: `lmdb` opens the environment and commits, `error` has the errors of opening; `format` encodes records (described
//! in `docs/background/storage-format.md`); `read`, `history` and `registration` read; `name_hashes` confirms misses; `aux_buffer` has
//! recent aux entries, `aux_read` reads them; `writer` commits change sets in groups, `transaction_view` is the state they are applied
//! to, `write` writes single entries, and `write_status` reports whether the store can be written; `import`, `backup`, `restore`,
//! `restore_names` (single names), `verify`, `scrub` and `migration` work on the whole store.

mod aux_buffer;
mod aux_read;
mod backup;
mod error;
mod format;
mod history;
mod import;
mod lmdb;
mod migration;
mod name_hashes;
mod read;
mod registration;
mod restore;
mod restore_names;
mod scrub;
mod transaction_view;
mod verify;
mod write;
mod write_status;
mod writer;

use std::path::Path;
use std::sync::Arc;

pub use error::OpenError;
use error::{check_directory, io_error, store_error};
pub use import::EmbeddedImporter;
use lmdb::environment;
use lmdb::{Lmdb, backend_error};
pub use migration::EmbeddedTarget;
pub use restore::{RestoreError, restore};
pub use restore_names::{RestoredNames, restore_names};
use scrub::Scrub;
pub use scrub::ScrubStatus;
pub use write_status::{WriteFault, WriteStatus};
use writer::EmbeddedWriter;

use crate::directory_lock::DirectoryLock;
use crate::{
    AuxEntry, ChangeCounters, ChangeSet, CommitError, CommitInfo, CountPage, History, HistoryOrder, LogEntry,
    NameEntry, NameKey, NamePage, Store, StoreError, StoreHead, StoredRecord,
};

/// Embedded store: one LMDB environment in a local directory.
///
/// Threads that have read from the store must be joined or keep running when it is closed: a thread clears its slot in LMDB's
/// reader table at its very end, after [`std::thread::scope`] has stopped waiting for it.
///
/// ```
/// use tendot_store::{ChangeSet, Edit, EmbeddedStore, Precondition, NameKey, Store};
/// use tendot_proto::HandleValue;
///
/// # pollster::block_on(async {
/// let directory = tempfile::tempdir()?;
/// let store = EmbeddedStore::open(directory.path())?;
/// let values = vec![HandleValue::new(1, "URL", "https://example.org/")];
/// let put = Edit::Put { name: "10.1000/182".into(), values, precondition: Precondition::Absent };
/// store.commit(ChangeSet { author: "operator".into(), timestamp_ms: 1_700_000_000_000, edits: vec![put] }).await?;
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
    /// Its thread is joined before LMDB is closed.
    scrub: Scrub,
    lmdb: Arc<Lmdb>,
    /// `None` if the store is read-only.
    writer: Option<EmbeddedWriter>,
    /// Held while the store is open for writing; dropped last.
    _lock: Option<DirectoryLock>,
}

impl EmbeddedStore {
    /// Opens the store in a directory for writing; creates directory and store if missing. Fails if another process has it open
    /// for writing.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let (lmdb, lock) = Lmdb::open(directory)?;
        let writer = EmbeddedWriter::start(Arc::clone(&lmdb)).map_err(store_error(directory))?;
        Ok(Self { scrub: Scrub::default(), lmdb, writer: Some(writer), _lock: Some(lock) })
    }

    /// Opens the store in a directory read-only, also while another process writes.
    pub fn open_read_only(directory: &Path) -> Result<Self, OpenError> {
        check_directory(directory)?;
        if !directory.join("data.mdb").try_exists().map_err(io_error(directory))? {
            return Err(OpenError::NotFound { directory: directory.into(), is_missing: !directory.exists() });
        }
        let env = environment::open_environment(directory, true)?;
        let databases = Lmdb::open_databases(&env, directory)?;
        let databases = databases.ok_or_else(|| OpenError::NotAStore { directory: directory.into() })?;
        let lmdb = Arc::new(Lmdb::new(env, databases));
        lmdb.check_format(directory)?;
        lmdb.check_migration_complete(directory)?;
        Ok(Self { scrub: Scrub::default(), lmdb, writer: None, _lock: None })
    }
}

impl EmbeddedStore {
    /// Environment for reads: the read-only fallback once LMDB has failed.
    fn lmdb(&self) -> &Lmdb {
        self.lmdb.read_only_fallback.get().and_then(Option::as_deref).unwrap_or(&self.lmdb)
    }

    /// Runs a read, and repeats it on the read-only fallback if LMDB has failed.
    fn read_with_fallback<T>(&self, read: impl Fn(&Lmdb) -> Result<T, StoreError>) -> Result<T, StoreError> {
        read(self.lmdb()).or_else(|error| {
            match self.lmdb.is_poisoned().then(|| self.lmdb.read_only_fallback()) {
                Some(Some(fallback)) => read(fallback),
                _ => Err(error),
            }
        })
    }

    /// Returns the number of records, tombstones included.
    pub fn count(&self) -> Result<u64, StoreError> {
        self.read_with_fallback(|lmdb| {
            let txn = lmdb.begin_read()?;
            lmdb.databases.records.len(&txn).map_err(|error| backend_error("counting records", error))
        })
    }
}

impl Store for EmbeddedStore {
    async fn get(&self, key: &NameKey) -> Result<Option<StoredRecord>, StoreError> {
        self.read_with_fallback(|lmdb| {
            let txn = lmdb.begin_read()?;
            lmdb.get_record(&txn, key)
        })
    }

    async fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<NameEntry>, StoreError> {
        self.read_with_fallback(|lmdb| lmdb.list_names(prefix, after, limit))
    }

    async fn seek_names(
        &self,
        prefix: &[u8],
        starts: &[Vec<u8>],
    ) -> Result<Vec<Option<NameEntry>>, StoreError> {
        self.read_with_fallback(|lmdb| lmdb.seek_names(prefix, starts))
    }

    async fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        self.read_with_fallback(|lmdb| lmdb.count_names(prefix, after, limit))
    }

    async fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        mut visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> Result<(), StoreError> {
        // Not repeated if LMDB fails: `visit` would see records twice.
        self.lmdb().scan_records(prefix, after, |record| visit(&record))
    }

    async fn name_count(&self) -> Result<Option<u64>, StoreError> {
        self.count().map(Some)
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        self.read_with_fallback(|lmdb| lmdb.is_homed(prefix))
    }

    async fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        self.read_with_fallback(|lmdb| lmdb.list_homed(after, limit))
    }

    async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        match &self.writer {
            Some(writer) => writer.commit(change).await,
            None => Err(StoreError::ReadOnly { reason: "opened read-only".into() }.into()),
        }
    }

    fn change_counters(&self) -> Option<&ChangeCounters> {
        // A read-only store does not see the commits of the writing process.
        self.writer.as_ref().map(|writer| &*writer.counters)
    }

    async fn head(&self) -> Result<StoreHead, StoreError> {
        self.read_with_fallback(|lmdb| lmdb.read_head(&*lmdb.begin_read()?))
    }

    async fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.read_with_fallback(|lmdb| lmdb.read_log(after, limit))
    }

    async fn get_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        self.read_with_fallback(|lmdb| lmdb.read_aux(key))
    }

    async fn list_aux(
        &self,
        key_prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<AuxEntry>, StoreError> {
        self.read_with_fallback(|lmdb| lmdb.list_aux(key_prefix, after, limit))
    }

    async fn history(&self, key: &NameKey, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        self.read_with_fallback(|lmdb| lmdb.history(key, order, limit))
    }

    async fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        self.read_with_fallback(|lmdb| lmdb.names_at_revision(revision, after, limit))
    }
}
