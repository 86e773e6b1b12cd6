//! `tendot debug message`

use std::path::Path;

use tendot_proto::auth::{CredentialError, Policy, SessionKey, verify_mac, verify_signature};
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::PublicKey;
use tendot_proto::{
    DecodeError, Envelope, EnvelopeFlags, Header, Message, Now, Parts, Reassembly, Work, limits,
};

use super::description::Description;
use super::fields::{Validity, describe_body, describe_envelope, describe_header};
use super::{bytes_of_hex, hex_of_bytes, read_input};
use crate::args::DebugMessageArguments;
use crate::failure::tell;
use crate::output::Output;
use crate::{Answer, Failure};

pub(super) fn run(arguments: &DebugMessageArguments) -> Result<Answer, Failure> {
    let mut viewer = MessagePrinter {
        arguments,
        keys: Keys::new(arguments)?,
        reassembly: Reassembly::new(),
        output: Output::new(),
        is_first: true,
        is_valid: true,
    };
    if arguments.hex.is_empty() {
        let input = read_input()?;
        for line in input.lines().filter(|line| !line.trim().is_empty()) {
            viewer.show(line)?;
        }
    }
    for hex in &arguments.hex {
        viewer.show(hex)?;
    }
    viewer.output.flush()?;
    Ok(if viewer.is_valid { Answer::Yes } else { Answer::No })
}

struct MessagePrinter<'a> {
    arguments: &'a DebugMessageArguments,
    keys: Keys,
    /// Of the datagrams seen so far.
    reassembly: Reassembly,
    output: Output,
    is_first: bool,
    is_valid: bool,
}

impl MessagePrinter<'_> {
    /// Shows the message, or the messages that follow one another as over TCP.
    fn show(&mut self, hex: &str) -> Result<(), Failure> {
        let bytes = bytes_of_hex(hex)?;
        let mut rest = &*bytes;
        let mut reencoded = String::new();
        loop {
            let at = bytes.len() - rest.len();
            let (piece, after) = Piece::split(rest).map_err(|error| match at {
                0 => malformed(error),
                at => Failure::new(format!("malformed message at byte {at}: {error}")),
            })?;
            if self.arguments.reencode {
                reencoded += &hex_of_bytes(&piece.encode()?);
            } else {
                self.show_piece(&piece)?;
                self.show_whole(&piece, rest)?;
            }
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        if self.arguments.reencode {
            self.output.line(reencoded)?;
        }
        Ok(())
    }

    /// After the last datagram of a message, shows the message.
    fn show_whole(&mut self, piece: &Piece<'_>, datagram: &[u8]) -> Result<(), Failure> {
        const AT_ONCE: Now = Now { elapsed: std::time::Duration::ZERO, unix: 0 };
        if !matches!(piece, Piece::Fragment { .. }) {
            return Ok(());
        }
        let from = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
        match self.reassembly.insert(AT_ONCE, from, datagram) {
            Ok(Some(whole)) => self.show_piece(&Piece::split(&whole).map_err(malformed)?.0),
            Ok(None) => Ok(()),
            Err(error) => Err(Failure::new(format!("the datagrams do not fit together: {error}"))),
        }
    }

    fn show_piece(&mut self, piece: &Piece<'_>) -> Result<(), Failure> {
        let (description, valid) = piece.describe(&self.keys)?;
        match valid {
            None | Some(Ok(true)) => {}
            Some(Ok(false)) => {
                self.is_valid = false;
                tell("the credential does not fit the message and the key");
            }
            Some(Err(why)) => {
                self.is_valid = false;
                tell(format_args!("the credential can't be checked: {why}"));
            }
        }
        if self.arguments.json {
            return self.output.json(&description);
        }
        if !std::mem::take(&mut self.is_first) {
            self.output.line("")?;
        }
        description.write(&mut self.output)
    }
}

/// What credentials are checked and messages decrypted with.
struct Keys {
    session: Option<SessionKey>,
    /// The bytes of a public key.
    server: Option<Vec<u8>>,
}

impl Keys {
    fn new(arguments: &DebugMessageArguments) -> Result<Self, Failure> {
        let session = arguments.session_key.as_deref().map(|hex| {
            let key: Result<[u8; 32], _> = bytes_of_hex(hex)?.try_into();
            let wrong = |key: Vec<u8>| Failure::new(format!("a session key has 32 bytes, not {}", key.len()));
            key.map(SessionKey::new).map_err(wrong)
        });
        let server = arguments.public_key.as_deref().map(read_key);
        Ok(Self { session: session.transpose()?, server: server.transpose()? })
    }

