//! Sorted runs: what does not fit into memory waits on disk, in order.
//!
//! A run is a file of records, each with a checksum, in the order of their keys. The last one has no name, and says how
//! many there are before it: neither a damaged nor a missing record goes unnoticed.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::import::ImportError;
use super::{folder, writer};
use crate::NameKey;

/// Runs that are open at the same time.
const MAX_OPEN_RUNS: usize = 64;

/// Bytes of the number of values, which is not counted as part of a record.
const VALUE_COUNT_LEN: usize = 4;

/// Records in one contiguous buffer, with an index that is sorted.
#[derive(Debug, Default)]
pub(super) struct SortBuffer {
    bytes: Vec<u8>,
    places: Vec<RecordSlot>,
}

/// Position of a record in a sort buffer.
#[derive(Clone, Copy, Debug)]
struct RecordSlot {
    /// The beginning of its key, which tells most records apart.
    start: u128,
    at: usize,
    name: u32,
    values: u32,
}

impl SortBuffer {
    pub(super) const fn new() -> Self {
        Self { bytes: Vec::new(), places: Vec::new() }
    }

    /// Adds a record: its name, and the wire form of its values, their number first, which `write` appends to what it is given.
    pub(super) fn push(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), ImportError> {
        NameKey::validate(name)?;
        let at = self.bytes.len();
        self.bytes.extend_from_slice(name.as_bytes());
        write(&mut self.bytes);
        let values = self.bytes.len() - at - name.len();
        if values > writer::MAX_RECORD_BYTES + VALUE_COUNT_LEN {
            self.bytes.truncate(at);
            return Err(ImportError::TooLarge {
                length: values - VALUE_COUNT_LEN,
                limit: writer::MAX_RECORD_BYTES,
            });
        }
        let (start, name, values) = (key_start(name.as_bytes()), name.len() as u32, values as u32);
        self.places.push(RecordSlot { start, at, name, values });
        Ok(())
    }

    /// Adds all records of another one.
    pub(super) fn append(&mut self, other: &Self) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.places.extend(other.places.iter().map(|place| RecordSlot { at: at + place.at, ..*place }));
    }

    pub(super) const fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes of memory that it takes.
    pub(super) const fn memory_size(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<RecordSlot>()
    }

    fn record(&self, place: &RecordSlot) -> Record<'_> {
        let record = self.bytes.get(place.at..).unwrap_or_default();
        let (name, rest) = record.split_at_checked(place.name as usize).unwrap_or_default();
        (name, rest.get(..place.values as usize).unwrap_or_default())
    }

    /// Puts the records in the order of their keys; of equal ones those that came first stay first.
    pub(super) fn sort(&mut self) {
        let mut places = std::mem::take(&mut self.places);
        places.sort_unstable_by(|one, two| {
            let (first, second) = (self.record(one).0, self.record(two).0);
            compare_keys((one.start, first), (two.start, second)).then(one.at.cmp(&two.at))
        });
        self.places = places;
    }
}

/// The first bytes of a name's key, as a number that sorts like them.
fn key_start(name: &[u8]) -> u128 {
    let mut start = [0; 16];
    for (to, byte) in start.iter_mut().zip(name) {
        *to = byte.to_ascii_uppercase();
    }
    u128::from_be_bytes(start)
}

/// The order of the keys of two names, of which the beginnings are known.
fn compare_keys((start, one): (u128, &[u8]), (other, two): (u128, &[u8])) -> Ordering {
    let rest = |name| <[u8]>::get(name, 16..).unwrap_or_default().iter().map(u8::to_ascii_uppercase);
    // The lengths tell a short name from the same one with zeros after it.
    start.cmp(&other).then_with(|| rest(one).cmp(rest(two))).then_with(|| one.len().cmp(&two.len()))
}

/// Sorted run files of an import, in a directory that is removed on drop.
#[derive(Debug)]
pub(super) struct SortedRuns {
    folder: PathBuf,
    /// Oldest first.
    files: Vec<PathBuf>,
    made: usize,
}

impl SortedRuns {
    pub(super) fn new(folder: PathBuf) -> io::Result<Self> {
        // What an interrupted import left is of no use: its input comes again.
        folder::recreate_private_dir(&folder)?;
        Ok(Self { folder, files: Vec::new(), made: 0 })
    }

    #[cfg(all(test, feature = "postgres"))]
    pub(super) fn dir(&self) -> &Path {
        &self.folder
    }

    /// Writes what is in memory to a new run, and empties it. Gives how many records another one took the place of.
    pub(super) fn spill(&mut self, buffer: &mut SortBuffer) -> Result<u64, ImportError> {
        buffer.sort();
        let (file, superseded) = self.write_run(RunMerge::new(&[], buffer)?)?;
        self.files.push(file);
        // Its memory is used again: to let it grow anew each time would leave holes.
        buffer.bytes.clear();
        buffer.places.clear();
        Ok(superseded)
    }

