//! The cryptography of the protocol, as far as it is somebody else's work: a trait, so that the crate also builds
//! where no provider does, and the provider that is used everywhere else.

#[cfg(feature = "crypto")]
mod aws_lc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;
use core::ops::Deref;

#[cfg(feature = "crypto")]
pub use aws_lc::{AwsLcProvider, SystemRandom};

use crate::record::PublicKey;

/// Hash algorithm of the protocol.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "they are called what they are called")]
pub enum HashAlgorithm {
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// Hash output of at most 64 bytes.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Digest {
    bytes: [u8; 64],
    length: u8,
}

impl Digest {
    /// Takes the bytes of a digest; of more than 64 only the first 64.
    pub fn new(digest: &[u8]) -> Self {
        let mut bytes = [0; 64];
        let mut length = 0;
        for (to, from) in bytes.iter_mut().zip(digest) {
            *to = *from;
            length += 1;
        }
        Self { bytes, length }
    }
}

impl Deref for Digest {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &**self {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Cryptography provider (as in rustls).
///
/// Implementations refuse what they think too weak or do not know; whether a peer may use what they offer is decided
/// by the policies of [`auth`](crate::auth).
pub trait CryptoProvider: fmt::Debug + Send + Sync {
    /// The hash of all parts, one after the other.
    fn hash(&self, hash: HashAlgorithm, parts: &[&[u8]]) -> Result<Digest, CryptoError>;

    /// The HMAC (RFC 2104) of all parts, one after the other.
    fn hmac(&self, hash: HashAlgorithm, key: &[u8], parts: &[&[u8]]) -> Result<Digest, CryptoError>;

    /// Fills `out` by PBKDF2 with HMAC-SHA1 (RFC 8018, 5.2).
    fn pbkdf2_sha1(
        &self,
        password: &[u8],
        salt: &[u8],
        iterations: NonZeroU32,
        out: &mut [u8],
    ) -> Result<(), CryptoError>;

    /// Checks a signature: PKCS #1 v1.5 for RSA, DER for DSA.
    fn verify_signature(
        &self,
        key: &PublicKey<'_>,
        hash: HashAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoError>;

    /// A key that signs by RSA, PKCS #1 v1.5, from an RSAPrivateKey in DER (RFC 8017, A.1.2).
    ///
    /// Checking a key takes twice as long as signing with it, so it is done once.
    fn load_signing_key(&self, der: &[u8]) -> Result<Box<dyn SigningKey>, CryptoError>;

    /// AES-128 in CBC mode with PKCS #7 padding; without the initialization vector in front.
    fn aes128_cbc_encrypt(&self, key: &[u8; 16], iv: &[u8; 16], plain: &[u8])
    -> Result<Vec<u8>, CryptoError>;

    /// The reverse of [`encrypt`](Self::encrypt).
    fn aes128_cbc_decrypt(
        &self,
        key: &[u8; 16],
        iv: &[u8; 16],
        cipher: &[u8],
    ) -> Result<Vec<u8>, CryptoError>;

    /// `base` to the power of `exponent` modulo the odd `modulus`, in as many bytes as the modulus, in a time that does
    /// not depend on `exponent`.
    fn mod_exp(&self, base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Vec<u8>, CryptoError>;
}

/// Private key ready to sign.
pub trait SigningKey: fmt::Debug + Send + Sync {
    /// Signs the hash of a message.
    fn sign(&self, hash: HashAlgorithm, message: &[u8]) -> Result<Vec<u8>, CryptoError>;

    /// How many bytes a signature has.
    fn signature_len(&self) -> usize;
}

/// Source of cryptographically secure random bytes, supplied by the caller.
pub trait SecureRandom {
    /// Fills `out`.
    fn fill(&mut self, out: &mut [u8]);
}

/// Cryptographic operation failed or is not supported.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptoError {
    /// The provider does not offer this, or not without the feature `legacy`.
    #[error("not supported")]
    Unsupported,
    /// The key is malformed, or too small or too large to be used.
    #[error("unusable key")]
    Key,
    /// The signature is not one of this key over this message.
    #[error("wrong signature")]
    Signature,
    /// The bytes cannot have been encrypted with this key.
    #[error("cannot be decrypted")]
    Ciphertext,
}
