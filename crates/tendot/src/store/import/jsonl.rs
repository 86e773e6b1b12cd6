//! JSON lines: read by one thread, parsed by several.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tendot_proto::record::HandleRecord;

use super::ImportItem;
use super::chunk::{CHUNK_BYTES, ImportChunk, ImportOptions};
use super::source::ImportSource;
use crate::CliError;
use crate::line_reader::LineReader;

/// Maximum bytes of lines in memory; a longer line is read alone.
const MAX_BUFFERED_BYTES: usize = 4 << 20;

/// Splits a source into blocks of lines.
pub(super) fn line_blocks(source: ImportSource) -> impl Iterator<Item = Result<LineBlock, CliError>> + Send {
    let (name, reader) = source.into_parts();
    let mut lines = LineReader::new(reader, &name, MAX_RECORD_BYTES);
    let (room, mut number) = (Arc::new(MemoryLimiter::default()), 0);
    std::iter::from_fn(move || {
        let block = LineBlock::read(&mut lines, number, &room).transpose()?;
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
    _place: MemoryPermit,
}

impl LineBlock {
    fn read(
        lines: &mut LineReader<impl Read>,
        before: u64,
        room: &Arc<MemoryLimiter>,
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
        let place = room.acquire(text.len());
        Ok(Some(Self { before, count, text, _place: place }))
    }

    pub(super) fn parse(&self, taken: ImportOptions) -> ImportChunk {
        let mut piece = ImportChunk::new(taken);
        let mut begin = 0;
        for (end, number) in memchr::memchr_iter(b'\n', &self.text).zip(self.before + 1..) {
            let line = &self.text[begin..end];
            begin = end + 1;
            if line.len() > MAX_RECORD_BYTES {
                piece.push(
                    number,
                    ImportItem::Refused(format!("the line has more than {MAX_RECORD_BYTES} bytes")),
                );
            } else if !line.trim_ascii().is_empty() {
                piece.push(
                    number,
                    match HandleRecord::from_json(line) {
                        Ok(record) => ImportItem::Record(record),
                        Err(error) => ImportItem::Refused(error.to_string()),
                    },
                );
            }
        }
        piece
    }
}

/// Bounds the bytes of lines in memory.
#[derive(Default)]
struct MemoryLimiter {
    taken: Mutex<usize>,
    left: Condvar,
}

impl MemoryLimiter {
    /// Blocks until the bytes fit, or no other permit is held.
    fn acquire(self: &Arc<Self>, size: usize) -> MemoryPermit {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken > 0 && *taken + size > MAX_BUFFERED_BYTES;
        let mut taken = self.left.wait_while(taken, is_full).unwrap_or_else(PoisonError::into_inner);
        *taken += size;
        MemoryPermit { room: Arc::clone(self), size }
    }
}

/// Bytes acquired from a `MemoryLimiter`, released on drop.
struct MemoryPermit {
    room: Arc<MemoryLimiter>,
    size: usize,
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        *self.room.taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.size;
        self.room.left.notify_one();
    }
}
