//! Line reader with bounded memory.

use std::io::{BufRead, BufReader, Read};

use crate::CliError;

/// Line iterator with a maximum line length; longer lines are truncated to one byte over it.
pub(crate) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// Name of the input for error messages.
    source: String,
    max_len: usize,
}

impl<R: Read> LineReader<R> {
    /// Reader of standard input, or of a substitute in tests, without a maximum line length.
    pub(crate) fn stdin_like(reader: R) -> Self {
        Self::new(reader, "standard input", usize::MAX)
    }

    pub(crate) fn new(reader: R, source: &str, max_len: usize) -> Self {
        let reader = BufReader::with_capacity(1 << 16, reader);
        Self { reader, line: Vec::new(), source: source.into(), max_len }
    }

    /// Returns the next line without its line ending, truncated to one byte over the maximum length.
    pub(crate) fn next_line(&mut self) -> Result<Option<&[u8]>, CliError> {
        self.line.clear();
        let mut is_end = true;
        let mut is_whole = true;
        loop {
            let buffer = self
                .reader
                .fill_buf()
                .map_err(|error| CliError::io(format!("cannot read {}", self.source), &error))?;
            if buffer.is_empty() {
                break;
            }
            is_end = false;
            let end = memchr::memchr(b'\n', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let remaining = self.max_len.saturating_add(1).saturating_sub(self.line.len());
            is_whole &= part.len() <= remaining;
            self.line.extend_from_slice(&part[..part.len().min(remaining)]);
            let consumed = part.len() + usize::from(end.is_some());
            self.reader.consume(consumed);
            if end.is_some() {
                break;
            }
        }
        if is_whole && self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok((!is_end).then_some(self.line.as_slice()))
    }

    /// True if the next read may block.
    pub(crate) fn is_buffer_empty(&self) -> bool {
        self.reader.buffer().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_endings() {
        let mut lines = LineReader::stdin_like(&b"a\r\n\nb\xFF"[..]);
        assert_eq!(lines.next_line().unwrap(), Some(&b"a"[..]));
        assert_eq!(lines.next_line().unwrap(), Some(&b""[..]));
        assert_eq!(lines.next_line().unwrap(), Some(&b"b\xFF"[..]));
        assert_eq!(lines.next_line().unwrap(), None);
    }

    #[test]
    fn long_line_is_truncated() {
        let mut lines = LineReader::new(std::io::repeat(b'a').take(5 << 20), "input", 1 << 20);
        assert_eq!(lines.next_line().unwrap().unwrap().len(), (1 << 20) + 1);
        assert_eq!(lines.next_line().unwrap(), None);
        let mut lines = LineReader::stdin_like(std::io::repeat(b'a').take(5 << 20));
        assert_eq!(lines.next_line().unwrap().unwrap().len(), 5 << 20);
    }
}
