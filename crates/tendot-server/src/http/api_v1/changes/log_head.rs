//! Last log entry, and detection of a truncated log.

use tendot_store::{AnyStore, LogEntry, Store, StoreError};

/// Sequence number of the last log entry, found in few steps from one that is believed to exist.
pub(crate) async fn last_change(store: &AnyStore, known: u64) -> Result<u64, StoreError> {
    Ok(last_line(store, known).await?.map_or(0, |line| line.sequence))
}

async fn last_line(store: &AnyStore, known: u64) -> Result<Option<LogEntry>, StoreError> {
    let mut lines = store.read_log(known.saturating_sub(1), 2).await?;
    // After a failover, the new primary may lack the entry.
    if lines.is_empty() && known > 1 {
        lines = store.read_log(0, 2).await?;
    }
    let is_end = lines.len() < 2;
    let Some(mut line) = lines.pop() else { return Ok(None) };
    // There is no entry after `end`.
    let (mut step, mut end) = (0_u64, is_end.then_some(line.sequence));
    while end != Some(line.sequence) {
        let at = match end {
            None => line.sequence.saturating_add(step),
            Some(end) => line.sequence + (end - line.sequence) / 2,
        };
        match store.read_log(at, 1).await?.pop() {
            Some(later) => (line, step) = (later, step.saturating_mul(2).saturating_add(1)),
            None => end = Some(at),
        }
    }
    Ok(Some(line))
}

/// Tracks the last log entry across polls and detects truncation after a failover.
#[derive(Debug)]
pub(crate) struct LogHeadTracker {
    /// Sequence number to start from.
    known: u64,
    line: Option<LogEntry>,
    /// Last entry of a log that ends before that.
    before: Option<u64>,
}

impl LogHeadTracker {
    /// Creates a tracker that starts from an entry believed to exist.
    pub(crate) const fn new(known: u64) -> Self {
        Self { known, line: None, before: None }
    }

    /// Polls the log. Returns the last sequence number, and whether entries seen before are lost.
    pub(crate) async fn poll(&mut self, store: &AnyStore) -> Result<(u64, bool), StoreError> {
        let Some(line) = &self.line else {
            self.line = last_line(store, self.known).await?;
            return Ok((self.sequence(), false));
        };
        let lines = store.read_log(line.sequence.saturating_sub(1), 2).await?;
        let is_lost = match lines.as_slice() {
            [] => {
                let last = last_change(store, self.before.unwrap_or(0)).await?;
                // Without a primary, a standby is read that may lag behind. Only a primary continues from there.
                if self.before.replace(last).is_none_or(|before| before == last) {
                    return Ok((self.sequence(), false));
                }
                true
            }
            [now, ..] => now != line,
        };
        self.before = None;
        if is_lost || lines.len() > 1 {
            self.line = last_line(store, line.sequence).await?;
        }
        Ok((self.sequence(), is_lost))
    }

    /// Whether the log ends before an entry that was seen; the cause is not known yet.
    pub(crate) const fn may_be_truncated(&self) -> bool {
        self.before.is_some()
    }

    fn sequence(&self) -> u64 {
        self.line.as_ref().map_or(0, |line| line.sequence)
    }
}

#[cfg(test)]
mod tests {
    use tendot_store::{ChangeSet, Edit, MemoryStore};

    use super::*;

    async fn log(store: &AnyStore, name: &str) {
        let edits = vec![Edit::Home { prefix: name.into() }];
        store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits }).await.unwrap();
    }

    #[tokio::test]
    async fn found() {
        let store = AnyStore::from(MemoryStore::new());
        for number in 0..40 {
            // Also from lost entries.
            for known in [0, number / 2, number, number + 1, number + 60] {
                assert_eq!(last_change(&store, known).await.unwrap(), number, "{known}");
            }
            log(&store, &format!("10.{number}")).await;
        }
    }

    /// A log that was truncated and continued: new entries are not taken for the lost ones.
    #[tokio::test]
    async fn lost() {
        let (old, new) = (AnyStore::from(MemoryStore::new()), AnyStore::from(MemoryStore::new()));
        for number in 1..=20 {
            log(&old, &format!("10.{number}")).await;
            if number <= 10 {
                log(&new, &format!("10.{number}")).await;
            }
        }
        let mut end = LogHeadTracker::new(0);
        assert_eq!(end.poll(&old).await.unwrap(), (20, false));
        // A standby that lags behind and catches up.
        for _ in 0..3 {
            assert_eq!(end.poll(&new).await.unwrap(), (20, false));
            assert!(end.may_be_truncated());
        }
        assert_eq!(end.poll(&old).await.unwrap(), (20, false));
        assert!(!end.may_be_truncated());
        // A primary that lags behind and continues, whether it was polled before or not.
        assert_eq!(end.poll(&new).await.unwrap(), (20, false));
        log(&new, "10.new").await;
        assert_eq!(end.poll(&new).await.unwrap(), (11, true));
        assert_eq!(end.poll(&new).await.unwrap(), (11, false));
        for number in 0..20 {
            log(&new, &format!("10.new.{number}")).await;
        }
        assert_eq!(end.poll(&new).await.unwrap(), (31, false));
        let mut end = LogHeadTracker::new(0);
        assert_eq!(end.poll(&old).await.unwrap(), (20, false));
        assert_eq!(end.poll(&new).await.unwrap(), (31, true));
    }
}
