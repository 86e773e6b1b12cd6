//! Authentication errors and their response codes.

use crate::budget::BudgetExceeded;
use crate::crypto::CryptoError;
use crate::error::DecodeError;
use crate::message::ResponseCode;

/// Authentication error.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// Wrong proof or no such key. Deliberately one error, so that the difference is not disclosed.
    #[error("authentication failed")]
    Failed,
    /// Malformed challenge response.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The authentication type is neither `HS_SECKEY` nor `HS_PUBKEY`.
    #[error("unknown authentication type")]
    UnknownAuthType,
    /// The policy does not allow the algorithm.
    #[error("algorithm not allowed: {algorithm}")]
    AlgorithmNotAllowed {
        /// Name of the algorithm.
        algorithm: &'static str,
    },
    /// Unknown algorithm.
    #[error("unknown algorithm")]
    UnknownAlgorithm,
    /// PBKDF2 parameter that is too weak or too expensive.
    #[error("PBKDF2 {field} {found} out of range {min}..={max}")]
    Pbkdf2OutOfRange {
        /// Name of the parameter.
        field: &'static str,
        /// Value of the parameter.
        found: u32,
        /// Minimum.
        min: u32,
        /// Maximum.
        max: u32,
    },
    /// The peer's version is below 2.1, or below 2.7 without a policy that allows SHA-1.
    #[error("protocol version too old for challenge-response authentication")]
    VersionTooOld,
    /// Unknown challenge: never issued, already used, or expired.
    #[error("unknown or expired challenge")]
    UnknownChallenge,
    /// The request is too large to be stored with its challenge.
    #[error("request of {len} bytes exceeds the challenge limit of {max}")]
    RequestTooLarge {
        /// Length of the request in bytes.
        len: usize,
        /// Maximum in bytes.
        max: usize,
    },
    /// Not a challenge or digest for the request that was sent.
    #[error("request digest mismatch")]
    DigestMismatch,
    /// The nonce is so long that the signed bytes could be mistaken for another message.
    #[error("nonce of {len} bytes exceeds the limit of {max}")]
    NonceTooLong {
        /// Length of the nonce in bytes.
        len: usize,
        /// Maximum in bytes.
        max: usize,
    },
    /// The crypto provider does not support the operation.
    #[error(transparent)]
    Crypto(CryptoError),
    /// Work budget exceeded.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
}

impl AuthError {
    /// Response code of a server.
    pub const fn response_code(&self) -> ResponseCode {
        match self {
            Self::Failed => ResponseCode::AUTHENTICATION_FAILED,
            Self::UnknownChallenge => ResponseCode::AUTHENTICATION_TIMEOUT,
            Self::Budget(_) | Self::DigestMismatch | Self::NonceTooLong { .. } => {
                ResponseCode::AUTHENTICATION_ERROR
            }
            Self::RequestTooLarge { .. } => ResponseCode::SERVER_TOO_BUSY,
            _ => ResponseCode::INVALID_CREDENTIAL,
        }
    }
}

/// A wrong signature and an unusable key count as a failed proof.
impl From<CryptoError> for AuthError {
    fn from(error: CryptoError) -> Self {
        match error {
            CryptoError::Signature | CryptoError::Key => Self::Failed,
            error => Self::Crypto(error),
        }
    }
}
