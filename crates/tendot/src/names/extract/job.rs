//! Search job: standard input, a file, or a chunk of a large file.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tendot_names::{ExtractedDoi, Extractor};

use super::chunk::FileChunk;
use super::delimiter;
use super::search::{Hit, NameSink, SearchError, search};
use crate::ordered_pool::{ReceiverGone, ResultSender};

/// One input to search: stdin, a file or a chunk of a file.
pub(crate) struct ExtractJob {
    path: Arc<Path>,
    input: JobInput,
    field_delimiter: Option<u8>,
}

enum JobInput {
    Stdin,
    /// Read to its end: a pipe, or a file that is not split into chunks.
    WholeFile {
        is_regular: bool,
    },
    Chunk(Range<u64>),
    Unreadable(io::Error),
}

/// Output of a search job, in order: any number of `Names` or `Hits`, then one of the others.
pub(crate) enum ExtractEvent {
    /// Names, one per line, and their number.
    Names(Vec<u8>, u64),
    /// Names with positions and flags; line numbers are relative to the chunk.
    Hits(Arc<Path>, Vec<Hit>),
    /// End of a chunk: its lines (if counted) and bytes, and whether it is the last of its file.
    ChunkEnd { lines: u64, bytes: u64, is_last: bool },
    /// The input could not be opened or read to its end.
    ReadFailed(Arc<Path>, io::Error),
}

impl ExtractJob {
    /// Jobs for one path; with `split_files`, large files are split into chunks.
    pub(crate) fn for_path(
        path: Result<(PathBuf, Option<Metadata>), (PathBuf, io::Error)>,
        split_files: bool,
    ) -> Box<dyn Iterator<Item = Self> + Send> {
        let single = |path: PathBuf, input, field_delimiter| -> Box<dyn Iterator<Item = Self> + Send> {
            Box::new(std::iter::once(Self { path: path.into(), input, field_delimiter }))
        };
        let (path, metadata) = match path {
            Ok((path, Some(metadata))) => (path, metadata),
            Ok((path, None)) => return single(path, JobInput::Stdin, None),
            Err((path, error)) => return single(path, JobInput::Unreadable(error), None),
        };
        let is_regular = metadata.is_file();
        let field_delimiter = match delimiter::detect_delimiter(&path, is_regular) {
            Ok(delimiter) => delimiter,
            Err(error) => return single(path, JobInput::Unreadable(error), None),
        };
        if !split_files || !is_regular || metadata.len() < 2 * FileChunk::CHUNK_BYTES {
            return single(path, JobInput::WholeFile { is_regular }, field_delimiter);
        }
        if let Err(error) = File::open(&path) {
            // Reported once, not for every chunk.
            return single(path, JobInput::Unreadable(error), None);
        }
        let path: Arc<Path> = path.into();
        let chunks = metadata.len().div_ceil(FileChunk::CHUNK_BYTES);
        Box::new((0..chunks).map(move |chunk| {
            let start = chunk * FileChunk::CHUNK_BYTES;
            // The last chunk has no end: the file may grow.
            let end = if chunk + 1 == chunks { u64::MAX } else { start + FileChunk::CHUNK_BYTES };
            Self { path: path.clone(), input: JobInput::Chunk(start..end), field_delimiter }
        }))
    }

    /// Searches the input and sends events as names are found.
    pub(crate) fn search(self, extractor: Extractor, with_lines: bool, results: &ResultSender<ExtractEvent>) {
        let Self { path, input, field_delimiter } = self;
        let extractor = extractor.field_separator(field_delimiter);
        let result = match input {
            JobInput::Unreadable(error) => Err(SearchError::Read(error)),
            JobInput::Stdin => {
                let collector = ExtractCollector {
                    path: path.clone(),
                    results,
                    flush_before_read: true,
                    names: Vec::new(),
                    hits: Vec::new(),
                    count: 0,
                };
                collector.search(io::stdin().lock(), 0, extractor, with_lines).map(|lines| (lines, 0, true))
            }
            JobInput::WholeFile { is_regular } => {
                search_range(&path, 0..u64::MAX, !is_regular, extractor, with_lines, results)
            }
            JobInput::Chunk(range) => search_range(&path, range, false, extractor, with_lines, results),
        };
        // An error means that the receiver is gone.
        let _ = match result {
            Ok((lines, bytes, is_last)) => results.send(ExtractEvent::ChunkEnd { lines, bytes, is_last }),
            Err(SearchError::Read(error)) => results.send(ExtractEvent::ReadFailed(path, error)),
            Err(SearchError::Sink(ReceiverGone)) => Ok(()),
        };
    }
}

