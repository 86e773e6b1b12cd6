//! `tendot debug message`: decodes native messages.

use std::path::PathBuf;

use clap::Args;
use data_encoding::HEXLOWER;
use tendot_proto::auth::{
    AuthContext, AuthPolicy, CredentialError, SessionKey, verify_message_mac, verify_message_signature,
};
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::PublicKey;
use tendot_proto::{
    Budget, DecodeError, Envelope, EnvelopeFlags, Message, MessageHeader, MessageParts, Now, Reassembly,
    limits,
};

use super::field_list::FieldList;
use super::fields::{CredentialCheck, describe_body, describe_envelope, describe_header};
use super::{parse_hex, read_stdin};
use crate::key::read_public_key_file;
use crate::terminal::{StdoutWriter, eprint_line};
use crate::{CliError, CommandStatus};

/// Decode a native message given in hex
///
/// Bytes after the first message are decoded as further messages, as over TCP. A fragment (RFC 3652, 2.3) is printed as such;
/// after the last fragment follows the reassembled message. An encrypted message is decrypted if `--session-key` is given.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot debug message '020b020b 00000000 01020304 00000000 00000021 00000002 00000000
                        19000000 00010000 65000000 00000005 00000001 2f 00000000'
  xxd -p -c0 captured.bin | tendot debug message --json | jq .body.handle
  tendot debug message --public-key pubkey.bin \"$SIGNED\"

Exit codes: 0 success, 1 a credential is invalid, 2 error, or the message is malformed")]
pub(crate) struct DebugMessageArguments {
    /// Message bytes in hex [default: one message per line of standard input]
    #[arg(value_name = "HEX")]
    pub(crate) hex: Vec<String>,

    /// Encode the decoded input again and print it in hex
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub(crate) reencode: bool,

    /// Session key (32 bytes, hex) for decryption and MACs
    #[arg(long, value_name = "HEX")]
    pub(crate) session_key: Option<String>,

    /// Public key file for signatures, in Handle.Net's format
    #[arg(long, value_name = "FILE")]
    pub(crate) public_key: Option<PathBuf>,

    /// Print JSON, one object per message
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

pub(super) fn run(arguments: &DebugMessageArguments) -> Result<CommandStatus, CliError> {
    let mut printer = MessagePrinter {
        arguments,
        keys: VerificationKeys::new(arguments)?,
        reassembly: Reassembly::new(),
        output: StdoutWriter::new(),
        is_first: true,
        is_valid: true,
    };
    if arguments.hex.is_empty() {
        let input = read_stdin()?;
        for line in input.lines().filter(|line| !line.trim().is_empty()) {
            printer.print_hex(line)?;
        }
    }
    for hex in &arguments.hex {
        printer.print_hex(hex)?;
    }
    printer.output.flush()?;
    Ok(if printer.is_valid { CommandStatus::Success } else { CommandStatus::Negative })
}

/// Decodes and prints messages; reassembles datagrams.
struct MessagePrinter<'a> {
    arguments: &'a DebugMessageArguments,
    keys: VerificationKeys,
    /// Fragments seen so far.
    reassembly: Reassembly,
    output: StdoutWriter,
    is_first: bool,
    is_valid: bool,
}

impl MessagePrinter<'_> {
    /// Decodes and prints one message, or several in sequence as over TCP.
    fn print_hex(&mut self, hex: &str) -> Result<(), CliError> {
        let bytes = parse_hex(hex)?;
        let mut rest = &*bytes;
        let mut reencoded = String::new();
        loop {
            let at = bytes.len() - rest.len();
            let (content, after) = EnvelopeContent::decode(rest).map_err(|error| match at {
                0 => malformed(error),
                at => CliError::new(format!("malformed message at byte {at}: {error}")),
            })?;
            if self.arguments.reencode {
                reencoded += &HEXLOWER.encode(&content.encode()?);
            } else {
                self.print_content(&content)?;
                self.print_reassembled(&content, rest)?;
            }
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        if self.arguments.reencode {
            self.output.write_line(reencoded)?;
        }
        Ok(())
    }

    /// Prints the reassembled message after its last fragment.
    fn print_reassembled(&mut self, content: &EnvelopeContent<'_>, datagram: &[u8]) -> Result<(), CliError> {
        const ZERO_TIME: Now = Now { elapsed: std::time::Duration::ZERO, unix: 0 };
        if !matches!(content, EnvelopeContent::Fragment { .. }) {
            return Ok(());
        }
        let from = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
        match self.reassembly.insert(ZERO_TIME, from, datagram) {
            Ok(Some(message)) => self.print_content(&EnvelopeContent::decode(&message).map_err(malformed)?.0),
            Ok(None) => Ok(()),
            Err(error) => Err(CliError::new(format!("cannot reassemble the datagrams: {error}"))),
        }
    }

    fn print_content(&mut self, content: &EnvelopeContent<'_>) -> Result<(), CliError> {
        let (description, valid) = content.describe(&self.keys)?;
        match valid {
            None | Some(Ok(true)) => {}
            Some(Ok(false)) => {
                self.is_valid = false;
                eprint_line("invalid credential");
            }
            Some(Err(why)) => {
                self.is_valid = false;
                eprint_line(format_args!("cannot check the credential: {why}"));
            }
        }
        if self.arguments.json {
            return self.output.write_json(&description);
        }
        if !std::mem::take(&mut self.is_first) {
            self.output.write_line("")?;
        }
        description.write(&mut self.output)
    }
}

