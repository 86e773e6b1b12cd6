//! Message header and operation flags.

use bitflags::bitflags;

use super::{Opcode, ResponseCode};
use crate::error::DecodeError;
use crate::limits;
use crate::now::Now;
use crate::wire::{WireReader, WireWriter};

/// Message header: 24 bytes after the envelope (RFC 3652, 2.2.2), without the body length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MessageHeader {
    /// Operation code.
    pub opcode: Opcode,
    /// Response code; 0 in requests.
    pub response_code: ResponseCode,
    /// Operation flags.
    pub flags: OpFlags,
    /// Serial number of the site, as known to the sender; [`MessageHeader::UNKNOWN_SITE_SERIAL`] if unknown.
    pub site_serial: u16,
    /// Number of times the request was forwarded.
    pub recursion_count: u8,
    /// Reserved byte.
    pub reserved: u8,
    /// Expiration as Unix time in seconds.
    pub expiration: u32,
}

impl MessageHeader {
    /// Serial number of an unknown site.
    pub const UNKNOWN_SITE_SERIAL: u16 = 0xffff;

    /// Lifetime of a message: twelve hours. Handle.Net's client takes 0 ("never expires" in RFC 3652) as expired.
    pub const LIFETIME_SECS: u64 = 43_200;

    /// Header of a request, as sent by Handle.Net's client.
    pub fn for_request(opcode: Opcode, now: Now) -> Self {
        Self {
            opcode,
            response_code: ResponseCode::REQUEST,
            flags: OpFlags::DEFAULT,
            site_serial: Self::UNKNOWN_SITE_SERIAL,
            recursion_count: 0,
            reserved: 0,
            expiration: Self::default_expiration(now),
        }
    }

    /// Header of the response to this request: the echoed flags and the expiration.
    ///
    /// Servers of a primary site set `AUTHORITATIVE` in every response.
    #[must_use]
    pub fn for_response(&self, response_code: ResponseCode, site_serial: u16, now: Now) -> Self {
        Self {
            opcode: self.opcode,
            response_code,
            flags: self.flags & OpFlags::ECHOED_IN_RESPONSE | OpFlags::RECURSIVE,
            site_serial,
            recursion_count: self.recursion_count,
            reserved: 0,
            expiration: Self::default_expiration(now),
        }
    }

    /// Expiration of a message sent now. Below 2^31, since Handle.Net reads it as signed.
    pub fn default_expiration(now: Now) -> u32 {
        u32::try_from(now.unix.saturating_add(Self::LIFETIME_SECS)).unwrap_or(u32::MAX).min(i32::MAX as u32)
    }

    /// Decodes the header at the start of `bytes` and the length of the body.
    ///
    /// ```
    /// use tendot_proto::{MessageHeader, Opcode};
    ///
    /// let mut bytes = [0; 24];
    /// bytes[3] = 1;
    /// bytes[23] = 5;
    /// let (header, body_length) = MessageHeader::from_bytes(&bytes)?;
    /// assert_eq!((header.opcode, body_length), (Opcode::RESOLUTION, 5));
    /// assert!(MessageHeader::from_bytes(&bytes[..23]).is_err());
    /// # Ok::<(), tendot_proto::DecodeError>(())
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<(Self, u32), DecodeError> {
        Self::decode(&mut WireReader::new(bytes))
    }

    #[inline]
    pub(crate) fn decode(reader: &mut WireReader<'_>) -> Result<(Self, u32), DecodeError> {
        let mut fields = WireReader::at_offset(reader.take("header", limits::HEADER_LEN)?, reader.offset());
        let header = Self {
            opcode: Opcode(fields.u32("opcode")?),
            response_code: ResponseCode(fields.u32("response code")?),
            flags: OpFlags(fields.u32("operation flags")?),
            site_serial: fields.u16("site serial number")?,
            recursion_count: fields.u8("recursion count")?,
            reserved: fields.u8("reserved byte")?,
            expiration: fields.u32("expiration")?,
        };
        Ok((header, fields.u32("body length")?))
    }

    /// Encodes all fields and leaves four bytes for the length of the body.
    #[inline]
    pub(crate) fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.u32(self.opcode.0);
        writer.u32(self.response_code.0);
        writer.u32(self.flags.0);
        writer.u16(self.site_serial);
        writer.u8(self.recursion_count);
        writer.u8(self.reserved);
        writer.u32(self.expiration);
        writer.u32(0);
    }

    /// Whether this is a request.
    pub fn is_request(&self) -> bool {
        self.response_code == ResponseCode::REQUEST
    }
}

/// Operation flags (RFC 3652, 2.2.2). Unknown bits are preserved.
///
/// ```
/// use tendot_proto::OpFlags;
///
/// assert_eq!(OpFlags::DEFAULT.0, 0x1900_0000);
/// assert!(OpFlags::DEFAULT.contains(OpFlags::PUBLIC_ONLY));
/// assert!(!(OpFlags::DEFAULT - OpFlags::PUBLIC_ONLY).contains(OpFlags::PUBLIC_ONLY));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct OpFlags(pub u32);

bitflags! {
    impl OpFlags: u32 {
        /// AT: request: query a primary site, bypass caches; response: from a primary site.
        const AUTHORITATIVE = 0x8000_0000;
        /// CT: sign the response.
        const CERTIFY = 0x4000_0000;
        /// ENC: encrypt the response.
        const ENCRYPT = 0x2000_0000;
        /// REC: forward the request if necessary.
        const RECURSIVE = 0x1000_0000;
        /// CA: caches verify signatures.
        const CACHE_CERTIFY = 0x0800_0000;
        /// CN: more messages follow.
        const CONTINUOUS = 0x0400_0000;
        /// KC: keep the connection open.
        const KEEP_CONNECTION = 0x0200_0000;
        /// PO: public values only.
        const PUBLIC_ONLY = 0x0100_0000;
        /// RD: the response begins with a digest of the request.
        const REQUEST_DIGEST = 0x0080_0000;
        /// OWE: overwrite existing values; in responses: values were overwritten.
        const OVERWRITE = 0x0040_0000;
        /// MNS: mint the suffix of the new handle.
        const MINT_NEW_SUFFIX = 0x0020_0000;
        /// DNR: do not send a referral.
        const DO_NOT_REFER = 0x0010_0000;
    }
}

impl OpFlags {
    /// Flags that Handle.Net's client sets by default.
    pub const DEFAULT: Self = Self(0x1900_0000);

    /// Flags that a response copies from its request.
    const ECHOED_IN_RESPONSE: Self = Self::AUTHORITATIVE
        .union(Self::CERTIFY)
        .union(Self::ENCRYPT)
        .union(Self::CACHE_CERTIFY)
        .union(Self::PUBLIC_ONLY)
        .union(Self::REQUEST_DIGEST)
        .union(Self::DO_NOT_REFER);

    /// Flags with their mnemonics in RFC 3652 and Handle.Net.
    pub const MNEMONICS: &'static [(Self, &'static str)] = &[
        (Self::AUTHORITATIVE, "AT"),
        (Self::CERTIFY, "CT"),
        (Self::ENCRYPT, "ENC"),
        (Self::RECURSIVE, "REC"),
        (Self::CACHE_CERTIFY, "CA"),
        (Self::CONTINUOUS, "CN"),
        (Self::KEEP_CONNECTION, "KC"),
        (Self::PUBLIC_ONLY, "PO"),
        (Self::REQUEST_DIGEST, "RD"),
        (Self::OVERWRITE, "OWE"),
        (Self::MINT_NEW_SUFFIX, "MNS"),
        (Self::DO_NOT_REFER, "DNR"),
    ];
}
