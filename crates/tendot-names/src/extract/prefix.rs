//! The beginning of a name: where one may stand, its prefix, its slash.

use super::context::ends_with;
use super::token::token;
use crate::escape::triplet;

/// True when a name may begin at `start`: not inside a number or word, but right after a label, a percent-encoded
/// character or an escaped line end.
pub(super) fn may_begin(text: &[u8], start: usize) -> bool {
    let before = text.get(start.saturating_sub(6)..start).unwrap_or_default();
    match before {
        [] => true,
        [.., byte] if !byte.is_ascii_alphanumeric() && *byte != b'.' => true,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [b'\\', b'u', digits @ ..] if digits.len() == 4 && digits.iter().all(u8::is_ascii_hexdigit) => true,
        [rest @ .., d, o, i] if [*d, *o, *i].eq_ignore_ascii_case(b"doi") => {
            !rest.last().is_some_and(u8::is_ascii_alphabetic)
        }
        [.., digit, b'.'] if digit.is_ascii_digit() => false,
        [.., byte] => !byte.is_ascii_alphanumeric(),
    }
}

/// A directory indicator and registrant code.
pub(super) struct Prefix {
    pub(super) end: usize,
    /// Digits of the registrant code, all groups together.
    pub(super) digits: usize,
    /// It could as well be an address of the Internet: `10.0.0.1`.
    pub(super) is_ip_address: bool,
}

/// The directory indicator and registrant code at `start`.
pub(super) fn prefix(text: &[u8], start: usize) -> Prefix {
    let mut end = start + 3;
    let mut digits = 0;
    let mut groups = 1;
    let mut small = true;
    loop {
        let group =
            text.get(end..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
        if group == 0 {
            // The dot before it is not part of the prefix.
            if groups > 1 {
                end -= 1;
            }
            break;
        }
        let value = text.get(end..end + group).unwrap_or_default();
        small &= group < 3 || group == 3 && value <= b"255";
        digits += group;
        groups += 1;
        end += group;
        if text.get(end) != Some(&b'.') {
            break;
        }
        end += 1;
    }
    Prefix { end, digits, is_ip_address: groups == 4 && small }
}

/// True when the text stops where the prefix may go on or its slash may follow.
pub(super) fn is_open_ended(text: &[u8], end: usize) -> bool {
    let rest = text.get(end..).unwrap_or_default();
    rest.is_empty() || rest.len() < 8 && matches!(rest.first(), Some(b'.' | b'%' | b'\\' | b'&'))
}

/// The length of the slash at the beginning of `text`, however it is written.
pub(super) fn slash(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'/' => Some(1),
        b'%' => (triplet(text) == Some(b'/')).then_some(3),
        b'\\' | b'&' => token(text).filter(|token| token.character == '/').map(|token| token.len),
        _ => None,
    }
}

/// True for a URN of the Entertainment ID Registry, which has a colon for the slash (RFC 7972).
pub(super) fn is_eidr(text: &[u8], start: usize, end: usize) -> bool {
    text.get(end) == Some(&b':') && ends_with(text.get(..start).unwrap_or_default(), b"urn:eidr:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings() {
        for text in ["", " ", "(", "doi:", "DOI", "21924DOI", "%2F", "\\n", "的", "a.", "/"] {
            assert!(may_begin(format(text).as_bytes(), text.len()), "{text}");
        }
        for text in ["1", "20", "v1.", "x", "foo", "foodoi", "e"] {
            assert!(!may_begin(format(text).as_bytes(), text.len()), "{text}");
        }
    }

    #[test]
    fn prefixes() {
        for (text, end, digits, is_ip_address) in [
            ("10.1000/1", 7, 4, false),
            ("10.1000.10/1", 10, 6, false),
            ("10.978.8898392/1", 14, 10, false),
            ("10.0.0.12/1", 9, 4, true),
            ("10.0.0.256/1", 10, 5, false),
            ("10.1000./1", 7, 4, false),
            ("10.x/1", 3, 0, false),
        ] {
            let found = prefix(text.as_bytes(), 0);
            assert_eq!(
                (found.end, found.digits, found.is_ip_address),
                (end, digits, is_ip_address),
                "{text}"
            );
        }
    }

    fn format(lead: &str) -> alloc::string::String {
        alloc::format!("{lead}10.1000/182")
    }
}
