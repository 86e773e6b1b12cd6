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
    shards: [Mutex<FailedResolutionShard>; SHARDS],
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
        Self { shards: Default::default(), dropped: AtomicU64::new(0) }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, key: CounterKey, name: &str, count: u64) {
        let Some(shard) = self.shards.get(key.name_hash as usize % SHARDS) else { return };
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, sum)) = shard.names.get_mut(&key.name_hash) {
            *sum = sum.saturating_add(count);
        } else if shard.names.len() < MAX_NAMES_PER_SHARD && shard.bytes + name.len() <= MAX_BYTES_PER_SHARD {
            shard.bytes += name.len();
            shard.names.insert(key.name_hash, (key.prefix_id, name.into(), count));
        } else {
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Removes and returns all counts.
    pub(crate) fn drain(&self) -> Vec<(u32, Box<str>, u64)> {
        let shards = self.shards.iter();
        let drained =
            shards.map(|shard| std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner)));
        drained.flat_map(|shard| shard.names.into_values()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_under_random_names() {
        let (failed, long) = (FailedResolutions::new(), "x".repeat(2_000));
        for name_hash in 0..1_000_000 {
            let name = if name_hash % 16 == 0 { &*long } else { "10.1/x" };
            failed.add(CounterKey { name_hash, prefix_id: 0 }, name, 1);
        }
        failed.add(CounterKey { name_hash: 1, prefix_id: 0 }, "10.1/x", 1);
        let drained = failed.drain();
        let bytes: usize = drained.iter().map(|(_, name, _)| name.len()).sum();
        assert_eq!(
            (drained.len(), bytes / MAX_BYTES_PER_SHARD),
            (15 * MAX_NAMES_PER_SHARD + MAX_BYTES_PER_SHARD / 2_000, 1)
        );
        assert_eq!(failed.dropped(), 1_000_000 - drained.len() as u64);
        assert_eq!(drained.iter().filter(|(_, _, count)| *count == 2).count(), 1);
        assert!(failed.drain().is_empty());
    }
}
