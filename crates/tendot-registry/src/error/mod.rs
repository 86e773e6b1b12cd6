//! Errors of Handle operations and of registry commands.
//!
//! In reading order:
//!
//! - `codes`: table of all error codes
//! - `registry_error`: error of a command or query, with the fields of a problem document
//! - `response_code`: response code of the Handle protocol for each error

pub mod codes;
mod registry_error;
mod response_code;

pub use codes::{ERROR_CODES, ErrorCodeSpec};
pub use registry_error::{
    ExistingName, OUTCOME_UNKNOWN, RegistryError, RegistryErrorKind, describe_store_error,
};

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
    #[error("invalid handle: invisible character U+{:04X} at byte {offset}", u32::from(*character))]
    InvisibleCharacter {
        /// Invisible character.
        character: char,
        /// Byte offset of the character.
        offset: usize,
    },
    /// New name under a DOI prefix that violates the grammar of DOIs.
    #[error("invalid DOI: {0}")]
    Doi(tendot_names::Error),
    /// New name that looks like an existing one, which the settings do not allow.
    #[error(
        "`{name}` ({}) is confusable with existing `{with}` ({})",
        crate::uri_form(name),
        crate::uri_form(with)
    )]
    Confusable {
        /// New name.
        name: Box<str>,
        /// Existing name.
        with: Box<str>,
    },
    /// Invalid prefix: only a prefix such as `0.NA/10.1000` or `10.1000` can be homed.
    #[error("invalid prefix `{name}`")]
    InvalidPrefix {
        /// Name that was sent.
        name: Box<str>,
    },
    /// Names under the reserved prefix are registry objects, not records.
    #[error("prefix `{RESERVED_PREFIX}` is reserved for the registry")]
    ReservedPrefix,
    /// This service is not responsible for the prefix.
    #[error("not responsible for prefix `{prefix}`")]
    NotResponsible {
        /// Prefix of the name.
        prefix: Box<str>,
    },
    /// Another server of this site is responsible for the name.
    #[error("another server of this site is responsible for the handle")]
    OtherServer,
    /// Another server of this site did not return a record or key that is required for authorization.
    #[error("site peer unavailable: {reason}")]
    SitePeer {
        /// Cause of the failure.
        reason: String,
    },
    /// Handle not found.
    #[error("handle not found")]
    NotFound,
    /// Retired handle: its record is a tombstone.
    #[error("handle is retired; the name cannot be reused")]
    Retired,
    /// Name already exists.
    #[error("handle already exists as `{name}`")]
    AlreadyExists {
        /// Name in its original spelling.
        name: Box<str>,
    },
    /// Name was retired and cannot be reused.
    #[error("handle `{name}` is retired; the name cannot be reused")]
    NameRetired {
        /// Name in its original spelling.
        name: Box<str>,
    },
    /// No value of the record was selected, or none is public.
    #[error("values not found")]
    ValuesNotFound,
    /// Value index already in use.
    #[error("value already exists at index {index}")]
    ValueExists {
        /// Index of the value.
        index: u32,
    },
    /// Two values in the request have the same index.
    #[error("duplicate value index {index}")]
    DuplicateIndex {
        /// Index of the value.
        index: u32,
    },
    /// Invalid value.
    #[error(transparent)]
    InvalidValue(#[from] InvalidValue),
    /// Authentication required; the interface sends a challenge.
    #[error("authentication required")]
    AuthenticationRequired,
    /// Caller is not authorized.
    #[error("`{who}` is not authorized for this operation")]
    NotAuthorized {
        /// Caller, as logged.
        who: Box<str>,
    },
    /// Value is not writable, even for admins.
    #[error("value at index {index} is read-only")]
    ValueReadOnly {
        /// Index of the value.
        index: u32,
    },
    /// Value is not readable, even for admins.
    #[error("value at index {index} has no read permission")]
    ValueUnreadable {
        /// Index of the value.
        index: u32,
    },
    /// The write would remove the last admin of the record, and was not forced.
    #[error("the change removes the last administrator; set `force` to apply it anyway")]
    RemovesLastAdmin,
    /// Listing is disabled in the settings.
    #[error("listing handles is disabled")]
    ListingDisabled,
    /// Name derived by a template that is invalid.
    #[error("invalid prefix template: {reason}")]
    Template {
        /// Fault in the template.
        reason: String,
    },
    /// Rejected by a registry rule, such as the policy of the prefix.
    #[error("{}", .0.detail)]
    Registry(Box<RegistryError>),
    /// Budget of the request exceeded.
    #[error(transparent)]
    BudgetExceeded(#[from] BudgetExceeded),
    /// Write conflict: concurrent writes changed the record or its admins in every attempt.
    #[error("write conflict: the record or its permissions changed during {attempts} attempts; retry")]
    WriteConflict {
        /// Number of attempts.
        attempts: u32,
    },
    /// The store rejected the commit.
    #[error(transparent)]
    Commit(CommitError),
    /// Store error.
    #[error(transparent)]
    Store(#[from] StoreError),
}
