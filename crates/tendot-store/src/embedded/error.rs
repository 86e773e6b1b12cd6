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
    #[error("no store in {}", directory.display())]
    NotFound {
        /// Directory.
        directory: PathBuf,
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
