//! Trait [`Store`], and the pages of names, counts and aux entries that it returns.

use std::future::Future;

use crate::{
    ChangeCounters, ChangeSet, CommitError, CommitInfo, History, HistoryOrder, LogEntry, NameKey,
    RecordStatus, StoreError, StoredRecord,
};

/// Where records are kept.
///
/// A store that is on this machine answers at once: its futures are ready when they are first polled, and no executor
/// is needed. What is read is a state that once was, all of it: never a change in part. What was committed is there for
/// every read that begins afterwards, and survives the end of the process and of the power.
///
/// Beside its values a record has what the registry knows of it, its [`registration`](StoredRecord::registration): they are changed
/// together, and have one history. What needs none is in notes.
pub trait Store: Send + Sync {
    /// The record of a name, or what is left of it.
    fn get(&self, key: &NameKey) -> impl Future<Output = Result<Option<StoredRecord>, StoreError>> + Send;

    /// The names under a prefix, in the order of their keys, at most `limit` of them, after `after`. Those that are
    /// tombstones are among them.
    fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<NameEntry>, StoreError>> + Send;

    /// How many names under a prefix resolve: of the next `limit` after `after`, at least one. Who asks for all of them
    /// goes on at [`CountPage::next`], and decides how far. The time is that of walking over the names, values unread.
    fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> impl Future<Output = Result<CountPage, StoreError>> + Send;

    /// Shows records to `visit`, in the order of their keys, tombstones among them: those under a prefix, or all; after
    /// `after`, and as long as it wants more. What it sees in one call is one state of the store, and while it looks no
    /// room is used again, or nobody else writes: it should not take long.
    fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// How many names there are, tombstones among them; none if that would have to be counted.
    fn name_count(&self) -> impl Future<Output = Result<Option<u64>, StoreError>> + Send {
        std::future::ready(Ok(None))
    }

    /// Tells whether records have changed since they were read; none if that is not known here.
    fn change_counters(&self) -> Option<&ChangeCounters> {
        None
    }

    /// Whether names under a prefix are kept here, as far as that has been said.
    fn is_homed(&self, prefix: &[u8]) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The homed prefixes, in order, at most `limit` of them, after `after`.
    fn list_homed(
        &self,
        after: Option<&[u8]>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Box<str>>, StoreError>> + Send;

    /// Carries out all edits of a change, with its entries in the log, or none. When the future is ready and the result
    /// is good, the change is durable.
    fn commit(&self, change: ChangeSet) -> impl Future<Output = Result<CommitInfo, CommitError>> + Send;

    /// What changed after the entry `after`, oldest first, at most `limit` entries.
    fn read_log(
        &self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<LogEntry>, StoreError>> + Send;

    /// What ever changed under a name, and what was there before: at most `limit` changes, at least one if there is any, and
    /// fewer where records are large. A name that was removed keeps its history.
    fn history(
        &self,
        key: &NameKey,
        order: HistoryOrder,
        limit: usize,
    ) -> impl Future<Output = Result<History, StoreError>> + Send;

    /// What stands in a note.
    fn get_aux(&self, key: &[u8]) -> impl Future<Output = Result<Option<Box<[u8]>>, StoreError>> + Send;

    /// The notes whose keys begin so, in the order of their keys: at most `limit`, after `after`.
    fn list_aux(
        &self,
        beginning: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Note>, StoreError>> + Send;

    /// The records that a change made what they are and no later one touched, in the order of their keys: at most `limit`,
    /// after `after`. By this, the one line that an import has in the log becomes its names; those that are missing are in
    /// later lines.
    ///
    /// One call looks at a bounded number of records, whatever their revision, so that there may be fewer names than were
    /// asked for, even none, and yet more to come. Walking over all of them takes the time of walking over the store.
    fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> impl Future<Output = Result<NamePage, StoreError>> + Send;
}

/// A note's key, and what stands in it.
pub type Note = (Box<[u8]>, Box<[u8]>);

/// Number of live names in one page of a prefix, and where to continue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CountPage {
    /// How many of them resolve.
    pub live: u64,
    /// Where to go on, if there may be more.
    pub next: Option<NameKey>,
}

/// One page of names in key order, and where to continue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NamePage {
    /// The names, in the order of their keys.
    pub names: Vec<NameEntry>,
    /// Where to go on, if there may be more.
    pub next: Option<NameKey>,
}

/// Name in a list, with its status.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameEntry {
    /// As it was first spelled.
    pub name: Box<str>,
    /// What it is now.
    pub state: RecordStatus,
}

/// Last revision and last log sequence number of a store.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StoreHead {
    /// Of a change.
    pub revision: u64,
    /// Of a line of the log.
    pub sequence: u64,
}
