//! Bulk import: batches, summary and errors, and the external sort that both durable stores use.

mod external_sort;
pub(crate) mod import_buffer;
pub(crate) mod merge;
mod sort_buffer;

use std::io;
use std::path::PathBuf;

use tendot_proto::HandleValue;
use tendot_proto::wire::{WireList, WireWriter};

use crate::{NameKeyError, StoreError};
use sort_buffer::SortBuffer;

/// Encoded records that are added to an import together; can be built in any thread.
///
/// They can be made in any thread.
///
/// ```
/// use tendot_store::{EmbeddedImporter, ImportBatch};
/// use tendot_proto::HandleValue;
///
/// let directory = tempfile::tempdir()?;
/// let mut batch = ImportBatch::new();
/// batch.add("10.1000/1", &[HandleValue::new(1, "URL", "https://example.org/1")])?;
/// assert!(batch.add("", &[]).is_err(), "an invalid name is rejected");
/// let mut importer = EmbeddedImporter::open(directory.path(), "operator", 1_700_000_000_000)?;
/// importer.add_batch(&batch)?;
/// assert_eq!(importer.finish(|_| {})?.created, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ImportBatch(SortBuffer);

impl ImportBatch {
    /// One without records.
    pub const fn new() -> Self {
        Self(SortBuffer::new())
    }

    /// Adds a record.
    pub fn add(&mut self, name: &str, values: &[HandleValue<'_>]) -> Result<(), ImportError> {
        push_record(&mut self.0, name, values)
    }

    /// How many records there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that they take.
    pub const fn memory_size(&self) -> usize {
        self.0.memory_size()
    }
}

fn push_record(buffer: &mut SortBuffer, name: &str, values: &[HandleValue<'_>]) -> Result<(), ImportError> {
    buffer.push(name, |bytes| WireList::from(values).encode(&mut WireWriter::new(bytes)))
}

/// Names that were ended and are told one by one.
pub(crate) const MAX_REPORTED_TOMBSTONES: usize = 100;

/// Counts of an import: created, changed, unchanged, superseded and tombstoned records.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ImportSummary {
    /// Records that were not there.
    pub created: u64,
    /// Records that were there and were something else.
    pub changed: u64,
    /// Records that were there as they are.
    pub unchanged: u64,
    /// Records in whose place another one of the same import was taken.
    pub superseded: u64,
    /// Records whose names have been ended, and are not given again.
    pub ended: u64,
    /// The first hundred of these names.
    pub ended_names: Vec<Box<str>>,
}

impl ImportSummary {
    pub(crate) fn merge(&mut self, more: Self) {
        self.created += more.created;
        self.changed += more.changed;
        self.unchanged += more.unchanged;
        self.superseded += more.superseded;
        self.ended += more.ended;
        self.ended_names.extend(more.ended_names);
        self.ended_names.truncate(MAX_REPORTED_TOMBSTONES);
    }
}

/// Reason why an import failed or a record was rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A name cannot be kept.
    #[error(transparent)]
    Name(#[from] NameKeyError),
    /// A record is too large to be kept.
    #[error("the record has {length} bytes, at most {limit} are kept")]
    TooLarge {
        /// Its bytes.
        length: usize,
        /// The most that are kept.
        limit: usize,
    },
    /// What waits on disk cannot be written or read.
    #[error("{}: {error}", path.display())]
    Run {
        /// Where it waits.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
