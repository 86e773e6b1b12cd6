//! Trait [`Store`], and the pages of names, counts and aux entries that it returns.

use std::fmt;
use std::future::Future;

use crate::{
    ChangeCounters, ChangeSet, CommitError, CommitInfo, History, HistoryOrder, LogEntry, LogHash, NameKey,
    RecordStatus, StoreError, StoredRecord,
};

/// Durable storage of handle records: records by name, change log, history, homed prefixes and aux entries.
///
/// Futures of local stores are ready at the first poll and need no executor. Every read sees one committed state, never part of
/// a change set. A committed change set is visible to every read that starts afterwards, and survives a crash of the process or
/// the machine.
///
/// A record carries, besides its values, the registry's [`registration`](StoredRecord::registration): both change together and
/// share one history. Data without history goes into aux entries.
pub trait Store: Send + Sync {
    /// Returns the record of a name; also a tombstone.
    fn get(&self, key: &NameKey) -> impl Future<Output = Result<Option<StoredRecord>, StoreError>> + Send;

    /// Lists the names under a prefix in key order, tombstones included: at most `limit`, after `after`.
    fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<NameEntry>, StoreError>> + Send;

    /// Returns for each start key the first name under a prefix that does not sort before it, tombstones included. A start key
    /// is any byte string in the order of [`NameKey`]; where all names sort before it, the result is `None`.
    ///
    /// This walks the key space as a trie: whole branches are skipped by seeking behind them. Names longer than
    /// [`NameKey::MAX_SEEK_LEN`] are ordered by their first bytes only. Checksums of records are not verified.
    fn seek_names(
        &self,
        prefix: &[u8],
        starts: &[Vec<u8>],
    ) -> impl Future<Output = Result<Vec<Option<NameEntry>>, StoreError>> + Send;

    /// Counts the live names among the next `limit` names (at least one) of a prefix, after `after`. Callers continue at
    /// [`CountPage::next`]. Takes the time of a scan over the names; values are not decoded.
    fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> impl Future<Output = Result<CountPage, StoreError>> + Send;

    /// Visits records in key order, tombstones included, until `visit` returns false: those of a prefix or all, after `after`.
    /// One call sees one snapshot. While it runs, the store cannot reuse space or blocks writers, so `visit` should be quick.
    fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Returns the number of names, tombstones included; `None` if the store would have to count them.
    fn name_count(&self) -> impl Future<Output = Result<Option<u64>, StoreError>> + Send {
        std::future::ready(Ok(None))
    }

    /// Returns the change counters by which caches detect changed records; `None` if the store has none.
    fn change_counters(&self) -> Option<&ChangeCounters> {
        None
    }

    /// Returns the time in milliseconds since 1970 by the clock that all users of the store share, such as that of a database;
    /// `None` if there is none.
    fn clock_ms(&self) -> Option<u64> {
        None
    }

    /// Whether a prefix is homed here.
    fn is_homed(&self, prefix: &[u8]) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Lists the homed prefixes in key order: at most `limit`, after `after`.
    fn list_homed(
        &self,
        after: Option<&[u8]>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Box<str>>, StoreError>> + Send;

    /// Commits a change set with its log entries: all edits or none. Durable when the future resolves to `Ok`.
    fn commit(&self, change: ChangeSet) -> impl Future<Output = Result<CommitInfo, CommitError>> + Send;

    /// Returns the end of the change log.
    fn head(&self) -> impl Future<Output = Result<StoreHead, StoreError>> + Send;

    /// Reads the change log after sequence number `after`, oldest first: at most `limit` entries.
    fn read_log(
        &self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<LogEntry>, StoreError>> + Send;

    /// Reads one page of a name's history: at most `limit` entries, at least one if there is any, and fewer where records are
    /// large. A removed name keeps its history.
    fn history(
        &self,
        key: &NameKey,
        order: HistoryOrder,
        limit: usize,
    ) -> impl Future<Output = Result<History, StoreError>> + Send;

    /// Returns the value of an aux entry.
    fn get_aux(&self, key: &[u8]) -> impl Future<Output = Result<Option<Box<[u8]>>, StoreError>> + Send;

    /// Lists the aux entries whose keys start with `key_prefix`, in key order: at most `limit`, after `after`.
    fn list_aux(
        &self,
        key_prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<AuxEntry>, StoreError>> + Send;

    /// Lists the names whose current record has this revision, in key order: at most `limit`, after `after`. This resolves the
    /// single log entry of an import to its names; names changed since then are in later log entries.
    ///
    /// One call scans a bounded number of records, so a page may have fewer names than `limit`, or none, although
    /// [`NamePage::next`] is set. Listing all pages takes the time of a full scan.
    fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> impl Future<Output = Result<NamePage, StoreError>> + Send;
}

/// Aux entry: a small key-value pair without revision, history or log entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuxEntry {
    /// Key: 1 to [`MAX_KEY_LEN`](Self::MAX_KEY_LEN) bytes.
    pub key: Box<[u8]>,
    /// Value.
    pub value: Box<[u8]>,
}

impl AuxEntry {
    /// Maximum length of a key in bytes.
    pub const MAX_KEY_LEN: usize = 512;

    /// Whether this is a valid key.
    pub(crate) const fn is_valid_key(key: &[u8]) -> bool {
        !key.is_empty() && key.len() <= Self::MAX_KEY_LEN
    }
}

/// Number of live names in one page of a prefix, and where to continue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CountPage {
    /// Number of live names in the page.
    pub live: u64,
    /// Where to continue; `None` after the last page.
    pub next: Option<NameKey>,
}

/// One page of names in key order, and where to continue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NamePage {
    /// The names, in key order.
    pub names: Vec<NameEntry>,
    /// Where to continue; `None` after the last page.
    pub next: Option<NameKey>,
}

/// Name in a list, with its status.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameEntry {
    /// Name in its first spelling.
    pub name: Box<str>,
    /// Current status.
    pub status: RecordStatus,
}

/// End of the change log: last revision, last sequence number and hash of the last entry.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StoreHead {
    /// Revision of the last change set.
    pub revision: u64,
    /// Sequence number of the last log entry; 0 if there is none.
    pub sequence: u64,
    /// Hash of the last log entry, which covers the whole log; zeros if there is none.
    pub log_hash: LogHash,
}

impl fmt::Display for StoreHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}, log entry {}, hash {}", self.revision, self.sequence, self.log_hash)
    }
}
