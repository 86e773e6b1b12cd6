//! JSON lines: read by one thread, parsed by several.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tendot_proto::record::HandleRecord;

use super::chunk::{CHUNK_BYTES, ImportChunk, ImportOptions};
use super::source::ImportSource;
use super::{ImportItem, MAX_RECORD_BYTES};
use crate::CliError;
use crate::line_reader::LineReader;

/// Maximum bytes of lines in memory; a longer line is read alone.
const MAX_BUFFERED_BYTES: usize = 4 << 20;

/// Splits a source into blocks of lines.
pub(super) fn line_blocks(source: ImportSource) -> impl Iterator<Item = Result<LineBlock, CliError>> + Send {
    let (name, reader) = source.into_parts();
    let mut lines = LineReader::new(reader, &name, MAX_RECORD_BYTES);
    let (limiter, mut number) = (Arc::new(MemoryLimiter::default()), 0);
    std::iter::from_fn(move || {
        let block = LineBlock::read(&mut lines, number, &limiter).transpose()?;
        number += block.as_ref().map_or(0, |block| block.count);
        Some(block)
    })
}

/// Consecutive lines parsed as one job.
pub(super) struct LineBlock {
    /// Number of lines before the block.
    before: u64,
    count: u64,
    /// Lines with their line endings.
    text: Vec<u8>,
    _permit: MemoryPermit,
}

impl LineBlock {
    fn read(
        lines: &mut LineReader<impl Read>,
        before: u64,
        limiter: &Arc<MemoryLimiter>,
    ) -> Result<Option<Self>, CliError> {
        let (mut text, mut count) = (Vec::with_capacity(CHUNK_BYTES), 0);
        while text.len() < CHUNK_BYTES
            && let Some(line) = lines.next_line()?
        {
            count += 1;
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        if count == 0 {
            return Ok(None);
        }
        let permit = limiter.acquire(text.len());
        Ok(Some(Self { before, count, text, _permit: permit }))
    }

    pub(super) fn parse(&self, options: ImportOptions) -> ImportChunk {
        let mut chunk = ImportChunk::new(options);
        let mut begin = 0;
        for (end, number) in memchr::memchr_iter(b'\n', &self.text).zip(self.before + 1..) {
            let line = &self.text[begin..end];
            begin = end + 1;
            if line.len() > MAX_RECORD_BYTES {
                chunk.push(number, ImportItem::Refused(format!("line exceeds {MAX_RECORD_BYTES} bytes")));
            } else if !line.trim_ascii().is_empty() {
                chunk.push(
                    number,
                    match HandleRecord::from_json(line) {
                        Ok(record) => ImportItem::Record(record),
                        Err(error) => ImportItem::Refused(error.to_string()),
                    },
                );
            }
        }
        chunk
    }
}

/// Bounds the bytes of lines in memory.
#[derive(Default)]
struct MemoryLimiter {
    used: Mutex<usize>,
    released: Condvar,
}

impl MemoryLimiter {
    /// Blocks until the bytes fit, or no other permit is held.
    fn acquire(self: &Arc<Self>, size: usize) -> MemoryPermit {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |used: &mut usize| *used > 0 && *used + size > MAX_BUFFERED_BYTES;
        let mut used = self.released.wait_while(used, is_full).unwrap_or_else(PoisonError::into_inner);
        *used += size;
        MemoryPermit { limiter: Arc::clone(self), size }
    }
}

/// Bytes acquired from a `MemoryLimiter`, released on drop.
struct MemoryPermit {
    limiter: Arc<MemoryLimiter>,
    size: usize,
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        *self.limiter.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.size;
        self.limiter.released.notify_one();
    }
}
