//! Error of opening an embedded store.

use std::path::PathBuf;

use crate::{LockError, StoreError};

/// Reason why an embedded store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the store open for writing.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The directory has no store.
    #[error("there is no store in {}", directory.display())]
    NoStore {
        /// Directory.
        directory: PathBuf,
    },
    /// `data.mdb` is not a store of this program.
    #[error("data.mdb in {} is not a store of this program", directory.display())]
    Foreign {
        /// Directory.
        directory: PathBuf,
    },
    /// `data.mdb` is truncated.
    #[error("data.mdb in {} has been cut off: {there} bytes are there, {expected} should be", directory.display())]
    CutOff {
        /// Directory.
        directory: PathBuf,
        /// Expected minimum length in bytes.
        expected: u64,
        /// Actual length in bytes.
        there: u64,
    },
    /// The store has an unknown format: it was written by a newer version or another program.
    #[error("the store in {} has the format `{found}`, which this version does not know", directory.display())]
    OtherFormat {
        /// Directory.
        directory: PathBuf,
        /// Format found.
        found: String,
    },
    /// The store is the target of an incomplete migration.
    #[error("the store in {} is the unfinished copy of another", directory.display())]
    Unfinished {
        /// Directory.
        directory: PathBuf,
    },
    /// I/O or LMDB error.
    #[error("the store in {} can't be opened: {error}", directory.display())]
    Failed {
        /// Directory.
        directory: PathBuf,
        /// Underlying error.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Stored data is corrupt or cannot be read.
    #[error("the store in {} can't be opened: {error}", directory.display())]
    Store {
        /// Directory.
        directory: PathBuf,
        /// Underlying error.
        error: StoreError,
    },
}
