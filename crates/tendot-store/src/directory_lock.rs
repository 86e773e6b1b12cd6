//! Locks of a writing process: on its directory, and on the data file in it.
//!
//! The lock file contains the process id. It can be removed or come with a copy of the directory, so the data file itself is locked,
//! too; and the writer checks with every commit that it still writes to the file that others find in the directory.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Exclusive right to write a directory; released at the latest when the process ends.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    file: File,
}

impl DirectoryLock {
    pub(crate) fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join("tendot.lock");
        let io_error = |error| LockError::Io { path: path.clone(), error };
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(io_error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The holder is only informative.
                let _ = file.read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
                return Err(LockError::Held { directory: directory.into(), holder: holder.into() });
            }
            Err(TryLockError::Error(error)) => return Err(io_error(error)),
        }
        file.set_len(0).map_err(io_error)?;
        writeln!(file, "process {}", std::process::id()).map_err(io_error)?;
        Ok(Self { file })
    }
}

impl Drop for DirectoryLock {
    /// Unlocks explicitly. Closing the file is not enough while another thread starts a program: between fork and exec the child
    /// holds the same open file and with it the lock.
    fn drop(&mut self) {
        // If this fails, closing the file releases the lock.
        let _ = self.file.unlock();
    }
}

/// Exclusive right to write a data file; released at the latest when the process ends.
#[derive(Debug)]
pub(crate) struct DataFileLock {
    file: File,
    path: PathBuf,
}

impl DataFileLock {
    /// Locks `data.mdb` in a directory; `None` if there is none.
    pub(crate) fn acquire(directory: &Path) -> Result<Option<Self>, LockError> {
        let path = directory.join("data.mdb");
        // Writable, because locks on network file systems may require it.
        let file = match File::options().read(true).write(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LockError::Io { path, error }),
            Ok(file) => file,
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file, path })),
            Err(TryLockError::WouldBlock) => {
                let holder = "another process, although the lock file `tendot.lock` is not locked".into();
                Err(LockError::Held { directory: directory.into(), holder })
            }
            Err(TryLockError::Error(error)) => Err(LockError::Io { path, error }),
        }
    }

    /// Checks that the locked file is still the one in the directory. Writes to any other file would be lost.
    #[cfg(unix)]
    pub(crate) fn check(&self) -> Result<(), String> {
        use std::os::unix::fs::MetadataExt as _;

        let path = self.path.display();
        let locked = self.file.metadata().map_err(|error| format!("cannot inspect `{path}`: {error}"))?;
        if locked.nlink() == 0 {
            return Err(format!(
                "`{path}` was deleted while it was in use; stop the service, restore a backup"
            ));
        }
        match std::fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (locked.dev(), locked.ino()) => Ok(()),
            Ok(_) => Err(format!("`{path}` was replaced while it was in use; restart the service")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(format!("`{path}` was moved while it was in use; move it back, or restart the service"))
            }
            Err(error) => Err(format!("cannot find `{path}`: {error}")),
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Drop for DataFileLock {
    /// Unlocks explicitly, see [`DirectoryLock`].
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Reason why the directory lock cannot be acquired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process holds the lock.
    #[error("{} is in use by {holder}", directory.display())]
    Held {
        /// The directory.
        directory: PathBuf,
        /// Description of the holder.
        holder: String,
    },
    /// The lock file cannot be opened or locked.
    #[error("cannot lock {}: {error}", path.display())]
    Io {
        /// Path of the lock file.
        path: PathBuf,
        /// I/O error.
        error: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forked_child_does_not_hold_lock() {
        let directory = tempfile::tempdir().unwrap();
        let first = DirectoryLock::acquire(directory.path()).unwrap();
        assert!(matches!(DirectoryLock::acquire(directory.path()), Err(LockError::Held { .. })));
        // Simulates a child between fork and exec, which shares the open file.
        let inherited = first.file.try_clone().unwrap();
        drop(first);
        DirectoryLock::acquire(directory.path()).unwrap();
        drop(inherited);
    }
}
