//! Text value types: `URL`, `EMAIL`, `DESC`.

use crate::error::{DecodeError, DecodeErrorKind};

/// Data of a `URL` value: target location, not validated.
///
/// ```
/// use tendot_proto::record::Url;
///
/// let url = Url::from_bytes(b"https://example.org/")?;
/// assert_eq!((url.as_str(), url.scheme()), ("https://example.org/", Some("https")));
/// assert!(Url::from_bytes(b"https://example.org/\xff").is_err());
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Url<'a>(&'a str);

impl<'a> Url<'a> {
    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        decode_text(bytes, "URL").map(Self)
    }

    /// Text of the URL, not validated.
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// Scheme (RFC 3986, 3.1), if the part before the first colon is one.
    pub fn scheme(self) -> Option<&'a str> {
        let (scheme, _) = self.0.split_once(':')?;
        let starts_valid = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
        let continues_valid =
            scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        (starts_valid && continues_valid).then_some(scheme)
    }
}

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
    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        decode_text(bytes, "EMAIL").map(Self)
    }

    /// Text of the address, not validated.
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

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
    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        decode_text(bytes, "DESC").map(Self)
    }

    /// Text of the description.
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

/// Decodes UTF-8 data.
pub(in crate::record) fn decode_text<'a>(
    bytes: &'a [u8],
    field: &'static str,
) -> Result<&'a str, DecodeError> {
    core::str::from_utf8(bytes)
        .map_err(|error| DecodeError::new(field, error.valid_up_to(), DecodeErrorKind::InvalidUtf8))
}

/// Data as text, if JSON represents it as text: UTF-8 without control characters, except those that Handle.Net takes
/// for white space. It means 0x09 to 0x0D, but tests for 0x09 to 0x13.
pub(in crate::record) fn printable_text(data: &[u8]) -> Option<&str> {
    let is_control = |byte: u8| matches!(byte, 0x00..=0x08 | 0x14..=0x1f | 0x7f);
    // No early exit, so that the compiler can vectorize.
    let is_printable = !data.iter().fold(false, |found, byte| found | is_control(*byte));
    is_printable.then(|| core::str::from_utf8(data).ok()).flatten()
}
