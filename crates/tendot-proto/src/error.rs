//! Decode and encode errors.

use core::fmt;

/// Decode error: field, byte offset and kind.
///
/// ```
/// use tendot_proto::MessageParts;
///
/// // An envelope that announces 51 bytes, followed by only two.
/// let mut bytes = vec![2, 11, 2, 11, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 51];
/// bytes.extend([0, 0]);
/// let error = MessageParts::split(&bytes).unwrap_err();
/// assert_eq!(error.to_string(), "message at byte 20: 51 bytes announced, 2 there");
/// assert_eq!((error.field(), error.offset()), ("message", 20));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DecodeError {
    field: &'static str,
    offset: usize,
    kind: DecodeErrorKind,
}

/// Kind of a [`DecodeError`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// Fewer bytes are available than the field or its length requires.
    Short {
        /// Required length in bytes.
        announced: usize,
        /// Available bytes.
        there: usize,
    },
    /// The length exceeds the limit of the field, whether the bytes are available or not.
    TooLong {
        /// Announced length in bytes.
        announced: usize,
        /// Maximum length.
        limit: usize,
    },
    /// A list announces more items than the remaining bytes can hold.
    TooMany {
        /// Announced number of items.
        announced: usize,
        /// Available bytes.
        there: usize,
    },
    /// A list exceeds the maximum number of items.
    OverLimit {
        /// Announced number of items.
        announced: usize,
        /// Maximum number of items.
        limit: usize,
    },
    /// Unexpected bytes after the last field.
    Trailing {
        /// Number of bytes.
        there: usize,
    },
    /// Integer that is not valid in this field.
    Unexpected {
        /// The integer.
        found: u32,
    },
    /// Text that is not valid in this field.
    NotUnderstood,
    /// Invalid UTF-8.
    NotUtf8,
}

impl DecodeError {
    pub(crate) const fn new(field: &'static str, offset: usize, kind: DecodeErrorKind) -> Self {
        Self { field, offset, kind }
    }

    /// Name of the field, in the terms of the protocol.
    pub const fn field(&self) -> &'static str {
        self.field
    }

    /// Byte offset of the field from the start of the input.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Kind of the error.
    pub const fn kind(&self) -> DecodeErrorKind {
        self.kind
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: ", self.field, self.offset)?;
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
    /// Longer than any peer accepts.
    #[error("the message has {length} bytes, at most {limit} can be sent")]
    TooLong {
        /// Bytes after the envelope.
        length: usize,
        /// [`limits::MAX_MESSAGE_LEN`](crate::limits::MAX_MESSAGE_LEN).
        limit: usize,
    },
}
