//! Scan of one candidate to its end.

use core::ops::Range;

use super::context::{CandidateContext, is_bracket_open, is_quote_open};
use super::escaped_char::{EscapedChar, decode_escaped_char, decode_utf8_char};
use super::line_join::{continues_on_next_line, next_line_start};
use super::preceding_char::preceding_char;
use super::prefix::{PrefixMatch, can_start_at, match_prefix, slash_len};
use super::trim::bracket_index;
use super::unescaped::UnescapedText;
use super::{ExtractionFlag, ExtractionFlags, Extractor};
use crate::ascii_case::{ends_with_ignore_case, strip_suffix_ignore_case};
use crate::percent::decode_layered;
use crate::syntax::character::{character_error, is_noncharacter, is_removable_invisible};
use crate::{ErrorKind, InputForm};

/// Maximum length in bytes of the part of a SICI code between angle brackets.
const MAX_SICI_PART_LEN: usize = 64;

/// Maximum length in bytes of the key of a query parameter.
const MAX_QUERY_KEY_LEN: usize = 32;

/// Scan of a candidate in text, from its slash to its end.
pub(super) struct CandidateScan<'s, 't> {
    options: &'s Extractor,
    /// Look-backs stop at this offset.
    look_back_limit: usize,
    text: &'t [u8],
    start: usize,
    prefix_end: usize,
    suffix_start: usize,
    position: usize,
    context: CandidateContext,
    /// Opening minus closing brackets of each kind.
    bracket_depth: [isize; 4],
    /// Whether a bracket of each kind was open before the candidate; computed at most once, by looking back.
    is_bracket_open_before: [Option<bool>; 4],
    /// Whether a double quote was open before the candidate; computed at most once, by looking back.
    is_quote_open_before: Option<bool>,
    /// Candidate with its escapes decoded, once it differs from the text.
    unescaped: Option<UnescapedText>,
    has_percent: bool,
    slash_layers: u8,
    is_before_next_doi: bool,
    flags: ExtractionFlags,
}

/// Candidate with its end, of which [`extract`](Self::extract) decides which part is the DOI.
pub(super) struct TextCandidate<'s, 't> {
    pub(super) options: &'s Extractor,
    pub(super) text: &'t [u8],
    pub(super) start: usize,
    pub(super) suffix_start: usize,
    pub(super) end: usize,
    pub(super) context: CandidateContext,
    /// Candidate with its escapes decoded; `None` if it equals the text.
    pub(super) unescaped: Option<UnescapedText>,
    pub(super) has_percent: bool,
    /// How often the slash after the prefix is percent-encoded; 0 if it is not.
    pub(super) slash_layers: u8,
    /// Opening minus closing brackets of each kind.
    pub(super) bracket_depth: [isize; 4],
    /// Whether the next DOI follows immediately.
    pub(super) is_before_next_doi: bool,
    pub(super) flags: ExtractionFlags,
}

impl<'s, 't> CandidateScan<'s, 't> {
    /// Scan of a candidate with the given prefix, positioned after its slash of `slash_len` bytes.
    #[inline]
    pub(super) fn new(
        options: &'s Extractor,
        look_back_limit: usize,
        text: &'t [u8],
        prefix: Range<usize>,
        slash_len: usize,
        context: CandidateContext,
    ) -> Self {
        let first = text.get(prefix.end).copied();
        let encoded_slash = text.get(prefix.end..).and_then(decode_layered);
        let slash_layers = encoded_slash.map_or(0, |slash| slash.layers);
        let mut scan = Self {
            options,
            look_back_limit,
            text,
            start: prefix.start,
            prefix_end: prefix.end,
            suffix_start: prefix.end + slash_len,
            position: prefix.end,
            context,
            bracket_depth: [0; 4],
            is_bracket_open_before: [None; 4],
            is_quote_open_before: None,
            unescaped: None,
            has_percent: slash_layers > 0,
            slash_layers,
            is_before_next_doi: false,
            flags: ExtractionFlags::default(),
        };
        if first != Some(b'/') && slash_layers == 0 {
            scan.replace_escape(slash_len, Some('/'));
        }
        scan.position = scan.suffix_start;
        scan
    }

