//! Error of a registry command or query, with the fields of a problem document (RFC 9457).

use tendot_store::{CommitError, StoreError};

use super::codes::{self, ErrorCodeSpec};
use crate::Error;
use crate::command::is_conflict;
use crate::metadata::MetadataFault;

/// Error of a registry command or query: kind, stable code, detail, JSON pointer and hint (RFC 9457).
#[derive(Debug)]
#[non_exhaustive]
pub struct RegistryError {
    /// Class of the error.
    pub kind: RegistryErrorKind,
    /// Stable code for programs; see [`codes`].
    pub code: &'static str,
    /// Description for people.
    pub detail: String,
    /// JSON pointer (RFC 6901) into the request body.
    pub pointer: Option<String>,
    /// Suggested correction.
    pub hint: Option<String>,
    /// Existing name that the request conflicts with.
    pub existing: Option<ExistingName>,
    /// Faults of the metadata document.
    pub faults: Vec<MetadataFault>,
    /// Store error, for the server's log.
    pub source: Option<StoreError>,
}

/// Existing name or prefix that a request conflicts with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExistingName {
    /// Name in its original spelling.
    pub name: Box<str>,
    /// Time of registration, in milliseconds since 1970, if known.
    pub registered_ms: Option<u64>,
}

/// Detail of a commit in doubt, [`StoreError::InDoubt`].
pub const OUTCOME_UNKNOWN: &str = "outcome unknown: the database connection was lost during the commit; \
                                   read the name before you retry";

/// Class of a registry error; selects the HTTP status.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RegistryErrorKind {
    /// Malformed request.
    Malformed,
    /// Not authenticated, or invalid credentials.
    Unauthenticated,
    /// Not authorized.
    Forbidden,
    /// Not found, or not visible to the caller.
    NotFound,
    /// Conflict with an existing object.
    Conflict,
    /// Retired.
    Gone,
    /// Precondition failed: another revision than expected.
    PreconditionFailed,
    /// Invalid request.
    Invalid,
    /// Limit or quota reached.
    LimitReached,
    /// Temporarily unavailable.
    Unavailable,
    /// Internal store error.
    Internal,
}

impl RegistryError {
    /// Error with the kind of its code.
    pub fn new(code: &'static ErrorCodeSpec, detail: impl Into<String>) -> Self {
        Self {
            kind: code.kind,
            code: code.code,
            detail: detail.into(),
            pointer: None,
            hint: None,
            existing: None,
            faults: Vec::new(),
            source: None,
        }
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(codes::MALFORMED, detail)
    }

    /// Error in the body of a request.
    pub(crate) fn invalid(code: &'static ErrorCodeSpec, pointer: &str, detail: impl Into<String>) -> Self {
        debug_assert!(code.kind == RegistryErrorKind::Invalid, "{}", code.code);
        Self::new(code, detail).with_pointer(pointer)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(codes::FORBIDDEN, detail)
    }

    /// Error: no registrant holds the prefix of a name.
    pub(crate) fn prefix_not_allocated(prefix: &str) -> Self {
        let detail = format!("prefix `{prefix}` is not allocated");
        Self::new(codes::UNKNOWN_PREFIX, detail).with_pointer("/name")
    }

    /// Error: the policy of the prefix requires kernel metadata.
    pub(crate) fn metadata_required(prefix: &str) -> Self {
        Self::invalid(codes::MISSING, "/metadata", format!("prefix {prefix} requires kernel metadata"))
    }

    /// Error: invalid metadata, with the message and pointer of the first fault.
    pub fn invalid_metadata(faults: Vec<MetadataFault>) -> Self {
        let (pointer, detail) = faults
            .first()
            .map_or_else(Default::default, |fault| (fault.pointer.clone(), fault.message.clone()));
        Self { faults, ..Self::invalid(codes::INVALID_METADATA, &pointer, detail) }
    }

    /// Error of an object that does not exist, or that the caller may not see.
    pub fn not_found(what: &str, id: &str) -> Self {
        Self::new(codes::NOT_FOUND, format!("{what} not found: `{id}`"))
    }

