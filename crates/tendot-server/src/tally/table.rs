//! Counters by fingerprint, of which there is a fixed number. Nothing waits and nothing is allocated: a count is one exchange
//! of one word.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::Counted;

/// Counters that a name may have, beside each other in memory.
const WAYS: usize = 8;

/// Groups of them.
const GROUPS: usize = 1 << 14;

/// When so many counters are in use it is time to write them down: then hardly a group is full.
const MANY: usize = GROUPS * WAYS / 8;

/// The part of a word that is the count; above it is how often the counter has been emptied, so that who has read a
/// fingerprint does not count for the next one.
const COUNT: u64 = (1 << 40) - 1;

/// The count of a counter that somebody is about to use.
const TAKEN: u64 = COUNT;

#[derive(Debug)]
pub(super) struct Table {
    groups: Box<[[Counter; WAYS]]>,
    used: AtomicUsize,
}

#[derive(Debug, Default)]
struct Counter {
    /// 0 in the part that is the count if nobody uses it: then the rest means nothing.
    word: AtomicU64,
    fingerprint: AtomicU64,
    prefix: AtomicU32,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { groups: (0..GROUPS).map(|_| Default::default()).collect(), used: AtomicUsize::new(0) }
    }

    /// Adds to a counter, a free one if the name has none; whether it is time to write them down. None if there is no room.
    pub(super) fn add(&self, name: Counted, count: u64) -> Option<bool> {
        let group = self.group(name);
        while !add_there(group, name, count) {
            let mut words = group.iter().map(|counter| (counter, counter.word.load(Ordering::Relaxed)));
            let Some((counter, word)) = words.find(|(_, word)| word & COUNT == 0) else {
                // The last one may have been taken for this name just now.
                return add_there(group, name, count).then_some(false);
            };
            if counter.word.compare_exchange(word, word | TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                counter.fingerprint.store(name.fingerprint, Ordering::Relaxed);
                counter.prefix.store(name.prefix, Ordering::Relaxed);
                counter.word.store(word | count.clamp(1, TAKEN - 1), Ordering::Release);
                return Some(self.used.fetch_add(1, Ordering::Relaxed) + 1 == MANY);
            }
        }
        Some(false)
    }

    /// Counts a name that has a counter; whether it has.
    pub(super) fn add_again(&self, name: Counted) -> bool {
        add_there(self.group(name), name, 1)
    }

    fn group(&self, name: Counted) -> &[Counter; WAYS] {
        &self.groups[name.fingerprint as usize % GROUPS]
    }

    /// Empties all counters, and tells what was in them.
    pub(super) fn take(&self) -> Vec<(Counted, u64)> {
        let mut taken = Vec::with_capacity(self.used.load(Ordering::Relaxed));
        for counter in self.groups.iter().flatten() {
            while let Some(word) = counter.read() {
                let name = counter.name();
                let next = (word & !COUNT).wrapping_add(COUNT + 1);
                if counter.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    self.used.fetch_sub(1, Ordering::Relaxed);
                    taken.push((name, word & COUNT));
                    break;
                }
            }
        }
        taken
    }
}

/// Adds to the counter that a name has; whether it has one.
fn add_there(group: &[Counter; WAYS], name: Counted, count: u64) -> bool {
    for counter in group {
        // Whoever empties it meanwhile makes it another word.
        while let Some(word) = counter.read()
            && counter.name() == name
        {
            let sum = (word & COUNT).saturating_add(count).min(TAKEN - 1);
            let next = word & !COUNT | sum;
            if counter.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }
    false
}

impl Counter {
    /// Its word, if it is in use; who is about to use it needs two more stores for that.
    fn read(&self) -> Option<u64> {
        loop {
            let word = self.word.load(Ordering::Acquire);
            match word & COUNT {
                0 => return None,
                TAKEN => std::hint::spin_loop(),
                _ => return Some(word),
            }
        }
    }

    /// Of whom it was when its word was read, if that is still its word.
    fn name(&self) -> Counted {
        Counted {
            fingerprint: self.fingerprint.load(Ordering::Relaxed),
            prefix: self.prefix.load(Ordering::Relaxed),
        }
    }
}
