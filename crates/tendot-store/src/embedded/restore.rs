//! Replacing a store by a backup.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};

use super::backup::BackupFile;
use super::lmdb::directory_lock::DirectoryLock;
use super::lmdb::durable_dir;
use super::{Lmdb, OpenError};
use crate::{LockError, fail_point};

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
/// assert!(matches!(restore(&mut file, &to, false), Err(RestoreError::Occupied { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn restore(file: &mut File, directory: &Path, replace: bool) -> Result<Option<PathBuf>, RestoreError> {
    let failed = |error| RestoreError::Failed { path: directory.into(), error };
    file.rewind().map_err(RestoreError::Read)?;
    let backup = BackupFile::open(file)?;
    durable_dir::create_dir(directory).map_err(failed)?;
    let _lock = DirectoryLock::acquire(directory)?;
    recover_interrupted(directory).map_err(failed)?;
    let is_occupied = directory.join("data.mdb").try_exists().map_err(failed)?;
    if is_occupied && !replace {
        return Err(RestoreError::Occupied { directory: directory.into() });
    }
    let restoring = directory.join(RESTORE_DIR);
    durable_dir::recreate_private_dir(&restoring).map_err(failed)?;
    fail_point::hit("restore: the folder is made");
    let prepared = prepare_restored_store(backup, &restoring);
    if let Err(error) = prepared {
        // Report the cause; leftovers are removed at the latest when the store is opened for writing.
        let _ = std::fs::remove_dir_all(&restoring);
        return Err(error);
    }
    replace_store(&restoring, directory, is_occupied).map_err(|error| {
        // Otherwise the next open for writing does it.
        let _ = recover_interrupted(directory);
        failed(error)
    })
}

/// Subdirectory in which the restored store is prepared.
const RESTORE_DIR: &str = "restoring";

/// Subdirectory of it that receives the replaced store.
const REPLACED_DIR: &str = "aside";

/// Replaces the store by a prepared one. A store exists at every moment: the switch is one rename, and until then the old store
/// has a second hard link.
fn replace_store(restoring: &Path, directory: &Path, is_occupied: bool) -> io::Result<Option<PathBuf>> {
    let aside = restoring.join(REPLACED_DIR);
    if is_occupied {
        durable_dir::recreate_private_dir(&aside)?;
        std::fs::hard_link(directory.join("data.mdb"), aside.join("data.mdb"))?;
        fail_point::hit("restore: the old store is linked");
        // The old lock file has the slots of readers of the old store.
        rename_if_exists(&directory.join("lock.mdb"), &aside.join("lock.mdb"))?;
        fail_point::hit("restore: the old lock is moved");
        durable_dir::sync_dir(&aside)?;
        durable_dir::sync_dir(restoring)?;
    }
    std::fs::rename(restoring.join("data.mdb"), directory.join("data.mdb"))?;
    durable_dir::sync_dir(directory)?;
    fail_point::hit("restore: the new store is in place");
    recover_interrupted(directory)
}

/// Recovers an interrupted replacement: undoes it if the new store has not been renamed yet, else moves the old store aside and
/// returns its directory.
pub(crate) fn recover_interrupted(directory: &Path) -> io::Result<Option<PathBuf>> {
    let restoring = directory.join(RESTORE_DIR);
    let aside = restoring.join(REPLACED_DIR);
    let is_replaced = !restoring.join("data.mdb").try_exists()?;
    let mut kept = None;
    if aside.join("data.mdb").try_exists()? {
        if is_replaced {
            kept = Some(move_aside(&aside, directory)?);
            fail_point::hit("restore: the old store is aside");
        } else {
            rename_if_exists(&aside.join("lock.mdb"), &directory.join("lock.mdb"))?;
            // Before the new store, whose presence shows that the old one is still in place.
            durable_dir::remove_dir(&aside)?;
        }
    }
    durable_dir::remove_dir(&restoring)?;
    Ok(kept)
}

/// Moves a replaced store to the first free directory `old-N`.
fn move_aside(aside: &Path, directory: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let folder = directory.join(format!("old-{number}"));
        if !folder.try_exists()? {
            std::fs::rename(aside, &folder)?;
            durable_dir::sync_dir(directory)?;
            return Ok(folder);
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

/// Writes the backup to a directory and gives the store a new lineage.
fn prepare_restored_store(backup: BackupFile<'_>, restoring: &Path) -> Result<(), RestoreError> {
    let failed = |error| RestoreError::Failed { path: restoring.into(), error };
    let mut data = durable_dir::create_private_file(&restoring.join("data.mdb")).map_err(failed)?;
    backup.copy_to(&mut data)?;
    data.sync_all().map_err(failed)?;
    drop(data);
    fail_point::hit("restore: the copy is written");
    let (lmdb, _lock) = Lmdb::open(restoring)?;
    let renewed = lmdb.renew_lineage();
    // Twice, because LMDB keeps two states, and both must have the new lineage.
    renewed
        .and_then(|()| lmdb.renew_lineage())
        .map_err(|error| OpenError::Failed { directory: restoring.into(), error: Box::new(error) })?;
    fail_point::hit("restore: the copy is a store");
    Ok(())
}

/// Reason why a backup cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The file is not a backup.
    #[error("this is no backup")]
    NoBackup,
    /// The backup has an unknown version.
    #[error("this is a backup of a version that is not known")]
    OtherVersion,
    /// The file is truncated, or something was appended.
    #[error("the backup is damaged: it should have {announced} bytes, and has {there}")]
    OtherLength {
        /// Expected length.
        announced: u64,
        /// Actual length.
        there: u64,
    },
    /// The checksum is wrong.
    #[error("the backup is damaged: its checksum is wrong")]
    Damaged,
    /// The file cannot be read.
    #[error("the backup can't be read: {0}")]
    Read(io::Error),
    /// The directory has a store, and `replace` is false.
    #[error("there is a store in {} already", directory.display())]
    Occupied {
        /// Directory.
        directory: PathBuf,
    },
    /// Another process has locked the directory.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The content of the backup cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// I/O error in the directory.
    #[error("{}: {error}", path.display())]
    Failed {
        /// Path.
        path: PathBuf,
        /// I/O error.
        error: io::Error,
    },
}
