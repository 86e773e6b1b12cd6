//! Extraction from text in chunks.

use super::candidate::CandidateScan;
use super::context::{CandidateContext, MAX_LOOK_BACK, has_label};
use super::prefix::{
    MAX_PREFIX_LEN, PrefixMatch, can_start_at, is_eidr_urn, match_prefix, needs_more_input, slash_len,
};
use super::{ExtractedDoi, Extractor};
use crate::InputForm;
use crate::ascii_case::ends_with_ignore_case;

/// Extractor for text that arrives in chunks.
///
/// ```
/// use tendot_names::{Extractor, ExtractStep};
///
/// let mut extractor = Extractor::new().incremental();
/// let mut text = b"see 10.1000/1".to_vec();
/// // The DOI may continue in the next chunk.
/// let ExtractStep::NeedMoreInput { keep_from } = extractor.next_doi(&text, false) else { panic!() };
/// text.drain(..keep_from);
/// extractor.consume(keep_from);
/// text.extend_from_slice(b"82, page 3");
/// let ExtractStep::Found(found) = extractor.next_doi(&text, true) else { panic!() };
/// assert_eq!(found.doi.as_str(), "10.1000/182");
/// ```
#[derive(Clone, Debug)]
pub struct IncrementalExtractor {
    options: Extractor,
    /// Offset at which the search continues.
    position: usize,
    /// End of the last candidate. Look-backs stop there, so all work is linear.
    look_back_limit: usize,
    /// Whether the text up to the next white space, quote or tag is skipped, because it exceeds `max_len`.
    is_skipping_overlong: bool,
    prefix_finder: PrefixFinder,
}

/// Result of one step of an incremental extraction.
#[derive(Clone, Debug)]
pub enum ExtractStep<'t> {
    /// A DOI.
    Found(ExtractedDoi<'t>),
    /// More input is needed.
    NeedMoreInput {
        /// Offset from which on the text must be passed again.
        keep_from: usize,
    },
    /// End of the text.
    End,
}

/// Maximum number of bytes after a candidate that can change its end.
///
/// The longest case is the rest of a SICI code with escapes.
pub(super) const MAX_LOOK_AHEAD: usize = 128;

impl IncrementalExtractor {
    pub(super) fn new(options: Extractor) -> Self {
        Self {
            options,
            position: 0,
            look_back_limit: 0,
            is_skipping_overlong: false,
            prefix_finder: PrefixFinder::new(),
        }
    }

