//! The walk over one candidate, from its slash to the first character that is not part of it.

use alloc::borrow::Cow;
use core::ops::Range;

use super::context::{Context, ends_with, is_open_before, is_quoted};
use super::decoded::Decoded;
use super::join::{goes_on, next_line};
use super::prefix::{Prefix, may_begin, prefix, slash};
use super::tail::{bracket_kind, cut_tails, trim};
use super::token::{Token, token};
use super::{Extractor, Flag, Flags, Found};
use crate::character::{fault, is_noncharacter, is_stray_invisible};
use crate::escape::{Malformed, decode, triplet};
use crate::{Doi, ErrorKind, Name, Rules, cast};

/// One candidate.
pub(super) struct Walk<'s, 't> {
    options: &'s Extractor,
    /// Nothing before this is looked at.
    floor: usize,
    text: &'t [u8],
    start: usize,
    /// Where the suffix begins.
    suffix: usize,
    at: usize,
    context: Context,
    /// Opened minus closed brackets of each kind.
    depth: [isize; 4],
    /// Whether brackets of each kind, and double quotes, were open before; asked at most once, since it means to
    /// look back.
    open_before: [Option<bool>; 4],
    quoted: Option<bool>,
    /// The candidate with its escapes decoded, once it differs from the text.
    decoded: Option<Decoded>,
    percent: bool,
    encoded_slash: bool,
    flags: Flags,
}

