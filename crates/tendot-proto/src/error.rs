//! What is wrong with bytes from outside.

use core::fmt;

/// Decode error: field, byte offset and kind.
///
/// ```
/// use tendot_proto::MessageParts;
///
/// // An envelope that announces 51 bytes, and only two of them.
/// let mut bytes = vec![2, 11, 2, 11, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 51];
/// bytes.extend([0, 0]);
/// let error = MessageParts::split(&bytes).unwrap_err();
/// assert_eq!(error.to_string(), "message at byte 20: 51 bytes announced, 2 there");
/// assert_eq!((error.field(), error.offset()), ("message", 20));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DecodeError {
    field: &'static str,
    at: usize,
    kind: DecodeErrorKind,
}

/// Kind of a [`DecodeError`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// Fewer bytes are there than the field has, or than its length announces.
    Short {
        /// How many bytes the field should have.
        announced: usize,
        /// How many there are.
        there: usize,
    },
    /// More than is allowed in this place, whether the bytes are there or not.
    TooLong {
        /// The length that the field announces.
        announced: usize,
        /// The longest that is allowed.
        limit: usize,
    },
    /// A list announces more items than could stand in the bytes that are left.
    TooMany {
        /// The number of items that the list announces.
        announced: usize,
        /// How many bytes are there for them.
        there: usize,
    },
    /// A list has more items than is allowed in this place.
    OverLimit {
        /// The number of items that the list announces.
        announced: usize,
        /// The highest number that is allowed.
        limit: usize,
    },
    /// Bytes follow where none should.
    Trailing {
        /// How many.
        there: usize,
    },
    /// A number that has no meaning in this place.
    Unexpected {
        /// The number.
        found: u32,
    },
    /// A text that has no meaning in this place.
    NotUnderstood,
    /// Bytes that should be UTF-8 and are not.
    NotUtf8,
}

impl DecodeError {
    pub(crate) const fn new(field: &'static str, at: usize, kind: DecodeErrorKind) -> Self {
        Self { field, at, kind }
    }

    /// The field that is wrong, in the words of the protocol.
    pub const fn field(&self) -> &'static str {
        self.field
    }

    /// Where the field begins, in bytes from the start of what was decoded.
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// What is wrong with it.
    pub const fn kind(&self) -> DecodeErrorKind {
        self.kind
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: ", self.field, self.at)?;
        match self.kind {
            DecodeErrorKind::Short { announced, there } => {
                write!(f, "{announced} bytes announced, {there} there")
            }
            DecodeErrorKind::TooLong { announced, limit } => {
                write!(f, "{announced} bytes announced, at most {limit} allowed")
            }
            DecodeErrorKind::TooMany { announced, there } => {
                write!(f, "{announced} items announced, {there} bytes there for them")
            }
            DecodeErrorKind::OverLimit { announced, limit } => {
                write!(f, "{announced} items announced, at most {limit} allowed")
            }
            DecodeErrorKind::Trailing { there } => write!(f, "{there} bytes follow where none should"),
            DecodeErrorKind::Unexpected { found } => write!(f, "{found} has no meaning here"),
            DecodeErrorKind::NotUnderstood => f.write_str("has no meaning here"),
            DecodeErrorKind::NotUtf8 => f.write_str("not UTF-8"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Encode error: the message exceeds the size limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// It would be longer than any peer accepts.
    #[error("the message has {length} bytes, at most {limit} can be sent")]
    TooLong {
        /// Bytes after the envelope.
        length: usize,
        /// [`limits::MESSAGE`](crate::limits::MESSAGE).
        limit: usize,
    },
}
