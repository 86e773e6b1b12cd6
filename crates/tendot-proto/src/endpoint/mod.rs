//! Server side of the protocol: bytes to requests, responses to bytes. Stateless.
//!
//! Reading order: this file, `incoming_request`, `rejection`, `validate`, `seal`.

mod incoming_request;
mod rejection;
mod seal;
mod validate;

pub use incoming_request::IncomingRequest;
pub use rejection::{InvalidRequest, Rejection, RejectionReason};
pub use seal::{SealContext, SealError};

use crate::budget::Budget;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits;
use crate::message::{
    CredentialSection, Envelope, Message, MessageBody, MessageHeader, OpFlags, Opcode, ProtocolVersion,
    ReceivedMessage, Response, ResponseCode, ResponseData,
};
use crate::now::Now;
use crate::transport::FrameError;

/// Transport over which a request arrived; decides which operations are allowed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Transport {
    /// UDP: the source address is not verified.
    Udp,
    /// TCP.
    Tcp,
    /// HTTP tunnel.
    Http,
}

/// Server side of the protocol for one site: decodes and validates requests, builds responses.
///
/// Stateless. Before it, [`Reassembly`](crate::Reassembly) joins datagrams, [`Framer`](crate::Framer) splits streams
/// and the session decrypts messages; after it, the caller executes the request.
///
/// ```
/// use tendot_proto::endpoint::{Endpoint, Transport};
/// use tendot_proto::{MessageBody, Handle, Message, Now, ResponseData, Response, ResponseCode};
///
/// let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
/// let endpoint = Endpoint { site_serial: 5, is_primary: true };
///
/// let request = Message::resolution(Handle::from("10.1000/none"), 7, now).to_bytes()?;
/// let incoming = endpoint.decode_request(&request, Transport::Udp, now)?;
/// let error = ResponseData::Error { message: Some(b"") };
/// let mut response = Vec::new();
/// incoming.respond(ResponseCode::HANDLE_NOT_FOUND, error).encode(&mut response)?;
/// assert_eq!(Message::from_bytes(&response)?.envelope.request_id, 7);
///
/// // Malformed requests get a response, too, with their request id if it can be decoded.
/// let rejection = endpoint.decode_request(&request[..request.len() - 1], Transport::Tcp, now).unwrap_err();
/// assert_eq!(rejection.response_code(), ResponseCode::PROTOCOL_ERROR);
/// assert_eq!(rejection.to_string(), "message at byte 20: needs 52 bytes, only 51 left");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// Serial number of the site.
    pub site_serial: u16,
    /// Whether this is a primary site, which accepts writes: every response is authoritative.
    pub is_primary: bool,
}

