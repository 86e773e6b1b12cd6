//! LMDB environment of an embedded store: creating, opening, head of the log.
//!
//! `environment` opens LMDB (the only unsafe code), `transaction` commits, `meta_sync` makes the state that is opened durable,
//! `page_check` checks LMDB's pages without LMDB, and `page_scan` does so in small steps.

pub(crate) mod environment;
mod meta_sync;
pub(crate) mod page_check;
pub(crate) mod page_scan;
pub(crate) mod transaction;

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use environment::Databases;
use heed::{Env, MdbError, RoTxn, RwTxn, WithTls};

use super::aux_buffer::AuxOverlay;
use super::error::{check_directory, io_error, store_error};
use super::format::checksum;
use super::format::dictionary::DictionaryCache;
use super::name_hashes::NameHasher;
use super::{OpenError, import, restore};
use crate::directory_lock::{DataFileLock, DirectoryLock};
use crate::{LogHash, StoreError, StoreHead, durable_dir, fail_point};

/// LMDB environment with its databases and dictionary cache; shared by readers and the writer.
#[derive(Debug)]
pub(crate) struct Lmdb {
    pub(crate) env: Env,
    pub(crate) databases: Databases,
    pub(crate) dictionary: DictionaryCache,
    pub(crate) aux_overlay: AuxOverlay,
    /// Read on first use.
    pub(crate) name_hasher: OnceLock<NameHasher>,
    /// `None` if the environment is read-only.
    data_file: Option<DataFileLock>,
    /// Second, read-only environment, opened when LMDB has failed.
    pub(crate) read_only_fallback: OnceLock<Option<Box<Self>>>,
    /// Id of the last transaction whose commit succeeded.
    last_transaction: AtomicU64,
    /// The only transaction whose state may be read, if this is a read-only fallback.
    only_transaction: Option<u64>,
}

/// Value of `format` in the database `meta`.
pub(crate) const STORE_FORMAT: &[u8] = b"tendot 5";

/// Subdirectory in which a new store is created.
const CREATE_DIR: &str = "creating";

/// Key in `meta` of the format.
pub(crate) const FORMAT_META_KEY: &[u8] = b"format";

/// Key in `meta` of the log's head.
pub(crate) const HEAD_META_KEY: &[u8] = b"head";

/// Key in `meta` of the id of the last LMDB transaction.
pub(crate) const TRANSACTION_META_KEY: &[u8] = b"transaction";

