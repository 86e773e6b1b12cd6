//! Signatures under a policy, and the rules for public keys.

use alloc::vec::Vec;

use super::context::AuthContext;
use super::cost;
use super::error::AuthError;
use crate::budget::Budget;
use crate::crypto::{HashAlgorithm, SigningKey};
use crate::message::ProtocolVersion;
use crate::record::{KeyComponents, PublicKey};

/// Validates a public key for registration: RSA of 2048 to 8192 bits, DSA of 2048 or 3072.
///
/// Signatures by weaker keys that were registered elsewhere are still verified, as far as an
/// [`AuthPolicy`](super::AuthPolicy) allows.
///
/// ```
/// use tendot_proto::auth::{PublicKeyError, validate_public_key};
/// use tendot_proto::record::PublicKey;
///
/// assert_eq!(validate_public_key(&PublicKey::rsa(&[0xc1; 256], &[1, 0, 1])), Ok(()));
/// let short = validate_public_key(&PublicKey::rsa(&[0xc1; 64], &[1, 0, 1]));
/// assert_eq!(short, Err(PublicKeyError::Size { bits: 512, min: 2048, max: 8192 }));
/// ```
pub fn validate_public_key(key: &PublicKey<'_>) -> Result<(), PublicKeyError> {
    let check_size = |integer: &[u8], min, max| match bit_len(integer) {
        bits if bits < min || bits > max => Err(PublicKeyError::Size { bits, min, max }),
        _ => Ok(()),
    };
    match key.components() {
        KeyComponents::Rsa { exponent, modulus } => {
            check_size(modulus, 2048, 8192)?;
            // Larger exponents make verification expensive.
            if !is_odd(modulus) || !is_odd(exponent) || !(2..=33).contains(&bit_len(exponent)) {
                return Err(PublicKeyError::InvalidParameters);
            }
            Ok(())
        }
        KeyComponents::Dsa { q, p, g, y } => {
            check_size(p, 2048, 3072)?;
            let is_standard_size = matches!((bit_len(p), bit_len(q)), (2048, 224 | 256) | (3072, 256));
            if !is_standard_size
                || !is_odd(p)
                || !is_odd(q)
                || [g, y].iter().any(|n| bit_len(n) < 2 || bit_len(n) > bit_len(p))
            {
                return Err(PublicKeyError::InvalidParameters);
            }
            Ok(())
        }
        KeyComponents::DiffieHellman { .. } => Err(PublicKeyError::NotASigningKey),
    }
}

/// Reason for which a public key may not be registered.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// Too small to be secure, or too large to be verified at reasonable cost.
    #[error("key size {bits} bits out of range {min}..={max}")]
    Size {
        /// Size of the key in bits.
        bits: usize,
        /// Minimum.
        min: usize,
        /// Maximum.
        max: usize,
    },
    /// Inconsistent key parameters.
    #[error("invalid key parameters")]
    InvalidParameters,
    /// A key for key exchange, not for signatures.
    #[error("not a signing key")]
    NotASigningKey,
}

/// Error for an RSA key that is too short for the policy.
pub(super) const RSA_KEY_TOO_SHORT: AuthError =
    AuthError::AlgorithmNotAllowed { algorithm: "RSA key shorter than 2048 bits" };

fn bit_len(integer: &[u8]) -> usize {
    integer.first().map_or(0, |first| integer.len() * 8 - first.leading_zeros() as usize)
}

fn is_odd(integer: &[u8]) -> bool {
    integer.last().is_some_and(|last| last % 2 == 1)
}

/// Hash algorithm of RSA signatures for a peer of this version.
pub(super) fn signature_hash_for(version: ProtocolVersion) -> HashAlgorithm {
    if version >= ProtocolVersion::SHA256 { HashAlgorithm::Sha256 } else { HashAlgorithm::Sha1 }
}

/// Verifies a signature whose hash is given by name or by a one-byte code.
pub(crate) fn verify_with_hash_name(
    key: &PublicKey<'_>,
    hash: &[u8],
    message: &[u8],
    signature: &[u8],
    context: &mut AuthContext<'_>,
) -> Result<(), AuthError> {
    let hash = match hash {
        [1] => HashAlgorithm::Md5,
        [2] => HashAlgorithm::Sha1,
        [3] => HashAlgorithm::Sha256,
        name => match HashAlgorithm::from_name(name) {
            Some(hash @ (HashAlgorithm::Md5 | HashAlgorithm::Sha1 | HashAlgorithm::Sha256)) => hash,
            _ => return Err(AuthError::UnknownAlgorithm),
        },
    };
    verify(key, hash, message, signature, context)
}

/// Signs the hash of a message.
pub(crate) fn sign(
    key: &dyn SigningKey,
    hash: HashAlgorithm,
    message: &[u8],
    budget: &mut Budget,
) -> Result<Vec<u8>, AuthError> {
    budget.charge(cost::sign(key.signature_len()).saturating_add(cost::hash(message.len())))?;
    Ok(key.sign(hash, message)?)
}

/// Verifies a signature, if the policy allows hash and key.
pub(crate) fn verify(
    key: &PublicKey<'_>,
    hash: HashAlgorithm,
    message: &[u8],
    signature: &[u8],
    context: &mut AuthContext<'_>,
) -> Result<(), AuthError> {
    match hash {
        HashAlgorithm::Md5 => return Err(AuthError::AlgorithmNotAllowed { algorithm: "MD5" }),
        HashAlgorithm::Sha1 if !context.policy.allow_sha1 => {
            return Err(AuthError::AlgorithmNotAllowed { algorithm: "SHA-1" });
        }
        _ => {}
    }
    if let KeyComponents::Rsa { modulus, .. } = key.components()
        && bit_len(modulus) < 2048
        && !context.policy.allow_short_rsa_keys
    {
        return Err(RSA_KEY_TOO_SHORT);
    }
    context.budget.charge(cost::hash(message.len()).saturating_add(cost::verify_signature(key)))?;
    Ok(context.provider.verify_signature(key, hash, message, signature)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_public_keys() {
        let check =
            |key: PublicKey<'_>, expected| assert_eq!(validate_public_key(&key).is_ok(), expected, "{key:?}");
        check(PublicKey::rsa(&[0xff; 256], &[3]), true);
        check(PublicKey::rsa(&[0xff; 1024], &[1, 0, 1]), true);
        check(PublicKey::rsa(&[0xff; 1025], &[1, 0, 1]), false);
        check(PublicKey::rsa(&[0x7f; 256], &[1, 0, 1]), false);
        check(PublicKey::rsa(&[0xfe; 256], &[1, 0, 1]), false);
        check(PublicKey::rsa(&[0xff; 256], &[1]), false);
        check(PublicKey::rsa(&[0xff; 256], &[]), false);
        check(PublicKey::rsa(&[0xff; 256], &[0xff; 5]), false);
        check(PublicKey::dsa(&[0xff; 32], &[0xff; 256], &[2], &[2]), true);
        check(PublicKey::dsa(&[0xff; 20], &[0xff; 128], &[2], &[2]), false);
        check(PublicKey::dsa(&[0xff; 20], &[0xff; 256], &[2], &[2]), false);
        check(PublicKey::dsa(&[0xff; 32], &[0xff; 256], &[1], &[2]), false);
        check(PublicKey::diffie_hellman(&[2], &[0xff; 256], &[2]), false);
    }
}
