//! Errors of reading and writing replication streams.

use crate::auth::AuthError;
use crate::budget::BudgetExceeded;
use crate::error::DecodeError;

/// Error of reading a replication stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicationError {
    /// Malformed stream.
    #[error(transparent)]
    Malformed(DecodeError),
    /// The stream ended before its last record; names the missing field.
    #[error("truncated stream: {0}")]
    Truncated(DecodeError),
    /// The stream is unsigned, which is not accepted.
    #[error("unsigned stream not allowed")]
    UnsignedNotAllowed,
    /// The stream is signed, but the sender's key is unknown.
    #[error("unknown signing key")]
    UnknownKey,
    /// The signature does not match the sender's key and the record.
    #[error("invalid signature of the record at byte {offset}")]
    BadSignature {
        /// Offset of the record.
        offset: usize,
    },
    /// Unknown signature algorithm, or not allowed by the policy.
    #[error(transparent)]
    Algorithm(AuthError),
    /// Work budget exceeded. The call can be repeated with a larger [`Budget`](crate::Budget).
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
}

/// Error of writing a replication stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicationWriteError {
    /// Record out of order: not the first though it must be, after the last, or of the other format.
    #[error("record out of order")]
    OutOfOrder,
    /// A field exceeds its limit; the offset is relative to the record.
    #[error(transparent)]
    TooLarge(DecodeError),
    /// Signing failed.
    #[error(transparent)]
    Sign(AuthError),
}
