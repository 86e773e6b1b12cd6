//! Decoded requests and the responses to them.

use super::{Endpoint, Transport};
use crate::auth::PendingChallenge;
use crate::budget::Budget;
use crate::limits;
use crate::message::{
    CredentialSection, Message, MessageBody, MessageParts, OpFlags, Request, Response, ResponseCode,
    ResponseData,
};
use crate::now::Now;

/// Decoded and validated request.
#[derive(Clone, Debug)]
pub struct IncomingRequest<'a> {
    /// Request body.
    pub request: Request<'a>,
    /// Message bytes as received, for digests and credentials.
    pub parts: MessageParts<'a>,
    /// Decoded message.
    pub message: Message<'a>,
    /// Transport over which the request arrived.
    pub transport: Transport,
    /// Session id of the response, by default that of the request. 0 for a challenge response, whose envelope has the
    /// challenge id instead; the caller sets it if there is a session.
    pub session_id: u32,
    /// Work budget of the request.
    pub budget: Budget,
    pub(super) endpoint: Endpoint,
    pub(super) now: Now,
}

impl<'a> IncomingRequest<'a> {
    /// Response to this request, without request digest and credential.
    pub fn respond<'r>(&self, code: ResponseCode, data: ResponseData<'r>) -> Message<'r> {
        let mut envelope = self.endpoint.response_envelope(&self.message.envelope);
        envelope.session_id = self.session_id;
        let header = self.message.header;
        let mut header =
            self.endpoint.response_header(&header, code.for_peer_version(envelope.version), self.now);
        header.flags = header.flags.without(OpFlags::REQUEST_DIGEST);
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
        message.header.flags = message.header.flags.with(OpFlags::REQUEST_DIGEST);
        message.body = MessageBody::Response(Response { digest: Some(pending.digest()), data });
        message
    }

    /// Continues this request after a successful challenge response, to which the response is sent.
    #[must_use]
    pub fn resume_after_challenge(mut self, response: IncomingRequest<'_>) -> Self {
        self.message.envelope.request_id = response.message.envelope.request_id;
        self.transport = response.transport;
        self.budget = response.budget;
        self
    }

    /// Recursion count of the forwarded request; none if the limit is reached.
    ///
    /// ```
    /// # use tendot_proto::{Handle, Message, Now, endpoint::{Endpoint, Transport}};
    /// # let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
    /// # let endpoint = Endpoint { site_serial: 5, is_primary: true };
    /// let mut request = Message::resolution(Handle::from("10.1000/1"), 7, now);
    /// request.header.recursion_count = 10;
    /// let bytes = request.to_bytes()?;
    /// let incoming = endpoint.decode_request(&bytes, Transport::Udp, now)?;
    /// assert_eq!(incoming.next_recursion_count(), None, "the limit is reached");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn next_recursion_count(&self) -> Option<u8> {
        let header = self.message.header;
        header.recursion_count.checked_add(1).filter(|count| *count <= limits::MAX_RECURSION_COUNT)
    }
}
