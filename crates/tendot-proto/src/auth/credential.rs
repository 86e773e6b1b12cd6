use alloc::vec::Vec;

use subtle::ConstantTimeEq;

use super::error::AuthError;
use super::policy::Policy;
use super::price;
use super::public_key::{hash_for, verify};
use super::session::SessionKey;
use crate::crypto::{Crypto, Hash, SigningKey};
use crate::error::{DecodeError, EncodeError};
use crate::limits;
use crate::message::{Credential, Envelope, Parts, Version};
use crate::record::PublicKey;
use crate::wire::Writer;
use crate::work::{Exhausted, Work};

/// Why a message is not proved to be by whom it should be, or a proof cannot be added.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// There is no credential, or one of another kind.
    #[error("the message has no credential of this kind")]
    Missing,
    /// There is a credential already.
    #[error("the message has a credential already")]
    Present,
    /// The signature or MAC is not one of this key over this message.
    #[error("the credential does not fit the message and the key")]
    Wrong,
    /// What is signed in this version is not known for certain: 2.5 and 2.6 write fields over one another.
    #[error("messages of version {version} cannot be signed reliably")]
    Version {
        /// The version.
        version: Version,
    },
    /// The algorithm is unknown or not allowed.
    #[error(transparent)]
    Algorithm(AuthError),
    /// The bytes are not a message.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// With the credential the message would be too long.
    #[error(transparent)]
    TooLong(#[from] EncodeError),
    /// It would cost too much.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

const HMAC_SHA256: &[u8] = b"HMAC-SHA256";

/// Appends a signature to a message that is complete but for it.
///
/// `message` is an envelope with all that follows it, as [`Message::encode`](crate::Message::encode) writes it. The
/// signature is over the bytes, so nothing may be changed afterwards, except that they may be encrypted.
pub fn sign_message(
    message: &mut Vec<u8>,
    key: &dyn SigningKey,
    work: &mut Work,
) -> Result<(), CredentialError> {
    let (signed, version) = signed_bytes(message, 0)?;
    let (hash, algorithm) = hash_for(version);
    work.spend(price::sign(key.signature_length()).saturating_add(price::bytes(signed.len())))?;
    let signature = key.sign(hash, &signed).map_err(|error| CredentialError::Algorithm(error.into()))?;
    append(message, 0, Credential::SIGNED, algorithm, &signature)
}

/// Appends the MAC of a session to a message that is complete but for it, in the same way.
pub fn mac_message(
    message: &mut Vec<u8>,
    key: &SessionKey,
    counter: u32,
    crypto: &dyn Crypto,
    work: &mut Work,
) -> Result<(), CredentialError> {
    let (signed, version) = signed_bytes(message, counter)?;
    require_mac_support(version)?;
    let mac = mac(key, &[&signed], crypto, work)?;
    append(message, counter, Credential::TYPE_MAC, HMAC_SHA256, &mac)
}

/// Checks that the owner of a key signed a message as it came.
pub fn verify_signature(
    parts: &Parts<'_>,
    key: &PublicKey<'_>,
    policy: &Policy,
    crypto: &dyn Crypto,
    work: &mut Work,
) -> Result<(), CredentialError> {
    let credential = credential(parts, &[Credential::SIGNED, Credential::TYPE_SIGNED_LEGACY])?;
    let signed = [&*prefix(&parts.envelope, credential.counter)?, parts.header_and_body].concat();
    verify(key, credential.algorithm, &signed, credential.signature, policy, crypto, work).map_err(|error| {
        match error {
            AuthError::Failed => CredentialError::Wrong,
            AuthError::Exhausted(exhausted) => exhausted.into(),
            error => CredentialError::Algorithm(error),
        }
    })
}

/// Checks that a message as it came was made by somebody who has the key of the session, and tells its counter.
///
/// Whether the message came before is not looked at: see [`Session`](super::Session).
pub fn verify_mac(
    parts: &Parts<'_>,
    key: &SessionKey,
    crypto: &dyn Crypto,
    work: &mut Work,
) -> Result<u32, CredentialError> {
    let credential = credential(parts, &[Credential::TYPE_MAC])?;
    require_mac_support(parts.envelope.version)?;
    if credential.algorithm != HMAC_SHA256 {
        return Err(CredentialError::Algorithm(AuthError::UnknownAlgorithm));
    }
    let prefix = prefix(&parts.envelope, credential.counter)?;
    let expected = mac(key, &[&prefix, parts.header_and_body], crypto, work)?;
    if bool::from(expected.ct_eq(credential.signature)) {
        Ok(credential.counter)
    } else {
        Err(CredentialError::Wrong)
    }
}

/// MACs of older versions are made of SHA-1 alone, and of broken bytes.
fn require_mac_support(version: Version) -> Result<(), CredentialError> {
    if version < Version::SHA256 { Err(CredentialError::Version { version }) } else { Ok(()) }
}

fn mac(
    key: &SessionKey,
    parts: &[&[u8]],
    crypto: &dyn Crypto,
    work: &mut Work,
) -> Result<crate::crypto::Digest, CredentialError> {
    work.spend(price::bytes(parts.iter().map(|part| part.len()).sum()))?;
    crypto.hmac(Hash::Sha256, key.as_bytes(), parts).map_err(|error| CredentialError::Algorithm(error.into()))
}

/// What stands in signed bytes before header and body.
fn prefix(envelope: &Envelope, counter: u32) -> Result<Vec<u8>, CredentialError> {
    let Envelope { version, session_id, request_id, .. } = *envelope;
    let suggested = envelope.suggested();
    let mut out = Vec::with_capacity(16);
    let mut writer = Writer::new(&mut out);
    if version >= Version::SHA256 {
        writer.raw(&[version.major, version.minor]);
        if version >= Version::SUGGESTION_SIGNED {
            writer.raw(&[suggested.major, suggested.minor]);
        }
        writer.u32(session_id);
        writer.u32(request_id);
        writer.u32(counter);
    } else if version >= Version::COUNTERS {
        return Err(CredentialError::Version { version });
    }
    Ok(out)
}

/// What is signed of a message that has no credential yet, and its version.
fn signed_bytes(message: &[u8], counter: u32) -> Result<(Vec<u8>, Version), CredentialError> {
    let parts = Parts::split(message)?;
    if !matches!(parts.tail, [] | [0, 0, 0, 0]) {
        return Err(CredentialError::Present);
    }
    let prefix = prefix(&parts.envelope, counter)?;
    Ok(([&*prefix, parts.header_and_body].concat(), parts.envelope.version))
}

fn credential<'a>(parts: &Parts<'a>, types: &[&[u8]]) -> Result<Credential<'a>, CredentialError> {
    let credential = parts.credential()?.ok_or(CredentialError::Missing)?;
    if types.contains(&credential.credential_type) { Ok(credential) } else { Err(CredentialError::Missing) }
}

