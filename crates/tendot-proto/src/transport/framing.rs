//! TCP framing: messages delimited by the length in their envelope.

use alloc::vec::Vec;

use crate::limits;
use crate::message::{Envelope, MessageHeader};
use crate::wire::WireReader;

/// Splits a TCP byte stream into messages by the envelope length.
///
/// Memory grows with the received bytes, never by an announced length.
///
/// ```
/// use tendot_proto::{Envelope, Framer, ProtocolVersion};
///
/// let message = Envelope::new(ProtocolVersion::LATEST).to_bytes();
/// let mut framer = Framer::new();
/// framer.push(&message[..15]);
/// assert_eq!(framer.next_message()?, None);
/// assert_eq!(framer.bytes_needed(), 5);
/// framer.push(&message[15..]);
/// assert_eq!(framer.next_message()?, Some(&message[..]));
///
/// // The announced length exceeds the limit.
/// framer.push(&Envelope { length: u32::MAX, ..Envelope::new(ProtocolVersion::LATEST) }.to_bytes());
/// let error = framer.next_message().unwrap_err();
/// assert_eq!(error.to_string(), "message length 4294967295 exceeds the limit of 262144 bytes");
/// # Ok::<(), tendot_proto::FrameError>(())
/// ```
#[derive(Debug, Default)]
pub struct Framer {
    buffer: Vec<u8>,
    /// Bytes at the start of the buffer that have already been returned.
    consumed: usize,
}

impl Framer {
    /// Buffer capacity retained by an idle connection.
    const MAX_IDLE_BUFFER_BYTES: usize = 4096;

    /// Empty framer.
    pub const fn new() -> Self {
        Self { buffer: Vec::new(), consumed: 0 }
    }

    /// Appends received bytes. Take out all complete messages before you push more.
    ///
    /// After an error only the header of the message that is too long is stored.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.consumed);
        self.consumed = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > Self::MAX_IDLE_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        let capacity = match self.envelope() {
            Some(envelope) if exceeds_limit(&envelope) => {
                (limits::ENVELOPE_LEN + limits::HEADER_LEN).saturating_sub(self.buffer.len())
            }
            _ => usize::MAX,
        };
        self.buffer.extend_from_slice(bytes.get(..capacity).unwrap_or(bytes));
    }

    /// Next complete message, if there is one.
    ///
    /// After an error message boundaries are lost: close the connection.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let Some(envelope) = self.envelope() else { return Ok(None) };
        let start = self.consumed;
        if exceeds_limit(&envelope) {
            let after = self.remaining().get(limits::ENVELOPE_LEN..).unwrap_or_default();
            let header = MessageHeader::decode(&mut WireReader::new(after)).ok().map(|(header, _)| header);
            return Err(FrameError { envelope, header });
        }
        let length = limits::ENVELOPE_LEN + envelope.length as usize;
        if self.remaining().len() < length {
            return Ok(None);
        }
        self.consumed += length;
        Ok(self.buffer.get(start..self.consumed))
    }

    /// Number of bytes missing from the envelope or message, as far as known. 0 if a message is complete, and after an
    /// error.
    pub fn bytes_needed(&self) -> usize {
        let expected = match self.envelope() {
            None => limits::ENVELOPE_LEN,
            Some(envelope) if exceeds_limit(&envelope) => 0,
            Some(envelope) => limits::ENVELOPE_LEN + envelope.length as usize,
        };
        expected.saturating_sub(self.remaining().len())
    }

    /// Whether part of a message has arrived, so that the peer owes the rest.
    pub fn has_partial_message(&self) -> bool {
        !self.remaining().is_empty()
    }

    /// Unconsumed bytes: the start of a stream that is no longer made of messages, as in replication.
    pub fn into_remaining(mut self) -> Vec<u8> {
        self.buffer.split_off(self.consumed)
    }

    /// Unconsumed bytes.
    pub fn remaining(&self) -> &[u8] {
        self.buffer.get(self.consumed..).unwrap_or_default()
    }

    fn envelope(&self) -> Option<Envelope> {
        Envelope::from_bytes(self.remaining()).ok()
    }
}

fn exceeds_limit(envelope: &Envelope) -> bool {
    envelope.length as usize > limits::MAX_MESSAGE_LEN
}

/// Announced message length exceeds the limit; the connection must be closed.
///
/// Envelope and header suffice for an error response before the connection is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("message length {} exceeds the limit of {} bytes", envelope.length, limits::MAX_MESSAGE_LEN)]
pub struct FrameError {
    /// Envelope of the message.
    pub envelope: Envelope,
    /// Header of the message, if it has arrived.
    pub header: Option<MessageHeader>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Opcode, ProtocolVersion};

    fn message(length: u32) -> Vec<u8> {
        let mut message = Envelope { length, ..Envelope::new(ProtocolVersion::LATEST) }.to_bytes().to_vec();
        message.extend((0..length).map(|byte| byte as u8));
        message
    }

    #[test]
    fn frames_any_chunking() {
        let stream = [message(0), message(30), message(700), message(1)].concat();
        for portion in [1, 7, 20, 21, 500, 2000] {
            let mut framer = Framer::new();
            let mut seen = Vec::new();
            for bytes in stream.chunks(portion) {
                framer.push(bytes);
                while let Some(message) = framer.next_message().unwrap() {
                    seen.push(message.to_vec());
                }
                assert_ne!(framer.bytes_needed(), 0);
            }
            assert_eq!(seen.concat(), stream, "{portion}");
            assert_eq!(seen.len(), 4, "{portion}");
            assert!(!framer.has_partial_message());
        }
    }

    #[test]
    fn remaining_bytes_are_preserved() {
        let mut framer = Framer::new();
        framer.push(&[&message(5)[..], b"stream"].concat());
        assert_eq!(framer.next_message().unwrap().map(<[u8]>::len), Some(25));
        assert!(framer.has_partial_message());
        assert_eq!(framer.into_remaining(), b"stream");
    }

    #[test]
    fn large_buffer_is_released() {
        let mut framer = Framer::new();
        framer.push(&message(100_000));
        assert!(framer.next_message().unwrap().is_some());
        framer.push(&message(1)[..3]);
        assert!(framer.buffer.capacity() <= Framer::MAX_IDLE_BUFFER_BYTES);
    }

    /// The error is known from the envelope; the header follows, and nothing beyond it is stored.
    #[test]
    fn rejects_oversized_message() {
        let mut framer = Framer::new();
        let mut bytes = message(0);
        bytes[16..20].copy_from_slice(&262_145_u32.to_be_bytes());
        bytes.extend([0, 0, 0, 1]);
        framer.push(&bytes);
        assert_eq!(framer.next_message().unwrap_err().header, None);
        for _ in 0..100 {
            framer.push(&[0; 1000]);
        }
        let error = framer.next_message().unwrap_err();
        assert_eq!(error.header.unwrap().opcode, Opcode::RESOLUTION);
        assert_eq!((framer.buffer.len(), framer.bytes_needed()), (44, 0));
    }
}
