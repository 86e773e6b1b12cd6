//! Opens LMDB; the only unsafe code of the crate.

#![allow(unsafe_code, reason = "opening LMDB is unsafe")]

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, MdbError, WithTls};

use super::page_check::PageFile;
use super::{FORMAT_META_KEY, META_ITEM};
use crate::embedded::OpenError;
use crate::embedded::error::io_error;
use crate::embedded::format::checksum;

/// Sizes of the memory map, largest first: address space, not memory or disk. A store can grow to this without being reopened.
/// The smaller one is for processes with limited address space, as by `ulimit -v`, in some containers and in valgrind.
const MAP_SIZES_BYTES: [usize; 2] =
    if cfg!(target_pointer_width = "64") { [1 << 40, 1 << 34] } else { [1 << 30, 1 << 28] };

/// Maximum number of concurrent readers in all processes.
const MAX_READERS: u32 = 1_024;

/// Opens the environment in a directory. `read_only` requires an existing one and never changes it.
pub(crate) fn open_environment(directory: &Path, read_only: bool) -> Result<Env, OpenError> {
    // An existing empty file is a truncated store; LMDB would initialize it as a new one.
    let length = std::fs::metadata(directory.join("data.mdb")).map(|metadata| metadata.len()).ok();
    if length == Some(0) {
        return Err(OpenError::Truncated { directory: directory.into(), expected: 1, actual: 0 });
    }
    let mut options = EnvOpenOptions::new();
    options.max_readers(MAX_READERS).max_dbs(DATABASE_NAMES.len() as u32);
    // Reads are random, so read-ahead is useless.
    let mut flags = EnvFlags::NO_READ_AHEAD;
    flags.set(EnvFlags::READ_ONLY, read_only);
    // SAFETY: none of these flags exposes uncommitted memory.
    unsafe { options.flags(flags) };
    // SAFETY: only LMDB changes the file: it locks writers across processes, we lock the directory as well, and network file
    // systems are ruled out in the documentation.
    let env = open_with_largest_map(&mut options, |options| unsafe { options.open(directory) });
    let env = env.map_err(|error| match error {
        heed::Error::Mdb(MdbError::Invalid | MdbError::VersionMismatch) => {
            OpenError::NotAStore { directory: directory.into() }
        }
        error => io_error(directory)(error),
    })?;
    if length.is_some() {
        check_length(&env, directory)?;
    }
    Ok(env)
}

/// Checks that `data.mdb` is not truncated: reading a mapped page beyond the end of the file would kill the process.
fn check_length(env: &Env, directory: &Path) -> Result<(), OpenError> {
    let pages = (env.info().last_page_number as u64).saturating_add(1);
    let expected = pages.saturating_mul(env.unnamed_database_stat().page_size.into());
    // Read after the number of pages, because another process may be writing.
    let actual = std::fs::metadata(directory.join("data.mdb")).map_err(io_error(directory))?.len();
    if actual >= expected {
        return Ok(());
    }
    // Free pages at the end may never have been written.
    match PageFile::with_last_state(env, PageFile::has_all_pages).map_err(io_error(directory))? {
        Ok(true) => Ok(()),
        _ => Err(OpenError::Truncated { directory: directory.into(), expected, actual }),
    }
}

/// Opens an existing environment a second time in this process, read-only, after LMDB has failed; it reads the state of the given
/// transaction. The file may also have the next state, whose meta page LMDB could neither sync nor take back.
pub(crate) fn open_read_only_fallback(directory: &Path, transaction: u64) -> Result<Env, heed::Error> {
    for snapshot in [EnvFlags::empty(), EnvFlags::PREV_SNAPSHOT] {
        let mut options = EnvOpenOptions::new();
        options.max_dbs(DATABASE_NAMES.len() as u32);
        let flags = EnvFlags::READ_ONLY | EnvFlags::NO_LOCK | EnvFlags::NO_SUB_DIR | EnvFlags::NO_READ_AHEAD;
        // SAFETY: no lock is needed without writers: LMDB refuses our writes, and our directory lock excludes other processes.
        unsafe { options.flags(flags | snapshot) };
        // SAFETY: as above. The path is the file's, so this environment is distinct from the directory's.
        let open = |options: &EnvOpenOptions<WithTls>| unsafe { options.open(directory.join("data.mdb")) };
        let env = open_with_largest_map(&mut options, open)?;
        let found = env.read_txn()?.id() as u64;
        if found == transaction {
            return Ok(env);
        }
    }
    Err(io::Error::other("last committed transaction not found in data.mdb").into())
}

