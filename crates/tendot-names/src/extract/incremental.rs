//! The walk over the text, from one `10.` to the next.

use super::candidate::TextCandidate;
use super::context::{CandidateContext, MAX_LOOK_BACK, has_label};
use super::prefix::{
    MAX_PREFIX_LEN, PrefixMatch, can_start_at, is_eidr_urn, match_prefix, needs_more_input, slash_len,
};
use super::{ExtractedDoi, Extractor};
use crate::ascii_case::ends_with_ignore_case;

/// Extractor for text that arrives in chunks.
///
/// ```
/// use tendot_names::{Extractor, ExtractStep};
///
/// let mut extractor = Extractor::new().incremental();
/// let mut text = b"see 10.1000/1".to_vec();
/// // The name may go on, so more is asked for.
/// let ExtractStep::NeedMore(keep_from) = extractor.next_doi(&text, false) else { panic!() };
/// text.drain(..keep_from);
/// extractor.consume(keep_from);
/// text.extend_from_slice(b"82, page 3");
/// let ExtractStep::Found(found) = extractor.next_doi(&text, true) else { panic!() };
/// assert_eq!(found.name.as_str(), "10.1000/182");
/// ```
#[derive(Clone, Debug)]
pub struct IncrementalExtractor {
    options: Extractor,
    /// Where the search goes on.
    at: usize,
    /// The end of the last candidate: nothing before it is looked at again, so all work is linear.
    floor: usize,
    /// The text goes on with something too long to be a name, up to the next white space, quote or tag.
    in_overlong: bool,
    ten: PrefixFinder,
}

/// Result of one step of an incremental extraction.
#[derive(Clone, Debug)]
pub enum ExtractStep<'t> {
    /// A name.
    Found(ExtractedDoi<'t>),
    /// What stands from this offset on can be judged only with the text that follows.
    NeedMore(usize),
    /// No more names.
    End,
}

/// How many bytes beyond a candidate's end may decide about it: most of all the rest of a SICI code, with its escapes.
pub(super) const MAX_LOOK_AHEAD: usize = 128;

impl IncrementalExtractor {
    pub(super) fn new(options: Extractor) -> Self {
        Self { options, at: 0, floor: 0, in_overlong: false, ten: PrefixFinder::new() }
    }

