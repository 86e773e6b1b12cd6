//! LMDB environment of an embedded store: creating, opening, counters.
//!
//! `environment` opens LMDB (the only unsafe code), `transaction` commits, `directory_lock` excludes other writing processes,
//! `durable_dir` handles directories, `page_check` checks LMDB's pages without LMDB.

pub(crate) mod directory_lock;
pub(crate) mod durable_dir;
pub(crate) mod environment;
pub(crate) mod page_check;
pub(crate) mod transaction;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use directory_lock::DirectoryLock;
use environment::Databases;
use heed::{Env, RoTxn, RwTxn, WithTls};

use super::format::checksum;
use super::format::dictionary::DictionaryCache;
use super::{OpenError, history, import, restore};
use crate::{StoreError, fail_point};

/// LMDB environment with its databases and dictionary cache; shared by readers and the writer.
#[derive(Debug)]
pub(crate) struct Lmdb {
    pub(crate) env: Env,
    pub(crate) databases: Databases,
    pub(crate) dictionary: DictionaryCache,
    /// Second, read-only environment, opened when LMDB has failed.
    pub(crate) read_only_fallback: OnceLock<Option<Box<Self>>>,
}

/// Value of `format` in the database `meta`.
pub(crate) const STORE_FORMAT: &[u8] = b"tendot 1";

/// Subdirectory in which a new store is created.
const CREATE_DIR: &str = "creating";

impl Lmdb {
    /// Opens the store in a directory for writing.
    pub(crate) fn open(directory: &Path) -> Result<(Arc<Self>, DirectoryLock), OpenError> {
        let (lmdb, lock) = Self::open_allowing_incomplete(directory)?;
        lmdb.check_migration_complete(directory)?;
        Ok((lmdb, lock))
    }

    /// Opens a store for writing, even if it is the target of an incomplete migration.
    pub(crate) fn open_allowing_incomplete(
        directory: &Path,
    ) -> Result<(Arc<Self>, DirectoryLock), OpenError> {
        let failed = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let io_error = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        durable_dir::create_dir(directory).map_err(io_error)?;
        let lock = DirectoryLock::acquire(directory)?;
        restore::recover_interrupted(directory).map_err(io_error)?;
        if directory.join("data.mdb").try_exists().map_err(io_error)? {
            durable_dir::remove_dir(&directory.join(CREATE_DIR)).map_err(io_error)?;
        } else {
            Self::create(directory)?;
        }
        let env = environment::open_environment(directory, false)?;
        // Slots of killed readers would keep old pages from being reused.
        env.clear_stale_readers().map_err(failed)?;
        let databases = Databases::open(&env).map_err(failed)?;
        let databases = databases.ok_or_else(|| OpenError::Foreign { directory: directory.into() })?;
        let mut lmdb =
            Self { env, databases, dictionary: DictionaryCache::new(), read_only_fallback: OnceLock::new() };
        lmdb.check_format(directory)?;
        let store = |error| OpenError::Store { directory: directory.into(), error };
        import::PendingImport::recover_interrupted(&lmdb).map_err(store)?;
        lmdb.complete().map_err(store)?;
        Ok((Arc::new(lmdb), lock))
    }

    /// Creates a store in a subdirectory and renames it when it is complete and durable, so that `data.mdb` is always a whole
    /// store.
    fn create(directory: &Path) -> Result<(), OpenError> {
        let failed = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let io_error = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let create_dir = directory.join(CREATE_DIR);
        durable_dir::recreate_private_dir(&create_dir).map_err(io_error)?;
        fail_point::hit("create: the folder is made");
        let env = environment::open_environment(&create_dir, false)?;
        let databases = Databases::create(&env).map_err(failed)?;
        let lmdb =
            Self { env, databases, dictionary: DictionaryCache::new(), read_only_fallback: OnceLock::new() };
        let mut txn = lmdb.env.write_txn().map_err(failed)?;
        let mut value = STORE_FORMAT.to_vec();
        checksum::append(b"format", &mut value);
        lmdb.databases.meta.put(&mut txn, b"format", &value).map_err(failed)?;
        for counter in [b"revision" as &[u8], b"sequence", history::HISTORY_START_META_KEY] {
            lmdb.write_counter(&mut txn, counter, 0).map_err(failed)?;
        }
        lmdb.commit(txn).map_err(failed)?;
        lmdb.renew_lineage().map_err(failed)?;
        drop(lmdb);
        fail_point::hit("create: the store is made");
        std::fs::rename(create_dir.join("data.mdb"), directory.join("data.mdb")).map_err(io_error)?;
        durable_dir::sync_dir(directory).map_err(io_error)?;
        fail_point::hit("create: the store is in place");
        std::fs::remove_dir_all(&create_dir).map_err(io_error)
    }

    /// Adds the databases that stores of earlier versions lack. A pending import must have been recovered before.
    fn complete(&mut self) -> Result<(), StoreError> {
        let has_history = self.databases.history.is_some();
        if has_history && self.databases.aux.is_some() && self.databases.registrations.is_some() {
            return Ok(());
        }
        let sequence = self.read_counter(&*self.begin_read()?, b"sequence")?;
        let (env, mut databases) = (&self.env, self.databases);
        let made = databases.complete(env, |txn| {
            if !has_history {
                self.write_counter(txn, history::HISTORY_START_META_KEY, sequence)?;
            }
            let number = txn.id() as u64;
            self.write_counter(txn, b"transaction", number)
        });
        made.map_err(|error| backend_error("making what earlier versions had not", error))?;
        self.databases = databases;
        Ok(())
    }

    /// Checks the store's format.
    pub(crate) fn check_format(&self, directory: &Path) -> Result<(), OpenError> {
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

    /// Reads a counter: last revision, last sequence number, last transaction.
    pub(crate) fn read_counter(&self, txn: &RoTxn<'_>, name: &'static [u8]) -> Result<u64, StoreError> {
        let value =
            self.databases.meta.get(txn, name).map_err(|error| backend_error("reading counters", error))?;
        let value = value.ok_or_else(|| checksum::corrupt(name, "counter", "it is missing"))?;
        let body = checksum::verify_and_strip(name, value, "counter")?;
        let number = body.try_into().map(u64::from_le_bytes);
        number.map_err(|_| checksum::corrupt(name, "counter", "it has another size"))
    }

    pub(crate) fn write_counter(
        &self,
        txn: &mut RwTxn<'_>,
        name: &'static [u8],
        number: u64,
    ) -> Result<(), heed::Error> {
        let mut value = number.to_le_bytes().to_vec();
        checksum::append(name, &mut value);
        self.databases.meta.put(txn, name, &value)
    }

    pub(crate) fn begin_read(&self) -> Result<RoTxn<'_, WithTls>, StoreError> {
        self.env.read_txn().map_err(|error| backend_error("beginning to read", error))
    }

    /// Writes a new random lineage.
    pub(crate) fn renew_lineage(&self) -> Result<(), heed::Error> {
        use std::hash::{BuildHasher as _, RandomState};
        // Unique, not secret: the hash keys come from the system's random source.
        let random = || RandomState::new().hash_one(std::time::SystemTime::now()).to_le_bytes();
        let mut value = [random(), random()].concat();
        checksum::append(b"lineage", &mut value);
        let mut txn = self.env.write_txn()?;
        self.databases.meta.put(&mut txn, b"lineage", &value)?;
        self.commit(txn)
    }
}

pub(crate) fn backend_error(doing: &'static str, error: heed::Error) -> StoreError {
    StoreError::Failed { doing, error: Box::new(error) }
}
