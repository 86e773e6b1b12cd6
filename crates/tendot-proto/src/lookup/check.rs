//! Whether an answer may be believed, and is one to what was asked.

use alloc::vec::Vec;

use super::attempt::Attempt;
use super::config::Config;
use super::error::AttemptError;
use super::question::Question;
use crate::crypto::{Crypto, CryptoError, Hash};
use crate::message::{
    Body, Credential, DigestAlgorithm, Message, OpFlags, Opcode, Outcome, Parts, RequestDigest, Response,
    Version,
};
use crate::record::PublicKey;
use crate::time::Now;

/// Reads an answer and checks it (the request id first, so that nothing of a stranger is looked into).
pub(super) fn response<'a>(
    config: &Config,
    question: &Question,
    attempt: &Attempt,
    bytes: &'a [u8],
    now: Now,
) -> Result<(Message<'a>, Response<'a>), AttemptError> {
    let parts = Parts::split(bytes)?;
    if parts.envelope.request_id != attempt.request_id {
        return Err(AttemptError::RequestId { found: parts.envelope.request_id });
    }
    let message = Message::from_parts(&parts)?;
    let Body::Response(response) = message.body else { return Err(AttemptError::NotAResponse) };
    let header = message.header;
    // Errors about requests that were not understood have no opcode.
    let is_error = header.opcode == Opcode::RESERVED && header.response_code.is_error();
    if header.opcode != question.opcode() && !is_error {
        return Err(AttemptError::Opcode { found: header.opcode.0 });
    }
    if let Some(late) = now.unix.checked_sub(u64::from(header.expiration)).filter(|late| *late > 0) {
        return Err(AttemptError::Expired { expiration: header.expiration, late });
    }
    if question.flags().has(OpFlags::REQUEST_DIGEST) {
        digest(config.crypto.as_deref(), attempt, &parts, response.digest)?;
    }
    if question.flags().has(OpFlags::CERTIFY) {
        signature(config.crypto.as_deref(), attempt, &parts, message.credential())?;
    }
    if let Outcome::Resolved { handle, .. } = response.outcome {
        let asked = question.handle();
        if !handle.is_same(asked) && !handle.with_slash().eq_ignore_ascii_case(&asked.with_slash()) {
            return Err(AttemptError::OtherHandle);
        }
    }
    Ok((message, response))
}

fn digest(
    crypto: Option<&dyn Crypto>,
    attempt: &Attempt,
    response: &Parts<'_>,
    digest: Option<RequestDigest<'_>>,
) -> Result<(), AttemptError> {
    let wrong = AttemptError::Digest;
    let (Some(crypto), Some(digest)) = (crypto, digest) else { return Err(wrong) };
    let hash = match digest.algorithm {
        DigestAlgorithm::Sha256 => Hash::Sha256,
        // Weaker ones are for those who know no other.
        _ if response.envelope.version >= Version::SHA256 => return Err(wrong),
        DigestAlgorithm::Sha1 => Hash::Sha1,
        DigestAlgorithm::Md5 | DigestAlgorithm::Untold => Hash::Md5,
    };
    let request = Parts::split(&attempt.request)?;
    match crypto.hash(hash, &[request.header_and_body]) {
        Ok(expected) if *expected == *digest.bytes => Ok(()),
        _ => Err(wrong),
    }
}

/// By the key of the server that was asked; who the credential says has signed does not matter.
fn signature(
    crypto: Option<&dyn Crypto>,
    attempt: &Attempt,
    response: &Parts<'_>,
    credential: Option<Credential<'_>>,
) -> Result<(), AttemptError> {
    let credential = credential.ok_or(AttemptError::Unsigned)?;
    if ![Credential::SIGNED, Credential::SIGNED_OLD].contains(&credential.credential_type) {
        return Err(AttemptError::Unsigned);
    }
    let crypto = crypto.ok_or(AttemptError::Signature(CryptoError::Unsupported))?;
    let bytes = attempt.target.server().map_or(&[][..], |server| &server.public_key);
    let key = PublicKey::from_bytes(bytes).map_err(|_| AttemptError::Signature(CryptoError::Key))?;
    let hash = match credential.algorithm {
        b"SHA-256" | b"SHA256" | [3] => Hash::Sha256,
        b"SHA1" | b"SHA-1" | [2] => Hash::Sha1,
        _ => return Err(AttemptError::Signature(CryptoError::Unsupported)),
    };
    let mut signed = Vec::new();
    let envelope = response.envelope;
    if envelope.version >= Version::SHA256 {
        signed.extend([envelope.version.major, envelope.version.minor]);
        if envelope.version >= Version::SUGGESTION_SIGNED {
            signed.extend([envelope.suggestion.major, envelope.suggestion.minor]);
        }
        for number in [envelope.session_id, envelope.request_id, credential.counter] {
            signed.extend(number.to_be_bytes());
        }
    }
    signed.extend_from_slice(response.header_and_body);
    crypto.verify(&key, hash, &signed, credential.signature).map_err(AttemptError::Signature)
}
