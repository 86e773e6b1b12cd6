//! Handle.Net's PBKDF2 variant.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use zeroize::Zeroizing;

use super::cost;
use super::error::AuthError;
use crate::budget::Budget;
use crate::crypto::CryptoProvider;

/// Default number of iterations in Handle.Net.
pub(super) const DEFAULT_ITERATIONS: u32 = 10_000;

/// Handle.Net's variant of PBKDF2-HMAC-SHA1: each byte of the secret is a character that is encoded as UTF-8, so bytes
/// from 0x80 become two.
pub(super) fn derive(
    crypto: &dyn CryptoProvider,
    secret: &[u8],
    salt: &[u8],
    iterations: NonZeroU32,
    out: &mut [u8],
    budget: &mut Budget,
) -> Result<(), AuthError> {
    budget.charge(cost::pbkdf2(iterations.get(), out.len()).saturating_add(cost::hash(secret.len())))?;
    let mut password = Zeroizing::new(Vec::with_capacity(2 * secret.len()));
    for byte in secret {
        let mut utf8 = [0; 2];
        password.extend_from_slice(char::from(*byte).encode_utf8(&mut utf8).as_bytes());
    }
    crypto.pbkdf2_sha1(&password, salt, iterations, out)?;
    Ok(())
}
