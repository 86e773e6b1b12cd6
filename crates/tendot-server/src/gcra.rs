//! Rates, and the generic cell rate algorithm (GCRA) for any number of keys in constant memory.
//!
//! GCRA needs one number per key: the time at which its debt is paid off. Keys share the slots of a fixed table by two
//! independent hashes, and the lower debt counts: a key is limited because of others only if both of its slots are shared
//! with heavily loaded keys.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Sustained rate per second and burst.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    /// Sustained requests per second.
    pub per_second: u32,
    /// Requests at once after an idle period.
    pub burst: u32,
}

impl Rate {
    /// Cost of a request in nanoseconds.
    pub(crate) fn interval_nanos(self) -> u64 {
        1_000_000_000 / u64::from(self.per_second.max(1))
    }

    /// Maximum debt in nanoseconds.
    pub(crate) fn burst_nanos(self) -> u64 {
        self.interval_nanos() * u64::from(self.burst.max(1))
    }
}

/// Generic cell rate algorithm (GCRA) for any number of keys in constant memory.
#[derive(Debug)]
pub(crate) struct GcraTable {
    /// Maximum debt in nanoseconds.
    burst_nanos: u64,
    /// Two rows of slots.
    pub(crate) slots: Box<[AtomicU64]>,
    /// Slot of all keys of a table without slots.
    shared_slot: AtomicU64,
    /// Randomly seeded, so that clients cannot choose which keys they share slots with.
    hash: RandomState,
}

impl GcraTable {
    /// Creates a table with two rows of `slots_per_row` eight-byte slots.
    pub(crate) fn new(slots_per_row: usize, burst_nanos: u64) -> Self {
        let slots = (0..2 * slots_per_row).map(|_| AtomicU64::new(0)).collect();
        Self { burst_nanos, slots, shared_slot: AtomicU64::new(0), hash: RandomState::new() }
    }

    /// Slots of a key, one in each row.
    pub(crate) fn slots<'t>(&'t self, key: impl Hash) -> [&'t AtomicU64; 2] {
        let hash = self.hash.hash_one(key);
        let (first, second) = self.slots.split_at(self.slots.len() / 2);
        let slot_in = |row: &'t [AtomicU64], hash: u64| {
            row.get(hash as usize % row.len().max(1)).unwrap_or(&self.shared_slot)
        };
        [slot_in(first, hash), slot_in(second, hash >> 32)]
    }

    /// Debt in nanoseconds from now.
    fn debt(slots: [&AtomicU64; 2], now: u64) -> u64 {
        let [first, second] = slots.map(|slot| slot.load(Ordering::Relaxed));
        first.min(second).saturating_sub(now)
    }

    /// Whether `cost` can be added to the debt; otherwise the time to wait.
    pub(crate) fn check(&self, slots: [&AtomicU64; 2], now: u64, cost: u64) -> Result<(), Duration> {
        let debt = Self::debt(slots, now) + cost;
        if debt <= self.burst_nanos { Ok(()) } else { Err(Duration::from_nanos(debt - self.burst_nanos)) }
    }

    /// Adds `cost` to the debt.
    pub(crate) fn charge(slots: [&AtomicU64; 2], now: u64, cost: u64) {
        let until = now + Self::debt(slots, now) + cost;
        for slot in slots {
            slot.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// Subtracts a refunded cost.
    pub(crate) fn refund(slots: [&AtomicU64; 2], cost: u64) {
        for slot in slots {
            let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| until.checked_sub(cost));
        }
    }
}