fn search_range(
    path: &Arc<Path>,
    range: Range<u64>,
    flush_before_read: bool,
    extractor: Extractor,
    with_lines: bool,
    results: &ResultSender<ExtractEvent>,
) -> Result<(u64, u64, bool), SearchError<ReceiverGone>> {
    let is_last = range.end == u64::MAX;
    let mut chunk = FileChunk::open(path, range).map_err(SearchError::Read)?;
    let start = chunk.position();
    let collector = ExtractCollector {
        path: path.clone(),
        results,
        flush_before_read,
        names: Vec::new(),
        hits: Vec::new(),
        count: 0,
    };
    let lines = collector.search(&mut chunk, start, extractor, with_lines)?;
    Ok((lines, chunk.position() - start, is_last))
}

/// Collects names and sends them in batches.
struct ExtractCollector<'a> {
    path: Arc<Path>,
    results: &'a ResultSender<ExtractEvent>,
    /// Send names before blocking on slow input.
    flush_before_read: bool,
    names: Vec<u8>,
    hits: Vec<Hit>,
    count: u64,
}

impl ExtractCollector<'_> {
    const MAX_BATCH_BYTES: usize = 1 << 15;
    const MAX_BATCH_HITS: usize = 256;

    fn search(
        mut self,
        reader: impl Read,
        start: u64,
        extractor: Extractor,
        with_lines: bool,
    ) -> Result<u64, SearchError<ReceiverGone>> {
        let lines = if with_lines {
            search(reader, extractor, start, &mut HitCollector(&mut self))?
        } else {
            search(reader, extractor, start, &mut self)?
        };
        self.flush().map_err(SearchError::Sink)?;
        Ok(lines)
    }

    fn flush(&mut self) -> Result<(), ReceiverGone> {
        if !self.names.is_empty() {
            let names = std::mem::replace(&mut self.names, Vec::with_capacity(Self::MAX_BATCH_BYTES));
            self.results.send(ExtractEvent::Names(names, std::mem::take(&mut self.count)))?;
        }
        if !self.hits.is_empty() {
            self.results.send(ExtractEvent::Hits(self.path.clone(), std::mem::take(&mut self.hits)))?;
        }
        Ok(())
    }
}

impl NameSink for ExtractCollector<'_> {
    type Error = ReceiverGone;
    const COUNTS_LINES: bool = false;

    fn push(&mut self, found: &ExtractedDoi<'_>, _: &[u8], _: u64, _: u64) -> Result<(), ReceiverGone> {
        self.names.extend_from_slice(found.doi.as_str().as_bytes());
        self.names.push(b'\n');
        self.count += 1;
        if self.names.len() < Self::MAX_BATCH_BYTES { Ok(()) } else { self.flush() }
    }

    fn before_read(&mut self) -> Result<(), ReceiverGone> {
        if self.flush_before_read { self.flush() } else { Ok(()) }
    }
}

/// `ExtractCollector` that also records positions and flags.
struct HitCollector<'a, 'b>(&'a mut ExtractCollector<'b>);

impl NameSink for HitCollector<'_, '_> {
    type Error = ReceiverGone;
    const COUNTS_LINES: bool = true;

    fn push(
        &mut self,
        found: &ExtractedDoi<'_>,
        text: &[u8],
        base: u64,
        line: u64,
    ) -> Result<(), ReceiverGone> {
        self.0.hits.push(Hit::new(found, text, base, line));
        if self.0.hits.len() < ExtractCollector::MAX_BATCH_HITS { Ok(()) } else { self.0.flush() }
    }

    fn before_read(&mut self) -> Result<(), ReceiverGone> {
        self.0.before_read()
    }
}
