//! What a store has to do beside [`Store`] to be moved from or to.

use std::collections::BTreeMap;

use super::{Checkpoint, MigrationError};
use crate::{HistoryEntry, LogEntry, NameKey, Store, StoreError, StoredRecord};

/// Bytes of records that are handed over together, roughly; one more is, whatever its size.
pub(crate) const MAX_BATCH_BYTES: usize = 4 << 20;

/// Names, lines or notes that are handed over together at most.
pub(crate) const MAX_BATCH_ITEMS: usize = 2_000;

/// Store that can be read for a migration or a comparison.
pub trait MigrationSource: Store {
    /// The last numbers that were given.
    fn head(&self) -> impl Future<Output = Result<StoreHead, StoreError>> + Send;

    /// The records of names, in their order: at least the first, fewer than there are names where they are large.
    fn read_records(
        &self,
        names: &[NameKey],
    ) -> impl Future<Output = Result<Vec<Option<StoredRecord>>, StoreError>> + Send;

    /// What ever changed under names, oldest first, one name after the other; their keys are in order. From `at` on: after
    /// a line, of the name of that number. Gives where to go on, if there may be more.
    fn read_histories(
        &self,
        names: &[NameKey],
        at: At,
    ) -> impl Future<Output = Result<PastPiece, StoreError>> + Send;
}

/// The number of a name, and that of a line of the log, after which its history goes on.
pub(crate) type At = (usize, u64);

/// Changes with the numbers of their names, and where to go on.
pub(crate) type PastPiece = (Vec<(usize, HistoryEntry)>, Option<At>);

/// A note's key, and what is to stand in it; none if it is to be gone.
pub(crate) type TakenNote = (Box<[u8]>, Option<Box<[u8]>>);

/// Last revision and last log sequence number of a store.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StoreHead {
    /// Of a change.
    pub revision: u64,
    /// Of a line of the log.
    pub sequence: u64,
}

/// Store that receives a migration; nobody else writes to it meanwhile.
///
/// Nobody else writes it meanwhile.
pub trait MigrationTarget {
    /// How it is read.
    type Store: MigrationSource;

    /// To read it.
    fn store(&self) -> &Self::Store;

    /// How far it has come, and whether nobody else has written it since; none if nothing was ever moved to it.
    fn checkpoint(&self) -> impl Future<Output = Result<Option<(Checkpoint, bool)>, StoreError>> + Send;

    /// Takes what is in a piece, and how far it has come by that, or nothing.
    fn write_batch(
        &mut self,
        piece: &MigrationBatch,
        mark: &Checkpoint,
    ) -> impl Future<Output = Result<(), MigrationError>> + Send;
}

/// Items written to the target in one transaction; existing items are replaced, log entries are only appended.
///
/// Whatever is there already is replaced, but for lines of the log, which are not taken twice.
#[derive(Debug, Default)]
pub struct MigrationBatch {
    /// Lines that follow the last one of the target.
    pub(crate) lines: Vec<LogEntry>,
    pub(crate) pasts: Vec<MigratedHistoryEntry>,
    pub(crate) records: Vec<(NameKey, Option<MigratedRecord>)>,
    pub(crate) homed: BTreeMap<NameKey, bool>,
    pub(crate) notes: Vec<TakenNote>,
    pub(crate) size: usize,
}

/// Record to write, with the log entry that introduced its registration.
#[derive(Debug)]
pub(crate) struct MigratedRecord {
    pub(crate) entry: StoredRecord,
    /// The line of the log that brought its registration, if it has one and that is known.
    pub(crate) brought: Option<u64>,
}

/// History entry to write.
#[derive(Debug)]
pub(crate) struct MigratedHistoryEntry {
    pub(crate) key: NameKey,
    pub(crate) past: HistoryEntry,
    /// Whether it is the first one of the name.
    pub(crate) is_first: bool,
    /// As that of [`MigratedRecord`], if there was a record.
    pub(crate) brought: Option<u64>,
}

impl MigrationBatch {
    /// Whether it is time to hand it over.
    pub(crate) fn is_full(&self) -> bool {
        let rows = self.lines.len() + self.pasts.len() + self.records.len() + self.notes.len();
        self.size >= MAX_BATCH_BYTES || rows >= 2 * MAX_BATCH_ITEMS
    }
}

/// The memory that a record takes, roughly.
pub(crate) fn record_memory_size(entry: &StoredRecord) -> usize {
    let values = entry.values.iter().map(|value| size_of_val(value) + value.data.len());
    size_of_val(entry) + entry.name.len() + entry.registration.len() + values.sum::<usize>()
}

/// The same of a change.
pub(crate) fn history_memory_size(past: &HistoryEntry) -> usize {
    let entry =
        if let crate::PriorState::Record(entry) = &past.before { record_memory_size(entry) } else { 0 };
    size_of_val(past) + entry
}
