//! Random bytes for ids, nonces and secrets.

use tendot_proto::crypto::{SecureRandom as _, SystemRandom};

/// Random bytes of the system.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom.fill(&mut bytes);
    bytes
}
