//! Replacing a store by a backup.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};

use super::backup::BackupFile;
use super::error::check_directory;
use super::{Lmdb, OpenError};
use crate::directory_lock::{DataFileLock, DirectoryLock};
use crate::{LockError, StoreError, durable_dir, fail_point};

/// Restores a backup into a directory. Returns the directory of the replaced store, if there was one and `replace` allows it.
///
/// The backup is read and verified before anything is replaced.
///
/// ```
/// use tendot_store::{EmbeddedStore, RestoreError, restore};
///
/// let directory = tempfile::tempdir()?;
/// let (from, to) = (directory.path().join("from"), directory.path().join("to"));
/// let mut file = tempfile::tempfile()?;
/// EmbeddedStore::open(&from)?.backup(&mut file)?;
///
/// restore(&mut file, &to, false)?;
/// assert!(EmbeddedStore::open(&to).is_ok());
/// assert!(matches!(restore(&mut file, &to, false), Err(RestoreError::StoreExists { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn restore(file: &mut File, directory: &Path, replace: bool) -> Result<Option<PathBuf>, RestoreError> {
    let io_error = |error| RestoreError::Io { path: directory.into(), error };
    file.rewind().map_err(RestoreError::Read)?;
    let backup = BackupFile::open(file)?;
    check_directory(directory)?;
    durable_dir::create_dir(directory).map_err(io_error)?;
    let _lock = DirectoryLock::acquire(directory)?;
    let _data_file_lock = DataFileLock::acquire(directory)?;
    recover_interrupted(directory).map_err(io_error)?;
    let has_store = directory.join("data.mdb").try_exists().map_err(io_error)?;
    if has_store && !replace {
        return Err(RestoreError::StoreExists { directory: directory.into() });
    }
    let restoring = directory.join(RESTORE_DIR);
    durable_dir::recreate_private_dir(&restoring).map_err(io_error)?;
    fail_point::hit("restore-dir");
    let prepared = prepare_restored_store(backup, &restoring);
    if let Err(error) = prepared {
        // Report the cause; leftovers are removed at the latest when the store is opened for writing.
        let _ = std::fs::remove_dir_all(&restoring);
        return Err(error);
    }
    replace_store(&restoring, directory, has_store).map_err(|error| {
        // Otherwise the next open for writing does it.
        let _ = recover_interrupted(directory);
        io_error(error)
    })
}

/// Subdirectory in which the restored store is prepared.
pub(crate) const RESTORE_DIR: &str = "restoring";

/// Subdirectory of it that receives the replaced store.
const REPLACED_DIR: &str = "replaced";

/// Replaces the store by a prepared one. A store exists at every moment: the switch is one rename, and until then the old store
/// has a second hard link.
fn replace_store(restoring: &Path, directory: &Path, has_store: bool) -> io::Result<Option<PathBuf>> {
    let replaced = restoring.join(REPLACED_DIR);
    if has_store {
        durable_dir::recreate_private_dir(&replaced)?;
        std::fs::hard_link(directory.join("data.mdb"), replaced.join("data.mdb"))?;
        fail_point::hit("restore-old-linked");
        // The old lock file has the slots of readers of the old store.
        rename_if_exists(&directory.join("lock.mdb"), &replaced.join("lock.mdb"))?;
        fail_point::hit("restore-old-lock-moved");
        durable_dir::sync_dir(&replaced)?;
        durable_dir::sync_dir(restoring)?;
    }
    std::fs::rename(restoring.join("data.mdb"), directory.join("data.mdb"))?;
    durable_dir::sync_dir(directory)?;
    fail_point::hit("restore-renamed");
    recover_interrupted(directory)
}

/// Recovers an interrupted replacement: undoes it if the new store has not been renamed yet, else moves the old store aside and
/// returns its directory.
pub(crate) fn recover_interrupted(directory: &Path) -> io::Result<Option<PathBuf>> {
    let restoring = directory.join(RESTORE_DIR);
    let replaced = restoring.join(REPLACED_DIR);
    let is_replaced = !restoring.join("data.mdb").try_exists()?;
    let mut old = None;
    if replaced.join("data.mdb").try_exists()? {
        if is_replaced {
            old = Some(move_aside(&replaced, directory)?);
            fail_point::hit("restore-old-moved");
        } else {
            rename_if_exists(&replaced.join("lock.mdb"), &directory.join("lock.mdb"))?;
            // Before the new store, whose presence shows that the old one is still in place.
            durable_dir::remove_dir(&replaced)?;
        }
    }
    durable_dir::remove_dir(&restoring)?;
    Ok(old)
}

/// Moves a replaced store to the first free directory `old-N`.
fn move_aside(replaced: &Path, directory: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let target = directory.join(format!("old-{number}"));
        if !target.try_exists()? {
            std::fs::rename(replaced, &target)?;
            durable_dir::sync_dir(directory)?;
            return Ok(target);
        }
        number += 1;
    }
}

fn rename_if_exists(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes the backup to a directory and makes it a store.
pub(crate) fn prepare_restored_store(backup: BackupFile<'_>, restoring: &Path) -> Result<(), RestoreError> {
    let io_error = |error| RestoreError::Io { path: restoring.into(), error };
    let path = restoring.join("data.mdb");
    let mut data = durable_dir::create_private_file(&path).map_err(io_error)?;
    backup.copy_to(&mut data, &path)?;
    data.sync_all().map_err(io_error)?;
    drop(data);
    fail_point::hit("restore-copied");
    let (lmdb, _lock) = Lmdb::open(restoring)?;
    // The copy has the id of the transaction that was copied.
    lmdb.commit_both_states().map_err(super::error::io_error(restoring))?;
    fail_point::hit("restore-opened");
    Ok(())
}

/// Reason why a backup cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The file is not a backup.
    #[error("not a tendot backup")]
    NotABackup,
    /// The backup has an unknown version.
    #[error("unknown backup version")]
    UnknownVersion,
    /// The file is truncated, or something was appended.
    #[error("backup is truncated or extended: expected {expected} bytes, found {actual}")]
    LengthMismatch {
        /// Expected length.
        expected: u64,
        /// Actual length.
        actual: u64,
    },
    /// The checksum is wrong.
    #[error("backup is corrupt: checksum mismatch")]
    ChecksumMismatch,
    /// The file cannot be read.
    #[error("cannot read the backup: {0}")]
    Read(io::Error),
    /// The directory has a store, and `replace` is false.
    #[error("a store already exists in {}", directory.display())]
    StoreExists {
        /// Directory.
        directory: PathBuf,
    },
    /// Another process has locked the directory.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The content of the backup cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The backup is of another store, or newer than this one.
    #[error("the backup was not made from this store, or is newer than the store")]
    OtherStore,
    /// Pages of the store are corrupt, so nothing can be written to it.
    #[error("cannot restore single names: the store has corrupt pages: {detail}")]
    PagesDamaged {
        /// Description of the corruption.
        detail: String,
    },
    /// A store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// I/O error in the directory.
    #[error("{}: {error}", path.display())]
    Io {
        /// Path.
        path: PathBuf,
        /// I/O error.
        error: io::Error,
    },
}
