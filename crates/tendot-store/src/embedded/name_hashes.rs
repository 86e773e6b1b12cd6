//! Hashes of all names and homed prefixes in a second database, against which misses are confirmed: see
//! `docs/background/storage-format.md`.
//!
//! LMDB has no page checksums, so a corrupt page can misdirect a lookup so that it finds nothing. A name that is not found although
//! its hash is stored is corruption, not a miss. The hashes are keyed, so names that collide cannot be constructed, and 64 bits
//! long: with ten million names the false-positive rate is about 2⁻⁴⁰.

use std::hash::Hasher as _;
use std::ops::Bound;

use heed::{PutFlags, RoTxn, RwTxn};
use siphasher::sip::SipHasher24;

use super::format::checksum;
use super::format::hash_block::{self, HashBlock, MAX_HASHES, SPLIT_HASHES};
use super::lmdb::META_ITEM;
use super::read::{HOMED_ITEM, RECORD_ITEM, RawEntry, entries_from};
use super::{EmbeddedStore, Lmdb, backend_error};
use crate::StoreError;

/// Key in `meta` of the random key of the hashes.
pub(crate) const HASH_KEY_META_KEY: &[u8] = b"name_hash_key";

/// Name of a block of hashes in error messages.
pub(crate) const ITEM: &str = "block of name hashes";

/// Fault of an item that is not found although the hash of its name is stored.
pub(crate) const RECORD_MISSING: &str = "record missing, but its name hash exists";

/// Domain separator of homed prefixes: not valid in UTF-8, so the hash input cannot equal that of a name.
const HOMED_TAG: u8 = 0xff;

/// Maximum number of hashes that are collected before they are written, in bytes 32 MiB.
pub(crate) const MAX_COLLECTED: usize = 4 << 20;

/// Maximum number of blocks changed by one transaction of a bulk write: each may change a page.
const MAX_BLOCKS_PER_TRANSACTION: usize = 8_192;

