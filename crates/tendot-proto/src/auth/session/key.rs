//! Session key: encryption and decryption of messages.

use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use super::SessionError;
use crate::auth::{AuthContext, cost};
use crate::budget::Budget;
use crate::crypto::SecureRandom;
use crate::error::EncodeError;
use crate::limits;
use crate::message::{Envelope, EnvelopeFlags};

/// Session key: 32 bytes for HMAC-SHA256, the first 16 also for AES-128. Zeroed on drop.
///
/// Redacted in `Debug`.
#[derive(Clone)]
pub struct SessionKey(Zeroizing<[[u8; 16]; 2]>);

impl SessionKey {
    /// Key from bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        let mut halves = Zeroizing::new([[0; 16]; 2]);
        halves.as_flattened_mut().copy_from_slice(&bytes);
        Self(halves)
    }

    /// Derives the key from a shared Diffie-Hellman secret as long as the prime: skips leading zeros while at least 32
    /// bytes remain, then takes 32 bytes.
    pub(super) fn from_shared_secret(shared: &[u8]) -> Option<Self> {
        let spare = shared.len().checked_sub(32)?;
        let zeros = shared.iter().take(spare).take_while(|byte| **byte == 0).count();
        Some(Self::new(*shared.get(zeros..)?.first_chunk()?))
    }

    pub(in crate::auth) fn as_bytes(&self) -> &[u8] {
        self.0.as_flattened()
    }

    fn cipher_key(&self) -> &[u8; 16] {
        let [first, _] = &*self.0;
        first
    }

    /// Encrypts a complete message with AES-128-CBC: sets the envelope flag; initialization vector and ciphertext
    /// follow the envelope.
    pub fn encrypt(
        &self,
        message: &[u8],
        random: &mut dyn SecureRandom,
        context: &mut AuthContext<'_>,
    ) -> Result<Vec<u8>, SessionError> {
        let mut iv = [0; 16];
        random.fill(&mut iv);
        let (mut envelope, plain) = split_envelope(message, context.budget)?;
        let cipher = context
            .provider
            .aes128_cbc_encrypt(self.cipher_key(), &iv, plain)
            .map_err(|_| SessionError::DecryptionFailed)?;
        let length = iv.len() + cipher.len();
        if length > limits::MAX_MESSAGE_LEN {
            return Err(EncodeError::TooLong { len: length, max: limits::MAX_MESSAGE_LEN }.into());
        }
        envelope.flags |= EnvelopeFlags::ENCRYPTED;
        envelope.length = length as u32;
        Ok([&envelope.to_bytes()[..], &iv, &cipher].concat())
    }

    /// Decrypts a complete message.
    ///
    /// Decryption does not authenticate: see [`Session::open`](super::Session::open).
    pub fn decrypt(&self, message: &[u8], context: &mut AuthContext<'_>) -> Result<Vec<u8>, SessionError> {
        let (mut envelope, payload) = split_envelope(message, context.budget)?;
        let (iv, cipher) = payload.split_first_chunk::<16>().ok_or(SessionError::DecryptionFailed)?;
        let plain = context
            .provider
            .aes128_cbc_decrypt(self.cipher_key(), iv, cipher)
            .map_err(|_| SessionError::DecryptionFailed)?;
        envelope.flags -= EnvelopeFlags::ENCRYPTED;
        envelope.length = plain.len() as u32;
        Ok([&envelope.to_bytes()[..], &plain].concat())
    }
}

/// Splits envelope and payload, and checks the payload's length.
fn split_envelope<'a>(message: &'a [u8], budget: &mut Budget) -> Result<(Envelope, &'a [u8]), SessionError> {
    budget.charge(cost::hash(message.len()))?;
    let envelope = Envelope::from_bytes(message).map_err(|_| SessionError::DecryptionFailed)?;
    let payload = message.get(limits::ENVELOPE_LEN..).unwrap_or_default();
    if payload.len() != envelope.length as usize || payload.len() > limits::MAX_MESSAGE_LEN {
        return Err(SessionError::DecryptionFailed);
    }
    Ok((envelope, payload))
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn derives_keys() {
        let key = |shared: &[u8]| SessionKey::from_shared_secret(shared).map(|key| key.as_bytes().to_vec());
        let mut shared: Vec<u8> = (0..64).collect();
        assert_eq!(key(&shared).unwrap()[..2], [1, 2], "one leading zero is skipped");
        shared[..40].fill(0);
        assert_eq!(key(&shared).unwrap()[..9], [0, 0, 0, 0, 0, 0, 0, 0, 40], "at least 32 bytes remain");
        assert_eq!(key(&[0; 32]), Some(std::vec![0; 32]));
        assert_eq!(key(&[1; 31]), None);
        let key = SessionKey::new(core::array::from_fn(|n| n as u8));
        assert_eq!(key.cipher_key()[15], 15);
        assert_eq!(format!("{key:?}"), "SessionKey");
    }
}
