//! Which parts there are, and when there is a new one.

use std::collections::HashMap;

use heed::RwTxn;
use xxhash_rust::xxh3::xxh3_128;

use super::checksum;
use super::open::Databases;
use super::parts::MOST;
use super::record::Share;
use crate::StoreError;

/// Parts are not longer than this, and not shorter than that.
const LONGEST: usize = 512;
const SHORTEST: usize = 8;

/// How many beginnings of an address are looked at.
const BEGINNINGS: usize = 6;

/// The writer's view of the parts: their hashes, and what was seen once.
#[derive(Debug)]
pub(super) struct Sharing {
    numbers: HashMap<u128, u32>,
    /// Hashes that were seen once, each in the one place where it can be; a newer one takes its place.
    once: Box<[u128]>,
    /// Parts of the transaction under way, which may come to nothing.
    new: Vec<(u128, Box<[u8]>)>,
}

const ONCE: usize = 1 << 16;

impl Sharing {
    /// Reads which parts there are.
    pub(super) fn load(databases: &Databases, txn: &heed::RoTxn<'_>) -> Result<Self, StoreError> {
        let failed = |error| super::failed("reading shared parts", error);
        let mut numbers = HashMap::new();
        for entry in databases.part_numbers.iter(txn).map_err(failed)? {
            let (key, value) = entry.map_err(failed)?;
            let number = checksum::open(key, value, "number of a part")?;
            if let (Ok(hash), Ok(number)) = (key.try_into(), number.try_into()) {
                numbers.insert(u128::from_be_bytes(hash), u32::from_be_bytes(number));
            }
        }
        Ok(Self { numbers, once: vec![0; ONCE].into(), new: Vec::new() })
    }

    /// Writes the new parts into the transaction.
    pub(super) fn write(&self, databases: &Databases, txn: &mut RwTxn<'_>) -> Result<(), heed::Error> {
        for (hash, part) in &self.new {
            let number = self.numbers.get(hash).copied().unwrap_or_default().to_be_bytes();
            let mut value = part.to_vec();
            checksum::seal(&number, &mut value);
            databases.parts.put(txn, &number, &value)?;
            let mut value = number.to_vec();
            checksum::seal(&hash.to_be_bytes(), &mut value);
            databases.part_numbers.put(txn, &hash.to_be_bytes(), &value)?;
        }
        Ok(())
    }

    /// The transaction was committed.
    pub(super) fn keep(&mut self) {
        self.new.clear();
    }

    /// The transaction came to nothing, and so did its parts.
    pub(super) fn forget(&mut self) {
        for (hash, _) in self.new.drain(..) {
            self.numbers.remove(&hash);
        }
    }

    fn add(&mut self, hash: u128, part: &[u8]) -> Option<u32> {
        let number = u32::try_from(self.numbers.len()).ok().filter(|number| *number < MOST)?;
        self.numbers.insert(hash, number);
        self.new.push((hash, part.into()));
        Some(number)
    }

    /// Whether this was seen before; it has been now.
    fn was_seen(&mut self, hash: u128) -> bool {
        match self.once.get_mut(hash as usize % ONCE) {
            Some(place) => std::mem::replace(place, hash) == hash,
            None => false,
        }
    }
}

impl Share for Sharing {
    fn whole(&mut self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > LONGEST {
            return None;
        }
        let hash = xxh3_128(bytes);
        if let Some(number) = self.numbers.get(&hash) {
            return Some(*number);
        }
        self.was_seen(hash).then(|| self.add(hash, bytes)).flatten()
    }

    /// The longest beginning that is a part, or that was seen before and now is: up to a slash or an equals sign.
    fn beginning(&mut self, bytes: &[u8]) -> Option<(u32, usize)> {
        let window = &bytes[..bytes.len().min(LONGEST)];
        let ends = window
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, byte)| matches!(byte, b'/' | b'='))
            .map(|(at, _)| at + 1);
        let mut seen = None;
        for end in ends.filter(|end| *end >= SHORTEST).take(BEGINNINGS) {
            let hash = xxh3_128(&window[..end]);
            if let Some(number) = self.numbers.get(&hash) {
                // A longer one that was seen before will do better from now on.
                return match seen {
                    Some((hash, end)) => self.add(hash, &window[..end]).map(|number| (number, end)),
                    None => Some((*number, end)),
                };
            }
            if self.was_seen(hash) && seen.is_none() {
                seen = Some((hash, end));
            }
        }
        let (hash, end) = seen?;
        Some((self.add(hash, &window[..end])?, end))
    }
}
