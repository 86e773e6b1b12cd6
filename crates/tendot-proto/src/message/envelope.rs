//! Message envelope.

use bitflags::bitflags;

use super::ProtocolVersion;
use crate::error::DecodeError;
use crate::limits;
use crate::wire::{WireReader, WireWriter};

/// Message envelope: first 20 bytes of a message or datagram (RFC 3652, 2.2.1).
///
/// ```
/// use tendot_proto::{Envelope, ProtocolVersion};
///
/// let envelope = Envelope { request_id: 7, length: 49, ..Envelope::new(ProtocolVersion::LATEST) };
/// assert_eq!(Envelope::from_bytes(&envelope.to_bytes())?, envelope);
/// assert_eq!(Envelope::from_bytes(&[2, 11]).unwrap_err().to_string(), "envelope at byte 0: needs 20 bytes, only 2 left");
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Envelope {
    /// Protocol version of the message.
    pub version: ProtocolVersion,
    /// Newest version of the sender, as in the message: see [`newest_version`](Self::newest_version).
    pub suggested_version: ProtocolVersion,
    /// Envelope flags.
    pub flags: EnvelopeFlags,
    /// Session id or challenge id; 0 for none.
    pub session_id: u32,
    /// Request id chosen by the client; the response repeats it.
    pub request_id: u32,
    /// Sequence number of the datagram within the message.
    pub sequence: u32,
    /// Bytes after the envelope, of all datagrams of the message together.
    pub length: u32,
}

/// Envelope flags: compressed, encrypted, truncated.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct EnvelopeFlags(u8);

bitflags! {
    impl EnvelopeFlags: u8 {
        /// CP: compressed; never used in practice.
        const COMPRESSED = 0x80;
        /// EC: the bytes after the envelope are encrypted with the session key.
        const ENCRYPTED = 0x40;
        /// TC: the message has several datagrams.
        const TRUNCATED = 0x20;
    }
}

impl Envelope {
    /// Envelope of this version that suggests [`ProtocolVersion::LATEST`]; all else is 0.
    pub const fn new(version: ProtocolVersion) -> Self {
        Self {
            version,
            suggested_version: ProtocolVersion::LATEST,
            flags: EnvelopeFlags::empty(),
            session_id: 0,
            request_id: 0,
            sequence: 0,
            length: 0,
        }
    }

    /// Decodes the envelope at the start of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode(&mut WireReader::new(bytes))
    }

    #[inline]
    pub(crate) fn decode(reader: &mut WireReader<'_>) -> Result<Self, DecodeError> {
        let mut fields =
            WireReader::at_offset(reader.take("envelope", limits::ENVELOPE_LEN)?, reader.offset());
        let [major, minor, flags, suggested_minor] = fields.array("version")?;
        Ok(Self {
            version: ProtocolVersion::new(major, minor),
            suggested_version: ProtocolVersion::new(flags & !EnvelopeFlags::all().bits(), suggested_minor),
            flags: EnvelopeFlags::from_bits_truncate(flags),
            session_id: fields.u32("session id")?,
            request_id: fields.u32("request id")?,
            sequence: fields.u32("sequence number")?,
            length: fields.u32("message length")?,
        })
    }

    /// Encodes the envelope.
    pub fn to_bytes(&self) -> [u8; limits::ENVELOPE_LEN] {
        let mut bytes = [0; limits::ENVELOPE_LEN];
        let (head, numbers) = bytes.split_at_mut(4);
        let flags_and_major = self.suggested_version.major & !EnvelopeFlags::all().bits() | self.flags.bits();
        head.copy_from_slice(&[
            self.version.major,
            self.version.minor,
            flags_and_major,
            self.suggested_version.minor,
        ]);
        let values = [self.session_id, self.request_id, self.sequence, self.length];
        for (field, value) in numbers.chunks_exact_mut(4).zip(values) {
            field.copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    pub(crate) fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.raw(&self.to_bytes());
    }

    /// Whether the bytes after the envelope are not a header: encrypted, or compressed, which is not supported.
    pub const fn is_opaque(&self) -> bool {
        self.flags.intersects(EnvelopeFlags::ENCRYPTED.union(EnvelopeFlags::COMPRESSED))
    }

    /// Newest version of the sender: the suggested version, or that of the message if none is suggested.
    pub const fn newest_version(&self) -> ProtocolVersion {
        if self.suggested_version.major == 0 { self.version } else { self.suggested_version }
    }

    /// Version of the response to this request: the newest that both sides support, which may be newer than the
    /// request's.
    ///
    /// ```
    /// use tendot_proto::{Envelope, ProtocolVersion};
    ///
    /// let mut request = Envelope::new(ProtocolVersion::new(2, 3));
    /// assert_eq!(request.response_version(), ProtocolVersion::LATEST, "2.11 was suggested");
    /// request.suggested_version = ProtocolVersion::new(2, 1);
    /// assert_eq!(request.response_version(), ProtocolVersion::new(2, 1));
    /// request.suggested_version = ProtocolVersion::new(3, 0);
    /// assert_eq!(request.response_version(), ProtocolVersion::LATEST);
    /// request.suggested_version = ProtocolVersion::new(2, 6);
    /// assert_eq!(request.response_version(), ProtocolVersion::new(2, 4));
    /// request = Envelope { version: ProtocolVersion::new(5, 0), suggested_version: ProtocolVersion::new(0, 0), ..request };
    /// assert_eq!(request.response_version(), ProtocolVersion::OLDEST);
    /// ```
    pub fn response_version(&self) -> ProtocolVersion {
        self.newest_version().negotiated()
    }
}
