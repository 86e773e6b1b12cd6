//! Encodes and decodes records: see `docs/background/storage-format.md`.

use tendot_proto::{Handle, HandleValue};

use super::value_layout;
use crate::apply::SplitRecord;
use crate::model::varint;
use crate::{RecordStatus, StoredRecord};

const LAYOUT_VERSION: u8 = 1;
const LAYOUT_MASK: u8 = 0x07;
const FLAG_TOMBSTONE: u8 = 0x08;
const FLAG_CASE_BITMAP: u8 = 0x10;
const FLAG_LONG_NAME: u8 = 0x20;
const FLAG_TIMESTAMPS_DIFFER: u8 = 0x40;
const FLAG_REGISTRATION: u8 = 0x80;

/// Interning of shared byte strings while a record is encoded.
pub(crate) trait Intern {
    /// Dictionary id of exactly these bytes, if they have or now get one.
    fn intern(&mut self, bytes: &[u8]) -> Option<u32>;

    /// Dictionary id and length of an entry that is a prefix of `bytes`.
    fn intern_prefix(&mut self, bytes: &[u8]) -> Option<(u32, usize)>;
}

/// Record as encoded on disk: its registration is the log sequence number under which it is stored.
pub(crate) type DiskRecord = SplitRecord<Option<u64>>;

impl From<RecordHeader> for DiskRecord {
    /// Record without values.
    fn from(header: RecordHeader) -> Self {
        let RecordHeader { name, revision, status, registration, .. } = header;
        let record =
            StoredRecord { name, revision, status, values: Vec::new(), registration: Box::default() };
        Self { record, registration }
    }
}

/// Encodes a record without checksum. With `is_hashed_key`, the storage key does not contain the whole name.
pub(crate) fn encode(disk_record: &DiskRecord, is_hashed_key: bool, interner: &mut impl Intern) -> Vec<u8> {
    let StoredRecord { name, revision, status, values, .. } = &disk_record.record;
    encode_values(name, *revision, *status, values, disk_record.registration, is_hashed_key, interner)
}

