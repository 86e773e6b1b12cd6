//! Error of opening an embedded store.

use std::path::PathBuf;

use crate::{LockError, StoreError};

/// Reason why an embedded store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open for writing.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// There is nothing to be read.
    #[error("there is no store in {}", directory.display())]
    NoStore {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// There is something else.
    #[error("data.mdb in {} is not a store of this program", directory.display())]
    Foreign {
        /// Where it is.
        directory: PathBuf,
    },
    /// The file has been cut off.
    #[error("data.mdb in {} has been cut off: {there} bytes are there, {expected} should be", directory.display())]
    CutOff {
        /// Where it is.
        directory: PathBuf,
        /// How long it should be at least.
        expected: u64,
        /// How long it is.
        there: u64,
    },
    /// It was written by a version of this program that is newer, or by another program.
    #[error("the store in {} has the format `{found}`, which this version does not know", directory.display())]
    OtherFormat {
        /// Where it is.
        directory: PathBuf,
        /// What it says.
        found: String,
    },
    /// Another one was being moved here, and that was not finished.
    #[error("the store in {} is the unfinished copy of another", directory.display())]
    Unfinished {
        /// Where it is.
        directory: PathBuf,
    },
    /// The disk or the engine failed.
    #[error("the store in {} can't be opened: {error}", directory.display())]
    Failed {
        /// Where it is.
        directory: PathBuf,
        /// What was said.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What was read is not right.
    #[error("the store in {} can't be opened: {error}", directory.display())]
    Store {
        /// Where it is.
        directory: PathBuf,
        /// What was found.
        error: StoreError,
    },
}
