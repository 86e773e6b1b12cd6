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
    /// assert_eq!(Error::Tombstone.response_code(), ResponseCode::HANDLE_NOT_FOUND);
    /// assert_eq!(Error::ValueExists { index: 1 }.response_code(), ResponseCode::VALUE_ALREADY_EXISTS);
    /// ```
    pub const fn response_code(&self) -> ResponseCode {
        match self {
            Self::Name(_)
            | Self::InvisibleCharacter { .. }
            | Self::Confusable { .. }
            | Self::NotPrefix { .. }
            | Self::Reserved => ResponseCode::INVALID_HANDLE,
            Self::NotResponsible { .. } | Self::OtherServer => ResponseCode::SERVER_NOT_RESPONSIBLE,
            Self::NotFound | Self::Tombstone => ResponseCode::HANDLE_NOT_FOUND,
            Self::AlreadyExists { .. } | Self::NotGivenAgain { .. } => ResponseCode::HANDLE_ALREADY_EXISTS,
            Self::NoValues => ResponseCode::VALUES_NOT_FOUND,
            Self::ValueExists { .. } | Self::DuplicateIndex { .. } => ResponseCode::VALUE_ALREADY_EXISTS,
            Self::Value(_) => ResponseCode::INVALID_VALUE,
            Self::Policy(rejection) => match rejection.reason {
                RegistryErrorKind::Unknown => ResponseCode::AUTHENTICATION_FAILED,
                RegistryErrorKind::Full => ResponseCode::INSUFFICIENT_PERMISSIONS,
                _ => ResponseCode::INVALID_VALUE,
            },
            Self::NeedsAuthentication => ResponseCode::AUTHENTICATION_NEEDED,
            Self::NotAdministrator { .. } => ResponseCode::INVALID_ADMIN,
            Self::ReadOnly { .. } | Self::Unreadable { .. } | Self::LockedOut => {
                ResponseCode::INSUFFICIENT_PERMISSIONS
            }
            Self::ListingDisabled => ResponseCode::OPERATION_NOT_SUPPORTED,
            Self::Exhausted(_) | Self::Contended { .. } | Self::Neighbour { .. } => {
                ResponseCode::SERVER_TOO_BUSY
            }
            Self::Refused(CommitError::InvalidName { .. }) => ResponseCode::INVALID_HANDLE,
            Self::Refused(CommitError::TooLarge { .. }) => ResponseCode::INVALID_VALUE,
            Self::Store(StoreError::ReadOnly { .. })
            | Self::Refused(CommitError::Store(StoreError::ReadOnly { .. })) => ResponseCode::SERVER_BACKUP,
            Self::Store(StoreError::Unavailable { .. })
            | Self::Refused(CommitError::Store(StoreError::Unavailable { .. })) => {
                ResponseCode::SERVER_TOO_BUSY
            }
            // Includes commits in doubt: any other code would state that nothing was written.
            Self::Template { .. } | Self::Refused(_) | Self::Store(_) => ResponseCode::ERROR,
        }
    }
}