/// Encodes a record from borrowed values.
pub(crate) fn encode_values(
    name: &str,
    revision: u64,
    status: RecordStatus,
    values: &[HandleValue<'_>],
    registration: Option<u64>,
    is_hashed_key: bool,
    interner: &mut impl Intern,
) -> Vec<u8> {
    let case_bitmap = case_bitmap(name);
    let first = values.first().map_or(0, |value| value.timestamp);
    let mut header = LAYOUT_VERSION;
    let mut set = |bit, is_set| header |= if is_set { bit } else { 0 };
    set(FLAG_TOMBSTONE, status == RecordStatus::Tombstone);
    set(FLAG_CASE_BITMAP, !case_bitmap.is_empty());
    set(FLAG_LONG_NAME, is_hashed_key);
    let differ = values.iter().any(|value| value.timestamp != first);
    set(FLAG_TIMESTAMPS_DIFFER, differ);
    set(FLAG_REGISTRATION, registration.is_some());

    let mut out = Vec::with_capacity(64);
    out.push(header);
    varint::write(&mut out, revision);
    if let Some(sequence) = registration {
        varint::write(&mut out, sequence);
    }
    if is_hashed_key {
        varint::write_bytes(&mut out, name.to_ascii_uppercase().as_bytes());
    }
    out.extend(case_bitmap);
    let layout = value_layout::encode(values);
    match interner.intern(&layout) {
        Some(id) => varint::write(&mut out, u64::from(id) + 1),
        None => {
            out.push(0);
            varint::write_bytes(&mut out, &layout);
        }
    }
    out.extend(first.to_le_bytes());
    let suffix = Handle::from(name).suffix().unwrap_or_default();
    for value in values {
        if differ {
            let difference = value.timestamp.wrapping_sub(first).cast_signed();
            varint::write(&mut out, u64::from(((difference << 1) ^ (difference >> 31)).cast_unsigned()));
        }
        encode_data(value, suffix, interner, &mut out);
    }
    out
}

fn encode_data(value: &HandleValue<'_>, suffix: &[u8], interner: &mut impl Intern, out: &mut Vec<u8>) {
    let data = &*value.data;
    let token = |id: u32, kind: u64| u64::from(id) << 2 | kind;
    if is_interned_whole(value)
        && let Some(id) = interner.intern(data)
    {
        return varint::write(out, token(id, 1));
    }
    // Dictionary entries outlive records, so secrets are never interned.
    let prefix = if value.is_secret() { None } else { interner.intern_prefix(data) };
    match prefix {
        None => {
            varint::write(out, (data.len() as u64) << 2);
            out.extend_from_slice(data);
        }
        Some((id, length)) => match &data[length..] {
            [] => varint::write(out, token(id, 1)),
            rest if !suffix.is_empty() && rest.starts_with(suffix) => {
                varint::write(out, token(id, 3));
                varint::write_bytes(out, &rest[suffix.len()..]);
            }
            rest => {
                varint::write(out, token(id, 2));
                varint::write_bytes(out, rest);
            }
        },
    }
}

/// Whether the data is interned as a whole: that of administrators, groups and sites is equal in many records.
fn is_interned_whole(value: &HandleValue<'_>) -> bool {
    value.data.len() >= 8 && value.value_type.starts_with(b"HS_") && !value.is_secret()
}

/// Decodes the record stored under `key`; `None` if the bytes are invalid.
///
/// `lookup` returns a dictionary entry by id.
pub(crate) fn decode<'p>(
    key: &[u8],
    bytes: &[u8],
    mut lookup: impl FnMut(u32) -> Option<&'p [u8]>,
) -> Option<DiskRecord> {
    let (header, mut bytes) = RecordHeader::decode(key, bytes)?;
    let bytes = &mut bytes;
    let layout = match varint::read(bytes)? {
        0 => varint::read_bytes(bytes)?,
        reference => lookup(u32::try_from(reference - 1).ok()?)?,
    };
    let first = u32::from_le_bytes(*varint::read_exact(bytes, 4)?.first_chunk()?);
    let suffix = Handle::from(&*header.name).suffix().unwrap_or_default();
    let values = value_layout::decode(layout, || {
        let timestamp = if header.timestamps_differ {
            let zigzag = u32::try_from(varint::read(bytes)?).ok()?;
            let difference = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
            first.wrapping_add(difference.cast_unsigned())
        } else {
            first
        };
        Some((timestamp, decode_data(bytes, suffix, &mut lookup)?))
    })?;
    let mut disk_record = DiskRecord::from(header);
    disk_record.record.values = values;
    bytes.is_empty().then_some(disk_record)
}

fn decode_data<'p>(
    bytes: &mut &[u8],
    suffix: &[u8],
    lookup: &mut impl FnMut(u32) -> Option<&'p [u8]>,
) -> Option<Vec<u8>> {
    let token = varint::read(bytes)?;
    if token & 3 == 0 {
        return varint::read_exact(bytes, usize::try_from(token >> 2).ok()?).map(<[u8]>::to_vec);
    }
    let prefix = lookup(u32::try_from(token >> 2).ok()?)?;
    let middle = if token & 3 == 3 { suffix } else { &[] };
    let rest = if token & 3 == 1 { &[] } else { varint::read_bytes(bytes)? };
    let mut data = Vec::with_capacity(prefix.len() + middle.len() + rest.len());
    data.extend_from_slice(prefix);
    data.extend_from_slice(middle);
    data.extend_from_slice(rest);
    Some(data)
}

/// Header of an encoded record: all but the values.
pub(crate) struct RecordHeader {
    pub(crate) name: Box<str>,
    pub(crate) revision: u64,
    pub(crate) status: RecordStatus,
    pub(crate) registration: Option<u64>,
    timestamps_differ: bool,
}

