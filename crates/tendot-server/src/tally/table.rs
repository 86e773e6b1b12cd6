//! Counters by fingerprint, of which there is a fixed number. Nothing waits and nothing is allocated: a count is one exchange
//! of one word.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::CounterKey;

/// Counters that a name may have, beside each other in memory.
const SLOTS_PER_SET: usize = 8;

/// Groups of them.
const SETS: usize = 1 << 14;

/// When so many counters are in use it is time to write them down: then hardly a group is full.
const FLUSH_THRESHOLD: usize = SETS * SLOTS_PER_SET / 8;

/// The part of a word that is the count; above it is how often the counter has been emptied, so that who has read a
/// fingerprint does not count for the next one.
const COUNT_MASK: u64 = (1 << 40) - 1;

/// The count of a counter that somebody is about to use.
const CLAIMED: u64 = COUNT_MASK;

/// Fixed-size, lock-free hash table of counters (8-way set-associative).
#[derive(Debug)]
pub(super) struct CounterTable {
    groups: Box<[[CounterSlot; SLOTS_PER_SET]]>,
    used: AtomicUsize,
}

/// One slot: generation and count in one word, name hash, prefix id.
#[derive(Debug, Default)]
struct CounterSlot {
    /// 0 in the part that is the count if nobody uses it: then the rest means nothing.
    word: AtomicU64,
    fingerprint: AtomicU64,
    prefix: AtomicU32,
}

impl CounterTable {
    pub(super) fn new() -> Self {
        Self { groups: (0..SETS).map(|_| Default::default()).collect(), used: AtomicUsize::new(0) }
    }

    /// Adds to a counter, a free one if the name has none; whether it is time to write them down. None if there is no room.
    pub(super) fn add(&self, name: CounterKey, count: u64) -> Option<bool> {
        let group = self.set_for(name);
        while !add_existing(group, name, count) {
            let mut words = group.iter().map(|counter| (counter, counter.word.load(Ordering::Relaxed)));
            let Some((counter, word)) = words.find(|(_, word)| word & COUNT_MASK == 0) else {
                // The last one may have been taken for this name just now.
                return add_existing(group, name, count).then_some(false);
            };
            if counter
                .word
                .compare_exchange(word, word | CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                counter.fingerprint.store(name.fingerprint, Ordering::Relaxed);
                counter.prefix.store(name.prefix, Ordering::Relaxed);
                counter.word.store(word | count.clamp(1, CLAIMED - 1), Ordering::Release);
                return Some(self.used.fetch_add(1, Ordering::Relaxed) + 1 == FLUSH_THRESHOLD);
            }
        }
        Some(false)
    }

    /// Counts a name that has a counter; whether it has.
    pub(super) fn increment_existing(&self, name: CounterKey) -> bool {
        add_existing(self.set_for(name), name, 1)
    }

    fn set_for(&self, name: CounterKey) -> &[CounterSlot; SLOTS_PER_SET] {
        &self.groups[name.fingerprint as usize % SETS]
    }

    /// Empties all counters, and tells what was in them.
    pub(super) fn drain(&self) -> Vec<(CounterKey, u64)> {
        let mut taken = Vec::with_capacity(self.used.load(Ordering::Relaxed));
        for counter in self.groups.iter().flatten() {
            while let Some(word) = counter.load() {
                let name = counter.key();
                let next = (word & !COUNT_MASK).wrapping_add(COUNT_MASK + 1);
                if counter.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    self.used.fetch_sub(1, Ordering::Relaxed);
                    taken.push((name, word & COUNT_MASK));
                    break;
                }
            }
        }
        taken
    }
}