/// Writes that belong to a transaction of hashes.
pub(crate) type BeforeCommit<'a> = &'a mut dyn FnMut(&mut RwTxn<'_>) -> Result<(), heed::Error>;

/// Keyed hash of names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameHasher(SipHasher24);

impl NameHasher {
    /// Hash of a name.
    pub(crate) fn name(&self, storage_key: &[u8]) -> u64 {
        self.0.hash(storage_key)
    }

    /// Hash of a homed prefix in upper case.
    pub(crate) fn homed(&self, prefix: &[u8]) -> u64 {
        let mut hasher = self.0;
        hasher.write(&[HOMED_TAG]);
        hasher.write(prefix);
        hasher.finish()
    }
}

impl Lmdb {
    /// Writes a new random key of the hashes.
    pub(crate) fn write_hash_key(&self, txn: &mut RwTxn<'_>) -> Result<(), heed::Error> {
        let mut key = [0; 16];
        let random = aws_lc_rs::rand::fill(&mut key);
        random.map_err(|_| heed::Error::Io(std::io::Error::other("no random bytes")))?;
        self.write_meta(txn, HASH_KEY_META_KEY, &key)
    }

    /// Hasher with the key of the store.
    pub(crate) fn name_hasher(&self, txn: &RoTxn<'_>) -> Result<&NameHasher, StoreError> {
        if let Some(hasher) = self.name_hasher.get() {
            return Ok(hasher);
        }
        let corrupt = |fault| checksum::corrupt(HASH_KEY_META_KEY, META_ITEM, fault);
        let key = self.read_meta(txn, HASH_KEY_META_KEY)?.ok_or_else(|| corrupt("missing"))?;
        let key = key.try_into().map_err(|_| corrupt("wrong length"))?;
        Ok(self.name_hasher.get_or_init(|| NameHasher(SipHasher24::new_with_key(key))))
    }

    /// Confirms that a name was never stored or was removed; otherwise its record is lost.
    pub(crate) fn confirm_no_record(&self, txn: &RoTxn<'_>, storage_key: &[u8]) -> Result<(), StoreError> {
        match self.has_name_hash(txn, self.name_hasher(txn)?.name(storage_key))? {
            true => Err(checksum::corrupt(storage_key, RECORD_ITEM, RECORD_MISSING)),
            false => Ok(()),
        }
    }

    /// Confirms that a prefix is not homed.
    pub(crate) fn confirm_not_homed(&self, txn: &RoTxn<'_>, prefix: &[u8]) -> Result<(), StoreError> {
        match self.has_name_hash(txn, self.name_hasher(txn)?.homed(prefix))? {
            true => Err(checksum::corrupt(prefix, HOMED_ITEM, RECORD_MISSING)),
            false => Ok(()),
        }
    }

    /// Whether a hash is stored. The checksum of the block is not verified: a corrupt block matters only if the record is corrupt,
    /// too, and `verify` finds both.
    pub(crate) fn has_name_hash(&self, txn: &RoTxn<'_>, hash: u64) -> Result<bool, StoreError> {
        let found = self.databases.name_hashes.get_greater_than_or_equal_to(txn, &hash.to_be_bytes());
        let found = found.map_err(|error| backend_error("reading name hashes", error))?;
        let Some((key, value)) = found else { return Ok(false) };
        let block = parse_unverified(key, value).ok_or_else(|| checksum::corrupt(key, ITEM, "malformed"))?;
        Ok(block.contains(hash))
    }

    /// Whether the block that would have the hash of a name is damaged.
    pub(crate) fn has_damaged_hash_block(&self, txn: &RoTxn<'_>, storage_key: &[u8]) -> bool {
        let Ok(hasher) = self.name_hasher(txn) else { return false };
        let hash = hasher.name(storage_key).to_be_bytes();
        let found = self.databases.name_hashes.get_greater_than_or_equal_to(txn, &hash);
        matches!(found, Ok(Some((key, value))) if decode(key, value).is_none())
    }

    /// Writes a record, and the hash of its name if it is new.
    pub(crate) fn put_record(
        &self,
        txn: &mut RwTxn<'_>,
        storage_key: &[u8],
        value: &[u8],
    ) -> Result<(), heed::Error> {
        let is_new = self.databases.records.get(txn, storage_key)?.is_none();
        self.databases.records.put(txn, storage_key, value)?;
        if is_new {
            let hash = self.loaded_hasher(txn)?.name(storage_key);
            self.insert_name_hashes(txn, &[hash])?;
        }
        Ok(())
    }

    /// Removes a record and the hash of its name.
    pub(crate) fn delete_record(&self, txn: &mut RwTxn<'_>, storage_key: &[u8]) -> Result<(), heed::Error> {
        if self.databases.records.delete(txn, storage_key)? {
            let hash = self.loaded_hasher(txn)?.name(storage_key);
            self.remove_name_hash(txn, hash)?;
        }
        Ok(())
    }

    /// Hasher, as LMDB operations return errors.
    pub(crate) fn loaded_hasher(&self, txn: &RoTxn<'_>) -> Result<&NameHasher, heed::Error> {
        self.name_hasher(txn).map_err(|error| heed::Error::Decoding(Box::new(error)))
    }

    /// Adds hashes in ascending order; stops after some thousand blocks. Returns the number of hashes processed.
    ///
    /// A corrupt block is not changed: `verify` reports it, and until it is rebuilt, misses in it are errors.
    pub(crate) fn insert_name_hashes(
        &self,
        txn: &mut RwTxn<'_>,
        hashes: &[u64],
    ) -> Result<usize, heed::Error> {
        let database = self.databases.name_hashes;
        let (mut rest, mut blocks) = (hashes, 0);
        while let Some(first) = rest.first()
            && blocks < MAX_BLOCKS_PER_TRANSACTION
        {
            let found = database.get_greater_than_or_equal_to(txn, &first.to_be_bytes())?;
            let Some((key, value)) = found else {
                let room = (MAX_BLOCKS_PER_TRANSACTION - blocks) * SPLIT_HASHES;
                let (appended, later) = rest.split_at(split_point(rest, room));
                for block in split(appended) {
                    append_block(self, txn, block)?;
                }
                rest = later;
                break;
            };
            let (bound, block) = (bound(key), decode(key, value));
            let (in_block, later) =
                rest.split_at(rest.partition_point(|hash| bound.is_some_and(|bound| *hash <= bound)).max(1));
            if let (Some(bound), Some(mut block)) = (bound, block) {
                block.extend_from_slice(in_block);
                block.sort_unstable();
                write_blocks(self, txn, bound, &block)?;
            }
            rest = later;
            blocks += 1;
        }
        Ok(hashes.len() - rest.len())
    }

    /// Removes a hash once, if it is stored and its block is not corrupt.
    pub(crate) fn remove_name_hash(&self, txn: &mut RwTxn<'_>, hash: u64) -> Result<(), heed::Error> {
        let database = self.databases.name_hashes;
        let found = database.get_greater_than_or_equal_to(txn, &hash.to_be_bytes())?;
        let Some((key, value)) = found else { return Ok(()) };
        let (Some(bound), Some(mut block)) = (bound(key), decode(key, value)) else { return Ok(()) };
        let Ok(at) = block.binary_search(&hash) else { return Ok(()) };
        block.remove(at);
        if block.is_empty() {
            return database.delete(txn, &bound.to_be_bytes()).map(drop);
        }
        database.put(txn, &bound.to_be_bytes(), &encode_block(bound, &block))
    }

    /// Writes collected hashes in transactions of limited size, and clears them.
    pub(crate) fn write_name_hashes(
        &self,
        hashes: &mut Vec<u64>,
        before_commit: BeforeCommit<'_>,
    ) -> Result<(), StoreError> {
        let write_error = |error| backend_error("writing name hashes", error);
        hashes.sort_unstable();
        let mut rest = &hashes[..];
        while !rest.is_empty() {
            let mut txn = self.env.write_txn().map_err(write_error)?;
            let written = self.insert_name_hashes(&mut txn, rest).map_err(write_error)?;
            before_commit(&mut txn).map_err(write_error)?;
            self.commit(txn).map_err(write_error)?;
            rest = rest.get(written..).unwrap_or_default();
        }
        hashes.clear();
        Ok(())
    }

    /// Recomputes all hashes from the records and homed prefixes. Until that is complete, misses are confirmed only in part.
    pub(crate) fn recompute_name_hashes(&self, before_commit: BeforeCommit<'_>) -> Result<(), StoreError> {
        let write_error = |error| backend_error("rebuilding name hashes", error);
        let mut txn = self.env.write_txn().map_err(write_error)?;
        self.databases.name_hashes.clear(&mut txn).map_err(write_error)?;
        before_commit(&mut txn).map_err(write_error)?;
        self.commit(txn).map_err(write_error)?;
        for (database, hash) in [
            (self.databases.records, NameHasher::name as fn(&NameHasher, &[u8]) -> u64),
            (self.databases.homed, NameHasher::homed),
        ] {
            let (mut hashes, mut after) = (Vec::new(), None::<Vec<u8>>);
            loop {
                // A transaction per part, so that the pages that the writes replace can be reused.
                let txn = self.begin_read()?;
                let hasher = self.name_hasher(&txn)?;
                let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let mut last = None;
                for entry in entries_from(database, &txn, from, "reading records")?.take(MAX_COLLECTED) {
                    let (key, _) = entry?;
                    hashes.push(hash(hasher, key));
                    last = Some(key);
                }
                let Some(last) = last else { break };
                after = Some(last.to_vec());
                drop(txn);
                self.write_name_hashes(&mut hashes, before_commit)?;
            }
        }
        Ok(())
    }
}

impl EmbeddedStore {
    /// Recomputes the hashes of all names from the records, after `verify` has found corruption only in the hashes.
    pub fn rebuild_name_hashes(&self) -> Result<(), StoreError> {
        self.lmdb.recompute_name_hashes(&mut |_| Ok(()))
    }
}

/// Writes the hashes of a block, in ascending order; splits it if there are too many.
fn write_blocks(lmdb: &Lmdb, txn: &mut RwTxn<'_>, bound: u64, hashes: &[u64]) -> Result<(), heed::Error> {
    let database = lmdb.databases.name_hashes;
    if hashes.len() <= MAX_HASHES {
        return database.put(txn, &bound.to_be_bytes(), &encode_block(bound, hashes));
    }
    let mut blocks = split(hashes).peekable();
    while let Some(block) = blocks.next() {
        let last = block.last().copied().unwrap_or_default();
        let key = if blocks.peek().is_none() { bound } else { last };
        database.put(txn, &key.to_be_bytes(), &encode_block(key, block))?;
    }
    Ok(())
}

/// Writes a block after all others: LMDB fills its pages.
fn append_block(lmdb: &Lmdb, txn: &mut RwTxn<'_>, hashes: &[u64]) -> Result<(), heed::Error> {
    let database = lmdb.databases.name_hashes;
    let bound = hashes.last().copied().unwrap_or_default();
    let (key, value) = (bound.to_be_bytes(), encode_block(bound, hashes));
    match database.put_with_flags(txn, PutFlags::APPEND, &key, &value) {
        // Corrupt pages are out of order.
        Err(heed::Error::Mdb(heed::MdbError::KeyExist)) => database.put(txn, &key, &value),
        put => put,
    }
}

/// Splits hashes into blocks of nearly equal size. Equal hashes stay together.
fn split(hashes: &[u64]) -> impl Iterator<Item = &[u64]> {
    let blocks = hashes.len().div_ceil(SPLIT_HASHES).max(1);
    let length = hashes.len().div_ceil(blocks);
    let mut rest = hashes;
    std::iter::from_fn(move || {
        let (block, later) = rest.split_at(split_point(rest, length));
        rest = later;
        (!block.is_empty()).then_some(block)
    })
}

/// End of the first hashes, about `length` of them, such that equal hashes stay together.
fn split_point(hashes: &[u64], length: usize) -> usize {
    let Some(last) = length.checked_sub(1).and_then(|last| hashes.get(last)) else { return hashes.len() };
    length + hashes[length..].iter().take_while(|hash| *hash == last).count()
}

fn encode_block(key: u64, hashes: &[u64]) -> Vec<u8> {
    let mut value = hash_block::encode(key, hashes);
    checksum::append(&key.to_be_bytes(), &mut value);
    value
}

fn bound(key: &[u8]) -> Option<u64> {
    key.try_into().map(u64::from_be_bytes).ok()
}

fn parse_unverified<'a>(key: &[u8], value: &'a [u8]) -> Option<HashBlock<'a>> {
    let (block, _) = value.split_last_chunk::<4>()?;
    HashBlock::parse(bound(key)?, block)
}

