//! Handle.Net's JSON dump: one document, read as it comes.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tendot_proto::record::{Record, values_from_json};

use super::{Item, LONGEST, Source, Take};
use crate::Failure;

pub(super) fn read(source: Source, take: &mut Take<'_>) -> Result<(), Failure> {
    let (name, reader) = source.into_parts();
    let place = Place { line: Cell::new(1), left: Cell::new(LONGEST) };
    let mut json = serde_json::Deserializer::from_reader(Bytes { reader, place: &place });
    let mut dump = Dump { take, place: &place, failure: None, found: false };
    let read = (&mut json).deserialize_map(&mut dump).and_then(|()| json.end());
    if let Some(failure) = dump.failure {
        return Err(failure);
    }
    let unread = |reason: &dyn fmt::Display| Failure::new(format!("{name} can't be read: {reason}"));
    match read {
        Err(error) => Err(unread(&error)),
        Ok(()) if !dump.found => {
            Err(unread(&"it has no `handleRecords`").hint("`--format jsonl` reads a record a line"))
        }
        Ok(()) => Ok(()),
    }
}

/// Where the reader is, and how much more one record may have.
struct Place {
    line: Cell<u64>,
    left: Cell<usize>,
}

struct Bytes<'a, R> {
    reader: R,
    place: &'a Place,
}

impl<R: BufRead> Read for Bytes<'_, R> {
    /// One byte at a time is what the parser asks for, so the line is always the one where it is.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        let Some(left) = self.place.left.get().checked_sub(read) else {
            return Err(io::Error::other(format!("a record has more than {LONGEST} bytes")));
        };
        self.place.left.set(left);
        let ends = buffer.iter().take(read).filter(|byte| **byte == b'\n').count();
        self.place.line.set(self.place.line.get() + ends as u64);
        Ok(read)
    }
}

struct Dump<'a, 'b> {
    take: &'a mut Take<'b>,
    place: &'a Place,
    /// Why nothing more is taken, if that is so.
    failure: Option<Failure>,
    found: bool,
}

impl Dump<'_, '_> {
    fn take<E: serde::de::Error>(&mut self, line: u64, item: Item) -> Result<(), E> {
        self.place.left.set(LONGEST);
        (self.take)(line, item).map_err(|failure| {
            self.failure = Some(failure);
            E::custom("nothing more is taken")
        })
    }
}

impl<'de> Visitor<'de> for &mut Dump<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `handleRecords`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(member) = map.next_key::<String>()? {
            match member.as_str() {
                "homedPrefixes" => map.next_value_seed(Prefixes(self))?,
                "handleRecords" => {
                    self.found = true;
                    map.next_value_seed(Records(self))?;
                }
                _ => map.next_value::<IgnoredAny>().map(|_| ())?,
            }
        }
        Ok(())
    }
}

/// The list of homed prefixes.
struct Prefixes<'d, 'a, 'b>(&'d mut Dump<'a, 'b>);

impl<'de> DeserializeSeed<'de> for Prefixes<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Prefixes<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of prefixes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(prefix) = list.next_element::<String>()? {
            // Some dumps name the prefix's record.
            let is_record = prefix.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("0.NA/"));
            let prefix = if is_record { prefix.get(5..).unwrap_or_default().to_owned() } else { prefix };
            self.0.take(self.0.place.line.get(), Item::Home(prefix))?;
        }
        Ok(())
    }
}

/// The records: a list, or an object that has them by name.
struct Records<'d, 'a, 'b>(&'d mut Dump<'a, 'b>);

impl<'de> DeserializeSeed<'de> for Records<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Records<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records, or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some((line, json)) = list.next_element_seed(Raw(self.0.place))? {
            let item = match Record::from_json(json.get().as_bytes()) {
                Ok(record) => Item::Record(record),
                Err(error) => Item::Refused(error.to_string()),
            };
            self.0.take(line, item)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(handle) = map.next_key::<String>()? {
            let (line, json) = map.next_value_seed(Raw(self.0.place))?;
            let read = json.get().parse::<serde_json::Value>().map_err(A::Error::custom)?;
            let item = match values_from_json(&read) {
                Ok(values) => {
                    Item::Record(Record { handle: handle.into_bytes().into(), values }.into_owned())
                }
                Err(error) => Item::Refused(error.to_string()),
            };
            self.0.take(line, item)?;
        }
        Ok(())
    }
}

/// One record as it stands there, and the line where it begins.
struct Raw<'a>(&'a Place);

impl<'de> DeserializeSeed<'de> for Raw<'_> {
    type Value = (u64, Box<RawValue>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let line = self.0.line.get();
        serde::Deserialize::deserialize(deserializer).map(|json| (line, json))
    }
}
