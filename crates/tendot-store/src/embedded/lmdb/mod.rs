//! LMDB environment of an embedded store: creating, opening, counters.

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
    pub(crate) parts: DictionaryCache,
    /// The same once more, for reading, if the engine is lost to us.
    pub(crate) standby: OnceLock<Option<Box<Self>>>,
}

/// What `format` in `meta` says.
pub(crate) const STORE_FORMAT: &[u8] = b"tendot 1";

/// Where a store is made.
const CREATE_DIR: &str = "creating";

impl Lmdb {
    /// Opens the store of a directory for the one who writes.
    pub(crate) fn open(directory: &Path) -> Result<(Arc<Self>, DirectoryLock), OpenError> {
        let (tables, lock) = Self::open_allowing_incomplete(directory)?;
        tables.check_migration_complete(directory)?;
        Ok((tables, lock))
    }

    /// The same of one that may be the unfinished copy of another.
    pub(crate) fn open_allowing_incomplete(
        directory: &Path,
    ) -> Result<(Arc<Self>, DirectoryLock), OpenError> {
        let failed = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        let unmade = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
        durable_dir::create_dir(directory).map_err(unmade)?;
        let lock = DirectoryLock::acquire(directory)?;
        restore::recover_interrupted(directory).map_err(unmade)?;
        if directory.join("data.mdb").try_exists().map_err(unmade)? {
            durable_dir::remove_dir(&directory.join(CREATE_DIR)).map_err(unmade)?;
        } else {
            Self::create(directory)?;
        }
        let env = environment::open_environment(directory, false)?;
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
        durable_dir::recreate_private_dir(&making).map_err(unmade)?;
        fail_point::hit("create: the folder is made");
        let env = environment::open_environment(&making, false)?;
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
        durable_dir::sync_dir(directory).map_err(unmade)?;
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

    /// Checks what the store says of itself.
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

    /// A number that goes up: the last revision, the last line of the log.
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

    /// Gives the store a lineage that no other has.
    pub(crate) fn renew_lineage(&self) -> Result<(), heed::Error> {
        use std::hash::{BuildHasher as _, RandomState};
        // Not a secret, only never the same twice: the keys of hash maps come from the system's source of randomness.
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