    /// Removes invisible characters before `end`, the offset of the slash.
    pub(super) fn remove_invisible_in_prefix(&mut self, end: usize) {
        let slash = self.unescaped.take();
        self.position = self.start;
        while self.position < end {
            match decode_utf8_char(self.text.get(self.position..).unwrap_or_default()) {
                Some(invisible) => self.replace_escape(invisible.len, None),
                None => self.position += 1,
            }
        }
        if slash.is_some() {
            self.replace_escape(self.suffix_start - end, Some('/'));
        }
        self.position = self.suffix_start;
    }

    /// Byte at an offset; 0 after the end of the text.
    fn byte(&self, offset: usize) -> u8 {
        self.text.get(offset).copied().unwrap_or(0)
    }

    /// Scans to the first character that is not part of the candidate.
    #[inline]
    pub(super) fn find_end(mut self) -> TextCandidate<'s, 't> {
        let limit = self.start.saturating_add(self.options.max_len);
        while self.position <= limit {
            self.skip_plain(limit);
            if !self.accept_char() && !self.try_join_next_line() {
                break;
            }
        }
        let Self { options, text, start, suffix_start, position, context, unescaped, .. } = self;
        let Self { has_percent, slash_layers, bracket_depth, is_before_next_doi, flags, .. } = self;
        TextCandidate {
            options,
            text,
            start,
            suffix_start,
            end: position,
            context,
            unescaped,
            has_percent,
            slash_layers,
            bracket_depth,
            is_before_next_doi,
            flags,
        }
    }

    /// Skips characters without special meaning.
    fn skip_plain(&mut self, limit: usize) {
        let rest = self.text.get(self.position..).unwrap_or_default();
        let rest = rest.get(..=limit - self.position).unwrap_or(rest);
        let [mut round, mut square, ..] = self.bracket_depth;
        let mut before = self.byte(self.position - 1);
        let mut skipped = 0;
        for (index, &byte) in rest.iter().enumerate() {
            let is_plain = is_plain_byte(byte)
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
            if !is_plain {
                break;
            }
            before = byte;
            skipped = index + 1;
        }
        let [.., curly, angle] = self.bracket_depth;
        self.bracket_depth = [round, square, curly, angle];
        self.position += skipped;
    }

    /// Accepts one other character; false at the end of the candidate.
    fn accept_char(&mut self) -> bool {
        let Some(&byte) = self.text.get(self.position) else { return false };
        if byte.is_ascii() && !matches!(byte, b'&' | b'\\' | b'{' | b'$') {
            let is_part = self.is_part_of_doi(char::from(byte), 1);
            self.position += usize::from(is_part);
            return is_part;
        }
        let Some(escaped) = self.text.get(self.position..).and_then(decode_escaped_char) else {
            return false;
        };
        let EscapedChar { character, len } = escaped;
        if character.is_ascii() {
            if !self.is_part_of_doi(character, len) {
                return false;
            }
        } else if is_removable_invisible(character) {
            self.replace_escape(len, None);
            return true;
        } else if ends_doi(character, self.byte(self.position + len))
            || self.context.subfield_delimiter == Some(character)
        {
            return false;
        }
        if len == character.len_utf8() {
            self.position += len;
        } else {
            self.replace_escape(len, Some(character));
        }
        true
    }

