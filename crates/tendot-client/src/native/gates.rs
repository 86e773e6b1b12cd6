use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

/// Single-flight locks: concurrent lookups of one prefix wait for the first.
#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    open: Mutex<HashMap<Box<[u8]>, Weak<PrefixLock>>>,
}

/// Lock of one prefix.
type PrefixLock = tokio::sync::Mutex<()>;

impl SingleFlight {
    /// How long others wait for who goes first, before they ask themselves: its first datagram may be lost.
    const WAIT_TIMEOUT: Duration = Duration::from_millis(600);

    /// So many prefixes are looked for before those are forgotten that nobody looks for any more.
    const PURGE_THRESHOLD: usize = 1_024;

    /// Waits for the lock of a prefix; `None` after [`WAIT_TIMEOUT`](Self::WAIT_TIMEOUT).
    ///
    /// Whoever gets none goes on without it.
    pub(super) async fn acquire(&self, prefix: &[u8]) -> Option<OwnedMutexGuard<()>> {
        let gate = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.len() >= Self::PURGE_THRESHOLD {
                open.retain(|_, gate| gate.strong_count() > 0);
            }
            let known = open.entry(prefix.to_ascii_uppercase().into()).or_default();
            known.upgrade().unwrap_or_else(|| {
                let gate = Arc::new(PrefixLock::new(()));
                *known = Arc::downgrade(&gate);
                gate
            })
        };
        timeout(Self::WAIT_TIMEOUT, gate.lock_owned()).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_after_the_other() {
        let gates = SingleFlight::default();
        let first = gates.acquire(b"0.NA/10.1000").await;
        assert!(first.is_some());
        assert!(gates.acquire(b"0.NA/10.2000").await.is_some(), "another prefix");
        let started = Instant::now();
        assert!(gates.acquire(b"0.na/10.1000").await.is_none());
        assert_eq!(started.elapsed(), SingleFlight::WAIT_TIMEOUT);
        drop(first);
        assert!(gates.acquire(b"0.na/10.1000").await.is_some());
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let gates = SingleFlight::default();
        for number in 0..10_000_u32 {
            gates.acquire(&number.to_be_bytes()).await;
        }
        assert!(gates.open.lock().unwrap().len() <= SingleFlight::PURGE_THRESHOLD);
    }
}
