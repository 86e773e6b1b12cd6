//! Names that were not found, with how often they were asked for. They are made up by whoever asks, and so there is only so
//! much room for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Counted;

/// Parts that are locked one by one.
const SHARDS: usize = 16;

/// Names in one part, and their bytes.
const NAMES: usize = 1_024;
const BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Failed {
    parts: [Mutex<Part>; SHARDS],
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Part {
    names: HashMap<u64, (u32, Box<str>, u64)>,
    bytes: usize,
}

impl Failed {
    pub(super) fn new() -> Self {
        Self { parts: Default::default(), dropped: AtomicU64::new(0) }
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, counted: Counted, name: &str, count: u64) {
        let part = &self.parts[counted.fingerprint as usize % SHARDS];
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, there)) = part.names.get_mut(&counted.fingerprint) {
            *there = there.saturating_add(count);
        } else if part.names.len() < NAMES && part.bytes + name.len() <= BYTES {
            part.bytes += name.len();
            part.names.insert(counted.fingerprint, (counted.prefix, name.into(), count));
        } else {
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Takes all of them out.
    pub(super) fn take(&self) -> Vec<(u32, Box<str>, u64)> {
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
        let (failed, long) = (Failed::new(), "x".repeat(2_000));
        for fingerprint in 0..1_000_000 {
            let name = if fingerprint % 16 == 0 { &*long } else { "10.1/x" };
            failed.add(Counted { fingerprint, prefix: 0 }, name, 1);
        }
        failed.add(Counted { fingerprint: 1, prefix: 0 }, "10.1/x", 1);
        let taken = failed.take();
        let bytes: usize = taken.iter().map(|(_, name, _)| name.len()).sum();
        assert_eq!((taken.len(), bytes / BYTES), (15 * NAMES + BYTES / 2_000, 1));
        assert_eq!(failed.dropped(), 1_000_000 - taken.len() as u64);
        assert_eq!(taken.iter().filter(|(_, _, count)| *count == 2).count(), 1);
        assert!(failed.take().is_empty());
    }
}