impl<'s, 't> Walk<'s, 't> {
    /// Begins after the prefix, with a slash that is `slash` bytes long.
    #[inline]
    pub(super) fn new(
        options: &'s Extractor,
        floor: usize,
        text: &'t [u8],
        prefix: Range<usize>,
        slash: usize,
        context: Context,
    ) -> Self {
        let first = text.get(prefix.end).copied();
        let encoded_slash = first == Some(b'%');
        let mut walk = Self {
            options,
            floor,
            text,
            start: prefix.start,
            suffix: prefix.end + slash,
            at: prefix.end,
            context,
            depth: [0; 4],
            open_before: [None; 4],
            quoted: None,
            decoded: None,
            percent: encoded_slash,
            encoded_slash,
            flags: Flags::default(),
        };
        if first != Some(b'/') && !encoded_slash {
            walk.replace(slash, Some('/'));
        }
        walk.at = walk.suffix;
        walk
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// Goes to the first character that is not part of the candidate, and says where that is.
    pub(super) fn run(&mut self) -> usize {
        let limit = self.start + self.options.max_len;
        while self.at <= limit {
            self.pass_plain(limit);
            if !self.step() && !self.joins_next_line() {
                break;
            }
        }
        self.at
    }

    /// Passes over characters from which nothing follows; dots and colons are among them unless the byte before
    /// shows that something else could begin there.
    fn pass_plain(&mut self, limit: usize) {
        let rest = self.text.get(self.at..=limit).or(self.text.get(self.at..)).unwrap_or_default();
        let mut before = self.byte(self.at - 1);
        let passed = rest.iter().position(|&byte| {
            let plain = is_plain(byte)
                || byte == b'.' && !matches!(before, b'0' | b'w' | b'W')
                || byte == b':' && !matches!(before | 0x20, b'p' | b's' | b'i' | b'd');
            before = byte;
            !plain
        });
        self.at += passed.unwrap_or(rest.len());
    }

    /// Takes one character that is not plain; false where the candidate ends.
    fn step(&mut self) -> bool {
        let Some(&byte) = self.text.get(self.at) else { return false };
        if byte.is_ascii() && !matches!(byte, b'&' | b'\\' | b'{' | b'$') {
            let goes_on = self.goes_on_with(char::from(byte), 1);
            self.at += usize::from(goes_on);
            return goes_on;
        }
        let Some(token) = self.text.get(self.at..).and_then(token) else { return false };
        let Token { character, len } = token;
        if character.is_ascii() {
            if !self.goes_on_with(character, len) {
                return false;
            }
        } else if is_stray_invisible(character) {
            self.replace(len, None);
            return true;
        } else if ends_name(character, self.byte(self.at + len)) {
            return false;
        }
        if len == character.len_utf8() {
            self.at += len;
        } else {
            self.replace(len, Some(character));
        }
        true
    }

    /// Judges an ASCII character of `len` bytes at the current place. May move the current place back to the
    /// beginning of something that is glued to the name.
    fn goes_on_with(&mut self, character: char, len: usize) -> bool {
        let next = self.byte(self.at + len);
        let opener = self.context.opener;
        match character {
            '\0'..=' ' | '\x7F' | '|' => false,
            '.' => !self.ends_at_dot(),
            ':' => !self.ends_at_colon(),
            '%' => {
                self.percent = true;
                true
            }
            '"' => {
                let closes = opener == b'"'
                    || matches!(
                        next,
                        0..=b' ' | b',' | b'}' | b']' | b':' | b';' | b')' | b'>' | b'/' | b'=' | b'<'
                    );
                !closes && !self.is_quoted()
            }
            '\'' | '`' => opener != character as u8 && next.is_ascii_alphanumeric(),
            '*' => opener != b'*',
            '<' => self.opens_sici_part(len),
            '>' => self.closes_bracket('<', '>', next) && self.depth.get(3).is_some_and(|depth| *depth >= 0),
            '(' | '[' | '{' => {
                self.count(character, 1);
                true
            }
            ')' => self.closes_bracket('(', ')', next),
            ']' => self.closes_bracket('[', ']', next),
            '}' => self.closes_bracket('{', '}', next),
            '?' => !self.context.url && !is_query(self.text.get(self.at + 1..).unwrap_or_default()),
            '#' => !self.context.url && !self.context.fragment,
            '&' => !self.context.query,
            _ if Some(character as u8) == self.options.field_separator && len == 1 => {
                opener == b'"' || self.is_quoted()
            }
            _ => true,
        }
    }

    fn count(&mut self, bracket: char, by: isize) {
        if let Some(depth) = self.depth.get_mut(bracket_kind(bracket)) {
            *depth += by;
        }
    }

    /// True when a closing bracket is part of the candidate: it closes one inside, or none that was open before.
    fn closes_bracket(&mut self, open: char, close: char, next: u8) -> bool {
        let kind = bracket_kind(close);
        let inside = self.depth.get(kind).is_some_and(|depth| *depth > 0);
        self.count(close, -1);
        if inside {
            return true;
        }
        let (open, close) = (open as u8, close as u8);
        if self.context.opener == open || next.is_ascii_whitespace() {
            return false;
        }
        let (text, floor, lead) = (self.text, self.floor, self.context.lead);
        !self
            .open_before
            .get_mut(kind)
            .is_some_and(|known| *known.get_or_insert_with(|| is_open_before(text, floor, lead, open, close)))
    }

    fn is_quoted(&mut self) -> bool {
        let (text, floor, lead) = (self.text, self.floor, self.context.lead);
        *self.quoted.get_or_insert_with(|| is_quoted(text, floor, lead))
    }

    /// `<` is part of a name in SICI codes: `<693::AID-ASI4>3.0.CO;2-0`. Otherwise it begins a tag.
    fn opens_sici_part(&mut self, len: usize) -> bool {
        let after = self.text.get(self.at + len..).unwrap_or_default();
        let inner = after
            .iter()
            .take(64)
            .take_while(|byte| byte.is_ascii_alphanumeric() || b":.-_+,;/()".contains(byte))
            .count();
        let has_colon = after.get(..inner).unwrap_or_default().contains(&b':');
        let close = after.get(inner..).and_then(token).filter(|token| token.character == '>');
        let Some(close) = close else { return false };
        let version = after.get(inner + close.len..).unwrap_or_default();
        let is_sici =
            has_colon && matches!(version, [a, b'.', b, ..] if a.is_ascii_digit() && b.is_ascii_digit());
        if is_sici {
            self.count('<', 1);
        }
        is_sici
    }

    /// Another name or an address may begin shortly before the dot at the current place.
    fn ends_at_dot(&mut self) -> bool {
        let before = self.text.get(self.suffix..self.at).unwrap_or_default();
        let cut = match before {
            [rest @ .., b'1', b'0'] => self.next_name(rest),
            [rest @ .., a, b, c] if [*a, *b, *c].eq_ignore_ascii_case(b"www") => {
                rest.last().is_some_and(|byte| *byte != b'/').then_some(rest.len())
            }
            _ => None,
        };
        self.end_at(cut)
    }

    /// Where the candidate ends if the `10.` after `before` begins another name.
    fn next_name(&self, before: &[u8]) -> Option<usize> {
        let begin = self.suffix + before.len();
        if matches!(before.last(), None | Some(b'/' | b'_')) || !may_begin(self.text, begin) {
            return None;
        }
        let Prefix { end, digits, .. } = prefix(self.text, begin);
        if digits < 4 || slash(self.text.get(end..)?).is_none() {
            return None;
        }
        // A label belongs to the next name, a dash to none.
        let lead = match before {
            [.., d, o, i] if [*d, *o, *i].eq_ignore_ascii_case(b"doi") => 3,
            [.., b'-'] => 1,
            [.., 0xE2, 0x80, 0x93] => 3,
            _ => 0,
        };
        Some(before.len() - lead)
    }

    /// `http:`, `doi:` or `pmid:` may end in the colon at the current place.
    fn ends_at_colon(&mut self) -> bool {
        let before = self.text.get(self.suffix..self.at).unwrap_or_default();
        let after = self.text.get(self.at + 1..).unwrap_or_default();
        let word = before.iter().rev().take(5).take_while(|byte| byte.is_ascii_alphabetic()).count();
        let word = before.get(before.len() - word..).unwrap_or_default();
        let is = |end: &[u8]| ends_with(word, end);
        let keep_tails = self.options.keep_tails;
        let len = if is(b"http") && (after.starts_with(b"//") || after.starts_with(br"\/\/")) {
            Some(4)
        } else if is(b"https") && (after.starts_with(b"//") || after.starts_with(br"\/\/")) {
            Some(5)
        } else if is(b"doi")
            && (after.starts_with(b"10.") || after.first().is_none_or(u8::is_ascii_whitespace))
        {
            Some(3)
        } else if is(b"pmcid") && !keep_tails {
            Some(5)
        } else if is(b"pmid") && !keep_tails {
            Some(4)
        } else {
            None
        };
        let cut = len.map(|len| before.len() - len);
        if matches!(len, Some(4 | 5)) && !is(b"http") && !is(b"https") {
            self.flags.set(Flag::TailCut, true);
        }
        self.end_at(cut)
    }

    /// Moves the current place back to `cut`, an offset in the suffix.
    fn end_at(&mut self, cut: Option<usize>) -> bool {
        let Some(cut) = cut else { return false };
        self.at = self.suffix + cut;
        true
    }

    /// Notes that the next `len` bytes stand for `character`, or for nothing.
    fn replace(&mut self, len: usize, character: Option<char>) {
        let decoded = self.decoded.get_or_insert_with(|| Decoded::new(self.start));
        decoded.replace(self.text, self.at..self.at + len, character);
        self.at += len;
        self.flags.set(Flag::Decoded, character.is_some());
    }

    /// At a line's end, goes to the next line if the name seems to go on there.
    fn joins_next_line(&mut self) -> bool {
        if !matches!(self.byte(self.at), b'\n' | b'\r' | b' ' | b'\t') {
            return false;
        }
        let Some(next) = next_line(self.text, self.at) else { return false };
        let last = self.byte(self.at - 1);
        if !goes_on(last, self.text.get(next..).unwrap_or_default()) {
            return false;
        }
        if !self.options.join_lines {
            self.flags.set(Flag::MaybeTruncated, true);
            return false;
        }
        self.flags.set(Flag::Joined, true);
        self.replace(next - self.at, None);
        true
    }

    /// Trims the candidate and decodes it.
    pub(super) fn finish(&mut self) -> Option<Found<'t>> {
        self.flags.set(Flag::InUrl, self.context.url);
        let (start, at) = (self.start, self.at);
        let Some(mut decoded) = self.decoded.take() else {
            let raw = str::from_utf8(self.text.get(start..at)?).ok()?;
            let name = self.trimmed(raw, self.suffix - start)?;
            let end = start + name.len();
            let name = match self.without_percent_encoding(name) {
                Some(name) => Cow::Owned(name),
                None if self.encoded_slash => return None,
                None => Cow::Borrowed(checked(name)),
            };
            return Some(Found { name, span: start..end, flags: self.flags });
        };
        decoded.catch_up(self.text, at);
        let suffix = if self.encoded_slash { self.suffix - start } else { decoded.text.find('/')? + 1 };
        let len = self.trimmed(&decoded.text, suffix)?.len();
        let end = decoded.place_of(start, len);
        let mut text = decoded.text;
        text.truncate(len);
        let name = match self.without_percent_encoding(&text) {
            Some(name) => name,
            None if self.encoded_slash => return None,
            None => {
                checked(&text);
                Doi::checked(text)
            }
        };
        Some(Found { name: Cow::Owned(name), span: start..end, flags: self.flags })
    }

