use alloc::vec::Vec;

use super::{MAX_RECORD_LEN, TransactionAction};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits;
use crate::record::HandleValue;
use crate::wire::{ListItem, WireReader, WireWriter};

/// Format version of a stream (first four bytes).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum StreamFormat {
    /// The transactions of the sender alone, or a dump that ends in [`DumpRecord::Position`](super::DumpRecord).
    One,
    /// The transactions of several sources, or a dump that goes on until [`DumpRecord::Done`](super::DumpRecord).
    Two,
}

impl StreamFormat {
    pub(super) fn decode(reader: &mut WireReader<'_>) -> Result<Self, DecodeError> {
        let start = *reader;
        match reader.u32("format")? {
            1 => Ok(Self::One),
            2 => Ok(Self::Two),
            found => Err(start.error("format", DecodeErrorKind::Unexpected { found })),
        }
    }

    pub(super) fn encode(self, writer: &mut WireWriter<'_>) {
        writer.u32(match self {
            Self::One => 1,
            Self::Two => 2,
        });
    }
}

/// Byte layout of the records of a stream (sealed).
///
/// Outside of this module it cannot be named, so there are two of them.
pub trait StreamLayout {
    /// A record.
    type Record<'a>;

    /// The first record, which has no type.
    const HEADER_FIELDS: &'static [RecordField];

    /// The type of record that is not signed.
    const UNSIGNED_RECORD_TYPE: Option<u8>;

    /// What follows the type of a record, if there is such a type in this format.
    fn fields(record_type: u8, format: StreamFormat) -> Option<&'static [RecordField]>;

    /// Reads a record: the first if there is no format yet.
    fn decode<'a>(
        reader: &mut WireReader<'a>,
        format: Option<StreamFormat>,
    ) -> Result<Self::Record<'a>, DecodeError>;

    /// Writes a record.
    fn encode(record: &Self::Record<'_>, writer: &mut WireWriter<'_>);

    /// The format, if this is the first record.
    fn start_format(record: &Self::Record<'_>) -> Option<StreamFormat>;

    /// Whether this is the last record.
    fn is_end(record: &Self::Record<'_>, format: StreamFormat) -> bool;

    /// Whether a block, which begins at the start of a record, has a signature in a signed stream.
    fn is_signed(block: &[u8], format: Option<StreamFormat>) -> bool {
        format.is_none() || block.first().copied() != Self::UNSIGNED_RECORD_TYPE
    }
}

/// Field of a stream record.
#[derive(Clone, Copy, Debug)]
pub enum RecordField {
    /// So many bytes.
    Fixed(&'static str, usize),
    /// A length and as many bytes.
    Bytes(&'static str),
    /// What a transaction does.
    Action,
    /// A number of values, each with its length.
    Values,
    /// The same, if the action is one that has values.
    ValuesOfAction,
}

/// Finds the end of a record incrementally; every field is scanned once.
///
/// Each field is passed once, so a record of many values in many pieces is no more work than a whole one.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordScanner {
    /// What has been passed.
    at: usize,
    /// What is left; none before the type is known.
    fields: Option<&'static [RecordField]>,
    values: u32,
    action: TransactionAction,
}

impl RecordScanner {
    pub(super) const NEW: Self =
        Self { at: 0, fields: None, values: 0, action: TransactionAction::PLACEHOLDER };

    /// How long the record is that begins `bytes`, which stand at `offset` of the stream. An error about bytes that are
    /// [missing](DecodeErrorKind::Short) is none when more can come: then this is to be called again.
    pub(super) fn find_end<G: StreamLayout + ?Sized>(
        &mut self,
        bytes: &[u8],
        offset: usize,
        format: Option<StreamFormat>,
    ) -> Result<usize, DecodeError> {
        let mut reader = WireReader::at_offset(bytes.get(self.at..).unwrap_or_default(), offset + self.at);
        loop {
            self.step::<G>(&mut reader, format)?;
            // Only now, when the field has been passed as a whole.
            self.at = bytes.len() - reader.remaining().len();
            if self.values == 0 && self.fields.is_some_and(<[RecordField]>::is_empty) {
                return Ok(self.at);
            }
        }
    }

    fn step<G: StreamLayout + ?Sized>(
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
                None => G::HEADER_FIELDS,
                Some(format) => {
                    let start = *reader;
                    let found = reader.u8("record type")?;
                    let unexpected = DecodeErrorKind::Unexpected { found: found.into() };
                    G::fields(found, format).ok_or_else(|| start.error("record type", unexpected))?
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
                let announced = reader.u32("values")?;
                let limit = self.remaining_len() / (4 + HandleValue::MIN_LEN);
                if announced as usize > limit {
                    let kind = DecodeErrorKind::OverLimit { announced: announced as usize, limit };
                    return Err(start.error("values", kind));
                }
                self.values = announced;
            }
        }
        self.fields = Some(rest);
        Ok(())
    }

    fn skip_field(&self, reader: &mut WireReader<'_>, name: &'static str) -> Result<(), DecodeError> {
        let start = *reader;
        let announced = { start }.u32(name)? as usize;
        let limit = self.remaining_len().min(limits::FIELD);
        if announced > limit {
            return Err(start.error(name, DecodeErrorKind::TooLong { announced, limit }));
        }
        reader.bytes(name).map(drop)
    }

    /// What may follow a length or a number in the same record.
    const fn remaining_len(&self) -> usize {
        MAX_RECORD_LEN.saturating_sub(self.at + 4)
    }
}

/// Values with a length each, in a record whose end has been found.
pub(super) fn decode_values<'a>(reader: &mut WireReader<'a>) -> Result<Vec<HandleValue<'a>>, DecodeError> {
    // Collecting a Result begins with an empty Vec, so that nothing is allocated by the number announced.
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

/// Eight bytes with a sign: numbers of transactions and milliseconds, where −1 is "none yet".
pub(super) fn read_i64(reader: &mut WireReader<'_>, field: &'static str) -> Result<i64, DecodeError> {
    Ok(reader.u64(field)?.cast_signed())
}