    /// Whether an ASCII character continues the candidate; may move the end back before a following label or URL.
    fn is_part_of_doi(&mut self, character: char, len: usize) -> bool {
        let next = self.byte(self.position + len);
        let opener = self.context.opener;
        match character {
            '\0'..=' ' | '\x7F' | '|' => false,
            '.' => !self.ends_before_dot(),
            ':' => !self.ends_before_colon(),
            '%' => {
                self.has_percent = true;
                true
            }
            '"' => {
                let is_closing = opener == b'"'
                    || matches!(
                        next,
                        0..=b' ' | b',' | b'}' | b']' | b':' | b';' | b')' | b'>' | b'/' | b'=' | b'<'
                    );
                !is_closing && !self.is_inside_quotes()
            }
            '\'' | '`' => opener != character as u8 && next.is_ascii_alphanumeric(),
            '*' => opener != b'*',
            '<' => self.accepts_sici_bracket(len),
            '>' => {
                self.accepts_closing_bracket('<', '>', next)
                    && self.bracket_depth.get(3).is_some_and(|depth| *depth >= 0)
            }
            // BBCode: `[/doi]`
            '[' if next == b'/' => false,
            '(' | '[' | '{' => {
                self.adjust_depth(character, 1);
                true
            }
            ')' => self.accepts_closing_bracket('(', ')', next),
            ']' => self.accepts_closing_bracket('[', ']', next),
            '}' => self.accepts_closing_bracket('{', '}', next),
            '?' => {
                // In a `doi` URI and its like it is data (2024 draft, section 2).
                !self.context.is_url
                    && (self.context.form != InputForm::Bare && !self.options.is_single_field
                        || !starts_query_parameter(self.text.get(self.position + len..).unwrap_or_default()))
            }
            '#' => !self.context.is_url && !self.context.ends_at_fragment,
            '$' => self.context.subfield_delimiter != Some('$'),
            '&' if self.context.is_query => false,
            '&' => {
                !self.options.is_single_field
                    || !starts_query_parameter(self.text.get(self.position + len..).unwrap_or_default())
            }
            _ if Some(character as u8) == self.options.field_separator && len == 1 => {
                opener == b'"' || self.is_inside_quotes()
            }
            _ => true,
        }
    }

    /// Adds `by` to the depth of a kind of bracket.
    fn adjust_depth(&mut self, bracket: char, by: isize) {
        if let Some(depth) = self.bracket_depth.get_mut(bracket_index(bracket as u8)) {
            *depth += by;
        }
    }

    /// Whether a closing bracket is part of the candidate: it closes a bracket inside, or none was open before.
    fn accepts_closing_bracket(&mut self, open: char, close: char, next: u8) -> bool {
        let index = bracket_index(close as u8);
        let closes_inner = self.bracket_depth.get(index).is_some_and(|depth| *depth > 0);
        self.adjust_depth(close, -1);
        if closes_inner {
            return true;
        }
        let (open, close) = (open as u8, close as u8);
        if self.context.opener == open || next.is_ascii_whitespace() {
            return false;
        }
        let (text, limit, wrapper_start) = (self.text, self.look_back_limit, self.context.wrapper_start);
        !self.is_bracket_open_before.get_mut(index).is_some_and(|is_open| {
            *is_open.get_or_insert_with(|| is_bracket_open(text, limit, wrapper_start, open, close))
        })
    }

    /// Whether the candidate is inside double quotes.
    fn is_inside_quotes(&mut self) -> bool {
        let (text, limit, wrapper_start) = (self.text, self.look_back_limit, self.context.wrapper_start);
        *self.is_quote_open_before.get_or_insert_with(|| is_quote_open(text, limit, wrapper_start))
    }

