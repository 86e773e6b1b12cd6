//! Messages: envelope, header, body by opcode, credential (RFC 3652, 2.2, with Handle.Net's deviations).
//!
//! Reading order: `envelope`, `header` with `opcode` and `response_code`, `version`, `received` and `parts` (split, undecoded),
//! `request`, `response`, `expected_response`, `credential`, `request_digest`, `hash_partition`. `code_points` is a macro for open
//! sets of codes.

mod code_points;
mod credential;
mod envelope;
mod expected_response;
mod hash_partition;
mod header;
mod opcode;
mod parts;
mod received;
mod request;
mod request_digest;
mod response;
mod response_code;
mod version;

use alloc::vec::Vec;

pub use credential::Credential;
pub use envelope::{Envelope, EnvelopeFlags};
pub use expected_response::{ExpectedResponse, ResponseMismatch};
pub use hash_partition::HashPartition;
pub use header::{MessageHeader, OpFlags};
pub use opcode::Opcode;
pub use parts::MessageParts;
pub use received::ReceivedMessage;
pub use request::{
    ChallengeResponse, DumpCursor, KeyExchangeMode, ReplicationStart, Request, SessionKeyMaterial,
    SessionSetup,
};
pub use request_digest::{DigestAlgorithm, RequestDigest};
pub use response::{Response, ResponseData};
pub use response_code::ResponseCode;
pub use version::ProtocolVersion;

use crate::error::{DecodeError, EncodeError};
use crate::handle::Handle;
use crate::limits;
use crate::now::Now;
use crate::wire::{WireList, WireWriter};

/// Protocol message: envelope, header, body and credential (RFC 3652, 2.2). Borrows; re-encodes to the same bytes.
///
/// Decoding does not allocate.
///
/// ```
/// use tendot_proto::{MessageBody, Handle, Message, Now, Opcode, Request};
///
/// let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
/// let request = Message::resolution(Handle::from("10.1000/182"), 7, now);
/// let mut bytes = Vec::new();
/// request.encode(&mut bytes)?;
///
/// let decoded = Message::from_bytes(&bytes)?;
/// assert_eq!(decoded.header.opcode, Opcode::RESOLUTION);
/// let MessageBody::Request(Request::Resolve { handle, .. }) = decoded.body else { panic!() };
/// assert_eq!(handle, Handle::from("10.1000/182"));
///
/// // Wrong length of the handle.
/// bytes[47] = 200;
/// let error = Message::from_bytes(&bytes).unwrap_err();
/// assert_eq!(error.to_string(), "handle at byte 44: needs 200 bytes, only 19 left");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message<'a> {
    /// Envelope; its length is computed by encoding.
    pub envelope: Envelope,
    /// Header.
    pub header: MessageHeader,
    /// Body.
    pub body: MessageBody<'a>,
    /// Trailing bytes after the last known field of the body, from newer versions or old bugs.
    pub trailing_body: &'a [u8],
    /// Credential section.
    pub credential_section: CredentialSection<'a>,
}

/// Message body: request or response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MessageBody<'a> {
    /// Body of a request.
    Request(Request<'a>),
    /// Body of a response.
    Response(Response<'a>),
}

/// Credential section after the body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CredentialSection<'a> {
    /// Missing, even its length, as some clients send it.
    Absent,
    /// Credential of length 0.
    Empty,
    /// Credential.
    Present(Credential<'a>),
    /// Malformed bytes. As in Handle.Net, the message is still accepted, but is not authenticated.
    Malformed(&'a [u8]),
}

impl<'a> Message<'a> {
    /// Request as Handle.Net's client sends it, to a site with unknown serial number.
    pub fn request(opcode: Opcode, request: Request<'a>, request_id: u32, now: Now) -> Self {
        Self {
            envelope: Envelope { request_id, ..Envelope::new(ProtocolVersion::LATEST) },
            header: MessageHeader::for_request(opcode, now),
            body: MessageBody::Request(request),
            trailing_body: &[],
            credential_section: CredentialSection::Empty,
        }
    }

    /// Resolution request for all public values of a record.
    pub fn resolution(handle: Handle<'a>, request_id: u32, now: Now) -> Self {
        let request = Request::Resolve { handle, indexes: WireList::EMPTY, types: WireList::EMPTY };
        Self::request(Opcode::RESOLUTION, request, request_id, now)
    }

    /// Decodes a complete message without trailing bytes.
    #[inline]
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::from_parts(&MessageParts::split(bytes)?)
    }

    /// Decodes a message that has been split.
    #[inline]
    pub fn from_parts(parts: &MessageParts<'a>) -> Result<Self, DecodeError> {
        let MessageParts { envelope, header, .. } = *parts;
        let mut reader = parts.body_reader();
        let body = if header.is_request() {
            MessageBody::Request(Request::decode(header.opcode, envelope.version, &mut reader)?)
        } else {
            MessageBody::Response(Response::decode(&header, envelope.version, &mut reader)?)
        };
        let credential_section = match (parts.credential(), parts.credential_bytes) {
            (Ok(Some(credential)), _) => CredentialSection::Present(credential),
            (_, []) => CredentialSection::Absent,
            (Ok(None), _) => CredentialSection::Empty,
            (Err(_), bytes) => CredentialSection::Malformed(bytes),
        };
        Ok(Self { envelope, header, body, trailing_body: reader.remaining(), credential_section })
    }

    /// Appends the encoded message to `out`, with computed lengths. On error `out` is unchanged.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        let mut writer = WireWriter::new(out);
        self.envelope.encode(&mut writer);
        self.header.encode(&mut writer);
        let body = writer.len();
        match &self.body {
            MessageBody::Request(request) => request.encode(self.envelope.version, &mut writer),
            MessageBody::Response(response) => response.encode(&mut writer),
        }
        writer.raw(self.trailing_body);
        let body_length = writer.len() - body;
        self.credential_section.encode(&mut writer);
        let length = writer.len() - start - limits::ENVELOPE_LEN;
        if length > limits::MAX_MESSAGE_LEN {
            out.truncate(start);
            return Err(EncodeError::TooLong { len: length, max: limits::MAX_MESSAGE_LEN });
        }
        // Both fit 32 bits, since the whole message does.
        writer.overwrite_u32(body - 4, body_length as u32);
        writer.overwrite_u32(start + 16, length as u32);
        Ok(())
    }

    /// Encodes the message.
    pub fn to_bytes(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        self.encode(&mut out)?;
        Ok(out)
    }

    /// Credential, if there is one.
    pub const fn credential(&self) -> Option<Credential<'a>> {
        match self.credential_section {
            CredentialSection::Present(credential) => Some(credential),
            _ => None,
        }
    }
}

impl CredentialSection<'_> {
    fn encode(&self, writer: &mut WireWriter<'_>) {
        match self {
            Self::Absent => {}
            Self::Empty => writer.u32(0),
            Self::Present(credential) => credential.encode(writer),
            Self::Malformed(bytes) => writer.raw(bytes),
        }
    }
}
