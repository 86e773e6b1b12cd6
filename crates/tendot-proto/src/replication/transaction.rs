//! Records of a transaction stream (opcode 1001), and which receivers get them.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::layout::{RecordField, StreamFormat, StreamLayout, decode_values, encode_values, read_i64};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::handle::Handle;
use crate::message::HashPartition;
use crate::record::HandleValue;
use crate::wire::{WireReader, WireWriter};

/// Marker type of the transaction stream (opcode 1001).
#[derive(Clone, Copy, Debug)]
pub enum TransactionStream {}

/// Record of a transaction stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TransactionRecord<'a> {
    /// First record.
    Begin {
        /// Format of the stream: one source or several.
        format: StreamFormat,
        /// Whether transactions follow.
        status: TransactionStatus,
    },
    /// Transaction.
    Transaction(Transaction<'a>),
    /// Source of the following transactions. [`StreamFormat::V2`] only.
    Queue {
        /// Undecoded [`QueueName`](super::QueueName).
        name: Cow<'a, [u8]>,
    },
    /// End of the transactions of this source. [`StreamFormat::V2`] only.
    QueueEnd {
        /// Timestamp to send in the next request, as Unix time in milliseconds.
        query_millis: i64,
    },
    /// Last record.
    End {
        /// Timestamp to send in the next request, as Unix time in milliseconds. Always present in
        /// [`StreamFormat::V1`], and only there.
        query_millis: Option<i64>,
    },
}

/// Change of a record or prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Transaction<'a> {
    /// Transaction id: one more than the previous of this source.
    pub id: i64,
    /// Handle of the record or prefix.
    pub handle: Cow<'a, [u8]>,
    /// Action.
    pub action: TransactionAction,
    /// Unix time in milliseconds.
    pub timestamp_millis: i64,
    /// Current values of the record, which may differ from those at the time of the change. Only encoded if the action
    /// has values.
    pub values: Vec<HandleValue<'a>>,
}

/// Status of a transaction stream. Unknown codes are preserved.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct TransactionStatus(pub u32);

impl TransactionStatus {
    /// The receiver may have missed transactions that are no longer stored: it needs a dump. Nothing follows.
    pub const NEED_TO_REDUMP: Self = Self(1);
    /// Transactions follow.
    pub const SENDING: Self = Self(2);
}

/// Action of a transaction. Unknown codes are preserved and carry no values.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct TransactionAction(pub u8);

impl TransactionAction {
    /// No action.
    pub const PLACEHOLDER: Self = Self(0);
    /// Record created.
    pub const CREATE: Self = Self(1);
    /// Record deleted.
    pub const DELETE: Self = Self(2);
    /// Values of the record changed.
    pub const UPDATE: Self = Self(3);
    /// Prefix homed.
    pub const HOME: Self = Self(4);
    /// Prefix unhomed.
    pub const UNHOME: Self = Self(5);
    /// All records deleted.
    pub const DELETE_ALL: Self = Self(6);

    /// Whether values follow.
    pub const fn has_values(self) -> bool {
        matches!(self, Self::CREATE | Self::UPDATE)
    }
}

impl TransactionRecord<'_> {
    /// Copies all borrowed data.
    pub fn into_owned(self) -> TransactionRecord<'static> {
        match self {
            Self::Begin { format, status } => TransactionRecord::Begin { format, status },
            Self::Transaction(transaction) => TransactionRecord::Transaction(transaction.into_owned()),
            Self::Queue { name } => TransactionRecord::Queue { name: Cow::Owned(name.into_owned()) },
            Self::QueueEnd { query_millis } => TransactionRecord::QueueEnd { query_millis },
            Self::End { query_millis } => TransactionRecord::End { query_millis },
        }
    }
}

impl Transaction<'_> {
    /// Copies all borrowed data.
    pub fn into_owned(self) -> Transaction<'static> {
        Transaction {
            handle: Cow::Owned(self.handle.into_owned()),
            values: self.values.into_iter().map(HandleValue::into_owned).collect(),
            ..self
        }
    }
}

const TYPE_END: u8 = 0;
const TYPE_TRANSACTION: u8 = 1;
const TYPE_QUEUE: u8 = 2;
const TYPE_QUEUE_END: u8 = 3;

impl StreamLayout for TransactionStream {
    type Record<'a> = TransactionRecord<'a>;

    const HEADER_FIELDS: &'static [RecordField] =
        &[RecordField::Fixed("format", 4), RecordField::Fixed("status", 4)];

    const UNSIGNED_RECORD_TYPE: Option<u8> = None;

