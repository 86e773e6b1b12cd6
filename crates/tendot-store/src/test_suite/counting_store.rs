//! Store that counts lookups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    AnyStore, AuxEntry, ChangeCounters, ChangeSet, CommitError, CommitInfo, CountPage, History, HistoryOrder,
    LogEntry, NameEntry, NameKey, NamePage, Store, StoreError, StoreHead, StoredRecord,
};

/// Store that counts how often another one is searched: every read is one lookup, a list one more per name after the first, and
/// a seek one per start key.
#[derive(Debug)]
pub struct CountingStore {
    store: AnyStore,
    lookups: Arc<AtomicU64>,
}

impl CountingStore {
    /// Wraps a store; returns also its counter.
    pub fn new(store: AnyStore) -> (Self, Arc<AtomicU64>) {
        let lookups = Arc::default();
        (Self { store, lookups: Arc::clone(&lookups) }, lookups)
    }

    fn count(&self, lookups: usize) {
        self.lookups.fetch_add(lookups as u64, Ordering::Relaxed);
    }
}

impl Store for CountingStore {
    async fn get(&self, key: &NameKey) -> Result<Option<StoredRecord>, StoreError> {
        self.count(1);
        self.store.get(key).await
    }

    async fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<NameEntry>, StoreError> {
        let names = self.store.list_names(prefix, after, limit).await?;
        self.count(names.len().max(1));
        Ok(names)
    }

    async fn seek_names(
        &self,
        prefix: &[u8],
        starts: &[Vec<u8>],
    ) -> Result<Vec<Option<NameEntry>>, StoreError> {
        self.count(starts.len());
        self.store.seek_names(prefix, starts).await
    }

    async fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        self.count(1);
        self.store.count_names(prefix, after, limit).await
    }

    async fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        mut visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> Result<(), StoreError> {
        let visit_counted = |record: &StoredRecord| {
            self.count(1);
            visit(record)
        };
        self.store.scan_records(prefix, after, visit_counted).await
    }

    fn change_counters(&self) -> Option<&ChangeCounters> {
        self.store.change_counters()
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        self.count(1);
        self.store.is_homed(prefix).await
    }

    async fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        let prefixes = self.store.list_homed(after, limit).await?;
        self.count(prefixes.len().max(1));
        Ok(prefixes)
    }

    async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        self.store.commit(change).await
    }

    async fn head(&self) -> Result<StoreHead, StoreError> {
        self.count(1);
        self.store.head().await
    }

    async fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let entries = self.store.read_log(after, limit).await?;
        self.count(entries.len().max(1));
        Ok(entries)
    }

    async fn history(&self, key: &NameKey, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        self.count(1);
        self.store.history(key, order, limit).await
    }

    async fn get_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        self.count(1);
        self.store.get_aux(key).await
    }

    async fn list_aux(
        &self,
        key_prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<AuxEntry>, StoreError> {
        let entries = self.store.list_aux(key_prefix, after, limit).await?;
        self.count(entries.len().max(1));
        Ok(entries)
    }

    async fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        self.count(1);
        self.store.names_at_revision(revision, after, limit).await
    }
}
