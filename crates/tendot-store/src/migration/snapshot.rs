//! What was under a name when the log had so many lines, though it may have changed since.

use crate::{HistoryEntry, PriorState, StoredRecord};

/// Record of a name as of a log position, or that it cannot be determined yet.
#[derive(Debug)]
pub(super) enum RecordAtPosition {
    /// This, or nothing.
    Known(Option<StoredRecord>),
    /// That cannot be told now: there is a later line about it, or will be one. When that has been reached, it can.
    Unsettled,
}

/// Log position up to which the source is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct SnapshotPosition {
    pub(super) sequence: u64,
    pub(super) revision: u64,
}

impl SnapshotPosition {
    pub(super) const fn includes(self, past: &HistoryEntry) -> bool {
        past.line.sequence <= self.sequence
    }

    /// What was there, by what is there now, or was a moment ago, and the first change after the limit, if there is one by now.
    pub(super) fn record_at(
        self,
        now: Option<StoredRecord>,
        later: Option<HistoryEntry>,
    ) -> RecordAtPosition {
        match (later.map(|past| past.before), now) {
            // The records of an import that is under way are there before its line.
            (None, Some(entry)) if entry.revision > self.revision => RecordAtPosition::Unsettled,
            (None, now) => RecordAtPosition::Known(now),
            (Some(PriorState::Nothing), _) => RecordAtPosition::Known(None),
            // Secrets are not in histories.
            (Some(PriorState::Record(entry)), _) if !entry.values.iter().any(|v| v.has_type("HS_SECKEY")) => {
                RecordAtPosition::Known(Some(entry))
            }
            (Some(_), _) => RecordAtPosition::Unsettled,
        }
    }
}
