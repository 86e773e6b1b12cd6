//! Bounded counts of names that were not found. Clients choose these names, so their number and bytes are limited.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::resolution_stats::CounterKey;

/// Shards, each with its own lock.
const SHARDS: usize = 16;

/// Limits of one shard: names and their bytes.
const MAX_NAMES_PER_SHARD: usize = 1_024;
const MAX_BYTES_PER_SHARD: usize = 256 << 10;

/// Bounded, sharded counts of names that were not found.
#[derive(Debug)]
pub(crate) struct FailedResolutions {
    parts: [Mutex<FailedResolutionShard>; SHARDS],
    dropped: AtomicU64,
}

/// One shard, with its own lock and byte budget.
#[derive(Debug, Default)]
struct FailedResolutionShard {
    names: HashMap<u64, (u32, Box<str>, u64)>,
    bytes: usize,
}

impl FailedResolutions {
    pub(crate) fn new() -> Self {
        Self { parts: Default::default(), dropped: AtomicU64::new(0) }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, counted: CounterKey, name: &str, count: u64) {
        let part = &self.parts[counted.fingerprint as usize % SHARDS];
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, there)) = part.names.get_mut(&counted.fingerprint) {
            *there = there.saturating_add(count);
        } else if part.names.len() < MAX_NAMES_PER_SHARD && part.bytes + name.len() <= MAX_BYTES_PER_SHARD {
            part.bytes += name.len();
            part.names.insert(counted.fingerprint, (counted.prefix, name.into(), count));
        } else {
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Removes and returns all counts.
    pub(crate) fn drain(&self) -> Vec<(u32, Box<str>, u64)> {
        let parts = self.parts.iter();
        let taken =
            parts.map(|part| std::mem::take(&mut *part.lock().unwrap_or_else(PoisonError::into_inner)));
        taken.flat_map(|part| part.names.into_values()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_names() {
        let (failed, long) = (FailedResolutions::new(), "x".repeat(2_000));
        for fingerprint in 0..1_000_000 {
            let name = if fingerprint % 16 == 0 { &*long } else { "10.1/x" };
            failed.add(CounterKey { fingerprint, prefix: 0 }, name, 1);
        }
        failed.add(CounterKey { fingerprint: 1, prefix: 0 }, "10.1/x", 1);
        let taken = failed.drain();
        let bytes: usize = taken.iter().map(|(_, name, _)| name.len()).sum();
        assert_eq!(
            (taken.len(), bytes / MAX_BYTES_PER_SHARD),
            (15 * MAX_NAMES_PER_SHARD + MAX_BYTES_PER_SHARD / 2_000, 1)
        );
        assert_eq!(failed.dropped(), 1_000_000 - taken.len() as u64);
        assert_eq!(taken.iter().filter(|(_, _, count)| *count == 2).count(), 1);
        assert!(failed.drain().is_empty());
    }
}
