//! Reads aux entries: buffered writes, on top of the database `aux`.

use std::iter;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use heed::{RoTxn, RwTxn};

use super::Lmdb;
use super::aux_buffer::{AuxBuffer, AuxOverlay, BufferedWrite, BufferedWrites, read_lock};
use super::format::checksum;
use super::read::{AUX_ITEM, RawEntry, entries_from};
use crate::{AuxEntry, StoreError};

/// Buffer that was loaded from the journal. Entries that were appended later are added to it.
#[derive(Debug)]
pub(super) struct LoadedJournal {
    /// Numbers of the first and last entry when all of the journal was loaded.
    first: u64,
    first_end: u64,
    /// Number of the last entry that was loaded.
    last: u64,
    buffer: Arc<AuxBuffer>,
}

impl LoadedJournal {
    /// Whether a later journal, with these first and last entries, continues this one. Entries that were removed meanwhile are in
    /// `aux`, and later ones supersede them, so they may stay in the buffer; when all of the first ones are removed, it is loaded
    /// again, so that it does not grow.
    fn is_continued_by(&self, (first, last): (u64, u64)) -> bool {
        (self.first..=self.first_end).contains(&first) && self.last <= last
    }
}

impl Lmdb {
    /// Reads an aux entry.
    pub(crate) fn read_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        let (txn, buffered) = match &self.aux_overlay {
            AuxOverlay::Writer(buffer) => {
                let buffered = read_lock(buffer).get(key).cloned();
                // Begun afterwards, so that a write that has left the buffer is in `aux`.
                (self.begin_read()?, buffered)
            }
            AuxOverlay::Reader(loaded) => {
                let txn = self.begin_read()?;
                let buffered = self.journaled(&txn, loaded)?.get(key).cloned();
                (txn, buffered)
            }
        };
        match buffered {
            Some(BufferedWrite::Put(value)) => Ok(Some(value)),
            Some(BufferedWrite::Remove) => Ok(None),
            Some(BufferedWrite::Direct) | None => Ok(self.merged_aux(&txn, key)?.map(Into::into)),
        }
    }

    /// Lists aux entries, see [`Store::list_aux`](crate::Store::list_aux).
    pub(crate) fn list_aux(
        &self,
        key_prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<AuxEntry>, StoreError> {
        let from = match after {
            Some(after) if after >= key_prefix && !after.is_empty() => Bound::Excluded(after),
            _ if key_prefix.is_empty() => Bound::Unbounded,
            _ => Bound::Included(key_prefix),
        };
        match &self.aux_overlay {
            AuxOverlay::Writer(buffer) => {
                // Copied, so that no commit waits for the disk here.
                let writes = read_lock(buffer).copy_range(from, key_prefix, limit);
                let writes = writes.iter().map(|(key, write)| (&**key, write));
                // Begun afterwards, so that a write that has left the buffer is in `aux`.
                self.list_buffered_aux(&*self.begin_read()?, writes, from, key_prefix, limit)
            }
            AuxOverlay::Reader(loaded) => {
                let txn = self.begin_read()?;
                let buffer = self.journaled(&txn, loaded)?;
                self.list_buffered_aux(&txn, buffer.range(from), from, key_prefix, limit)
            }
        }
    }

    fn list_buffered_aux<'a>(
        &self,
        txn: &'a RoTxn<'_>,
        buffered: impl Iterator<Item = (&'a [u8], &'a BufferedWrite)>,
        from: Bound<&'a [u8]>,
        key_prefix: &[u8],
        limit: usize,
    ) -> Result<Vec<AuxEntry>, StoreError> {
        let buffered = buffered.filter_map(|(key, write)| match write {
            BufferedWrite::Put(value) => Some((key, ListedValue::Buffered(value))),
            BufferedWrite::Remove => Some((key, ListedValue::Removed)),
            BufferedWrite::Direct => None,
        });
        let merged = entries_from(self.databases.aux, txn, from, "listing aux entries")?;
        let merged = merged.map(|entry: Result<RawEntry<'_>, StoreError>| match entry {
            Ok((key, value)) => (key, ListedValue::Merged(value)),
            // Before all others.
            Err(error) => (&[][..], ListedValue::Failed(error)),
        });
        let mut entries = Vec::new();
        for (key, value) in merge_ordered(buffered, merged) {
            if let ListedValue::Failed(error) = value {
                return Err(error);
            }
            if entries.len() == limit || !key.starts_with(key_prefix) {
                break;
            }
            let value = match value {
                ListedValue::Buffered(value) => value,
                ListedValue::Merged(value) => checksum::verify_and_strip(key, value, AUX_ITEM)?,
                ListedValue::Removed | ListedValue::Failed(_) => continue,
            };
            entries.push(AuxEntry { key: key.into(), value: value.into() });
        }
        Ok(entries)
    }

    /// Buffered writes as of a transaction, from the journal.
    fn journaled(
        &self,
        txn: &RoTxn<'_>,
        loaded: &Mutex<Option<LoadedJournal>>,
    ) -> Result<Arc<AuxBuffer>, StoreError> {
        let Some((first, last)) = self.journal_range(txn)? else { return Ok(Arc::default()) };
        let mut loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = loaded.as_mut().filter(|loaded| loaded.is_continued_by((first, last))) {
            if loaded.last < last {
                let buffer = Arc::make_mut(&mut loaded.buffer);
                self.load_entries(txn, Bound::Excluded(&loaded.last.to_be_bytes()), buffer)?;
                loaded.last = last;
            }
            return Ok(Arc::clone(&loaded.buffer));
        }
        let buffer = Arc::new(self.load_journal(txn)?);
        *loaded = Some(LoadedJournal { first, first_end: last, last, buffer: Arc::clone(&buffer) });
        Ok(buffer)
    }

    /// Reads an aux entry inside a write transaction, whose own writes are given.
    pub(crate) fn read_aux_in_write<'a>(
        &self,
        txn: &'a RwTxn<'_>,
        writes: &'a BufferedWrites,
        buffer: &'a AuxBuffer,
        key: &[u8],
    ) -> Result<Option<&'a [u8]>, StoreError> {
        match writes.get(key).or_else(|| buffer.get(key)) {
            Some(BufferedWrite::Put(value)) => Ok(Some(value)),
            Some(BufferedWrite::Remove) => Ok(None),
            Some(BufferedWrite::Direct) | None => self.merged_aux(txn, key),
        }
    }
}

