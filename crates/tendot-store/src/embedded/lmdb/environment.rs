//! Opens LMDB; the only unsafe code of the crate.

#![allow(unsafe_code, reason = "LMDB cannot be opened without")]

use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RwTxn};

use super::page_check::PageFile;
use crate::embedded::OpenError;

/// Size of the memory map: address space, not memory or disk. A store can grow to this without being reopened.
const MAP_SIZE_BYTES: usize = if cfg!(target_pointer_width = "64") { 1 << 40 } else { 1 << 30 };

/// Maximum number of concurrent readers in all processes.
const MAX_READERS: u32 = 1_024;

/// Opens the environment in a directory. `read_only` requires an existing one and never changes it.
pub(crate) fn open_environment(directory: &Path, read_only: bool) -> Result<Env, OpenError> {
    let failed = |error| OpenError::Failed { directory: directory.into(), error: Box::new(error) };
    let file = directory.join("data.mdb");
    // An existing empty file is a truncated store; LMDB would initialize it as a new one.
    let there = std::fs::metadata(&file).map(|metadata| metadata.len()).ok();
    if there == Some(0) {
        return Err(OpenError::CutOff { directory: directory.into(), expected: 1, there: 0 });
    }
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_SIZE_BYTES).max_readers(MAX_READERS).max_dbs(8);
    // Reads are random, so read-ahead is useless.
    let mut flags = EnvFlags::NO_READ_AHEAD;
    flags.set(EnvFlags::READ_ONLY, read_only);
    // SAFETY: none of these flags exposes uncommitted memory.
    unsafe { options.flags(flags) };
    // SAFETY: only LMDB changes the file: it locks writers across processes, we lock the directory as well, and network file
    // systems are ruled out in the documentation.
    let env = unsafe { options.open(directory) }.map_err(failed)?;
    // Reading a mapped page beyond the end of the file would kill the process.
    if let Some(there) = there {
        let pages = (env.info().last_page_number as u64).saturating_add(1);
        let page_size = env.unnamed_database_stat().page_size;
        let expected = pages.saturating_mul(u64::from(page_size));
        // But pages that were freed within their transaction were never written.
        let end = there / u64::from(page_size);
        let is_whole = || PageFile::open(&file, page_size).and_then(|mut pages| pages.are_free_from(end));
        if there < expected && is_whole() != Ok(true) {
            return Err(OpenError::CutOff { directory: directory.into(), expected, there });
        }
    }
    Ok(env)
}

/// Opens an existing environment a second time in this process, read-only, after LMDB has failed.
pub(crate) fn open_read_only_fallback(directory: &Path) -> Result<Env, heed::Error> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_SIZE_BYTES).max_dbs(8);
    let flags = EnvFlags::READ_ONLY | EnvFlags::NO_LOCK | EnvFlags::NO_SUB_DIR | EnvFlags::NO_READ_AHEAD;
    // SAFETY: no lock is needed without writers: LMDB refuses our writes, and our directory lock excludes other processes.
    unsafe { options.flags(flags) };
    // SAFETY: as above. The path is that of the file, so this environment is distinct from that of the directory.
    unsafe { options.open(directory.join("data.mdb")) }
}

/// The named LMDB databases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Databases {
    pub(crate) meta: BytesDatabase,
    pub(crate) records: BytesDatabase,
    pub(crate) dictionary: BytesDatabase,
    pub(crate) homed: BytesDatabase,
    pub(crate) log: BytesDatabase,
    /// `None` in a store of an earlier version that was only opened for reading.
    pub(crate) history: Option<BytesDatabase>,
    /// See `history`.
    pub(crate) aux: Option<BytesDatabase>,
    /// See `history`.
    pub(crate) registrations: Option<BytesDatabase>,
}

/// Databases that stores of earlier versions lack.
const OPTIONAL_DATABASES: [&str; 3] = ["history", "notes", "registrations"];

/// LMDB database with byte-string keys and values.
pub(crate) type BytesDatabase = Database<'static, Bytes, Bytes>;

impl Databases {
    /// Creates all databases.
    pub(crate) fn create(env: &Env) -> Result<Self, heed::Error> {
        let made = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
            let mut create = |name| opener.create_database::<Bytes, Bytes>(txn, Some(name));
            let all =
                [create("meta")?, create("records")?, create("parts")?, create("homed")?, create("log")?];
            let [history, aux, registrations] = OPTIONAL_DATABASES.map(create);
            let later = [Some(history?), Some(aux?), Some(registrations?)];
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit((all, later)))
        })?;
        let (all, later) = made.unwrap_commit();
        Ok(Self::from_all(all, later))
    }

    /// Opens all databases; `None` if a required one is missing.
    pub(crate) fn open(env: &Env) -> Result<Option<Self>, heed::Error> {
        let opened = env.open_databases_and_commit(env.read_txn()?, |opener, txn| {
            let open = |name| opener.open_database::<Bytes, Bytes>(txn, Some(name));
            let all = (|| {
                let all = [open("meta"), open("records"), open("parts"), open("homed"), open("log")];
                let [meta, records, dictionary, homed, log] = all.map(Result::transpose);
                Some([meta?, records?, dictionary?, homed?, log?])
            })();
            let Some([meta, records, dictionary, homed, log]) = all else {
                return Ok(CommitOrAbort::Abort(()));
            };
            let [history, aux, registrations] = OPTIONAL_DATABASES.map(open);
            let later = [history?, aux?, registrations?];
            Ok::<_, heed::Error>(CommitOrAbort::Commit(([meta?, records?, dictionary?, homed?, log?], later)))
        })?;
        Ok(match opened {
            CommitOrAbort::Commit((all, later)) => Some(Self::from_all(all, later)),
            CommitOrAbort::Abort(()) => None,
        })
    }

    /// Creates the databases that earlier versions lack; `mark` records this in the same transaction.
    pub(crate) fn complete(
        &mut self,
        env: &Env,
        mark: impl FnOnce(&mut RwTxn<'_>) -> Result<(), heed::Error>,
    ) -> Result<(), heed::Error> {
        let made = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
            let later =
                OPTIONAL_DATABASES.map(|name| opener.create_database::<Bytes, Bytes>(txn, Some(name)));
            mark(txn)?;
            let [history, aux, registrations] = later;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit([history?, aux?, registrations?]))
        })?;
        [self.history, self.aux, self.registrations] = made.unwrap_commit().map(Some);
        Ok(())
    }

    const fn from_all(
        [meta, records, dictionary, homed, log]: [BytesDatabase; 5],
        [history, aux, registrations]: [Option<BytesDatabase>; 3],
    ) -> Self {
        Self { meta, records, dictionary, homed, log, history, aux, registrations }
    }
}
