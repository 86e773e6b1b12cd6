//! Record of a name as of a log position, although it may have changed since.

use crate::{HistoryEntry, PriorState, StoredRecord};

/// Record of a name as of a log position, or that it cannot be determined yet.
#[derive(Debug)]
pub(super) enum RecordAtPosition {
    /// The record, or `None` if there was none.
    Known(Option<StoredRecord>),
    /// Undetermined: there is a later log entry of the name, written or pending. Determined once the position includes it.
    Undetermined,
}

/// Log position up to which the source is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct SnapshotPosition {
    pub(super) sequence: u64,
    pub(super) revision: u64,
}

impl SnapshotPosition {
    pub(super) const fn includes(self, history_entry: &HistoryEntry) -> bool {
        history_entry.log_entry.sequence <= self.sequence
    }

    /// Derives the record at the position from the current record and the first later history entry, if there is one.
    pub(super) fn record_at(
        self,
        current: Option<StoredRecord>,
        later: Option<HistoryEntry>,
    ) -> RecordAtPosition {
        match (later.map(|history_entry| history_entry.prior), current) {
            // Records of an import in progress exist before its log entry.
            (None, Some(record)) if record.revision > self.revision => RecordAtPosition::Undetermined,
            (None, current) => RecordAtPosition::Known(current),
            (Some(PriorState::Absent), _) => RecordAtPosition::Known(None),
            // Histories contain no secrets, so such a record cannot be derived.
            (Some(PriorState::Record(record)), _) if record.values.iter().any(|value| value.is_secret()) => {
                RecordAtPosition::Undetermined
            }
            (Some(PriorState::Record(record)), _) => RecordAtPosition::Known(Some(record)),
        }
    }
}
