//! Chance that can be had again: by a number, which is told when something is found.

#![allow(dead_code, reason = "each test uses some of this")]

pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    /// The same for the same number.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Less than `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

/// `TENDOT_SEED`, to see something again; else a new one each time.
pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    let given = std::env::var("TENDOT_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000_000)
}
