//! A store where something happens just before a change is committed.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tendot_registry::{Registry, Settings};
use tendot_store::{
    Change, CommitError, Committed, Counted, Entry, History, Key, Listed, Logged, Note, Order, Piece, Store,
    StoreError,
};

type Event<S> = Box<dyn FnOnce(Registry<Watched<S>>) + Send>;

pub struct Watched<S>(Arc<Inner<S>>);

struct Inner<S> {
    store: S,
    events: Mutex<VecDeque<Event<S>>>,
    is_busy: AtomicBool,
    counts: AtomicUsize,
}

impl<S> Clone for Watched<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Store> Watched<S> {
    pub fn new(store: S) -> Self {
        Self(Arc::new(Inner {
            store,
            events: Mutex::default(),
            is_busy: AtomicBool::new(false),
            counts: AtomicUsize::new(0),
        }))
    }

    pub fn before_commit(&self, event: impl FnOnce(Registry<Self>) + Send + 'static) {
        self.0.events.lock().unwrap().push_back(Box::new(event));
    }

    /// How often names were counted.
    pub fn counts(&self) -> usize {
        self.0.counts.load(Ordering::SeqCst)
    }

    /// That all of it has happened.
    pub fn is_over(&self) -> bool {
        self.0.events.lock().unwrap().is_empty()
    }
}

impl<S: Store> Store for Watched<S> {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.0.store.get(key).await
    }

    async fn list(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        self.0.store.list(prefix, after, limit).await
    }

    async fn count_under(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Counted, StoreError> {
        self.0.counts.fetch_add(1, Ordering::SeqCst);
        // It takes its time, and others have their turn.
        let mut waits = true;
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if std::mem::take(&mut waits) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        self.0.store.count_under(prefix, after, limit).await
    }

    async fn visit(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&Key>,
        visit: impl FnMut(&Entry) -> bool + Send,
    ) -> Result<(), StoreError> {
        self.0.store.visit(prefix, after, visit).await
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        self.0.store.is_homed(prefix).await
    }

    async fn homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        self.0.store.homed(after, limit).await
    }

    async fn commit(&self, change: Change) -> Result<Committed, CommitError> {
        if !self.0.is_busy.swap(true, Ordering::SeqCst) {
            let event = self.0.events.lock().unwrap().pop_front();
            if let Some(event) = event {
                event(Registry::new(self.clone(), Settings::default()));
            }
            self.0.is_busy.store(false, Ordering::SeqCst);
        }
        self.0.store.commit(change).await
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Logged>, StoreError> {
        self.0.store.changes(after, limit).await
    }

    async fn history(&self, key: &Key, order: Order, limit: usize) -> Result<History, StoreError> {
        self.0.store.history(key, order, limit).await
    }

    async fn note(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        self.0.store.note(key).await
    }

    async fn notes(
        &self,
        beginning: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Note>, StoreError> {
        self.0.store.notes(beginning, after, limit).await
    }

    async fn of_revision(
        &self,
        revision: u64,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Piece, StoreError> {
        self.0.store.of_revision(revision, after, limit).await
    }
}
