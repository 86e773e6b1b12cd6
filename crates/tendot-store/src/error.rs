//! Errors of store operations and commits.

use crate::{AuxEntry, NameKeyError, RecordStatus};

/// Error of a store operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Stored data is corrupt.
    #[error("corrupt data: {detail}")]
    Corrupt {
        /// The corrupt item and its fault.
        detail: String,
    },
    /// The disk, the network, LMDB or the database failed.
    #[error("{operation} failed: {error}")]
    Backend {
        /// Operation that failed.
        operation: &'static str,
        /// Underlying error.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The disk is full. Nothing was written; a retry may succeed later.
    #[error("{operation} failed: disk full ({detail})")]
    DiskFull {
        /// Operation that failed.
        operation: &'static str,
        /// Underlying error.
        detail: String,
    },
    /// The store is read-only: opened so, or its disk failed before.
    #[error("store is read-only: {reason}")]
    ReadOnly {
        /// Reason.
        reason: String,
    },
    /// The database is unreachable or overloaded. Nothing was written; a retry may succeed.
    #[error("{operation} failed: database unavailable: {reason}")]
    Unavailable {
        /// Operation that failed.
        operation: &'static str,
        /// Reason.
        reason: String,
    },
    /// The commit is in doubt: the connection was lost before its result arrived, the disk failed while LMDB's meta page was
    /// written, or the writer stopped. Either all of it was committed or nothing.
    #[error("commit outcome unknown: {reason}")]
    InDoubt {
        /// Reason.
        reason: String,
    },
}

impl StoreError {
    /// Copies the error for another caller; the underlying error becomes text.
    pub(crate) fn clone_without_source(&self) -> Self {
        match self {
            Self::Corrupt { detail } => Self::Corrupt { detail: detail.clone() },
            Self::Backend { operation, error } => {
                Self::Backend { operation, error: error.to_string().into() }
            }
            Self::DiskFull { operation, detail } => Self::DiskFull { operation, detail: detail.clone() },
            Self::ReadOnly { reason } => Self::ReadOnly { reason: reason.clone() },
            Self::Unavailable { operation, reason } => {
                Self::Unavailable { operation, reason: reason.clone() }
            }
            Self::InDoubt { reason } => Self::InDoubt { reason: reason.clone() },
        }
    }

    /// Description for a report of corruption, which says that data is corrupt anyway.
    pub(crate) fn detail(&self) -> String {
        match self {
            Self::Corrupt { detail } => detail.clone(),
            error => error.to_string(),
        }
    }
}

/// Reason why a change set was not committed. Nothing was written, except possibly for [`StoreError::InDoubt`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A precondition on a record failed.
    #[error(transparent)]
    RecordConflict(#[from] RecordConflict),
    /// A precondition on a homed prefix failed.
    #[error("edit {edit}: prefix `{prefix}` is {}homed here", if *is_homed { "" } else { "not " })]
    HomedConflict {
        /// Index of the edit, from 0.
        edit: usize,
        /// Prefix as spelled in the edit.
        prefix: Box<str>,
        /// Current state of the prefix.
        is_homed: bool,
    },
    /// A precondition on an aux entry failed.
    #[error("edit {edit}: aux entry has changed")]
    AuxConflict {
        /// Index of the edit, from 0.
        edit: usize,
    },
    /// A name is invalid.
    #[error("edit {edit}: {error}")]
    InvalidName {
        /// Index of the edit, from 0.
        edit: usize,
        /// Reason.
        error: NameKeyError,
    },
    /// The key of an aux entry is invalid.
    #[error("edit {edit}: invalid aux key (length must be 1 to {max} bytes)", max = AuxEntry::MAX_KEY_LEN)]
    InvalidAuxKey {
        /// Index of the edit, from 0.
        edit: usize,
    },
    /// A record or an aux entry is too large.
    #[error("edit {edit}: record too large: {length} bytes, limit {limit}")]
    TooLarge {
        /// Index of the edit, from 0.
        edit: usize,
        /// Size of values and registration, or of the aux entry.
        length: usize,
        /// Maximum size.
        limit: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Failed precondition of an edit, with the current record.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("edit {edit}: `{name}` {}", describe_current(current.as_ref()))]
pub struct RecordConflict {
    /// Index of the edit, from 0.
    pub edit: usize,
    /// Name as spelled in the edit.
    pub name: Box<str>,
    /// Current record; `None` if there is none.
    pub current: Option<CurrentRecord>,
}

/// Spelling, revision and status of the record that failed a precondition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CurrentRecord {
    /// Name in its first spelling.
    pub name: Box<str>,
    /// Current revision.
    pub revision: u64,
    /// Current status.
    pub status: RecordStatus,
}

fn describe_current(current: Option<&CurrentRecord>) -> String {
    match current {
        None => "does not exist".into(),
        Some(CurrentRecord { name, revision, status: RecordStatus::Live }) => {
            format!("exists as `{name}`, revision {revision}")
        }
        Some(CurrentRecord { name, status: RecordStatus::Tombstone, .. }) => {
            format!("is a tombstone (`{name}`)")
        }
    }
}