    /// Next DOI in `text`; `last` says that no more text follows.
    ///
    /// On [`ExtractStep::NeedMore`], drop the bytes before its offset, call [`consume`](Self::consume), append more
    /// text and call again.
    pub fn next_doi<'t>(&mut self, text: &'t [u8], last: bool) -> ExtractStep<'t> {
        loop {
            if self.in_overlong {
                let rest = text.get(self.at..).unwrap_or_default();
                let end = rest.iter().position(|byte| *byte <= b' ' || b"\"<>|".contains(byte));
                self.at += end.unwrap_or(rest.len());
                self.in_overlong = end.is_none();
            }
            let Some(start) = self.find_prefix(text) else {
                if last {
                    self.at = text.len();
                    return ExtractStep::End;
                }
                // `10` may be the beginning of `10.`.
                self.at = self.at.max(text.len().saturating_sub(2));
                return ExtractStep::NeedMore(self.at.saturating_sub(2 * MAX_LOOK_BACK));
            };
            match self.evaluate_candidate(text, start, last) {
                CandidateOutcome::Name(found, resume) => {
                    self.at = resume;
                    self.floor = resume;
                    return ExtractStep::Found(found);
                }
                CandidateOutcome::Not(resume) => self.at = resume,
                CandidateOutcome::Rejected(resume) => {
                    self.at = resume;
                    self.floor = resume;
                }
                CandidateOutcome::TooLong(resume) => {
                    self.at = resume;
                    self.floor = resume;
                    self.in_overlong = true;
                }
                CandidateOutcome::Undecided => {
                    self.at = start;
                    return ExtractStep::NeedMore(start.saturating_sub(2 * MAX_LOOK_BACK));
                }
            }
        }
    }

    /// Reports that the first `bytes` bytes were dropped.
    pub fn consume(&mut self, bytes: usize) {
        self.at = self.at.saturating_sub(bytes);
        self.floor = self.floor.saturating_sub(bytes);
    }

    /// Next `10.` followed by digits and a possible slash.
    fn find_prefix(&self, text: &[u8]) -> Option<usize> {
        let mut at = self.at;
        loop {
            let rest = text.get(at..)?;
            // After one `10.` the next is often near, and found sooner than a vectorized search begins.
            let near = rest.get(..8).unwrap_or(rest);
            let found = match near.windows(3).position(|bytes| bytes == b"10.") {
                Some(found) => found,
                None => self.ten.find(rest)?,
            };
            let start = at + found;
            let digits = text.get(start + 3..)?;
            let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            match digits.get(count) {
                Some(b'/' | b'.' | b'%' | b'\\' | b'&' | b':') if count > 0 => return Some(start),
                // Perhaps an invisible character, which is dropped.
                Some(0xC2 | 0xE2 | 0xEF) => return Some(start),
                None => return Some(start),
                _ => at = start + 3 + count,
            }
        }
    }

    /// Whether more input cannot change the end of the candidate.
    fn is_end_final(&self, text: &[u8], end: usize) -> bool {
        let (before, after) = text.split_at_checked(end).unwrap_or_default();
        if ends_with_ignore_case(before, b"doi") {
            // Perhaps the label of the next name.
            return false;
        }
        let spaces = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        match after.get(spaces) {
            None => false,
            Some(b'\n' | b'\r') => !self.options.join_lines && before.last() != Some(&b'.'),
            Some(_) => spaces > 0,
        }
    }

    /// Evaluates the candidate at `start`.
    fn evaluate_candidate<'t>(&self, text: &'t [u8], start: usize, last: bool) -> CandidateOutcome<'t> {
        if !can_start_at(text, start) {
            return CandidateOutcome::Not(start + 3);
        }
        let PrefixMatch { end, digits, is_ip_address, has_invisible } = match_prefix(text, start);
        if end - start >= MAX_PREFIX_LEN {
            let rest = text.get(end..).unwrap_or_default();
            let run = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
            return CandidateOutcome::Not(end + run);
        }
        if !last && needs_more_input(text, end) {
            return CandidateOutcome::Undecided;
        }
        if digits == 0 {
            return CandidateOutcome::Not(end);
        }
        let eidr = is_eidr_urn(text, start, end);
        let slash = if eidr { Some(1) } else { slash_len(text.get(end..).unwrap_or_default()) };
        let Some(slash) = slash else { return CandidateOutcome::Not(end) };
        let believed = digits >= 4 && !is_ip_address;
        if !believed && !self.options.labelled && !has_label(text, start) {
            return CandidateOutcome::Not(end);
        }
        if text.get(end + slash).is_some_and(|byte| *byte <= b' ') && !self.options.join_lines {
            return CandidateOutcome::Not(end + slash);
        }
        let context = CandidateContext::look_back(text, self.floor, start);
        let mut walk = TextCandidate::new(&self.options, self.floor, text, start..end, slash, context);
        if has_invisible {
            walk.remove_invisible_in_prefix(end);
        }
        let resume = walk.find_end();
        if !last && resume + MAX_LOOK_AHEAD > text.len() && !self.is_end_final(text, resume) {
            return CandidateOutcome::Undecided;
        }
        let too_long = resume - start > self.options.max_len;
        match walk.extract() {
            // What is longer than the limit is a name only if its end was cut off, as a row of dots is.
            Some(found) if found.span.end < resume || !too_long => CandidateOutcome::Name(found, resume),
            _ if too_long => CandidateOutcome::TooLong(resume),
            _ => CandidateOutcome::Rejected(resume),
        }
    }
}

/// Substring search for `10.`, prepared once.
#[derive(Clone, Debug)]
struct PrefixFinder {
    #[cfg(feature = "memchr")]
    finder: memchr::memmem::Finder<'static>,
}

impl PrefixFinder {
    fn new() -> Self {
        Self {
            #[cfg(feature = "memchr")]
            finder: memchr::memmem::Finder::new(b"10."),
        }
    }

    #[cfg(feature = "memchr")]
    fn find(&self, text: &[u8]) -> Option<usize> {
        self.finder.find(text)
    }

    #[cfg(not(feature = "memchr"))]
    fn find(&self, text: &[u8]) -> Option<usize> {
        text.windows(3).position(|bytes| bytes == b"10.")
    }
}

/// Outcome of evaluating one candidate.
enum CandidateOutcome<'t> {
    /// A name, and where to go on.
    Name(ExtractedDoi<'t>, usize),
    /// None here; where to go on.
    Not(usize),
    /// None here, after a walk; where to go on.
    Rejected(usize),
    /// Too long to be a name; up to where it was looked at.
    TooLong(usize),
    /// The text ends too early.
    Undecided,
}
