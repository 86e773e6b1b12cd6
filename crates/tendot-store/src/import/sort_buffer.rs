//! Records of an import, sorted in memory.

use std::cmp::Ordering;

use super::ImportError;
use super::merge::RawRecord;
use crate::NameKey;
use crate::model::change_set::MAX_RECORD_BYTES;

/// Bytes of the value count, which is not part of the record size.
pub(crate) const VALUE_COUNT_LEN: usize = 4;

/// Records in one contiguous buffer, with an index that is sorted.
#[derive(Debug, Default)]
pub(crate) struct SortBuffer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) slots: Vec<RecordSlot>,
}

/// Position of a record in a sort buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordSlot {
    /// First bytes of the key; they decide most comparisons.
    pub(crate) key_start: u128,
    pub(crate) offset: usize,
    pub(crate) name_len: u32,
    pub(crate) values_len: u32,
}

impl SortBuffer {
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), slots: Vec::new() }
    }

    /// Adds a record: its name, and its values in wire form, preceded by their number, which `write` appends to the buffer.
    pub(crate) fn push(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), ImportError> {
        NameKey::validate(name)?;
        let offset = self.bytes.len();
        self.bytes.extend_from_slice(name.as_bytes());
        write(&mut self.bytes);
        let values_len = self.bytes.len() - offset - name.len();
        if values_len > MAX_RECORD_BYTES + VALUE_COUNT_LEN {
            self.bytes.truncate(offset);
            let length = values_len - VALUE_COUNT_LEN;
            return Err(ImportError::TooLarge { length, limit: MAX_RECORD_BYTES });
        }
        let (name_len, values_len) = (name.len() as u32, values_len as u32);
        let key_start = key_start(name.as_bytes());
        self.slots.push(RecordSlot { key_start, offset, name_len, values_len });
        Ok(())
    }

    /// Appends all records of another buffer.
    pub(crate) fn append(&mut self, other: &Self) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.slots.extend(other.slots.iter().map(|slot| RecordSlot { offset: start + slot.offset, ..*slot }));
    }

    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Memory size in bytes.
    pub(crate) const fn memory_size(&self) -> usize {
        self.bytes.len() + self.slots.len() * size_of::<RecordSlot>()
    }

    pub(crate) fn record(&self, slot: &RecordSlot) -> RawRecord<'_> {
        let record = self.bytes.get(slot.offset..).unwrap_or_default();
        let (name, rest) = record.split_at_checked(slot.name_len as usize).unwrap_or_default();
        RawRecord { name, values: rest.get(..slot.values_len as usize).unwrap_or_default() }
    }

    /// Sorts by key; stable for equal keys.
    pub(crate) fn sort(&mut self) {
        let mut slots = std::mem::take(&mut self.slots);
        slots.sort_unstable_by(|one, two| {
            let (first, second) = (self.record(one).name, self.record(two).name);
            compare_keys((one.key_start, first), (two.key_start, second)).then(one.offset.cmp(&two.offset))
        });
        self.slots = slots;
    }
}

/// First 16 bytes of a name's key as a big-endian number.
pub(crate) fn key_start(name: &[u8]) -> u128 {
    let mut start = [0; 16];
    for (to, byte) in start.iter_mut().zip(name) {
        *to = byte.to_ascii_uppercase();
    }
    u128::from_be_bytes(start)
}

/// Compares the keys of two names whose first 16 bytes are known.
pub(crate) fn compare_keys((start, one): (u128, &[u8]), (other, two): (u128, &[u8])) -> Ordering {
    let rest = |name| <[u8]>::get(name, 16..).unwrap_or_default().iter().map(u8::to_ascii_uppercase);
    // The length distinguishes a short name from one with zero bytes appended.
    start.cmp(&other).then_with(|| rest(one).cmp(rest(two))).then_with(|| one.len().cmp(&two.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn compares_like_keys(one in "[ab\\x00é]{1,20}", two in "[AB\\x00é]{1,20}") {
            let expected = NameKey::new(&one).unwrap().cmp(&NameKey::new(&two).unwrap());
            let (one, two) = (one.as_bytes(), two.as_bytes());
            prop_assert_eq!(compare_keys((key_start(one), one), (key_start(two), two)), expected);
        }
    }
}