impl Lmdb {
    pub(crate) fn new(env: Env, databases: Databases) -> Self {
        let last_transaction = env.read_txn().map_or(0, |txn| txn.id() as u64);
        Self {
            last_transaction: AtomicU64::new(last_transaction),
            only_transaction: None,
            env,
            databases,
            dictionary: DictionaryCache::new(),
            aux_overlay: AuxOverlay::reader(),
            name_hasher: OnceLock::new(),
            data_file: None,
            read_only_fallback: OnceLock::new(),
        }
    }

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
        check_directory(directory)?;
        durable_dir::create_dir(directory).map_err(io_error(directory))?;
        let lock = DirectoryLock::acquire(directory)?;
        let mut data_file = DataFileLock::acquire(directory)?;
        restore::recover_interrupted(directory).map_err(io_error(directory))?;
        if data_file.is_some() {
            durable_dir::remove_dir(&directory.join(CREATE_DIR)).map_err(io_error(directory))?;
        } else {
            Self::create(directory)?;
            data_file = DataFileLock::acquire(directory)?;
        }
        let env = environment::open_environment(directory, false)?;
        // Slots of killed readers would keep old pages from being reused.
        env.clear_stale_readers().map_err(io_error(directory))?;
        let databases = Self::open_databases(&env, directory)?;
        let databases = databases.ok_or_else(|| OpenError::NotAStore { directory: directory.into() })?;
        let mut lmdb = Self::new(env, databases);
        lmdb.check_format(directory)?;
        // Not before: another program may be writing the file if it is not a store.
        meta_sync::sync_meta_pages(&lmdb.env).map_err(io_error(directory))?;
        import::recover_interrupted(&lmdb).map_err(store_error(directory))?;
        lmdb.data_file = data_file;
        lmdb.start_buffering().map_err(store_error(directory))?;
        Ok((Arc::new(lmdb), lock))
    }

    /// Checks that commits reach the file that others find in the directory.
    pub(crate) fn check_data_file(&self) -> Result<(), String> {
        self.data_file.as_ref().map_or(Ok(()), DataFileLock::check)
    }

    /// Creates a store in a subdirectory and renames it when it is complete and durable, so that `data.mdb` is always a whole
    /// store.
    fn create(directory: &Path) -> Result<(), OpenError> {
        let create_dir = directory.join(CREATE_DIR);
        durable_dir::recreate_private_dir(&create_dir).map_err(io_error(directory))?;
        fail_point::hit("create-dir");
        let env = environment::open_environment(&create_dir, false)?;
        let databases = Databases::create(&env).map_err(io_error(directory))?;
        let lmdb = Self::new(env, databases);
        let mut txn = lmdb.env.write_txn().map_err(io_error(directory))?;
        lmdb.write_meta(&mut txn, FORMAT_META_KEY, STORE_FORMAT).map_err(io_error(directory))?;
        lmdb.write_hash_key(&mut txn).map_err(io_error(directory))?;
        lmdb.write_head(&mut txn, &StoreHead::default()).map_err(io_error(directory))?;
        lmdb.commit(txn).map_err(io_error(directory))?;
        // LMDB keeps two states, and both must have the ids of their transactions.
        lmdb.env.write_txn().and_then(|txn| lmdb.commit(txn)).map_err(io_error(directory))?;
        drop(lmdb);
        fail_point::hit("create-store");
        std::fs::rename(create_dir.join("data.mdb"), directory.join("data.mdb"))
            .map_err(io_error(directory))?;
        durable_dir::sync_dir(directory).map_err(io_error(directory))?;
        fail_point::hit("create-renamed");
        std::fs::remove_dir_all(&create_dir).map_err(io_error(directory))
    }

    /// Opens the databases; `None` if `data.mdb` is not a store.
    pub(crate) fn open_databases(env: &Env, directory: &Path) -> Result<Option<Databases>, OpenError> {
        let databases = Databases::open(env).map_err(io_error(directory))?;
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
        let txn = self.begin_read().map_err(store_error(directory))?;
        match self.read_meta(&txn, FORMAT_META_KEY).map_err(store_error(directory))? {
            Some(STORE_FORMAT) => Ok(()),
            Some(found) => Err(unknown_format(directory, found)),
            None => Err(OpenError::NotAStore { directory: directory.into() }),
        }
    }

    /// Reads an entry of the database `meta`, without its checksum.
    pub(crate) fn read_meta<'t>(
        &self,
        txn: &'t RoTxn<'_>,
        key: &[u8],
    ) -> Result<Option<&'t [u8]>, StoreError> {
        let value = self
            .databases
            .meta
            .get(txn, key)
            .map_err(|error| backend_error("reading a meta entry", error))?;
        value.map(|value| checksum::verify_and_strip(key, value, META_ITEM)).transpose()
    }

    /// Reads the id of the last LMDB transaction.
    pub(crate) fn read_transaction_id(&self, txn: &RoTxn<'_>) -> Result<u64, StoreError> {
        let corrupt = |fault| checksum::corrupt(TRANSACTION_META_KEY, META_ITEM, fault);
        let value = self.read_meta(txn, TRANSACTION_META_KEY)?.ok_or_else(|| corrupt("missing"))?;
        value.try_into().map(u64::from_le_bytes).map_err(|_| corrupt("wrong length"))
    }

    /// Writes an entry of the database `meta`.
    pub(crate) fn write_meta(
        &self,
        txn: &mut RwTxn<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), heed::Error> {
        self.databases.meta.put(txn, key, &checksum::with_checksum(key, value))
    }

    /// Reads the end of the change log.
    pub(crate) fn read_head(&self, txn: &RoTxn<'_>) -> Result<StoreHead, StoreError> {
        let value = self.read_meta(txn, HEAD_META_KEY)?;
        let value = value.ok_or_else(|| checksum::corrupt(HEAD_META_KEY, META_ITEM, "missing"))?;
        decode_head(value).ok_or_else(|| checksum::corrupt(HEAD_META_KEY, META_ITEM, "wrong length"))
    }

    /// Time of the last log entry; 0 if there is none.
    pub(crate) fn last_timestamp_ms(&self) -> Result<u64, StoreError> {
        let txn = self.begin_read()?;
        let head = self.read_head(&txn)?;
        // An unreadable entry is reported when it is read.
        let last = self.log_entry(&txn, head.sequence).ok().flatten();
        Ok(last.map_or(0, |log_entry| log_entry.timestamp_ms))
    }

    pub(crate) fn write_head(&self, txn: &mut RwTxn<'_>, head: &StoreHead) -> Result<(), heed::Error> {
        let StoreHead { revision, sequence, log_hash } = head;
        let value = [&revision.to_le_bytes()[..], &sequence.to_le_bytes(), &log_hash.0].concat();
        self.write_meta(txn, HEAD_META_KEY, &value)
    }

    pub(crate) fn begin_read(&self) -> Result<RoTxn<'_, WithTls>, StoreError> {
        const OPERATION: &str = "starting a read transaction";
        let txn = self.env.read_txn().map_err(|error| backend_error(OPERATION, error))?;
        if self.only_transaction.is_some_and(|only| only != txn.id() as u64) {
            // The system has dropped a page that it could not write, and reads the disk again.
            let error = "the state on disk is unknown after a failed write; restart the service".into();
            return Err(StoreError::Backend { operation: OPERATION, error });
        }
        Ok(txn)
    }
}

