//! Percent-decoding, with the position of a syntax error.

use std::borrow::Cow;

/// Syntax error in a part of a request, with its byte offset.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{reason} at byte {offset} of the {part}")]
pub(crate) struct RequestSyntaxError {
    /// Part of the request, such as `path`.
    pub(crate) part: Cow<'static, str>,
    pub(crate) offset: usize,
    pub(crate) reason: &'static str,
}

impl RequestSyntaxError {
    pub(crate) const fn new(part: &'static str, offset: usize, reason: &'static str) -> Self {
        Self { part: Cow::Borrowed(part), offset, reason }
    }
}

/// Reason of a [`RequestSyntaxError`] for text in another encoding than UTF-8.
pub(crate) const INVALID_UTF8: &str = "invalid UTF-8";

/// Percent-decodes a part of the request target (RFC 3986, section 2.1). Malformed escapes are rejected, and so is NUL, which
/// ends names in other programs.
pub(crate) fn decode<'a>(text: &'a str, part: &'static str) -> Result<Cow<'a, [u8]>, RequestSyntaxError> {
    let bytes = text.as_bytes();
    let Some(first) = bytes.iter().position(|byte| *byte == b'%') else { return Ok(Cow::Borrowed(bytes)) };
    let mut decoded = Vec::with_capacity(bytes.len());
    decoded.extend_from_slice(bytes.get(..first).unwrap_or_default());
    let mut at = first;
    while let Some(byte) = bytes.get(at) {
        if *byte != b'%' {
            decoded.push(*byte);
            at += 1;
            continue;
        }
        let digits =
            (bytes.get(at + 1).copied().and_then(hex_digit), bytes.get(at + 2).copied().and_then(hex_digit));
        match digits {
            (Some(0), Some(0)) => {
                return Err(RequestSyntaxError::new(part, at, "`%00` is not allowed"));
            }
            (Some(high), Some(low)) => decoded.push(high << 4 | low),
            _ => {
                return Err(RequestSyntaxError::new(
                    part,
                    at,
                    "invalid percent-encoding: `%` needs two hexadecimal digits",
                ));
            }
        }
        at += 3;
    }
    Ok(Cow::Owned(decoded))
}

/// Percent-decodes to text, which must be UTF-8: in another encoding, it would be another name.
pub(crate) fn decode_text<'a>(text: &'a str, part: &'static str) -> Result<Cow<'a, str>, RequestSyntaxError> {
    match decode(text, part)? {
        Cow::Borrowed(_) => Ok(Cow::Borrowed(text)),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|error| {
            let offset = encoded_offset(text, error.utf8_error().valid_up_to());
            RequestSyntaxError::new(part, offset, INVALID_UTF8)
        }),
    }
}

/// Offset in the percent-encoded text of the byte at this offset of the decoded text.
fn encoded_offset(text: &str, decoded_offset: usize) -> usize {
    let mut bytes = text.bytes().enumerate();
    for _ in 0..decoded_offset {
        if matches!(bytes.next(), Some((_, b'%'))) {
            bytes.nth(1);
        }
    }
    bytes.next().map_or(text.len(), |(offset, _)| offset)
}

const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_once() {
        check("10.1/x", Ok("10.1/x"));
        check("10.1%2Fx", Ok("10.1/x"));
        check("10.1%252Fx", Ok("10.1%2Fx"));
        check("a+b", Ok("a+b"));
        check("%c3%A9", Ok("é"));
        check("é", Ok("é"));
        check("%0d%0a", Ok("\r\n"));
        check("%2e%2e", Ok(".."));
        check("%C0%AF", Err(0));
        check("%FF", Err(0));
        check("caf%E9", Err(3));
        check("%c3%A9é%2Fcaf%E9x", Err(14));
        check("a%C3", Err(1));
        check("%ED%A0%80", Err(0));
        check("%", Err(0));
        check("a%2", Err(1));
        check("a%zz", Err(1));
        check("ab%2+", Err(2));
        check("ab%00", Err(2));
    }

    #[track_caller]
    fn check(text: &str, expected: Result<&str, usize>) {
        let found = decode_text(text, "path");
        assert_eq!(found.as_deref().map_err(|error| error.offset), expected, "{text}");
    }
}
