//! `HS_SECKEY`: secret keys.

use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use crate::crypto::{CryptoError, CryptoProvider, HashAlgorithm};

/// Data of an `HS_SECKEY` value: shared secret. Zeroed on drop, redacted in `Debug`.
///
/// ```
/// use tendot_proto::record::SecretKey;
///
/// let secret = SecretKey::new(b"opensesame");
/// assert_eq!(secret.as_bytes(), b"opensesame");
/// assert_eq!(format!("{secret:?}"), "SecretKey(10 bytes)");
/// ```
#[derive(Clone)]
pub struct SecretKey(Zeroizing<Vec<u8>>);

impl SecretKey {
    /// Copies the secret.
    pub fn new(secret: &[u8]) -> Self {
        Self(Zeroizing::new(secret.to_vec()))
    }

    /// Bytes of the secret.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// SHA-1 of the secret as 40 lower-case hexadecimal digits, which some tools store instead of the secret.
    ///
    /// A record does not say which of the two it holds; the caller must know.
    pub fn sha1_hex(&self, crypto: &dyn CryptoProvider) -> Result<Self, CryptoError> {
        let digest = crypto.hash(HashAlgorithm::Sha1, &[self.as_bytes()])?;
        let mut digits = Zeroizing::new(alloc::vec![0; 2 * digest.len()]);
        data_encoding::HEXLOWER.encode_mut(&digest, &mut digits);
        Ok(Self(digits))
    }
}

/// Constant-time comparison.
impl PartialEq for SecretKey {
    fn eq(&self, other: &Self) -> bool {
        subtle::ConstantTimeEq::ct_eq(self.as_bytes(), other.as_bytes()).into()
    }
}

impl Eq for SecretKey {}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Digest;

    /// Test provider that knows one SHA-1 digest.
    #[derive(Debug)]
    struct FixedDigest;

    impl CryptoProvider for FixedDigest {
        fn hash(&self, hash: HashAlgorithm, parts: &[&[u8]]) -> Result<Digest, CryptoError> {
            let known = b"\xe5\xe9\xfa\x1b\xa3\x1e\xcd\x1a\xe8\x4f\x75\xca\xaa\x47\x4f\x3a\x66\x3f\x05\xf4";
            match (hash, parts) {
                (HashAlgorithm::Sha1, [b"secret"]) => Ok(Digest::new(known)),
                _ => Err(CryptoError::Unsupported),
            }
        }
    }

    /// `seckey_hash` of the recorded encodings.
    #[test]
    fn sha1_hex_is_40_digits() {
        let hashed = SecretKey::new(b"secret").sha1_hex(&FixedDigest).unwrap();
        assert_eq!(hashed.as_bytes(), b"e5e9fa1ba31ecd1ae84f75caaa474f3a663f05f4");
        assert_ne!(hashed, SecretKey::new(b"secret"));
    }
}
