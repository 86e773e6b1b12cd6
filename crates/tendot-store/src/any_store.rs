//! One type for all stores, chosen at startup.

use std::fmt;

#[cfg(feature = "postgres")]
use crate::PostgresStore;
use crate::boxed_store::BoxedStore;
use crate::{
    AuxEntry, ChangeCounters, ChangeSet, CommitError, CommitInfo, CountPage, EmbeddedStore, History,
    HistoryOrder, LogEntry, MemoryStore, NameEntry, NameKey, NamePage, Store, StoreError, StoreHead,
    StoredRecord,
};

/// Store of a server, chosen at startup.
///
/// Code above the store is compiled once for this type instead of once per store.
///
/// ```
/// use tendot_store::{AnyStore, MemoryStore, Store};
///
/// let store = AnyStore::from(MemoryStore::new());
/// assert!(pollster::block_on(store.read_log(0, 1))?.is_empty());
/// # Ok::<(), tendot_store::StoreError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyStore {
    /// Memory store; lost with the process.
    Memory(MemoryStore),
    /// Embedded store (LMDB).
    Embedded(EmbeddedStore),
    /// PostgreSQL store.
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
    /// Any other store; each call allocates a future. For test doubles.
    Boxed(BoxedStore),
}

impl AnyStore {
    /// Wraps a store that has no variant of its own.
    pub fn boxed(store: impl Store + fmt::Debug + 'static) -> Self {
        Self::Boxed(BoxedStore::new(store))
    }
}

impl From<MemoryStore> for AnyStore {
    fn from(store: MemoryStore) -> Self {
        Self::Memory(store)
    }
}

impl From<EmbeddedStore> for AnyStore {
    fn from(store: EmbeddedStore) -> Self {
        Self::Embedded(store)
    }
}

#[cfg(feature = "postgres")]
impl From<PostgresStore> for AnyStore {
    fn from(store: PostgresStore) -> Self {
        Self::Postgres(store)
    }
}

/// Delegates a call to the chosen store.
///
/// The future of PostgreSQL is boxed: it is by far the largest, and would enlarge every request's future.
macro_rules! delegate {
    ($any:ident, $store:ident => $call:expr) => {
        match $any {
            Self::Memory($store) => $call.await,
            Self::Embedded($store) => $call.await,
            #[cfg(feature = "postgres")]
            Self::Postgres($store) => Box::pin($call).await,
            Self::Boxed($store) => $call.await,
        }
    };
}

impl Store for AnyStore {
    async fn get(&self, key: &NameKey) -> Result<Option<StoredRecord>, StoreError> {
        delegate!(self, store => store.get(key))
    }

    async fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<NameEntry>, StoreError> {
        delegate!(self, store => store.list_names(prefix, after, limit))
    }

    async fn seek_names(
        &self,
        prefix: &[u8],
        starts: &[Vec<u8>],
    ) -> Result<Vec<Option<NameEntry>>, StoreError> {
        delegate!(self, store => store.seek_names(prefix, starts))
    }

    async fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        delegate!(self, store => store.count_names(prefix, after, limit))
    }

    async fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> Result<(), StoreError> {
        delegate!(self, store => store.scan_records(prefix, after, visit))
    }

    async fn name_count(&self) -> Result<Option<u64>, StoreError> {
        delegate!(self, store => store.name_count())
    }

    fn change_counters(&self) -> Option<&ChangeCounters> {
        match self {
            Self::Memory(store) => store.change_counters(),
            Self::Embedded(store) => store.change_counters(),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.change_counters(),
            Self::Boxed(store) => store.change_counters(),
        }
    }

    fn clock_ms(&self) -> Option<u64> {
        match self {
            Self::Memory(store) => store.clock_ms(),
            Self::Embedded(store) => store.clock_ms(),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.clock_ms(),
            Self::Boxed(store) => store.clock_ms(),
        }
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        delegate!(self, store => store.is_homed(prefix))
    }

    async fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        delegate!(self, store => store.list_homed(after, limit))
    }

    async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        delegate!(self, store => store.commit(change))
    }

    async fn head(&self) -> Result<StoreHead, StoreError> {
        delegate!(self, store => store.head())
    }

    async fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        delegate!(self, store => store.read_log(after, limit))
    }

    async fn history(&self, key: &NameKey, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        delegate!(self, store => store.history(key, order, limit))
    }

    async fn get_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        delegate!(self, store => store.get_aux(key))
    }

    async fn list_aux(
        &self,
        key_prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<AuxEntry>, StoreError> {
        delegate!(self, store => store.list_aux(key_prefix, after, limit))
    }

    async fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        delegate!(self, store => store.names_at_revision(revision, after, limit))
    }
}