/// Adds to the counter that a name has; whether it has one.
fn add_existing(group: &[CounterSlot; SLOTS_PER_SET], name: CounterKey, count: u64) -> bool {
    for counter in group {
        // Whoever empties it meanwhile makes it another word.
        while let Some(word) = counter.load()
            && counter.key() == name
        {
            let sum = (word & COUNT_MASK).saturating_add(count).min(CLAIMED - 1);
            let next = word & !COUNT_MASK | sum;
            if counter.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }
    false
}

impl CounterSlot {
    /// Its word, if it is in use; who is about to use it needs two more stores for that.
    fn load(&self) -> Option<u64> {
        loop {
            let word = self.word.load(Ordering::Acquire);
            match word & COUNT_MASK {
                0 => return None,
                CLAIMED => std::hint::spin_loop(),
                _ => return Some(word),
            }
        }
    }

    /// Of whom it was when its word was read, if that is still its word.
    fn key(&self) -> CounterKey {
        CounterKey {
            fingerprint: self.fingerprint.load(Ordering::Relaxed),
            prefix: self.prefix.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use tendot_testing::repetitions;

    use super::*;

    fn name(fingerprint: u64) -> CounterKey {
        CounterKey { fingerprint, prefix: (fingerprint % 7) as u32 }
    }

    /// Spread as those of names are, and all of them different.
    fn spread(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(32)
    }

    /// Many threads count, few names and many, while others take out what was counted: nothing is lost or counted twice, and
    /// nothing for another name.
    #[test]
    fn counts_are_exact() {
        const THREADS: u64 = 8;
        const COUNTS: u64 = 60_000;
        let (table, is_over) = (CounterTable::new(), AtomicBool::new(false));
        let mut found: HashMap<u64, u64> = HashMap::new();
        std::thread::scope(|scope| {
            let counting: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let table = &table;
                    scope.spawn(move || {
                        for number in 0..COUNTS {
                            // One that all have, some that many have, and each its own.
                            let one =
                                [0, number % 64, (thread << 32) | (number % 3_000)][number as usize % 3];
                            table.add(name(spread(one)), 1).expect("there is room");
                        }
                    })
                })
                .collect();
            let taking: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut taken = Vec::new();
                        while !is_over.load(Ordering::Relaxed) {
                            taken.extend(table.drain());
                        }
                        taken
                    })
                })
                .collect();
            counting.into_iter().for_each(|thread| thread.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
            let taken = taking.into_iter().flat_map(|thread| thread.join().unwrap());
            for (one, count) in taken.chain(table.drain()) {
                assert_eq!(one, name(one.fingerprint));
                *found.entry(one.fingerprint).or_default() += count;
            }
        });
        let mut expected: HashMap<u64, u64> = HashMap::new();
        for thread in 0..THREADS {
            for number in 0..COUNTS {
                let one = [0, number % 64, (thread << 32) | (number % 3_000)][number as usize % 3];
                *expected.entry(spread(one)).or_default() += 1;
            }
        }
        assert_eq!(found, expected);
        assert!(table.drain().is_empty());
    }

    #[test]
    fn there_is_only_so_much_room() {
        let table = CounterTable::new();
        let mut is_filling = 0;
        let counted = (0..10 * SETS as u64 * SLOTS_PER_SET as u64)
            .filter_map(|number| table.add(name(spread(number)), 1))
            .inspect(|is_many| is_filling += u32::from(*is_many))
            .count();
        assert!(counted <= SETS * SLOTS_PER_SET, "{counted}");
        assert_eq!((table.drain().len(), is_filling), (counted, 1));
        assert_eq!(table.add(name(1), 5), Some(false));
        assert!(table.increment_existing(name(1)) && !table.increment_existing(name(2)));
        assert_eq!(table.drain(), [(name(1), 6)]);
    }

    /// `TENDOT_TEST_FULL=1 cargo test --release -p tendot-server --lib -- --nocapture what_a_count_costs`
    #[test]
    #[allow(clippy::print_stdout, reason = "it is what the test is for")]
    fn what_a_count_costs() {
        let counts = repetitions("TENDOT_TEST_COUNTS", 30_000, 1_000_000);
        let (table, plain) = (CounterTable::new(), AtomicU64::new(0));
        let measure = |threads: u64, count: &(dyn Fn(u64) + Sync)| {
            let begun = Instant::now();
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    scope.spawn(move || (0..counts).for_each(|number| count((thread << 32) | number)));
                }
            });
            begun.elapsed().as_nanos() as f64 / counts as f64
        };
        for threads in [1, 2] {
            let addition = measure(threads, &|_| _ = plain.fetch_add(1, Ordering::Relaxed));
            let one = measure(threads, &|_| _ = table.add(name(1), 1));
            let many = measure(threads, &|number| _ = table.add(name(spread(number % 15_000)), 1));
            println!(
                "{threads} threads: one name {one:.1} ns, 15,000 names {many:.1} ns, an addition {addition:.1} ns"
            );
        }
        let sum: u64 = table.drain().iter().map(|(_, count)| count).sum();
        assert_eq!((sum, plain.into_inner()), (6 * counts, 3 * counts));
    }
}
