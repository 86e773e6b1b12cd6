use super::IncomingRequest;
use crate::auth::PendingChallenge;
use crate::limits;
use crate::message::{
    CredentialSection, Message, MessageBody, OpFlags, Response, ResponseCode, ResponseData,
};

impl<'a> IncomingRequest<'a> {
    /// The response to this request, without a digest and without a credential.
    pub fn respond<'r>(&self, code: ResponseCode, outcome: ResponseData<'r>) -> Message<'r> {
        let mut envelope = self.endpoint.response_envelope(&self.message.envelope);
        envelope.session_id = self.session_id;
        let header = self.message.header;
        let mut header =
            self.endpoint.response_header(&header, code.for_peer_version(envelope.version), self.now);
        header.flags = header.flags.without(OpFlags::REQUEST_DIGEST);
        Message {
            envelope,
            header,
            body: MessageBody::Response(Response::new(outcome)),
            body_rest: &[],
            tail: CredentialSection::Empty,
        }
    }

    /// The challenge to this request, which goes out as it is: it has its digest already.
    pub fn challenge<'r>(&self, pending: &'r PendingChallenge) -> Message<'r> {
        let outcome = ResponseData::Challenge { nonce: pending.challenge().nonce, old_digest: None };
        let mut message = self.respond(ResponseCode::AUTHENTICATION_NEEDED, outcome);
        message.envelope.session_id = pending.id();
        message.header.flags = message.header.flags.with(OpFlags::REQUEST_DIGEST);
        message.body = MessageBody::Response(Response { digest: Some(pending.digest()), outcome });
        message
    }

    /// This request after its challenge has been answered: it is carried out, and the response goes to the answer.
    #[must_use]
    pub fn resume_after_challenge(mut self, answer: IncomingRequest<'_>) -> Self {
        self.message.envelope.request_id = answer.message.envelope.request_id;
        self.transport = answer.transport;
        self.work = answer.work;
        self
    }

    /// The number of times that the request will have been passed on if it is passed on now; none if it may not be.
    ///
    /// ```
    /// # use tendot_proto::{Handle, Message, Now, endpoint::{Endpoint, Transport}};
    /// # let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
    /// # let endpoint = Endpoint { site_serial: 5, primary: true };
    /// let mut request = Message::resolution(Handle::from("10.1000/1"), 7, now);
    /// request.header.recursion_count = 10;
    /// let bytes = request.to_bytes()?;
    /// let incoming = endpoint.decode_request(&bytes, Transport::Udp, now)?;
    /// assert_eq!(incoming.next_recursion_count(), None, "what matters only to those who would pass it on");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn next_recursion_count(&self) -> Option<u8> {
        let header = self.message.header;
        header.recursion_count.checked_add(1).filter(|count| *count <= limits::MAX_RECURSION_COUNT)
    }
}
