use super::text::decode_text;
use crate::error::DecodeError;

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
    /// Reads the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        decode_text(bytes, "URL").map(Self)
    }

    /// The address as it is written; nobody checked that it is one.
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// What stands before the first colon, if that can be a scheme (RFC 3986, 3.1).
    pub fn scheme(self) -> Option<&'a str> {
        let (scheme, _) = self.0.split_once(':')?;
        let begins = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
        let goes_on = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        (begins && goes_on).then_some(scheme)
    }
}