    /// Copy without the store error, which cannot be cloned.
    pub fn clone_without_source(&self) -> Self {
        Self {
            kind: self.kind,
            code: self.code,
            detail: self.detail.clone(),
            pointer: self.pointer.clone(),
            hint: self.hint.clone(),
            existing: self.existing.clone(),
            faults: self.faults.clone(),
            source: None,
        }
    }

    /// Whether the budget of the request was exceeded.
    pub(crate) fn is_budget_exceeded(&self) -> bool {
        self.code == codes::BUDGET_EXCEEDED.code
    }

    #[must_use]
    pub(crate) fn with_pointer(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into());
        self
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub(crate) fn with_existing(mut self, name: impl Into<Box<str>>, registered_ms: Option<u64>) -> Self {
        self.existing = Some(ExistingName { name: name.into(), registered_ms });
        self
    }
}

impl From<RegistryError> for Error {
    fn from(error: RegistryError) -> Self {
        match error.source {
            Some(source) => Self::Store(source),
            None => Self::Registry(Box::new(error)),
        }
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Store(error) => Self::Store(error),
            error => Self::Commit(error),
        }
    }
}

impl From<StoreError> for RegistryError {
    fn from(source: StoreError) -> Self {
        let (code, detail) = describe_store_error(&source);
        let mut error = Self::new(code, detail);
        if matches!(source, StoreError::InDoubt { .. }) {
            error =
                error.with_hint("retry with the same `Idempotency-Key`; the request is applied at most once");
        }
        Self { source: Some(source), ..error }
    }
}

/// Code and message of a store error, for all interfaces; the cause is only logged.
pub const fn describe_store_error(error: &StoreError) -> (&'static ErrorCodeSpec, &'static str) {
    match error {
        StoreError::DiskFull { .. } => (codes::DISK_FULL, "the server's disk is full"),
        StoreError::ReadOnly { .. } => (codes::STORE_READ_ONLY, "the store is read-only"),
        StoreError::Unavailable { .. } => (codes::STORE_UNAVAILABLE, "the database is unreachable"),
        StoreError::InDoubt { .. } => (codes::OUTCOME_UNKNOWN, OUTCOME_UNKNOWN),
        StoreError::Corrupt { .. } => (codes::CORRUPT, "stored data is corrupt"),
        _ => (codes::STORE_FAILED, "the store failed"),
    }
}

impl From<CommitError> for RegistryError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Store(error) => error.into(),
            error if is_conflict(&error) => Self::new(codes::WRITE_CONFLICT, error.to_string()),
            error => Self::invalid(codes::REJECTED_BY_STORE, "", error.to_string()),
        }
    }
}

impl From<Error> for RegistryError {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::Store(error) => error.into(),
            Error::Commit(error) => error.into(),
            Error::BudgetExceeded(_) => Self::new(codes::BUDGET_EXCEEDED, detail),
            Error::WriteConflict { .. } => Self::new(codes::WRITE_CONFLICT, detail),
            Error::SitePeer { .. } => Self::new(codes::SITE_PEER_UNAVAILABLE, detail),
            Error::NotFound => Self::new(codes::NOT_FOUND, detail),
            Error::Retired | Error::NameRetired { .. } => Self::new(codes::RETIRED, detail),
            Error::AuthenticationRequired => Self::new(codes::UNAUTHENTICATED, detail),
            Error::NotAuthorized { .. } => Self::forbidden(detail),
            Error::NotResponsible { .. } | Error::OtherServer => Self::new(codes::NOT_RESPONSIBLE, detail),
            Error::AlreadyExists { name } => {
                Self::new(codes::ALREADY_REGISTERED, detail).with_existing(name, None)
            }
            Error::Confusable { with, .. } => {
                Self::new(codes::CONFUSABLE, detail).with_pointer("/name").with_existing(with, None)
            }
            Error::Name(_)
            | Error::InvisibleCharacter { .. }
            | Error::Doi(_)
            | Error::InvalidPrefix { .. }
            | Error::ReservedPrefix => Self::invalid(codes::INVALID_NAME, "/name", detail),
            Error::InvalidValue(_)
            | Error::DuplicateIndex { .. }
            | Error::ValueExists { .. }
            | Error::ValuesNotFound => Self::invalid(codes::INVALID_VALUE, "/values", detail),
            Error::Registry(error) => *error,
            _ => Self::new(codes::HANDLE_RULE, detail),
        }
    }
}
