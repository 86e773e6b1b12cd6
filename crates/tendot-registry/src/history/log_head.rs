//! Detection of a truncated log.

use tendot_store::{AnyStore, Store, StoreError, StoreHead};

use crate::{Error, Registry};

impl Registry {
    /// End of the log.
    pub async fn log_head(&self) -> Result<StoreHead, Error> {
        Ok(self.rules.store.head().await?)
    }
}

/// Tracks the end of the log across polls and detects truncation after a failover.
#[derive(Debug, Default)]
pub struct LogHeadTracker {
    head: Option<StoreHead>,
    /// Last entry of a log that ends before the head.
    shorter_head: Option<u64>,
}

impl LogHeadTracker {
    /// Polls the log. Returns the last sequence number, and whether entries seen before are lost.
    pub async fn poll(&mut self, registry: &Registry) -> Result<(u64, bool), Error> {
        Ok(self.poll_store(&registry.rules.store).await?)
    }

    async fn poll_store(&mut self, store: &AnyStore) -> Result<(u64, bool), StoreError> {
        let current = store.head().await?;
        let Some(known) = self.head else {
            self.head = Some(current);
            return Ok((current.sequence, false));
        };
        let is_truncated = if current.sequence < known.sequence {
            // Without a primary, reads go to a standby that may lag behind. Only a primary continues the log from there.
            let previous = self.shorter_head.replace(current.sequence);
            if previous.is_none_or(|previous| previous == current.sequence) {
                return Ok((known.sequence, false));
            }
            true
        } else if current.sequence == known.sequence {
            current.log_hash != known.log_hash
        } else {
            let next = store.read_log(known.sequence, 1).await?;
            next.first().is_some_and(|next| next.link.previous_hash != known.log_hash)
        };
        self.shorter_head = None;
        self.head = Some(current);
        Ok((current.sequence, is_truncated))
    }

    /// Whether the log ends before an entry that was seen; the cause is not known yet.
    pub const fn may_be_truncated(&self) -> bool {
        self.shorter_head.is_some()
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_store::{ChangeSet, Edit, MemoryStore};

    use super::*;

    async fn append(store: &AnyStore, name: &str) {
        let edits = vec![Edit::Home { prefix: name.into() }];
        store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits }).await.unwrap();
    }

    /// A log that was truncated and continued: new entries are not mistaken for the lost ones.
    #[test]
    fn detects_truncated_log() {
        block_on(async {
            let (old, new) = (AnyStore::from(MemoryStore::new()), AnyStore::from(MemoryStore::new()));
            for number in 1..=20 {
                append(&old, &format!("10.{number}")).await;
                if number <= 10 {
                    append(&new, &format!("10.{number}")).await;
                }
            }
            let mut tracker = LogHeadTracker::default();
            assert_eq!(tracker.poll_store(&old).await.unwrap(), (20, false));
            // A standby that lags behind and catches up.
            for _ in 0..3 {
                assert_eq!(tracker.poll_store(&new).await.unwrap(), (20, false));
                assert!(tracker.may_be_truncated());
            }
            assert_eq!(tracker.poll_store(&old).await.unwrap(), (20, false));
            assert!(!tracker.may_be_truncated());
            // A primary that lags behind and continues, whether it was polled before or not.
            assert_eq!(tracker.poll_store(&new).await.unwrap(), (20, false));
            append(&new, "10.new").await;
            assert_eq!(tracker.poll_store(&new).await.unwrap(), (11, true));
            assert_eq!(tracker.poll_store(&new).await.unwrap(), (11, false));
            for number in 0..20 {
                append(&new, &format!("10.new.{number}")).await;
            }
            assert_eq!(tracker.poll_store(&new).await.unwrap(), (31, false));
            let mut tracker = LogHeadTracker::default();
            assert_eq!(tracker.poll_store(&old).await.unwrap(), (20, false));
            assert_eq!(tracker.poll_store(&new).await.unwrap(), (31, true));
        });
    }
}
