//! Messages split into parts, with the body undecoded.

use super::{Credential, Envelope, EnvelopeFlags, MessageHeader};
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
        if envelope.flags.contains(EnvelopeFlags::ENCRYPTED)
            || envelope.flags.contains(EnvelopeFlags::COMPRESSED)
        {
            return Err(DecodeError::new("envelope flags", 2, DecodeErrorKind::Invalid));
        }
        let mut reader = WireReader::at_offset(payload, limits::ENVELOPE_LEN);
        let (header, body_length) = MessageHeader::decode(&mut reader)?;
        let body = {
            let expected = body_length as usize;
            let available = reader.remaining().len();
            if expected > available {
                let kind = DecodeErrorKind::Truncated { expected, available };
                return Err(DecodeError::new("body", limits::ENVELOPE_LEN + 20, kind));
            }
            reader.take("body", expected)?
        };
        let header_and_body = payload.get(..limits::HEADER_LEN + body.len()).unwrap_or_default();
        Ok(Self { envelope, header, header_and_body, body, credential_bytes: reader.remaining() })
    }
}
