//! The walk over the text.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::context::{Context, REACH, is_labelled, is_open_before, is_quoted};
use super::tail::{bracket_kind, cut_tails, trim};
use super::token::{Token, token};
use super::{Extractor, Flag, Flags, Found, Next};
use crate::character::{fault, is_noncharacter, is_stray_invisible};
use crate::escape::{Malformed, decode, triplet};
use crate::{Doi, ErrorKind, Name, Rules};

/// A search for names in text that comes in pieces.
///
/// ```
/// use tendot_names::{Extractor, Next};
///
/// let mut scan = Extractor::new().scan();
/// let mut text = b"see 10.1000/1".to_vec();
/// // The name may go on, so more is asked for.
/// let Next::NeedMore(keep_from) = scan.next(&text, false) else { panic!() };
/// text.drain(..keep_from);
/// scan.forget(keep_from);
/// text.extend_from_slice(b"82, page 3");
/// let Next::Found(found) = scan.next(&text, true) else { panic!() };
/// assert_eq!(found.name.as_str(), "10.1000/182");
/// ```
#[derive(Clone, Debug)]
pub struct Scan {
    options: Extractor,
    /// Where the search goes on.
    at: usize,
    /// The end of the last candidate: nothing before it is looked at again, so all work is linear.
    floor: usize,
    /// The text goes on with something too long to be a name, up to the next white space.
    in_overlong: bool,
}

/// How many bytes beyond a candidate's end may decide about it.
const AHEAD: usize = 80;

impl Scan {
    pub(super) const fn new(options: Extractor) -> Self {
        Self { options, at: 0, floor: 0, in_overlong: false }
    }

    /// The next name in `text`, which is the last piece when `last` is set. [`Next::NeedMore`] tells from which
    /// offset on the text is still needed: drop what is before, tell it with [`forget`](Self::forget), append more,
    /// and ask again.
    pub fn next<'t>(&mut self, text: &'t [u8], last: bool) -> Next<'t> {
        loop {
            if self.in_overlong {
                let rest = text.get(self.at..).unwrap_or_default();
                let end = rest.iter().position(|byte| *byte <= b' ');
                self.at += end.unwrap_or(rest.len());
                self.in_overlong = end.is_none();
            }
            let Some(start) = find_ten(text, self.at) else {
                if last {
                    self.at = text.len();
                    return Next::End;
                }
                // `10` may be the beginning of `10.`.
                self.at = self.at.max(text.len().saturating_sub(2));
                return Next::NeedMore(self.at.saturating_sub(REACH));
            };
            match self.candidate(text, start, last) {
                Outcome::Name(found, resume) => {
                    self.at = resume;
                    self.floor = resume;
                    return Next::Found(found);
                }
                Outcome::Not(resume) => self.at = resume,
                Outcome::TooLong(resume) => {
                    self.at = resume;
                    self.in_overlong = true;
                }
                Outcome::Undecided => {
                    self.at = start;
                    return Next::NeedMore(start.saturating_sub(REACH));
                }
            }
        }
    }

    /// Says that the first `bytes` bytes of the text were dropped.
    pub fn forget(&mut self, bytes: usize) {
        self.at = self.at.saturating_sub(bytes);
        self.floor = self.floor.saturating_sub(bytes);
    }

    /// Judges the `10.` at `start`.
    fn candidate<'t>(&self, text: &'t [u8], start: usize, last: bool) -> Outcome<'t> {
        if !may_begin(text, start) {
            return Outcome::Not(start + 3);
        }
        let Prefix { end, digits, is_ip_address } = prefix(text, start);
        if !last && is_open_ended(text, end) {
            return Outcome::Undecided;
        }
        if end == start + 3 {
            return Outcome::Not(end);
        }
        let eidr = is_eidr(text, start, end);
        let slash = if eidr { Some(1) } else { slash(text.get(end..).unwrap_or_default()) };
        let Some(slash) = slash else { return Outcome::Not(end) };
        let believed = digits >= 4 && !is_ip_address;
        if !believed && !self.options.labelled && !is_labelled(text, start) {
            return Outcome::Not(end);
        }
        let context = Context::before(text, self.floor, start);
        let mut walk = Walk::new(self, text, start, end, slash, context);
        walk.run(end + slash);
        let ends_line = text.get(walk.at).is_some_and(|byte| matches!(byte, b'\n' | b'\r'));
        let clear =
            if ends_line { !self.options.join_lines && text.get(walk.at - 1) != Some(&b'.') } else { false };
        if !last && !clear && walk.at + AHEAD > text.len() {
            return Outcome::Undecided;
        }
        let resume = walk.at;
        let too_long = resume - start > self.options.max_len;
        match walk.finish() {
            // What is longer than the limit is a name only if its end was cut off, as a row of dots is.
            Some(found) if found.span.end < resume || !too_long => Outcome::Name(found, resume),
            _ if too_long => Outcome::TooLong(resume),
            _ => Outcome::Not(resume),
        }
    }
}

