//! External sort: sorted run files with checksums.
//!
//! A run file contains records in key order, each with a checksum, and ends with a record count, so that corrupt and missing
//! records are detected.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::ImportError;
use super::merge::{RawRecord, RunMerge};
use super::sort_buffer::{SortBuffer, VALUE_COUNT_LEN, key_start};
use crate::NameKey;
use crate::durable_dir;
use crate::model::change_set::MAX_RECORD_BYTES;

/// Maximum number of open run files.
const MAX_OPEN_RUNS: usize = 64;

/// Sorted run files of an import, in a directory that is removed on drop.
#[derive(Debug)]
pub(crate) struct SortedRuns {
    directory: PathBuf,
    /// Run files, oldest first.
    files: Vec<PathBuf>,
    next_run: usize,
}

impl SortedRuns {
    pub(crate) fn new(directory: PathBuf) -> io::Result<Self> {
        // Runs of an interrupted import are useless: its input is read again.
        durable_dir::recreate_private_dir(&directory)?;
        Ok(Self { directory, files: Vec::new(), next_run: 0 })
    }

    #[cfg(all(test, feature = "postgres"))]
    pub(crate) fn dir(&self) -> &Path {
        &self.directory
    }

    /// Writes the sort buffer to a new run and clears it. Returns the number of superseded records.
    pub(crate) fn spill(&mut self, buffer: &mut SortBuffer) -> Result<u64, ImportError> {
        buffer.sort();
        let (file, superseded) = self.write_run(RunMerge::new(&[], buffer)?)?;
        self.files.push(file);
        // Reuses the allocation, which avoids fragmentation.
        buffer.bytes.clear();
        buffer.slots.clear();
        Ok(superseded)
    }

    /// Merges all runs and the sort buffer. If there are too many to be open at once, the oldest are merged to longer runs
    /// first.
    pub(crate) fn merge<'b>(&mut self, last: &'b SortBuffer) -> Result<(RunMerge<'b>, u64), ImportError> {
        let mut superseded = 0;
        while self.files.len() > MAX_OPEN_RUNS {
            let mut at = 0;
            while self.files.len() > MAX_OPEN_RUNS && at < self.files.len() {
                let end =
                    (at + MAX_OPEN_RUNS).min(at + self.files.len() - MAX_OPEN_RUNS + 1).min(self.files.len());
                let group = self.files.get(at..end).unwrap_or_default();
                let (file, fewer) = self.write_run(RunMerge::new(group, &SortBuffer::new())?)?;
                superseded += fewer;
                for merged in self.files.splice(at..end, [file]) {
                    // Removed with the directory at the latest.
                    let _ = std::fs::remove_file(merged);
                }
                at += 1;
            }
        }
        Ok((RunMerge::new(&self.files, last)?, superseded))
    }

    /// Writes a run file. It is not synced: after a crash the import starts again.
    fn write_run(&mut self, mut merge: RunMerge<'_>) -> Result<(PathBuf, u64), ImportError> {
        let path = self.directory.join(format!("run-{}", self.next_run));
        self.next_run += 1;
        let run_error = |error| ImportError::RunFile { path: path.clone(), error };
        let mut out = BufWriter::with_capacity(1 << 18, File::create_new(&path).map_err(run_error)?);
        let mut count = 0_u64;
        while let Some(RawRecord { name, values }) = merge.next()? {
            write_record(&mut out, name, values).map_err(run_error)?;
            count += 1;
        }
        write_record(&mut out, b"", &count.to_le_bytes()).and_then(|()| out.flush()).map_err(run_error)?;
        Ok((path, merge.superseded))
    }
}

impl Drop for SortedRuns {
    fn drop(&mut self) {
        // On failure the next import removes them.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Header of each record: checksum, length of the name, length of the values.
const RUN_HEADER_LEN: usize = 12;

fn write_record(out: &mut impl io::Write, name: &[u8], values: &[u8]) -> io::Result<()> {
    let lengths = encode_lengths(name, values);
    out.write_all(&record_checksum(lengths, name, values).to_le_bytes())?;
    out.write_all(&lengths)?;
    out.write_all(name)?;
    out.write_all(values)
}

fn encode_lengths(name: &[u8], values: &[u8]) -> [u8; 8] {
    (name.len() as u64 | (values.len() as u64) << 32).to_le_bytes()
}

fn record_checksum(lengths: [u8; 8], name: &[u8], values: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&lengths), name), values)
}

/// Reader of one run file.
#[derive(Debug)]
pub(crate) struct RunReader {
    path: PathBuf,
    file: BufReader<File>,
    /// Number of records read.
    count: u64,
    pub(crate) key_start: u128,
    /// Length of the name at the start of `record`.
    pub(crate) name_len: usize,
    pub(crate) record: Vec<u8>,
}

