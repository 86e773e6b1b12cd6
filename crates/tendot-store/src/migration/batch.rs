//! Migration batch and its parts.

use std::collections::BTreeMap;

use crate::{HistoryEntry, LogEntry, NameKey, PriorState, StoredRecord};

/// Approximate maximum size of a batch; the last record may exceed it.
pub(crate) const MAX_BATCH_BYTES: usize = 4 << 20;

/// Maximum number of names, log entries or aux entries per read.
pub(crate) const MAX_BATCH_ITEMS: usize = 2_000;

/// Items written to the target in one transaction; existing items are replaced, log entries are only appended.
#[derive(Debug, Default)]
pub struct MigrationBatch {
    /// Log entries after the last one of the target.
    pub(crate) log_entries: Vec<LogEntry>,
    pub(crate) history: Vec<MigratedHistoryEntry>,
    pub(crate) records: Vec<(NameKey, Option<MigratedRecord>)>,
    pub(crate) homed: BTreeMap<NameKey, bool>,
    pub(crate) aux: Vec<AuxChange>,
    pub(crate) size: usize,
}

impl MigrationBatch {
    /// Whether the batch should be written.
    pub(crate) fn is_full(&self) -> bool {
        let rows = self.log_entries.len() + self.history.len() + self.records.len() + self.aux.len();
        self.size >= MAX_BATCH_BYTES || rows >= 2 * MAX_BATCH_ITEMS
    }
}

/// Record to write, with the log entry that introduced its registration.
#[derive(Debug)]
pub(crate) struct MigratedRecord {
    pub(crate) record: StoredRecord,
    /// Sequence number of the log entry that introduced the registration, if known.
    pub(crate) registration_sequence: Option<u64>,
}

/// History entry to write.
#[derive(Debug)]
pub(crate) struct MigratedHistoryEntry {
    pub(crate) key: NameKey,
    pub(crate) history_entry: HistoryEntry,
    /// Whether it is the first entry of the name.
    pub(crate) is_first: bool,
    /// As in [`MigratedRecord`], if there was a record.
    pub(crate) registration_sequence: Option<u64>,
}

/// Aux entry to write; without a value it is removed.
#[derive(Debug)]
pub(crate) struct AuxChange {
    pub(crate) key: Box<[u8]>,
    pub(crate) value: Option<Box<[u8]>>,
}

/// Approximate memory size of a record.
pub(crate) fn record_memory_size(record: &StoredRecord) -> usize {
    let values = record.values.iter().map(|value| size_of_val(value) + value.data.len());
    size_of_val(record) + record.name.len() + record.registration.len() + values.sum::<usize>()
}

/// Approximate memory size of a history entry.
pub(crate) fn history_memory_size(history_entry: &HistoryEntry) -> usize {
    let record = match &history_entry.prior {
        PriorState::Record(record) => record_memory_size(record),
        PriorState::Absent => 0,
    };
    size_of_val(history_entry) + record
}
