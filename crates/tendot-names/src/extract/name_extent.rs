//! Which part of a candidate is the DOI.

use alloc::borrow::Cow;
use alloc::string::String;

use super::candidate::TextCandidate;
use super::field_tail::trim_field_tail;
use super::publisher_tail::trim_publisher_tails;
use super::trim::trim_punctuation;
use super::{ExtractedDoi, ExtractionFlag};
use crate::ascii_case::ends_with_ignore_case;
use crate::percent::{InvalidTriplet, decode_triplet, encoded_offset, percent_decode};
use crate::{Doi, DoiBuf, SyntaxRules};

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
            if self.has_encoded_slash { self.suffix_start - start } else { unescaped.text.find('/')? + 1 };
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
        match if self.has_percent { self.percent_decode_doi(trimmed) } else { None } {
            Some((len, doi)) => Some((len, Some(doi))),
            None if self.has_encoded_slash => None,
            None => Some((self.trim_field_tail(trimmed).len(), None)),
        }
    }

    /// Trims punctuation, delimiters and publisher tails; `None` if nothing is left of the suffix.
    fn trim_candidate<'n>(&mut self, raw: &'n str, suffix_start: usize) -> Option<&'n str> {
        let opener = self.context.opener;
        let mut trimmed = trim_punctuation(raw, opener);
        if self.is_before_next_doi {
            let is_separator = |c: char| matches!(c, '=' | '~' | '@' | '#' | '→' | '·' | '│');
            trimmed = trim_punctuation(trimmed.trim_end_matches(is_separator), opener);
        }
        if self.has_percent {
            trimmed = trim_punctuation(self.before_encoded_delimiter(trimmed), opener);
        }
        // The shortest tail is `/pdf`, after at least one character of the suffix.
        if !self.options.keep_publisher_tails && trimmed.len() > suffix_start + 4 {
            let in_url = self.context.is_url || self.options.is_single_field;
            let shorter = trim_publisher_tails(trimmed, suffix_start, in_url, opener);
            self.flags.insert_if(ExtractionFlag::TailCut, shorter.len() < trimmed.len());
            trimmed = shorter;
        }
        trimmed.get(suffix_start..)?.bytes().any(is_word_byte).then_some(trimmed)
    }

    /// Text before the first encoded delimiter.
    ///
    /// In an encoded URL the delimiters that end a DOI are encoded too; in a query, spaces are.
    fn before_encoded_delimiter<'n>(&self, text: &'n str) -> &'n str {
        let is_nested_url = self.has_encoded_slash && self.context.is_encoded_url;
        let is_delimiter =
            |byte: u8| is_nested_url && b"?#&".contains(&byte) || byte == b' ' && self.context.is_query;
        let end =
            text.as_bytes().windows(3).position(|bytes| decode_triplet(bytes).is_some_and(is_delimiter));
        end.and_then(|end| text.get(..end)).unwrap_or(text)
    }

    /// Percent-decodes the DOI; returns the encoded length and the DOI, or `None` if nothing was decoded.
    ///
    /// In plain text it is decoded only if all triplets are valid; after a label or in a URL, an invalid `%` remains a literal.
    fn percent_decode_doi(&mut self, encoded: &str) -> Option<(usize, DoiBuf)> {
        let is_bare = self.context.wrapper_start == self.start && !self.has_encoded_slash;
        let invalid_triplet =
            if is_bare && !self.context.is_url { InvalidTriplet::Reject } else { InvalidTriplet::Keep };
        let decoded = percent_decode(encoded, invalid_triplet).ok()?.text;
        let mut trimmed = decoded.trim_end();
        // Encoded characters of a URL are data; elsewhere the surrounding text may be encoded too.
        if is_bare || self.context.is_encoded_url || self.is_before_next_doi {
            trimmed = trim_punctuation(trimmed, self.context.opener).trim_end();
        }
        let suffix_start = trimmed.find('/')? + 1;
        if self.context.is_encoded_url && !self.options.keep_publisher_tails {
            let shorter = trim_publisher_tails(trimmed, suffix_start, true, self.context.opener);
            self.flags.insert_if(ExtractionFlag::TailCut, shorter.len() < trimmed.len());
            trimmed = shorter;
        }
        let is_doi = trimmed.get(suffix_start..)?.bytes().any(is_word_byte)
            && Doi::allowing_unassigned(trimmed, SyntaxRules::Current).is_ok();
        if *decoded == *encoded || !is_doi {
            return None;
        }
        self.flags.insert_if(ExtractionFlag::Decoded, true);
        let trimmed = self.trim_field_tail(trimmed);
        let len = if trimmed.len() < decoded.len() {
            encoded_offset(encoded, trimmed.len())
        } else {
            encoded.len()
        };
        Some((len, DoiBuf::from_validated(String::from(trimmed))))
    }

    /// Trims a year or `#` after the DOI if the input is a single field.
    fn trim_field_tail<'n>(&self, doi: &'n str) -> &'n str {
        if self.options.is_single_field { trim_field_tail(doi) } else { doi }
    }
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
            has_encoded_slash: false,
            is_before_next_doi: false,
            flags: ExtractionFlags::default(),
        };
        let extracted = candidate.extract().map(|found| found.doi.into_owned());
        assert_eq!(extracted.as_ref().map(|doi| doi.as_str()), expected);
    }
}
