//! Pseudo-random bytes.

use tendot_proto::crypto::SecureRandom;

/// Seeded pseudo-random bytes, so that an input always has the same result.
pub(crate) struct SeededRandom(pub(crate) u64);

impl SecureRandom for SeededRandom {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (self.0 >> 56) as u8;
        }
    }
}
