//! Decoded requests and the responses to them.

use super::{Endpoint, Transport};
use crate::auth::PendingChallenge;
use crate::budget::Budget;
use crate::message::{
    CredentialSection, Envelope, Message, MessageBody, MessageParts, OpFlags, Request, Response,
    ResponseCode, ResponseData,
};
use crate::now::Now;

/// Decoded and validated request.
#[derive(Clone, Debug)]
pub struct IncomingRequest<'a> {
    /// Request body.
    pub request: Request<'a>,
    /// Message bytes as received, for digests and credentials.
    pub parts: MessageParts<'a>,
    /// Transport over which the request arrived.
    pub transport: Transport,
    /// Session id of the response, by default that of the request. 0 for a challenge response, whose envelope has the
    /// challenge id instead; the caller sets it if there is a session.
    pub session_id: u32,
    /// Request id of the response, by default that of the request.
    pub request_id: u32,
    /// Work budget of the request.
    pub budget: Budget,
    pub(super) endpoint: Endpoint,
    pub(super) now: Now,
}

impl IncomingRequest<'_> {
    /// Response to this request, without request digest and credential.
    pub fn respond<'r>(&self, code: ResponseCode, data: ResponseData<'r>) -> Message<'r> {
        let envelope = Envelope {
            session_id: self.session_id,
            request_id: self.request_id,
            ..self.endpoint.response_envelope(&self.parts.envelope)
        };
        let code = code.for_peer_version(envelope.version);
        let mut header = self.endpoint.response_header(&self.parts.header, code, self.now);
        header.flags -= OpFlags::REQUEST_DIGEST;
        Message {
            envelope,
            header,
            body: MessageBody::Response(Response::new(data)),
            trailing_body: &[],
            credential_section: CredentialSection::Empty,
        }
    }

    /// Challenge for this request. It includes the request digest; send it unsealed.
    pub fn challenge<'r>(&self, pending: &'r PendingChallenge) -> Message<'r> {
        let data = ResponseData::Challenge { nonce: pending.challenge().nonce, legacy_digest: None };
        let mut message = self.respond(ResponseCode::AUTHENTICATION_NEEDED, data);
        message.envelope.session_id = pending.id();
        message.header.flags |= OpFlags::REQUEST_DIGEST;
        message.body = MessageBody::Response(Response { digest: Some(pending.digest()), data });
        message
    }

    /// Continues this request after a successful challenge response, to which the response is sent.
    #[must_use]
    pub fn resume_after_challenge(mut self, response: IncomingRequest<'_>) -> Self {
        self.request_id = response.request_id;
        self.transport = response.transport;
        self.budget = response.budget;
        self
    }
}
