//! Classification of a message: its envelope and header are decoded once, and decide how it is handled.

use tendot_proto::{Envelope, EnvelopeFlags, MessageHeader, OpFlags, Opcode, ReceivedMessage};

/// Message as received, with its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassifiedMessage<'a> {
    received: ReceivedMessage<'a>,
    class: MessageClass,
}

/// How a message is handled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum MessageClass {
    /// Unsigned read of public values or of the site: it changes nothing and is cheap. Malformed messages, too.
    PublicRead,
    /// Other operations that need no key.
    Ordinary,
    /// Needs a signature, a key, or a proof of one.
    Expensive,
}

impl<'a> ClassifiedMessage<'a> {
    /// Decodes envelope and header, and classifies the message.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let received = ReceivedMessage::new(bytes);
        let class = classify(received.envelope().ok(), received.header());
        Self { received, class }
    }

    /// This message without its bytes, to move it to another task; there, [`with_bytes`](Self::with_bytes) adds a copy of them.
    pub(crate) const fn without_bytes(&self) -> ClassifiedMessage<'static> {
        self.with_bytes(&[])
    }

    /// This message with a copy of its bytes.
    pub(crate) const fn with_bytes<'b>(&self, bytes: &'b [u8]) -> ClassifiedMessage<'b> {
        ClassifiedMessage { received: self.received.with_bytes(bytes), class: self.class }
    }

    pub(crate) const fn received(&self) -> &ReceivedMessage<'a> {
        &self.received
    }

    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.received.bytes()
    }

    /// Envelope; `None` if the message is too short.
    pub(crate) fn envelope(&self) -> Option<Envelope> {
        self.received.envelope().ok().copied()
    }

    /// Opcode; [`Opcode::RESERVED`] if there is no readable header.
    pub(crate) fn opcode(&self) -> Opcode {
        self.received.header().map_or(Opcode::RESERVED, |header| header.opcode)
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.received.is_encrypted()
    }

    /// Whether the header has this flag.
    pub(crate) fn has_flag(&self, flag: OpFlags) -> bool {
        self.received.header().is_some_and(|header| header.flags.contains(flag))
    }

    /// Whether the message is an unsigned read of public values or of the site: it changes nothing and is cheap.
    pub(crate) fn is_public_read(&self) -> bool {
        self.class == MessageClass::PublicRead
    }

    /// Whether the message needs a signature, a key, or a proof of one. Messages in a session are authenticated by the session.
    pub(crate) fn is_expensive(&self) -> bool {
        self.class == MessageClass::Expensive
    }

    /// Whether the response is the same for all clients while the record is unchanged. A request digest covers the request id.
    pub(crate) fn is_cacheable(&self) -> bool {
        self.is_public_read()
            && self.opcode() == Opcode::RESOLUTION
            && !self.has_flag(OpFlags::REQUEST_DIGEST)
    }

    /// Whether the message may be answered with slightly stale data.
    pub(crate) fn tolerates_stale(&self) -> bool {
        self.envelope().is_some_and(|envelope| envelope.session_id == 0)
            && self.opcode() == Opcode::RESOLUTION
            && !self.has_flag(OpFlags::AUTHORITATIVE)
    }
}

fn classify(envelope: Option<&Envelope>, header: Option<&MessageHeader>) -> MessageClass {
    let Some(envelope) = envelope else { return MessageClass::PublicRead };
    if envelope.flags.contains(EnvelopeFlags::ENCRYPTED) {
        return MessageClass::Expensive;
    }
    let Some(header) = header else { return MessageClass::PublicRead };
    match header.opcode {
        Opcode::CHALLENGE_RESPONSE
        | Opcode::VERIFY_CHALLENGE
        | Opcode::SESSION_SETUP
        | Opcode::SESSION_TERMINATE => MessageClass::Expensive,
        _ if envelope.session_id != 0 => MessageClass::Ordinary,
        _ if header.flags.contains(OpFlags::CERTIFY) => MessageClass::Expensive,
        Opcode::GET_SITE_INFO => MessageClass::PublicRead,
        Opcode::RESOLUTION if header.flags.contains(OpFlags::PUBLIC_ONLY) => MessageClass::PublicRead,
        _ => MessageClass::Ordinary,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tendot_proto::{Handle, Message, Now, ProtocolVersion};

    use super::*;

    #[test]
    fn classes() {
        let check = |session_id, flags, expected, is_cacheable| {
            let now = Now { elapsed: Duration::ZERO, unix: 1_800_000_000 };
            let mut message = Message::resolution(Handle::from("10.1/x"), 7, now);
            message.envelope.session_id = session_id;
            message.header.flags = flags;
            let bytes = message.to_bytes().unwrap();
            let received = ClassifiedMessage::new(&bytes);
            assert_eq!((received.class, received.is_cacheable()), (expected, is_cacheable), "{message:?}");
        };
        let flags = OpFlags::DEFAULT;
        check(0, flags, MessageClass::PublicRead, true);
        check(0, flags | OpFlags::REQUEST_DIGEST, MessageClass::PublicRead, false);
        check(0, flags - OpFlags::PUBLIC_ONLY, MessageClass::Ordinary, false);
        check(0, flags | OpFlags::CERTIFY, MessageClass::Expensive, false);
        check(1, flags, MessageClass::Ordinary, false);
        check(1, flags | OpFlags::CERTIFY, MessageClass::Ordinary, false);
    }

    /// The bytes after the envelope of an encrypted message are not taken for a header.
    #[test]
    fn encrypted_messages_have_no_header() {
        let flags = EnvelopeFlags::ENCRYPTED;
        let mut bytes = Envelope { flags, ..Envelope::new(ProtocolVersion::LATEST) }.to_bytes().to_vec();
        bytes.extend([0xff; 40]);
        let received = ClassifiedMessage::new(&bytes);
        assert!(received.is_encrypted() && received.is_expensive());
        assert!(!received.has_flag(OpFlags::KEEP_CONNECTION));
        assert_eq!(received.opcode(), Opcode::RESERVED);
    }

    /// A message that is moved to another task is not classified again.
    #[test]
    fn copies_of_the_bytes() {
        let now = Now { elapsed: Duration::ZERO, unix: 1_800_000_000 };
        let bytes = Message::resolution(Handle::from("10.1/x"), 7, now).to_bytes().unwrap();
        let moved = ClassifiedMessage::new(&bytes).without_bytes();
        assert!(moved.is_cacheable() && moved.bytes().is_empty());
        let copy = bytes.clone();
        let message = moved.with_bytes(&copy);
        assert!(message.is_cacheable());
        assert_eq!(message.bytes(), bytes);
        assert_eq!(message.received().split().unwrap().to_bytes(), bytes);
    }

    #[test]
    fn short_messages_are_cheap() {
        for len in [0, 10, 20, 30, 43] {
            let bytes = vec![0; len];
            let received = ClassifiedMessage::new(&bytes);
            assert!(received.is_public_read() && !received.is_cacheable(), "{len}");
            assert_eq!(received.envelope().is_some(), len >= 20, "{len}");
        }
    }
}
