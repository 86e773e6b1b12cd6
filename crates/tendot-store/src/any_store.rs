use std::fmt;

#[cfg(feature = "postgres")]
use crate::Postgres;
use crate::boxed_store::BoxedStore;
use crate::{
    Change, CommitError, CommitInfo, Counted, Embedded, Entry, History, Key, Listed, LogEntry, Memory, Note,
    HistoryOrder, Piece, Store, StoreError, ChangeCounters,
};

/// The store of a server, chosen at start.
///
/// Everything above the store is compiled once for this type instead of once for each store.
///
/// ```
/// use tendot_store::{AnyStore, Memory, Store};
///
/// let store = AnyStore::from(Memory::new());
/// assert!(pollster::block_on(store.changes(0, 1))?.is_empty());
/// # Ok::<(), tendot_store::StoreError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyStore {
    /// In memory, lost with the process.
    Memory(Memory),
    /// In LMDB, on this machine's disk.
    Embedded(Embedded),
    /// In PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(Postgres),
    /// Any other store; each call allocates a future. For test doubles.
    Boxed(BoxedStore),
}

impl AnyStore {
    /// Wraps a store that has no variant of its own.
    pub fn boxed(store: impl Store + fmt::Debug + 'static) -> Self {
        Self::Boxed(BoxedStore::new(store))
    }
}

impl From<Memory> for AnyStore {
    fn from(store: Memory) -> Self {
        Self::Memory(store)
    }
}

impl From<Embedded> for AnyStore {
    fn from(store: Embedded) -> Self {
        Self::Embedded(store)
    }
}

#[cfg(feature = "postgres")]
impl From<Postgres> for AnyStore {
    fn from(store: Postgres) -> Self {
        Self::Postgres(store)
    }
}

/// Awaits the same call on whichever store it is.
///
/// The future for PostgreSQL is boxed: it is larger by far than the others, and would be part of every request's future.
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
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        delegate!(self, store => store.get(key))
    }

    async fn list(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        delegate!(self, store => store.list(prefix, after, limit))
    }

    async fn count_under(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Counted, StoreError> {
        delegate!(self, store => store.count_under(prefix, after, limit))
    }

    async fn visit(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&Key>,
        visit: impl FnMut(&Entry) -> bool + Send,
    ) -> Result<(), StoreError> {
        delegate!(self, store => store.visit(prefix, after, visit))
    }

    async fn size(&self) -> Result<Option<u64>, StoreError> {
        delegate!(self, store => store.size())
    }

    fn versions(&self) -> Option<&ChangeCounters> {
        match self {
            Self::Memory(store) => store.versions(),
            Self::Embedded(store) => store.versions(),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.versions(),
            Self::Boxed(store) => store.versions(),
        }
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        delegate!(self, store => store.is_homed(prefix))
    }

    async fn homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        delegate!(self, store => store.homed(after, limit))
    }

    async fn commit(&self, change: Change) -> Result<CommitInfo, CommitError> {
        delegate!(self, store => store.commit(change))
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        delegate!(self, store => store.changes(after, limit))
    }

    async fn history(&self, key: &Key, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        delegate!(self, store => store.history(key, order, limit))
    }

    async fn note(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        delegate!(self, store => store.note(key))
    }

    async fn notes(
        &self,
        beginning: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Note>, StoreError> {
        delegate!(self, store => store.notes(beginning, after, limit))
    }

    async fn of_revision(
        &self,
        revision: u64,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Piece, StoreError> {
        delegate!(self, store => store.of_revision(revision, after, limit))
    }
}
