//! Secret-key challenge responses.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::ops::RangeInclusive;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::Challenge;
use crate::auth::context::AuthContext;
use crate::auth::error::AuthError;
use crate::auth::{SecretKeyMacSet, cost, pbkdf2};
use crate::crypto::{Digest, HashAlgorithm, SecureRandom};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::message::ProtocolVersion;
use crate::wire::{WireReader, WireWriter};

/// Secret-key challenge response: MAC or PBKDF2-HMAC.
///
/// ```
/// use tendot_proto::ProtocolVersion;
/// use tendot_proto::auth::{SecretKeyResponse, SecretKeyMac};
///
/// let response = SecretKeyResponse::from_bytes(&[0x13; 33], ProtocolVersion::LATEST)?;
/// assert_eq!(response.algorithm(), SecretKeyMac::HmacSha256);
/// assert!(SecretKeyResponse::from_bytes(&[0x11; 17], ProtocolVersion::LATEST).is_err(), "HMAC-MD5 does not exist");
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SecretKeyResponse<'a> {
    /// MAC keyed with the secret.
    Mac {
        /// Algorithm; any but [`SecretKeyMac::Pbkdf2`].
        algorithm: SecretKeyMac,
        /// The MAC.
        mac: &'a [u8],
    },
    /// HMAC-SHA1 with a key derived from the secret by PBKDF2.
    Pbkdf2 {
        /// Salt.
        salt: &'a [u8],
        /// Number of iterations.
        iterations: u32,
        /// Length of the derived key in bits.
        key_bits: u32,
        /// The MAC.
        mac: &'a [u8],
    },
}

/// MAC algorithm of a secret-key response.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum SecretKeyMac {
    /// MD5 of secret, challenge and secret, without an algorithm byte: the only form before 2.1.
    BareMd5,
    /// 0x01: MD5 of secret, challenge and secret.
    Md5,
    /// 0x02: SHA-1 of secret, challenge and secret.
    Sha1,
    /// 0x03: SHA-256 of secret, challenge and secret.
    Sha256,
    /// 0x12: HMAC-SHA1.
    HmacSha1,
    /// 0x13: HMAC-SHA256.
    HmacSha256,
    /// 0x22: HMAC-SHA1 with a key derived by PBKDF2.
    Pbkdf2,
}

impl SecretKeyMac {
    /// Preferred algorithm for a peer of this version: the lower of its challenge's version and its suggested version.
    pub fn preferred_for(version: ProtocolVersion) -> Self {
        if version >= ProtocolVersion::SHA256 {
            Self::Pbkdf2
        } else if version >= ProtocolVersion::DIGEST_ALGORITHMS {
            Self::Sha1
        } else {
            Self::BareMd5
        }
    }

    /// Algorithm by its name in HTTP clients. Case-insensitive.
    pub fn from_name(name: &str) -> Option<Self> {
        const NAMES: [(&str, SecretKeyMac); 8] = [
            ("MD5", SecretKeyMac::Md5),
            ("SHA1", SecretKeyMac::Sha1),
            ("SHA-1", SecretKeyMac::Sha1),
            ("SHA256", SecretKeyMac::Sha256),
            ("SHA-256", SecretKeyMac::Sha256),
            ("HMAC-SHA1", SecretKeyMac::HmacSha1),
            ("HMAC-SHA256", SecretKeyMac::HmacSha256),
            ("PBKDF2-HMAC-SHA1", SecretKeyMac::Pbkdf2),
        ];
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, algorithm)| *algorithm)
    }

    /// Name of the algorithm.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BareMd5 | Self::Md5 => "MD5",
            Self::Sha1 => "SHA-1",
            Self::Sha256 => "SHA-256",
            Self::HmacSha1 => "HMAC-SHA1",
            Self::HmacSha256 => "HMAC-SHA256",
            Self::Pbkdf2 => "PBKDF2-HMAC-SHA1",
        }
    }

    const fn code(self) -> Option<u8> {
        match self {
            Self::BareMd5 => None,
            Self::Md5 => Some(0x01),
            Self::Sha1 => Some(0x02),
            Self::Sha256 => Some(0x03),
            Self::HmacSha1 => Some(0x12),
            Self::HmacSha256 => Some(0x13),
            Self::Pbkdf2 => Some(0x22),
        }
    }
}

