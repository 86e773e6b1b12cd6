use alloc::vec::Vec;

use super::challenge::Challenge;
use super::error::AuthError;
use super::policy::AuthPolicy;
use super::price;
use crate::crypto::{CryptoProvider, HashAlgorithm, SigningKey};
use crate::error::DecodeError;
use crate::message::ProtocolVersion;
use crate::record::{KeyComponents, PublicKey};
use crate::wire::{WireReader, WireWriter};
use crate::work::Budget;

/// Public-key challenge response: hash name and signature.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PublicKeyResponse<'a> {
    /// The name of the hash. Whether it is RSA or DSA says the key, never the answer.
    pub hash: &'a [u8],
    /// The signature of nonce and digest.
    pub signature: &'a [u8],
}

impl<'a> PublicKeyResponse<'a> {
    /// Reads an answer.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = WireReader::new(bytes);
        let answer = Self { hash: reader.bytes("hash algorithm")?, signature: reader.bytes("signature")? };
        reader.expect_end("answer")?;
        Ok(answer)
    }

    /// The answer as it stands in messages.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = WireWriter::new(&mut out);
        writer.bytes(self.hash);
        writer.bytes(self.signature);
        out
    }

    /// Whether the key's owner gave this answer to the challenge.
    pub fn verify(
        &self,
        key: &PublicKey<'_>,
        challenge: Challenge<'_>,
        policy: &AuthPolicy,
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<(), AuthError> {
        let signed = [challenge.nonce, challenge.digest].concat();
        verify_with_hash_name(key, self.hash, &signed, self.signature, policy, crypto, work)
    }

    /// Answers a challenge of this version. Before 2.7 that is with SHA-1, if the policy allows it.
    pub fn create(
        key: &dyn SigningKey,
        challenge: Challenge<'_>,
        version: ProtocolVersion,
        policy: &AuthPolicy,
        work: &mut Budget,
    ) -> Result<Vec<u8>, AuthError> {
        let (hash, name) = signature_hash_for(version);
        if hash == HashAlgorithm::Sha1 && !policy.sha1 {
            return Err(AuthError::NotAllowed { algorithm: "SHA-1" });
        }
        work.charge(price::sign(key.signature_len()))?;
        let signature = key.sign(hash, &[challenge.nonce, challenge.digest].concat())?;
        Ok(PublicKeyResponse { hash: name, signature: &signature }.to_bytes())
    }
}

/// Whether a key may be registered: RSA of 2048 to 8192 bits, DSA of 2048 or 3072.
///
/// Signatures by keys that were registered elsewhere are verified if they are weaker, as far as a [`AuthPolicy`] allows.
///
/// ```
/// use tendot_proto::auth::{PublicKeyError, validate_public_key};
/// use tendot_proto::record::PublicKey;
///
/// assert_eq!(validate_public_key(&PublicKey::rsa(&[0xc1; 256], &[1, 0, 1])), Ok(()));
/// let short = validate_public_key(&PublicKey::rsa(&[0xc1; 64], &[1, 0, 1]));
/// assert_eq!(short, Err(PublicKeyError::Size { bits: 512, least: 2048, most: 8192 }));
/// ```
pub fn validate_public_key(key: &PublicKey<'_>) -> Result<(), PublicKeyError> {
    let size = |integer: &[u8], least, most| match bit_len(integer) {
        bits if bits < least || bits > most => Err(PublicKeyError::Size { bits, least, most }),
        _ => Ok(()),
    };
    match key.components() {
        KeyComponents::Rsa { exponent, modulus } => {
            size(modulus, 2048, 8192)?;
            // Above 33 bits the verification, too, would be expensive.
            if !is_odd(modulus) || !is_odd(exponent) || !(2..=33).contains(&bit_len(exponent)) {
                return Err(PublicKeyError::Numbers);
            }
            Ok(())
        }
        KeyComponents::Dsa { q, p, g, y } => {
            size(p, 2048, 3072)?;
            let fits = matches!((bit_len(p), bit_len(q)), (2048, 224 | 256) | (3072, 256));
            if !fits
                || !is_odd(p)
                || !is_odd(q)
                || [g, y].iter().any(|n| bit_len(n) < 2 || bit_len(n) > bit_len(p))
            {
                return Err(PublicKeyError::Numbers);
            }
            Ok(())
        }
        KeyComponents::DiffieHellman { .. } => Err(PublicKeyError::CannotSign),
    }
}

/// Reason for which a public key may not be registered.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// Too small to be safe, or too large to be verified at reasonable cost.
    #[error("the key has {bits} bits, allowed are {least} to {most}")]
    Size {
        /// How many it has.
        bits: usize,
        /// The fewest that are allowed.
        least: usize,
        /// The most that are allowed.
        most: usize,
    },
    /// These numbers are no key.
    #[error("the numbers of the key do not fit each other")]
    Numbers,
    /// A key for key exchange.
    #[error("the key is not for signatures")]
    CannotSign,
}

/// What is wrong with an RSA key that the policy does not allow.
pub(super) const RSA_KEY_TOO_SHORT: AuthError =
    AuthError::NotAllowed { algorithm: "RSA with less than 2048 bits" };

fn bit_len(integer: &[u8]) -> usize {
    integer.first().map_or(0, |first| integer.len() * 8 - first.leading_zeros() as usize)
}

