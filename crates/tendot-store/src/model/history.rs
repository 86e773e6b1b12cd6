//! History page, history entry, prior state and order.

use tendot_proto::HandleValue;

use crate::{EditKind, LogEntry, StoredRecord};

/// One page of a name's history.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct History {
    /// Entries in the requested order.
    pub items: Vec<HistoryEntry>,
    /// Sequence number to continue after (or before); `None` after the last page.
    pub next: Option<u64>,
}

/// History entry: a log entry and the prior state of the name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HistoryEntry {
    /// Its log entry. That of an import covers all imported records and has no name.
    pub line: LogEntry,
    /// State of the name before it.
    pub before: PriorState,
}

/// State of a name before a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PriorState {
    /// There was no record.
    Nothing,
    /// This record; the data of HS_SECKEY values is removed.
    Record(StoredRecord),
    /// Unknown: the change was written by a version without history.
    Unknown,
}

/// Direction and start of a history page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HistoryOrder {
    /// Oldest first, after this sequence number.
    OldestFirst {
        /// 0 to start at the oldest entry.
        after: u64,
    },
    /// Newest first, before this sequence number.
    NewestFirst {
        /// [`u64::MAX`] to start at the newest entry.
        before: u64,
    },
}

impl HistoryOrder {
    /// Whether a sequence number is in the requested part.
    pub(crate) const fn contains(self, sequence: u64) -> bool {
        match self {
            Self::OldestFirst { after } => sequence > after,
            Self::NewestFirst { before } => sequence < before,
        }
    }
}

impl History {
    /// Adds an entry; returns false and sets `next` if the page is full, by number or by bytes.
    pub(crate) fn push(&mut self, history_entry: HistoryEntry, limit: usize, bytes_left: &mut usize) -> bool {
        if let Some(last) = self.items.last()
            && (self.items.len() >= limit || *bytes_left == 0)
        {
            self.next = Some(last.line.sequence);
            return false;
        }
        if let PriorState::Record(entry) = &history_entry.before {
            let size = |value: &HandleValue<'_>| size_of_val(value) + value.data.len();
            let size = entry.registration.len() + entry.values.iter().map(size).sum::<usize>();
            *bytes_left = bytes_left.saturating_sub(size);
        }
        self.items.push(history_entry);
        true
    }
}

/// Maximum size of the records of one history page; the last one may exceed it.
pub(crate) const MAX_HISTORY_PAGE_BYTES: usize = 4 << 20;

/// Whether a log entry of this kind changes exactly one record.
pub(crate) const fn is_record_change(kind: EditKind) -> bool {
    matches!(kind, EditKind::Create | EditKind::Update | EditKind::Tombstone | EditKind::Remove)
}

/// Returns a copy without the data of HS_SECKEY values; `None` if there are none. A replaced secret must not survive in the
/// history.
pub(crate) fn redact_secrets(entry: &StoredRecord) -> Option<StoredRecord> {
    let is_secret = |value: &HandleValue<'_>| value.has_type("HS_SECKEY") && !value.data.is_empty();
    entry.values.iter().any(is_secret).then(|| {
        let mut entry = entry.clone();
        for value in entry.values.iter_mut().filter(|value| is_secret(value)) {
            value.data = Vec::new().into();
        }
        entry
    })
}
