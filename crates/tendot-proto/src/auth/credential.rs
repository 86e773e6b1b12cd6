//! Message credentials: signatures and session MACs.

use alloc::vec::Vec;

use subtle::ConstantTimeEq;

use super::context::AuthContext;
use super::cost;
use super::error::AuthError;
use super::session::SessionKey;
use super::signature::{signature_hash_for, verify_with_hash_name};
use crate::budget::{Budget, BudgetExceeded};
use crate::crypto::{HashAlgorithm, SigningKey};
use crate::error::{DecodeError, EncodeError};
use crate::limits;
use crate::message::{Credential, Envelope, MessageParts, ProtocolVersion};
use crate::record::PublicKey;
use crate::wire::WireWriter;

/// Error of signing or verifying a message credential.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// No credential, or one of another type.
    #[error("missing credential")]
    Missing,
    /// The message already has a credential.
    #[error("message already has a credential")]
    AlreadyPresent,
    /// The signature or MAC does not match the key and message.
    #[error("credential verification failed")]
    Mismatch,
    /// The signed bytes of this version are ambiguous: 2.5 and 2.6 overwrite fields.
    #[error("message signatures are not supported in protocol version {version}")]
    UnsupportedVersion {
        /// Version of the message.
        version: ProtocolVersion,
    },
    /// Unknown algorithm, or not allowed by the policy.
    #[error(transparent)]
    Algorithm(AuthError),
    /// Malformed message.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The message with the credential exceeds the size limit.
    #[error(transparent)]
    TooLong(#[from] EncodeError),
    /// Work budget exceeded.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
}

const HMAC_SHA256_NAME: &[u8] = b"HMAC-SHA256";

/// Appends a signature to a complete message.
///
/// `message` is an encoded message with its envelope, see [`Message::encode`](crate::Message::encode). The signature
/// covers its bytes: afterwards the message may be encrypted, but not changed.
pub fn sign_message(
    message: &mut Vec<u8>,
    key: &dyn SigningKey,
    budget: &mut Budget,
) -> Result<(), CredentialError> {
    let (signed, version) = signed_bytes(message, 0)?;
    let hash = signature_hash_for(version);
    budget.charge(cost::sign(key.signature_len()).saturating_add(cost::hash(signed.len())))?;
    let signature = key.sign(hash, &signed).map_err(|error| CredentialError::Algorithm(error.into()))?;
    append_credential(message, 0, Credential::TYPE_SIGNED, hash.name().as_bytes(), &signature)
}

/// Appends a session MAC to a complete message.
pub fn add_mac(
    message: &mut Vec<u8>,
    key: &SessionKey,
    counter: u32,
    context: &mut AuthContext<'_>,
) -> Result<(), CredentialError> {
    let (signed, version) = signed_bytes(message, counter)?;
    require_mac_support(version)?;
    let mac = compute_mac(key, &[&signed], context)?;
    append_credential(message, counter, Credential::TYPE_MAC, HMAC_SHA256_NAME, &mac)
}

/// Verifies the signature of a received message.
pub fn verify_message_signature(
    parts: &MessageParts<'_>,
    key: &PublicKey<'_>,
    context: &mut AuthContext<'_>,
) -> Result<(), CredentialError> {
    let credential = require_credential(parts, &[Credential::TYPE_SIGNED, Credential::TYPE_SIGNED_LEGACY])?;
    let signed = [&*signed_prefix(&parts.envelope, credential.counter)?, parts.header_and_body].concat();
    verify_with_hash_name(key, credential.algorithm, &signed, credential.signature, context).map_err(
        |error| match error {
            AuthError::Failed => CredentialError::Mismatch,
            AuthError::Budget(exceeded) => exceeded.into(),
            error => CredentialError::Algorithm(error),
        },
    )
}

