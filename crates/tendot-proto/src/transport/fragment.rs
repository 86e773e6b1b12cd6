//! UDP fragmentation: splits a message into datagrams of at most 512 bytes.

use core::ops::Deref;

use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits;
use crate::message::{Envelope, EnvelopeFlags};

/// Iterator over the UDP datagrams of one message.
///
/// A message that fits one datagram is sent unchanged. Otherwise all datagrams but the last are full, and each has an
/// envelope with the length of the whole message, its sequence number and [`EnvelopeFlags::TRUNCATED`], without which
/// Handle.Net's server does not wait for the others.
///
/// ```
/// use tendot_proto::{Envelope, Fragments, ProtocolVersion};
///
/// let envelope = Envelope { length: 1000, ..Envelope::new(ProtocolVersion::LATEST) };
/// let mut message = envelope.to_bytes().to_vec();
/// message.resize(1020, 7);
/// let datagrams: Vec<_> = Fragments::new(&message)?.collect();
/// assert_eq!(datagrams.iter().map(|datagram| datagram.len()).collect::<Vec<_>>(), [512, 512, 36]);
/// assert_eq!(Envelope::from_bytes(&datagrams[2])?.sequence, 2);
///
/// let error = Fragments::new(&message[..1019]).unwrap_err();
/// assert_eq!(error.to_string(), "message at byte 20: needs 1000 bytes, only 999 left");
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    envelope: Envelope,
    /// None after the last datagram.
    rest: Option<&'a [u8]>,
}

impl<'a> Fragments<'a> {
    /// Splits an encoded message, whose length must match its envelope.
    pub fn new(message: &'a [u8]) -> Result<Self, DecodeError> {
        let envelope = Envelope::from_bytes(message)?;
        let payload = message.get(limits::ENVELOPE_LEN..).unwrap_or_default();
        let (expected, available) = (message_len(&envelope)?, payload.len());
        let error = |kind| Err(DecodeError::new("message", limits::ENVELOPE_LEN, kind));
        if available < expected {
            return error(DecodeErrorKind::Truncated { expected, available });
        }
        if available > expected {
            return error(DecodeErrorKind::TrailingBytes { count: available - expected });
        }
        let flags = match expected {
            0..=limits::MAX_DATAGRAM_PAYLOAD_LEN => envelope.flags,
            _ => envelope.flags | EnvelopeFlags::TRUNCATED,
        };
        Ok(Self { envelope: Envelope { flags, sequence: 0, ..envelope }, rest: Some(payload) })
    }
}

impl Iterator for Fragments<'_> {
    type Item = Datagram;

    fn next(&mut self) -> Option<Datagram> {
        let rest = self.rest?;
        let (payload, after) = rest.split_at(rest.len().min(limits::MAX_DATAGRAM_PAYLOAD_LEN));
        let datagram = Datagram::new(&self.envelope, payload);
        self.envelope.sequence += 1;
        self.rest = Some(after).filter(|after| !after.is_empty());
        Some(datagram)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining =
            self.rest.map_or(0, |rest| rest.len().div_ceil(limits::MAX_DATAGRAM_PAYLOAD_LEN).max(1));
        (remaining, Some(remaining))
    }
}

impl ExactSizeIterator for Fragments<'_> {}

/// UDP datagram of at most 512 bytes, stored inline.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    bytes: [u8; limits::MAX_DATAGRAM_LEN],
    length: usize,
}

impl Datagram {
    fn new(envelope: &Envelope, payload: &[u8]) -> Self {
        let mut bytes = [0; limits::MAX_DATAGRAM_LEN];
        let (head, body) = bytes.split_at_mut(limits::ENVELOPE_LEN);
        head.copy_from_slice(&envelope.to_bytes());
        for (to, from) in body.iter_mut().zip(payload) {
            *to = *from;
        }
        Self { bytes, length: limits::ENVELOPE_LEN + payload.len().min(limits::MAX_DATAGRAM_PAYLOAD_LEN) }
    }
}

impl Deref for Datagram {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Message length of the envelope, if it is within the limit.
pub(super) fn message_len(envelope: &Envelope) -> Result<usize, DecodeError> {
    match envelope.length as usize {
        len if len > limits::MAX_MESSAGE_LEN => {
            let kind = DecodeErrorKind::TooLong { len, max: limits::MAX_MESSAGE_LEN };
            Err(DecodeError::new("message", limits::ENVELOPE_LEN, kind))
        }
        len => Ok(len),
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::message::ProtocolVersion;

    fn message(length: u32) -> Vec<u8> {
        let mut message =
            Envelope { request_id: 5, length, ..Envelope::new(ProtocolVersion::LATEST) }.to_bytes().to_vec();
        message.extend((0..length).map(|byte| byte as u8));
        message
    }

    #[test]
    fn sizes() {
        check(0, &[20]);
        check(24, &[44]);
        check(492, &[512]);
        check(493, &[512, 21]);
        check(984, &[512, 512]);
        check(1000, &[512, 512, 36]);
    }

    #[track_caller]
    fn check(length: u32, sizes: &[usize]) {
        let message = message(length);
        let datagrams: Vec<_> = Fragments::new(&message).unwrap().collect();
        assert_eq!(datagrams.iter().map(|datagram| datagram.len()).collect::<Vec<_>>(), sizes, "{length}");
        assert_eq!(Fragments::new(&message).unwrap().len(), sizes.len());
        for (sequence, datagram) in datagrams.iter().enumerate() {
            let envelope = Envelope::from_bytes(datagram).unwrap();
            assert_eq!(
                (envelope.sequence as usize, envelope.length, envelope.request_id),
                (sequence, length, 5)
            );
            assert_eq!(envelope.flags.contains(EnvelopeFlags::TRUNCATED), sizes.len() > 1);
        }
    }
}
