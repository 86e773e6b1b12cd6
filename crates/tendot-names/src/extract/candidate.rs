//! The walk over one candidate, from its slash to the first character that is not part of it.

use core::ops::Range;

use super::context::{CandidateContext, is_bracket_open, is_quote_open};
use super::escaped_char::{EscapedChar, decode_escaped_char, decode_utf8_char};
use super::line_join::{continues_on_next_line, next_line_start};
use super::prefix::{PrefixMatch, can_start_at, match_prefix, slash_len};
use super::trim::bracket_index;
use super::unescaped::UnescapedText;
use super::{ExtractionFlag, ExtractionFlags, Extractor};
use crate::ErrorKind;
use crate::ascii_case::ends_with_ignore_case;
use crate::percent::decode_triplet;
use crate::syntax::character::{character_error, is_noncharacter, is_removable_invisible};

/// Candidate in text, scanned from its slash to its end.
pub(super) struct TextCandidate<'s, 't> {
    pub(super) options: &'s Extractor,
    /// Nothing before this is looked at.
    floor: usize,
    pub(super) text: &'t [u8],
    pub(super) start: usize,
    /// Where the suffix begins.
    pub(super) suffix: usize,
    pub(super) at: usize,
    pub(super) context: CandidateContext,
    /// Opened minus closed brackets of each kind.
    depth: [isize; 4],
    /// Whether brackets of each kind, and double quotes, were open before; asked at most once, since it means to
    /// look back.
    open_before: [Option<bool>; 4],
    quoted: Option<bool>,
    /// The candidate with its escapes decoded, once it differs from the text.
    pub(super) decoded: Option<UnescapedText>,
    pub(super) percent: bool,
    pub(super) encoded_slash: bool,
    /// The next name follows at once.
    pub(super) before_next_name: bool,
    pub(super) flags: ExtractionFlags,
}

