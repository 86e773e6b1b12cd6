//! Line-aligned chunk of a file: the lines that begin between two offsets.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

/// Reader of the lines that begin within a byte range of a file.
pub(crate) struct FileChunk {
    file: File,
    /// Offset of the next byte.
    position: u64,
    range: Range<u64>,
    is_finished: bool,
}

impl FileChunk {
    /// Chunk size; larger files are searched in several chunks.
    pub(crate) const CHUNK_BYTES: u64 = 8 << 20;

    /// Opens the file and skips to the first line that begins in the range.
    pub(crate) fn open(path: &Path, range: Range<u64>) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut at = range.start;
        let mut is_finished = false;
        if range.start > 0 {
            // A line that begins before the range belongs to the previous chunk.
            at = range.start - 1;
            file.seek(SeekFrom::Start(at))?;
            let mut buffer = [0; 4096];
            loop {
                let read = match file.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read?,
                };
                let end = memchr::memchr(b'\n', &buffer[..read]);
                at += end.map_or(read, |end| end + 1) as u64;
                if end.is_some() || read == 0 || at >= range.end {
                    is_finished = read == 0 || at >= range.end;
                    break;
                }
            }
            file.seek(SeekFrom::Start(at))?;
        }
        Ok(Self { file, position: at, range, is_finished })
    }

    /// Offset of the next byte; before the first read, of the first line.
    pub(crate) const fn position(&self) -> u64 {
        self.position
    }
}

impl Read for FileChunk {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_finished {
            return Ok(0);
        }
        let mut read = self.file.read(buffer)?;
        let last_byte = self.range.end.saturating_sub(1);
        if self.position + read as u64 > last_byte {
            // The chunk ends at the first line ending at or after this offset.
            let from = usize::try_from(last_byte.saturating_sub(self.position)).unwrap_or(0);
            if let Some(end) = memchr::memchr(b'\n', &buffer[from..read]) {
                read = from + end + 1;
                self.is_finished = true;
            }
        }
        self.position += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn each_line_is_in_one_chunk() {
        let text = b"one\ntwo\n\nthree and four\nfive\nsix without end";
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        for size in 1..=text.len() as u64 {
            let mut joined = Vec::new();
            for start in (0..text.len() as u64).step_by(size as usize) {
                let mut chunk = FileChunk::open(file.path(), start..start + size).unwrap();
                let before = chunk.position();
                let mut lines = Vec::new();
                chunk.read_to_end(&mut lines).unwrap();
                if !lines.is_empty() {
                    assert_eq!(before, joined.len() as u64, "chunks of {size} bytes");
                }
                joined.extend(lines);
            }
            assert_eq!(joined, text, "chunks of {size} bytes");
        }
    }
}
