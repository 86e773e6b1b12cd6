//! Which part of a candidate is the DOI.

use alloc::borrow::Cow;
use alloc::string::String;

use super::candidate::TextCandidate;
use super::publisher_tail::trim_publisher_tails;
use super::trim::trim_punctuation;
use super::{ExtractedDoi, ExtractionFlag};
use crate::ascii_case::ends_with_ignore_case;
use crate::percent::{InvalidTriplet, decode_triplet, encoded_offset, percent_decode};
use crate::{Doi, DoiBuf, SyntaxRules};

impl<'t> TextCandidate<'_, 't> {
    /// Trims and decodes the candidate.
    pub(super) fn extract(&mut self) -> Option<ExtractedDoi<'t>> {
        self.flags.insert_if(ExtractionFlag::InUrl, self.context.url);
        self.trim_following_label();
        let (start, at) = (self.start, self.at);
        let Some(mut decoded) = self.decoded.take() else {
            let raw = str::from_utf8(self.text.get(start..at)?).ok()?;
            let (len, name) = self.name_extent(raw, self.suffix - start)?;
            let name = match name {
                Some(name) => Cow::Owned(name),
                None => Cow::Borrowed(assume_valid(raw.get(..len)?)),
            };
            return Some(ExtractedDoi { name, span: start..start + len, flags: self.flags });
        };
        decoded.copy_until(self.text, at);
        let suffix = if self.encoded_slash { self.suffix - start } else { decoded.text.find('/')? + 1 };
        let (len, name) = self.name_extent(&decoded.text, suffix)?;
        let end = decoded.input_offset(start, len);
        let name = name.unwrap_or_else(|| {
            let mut text = decoded.text;
            text.truncate(len);
            assume_valid(&text);
            DoiBuf::from_validated(text)
        });
        Some(ExtractedDoi { name: Cow::Owned(name), span: start..end, flags: self.flags })
    }

    /// Leaves to the next name its label, and to a comment its end.
    fn trim_following_label(&mut self) {
        let raw = self.text.get(self.suffix..self.at).unwrap_or_default();
        let after = self.text.get(self.at..).unwrap_or_default();
        if ends_with_ignore_case(raw, b"doi")
            && after.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'))
        {
            let next = after.get(1..).unwrap_or_default();
            if next.starts_with(b"10.") || next.starts_with(b"http") {
                self.at -= 3;
            }
        } else if ends_with_ignore_case(raw, b";pmid") || ends_with_ignore_case(raw, b",pmid") {
            self.at -= 5;
        } else if raw.ends_with(b"--") && after.starts_with(b">") {
            self.at -= 2;
        }
    }

    /// Length of the DOI in the candidate, and the DOI itself if it was percent-decoded.
    fn name_extent(&mut self, raw: &str, suffix: usize) -> Option<(usize, Option<DoiBuf>)> {
        let name = self.trim_candidate(raw, suffix)?;
        match if self.percent { self.percent_decode_doi(name) } else { None } {
            Some((len, doi)) => Some((len, Some(doi))),
            None if self.encoded_slash => None,
            None => Some((name.len(), None)),
        }
    }

    /// Cuts off what is not part of the name; nothing if nothing is left of the suffix, which begins at `suffix`.
    fn trim_candidate<'n>(&mut self, raw: &'n str, suffix: usize) -> Option<&'n str> {
        let emphasis = self.context.opener;
        let mut name = trim_punctuation(raw, emphasis);
        if self.before_next_name {
            let is_separator = |c: char| matches!(c, '=' | '~' | '@' | '#' | '→' | '·' | '│');
            name = trim_punctuation(name.trim_end_matches(is_separator), emphasis);
        }
        if self.percent {
            name = trim_punctuation(self.before_encoded_delimiter(name), emphasis);
        }
        // The shortest tail is `/pdf`, after at least one character.
        if !self.options.keep_tails && name.len() > suffix + 4 {
            let in_address = self.context.url || self.options.labelled;
            let kept = trim_publisher_tails(name, suffix, in_address, emphasis);
            self.flags.insert_if(ExtractionFlag::TailCut, kept.len() < name.len());
            name = kept;
        }
        name.get(suffix..)?.bytes().any(is_word_byte).then_some(name)
    }

    /// In an address that is itself encoded, the characters that end a name are encoded too; in a query, spaces are.
    fn before_encoded_delimiter<'n>(&self, name: &'n str) -> &'n str {
        let nested = self.encoded_slash && self.context.encoded;
        let ends = |byte: u8| nested && b"?#&".contains(&byte) || byte == b' ' && self.context.query;
        let end = name.as_bytes().windows(3).position(|bytes| decode_triplet(bytes).is_some_and(ends));
        end.and_then(|end| name.get(..end)).unwrap_or(name)
    }

    /// The name without percent-encoding, if it has any, and how much of `name` it takes. In plain text it is decoded
    /// only when all of it can be; after a label or in an address, a `%` that begins no triplet is kept.
    fn percent_decode_doi(&mut self, name: &str) -> Option<(usize, DoiBuf)> {
        let is_bare = self.context.lead == self.start && !self.encoded_slash;
        let malformed =
            if is_bare && !self.context.url { InvalidTriplet::Reject } else { InvalidTriplet::Keep };
        let decoded = percent_decode(name, malformed).ok()?.text;
        let mut kept = decoded.trim_end();
        // What was encoded in an address is data; elsewhere the text around the name may have been encoded with it.
        if is_bare || self.context.encoded || self.before_next_name {
            kept = trim_punctuation(kept, self.context.opener).trim_end();
        }
        let suffix = kept.find('/')? + 1;
        if self.context.encoded && !self.options.keep_tails {
            let shorter = trim_publisher_tails(kept, suffix, true, self.context.opener);
            self.flags.insert_if(ExtractionFlag::TailCut, shorter.len() < kept.len());
            kept = shorter;
        }
        let is_name = kept.get(suffix..)?.bytes().any(is_word_byte)
            && Doi::allowing_unassigned(kept, SyntaxRules::Current).is_ok();
        if *decoded == *name || !is_name {
            return None;
        }
        self.flags.insert_if(ExtractionFlag::Decoded, true);
        let len = if kept.len() < decoded.len() { encoded_offset(name, kept.len()) } else { name.len() };
        Some((len, DoiBuf::from_validated(String::from(kept))))
    }
}

/// True for what makes a suffix more than punctuation.
fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Looks at a candidate as a name. The prefix was read digit by digit, and the walk stopped at every character that
/// a name may not have, so it is one.
fn assume_valid(name: &str) -> &Doi {
    debug_assert!(Doi::allowing_unassigned(name, SyntaxRules::Current).is_ok(), "{name:?}");
    Doi::new_unchecked(name)
}
