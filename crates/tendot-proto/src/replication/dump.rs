//! Records of a dump stream (opcode 1002).

use alloc::borrow::Cow;

use super::layout::{RecordField, StreamFormat, StreamLayout, decode_values, encode_values, read_i64};
use super::states::ReplicationPosition;
use super::version_stamp::VersionStamp;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::message::DumpCursor;
use crate::record::HandleRecord;
use crate::wire::{WireReader, WireWriter};

/// Marker type of the dump stream (opcode 1002).
#[derive(Clone, Copy, Debug)]
pub enum DumpStream {}

/// Record of a dump stream, in stream order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DumpRecord<'a> {
    /// First record.
    Begin {
        /// Format of the stream, which decides how it ends.
        format: StreamFormat,
    },
    /// Replication states of the sender itself, if it is a mirror: a [`StreamTable`](super::StreamTable).
    OtherStates {
        /// Undecoded text, for [`ReplicationStates::from_stream_table`](super::ReplicationStates::from_stream_table).
        text: Cow<'a, [u8]>,
    },
    /// Position from which to request transactions after the dump. Last record in [`StreamFormat::V1`].
    Position(ReplicationPosition),
    /// Version stamp of the last creation or deletion of a handle, with several primaries.
    HandleStamp {
        /// Handle.
        handle: Cow<'a, [u8]>,
        /// Version stamp of the change.
        stamp: VersionStamp,
    },
    /// Version stamp of the last homing or unhoming of a prefix, with several primaries.
    PrefixStamp {
        /// Prefix handle.
        handle: Cow<'a, [u8]>,
        /// Version stamp of the change.
        stamp: VersionStamp,
    },
    /// Handle record.
    Handle(HandleRecord<'a>),
    /// Homed prefix.
    HomedPrefix {
        /// Prefix handle.
        handle: Cow<'a, [u8]>,
    },
    /// Last record. Never signed.
    End,
}

impl DumpRecord<'_> {
    /// Cursor to resume after this record, if it was the last one received.
    ///
    /// None for the first records: without a later one the dump must start again.
    pub fn cursor(&self) -> Option<DumpCursor<'_>> {
        let (after_handle, section) = match self {
            Self::HandleStamp { handle, .. } => (handle, 0),
            Self::PrefixStamp { handle, .. } => (handle, 1),
            Self::Handle(record) => (&record.handle, 2),
            Self::HomedPrefix { handle } => (handle, 3),
            _ => return None,
        };
        Some(DumpCursor { after_handle, section })
    }

    /// Copies all borrowed data.
    pub fn into_owned(self) -> DumpRecord<'static> {
        fn owned(bytes: Cow<'_, [u8]>) -> Cow<'static, [u8]> {
            Cow::Owned(bytes.into_owned())
        }
        match self {
            Self::Begin { format } => DumpRecord::Begin { format },
            Self::OtherStates { text } => DumpRecord::OtherStates { text: owned(text) },
            Self::Position(position) => DumpRecord::Position(position),
            Self::HandleStamp { handle, stamp } => DumpRecord::HandleStamp { handle: owned(handle), stamp },
            Self::PrefixStamp { handle, stamp } => DumpRecord::PrefixStamp { handle: owned(handle), stamp },
            Self::Handle(record) => DumpRecord::Handle(record.into_owned()),
            Self::HomedPrefix { handle } => DumpRecord::HomedPrefix { handle: owned(handle) },
            Self::End => DumpRecord::End,
        }
    }
}

const TYPE_POSITION: u8 = 0;
const TYPE_HANDLE: u8 = 1;
const TYPE_HOMED_PREFIX: u8 = 2;
const TYPE_HANDLE_STAMP: u8 = 3;
const TYPE_PREFIX_STAMP: u8 = 4;
const TYPE_OTHER_STATES: u8 = 5;
const TYPE_END: u8 = 0xff;

impl StreamLayout for DumpStream {
    type Record<'a> = DumpRecord<'a>;

    const HEADER_FIELDS: &'static [RecordField] = &[RecordField::Fixed("format", 4)];

    const UNSIGNED_RECORD_TYPE: Option<u8> = Some(TYPE_END);