    /// Cuts off what is not part of the name; nothing if nothing is left of the suffix, which begins at `suffix`.
    fn trimmed<'n>(&mut self, raw: &'n str, suffix: usize) -> Option<&'n str> {
        let emphasis = self.context.opener;
        let mut name = trim(raw, emphasis);
        if self.encoded_slash && self.context.encoded {
            name = trim(before_encoded_end(name), emphasis);
        }
        // The shortest tail is `/pdf`, after at least one character.
        if !self.options.keep_tails && name.len() > suffix + 4 {
            let kept = cut_tails(name, suffix, self.context.url, emphasis);
            self.flags.set(Flag::TailCut, kept.len() < name.len());
            name = kept;
        }
        let has_substance = |byte: u8| byte.is_ascii_alphanumeric() || byte >= 0x80;
        name.get(suffix..)?.bytes().any(has_substance).then_some(name)
    }

    /// The name without percent-encoding, if it has any. In plain text it is decoded only when all of it can be;
    /// after a label or in an address, a `%` that begins no triplet is kept.
    fn without_percent_encoding(&mut self, name: &str) -> Option<Doi> {
        if !self.percent {
            return None;
        }
        let certain = self.context.url || self.encoded_slash || self.context.lead < self.start;
        let malformed = if certain { Malformed::Keep } else { Malformed::Refuse };
        let text = decode(name, malformed).ok()?.text.into_owned();
        if text == name || Name::lenient(&text, Rules::Current).is_err() {
            return None;
        }
        self.flags.set(Flag::Decoded, true);
        Some(Doi::checked(text))
    }
}

