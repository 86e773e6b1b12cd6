//! Writer of replication streams.

use alloc::vec::Vec;
use core::marker::PhantomData;

use super::error::ReplicationWriteError;
use super::layout::{RecordScanner, StreamFormat};
use super::{ReplicationStream, SIGNED_MARKER, UNSIGNED_MARKER};
use crate::auth::{AuthError, sign};
use crate::budget::Budget;
use crate::crypto::{HashAlgorithm, SigningKey};
use crate::error::DecodeErrorKind;
use crate::wire::WireWriter;

/// Writer of a replication stream; rejects records a reader would reject.
///
/// A record out of order or with a field over its limit is an error, after which the stream is unchanged.
///
/// ```
/// use tendot_proto::Budget;
/// use tendot_proto::replication::{DumpStream, DumpRecord, StreamFormat, ReplicationWriter, ReplicationWriteError};
///
/// let mut stream = Vec::new();
/// let mut writer = ReplicationWriter::<DumpStream>::unsigned();
/// let mut write = |record| writer.write(&record, &mut stream, &mut { Budget::PER_REQUEST });
/// assert_eq!(write(DumpRecord::End), Err(ReplicationWriteError::OutOfOrder));
/// assert_eq!(write(DumpRecord::Begin { format: StreamFormat::V2 }), Ok(()));
/// assert_eq!(write(DumpRecord::End), Ok(()));
/// assert_eq!(stream, [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 2, 0xff]);
/// ```
#[derive(Debug)]
pub struct ReplicationWriter<'k, S> {
    /// Protection of the stream; decides the preamble before the first record.
    protection: StreamProtection<'k>,
    format: Option<StreamFormat>,
    is_finished: bool,
    stream: PhantomData<S>,
}

/// Preamble: inside TLS, unsigned, or signed.
#[derive(Debug)]
enum StreamProtection<'k> {
    InsideTls,
    Unsigned,
    Signed(&'k dyn SigningKey, HashAlgorithm),
}

impl<'k, S: ReplicationStream> ReplicationWriter<'k, S> {
    /// Writer inside TLS, after the [marker](super::TLS_MARKER) and the handshake.
    pub const fn inside_tls() -> Self {
        Self::with_protection(StreamProtection::InsideTls)
    }

    /// Writer of an unsigned stream, which receivers accept over HTTPS only.
    pub const fn unsigned() -> Self {
        Self::with_protection(StreamProtection::Unsigned)
    }

    /// Writer of a stream with a signature after every record.
    ///
    /// Handle.Net signs with [`HashAlgorithm::Sha1`] and verifies that and [`HashAlgorithm::Sha256`]. Use the latter:
    /// keys may refuse SHA-1, as those of [`AwsLcProvider`](crate::crypto) do.
    pub const fn signed(key: &'k dyn SigningKey, hash: HashAlgorithm) -> Self {
        Self::with_protection(StreamProtection::Signed(key, hash))
    }

    const fn with_protection(protection: StreamProtection<'k>) -> Self {
        Self { protection, format: None, is_finished: false, stream: PhantomData }
    }

    /// Appends a record and its signature.
    pub fn write(
        &mut self,
        record: &S::Record<'_>,
        out: &mut Vec<u8>,
        budget: &mut Budget,
    ) -> Result<(), ReplicationWriteError> {
        let before = out.len();
        let written = self.encode_record(record, out, budget);
        if written.is_err() {
            out.truncate(before);
        }
        written
    }

    fn encode_record(
        &mut self,
        record: &S::Record<'_>,
        out: &mut Vec<u8>,
        budget: &mut Budget,
    ) -> Result<(), ReplicationWriteError> {
        let start_format = S::start_format(record);
        if self.is_finished || self.format.is_some() == start_format.is_some() {
            return Err(ReplicationWriteError::OutOfOrder);
        }
        if self.format.is_none() {
            self.write_preamble(&mut WireWriter::new(out))?;
        }
        let start = out.len();
        S::encode(record, &mut WireWriter::new(out));
        let block = out.get(start..).unwrap_or_default();
        match { RecordScanner::NEW }.find_end::<S>(block, 0, self.format) {
            Ok(length) if length == block.len() => {}
            Err(error)
                if !matches!(
                    error.kind(),
                    DecodeErrorKind::Truncated { .. } | DecodeErrorKind::InvalidCode { .. }
                ) =>
            {
                return Err(ReplicationWriteError::TooLarge(error));
            }
            _ => return Err(ReplicationWriteError::OutOfOrder),
        }
        if let StreamProtection::Signed(key, hash) = self.protection
            && S::is_signed(block, self.format)
        {
            let signature = sign(key, hash, block, budget).map_err(ReplicationWriteError::Sign)?;
            WireWriter::new(out).bytes(&signature);
        }
        self.format = self.format.or(start_format);
        self.is_finished = self.format.is_some_and(|format| S::is_end(record, format));
        Ok(())
    }

    fn write_preamble(&self, writer: &mut WireWriter<'_>) -> Result<(), ReplicationWriteError> {
        match self.protection {
            StreamProtection::InsideTls => {}
            StreamProtection::Unsigned => writer.raw(&UNSIGNED_MARKER),
            StreamProtection::Signed(_, hash) => {
                writer.raw(&SIGNED_MARKER);
                if !matches!(hash, HashAlgorithm::Sha1 | HashAlgorithm::Sha256) {
                    return Err(ReplicationWriteError::Sign(AuthError::UnknownAlgorithm));
                }
                writer.bytes(hash.name().as_bytes());
            }
        }
        Ok(())
    }
}