    fn fields(record_type: u8, format: StreamFormat) -> Option<&'static [RecordField]> {
        match (record_type, format) {
            (TYPE_END, StreamFormat::V1) => Some(&[RecordField::Fixed("end time", 8)]),
            (TYPE_END, StreamFormat::V2) => Some(&[]),
            (TYPE_TRANSACTION, _) => Some(&[
                RecordField::Fixed("transaction id", 8),
                RecordField::Bytes("handle"),
                RecordField::Action,
                RecordField::Fixed("transaction time", 8),
                RecordField::ValuesOfAction,
            ]),
            (TYPE_QUEUE, StreamFormat::V2) => Some(&[RecordField::Bytes("queue name")]),
            (TYPE_QUEUE_END, StreamFormat::V2) => Some(&[RecordField::Fixed("queue time", 8)]),
            _ => None,
        }
    }

    fn decode<'a>(
        reader: &mut WireReader<'a>,
        format: Option<StreamFormat>,
    ) -> Result<TransactionRecord<'a>, DecodeError> {
        let Some(format) = format else {
            let format = StreamFormat::decode(reader)?;
            return Ok(TransactionRecord::Begin { format, status: TransactionStatus(reader.u32("status")?) });
        };
        let start = *reader;
        Ok(match reader.u8("record type")? {
            TYPE_END if format == StreamFormat::V1 => {
                TransactionRecord::End { query_millis: Some(read_i64(reader, "end time")?) }
            }
            TYPE_END => TransactionRecord::End { query_millis: None },
            TYPE_TRANSACTION => {
                let id = read_i64(reader, "transaction id")?;
                let handle = Cow::Borrowed(reader.bytes("handle")?);
                let action = TransactionAction(reader.u8("action")?);
                let timestamp_millis = read_i64(reader, "transaction time")?;
                let values = if action.has_values() { decode_values(reader)? } else { Vec::new() };
                TransactionRecord::Transaction(Transaction { id, handle, action, timestamp_millis, values })
            }
            TYPE_QUEUE => TransactionRecord::Queue { name: Cow::Borrowed(reader.bytes("queue name")?) },
            TYPE_QUEUE_END => TransactionRecord::QueueEnd { query_millis: read_i64(reader, "queue time")? },
            code => {
                return Err(start.error("record type", DecodeErrorKind::InvalidCode { code: code.into() }));
            }
        })
    }

    fn encode(record: &TransactionRecord<'_>, writer: &mut WireWriter<'_>) {
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
                writer.u64(transaction.timestamp_millis.cast_unsigned());
                if transaction.action.has_values() {
                    encode_values(&transaction.values, writer);
                }
            }
            TransactionRecord::Queue { name } => {
                writer.u8(TYPE_QUEUE);
                writer.bytes(name);
            }
            TransactionRecord::QueueEnd { query_millis } => {
                writer.u8(TYPE_QUEUE_END);
                writer.u64(query_millis.cast_unsigned());
            }
            TransactionRecord::End { query_millis } => {
                writer.u8(TYPE_END);
                if let Some(millis) = query_millis {
                    writer.u64(millis.cast_unsigned());
                }
            }
        }
    }

    fn start_format(record: &TransactionRecord<'_>) -> Option<StreamFormat> {
        match record {
            TransactionRecord::Begin { format, .. } => Some(*format),
            _ => None,
        }
    }

    fn is_end(record: &TransactionRecord<'_>, _: StreamFormat) -> bool {
        matches!(record, TransactionRecord::End { .. })
    }
}

/// Whether a transaction is sent to a receiver: prefix transactions to all, others by hash partition.
///
/// The caller also checks the current state of the handle: a creation or update of a deleted handle, and a deletion of
/// one that exists again, are omitted, since another transaction covers them.
pub fn is_for_receiver(action: TransactionAction, handle: Handle<'_>, receiver: &HashPartition) -> bool {
    matches!(action, TransactionAction::HOME | TransactionAction::UNHOME) || receiver.owns(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::HashOption;

    #[test]
    fn transaction_routing() {
        let check = |action, hash_option, server_count, server_index, expected| {
            let receiver = HashPartition { hash_option, server_count, server_index };
            let is_sent = is_for_receiver(action, Handle::from("10.1000/abc"), &receiver);
            assert_eq!(is_sent, expected, "{action:?} {receiver:?}");
        };
        check(TransactionAction::CREATE, HashOption::WHOLE, 3, 1, true);
        check(TransactionAction::CREATE, HashOption::WHOLE, 3, 0, false);
        check(TransactionAction::DELETE, HashOption::SUFFIX, 3, 1, true);
        check(TransactionAction::DELETE, HashOption::PREFIX, 3, 1, true);
        check(TransactionAction::DELETE, HashOption::PREFIX, 3, 2, false);
        check(TransactionAction::UPDATE, HashOption::WHOLE, 1, 0, true);
        check(TransactionAction::UPDATE, HashOption::WHOLE, 1, 1, false);
        check(TransactionAction::UPDATE, HashOption::WHOLE, 0, 0, false);
        check(TransactionAction::UPDATE, HashOption(9), 3, 2, true);
        check(TransactionAction::HOME, HashOption::WHOLE, 3, 0, true);
        check(TransactionAction::UNHOME, HashOption::WHOLE, 3, 2, true);
        check(TransactionAction(7), HashOption::WHOLE, 3, 2, false);
    }
}
