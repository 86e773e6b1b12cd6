//! Request digests in messages.

use crate::error::{DecodeError, DecodeErrorKind};
use crate::wire::{WireReader, WireWriter};

/// Digest of a request, in a response or a verification request (RFC 3652, 2.2.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestDigest<'a> {
    /// Hash algorithm, which also decides the encoding.
    pub algorithm: DigestAlgorithm,
    /// Digest without algorithm byte.
    pub bytes: &'a [u8],
}

/// Digest algorithm byte; 0 is the first length byte of an untagged digest.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DigestAlgorithm {
    /// Untagged: MD5 in responses before 2.1, any algorithm in verification requests.
    Untagged,
    /// 16 bytes.
    Md5,
    /// 20 bytes.
    Sha1,
    /// 32 bytes.
    Sha256,
}

impl<'a> RequestDigest<'a> {
    pub(crate) fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        const FIELD: &str = "request digest";
        let (algorithm, length) = match reader.remaining().first() {
            Some(1) => (DigestAlgorithm::Md5, 16),
            Some(2) => (DigestAlgorithm::Sha1, 20),
            Some(3) => (DigestAlgorithm::Sha256, 32),
            Some(0) => return Ok(Self { algorithm: DigestAlgorithm::Untagged, bytes: reader.bytes(FIELD)? }),
            Some(other) => {
                return Err(reader.error(FIELD, DecodeErrorKind::InvalidCode { code: u32::from(*other) }));
            }
            None => return Err(reader.error(FIELD, DecodeErrorKind::Truncated { expected: 1, available: 0 })),
        };
        reader.u8(FIELD)?;
        Ok(Self { algorithm, bytes: reader.take(FIELD, length)? })
    }

    pub(crate) fn encode(&self, writer: &mut WireWriter<'_>) {
        match self.algorithm {
            DigestAlgorithm::Untagged => return writer.bytes(self.bytes),
            DigestAlgorithm::Md5 => writer.u8(1),
            DigestAlgorithm::Sha1 => writer.u8(2),
            DigestAlgorithm::Sha256 => writer.u8(3),
        }
        writer.raw(self.bytes);
    }
}