impl Endpoint {
    /// Decodes and validates a complete, decrypted message.
    ///
    /// All checks that need no record are made here, so that all transports reject alike.
    #[inline]
    pub fn decode_request<'a>(
        &self,
        bytes: &'a [u8],
        transport: Transport,
        now: Now,
    ) -> Result<IncomingRequest<'a>, Rejection> {
        self.decode_received(&ReceivedMessage::new(bytes), transport, now)
    }

    /// Like [`decode_request`](Self::decode_request), for a message whose envelope and header are already decoded.
    pub fn decode_received<'a>(
        &self,
        message: &ReceivedMessage<'a>,
        transport: Transport,
        now: Now,
    ) -> Result<IncomingRequest<'a>, Rejection> {
        let envelope = match message.envelope() {
            Ok(envelope) => *envelope,
            Err(error) => return Err(Rejection::without_response(None, RejectionReason::Malformed(error))),
        };
        if envelope.is_opaque() {
            return Err(self.reject(envelope, None, RejectionReason::Encrypted, now));
        }
        let header = message.header().copied();
        // Never respond to a response: two servers could do so in an endless loop.
        if header.is_some_and(|header| !header.is_request()) {
            return Err(Rejection::without_response(header, RejectionReason::NotARequest));
        }
        let reject = |reason| Err(self.reject(envelope, header, reason, now));
        // No response over UDP to a length that no message can have.
        if transport == Transport::Udp && envelope.length as usize > limits::MAX_MESSAGE_LEN {
            let kind =
                DecodeErrorKind::TooLong { len: envelope.length as usize, max: limits::MAX_MESSAGE_LEN };
            let error = DecodeError::new("message", limits::ENVELOPE_LEN, kind);
            return Err(Rejection::without_response(header, RejectionReason::Malformed(error)));
        }
        let parts = match message.split() {
            Ok(parts) => parts,
            Err(error) => return reject(RejectionReason::Malformed(error)),
        };
        let opcode = parts.header.opcode;
        if opcode.name().is_none() || opcode == Opcode::RESERVED {
            return reject(RejectionReason::UnknownOpcode(opcode));
        }
        if opcode.is_admin() {
            if transport == Transport::Udp {
                return reject(RejectionReason::AdminOverUdp);
            }
            // Such a peer's challenges would use MD5, and the client alone chooses the version.
            if envelope.response_version() < ProtocolVersion::DIGEST_ALGORITHMS {
                return reject(RejectionReason::VersionTooOld(envelope.newest_version()));
            }
        }
        let request = match parts.decode_request() {
            Ok(request) => request,
            Err(error) => return reject(RejectionReason::Malformed(error)),
        };
        if let Err(invalid) = validate::validate_request(opcode, &request) {
            return reject(RejectionReason::Invalid(invalid));
        }
        let session_id = if opcode == Opcode::CHALLENGE_RESPONSE { 0 } else { envelope.session_id };
        Ok(IncomingRequest {
            request,
            parts,
            transport,
            session_id,
            request_id: envelope.request_id,
            budget: Budget::PER_REQUEST,
            endpoint: *self,
            now,
        })
    }

    /// Rejection of a stream that cannot be split into messages; close the connection after the response.
    pub fn reject_frame(&self, error: &FrameError, now: Now) -> Rejection {
        match error.header {
            Some(header) if !header.is_request() => {
                Rejection::without_response(Some(header), RejectionReason::NotARequest)
            }
            header => self.reject(error.envelope, header, RejectionReason::FrameTooLong(*error), now),
        }
    }

    /// Rejection of bytes that are not a valid request, as far as they could be decoded.
    ///
    /// Handle.Net responds with request id 0xFFFFFFFF and version 2.3, which its own client takes for a response to
    /// another request.
    pub fn reject(
        &self,
        envelope: Envelope,
        header: Option<MessageHeader>,
        reason: RejectionReason,
        now: Now,
    ) -> Rejection {
        let header = header.unwrap_or_else(|| MessageHeader::for_request(Opcode::RESERVED, now));
        let opcode = header.opcode;
        let code = reason.response_code().for_peer_version(envelope.response_version());
        let flags = header.flags - (OpFlags::CERTIFY | OpFlags::ENCRYPT | OpFlags::REQUEST_DIGEST);
        let message = alloc::format!("{reason}");
        let response = Message {
            envelope: self.response_envelope(&envelope),
            header: self.response_header(&MessageHeader { flags, ..header }, code, now),
            body: MessageBody::Response(Response::new(ResponseData::Error {
                message: Some(message.as_bytes()),
            })),
            trailing_body: &[],
            credential_section: CredentialSection::Empty,
        };
        Rejection { reason, opcode, response: response.to_bytes().ok() }
    }

    fn response_envelope(&self, request: &Envelope) -> Envelope {
        Envelope {
            session_id: request.session_id,
            request_id: request.request_id,
            ..Envelope::new(request.response_version())
        }
    }

    fn response_header(&self, request: &MessageHeader, code: ResponseCode, now: Now) -> MessageHeader {
        let mut header = request.for_response(code, self.site_serial, now);
        header.flags -= OpFlags::AUTHORITATIVE;
        if self.is_primary {
            header.flags |= OpFlags::AUTHORITATIVE;
        }
        header
    }
}
