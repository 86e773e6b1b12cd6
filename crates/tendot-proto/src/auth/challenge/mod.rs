//! Challenge and response: proof of identity for one request.
//!
//! Reading order: this file, `table`, `secret_key`, `public_key`.

mod public_key;
mod secret_key;
mod table;

use alloc::vec::Vec;

pub use public_key::PublicKeyResponse;
pub use secret_key::{SecretKeyMac, SecretKeyResponse};
pub use table::{ChallengeLimits, ChallengeTable, PendingChallenge};

use super::AuthContext;
use super::computed_digest::ComputedDigest;
use super::error::AuthError;
use super::signature;
use crate::crypto::{SecureRandom, SigningKey};
use crate::message::{
    DigestAlgorithm, Message, MessageBody, MessageParts, RequestDigest, Response, ResponseData,
};
use crate::record::{HandleValue, PublicKey};

/// Challenge: nonce and request digest that a proof covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Challenge<'a> {
    /// Unique nonce chosen by the verifier.
    pub nonce: &'a [u8],
    /// Digest of the request's header and body.
    pub digest: &'a [u8],
}

/// Authentication type of secret-key responses, and type of the value with the key.
const AUTH_TYPE_SECRET_KEY: &[u8] = b"HS_SECKEY";
/// Authentication type of public-key responses, and type of the value with the key.
const AUTH_TYPE_PUBLIC_KEY: &[u8] = b"HS_PUBKEY";

impl Challenge<'_> {
    /// Verifies a secret-key response, as in opcode 201; returns the index of the key.
    pub fn verify_secret_key(
        self,
        response: &SecretKeyResponse<'_>,
        key_index: u32,
        values: &[HandleValue<'_>],
        context: &mut AuthContext<'_>,
    ) -> Result<u32, AuthError> {
        let secrets = key_values(values, key_index, AUTH_TYPE_SECRET_KEY);
        let secrets = secrets.into_iter().map(|value| (value.index, &*value.data));
        verify_any(secrets, &[0xa5; 16], |secret| response.verify(secret, self, context))
    }

    /// Verifies a signature with the public keys in `values`, as [`PendingChallenge::verify`] does; returns the index
    /// of the key.
    pub fn verify_public_key(
        self,
        response: &PublicKeyResponse<'_>,
        key_index: u32,
        values: &[HandleValue<'_>],
        context: &mut AuthContext<'_>,
    ) -> Result<u32, AuthError> {
        let keys = key_values(values, key_index, AUTH_TYPE_PUBLIC_KEY);
        let keys = keys
            .into_iter()
            .filter_map(|value| Some((value.index, PublicKey::from_bytes(&value.data).ok()?)));
        // Dummy key without a private key.
        verify_any(keys, PublicKey::rsa(&[0xff; 256], &[1, 0, 1]), |key| {
            match response.verify(&key, self, context) {
                Err(AuthError::Crypto(_) | signature::RSA_KEY_TOO_SHORT) => Err(AuthError::Failed),
                verified => verified,
            }
        })
    }
}

/// Index of the first key that verifies. Without any key the dummy is verified, so that a missing key takes as long as
/// a wrong one.
fn verify_any<K>(
    candidates: impl Iterator<Item = (u32, K)>,
    dummy: K,
    mut verify: impl FnMut(K) -> Result<(), AuthError>,
) -> Result<u32, AuthError> {
    let mut candidates = candidates.peekable();
    if candidates.peek().is_none() {
        verify(dummy)?;
    }
    for (index, key) in candidates {
        match verify(key) {
            Ok(()) => return Ok(index),
            Err(AuthError::Failed) => {}
            Err(error) => return Err(error),
        }
    }
    Err(AuthError::Failed)
}

/// Candidate key values in order of index. The type must match: the bytes of a public key must not serve as a secret
/// key.
fn key_values<'v, 'a>(
    values: &'v [HandleValue<'a>],
    index: u32,
    value_type: &[u8],
) -> Vec<&'v HandleValue<'a>> {
    let is_candidate =
        |value: &&HandleValue<'_>| (index == 0 || value.index == index) && *value.value_type == *value_type;
    let mut values: Vec<_> = values.iter().filter(is_candidate).collect();
    values.sort_by_key(|value| value.index);
    values
}

/// Client key for challenge responses: secret key or private key.
#[derive(Clone, Copy)]
pub enum ClientKey<'a> {
    /// Secret key, as in `HS_SECKEY`.
    SecretKey(&'a [u8]),
    /// Private key of the public key in `HS_PUBKEY`.
    PrivateKey(&'a dyn SigningKey),
}

impl core::fmt::Debug for ClientKey<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::SecretKey(_) => "SecretKey",
            Self::PrivateKey(_) => "PrivateKey",
        })
    }
}

/// Maximum length of a nonce that is signed. Handle.Net sends 16 bytes. It must be shorter than the bytes before the
/// body in a signed message, or a server could obtain a message signature by sending most of the message as a nonce.
const MAX_NONCE_LEN: usize = 32;

impl ClientKey<'_> {
    /// Authentication type of the challenge response.
    pub const fn auth_type(&self) -> &'static [u8] {
        match self {
            Self::SecretKey(_) => AUTH_TYPE_SECRET_KEY,
            Self::PrivateKey(_) => AUTH_TYPE_PUBLIC_KEY,
        }
    }

    /// Creates the proof for a challenge, after checking that it is for the request as it was sent.
    pub fn respond(
        &self,
        request: &MessageParts<'_>,
        challenge: &Message<'_>,
        random: &mut dyn SecureRandom,
        context: &mut AuthContext<'_>,
    ) -> Result<Vec<u8>, AuthError> {
        let envelope = &challenge.envelope;
        let MessageBody::Response(Response {
            digest,
            data: ResponseData::Challenge { nonce, legacy_digest },
        }) = challenge.body
        else {
            return Err(AuthError::DigestMismatch);
        };
        let untagged = |bytes| RequestDigest { algorithm: DigestAlgorithm::Untagged, bytes };
        let digest = digest.or(legacy_digest.map(untagged)).ok_or(AuthError::DigestMismatch)?;
        if envelope.request_id != request.envelope.request_id {
            return Err(AuthError::DigestMismatch);
        }
        if nonce.len() > MAX_NONCE_LEN {
            return Err(AuthError::NonceTooLong { len: nonce.len(), max: MAX_NONCE_LEN });
        }
        ComputedDigest::verify(&digest, request.header_and_body, context)?;
        let version = envelope.version.min(envelope.newest_version());
        let challenge = Challenge { nonce, digest: digest.bytes };
        match self {
            Self::SecretKey(secret) => {
                let algorithm = SecretKeyMac::preferred_for(version);
                if !context.policy.secret_key_macs.contains(algorithm) {
                    return Err(AuthError::AlgorithmNotAllowed { algorithm: algorithm.name() });
                }
                SecretKeyResponse::create(algorithm, secret, challenge, random, context)
            }
            Self::PrivateKey(key) => PublicKeyResponse::create(*key, challenge, version, context),
        }
    }
}
