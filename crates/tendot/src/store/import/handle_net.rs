//! Handle.Net JSON dump: one document, parsed as a stream.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tendot_proto::record::{HandleRecord, values_from_json};

use super::source::ImportSource;
use super::{ImportItem, ItemSink, MAX_RECORD_BYTES};
use crate::CliError;

pub(super) fn read(source: ImportSource, take: &mut ItemSink<'_>) -> Result<(), CliError> {
    let (name, reader) = source.into_parts();
    let position = ReadPosition { line: Cell::new(1), left: Cell::new(MAX_RECORD_BYTES) };
    let mut json = serde_json::Deserializer::from_reader(PositionReader { reader, position: &position });
    let mut dump = DumpVisitor { take, position: &position, failure: None, found: false };
    let read = (&mut json).deserialize_map(&mut dump).and_then(|()| json.end());
    if let Some(failure) = dump.failure {
        return Err(failure);
    }
    let read_error = |reason: &dyn fmt::Display| CliError::new(format!("cannot read {name}: {reason}"));
    match read {
        Err(error) => Err(read_error(&error)),
        Ok(()) if !dump.found => {
            Err(read_error(&"missing `handleRecords`")
                .with_hint("use `--format jsonl` for one record per line"))
        }
        Ok(()) => Ok(()),
    }
}

/// Current line, and bytes left for the current record.
struct ReadPosition {
    line: Cell<u64>,
    left: Cell<usize>,
}

/// Reader that counts lines and enforces the record size limit.
struct PositionReader<'a, R> {
    reader: R,
    position: &'a ReadPosition,
}

impl<R: BufRead> Read for PositionReader<'_, R> {
    /// The parser reads single bytes, so the line counter is always at its position.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        let Some(left) = self.position.left.get().checked_sub(read) else {
            return Err(io::Error::other(format!("record exceeds {MAX_RECORD_BYTES} bytes")));
        };
        self.position.left.set(left);
        let ends = buffer.iter().take(read).filter(|byte| **byte == b'\n').count();
        self.position.line.set(self.position.line.get() + ends as u64);
        Ok(read)
    }
}

/// serde visitor of the dump object.
struct DumpVisitor<'a, 'b> {
    take: &'a mut ItemSink<'b>,
    position: &'a ReadPosition,
    /// Error of the receiver, which ends the import.
    failure: Option<CliError>,
    found: bool,
}

impl DumpVisitor<'_, '_> {
    fn emit<E: serde::de::Error>(&mut self, line: u64, item: ImportItem) -> Result<(), E> {
        self.position.left.set(MAX_RECORD_BYTES);
        (self.take)(line, item).map_err(|failure| {
            self.failure = Some(failure);
            E::custom("import stopped")
        })
    }
}

impl<'de> Visitor<'de> for &mut DumpVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `handleRecords`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(member) = map.next_key::<String>()? {
            match member.as_str() {
                "homedPrefixes" => map.next_value_seed(PrefixListSeed(self))?,
                "handleRecords" => {
                    self.found = true;
                    map.next_value_seed(RecordListSeed(self))?;
                }
                _ => map.next_value::<IgnoredAny>().map(|_| ())?,
            }
        }
        Ok(())
    }
}

/// Deserializes `homedPrefixes` item by item.
struct PrefixListSeed<'d, 'a, 'b>(&'d mut DumpVisitor<'a, 'b>);

impl<'de> DeserializeSeed<'de> for PrefixListSeed<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for PrefixListSeed<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of prefixes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(prefix) = list.next_element::<String>()? {
            // Some dumps list the prefix record (`0.NA/10.5555`).
            let is_record = prefix.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("0.NA/"));
            let prefix = if is_record { prefix.get(5..).unwrap_or_default().to_owned() } else { prefix };
            self.0.emit(self.0.position.line.get(), ImportItem::HomePrefix(prefix))?;
        }
        Ok(())
    }
}

/// Deserializes `handleRecords`, a list or an object by handle.
struct RecordListSeed<'d, 'a, 'b>(&'d mut DumpVisitor<'a, 'b>);

impl<'de> DeserializeSeed<'de> for RecordListSeed<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RecordListSeed<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records, or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some((line, json)) = list.next_element_seed(RawRecordSeed(self.0.position))? {
            let item = match HandleRecord::from_json(json.get().as_bytes()) {
                Ok(record) => ImportItem::Record(record),
                Err(error) => ImportItem::Refused(error.to_string()),
            };
            self.0.emit(line, item)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(handle) = map.next_key::<String>()? {
            let (line, json) = map.next_value_seed(RawRecordSeed(self.0.position))?;
            let value = json.get().parse::<serde_json::Value>().map_err(A::Error::custom)?;
            let item = match values_from_json(&value) {
                Ok(values) => ImportItem::Record(
                    HandleRecord { handle: handle.into_bytes().into(), values }.into_owned(),
                ),
                Err(error) => ImportItem::Refused(error.to_string()),
            };
            self.0.emit(line, item)?;
        }
        Ok(())
    }
}

/// Raw JSON of one record and the line it begins at.
struct RawRecordSeed<'a>(&'a ReadPosition);

impl<'de> DeserializeSeed<'de> for RawRecordSeed<'_> {
    type Value = (u64, Box<RawValue>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let line = self.0.line.get();
        serde::Deserialize::deserialize(deserializer).map(|json| (line, json))
    }
}