/// Decodes a stored block; `None` if it is corrupt.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<Vec<u64>> {
    let block = checksum::verify_and_strip(key, value, ITEM).ok()?;
    HashBlock::parse(bound(key)?, block)?.decode()
}

/// Number of hashes of a stored block, in the order of the blocks; `previous` is the key of the block before.
pub(crate) fn check_block((key, value): RawEntry<'_>, previous: Option<&[u8]>) -> Result<u64, StoreError> {
    let block = checksum::verify_and_strip(key, value, ITEM)?;
    let hashes = bound(key).and_then(|bound| HashBlock::parse(bound, block)?.decode());
    let hashes = hashes.ok_or_else(|| checksum::corrupt(key, ITEM, "malformed"))?;
    let lowest = hashes.first().map(|hash| hash.to_be_bytes());
    if lowest.zip(previous).is_some_and(|(lowest, previous)| lowest[..] <= *previous) {
        return Err(checksum::corrupt(key, ITEM, "out of order"));
    }
    Ok(hashes.len() as u64)
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "figures, and the seed of a failed test")]
mod tests {
    use std::collections::BTreeMap;

    use tendot_testing::{SeededRng, ram_dir, test_seed};

    use super::*;

    /// Bytes of the pages of the hashes.
    fn size(lmdb: &Lmdb) -> usize {
        let stat = lmdb.databases.name_hashes.stat(&lmdb.begin_read().unwrap()).unwrap();
        (stat.branch_pages + stat.leaf_pages + stat.overflow_pages) * stat.page_size as usize
    }

