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
use super::{OpenError, import, restore};
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
pub(crate) const STORE_FORMAT: &[u8] = b"tendot 2";

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
        let lmdb_error = |error| OpenError::Io { directory: directory.into(), error: Box::new(error) };
        let io_error = |error| OpenError::Io { directory: directory.into(), error: Box::new(error) };
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
        env.clear_stale_readers().map_err(lmdb_error)?;
        let databases = Self::open_databases(&env, directory)?;
        let databases = databases.ok_or_else(|| OpenError::NotAStore { directory: directory.into() })?;
        let lmdb =
            Self { env, databases, dictionary: DictionaryCache::new(), read_only_fallback: OnceLock::new() };
        lmdb.check_format(directory)?;
        let store_error = |error| OpenError::Store { directory: directory.into(), error };
        import::PendingImport::recover_interrupted(&lmdb).map_err(store_error)?;
        Ok((Arc::new(lmdb), lock))
    }

    /// Creates a store in a subdirectory and renames it when it is complete and durable, so that `data.mdb` is always a whole
    /// store.
    fn create(directory: &Path) -> Result<(), OpenError> {
        let lmdb_error = |error| OpenError::Io { directory: directory.into(), error: Box::new(error) };
        let io_error = |error| OpenError::Io { directory: directory.into(), error: Box::new(error) };
        let create_dir = directory.join(CREATE_DIR);
        durable_dir::recreate_private_dir(&create_dir).map_err(io_error)?;
        fail_point::hit("create-dir");
        let env = environment::open_environment(&create_dir, false)?;
        let databases = Databases::create(&env).map_err(lmdb_error)?;
        let lmdb =
            Self { env, databases, dictionary: DictionaryCache::new(), read_only_fallback: OnceLock::new() };
        let mut txn = lmdb.env.write_txn().map_err(lmdb_error)?;
        let mut value = STORE_FORMAT.to_vec();
        checksum::append(b"format", &mut value);
        lmdb.databases.meta.put(&mut txn, b"format", &value).map_err(lmdb_error)?;
        for counter in [b"revision" as &[u8], b"sequence"] {
            lmdb.write_counter(&mut txn, counter, 0).map_err(lmdb_error)?;
        }
        lmdb.commit(txn).map_err(lmdb_error)?;
        lmdb.write_store_id().map_err(lmdb_error)?;
        drop(lmdb);
        fail_point::hit("create-store");
        std::fs::rename(create_dir.join("data.mdb"), directory.join("data.mdb")).map_err(io_error)?;
        durable_dir::sync_dir(directory).map_err(io_error)?;
        fail_point::hit("create-renamed");
        std::fs::remove_dir_all(&create_dir).map_err(io_error)
    }

    /// Opens the databases; `None` if `data.mdb` is not a store.
    pub(crate) fn open_databases(env: &Env, directory: &Path) -> Result<Option<Databases>, OpenError> {
        let databases = Databases::open(env)
            .map_err(|error| OpenError::Io { directory: directory.into(), error: Box::new(error) })?;
        // A store of another version may lack databases.
        if databases.is_none()
            && let Some(format) = environment::read_format(env)
            && format != STORE_FORMAT
        {
            return Err(unknown_format(directory, &format));
        }
        Ok(databases)
    }

    /// Checks the store's format.
    pub(crate) fn check_format(&self, directory: &Path) -> Result<(), OpenError> {
        let lmdb_error = |error| OpenError::Io { directory: directory.into(), error: Box::new(error) };
        let txn = self.env.read_txn().map_err(lmdb_error)?;
        let found = self.databases.meta.get(&txn, b"format").map_err(lmdb_error)?;
        let found = found.ok_or_else(|| OpenError::NotAStore { directory: directory.into() })?;
        let found = checksum::verify_and_strip(b"format", found, "meta entry")
            .map_err(|error| OpenError::Store { directory: directory.into(), error })?;
        if found == STORE_FORMAT {
            return Ok(());
        }
        Err(unknown_format(directory, found))
    }

    /// Reads a counter: last revision, last sequence number, last transaction.
    pub(crate) fn read_counter(&self, txn: &RoTxn<'_>, name: &'static [u8]) -> Result<u64, StoreError> {
        let value =
            self.databases.meta.get(txn, name).map_err(|error| backend_error("reading counters", error))?;
        let value = value.ok_or_else(|| checksum::corrupt(name, "counter", "missing"))?;
        let body = checksum::verify_and_strip(name, value, "counter")?;
        let number = body.try_into().map(u64::from_le_bytes);
        number.map_err(|_| checksum::corrupt(name, "counter", "wrong length"))
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
        self.env.read_txn().map_err(|error| backend_error("starting a read transaction", error))
    }

    /// Writes a new random store id.
    pub(crate) fn write_store_id(&self) -> Result<(), heed::Error> {
        use std::hash::{BuildHasher as _, RandomState};
        // Unique, not secret: the hash keys come from the system's random source.
        let random = || RandomState::new().hash_one(std::time::SystemTime::now()).to_le_bytes();
        let mut value = [random(), random()].concat();
        checksum::append(b"store_id", &mut value);
        let mut txn = self.env.write_txn()?;
        self.databases.meta.put(&mut txn, b"store_id", &value)?;
        self.commit(txn)
    }
}

fn unknown_format(directory: &Path, format: &[u8]) -> OpenError {
    let found = String::from_utf8_lossy(format).into_owned();
    OpenError::UnknownFormat { directory: directory.into(), found }
}

pub(crate) fn backend_error(operation: &'static str, error: heed::Error) -> StoreError {
    StoreError::Backend { operation, error: Box::new(error) }
}

#[cfg(test)]
mod tests {
    use heed::CommitOrAbort;
    use heed::types::Bytes;

    use super::*;
    use crate::EmbeddedStore;

    /// A store of another format is refused with its format, although it lacks databases of this one.
    #[test]
    fn other_formats_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let env = environment::open_environment(directory.path(), false).unwrap();
        let created = env.create_databases_and_commit(env.write_txn().unwrap(), |opener, txn| {
            let meta = opener.create_database::<Bytes, Bytes>(txn, Some("meta"))?;
            opener.create_database::<Bytes, Bytes>(txn, Some("parts"))?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(meta))
        });
        let meta = created.unwrap().unwrap_commit();
        let mut format = b"tendot 1".to_vec();
        checksum::append(b"format", &mut format);
        let mut txn = env.write_txn().unwrap();
        meta.put(&mut txn, b"format", &format).unwrap();
        txn.commit().unwrap();
        drop(env);
        for opened in [EmbeddedStore::open(directory.path()), EmbeddedStore::open_read_only(directory.path())]
        {
            let error = opened.unwrap_err();
            assert!(matches!(error, OpenError::UnknownFormat { .. }), "{error}");
            assert!(error.to_string().starts_with("unknown store format `tendot 1` in "), "{error}");
        }
    }
}