enum Outcome<'t> {
    /// A name, and where to go on.
    Name(Found<'t>, usize),
    /// None here; where to go on.
    Not(usize),
    /// Too long to be a name; up to where it was looked at.
    TooLong(usize),
    /// The text ends too early.
    Undecided,
}

/// The next `10.` at or after `from`.
fn find_ten(text: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    #[cfg(feature = "memchr")]
    let found = {
        // Where names stand close together, the next one is found sooner without setting up a vectorized search.
        let near = rest.get(..16).unwrap_or(rest);
        match near.windows(3).position(|bytes| bytes == b"10.") {
            Some(at) => Some(at),
            None => memchr::memmem::find(rest, b"10."),
        }
    };
    #[cfg(not(feature = "memchr"))]
    let found = rest.windows(3).position(|bytes| bytes == b"10.");
    Some(from + found?)
}

/// True when a name may begin at `start`: not inside a number or word, but right after a label, a percent-encoded
/// character or an escaped line end.
fn may_begin(text: &[u8], start: usize) -> bool {
    let before = text.get(start.saturating_sub(5)..start).unwrap_or_default();
    match before {
        [] => true,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [rest @ .., d, o, i] if [*d, *o, *i].eq_ignore_ascii_case(b"doi") => {
            !rest.last().is_some_and(u8::is_ascii_alphabetic)
        }
        [.., digit, b'.'] if digit.is_ascii_digit() => false,
        [.., byte] => !byte.is_ascii_alphanumeric(),
    }
}

struct Prefix {
    end: usize,
    /// Digits of the registrant code, all groups together.
    digits: usize,
    is_ip_address: bool,
}

/// The directory indicator and registrant code at `start`.
fn prefix(text: &[u8], start: usize) -> Prefix {
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
fn is_open_ended(text: &[u8], end: usize) -> bool {
    let rest = text.get(end..).unwrap_or_default();
    rest.is_empty() || rest.len() < 8 && matches!(rest.first(), Some(b'.' | b'%' | b'\\' | b'&'))
}

/// The length of the slash at the beginning of `text`, however it is written.
fn slash(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'/' => Some(1),
        b'%' => (triplet(text) == Some(b'/')).then_some(3),
        b'\\' | b'&' => token(text).filter(|token| token.character == '/').map(|token| token.len),
        _ => None,
    }
}

/// True for a URN of the Entertainment ID Registry, which has a colon for the slash (RFC 7972).
fn is_eidr(text: &[u8], start: usize, end: usize) -> bool {
    text.get(end) == Some(&b':')
        && super::context::ends_with(text.get(..start).unwrap_or_default(), b"urn:eidr:")
}

/// The walk over one candidate.
struct Walk<'s, 't> {
    scan: &'s Scan,
    text: &'t [u8],
    start: usize,
    /// Where the suffix begins.
    suffix: usize,
    at: usize,
    context: Context,
    /// Opened minus closed brackets of each kind.
    depth: [isize; 4],
    /// The candidate with its escapes decoded, once it differs from the text.
    decoded: Option<Decoded>,
    percent: bool,
    encoded_slash: bool,
    flags: Flags,
}

/// Text that differs from what stands in the input, and how to find the way back.
struct Decoded {
    text: String,
    /// Up to which offset of the input `text` goes.
    upto: usize,
    /// Pairs of an offset in `text` and the offset in the input at which the same character stands.
    places: Vec<(usize, usize)>,
}