    fn insert(lmdb: &Lmdb, hashes: &mut [u64]) {
        hashes.sort_unstable();
        let mut txn = lmdb.env.write_txn().unwrap();
        let mut rest = &*hashes;
        while !rest.is_empty() {
            let written = lmdb.insert_name_hashes(&mut txn, rest).unwrap();
            assert!(written > 0);
            rest = &rest[written..];
        }
        lmdb.commit(txn).unwrap();
    }

    /// Hashes of names that were added one by one or at once take at most ten bytes each.
    #[test]
    fn ten_bytes_per_name() {
        let mut rng = SeededRng::new(7);
        let mut hashes: Vec<u64> = std::iter::repeat_with(|| rng.next_u64()).take(60_000).collect();
        for at_once in [hashes.len(), 20] {
            let directory = ram_dir();
            let (lmdb, _lock) = Lmdb::open(directory.path()).unwrap();
            for part in hashes.chunks_mut(at_once) {
                insert(&lmdb, part);
            }
            let size = size(&lmdb) as f64 / hashes.len() as f64;
            println!("{size:.2} bytes per name, {at_once} at once");
            assert!(size <= 10.0, "{size} bytes per name, {at_once} at once");
        }
    }

    /// Compares the stored hashes with a model while hashes are added and removed, also equal ones.
    #[test]
    fn matches_a_model() {
        let seed = test_seed();
        println!("TENDOT_TEST_SEED={seed}");
        let mut rng = SeededRng::new(seed);
        let directory = ram_dir();
        let (lmdb, _lock) = Lmdb::open(directory.path()).unwrap();
        let mut model: BTreeMap<u64, usize> = BTreeMap::new();
        for round in 0..40 {
            let spread = [0, 20, 60][round % 3];
            let mut added: Vec<u64> = (0..rng.below(600)).map(|_| rng.next_u64() >> spread).collect();
            added.extend(model.keys().copied().take(3));
            added.iter().for_each(|hash| *model.entry(*hash).or_default() += 1);
            insert(&lmdb, &mut added);
            let mut txn = lmdb.env.write_txn().unwrap();
            let stored: Vec<u64> = model.keys().copied().collect();
            for _ in 0..rng.below(300) {
                let Some(hash) = stored.get(rng.below(stored.len().max(1))) else { break };
                lmdb.remove_name_hash(&mut txn, *hash).unwrap();
                if let Some(count) = model.get_mut(hash) {
                    *count -= 1;
                    if *count == 0 {
                        model.remove(hash);
                    }
                }
            }
            lmdb.commit(txn).unwrap();
            let txn = lmdb.begin_read().unwrap();
            let (mut previous, mut count) = (None, 0);
            for block in lmdb.databases.name_hashes.iter(&txn).unwrap() {
                let block = block.unwrap();
                count += check_block(block, previous).unwrap();
                previous = Some(block.0);
            }
            assert_eq!(count, model.values().sum::<usize>() as u64, "round {round}");
            for hash in stored.iter().step_by(7).flat_map(|hash| [*hash, hash ^ 1]) {
                assert_eq!(lmdb.has_name_hash(&txn, hash).unwrap(), model.contains_key(&hash), "{hash}");
            }
        }
    }
}
