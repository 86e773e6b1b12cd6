//! Incremental reader of replication streams.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use super::error::ReplicationError;
use super::layout::{RecordScanner, StreamFormat};
use super::{MAX_SIGNATURE_LEN, ReplicationStream, SIGNED_MARKER, TLS_MARKER, UNSIGNED_MARKER};
use crate::auth::{AuthContext, AuthError, AuthPolicy, verify_with_hash_name};
use crate::budget::Budget;
use crate::crypto::CryptoProvider;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::record::PublicKey;
use crate::wire::WireReader;

/// Incremental reader of a replication stream; returns records of signed streams only after verification.
///
/// Memory grows with the received bytes, never by an announced length, and each byte is scanned once.
///
/// ```
/// use tendot_proto::Budget;
/// use tendot_proto::auth::AuthPolicy;
/// use tendot_proto::crypto::AwsLcProvider;
/// use tendot_proto::replication::{ReceiverConfig, DumpStream, ReplicationEvent, ReplicationError, ReplicationReader};
///
/// let receiver = || ReceiverConfig { key: None, policy: AuthPolicy::default(), crypto: &AwsLcProvider, allow_unsigned: false };
///
/// let mut reader = ReplicationReader::<DumpStream>::new(receiver());
/// reader.push(b"TLS\0and a handshake");
/// assert_eq!(reader.next_event(&mut { Budget::PER_REQUEST })?, Some(ReplicationEvent::StartTls));
/// assert_eq!(reader.into_remaining(), b"and a handshake");
///
/// let mut reader = ReplicationReader::<DumpStream>::new(receiver());
/// reader.push(&[0xff; 4]);
/// assert_eq!(reader.next_event(&mut { Budget::PER_REQUEST }), Err(ReplicationError::UnsignedNotAllowed));
/// # Ok::<(), ReplicationError>(())
/// ```
#[derive(Debug)]
pub struct ReplicationReader<'k, S> {
    buffer: Vec<u8>,
    /// Bytes at the start of the buffer that have already been returned.
    consumed: usize,
    /// Number of returned bytes since the start of the stream; may exceed the memory of the machine.
    offset: u64,
    state: ReadState,
    /// None inside TLS.
    receiver: Option<ReceiverConfig<'k>>,
    /// Hash name of a signed stream.
    hash: Option<Vec<u8>>,
    format: Option<StreamFormat>,
    scanner: RecordScanner,
    failed: Option<ReplicationError>,
    stream: PhantomData<S>,
}

/// Receiver settings: sender key, accepted algorithms, whether unsigned streams are allowed.
#[derive(Clone)]
pub struct ReceiverConfig<'k> {
    /// Public key of the sending server, from its site. Without it signed streams are rejected.
    pub key: Option<PublicKey<'k>>,
    /// Accepted signature algorithms. Handle.Net's signatures need [`AuthPolicy::allow_sha1`].
    pub policy: AuthPolicy,
    /// Cryptography provider.
    pub crypto: &'k dyn CryptoProvider,
    /// Whether unsigned streams are accepted: only over HTTPS.
    pub allow_unsigned: bool,
}

/// Event of a [`ReplicationReader`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReplicationEvent<R> {
    /// The sender waits for a TLS handshake. The receiver is the TLS client; the certificate must have the key of the
    /// sending server. [`ReplicationReader::into_remaining`] returns bytes of the handshake that have already arrived;
    /// pass the decrypted bytes to a new reader from [`ReplicationReader::inside_tls`].
    StartTls,
    /// A record.
    Record(R),
}

/// Reader state.
#[derive(Clone, Copy, Debug)]
enum ReadState {
    StreamType,
    HashName,
    Records,
    Tls,
    Finished,
}

/// Next complete item of the buffer.
enum NextItem {
    StartTls,
    Finished,
    /// Record of this length, with the range of its signature.
    Record {
        length: usize,
        signature: Option<(usize, usize)>,
    },
}

impl<'k, S: ReplicationStream> ReplicationReader<'k, S> {
    /// Buffer capacity retained by an idle stream.
    const MAX_IDLE_BUFFER_BYTES: usize = 64 * 1024;

    /// Maximum length of a hash name.
    const MAX_HASH_NAME_LEN: usize = 64;

