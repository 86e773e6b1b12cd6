//! The answering side: datagrams and frames in, requests out; responses in, bytes out.

mod check;
mod respond;
mod seal;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use seal::{SealContext, SealError};

use crate::auth::SessionError;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::framing::FrameError;
use crate::limits;
use crate::message::{
    CredentialSection, Envelope, EnvelopeFlags, Message, MessageBody, MessageHeader, MessageParts, OpFlags,
    Opcode, ProtocolVersion, Request, Response, ResponseCode, ResponseData,
};
use crate::time::Now;
use crate::work::Budget;

/// Transport over which a request arrived; decides which operations are allowed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Transport {
    /// In datagrams, from an address that nobody has proved.
    Udp,
    /// Over a connection.
    Tcp,
    /// Inside HTTP.
    Http,
}

/// Server side of the protocol for one site: decodes and validates requests, builds responses.
///
/// It keeps nothing of what it sees. Datagrams are put together by [`Reassembly`](crate::Reassembly), streams are cut
/// by [`Framer`](crate::Framer), encrypted messages are opened by their session, all before; what is asked for is
/// carried out elsewhere, after.
///
/// ```
/// use tendot_proto::endpoint::{Endpoint, Transport};
/// use tendot_proto::{MessageBody, Handle, Message, Now, ResponseData, Response, ResponseCode};
///
/// let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
/// let endpoint = Endpoint { site_serial: 5, primary: true };
///
/// let request = Message::resolution(Handle::from("10.1000/none"), 7, now).to_bytes()?;
/// let incoming = endpoint.decode_request(&request, Transport::Udp, now)?;
/// let outcome = ResponseData::Failed { message: Some(b"") };
/// let mut response = Vec::new();
/// incoming.respond(ResponseCode::HANDLE_NOT_FOUND, outcome).encode(&mut response)?;
/// assert_eq!(Message::from_bytes(&response)?.envelope.request_id, 7);
///
/// // What cannot be understood is answered, too; with the number of the request, if it can be read.
/// let refused = endpoint.decode_request(&request[..request.len() - 1], Transport::Tcp, now).unwrap_err();
/// assert_eq!(refused.code(), ResponseCode::PROTOCOL_ERROR);
/// assert_eq!(refused.to_string(), "message at byte 20: 52 bytes announced, 51 there");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// The serial number of the site.
    pub site_serial: u16,
    /// Whether the site takes changes: then every response is authoritative.
    pub primary: bool,
}

/// Decoded and validated request.
#[derive(Clone, Debug)]
pub struct IncomingRequest<'a> {
    /// What it asks for.
    pub request: Request<'a>,
    /// The message as it came, for digests and credentials.
    pub parts: MessageParts<'a>,
    /// All of it.
    pub message: Message<'a>,
    /// How it came.
    pub transport: Transport,
    /// The session of the response: that of the request. An answer to a challenge may have none, since there the
    /// number is that of the challenge; who finds that it has one puts it here.
    pub session_id: u32,
    /// What answering it may cost.
    pub work: Budget,
    endpoint: Endpoint,
    now: Now,
}

