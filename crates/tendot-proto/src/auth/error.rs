use crate::crypto::CryptoError;
use crate::error::DecodeError;
use crate::message::ResponseCode;
use crate::work::BudgetExceeded;

/// Authentication error.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The answer does not fit, or there is no such key: which of the two is not to be told.
    #[error("the proof does not fit the key")]
    Failed,
    /// The bytes are not an answer.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The authentication type is neither `HS_SECKEY` nor `HS_PUBKEY`.
    #[error("unknown authentication type")]
    UnknownType,
    /// The policy does not allow this algorithm.
    #[error("{algorithm} is not allowed")]
    NotAllowed {
        /// What it is called.
        algorithm: &'static str,
    },
    /// No algorithm has this name or number.
    #[error("unknown algorithm")]
    UnknownAlgorithm,
    /// PBKDF2 with numbers that would be too weak, or too much work.
    #[error("{field} of PBKDF2 is {found}, allowed are {least} to {most}")]
    OutOfBounds {
        /// Which number.
        field: &'static str,
        /// What it is.
        found: u32,
        /// The lowest that is allowed.
        least: u32,
        /// The highest that is allowed.
        most: u32,
    },
    /// The peer speaks a version below 2.1, or below 2.7 without a policy that allows SHA-1.
    #[error("the peer's version is too old for a challenge")]
    TooOld,
    /// There is no such challenge: it never was, has been answered, or is over.
    #[error("no such challenge, or no longer")]
    NoChallenge,
    /// The request is too large to be kept until the challenge is answered.
    #[error("the request has {length} bytes, at most {limit} are kept for a challenge")]
    TooLarge {
        /// Its bytes.
        length: usize,
        /// The most that are kept.
        limit: usize,
    },
    /// The peer wants a proof over something that is not our request, or is no challenge.
    #[error("the challenge is not about the request that was sent")]
    OtherRequest,
    /// The nonce is longer than any that is in use, and so long that what is signed could be taken for something else.
    #[error("a nonce of {length} bytes, at most {limit} are signed")]
    Nonce {
        /// Its bytes.
        length: usize,
        /// The most that are signed.
        limit: usize,
    },
    /// The provider of cryptography cannot do it.
    #[error(transparent)]
    Crypto(CryptoError),
    /// It would cost too much.
    #[error(transparent)]
    Exhausted(#[from] BudgetExceeded),
}

impl AuthError {
    /// What a server answers.
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

/// A signature that does not fit, and a key that cannot be used, are a failed proof like any other.
impl From<CryptoError> for AuthError {
    fn from(error: CryptoError) -> Self {
        match error {
            CryptoError::Signature | CryptoError::Key => Self::Failed,
            error => Self::Crypto(error),
        }
    }
}
