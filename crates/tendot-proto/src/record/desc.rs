use super::text::decode_text;
use crate::error::DecodeError;

/// Data of a `DESC` value: free-text description.
///
/// ```
/// use tendot_proto::record::DescriptionText;
///
/// assert_eq!(DescriptionText::from_bytes("Grüße".as_bytes())?.as_str(), "Grüße");
/// assert!(DescriptionText::from_bytes(b"\xff").is_err());
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DescriptionText<'a>(&'a str);

impl<'a> DescriptionText<'a> {
    /// Reads the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        decode_text(bytes, "DESC").map(Self)
    }

    /// The text.
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}
