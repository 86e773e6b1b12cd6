//! Error of a registry command or query, with the fields of a problem document (RFC 9457).

use tendot_store::{CommitError, StoreError};

use crate::Error;
use crate::metadata::MetadataFault;

/// Error of a registry command or query: kind, stable code, detail, JSON pointer and hint (RFC 9457).
#[derive(Debug)]
pub struct RegistryError {
    /// Class of the error.
    pub reason: RegistryErrorKind,
    /// Stable code for programs.
    pub code: &'static str,
    /// Description for people.
    pub detail: String,
    /// JSON pointer (RFC 6901) into the request body.
    pub pointer: Option<String>,
    /// Suggested correction.
    pub hint: Option<String>,
    /// Existing name in its original spelling, and when it was registered, in milliseconds since 1970.
    pub existing: Option<(Box<str>, Option<u64>)>,
    /// Faults of the metadata document.
    pub faults: Vec<MetadataFault>,
    /// Store error, for the server's log.
    pub failure: Option<StoreError>,
}

/// Detail of a commit in doubt, [`StoreError::InDoubt`].
pub const OUTCOME_UNKNOWN: &str = "it is not known whether this was carried out, since the database was lost meanwhile; \
                                   ask for the name before you try again";

/// Class of a registry error; selects the HTTP status.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RegistryErrorKind {
    /// Malformed request.
    Malformed,
    /// Not authenticated, or invalid credentials.
    Unknown,
    /// Not authorized.
    Forbidden,
    /// Not found, or not visible to the caller.
    NotFound,
    /// Conflict with an existing object.
    Conflict,
    /// Retired.
    Gone,
    /// Precondition failed: another revision than expected.
    Precondition,
    /// Invalid request.
    Invalid,
    /// Limit or quota quota_exceeded.
    Full,
    /// Temporarily unavailable.
    Busy,
    /// Store error.
    Failed,
}

impl RegistryError {
    /// Error with kind, code and detail.
    pub fn new(reason: RegistryErrorKind, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            reason,
            code,
            detail: detail.into(),
            pointer: None,
            hint: None,
            existing: None,
            faults: Vec::new(),
            failure: None,
        }
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(RegistryErrorKind::Malformed, "malformed", detail)
    }

    pub(crate) fn invalid(code: &'static str, pointer: &str, detail: impl Into<String>) -> Self {
        Self::new(RegistryErrorKind::Invalid, code, detail).with_pointer(pointer)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(RegistryErrorKind::Forbidden, "not-yours", detail)
    }

    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        Self::new(RegistryErrorKind::NotFound, "not-found", format!("there is no {what} `{id}`"))
    }

    /// Copy without the store error, for a further batch line.
    pub(crate) fn clone_without_source(&self) -> Self {
        Self {
            reason: self.reason,
            code: self.code,
            detail: self.detail.clone(),
            pointer: self.pointer.clone(),
            hint: self.hint.clone(),
            existing: self.existing.clone(),
            faults: self.faults.clone(),
            failure: None,
        }
    }

    /// Whether the budget of the request was exceeded.
    pub(crate) fn is_budget_exceeded(&self) -> bool {
        self.code == "too-much-work"
    }

    /// Converts to an error of a Handle operation.
    pub(crate) fn into_error(self) -> Error {
        match self.failure {
            Some(error) => Error::Store(error),
            None => Error::Policy(Box::new(self)),
        }
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
}

impl From<StoreError> for RegistryError {
    fn from(error: StoreError) -> Self {
        let rejection = match &error {
            StoreError::DiskFull { .. } => {
                Self::new(RegistryErrorKind::Full, "disk-full", "there is no room on the disk of the server")
            }
            StoreError::ReadOnly { .. } => {
                Self::new(RegistryErrorKind::Busy, "read-only", "nothing can be written at present")
            }
            StoreError::Unavailable { .. } => Self::new(
                RegistryErrorKind::Busy,
                "store-unreachable",
                "the database is not quota_exceeded at present",
            ),
            StoreError::InDoubt { .. } => {
                Self::new(RegistryErrorKind::Busy, "outcome-unknown", OUTCOME_UNKNOWN)
                    .with_hint("sent again with the same `Idempotency-Key`, it is not done twice")
            }
            _ => Self::new(RegistryErrorKind::Failed, "store-failed", "the store failed"),
        };
        Self { failure: Some(error), ..rejection }
    }
}

impl From<CommitError> for RegistryError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Store(error) => error.into(),
            error => Self::invalid("not-kept", "", error.to_string()),
        }
    }
}

impl From<Error> for RegistryError {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::Store(error) => error.into(),
            Error::Refused(error) => error.into(),
            Error::Exhausted(_) => Self::new(RegistryErrorKind::Busy, "too-much-work", detail),
            Error::Contended { .. } => Self::new(RegistryErrorKind::Busy, "contended", detail),
            Error::Neighbour { .. } => Self::new(RegistryErrorKind::Busy, "neighbour", detail),
            Error::NotFound => Self::new(RegistryErrorKind::NotFound, "not-found", detail),
            Error::Tombstone | Error::NotGivenAgain { .. } => {
                Self::new(RegistryErrorKind::Gone, "ended", detail)
            }
            Error::NeedsAuthentication => Self::new(RegistryErrorKind::Unknown, "unauthenticated", detail),
            Error::NotAdministrator { .. } => Self::forbidden(detail),
            Error::NotResponsible { .. } | Error::OtherServer => {
                Self::new(RegistryErrorKind::NotFound, "not-kept-here", detail)
            }
            Error::AlreadyExists { name } => {
                let rejection = Self::new(RegistryErrorKind::Conflict, "already-registered", detail);
                Self { existing: Some((name, None)), ..rejection }
            }
            Error::Confusable { with } => {
                let rejection =
                    Self::new(RegistryErrorKind::Conflict, "confusable", detail).with_pointer("/name");
                Self { existing: Some((with, None)), ..rejection }
            }
            Error::Name(_) | Error::InvisibleCharacter { .. } | Error::NotPrefix { .. } | Error::Reserved => {
                Self::invalid("bad-name", "/name", detail)
            }
            Error::Value(_) | Error::DuplicateIndex { .. } | Error::ValueExists { .. } | Error::NoValues => {
                Self::invalid("bad-value", "/values", detail)
            }
            Error::Policy(rejection) => *rejection,
            _ => Self::new(RegistryErrorKind::Invalid, "refused", detail),
        }
    }
}
