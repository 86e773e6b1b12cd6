//! Counters by fingerprint, of which there is a fixed number. Nothing waits and nothing is allocated: a count is one exchange
//! of one word.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::Counted;

/// Counters that a name may have, beside each other in memory.
const SLOTS_PER_SET: usize = 8;

/// Groups of them.
const GROUPS: usize = 1 << 14;

/// When so many counters are in use it is time to write them down: then hardly a group is full.
const FLUSH_THRESHOLD: usize = GROUPS * SLOTS_PER_SET / 8;

/// The part of a word that is the count; above it is how often the counter has been emptied, so that who has read a
/// fingerprint does not count for the next one.
const COUNT: u64 = (1 << 40) - 1;

/// The count of a counter that somebody is about to use.
const CLAIMED: u64 = COUNT;

#[derive(Debug)]
pub(super) struct Table {
    groups: Box<[[Counter; SLOTS_PER_SET]]>,
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
        while !add_existing(group, name, count) {
            let mut words = group.iter().map(|counter| (counter, counter.word.load(Ordering::Relaxed)));
            let Some((counter, word)) = words.find(|(_, word)| word & COUNT == 0) else {
                // The last one may have been taken for this name just now.
                return add_existing(group, name, count).then_some(false);
            };
            if counter.word.compare_exchange(word, word | CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
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
    pub(super) fn increment_existing(&self, name: Counted) -> bool {
        add_existing(self.group(name), name, 1)
    }

    fn group(&self, name: Counted) -> &[Counter; SLOTS_PER_SET] {
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
fn add_existing(group: &[Counter; SLOTS_PER_SET], name: Counted, count: u64) -> bool {
    for counter in group {
        // Whoever empties it meanwhile makes it another word.
        while let Some(word) = counter.read()
            && counter.name() == name
        {
            let sum = (word & COUNT).saturating_add(count).min(CLAIMED - 1);
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
                CLAIMED => std::hint::spin_loop(),
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use tendot_testing::repetitions;

    use super::*;

    fn name(fingerprint: u64) -> Counted {
        Counted { fingerprint, prefix: (fingerprint % 7) as u32 }
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
        let (table, is_over) = (Table::new(), AtomicBool::new(false));
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
                            taken.extend(table.take());
                        }
                        taken
                    })
                })
                .collect();
            counting.into_iter().for_each(|thread| thread.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
            let taken = taking.into_iter().flat_map(|thread| thread.join().unwrap());
            for (one, count) in taken.chain(table.take()) {
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
        assert!(table.take().is_empty());
    }

    #[test]
    fn there_is_only_so_much_room() {
        let table = Table::new();
        let mut is_filling = 0;
        let counted = (0..10 * GROUPS as u64 * SLOTS_PER_SET as u64)
            .filter_map(|number| table.add(name(spread(number)), 1))
            .inspect(|is_many| is_filling += u32::from(*is_many))
            .count();
        assert!(counted <= GROUPS * SLOTS_PER_SET, "{counted}");
        assert_eq!((table.take().len(), is_filling), (counted, 1));
        assert_eq!(table.add(name(1), 5), Some(false));
        assert!(table.increment_existing(name(1)) && !table.increment_existing(name(2)));
        assert_eq!(table.take(), [(name(1), 6)]);
    }

    /// `TENDOT_TEST_FULL=1 cargo test --release -p tendot-server --lib -- --nocapture what_a_count_costs`
    #[test]
    #[allow(clippy::print_stdout, reason = "it is what the test is for")]
    fn what_a_count_costs() {
        let counts = repetitions("TENDOT_TEST_COUNTS", 30_000, 1_000_000);
        let (table, plain) = (Table::new(), AtomicU64::new(0));
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
        let sum: u64 = table.take().iter().map(|(_, count)| count).sum();
        assert_eq!((sum, plain.into_inner()), (6 * counts, 3 * counts));
    }
}
