//! Rates, and the generic cell rate algorithm (GCRA) for any number of keys in constant memory.
//!
//! GCRA needs one number per key: the time at which its debt is paid off. Keys share the slots of a fixed table by two
//! independent hashes, and the lower debt counts: a key is limited because of others only if both of its slots are shared
//! with heavily loaded keys.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
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
    /// Pending cost by slots. Entries without cost are removed, so there are at most as many as in-flight requests.
    reserved: Mutex<HashMap<[usize; 2], u64>>,
    /// Randomly seeded, so that clients cannot choose which keys they share slots with.
    hash: RandomState,
}

/// Cost of a request that is not decided yet: charged when dropped, unless it is cancelled.
///
/// Not charged first and refunded later, because a refund would credit other keys that share the slots.
#[derive(Debug)]
pub(crate) struct GcraReservation<'t> {
    table: &'t GcraTable,
    slots: [&'t AtomicU64; 2],
    /// Time of the request.
    now: u64,
    cost: u64,
}

impl GcraReservation<'_> {
    /// Releases the reservation without a charge.
    pub(crate) fn cancel(mut self) {
        self.release(0);
    }

    /// Removes the reservation and charges this much of it.
    fn release(&mut self, charged: u64) {
        let cost = std::mem::take(&mut self.cost);
        if cost == 0 {
            return;
        }
        let mut reserved = self.table.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        if charged > 0 {
            GcraTable::charge(self.slots, self.now, charged);
        }
        let key = slot_addresses(self.slots);
        if let Some(total) = reserved.get_mut(&key) {
            *total = total.saturating_sub(cost);
            if *total == 0 {
                reserved.remove(&key);
            }
        }
    }
}

impl Drop for GcraReservation<'_> {
    fn drop(&mut self) {
        self.release(self.cost);
    }
}

fn slot_addresses(slots: [&AtomicU64; 2]) -> [usize; 2] {
    slots.map(|slot| ptr::from_ref(slot).addr())
}

impl GcraTable {
    /// Creates a table with two rows of `slots_per_row` eight-byte slots.
    pub(crate) fn new(slots_per_row: usize, burst_nanos: u64) -> Self {
        let slots = (0..2 * slots_per_row).map(|_| AtomicU64::new(0)).collect();
        Self {
            burst_nanos,
            slots,
            shared_slot: AtomicU64::new(0),
            reserved: Mutex::default(),
            hash: RandomState::new(),
        }
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

    /// Reserves `cost`, which counts for other reservations; otherwise the time to wait.
    pub(crate) fn reserve<'t>(
        &'t self,
        slots: [&'t AtomicU64; 2],
        now: u64,
        cost: u64,
    ) -> Result<GcraReservation<'t>, Duration> {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let key = slot_addresses(slots);
        let pending = reserved.get(&key).copied().unwrap_or_default();
        self.check(slots, now, pending.saturating_add(cost))?;
        reserved.insert(key, pending.saturating_add(cost));
        Ok(GcraReservation { table: self, slots, now, cost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: u64 = 1_000;

    /// Keys that share a slot: cancelling a reservation of one pays no debt of the other, in any order.
    #[test]
    fn audit_f3_cancelled_attempts_give_no_tokens_to_others() {
        let table = GcraTable::new(8, 20 * COST);
        let [first, second, third] = [0, 1, 2].map(|index| &table.slots[index]);
        let (guesser, other) = ([first, second], [first, third]);
        let mut guesses = 0;
        for _ in 0..100 {
            // The other key succeeds again and again, also around the failures of the guesser.
            let before = table.reserve(other, 0, COST);
            if let Ok(failed) = table.reserve(guesser, 0, COST) {
                guesses += 1;
                let during = table.reserve(other, 0, COST);
                drop(failed);
                during.into_iter().for_each(GcraReservation::cancel);
            }
            before.into_iter().for_each(GcraReservation::cancel);
        }
        assert_eq!(guesses, 20);
        assert!(table.reserve(guesser, 0, COST).is_err());
        // The debt of the guesser does not count for a key that shares one slot.
        table.reserve(other, 0, COST).unwrap().cancel();
        assert!(table.reserved.lock().unwrap().is_empty());
    }

    /// Undecided requests count as if they had failed, and time pays the debt of those that do.
    #[test]
    fn reservations_count_until_they_are_cancelled() {
        let table = GcraTable::new(8, 3 * COST);
        let reserve = |now| table.reserve(table.slots("key"), now, COST);
        let mut pending: Vec<_> = (0..5).filter_map(|_| reserve(0).ok()).collect();
        assert_eq!(pending.len(), 3);
        pending.pop().unwrap().cancel();
        assert!(reserve(0).is_ok_and(|reservation| {
            reservation.cancel();
            true
        }));
        drop(pending);
        assert_eq!((0..5).filter(|_| reserve(0).is_ok()).count(), 1);
        assert_eq!((0..5).filter(|_| reserve(2 * COST).is_ok()).count(), 2);
    }
}