impl<'s, 't> TextCandidate<'s, 't> {
    /// Begins after the prefix, with a slash that is `slash` bytes long.
    #[inline]
    pub(super) fn new(
        options: &'s Extractor,
        floor: usize,
        text: &'t [u8],
        prefix: Range<usize>,
        slash: usize,
        context: CandidateContext,
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
            before_next_name: false,
            flags: ExtractionFlags::default(),
        };
        if first != Some(b'/') && !encoded_slash {
            walk.replace_escape(slash, Some('/'));
        }
        walk.at = walk.suffix;
        walk
    }

    /// Drops what is invisible before `end`, where the slash stands.
    pub(super) fn remove_invisible_in_prefix(&mut self, end: usize) {
        let slash = self.decoded.take();
        self.at = self.start;
        while self.at < end {
            match decode_utf8_char(self.text.get(self.at..).unwrap_or_default()) {
                Some(invisible) => self.replace_escape(invisible.len, None),
                None => self.at += 1,
            }
        }
        if slash.is_some() {
            self.replace_escape(self.suffix - end, Some('/'));
        }
        self.at = self.suffix;
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// Scans to the first character that is not part of the candidate; returns its offset.
    pub(super) fn find_end(&mut self) -> usize {
        let limit = self.start.saturating_add(self.options.max_len);
        while self.at <= limit {
            self.skip_plain(limit);
            if !self.accept_char() && !self.try_join_next_line() {
                break;
            }
        }
        self.at
    }

    /// Skips characters without special meaning.
    fn skip_plain(&mut self, limit: usize) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let rest = rest.get(..=limit - self.at).unwrap_or(rest);
        let [mut round, mut square, ..] = self.depth;
        let mut before = self.byte(self.at - 1);
        let mut passed = 0;
        for (index, &byte) in rest.iter().enumerate() {
            let plain = is_plain_byte(byte)
                || match byte {
                    b'.' => !matches!(before | 0x20, b'0' | b'w' | b'i'),
                    b':' => !matches!(before | 0x20, b'p' | b's' | b'i' | b'd' | b'n' | b'l' | b'o'),
                    b',' | b';' => self.options.field_separator != Some(byte),
                    b'(' => {
                        round += 1;
                        true
                    }
                    b')' if round > 0 => {
                        round -= 1;
                        true
                    }
                    b'[' if rest.get(index + 1) != Some(&b'/') => {
                        square += 1;
                        true
                    }
                    b']' if square > 0 => {
                        square -= 1;
                        true
                    }
                    _ => false,
                };
            if !plain {
                break;
            }
            before = byte;
            passed = index + 1;
        }
        let [.., curly, angle] = self.depth;
        self.depth = [round, square, curly, angle];
        self.at += passed;
    }

    /// Accepts one other character; false at the end of the candidate.
    fn accept_char(&mut self) -> bool {
        let Some(&byte) = self.text.get(self.at) else { return false };
        if byte.is_ascii() && !matches!(byte, b'&' | b'\\' | b'{' | b'$') {
            let goes_on = self.is_part_of_doi(char::from(byte), 1);
            self.at += usize::from(goes_on);
            return goes_on;
        }
        let Some(token) = self.text.get(self.at..).and_then(decode_escaped_char) else { return false };
        let EscapedChar { character, len } = token;
        if character.is_ascii() {
            if !self.is_part_of_doi(character, len) {
                return false;
            }
        } else if is_removable_invisible(character) {
            self.replace_escape(len, None);
            return true;
        } else if ends_doi(character, self.byte(self.at + len)) {
            return false;
        }
        if len == character.len_utf8() {
            self.at += len;
        } else {
            self.replace_escape(len, Some(character));
        }
        true
    }

    /// Whether an ASCII character continues the candidate; may move the end back before a following label or URL.
    ///
    /// May move the current place back to the beginning of something that is glued to the name.
    fn is_part_of_doi(&mut self, character: char, len: usize) -> bool {
        let next = self.byte(self.at + len);
        let opener = self.context.opener;
        match character {
            '\0'..=' ' | '\x7F' | '|' => false,
            '.' => !self.ends_before_dot(),
            ':' => !self.ends_before_colon(),
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
                !closes && !self.is_inside_quotes()
            }
            '\'' | '`' => opener != character as u8 && next.is_ascii_alphanumeric(),
            '*' => opener != b'*',
            '<' => self.accepts_sici_bracket(len),
            '>' => {
                self.accepts_closing_bracket('<', '>', next)
                    && self.depth.get(3).is_some_and(|depth| *depth >= 0)
            }
            // `[/doi]`
            '[' if next == b'/' => false,
            '(' | '[' | '{' => {
                self.adjust_depth(character, 1);
                true
            }
            ')' => self.accepts_closing_bracket('(', ')', next),
            ']' => self.accepts_closing_bracket('[', ']', next),
            '}' => self.accepts_closing_bracket('{', '}', next),
            '?' => {
                !self.context.url
                    && !starts_query_parameter(self.text.get(self.at + len..).unwrap_or_default())
            }
            '#' => !self.context.url && !self.context.fragment,
            '&' if self.context.query => false,
            '&' => {
                !self.options.labelled
                    || !starts_query_parameter(self.text.get(self.at + len..).unwrap_or_default())
            }
            _ if Some(character as u8) == self.options.field_separator && len == 1 => {
                opener == b'"' || self.is_inside_quotes()
            }
            _ => true,
        }
    }

    fn adjust_depth(&mut self, bracket: char, by: isize) {
        if let Some(depth) = self.depth.get_mut(bracket_index(bracket as u8)) {
            *depth += by;
        }
    }

    /// True when a closing bracket is part of the candidate: it closes one inside, or none that was open before.
    fn accepts_closing_bracket(&mut self, open: char, close: char, next: u8) -> bool {
        let kind = bracket_index(close as u8);
        let inside = self.depth.get(kind).is_some_and(|depth| *depth > 0);
        self.adjust_depth(close, -1);
        if inside {
            return true;
        }
        let (open, close) = (open as u8, close as u8);
        if self.context.opener == open || next.is_ascii_whitespace() {
            return false;
        }
        let (text, floor, lead) = (self.text, self.floor, self.context.lead);
        !self.open_before.get_mut(kind).is_some_and(|known| {
            *known.get_or_insert_with(|| is_bracket_open(text, floor, lead, open, close))
        })
    }

    fn is_inside_quotes(&mut self) -> bool {
        let (text, floor, lead) = (self.text, self.floor, self.context.lead);
        *self.quoted.get_or_insert_with(|| is_quote_open(text, floor, lead))
    }

    /// `<` is part of a name in SICI codes: `<693::AID-ASI4>3.0.CO;2-0`. Otherwise it begins a tag.
    fn accepts_sici_bracket(&mut self, len: usize) -> bool {
        let after = self.text.get(self.at + len..).unwrap_or_default();
        let join_lines = self.options.join_lines;
        let is_inner = |byte: &u8| {
            byte.is_ascii_alphanumeric()
                || b":.-_+,;/()".contains(byte)
                || join_lines && matches!(byte, b'\n' | b'\r')
        };
        let inner = after.iter().take(64).take_while(|byte| is_inner(byte)).count();
        let has_colon = after.get(..inner).unwrap_or_default().contains(&b':');
        let close = after.get(inner..).and_then(decode_escaped_char).filter(|token| token.character == '>');
        let Some(close) = close else { return false };
        let version = after.get(inner + close.len..).unwrap_or_default();
        // An issue's code has nothing between the brackets.
        let is_sici = (has_colon || inner == 0)
            && matches!(version, [a, b'.', b, ..] if a.is_ascii_digit() && b.is_ascii_digit());
        if is_sici {
            self.adjust_depth('<', 1);
        }
        is_sici
    }

    /// Whether another DOI or URL starts just before the dot.
    fn ends_before_dot(&mut self) -> bool {
        let before = self.text.get(self.suffix..self.at).unwrap_or_default();
        let after = self.text.get(self.at + 1..).unwrap_or_default();
        let cut = match before {
            [rest @ .., b'1', b'0'] => {
                let cut = self.next_doi_start(rest);
                self.before_next_name = cut.is_some();
                cut
            }
            [rest @ .., a, b, c] if [*a, *b, *c].eq_ignore_ascii_case(b"www") => {
                rest.last().is_some_and(|byte| *byte != b'/').then_some(rest.len())
            }
            [rest @ .., d, o, i]
                if [*d, *o, *i].eq_ignore_ascii_case(b"doi") && after.starts_with(b"org/10.") =>
            {
                let host = rest.strip_suffix(b"dx.").or(rest.strip_suffix(b"www.")).unwrap_or(rest);
                Some(host.len())
            }
            _ => None,
        };
        self.move_end_to(cut)
    }

    /// Where the candidate ends if the `10.` after `before` begins another name.
    fn next_doi_start(&self, before: &[u8]) -> Option<usize> {
        let begin = self.suffix + before.len();
        let after_slash = matches!(before.last(), None | Some(b'/' | b'_'))
            || before.last_chunk::<3>().and_then(|bytes| decode_triplet(bytes)) == Some(b'/');
        if after_slash || !can_start_at(self.text, begin) {
            return None;
        }
        let PrefixMatch { end, digits, .. } = match_prefix(self.text, begin);
        if digits < 4 || slash_len(self.text.get(end..)?).is_none() {
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

    /// Whether `http:`, `doi:` or `pmid:` ends in the colon.
    fn ends_before_colon(&mut self) -> bool {
        let before = self.text.get(self.suffix..self.at).unwrap_or_default();
        let after = self.text.get(self.at + 1..).unwrap_or_default();
        let letters = before.iter().rev().take(5).take_while(|byte| byte.is_ascii_alphabetic()).count();
        let word = before.get(before.len() - letters..).unwrap_or_default();
        let goes_on_with =
            |beginnings: &[&[u8]]| beginnings.iter().any(|beginning| after.starts_with(beginning));
        let ends_word = after.first().is_none_or(u8::is_ascii_whitespace);
        // Each word that could begin something new, with what must follow.
        let words: [(&[u8], bool); 9] = [
            (b"https", goes_on_with(&[b"//", br"\/\/"])),
            (b"http", goes_on_with(&[b"//", br"\/\/"])),
            (b"ftp", goes_on_with(&[b"//"])),
            (b"doi", goes_on_with(&[b"10.", b"http"]) || ends_word),
            (b"urn", goes_on_with(&[b"doi:", b"DOI:", b"eidr:"])),
            (b"hdl", goes_on_with(&[b"10."])),
            (b"info", goes_on_with(&[b"doi/10."])),
            (b"pmcid", !self.options.keep_tails),
            (b"pmid", !self.options.keep_tails),
        ];
        let found =
            words.into_iter().find(|(begins, follows)| *follows && ends_with_ignore_case(word, begins));
        let Some((begins, _)) = found else { return false };
        self.flags.insert_if(ExtractionFlag::TailCut, begins.starts_with(b"pm"));
        self.move_end_to(Some(before.len() - begins.len()))
    }

    /// Moves the current place back to `cut`, an offset in the suffix.
    fn move_end_to(&mut self, cut: Option<usize>) -> bool {
        let Some(cut) = cut else { return false };
        self.at = self.suffix + cut;
        true
    }

    /// Notes that the next `len` bytes stand for `character`, or for nothing.
    fn replace_escape(&mut self, len: usize, character: Option<char>) {
        let decoded = self.decoded.get_or_insert_with(|| UnescapedText::new(self.start));
        decoded.replace(self.text, self.at..self.at + len, character);
        self.at += len;
        self.flags.insert_if(ExtractionFlag::Decoded, character.is_some());
    }

    /// At a line's end, goes to the next line if the name seems to go on there.
    fn try_join_next_line(&mut self) -> bool {
        if !matches!(self.byte(self.at), b'\n' | b'\r' | b' ' | b'\t') {
            return false;
        }
        let Some(next) = next_line_start(self.text, self.at) else { return false };
        let last = self.byte(self.at - 1);
        if !continues_on_next_line(last, self.text.get(next..).unwrap_or_default()) {
            return false;
        }
        if !self.options.join_lines {
            self.flags.insert_if(ExtractionFlag::MaybeTruncated, true);
            return false;
        }
        self.flags.insert_if(ExtractionFlag::Joined, true);
        self.replace_escape(next - self.at, None);
        true
    }
}

/// True for what every name may contain and nothing follows from.
fn is_plain_byte(byte: u8) -> bool {
    static PLAIN_BYTES: [bool; 256] = {
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
    PLAIN_BYTES.get(usize::from(byte)).is_some_and(|plain| *plain)
}

/// Characters outside ASCII at which a name ends: white space, dashes and quotes of the sentence, CJK text, what is
/// not graphic. `next` is the byte that follows.
fn ends_doi(character: char, next: u8) -> bool {
    match character {
        '—' | '―' | '⸺' | '⸻' | '…' | '“' | '”' | '„' | '«' | '»' | '‹' | '›' | '•' | '\u{FFFD}' => {
            true
        }
        '‘' | '’' => !next.is_ascii_alphanumeric(),
        // Latin letters and combining marks, the most frequent here, are all graphic.
        '\u{C0}'..='\u{36F}' => false,
        _ => {
            is_cjk(character)
                || character.is_whitespace()
                || match character_error(character) {
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
fn starts_query_parameter(after: &[u8]) -> bool {
    let key = after
        .iter()
        .take(32)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte))
        .count();
    key > 0 && after.get(key) == Some(&b'=')
}