/// Accepted range of PBKDF2 iterations: fewer do not protect the secret, more are a denial of service.
const ITERATION_RANGE: RangeInclusive<u32> = 1_000..=200_000;
/// Accepted range of the length of the derived key, in bits.
const KEY_BITS_RANGE: RangeInclusive<u32> = 8..=512;
/// Accepted range of the length of the salt, in bytes.
const SALT_LEN_RANGE: RangeInclusive<u32> = 0..=64;

impl<'a> SecretKeyResponse<'a> {
    /// Decodes the response to a challenge of this version.
    pub fn from_bytes(bytes: &'a [u8], version: ProtocolVersion) -> Result<Self, DecodeError> {
        if version < ProtocolVersion::DIGEST_ALGORITHMS {
            return Ok(Self::Mac { algorithm: SecretKeyMac::BareMd5, mac: bytes });
        }
        let mut reader = WireReader::new(bytes);
        let start = reader;
        let algorithm = match reader.u8("challenge response algorithm")? {
            0x01 => SecretKeyMac::Md5,
            0x02 => SecretKeyMac::Sha1,
            0x03 => SecretKeyMac::Sha256,
            0x12 => SecretKeyMac::HmacSha1,
            0x13 => SecretKeyMac::HmacSha256,
            0x22 => {
                let response = Self::Pbkdf2 {
                    salt: reader.bytes("PBKDF2 salt")?,
                    iterations: reader.u32("PBKDF2 iterations")?,
                    key_bits: reader.u32("PBKDF2 key bits")?,
                    mac: reader.bytes("MAC")?,
                };
                reader.expect_end("challenge response")?;
                return Ok(response);
            }
            code => {
                let kind = DecodeErrorKind::InvalidCode { code: u32::from(code) };
                return Err(start.error("challenge response algorithm", kind));
            }
        };
        Ok(Self::Mac { algorithm, mac: reader.remaining() })
    }

    /// Encodes the response.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = WireWriter::new(&mut out);
        if let Some(byte) = self.algorithm().code() {
            writer.u8(byte);
        }
        match *self {
            Self::Mac { mac, .. } => writer.raw(mac),
            Self::Pbkdf2 { salt, iterations, key_bits, mac } => {
                writer.bytes(salt);
                writer.u32(iterations);
                writer.u32(key_bits);
                writer.bytes(mac);
            }
        }
        out
    }

    /// Algorithm of the response.
    pub const fn algorithm(&self) -> SecretKeyMac {
        match self {
            Self::Mac { algorithm, .. } => *algorithm,
            Self::Pbkdf2 { .. } => SecretKeyMac::Pbkdf2,
        }
    }

    /// Validates algorithm and parameters. Cheap; called before any cryptography.
    pub fn validate(&self, policy: SecretKeyMacSet) -> Result<(), AuthError> {
        if !policy.contains(self.algorithm()) {
            return Err(AuthError::AlgorithmNotAllowed { algorithm: self.algorithm().name() });
        }
        let Self::Pbkdf2 { salt, iterations, key_bits, .. } = *self else { return Ok(()) };
        let salt_len = u32::try_from(salt.len()).unwrap_or(u32::MAX);
        let parameters = [
            ("iterations", iterations, ITERATION_RANGE),
            ("key bits", key_bits, KEY_BITS_RANGE),
            ("salt bytes", salt_len, SALT_LEN_RANGE),
        ];
        for (field, found, range) in parameters {
            if !range.contains(&found) || field == "key bits" && !found.is_multiple_of(8) {
                let (min, max) = range.into_inner();
                return Err(AuthError::Pbkdf2OutOfRange { field, found, min, max });
            }
        }
        Ok(())
    }

    /// Cost of verification with a short secret, in budget units; for callers that delegate the verification.
    pub fn cost(&self) -> u32 {
        match *self {
            Self::Mac { mac, .. } => cost::hash(mac.len()),
            Self::Pbkdf2 { iterations, key_bits, .. } => cost::pbkdf2(iterations, key_bits as usize / 8),
        }
    }

    /// Verifies the response with a secret. An empty secret never matches.
    pub fn verify(
        &self,
        secret: &[u8],
        challenge: Challenge<'_>,
        context: &mut AuthContext<'_>,
    ) -> Result<(), AuthError> {
        self.validate(context.policy.secret_key_macs)?;
        let (expected, given) = match *self {
            Self::Mac { algorithm, mac } => (compute_mac(algorithm, secret, challenge, context)?, mac),
            Self::Pbkdf2 { salt, iterations, key_bits, mac } => {
                (compute_pbkdf2_mac(secret, salt, iterations, key_bits, challenge, context)?, mac)
            }
        };
        if bool::from(expected.ct_eq(given)) && !secret.is_empty() { Ok(()) } else { Err(AuthError::Failed) }
    }

    /// Creates a response.
    pub fn create(
        algorithm: SecretKeyMac,
        secret: &[u8],
        challenge: Challenge<'_>,
        random: &mut dyn SecureRandom,
        context: &mut AuthContext<'_>,
    ) -> Result<Vec<u8>, AuthError> {
        if algorithm != SecretKeyMac::Pbkdf2 {
            let mac = compute_mac(algorithm, secret, challenge, context)?;
            return Ok(SecretKeyResponse::Mac { algorithm, mac: &mac }.to_bytes());
        }
        let mut salt = [0; 16];
        random.fill(&mut salt);
        let (iterations, key_bits) = (pbkdf2::DEFAULT_ITERATIONS, 160);
        let mac = compute_pbkdf2_mac(secret, &salt, iterations, key_bits, challenge, context)?;
        Ok(SecretKeyResponse::Pbkdf2 { salt: &salt, iterations, key_bits, mac: &mac }.to_bytes())
    }
}

