use super::{Credential, Envelope, EnvelopeFlags, MessageHeader};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits;
use crate::wire::WireReader;

/// Message split into envelope, header, body and credential bytes; the body is not decoded.
///
/// Digests, signatures and MACs are made of the bytes as they came, so this is where they are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MessageParts<'a> {
    /// The envelope.
    pub envelope: Envelope,
    /// The header.
    pub header: MessageHeader,
    /// Header and body, which is what digests are made of.
    pub header_and_body: &'a [u8],
    /// The body.
    pub body: &'a [u8],
    /// What follows the body: the credential with its length, or nothing at all.
    pub tail: &'a [u8],
}

impl<'a> MessageParts<'a> {
    /// Cuts the message that `bytes` are.
    ///
    /// Bytes after it are an error, since only TCP lets messages follow one another: see [`Framer`](crate::Framer).
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

    /// The credential; none if its length is 0 or not even there.
    pub fn credential(&self) -> Result<Option<Credential<'a>>, DecodeError> {
        let mut reader = WireReader::at_offset(self.tail, limits::ENVELOPE_LEN + self.header_and_body.len());
        if reader.is_empty() {
            return Ok(None);
        }
        let credential = reader.sub("credential")?;
        reader.expect_end("message")?;
        if credential.is_empty() { Ok(None) } else { Credential::decode(credential).map(Some) }
    }

    /// Cuts what follows an envelope, of which as many bytes are taken as the envelope announces.
    ///
    /// An encrypted message is refused: it has to be decrypted first, and its flag taken away.
    pub fn split_payload(envelope: Envelope, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let refuse = |field, kind| Err(DecodeError::new(field, limits::ENVELOPE_LEN, kind));
        let announced = envelope.length as usize;
        if announced > limits::MAX_MESSAGE_LEN {
            return refuse("message", DecodeErrorKind::TooLong { announced, limit: limits::MAX_MESSAGE_LEN });
        }
        let Some(payload) = payload.get(..announced) else {
            return refuse("message", DecodeErrorKind::Short { announced, there: payload.len() });
        };
        if envelope.flags.has(EnvelopeFlags::ENCRYPTED) || envelope.flags.has(EnvelopeFlags::COMPRESSED) {
            return Err(DecodeError::new("envelope flags", 2, DecodeErrorKind::NotUnderstood));
        }
        let mut reader = WireReader::at_offset(payload, limits::ENVELOPE_LEN);
        let (header, body_length) = MessageHeader::decode(&mut reader)?;
        let body = {
            let announced = body_length as usize;
            let there = reader.remaining().len();
            if announced > there {
                let kind = DecodeErrorKind::Short { announced, there };
                return Err(DecodeError::new("body", limits::ENVELOPE_LEN + 20, kind));
            }
            reader.take("body", announced)?
        };
        let header_and_body = payload.get(..limits::HEADER_LEN + body.len()).unwrap_or_default();
        Ok(Self { envelope, header, header_and_body, body, tail: reader.remaining() })
    }
}
