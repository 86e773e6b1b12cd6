//! Unescaped candidate and its offset map.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// Candidate text with its escapes decoded, and the map back to input offsets.
#[derive(Debug)]
pub(super) struct UnescapedText {
    pub(super) text: String,
    /// Offset in the input up to which `text` has been copied.
    copied_until: usize,
    /// Pairs of an offset in `text` and the corresponding offset in the input.
    offset_map: Vec<(usize, usize)>,
}

impl UnescapedText {
    /// Empty text of a candidate that starts at `start`.
    pub(super) fn new(start: usize) -> Self {
        Self { text: String::with_capacity(48), copied_until: start, offset_map: Vec::new() }
    }

    /// Copies the input up to `range`, and replaces `range` by `character` or removes it.
    pub(super) fn replace(&mut self, text: &[u8], range: Range<usize>, character: Option<char>) {
        self.copy_until(text, range.start);
        self.text.extend(character);
        self.copied_until = range.end;
        self.offset_map.push((self.text.len(), range.end));
    }

    /// Copies the input up to `end` unchanged.
    pub(super) fn copy_until(&mut self, text: &[u8], end: usize) {
        let plain = text.get(self.copied_until..end).unwrap_or_default();
        // Candidates end at character boundaries, so this is valid UTF-8.
        self.text.push_str(str::from_utf8(plain).unwrap_or_default());
        self.copied_until = end;
    }

    /// Offset in the input that corresponds to offset `len` in the unescaped text.
    pub(super) fn input_offset(&self, start: usize, len: usize) -> usize {
        let entry = self.offset_map.iter().take_while(|(unescaped, _)| *unescaped <= len).last();
        let (unescaped, input) = entry.copied().unwrap_or((0, start));
        input + (len - unescaped)
    }
}