    /// Next DOI in `text`; `is_last` is true if no more text follows.
    ///
    /// On [`ExtractStep::NeedMoreInput`], drop the bytes before `keep_from`, call [`consume`](Self::consume), append more
    /// text and call again.
    pub fn next_doi<'t>(&mut self, text: &'t [u8], is_last: bool) -> ExtractStep<'t> {
        loop {
            if self.is_skipping_overlong {
                let rest = text.get(self.position..).unwrap_or_default();
                let end = rest.iter().position(|byte| *byte <= b' ' || b"\"<>|".contains(byte));
                self.position += end.unwrap_or(rest.len());
                self.is_skipping_overlong = end.is_none();
            }
            let Some(start) = self.find_prefix(text) else {
                if is_last {
                    self.position = text.len();
                    return ExtractStep::End;
                }
                // The text may end inside `10.`.
                self.position = self.position.max(text.len().saturating_sub(2));
                return ExtractStep::NeedMoreInput {
                    keep_from: self.position.saturating_sub(2 * MAX_LOOK_BACK),
                };
            };
            match self.evaluate_candidate(text, start, is_last) {
                CandidateOutcome::Doi { doi, resume_at } => {
                    self.position = resume_at;
                    self.look_back_limit = resume_at;
                    return ExtractStep::Found(doi);
                }
                CandidateOutcome::NoPrefix { resume_at } => self.position = resume_at,
                CandidateOutcome::Rejected { resume_at } => {
                    self.position = resume_at;
                    self.look_back_limit = resume_at;
                }
                CandidateOutcome::TooLong { resume_at } => {
                    self.position = resume_at;
                    self.look_back_limit = resume_at;
                    self.is_skipping_overlong = true;
                }
                CandidateOutcome::NeedMoreInput => {
                    self.position = start;
                    return ExtractStep::NeedMoreInput { keep_from: start.saturating_sub(2 * MAX_LOOK_BACK) };
                }
            }
        }
    }

    /// Reports that the first `bytes` bytes were dropped.
    pub fn consume(&mut self, bytes: usize) {
        self.position = self.position.saturating_sub(bytes);
        self.look_back_limit = self.look_back_limit.saturating_sub(bytes);
    }

    /// Next `10.` followed by digits and a possible slash.
    fn find_prefix(&self, text: &[u8]) -> Option<usize> {
        let mut position = self.position;
        loop {
            let rest = text.get(position..)?;
            // The next `10.` is often close: a short scalar search is then faster than a vectorized one.
            let near = rest.get(..8).unwrap_or(rest);
            let found = match near.windows(3).position(|bytes| bytes == b"10.") {
                Some(found) => found,
                None => self.prefix_finder.find(rest)?,
            };
            let start = position + found;
            let digits = text.get(start + 3..)?;
            let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            match digits.get(count) {
                Some(b'/' | b'.' | b'%' | b'\\' | b'&' | b':') if count > 0 => return Some(start),
                // Possibly an invisible character, which is removed.
                Some(0xC2 | 0xE2 | 0xEF) => return Some(start),
                None => return Some(start),
                _ => position = start + 3 + count,
            }
        }
    }

    /// Whether more input cannot change the end of the candidate.
    fn is_end_final(&self, text: &[u8], end: usize) -> bool {
        let (before, after) = text.split_at_checked(end).unwrap_or_default();
        if ends_with_ignore_case(before, b"doi") {
            // Possibly the label of the next DOI.
            return false;
        }
        let spaces = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        match after.get(spaces) {
            None => false,
            Some(b'\n' | b'\r') => !self.options.join_lines && before.last() != Some(&b'.'),
            Some(_) => spaces > 0,
        }
    }

    /// Whether the candidate at `start` has a label or is in an input form, so that any registrant code is accepted.
    fn is_labelled(&self, text: &[u8], start: usize) -> bool {
        has_label(text, start)
            || CandidateContext::look_back(text, self.look_back_limit, start).form != InputForm::Bare
    }

    /// Evaluates the candidate at `start`.
    fn evaluate_candidate<'t>(&self, text: &'t [u8], start: usize, is_last: bool) -> CandidateOutcome<'t> {
        if !can_start_at(text, start) {
            return CandidateOutcome::NoPrefix { resume_at: start + 3 };
        }
        let PrefixMatch { end, registrant_digits, is_address_or_version, has_invisible } =
            match_prefix(text, start);
        if end - start >= MAX_PREFIX_LEN {
            let rest = text.get(end..).unwrap_or_default();
            let run = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
            return CandidateOutcome::NoPrefix { resume_at: end + run };
        }
        if !is_last && needs_more_input(text, end) {
            return CandidateOutcome::NeedMoreInput;
        }
        if registrant_digits == 0 {
            return CandidateOutcome::NoPrefix { resume_at: end };
        }
        let is_eidr = is_eidr_urn(text, start, end);
        let slash = if is_eidr { Some(1) } else { slash_len(text.get(end..).unwrap_or_default()) };
        let Some(slash) = slash else { return CandidateOutcome::NoPrefix { resume_at: end } };
        let is_plausible = registrant_digits >= 4 && !is_address_or_version;
        if !is_plausible && !self.options.is_single_field && !self.is_labelled(text, start) {
            return CandidateOutcome::NoPrefix { resume_at: end };
        }
        if text.get(end + slash).is_some_and(|byte| *byte <= b' ') && !self.options.join_lines {
            return CandidateOutcome::NoPrefix { resume_at: end + slash };
        }
        let context = CandidateContext::look_back(text, self.look_back_limit, start);
        let mut scan =
            CandidateScan::new(&self.options, self.look_back_limit, text, start..end, slash, context);
        if has_invisible {
            scan.remove_invisible_in_prefix(end);
        }
        let candidate = scan.find_end();
        let resume_at = candidate.end;
        let is_end_final = !candidate.has_open_bracket() && self.is_end_final(text, resume_at);
        if !is_last && resume_at + MAX_LOOK_AHEAD > text.len() && !is_end_final {
            return CandidateOutcome::NeedMoreInput;
        }
        let is_too_long = resume_at - start > self.options.max_len;
        match candidate.extract() {
            // Over the limit only if trimming shortened it, as with a row of dots.
            Some(found) if found.span.end < resume_at || !is_too_long => {
                CandidateOutcome::Doi { doi: found, resume_at }
            }
            _ if is_too_long => CandidateOutcome::TooLong { resume_at },
            _ => CandidateOutcome::Rejected { resume_at },
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
    /// A DOI; the search continues at `resume_at`.
    Doi { doi: ExtractedDoi<'t>, resume_at: usize },
    /// No DOI prefix here, so nothing was scanned.
    NoPrefix { resume_at: usize },
    /// Scanned candidate without a DOI.
    Rejected { resume_at: usize },
    /// Candidate longer than `max_len`; `resume_at` is where the scan stopped.
    TooLong { resume_at: usize },
    /// The text ends before the candidate is decided.
    NeedMoreInput,
}