    /// Whether `<` belongs to a SICI code: `<693::AID-ASI4>3.0.CO;2-0`. Otherwise it starts a tag.
    fn accepts_sici_bracket(&mut self, len: usize) -> bool {
        let after = self.text.get(self.position + len..).unwrap_or_default();
        let join_lines = self.options.join_lines;
        let is_inner = |byte: &u8| {
            byte.is_ascii_alphanumeric()
                || b":.-_+,;/()".contains(byte)
                || join_lines && matches!(byte, b'\n' | b'\r')
        };
        let inner_len = after.iter().take(MAX_SICI_PART_LEN).take_while(|byte| is_inner(byte)).count();
        let has_colon = after.get(..inner_len).unwrap_or_default().contains(&b':');
        let close =
            after.get(inner_len..).and_then(decode_escaped_char).filter(|escaped| escaped.character == '>');
        let Some(close) = close else { return false };
        let version = after.get(inner_len + close.len..).unwrap_or_default();
        // The SICI code of an issue has nothing between the brackets.
        let is_sici = (has_colon || inner_len == 0)
            && matches!(version, [a, b'.', b, ..] if a.is_ascii_digit() && b.is_ascii_digit());
        if is_sici {
            self.adjust_depth('<', 1);
        }
        is_sici
    }

    /// Whether another DOI or URL starts just before the dot; if so, moves the end before it.
    fn ends_before_dot(&mut self) -> bool {
        let before = self.text.get(self.suffix_start..self.position).unwrap_or_default();
        let after = self.text.get(self.position + 1..).unwrap_or_default();
        let cut = if let Some(rest) = before.strip_suffix(b"10") {
            let cut = self.next_doi_start(rest);
            self.is_before_next_doi = cut.is_some();
            cut
        } else if let Some(rest) = strip_suffix_ignore_case(before, b"www") {
            rest.last().is_some_and(|byte| *byte != b'/').then_some(rest.len())
        } else if let Some(rest) = strip_suffix_ignore_case(before, b"doi")
            && after.starts_with(b"org/10.")
        {
            let host = rest.strip_suffix(b"dx.").or(rest.strip_suffix(b"www.")).unwrap_or(rest);
            Some(host.len())
        } else {
            None
        };
        self.move_end_to(cut)
    }

    /// End of the candidate, as an offset in the suffix, if the `10.` after `before` starts another DOI.
    fn next_doi_start(&self, before: &[u8]) -> Option<usize> {
        let next_start = self.suffix_start + before.len();
        let last = preceding_char(before)?;
        // Encoded characters in a form that the standards define are data.
        let is_data =
            last.encoding_layers > self.context.encoding_layers && self.context.form != InputForm::Bare;
        if matches!(last.byte, b'/' | b'_') || is_data || !can_start_at(self.text, next_start) {
            return None;
        }
        let PrefixMatch { end, registrant_digits, .. } = match_prefix(self.text, next_start);
        let prefix = self.text.get(self.start..self.prefix_end);
        if last.byte == b'.' && self.text.get(next_start..end) != prefix {
            // Volume 10 of a journal: `10.7567/APEX.10.065502/meta`.
            return None;
        }
        if registrant_digits < 4 || slash_len(self.text.get(end..)?).is_none() {
            return None;
        }
        // A label belongs to the next DOI; a dash is a separator.
        let separator_len = match before {
            _ if ends_with_ignore_case(before, b"doi") => 3,
            [.., b'-'] => 1,
            [.., 0xE2, 0x80, 0x93] => 3,
            _ => 0,
        };
        Some(before.len() - separator_len)
    }

    /// Whether a scheme or label such as `http:`, `doi:` or `pmid:` ends at the colon; if so, moves the end before it.
    fn ends_before_colon(&mut self) -> bool {
        let before = self.text.get(self.suffix_start..self.position).unwrap_or_default();
        let after = self.text.get(self.position + 1..).unwrap_or_default();
        let word_len = before.iter().rev().take(5).take_while(|byte| byte.is_ascii_alphabetic()).count();
        let word = before.get(before.len() - word_len..).unwrap_or_default();
        let is_followed_by = |starts: &[&[u8]]| starts.iter().any(|start| after.starts_with(start));
        let is_word_end = after.first().is_none_or(u8::is_ascii_whitespace);
        // Words that start a new item, and what must follow them.
        let words: [(&[u8], bool); 9] = [
            (b"https", is_followed_by(&[b"//", br"\/\/"])),
            (b"http", is_followed_by(&[b"//", br"\/\/"])),
            (b"ftp", is_followed_by(&[b"//"])),
            (b"doi", is_followed_by(&[b"10.", b"http"]) || is_word_end),
            (b"urn", is_followed_by(&[b"doi:", b"DOI:", b"eidr:"])),
            (b"hdl", is_followed_by(&[b"10."])),
            (b"info", is_followed_by(&[b"doi/10."])),
            (b"pmcid", !self.options.keep_publisher_tails),
            (b"pmid", !self.options.keep_publisher_tails),
        ];
        let found = words.into_iter().find(|(start, applies)| *applies && ends_with_ignore_case(word, start));
        let Some((start, _)) = found else { return false };
        self.flags.insert_if(ExtractionFlag::TailCut, start.starts_with(b"pm"));
        self.move_end_to(Some(before.len() - start.len()))
    }

