//! Error of opening an embedded store.

use std::path::{Path, PathBuf};

use crate::{LockError, StoreError};

/// Reason why an embedded store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the store open for writing.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The directory has no store.
    #[error("no store in {}{}", directory.display(), if *is_missing { ": no such directory" } else { "" })]
    NotFound {
        /// Directory.
        directory: PathBuf,
        /// Whether the directory does not exist.
        is_missing: bool,
    },
    /// The path is not that of a directory.
    #[error("not a directory: {}", path.display())]
    NotADirectory {
        /// Path.
        path: PathBuf,
    },
    /// The directory belongs to another program.
    #[error("data directory {} belongs to {program}", directory.display())]
    OtherProgram {
        /// Directory.
        directory: PathBuf,
        /// Name of the program.
        program: &'static str,
    },
    /// `data.mdb` is not a store of this program.
    #[error("`data.mdb` in {} is not a tendot store", directory.display())]
    NotAStore {
        /// Directory.
        directory: PathBuf,
    },
    /// `data.mdb` is truncated.
    #[error("`data.mdb` in {} is truncated: {actual} bytes, expected at least {expected}", directory.display())]
    Truncated {
        /// Directory.
        directory: PathBuf,
        /// Expected minimum length in bytes.
        expected: u64,
        /// Actual length in bytes.
        actual: u64,
    },
    /// The store has an unknown format: it was written by another version or another program.
    #[error("unknown store format `{found}` in {}", directory.display())]
    UnknownFormat {
        /// Directory.
        directory: PathBuf,
        /// Format found.
        found: String,
    },
    /// The store is the target of an incomplete migration.
    #[error("the store in {} is an incomplete migration target", directory.display())]
    IncompleteMigration {
        /// Directory.
        directory: PathBuf,
    },
    /// I/O or LMDB error.
    #[error("cannot open the store in {}: {error}", directory.display())]
    Io {
        /// Directory.
        directory: PathBuf,
        /// Underlying error.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Stored data is corrupt or cannot be read.
    #[error("cannot open the store in {}: {error}", directory.display())]
    Store {
        /// Directory.
        directory: PathBuf,
        /// Underlying error.
        error: StoreError,
    },
}

/// Files by which the directories of other programs are recognized.
const OTHER_PROGRAMS: [(&str, &str); 3] =
    [("PG_VERSION", "PostgreSQL"), ("config.dct", "a Handle.Net server"), ("ibdata1", "MySQL")];

/// Checks that a path can be the directory of a store: it is not a file, and no other program has its files there.
pub(crate) fn check_directory(directory: &Path) -> Result<(), OpenError> {
    if std::fs::metadata(directory).is_ok_and(|metadata| !metadata.is_dir()) {
        return Err(OpenError::NotADirectory { path: directory.into() });
    }
    let exists = |file: &str| directory.join(file).exists();
    match OTHER_PROGRAMS.iter().find(|(file, _)| exists(file)) {
        Some((_, program)) if !exists("data.mdb") => {
            Err(OpenError::OtherProgram { directory: directory.into(), program })
        }
        _ => Ok(()),
    }
}

/// Wraps an I/O or LMDB error of opening the store in a directory.
pub(crate) fn io_error<E: std::error::Error + Send + Sync + 'static>(
    directory: &Path,
) -> impl Fn(E) -> OpenError {
    move |error| OpenError::Io { directory: directory.into(), error: Box::new(error) }
}

/// Wraps a store error of opening the store in a directory.
pub(crate) fn store_error(directory: &Path) -> impl Fn(StoreError) -> OpenError {
    move |error| OpenError::Store { directory: directory.into(), error }
}
