//! Any store behind a pointer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::{
    AuxEntry, ChangeCounters, ChangeSet, CommitError, CommitInfo, CountPage, History, HistoryOrder, LogEntry,
    NameEntry, NameKey, NamePage, Store, StoreError, StoreHead, StoredRecord,
};

/// Store behind a pointer, see [`AnyStore::boxed`](crate::AnyStore::boxed).
#[derive(Debug)]
pub struct BoxedStore(Box<dyn DynStore>);

impl BoxedStore {
    pub(crate) fn new(store: impl Store + fmt::Debug + 'static) -> Self {
        Self(Box::new(store))
    }
}

impl Store for BoxedStore {
    async fn get(&self, key: &NameKey) -> Result<Option<StoredRecord>, StoreError> {
        self.0.get(key).await
    }

    async fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<NameEntry>, StoreError> {
        self.0.list_names(prefix, after, limit).await
    }

    async fn seek_names(
        &self,
        prefix: &[u8],
        starts: &[Vec<u8>],
    ) -> Result<Vec<Option<NameEntry>>, StoreError> {
        self.0.seek_names(prefix, starts).await
    }

    async fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        self.0.count_names(prefix, after, limit).await
    }

    async fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        mut visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> Result<(), StoreError> {
        self.0.scan_records(prefix, after, &mut visit).await
    }

    async fn name_count(&self) -> Result<Option<u64>, StoreError> {
        self.0.name_count().await
    }

    fn change_counters(&self) -> Option<&ChangeCounters> {
        self.0.change_counters()
    }

    fn clock_ms(&self) -> Option<u64> {
        self.0.clock_ms()
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        self.0.is_homed(prefix).await
    }

    async fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        self.0.list_homed(after, limit).await
    }

    async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        self.0.commit(change).await
    }

    async fn head(&self) -> Result<StoreHead, StoreError> {
        self.0.head().await
    }

    async fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.0.read_log(after, limit).await
    }

    async fn history(&self, key: &NameKey, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        self.0.history(key, order, limit).await
    }

    async fn get_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        self.0.get_aux(key).await
    }

    async fn list_aux(
        &self,
        key_prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<AuxEntry>, StoreError> {
        self.0.list_aux(key_prefix, after, limit).await
    }

    async fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        self.0.names_at_revision(revision, after, limit).await
    }
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Object-safe form of [`Store`]: futures are boxed.
trait DynStore: fmt::Debug + Send + Sync {
    fn get<'a>(&'a self, key: &'a NameKey) -> BoxFuture<'a, Result<Option<StoredRecord>, StoreError>>;
    fn list_names<'a>(
        &'a self,
        prefix: &'a [u8],
        after: Option<&'a NameKey>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NameEntry>, StoreError>>;
    fn seek_names<'a>(
        &'a self,
        prefix: &'a [u8],
        starts: &'a [Vec<u8>],
    ) -> BoxFuture<'a, Result<Vec<Option<NameEntry>>, StoreError>>;
    fn count_names<'a>(
        &'a self,
        prefix: &'a [u8],
        after: Option<&'a NameKey>,
        limit: usize,
    ) -> BoxFuture<'a, Result<CountPage, StoreError>>;
    fn scan_records<'a>(
        &'a self,
        prefix: Option<&'a [u8]>,
        after: Option<&'a NameKey>,
        visit: &'a mut (dyn FnMut(&StoredRecord) -> bool + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>>;
    fn name_count(&self) -> BoxFuture<'_, Result<Option<u64>, StoreError>>;
    fn change_counters(&self) -> Option<&ChangeCounters>;
    fn clock_ms(&self) -> Option<u64>;
    fn is_homed<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<bool, StoreError>>;
    fn list_homed<'a>(
        &'a self,
        after: Option<&'a [u8]>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Box<str>>, StoreError>>;
    fn commit(&self, change: ChangeSet) -> BoxFuture<'_, Result<CommitInfo, CommitError>>;
    fn head(&self) -> BoxFuture<'_, Result<StoreHead, StoreError>>;
    fn read_log(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Vec<LogEntry>, StoreError>>;
    fn history<'a>(
        &'a self,
        key: &'a NameKey,
        order: HistoryOrder,
        limit: usize,
    ) -> BoxFuture<'a, Result<History, StoreError>>;
    fn get_aux<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Box<[u8]>>, StoreError>>;
    fn list_aux<'a>(
        &'a self,
        key_prefix: &'a [u8],
        after: Option<&'a [u8]>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<AuxEntry>, StoreError>>;
    fn names_at_revision<'a>(
        &'a self,
        revision: u64,
        after: Option<&'a NameKey>,
        limit: usize,
    ) -> BoxFuture<'a, Result<NamePage, StoreError>>;
}

