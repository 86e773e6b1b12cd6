//! Response code of the Handle protocol for each error.

use tendot_proto::ResponseCode;
use tendot_store::{CommitError, StoreError};

use crate::{Error, RegistryErrorKind};

impl Error {
    /// Response code of the Handle protocol; the JSON of the HTTP interface has it as `responseCode`.
    ///
    /// ```
    /// use tendot_proto::ResponseCode;
    /// use tendot_registry::Error;
    ///
    /// assert_eq!(Error::Retired.response_code(), ResponseCode::HANDLE_NOT_FOUND);
    /// assert_eq!(Error::ValueExists { index: 1 }.response_code(), ResponseCode::VALUE_ALREADY_EXISTS);
    /// ```
    pub const fn response_code(&self) -> ResponseCode {
        match self {
            Self::Name(_)
            | Self::InvisibleCharacter { .. }
            | Self::Doi(_)
            | Self::Confusable { .. }
            | Self::InvalidPrefix { .. }
            | Self::ReservedPrefix => ResponseCode::INVALID_HANDLE,
            Self::NotResponsible { .. } | Self::OtherServer => ResponseCode::SERVER_NOT_RESPONSIBLE,
            Self::NotFound | Self::Retired => ResponseCode::HANDLE_NOT_FOUND,
            Self::AlreadyExists { .. } | Self::NameRetired { .. } => ResponseCode::HANDLE_ALREADY_EXISTS,
            Self::ValuesNotFound => ResponseCode::VALUES_NOT_FOUND,
            Self::ValueExists { .. } | Self::DuplicateIndex { .. } => ResponseCode::VALUE_ALREADY_EXISTS,
            Self::InvalidValue(_) => ResponseCode::INVALID_VALUE,
            Self::Registry(rejection) => match rejection.kind {
                RegistryErrorKind::Unauthenticated => ResponseCode::AUTHENTICATION_FAILED,
                RegistryErrorKind::Forbidden | RegistryErrorKind::LimitReached => {
                    ResponseCode::INSUFFICIENT_PERMISSIONS
                }
                RegistryErrorKind::Unavailable => ResponseCode::SERVER_TOO_BUSY,
                RegistryErrorKind::Internal => ResponseCode::ERROR,
                RegistryErrorKind::Malformed
                | RegistryErrorKind::NotFound
                | RegistryErrorKind::Conflict
                | RegistryErrorKind::Gone
                | RegistryErrorKind::PreconditionFailed
                | RegistryErrorKind::Invalid => ResponseCode::INVALID_VALUE,
            },
            Self::AuthenticationRequired => ResponseCode::AUTHENTICATION_NEEDED,
            Self::NotAuthorized { .. } => ResponseCode::INVALID_ADMIN,
            Self::ValueReadOnly { .. } | Self::ValueUnreadable { .. } | Self::RemovesLastAdmin => {
                ResponseCode::INSUFFICIENT_PERMISSIONS
            }
            Self::ListingDisabled => ResponseCode::OPERATION_NOT_SUPPORTED,
            Self::BudgetExceeded(_) | Self::WriteConflict { .. } | Self::SitePeer { .. } => {
                ResponseCode::SERVER_TOO_BUSY
            }
            Self::Commit(CommitError::InvalidName { .. }) => ResponseCode::INVALID_HANDLE,
            Self::Commit(CommitError::TooLarge { .. }) => ResponseCode::INVALID_VALUE,
            Self::Store(StoreError::ReadOnly { .. })
            | Self::Commit(CommitError::Store(StoreError::ReadOnly { .. })) => ResponseCode::SERVER_BACKUP,
            Self::Store(StoreError::Unavailable { .. })
            | Self::Commit(CommitError::Store(StoreError::Unavailable { .. })) => {
                ResponseCode::SERVER_TOO_BUSY
            }
            // Includes commits in doubt: any other code would state that nothing was written.
            Self::Template { .. } | Self::Commit(_) | Self::Store(_) => ResponseCode::ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{ERROR_CODES, RegistryError};

    /// Of the codes of the registry, only faults of the request itself are invalid values.
    #[test]
    fn registry_errors_by_kind() {
        let mut kinds = HashSet::new();
        for spec in ERROR_CODES {
            let expected = match spec.kind {
                RegistryErrorKind::Unauthenticated => "RC_AUTHENTICATION_FAILED",
                RegistryErrorKind::Forbidden | RegistryErrorKind::LimitReached => {
                    "RC_INSUFFICIENT_PERMISSIONS"
                }
                RegistryErrorKind::Unavailable => "RC_SERVER_TOO_BUSY",
                RegistryErrorKind::Internal => "RC_ERROR",
                _ => "RC_INVALID_VALUE",
            };
            let error = Error::from(RegistryError::new(spec, "detail"));
            assert_eq!(error.response_code().to_string(), expected, "{}", spec.code);
            kinds.insert(spec.kind);
        }
        assert_eq!(kinds.len(), 11, "all kinds");
    }
}