impl Endpoint {
    /// Reads a whole message, which must not be encrypted.
    ///
    /// What can be refused without looking at any record is refused here, so that all front doors refuse it alike.
    pub fn decode_request<'a>(
        &self,
        bytes: &'a [u8],
        transport: Transport,
        now: Now,
    ) -> Result<IncomingRequest<'a>, Rejection> {
        let envelope = Envelope::from_bytes(bytes)
            .map_err(|error| Rejection::without_response(RejectionReason::Malformed(error)))?;
        // What follows is not a header then.
        if envelope.flags.has(EnvelopeFlags::ENCRYPTED) || envelope.flags.has(EnvelopeFlags::COMPRESSED) {
            return Err(self.reject(envelope, None, RejectionReason::Encrypted, now));
        }
        let header = bytes.get(limits::ENVELOPE_LEN..).and_then(|rest| MessageHeader::from_bytes(rest).ok());
        // A response is never answered, or two servers could keep each other busy for ever.
        if header.is_some_and(|(header, _)| !header.is_request()) {
            return Err(Rejection::without_response(RejectionReason::Response));
        }
        let refuse = |reason| Err(self.reject(envelope, header.map(|(header, _)| header), reason, now));
        // Whoever announces more than a message can have over UDP is not owed a datagram.
        if transport == Transport::Udp && envelope.length as usize > limits::MAX_MESSAGE_LEN {
            let kind = DecodeErrorKind::TooLong {
                announced: envelope.length as usize,
                limit: limits::MAX_MESSAGE_LEN,
            };
            let error = DecodeError::new("message", limits::ENVELOPE_LEN, kind);
            return Err(Rejection::without_response(RejectionReason::Malformed(error)));
        }
        let parts = match MessageParts::split(bytes) {
            Ok(parts) => parts,
            Err(error) => return refuse(RejectionReason::Malformed(error)),
        };
        let opcode = parts.header.opcode;
        if opcode.name().is_none() || opcode == Opcode::RESERVED {
            return refuse(RejectionReason::UnknownOperation(opcode));
        }
        if opcode.is_admin() {
            if transport == Transport::Udp {
                return refuse(RejectionReason::AdministrationOverUdp);
            }
            // Their challenges would be made with MD5, and by the client's wish alone.
            if envelope.response_version() < ProtocolVersion::DIGEST_ALGORITHMS {
                return refuse(RejectionReason::TooOld(envelope.newest_version()));
            }
        }
        let message = match Message::from_parts(&parts) {
            Ok(message) => message,
            Err(error) => return refuse(RejectionReason::Malformed(error)),
        };
        let MessageBody::Request(request) = message.body else {
            return Err(Rejection::without_response(RejectionReason::Response));
        };
        if let Err(denied) = check::validate_request(opcode, &request) {
            return refuse(RejectionReason::Denied(denied));
        }
        let session_id = if opcode == Opcode::CHALLENGE_RESPONSE { 0 } else { envelope.session_id };
        Ok(IncomingRequest {
            request,
            parts,
            message,
            transport,
            session_id,
            work: Budget::PER_REQUEST,
            endpoint: *self,
            now,
        })
    }

    /// The answer to a stream that cannot be cut into messages; the connection is to be closed after it.
    pub fn reject_frame(&self, error: &FrameError, now: Now) -> Rejection {
        match error.header {
            Some(header) if !header.is_request() => Rejection::without_response(RejectionReason::Response),
            header => self.reject(error.envelope, header, RejectionReason::Frame(*error), now),
        }
    }

    /// The answer to something that is no request, as far as it could be read.
    ///
    /// The deployed software answers such with request id 0xFFFFFFFF and version 2.3, which its own client takes for an
    /// answer to somebody else.
    pub fn reject(
        &self,
        envelope: Envelope,
        header: Option<MessageHeader>,
        reason: RejectionReason,
        now: Now,
    ) -> Rejection {
        let header = header.unwrap_or_else(|| MessageHeader::for_request(Opcode::RESERVED, now));
        let code = reason.code().for_peer_version(envelope.response_version());
        let flags = OpFlags(header.flags.0)
            .without(OpFlags::CERTIFY.with(OpFlags::ENCRYPT).with(OpFlags::REQUEST_DIGEST));
        let message = alloc::format!("{reason}");
        let response = Message {
            envelope: self.response_envelope(&envelope),
            header: self.response_header(&MessageHeader { flags, ..header }, code, now),
            body: MessageBody::Response(Response::new(ResponseData::Failed {
                message: Some(message.as_bytes()),
            })),
            body_rest: &[],
            tail: CredentialSection::Empty,
        };
        Rejection { reason, response: response.to_bytes().ok() }
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
        header.flags = header.flags.without(OpFlags::AUTHORITATIVE);
        if self.primary {
            header.flags = header.flags.with(OpFlags::AUTHORITATIVE);
        }
        header
    }
}

/// Rejected bytes: the reason and the encoded error response, if one may be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rejection {
    reason: RejectionReason,
    response: Option<Vec<u8>>,
}

impl Rejection {
    const fn without_response(reason: RejectionReason) -> Self {
        Self { reason, response: None }
    }

    /// Why.
    pub const fn reason(&self) -> &RejectionReason {
        &self.reason
    }

    /// The code of the answer, whether there is one or not.
    pub const fn code(&self) -> ResponseCode {
        self.reason.code()
    }

    /// The answer; none if nothing should be answered.
    pub fn response(&self) -> Option<&[u8]> {
        self.response.as_deref()
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl core::error::Error for Rejection {}

/// Reason of a [`Rejection`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectionReason {
    /// They are no message.
    #[error("{0}")]
    Malformed(DecodeError),
    /// They are a stream that cannot be cut into messages.
    #[error("{0}")]
    Frame(FrameError),
    /// They are a response.
    #[error("this is a response")]
    Response,
    /// They are encrypted, and nobody has opened them; or compressed, which nobody does.
    #[error("an encrypted message without a session")]
    Encrypted,
    /// They belong to a session that does not know them.
    #[error("{0}")]
    Session(SessionError),
    /// Nobody here does this.
    #[error("operation {0} is not known")]
    UnknownOperation(Opcode),
    /// Who asks over UDP has proved no address.
    #[error("administration is not taken over UDP")]
    AdministrationOverUdp,
    /// The client speaks only versions whose authentication is broken.
    #[error("administration needs version 2.1 or later, {0} is the latest offered")]
    TooOld(ProtocolVersion),
    /// What it asks for cannot be.
    #[error("{0}")]
    Denied(InvalidRequest),
}

impl RejectionReason {
    /// The code of the answer.
    pub const fn code(&self) -> ResponseCode {
        match self {
            Self::UnknownOperation(_) => ResponseCode::OPERATION_NOT_SUPPORTED,
            Self::Denied(denied) => denied.code,
            Self::Session(error) => error.response_code(),
            _ => ResponseCode::PROTOCOL_ERROR,
        }
    }
}

/// Invalid handle or values: response code and message.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidRequest {
    code: ResponseCode,
    message: String,
}

impl InvalidRequest {
    const fn new(code: ResponseCode, message: String) -> Self {
        Self { code, message }
    }

    /// The code.
    pub const fn code(&self) -> ResponseCode {
        self.code
    }
}
