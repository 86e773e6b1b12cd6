use crate::auth::AuthError;
use crate::budget::BudgetExceeded;
use crate::error::DecodeError;

/// Error of reading a replication stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicationError {
    /// The bytes are not what they should be.
    #[error(transparent)]
    Malformed(DecodeError),
    /// The stream ended before its last record: which field was awaited.
    #[error("the stream is unfinished: {0}")]
    Unfinished(DecodeError),
    /// Nothing protects the stream, and that is not accepted.
    #[error("the stream is not signed")]
    Unsigned,
    /// The stream is signed, and the key of the sender is not known.
    #[error("the stream is signed by a key that is not known")]
    NoKey,
    /// The signature is not one of the sender over this record.
    #[error("wrong signature of the record at byte {at}")]
    Signature {
        /// Where the record begins.
        at: usize,
    },
    /// The signature's algorithm is unknown, or not allowed.
    #[error(transparent)]
    Algorithm(AuthError),
    /// It would cost too much. The same can be tried again with more [`Budget`](crate::Budget).
    #[error(transparent)]
    Exhausted(#[from] BudgetExceeded),
}

/// Error of writing a replication stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicationWriteError {
    /// It may not stand here: it is not the first and should be, or comes after the last, or is of the other format.
    #[error("the record may not stand in this place of the stream")]
    OutOfPlace,
    /// A field is larger than may be; the place is counted from the start of the record.
    #[error(transparent)]
    TooLarge(DecodeError),
    /// It cannot be signed.
    #[error(transparent)]
    Sign(AuthError),
}