/// Syncs `data.mdb` through each open descriptor, and ignores errors. The system reports a failed sync once to each of them: LMDB's
/// descriptor for meta pages would report that of an earlier transaction when the next one is committed.
pub(crate) fn clear_sync_errors(directory: &Path) {
    let Ok(file) = directory.join("data.mdb").canonicalize() else { return };
    let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") else { return };
    for descriptor in descriptors.flatten() {
        let is_open = std::fs::read_link(descriptor.path()).is_ok_and(|path| path == file);
        let number = descriptor.file_name().to_str().and_then(|number| number.parse().ok());
        if let Some(number) = number.filter(|_| is_open) {
            // SAFETY: a sync has no effect on what others do with a descriptor. If this one is closed meanwhile, the call fails or syncs
            // another file.
            let _ = rustix::fs::fdatasync(unsafe { BorrowedFd::borrow_raw(number) });
        }
    }
}

/// Opens with the largest of [`MAP_SIZES_BYTES`] for which there is address space.
fn open_with_largest_map(
    options: &mut EnvOpenOptions<WithTls>,
    open: impl Fn(&EnvOpenOptions<WithTls>) -> Result<Env, heed::Error>,
) -> Result<Env, heed::Error> {
    let [largest, smaller] = MAP_SIZES_BYTES;
    match open(options.map_size(largest)) {
        // ENOMEM; valgrind answers EINVAL.
        Err(heed::Error::Io(error))
            if matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::InvalidInput) =>
        {
            open(options.map_size(smaller))
        }
        result => result,
    }
}

/// LMDB database with byte-string keys and values.
pub(crate) type BytesDatabase = Database<'static, Bytes, Bytes>;

/// The named LMDB databases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Databases {
    pub(crate) meta: BytesDatabase,
    pub(crate) records: BytesDatabase,
    pub(crate) dictionary: BytesDatabase,
    pub(crate) homed: BytesDatabase,
    pub(crate) log: BytesDatabase,
    pub(crate) history: BytesDatabase,
    pub(crate) aux: BytesDatabase,
    pub(crate) aux_journal: BytesDatabase,
    pub(crate) registrations: BytesDatabase,
    pub(crate) name_hashes: BytesDatabase,
}

/// Names of the databases, in the order of the fields of [`Databases`].
pub(crate) const DATABASE_NAMES: [&str; 10] = [
    "meta",
    "records",
    "dictionary",
    "homed",
    "log",
    "history",
    "aux",
    "aux_journal",
    "registrations",
    "name_hashes",
];

impl Databases {
    /// Creates all databases.
    pub(crate) fn create(env: &Env) -> Result<Self, heed::Error> {
        let created = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
            let created = DATABASE_NAMES.map(|name| opener.create_database::<Bytes, Bytes>(txn, Some(name)));
            let [meta, records, dictionary, homed, log, history, aux, journal, registrations, hashes] =
                created;
            let [meta, records, dictionary, homed, log] = [meta?, records?, dictionary?, homed?, log?];
            let [history, aux, journal, registrations, hashes] =
                [history?, aux?, journal?, registrations?, hashes?];
            let handles =
                [meta, records, dictionary, homed, log, history, aux, journal, registrations, hashes];
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(handles))
        })?;
        Ok(Self::from_handles(created.unwrap_commit()))
    }

    /// Opens all databases; `None` if one is missing.
    pub(crate) fn open(env: &Env) -> Result<Option<Self>, heed::Error> {
        let opened = env.open_databases_and_commit(env.read_txn()?, |opener, txn| {
            let opened = DATABASE_NAMES.map(|name| opener.open_database::<Bytes, Bytes>(txn, Some(name)));
            let [meta, records, dictionary, homed, log, history, aux, journal, registrations, hashes] =
                opened;
            let [meta, records, dictionary, homed, log] = [meta?, records?, dictionary?, homed?, log?];
            let [history, aux, journal, registrations, hashes] =
                [history?, aux?, journal?, registrations?, hashes?];
            let handles =
                [meta, records, dictionary, homed, log, history, aux, journal, registrations, hashes];
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(handles))
        })?;
        let mut handles = Vec::with_capacity(DATABASE_NAMES.len());
        handles.extend(opened.unwrap_commit().into_iter().flatten());
        Ok(handles.try_into().ok().map(Self::from_handles))
    }

    const fn from_handles(handles: [BytesDatabase; 10]) -> Self {
        let [meta, records, dictionary, homed, log, history, aux, aux_journal, registrations, name_hashes] =
            handles;
        Self { meta, records, dictionary, homed, log, history, aux, aux_journal, registrations, name_hashes }
    }
}

/// Reads the format of a store that may lack databases, such as one of another version; `None` if it is not a store.
pub(crate) fn read_format(env: &Env) -> Option<Vec<u8>> {
    let opened = env.open_databases_and_commit(env.read_txn().ok()?, |opener, txn| {
        let meta = opener.open_database::<Bytes, Bytes>(txn, Some("meta"))?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(meta))
    });
    let meta = opened.ok()?.unwrap_commit()?;
    let txn = env.read_txn().ok()?;
    let format = meta.get(&txn, FORMAT_META_KEY).ok()??;
    checksum::verify_and_strip(FORMAT_META_KEY, format, META_ITEM).ok().map(<[u8]>::to_vec)
}