impl RecordHeader {
    /// Decodes the header of a record stored under `key`; also returns the remaining bytes.
    pub(crate) fn decode<'a>(key: &[u8], bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, mut bytes) = bytes.split_first()?;
        if header & LAYOUT_MASK != LAYOUT_VERSION {
            return None;
        }
        let revision = varint::read(&mut bytes)?;
        let has = |bit| header & bit != 0;
        let registration = if has(FLAG_REGISTRATION) { Some(varint::read(&mut bytes)?) } else { None };
        let mut name = if has(FLAG_LONG_NAME) { varint::read_bytes(&mut bytes)? } else { key }.to_vec();
        if has(FLAG_CASE_BITMAP) {
            let bits = varint::read_exact(&mut bytes, count_letters(&name).div_ceil(8))?;
            apply_case_bitmap(&mut name, bits);
        }
        let status = if has(FLAG_TOMBSTONE) { RecordStatus::Tombstone } else { RecordStatus::Live };
        let name = String::from_utf8(name).ok()?.into_boxed_str();
        let timestamps_differ = has(FLAG_TIMESTAMPS_DIFFER);
        Some((Self { name, revision, status, registration, timestamps_differ }, bytes))
    }
}

/// Decodes only the revision of a record.
pub(crate) fn decode_revision(bytes: &[u8]) -> Option<u64> {
    let (header, mut bytes) = bytes.split_first()?;
    (header & LAYOUT_MASK == LAYOUT_VERSION).then(|| varint::read(&mut bytes))?
}

/// Whether an encoded record, with or without checksum, is a tombstone.
pub(crate) fn is_tombstone(value: &[u8]) -> bool {
    value.first().is_some_and(|header| header & FLAG_TOMBSTONE != 0)
}

/// Bitmap of the letters in lower case; empty if there are none.
fn case_bitmap(name: &str) -> Vec<u8> {
    let mut bits = Vec::new();
    let mut any = false;
    for (number, letter) in name.bytes().filter(u8::is_ascii_alphabetic).enumerate() {
        if number % 8 == 0 {
            bits.push(0);
        }
        if letter.is_ascii_lowercase() {
            any = true;
            if let Some(last) = bits.last_mut() {
                *last |= 1 << (number % 8);
            }
        }
    }
    if any { bits } else { Vec::new() }
}

fn apply_case_bitmap(name: &mut [u8], bits: &[u8]) {
    const ASCII_CASE_BIT: u8 = b'a' - b'A';
    let mut number = 0;
    // Branch-free: this is on the hot path of every read, and the bytes are unpredictable.
    for byte in name {
        let is_letter = byte.is_ascii_alphabetic();
        let is_set = bits.get(number / 8).map_or(0, |bits| bits >> (number % 8) & 1);
        *byte |= ASCII_CASE_BIT * (is_set & u8::from(is_letter));
        number += usize::from(is_letter);
    }
}

