//! Bulk import: batches, summary and errors, and the external sort that both durable stores use.
//!
//! `import_buffer` collects records and spills them when full, `sort_buffer` sorts them in memory, `external_sort` writes and
//! reads sorted run files, `merge` merges the runs.

mod external_sort;
pub(crate) mod import_buffer;
pub(crate) mod merge;
mod sort_buffer;

use std::io;
use std::path::PathBuf;

use tendot_proto::HandleValue;

use crate::model::values_codec;
use crate::{NameKeyError, StoreError};
use sort_buffer::SortBuffer;

/// Encoded records that are added to an import together; can be built in any thread.
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
    /// Creates an empty batch.
    pub const fn new() -> Self {
        Self(SortBuffer::new())
    }

    /// Adds a record.
    pub fn add(&mut self, name: &str, values: &[HandleValue<'_>]) -> Result<(), ImportError> {
        push_record(&mut self.0, name, values)
    }

    /// Number of records.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the batch is empty.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory size in bytes.
    pub const fn memory_size(&self) -> usize {
        self.0.memory_size()
    }
}

fn push_record(buffer: &mut SortBuffer, name: &str, values: &[HandleValue<'_>]) -> Result<(), ImportError> {
    buffer.push(name, |bytes| values_codec::encode_to(values, bytes))
}

/// Maximum number of listed tombstones.
pub(crate) const MAX_REPORTED_TOMBSTONES: usize = 100;

/// Counts of an import: created, changed, unchanged, superseded and tombstoned records.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ImportSummary {
    /// Records that were created.
    pub created: u64,
    /// Records whose values were replaced.
    pub changed: u64,
    /// Records that had the same values already.
    pub unchanged: u64,
    /// Records superseded by a later one of the same import.
    pub superseded: u64,
    /// Records rejected because their names are tombstones.
    pub tombstoned: u64,
    /// The first hundred of these names.
    pub tombstoned_names: Vec<Box<str>>,
}

impl ImportSummary {
    /// Adds the counts of another import.
    pub fn merge(&mut self, more: Self) {
        self.created += more.created;
        self.changed += more.changed;
        self.unchanged += more.unchanged;
        self.superseded += more.superseded;
        self.tombstoned += more.tombstoned;
        self.tombstoned_names.extend(more.tombstoned_names);
        self.tombstoned_names.truncate(MAX_REPORTED_TOMBSTONES);
    }
}

/// Reason why an import failed or a record was rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A name is invalid.
    #[error(transparent)]
    InvalidName(#[from] NameKeyError),
    /// A record is too large.
    #[error("record too large: {length} bytes, limit {limit}")]
    TooLarge {
        /// Size in bytes.
        length: usize,
        /// Maximum size in bytes.
        limit: usize,
    },
    /// A run file cannot be written or read.
    #[error("{}: {error}", path.display())]
    RunFile {
        /// Path of the run file.
        path: PathBuf,
        /// I/O error.
        error: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
