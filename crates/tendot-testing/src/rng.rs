/// Deterministic random numbers (SplitMix64), reproducible by their seed.
#[derive(Clone, Debug)]
pub struct SeededRng {
    state: u64,
}

impl SeededRng {
    /// A generator that returns the same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number less than `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next_u64() % end.max(1) as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn in_range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True with probability 1/2.
    pub const fn coin(&mut self) -> bool {
        self.next_u64() & 1 == 1
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Overwrites `buffer` with random bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// An array of random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// One of the items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

#[cfg(feature = "handle")]
impl tendot_proto::crypto::SecureRandom for SeededRng {
    fn fill(&mut self, out: &mut [u8]) {
        Self::fill(self, out);
    }
}

/// The number in `TENDOT_TEST_SEED`, to repeat a failed run; otherwise a new seed each time, below 1,000,000,000.
pub fn test_seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    let given = std::env::var("TENDOT_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000_000)
}
