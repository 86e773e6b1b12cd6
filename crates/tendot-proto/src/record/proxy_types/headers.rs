//! `10320/headers`: extra HTTP header fields and HTML head elements.

use super::xml;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::record::types::decode_text;

/// Data of a `10320/headers` value: HTTP header fields and HTML head elements to add to responses.
///
/// ```
/// use tendot_proto::record::{ExtraHeader, ExtraHeaders};
///
/// let headers = ExtraHeaders::from_bytes(b"Signposting: yes\r\n<meta name=\"a\" content=\"b\">\n")?;
/// assert!(headers.iter().eq([
///     ExtraHeader::Field { name: "Signposting", value: "yes" },
///     ExtraHeader::Element("<meta name=\"a\" content=\"b\">"),
/// ]));
///
/// let error = ExtraHeaders::from_bytes(b"A: 1\nno field").unwrap_err();
/// assert_eq!(error.to_string(), "10320/headers at byte 5: invalid value");
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ExtraHeaders<'a> {
    source: &'a str,
}

/// Line of [`ExtraHeaders`]; contains no control character but tab.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ExtraHeader<'a> {
    /// HTTP header field.
    Field {
        /// Field name: a token (RFC 9110, 5.6.2).
        name: &'a str,
        /// Field value, without surrounding white space.
        value: &'a str,
    },
    /// HTML element for the head of a page.
    Element(&'a str),
}

impl<'a> ExtraHeaders<'a> {
    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let error = |offset, kind| DecodeError::new("10320/headers", offset, kind);
        if bytes.len() > xml::MAX_XML_BYTES {
            return Err(error(0, DecodeErrorKind::TooLong { len: bytes.len(), max: xml::MAX_XML_BYTES }));
        }
        let source = decode_text(bytes, "10320/headers")?;
        let mut offset = 0;
        for line in source.split_inclusive('\n') {
            if !line.trim().is_empty() && parse_line(line).is_none() {
                return Err(error(offset, DecodeErrorKind::Invalid));
            }
            offset += line.len();
        }
        Ok(Self { source })
    }

    /// Undecoded lines.
    pub const fn as_str(self) -> &'a str {
        self.source
    }

    /// Iterates over the lines, without empty ones.
    pub fn iter(self) -> impl Iterator<Item = ExtraHeader<'a>> {
        self.source.split('\n').filter_map(parse_line)
    }
}

fn parse_line(line: &str) -> Option<ExtraHeader<'_>> {
    let line = line.trim();
    if line.chars().any(|character| character.is_control() && character != '\t') {
        return None;
    }
    if line.starts_with('<') {
        return Some(ExtraHeader::Element(line));
    }
    let (name, value) = line.split_once(':')?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_valid_name = !name.is_empty() && name.bytes().all(is_token);
    is_valid_name.then(|| ExtraHeader::Field { name, value: value.trim() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        check("", Some(0));
        check("\r\n \n", Some(0));
        check("A: 1\r\nB:2", Some(2));
        check("A:", Some(1));
        check("A : 1", None);
        check(": 1", None);
        check("A: 1\rB: 2", None);
        check("<a>\r<b>", None);
        check("A: 1\0", None);
        check("A: 1\u{85}2", None);
        check(&"A: 1\n".repeat(20_000), None);
    }

    #[track_caller]
    fn check(source: &str, lines: Option<usize>) {
        let parsed = ExtraHeaders::from_bytes(source.as_bytes()).ok();
        assert_eq!(parsed.map(|headers| headers.iter().count()), lines, "{}", source.escape_debug());
    }
}
