//! Subscribers of the change feed: one shared task that polls the log while there are any.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tendot_registry::{LogHeadTracker, Registry};
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

use crate::http::api_v1::changes::subscriber_limit::SubscriberLimiter;

/// Concurrent readers of the backlog.
const MAX_BACKLOG_READERS: usize = 2;

/// Poll interval: other servers may write to the store without notification.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Delay after a store failure, or after the log seems truncated.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Limiter and shared poller for clients of the change feed.
#[derive(Clone, Debug)]
pub(crate) struct Subscribers {
    pub(crate) limiter: Arc<SubscriberLimiter>,
    /// Permits for reading the backlog.
    pub(crate) backlog_permits: Arc<Semaphore>,
    /// Last position of the log.
    position: watch::Sender<LogPosition>,
    /// Whether the polling task runs.
    is_polling: Arc<Mutex<bool>>,
    shutdown: watch::Sender<bool>,
}

/// Last log entry seen, and how often the log was truncated.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct LogPosition {
    sequence: u64,
    pub(crate) truncations: u64,
}

impl Subscribers {
    pub(crate) fn new() -> Self {
        Self {
            limiter: Arc::default(),
            backlog_permits: Arc::new(Semaphore::new(MAX_BACKLOG_READERS)),
            position: watch::Sender::default(),
            is_polling: Arc::default(),
            shutdown: watch::Sender::new(false),
        }
    }

    /// Receiver that is notified of changes in the store.
    pub(crate) fn subscribe(&self, registry: &Arc<Registry>) -> watch::Receiver<LogPosition> {
        let position = self.position.subscribe();
        let mut is_polling = self.is_polling.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_polling {
            *is_polling = true;
            tokio::spawn(self.clone().poll_log(Arc::clone(registry)));
        }
        position
    }

    /// Polls the log as long as there are subscribers.
    async fn poll_log(self, registry: Arc<Registry>) {
        let mut error_logged = false;
        let mut tracker = LogHeadTracker::default();
        loop {
            {
                let mut is_polling = self.is_polling.lock().unwrap_or_else(PoisonError::into_inner);
                if self.position.receiver_count() == 0 {
                    *is_polling = false;
                    return;
                }
            }
            match tracker.poll(&registry).await {
                Ok((sequence, is_truncated)) => {
                    error_logged = false;
                    if is_truncated {
                        tracing::error!(sequence, "change log was truncated; subscribers reset");
                    }
                    self.position.send_if_modified(|position| {
                        let truncations = position.truncations + u64::from(is_truncated);
                        let current = LogPosition { sequence, truncations };
                        std::mem::replace(position, current) != current
                    });
                    sleep(if tracker.may_be_truncated() { RETRY_DELAY } else { POLL_INTERVAL }).await;
                }
                Err(error) => {
                    if !std::mem::replace(&mut error_logged, true) {
                        tracing::error!(%error, "polling the change log failed");
                    }
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Completes at shutdown.
    pub(crate) async fn wait_shutdown(&self) {
        let _ = self.shutdown.subscribe().wait_for(|shutdown| *shutdown).await;
    }

    /// Ends all subscriptions.
    pub(crate) fn shut_down(&self) {
        self.shutdown.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use tendot_registry::RegistrySettings;
    use tendot_store::{AnyStore, ChangeSet, Edit, MemoryStore, Store};
    use tokio::time::timeout;

    use super::*;

    /// The log is polled while there are subscribers, and again when new ones come.
    #[tokio::test(start_paused = true)]
    async fn polls_only_with_subscribers() {
        let subscribers = Subscribers::new();
        let store = Arc::new(AnyStore::from(MemoryStore::new()));
        let registry = Arc::new(Registry::with_shared_store(Arc::clone(&store), RegistrySettings::default()));
        let is_polling = || *subscribers.is_polling.lock().unwrap();
        for number in 1..=3_u64 {
            assert!(!is_polling());
            let mut positions = [subscribers.subscribe(&registry), subscribers.subscribe(&registry)];
            let edits = vec![Edit::Home { prefix: format!("10.{number}").into() }];
            store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits }).await.unwrap();
            for position in &mut positions {
                let reached = position.wait_for(|position| position.sequence == number);
                let reached = timeout(Duration::from_secs(5), reached).await;
                assert_eq!(reached.unwrap().unwrap().sequence, number);
            }
            assert!(is_polling());
            assert_eq!(Arc::strong_count(&registry), 2, "one poller for both");
            drop(positions);
            while is_polling() {
                sleep(POLL_INTERVAL).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown() {
        let subscribers = Subscribers::new();
        assert!(timeout(POLL_INTERVAL, subscribers.wait_shutdown()).await.is_err());
        subscribers.shut_down();
        timeout(Duration::from_secs(5), subscribers.wait_shutdown()).await.unwrap();
    }
}