fn count_letters(name: &[u8]) -> usize {
    name.iter().map(|byte| usize::from(byte.is_ascii_alphabetic())).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use tendot_proto::{Ttl, ValuePermissions, ValueReference};

    use super::*;

    /// Test interner that shares everything.
    #[derive(Default)]
    struct InternAll {
        entries: Vec<Vec<u8>>,
        ids: HashMap<Vec<u8>, u32>,
    }

    impl InternAll {
        fn add(&mut self, bytes: &[u8]) -> u32 {
            *self.ids.entry(bytes.to_vec()).or_insert_with(|| {
                self.entries.push(bytes.to_vec());
                self.entries.len() as u32 - 1
            })
        }
    }

    impl Intern for InternAll {
        fn intern(&mut self, bytes: &[u8]) -> Option<u32> {
            Some(self.add(bytes))
        }

        fn intern_prefix(&mut self, bytes: &[u8]) -> Option<(u32, usize)> {
            let end = bytes.iter().rposition(|byte| *byte == b'/')? + 1;
            Some((self.add(&bytes[..end]), end))
        }
    }

    /// Test interner that shares nothing.
    struct InternNone;

    impl Intern for InternNone {
        fn intern(&mut self, _: &[u8]) -> Option<u32> {
            None
        }

        fn intern_prefix(&mut self, _: &[u8]) -> Option<(u32, usize)> {
            None
        }
    }

    fn value() -> impl Strategy<Value = HandleValue<'static>> {
        let ttl = (any::<u8>(), any::<u32>()).prop_map(|(kind, seconds)| match kind % 4 {
            0 => Ttl::Relative(86_400),
            1 => Ttl::Absolute(seconds),
            2 => Ttl::Relative(seconds),
            _ => Ttl::Unknown { kind: kind | 2, seconds },
        });
        let data = prop_oneof![
            vec(any::<u8>(), 0..60),
            "https://example.org/[a-z/]{0,20}".prop_map(String::into_bytes),
            Just(b"https://example.org/Abc-1".to_vec()),
            Just(b"https://example.org/Abc-1?x".to_vec()),
        ];
        let value_type =
            prop_oneof![Just(b"URL".to_vec()), Just(b"HS_ADMIN".to_vec()), vec(any::<u8>(), 0..10)];
        let timestamp = prop_oneof![Just(1_700_000_000), any::<u32>()];
        let references = vec((any::<u32>(), vec(any::<u8>(), 0..5)), 0..2);
        (any::<u32>(), timestamp, ttl, any::<u8>(), value_type, data, references).prop_map(
            |(index, timestamp, ttl, permissions, value_type, data, references)| HandleValue {
                index,
                timestamp,
                ttl,
                permissions: ValuePermissions(permissions),
                value_type: value_type.into(),
                data: data.into(),
                references: references
                    .into_iter()
                    .map(|(index, handle)| ValueReference::new(index, handle))
                    .collect(),
            },
        )
    }

    fn disk_record() -> impl Strategy<Value = DiskRecord> {
        let name = prop_oneof![
            Just("10.1000/Abc-1".to_owned()),
            "[a-zA-Z0-9./é]{1,30}",
            "10\\.[0-9]/[a-zA-Z]{2500}"
        ];
        (name, any::<u64>(), any::<bool>(), vec(value(), 0..4), any::<Option<u64>>()).prop_map(
            |(name, revision, is_live, values, registration)| DiskRecord {
                record: StoredRecord {
                    name: name.into(),
                    revision,
                    status: if is_live { RecordStatus::Live } else { RecordStatus::Tombstone },
                    values,
                    registration: Box::default(),
                },
                registration,
            },
        )
    }

    proptest! {
        #[test]
        fn record_round_trip(disk_record in disk_record()) {
            let key = disk_record.record.name.to_ascii_uppercase();
            let mut interner = InternAll::default();
            // With a hashed key, the record contains the whole name.
            for (is_hashed_key, key) in [(false, key.as_bytes()), (true, &b"10.1/hashed"[..])] {
                let bytes = encode(&disk_record, is_hashed_key, &mut interner);
                let lookup = |id: u32| interner.entries.get(id as usize).map(|entry| &**entry);
                prop_assert_eq!(decode(key, &bytes, lookup), Some(disk_record.clone()));
                let plain = encode(&disk_record, is_hashed_key, &mut InternNone);
                prop_assert_eq!(decode(key, &plain, |_| None), Some(disk_record.clone()));
                prop_assert_eq!(decode(key, &bytes[..bytes.len() - 1], lookup), None, "truncated");
            }
        }

        #[test]
        fn decode_never_panics(key: Vec<u8>, bytes: Vec<u8>, entry: Vec<u8>) {
            let _ = decode(&key, &bytes, |_| Some(&entry));
            let _ = decode(&key, &[&[LAYOUT_VERSION][..], &bytes].concat(), |_| Some(&entry));
        }
    }

    /// Size of a typical record whose strings are in the dictionary.
    #[test]
    fn typical_record_is_small() {
        let mut administrator = b"\x0f\xff\0\0\0\x0c0.NA/10.5555".to_vec();
        administrator.extend(300_u32.to_be_bytes());
        let mut interner = InternAll::default();
        let mut encode = |name: &str| {
            let values = vec![
                HandleValue::new(
                    1,
                    "URL",
                    format!("https://www.example.org/journals/articles/{}", &name[8..]),
                ),
                HandleValue::with_data(100, "HS_ADMIN", administrator.clone()),
            ];
            encode_values(name, 1_000_000, RecordStatus::Live, &values, None, false, &mut interner)
        };
        encode("10.5555/other");
        let bytes = encode("10.5555/some-2024-1234");
        assert!(bytes.len() <= 16, "{} bytes", bytes.len());
    }
}