    /// Reader of a stream from the first byte after the response message.
    pub fn new(receiver: ReceiverConfig<'k>) -> Self {
        Self { state: ReadState::StreamType, receiver: Some(receiver), ..Self::inside_tls() }
    }

    /// Reader of a stream from the first byte after the TLS handshake with an authenticated peer.
    pub fn inside_tls() -> Self {
        Self {
            buffer: Vec::new(),
            consumed: 0,
            offset: 0,
            state: ReadState::Records,
            receiver: None,
            hash: None,
            format: None,
            scanner: RecordScanner::NEW,
            failed: None,
            stream: PhantomData,
        }
    }

    /// Appends received bytes. Take out all complete records before you push more, since all of them are buffered.
    ///
    /// After the last record and after an error, bytes are discarded.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_some() || matches!(self.state, ReadState::Finished) {
            return;
        }
        // Not after each record: a large buffer with many records would be moved once for each.
        if self.consumed > self.buffer.len() / 2 {
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
            if self.buffer.is_empty() && self.buffer.capacity() > Self::MAX_IDLE_BUFFER_BYTES {
                self.buffer = Vec::new();
            }
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Next complete record; none after the last.
    ///
    /// An error is returned again by each call, except that an exceeded budget can be
    /// [retried](ReplicationError::Budget).
    pub fn next_event(
        &mut self,
        budget: &mut Budget,
    ) -> Result<Option<ReplicationEvent<S::Record<'_>>>, ReplicationError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let (length, end) = match self.next_verified(budget) {
            Ok(NextItem::Record { length, signature }) => (length, signature.map_or(length, |(_, end)| end)),
            Ok(NextItem::StartTls) => return Ok(Some(ReplicationEvent::StartTls)),
            Ok(NextItem::Finished) | Err(ReplicationError::Truncated(_)) => return Ok(None),
            Err(error @ ReplicationError::Budget(_)) => return Err(error),
            Err(error) => return Err(self.fail(error)),
        };
        let start = self.consumed;
        let offset = self.offset(end);
        self.consume(end);
        self.scanner = RecordScanner::NEW;
        let block = self.buffer.get(start..start + length).unwrap_or_default();
        match S::decode(&mut WireReader::at_offset(block, offset), self.format) {
            Ok(record) => {
                if let Some(format) = S::start_format(&record) {
                    self.format = Some(format);
                } else if self.format.is_some_and(|format| S::is_end(&record, format)) {
                    self.state = ReadState::Finished;
                }
                Ok(Some(ReplicationEvent::Record(record)))
            }
            // No longer than its fields announced, so the record itself is malformed.
            Err(error) => {
                let error = ReplicationError::Malformed(error);
                self.failed = Some(error);
                Err(error)
            }
        }
    }

    /// Whether the last record was returned.
    pub const fn is_finished(&self) -> bool {
        matches!(self.state, ReadState::Finished)
    }

    /// Checks at the end of the connection that the stream is complete.
    ///
    /// A stream that continues inside TLS is complete here.
    pub fn finish(&mut self) -> Result<(), ReplicationError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.next_item()? {
            NextItem::StartTls | NextItem::Finished => Ok(()),
            NextItem::Record { length, .. } => {
                let kind = DecodeErrorKind::TrailingBytes { count: length };
                Err(ReplicationError::Truncated(DecodeError::new("unread record", self.offset(length), kind)))
            }
        }
    }

    /// Unconsumed bytes.
    pub fn into_remaining(mut self) -> Vec<u8> {
        self.buffer.split_off(self.consumed)
    }

    /// Next item, with its signature verified.
    fn next_verified(&mut self, budget: &mut Budget) -> Result<NextItem, ReplicationError> {
        let item = self.next_item()?;
        let NextItem::Record { length, signature: Some((start, end)) } = item else { return Ok(item) };
        let (Some(receiver), Some(hash)) = (&self.receiver, &self.hash) else { return Ok(item) };
        let Some(key) = &receiver.key else { return Err(ReplicationError::UnknownKey) };
        let rest = self.remaining();
        let block = rest.get(..length).unwrap_or_default();
        let signature = rest.get(start..end).unwrap_or_default();
        let context = &mut AuthContext::new(receiver.crypto, receiver.policy, budget);
        match verify_with_hash_name(key, hash, block, signature, context) {
            Ok(()) => Ok(item),
            Err(AuthError::Failed) => Err(ReplicationError::BadSignature { offset: self.offset(end) }),
            Err(AuthError::Budget(exceeded)) => Err(exceeded.into()),
            Err(error) => Err(ReplicationError::Algorithm(error)),
        }
    }

    /// Next item; an incomplete one is a truncation error.
    fn next_item(&mut self) -> Result<NextItem, ReplicationError> {
        loop {
            let mut reader = WireReader::at_offset(self.remaining(), self.offset(self.remaining().len()));
            let start = reader;
            match self.state {
                ReadState::StreamType => {
                    let receiver = self.receiver.as_ref();
                    let found: [u8; 4] = reader.array("stream type").map_err(map_truncated)?;
                    self.state = match found {
                        TLS_MARKER => ReadState::Tls,
                        SIGNED_MARKER if receiver.is_none_or(|receiver| receiver.key.is_none()) => {
                            return Err(ReplicationError::UnknownKey);
                        }
                        SIGNED_MARKER => ReadState::HashName,
                        UNSIGNED_MARKER if receiver.is_some_and(|receiver| !receiver.allow_unsigned) => {
                            return Err(ReplicationError::UnsignedNotAllowed);
                        }
                        UNSIGNED_MARKER => ReadState::Records,
                        other => {
                            let kind = DecodeErrorKind::InvalidCode { code: u32::from_be_bytes(other) };
                            return Err(ReplicationError::Malformed(start.error("stream type", kind)));
                        }
                    };
                    self.consume(4);
                }
                ReadState::HashName => {
                    let name = reader
                        .bytes_up_to("hash algorithm", Self::MAX_HASH_NAME_LEN)
                        .map_err(map_truncated)?
                        .to_vec();
                    self.consume(4 + name.len());
                    self.hash = Some(name);
                    self.state = ReadState::Records;
                }
                ReadState::Records => return self.next_record(),
                ReadState::Tls => return Ok(NextItem::StartTls),
                ReadState::Finished => return Ok(NextItem::Finished),
            }
        }
    }

    fn next_record(&mut self) -> Result<NextItem, ReplicationError> {
        let rest = self.buffer.get(self.consumed..).unwrap_or_default();
        let offset = saturating_offset(self.offset, rest.len());
        let length = self.scanner.find_end::<S>(rest, offset, self.format).map_err(map_truncated)?;
        let block = rest.get(..length).unwrap_or_default();
        if self.hash.is_none() || !S::is_signed(block, self.format) {
            return Ok(NextItem::Record { length, signature: None });
        }
        let after = rest.get(length..).unwrap_or_default();
        let mut after = WireReader::at_offset(after, offset + length);
        let signature = after.bytes_up_to("signature", MAX_SIGNATURE_LEN).map_err(map_truncated)?;
        let start = length + 4;
        Ok(NextItem::Record { length, signature: Some((start, start + signature.len())) })
    }

    fn remaining(&self) -> &[u8] {
        self.buffer.get(self.consumed..).unwrap_or_default()
    }

    /// Offset of the buffer in the stream, as limited by [`saturating_offset`].
    fn offset(&self, length: usize) -> usize {
        saturating_offset(self.offset, length)
    }

    fn consume(&mut self, length: usize) {
        self.consumed += length;
        self.offset += length as u64;
    }

    #[cold]
    fn fail(&mut self, error: ReplicationError) -> ReplicationError {
        self.failed = Some(error);
        self.buffer = Vec::new();
        self.consumed = 0;
        error
    }
}

/// Maps missing bytes to a truncation error, since they may still arrive.
fn map_truncated(error: DecodeError) -> ReplicationError {
    match error.kind() {
        DecodeErrorKind::Truncated { .. } => ReplicationError::Truncated(error),
        _ => ReplicationError::Malformed(error),
    }
}

/// Offset in the stream, so small that the end of `length` bytes has one, too. On a 32-bit machine it saturates.
fn saturating_offset(offset: u64, length: usize) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX).min(usize::MAX - length)
}

impl fmt::Debug for ReceiverConfig<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiverConfig")
            .field("key", &self.key.is_some())
            .field("policy", &self.policy)
            .field("allow_unsigned", &self.allow_unsigned)
            .finish_non_exhaustive()
    }
}
