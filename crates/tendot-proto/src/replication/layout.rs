//! Byte layout of stream records.

use alloc::vec::Vec;

use super::{MAX_RECORD_LEN, TransactionAction};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits;
use crate::record::HandleValue;
use crate::wire::{ListItem, WireReader, WireWriter};

/// Format version of a stream (first four bytes).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum StreamFormat {
    /// Transactions of the sender only, or a dump that ends with [`DumpRecord::Position`](super::DumpRecord).
    V1,
    /// Transactions of several sources, or a dump that ends with [`DumpRecord::End`](super::DumpRecord).
    V2,
}

impl StreamFormat {
    pub(super) fn decode(reader: &mut WireReader<'_>) -> Result<Self, DecodeError> {
        let start = *reader;
        match reader.u32("format")? {
            1 => Ok(Self::V1),
            2 => Ok(Self::V2),
            code => Err(start.error("format", DecodeErrorKind::InvalidCode { code })),
        }
    }

    pub(super) fn encode(self, writer: &mut WireWriter<'_>) {
        writer.u32(match self {
            Self::V1 => 1,
            Self::V2 => 2,
        });
    }
}

/// Byte layout of the records of a stream (sealed).
pub trait StreamLayout {
    /// Record type of the stream.
    type Record<'a>;

    /// Fields of the first record, which has no type byte.
    const HEADER_FIELDS: &'static [RecordField];

    /// Type of the record that is not signed.
    const UNSIGNED_RECORD_TYPE: Option<u8>;

    /// Fields after the type byte, if the type exists in this format.
    fn fields(record_type: u8, format: StreamFormat) -> Option<&'static [RecordField]>;

    /// Decodes a record; the first one if the format is not known yet.
    fn decode<'a>(
        reader: &mut WireReader<'a>,
        format: Option<StreamFormat>,
    ) -> Result<Self::Record<'a>, DecodeError>;

    /// Encodes a record.
    fn encode(record: &Self::Record<'_>, writer: &mut WireWriter<'_>);

    /// Format, if this is the first record.
    fn start_format(record: &Self::Record<'_>) -> Option<StreamFormat>;

    /// Whether this is the last record.
    fn is_end(record: &Self::Record<'_>, format: StreamFormat) -> bool;

    /// Whether a block, which starts with a record, has a signature in a signed stream.
    fn is_signed(block: &[u8], format: Option<StreamFormat>) -> bool {
        format.is_none() || block.first().copied() != Self::UNSIGNED_RECORD_TYPE
    }
}

/// Field of a stream record.
#[derive(Clone, Copy, Debug)]
pub enum RecordField {
    /// Fixed number of bytes.
    Fixed(&'static str, usize),
    /// Length and as many bytes.
    Bytes(&'static str),
    /// Action of a transaction.
    Action,
    /// Count, then values with their lengths.
    Values,
    /// Values, if the action has values.
    ValuesOfAction,
}

/// Finds the end of a record incrementally; every field is scanned once.
///
/// So a record of many values in many chunks takes no more work than a complete one.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordScanner {
    /// Number of bytes scanned so far.
    scanned: usize,
    /// Remaining fields; none before the type is known.
    fields: Option<&'static [RecordField]>,
    /// Number of values still to scan.
    values: u32,
    action: TransactionAction,
}

impl RecordScanner {
    pub(super) const NEW: Self =
        Self { scanned: 0, fields: None, values: 0, action: TransactionAction::PLACEHOLDER };

    /// Length of the record at the start of `bytes`, which are at `offset` of the stream. On a
    /// [truncated](DecodeErrorKind::Truncated) input, call again when more bytes have arrived.
    pub(super) fn find_end<L: StreamLayout + ?Sized>(
        &mut self,
        bytes: &[u8],
        offset: usize,
        format: Option<StreamFormat>,
    ) -> Result<usize, DecodeError> {
        let mut reader =
            WireReader::at_offset(bytes.get(self.scanned..).unwrap_or_default(), offset + self.scanned);
        loop {
            self.step::<L>(&mut reader, format)?;
            // Only after the field was scanned completely.
            self.scanned = bytes.len() - reader.remaining().len();
            if self.values == 0 && self.fields.is_some_and(<[RecordField]>::is_empty) {
                return Ok(self.scanned);
            }
        }
    }

    fn step<L: StreamLayout + ?Sized>(
        &mut self,
        reader: &mut WireReader<'_>,
        format: Option<StreamFormat>,
    ) -> Result<(), DecodeError> {
        if self.values > 0 {
            self.skip_field(reader, "value")?;
            self.values -= 1;
            return Ok(());
        }
        let Some(fields) = self.fields else {
            self.fields = Some(match format {
                None => L::HEADER_FIELDS,
                Some(format) => {
                    let start = *reader;
                    let code = reader.u8("record type")?;
                    let kind = DecodeErrorKind::InvalidCode { code: code.into() };
                    L::fields(code, format).ok_or_else(|| start.error("record type", kind))?
                }
            });
            return Ok(());
        };
        let Some((field, rest)) = fields.split_first() else { return Ok(()) };
        match *field {
            RecordField::Fixed(name, length) => drop(reader.take(name, length)?),
            RecordField::Bytes(name) => self.skip_field(reader, name)?,
            RecordField::Action => self.action = TransactionAction(reader.u8("action")?),
            RecordField::ValuesOfAction if !self.action.has_values() => {}
            RecordField::Values | RecordField::ValuesOfAction => {
                let start = *reader;
                let count = reader.u32("values")?;
                let max = self.remaining_len() / (4 + HandleValue::MIN_LEN);
                if count as usize > max {
                    let kind = DecodeErrorKind::TooManyItems { count: count as usize, max };
                    return Err(start.error("values", kind));
                }
                self.values = count;
            }
        }
        self.fields = Some(rest);
        Ok(())
    }

    fn skip_field(&self, reader: &mut WireReader<'_>, name: &'static str) -> Result<(), DecodeError> {
        reader.bytes_up_to(name, self.remaining_len().min(limits::MAX_FIELD_LEN)).map(drop)
    }

    /// Maximum number of bytes that may follow in the record.
    const fn remaining_len(&self) -> usize {
        MAX_RECORD_LEN.saturating_sub(self.scanned + 4)
    }
}

/// Decodes values, each with its length, in a record whose end is known.
pub(super) fn decode_values<'a>(reader: &mut WireReader<'a>) -> Result<Vec<HandleValue<'a>>, DecodeError> {
    // Collecting a `Result` starts with an empty `Vec`, so nothing is allocated by the announced count.
    (0..reader.u32("values")?)
        .map(|_| {
            let mut inner = reader.sub("value")?;
            let value = HandleValue::decode(&mut inner)?;
            inner.expect_end("value")?;
            Ok(value)
        })
        .collect()
}

pub(super) fn encode_values(values: &[HandleValue<'_>], writer: &mut WireWriter<'_>) {
    writer.count(values.len());
    for value in values {
        writer.sub(|writer| value.encode(writer));
    }
}

/// Signed 64-bit integer: transaction ids and milliseconds, where −1 is "none yet".
pub(super) fn read_i64(reader: &mut WireReader<'_>, field: &'static str) -> Result<i64, DecodeError> {
    Ok(reader.u64(field)?.cast_signed())
}