fn is_odd(integer: &[u8]) -> bool {
    integer.last().is_some_and(|last| last % 2 == 1)
}

/// The hash that a peer of this version expects in signatures by RSA, and its name.
pub(super) fn signature_hash_for(version: ProtocolVersion) -> (HashAlgorithm, &'static [u8]) {
    if version >= ProtocolVersion::SHA256 {
        (HashAlgorithm::Sha256, b"SHA-256")
    } else {
        (HashAlgorithm::Sha1, b"SHA1")
    }
}

/// Checks a signature, whose hash is told by name or by a number of one byte.
pub(crate) fn verify_with_hash_name(
    key: &PublicKey<'_>,
    hash: &[u8],
    message: &[u8],
    signature: &[u8],
    policy: &AuthPolicy,
    crypto: &dyn CryptoProvider,
    work: &mut Budget,
) -> Result<(), AuthError> {
    let hash = match hash {
        b"SHA-256" | b"SHA256" | [3] => HashAlgorithm::Sha256,
        b"SHA1" | b"SHA-1" | [2] => HashAlgorithm::Sha1,
        b"MD5" | [1] => HashAlgorithm::Md5,
        _ => return Err(AuthError::UnknownAlgorithm),
    };
    verify(key, hash, message, signature, policy, crypto, work)
}

/// Signs the hash of a message.
pub(crate) fn sign(
    key: &dyn SigningKey,
    hash: HashAlgorithm,
    message: &[u8],
    work: &mut Budget,
) -> Result<Vec<u8>, AuthError> {
    work.charge(price::sign(key.signature_len()).saturating_add(price::hash(message.len())))?;
    Ok(key.sign(hash, message)?)
}

/// Checks a signature of a hash, if the policy allows hash and key.
pub(crate) fn verify(
    key: &PublicKey<'_>,
    hash: HashAlgorithm,
    message: &[u8],
    signature: &[u8],
    policy: &AuthPolicy,
    crypto: &dyn CryptoProvider,
    work: &mut Budget,
) -> Result<(), AuthError> {
    match hash {
        HashAlgorithm::Md5 => return Err(AuthError::NotAllowed { algorithm: "MD5" }),
        HashAlgorithm::Sha1 if !policy.sha1 => return Err(AuthError::NotAllowed { algorithm: "SHA-1" }),
        _ => {}
    }
    if let KeyComponents::Rsa { modulus, .. } = key.components()
        && bit_len(modulus) < 2048
        && !policy.short_rsa_keys
    {
        return Err(RSA_KEY_TOO_SHORT);
    }
    work.charge(price::hash(message.len()).saturating_add(price::verify_signature(key)))?;
    Ok(crypto.verify_signature(key, hash, message, signature)?)
}

#[cfg(all(test, feature = "crypto"))]
mod tests {
    use super::*;
    use crate::auth::PrivateKey;
    use crate::crypto::AwsLcProvider;

    const CHALLENGE: Challenge<'_> = Challenge { nonce: b"0123456789abcdef", digest: &[7; 32] };

    #[test]
    fn own_answers() {
        let file = include_bytes!("../../../../conformance/vectors/handle-net/admpriv.bin");
        let private =
            PrivateKey::from_file_bytes(file, None, &AwsLcProvider, &mut { Budget::PER_REQUEST }).unwrap();
        let public = private.public_key().unwrap();
        let key = private.signing_key(&AwsLcProvider).unwrap();
        let answer = PublicKeyResponse::create(
            &*key,
            CHALLENGE,
            ProtocolVersion::LATEST,
            &AuthPolicy::default(),
            &mut { Budget::PER_REQUEST },
        )
        .unwrap();
        let read = PublicKeyResponse::from_bytes(&answer).unwrap();
        assert_eq!(read.to_bytes(), answer);
        let policy = AuthPolicy::default();
        let check = |answer: PublicKeyResponse<'_>, challenge, expected| {
            let verified =
                answer.verify(&public, challenge, &policy, &AwsLcProvider, &mut { Budget::PER_REQUEST });
            assert_eq!(verified, expected);
        };
        check(read, CHALLENGE, Ok(()));
        check(PublicKeyResponse { hash: b"SHA256", ..read }, CHALLENGE, Ok(()));
        check(read, Challenge { nonce: b"other", ..CHALLENGE }, Err(AuthError::Failed));
        check(PublicKeyResponse { signature: &[], ..read }, CHALLENGE, Err(AuthError::Failed));
        let refused = |algorithm| Err(AuthError::NotAllowed { algorithm });
        check(PublicKeyResponse { hash: b"SHA1", ..read }, CHALLENGE, refused("SHA-1"));
        check(PublicKeyResponse { hash: b"MD5", ..read }, CHALLENGE, refused("MD5"));
        check(PublicKeyResponse { hash: b"none", ..read }, CHALLENGE, Err(AuthError::UnknownAlgorithm));
        check(PublicKeyResponse { hash: b"", ..read }, CHALLENGE, Err(AuthError::UnknownAlgorithm));
        assert!(matches!(
            read.verify(&public, CHALLENGE, &policy, &AwsLcProvider, &mut Budget::new(5)),
            Err(AuthError::Exhausted(_))
        ));
    }

    #[test]
    fn keys() {
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
