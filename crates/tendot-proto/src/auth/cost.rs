//! Cost model of cryptographic operations, in [`Budget`](crate::Budget) units (about 1 µs; measured in 2026 on two
//! shared cores, rounded up).

use crate::record::{KeyComponents, PublicKey};

/// Hash, MAC or cipher over `length` bytes: 0.6 µs per KiB.
pub(crate) fn hash(length: usize) -> u32 {
    to_units(1 + length / 1024)
}

/// Decoding of `length` bytes of signed JSON: base64, JSON, claims.
pub(crate) fn decode_jws(length: usize) -> u32 {
    to_units(1 + length / 128)
}

/// PBKDF2-HMAC-SHA1 with `iterations` and `length` output bytes: 0.14 µs per iteration and 20 bytes.
pub(crate) fn pbkdf2(iterations: u32, length: usize) -> u32 {
    (iterations / 4).saturating_mul(to_units(length.div_ceil(20))).saturating_add(1)
}

/// Signature verification: 10 µs for RSA of 2048 bits, 2.3 ms and 14 ms for DSA of 1024 and 2048.
pub(crate) fn verify_signature(key: &PublicKey<'_>) -> u32 {
    match key.components() {
        KeyComponents::Rsa { modulus, .. } => to_units(1 + modulus.len() / 64).saturating_pow(2),
        KeyComponents::Dsa { p, .. } => 2_500_u32.saturating_mul(to_units(p.len() / 128).saturating_pow(3)),
        KeyComponents::DiffieHellman { .. } => 1,
    }
}

/// RSA signature of `length` bytes: 0.24 ms for 2048 bits, 1.5 ms for 4096, 38 ms for 8192.
pub(crate) fn sign(length: usize) -> u32 {
    600_u32.saturating_mul(to_units(length.div_ceil(256)).saturating_pow(3))
}

/// Modular exponentiation of Diffie-Hellman with an exponent of 512 bits and a prime of `length` bytes: 0.5 ms for 1024
/// bits, 2 ms for 2048, 27 ms for 8192.
pub(crate) fn mod_exp(length: usize) -> u32 {
    500_u32.saturating_mul(to_units(length.div_ceil(128)).saturating_pow(2))
}

fn to_units(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