    /// Whether the credential of a message is right; none if there is no credential, or no key for it.
    fn check(&self, parts: &Parts<'_>) -> Result<Option<Validity>, Failure> {
        let mut work = Work::PER_REQUEST;
        let mut checked = Err(CredentialError::Missing);
        if let Some(key) = &self.session {
            checked = verify_mac(parts, key, &AwsLcProvider, &mut work).map(drop);
        }
        if let (Err(CredentialError::Missing), Some(key)) = (checked, &self.server) {
            let key = PublicKey::from_bytes(key)
                .map_err(|error| Failure::new(format!("malformed key: {error}")))?;
            checked = verify_signature(parts, &key, &Policy::default(), &AwsLcProvider, &mut work);
        }
        match checked {
            Ok(()) => Ok(Some(Ok(true))),
            Err(CredentialError::Wrong) => Ok(Some(Ok(false))),
            Err(CredentialError::Missing) => Ok(None),
            Err(error) => Ok(Some(Err(error.to_string()))),
        }
    }
}

fn read_key(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::io(path.display(), &error))?;
    let malformed = |error| Failure::new(format!("{} is no public key: {error}", path.display()));
    PublicKey::from_bytes(&bytes).map_err(malformed)?;
    Ok(bytes)
}

/// What an envelope can stand before.
enum Piece<'a> {
    /// A whole message.
    Message { message: Box<Message<'a>>, parts: Box<Parts<'a>> },
    /// A message that only those who have the session's key can read.
    Encrypted { envelope: Envelope, payload: &'a [u8] },
    /// One of several datagrams of a message.
    Fragment { envelope: Envelope, payload: &'a [u8] },
}

impl<'a> Piece<'a> {
    fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        let envelope = Envelope::from_bytes(bytes)?;
        let payload = &bytes[limits::ENVELOPE_LEN..];
        let length = envelope.length as usize;
        // Some servers do not set the flag; a whole message is not cut off just where a datagram ends.
        let is_full = payload.len() == limits::MAX_DATAGRAM_PAYLOAD_LEN;
        if (envelope.flags.has(EnvelopeFlags::TRUNCATED) || is_full) && payload.len() < length {
            return Ok((Self::Fragment { envelope, payload }, &[]));
        }
        if envelope.flags.has(EnvelopeFlags::ENCRYPTED) && payload.len() >= length {
            let (payload, after) = payload.split_at(length);
            return Ok((Self::Encrypted { envelope, payload }, after));
        }
        let parts = Parts::split_payload(envelope, payload)?;
        let message = Message::from_parts(&parts)?;
        Ok((Self::Message { message: message.into(), parts: parts.into() }, &payload[length..]))
    }

    fn encode(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Message { message, .. } => {
                message.to_bytes().map_err(|error| Failure::new(format!("can't be encoded: {error}")))
            }
            Self::Encrypted { envelope, payload } | Self::Fragment { envelope, payload } => {
                Ok([&envelope.to_bytes(), *payload].concat())
            }
        }
    }

    /// What is to be shown, and whether the credential is right, if that was checked.
    fn describe(&self, keys: &Keys) -> Result<(Description, Option<Validity>), Failure> {
        let mut description = Description::default();
        let mut valid = None;
        match self {
            Self::Message { message, parts } => {
                valid = keys.check(parts)?;
                describe_envelope(&message.envelope, &mut description);
                describe_header(&message.header, parts.body.len(), &mut description)?;
                describe_body(message, valid.as_ref(), &mut description)?;
            }
            Self::Encrypted { envelope, payload } => {
                describe_envelope(envelope, &mut description);
                description.add_hex("encrypted", payload);
                if let Some(key) = &keys.session {
                    let plain = key.decrypt(&self.encode()?, &AwsLcProvider, &mut { Work::PER_REQUEST });
                    let plain =
                        plain.map_err(|error| Failure::new(format!("can't be decrypted: {error}")))?;
                    let parts = Parts::split(&plain).map_err(malformed)?;
                    valid = keys.check(&parts)?;
                    let message = Message::from_parts(&parts).map_err(malformed)?;
                    describe_header(&message.header, parts.body.len(), &mut description)?;
                    describe_body(&message, valid.as_ref(), &mut description)?;
                }
            }
            Self::Fragment { envelope, payload } => {
                describe_envelope(envelope, &mut description);
                // The header is in the first datagram, unless it is encrypted.
                if envelope.sequence == 0
                    && !envelope.flags.has(EnvelopeFlags::ENCRYPTED)
                    && let Ok((header, body_length)) = Header::from_bytes(payload)
                {
                    describe_header(&header, body_length as usize, &mut description)?;
                }
                description.add("fragmentLength", payload.len() as u64);
                description.add_hex("fragment", payload);
            }
        }
        Ok((description, valid))
    }
}

fn malformed(error: DecodeError) -> Failure {
    Failure::new(format!("malformed message: {error}"))
}
