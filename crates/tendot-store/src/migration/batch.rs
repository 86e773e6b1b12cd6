//! Migration batch and its parts.

use std::collections::BTreeMap;

use crate::{HistoryEntry, LogEntry, NameKey, StoredRecord};

/// Bytes of records that are handed over together, roughly; one more is, whatever its size.
pub(crate) const MAX_BATCH_BYTES: usize = 4 << 20;

/// Names, lines or notes that are handed over together at most.
pub(crate) const MAX_BATCH_ITEMS: usize = 2_000;

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

impl MigrationBatch {
    /// Whether it is time to hand it over.
    pub(crate) fn is_full(&self) -> bool {
        let rows = self.lines.len() + self.pasts.len() + self.records.len() + self.notes.len();
        self.size >= MAX_BATCH_BYTES || rows >= 2 * MAX_BATCH_ITEMS
    }
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

/// A note's key, and what is to stand in it; none if it is to be gone.
pub(crate) type TakenNote = (Box<[u8]>, Option<Box<[u8]>>);

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