    /// All runs and what is in memory, in order. There may be too many to be open at once; then the oldest ones become
    /// fewer and longer ones first.
    pub(super) fn merge<'b>(&mut self, last: &'b SortBuffer) -> Result<(RunMerge<'b>, u64), ImportError> {
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
                    // It goes with the folder at the latest.
                    let _ = std::fs::remove_file(merged);
                }
                at += 1;
            }
        }
        Ok((RunMerge::new(&self.files, last)?, superseded))
    }

    /// Writes a run. It is not made durable: after a crash the import begins anew.
    fn write_run(&mut self, mut merge: RunMerge<'_>) -> Result<(PathBuf, u64), ImportError> {
        let path = self.folder.join(format!("run-{}", self.made));
        self.made += 1;
        let failed = |error| ImportError::Run { path: path.clone(), error };
        let mut out = BufWriter::with_capacity(1 << 18, File::create_new(&path).map_err(failed)?);
        let mut count = 0_u64;
        while let Some((name, values)) = merge.next()? {
            write_record(&mut out, name, values).map_err(failed)?;
            count += 1;
        }
        write_record(&mut out, b"", &count.to_le_bytes()).and_then(|()| out.flush()).map_err(failed)?;
        Ok((path, merge.superseded))
    }
}

impl Drop for SortedRuns {
    fn drop(&mut self) {
        // They are of no use any more, and the next import would remove them.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Bytes before each record of a run: checksum, length of the name, length of the values.
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

/// The name of a record and the wire form of its values.
type Record<'a> = (&'a [u8], &'a [u8]);

/// K-way merge of sorted runs; the last of equal keys wins, in the spelling of the first.
#[derive(Debug)]
pub(crate) struct RunMerge<'b> {
    sources: Vec<MergeSource<'b>>,
    /// A heap of those that have more: none comes after those at twice its place and one or two more.
    heap: Vec<usize>,
    /// The record that was taken.
    name: Vec<u8>,
    values: Vec<u8>,
    /// Records that another with the same key took the place of.
    pub(crate) superseded: u64,
}

impl<'b> RunMerge<'b> {
    /// Of runs in files, oldest first, and of one in memory that came last.
    fn new(files: &[PathBuf], last: &'b SortBuffer) -> Result<Self, ImportError> {
        let mut sources = Vec::with_capacity(files.len() + 1);
        for file in files {
            sources.push(MergeSource::File(RunReader::open(file)?));
        }
        sources.push(MergeSource::Memory(last, &last.places));
        let mut heap = Vec::with_capacity(sources.len());
        for (number, source) in sources.iter().enumerate() {
            if !source.is_at_end() {
                heap.push(number);
            }
        }
        let mut merge = Self { sources, heap, name: Vec::new(), values: Vec::new(), superseded: 0 };
        for place in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(place);
        }
        Ok(merge)
    }

    /// The next record.
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>, ImportError> {
        let Some(first) = self.heap.first() else { return Ok(None) };
        let (start, name, values) = self.sources[*first].current();
        self.name.clear();
        self.name.extend_from_slice(name);
        self.values.clear();
        self.values.extend_from_slice(values);
        self.advance()?;
        while let Some(next) = self.heap.first() {
            let (next_start, name, values) = self.sources[*next].current();
            if compare_keys((start, &self.name), (next_start, name)) != Ordering::Equal {
                break;
            }
            self.values.clear();
            self.values.extend_from_slice(values);
            self.superseded += 1;
            self.advance()?;
        }
        Ok(Some((&self.name, &self.values)))
    }

    /// Goes on in the source that is first.
    fn advance(&mut self) -> Result<(), ImportError> {
        let source = &mut self.sources[self.heap[0]];
        source.advance()?;
        if source.is_at_end() {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }

    /// Moves the source at a place down to where it belongs.
    fn sift_down(&mut self, mut place: usize) {
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() && self.is_before(self.heap[child], self.heap[least]) {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.heap.swap(place, least);
            place = least;
        }
    }

    /// Whether the record of one source comes before that of another; of equal ones the older.
    fn is_before(&self, one: usize, two: usize) -> bool {
        let (start, name, _) = self.sources[one].current();
        let (other_start, other, _) = self.sources[two].current();
        compare_keys((start, name), (other_start, other)).then(one.cmp(&two)) == Ordering::Less
    }
}

/// Input of a merge: a run file or the sort buffer.
#[derive(Debug)]
enum MergeSource<'b> {
    File(RunReader),
    Memory(&'b SortBuffer, &'b [RecordSlot]),
}

impl MergeSource<'_> {
    /// The beginning of the key, the name and the values; the name is empty at the end.
    fn current(&self) -> (u128, &[u8], &[u8]) {
        match self {
            Self::File(file) => (file.start, &file.record[..file.name], &file.record[file.name..]),
            Self::Memory(buffer, left) => left.first().map_or((0, &[], &[]), |place| {
                let (name, values) = buffer.record(place);
                (place.start, name, values)
            }),
        }
    }

    fn is_at_end(&self) -> bool {
        self.current().1.is_empty()
    }

    fn advance(&mut self) -> Result<(), ImportError> {
        match self {
            Self::File(file) => file.advance(),
            Self::Memory(_, left) => {
                *left = left.get(1..).unwrap_or_default();
                Ok(())
            }
        }
    }
}

