//! Which part of a candidate is the DOI.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::candidate::TextCandidate;
use super::field_tail::trim_field_tail;
use super::publisher_tail::{MAX_TAIL_CUTS, TailScope, trim_publisher_tails};
use super::trim::{bracket_index, trim_punctuation};
use super::{ExtractedDoi, ExtractionFlag};
use crate::ascii_case::ends_with_ignore_case;
use crate::percent::{InvalidTriplet, LayeredByte, decode_layered, encoded_offset, percent_decode};
use crate::{Doi, DoiBuf, InputForm, SyntaxRules};

impl<'t> TextCandidate<'_, 't> {
    /// Trims and decodes the candidate.
    pub(super) fn extract(mut self) -> Option<ExtractedDoi<'t>> {
        self.flags.insert_if(ExtractionFlag::InUrl, self.context.is_url);
        self.trim_following_label();
        let (start, end) = (self.start, self.end);
        let Some(mut unescaped) = self.unescaped.take() else {
            let raw = str::from_utf8(self.text.get(start..end)?).ok()?;
            let (len, decoded) = self.name_extent(raw, self.suffix_start - start)?;
            let doi = match decoded {
                Some(doi) => Cow::Owned(doi),
                None => Cow::Borrowed(assume_valid(raw.get(..len)?)),
            };
            return Some(ExtractedDoi { doi, span: start..start + len, flags: self.flags });
        };
        unescaped.copy_until(self.text, end);
        let suffix_start =
            if self.slash_layers > 0 { self.suffix_start - start } else { unescaped.text.find('/')? + 1 };
        let (len, decoded) = self.name_extent(&unescaped.text, suffix_start)?;
        let end = unescaped.input_offset(start, len);
        let doi = decoded.unwrap_or_else(|| {
            let mut text = unescaped.text;
            text.truncate(len);
            assume_valid(&text);
            DoiBuf::from_validated(text)
        });
        Some(ExtractedDoi { doi: Cow::Owned(doi), span: start..end, flags: self.flags })
    }

    /// Trims the label of the next DOI, a `pmid` label, and the end of an HTML comment.
    fn trim_following_label(&mut self) {
        let raw = self.text.get(self.suffix_start..self.end).unwrap_or_default();
        let after = self.text.get(self.end..).unwrap_or_default();
        if ends_with_ignore_case(raw, b"doi")
            && after.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'))
        {
            let next = after.get(1..).unwrap_or_default();
            if next.starts_with(b"10.") || next.starts_with(b"http") {
                self.end -= 3;
            }
        } else if ends_with_ignore_case(raw, b";pmid") || ends_with_ignore_case(raw, b",pmid") {
            self.end -= 5;
        } else if raw.ends_with(b"--") && after.starts_with(b">") {
            self.end -= 2;
        }
    }

    /// Length of the DOI in the candidate, and the DOI itself if it was percent-decoded.
    fn name_extent(&mut self, raw: &str, suffix_start: usize) -> Option<(usize, Option<DoiBuf>)> {
        let trimmed = self.trim_candidate(raw, suffix_start)?;
        if self.has_percent {
            match self.percent_decode_doi(trimmed) {
                PercentDecoding::Doi { encoded_len, doi } => return Some((encoded_len, Some(doi))),
                PercentDecoding::OnlyPunctuation => return None,
                PercentDecoding::Literal if self.slash_layers > 0 => return None,
                PercentDecoding::Literal => {}
            }
        }
        Some((self.trim_field(trimmed, suffix_start).len(), None))
    }

    /// Trims punctuation, delimiters and publisher tails; `None` if nothing is left of the suffix.
    fn trim_candidate<'n>(&mut self, raw: &'n str, suffix_start: usize) -> Option<&'n str> {
        let opener = self.context.opener;
        let mut trimmed = trim_punctuation(raw, opener);
        if self.is_before_next_doi {
            let is_separator = |c: char| matches!(c, '=' | '~' | '@' | '#' | '→' | '·' | '│');
            trimmed = trim_punctuation(trimmed.trim_end_matches(is_separator), opener);
        }
        if let Some(close) = self.closing_bracket_after()
            && let Some(open) = unclosed_bracket(trimmed, close).filter(|open| *open > suffix_start)
        {
            trimmed = trim_punctuation(trimmed.get(..open).unwrap_or_default(), opener);
            self.flags.insert_if(ExtractionFlag::TailCut, true);
        }
        if self.has_percent {
            trimmed = trim_punctuation(self.before_encoded_delimiter(trimmed), opener);
        }
        trimmed = self.trim_tails(trimmed, suffix_start);
        let suffix = trimmed.get(suffix_start..)?;
        let is_standard_form = self.context.form != InputForm::Bare;
        (is_standard_form && !suffix.is_empty() || suffix.bytes().any(is_word_byte)).then_some(trimmed)
    }

    /// Trims publisher tails and annotations.
    fn trim_tails<'n>(&mut self, text: &'n str, suffix_start: usize) -> &'n str {
        // The shortest tail is `[J]`, after at least one character of the suffix.
        if self.options.keep_publisher_tails || text.len() <= suffix_start + 3 {
            return text;
        }
        let shorter = trim_publisher_tails(text, suffix_start, self.tail_scope(), self.context.opener);
        self.flags.insert_if(ExtractionFlag::TailCut, shorter.len() < text.len());
        shorter
    }

    fn tail_scope(&self) -> TailScope {
        if self.options.is_single_field {
            TailScope::Url
        } else if self.context.form != InputForm::Bare {
            TailScope::StandardForm
        } else if self.context.is_url {
            TailScope::Url
        } else {
            TailScope::Text
        }
    }

    /// Whether a bracket is open at the end of the candidate.
    pub(super) fn has_open_bracket(&self) -> bool {
        let [round, square, ..] = self.bracket_depth;
        round > 0 || square > 0
    }

    /// Closing bracket that follows in the line, after white space, if it may close a bracket of the candidate: `182[x y]`.
    fn closing_bracket_after(&self) -> Option<u8> {
        let after = self.text.get(self.end..).filter(|_| self.has_open_bracket())?;
        if !matches!(after.first(), Some(b' ' | b'\t')) {
            return None;
        }
        let mut depth = [0isize; 4];
        for &byte in after.iter().take(MAX_BRACKET_LOOK_AHEAD) {
            let change = match byte {
                b'\n' => return None,
                b'(' | b'[' => 1,
                b')' | b']' => -1,
                _ => continue,
            };
            let depth = depth.get_mut(bracket_index(byte))?;
            *depth += change;
            if *depth < 0 {
                return Some(byte);
            }
        }
        None
    }

    /// Text before the first encoded delimiter.
    ///
    /// In an encoded URL the delimiters that end a DOI are encoded too; in a query, spaces are.
    fn before_encoded_delimiter<'n>(&self, text: &'n str) -> &'n str {
        let layers = if self.slash_layers > 0 { self.context.encoding_layers } else { 0 };
        let delimiters: &[u8] = match self.context.form {
            InputForm::Bare => b"?#&",
            InputForm::DoiUri | InputForm::HdlUri => b"",
            InputForm::InfoUri => b"#",
            InputForm::Urn | InputForm::UrnEidr | InputForm::ProxyUrl | InputForm::HandleProxyUrl => b"?#",
        };
        let is_delimiter = |encoded: LayeredByte| match encoded.byte {
            b' ' => self.context.is_query && encoded.layers <= layers.max(1),
            b'&' if self.context.is_encoded_query => encoded.layers <= layers,
            byte => delimiters.contains(&byte) && encoded.layers <= layers,
        };
        let bytes = text.as_bytes();
        let end = (0..bytes.len()).find(|offset| {
            let encoded =
                bytes.get(*offset..).filter(|rest| rest.first() == Some(&b'%')).and_then(decode_layered);
            encoded.is_some_and(is_delimiter)
        });
        end.and_then(|end| text.get(..end)).unwrap_or(text)
    }

    /// Percent-decodes the DOI: once for each layer of encoding around it, and once if it is in a URI.
    ///
    /// In plain text it is decoded only if all triplets are valid; after a label or in a URL, an invalid `%` remains a literal.
    fn percent_decode_doi(&mut self, encoded: &str) -> PercentDecoding {
        let is_bare = self.context.wrapper_start == self.start && self.slash_layers == 0;
        let invalid_triplet =
            if is_bare && !self.context.is_url { InvalidTriplet::Reject } else { InvalidTriplet::Keep };
        let is_nested = self.context.encoding_layers > 0;
        let outer_layers = if self.slash_layers > 0 { self.context.encoding_layers } else { 0 };
        let own_layer = u8::from(outer_layers == 0 || self.context.is_encoded_uri);
        let layers = (outer_layers + own_layer).max(self.slash_layers);
        // Text after each step; the last one that is a DOI is the result.
        let mut steps: Vec<String> = Vec::new();
        let mut doi_step = None;
        let mut is_only_punctuation = false;
        for layer in 1..=layers {
            let text = steps.last().map_or(encoded, String::as_str);
            let Ok(decoded) = percent_decode(text, invalid_triplet) else { break };
            if *decoded.text == *text {
                break;
            }
            let mut trimmed = decoded.text.trim_end();
            // Encoded characters of a URL are data; elsewhere the surrounding text may be encoded too.
            if layer == outer_layers.max(1) && (is_bare || is_nested || self.is_before_next_doi) {
                trimmed = trim_punctuation(trimmed, self.context.opener).trim_end();
                if let Some(slash) = trimmed.find('/').filter(|_| is_nested) {
                    trimmed = self.trim_tails(trimmed, slash + 1);
                }
            }
            let suffix = trimmed.split_once('/').map_or("", |(_, suffix)| suffix);
            let is_doi = Doi::allowing_unassigned(trimmed, SyntaxRules::Current).is_ok();
            is_only_punctuation = is_bare && !suffix.bytes().any(is_word_byte);
            if is_doi && !is_only_punctuation {
                doi_step = Some(steps.len());
            }
            let step = String::from(trimmed);
            steps.push(step);
        }
        let Some(last) = doi_step.and_then(|step| steps.get(step)) else {
            return if is_only_punctuation {
                PercentDecoding::OnlyPunctuation
            } else {
                PercentDecoding::Literal
            };
        };
        self.flags.insert_if(ExtractionFlag::Decoded, true);
        let suffix_start = last.find('/').map_or(0, |slash| slash + 1);
        let doi = self.trim_field(last, suffix_start);
        let previous = steps.iter().take(doi_step.unwrap_or(0)).rev().map(String::as_str);
        let encoded_len =
            previous.chain([encoded]).fold(doi.len(), |len, previous| encoded_offset(previous, len));
        PercentDecoding::Doi { encoded_len, doi: DoiBuf::from_validated(String::from(doi)) }
    }

    /// Trims a year or `#` after the DOI, and the punctuation and tails before it, if the input is a single field.
    fn trim_field<'n>(&mut self, doi: &'n str, suffix_start: usize) -> &'n str {
        let mut rest = doi;
        if !self.options.is_single_field {
            return rest;
        }
        for _ in 0..MAX_TAIL_CUTS {
            let without_tail = trim_field_tail(rest);
            if without_tail.len() == rest.len() {
                break;
            }
            let shorter = trim_punctuation(without_tail, self.context.opener);
            let shorter = self.trim_tails(shorter, suffix_start);
            if !shorter.get(suffix_start..).is_some_and(|suffix| suffix.bytes().any(is_word_byte)) {
                break;
            }
            rest = shorter;
        }
        rest
    }
}