/// Name of an entry of the database `meta` in error messages.
pub(crate) const META_ITEM: &str = "meta entry";

/// Decodes the head of the log; `None` if it is invalid.
pub(crate) fn decode_head(value: &[u8]) -> Option<StoreHead> {
    let (revision, value) = value.split_first_chunk()?;
    let (sequence, log_hash) = value.split_first_chunk()?;
    Some(StoreHead {
        revision: u64::from_le_bytes(*revision),
        sequence: u64::from_le_bytes(*sequence),
        log_hash: LogHash(log_hash.try_into().ok()?),
    })
}

fn unknown_format(directory: &Path, format: &[u8]) -> OpenError {
    let found = String::from_utf8_lossy(format).into_owned();
    OpenError::UnknownFormat { directory: directory.into(), found }
}

/// Store error of an LMDB error; unreadable pages are corruption.
pub(crate) fn backend_error(operation: &'static str, error: heed::Error) -> StoreError {
    match &error {
        // `BadTxn`: LMDB does not report that the root of a database cannot be read, but refuses the next operation. The last two: the entry of
        // a database is corrupt.
        heed::Error::Mdb(
            MdbError::Corrupted
            | MdbError::PageNotFound
            | MdbError::CursorFull
            | MdbError::BadTxn
            | MdbError::BadDbi
            | MdbError::Incompatible,
        ) => StoreError::Corrupt { detail: format!("{operation}: {error}") },
        _ => StoreError::Backend { operation, error: Box::new(error) },
    }
}

#[cfg(test)]
mod tests {
    use heed::CommitOrAbort;
    use heed::types::Bytes;

    use super::*;
    use crate::EmbeddedStore;

    /// The LMDB database of another program is refused without a write.
    #[test]
    fn other_databases_are_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let env = environment::open_environment(directory.path(), false).unwrap();
        let created = env.create_databases_and_commit(env.write_txn().unwrap(), |opener, txn| {
            let entries = opener.create_database::<Bytes, Bytes>(txn, Some("entries"))?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(entries))
        });
        created.unwrap();
        drop(env);
        let path = directory.path().join("data.mdb");
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let error = EmbeddedStore::open(directory.path()).unwrap_err();
        assert!(matches!(error, OpenError::NotAStore { .. }), "{error}");
        assert_eq!(path.metadata().unwrap().modified().unwrap(), std::time::SystemTime::UNIX_EPOCH);
    }

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
        checksum::append(FORMAT_META_KEY, &mut format);
        let mut txn = env.write_txn().unwrap();
        meta.put(&mut txn, FORMAT_META_KEY, &format).unwrap();
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
