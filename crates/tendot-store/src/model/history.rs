//! History page, history entry, prior state and order.

use tendot_proto::HandleValue;

use crate::{EditKind, LogEntry, StoredRecord};

/// One page of a name's history.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct History {
    /// In the order that was asked for.
    pub items: Vec<HistoryEntry>,
    /// The sequence number to go on after, or before, if there is more.
    pub next: Option<u64>,
}

/// History entry: a log entry and the prior state of the name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HistoryEntry {
    /// Its line of the log. That of an import is about all records that were imported, and has no name.
    pub line: LogEntry,
    /// What was there before it.
    pub before: PriorState,
}

/// State of a name before a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PriorState {
    /// Nothing was.
    Nothing,
    /// This was; the data of its HS_SECKEY values is not kept.
    Record(StoredRecord),
    /// Nobody knows any more: the change was made by a version of this program that kept no history.
    Unknown,
}

/// Direction and start of a history page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HistoryOrder {
    /// The oldest first, of those that came after this sequence number.
    OldestFirst {
        /// 0 for all of them.
        after: u64,
    },
    /// The newest first, of those that came before this sequence number.
    NewestFirst {
        /// [`u64::MAX`] for all of them.
        before: u64,
    },
}

impl HistoryOrder {
    /// Whether a change is in that part.
    pub(crate) const fn contains(self, sequence: u64) -> bool {
        match self {
            Self::OldestFirst { after } => sequence > after,
            Self::NewestFirst { before } => sequence < before,
        }
    }
}

impl History {
    /// Adds a change; false if there is no room for it, since so many are there or so many bytes.
    pub(crate) fn push(&mut self, past: HistoryEntry, limit: usize, room: &mut usize) -> bool {
        if let Some(last) = self.items.last()
            && (self.items.len() >= limit || *room == 0)
        {
            self.next = Some(last.line.sequence);
            return false;
        }
        if let PriorState::Record(entry) = &past.before {
            let size = |value: &HandleValue<'_>| size_of_val(value) + value.data.len();
            let size = entry.registration.len() + entry.values.iter().map(size).sum::<usize>();
            *room = room.saturating_sub(size);
        }
        self.items.push(past);
        true
    }
}

/// Bytes of records that are given in one call; one more is, whatever its size.
pub(crate) const MAX_HISTORY_PAGE_BYTES: usize = 4 << 20;

/// Whether a line of the log is about one record.
pub(crate) const fn is_record_change(kind: EditKind) -> bool {
    matches!(kind, EditKind::Create | EditKind::Update | EditKind::Tombstone | EditKind::Remove)
}

/// The record without the data of secret keys, if it has any: who changes a secret wants the old one gone.
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