/// Result of percent-decoding a candidate.
enum PercentDecoding {
    /// The decoded DOI, and its length before decoding.
    Doi { encoded_len: usize, doi: DoiBuf },
    /// Decoded, the suffix is only punctuation of the text.
    OnlyPunctuation,
    /// Nothing can be decoded: `%` is a literal.
    Literal,
}

/// Maximum number of bytes after a candidate that are searched for a closing bracket.
const MAX_BRACKET_LOOK_AHEAD: usize = 64;

/// Offset of the last opening bracket that is unclosed in `text`, of the kind that `close` closes.
fn unclosed_bracket(text: &str, close: u8) -> Option<usize> {
    let open = if close == b')' { b'(' } else { b'[' };
    let mut closed = 0usize;
    for (offset, byte) in text.bytes().enumerate().rev() {
        match byte {
            _ if byte == close => closed += 1,
            _ if byte == open && closed == 0 => return Some(offset),
            _ if byte == open => closed -= 1,
            _ => {}
        }
    }
    None
}

/// Whether a byte makes a suffix more than punctuation.
fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Converts a trimmed candidate to a DOI without checking it again.
///
/// It is valid: the prefix was matched digit by digit, and the scan stopped at every character not allowed in a DOI.
fn assume_valid(text: &str) -> &Doi {
    debug_assert!(Doi::allowing_unassigned(text, SyntaxRules::Current).is_ok(), "{text:?}");
    Doi::new_unchecked(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extractor;
    use crate::extract::ExtractionFlags;
    use crate::extract::context::CandidateContext;

    #[test]
    fn extents() {
        check("10.1000/182.", "", Some("10.1000/182"));
        check("10.1000/a/full", "", Some("10.1000/a"));
        check("10.1000/a%20b", "", Some("10.1000/a b"));
        // Not percent-encoding
        check("10.1000/100%", "", Some("10.1000/100%"));
        check("10.1000/--", "", None);
        // Text after the candidate
        check("10.1000/1doi", " 10.1000/2", Some("10.1000/1"));
        check("10.1000/1doi", " of", Some("10.1000/1doi"));
        check("10.1000/1--", ">", Some("10.1000/1"));
        // Brackets that are closed after white space
        check("10.1000/182[x", " y]", Some("10.1000/182"));
        check("10.1000/182(a(b)", " (c) d)", Some("10.1000/182"));
        check("10.1000/182[x", " (y)", Some("10.1000/182[x"));
        check("10.1000/182[x", "\ny]", Some("10.1000/182[x"));
        check("10.1000/(x", " y)", Some("10.1000/(x"));
        // Encoded punctuation of the text
        check("10.1000/%2E", "", None);
    }

    #[track_caller]
    fn check(candidate: &str, after: &str, expected: Option<&str>) {
        let text = [candidate, after].concat();
        let candidate = TextCandidate {
            options: &Extractor::new(),
            text: text.as_bytes(),
            start: 0,
            suffix_start: candidate.find('/').unwrap() + 1,
            end: candidate.len(),
            context: CandidateContext::default(),
            unescaped: None,
            has_percent: candidate.contains('%'),
            slash_layers: 0,
            bracket_depth: ["()", "[]"]
                .map(|pair| {
                    let count = |bracket| candidate.matches(bracket).count() as isize;
                    count(&pair[..1]) - count(&pair[1..])
                })
                .into_iter()
                .chain([0, 0])
                .collect::<Vec<_>>()
                .try_into()
                .unwrap(),
            is_before_next_doi: false,
            flags: ExtractionFlags::default(),
        };
        let extracted = candidate.extract().map(|found| found.doi.into_owned());
        assert_eq!(extracted.as_ref().map(|doi| doi.as_str()), expected);
    }
}
