//! Errors of store operations and commits.

use crate::{NameKeyError, RecordStatus};

/// Error of a store operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Stored data is corrupt.
    #[error("damaged: {what}")]
    Damaged {
        /// What is corrupt, and where.
        what: String,
    },
    /// The disk, the network, LMDB or the database failed.
    #[error("{doing}: {error}")]
    Failed {
        /// Operation that failed.
        doing: &'static str,
        /// Underlying error.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The disk is full. Nothing was written; a retry may succeed later.
    #[error("{doing}: there is no room on the disk ({error})")]
    Full {
        /// Operation that failed.
        doing: &'static str,
        /// Underlying error.
        error: String,
    },
    /// The store is read-only: opened so, or its disk failed before.
    #[error("the store can only be read: {why}")]
    ReadOnly {
        /// Reason.
        why: String,
    },
    /// The database is unreachable or overloaded. Nothing was written; a retry may succeed.
    #[error("{doing}: the database is not reached, or does not do it now: {why}")]
    Unreachable {
        /// Operation that failed.
        doing: &'static str,
        /// Reason.
        why: String,
    },
    /// The commit is in doubt: the connection was lost before its result arrived. Either all of it was committed or nothing.
    #[error("it is not known whether the change was carried out: {why}")]
    Unknown {
        /// Reason.
        why: String,
    },
}

/// Reason why a change set was not committed. Nothing was written, except possibly for [`StoreError::Unknown`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A precondition on a record failed.
    #[error(transparent)]
    Conflict(#[from] RecordConflict),
    /// A precondition on a homed prefix failed.
    #[error("edit {edit}: names under `{prefix}` are {}kept here", if *is_homed { "" } else { "not " })]
    Homed {
        /// Index of the edit, from 0.
        edit: usize,
        /// Prefix as spelled in the edit.
        prefix: Box<str>,
        /// Current state of the prefix.
        is_homed: bool,
    },
    /// A name is invalid.
    #[error("edit {edit}: {error}")]
    Name {
        /// Index of the edit, from 0.
        edit: usize,
        /// Reason.
        error: NameKeyError,
    },
    /// A precondition on an aux entry failed, or its key is invalid.
    #[error("edit {edit}: the note is not what it was, or has a key that is not kept")]
    Note {
        /// Index of the edit, from 0.
        edit: usize,
    },
    /// A record or an aux entry is too large.
    #[error("edit {edit}: it has {length} bytes, at most {limit} are kept")]
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
#[error("edit {edit}: `{name}` {}", there.as_ref().map_or("is not there".into(), describe_current))]
pub struct RecordConflict {
    /// Index of the edit, from 0.
    pub edit: usize,
    /// Name as spelled in the edit.
    pub name: Box<str>,
    /// Spelling, revision and status of the current record; `None` if there is none.
    pub there: Option<(Box<str>, u64, RecordStatus)>,
}

fn describe_current((name, revision, state): &(Box<str>, u64, RecordStatus)) -> String {
    match state {
        RecordStatus::Live => format!("is there as `{name}`, revision {revision}"),
        RecordStatus::Tombstone => format!("was there as `{name}`, and is not given again"),
    }
}
