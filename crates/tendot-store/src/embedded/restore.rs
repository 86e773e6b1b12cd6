//! Replacing a store by a backup.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};

use super::backup::BackupFile;
use super::lmdb::directory_lock::DirectoryLock;
use super::lmdb::durable_dir;
use super::{Lmdb, OpenError};
use crate::{LockError, fail_point};

/// Makes a store of a backup, and tells where the store went that was there, if one was and `replace` allows it.
///
/// The backup is read and checked before anything is replaced.
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
        // The reason matters; what is left is removed by the next one who writes at the latest.
        let _ = std::fs::remove_dir_all(&restoring);
        return Err(error);
    }
    replace_store(&restoring, directory, is_occupied).map_err(|error| {
        // Else the next one who writes does it.
        let _ = recover_interrupted(directory);
        failed(error)
    })
}

/// Where a store is made ready to take the place of another.
const RESTORE_DIR: &str = "restoring";

/// Where the other waits meanwhile, within that folder.
const REPLACED_DIR: &str = "aside";

/// Lets a store take the place of the one that is there. At every moment there is one, the old or the new; which of them
/// is settled by one renaming. Until then the old one has two names.
fn replace_store(restoring: &Path, directory: &Path, is_occupied: bool) -> io::Result<Option<PathBuf>> {
    let aside = restoring.join(REPLACED_DIR);
    if is_occupied {
        durable_dir::recreate_private_dir(&aside)?;
        std::fs::hard_link(directory.join("data.mdb"), aside.join("data.mdb"))?;
        fail_point::hit("restore: the old store is linked");
        // Readers of the old store have their places in it, and the new one is not to find them.
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

/// Brings to its end what `replace_with` began, if it was interrupted: undone if the new store is still waiting, else
/// the old one gets a folder of its own, which is told.
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
            // Before the new store, which tells that this one is still in its place.
            durable_dir::remove_dir(&aside)?;
        }
    }
    durable_dir::remove_dir(&restoring)?;
    Ok(kept)
}

/// Gives a store that was replaced a folder that is not taken.
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

/// A store of its own, with a lineage of its own.
fn prepare_restored_store(backup: BackupFile<'_>, restoring: &Path) -> Result<(), RestoreError> {
    let failed = |error| RestoreError::Failed { path: restoring.into(), error };
    let mut data = durable_dir::create_private_file(&restoring.join("data.mdb")).map_err(failed)?;
    backup.copy_to(&mut data)?;
    data.sync_all().map_err(failed)?;
    drop(data);
    fail_point::hit("restore: the copy is written");
    let (tables, _lock) = Lmdb::open(restoring)?;
    let renewed = tables.renew_lineage();
    // Twice, because the engine keeps two states, and both are to be of this store.
    renewed
        .and_then(|()| tables.renew_lineage())
        .map_err(|error| OpenError::Failed { directory: restoring.into(), error: Box::new(error) })?;
    fail_point::hit("restore: the copy is a store");
    Ok(())
}

/// Reason why a backup cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The file is something else.
    #[error("this is no backup")]
    NoBackup,
    /// The file is a backup of another version.
    #[error("this is a backup of a version that is not known")]
    OtherVersion,
    /// The file was cut off, or something was appended.
    #[error("the backup is damaged: it should have {announced} bytes, and has {there}")]
    OtherLength {
        /// What it should have.
        announced: u64,
        /// What it has.
        there: u64,
    },
    /// The file is not what was written.
    #[error("the backup is damaged: its checksum is wrong")]
    Damaged,
    /// The file cannot be read.
    #[error("the backup can't be read: {0}")]
    Read(io::Error),
    /// There is a store already.
    #[error("there is a store in {} already", directory.display())]
    Occupied {
        /// Where.
        directory: PathBuf,
    },
    /// Somebody else writes the directory.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// What is in the backup is no store that this version knows.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The directory cannot be written.
    #[error("{}: {error}", path.display())]
    Failed {
        /// What was written.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
}
