use alloc::vec::Vec;

use super::{Action, RECORD};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits;
use crate::record::Value;
use crate::wire::{Item, Reader, Writer};

/// The layout of a stream, in its first four bytes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Format {
    /// The transactions of the sender alone, or a dump that ends in [`DumpRecord::Position`](super::DumpRecord).
    One,
    /// The transactions of several sources, or a dump that goes on until [`DumpRecord::Done`](super::DumpRecord).
    Two,
}

impl Format {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = *reader;
        match reader.u32("format")? {
            1 => Ok(Self::One),
            2 => Ok(Self::Two),
            found => Err(start.error("format", DecodeErrorKind::Unexpected { found })),
        }
    }

    pub(super) fn encode(self, writer: &mut Writer<'_>) {
        writer.u32(match self {
            Self::One => 1,
            Self::Two => 2,
        });
    }
}

/// What records of a stream look like. Outside of this module it cannot be named, so there are two of them.
pub trait StreamLayout {
    /// A record.
    type Record<'a>;

    /// The first record, which has no type.
    const HEADER: &'static [Field];

    /// The type of record that is not signed.
    const NEVER_SIGNED: Option<u8>;

    /// What follows the type of a record, if there is such a type in this format.
    fn fields(record_type: u8, format: Format) -> Option<&'static [Field]>;

    /// Reads a record: the first if there is no format yet.
    fn decode<'a>(reader: &mut Reader<'a>, format: Option<Format>) -> Result<Self::Record<'a>, DecodeError>;

    /// Writes a record.
    fn encode(record: &Self::Record<'_>, writer: &mut Writer<'_>);

    /// The format, if this is the first record.
    fn begins(record: &Self::Record<'_>) -> Option<Format>;

    /// Whether this is the last record.
    fn ends(record: &Self::Record<'_>, format: Format) -> bool;

    /// Whether a block, which begins at the start of a record, has a signature in a signed stream.
    fn is_signed(block: &[u8], format: Option<Format>) -> bool {
        format.is_none() || block.first().copied() != Self::NEVER_SIGNED
    }
}

/// A field of a record.
#[derive(Clone, Copy, Debug)]
pub enum Field {
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

/// Finds the end of a record while its bytes arrive. Each field is passed once, so a record of many values in many
/// pieces is no more work than a whole one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    /// What has been passed.
    at: usize,
    /// What is left; none before the type is known.
    fields: Option<&'static [Field]>,
    values: u32,
    action: Action,
}

impl Scan {
    pub(super) const START: Self = Self { at: 0, fields: None, values: 0, action: Action::PLACEHOLDER };

    /// How long the record is that begins `bytes`, which stand at `offset` of the stream. An error about bytes that are
    /// [missing](DecodeErrorKind::Short) is none when more can come: then this is to be called again.
    pub(super) fn run<G: StreamLayout + ?Sized>(
        &mut self,
        bytes: &[u8],
        offset: usize,
        format: Option<Format>,
    ) -> Result<usize, DecodeError> {
        let mut reader = Reader::at_offset(bytes.get(self.at..).unwrap_or_default(), offset + self.at);
        loop {
            self.step::<G>(&mut reader, format)?;
            // Only now, when the field has been passed as a whole.
            self.at = bytes.len() - reader.rest().len();
            if self.values == 0 && self.fields.is_some_and(<[Field]>::is_empty) {
                return Ok(self.at);
            }
        }
    }

    fn step<G: StreamLayout + ?Sized>(
        &mut self,
        reader: &mut Reader<'_>,
        format: Option<Format>,
    ) -> Result<(), DecodeError> {
        if self.values > 0 {
            self.pass(reader, "value")?;
            self.values -= 1;
            return Ok(());
        }
        let Some(fields) = self.fields else {
            self.fields = Some(match format {
                None => G::HEADER,
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
            Field::Fixed(name, length) => drop(reader.take(name, length)?),
            Field::Bytes(name) => self.pass(reader, name)?,
            Field::Action => self.action = Action(reader.u8("action")?),
            Field::ValuesOfAction if !self.action.has_values() => {}
            Field::Values | Field::ValuesOfAction => {
                let start = *reader;
                let announced = reader.u32("values")?;
                let limit = self.room() / (4 + Value::LEAST);
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

    fn pass(&self, reader: &mut Reader<'_>, name: &'static str) -> Result<(), DecodeError> {
        let start = *reader;
        let announced = { start }.u32(name)? as usize;
        let limit = self.room().min(limits::FIELD);
        if announced > limit {
            return Err(start.error(name, DecodeErrorKind::TooLong { announced, limit }));
        }
        reader.bytes(name).map(drop)
    }

    /// What may follow a length or a number in the same record.
    const fn room(&self) -> usize {
        RECORD.saturating_sub(self.at + 4)
    }
}

/// Values with a length each, in a record whose end has been found.
pub(super) fn decode_values<'a>(reader: &mut Reader<'a>) -> Result<Vec<Value<'a>>, DecodeError> {
    // Collecting a Result begins with an empty Vec, so that nothing is allocated by the number announced.
    (0..reader.u32("values")?)
        .map(|_| {
            let mut inner = reader.sub("value")?;
            let value = Value::decode(&mut inner)?;
            inner.finish("value")?;
            Ok(value)
        })
        .collect()
}

pub(super) fn encode_values(values: &[Value<'_>], writer: &mut Writer<'_>) {
    writer.count(values.len());
    for value in values {
        writer.sub(|writer| value.encode(writer));
    }
}

/// Eight bytes with a sign: numbers of transactions and milliseconds, where −1 is "none yet".
pub(super) fn signed(reader: &mut Reader<'_>, field: &'static str) -> Result<i64, DecodeError> {
    Ok(reader.u64(field)?.cast_signed())
}