fn compute_mac(
    algorithm: SecretKeyMac,
    secret: &[u8],
    challenge: Challenge<'_>,
    context: &mut AuthContext<'_>,
) -> Result<Digest, AuthError> {
    let Challenge { nonce, digest } = challenge;
    context.budget.charge(cost::hash(2 * secret.len() + nonce.len() + digest.len()))?;
    let hash = match algorithm {
        SecretKeyMac::BareMd5 | SecretKeyMac::Md5 => HashAlgorithm::Md5,
        SecretKeyMac::Sha1 => HashAlgorithm::Sha1,
        SecretKeyMac::Sha256 => HashAlgorithm::Sha256,
        SecretKeyMac::HmacSha1 => {
            return Ok(context.provider.hmac(HashAlgorithm::Sha1, secret, &[nonce, digest])?);
        }
        SecretKeyMac::HmacSha256 => {
            return Ok(context.provider.hmac(HashAlgorithm::Sha256, secret, &[nonce, digest])?);
        }
        SecretKeyMac::Pbkdf2 => return Err(AuthError::UnknownAlgorithm),
    };
    Ok(context.provider.hash(hash, &[secret, nonce, digest, secret])?)
}

fn compute_pbkdf2_mac(
    secret: &[u8],
    salt: &[u8],
    iterations: u32,
    key_bits: u32,
    Challenge { nonce, digest }: Challenge<'_>,
    context: &mut AuthContext<'_>,
) -> Result<Digest, AuthError> {
    let mut key = Zeroizing::new([0; *KEY_BITS_RANGE.end() as usize / 8]);
    let (Some(iteration_count), Some(key)) =
        (NonZeroU32::new(iterations), key.get_mut(..key_bits as usize / 8))
    else {
        let (min, max) = ITERATION_RANGE.into_inner();
        return Err(AuthError::Pbkdf2OutOfRange { field: "iterations", found: iterations, min, max });
    };
    context.budget.charge(cost::hash(nonce.len() + digest.len()))?;
    pbkdf2::derive(context.provider, secret, salt, iteration_count, key, context.budget)?;
    Ok(context.provider.hmac(HashAlgorithm::Sha1, key, &[nonce, digest])?)
}

#[cfg(all(test, feature = "crypto"))]
mod tests {
    use std::borrow::ToOwned;

    use data_encoding::HEXLOWER;

    use super::*;
    use crate::auth::AuthPolicy;
    use crate::auth::context::auth_context;
    use crate::crypto::SystemRandom;

    const CHALLENGE: Challenge<'_> = Challenge { nonce: b"0123456789abcdef", digest: &[7; 32] };

    fn verify(response: &[u8], secret: &[u8], policy: SecretKeyMacSet) -> Result<(), AuthError> {
        let response = SecretKeyResponse::from_bytes(response, ProtocolVersion::LATEST)?;
        response.verify(
            secret,
            CHALLENGE,
            auth_context!(AuthPolicy { secret_key_macs: policy, ..AuthPolicy::default() }),
        )
    }

