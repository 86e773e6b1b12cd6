//! Single-flight locks: one lookup per prefix at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

/// Single-flight locks: concurrent lookups of one prefix wait for the first.
#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    locks: Mutex<HashMap<Box<[u8]>, Weak<PrefixLock>>>,
}

/// Lock of one prefix.
type PrefixLock = tokio::sync::Mutex<()>;

impl SingleFlight {
    /// How long a lookup waits for the first one, whose first datagram may be lost.
    const WAIT_TIMEOUT: Duration = Duration::from_millis(600);

    /// Number of locks at which unused ones are purged.
    const PURGE_THRESHOLD: usize = 1_024;

    /// Waits for the lock of a prefix; `None` after [`WAIT_TIMEOUT`](Self::WAIT_TIMEOUT).
    ///
    /// Without the lock, the caller runs its own lookup.
    pub(super) async fn acquire(&self, prefix: &[u8]) -> Option<OwnedMutexGuard<()>> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            if locks.len() >= Self::PURGE_THRESHOLD {
                locks.retain(|_, lock| lock.strong_count() > 0);
            }
            let slot = locks.entry(prefix.to_ascii_uppercase().into()).or_default();
            slot.upgrade().unwrap_or_else(|| {
                let lock = Arc::new(PrefixLock::new(()));
                *slot = Arc::downgrade(&lock);
                lock
            })
        };
        timeout(Self::WAIT_TIMEOUT, lock.lock_owned()).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn followers_wait_for_the_leader() {
        let locks = SingleFlight::default();
        let first = locks.acquire(b"0.NA/10.1000").await;
        assert!(first.is_some());
        assert!(locks.acquire(b"0.NA/10.2000").await.is_some(), "another prefix");
        let started = Instant::now();
        assert!(locks.acquire(b"0.na/10.1000").await.is_none());
        assert_eq!(started.elapsed(), SingleFlight::WAIT_TIMEOUT);
        drop(first);
        assert!(locks.acquire(b"0.na/10.1000").await.is_some());
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let locks = SingleFlight::default();
        for number in 0..10_000_u32 {
            locks.acquire(&number.to_be_bytes()).await;
        }
        assert!(locks.locks.lock().unwrap().len() <= SingleFlight::PURGE_THRESHOLD);
    }
}