    /// Moves the end back to `cut`, an offset in the suffix; false without `cut`.
    fn move_end_to(&mut self, cut: Option<usize>) -> bool {
        let Some(cut) = cut else { return false };
        self.position = self.suffix_start + cut;
        true
    }

    /// Replaces the next `len` bytes by `character`, or removes them.
    fn replace_escape(&mut self, len: usize, character: Option<char>) {
        let unescaped = self.unescaped.get_or_insert_with(|| UnescapedText::new(self.start));
        unescaped.replace(self.text, self.position..self.position + len, character);
        self.position += len;
        self.flags.insert_if(ExtractionFlag::Decoded, character.is_some());
    }

    /// At the end of a line, continues on the next line if the DOI seems to continue there.
    fn try_join_next_line(&mut self) -> bool {
        if !matches!(self.byte(self.position), b'\n' | b'\r' | b' ' | b'\t') {
            return false;
        }
        let Some(next) = next_line_start(self.text, self.position) else { return false };
        let line = self.text.get(self.suffix_start..self.position).unwrap_or_default();
        let line = if line.is_empty() { &b"/"[..] } else { line };
        if !continues_on_next_line(line, self.text.get(next..).unwrap_or_default()) {
            return false;
        }
        if !self.options.join_lines {
            self.flags.insert_if(ExtractionFlag::MaybeTruncated, true);
            return false;
        }
        self.flags.insert_if(ExtractionFlag::Joined, true);
        self.replace_escape(next - self.position, None);
        true
    }
}

/// Whether a byte is part of a DOI without further checks.
fn is_plain_byte(byte: u8) -> bool {
    static PLAIN_BYTES: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 128u8 {
            #[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
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

/// Whether a non-ASCII character ends a DOI: white space, dash or quote of the sentence, CJK text, non-graphic character.
///
/// `next` is the byte after it.
fn ends_doi(character: char, next: u8) -> bool {
    match character {
        '—' | '―' | '⸺' | '⸻' | '…' | '“' | '”' | '„' | '«' | '»' | '‹' | '›' | '•' | '\u{FFFD}' => {
            true
        }
        '‘' | '’' => !next.is_ascii_alphanumeric(),
        // Latin letters and combining marks, the most frequent case, are all graphic.
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

/// Whether a character belongs to the CJK scripts, which are written without spaces, or to their punctuation.
fn is_cjk(character: char) -> bool {
    matches!(u32::from(character),
        0x1100..=0x11FF | 0x2E80..=0xA4CF | 0xA960..=0xA97F | 0xAC00..=0xD7FF | 0xF900..=0xFAFF
        | 0xFE30..=0xFE4F | 0xFF00..=0xFFEF | 0x1AFF0..=0x1B16F | 0x20000..=0x3FFFF)
}

/// Whether `after` starts with a query parameter, such as `src=recsys`.
fn starts_query_parameter(after: &[u8]) -> bool {
    let key_len = after
        .iter()
        .take(MAX_QUERY_KEY_LEN)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte))
        .count();
    key_len > 0 && after.get(key_len) == Some(&b'=')
}