fn append(
    message: &mut Vec<u8>,
    counter: u32,
    credential_type: &[u8],
    algorithm: &[u8],
    signature: &[u8],
) -> Result<(), CredentialError> {
    let end = {
        let parts = Parts::split(message)?;
        limits::ENVELOPE_LEN + parts.header_and_body.len()
    };
    let mut tail = Vec::new();
    let credential = Credential { options: 0, signer: &[], counter, credential_type, algorithm, signature };
    credential.encode(&mut Writer::new(&mut tail));
    let length = end - limits::ENVELOPE_LEN + tail.len();
    if length > limits::MESSAGE {
        return Err(EncodeError::TooLong { length, limit: limits::MESSAGE }.into());
    }
    message.truncate(end);
    let mut writer = Writer::new(message);
    writer.raw(&tail);
    writer.patch(16, length as u32);
    Ok(())
}

#[cfg(all(test, feature = "crypto"))]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::auth::PrivateKey;
    use crate::crypto::AwsLcProvider;
    use crate::message::Message;
    use crate::{Handle, Now};

    fn message(version: Version) -> Vec<u8> {
        let now = Now { elapsed: core::time::Duration::ZERO, unix: 0 };
        let mut message = Message::resolution(Handle::from("10.1000/1"), 7, now);
        message.envelope.version = version;
        message.to_bytes().unwrap()
    }

    #[test]
    fn signatures() {
        let file = include_bytes!("../../../../conformance/vectors/handle-net/privkey.bin");
        let private = PrivateKey::from_file(file, None, &AwsLcProvider, &mut { Work::PER_REQUEST }).unwrap();
        let (public, key) = (private.public_key().unwrap(), private.signing_key(&AwsLcProvider).unwrap());
        let sign = |version| {
            let mut message = message(version);
            sign_message(&mut message, &*key, &mut { Work::PER_REQUEST }).map(|()| message)
        };
        let verify = |message: &[u8]| {
            let parts = Parts::split(message).unwrap();
            verify_signature(&parts, &public, &Policy::default(), &AwsLcProvider, &mut { Work::PER_REQUEST })
        };
        for version in [Version::new(2, 7), Version::new(2, 8), Version::OURS, Version::new(3, 0)] {
            let signed = sign(version).unwrap();
            assert!(Message::from_bytes(&signed).unwrap().credential().is_some());
            assert_eq!(verify(&signed), Ok(()), "{version}");
            // The request id, the recursion count, the handle, the signature.
            for at in [11, 34, 50, signed.len() - 1] {
                let mut changed = signed.clone();
                changed[at] ^= 1;
                assert_eq!(verify(&changed), Err(CredentialError::Wrong), "{version}, byte {at}");
            }
            let mut twice = signed;
            assert_eq!(
                sign_message(&mut twice, &*key, &mut { Work::PER_REQUEST }),
                Err(CredentialError::Present)
            );
        }
        for minor in [5, 6] {
            let version = Version::new(2, minor);
            assert_eq!(sign(version), Err(CredentialError::Version { version }));
        }
        assert_eq!(verify(&message(Version::OURS)), Err(CredentialError::Missing));
        let suggested = {
            let mut signed = sign(Version::OURS).unwrap();
            signed[3] = 12;
            verify(&signed)
        };
        assert_eq!(suggested, Err(CredentialError::Wrong));
    }

    #[test]
    fn a_message_stays_as_it_was_when_it_would_be_too_long() {
        let mut long = message(Version::OURS);
        let body = limits::MESSAGE - limits::HEADER - 8;
        long.truncate(44);
        long[40..44].copy_from_slice(&(body as u32).to_be_bytes());
        long.resize(44 + body, 0);
        long.extend([0; 4]);
        long[16..20].copy_from_slice(&(limits::HEADER as u32 + body as u32 + 4).to_be_bytes());
        let before = long.clone();
        let key = SessionKey::new([1; 32]);
        let error = mac_message(&mut long, &key, 1, &AwsLcProvider, &mut { Work::PER_REQUEST }).unwrap_err();
        assert!(matches!(error, CredentialError::TooLong(_)));
        assert_eq!(long, before);
    }
}