    #[test]
    fn round_trip() {
        #[track_caller]
        fn check(algorithm: SecretKeyMac) {
            let create = |secret: &[u8]| {
                SecretKeyResponse::create(algorithm, secret, CHALLENGE, &mut SystemRandom, auth_context!())
                    .unwrap()
            };
            let policy = SecretKeyMacSet::NONE.with(algorithm);
            let mut response = create(b"secret");
            assert_eq!(Some(response[0]), algorithm.code());
            assert_eq!(verify(&response, b"secret", policy), Ok(()));
            assert_eq!(verify(&response, b"Secret", policy), Err(AuthError::Failed));
            let not_allowed = AuthError::AlgorithmNotAllowed { algorithm: algorithm.name() };
            assert_eq!(verify(&response, b"secret", SecretKeyMacSet::NONE), Err(not_allowed));
            *response.last_mut().unwrap() ^= 1;
            assert_eq!(verify(&response, b"secret", policy), Err(AuthError::Failed));
            assert_eq!(
                verify(&create(b""), b"", policy),
                Err(AuthError::Failed),
                "an empty secret never matches"
            );
        }
        check(SecretKeyMac::Sha256);
        check(SecretKeyMac::HmacSha1);
        check(SecretKeyMac::HmacSha256);
        check(SecretKeyMac::Pbkdf2);
        #[cfg(feature = "legacy-crypto")]
        {
            check(SecretKeyMac::Md5);
            check(SecretKeyMac::Sha1);
        }
    }

    #[test]
    fn rejects_truncated_macs() {
        let policy = SecretKeyMacSet::DEFAULT;
        let response = SecretKeyResponse::create(
            SecretKeyMac::HmacSha256,
            b"s",
            CHALLENGE,
            &mut SystemRandom,
            auth_context!(),
        );
        let response = response.unwrap();
        for length in 1..response.len() {
            assert_eq!(verify(&response[..length], b"s", policy), Err(AuthError::Failed));
        }
    }

    /// As computed by Handle.Net: `secret`, and a secret with non-ASCII bytes.
    #[test]
    fn verifies_handle_net_responses() {
        let digest =
            HEXLOWER.decode(b"848612415c98e5e3cd5a9dbfcada3d872c35dbf21a08addf48f13b96a86d1fc0").unwrap();
        let nonce: [u8; 16] = core::array::from_fn(|n| n as u8);
        let check = |secret: &[u8], mac: &str| {
            let response =
                "2200000010a0a1a2a3a4a5a6a7a8a9aaabacadaeaf00002710000000a000000014".to_owned() + mac;
            let response = HEXLOWER.decode(response.as_bytes()).unwrap();
            let decoded = SecretKeyResponse::from_bytes(&response, ProtocolVersion::LATEST).unwrap();
            assert_eq!(decoded.to_bytes(), response);
            let challenge = Challenge { nonce: &nonce, digest: &digest };
            let verified = decoded.verify(secret, challenge, auth_context!());
            assert_eq!(verified, Ok(()));
        };
        check(b"secret", "bda9df8bcbc6a9a077d245d20bf7e3d0cb893293");
        check(b"s\xe9cret", NON_ASCII_MAC);
    }

    /// Computed with Python's hashlib and the password `sécret` in UTF-8.
    const NON_ASCII_MAC: &str = "96289317b99a6a6bb7cd643e87e535975f537a82";

    #[test]
    fn algorithm_names() {
        for (name, algorithm) in [
            ("md5", Some(SecretKeyMac::Md5)),
            ("SHA-1", Some(SecretKeyMac::Sha1)),
            ("SHA256", Some(SecretKeyMac::Sha256)),
            ("HMAC-SHA1", Some(SecretKeyMac::HmacSha1)),
            ("hmac-sha256", Some(SecretKeyMac::HmacSha256)),
            ("PBKDF2-HMAC-SHA1", Some(SecretKeyMac::Pbkdf2)),
            ("none", None),
            ("", None),
        ] {
            assert_eq!(SecretKeyMac::from_name(name), algorithm, "{name}");
        }
    }

    #[test]
    fn preferred_algorithms() {
        let check = |minor, algorithm| {
            assert_eq!(SecretKeyMac::preferred_for(ProtocolVersion::new(2, minor)), algorithm);
        };
        check(0, SecretKeyMac::BareMd5);
        check(1, SecretKeyMac::Sha1);
        check(6, SecretKeyMac::Sha1);
        check(7, SecretKeyMac::Pbkdf2);
        check(11, SecretKeyMac::Pbkdf2);
        let bare = SecretKeyResponse::from_bytes(&[0x22; 16], ProtocolVersion::new(2, 0)).unwrap();
        assert_eq!((bare.algorithm(), bare.to_bytes()), (SecretKeyMac::BareMd5, std::vec![0x22; 16]));
    }
}
