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
    #[error("the proof does not fit the key")]
    Failed,
    /// Malformed challenge response.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The authentication type is neither `HS_SECKEY` nor `HS_PUBKEY`.
    #[error("unknown authentication type")]
    UnknownType,
    /// The policy does not allow the algorithm.
    #[error("{algorithm} is not allowed")]
    NotAllowed {
        /// Name of the algorithm.
        algorithm: &'static str,
    },
    /// Unknown algorithm.
    #[error("unknown algorithm")]
    UnknownAlgorithm,
    /// PBKDF2 parameter that is too weak or too expensive.
    #[error("{field} of PBKDF2 is {found}, allowed are {least} to {most}")]
    OutOfBounds {
        /// Name of the parameter.
        field: &'static str,
        /// Value of the parameter.
        found: u32,
        /// Minimum.
        least: u32,
        /// Maximum.
        most: u32,
    },
    /// The peer's version is below 2.1, or below 2.7 without a policy that allows SHA-1.
    #[error("the peer's version is too old for a challenge")]
    TooOld,
    /// Unknown challenge: never issued, already used, or expired.
    #[error("no such challenge, or no longer")]
    NoChallenge,
    /// The request is too large to be stored with its challenge.
    #[error("the request has {length} bytes, at most {limit} are kept for a challenge")]
    TooLarge {
        /// Length of the request in bytes.
        length: usize,
        /// Maximum in bytes.
        limit: usize,
    },
    /// Not a challenge for our request.
    #[error("the challenge is not about the request that was sent")]
    OtherRequest,
    /// The nonce is so long that the signed bytes could be mistaken for another message.
    #[error("a nonce of {length} bytes, at most {limit} are signed")]
    Nonce {
        /// Length of the nonce in bytes.
        length: usize,
        /// Maximum in bytes.
        limit: usize,
    },
    /// The crypto provider does not support the operation.
    #[error(transparent)]
    Crypto(CryptoError),
    /// Work budget exceeded.
    #[error(transparent)]
    Exhausted(#[from] BudgetExceeded),
}

impl AuthError {
    /// Response code of a server.
    pub const fn response_code(&self) -> ResponseCode {
        match self {
            Self::Failed => ResponseCode::AUTHENTICATION_FAILED,
            Self::NoChallenge => ResponseCode::AUTHENTICATION_TIMEOUT,
            Self::Exhausted(_) | Self::OtherRequest | Self::Nonce { .. } => {
                ResponseCode::AUTHENTICATION_ERROR
            }
            Self::TooLarge { .. } => ResponseCode::SERVER_TOO_BUSY,
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