/// Verifies the session MAC of a received message and returns its counter.
///
/// Does not detect replays: see [`Session`](super::Session).
pub fn verify_message_mac(
    parts: &MessageParts<'_>,
    key: &SessionKey,
    context: &mut AuthContext<'_>,
) -> Result<u32, CredentialError> {
    let credential = require_credential(parts, &[Credential::TYPE_MAC])?;
    require_mac_support(parts.envelope.version)?;
    if credential.algorithm != HMAC_SHA256_NAME {
        return Err(CredentialError::Algorithm(AuthError::UnknownAlgorithm));
    }
    let prefix = signed_prefix(&parts.envelope, credential.counter)?;
    let expected = compute_mac(key, &[&prefix, parts.header_and_body], context)?;
    if bool::from(expected.ct_eq(credential.signature)) {
        Ok(credential.counter)
    } else {
        Err(CredentialError::Mismatch)
    }
}

/// Rejects older versions: their MACs use plain SHA-1 over ambiguous bytes.
fn require_mac_support(version: ProtocolVersion) -> Result<(), CredentialError> {
    if version < ProtocolVersion::SHA256 {
        Err(CredentialError::UnsupportedVersion { version })
    } else {
        Ok(())
    }
}

fn compute_mac(
    key: &SessionKey,
    parts: &[&[u8]],
    context: &mut AuthContext<'_>,
) -> Result<crate::crypto::Digest, CredentialError> {
    context.budget.charge(cost::hash(parts.iter().map(|part| part.len()).sum()))?;
    context
        .provider
        .hmac(HashAlgorithm::Sha256, key.as_bytes(), parts)
        .map_err(|error| CredentialError::Algorithm(error.into()))
}

/// Signed bytes before header and body.
fn signed_prefix(envelope: &Envelope, counter: u32) -> Result<Vec<u8>, CredentialError> {
    let Envelope { version, session_id, request_id, .. } = *envelope;
    let suggested = envelope.newest_version();
    let mut out = Vec::with_capacity(16);
    let mut writer = WireWriter::new(&mut out);
    if version >= ProtocolVersion::SHA256 {
        writer.raw(&[version.major, version.minor]);
        if version >= ProtocolVersion::SUGGESTION_SIGNED {
            writer.raw(&[suggested.major, suggested.minor]);
        }
        writer.u32(session_id);
        writer.u32(request_id);
        writer.u32(counter);
    } else if version >= ProtocolVersion::SESSION_COUNTERS {
        return Err(CredentialError::UnsupportedVersion { version });
    }
    Ok(out)
}

/// Bytes to sign of a message without credential, and its version.
fn signed_bytes(message: &[u8], counter: u32) -> Result<(Vec<u8>, ProtocolVersion), CredentialError> {
    let parts = MessageParts::split(message)?;
    if !matches!(parts.credential_bytes, [] | [0, 0, 0, 0]) {
        return Err(CredentialError::AlreadyPresent);
    }
    let prefix = signed_prefix(&parts.envelope, counter)?;
    Ok(([&*prefix, parts.header_and_body].concat(), parts.envelope.version))
}

fn require_credential<'a>(
    parts: &MessageParts<'a>,
    types: &[&[u8]],
) -> Result<Credential<'a>, CredentialError> {
    let credential = parts.credential()?.ok_or(CredentialError::Missing)?;
    if types.contains(&credential.credential_type) { Ok(credential) } else { Err(CredentialError::Missing) }
}

fn append_credential(
    message: &mut Vec<u8>,
    counter: u32,
    credential_type: &[u8],
    algorithm: &[u8],
    signature: &[u8],
) -> Result<(), CredentialError> {
    let end = {
        let parts = MessageParts::split(message)?;
        limits::ENVELOPE_LEN + parts.header_and_body.len()
    };
    let mut encoded = Vec::new();
    let credential =
        Credential { version_and_options: 0, signer: &[], counter, credential_type, algorithm, signature };
    credential.encode(&mut WireWriter::new(&mut encoded));
    let length = end - limits::ENVELOPE_LEN + encoded.len();
    if length > limits::MAX_MESSAGE_LEN {
        return Err(EncodeError::TooLong { len: length, max: limits::MAX_MESSAGE_LEN }.into());
    }
    message.truncate(end);
    let mut writer = WireWriter::new(message);
    writer.raw(&encoded);
    writer.overwrite_u32(16, length as u32);
    Ok(())
}

