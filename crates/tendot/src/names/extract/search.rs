//! Streaming search of one input in bounded memory.

use std::io::{self, Read};

use tendot_names::{ExtractStep, ExtractedDoi, ExtractionFlags, Extractor};

/// DOI name found in an input, with its position.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Hit {
    pub(crate) name: String,
    /// Line number, relative to the searched chunk.
    pub(crate) line: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Matched bytes as text.
    pub(crate) text: String,
    pub(crate) flags: ExtractionFlags,
}

impl Hit {
    /// Hit for a name found in a buffer that begins at offset `base`.
    pub(crate) fn new(found: &ExtractedDoi<'_>, text: &[u8], base: u64, line: u64) -> Self {
        let raw = text.get(found.span.clone()).unwrap_or_default();
        Self {
            name: found.doi.to_string(),
            line,
            start: base + found.span.start as u64,
            end: base + found.span.end as u64,
            text: String::from_utf8_lossy(raw).into_owned(),
            flags: found.flags,
        }
    }
}

/// Read buffer size; fits into the CPU cache.
const READ_BUFFER_BYTES: usize = 1 << 16;

/// Receiver of the names found by a search.
pub(crate) trait NameSink {
    type Error;

    /// Whether lines are counted.
    const COUNTS_LINES: bool;

    fn push(
        &mut self,
        found: &ExtractedDoi<'_>,
        text: &[u8],
        base: u64,
        line: u64,
    ) -> Result<(), Self::Error>;

    /// Called before a read that may block.
    fn before_read(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Searches a reader that begins at offset `base`; returns the number of lines, if the sink counts them.
pub(crate) fn search<S: NameSink>(
    mut reader: impl Read,
    extractor: Extractor,
    mut base: u64,
    sink: &mut S,
) -> Result<u64, SearchError<S::Error>> {
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    let mut filled = 0;
    let mut scan = extractor.incremental();
    let mut lines = LineCounter::default();
    // Buffered bytes from which on a long candidate is scanned again: twice as many as before, so that all work is linear.
    let mut rescan_at = 0;
    loop {
        let read = match reader.read(&mut buffer[filled..]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(SearchError::Read(error)),
        };
        filled += read;
        let is_last = read == 0;
        if filled < rescan_at && !is_last {
            continue;
        }
        let text = &buffer[..filled];
        let keep_from = loop {
            match scan.next_doi(text, is_last) {
                ExtractStep::Found(found) => {
                    let line = if S::COUNTS_LINES { lines.advance_to(text, found.span.start) } else { 0 };
                    sink.push(&found, text, base, line).map_err(SearchError::Sink)?;
                }
                ExtractStep::NeedMoreInput { keep_from } => break keep_from,
                ExtractStep::End => {
                    return Ok(if S::COUNTS_LINES { lines.advance_to(text, filled) } else { 0 });
                }
            }
        };
        if S::COUNTS_LINES {
            lines.advance_to(text, keep_from.max(lines.counted));
            lines.counted -= keep_from.min(lines.counted);
        }
        buffer.copy_within(keep_from..filled, 0);
        filled -= keep_from;
        base += keep_from as u64;
        scan.consume(keep_from);
        rescan_at = if filled > READ_BUFFER_BYTES / 2 { filled * 2 } else { 0 };
        if buffer.len() < rescan_at {
            buffer.resize(rescan_at, 0);
        }
        sink.before_read().map_err(SearchError::Sink)?;
    }
}

/// Reading failed, or the sink refused.
#[derive(Debug)]
pub(crate) enum SearchError<E> {
    Read(io::Error),
    Sink(E),
}

/// Incremental line counter.
#[derive(Default)]
struct LineCounter {
    /// Buffer offset up to which lines are counted.
    counted: usize,
    ends: u64,
}

impl LineCounter {
    /// Returns the number of line endings before `at`.
    fn advance_to(&mut self, text: &[u8], at: usize) -> u64 {
        self.ends += memchr::memchr_iter(b'\n', &text[self.counted..at]).count() as u64;
        self.counted = at;
        self.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct CollectAll(Vec<(String, u64, u64)>);

    impl NameSink for CollectAll {
        type Error = ();
        const COUNTS_LINES: bool = true;

        fn push(&mut self, found: &ExtractedDoi<'_>, _: &[u8], base: u64, line: u64) -> Result<(), ()> {
            self.0.push((found.doi.to_string(), line, base + found.span.start as u64));
            Ok(())
        }
    }

    /// Reader that returns chunks of a fixed size.
    struct ChunkedReader<'a>(&'a [u8], usize);

    impl Read for ChunkedReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(buffer.len());
            (&mut self.0).take(size as u64).read(buffer)
        }
    }

    #[test]
    fn chunk_size_does_not_change_results() {
        let text = "see doi:10.1000/1, (10.1000/182)\nhttps://doi.org/10.1002/(SICI)1096-8644(199601)99:1&lt;135::\
                    AID-AJPA8&gt;3.0.CO;2-#\n10.1016/j.brainresrev.2010.03.\n002 and 10.12/x, 10.1234/日本 10.1000/a"
            .as_bytes();
        for extractor in [Extractor::new(), Extractor::new().join_lines(true)] {
            let expected: Vec<_> = extractor
                .find_iter(text)
                .map(|found| {
                    let line = memchr::memchr_iter(b'\n', &text[..found.span.start]).count() as u64;
                    (found.doi.to_string(), line, found.span.start as u64)
                })
                .collect();
            assert!(expected.len() >= 5);
            for size in 1..=text.len() {
                let mut all = CollectAll(Vec::new());
                let lines = search(ChunkedReader(text, size), extractor, 0, &mut all).unwrap();
                assert_eq!(all.0, expected, "in chunks of {size} bytes");
                assert_eq!(lines, 3);
            }
        }
    }

    #[test]
    fn names_have_no_maximum_length() {
        let text = format!("10.1000/1 10.1000/{} 10.1000/2", "abc.".repeat(500_000) + "d");
        let expected = ["10.1000/1".len(), "10.1000/".len() + 2_000_001, "10.1000/2".len()];
        for size in [usize::MAX, 4_096] {
            let mut all = CollectAll(Vec::new());
            search(ChunkedReader(text.as_bytes(), size), Extractor::new(), 0, &mut all).unwrap();
            let lengths: Vec<usize> = all.0.iter().map(|(name, ..)| name.len()).collect();
            assert_eq!(lengths, expected, "by {size}");
        }
    }
}
