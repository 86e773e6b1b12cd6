//! Why the registry does not do what it is asked, in words for who asked.

use tendot_store::{CommitError, StoreError};

use crate::Error;
use crate::metadata::MetadataFault;

/// Error of a registry command or query: kind, stable code, detail, JSON pointer and hint (RFC 9457).
#[derive(Debug)]
pub struct RegistryError {
    /// Whose fault it is, roughly.
    pub reason: RegistryErrorKind,
    /// What it is called, for programs: it stays the same.
    pub code: &'static str,
    /// What is wrong, for people.
    pub detail: String,
    /// Where in what was sent, as a JSON pointer.
    pub pointer: Option<String>,
    /// What to do instead.
    pub hint: Option<String>,
    /// The name that is there already, as it was first registered, and since when, in milliseconds since 1970.
    pub existing: Option<(Box<str>, Option<u64>)>,
    /// What is wrong with metadata.
    pub faults: Vec<MetadataFault>,
    /// What failed, for our own log.
    pub failure: Option<StoreError>,
}

/// What is said of something that may have been done, for [`StoreError::Unknown`].
pub const OUTCOME_UNKNOWN: &str = "it is not known whether this was carried out, since the database was lost meanwhile; \
                                   ask for the name before you try again";

/// Class of a registry error; selects the HTTP status.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RegistryErrorKind {
    /// What was sent is not understood.
    Malformed,
    /// Who asks has to say who they are, or is not believed.
    Unknown,
    /// Who asks may not do this.
    Forbidden,
    /// There is no such thing, or who asks is not to know of it.
    NotFound,
    /// Something else is there already.
    Conflict,
    /// It was there, and is no longer.
    Gone,
    /// It is not what who asks took it for.
    Precondition,
    /// It is understood, and not right.
    Invalid,
    /// There is no room for more.
    Full,
    /// Too much is to be done just now.
    Busy,
    /// The store failed.
    Failed,
}

impl RegistryError {
    /// Something that is not done, for this reason.
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

    /// The same once more, for another line; without what failed.
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

    /// Whether it would have cost more than there was.
    pub(crate) fn is_budget_exceeded(&self) -> bool {
        self.code == "too-much-work"
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
        let refusal = match &error {
            StoreError::Full { .. } => {
                Self::new(RegistryErrorKind::Full, "disk-full", "there is no room on the disk of the server")
            }
            StoreError::ReadOnly { .. } => {
                Self::new(RegistryErrorKind::Busy, "read-only", "nothing can be written at present")
            }
            StoreError::Unreachable { .. } => Self::new(
                RegistryErrorKind::Busy,
                "store-unreachable",
                "the database is not reached at present",
            ),
            StoreError::Unknown { .. } => {
                Self::new(RegistryErrorKind::Busy, "outcome-unknown", OUTCOME_UNKNOWN)
                    .with_hint("sent again with the same `Idempotency-Key`, it is not done twice")
            }
            _ => Self::new(RegistryErrorKind::Failed, "store-failed", "the store failed"),
        };
        Self { failure: Some(error), ..refusal }
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
                let refusal = Self::new(RegistryErrorKind::Conflict, "already-registered", detail);
                Self { existing: Some((name, None)), ..refusal }
            }
            Error::Confusable { with } => {
                let refusal =
                    Self::new(RegistryErrorKind::Conflict, "confusable", detail).with_pointer("/name");
                Self { existing: Some((with, None)), ..refusal }
            }
            Error::Name(_) | Error::InvisibleCharacter { .. } | Error::NotPrefix { .. } | Error::Reserved => {
                Self::invalid("bad-name", "/name", detail)
            }
            Error::Value(_) | Error::DuplicateIndex { .. } | Error::ValueExists { .. } | Error::NoValues => {
                Self::invalid("bad-value", "/values", detail)
            }
            Error::Policy(refusal) => *refusal,
            _ => Self::new(RegistryErrorKind::Invalid, "refused", detail),
        }
    }
}