impl<'s, 't> Walk<'s, 't> {
    fn new(scan: &'s Scan, text: &'t [u8], start: usize, end: usize, slash: usize, context: Context) -> Self {
        let mut walk = Self {
            scan,
            text,
            start,
            suffix: end + slash,
            at: end,
            context,
            depth: [0; 4],
            decoded: None,
            percent: slash == 3 && text.get(end) == Some(&b'%'),
            encoded_slash: false,
            flags: Flags::default(),
        };
        walk.encoded_slash = walk.percent;
        if text.get(end) != Some(&b'/') && !walk.percent {
            walk.replace(slash, Some('/'));
        }
        walk.at = end + slash;
        walk
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// Goes from `from` to the first character that is not part of the candidate.
    fn run(&mut self, from: usize) {
        self.at = from;
        let limit = self.start + self.scan.options.max_len;
        while self.at <= limit {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = rest.iter().take(limit + 1 - self.at).take_while(|&&byte| is_plain(byte)).count();
            self.at += plain;
            if !self.step() && !self.joins_next_line() {
                return;
            }
        }
    }

    /// Takes one character that is not plain; false where the candidate ends.
    fn step(&mut self) -> bool {
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
                !closes && !is_quoted(self.text, self.scan.floor, self.context.lead)
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
            _ if Some(character as u8) == self.scan.options.field_separator && len == 1 => {
                opener == b'"' || is_quoted(self.text, self.scan.floor, self.context.lead)
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
        let inside = self.depth.get(bracket_kind(close)).is_some_and(|depth| *depth > 0);
        self.count(close, -1);
        let (open, close) = (open as u8, close as u8);
        inside
            || self.context.opener != open
                && !next.is_ascii_whitespace()
                && !is_open_before(self.text, self.scan.floor, self.context.lead, open, close)
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
        let is = |end: &[u8]| super::context::ends_with(word, end);
        let keep_tails = self.scan.options.keep_tails;
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
        let decoded = self.decoded.get_or_insert_with(|| Decoded {
            text: String::new(),
            upto: self.start,
            places: Vec::new(),
        });
        decoded.catch_up(self.text, self.at);
        decoded.text.extend(character);
        self.at += len;
        decoded.upto = self.at;
        decoded.places.push((decoded.text.len(), self.at));
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
        if !self.scan.options.join_lines {
            self.flags.set(Flag::MaybeTruncated, true);
            return false;
        }
        self.flags.set(Flag::Joined, true);
        let mut flags = self.flags;
        self.replace(next - self.at, None);
        core::mem::swap(&mut self.flags, &mut flags);
        true
    }

    /// Trims the candidate and decodes it.
    fn finish(mut self) -> Option<Found<'t>> {
        if let Some(decoded) = &mut self.decoded {
            decoded.catch_up(self.text, self.at);
        }
        let raw = match &self.decoded {
            None => str::from_utf8(self.text.get(self.start..self.at)?).ok()?,
            Some(decoded) => decoded.text.as_str(),
        };
        let emphasis = self.context.opener;
        let mut name = trim(raw, emphasis);
        if self.context.encoded {
            name = trim(before_encoded_end(name, self.encoded_slash), emphasis);
        }
        if !self.scan.options.keep_tails {
            let kept = cut_tails(name, self.context.url, emphasis);
            self.flags.set(Flag::TailCut, kept.len() < name.len());
            name = kept;
        }
        let suffix = name.get(self.prefix_len()..)?;
        if !suffix.bytes().any(|byte| byte.is_ascii_alphanumeric() || byte >= 0x80) {
            return None;
        }
        let end = match &self.decoded {
            None => self.start + name.len(),
            Some(decoded) => decoded.place_of(self.start, name.len()),
        };
        let unescaped = if self.percent { self.without_percent_encoding(name) } else { None };
        self.flags.set(Flag::Decoded, unescaped.is_some());
        self.flags.set(Flag::InUrl, self.context.url);
        let (start, flags, len) = (self.start, self.flags, name.len());
        let name = match (unescaped, self.decoded) {
            (Some(name), _) => Cow::Owned(Doi::checked(name)),
            (None, Some(decoded)) => {
                let mut text = decoded.text;
                text.truncate(len);
                Name::lenient(&text, Rules::Current).ok()?;
                Cow::Owned(Doi::checked(text))
            }
            (None, None) => {
                let text = str::from_utf8(self.text.get(start..start + len)?).ok()?;
                Cow::Borrowed(Name::lenient(text, Rules::Current).ok()?)
            }
        };
        Some(Found { name, span: Range { start, end }, flags })
    }

    /// The length of prefix and slash in the candidate, escapes decoded.
    fn prefix_len(&self) -> usize {
        if self.encoded_slash || self.decoded.is_none() {
            self.suffix - self.start
        } else {
            self.decoded.as_ref().and_then(|decoded| decoded.text.find('/')).map_or(0, |at| at + 1)
        }
    }

    /// The name without percent-encoding. In plain text it is decoded only when all of it can be; after a label or
    /// in an address, a `%` that begins no triplet is kept.
    fn without_percent_encoding(&self, name: &str) -> Option<String> {
        let certain = self.context.url || self.encoded_slash || self.context.lead < self.start;
        let malformed = if certain { Malformed::Keep } else { Malformed::Refuse };
        match decode(name, malformed).ok()?.text {
            Cow::Owned(text) if text != name && Name::lenient(&text, Rules::Current).is_ok() => Some(text),
            _ => None,
        }
    }
}

impl Decoded {
    /// Takes over the text of the input up to `at`, as it is.
    fn catch_up(&mut self, text: &[u8], at: usize) {
        let plain = text.get(self.upto..at).unwrap_or_default();
        // Only whole characters were passed.
        self.text.push_str(str::from_utf8(plain).unwrap_or_default());
        self.upto = at;
    }

