use super::text::decode_text;
use crate::error::DecodeError;

/// Data of an `EMAIL` value: contact address, not validated.
///
/// ```
/// use tendot_proto::record::Email;
///
/// assert_eq!(Email::from_bytes(b"admin@example.org")?.as_str(), "admin@example.org");
/// assert!(Email::from_bytes(b"\xff").is_err());
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Email<'a>(&'a str);

impl<'a> Email<'a> {
    /// Reads the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        decode_text(bytes, "EMAIL").map(Self)
    }

    /// The address as it is written; nobody checked that it is one.
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}