impl RunReader {
    /// Opens a run file and reads its first record.
    pub(crate) fn open(path: &Path) -> Result<Self, ImportError> {
        let file = File::open(path).map_err(|error| ImportError::RunFile { path: path.into(), error })?;
        let file = BufReader::with_capacity(1 << 16, file);
        let mut reader =
            Self { path: path.into(), file, count: 0, key_start: 0, name_len: 0, record: Vec::new() };
        reader.advance()?;
        Ok(reader)
    }

    pub(crate) fn advance(&mut self) -> Result<(), ImportError> {
        self.read_next().map_err(|error| ImportError::RunFile { path: self.path.clone(), error })
    }

    fn read_next(&mut self) -> io::Result<()> {
        let corrupt = || io::Error::new(io::ErrorKind::InvalidData, "run file is corrupt");
        let mut header = [0; RUN_HEADER_LEN];
        self.file.read_exact(&mut header)?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let (name_len, values_len) = (word(4) as usize, word(8) as usize);
        // Checked before memory is allocated.
        if name_len > NameKey::MAX_LEN || values_len > MAX_RECORD_BYTES + VALUE_COUNT_LEN {
            return Err(corrupt());
        }
        self.record.resize(name_len + values_len, 0);
        self.file.read_exact(&mut self.record)?;
        let (name, values) = self.record.split_at(name_len);
        if record_checksum(encode_lengths(name, values), name, values) != word(0) {
            return Err(corrupt());
        }
        if name_len == 0 {
            let is_end = *values == self.count.to_le_bytes() && self.file.fill_buf()?.is_empty();
            self.record.clear();
            if !is_end {
                return Err(corrupt());
            }
        }
        (self.key_start, self.name_len) = (key_start(&self.record[..name_len]), name_len);
        self.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Sort buffer with these names and values.
    fn buffer(records: &[(&str, &str)]) -> SortBuffer {
        let mut buffer = SortBuffer::new();
        for (name, values) in records {
            buffer.push(name, |out| out.extend_from_slice(values.as_bytes())).unwrap();
        }
        buffer
    }

    fn all(mut merge: RunMerge<'_>) -> Result<Vec<(String, String)>, ImportError> {
        let mut all = Vec::new();
        while let Some(RawRecord { name, values }) = merge.next()? {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            all.push((text(name), text(values)));
        }
        Ok(all)
    }

    fn runs() -> (tempfile::TempDir, SortedRuns) {
        let directory = tempfile::tempdir().unwrap();
        let runs = SortedRuns::new(directory.path().join("runs")).unwrap();
        (directory, runs)
    }

    /// More runs than can be open: the last of equal keys wins, in the spelling of the first.
    #[test]
    fn merges_in_passes() {
        let (_directory, mut runs) = runs();
        let count = MAX_OPEN_RUNS * 3;
        let mut superseded = 0;
        for number in 0..count {
            let own = format!("own-{number:04}");
            let spelled = if number % 2 == 0 { "both" } else { "BOTH" };
            let text = number.to_string();
            superseded +=
                runs.spill(&mut buffer(&[(&own, &text), (spelled, "lost"), ("Both", &text)])).unwrap();
        }
        let mut last = buffer(&[("OWN-0007", "last"), ("zzz", "last")]);
        last.sort();
        let (mut merge, fewer) = runs.merge(&last).unwrap();
        assert!(std::fs::read_dir(&runs.directory).unwrap().count() <= MAX_OPEN_RUNS);
        let mut found = BTreeMap::new();
        while let Some(RawRecord { name, values }) = merge.next().unwrap() {
            found.insert(name.to_vec(), values.to_vec());
        }
        superseded += fewer + merge.superseded;
        assert_eq!(found.len(), count + 2);
        assert_eq!(found[&b"both"[..]], (count - 1).to_string().as_bytes());
        assert_eq!(found[&b"own-0007"[..]], b"last");
        assert_eq!(superseded as usize, 2 * count - 1 + 1);
    }

    /// Every changed byte and every truncation is detected and reported with the file name.
    #[test]
    fn detects_corrupt_runs() {
        let (_directory, mut runs) = runs();
        let empty = SortBuffer::new();
        runs.spill(&mut buffer(&[("b", "two"), ("a", "one"), ("c", "")])).unwrap();
        let path = runs.files[0].clone();
        let good = std::fs::read(&path).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            RunMerge::new(std::slice::from_ref(&path), &empty).and_then(all)
        };
        assert_eq!(read(&good).unwrap().len(), 3);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            let error = read(&bad).unwrap_err().to_string();
            assert!(error.contains("run-0"), "byte {at}: {error}");
            assert!(read(&good[..at]).is_err(), "truncated at {at}");
        }
        assert!(read(&[&good[..], b"x"].concat()).is_err(), "trailing byte");
        // A whole record is missing.
        assert!(read(&good[RUN_HEADER_LEN + 4..]).is_err());
    }

    #[test]
    fn run_directory_is_private_and_removed() {
        let (_directory, mut runs) = runs();
        runs.spill(&mut buffer(&[("a", "one")])).unwrap();
        let directory = runs.directory.clone();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        }
        drop(runs);
        assert!(!directory.exists());
    }
}
