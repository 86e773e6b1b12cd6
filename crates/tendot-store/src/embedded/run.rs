//! Sorted runs: what does not fit into memory waits on disk, in order.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use crate::Key;

/// A record that waits to be written: its name and the wire form of its values.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Waiting {
    pub(super) key: Key,
    pub(super) name: Box<str>,
    /// As in messages, one after the other.
    pub(super) values: Box<[u8]>,
}

impl Waiting {
    /// What it takes in memory, roughly.
    pub(super) fn size(&self) -> usize {
        2 * self.name.len() + self.values.len() + 96
    }
}

/// Puts records in order; of several with one key the last one stays, in the spelling of the first. Gives how many do
/// not.
pub(super) fn sort(records: &mut Vec<Waiting>) -> u64 {
    // Stable, so that what came later stands later.
    records.sort_by(|one, two| one.key.cmp(&two.key));
    let before = records.len();
    let mut kept: Vec<Waiting> = Vec::with_capacity(before);
    for record in records.drain(..) {
        match kept.last_mut() {
            Some(last) if last.key == record.key => last.values = record.values,
            _ => kept.push(record),
        }
    }
    *records = kept;
    (before - records.len()) as u64
}

/// Writes a sorted run. It is not made durable: after a crash the import begins anew.
pub(super) fn write(path: &Path, records: &[Waiting]) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for record in records {
        for bytes in [record.name.as_bytes(), &record.values] {
            out.write_all(&(bytes.len() as u32).to_le_bytes())?;
            out.write_all(bytes)?;
        }
    }
    out.flush()
}

/// All records of several runs, in order; of several with one key that of the last run, in the spelling of the first.
#[derive(Debug)]
pub(super) struct Merge {
    runs: Vec<Source>,
    /// The next record of each run, the first in order on top; of equal ones that of the last run.
    heads: BinaryHeap<Reverse<Head>>,
    superseded: u64,
}

#[derive(Debug)]
enum Source {
    File(BufReader<File>),
    Memory(std::vec::IntoIter<Waiting>),
}

#[derive(Debug, Eq, PartialEq)]
struct Head {
    record: Waiting,
    run: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        self.record.key.cmp(&other.record.key).then_with(|| other.run.cmp(&self.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Merge {
    /// Of runs in files, and of one in memory that came last.
    pub(super) fn new(files: &[std::path::PathBuf], last: Vec<Waiting>) -> io::Result<Self> {
        let mut runs = Vec::with_capacity(files.len() + 1);
        for file in files {
            runs.push(Source::File(BufReader::with_capacity(1 << 16, File::open(file)?)));
        }
        runs.push(Source::Memory(last.into_iter()));
        let mut merge = Self { runs, heads: BinaryHeap::new(), superseded: 0 };
        for run in 0..merge.runs.len() {
            merge.pull(run)?;
        }
        Ok(merge)
    }

    /// Records that another with the same key took the place of.
    pub(super) const fn superseded(&self) -> u64 {
        self.superseded
    }

    /// The next record.
    pub(super) fn next(&mut self) -> io::Result<Option<Waiting>> {
        let Some(Reverse(mut first)) = self.heads.pop() else { return Ok(None) };
        self.pull(first.run)?;
        while self.heads.peek().is_some_and(|Reverse(next)| next.record.key == first.record.key) {
            if let Some(Reverse(older)) = self.heads.pop() {
                self.superseded += 1;
                self.pull(older.run)?;
                first.record.name = older.record.name;
            }
        }
        Ok(Some(first.record))
    }

    fn pull(&mut self, run: usize) -> io::Result<()> {
        let record = match self.runs.get_mut(run) {
            Some(Source::File(file)) => read(file)?,
            Some(Source::Memory(records)) => records.next(),
            None => None,
        };
        if let Some(record) = record {
            self.heads.push(Reverse(Head { record, run }));
        }
        Ok(())
    }
}

fn read(file: &mut BufReader<File>) -> io::Result<Option<Waiting>> {
    let Some(name) = read_bytes(file)? else { return Ok(None) };
    let values = read_bytes(file)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let name = String::from_utf8(name).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let key = Key::new(&name).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(Some(Waiting { key, name: name.into(), values: values.into() }))
}

fn read_bytes(file: &mut BufReader<File>) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match file.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    file.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}
