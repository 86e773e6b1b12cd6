//! Messages: envelope, header, body by opcode, credential (RFC 3652, 2.2, as deployed).

mod code_points;
mod credential;
mod digest;
mod envelope;
mod header;
mod opcode;
mod parts;
mod request;
mod response;
mod response_code;
mod version;

use alloc::vec::Vec;

pub use credential::Credential;
pub use digest::{DigestAlgorithm, RequestDigest};
pub use envelope::{Envelope, EnvelopeFlags};
pub use header::{MessageHeader, OpFlags};
pub use opcode::Opcode;
pub use parts::MessageParts;
pub use request::{
    DumpCursor, HashPartition, KeyExchangeMode, ReplicationStart, Request, SessionKeyMaterial, SessionSetup,
};
pub use response::{Response, ResponseData};
pub use response_code::ResponseCode;
pub use version::ProtocolVersion;

use crate::error::{DecodeError, EncodeError};
use crate::handle::Handle;
use crate::limits;
use crate::time::Now;
use crate::wire::{WireList, WireReader, WireWriter};

/// Protocol message: envelope, header, body and credential (RFC 3652, 2.2). Borrows; re-encodes to the same bytes.
///
/// It borrows from the bytes that it was read from, and allocates nothing. Whatever was read is written as it came.
///
/// ```
/// use tendot_proto::{MessageBody, Handle, Message, Now, Opcode, Request};
///
/// let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
/// let request = Message::resolution(Handle::from("10.1000/182"), 7, now);
/// let mut bytes = Vec::new();
/// request.encode(&mut bytes)?;
///
/// let read = Message::from_bytes(&bytes)?;
/// assert_eq!(read.header.opcode, Opcode::RESOLUTION);
/// let MessageBody::Request(Request::Resolve { handle, .. }) = read.body else { panic!() };
/// assert_eq!(handle, Handle::from("10.1000/182"));
///
/// // The length of the handle is wrong.
/// bytes[47] = 200;
/// let error = Message::from_bytes(&bytes).unwrap_err();
/// assert_eq!(error.to_string(), "handle at byte 44: 200 bytes announced, 19 there");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message<'a> {
    /// The envelope; its length is that of what is written.
    pub envelope: Envelope,
    /// The header.
    pub header: MessageHeader,
    /// What the message says.
    pub body: MessageBody<'a>,
    /// What follows the last known field of the body: nothing, or what newer versions, or older errors, put there.
    pub body_rest: &'a [u8],
    /// What proves where it comes from.
    pub tail: CredentialSection<'a>,
}

/// Message body: request or response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MessageBody<'a> {
    /// That of a request.
    Request(Request<'a>),
    /// That of a response.
    Response(Response<'a>),
}

/// Credential section after the body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CredentialSection<'a> {
    /// Not even the length of a credential, which some clients leave out.
    Absent,
    /// A credential of no length.
    Empty,
    /// A credential.
    Credential(Credential<'a>),
    /// Bytes that are none. The message is understood without them, as the deployed software does; but nothing is proved
    /// by them.
    Other(&'a [u8]),
}

impl<'a> Message<'a> {
    /// A request as clients of the deployed software send it: for a site of which nothing is known.
    pub fn request(opcode: Opcode, request: Request<'a>, request_id: u32, now: Now) -> Self {
        Self {
            envelope: Envelope { request_id, ..Envelope::new(ProtocolVersion::LATEST) },
            header: MessageHeader::for_request(opcode, now),
            body: MessageBody::Request(request),
            body_rest: &[],
            tail: CredentialSection::Empty,
        }
    }

    /// A request for all values of a record that everybody may read.
    pub fn resolution(handle: Handle<'a>, request_id: u32, now: Now) -> Self {
        let request = Request::Resolve { handle, indexes: WireList::EMPTY, types: WireList::EMPTY };
        Self::request(Opcode::RESOLUTION, request, request_id, now)
    }

    /// Reads a whole message and nothing after it.
    #[inline]
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::from_parts(&MessageParts::split(bytes)?)
    }

    /// Reads a message that has been cut into its parts.
    #[inline]
    pub fn from_parts(parts: &MessageParts<'a>) -> Result<Self, DecodeError> {
        let MessageParts { envelope, header, .. } = *parts;
        let body_at = limits::ENVELOPE_LEN + limits::HEADER_LEN;
        let mut reader = WireReader::at_offset(parts.body, body_at);
        let body = if header.is_request() {
            MessageBody::Request(Request::decode(header.opcode, envelope.version, &mut reader)?)
        } else {
            MessageBody::Response(Response::decode(&header, envelope.version, &mut reader)?)
        };
        let tail = match (parts.credential(), parts.tail) {
            (Ok(Some(credential)), _) => CredentialSection::Credential(credential),
            (_, []) => CredentialSection::Absent,
            (Ok(None), _) => CredentialSection::Empty,
            (Err(_), tail) => CredentialSection::Other(tail),
        };
        Ok(Self { envelope, header, body, body_rest: reader.remaining(), tail })
    }

    /// Appends the message to `out`, with the lengths that it then has. On an error `out` is as it was.
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
        writer.raw(self.body_rest);
        let body_length = writer.len() - body;
        self.tail.encode(&mut writer);
        let length = writer.len() - start - limits::ENVELOPE_LEN;
        if length > limits::MAX_MESSAGE_LEN {
            out.truncate(start);
            return Err(EncodeError::TooLong { length, limit: limits::MAX_MESSAGE_LEN });
        }
        // Both fit, since the whole does.
        writer.overwrite_u32(body - 4, body_length as u32);
        writer.overwrite_u32(start + 16, length as u32);
        Ok(())
    }

    /// The message as bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        self.encode(&mut out)?;
        Ok(out)
    }

    /// The credential, if there is one.
    pub const fn credential(&self) -> Option<Credential<'a>> {
        match self.tail {
            CredentialSection::Credential(credential) => Some(credential),
            _ => None,
        }
    }
}

impl CredentialSection<'_> {
    fn encode(&self, writer: &mut WireWriter<'_>) {
        match self {
            Self::Absent => {}
            Self::Empty => writer.u32(0),
            Self::Credential(credential) => credential.encode(writer),
            Self::Other(bytes) => writer.raw(bytes),
        }
    }
}