/// Value of a listed entry.
enum ListedValue<'a> {
    Buffered(&'a [u8]),
    /// In `aux`, with its checksum, which is verified only if the entry is returned.
    Merged(&'a [u8]),
    Removed,
    /// The next entry cannot be read.
    Failed(StoreError),
}

/// Merges two iterators in key order; of equal keys, the item of the first one remains.
pub(super) fn merge_ordered<'a, V>(
    first: impl Iterator<Item = (&'a [u8], V)>,
    second: impl Iterator<Item = (&'a [u8], V)>,
) -> impl Iterator<Item = (&'a [u8], V)> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    iter::from_fn(move || {
        let order = match (first.peek(), second.peek()) {
            (Some((left, _)), Some((right, _))) => left.cmp(right),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, _) => std::cmp::Ordering::Greater,
        };
        if order.is_eq() {
            second.next();
        }
        if order.is_le() { first.next() } else { second.next() }
    })
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_testing::ram_dir;

    use super::*;
    use crate::{ChangeSet, Edit, EmbeddedStore, Store as _};

    /// A corrupt entry does not affect lists that do not return it.
    #[test]
    fn lists_verify_what_they_return() {
        let directory = ram_dir();
        let store = EmbeddedStore::open(directory.path()).unwrap();
        let mut txn = store.lmdb.env.write_txn().unwrap();
        store.lmdb.write_aux(&mut txn, b"a", Some(b"1")).unwrap();
        store.lmdb.databases.aux.put(&mut txn, b"b", b"damaged").unwrap();
        store.lmdb.commit(txn).unwrap();
        let edits = vec![Edit::PutAux { key: b"aa"[..].into(), value: b"2"[..].into() }];
        block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits })).unwrap();
        let keys = |limit| {
            let listed = store.lmdb.list_aux(b"", None, limit);
            listed.map(|entries| entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>())
        };
        let expected: Vec<Box<[u8]>> = [&b"a"[..], b"aa"].map(Into::into).into();
        assert_eq!((keys(1).unwrap(), keys(2).unwrap()), (expected[..1].to_vec(), expected));
        assert!(matches!(keys(3), Err(StoreError::Corrupt { .. })));
    }
}
