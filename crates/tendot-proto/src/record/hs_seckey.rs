use core::fmt;

use alloc::vec::Vec;
use zeroize::Zeroizing;

use crate::crypto::{Crypto, CryptoError, Hash};

/// The data of `HS_SECKEY`: a secret that an identity shares with its server.
///
/// It is wiped from memory when dropped, and nobody finds it in a log.
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
    /// Takes a copy of the secret.
    pub fn new(secret: &[u8]) -> Self {
        Self(Zeroizing::new(secret.to_vec()))
    }

    /// The secret.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The variant that some tools store instead of the secret: its SHA-1 in lower-case hexadecimal digits, 40 bytes.
    ///
    /// Nothing in a record tells which of the two it is; whoever stored one so must apply this to what the user types.
    pub fn hashed(&self, crypto: &dyn Crypto) -> Result<Self, CryptoError> {
        let digest = crypto.hash(Hash::Sha1, &[self.as_bytes()])?;
        let mut digits = Zeroizing::new(alloc::vec![0; 2 * digest.len()]);
        data_encoding::HEXLOWER.encode_mut(&digest, &mut digits);
        Ok(Self(digits))
    }
}

/// Equal secrets, found in a time that does not depend on where they differ.
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
