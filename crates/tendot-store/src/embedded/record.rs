//! Records as they stand on disk: see `docs/storage-format.md`.

use tendot_proto::{Handle, Value};

use super::{shape, varint};
use crate::{Entry, State};

const LAYOUT: u8 = 1;
const LAYOUT_BITS: u8 = 0x07;
const TOMBSTONE: u8 = 0x08;
const SPELLING: u8 = 0x10;
const LONG_NAME: u8 = 0x20;
const TIMESTAMPS: u8 = 0x40;

/// What records share with each other, while one is written.
pub(super) trait Share {
    /// The number of a part that is just this, if there is one or now is.
    fn whole(&mut self, bytes: &[u8]) -> Option<u32>;

    /// A part that `bytes` begin with, and its length.
    fn beginning(&mut self, bytes: &[u8]) -> Option<(u32, usize)>;
}

/// A record without its checksum. `is_shortened` tells that its key has not all of its name.
pub(super) fn encode(entry: &Entry, is_shortened: bool, share: &mut impl Share) -> Vec<u8> {
    let spelling = spelling(&entry.name);
    let first = entry.values.first().map_or(0, |value| value.timestamp);
    let mut header = LAYOUT;
    let mut set = |bit, is_set| header |= if is_set { bit } else { 0 };
    set(TOMBSTONE, entry.state == State::Tombstone);
    set(SPELLING, !spelling.is_empty());
    set(LONG_NAME, is_shortened);
    let differ = entry.values.iter().any(|value| value.timestamp != first);
    set(TIMESTAMPS, differ);

    let mut out = Vec::with_capacity(64);
    out.push(header);
    varint::put(&mut out, entry.revision);
    if is_shortened {
        varint::put_bytes(&mut out, entry.name.to_ascii_uppercase().as_bytes());
    }
    out.extend(spelling);
    let shape = shape::of(&entry.values);
    match share.whole(&shape) {
        Some(number) => varint::put(&mut out, u64::from(number) + 1),
        None => {
            out.push(0);
            varint::put_bytes(&mut out, &shape);
        }
    }
    out.extend(first.to_le_bytes());
    let suffix = Handle::from(&*entry.name).suffix().unwrap_or_default();
    for value in &entry.values {
        if differ {
            let difference = value.timestamp.wrapping_sub(first).cast_signed();
            varint::put(&mut out, u64::from(((difference << 1) ^ (difference >> 31)).cast_unsigned()));
        }
        encode_data(value, suffix, share, &mut out);
    }
    out
}

fn encode_data(value: &Value<'_>, suffix: &[u8], share: &mut impl Share, out: &mut Vec<u8>) {
    let data = &*value.data;
    let token = |number: u32, kind: u64| u64::from(number) << 2 | kind;
    if is_shared_whole(value)
        && let Some(number) = share.whole(data)
    {
        return varint::put(out, token(number, 1));
    }
    match share.beginning(data) {
        None => {
            varint::put(out, (data.len() as u64) << 2);
            out.extend_from_slice(data);
        }
        Some((number, length)) => match &data[length..] {
            [] => varint::put(out, token(number, 1)),
            rest if !suffix.is_empty() && rest.starts_with(suffix) => {
                varint::put(out, token(number, 3));
                varint::put_bytes(out, &rest[suffix.len()..]);
            }
            rest => {
                varint::put(out, token(number, 2));
                varint::put_bytes(out, rest);
            }
        },
    }
}

/// Administrators, groups and sites are the same for many records; secrets are not to stand in a second place.
fn is_shared_whole(value: &Value<'_>) -> bool {
    value.data.len() >= 8 && value.value_type.starts_with(b"HS_") && !value.has_type("HS_SECKEY")
}

/// A record that was encoded, found under `key`. None if the bytes are none.
///
/// `part` gives a part by its number.
pub(super) fn decode<'p>(
    key: &[u8],
    bytes: &[u8],
    mut part: impl FnMut(u32) -> Option<&'p [u8]>,
) -> Option<Entry> {
    let (head, mut bytes) = Head::take(key, bytes)?;
    let bytes = &mut bytes;
    let shape = match varint::take(bytes)? {
        0 => varint::take_bytes(bytes)?,
        number => part(u32::try_from(number - 1).ok()?)?,
    };
    let first = u32::from_le_bytes(*varint::take_exactly(bytes, 4)?.first_chunk()?);
    let suffix = Handle::from(&*head.name).suffix().unwrap_or_default();
    let values = shape::values(shape, || {
        let timestamp = if head.timestamps_differ {
            let zigzag = u32::try_from(varint::take(bytes)?).ok()?;
            let difference = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
            first.wrapping_add(difference.cast_unsigned())
        } else {
            first
        };
        Some((timestamp, take_data(bytes, suffix, &mut part)?))
    })?;
    bytes.is_empty().then_some(Entry { name: head.name, revision: head.revision, state: head.state, values })
}

fn take_data<'p>(
    bytes: &mut &[u8],
    suffix: &[u8],
    part: &mut impl FnMut(u32) -> Option<&'p [u8]>,
) -> Option<Vec<u8>> {
    let token = varint::take(bytes)?;
    if token & 3 == 0 {
        return varint::take_exactly(bytes, usize::try_from(token >> 2).ok()?).map(<[u8]>::to_vec);
    }
    let beginning = part(u32::try_from(token >> 2).ok()?)?;
    let middle = if token & 3 == 3 { suffix } else { &[] };
    let rest = if token & 3 == 1 { &[] } else { varint::take_bytes(bytes)? };
    let mut data = Vec::with_capacity(beginning.len() + middle.len() + rest.len());
    data.extend_from_slice(beginning);
    data.extend_from_slice(middle);
    data.extend_from_slice(rest);
    Some(data)
}

/// What can be known of a record without its values.
pub(super) struct Head {
    pub(super) name: Box<str>,
    pub(super) revision: u64,
    pub(super) state: State,
    timestamps_differ: bool,
}

impl Head {
    /// Reads the head of a record under `key`, and gives what follows it.
    pub(super) fn take<'a>(key: &[u8], bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, mut bytes) = bytes.split_first()?;
        if header & (LAYOUT_BITS | 0x80) != LAYOUT {
            return None;
        }
        let revision = varint::take(&mut bytes)?;
        let has = |bit| header & bit != 0;
        let mut name = if has(LONG_NAME) { varint::take_bytes(&mut bytes)? } else { key }.to_vec();
        if has(SPELLING) {
            let bits = varint::take_exactly(&mut bytes, letters(&name).div_ceil(8))?;
            respell(&mut name, bits);
        }
        let state = if has(TOMBSTONE) { State::Tombstone } else { State::Live };
        let name = String::from_utf8(name).ok()?.into_boxed_str();
        Some((Self { name, revision, state, timestamps_differ: has(TIMESTAMPS) }, bytes))
    }
}

/// A bit for each letter, set for those in lower case; nothing if there are none of those.
fn spelling(name: &str) -> Vec<u8> {
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

fn respell(name: &mut [u8], bits: &[u8]) {
    for (number, letter) in name.iter_mut().filter(|byte| byte.is_ascii_alphabetic()).enumerate() {
        if bits.get(number / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1) {
            letter.make_ascii_lowercase();
        }
    }
}

fn letters(name: &[u8]) -> usize {
    name.iter().filter(|byte| byte.is_ascii_alphabetic()).count()
}
