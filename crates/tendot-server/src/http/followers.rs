//! Those who read what changes as it changes. One task looks at the store for all of them, and none if there are none.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tendot_registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use super::LogHeadTracker;

/// Answers with changes that are sent at the same time.
const MAX_SUBSCRIBERS: usize = 256;

/// Those of them for who does not say who they are, so that others find room.
const MAX_ANONYMOUS_SUBSCRIBERS: usize = 192;

/// Those of them who read at the same time what was there before.
const MAX_BACKLOG_READERS: usize = 2;

/// How often the store is looked at: others may write there, too, who tell nobody.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// After this a store that failed, or whose log ends before what was seen, is looked at again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Limits and shared poller for clients of the change feed.
#[derive(Clone, Debug)]
pub(super) struct Subscribers {
    room: Arc<Semaphore>,
    anonymous: Arc<Semaphore>,
    /// For those who read what was there before.
    pub(super) turns: Arc<Semaphore>,
    /// The end of the log.
    seen: watch::Sender<LogPosition>,
    /// Whether somebody looks.
    is_watched: Arc<Mutex<bool>>,
    is_ending: watch::Sender<bool>,
}

/// Last log entry seen, and how often the log was truncated.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct LogPosition {
    last: u64,
    /// How often lines were lost that had been seen before.
    pub(super) losses: u64,
}

/// Permit for one streamed response.
#[derive(Debug)]
pub(super) struct SubscriberPermit {
    _room: OwnedSemaphorePermit,
    _anonymous: Option<OwnedSemaphorePermit>,
}

impl Subscribers {
    pub(super) fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(MAX_SUBSCRIBERS)),
            anonymous: Arc::new(Semaphore::new(MAX_ANONYMOUS_SUBSCRIBERS)),
            turns: Arc::new(Semaphore::new(MAX_BACKLOG_READERS)),
            seen: watch::Sender::default(),
            is_watched: Arc::default(),
            is_ending: watch::Sender::new(false),
        }
    }

    /// Room for one more; none if there are too many.
    pub(super) fn acquire(&self, is_known: bool) -> Option<SubscriberPermit> {
        let take = |room: &Arc<Semaphore>| Arc::clone(room).try_acquire_owned().ok();
        let anonymous = if is_known { None } else { Some(take(&self.anonymous)?) };
        Some(SubscriberPermit { _room: take(&self.room)?, _anonymous: anonymous })
    }

    /// Something that changes when something may have changed in the store.
    pub(super) fn subscribe(&self, registry: &Arc<Registry>) -> watch::Receiver<LogPosition> {
        let seen = self.seen.subscribe();
        let mut is_watched = self.is_watched.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_watched {
            *is_watched = true;
            tokio::spawn(self.clone().poll_log(Arc::clone(registry)));
        }
        seen
    }

    /// Looks at the store as long as somebody wants to know.
    async fn poll_log(self, registry: Arc<Registry>) {
        let mut is_told = false;
        let mut end = LogHeadTracker::new(self.seen.borrow().last);
        loop {
            {
                let mut is_watched = self.is_watched.lock().unwrap_or_else(PoisonError::into_inner);
                if self.seen.receiver_count() == 0 {
                    *is_watched = false;
                    return;
                }
            }
            match end.poll(registry.store()).await {
                Ok((last, is_lost)) => {
                    is_told = false;
                    if is_lost {
                        tracing::error!(last, "the store has lost changes, and those who follow begin anew");
                    }
                    self.seen.send_if_modified(|seen| {
                        let now = LogPosition { last, losses: seen.losses + u64::from(is_lost) };
                        std::mem::replace(seen, now) != now
                    });
                    sleep(if end.may_be_truncated() { RETRY_DELAY } else { POLL_INTERVAL }).await;
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::error!(%error, "the store failed, and its changes can't be followed");
                    }
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Waits until the service ends.
    pub(super) async fn wait_shutdown(&self) {
        let _ = self.is_ending.subscribe().wait_for(|is_ending| *is_ending).await;
    }

    /// Tells all of them that the service ends.
    pub(super) fn shut_down(&self) {
        self.is_ending.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use tendot_registry::RegistrySettings;
    use tendot_store::{ChangeSet, Edit, MemoryStore, Store};
    use tokio::time::timeout;

    use super::*;

    /// The store is looked at while somebody wants to know, and again when somebody does again.
    #[tokio::test(start_paused = true)]
    async fn looked_at_when_wanted() {
        let followers = Subscribers::new();
        let registry = Arc::new(Registry::new(MemoryStore::new(), RegistrySettings::default()));
        let is_watched = || *followers.is_watched.lock().unwrap();
        for number in 1..=3_u64 {
            assert!(!is_watched());
            let mut seen = [followers.subscribe(&registry), followers.subscribe(&registry)];
            let edits = vec![Edit::Home { prefix: format!("10.{number}").into() }];
            registry.store().commit(ChangeSet { by: "test".into(), at: 0, edits }).await.unwrap();
            for seen in &mut seen {
                let found = timeout(Duration::from_secs(5), seen.wait_for(|seen| seen.last == number)).await;
                assert_eq!(found.unwrap().unwrap().last, number);
            }
            assert!(is_watched());
            assert_eq!(Arc::strong_count(&registry), 2, "one looks for both");
            drop(seen);
            while is_watched() {
                sleep(POLL_INTERVAL).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ended() {
        let followers = Subscribers::new();
        assert!(timeout(POLL_INTERVAL, followers.wait_shutdown()).await.is_err());
        followers.shut_down();
        timeout(Duration::from_secs(5), followers.wait_shutdown()).await.unwrap();
    }
}
