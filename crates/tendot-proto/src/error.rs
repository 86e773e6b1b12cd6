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
/// assert_eq!(error.to_string(), "message at byte 20: needs 51 bytes, only 2 left");
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
    Truncated {
        /// Required length in bytes.
        expected: usize,
        /// Available bytes.
        available: usize,
    },
    /// The length exceeds the limit of the field, whether the bytes are available or not.
    TooLong {
        /// Length in bytes.
        len: usize,
        /// Maximum length.
        max: usize,
    },
    /// A list announces more items than the remaining bytes can hold.
    CountExceedsInput {
        /// Announced number of items.
        count: usize,
        /// Available bytes.
        available: usize,
    },
    /// A list exceeds the maximum number of items.
    TooManyItems {
        /// Number of items.
        count: usize,
        /// Maximum number of items.
        max: usize,
    },
    /// Unexpected bytes after the last field.
    TrailingBytes {
        /// Number of bytes.
        count: usize,
    },
    /// Integer that is not valid in this field.
    InvalidCode {
        /// The integer.
        code: u32,
    },
    /// Bytes or text that are not valid in this field.
    Invalid,
    /// Invalid UTF-8.
    InvalidUtf8,
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
            DecodeErrorKind::Truncated { expected, available } => {
                write!(f, "needs {expected} bytes, only {available} left")
            }
            DecodeErrorKind::TooLong { len, max } => {
                write!(f, "length {len} exceeds the limit of {max} bytes")
            }
            DecodeErrorKind::CountExceedsInput { count, available } => {
                write!(f, "{count} items do not fit in the remaining {available} bytes")
            }
            DecodeErrorKind::TooManyItems { count, max } => {
                write!(f, "{count} items exceed the limit of {max}")
            }
            DecodeErrorKind::TrailingBytes { count } => write!(f, "{count} trailing bytes"),
            DecodeErrorKind::InvalidCode { code } => write!(f, "invalid code {code}"),
            DecodeErrorKind::Invalid => f.write_str("invalid value"),
            DecodeErrorKind::InvalidUtf8 => f.write_str("invalid UTF-8"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Encode error: the message exceeds the size limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The message is longer than [`limits::MAX_MESSAGE_LEN`](crate::limits::MAX_MESSAGE_LEN).
    #[error("message of {len} bytes exceeds the limit of {max}")]
    TooLong {
        /// Bytes after the envelope.
        len: usize,
        /// [`limits::MAX_MESSAGE_LEN`](crate::limits::MAX_MESSAGE_LEN).
        max: usize,
    },
}