/// Looks at a candidate as a name. The prefix was read digit by digit, and the walk stopped at every character that
/// a name may not have, so it is one.
fn checked(name: &str) -> &Name {
    debug_assert!(Name::lenient(name, Rules::Current).is_ok(), "{name:?}");
    cast::name(name)
}

/// True for what every name may contain and nothing follows from.
fn is_plain(byte: u8) -> bool {
    static PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 128u8 {
            #[allow(clippy::indexing_slicing, reason = "checked when compiled")]
            if byte.is_ascii_alphanumeric()
                || matches!(byte, b'-' | b'_' | b'/' | b'+' | b'=' | b'@' | b'~' | b'!' | b'^')
            {
                plain[byte as usize] = true;
            }
            byte += 1;
        }
        plain
    };
    PLAIN.get(usize::from(byte)).is_some_and(|plain| *plain)
}

/// Characters outside ASCII at which a name ends: white space, dashes and quotes of the sentence, CJK text, what is
/// not graphic. `next` is the byte that follows.
fn ends_name(character: char, next: u8) -> bool {
    match character {
        '—' | '―' | '…' | '“' | '”' | '„' | '«' | '»' | '‹' | '›' | '•' | '\u{FFFD}' => {
            true
        }
        '‘' | '’' => !next.is_ascii_alphanumeric(),
        // Latin letters and combining marks, the most frequent here, are all graphic.
        '\u{C0}'..='\u{36F}' => false,
        _ => {
            is_cjk(character)
                || character.is_whitespace()
                || match fault(character) {
                    None => false,
                    Some(ErrorKind::UnassignedCharacter) => is_noncharacter(character),
                    Some(_) => true,
                }
        }
    }
}

/// Scripts that are written without spaces, with their punctuation.
fn is_cjk(character: char) -> bool {
    matches!(u32::from(character),
        0x1100..=0x11FF | 0x2E80..=0xA4CF | 0xA960..=0xA97F | 0xAC00..=0xD7FF | 0xF900..=0xFAFF
        | 0xFE30..=0xFE4F | 0xFF00..=0xFFEF | 0x1AFF0..=0x1B16F | 0x20000..=0x3FFFF)
}

/// `src=recsys`: what follows a question mark is a query, not part of the name.
fn is_query(after: &[u8]) -> bool {
    let key = after
        .iter()
        .take(32)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte))
        .count();
    key > 0 && after.get(key) == Some(&b'=')
}

/// In an address that is itself encoded, the characters that end a name are encoded too.
fn before_encoded_end(name: &str) -> &str {
    let end = name.as_bytes().windows(3).position(|bytes| matches!(triplet(bytes), Some(b'?' | b'#' | b'&')));
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}
