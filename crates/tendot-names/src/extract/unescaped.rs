//! A candidate whose escapes were decoded, and the way back to the text.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// Candidate text with its escapes decoded, and the map back to input offsets.
#[derive(Debug)]
pub(super) struct UnescapedText {
    pub(super) text: String,
    /// Up to which offset of the input `text` goes.
    upto: usize,
    /// Pairs of an offset in `text` and the offset in the input at which the same character stands.
    places: Vec<(usize, usize)>,
}

impl UnescapedText {
    /// Nothing yet of a candidate that begins at `start`.
    pub(super) fn new(start: usize) -> Self {
        Self { text: String::with_capacity(48), upto: start, places: Vec::new() }
    }

    /// Takes over the text of the input up to `range`, and `character` or nothing instead of that.
    pub(super) fn replace(&mut self, text: &[u8], range: Range<usize>, character: Option<char>) {
        self.copy_until(text, range.start);
        self.text.extend(character);
        self.upto = range.end;
        self.places.push((self.text.len(), range.end));
    }

    /// Takes over the text of the input up to `at`, as it is.
    pub(super) fn copy_until(&mut self, text: &[u8], at: usize) {
        let plain = text.get(self.upto..at).unwrap_or_default();
        // Only whole characters were passed.
        self.text.push_str(str::from_utf8(plain).unwrap_or_default());
        self.upto = at;
    }

    /// The offset in the input at which the first `len` bytes of the decoded text end.
    pub(super) fn input_offset(&self, start: usize, len: usize) -> usize {
        let passed = self.places.iter().take_while(|(decoded, _)| *decoded <= len).last();
        let (decoded, place) = passed.copied().unwrap_or((0, start));
        place + (len - decoded)
    }
}
