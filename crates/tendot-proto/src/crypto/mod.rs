//! Cryptography provider trait and the default aws-lc-rs provider.
//!
//! A trait, so that the crate also builds for targets without aws-lc-rs.
//!
//! In reading order:
//!
//! - `hash`: hash algorithms and outputs
//! - `aws_lc`: the default provider

#[cfg(feature = "crypto")]
mod aws_lc;
mod hash;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;

#[cfg(feature = "crypto")]
pub use aws_lc::{AwsLcProvider, SystemRandom};
pub use hash::{Digest, HashAlgorithm};

use crate::record::PublicKey;

/// Cryptography provider (as in rustls).
///
/// Implementations reject algorithms that are too weak or unknown to them; [`AuthPolicy`](crate::auth::AuthPolicy)
/// decides which of the others a peer may use. Methods that are not implemented return [`CryptoError::Unsupported`].
pub trait CryptoProvider: fmt::Debug + Send + Sync {
    /// Hash of the concatenated parts.
    fn hash(&self, hash: HashAlgorithm, parts: &[&[u8]]) -> Result<Digest, CryptoError> {
        unsupported((hash, parts))
    }

    /// HMAC (RFC 2104) of the concatenated parts.
    fn hmac(&self, hash: HashAlgorithm, key: &[u8], parts: &[&[u8]]) -> Result<Digest, CryptoError> {
        unsupported((hash, key, parts))
    }

    /// PBKDF2-HMAC-SHA1 (RFC 8018, 5.2) into `out`.
    fn pbkdf2_sha1(
        &self,
        password: &[u8],
        salt: &[u8],
        iterations: NonZeroU32,
        out: &mut [u8],
    ) -> Result<(), CryptoError> {
        unsupported((password, salt, iterations, out))
    }

    /// Verifies a signature: PKCS #1 v1.5 for RSA, DER for DSA.
    fn verify_signature(
        &self,
        key: &PublicKey<'_>,
        hash: HashAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoError> {
        unsupported((key, hash, message, signature))
    }

    /// Loads an RSA key for PKCS #1 v1.5 signatures from an RSAPrivateKey in DER (RFC 8017, A.1.2).
    ///
    /// Checking a key takes twice as long as signing with it, so it is done once.
    fn load_signing_key(&self, der: &[u8]) -> Result<Box<dyn SigningKey>, CryptoError> {
        unsupported(der)
    }

    /// AES-128-CBC encryption with PKCS #7 padding; the output has no initialization vector.
    fn aes128_cbc_encrypt(
        &self,
        key: &[u8; 16],
        iv: &[u8; 16],
        plain: &[u8],
    ) -> Result<Vec<u8>, CryptoError> {
        unsupported((key, iv, plain))
    }

    /// AES-128-CBC decryption, the inverse of [`aes128_cbc_encrypt`](Self::aes128_cbc_encrypt).
    fn aes128_cbc_decrypt(
        &self,
        key: &[u8; 16],
        iv: &[u8; 16],
        cipher: &[u8],
    ) -> Result<Vec<u8>, CryptoError> {
        unsupported((key, iv, cipher))
    }

    /// Modular exponentiation with an odd `modulus`, constant-time in `exponent`; the result is as long as the modulus.
    fn mod_exp(&self, base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Vec<u8>, CryptoError> {
        unsupported((base, exponent, modulus))
    }
}

/// Result of an operation that a provider does not implement.
fn unsupported<A, T>(_arguments: A) -> Result<T, CryptoError> {
    Err(CryptoError::Unsupported)
}

/// Private key ready to sign.
pub trait SigningKey: fmt::Debug + Send + Sync {
    /// Signs the hash of a message.
    fn sign(&self, hash: HashAlgorithm, message: &[u8]) -> Result<Vec<u8>, CryptoError>;

    /// Length of a signature in bytes.
    fn signature_len(&self) -> usize;
}

/// Source of cryptographically secure random bytes, supplied by the caller.
pub trait SecureRandom {
    /// Fills `out` with random bytes.
    fn fill(&mut self, out: &mut [u8]);
}

/// Unpredictable id of a request, session or challenge. Not 0, which means none, and 31 bits: Handle.Net reads ids as
/// signed.
pub fn random_id(random: &mut dyn SecureRandom) -> u32 {
    let mut bytes = [0; 4];
    random.fill(&mut bytes);
    (u32::from_be_bytes(bytes) & i32::MAX as u32).max(1)
}

/// [`random_id`] that is not in use.
pub(crate) fn unused_id(random: &mut dyn SecureRandom, is_in_use: impl Fn(u32) -> bool) -> u32 {
    loop {
        let id = random_id(random);
        if !is_in_use(id) {
            return id;
        }
    }
}

/// Cryptographic operation failed or is not supported.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptoError {
    /// Not supported, or not without the feature `legacy-crypto`.
    #[error("operation not supported")]
    Unsupported,
    /// The key is malformed, too small or too large.
    #[error("invalid key")]
    Key,
    /// The signature does not match the key and message.
    #[error("invalid signature")]
    Signature,
    /// Decryption failed.
    #[error("decryption failed")]
    Ciphertext,
}
