//! Start of a candidate: prefix and slash.

use super::escaped_char::{decode_escaped_char, decode_utf8_char};
use crate::ascii_case::ends_with_ignore_case;
use crate::percent::{decode_layered, decode_layered_at_end};
use crate::syntax::character::is_removable_invisible;

/// Whether a DOI may start here: not inside a number or word.
pub(super) fn can_start_at(text: &[u8], start: usize) -> bool {
    let before = text.get(start.saturating_sub(8)..start).unwrap_or_default();
    match before {
        [] => true,
        [.., byte] if !byte.is_ascii_alphanumeric() && *byte != b'.' => true,
        [.., digit, b'.'] if digit.is_ascii_digit() => false,
        [.., b'.'] => true,
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'\\', b'u', a, b, c, d] if [a, b, c, d].into_iter().all(u8::is_ascii_hexdigit) => true,
        _ if ends_with_ignore_case(before, b"doi") => {
            !before.iter().nth_back(3).is_some_and(u8::is_ascii_alphabetic)
        }
        _ => decode_layered_at_end(before).is_some() || ends_with_subfield_code(before),
    }
}

/// Whether the text ends with the delimiter and code of a MARC 21 subfield that holds an identifier: `$a`, or `$z` for
/// an invalid one (field 024). Programs print the delimiter, U+001F, as `$`, `|`, `‡` or `ǂ`.
fn ends_with_subfield_code(text: &[u8]) -> bool {
    match text {
        [before @ .., b'a' | b'z'] => {
            matches!(before.last(), Some(b'$' | b'|' | 0x1F))
                || before.ends_with("‡".as_bytes())
                || before.ends_with("ǂ".as_bytes())
        }
        _ => false,
    }
}

/// Maximum length of a prefix in bytes; longer ones are numbers.
pub(super) const MAX_PREFIX_LEN: usize = 64;

/// DOI prefix found in text: directory indicator and registrant code.
pub(super) struct PrefixMatch {
    pub(super) end: usize,
    /// Number of digits in the registrant code, in all groups.
    pub(super) registrant_digits: usize,
    /// Whether it has the form of an IPv4 address (`10.0.0.1`) or a version number (`10.0.16299.0`).
    pub(super) is_address_or_version: bool,
    /// Whether it contains invisible characters, which are removed.
    pub(super) has_invisible: bool,
}

/// Matches the directory indicator and registrant code at `start`.
pub(super) fn match_prefix(text: &[u8], start: usize) -> PrefixMatch {
    let mut found = PrefixMatch {
        end: start + 3,
        registrant_digits: 0,
        is_address_or_version: false,
        has_invisible: false,
    };
    let mut position = start + 3;
    let (mut groups, mut group_len, mut value, mut is_ipv4) = (0, 0usize, 0u32, true);
    let (mut first_group_len, mut has_leading_zero) = (0usize, false);
    while position - start <= MAX_PREFIX_LEN {
        match text.get(position) {
            Some(digit @ b'0'..=b'9') => {
                groups += u32::from(group_len == 0);
                group_len += 1;
                if groups == 1 {
                    first_group_len += 1;
                    has_leading_zero |= first_group_len == 1 && *digit == b'0';
                }
                value = (value * 10 + u32::from(digit - b'0')).min(1000);
                is_ipv4 &= value <= 255;
                found.registrant_digits += 1;
                position += 1;
                found.end = position;
            }
            // A dot is part of the prefix only if another group follows.
            Some(b'.') if group_len > 0 => {
                (group_len, value) = (0, 0);
                position += 1;
            }
            Some(0x80..) => {
                let invisible = decode_utf8_char(text.get(position..).unwrap_or_default());
                let Some(invisible) = invisible.filter(|c| is_removable_invisible(c.character)) else {
                    break;
                };
                found.has_invisible = true;
                position += invisible.len;
                if group_len > 0 || found.registrant_digits == 0 {
                    found.end = position;
                }
            }
            _ => break,
        }
    }
    // Of the registrant codes with several groups, those of ISBN-A have the shortest first group: 978 and 979.
    let is_version = groups > 1 && (first_group_len < 3 || has_leading_zero);
    found.is_address_or_version = groups == 3 && is_ipv4 || is_version;
    found
}

/// Whether the text ends where the prefix may continue.
pub(super) fn needs_more_input(text: &[u8], end: usize) -> bool {
    let rest = text.get(end..).unwrap_or_default();
    rest.is_empty() || rest.len() < 8 && matches!(rest.first(), Some(b'.' | b'%' | b'\\' | b'&' | 0x80..))
}

/// Length of the slash at the start of `text`, escaped or not; percent-encoded perhaps more than once.
pub(super) fn slash_len(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'/' => Some(1),
        b'%' => decode_layered(text).filter(|encoded| encoded.byte == b'/').map(|encoded| encoded.len),
        b'\\' | b'&' => decode_escaped_char(text).filter(|c| c.character == '/').map(|c| c.len),
        _ => None,
    }
}

/// Whether the prefix follows `urn:eidr:`, where a colon stands for the slash (RFC 7972).
pub(super) fn is_eidr_urn(text: &[u8], start: usize, end: usize) -> bool {
    text.get(end) == Some(&b':') && ends_with_ignore_case(text.get(..start).unwrap_or_default(), b"urn:eidr:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidate_starts() {
        for text in [
            "", " ", "(", "doi:", "DOI", "21924DOI", "%2F", "%252F", "\\n", "的", "a.", "/", "$a", "\u{1F}a",
            "‡a", "|z", "\\u002F",
        ] {
            assert!(can_start_at(with_doi(text).as_bytes(), text.len()), "{text}");
        }
        for text in ["1", "20", "v1.", "x", "foo", "foodoi", "e", "$x", "a", "US$1"] {
            assert!(!can_start_at(with_doi(text).as_bytes(), text.len()), "{text}");
        }
    }

    #[test]
    fn prefix_matches() {
        for (text, end, registrant_digits, is_address_or_version) in [
            ("10.1000/1", 7, 4, false),
            ("10.1000.10/1", 10, 6, false),
            ("10.978.8898392/1", 14, 10, false),
            ("10.0.0.12/1", 9, 4, true),
            ("10.0.0.256/1", 10, 5, true),
            ("10.0.16299.0/1", 12, 7, true),
            ("10.15.1234/1", 10, 6, true),
            ("10.0123.45/1", 10, 6, true),
            ("10.00012/1", 8, 5, false),
            ("10.979.12/1", 9, 5, false),
            ("10.1000./1", 7, 4, false),
            ("10.x/1", 3, 0, false),
            ("10.\u{200B}1000\u{2060}/1", 13, 4, false),
        ] {
            let found = match_prefix(text.as_bytes(), 0);
            assert_eq!(
                (found.end, found.registrant_digits, found.is_address_or_version),
                (end, registrant_digits, is_address_or_version),
                "{text}"
            );
        }
    }

    fn with_doi(before: &str) -> alloc::string::String {
        alloc::format!("{before}10.1000/182")
    }
}