    /// The offset in the input at which the first `len` bytes of the decoded text end.
    fn place_of(&self, start: usize, len: usize) -> usize {
        let passed = self.places.iter().take_while(|(decoded, _)| *decoded <= len).last();
        let (decoded, place) = passed.copied().unwrap_or((0, start));
        place + (len - decoded)
    }
}

/// True for what every name may contain and nothing follows from.
fn is_plain(byte: u8) -> bool {
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0u8;
        while byte < 128 {
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

/// Where the first word of the next line begins, if nothing but white space stands between and no blank line.
fn next_line(text: &[u8], at: usize) -> Option<usize> {
    let mut breaks = 0;
    for (offset, byte) in text.get(at..)?.iter().take(AHEAD / 2).enumerate() {
        match byte {
            b'\n' => breaks += 1,
            b'\r' | b' ' | b'\t' => {}
            _ => return (breaks == 1).then_some(at + offset),
        }
    }
    None
}

/// True when a name that breaks off after `last` seems to go on with `next`.
fn goes_on(last: u8, next: &[u8]) -> bool {
    let word = next.iter().take(AHEAD / 2).take_while(|byte| byte.is_ascii_graphic()).count();
    let word = next.get(..word).unwrap_or_default();
    let Some(first) = word.first() else { return false };
    let has_digit = word.iter().any(u8::is_ascii_digit);
    let leads = [&b"http"[..], b"doi", b"pmid", b"www."];
    let begins_anew =
        leads.iter().any(|lead| word.get(..lead.len()).is_some_and(|start| start.eq_ignore_ascii_case(lead)))
            || word.starts_with(b"10.") && word.contains(&b'/');
    if begins_anew {
        return false;
    }
    match last {
        b'-' | b'_' | b'(' => first.is_ascii_alphanumeric(),
        b'/' | b':' => first.is_ascii_digit() || first.is_ascii_alphabetic() && has_digit,
        b'.' => first.is_ascii_digit() || first.is_ascii_lowercase() && has_digit,
        _ => {
            let second = word.get(1).copied().unwrap_or(0);
            matches!(first, b'.' | b'-' | b'/' | b'_')
                && (second.is_ascii_digit() || second.is_ascii_lowercase())
        }
    }
}

/// In an address that is itself encoded, the characters that end a name are encoded too.
fn before_encoded_end(name: &str, encoded_slash: bool) -> &str {
    if !encoded_slash {
        return name;
    }
    let end = name.as_bytes().windows(3).position(|bytes| matches!(triplet(bytes), Some(b'?' | b'#' | b'&')));
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}
