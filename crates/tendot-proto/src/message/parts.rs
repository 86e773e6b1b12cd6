//! Messages split into parts, with the body undecoded.

use alloc::vec::Vec;

use super::{Credential, Envelope, MessageHeader, Request};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits;
use crate::wire::WireReader;

/// Message split into envelope, header, body and credential bytes; the body is not decoded.
///
/// Digests, signatures and MACs cover these bytes as they were received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MessageParts<'a> {
    /// Envelope.
    pub envelope: Envelope,
    /// Header.
    pub header: MessageHeader,
    /// Bytes of header and body, which digests cover.
    pub header_and_body: &'a [u8],
    /// Bytes of the body.
    pub body: &'a [u8],
    /// Bytes after the body: the credential with its length, or nothing.
    pub credential_bytes: &'a [u8],
}

impl<'a> MessageParts<'a> {
    /// Splits a complete message.
    ///
    /// Trailing bytes are an error; only TCP sends several messages in a row, see [`Framer`](crate::Framer).
    pub fn split(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = WireReader::new(bytes);
        let envelope = Envelope::decode(&mut reader)?;
        let length = envelope.length as usize;
        if length <= limits::MAX_MESSAGE_LEN && reader.remaining().len() > length {
            let after = WireReader::at_offset(
                reader.remaining().get(length..).unwrap_or_default(),
                limits::ENVELOPE_LEN + length,
            );
            after.expect_end("message")?;
        }
        Self::split_payload(envelope, reader.remaining())
    }

    /// Bytes of the whole message.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.envelope.to_bytes()[..], self.header_and_body, self.credential_bytes].concat()
    }

    /// Decodes the body of a request. Trailing bytes, from newer versions or old bugs, are ignored.
    #[inline]
    pub(crate) fn decode_request(&self) -> Result<Request<'a>, DecodeError> {
        Request::decode(self.header.opcode, self.envelope.version, &mut self.body_reader())
    }

    /// Reader of the body.
    #[inline]
    pub(super) const fn body_reader(&self) -> WireReader<'a> {
        WireReader::at_offset(self.body, limits::ENVELOPE_LEN + limits::HEADER_LEN)
    }

    /// Decodes the credential; none if its length is 0 or missing.
    pub fn credential(&self) -> Result<Option<Credential<'a>>, DecodeError> {
        let mut reader =
            WireReader::at_offset(self.credential_bytes, limits::ENVELOPE_LEN + self.header_and_body.len());
        if reader.is_empty() {
            return Ok(None);
        }
        let credential = reader.sub("credential")?;
        reader.expect_end("message")?;
        if credential.is_empty() { Ok(None) } else { Credential::decode(credential).map(Some) }
    }

    /// Splits the payload of an envelope; uses as many bytes as the envelope announces.
    ///
    /// Encrypted messages are rejected: decrypt them first and clear the flag.
    pub fn split_payload(envelope: Envelope, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let error = |kind| Err(DecodeError::new("message", limits::ENVELOPE_LEN, kind));
        let len = envelope.length as usize;
        if len > limits::MAX_MESSAGE_LEN {
            return error(DecodeErrorKind::TooLong { len, max: limits::MAX_MESSAGE_LEN });
        }
        let Some(payload) = payload.get(..len) else {
            return error(DecodeErrorKind::Truncated { expected: len, available: payload.len() });
        };
        if envelope.is_opaque() {
            return Err(DecodeError::new("envelope flags", 2, DecodeErrorKind::Invalid));
        }
        let mut reader = WireReader::at_offset(payload, limits::ENVELOPE_LEN);
        let (header, body_length) = MessageHeader::decode(&mut reader)?;
        Self::split_body(envelope, header, body_length, payload)
    }

    /// Splits the whole payload of an envelope, after its header has been decoded.
    #[inline]
    pub(super) fn split_body(
        envelope: Envelope,
        header: MessageHeader,
        body_length: u32,
        payload: &'a [u8],
    ) -> Result<Self, DecodeError> {
        let end = limits::HEADER_LEN.saturating_add(body_length as usize);
        let split = payload.split_at_checked(end);
        let body = split.and_then(|(header_and_body, _)| header_and_body.get(limits::HEADER_LEN..));
        let (Some((header_and_body, credential_bytes)), Some(body)) = (split, body) else {
            let available = payload.len().saturating_sub(limits::HEADER_LEN);
            let kind = DecodeErrorKind::Truncated { expected: body_length as usize, available };
            return Err(DecodeError::new("body", limits::ENVELOPE_LEN + 20, kind));
        };
        Ok(Self { envelope, header, header_and_body, body, credential_bytes })
    }
}
