//! Received messages whose body is not decoded yet.

use super::{Envelope, EnvelopeFlags, MessageHeader, MessageParts};
use crate::error::DecodeError;
use crate::limits;

/// Received bytes with their envelope and header, decoded once for all decisions that precede the body: admission,
/// caching, sessions.
///
/// ```
/// use tendot_proto::{Handle, Message, Now, Opcode, ReceivedMessage};
///
/// let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
/// let bytes = Message::resolution(Handle::from("10.1000/182"), 7, now).to_bytes()?;
/// let message = ReceivedMessage::new(&bytes);
/// assert_eq!(message.envelope()?.request_id, 7);
/// assert_eq!(message.header().map(|header| header.opcode), Some(Opcode::RESOLUTION));
///
/// assert_eq!(ReceivedMessage::new(&bytes[..30]).header(), None);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReceivedMessage<'a> {
    bytes: &'a [u8],
    envelope: Result<Envelope, DecodeError>,
    /// Header and length of the body.
    header: Option<(MessageHeader, u32)>,
}

impl<'a> ReceivedMessage<'a> {
    /// Decodes envelope and header, as far as there are any.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        let envelope = Envelope::from_bytes(bytes);
        let header = match &envelope {
            Ok(envelope) if !envelope.is_opaque() => {
                bytes.get(limits::ENVELOPE_LEN..).and_then(|rest| MessageHeader::from_bytes(rest).ok())
            }
            _ => None,
        };
        Self { bytes, envelope, header }
    }

    /// This message with a copy of its bytes, for example to move it to another task.
    ///
    /// ```
    /// use tendot_proto::{Handle, Message, Now, ReceivedMessage};
    ///
    /// let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
    /// let bytes = Message::resolution(Handle::from("10.1000/182"), 7, now).to_bytes()?;
    /// let message = ReceivedMessage::new(&bytes);
    /// let copy = bytes.clone();
    /// assert_eq!(message.with_bytes(&copy).split()?, message.split()?);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn with_bytes<'b>(&self, bytes: &'b [u8]) -> ReceivedMessage<'b> {
        ReceivedMessage { bytes, envelope: self.envelope, header: self.header }
    }

    /// All bytes.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Envelope.
    pub fn envelope(&self) -> Result<&Envelope, DecodeError> {
        self.envelope.as_ref().map_err(|error| *error)
    }

    /// Header; none if the bytes are too short or encrypted.
    pub fn header(&self) -> Option<&MessageHeader> {
        self.header.as_ref().map(|(header, _)| header)
    }

    /// Whether the message must be decrypted before it can be decoded.
    pub fn is_encrypted(&self) -> bool {
        self.envelope.is_ok_and(|envelope| envelope.flags.contains(EnvelopeFlags::ENCRYPTED))
    }

    /// Splits a complete message, as [`MessageParts::split`] does.
    #[inline]
    pub fn split(&self) -> Result<MessageParts<'a>, DecodeError> {
        match (&self.envelope, self.header, self.bytes.get(limits::ENVELOPE_LEN..)) {
            (Ok(envelope), Some((header, body_length)), Some(payload))
                if payload.len() == envelope.length as usize && payload.len() <= limits::MAX_MESSAGE_LEN =>
            {
                MessageParts::split_body(*envelope, header, body_length, payload)
            }
            _ => MessageParts::split(self.bytes),
        }
    }
}
