//! K-way merge of sorted runs.

use std::cmp::Ordering;
use std::path::PathBuf;

use super::ImportError;
use super::external_sort::RunReader;
use super::sort_buffer::{RecordSlot, SortBuffer, compare_keys};

/// Name of a record and its values in wire form.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawRecord<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) values: &'a [u8],
}

/// K-way merge of sorted runs; the last of equal keys wins, in the spelling of the first.
#[derive(Debug)]
pub(crate) struct RunMerge<'b> {
    sources: Vec<MergeSource<'b>>,
    /// Binary min-heap of the sources that have more records.
    heap: Vec<usize>,
    /// Current record.
    name: Vec<u8>,
    values: Vec<u8>,
    /// Number of records superseded by a later one with the same key.
    pub(crate) superseded: u64,
}

impl<'b> RunMerge<'b> {
    /// Merges run files, oldest first, and the sort buffer, which is newest.
    pub(crate) fn new(files: &[PathBuf], last: &'b SortBuffer) -> Result<Self, ImportError> {
        let mut sources = Vec::with_capacity(files.len() + 1);
        for file in files {
            sources.push(MergeSource::File(RunReader::open(file)?));
        }
        sources.push(MergeSource::Memory(last, &last.slots));
        let mut heap = Vec::with_capacity(sources.len());
        for (index, source) in sources.iter().enumerate() {
            if !source.is_at_end() {
                heap.push(index);
            }
        }
        let mut merge = Self { sources, heap, name: Vec::new(), values: Vec::new(), superseded: 0 };
        for index in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(index);
        }
        Ok(merge)
    }

    /// Returns the next record.
    pub(crate) fn next(&mut self) -> Result<Option<RawRecord<'_>>, ImportError> {
        let Some(first) = self.heap.first() else { return Ok(None) };
        let (start, RawRecord { name, values }) = self.sources[*first].current();
        self.name.clear();
        self.name.extend_from_slice(name);
        self.values.clear();
        self.values.extend_from_slice(values);
        self.advance()?;
        while let Some(next) = self.heap.first() {
            let (next_start, RawRecord { name, values }) = self.sources[*next].current();
            if compare_keys((start, &self.name), (next_start, name)) != Ordering::Equal {
                break;
            }
            self.values.clear();
            self.values.extend_from_slice(values);
            self.superseded += 1;
            self.advance()?;
        }
        Ok(Some(RawRecord { name: &self.name, values: &self.values }))
    }

    /// Advances the source at the top of the heap.
    fn advance(&mut self) -> Result<(), ImportError> {
        let source = &mut self.sources[self.heap[0]];
        source.advance()?;
        if source.is_at_end() {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }

    /// Restores the heap order below an index.
    fn sift_down(&mut self, mut index: usize) {
        loop {
            let mut least = index;
            for child in [2 * index + 1, 2 * index + 2] {
                if child < self.heap.len() && self.is_before(self.heap[child], self.heap[least]) {
                    least = child;
                }
            }
            if least == index {
                return;
            }
            self.heap.swap(index, least);
            index = least;
        }
    }

    /// Whether the record of one source sorts before that of another; for equal keys the older source is first.
    fn is_before(&self, one: usize, other: usize) -> bool {
        let (start, record) = self.sources[one].current();
        let (other_start, other_record) = self.sources[other].current();
        let order = compare_keys((start, record.name), (other_start, other_record.name));
        order.then(one.cmp(&other)) == Ordering::Less
    }
}

/// Input of a merge: a run file or the sort buffer.
#[derive(Debug)]
enum MergeSource<'b> {
    File(RunReader),
    Memory(&'b SortBuffer, &'b [RecordSlot]),
}

impl MergeSource<'_> {
    /// First bytes of the key, and the record; its name is empty at the end.
    fn current(&self) -> (u128, RawRecord<'_>) {
        match self {
            Self::File(file) => {
                let (name, values) = file.record.split_at(file.name_len);
                (file.key_start, RawRecord { name, values })
            }
            Self::Memory(buffer, slots) => {
                slots.first().map_or_else(Default::default, |slot| (slot.key_start, buffer.record(slot)))
            }
        }
    }

    fn is_at_end(&self) -> bool {
        self.current().1.name.is_empty()
    }

    fn advance(&mut self) -> Result<(), ImportError> {
        match self {
            Self::File(file) => file.advance(),
            Self::Memory(_, slots) => {
                *slots = slots.get(1..).unwrap_or_default();
                Ok(())
            }
        }
    }
}
