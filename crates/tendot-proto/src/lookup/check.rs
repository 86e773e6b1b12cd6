//! Whether an answer may be believed, and is one to what was asked.

use super::attempt::Attempt;
use super::config::Config;
use super::error::AttemptError;
use super::question::Question;
use crate::auth::{AuthError, ComputedDigest, Policy, verify_signature};
use crate::message::{Body, Message, OpFlags, Opcode, Outcome, Parts, RequestDigest, Response, Version};
use crate::record::PublicKey;
use crate::time::Now;
use crate::work::Work;

/// Reads an answer and checks it (the request id first, so that nothing of a stranger is looked into).
pub(super) fn response<'a>(
    config: &Config,
    question: &Question,
    attempt: &Attempt,
    bytes: &'a [u8],
    now: Now,
    work: &mut Work,
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
    if question.is_certified() {
        version(attempt, &parts)?;
    }
    if question.flags().has(OpFlags::REQUEST_DIGEST) {
        digest(config, question, attempt, &parts, response.digest, work)?;
    }
    if question.is_certified() {
        signature(config, attempt, &parts, work)?;
    }
    if let Outcome::Resolved { handle, .. } = response.outcome {
        let asked = question.handle();
        if !handle.is_same(asked) && !handle.qualified().eq_ignore_ascii_case(&asked.qualified()) {
            return Err(AttemptError::OtherHandle);
        }
    }
    Ok((message, response))
}

/// A server that knows SHA-256 does not answer as if it did not.
fn version(attempt: &Attempt, response: &Parts<'_>) -> Result<(), AttemptError> {
    let site = &attempt.target.site;
    let site = Version::new(site.protocol_major, site.protocol_minor);
    let found = response.envelope.version;
    if site.spoken() >= Version::SHA256 && found < Version::SHA256 {
        return Err(AttemptError::Version { found, site });
    }
    Ok(())
}

/// The digest of the request as it was sent. From 2.7 on nothing weaker is made than SHA-256, and for a signed answer
/// nothing weaker is taken: who can choose what we ask could find two questions with one digest.
fn digest(
    config: &Config,
    question: &Question,
    attempt: &Attempt,
    response: &Parts<'_>,
    digest: Option<RequestDigest<'_>>,
    work: &mut Work,
) -> Result<(), AttemptError> {
    let digest = digest.ok_or(AttemptError::Digest(AuthError::OtherRequest))?;
    let crypto = config.crypto.as_deref().ok_or(AttemptError::Unchecked)?;
    let request = Parts::split(&attempt.request)?;
    let is_weak = !question.is_certified() && response.envelope.version < Version::SHA256;
    let policy =
        Policy { sha1: config.policy.sha1 && is_weak, md5: config.policy.md5 && is_weak, ..config.policy };
    ComputedDigest::check(&digest, request.header_and_body, &policy, crypto, work).map_err(AttemptError::Digest)
}

/// By the key of the server that was asked; who the credential says has signed does not matter.
fn signature(
    config: &Config,
    attempt: &Attempt,
    response: &Parts<'_>,
    work: &mut Work,
) -> Result<(), AttemptError> {
    let crypto = config.crypto.as_deref().ok_or(AttemptError::Unchecked)?;
    let bytes = attempt.target.server().map_or(&[][..], |server| &server.public_key);
    let key = PublicKey::from_bytes(bytes).map_err(|error| AttemptError::Signature(error.into()))?;
    verify_signature(response, &key, &config.policy, crypto, work).map_err(AttemptError::Signature)
}
