//! Fixed-size, lock-free table of counters by name hash. A count is one compare-and-swap of one word; nothing blocks or
//! allocates.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::resolution_stats::CounterKey;

/// Slots per set, adjacent in memory.
const SLOTS_PER_SET: usize = 8;

/// Number of sets.
const SETS: usize = 1 << 14;

/// Slots in use that trigger a flush: at this fill level, full sets are rare.
const FLUSH_THRESHOLD: usize = SETS * SLOTS_PER_SET / 8;

/// Count part of a word. The bits above are the slot's generation, so that a thread that has read a name hash cannot count
/// for the name that uses the slot next.
const COUNT_MASK: u64 = (1 << 40) - 1;

/// Count that marks a slot as being claimed by a thread.
const CLAIMED: u64 = COUNT_MASK;

/// Fixed-size, lock-free hash table of counters (8-way set-associative).
#[derive(Debug)]
pub(crate) struct CounterTable {
    sets: Box<[[CounterSlot; SLOTS_PER_SET]]>,
    used: AtomicUsize,
}

/// One slot: generation and count in one word, name hash, prefix id.
#[derive(Debug, Default)]
struct CounterSlot {
    /// Generation and count; a count of 0 means that the slot is free and its other fields are meaningless.
    word: AtomicU64,
    name_hash: AtomicU64,
    prefix_id: AtomicU32,
}

impl CounterTable {
    pub(crate) fn new() -> Self {
        Self { sets: (0..SETS).map(|_| Default::default()).collect(), used: AtomicUsize::new(0) }
    }

    /// Adds to the counter of a name, claiming a free slot if it has none. Returns whether a flush is due, or `None` if the set
    /// is full.
    pub(crate) fn add(&self, key: CounterKey, count: u64) -> Option<bool> {
        let set = self.set_for(key);
        while !add_existing(set, key, count) {
            let mut words = set.iter().map(|counter| (counter, counter.word.load(Ordering::Relaxed)));
            let Some((counter, word)) = words.find(|(_, word)| word & COUNT_MASK == 0) else {
                // Another thread may have claimed the last slot for this name.
                return add_existing(set, key, count).then_some(false);
            };
            if counter
                .word
                .compare_exchange(word, word | CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                counter.name_hash.store(key.name_hash, Ordering::Relaxed);
                counter.prefix_id.store(key.prefix_id, Ordering::Relaxed);
                counter.word.store(word | count.clamp(1, CLAIMED - 1), Ordering::Release);
                return Some(self.used.fetch_add(1, Ordering::Relaxed) + 1 == FLUSH_THRESHOLD);
            }
        }
        Some(false)
    }

    fn set_for(&self, key: CounterKey) -> &[CounterSlot] {
        self.sets.get(key.name_hash as usize % SETS).map_or(&[], |set| set.as_slice())
    }

    /// Empties all counters and returns their counts.
    pub(crate) fn drain(&self) -> Vec<(CounterKey, u64)> {
        let mut drained = Vec::with_capacity(self.used.load(Ordering::Relaxed));
        for counter in self.sets.iter().flatten() {
            while let Some(word) = counter.load() {
                let key = counter.key();
                let next = (word & !COUNT_MASK).wrapping_add(COUNT_MASK + 1);
                if counter.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    self.used.fetch_sub(1, Ordering::Relaxed);
                    drained.push((key, word & COUNT_MASK));
                    break;
                }
            }
        }
        drained
    }
}

/// Adds to the existing counter of a name; returns whether there is one.
fn add_existing(set: &[CounterSlot], key: CounterKey, count: u64) -> bool {
    for counter in set {
        // A concurrent drain changes the generation, so that the exchange fails.
        while let Some(word) = counter.load()
            && counter.key() == key
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
            name_hash: self.name_hash.load(Ordering::Relaxed),
            prefix_id: self.prefix_id.load(Ordering::Relaxed),
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

    fn key(name_hash: u64) -> CounterKey {
        CounterKey { name_hash, prefix_id: (name_hash % 7) as u32 }
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
        let (table, is_finished) = (CounterTable::new(), AtomicBool::new(false));
        let mut found: HashMap<u64, u64> = HashMap::new();
        std::thread::scope(|scope| {
            let counting: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let table = &table;
                    scope.spawn(move || {
                        for number in 0..COUNTS {
                            // One name that all threads count, some that many count, and one per thread.
                            let number =
                                [0, number % 64, (thread << 32) | (number % 3_000)][number as usize % 3];
                            table.add(key(spread(number)), 1).expect("the table is not full");
                        }
                    })
                })
                .collect();
            let draining: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut drained = Vec::new();
                        while !is_finished.load(Ordering::Relaxed) {
                            drained.extend(table.drain());
                        }
                        drained
                    })
                })
                .collect();
            counting.into_iter().for_each(|thread| thread.join().unwrap());
            is_finished.store(true, Ordering::Relaxed);
            let drained = draining.into_iter().flat_map(|thread| thread.join().unwrap());
            for (counted, count) in drained.chain(table.drain()) {
                assert_eq!(counted, key(counted.name_hash));
                *found.entry(counted.name_hash).or_default() += count;
            }
        });
        let mut expected: HashMap<u64, u64> = HashMap::new();
        for thread in 0..THREADS {
            for number in 0..COUNTS {
                let name = [0, number % 64, (thread << 32) | (number % 3_000)][number as usize % 3];
                *expected.entry(spread(name)).or_default() += 1;
            }
        }
        assert_eq!(found, expected);
        assert!(table.drain().is_empty());
    }

    #[test]
    fn bounded_table() {
        let table = CounterTable::new();
        let mut flushes_due = 0;
        let counted = (0..10 * SETS as u64 * SLOTS_PER_SET as u64)
            .filter_map(|number| table.add(key(spread(number)), 1))
            .inspect(|is_due| flushes_due += u32::from(*is_due))
            .count();
        assert!(counted <= SETS * SLOTS_PER_SET, "{counted}");
        assert_eq!((table.drain().len(), flushes_due), (counted, 1));
        assert_eq!(table.add(key(1), 5), Some(false));
        assert_eq!(table.add(key(1), 1), Some(false));
        assert_eq!(table.drain(), [(key(1), 6)]);
    }

    /// `TENDOT_TEST_FULL=1 cargo test --release -p tendot-server --lib -- --nocapture bench_count`
    #[test]
    #[allow(clippy::print_stdout, reason = "the test prints measurements")]
    fn bench_count() {
        let counts = repetitions("TENDOT_TEST_COUNTS", 30_000, 1_000_000);
        let (table, plain) = (CounterTable::new(), AtomicU64::new(0));
        let measure = |threads: u64, count: &(dyn Fn(u64) + Sync)| {
            let started = Instant::now();
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    scope.spawn(move || (0..counts).for_each(|number| count((thread << 32) | number)));
                }
            });
            started.elapsed().as_nanos() as f64 / counts as f64
        };
        for threads in [1, 2] {
            let addition = measure(threads, &|_| _ = plain.fetch_add(1, Ordering::Relaxed));
            let one = measure(threads, &|_| _ = table.add(key(1), 1));
            let many = measure(threads, &|number| _ = table.add(key(spread(number % 15_000)), 1));
            println!(
                "{threads} threads: one name {one:.1} ns, 15,000 names {many:.1} ns, an addition {addition:.1} ns"
            );
        }
        let sum: u64 = table.drain().iter().map(|(_, count)| count).sum();
        assert_eq!((sum, plain.into_inner()), (6 * counts, 3 * counts));
    }
}
