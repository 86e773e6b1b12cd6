//! Last character before a position, escaped or not.

use super::escaped_char::decode_escaped_char;
use crate::percent::decode_layered_at_end;

/// ASCII character at the end of a text, and how it is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct PrecedingChar {
    pub(super) byte: u8,
    /// Number of bytes that encode it.
    pub(super) len: usize,
    /// Layers of percent-encoding: 1 for `%2F`, 2 for `%252F`.
    pub(super) encoding_layers: u8,
}

/// Longest escape that is recognized: `&colon;`.
const MAX_ESCAPE_LEN: usize = 7;

/// Last character of `text`: plain, percent-encoded, or escaped as in JSON (`\/`, `\u002F`) and HTML (`&#x2F;`, `&sol;`).
pub(super) fn preceding_char(text: &[u8]) -> Option<PrecedingChar> {
    let last = *text.last()?;
    if last.is_ascii_hexdigit()
        && let Some(encoded) = decode_layered_at_end(text)
    {
        return Some(PrecedingChar { byte: encoded.byte, len: encoded.len, encoding_layers: encoded.layers });
    }
    let window = text.get(text.len().saturating_sub(MAX_ESCAPE_LEN)..).unwrap_or_default();
    let escape_start = window.iter().rposition(|byte| matches!(byte, b'&' | b'\\'));
    let escaped = escape_start.and_then(|start| {
        let escape = window.get(start..)?;
        let decoded = decode_escaped_char(escape).filter(|escaped| escaped.len == escape.len())?;
        Some(PrecedingChar {
            byte: u8::try_from(decoded.character).ok().filter(u8::is_ascii)?,
            len: decoded.len,
            encoding_layers: 0,
        })
    });
    escaped.or(Some(PrecedingChar { byte: last, len: 1, encoding_layers: 0 }))
}

/// `text` without its last character, if that is `byte`, plain or escaped.
pub(super) fn strip_preceding(text: &[u8], byte: u8) -> Option<&[u8]> {
    let last = preceding_char(text).filter(|last| last.byte == byte)?;
    text.get(..text.len() - last.len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preceding_chars() {
        for (text, byte, len, encoding_layers) in [
            ("doi.org/", b'/', 1, 0),
            (r"doi.org\/", b'/', 2, 0),
            (r"doi.org\u002F", b'/', 6, 0),
            ("doi.org&#x2F;", b'/', 6, 0),
            ("doi&colon;", b':', 7, 0),
            ("doi.org%2f", b'/', 3, 1),
            ("doi.org%252F", b'/', 5, 2),
            ("x&amp", b'p', 1, 0),
            (";", b';', 1, 0),
            ("a", b'a', 1, 0),
        ] {
            let found = preceding_char(text.as_bytes()).unwrap();
            assert_eq!(
                (found.byte, found.len, found.encoding_layers),
                (byte, len, encoding_layers),
                "{text}"
            );
        }
        assert_eq!(preceding_char(b""), None);
        assert_eq!(strip_preceding(b"doi%3A", b':'), Some(&b"doi"[..]));
        assert_eq!(strip_preceding(b"doi:", b'/'), None);
    }
}
