//! Collects the records of an import in memory and spills them to sorted runs on disk when full.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use tendot_proto::HandleValue;

use super::external_sort::SortedRuns;
use super::merge::RunMerge;
use super::sort_buffer::SortBuffer;
use super::{ImportBatch, ImportError, push_record};
#[cfg(feature = "postgres")]
use crate::directory_lock::DirectoryLock;
use crate::{NameKey, fail_point};

/// Default size of the sort buffer.
const DEFAULT_BUFFER_BYTES: usize = 32 << 20;

/// Records added to an import so far, in memory and in sorted runs.
#[derive(Debug)]
pub(crate) struct ImportBuffer {
    sort_buffer: SortBuffer,
    /// Size of the sort buffer at which it is spilled to disk.
    pub(crate) max_buffer_bytes: usize,
    superseded: u64,
    pub(crate) homed: BTreeSet<NameKey>,
    /// Dropped before the lock.
    runs: SortedRuns,
    /// Lock of the directory, if it is not in a locked one.
    #[cfg(feature = "postgres")]
    pub(crate) lock: Option<DirectoryLock>,
}

impl ImportBuffer {
    /// Creates an empty buffer and its directory, which is removed on drop.
    pub(crate) fn new(directory: PathBuf) -> io::Result<Self> {
        let runs = SortedRuns::new(directory)?;
        let (sort_buffer, homed) = (SortBuffer::new(), BTreeSet::new());
        Ok(Self {
            sort_buffer,
            max_buffer_bytes: DEFAULT_BUFFER_BYTES,
            superseded: 0,
            homed,
            runs,
            #[cfg(feature = "postgres")]
            lock: None,
        })
    }

    /// Directory of the runs.
    #[cfg(all(test, feature = "postgres", unix))]
    pub(crate) fn dir(&self) -> &std::path::Path {
        self.runs.dir()
    }

    pub(crate) fn add(&mut self, name: &str, values: &[HandleValue<'_>]) -> Result<(), ImportError> {
        push_record(&mut self.sort_buffer, name, values)?;
        self.spill_if_full()
    }

    pub(crate) fn add_batch(&mut self, batch: &ImportBatch) -> Result<(), ImportError> {
        self.sort_buffer.append(&batch.0);
        self.spill_if_full()
    }

    fn spill_if_full(&mut self) -> Result<(), ImportError> {
        if self.sort_buffer.memory_size() >= self.max_buffer_bytes {
            self.superseded += self.runs.spill(&mut self.sort_buffer)?;
            fail_point::hit("import-after-run");
        }
        Ok(())
    }

    pub(crate) fn home_prefix(&mut self, prefix: &str) -> Result<(), ImportError> {
        self.homed.insert(NameKey::from_prefix(prefix)?);
        Ok(())
    }

    /// Merges all records in key order; also returns the number of records superseded so far.
    pub(crate) fn merge(&mut self) -> Result<(RunMerge<'_>, u64), ImportError> {
        self.sort_buffer.sort();
        let (merge, superseded) = self.runs.merge(&self.sort_buffer)?;
        Ok((merge, self.superseded + superseded))
    }
}
