//! One character, escaped or not: plain, HTML or XML entity, or backslash escape of JSON, Markdown or TeX.

use super::html_entity::{MAX_ENTITY_NAME_LEN, entity_char};
use crate::ascii_case::starts_with_ignore_case;
use crate::percent::hex_value;

/// One character and the number of input bytes that encode it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct EscapedChar {
    pub(super) character: char,
    pub(super) len: usize,
}

/// Decodes the character at the start of `text`; `None` where a DOI cannot continue.
pub(super) fn decode_escaped_char(text: &[u8]) -> Option<EscapedChar> {
    let (&first, rest) = text.split_first()?;
    match first {
        b'&' => Some(decode_entity(text).unwrap_or(EscapedChar { character: '&', len: 1 })),
        b'\\' => decode_backslash(rest).map(|escaped| EscapedChar { len: escaped.len + 1, ..escaped }),
        b'{' => Some(decode_tex_group(rest).unwrap_or(EscapedChar { character: '{', len: 1 })),
        b'$' => Some(decode_tex_math(rest).unwrap_or(EscapedChar { character: '$', len: 1 })),
        0..0x80 => Some(EscapedChar { character: char::from(first), len: 1 }),
        _ => decode_utf8_char(text),
    }
}

/// Decodes a non-ASCII character.
pub(super) fn decode_utf8_char(text: &[u8]) -> Option<EscapedChar> {
    let len = match text.first()? {
        0xC2..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0..0xF5 => 4,
        _ => return None,
    };
    let character = str::from_utf8(text.get(..len)?).ok()?.chars().next()?;
    Some(EscapedChar { character, len })
}

/// Decodes an HTML or XML entity: `&lt;`, `&eacute;`, `&#60;`, `&#x3C;`, or a doubly escaped one, `&amp;lt;`.
fn decode_entity(text: &[u8]) -> Option<EscapedChar> {
    if text.get(1) == Some(&b'#') {
        return decode_numeric_entity(text);
    }
    const DOUBLY_ESCAPED: [(&[u8], char); 3] = [(b"&amp;lt;", '<'), (b"&amp;gt;", '>'), (b"&amp;amp;", '&')];
    let doubly_escaped = DOUBLY_ESCAPED.into_iter().find(|(name, _)| starts_with_ignore_case(text, name));
    if let Some((name, character)) = doubly_escaped {
        return Some(EscapedChar { character, len: name.len() });
    }
    let name = text.get(1..)?;
    let len = name.iter().take(MAX_ENTITY_NAME_LEN).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    if name.get(len) != Some(&b';') {
        return None;
    }
    let name = name.get(..len)?;
    // The case of a name is significant (`&Eacute;`, `&eacute;`), but markup in capital letters has `&LT;`.
    let character = entity_char(name).or_else(|| {
        const ANY_CASE: [(&[u8], char); 4] = [(b"lt", '<'), (b"gt", '>'), (b"amp", '&'), (b"quot", '"')];
        let found = ANY_CASE.into_iter().find(|(entity, _)| name.eq_ignore_ascii_case(entity));
        found.map(|(_, character)| character)
    })?;
    Some(EscapedChar { character, len: len + 2 })
}

/// Decodes a numeric entity: `&#60;`, `&#x3C;`.
fn decode_numeric_entity(text: &[u8]) -> Option<EscapedChar> {
    let digits = text.get(2..)?;
    let (digits, radix, digits_start) = match digits.first()? {
        b'x' | b'X' => (digits.get(1..)?, 16, 3),
        _ => (digits, 10, 2),
    };
    let end = digits.iter().take(8).position(|&byte| byte == b';')?;
    let number = str::from_utf8(digits.get(..end)?).ok()?;
    let character = char::from_u32(u32::from_str_radix(number, radix).ok()?)?;
    Some(EscapedChar { character, len: digits_start + end + 1 })
}

/// Decodes the text after a backslash.
fn decode_backslash(rest: &[u8]) -> Option<EscapedChar> {
    const TEX_COMMANDS: [(&[u8], char); 6] = [
        (b"textless", '<'),
        (b"textgreater", '>'),
        (b"textunderscore", '_'),
        (b"textasciitilde", '~'),
        (b"textbar", '|'),
        (b"textbackslash", '\\'),
    ];
    match rest.first()? {
        b'u' => {
            decode_utf16_escape(rest.get(1..)?).map(|escaped| EscapedChar { len: escaped.len + 1, ..escaped })
        }
        b't' => TEX_COMMANDS.into_iter().find(|(name, _)| rest.starts_with(name)).map(|(name, character)| {
            // In TeX, braces or a space end the command.
            let end = match rest.get(name.len()..) {
                Some([b'{', b'}', ..]) => 2,
                Some([b' ', after, ..]) if after.is_ascii_alphanumeric() => 1,
                _ => 0,
            };
            EscapedChar { character, len: name.len() + end }
        }),
        b'"' | b'\'' | b'\\' => None,
        b'&' => Some(decode_entity(rest).unwrap_or(EscapedChar { character: '&', len: 1 })),
        byte if byte.is_ascii_punctuation() => Some(EscapedChar { character: char::from(*byte), len: 1 }),
        _ => None,
    }
}

