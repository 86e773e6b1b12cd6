use tendot_proto::{BudgetExceeded, HandleError};
use tendot_store::{CommitError, StoreError};

use crate::RegistryError;
use crate::party::RESERVED_PREFIX;
use crate::validate::InvalidValue;

/// Error of a Handle operation. Nothing was written, except possibly for [`StoreError::Unknown`].
///
/// What a client is answered says [`Error::response_code`]; the HTTP status belongs to the HTTP front door.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This cannot be the name of a record.
    #[error(transparent)]
    Name(#[from] HandleError),
    /// A new name has a character that nobody sees, and that would let it look like another.
    #[error("U+{:04X} at byte {at} of the handle is not visible", u32::from(*character))]
    InvisibleCharacter {
        /// The character.
        character: char,
        /// Its place.
        at: usize,
    },
    /// A new name is the same text as another, composed otherwise, and the operator does not want that.
    #[error("the handle can't be told from `{with}`, which exists")]
    Confusable {
        /// The other one.
        with: Box<str>,
    },
    /// Only a prefix can be homed: `0.NA/10.1000`, or `10.1000`.
    #[error("`{name}` is not a prefix")]
    NotPrefix {
        /// What came instead.
        name: Box<str>,
    },
    /// What is under this prefix is the registry's own, and no record.
    #[error("nothing under `{RESERVED_PREFIX}` is a record: it is the registry's own")]
    Reserved,
    /// Names under this prefix are not kept here.
    #[error("names under `{prefix}` are not kept here")]
    NotResponsible {
        /// The prefix.
        prefix: Box<str>,
    },
    /// Another server of this site keeps the name.
    #[error("another server of this site keeps the handle")]
    OtherServer,
    /// Another server of this site was needed, and did not say what it keeps.
    #[error("another server of this site does not answer: {why}")]
    Neighbour {
        /// What went wrong.
        why: String,
    },
    /// There is no record of this name.
    #[error("there is no such handle")]
    NotFound,
    /// There was a record of this name, which is never given again.
    #[error("this handle has been ended, and is not given again")]
    Tombstone,
    /// The name is taken.
    #[error("the handle exists as `{name}`")]
    AlreadyExists {
        /// As it was first spelled.
        name: Box<str>,
    },
    /// The name was taken, and is never given again.
    #[error("the handle existed as `{name}`, and is not given again")]
    NotGivenAgain {
        /// As it was first spelled.
        name: Box<str>,
    },
    /// The record has no value of this kind, or none for everybody.
    #[error("the record has no such values")]
    NoValues,
    /// The record has a value of this index already.
    #[error("the record has a value at index {index}")]
    ValueExists {
        /// The index.
        index: u32,
    },
    /// Two of the given values have the same index.
    #[error("two values have the index {index}")]
    DuplicateIndex {
        /// The index.
        index: u32,
    },
    /// A value is not taken.
    #[error(transparent)]
    Value(#[from] InvalidValue),
    /// Who asks has to prove first who they are: the front door challenges.
    #[error("who asks has to be known")]
    NeedsAuthentication,
    /// Who asks has not the right.
    #[error("`{who}` may not do this")]
    NotAdministrator {
        /// Who asks.
        who: Box<str>,
    },
    /// A value may be changed by nobody.
    #[error("the value at index {index} cannot be changed")]
    ReadOnly {
        /// Its index.
        index: u32,
    },
    /// A value may be read by nobody.
    #[error("the value at index {index} can be read by nobody")]
    Unreadable {
        /// Its index.
        index: u32,
    },
    /// Nobody would administer the record any more, and that was not asked for expressly.
    #[error("the record would be left without an administrator who has any right; this has to be forced")]
    LockedOut,
    /// The operator has switched it off.
    #[error("handles are not listed here")]
    ListingDisabled,
    /// The name is made by a template, and the template is wrong.
    #[error("the template of this prefix: {why}")]
    Template {
        /// What is wrong with it.
        why: String,
    },
    /// The registry's rules for this prefix do not allow it.
    #[error("{}", .0.detail)]
    Policy(Box<RegistryError>),
    /// It would cost more than a request may.
    #[error(transparent)]
    Exhausted(#[from] BudgetExceeded),
    /// Others changed the record, or what gives the right to it, again and again in the meantime.
    #[error("the record, or what gives the right to it, was changed by others {tries} times in the meantime")]
    Contended {
        /// How often it was tried.
        tries: u32,
    },
    /// The store does not take the record.
    #[error(transparent)]
    Refused(CommitError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
