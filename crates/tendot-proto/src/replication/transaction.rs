use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::grammar::{Field, Format, StreamLayout, decode_values, encode_values, signed};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::record::Value;
use crate::wire::{Reader, Writer};

/// The stream that answers operation 1001.
#[derive(Clone, Copy, Debug)]
pub enum Transactions {}

/// A record of [`Transactions`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TransactionRecord<'a> {
    /// The first.
    Begin {
        /// With how many sources.
        format: Format,
        /// Whether transactions follow.
        status: Status,
    },
    /// Something that was done.
    Transaction(Transaction<'a>),
    /// The transactions that follow are of this source. [`Format::Two`] only.
    Queue {
        /// A [`QueueName`](super::QueueName), as it came.
        name: Cow<'a, [u8]>,
    },
    /// There are no more of this source. [`Format::Two`] only.
    QueueEnd {
        /// What to say as the last time the next time, in milliseconds since 1970.
        time: i64,
    },
    /// The last.
    End {
        /// What to say as the last time the next time, in milliseconds since 1970. [`Format::One`] only, and always.
        time: Option<i64>,
    },
}

/// Something that was done to a record or a prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Transaction<'a> {
    /// Its number: one more than the last of this source.
    pub id: i64,
    /// To what.
    pub handle: Cow<'a, [u8]>,
    /// What.
    pub action: Action,
    /// When, in milliseconds since 1970.
    pub time: i64,
    /// The values that the record has now, which need not be those it had then. Only written if the action has values.
    pub values: Vec<Value<'a>>,
}

/// Whether transactions follow. Unknown numbers are kept.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Status(pub u32);

impl Status {
    /// The receiver may have missed some that are no longer there: it has to begin with a dump. Nothing follows.
    pub const NEED_TO_REDUMP: Self = Self(1);
    /// They follow.
    pub const SENDING: Self = Self(2);
}

/// What a transaction does. Unknown numbers are kept, and have no values.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Action(pub u8);

impl Action {
    /// Nothing.
    pub const PLACEHOLDER: Self = Self(0);
    /// The record is new.
    pub const CREATE: Self = Self(1);
    /// The record is gone.
    pub const DELETE: Self = Self(2);
    /// The record has other values.
    pub const UPDATE: Self = Self(3);
    /// The prefix is served from now on.
    pub const HOME: Self = Self(4);
    /// The prefix is no longer served.
    pub const UNHOME: Self = Self(5);
    /// All records are gone.
    pub const DELETE_ALL: Self = Self(6);

    /// Whether values follow.
    pub const fn has_values(self) -> bool {
        matches!(self, Self::CREATE | Self::UPDATE)
    }
}

impl TransactionRecord<'_> {
    /// The same record, holding all that it needs.
    pub fn into_owned(self) -> TransactionRecord<'static> {
        match self {
            Self::Begin { format, status } => TransactionRecord::Begin { format, status },
            Self::Transaction(transaction) => TransactionRecord::Transaction(transaction.into_owned()),
            Self::Queue { name } => TransactionRecord::Queue { name: Cow::Owned(name.into_owned()) },
            Self::QueueEnd { time } => TransactionRecord::QueueEnd { time },
            Self::End { time } => TransactionRecord::End { time },
        }
    }
}

impl Transaction<'_> {
    /// The same transaction, holding all that it needs.
    pub fn into_owned(self) -> Transaction<'static> {
        Transaction {
            handle: Cow::Owned(self.handle.into_owned()),
            values: self.values.into_iter().map(Value::into_owned).collect(),
            ..self
        }
    }
}

const END: u8 = 0;
const TYPE_TRANSACTION: u8 = 1;
const TYPE_QUEUE: u8 = 2;
const TYPE_QUEUE_END: u8 = 3;

impl StreamLayout for Transactions {
    type Record<'a> = TransactionRecord<'a>;

    const HEADER: &'static [Field] = &[Field::Fixed("format", 4), Field::Fixed("status", 4)];

    const NEVER_SIGNED: Option<u8> = None;

    fn fields(record_type: u8, format: Format) -> Option<&'static [Field]> {
        match (record_type, format) {
            (END, Format::One) => Some(&[Field::Fixed("end time", 8)]),
            (END, Format::Two) => Some(&[]),
            (TYPE_TRANSACTION, _) => Some(&[
                Field::Fixed("transaction id", 8),
                Field::Bytes("handle"),
                Field::Action,
                Field::Fixed("transaction time", 8),
                Field::ValuesOfAction,
            ]),
            (TYPE_QUEUE, Format::Two) => Some(&[Field::Bytes("queue name")]),
            (TYPE_QUEUE_END, Format::Two) => Some(&[Field::Fixed("queue time", 8)]),
            _ => None,
        }
    }

    fn decode<'a>(
        reader: &mut Reader<'a>,
        format: Option<Format>,
    ) -> Result<TransactionRecord<'a>, DecodeError> {
        let Some(format) = format else {
            let format = Format::decode(reader)?;
            return Ok(TransactionRecord::Begin { format, status: Status(reader.u32("status")?) });
        };
        let start = *reader;
        Ok(match reader.u8("record type")? {
            END if format == Format::One => {
                TransactionRecord::End { time: Some(signed(reader, "end time")?) }
            }
            END => TransactionRecord::End { time: None },
            TYPE_TRANSACTION => {
                let id = signed(reader, "transaction id")?;
                let handle = Cow::Borrowed(reader.bytes("handle")?);
                let action = Action(reader.u8("action")?);
                let time = signed(reader, "transaction time")?;
                let values = if action.has_values() { decode_values(reader)? } else { Vec::new() };
                TransactionRecord::Transaction(Transaction { id, handle, action, time, values })
            }
            TYPE_QUEUE => TransactionRecord::Queue { name: Cow::Borrowed(reader.bytes("queue name")?) },
            TYPE_QUEUE_END => TransactionRecord::QueueEnd { time: signed(reader, "queue time")? },
            found => {
                return Err(start.error("record type", DecodeErrorKind::Unexpected { found: found.into() }));
            }
        })
    }

    fn encode(record: &TransactionRecord<'_>, writer: &mut Writer<'_>) {
        match record {
            TransactionRecord::Begin { format, status } => {
                format.encode(writer);
                writer.u32(status.0);
            }
            TransactionRecord::Transaction(transaction) => {
                writer.u8(TYPE_TRANSACTION);
                writer.u64(transaction.id.cast_unsigned());
                writer.bytes(&transaction.handle);
                writer.u8(transaction.action.0);
                writer.u64(transaction.time.cast_unsigned());
                if transaction.action.has_values() {
                    encode_values(&transaction.values, writer);
                }
            }
            TransactionRecord::Queue { name } => {
                writer.u8(TYPE_QUEUE);
                writer.bytes(name);
            }
            TransactionRecord::QueueEnd { time } => {
                writer.u8(TYPE_QUEUE_END);
                writer.u64(time.cast_unsigned());
            }
            TransactionRecord::End { time } => {
                writer.u8(END);
                if let Some(time) = time {
                    writer.u64(time.cast_unsigned());
                }
            }
        }
    }

    fn begins(record: &TransactionRecord<'_>) -> Option<Format> {
        match record {
            TransactionRecord::Begin { format, .. } => Some(*format),
            _ => None,
        }
    }

    fn ends(record: &TransactionRecord<'_>, _: Format) -> bool {
        matches!(record, TransactionRecord::End { .. })
    }
}
