//! Errors of store operations and commits.

use crate::{NameKeyError, RecordStatus};

/// Error of a store operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// What was read is not what was written.
    #[error("damaged: {what}")]
    Damaged {
        /// What was found, and where.
        what: String,
    },
    /// The disk, the network or the engine failed.
    #[error("{doing}: {error}")]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no room on the disk. What was to be written was not, and may be once there is.
    #[error("{doing}: there is no room on the disk ({error})")]
    Full {
        /// What was being done.
        doing: &'static str,
        /// What was said.
        error: String,
    },
    /// Nothing can be written: the store was opened for reading only, or its disk failed before.
    #[error("the store can only be read: {why}")]
    ReadOnly {
        /// Why.
        why: String,
    },
    /// The database is not reached at present, or has no time. What was to be done was not, and may be later.
    #[error("{doing}: the database is not reached, or does not do it now: {why}")]
    Unreachable {
        /// What was being done.
        doing: &'static str,
        /// What happened.
        why: String,
    },
    /// The store was lost while a change was made durable, and was not found again in time to tell whether it is. All of it
    /// was carried out, or nothing.
    #[error("it is not known whether the change was carried out: {why}")]
    Unknown {
        /// What happened.
        why: String,
    },
}

/// Reason why a change set was not committed. Nothing was written, except possibly for [`StoreError::Unknown`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// What was expected is not what is there.
    #[error(transparent)]
    Conflict(#[from] RecordConflict),
    /// A prefix is homed that was not to be, or the other way round.
    #[error("edit {edit}: names under `{prefix}` are {}kept here", if *is_homed { "" } else { "not " })]
    Homed {
        /// Which edit, from 0.
        edit: usize,
        /// The prefix, as the edit spells it.
        prefix: Box<str>,
        /// Whether it is.
        is_homed: bool,
    },
    /// A name cannot be kept.
    #[error("edit {edit}: {error}")]
    Name {
        /// Which edit, from 0.
        edit: usize,
        /// What is wrong with its name.
        error: NameKeyError,
    },
    /// A note is not what it was, or its key is none.
    #[error("edit {edit}: the note is not what it was, or has a key that is not kept")]
    Note {
        /// Which edit, from 0.
        edit: usize,
    },
    /// A record or a note is too large to be kept.
    #[error("edit {edit}: it has {length} bytes, at most {limit} are kept")]
    TooLarge {
        /// Which edit, from 0.
        edit: usize,
        /// The bytes of its values and its registration, or of the note.
        length: usize,
        /// The most that are kept.
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
    /// Which edit, from 0.
    pub edit: usize,
    /// The name, as the edit spells it.
    pub name: Box<str>,
    /// The spelling, the revision and the state of what is there; none if nothing is.
    pub there: Option<(Box<str>, u64, RecordStatus)>,
}

fn describe_current((name, revision, state): &(Box<str>, u64, RecordStatus)) -> String {
    match state {
        RecordStatus::Live => format!("is there as `{name}`, revision {revision}"),
        RecordStatus::Tombstone => format!("was there as `{name}`, and is not given again"),
    }
}