/// Decodes the digits after `\u`, and the second half of a surrogate pair (RFC 8259 section 7): `d83d\udc14`.
fn decode_utf16_escape(digits: &[u8]) -> Option<EscapedChar> {
    let first = hex_code_unit(digits)?;
    let second = digits.get(4..).and_then(|rest| rest.strip_prefix(br"\u")).and_then(hex_code_unit);
    let mut characters = char::decode_utf16([first].into_iter().chain(second));
    let character = characters.next()?.ok()?;
    // Without a pair, the second code unit is a character of its own.
    Some(EscapedChar { character, len: if character.len_utf16() == 2 { 10 } else { 4 } })
}

/// UTF-16 code unit of four hexadecimal digits.
fn hex_code_unit(digits: &[u8]) -> Option<u16> {
    digits
        .first_chunk::<4>()?
        .iter()
        .try_fold(0u16, |code, &digit| Some(code << 4 | u16::from(hex_value(digit)?)))
}

/// Decodes the text after the brace of a TeX group: `{\_}`, `{\textless}`, `{[}`, `{$<$}`, `{\&}lt;`.
fn decode_tex_group(rest: &[u8]) -> Option<EscapedChar> {
    if let Some(entity) = rest.strip_prefix(br"\&}") {
        let known = [(&b"lt;"[..], '<'), (b"gt;", '>'), (b"amp;", '&')];
        if let Some((name, character)) = known.into_iter().find(|(name, _)| entity.starts_with(name)) {
            return Some(EscapedChar { character, len: 4 + name.len() });
        }
    }
    let inner = match rest {
        [b'\\', after @ ..] => {
            decode_backslash(after).map(|escaped| EscapedChar { len: escaped.len + 1, ..escaped })?
        }
        [b'$', after @ ..] => decode_tex_math(after)?,
        [byte, b'}', ..] if byte.is_ascii_punctuation() => {
            EscapedChar { character: char::from(*byte), len: 1 }
        }
        _ => return None,
    };
    (rest.get(inner.len) == Some(&b'}')).then_some(EscapedChar { len: inner.len + 2, ..inner })
}

/// Decodes the text after the dollar sign of TeX math: `$<$`, `$>$`, `$_$`.
fn decode_tex_math(rest: &[u8]) -> Option<EscapedChar> {
    match rest {
        [byte @ (b'<' | b'>' | b'_'), b'$', ..] => Some(EscapedChar { character: char::from(*byte), len: 3 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_escaped_chars() {
        check("&lt;x", Some(('<', 4)));
        check("&LT;x", Some(('<', 4)));
        check("&amp;lt;", Some(('<', 8)));
        check("&#60;", Some(('<', 5)));
        check("&#x3c;", Some(('<', 6)));
        check("&#xD800;", Some(('&', 1)));
        check("&n-v2", Some(('&', 1)));
        check("&Eacute;", Some(('É', 8)));
        check("&eacute;t", Some(('é', 8)));
        check("&EACUTE;", Some(('&', 1)));
        check("&eacute", Some(('&', 1)));
        check("&sol;182", Some(('/', 5)));
        check("&nbsp;", Some(('\u{A0}', 6)));
        check("&amp;amp;x", Some(('&', 9)));
        check(r"\/182", Some(('/', 2)));
        check(r"\_1", Some(('_', 2)));
        check(r"\u003c1", Some(('<', 6)));
        check(r"\ud83d\udc14x", Some(('🐔', 12)));
        check(r"\u00e9\udc14", Some(('é', 6)));
        // Surrogates without their other half
        check(r"\ud83dx", None);
        check(r"\ud83d\u0041", None);
        check(r"\udc14", None);
        check(r"\n", None);
        check("\\\"", None);
        check(r"{\_}48", Some(('_', 4)));
        check(r"{\textless}693", Some(('<', 11)));
        check(r"\textgreater{}3", Some(('>', 14)));
        check("{a}", Some(('{', 1)));
        check("$<$1", Some(('<', 3)));
        check("$5", Some(('$', 1)));
        check("é", Some(('é', 2)));
        check("", None);
        assert_eq!(decode_escaped_char(b"\xE6\x97"), None);
    }

    #[track_caller]
    fn check(text: &str, expected: Option<(char, usize)>) {
        assert_eq!(
            decode_escaped_char(text.as_bytes()).map(|escaped| (escaped.character, escaped.len)),
            expected,
            "{text}"
        );
    }
}
