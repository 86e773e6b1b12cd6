//! Response validation: request id, opcode, expiration, digest, signature.

use super::attempt::Attempt;
use super::config::LookupConfig;
use super::error::AttemptError;
use super::request::LookupRequest;
use crate::auth::{AuthContext, AuthError, AuthPolicy, ComputedDigest, verify_message_signature};
use crate::budget::Budget;
use crate::message::{
    ExpectedResponse, Message, MessageBody, MessageParts, OpFlags, ProtocolVersion, RequestDigest, Response,
    ResponseData, ResponseMismatch,
};
use crate::now::Now;
use crate::record::PublicKey;

/// Decodes and validates a response; the request id comes first, so that spoofed responses are not decoded.
pub(super) fn validate_response<'a>(
    config: &LookupConfig,
    request: &LookupRequest,
    attempt: &Attempt,
    bytes: &'a [u8],
    now: Now,
    budget: &mut Budget,
) -> Result<(Message<'a>, Response<'a>), AttemptError> {
    let parts = MessageParts::split(bytes)?;
    let expected = ExpectedResponse { request_id: attempt.request_id, opcode: request.opcode() };
    expected.check(&parts, now)?;
    let message = Message::from_parts(&parts)?;
    let MessageBody::Response(response) = message.body else {
        return Err(ResponseMismatch::NotAResponse.into());
    };
    if request.requires_signature() {
        check_downgrade(attempt, &parts)?;
    }
    if request.flags().contains(OpFlags::REQUEST_DIGEST) {
        verify_digest(config, request, attempt, &parts, response.digest, budget)?;
    }
    if request.requires_signature() {
        verify_signature(config, attempt, &parts, budget)?;
    }
    if let ResponseData::Resolved { handle, .. } = response.data {
        let requested = request.handle();
        if !handle.eq_ignore_case(requested)
            && !handle.qualified().eq_ignore_ascii_case(&requested.qualified())
        {
            return Err(AttemptError::WrongHandle);
        }
    }
    Ok((message, response))
}

/// Rejects a response in a version without SHA-256 from a server that supports it.
fn check_downgrade(attempt: &Attempt, response: &MessageParts<'_>) -> Result<(), AttemptError> {
    let site = attempt.target.site.protocol_version;
    let found = response.envelope.version;
    if site.negotiated() >= ProtocolVersion::SHA256 && found < ProtocolVersion::SHA256 {
        return Err(AttemptError::VersionDowngrade { found, site });
    }
    Ok(())
}

/// Verifies the request digest. Since 2.7 it is at least SHA-256, and a signed response needs that: with a weaker hash,
/// a party that controls our requests could find two with the same digest.
fn verify_digest(
    config: &LookupConfig,
    request: &LookupRequest,
    attempt: &Attempt,
    response: &MessageParts<'_>,
    digest: Option<RequestDigest<'_>>,
    budget: &mut Budget,
) -> Result<(), AttemptError> {
    let digest = digest.ok_or(AttemptError::Digest(AuthError::DigestMismatch))?;
    let crypto = config.crypto.as_deref().ok_or(AttemptError::NoCryptoProvider)?;
    let sent = MessageParts::split(&attempt.request)?;
    let is_weak_allowed =
        !request.requires_signature() && response.envelope.version < ProtocolVersion::SHA256;
    let policy = AuthPolicy {
        allow_sha1: config.policy.allow_sha1 && is_weak_allowed,
        allow_md5: config.policy.allow_md5 && is_weak_allowed,
        ..config.policy
    };
    let context = &mut AuthContext::new(crypto, policy, budget);
    ComputedDigest::verify(&digest, sent.header_and_body, context).map_err(AttemptError::Digest)
}

/// Verifies the signature with the key of the queried server; the signer named in the credential is ignored.
fn verify_signature(
    config: &LookupConfig,
    attempt: &Attempt,
    response: &MessageParts<'_>,
    budget: &mut Budget,
) -> Result<(), AttemptError> {
    let crypto = config.crypto.as_deref().ok_or(AttemptError::NoCryptoProvider)?;
    let bytes = attempt.target.public_key();
    let key = PublicKey::from_bytes(bytes).map_err(|error| AttemptError::Signature(error.into()))?;
    let context = &mut AuthContext::new(crypto, config.policy, budget);
    verify_message_signature(response, &key, context).map_err(AttemptError::Signature)
}