/// Keys given on the command line for decryption and verification.
struct VerificationKeys {
    session: Option<SessionKey>,
    server: Option<PublicKey<'static>>,
}

impl VerificationKeys {
    fn new(arguments: &DebugMessageArguments) -> Result<Self, CliError> {
        let session = arguments.session_key.as_deref().map(|hex| {
            let key: Result<[u8; 32], _> = parse_hex(hex)?.try_into();
            let invalid =
                |key: Vec<u8>| CliError::new(format!("a session key must be 32 bytes, not {}", key.len()));
            key.map(SessionKey::new).map_err(invalid)
        });
        let server = arguments.public_key.as_deref().map(read_public_key_file);
        Ok(Self { session: session.transpose()?, server: server.transpose()? })
    }

    /// Verifies the credential of a message; `None` without a credential or a key for it.
    fn check(&self, parts: &MessageParts<'_>) -> Result<Option<CredentialCheck>, CliError> {
        let mut budget = Budget::PER_REQUEST;
        let context = &mut AuthContext::new(&AwsLcProvider, AuthPolicy::default(), &mut budget);
        let mut checked = Err(CredentialError::Missing);
        if let Some(key) = &self.session {
            checked = verify_message_mac(parts, key, context).map(drop);
        }
        if let (Err(CredentialError::Missing), Some(key)) = (checked, &self.server) {
            checked = verify_message_signature(parts, key, context);
        }
        match checked {
            Ok(()) => Ok(Some(Ok(true))),
            Err(CredentialError::Mismatch) => Ok(Some(Ok(false))),
            Err(CredentialError::Missing) => Ok(None),
            Err(error) => Ok(Some(Err(error.to_string()))),
        }
    }
}

/// Content after a message envelope (RFC 3652, 2.2.1).
enum EnvelopeContent<'a> {
    /// Complete message.
    Message { message: Box<Message<'a>>, parts: Box<MessageParts<'a>> },
    /// Message encrypted with a session key.
    Encrypted { envelope: Envelope, payload: &'a [u8] },
    /// Fragment of a message that spans several datagrams.
    Fragment { envelope: Envelope, payload: &'a [u8] },
}

impl<'a> EnvelopeContent<'a> {
    fn decode(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        let envelope = Envelope::from_bytes(bytes)?;
        let payload = &bytes[limits::ENVELOPE_LEN..];
        let length = envelope.length as usize;
        // Some servers do not set the truncation flag: a full datagram with an incomplete message is a fragment, too.
        let is_full = payload.len() == limits::MAX_DATAGRAM_PAYLOAD_LEN;
        if (envelope.flags.contains(EnvelopeFlags::TRUNCATED) || is_full) && payload.len() < length {
            return Ok((Self::Fragment { envelope, payload }, &[]));
        }
        if envelope.flags.contains(EnvelopeFlags::ENCRYPTED) && payload.len() >= length {
            let (payload, after) = payload.split_at(length);
            return Ok((Self::Encrypted { envelope, payload }, after));
        }
        let parts = MessageParts::split_payload(envelope, payload)?;
        let message = Message::from_parts(&parts)?;
        Ok((Self::Message { message: message.into(), parts: parts.into() }, &payload[length..]))
    }

    fn encode(&self) -> Result<Vec<u8>, CliError> {
        match self {
            Self::Message { message, .. } => message
                .to_bytes()
                .map_err(|error| CliError::new(format!("cannot encode the message: {error}"))),
            Self::Encrypted { envelope, payload } | Self::Fragment { envelope, payload } => {
                Ok([&envelope.to_bytes(), *payload].concat())
            }
        }
    }

    /// Fields to print, and the result of the credential check, if there was one.
    fn describe(&self, keys: &VerificationKeys) -> Result<(FieldList, Option<CredentialCheck>), CliError> {
        let mut description = FieldList::default();
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
                    let mut budget = Budget::PER_REQUEST;
                    let context = &mut AuthContext::new(&AwsLcProvider, AuthPolicy::default(), &mut budget);
                    let plain = key.decrypt(&self.encode()?, context);
                    let plain = plain
                        .map_err(|error| CliError::new(format!("cannot decrypt the message: {error}")))?;
                    let parts = MessageParts::split(&plain).map_err(malformed)?;
                    valid = keys.check(&parts)?;
                    let message = Message::from_parts(&parts).map_err(malformed)?;
                    describe_header(&message.header, parts.body.len(), &mut description)?;
                    describe_body(&message, valid.as_ref(), &mut description)?;
                }
            }
            Self::Fragment { envelope, payload } => {
                describe_envelope(envelope, &mut description);
                // The first fragment contains the header, unless the message is encrypted.
                if envelope.sequence == 0
                    && !envelope.flags.contains(EnvelopeFlags::ENCRYPTED)
                    && let Ok((header, body_length)) = MessageHeader::from_bytes(payload)
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

fn malformed(error: DecodeError) -> CliError {
    CliError::new(format!("malformed message: {error}"))
}
