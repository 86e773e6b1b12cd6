//! Subscribers of the change feed: limits, and one shared task that polls the log while there are any.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tendot_registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use crate::http::api_v1::changes::log_head::LogHeadTracker;

/// Concurrent streamed responses.
const MAX_SUBSCRIBERS: usize = 256;

/// Concurrent streamed responses of anonymous callers, so that others find room.
const MAX_ANONYMOUS_SUBSCRIBERS: usize = 192;

/// Concurrent readers of the backlog.
const MAX_BACKLOG_READERS: usize = 2;

/// Poll interval: other servers may write to the store without notification.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Delay after a store failure, or after the log seems truncated.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Limits and shared poller for clients of the change feed.
#[derive(Clone, Debug)]
pub(crate) struct Subscribers {
    room: Arc<Semaphore>,
    anonymous: Arc<Semaphore>,
    /// Permits for reading the backlog.
    pub(crate) backlog_permits: Arc<Semaphore>,
    /// Last position of the log.
    seen: watch::Sender<LogPosition>,
    /// Whether the polling task runs.
    is_watched: Arc<Mutex<bool>>,
    is_ending: watch::Sender<bool>,
}

/// Last log entry seen, and how often the log was truncated.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct LogPosition {
    last: u64,
    /// How often the log was truncated.
    pub(crate) losses: u64,
}

/// Permit for one streamed response.
#[derive(Debug)]
pub(crate) struct SubscriberPermit {
    _room: OwnedSemaphorePermit,
    _anonymous: Option<OwnedSemaphorePermit>,
}

impl Subscribers {
    pub(crate) fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(MAX_SUBSCRIBERS)),
            anonymous: Arc::new(Semaphore::new(MAX_ANONYMOUS_SUBSCRIBERS)),
            backlog_permits: Arc::new(Semaphore::new(MAX_BACKLOG_READERS)),
            seen: watch::Sender::default(),
            is_watched: Arc::default(),
            is_ending: watch::Sender::new(false),
        }
    }

    /// Permit for a subscriber; `None` if there are too many.
    pub(crate) fn acquire(&self, is_known: bool) -> Option<SubscriberPermit> {
        let take = |room: &Arc<Semaphore>| Arc::clone(room).try_acquire_owned().ok();
        let anonymous = if is_known { None } else { Some(take(&self.anonymous)?) };
        Some(SubscriberPermit { _room: take(&self.room)?, _anonymous: anonymous })
    }

    /// Receiver that is notified of changes in the store.
    pub(crate) fn subscribe(&self, registry: &Arc<Registry>) -> watch::Receiver<LogPosition> {
        let seen = self.seen.subscribe();
        let mut is_watched = self.is_watched.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_watched {
            *is_watched = true;
            tokio::spawn(self.clone().poll_log(Arc::clone(registry)));
        }
        seen
    }

    /// Polls the log as long as there are subscribers.
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

    /// Completes at shutdown.
    pub(crate) async fn wait_shutdown(&self) {
        let _ = self.is_ending.subscribe().wait_for(|is_ending| *is_ending).await;
    }

    /// Ends all subscriptions.
    pub(crate) fn shut_down(&self) {
        self.is_ending.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use tendot_registry::RegistrySettings;
    use tendot_store::{ChangeSet, Edit, MemoryStore, Store};
    use tokio::time::timeout;

    use super::*;

    /// The log is polled while there are subscribers, and again when new ones come.
    #[tokio::test(start_paused = true)]
    async fn looked_at_when_wanted() {
        let subscribers = Subscribers::new();
        let registry = Arc::new(Registry::new(MemoryStore::new(), RegistrySettings::default()));
        let is_watched = || *subscribers.is_watched.lock().unwrap();
        for number in 1..=3_u64 {
            assert!(!is_watched());
            let mut seen = [subscribers.subscribe(&registry), subscribers.subscribe(&registry)];
            let edits = vec![Edit::Home { prefix: format!("10.{number}").into() }];
            registry
                .store()
                .commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits })
                .await
                .unwrap();
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
        let subscribers = Subscribers::new();
        assert!(timeout(POLL_INTERVAL, subscribers.wait_shutdown()).await.is_err());
        subscribers.shut_down();
        timeout(Duration::from_secs(5), subscribers.wait_shutdown()).await.unwrap();
    }
}