    fn fields(record_type: u8, _: StreamFormat) -> Option<&'static [RecordField]> {
        match record_type {
            TYPE_POSITION => Some(&[
                RecordField::Fixed("last query time", 8),
                RecordField::Fixed("last transaction id", 8),
            ]),
            TYPE_HANDLE => Some(&[RecordField::Bytes("handle"), RecordField::Values]),
            TYPE_HOMED_PREFIX => Some(&[RecordField::Bytes("homed prefix")]),
            TYPE_HANDLE_STAMP | TYPE_PREFIX_STAMP => Some(&[
                RecordField::Bytes("handle"),
                RecordField::Fixed("date", 8),
                RecordField::Fixed("priority", 4),
            ]),
            TYPE_OTHER_STATES => Some(&[RecordField::Bytes("other replication states")]),
            TYPE_END => Some(&[]),
            _ => None,
        }
    }

    fn decode<'a>(
        reader: &mut WireReader<'a>,
        format: Option<StreamFormat>,
    ) -> Result<DumpRecord<'a>, DecodeError> {
        if format.is_none() {
            return Ok(DumpRecord::Begin { format: StreamFormat::decode(reader)? });
        }
        let start = *reader;
        Ok(match reader.u8("record type")? {
            TYPE_POSITION => {
                let last_timestamp_millis = read_i64(reader, "last query time")?;
                DumpRecord::Position(ReplicationPosition {
                    last_txn_id: read_i64(reader, "last transaction id")?,
                    last_timestamp_millis,
                })
            }
            TYPE_HANDLE => {
                let handle = Cow::Borrowed(reader.bytes("handle")?);
                DumpRecord::Handle(HandleRecord { handle, values: decode_values(reader)? })
            }
            TYPE_HOMED_PREFIX => {
                DumpRecord::HomedPrefix { handle: Cow::Borrowed(reader.bytes("homed prefix")?) }
            }
            TYPE_HANDLE_STAMP => {
                let (handle, stamp) = decode_stamp(reader)?;
                DumpRecord::HandleStamp { handle, stamp }
            }
            TYPE_PREFIX_STAMP => {
                let (handle, stamp) = decode_stamp(reader)?;
                DumpRecord::PrefixStamp { handle, stamp }
            }
            TYPE_OTHER_STATES => {
                DumpRecord::OtherStates { text: Cow::Borrowed(reader.bytes("other replication states")?) }
            }
            TYPE_END => DumpRecord::End,
            code => {
                return Err(start.error("record type", DecodeErrorKind::InvalidCode { code: code.into() }));
            }
        })
    }

    fn encode(record: &DumpRecord<'_>, writer: &mut WireWriter<'_>) {
        match record {
            DumpRecord::Begin { format } => format.encode(writer),
            DumpRecord::OtherStates { text } => {
                writer.u8(TYPE_OTHER_STATES);
                writer.bytes(text);
            }
            DumpRecord::Position(position) => {
                writer.u8(TYPE_POSITION);
                writer.u64(position.last_timestamp_millis.cast_unsigned());
                writer.u64(position.last_txn_id.cast_unsigned());
            }
            DumpRecord::HandleStamp { handle, stamp } => {
                encode_stamp(TYPE_HANDLE_STAMP, handle, *stamp, writer);
            }
            DumpRecord::PrefixStamp { handle, stamp } => {
                encode_stamp(TYPE_PREFIX_STAMP, handle, *stamp, writer);
            }
            DumpRecord::Handle(HandleRecord { handle, values }) => {
                writer.u8(TYPE_HANDLE);
                writer.bytes(handle);
                encode_values(values, writer);
            }
            DumpRecord::HomedPrefix { handle } => {
                writer.u8(TYPE_HOMED_PREFIX);
                writer.bytes(handle);
            }
            DumpRecord::End => writer.u8(TYPE_END),
        }
    }

    fn start_format(record: &DumpRecord<'_>) -> Option<StreamFormat> {
        match record {
            DumpRecord::Begin { format } => Some(*format),
            _ => None,
        }
    }

    fn is_end(record: &DumpRecord<'_>, format: StreamFormat) -> bool {
        match record {
            DumpRecord::End => true,
            DumpRecord::Position(_) => format == StreamFormat::V1,
            _ => false,
        }
    }
}

fn decode_stamp<'a>(reader: &mut WireReader<'a>) -> Result<(Cow<'a, [u8]>, VersionStamp), DecodeError> {
    let handle = Cow::Borrowed(reader.bytes("handle")?);
    let time_millis = read_i64(reader, "date")?;
    Ok((handle, VersionStamp { time_millis, priority: reader.u32("priority")?.cast_signed() }))
}

fn encode_stamp(record_type: u8, handle: &[u8], stamp: VersionStamp, writer: &mut WireWriter<'_>) {
    writer.u8(record_type);
    writer.bytes(handle);
    writer.u64(stamp.time_millis.cast_unsigned());
    writer.u32(stamp.priority.cast_unsigned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dump_cursors() {
        let handle = || Cow::Borrowed(&b"10.1000/1"[..]);
        let stamp = VersionStamp { time_millis: 1, priority: 2 };
        let check = |record: DumpRecord<'_>, section: Option<u32>| {
            let cursor = section.map(|section| DumpCursor { after_handle: b"10.1000/1", section });
            assert_eq!(record.cursor(), cursor, "{record:?}");
        };
        check(DumpRecord::HandleStamp { handle: handle(), stamp }, Some(0));
        check(DumpRecord::PrefixStamp { handle: handle(), stamp }, Some(1));
        check(DumpRecord::Handle(HandleRecord { handle: handle(), values: std::vec![] }), Some(2));
        check(DumpRecord::HomedPrefix { handle: handle() }, Some(3));
        check(DumpRecord::Begin { format: StreamFormat::V2 }, None);
        check(DumpRecord::OtherStates { text: handle() }, None);
        check(DumpRecord::Position(ReplicationPosition::START), None);
        check(DumpRecord::End, None);
    }
}