/// Reader of one run file.
#[derive(Debug)]
struct RunReader {
    path: PathBuf,
    file: BufReader<File>,
    /// Records that were read.
    count: u64,
    start: u128,
    /// Bytes of the name, with which the record begins.
    name: usize,
    record: Vec<u8>,
}

impl RunReader {
    /// Opens a run and reads its first record.
    fn open(path: &Path) -> Result<Self, ImportError> {
        let file = File::open(path).map_err(|error| ImportError::Run { path: path.into(), error })?;
        let file = BufReader::with_capacity(1 << 16, file);
        let mut reading = Self { path: path.into(), file, count: 0, start: 0, name: 0, record: Vec::new() };
        reading.advance()?;
        Ok(reading)
    }

    fn advance(&mut self) -> Result<(), ImportError> {
        self.read_next().map_err(|error| ImportError::Run { path: self.path.clone(), error })
    }

    fn read_next(&mut self) -> io::Result<()> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the run is damaged");
        let mut header = [0; RUN_HEADER_LEN];
        self.file.read_exact(&mut header)?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let (name, values) = (word(4) as usize, word(8) as usize);
        // Before memory is taken for them.
        if name > NameKey::MAX_LEN || values > writer::MAX_RECORD_BYTES + VALUE_COUNT_LEN {
            return Err(damaged());
        }
        self.record.resize(name + values, 0);
        self.file.read_exact(&mut self.record)?;
        let (written, read) = self.record.split_at(name);
        if record_checksum(encode_lengths(written, read), written, read) != word(0) {
            return Err(damaged());
        }
        if name == 0 {
            let is_end = *read == self.count.to_le_bytes() && self.file.fill_buf()?.is_empty();
            self.record.clear();
            if !is_end {
                return Err(damaged());
            }
        }
        (self.start, self.name) = (key_start(&self.record[..name]), name);
        self.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A buffer of names and values.
    fn buffer(records: &[(&str, &str)]) -> SortBuffer {
        let mut buffer = SortBuffer::new();
        for (name, values) in records {
            buffer.push(name, |out| out.extend_from_slice(values.as_bytes())).unwrap();
        }
        buffer
    }

    fn all(mut merge: RunMerge<'_>) -> Result<Vec<(String, String)>, ImportError> {
        let mut all = Vec::new();
        while let Some((name, values)) = merge.next()? {
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

    proptest! {
        #[test]
        fn names_are_in_the_order_of_their_keys(one in "[ab\\x00é]{1,20}", two in "[AB\\x00é]{1,20}") {
            let expected = NameKey::new(&one).unwrap().cmp(&NameKey::new(&two).unwrap());
            let (one, two) = (one.as_bytes(), two.as_bytes());
            prop_assert_eq!(compare_keys((key_start(one), one), (key_start(two), two)), expected);
        }
    }

    /// More runs than can be open: the last of equal names wins, in the spelling of the first, wherever they are.
    #[test]
    fn runs_are_merged_in_passes() {
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
        assert!(std::fs::read_dir(&runs.folder).unwrap().count() <= MAX_OPEN_RUNS);
        let mut found = BTreeMap::new();
        while let Some((name, values)) = merge.next().unwrap() {
            found.insert(name.to_vec(), values.to_vec());
        }
        superseded += fewer + merge.superseded;
        assert_eq!(found.len(), count + 2);
        assert_eq!(found[&b"both"[..]], (count - 1).to_string().as_bytes());
        assert_eq!(found[&b"own-0007"[..]], b"last");
        assert_eq!(superseded as usize, 2 * count - 1 + 1);
    }

    /// Whatever byte of a run is changed, and wherever it is cut off: it is told, with the file's name.
    #[test]
    fn damage_is_noticed() {
        let (_directory, mut runs) = runs();
        let nothing = SortBuffer::new();
        runs.spill(&mut buffer(&[("b", "two"), ("a", "one"), ("c", "")])).unwrap();
        let path = runs.files[0].clone();
        let good = std::fs::read(&path).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            RunMerge::new(std::slice::from_ref(&path), &nothing).and_then(all)
        };
        assert_eq!(read(&good).unwrap().len(), 3);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            let error = read(&bad).unwrap_err().to_string();
            assert!(error.contains("run-0"), "byte {at}: {error}");
            assert!(read(&good[..at]).is_err(), "cut off at {at}");
        }
        assert!(read(&[&good[..], b"x"].concat()).is_err(), "something follows");
        // A record that is missing as a whole.
        assert!(read(&good[RUN_HEADER_LEN + 4..]).is_err());
    }

    #[test]
    fn runs_are_private_and_go() {
        let (_directory, mut runs) = runs();
        runs.spill(&mut buffer(&[("a", "one")])).unwrap();
        let folder = runs.folder.clone();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
        drop(runs);
        assert!(!folder.exists());
    }
}
