//! Traits of stores that a migration reads or writes, beyond [`Store`].

use super::batch::MigrationBatch;
use super::{Checkpoint, MigrationError};
use crate::{HistoryEntry, NameKey, Store, StoreError, StoredRecord};

/// Store that can be read for a migration or a comparison.
pub trait MigrationSource: Store {
    /// Reads the records of names, in order: at least the first; fewer than requested where records are large.
    fn read_records(
        &self,
        names: &[NameKey],
    ) -> impl Future<Output = Result<Vec<Option<StoredRecord>>, StoreError>> + Send;

    /// Reads the histories of names whose keys are sorted, name by name, oldest first, starting at `at`. Also returns where to
    /// continue.
    fn read_histories(
        &self,
        names: &[NameKey],
        at: HistoryPosition,
    ) -> impl Future<Output = Result<HistoryBatch, StoreError>> + Send;
}

/// Position in a list of histories.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct HistoryPosition {
    /// Index of the name.
    pub(crate) name: usize,
    /// Log sequence number to continue after.
    pub(crate) after: u64,
    /// Log sequence number after which each history begins.
    pub(crate) base: u64,
}

impl HistoryPosition {
    /// Beginning of the history of a name, as far as it is after `base`.
    pub(crate) const fn start_of(name: usize, base: u64) -> Self {
        Self { name, after: base, base }
    }
}

/// Batch of history entries of several names, and where to continue.
#[derive(Debug, Default)]
pub struct HistoryBatch {
    /// Entries with the indexes of their names.
    pub(crate) entries: Vec<(usize, HistoryEntry)>,
    pub(crate) next: Option<HistoryPosition>,
}

/// Store that receives a migration; it has no other writers meanwhile.
pub trait MigrationTarget {
    /// Store type for reads.
    type Store: MigrationSource;

    /// Returns the store for reads.
    fn store(&self) -> &Self::Store;

    /// Reads the checkpoint, and whether nothing else was written since; `None` if there was no migration.
    fn checkpoint(&self) -> impl Future<Output = Result<Option<(Checkpoint, bool)>, StoreError>> + Send;

    /// Writes a batch and the checkpoint in one transaction.
    fn write_batch(
        &mut self,
        batch: &MigrationBatch,
        checkpoint: &Checkpoint,
    ) -> impl Future<Output = Result<(), MigrationError>> + Send;
}
