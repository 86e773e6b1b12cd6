//! One character of a candidate, however it is escaped: as itself, as an HTML or XML entity, with the backslash of
//! JSON, Markdown or TeX.

use crate::escape::hex_value;

/// A character of the text and how many bytes stand for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Token {
    pub(super) character: char,
    pub(super) len: usize,
}

/// Reads the character at the beginning of `text`; nothing where no name goes on: at its end, at bytes that are
/// not UTF-8, and at escapes of quotes and line ends.
pub(super) fn token(text: &[u8]) -> Option<Token> {
    let (&first, rest) = text.split_first()?;
    match first {
        b'&' => Some(entity(text).unwrap_or(Token { character: '&', len: 1 })),
        b'\\' => escape(rest).map(|token| Token { len: token.len + 1, ..token }),
        b'{' => Some(tex_group(rest).unwrap_or(Token { character: '{', len: 1 })),
        b'$' => Some(tex_math(rest).unwrap_or(Token { character: '$', len: 1 })),
        0..0x80 => Some(Token { character: char::from(first), len: 1 }),
        _ => multibyte(text),
    }
}

/// A character outside ASCII.
pub(super) fn multibyte(text: &[u8]) -> Option<Token> {
    let len = match text.first()? {
        0xC2..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0..0xF5 => 4,
        _ => return None,
    };
    let character = str::from_utf8(text.get(..len)?).ok()?.chars().next()?;
    Some(Token { character, len })
}

/// `&lt;`, `&#60;`, `&#x3C;`, and the same escaped twice: `&amp;lt;`.
fn entity(text: &[u8]) -> Option<Token> {
    const NAMED: [(&[u8], char); 22] = [
        (b"&lt;", '<'),
        (b"&gt;", '>'),
        (b"&amp;lt;", '<'),
        (b"&amp;gt;", '>'),
        (b"&amp;amp;", '&'),
        (b"&amp;", '&'),
        (b"&quot;", '"'),
        (b"&apos;", '\''),
        (b"&nbsp;", ' '),
        (b"&ensp;", ' '),
        (b"&emsp;", ' '),
        (b"&thinsp;", ' '),
        (b"&ldquo;", '“'),
        (b"&rdquo;", '”'),
        (b"&lsquo;", '‘'),
        (b"&rsquo;", '’'),
        (b"&laquo;", '«'),
        (b"&raquo;", '»'),
        (b"&mdash;", '—'),
        (b"&ndash;", '–'),
        (b"&hellip;", '…'),
        (b"&shy;", '\u{AD}'),
    ];
    if text.get(1) == Some(&b'#') {
        return numeric_entity(text);
    }
    let second = text.get(1)?.to_ascii_lowercase();
    if !second.is_ascii_alphabetic() {
        return None;
    }
    NAMED
        .into_iter()
        .filter(|(name, _)| name.get(1) == Some(&second))
        .find(|(name, _)| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))
        .map(|(name, character)| Token { character, len: name.len() })
}

fn numeric_entity(text: &[u8]) -> Option<Token> {
    let digits = text.get(2..)?;
    let (digits, radix, lead) = match digits.first()? {
        b'x' | b'X' => (digits.get(1..)?, 16, 3),
        _ => (digits, 10, 2),
    };
    let end = digits.iter().take(8).position(|&byte| byte == b';')?;
    let number = str::from_utf8(digits.get(..end)?).ok()?;
    let character = char::from_u32(u32::from_str_radix(number, radix).ok()?)?;
    Some(Token { character, len: lead + end + 1 })
}

/// What follows a backslash.
fn escape(rest: &[u8]) -> Option<Token> {
    const TEX: [(&[u8], char); 6] = [
        (b"textless", '<'),
        (b"textgreater", '>'),
        (b"textunderscore", '_'),
        (b"textasciitilde", '~'),
        (b"textbar", '|'),
        (b"textbackslash", '\\'),
    ];
    match rest.first()? {
        b'u' => {
            let digits = rest.get(1..5)?;
            let code = digits
                .iter()
                .try_fold(0u32, |code, &digit| Some(code << 4 | u32::from(hex_value(digit)?)))?;
            Some(Token { character: char::from_u32(code)?, len: 5 })
        }
        b't' => TEX.into_iter().find(|(name, _)| rest.starts_with(name)).map(|(name, character)| {
            // TeX takes braces or a space after the word for its end.
            let end = match rest.get(name.len()..) {
                Some([b'{', b'}', ..]) => 2,
                Some([b' ', after, ..]) if after.is_ascii_alphanumeric() => 1,
                _ => 0,
            };
            Token { character, len: name.len() + end }
        }),
        b'"' | b'\'' | b'\\' => None,
        b'&' => Some(entity(rest).unwrap_or(Token { character: '&', len: 1 })),
        byte if byte.is_ascii_punctuation() => Some(Token { character: char::from(*byte), len: 1 }),
        _ => None,
    }
}

/// `{\_}`, `{\textless}`, `{[}` and `{$<$}`; also `{\&}lt;`.
fn tex_group(rest: &[u8]) -> Option<Token> {
    if let Some(entity) = rest.strip_prefix(br"\&}") {
        let known = [(&b"lt;"[..], '<'), (b"gt;", '>'), (b"amp;", '&')];
        if let Some((name, character)) = known.into_iter().find(|(name, _)| entity.starts_with(name)) {
            return Some(Token { character, len: 4 + name.len() });
        }
    }
    let inner = match rest {
        [b'\\', after @ ..] => escape(after).map(|token| Token { len: token.len + 1, ..token })?,
        [b'$', after @ ..] => tex_math(after)?,
        [byte, b'}', ..] if byte.is_ascii_punctuation() => Token { character: char::from(*byte), len: 1 },
        _ => return None,
    };
    (rest.get(inner.len) == Some(&b'}')).then_some(Token { len: inner.len + 2, ..inner })
}

/// `$<$`, `$>$`, `$_$`.
fn tex_math(rest: &[u8]) -> Option<Token> {
    match rest {
        [byte @ (b'<' | b'>' | b'_'), b'$', ..] => Some(Token { character: char::from(*byte), len: 3 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        check("&lt;x", Some(('<', 4)));
        check("&LT;x", Some(('<', 4)));
        check("&amp;lt;", Some(('<', 8)));
        check("&#60;", Some(('<', 5)));
        check("&#x3c;", Some(('<', 6)));
        check("&#xD800;", Some(('&', 1)));
        check("&n-v2", Some(('&', 1)));
        check(r"\/182", Some(('/', 2)));
        check(r"\_1", Some(('_', 2)));
        check(r"\u003c1", Some(('<', 6)));
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
        assert_eq!(token(b"\xE6\x97"), None);
    }

    #[track_caller]
    fn check(text: &str, expected: Option<(char, usize)>) {
        assert_eq!(token(text.as_bytes()).map(|token| (token.character, token.len)), expected, "{text}");
    }
}
