//! Last log entry, and detection of a truncated log.

use tendot_store::{AnyStore, LogEntry, Store, StoreError};

use crate::{Error, Registry};

impl Registry {
    /// Sequence number of the last log entry, found in few steps from `hint`, an entry that probably exists; 0 if the log is
    /// empty.
    pub async fn log_head(&self, hint: u64) -> Result<u64, Error> {
        Ok(head_sequence(&self.rules.store, hint).await?)
    }
}

async fn head_sequence(store: &AnyStore, hint: u64) -> Result<u64, StoreError> {
    Ok(head_entry(store, hint).await?.map_or(0, |entry| entry.sequence))
}

async fn head_entry(store: &AnyStore, hint: u64) -> Result<Option<LogEntry>, StoreError> {
    let mut entries = store.read_log(hint.saturating_sub(1), 2).await?;
    // After a failover, the new primary may lack the entry.
    if entries.is_empty() && hint > 1 {
        entries = store.read_log(0, 2).await?;
    }
    let is_end = entries.len() < 2;
    let Some(mut entry) = entries.pop() else { return Ok(None) };
    // There is no entry after `end`.
    let (mut step, mut end) = (0_u64, is_end.then_some(entry.sequence));
    while end != Some(entry.sequence) {
        let at = match end {
            None => entry.sequence.saturating_add(step),
            Some(end) => entry.sequence + (end - entry.sequence) / 2,
        };
        match store.read_log(at, 1).await?.pop() {
            Some(later) => (entry, step) = (later, step.saturating_mul(2).saturating_add(1)),
            None => end = Some(at),
        }
    }
    Ok(Some(entry))
}

/// Tracks the last log entry across polls and detects truncation after a failover.
#[derive(Debug)]
pub struct LogHeadTracker {
    /// Sequence number to start from.
    hint: u64,
    head: Option<LogEntry>,
    /// Last entry of a log that ends before the head.
    shorter_head: Option<u64>,
}

impl LogHeadTracker {
    /// Creates a tracker that starts from an entry that probably exists.
    pub const fn new(hint: u64) -> Self {
        Self { hint, head: None, shorter_head: None }
    }

    /// Polls the log. Returns the last sequence number, and whether entries seen before are lost.
    pub async fn poll(&mut self, registry: &Registry) -> Result<(u64, bool), Error> {
        Ok(self.poll_store(&registry.rules.store).await?)
    }

    async fn poll_store(&mut self, store: &AnyStore) -> Result<(u64, bool), StoreError> {
        let Some(head) = &self.head else {
            self.head = head_entry(store, self.hint).await?;
            return Ok((self.sequence(), false));
        };
        let entries = store.read_log(head.sequence.saturating_sub(1), 2).await?;
        let is_truncated = match entries.as_slice() {
            [] => {
                let last = head_sequence(store, self.shorter_head.unwrap_or(0)).await?;
                // Without a primary, reads go to a standby that may lag behind. Only a primary continues the log from there.
                if self.shorter_head.replace(last).is_none_or(|previous| previous == last) {
                    return Ok((self.sequence(), false));
                }
                true
            }
            [current, ..] => current != head,
        };
        self.shorter_head = None;
        if is_truncated || entries.len() > 1 {
            self.head = head_entry(store, head.sequence).await?;
        }
        Ok((self.sequence(), is_truncated))
    }

    /// Whether the log ends before an entry that was seen; the cause is not known yet.
    pub const fn may_be_truncated(&self) -> bool {
        self.shorter_head.is_some()
    }

    fn sequence(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.sequence)
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

    #[test]
    fn finds_the_head() {
        block_on(async {
            let store = AnyStore::from(MemoryStore::new());
            for number in 0..40 {
                // Also from lost entries.
                for hint in [0, number / 2, number, number + 1, number + 60] {
                    assert_eq!(head_sequence(&store, hint).await.unwrap(), number, "{hint}");
                }
                append(&store, &format!("10.{number}")).await;
            }
        });
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
            let mut tracker = LogHeadTracker::new(0);
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
            let mut tracker = LogHeadTracker::new(0);
            assert_eq!(tracker.poll_store(&old).await.unwrap(), (20, false));
            assert_eq!(tracker.poll_store(&new).await.unwrap(), (31, true));
        });
    }
}
