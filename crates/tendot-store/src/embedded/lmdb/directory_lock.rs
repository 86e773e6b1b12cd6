//! One process writes a directory: a file that is locked as long as it lives, and says who it is.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Exclusive right to write a directory; released at the latest when the process ends.
///
/// It ends with the process, however that ends.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    file: File,
}

impl DirectoryLock {
    pub(crate) fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join("tendot.lock");
        let failed = |error| LockError::Failed { path: path.clone(), error };
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who it is, is worth telling, but not worth failing for.
                let _ = file.read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
                return Err(LockError::Held { directory: directory.into(), holder: holder.into() });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).map_err(failed)?;
        writeln!(file, "process {}", std::process::id()).map_err(failed)?;
        Ok(Self { file })
    }
}

impl Drop for DirectoryLock {
    /// Lets go by asking for it. Closing the file is not enough while another thread starts a
    /// program: between fork and exec the child has the file open, too, and keeps it locked.
    fn drop(&mut self) {
        // If it cannot be unlocked, closing it does what it can.
        let _ = self.file.unlock();
    }
}

/// Reason why the directory lock cannot be acquired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else writes it.
    #[error("{} is in use by {holder}", directory.display())]
    Held {
        /// The directory.
        directory: PathBuf,
        /// Who, as far as that is known.
        holder: String,
    },
    /// The file cannot be locked.
    #[error("{} can't be locked: {error}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_about_to_start_does_not_keep_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let first = DirectoryLock::acquire(directory.path()).unwrap();
        assert!(matches!(DirectoryLock::acquire(directory.path()), Err(LockError::Held { .. })));
        // What a child has between fork and exec: the same open file.
        let of_the_child = first.file.try_clone().unwrap();
        drop(first);
        DirectoryLock::acquire(directory.path()).unwrap();
        drop(of_the_child);
    }
}
