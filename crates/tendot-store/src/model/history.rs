//! History page, history entry, prior state and order.

use tendot_proto::HandleValue;

use crate::model::sha256::sha256;
use crate::{LogEntry, StoredRecord};

/// One page of a name's history.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct History {
    /// Entries in the requested order.
    pub entries: Vec<HistoryEntry>,
    /// Sequence number to continue after (or before); `None` after the last page.
    pub next: Option<u64>,
}

/// History entry: a log entry and the prior state of the name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HistoryEntry {
    /// Its log entry. That of an import covers all imported records and has no name.
    pub log_entry: LogEntry,
    /// State of the name before it.
    pub prior: PriorState,
}

/// State of a name before a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PriorState {
    /// There was no record.
    Absent,
    /// This record, without the data of secrets; of one that was publicly readable, the data is its hash.
    Record(StoredRecord),
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
        if let Some(last) = self.entries.last()
            && (self.entries.len() >= limit || *bytes_left == 0)
        {
            self.next = Some(last.log_entry.sequence);
            return false;
        }
        if let PriorState::Record(record) = &history_entry.prior {
            let size = |value: &HandleValue<'_>| size_of_val(value) + value.data.len();
            let size = record.registration.len() + record.values.iter().map(size).sum::<usize>();
            *bytes_left = bytes_left.saturating_sub(size);
        }
        self.entries.push(history_entry);
        true
    }
}

/// Maximum size of the records of one history page; the last one may exceed it.
pub(crate) const MAX_HISTORY_PAGE_BYTES: usize = 4 << 20;

/// Returns a copy without the data of secrets; `None` if there are none. A replaced secret must not survive in the history.
///
/// Of a secret that was publicly readable, the hash stays: the same secret must not authenticate later.
pub(crate) fn redact_secrets(record: &StoredRecord) -> Option<StoredRecord> {
    record.values.iter().any(HandleValue::is_secret).then(|| {
        let mut record = record.clone();
        for value in record.values.iter_mut().filter(|value| value.is_secret()) {
            let exposed = value.is_exposed_secret();
            value.data = if exposed { sha256(&value.data).to_vec() } else { Vec::new() }.into();
        }
        record
    })
}

/// Whether a value in the history shows that a secret was publicly readable. Histories written before hashes were kept show
/// it for every later secret at the same index.
///
/// ```
/// use tendot_proto::{HandleValue, ValuePermissions};
/// use tendot_store::shows_exposure;
///
/// let secret = HandleValue::new(300, "HS_SECKEY", "example-secret");
/// let past = HandleValue::new(300, "HS_SECKEY", "");
/// assert!(shows_exposure(&past, &secret));
/// let private = HandleValue { permissions: ValuePermissions::ADMIN_READ, ..past };
/// assert!(!shows_exposure(&private, &secret));
/// ```
pub fn shows_exposure(past: &HandleValue<'_>, secret: &HandleValue<'_>) -> bool {
    past.is_exposed_secret()
        && if past.data.is_empty() { past.index == secret.index } else { *past.data == sha256(&secret.data) }
}
