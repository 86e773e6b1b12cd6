//! Errors of Handle operations and of registry commands.

mod registry_error;
mod response_code;

pub use registry_error::{OUTCOME_UNKNOWN, RegistryError, RegistryErrorKind};

use tendot_proto::{BudgetExceeded, HandleError};
use tendot_store::{CommitError, StoreError};

use crate::InvalidValue;
use crate::party::RESERVED_PREFIX;

/// Error of a Handle operation. Nothing was written, except possibly for [`StoreError::InDoubt`].
///
/// [`Error::response_code`] is the response code of the Handle protocol; the HTTP interface chooses the HTTP status.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid handle.
    #[error(transparent)]
    Name(#[from] HandleError),
    /// New name with an invisible character, which would make it look like another name.
    #[error("U+{:04X} at byte {at} of the handle is not visible", u32::from(*character))]
    InvisibleCharacter {
        /// Invisible character.
        character: char,
        /// Byte offset of the character.
        at: usize,
    },
    /// New name that is a normalization variant of an existing one, which the settings do not allow.
    #[error("the handle can't be told from `{with}`, which exists")]
    Confusable {
        /// Existing name.
        with: Box<str>,
    },
    /// Not a prefix: only `0.NA/10.1000` or `10.1000` can be homed.
    #[error("`{name}` is not a prefix")]
    NotPrefix {
        /// Name that was sent.
        name: Box<str>,
    },
    /// Names under the reserved prefix are registry objects, not records.
    #[error("nothing under `{RESERVED_PREFIX}` is a record: it is the registry's own")]
    Reserved,
    /// This service is not responsible for the prefix.
    #[error("names under `{prefix}` are not kept here")]
    NotResponsible {
        /// Prefix of the name.
        prefix: Box<str>,
    },
    /// Another server of this site is responsible for the name.
    #[error("another server of this site keeps the handle")]
    OtherServer,
    /// Another server of this site did not return a record or key that is required for authorization.
    #[error("another server of this site does not answer: {why}")]
    Neighbour {
        /// Cause of the failure.
        why: String,
    },
    /// Handle not found.
    #[error("there is no such handle")]
    NotFound,
    /// Retired handle: its record is a tombstone.
    #[error("this handle has been ended, and is not given again")]
    Tombstone,
    /// Name already exists.
    #[error("the handle exists as `{name}`")]
    AlreadyExists {
        /// Name in its original spelling.
        name: Box<str>,
    },
    /// Name was retired and cannot be reused.
    #[error("the handle existed as `{name}`, and is not given again")]
    NotGivenAgain {
        /// Name in its original spelling.
        name: Box<str>,
    },
    /// No value of the record was selected, or none is public.
    #[error("the record has no such values")]
    NoValues,
    /// Value index already in use.
    #[error("the record has a value at index {index}")]
    ValueExists {
        /// Index of the value.
        index: u32,
    },
    /// Two values in the request have the same index.
    #[error("two values have the index {index}")]
    DuplicateIndex {
        /// Index of the value.
        index: u32,
    },
    /// Invalid value.
    #[error(transparent)]
    Value(#[from] InvalidValue),
    /// Authentication required: the interface sends a challenge.
    #[error("who asks has to be known")]
    NeedsAuthentication,
    /// Caller is not authorized.
    #[error("`{who}` may not do this")]
    NotAdministrator {
        /// Caller, as logged.
        who: Box<str>,
    },
    /// Value is not writable, even for admins.
    #[error("the value at index {index} cannot be changed")]
    ReadOnly {
        /// Index of the value.
        index: u32,
    },
    /// Value is not readable, even for admins.
    #[error("the value at index {index} can be read by nobody")]
    Unreadable {
        /// Index of the value.
        index: u32,
    },
    /// The write would remove the last admin of the record, and was not forced.
    #[error("the record would be left without an administrator who has any right; this has to be forced")]
    LockedOut,
    /// Listing is disabled in the settings.
    #[error("handles are not listed here")]
    ListingDisabled,
    /// Name derived by a template that is invalid.
    #[error("the template of this prefix: {why}")]
    Template {
        /// Fault in the template.
        why: String,
    },
    /// Rejected by a registry rule, such as the policy of the prefix.
    #[error("{}", .0.detail)]
    Policy(Box<RegistryError>),
    /// Budget of the request exceeded.
    #[error(transparent)]
    Exhausted(#[from] BudgetExceeded),
    /// Write conflict: concurrent writes changed the record or its admins in every attempt.
    #[error("the record, or what gives the right to it, was changed by others {tries} times in the meantime")]
    Contended {
        /// Number of attempts.
        tries: u32,
    },
    /// The store rejected the commit.
    #[error(transparent)]
    Refused(CommitError),
    /// Store error.
    #[error(transparent)]
    Store(#[from] StoreError),
}
