//! Fixed-size, lock-free table of counters by fingerprint. A count is one compare-and-swap of one word; nothing blocks or
//! allocates.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::resolution_stats::CounterKey;

/// Slots per set, adjacent in memory.
const SLOTS_PER_SET: usize = 8;

/// Number of sets.
const SETS: usize = 1 << 14;

/// Slots in use that trigger a flush: at this fill level, full sets are rare.
const FLUSH_THRESHOLD: usize = SETS * SLOTS_PER_SET / 8;

/// Count part of a word. The bits above are the slot's generation, so that a thread that has read a fingerprint cannot count
/// for the name that uses the slot next.
const COUNT_MASK: u64 = (1 << 40) - 1;

/// Count that marks a slot as being claimed by a thread.
const CLAIMED: u64 = COUNT_MASK;

/// Fixed-size, lock-free hash table of counters (8-way set-associative).
#[derive(Debug)]
pub(crate) struct CounterTable {
    groups: Box<[[CounterSlot; SLOTS_PER_SET]]>,
    used: AtomicUsize,
}

/// One slot: generation and count in one word, name hash, prefix id.
#[derive(Debug, Default)]
struct CounterSlot {
    /// Generation and count; a count of 0 means that the slot is free and its other fields are meaningless.
    word: AtomicU64,
    fingerprint: AtomicU64,
    prefix: AtomicU32,
}

impl CounterTable {
    pub(crate) fn new() -> Self {
        Self { groups: (0..SETS).map(|_| Default::default()).collect(), used: AtomicUsize::new(0) }
    }

    /// Adds to the counter of a name, claiming a free slot if it has none. Returns whether a flush is due, or `None` if the set
    /// is full.
    pub(crate) fn add(&self, name: CounterKey, count: u64) -> Option<bool> {
        let group = self.set_for(name);
        while !add_existing(group, name, count) {
            let mut words = group.iter().map(|counter| (counter, counter.word.load(Ordering::Relaxed)));
            let Some((counter, word)) = words.find(|(_, word)| word & COUNT_MASK == 0) else {
                // Another thread may have claimed the last slot for this name.
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

    /// Increments the counter of a name that has one; returns whether it has.
    pub(crate) fn increment_existing(&self, name: CounterKey) -> bool {
        add_existing(self.set_for(name), name, 1)
    }

    fn set_for(&self, name: CounterKey) -> &[CounterSlot; SLOTS_PER_SET] {
        &self.groups[name.fingerprint as usize % SETS]
    }

    /// Empties all counters and returns their counts.
    pub(crate) fn drain(&self) -> Vec<(CounterKey, u64)> {
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

/// Adds to the existing counter of a name; returns whether there is one.
fn add_existing(group: &[CounterSlot; SLOTS_PER_SET], name: CounterKey, count: u64) -> bool {
    for counter in group {
        // A concurrent drain changes the generation, so that the exchange fails.
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
    /// The word, if the slot is in use. Waits while it is being claimed, which takes two more stores.
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

    /// Key of the slot; valid if the word is unchanged afterwards.
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

    /// Distinct hashes, distributed like those of names.
    fn spread(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(32)
    }

    /// Counts from many threads, of few and many names, with concurrent drains: no count is lost, doubled or attributed to
    /// another name.
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
                            // One name that all threads count, some that many count, and one per thread.
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
    #[allow(clippy::print_stdout, reason = "the test prints measurements")]
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
