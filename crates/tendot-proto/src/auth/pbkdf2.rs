use alloc::vec::Vec;
use core::num::NonZeroU32;

use zeroize::Zeroizing;

use super::error::AuthError;
use super::price;
use crate::crypto::CryptoProvider;
use crate::work::Budget;

/// Rounds that the deployed software writes.
pub(super) const DEFAULT_ITERATIONS: u32 = 10_000;

/// PBKDF2 with HMAC-SHA1 as the deployed software has it: each byte of the secret is taken for a character, which enters
/// the computation in UTF-8, so bytes from 0x80 on become two.
pub(super) fn derive(
    crypto: &dyn CryptoProvider,
    secret: &[u8],
    salt: &[u8],
    rounds: NonZeroU32,
    out: &mut [u8],
    work: &mut Budget,
) -> Result<(), AuthError> {
    work.charge(price::pbkdf2(rounds.get(), out.len()).saturating_add(price::hash(secret.len())))?;
    let mut password = Zeroizing::new(Vec::with_capacity(2 * secret.len()));
    for byte in secret {
        let mut utf8 = [0; 2];
        password.extend_from_slice(char::from(*byte).encode_utf8(&mut utf8).as_bytes());
    }
    crypto.pbkdf2_sha1(&password, salt, rounds, out)?;
    Ok(())
}