impl<S: Store + fmt::Debug> DynStore for S {
    fn get<'a>(&'a self, key: &'a NameKey) -> BoxFuture<'a, Result<Option<StoredRecord>, StoreError>> {
        Box::pin(Store::get(self, key))
    }

    fn list_names<'a>(
        &'a self,
        prefix: &'a [u8],
        after: Option<&'a NameKey>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NameEntry>, StoreError>> {
        Box::pin(Store::list_names(self, prefix, after, limit))
    }

    fn seek_names<'a>(
        &'a self,
        prefix: &'a [u8],
        starts: &'a [Vec<u8>],
    ) -> BoxFuture<'a, Result<Vec<Option<NameEntry>>, StoreError>> {
        Box::pin(Store::seek_names(self, prefix, starts))
    }

    fn count_names<'a>(
        &'a self,
        prefix: &'a [u8],
        after: Option<&'a NameKey>,
        limit: usize,
    ) -> BoxFuture<'a, Result<CountPage, StoreError>> {
        Box::pin(Store::count_names(self, prefix, after, limit))
    }

    fn scan_records<'a>(
        &'a self,
        prefix: Option<&'a [u8]>,
        after: Option<&'a NameKey>,
        visit: &'a mut (dyn FnMut(&StoredRecord) -> bool + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(Store::scan_records(self, prefix, after, visit))
    }

    fn name_count(&self) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        Box::pin(Store::name_count(self))
    }

    fn change_counters(&self) -> Option<&ChangeCounters> {
        Store::change_counters(self)
    }

    fn clock_ms(&self) -> Option<u64> {
        Store::clock_ms(self)
    }

    fn is_homed<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(Store::is_homed(self, prefix))
    }

    fn list_homed<'a>(
        &'a self,
        after: Option<&'a [u8]>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Box<str>>, StoreError>> {
        Box::pin(Store::list_homed(self, after, limit))
    }

    fn commit(&self, change: ChangeSet) -> BoxFuture<'_, Result<CommitInfo, CommitError>> {
        Box::pin(Store::commit(self, change))
    }

    fn head(&self) -> BoxFuture<'_, Result<StoreHead, StoreError>> {
        Box::pin(Store::head(self))
    }

    fn read_log(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Vec<LogEntry>, StoreError>> {
        Box::pin(Store::read_log(self, after, limit))
    }

    fn history<'a>(
        &'a self,
        key: &'a NameKey,
        order: HistoryOrder,
        limit: usize,
    ) -> BoxFuture<'a, Result<History, StoreError>> {
        Box::pin(Store::history(self, key, order, limit))
    }

    fn get_aux<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Box<[u8]>>, StoreError>> {
        Box::pin(Store::get_aux(self, key))
    }

    fn list_aux<'a>(
        &'a self,
        key_prefix: &'a [u8],
        after: Option<&'a [u8]>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<AuxEntry>, StoreError>> {
        Box::pin(Store::list_aux(self, key_prefix, after, limit))
    }

    fn names_at_revision<'a>(
        &'a self,
        revision: u64,
        after: Option<&'a NameKey>,
        limit: usize,
    ) -> BoxFuture<'a, Result<NamePage, StoreError>> {
        Box::pin(Store::names_at_revision(self, revision, after, limit))
    }
}