#[cfg(all(test, feature = "crypto"))]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::auth::PrivateKey;
    use crate::auth::context::auth_context;
    use crate::crypto::AwsLcProvider;
    use crate::message::Message;
    use crate::{Handle, Now};

    fn message(version: ProtocolVersion) -> Vec<u8> {
        let now = Now { elapsed: core::time::Duration::ZERO, unix: 0 };
        let mut message = Message::resolution(Handle::from("10.1000/1"), 7, now);
        message.envelope.version = version;
        message.to_bytes().unwrap()
    }

    #[test]
    fn signs_and_verifies() {
        let file = include_bytes!("../../../../conformance/vectors/handle-net/privkey.bin");
        let private =
            PrivateKey::from_file_bytes(file, None, &AwsLcProvider, &mut { Budget::PER_REQUEST }).unwrap();
        let (public, key) = (private.public_key().unwrap(), private.signing_key(&AwsLcProvider).unwrap());
        let sign = |version| {
            let mut message = message(version);
            sign_message(&mut message, &*key, &mut { Budget::PER_REQUEST }).map(|()| message)
        };
        let verify = |message: &[u8]| {
            let parts = MessageParts::split(message).unwrap();
            verify_message_signature(&parts, &public, auth_context!())
        };
        for version in [
            ProtocolVersion::new(2, 7),
            ProtocolVersion::new(2, 8),
            ProtocolVersion::LATEST,
            ProtocolVersion::new(3, 0),
        ] {
            let signed = sign(version).unwrap();
            assert!(Message::from_bytes(&signed).unwrap().credential().is_some());
            assert_eq!(verify(&signed), Ok(()), "{version}");
            // Offsets of request id, recursion count, handle and signature.
            for offset in [11, 34, 50, signed.len() - 1] {
                let mut changed = signed.clone();
                changed[offset] ^= 1;
                assert_eq!(verify(&changed), Err(CredentialError::Mismatch), "{version}, byte {offset}");
            }
            let mut twice = signed;
            assert_eq!(
                sign_message(&mut twice, &*key, &mut { Budget::PER_REQUEST }),
                Err(CredentialError::AlreadyPresent)
            );
        }
        for minor in [5, 6] {
            let version = ProtocolVersion::new(2, minor);
            assert_eq!(sign(version), Err(CredentialError::UnsupportedVersion { version }));
        }
        assert_eq!(verify(&message(ProtocolVersion::LATEST)), Err(CredentialError::Missing));
        let suggested = {
            let mut signed = sign(ProtocolVersion::LATEST).unwrap();
            signed[3] = 12;
            verify(&signed)
        };
        assert_eq!(suggested, Err(CredentialError::Mismatch));
    }

    #[test]
    fn oversized_message_is_unchanged() {
        let mut long = message(ProtocolVersion::LATEST);
        let body = limits::MAX_MESSAGE_LEN - limits::HEADER_LEN - 8;
        long.truncate(44);
        long[40..44].copy_from_slice(&(body as u32).to_be_bytes());
        long.resize(44 + body, 0);
        long.extend([0; 4]);
        long[16..20].copy_from_slice(&(limits::HEADER_LEN as u32 + body as u32 + 4).to_be_bytes());
        let before = long.clone();
        let key = SessionKey::new([1; 32]);
        let error = add_mac(&mut long, &key, 1, auth_context!()).unwrap_err();
        assert!(matches!(error, CredentialError::TooLong(_)));
        assert_eq!(long, before);
    }
}
