//! Write buffer of small aux entries: see `docs/background/storage-format.md`.
//!
//! Keys of aux entries are often hashes. Written to `aux` one by one, each of them changes a page of its own, which costs several
//! times as much as the record it belongs to. So a transaction appends its small aux entries to a journal, and they stay in memory;
//! later transactions merge them into `aux`, many at a time and in key order. Reads look into the buffer before `aux`.
//!
//! The buffer has two generations: one is filled while the other one is merged. After a restart it is loaded from the journal.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use heed::{PutFlags, RoTxn, RwTxn};

use super::aux_read::{LoadedJournal, merge_ordered};
use super::format::checksum;
use super::read::entries_from;
use super::{Lmdb, backend_error};
use crate::StoreError;
use crate::model::varint;

/// Maximum size of a buffered value; larger ones are written to `aux` directly.
const MAX_BUFFERED_VALUE_BYTES: usize = 512;

/// Memory of a generation from which on it is merged, in bytes; see [`memory_size`].
const MAX_GENERATION_BYTES: usize = if cfg!(any(test, feature = "fail-points")) { 6_000 } else { 12 << 20 };

/// Size from which on a journal entry gets no further write, in bytes. An entry is small enough to stay inside a page.
const MAX_JOURNAL_ENTRY_BYTES: usize = 800;

/// Minimum number of writes that a transaction merges; otherwise twice as many as it adds, so that the older generation is
/// merged before the newer one is full.
const MIN_MERGED_WRITES: usize = 64;

/// Maximum number of journal entries that a transaction removes.
const MAX_REMOVED_JOURNAL_ENTRIES: u64 = 1_024;

/// Name of a journal entry in error messages.
pub(crate) const JOURNAL_ITEM: &str = "journal entry";

/// Buffered write of an aux entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum BufferedWrite {
    /// New value.
    Put(Box<[u8]>),
    /// The entry is removed.
    Remove,
    /// The entry is in `aux`, because its value is large; supersedes earlier writes.
    Direct,
}

/// Buffered writes by key.
pub(crate) type BufferedWrites = BTreeMap<Box<[u8]>, BufferedWrite>;

/// Memory of a buffered write, in bytes.
fn memory_size(key: &[u8], write: &BufferedWrite) -> usize {
    const OVERHEAD_BYTES: usize = 64;
    let value = if let BufferedWrite::Put(value) = write { value.len() } else { 0 };
    OVERHEAD_BYTES + key.len() + value
}

/// Buffered writes of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuxBuffer {
    /// Generation that is being filled.
    newer: BufferedWrites,
    newer_bytes: usize,
    /// Generation that is being merged.
    older: BufferedWrites,
}

impl AuxBuffer {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&BufferedWrite> {
        self.newer.get(key).or_else(|| self.older.get(key))
    }

    fn extend(&mut self, writes: BufferedWrites) {
        for (key, write) in writes {
            self.newer_bytes += memory_size(&key, &write);
            self.newer.insert(key, write);
        }
    }

    /// Buffered writes from a key on, in key order.
    pub(super) fn range<'a>(
        &'a self,
        from: Bound<&[u8]>,
    ) -> impl Iterator<Item = (&'a [u8], &'a BufferedWrite)> {
        let range = |writes: &'a BufferedWrites| {
            writes.range::<[u8], _>((from, Bound::Unbounded)).map(|(key, write)| (&**key, write))
        };
        merge_ordered(range(&self.newer), range(&self.older))
    }

    /// Copies the writes that a list needs: up to the last of `limit` values under a prefix.
    pub(super) fn copy_range(&self, from: Bound<&[u8]>, key_prefix: &[u8], limit: usize) -> BufferedWrites {
        let (mut copied, mut values) = (BufferedWrites::new(), 0);
        for (key, write) in self.range(from) {
            if values == limit || !key.starts_with(key_prefix) {
                break;
            }
            values += usize::from(matches!(write, BufferedWrite::Put(_)));
            copied.insert(key.into(), write.clone());
        }
        copied
    }

    /// All buffered writes, in key order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (&[u8], &BufferedWrite)> {
        self.range(Bound::Unbounded)
    }
}

/// Where an environment has its buffered writes.
#[derive(Debug)]
pub(crate) enum AuxOverlay {
    /// In memory: this process writes the store.
    Writer(RwLock<AuxBuffer>),
    /// In the journal, which another process writes; with the buffer that was loaded last.
    Reader(Mutex<Option<LoadedJournal>>),
}

/// Bits of a journal key below the number of the transaction in which an empty journal was begun. No transaction appends as many
/// entries, so numbers never occur again.
const TRANSACTION_SHIFT: u32 = 20;

impl AuxOverlay {
    pub(crate) fn reader() -> Self {
        Self::Reader(Mutex::default())
    }
}

impl Lmdb {
    /// Starts buffering: loads what an earlier process has left.
    pub(crate) fn start_buffering(&mut self) -> Result<(), StoreError> {
        let buffer = self.load_journal(&*self.begin_read()?)?;
        self.aux_overlay = AuxOverlay::Writer(RwLock::new(buffer));
        Ok(())
    }

    /// Numbers of the first and last entry of the journal, if it is not empty.
    pub(super) fn journal_range(&self, txn: &RoTxn<'_>) -> Result<Option<(u64, u64)>, StoreError> {
        let journal = self.databases.aux_journal;
        let bounds = journal.first(txn).and_then(|first| Ok(first.zip(journal.last(txn)?)));
        let bounds = bounds.map_err(|error| backend_error("reading the journal of aux entries", error))?;
        let number = |key: &[u8]| {
            let key = key.try_into().map_err(|_| checksum::corrupt(key, JOURNAL_ITEM, "invalid key"));
            key.map(u64::from_be_bytes)
        };
        bounds.map(|((first, _), (last, _))| Ok((number(first)?, number(last)?))).transpose()
    }

    /// Loads all buffered writes from the journal.
    pub(crate) fn load_journal(&self, txn: &RoTxn<'_>) -> Result<AuxBuffer, StoreError> {
        let mut buffer = AuxBuffer::default();
        self.load_entries(txn, Bound::Unbounded, &mut buffer)?;
        Ok(buffer)
    }

    /// Adds the writes of journal entries to a buffer.
    pub(super) fn load_entries(
        &self,
        txn: &RoTxn<'_>,
        from: Bound<&[u8]>,
        buffer: &mut AuxBuffer,
    ) -> Result<(), StoreError> {
        let operation = "reading the journal of aux entries";
        for entry in entries_from(self.databases.aux_journal, txn, from, operation)? {
            let (key, value) = entry?;
            let body = checksum::verify_and_strip(key, value, JOURNAL_ITEM)?;
            let writes = decode_writes(body);
            buffer.extend(writes.ok_or_else(|| checksum::corrupt(key, JOURNAL_ITEM, "cannot be decoded"))?);
        }
        Ok(())
    }

    /// Merges all buffered writes, so that `aux` alone has all entries.
    pub(crate) fn merge_buffered(&self) -> Result<(), StoreError> {
        let AuxOverlay::Writer(buffer) = &self.aux_overlay else { return Ok(()) };
        let write_error = |error| backend_error("merging aux entries", error);
        let writes = std::mem::take(&mut *write_lock(buffer));
        let mut remaining = writes.writes().peekable();
        while remaining.peek().is_some() {
            const WRITES_PER_TRANSACTION: usize = 8_192;
            let mut txn = self.env.write_txn().map_err(write_error)?;
            for (key, write) in remaining.by_ref().take(WRITES_PER_TRANSACTION) {
                self.merge_write(&mut txn, key, write).map_err(write_error)?;
            }
            if remaining.peek().is_none() {
                self.databases.aux_journal.clear(&mut txn).map_err(write_error)?;
            }
            self.commit(txn).map_err(write_error)?;
        }
        Ok(())
    }

    fn merge_write(&self, txn: &mut RwTxn<'_>, key: &[u8], write: &BufferedWrite) -> Result<(), heed::Error> {
        match write {
            BufferedWrite::Put(value) => self.write_aux(txn, key, Some(value)),
            BufferedWrite::Remove => self.write_aux(txn, key, None),
            BufferedWrite::Direct => Ok(()),
        }
    }

    /// Locks the buffer of the writing process for reading.
    pub(crate) fn aux_buffer(&self) -> Option<RwLockReadGuard<'_, AuxBuffer>> {
        match &self.aux_overlay {
            AuxOverlay::Writer(buffer) => Some(read_lock(buffer)),
            AuxOverlay::Reader(_) => None,
        }
    }
}

/// Writer's state of the journal. A copy is changed with a transaction, and kept if that was committed.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuxJournal {
    /// Keys of the first entry and of the next one.
    first: u64,
    next: u64,
    /// Entries before this one are of the older generation, or obsolete.
    older_end: u64,
    /// Entries before this one are merged and can be removed.
    obsolete_end: u64,
    /// Last key of the older generation that is merged.
    merged_to: Option<Box<[u8]>>,
    /// Whether all of the older generation is merged.
    is_merged: bool,
}

impl AuxJournal {
    pub(crate) fn load(lmdb: &Lmdb, txn: &RoTxn<'_>) -> Result<Self, StoreError> {
        let (first, next) = match lmdb.journal_range(txn)? {
            Some((first, last)) => (first, last + 1),
            // Other processes know entries by their numbers, so those of an earlier journal must not be used again.
            None => {
                let number = (txn.id() as u64 + 1) << TRANSACTION_SHIFT;
                (number, number)
            }
        };
        Ok(Self { first, next, ..Self::default() })
    }

    /// Appends the writes of a transaction, and merges earlier ones.
    pub(crate) fn write(
        &mut self,
        lmdb: &Lmdb,
        txn: &mut RwTxn<'_>,
        writes: &BufferedWrites,
    ) -> Result<(), heed::Error> {
        for body in encode_writes(writes) {
            let key = self.next.to_be_bytes();
            let value = checksum::with_checksum(&key, &body);
            lmdb.databases.aux_journal.put_with_flags(txn, PutFlags::APPEND, &key, &value)?;
            self.next += 1;
        }
        self.merge(lmdb, txn, writes)?;
        let obsolete = self.obsolete_end.saturating_sub(self.first);
        for _ in 0..obsolete.min(MAX_REMOVED_JOURNAL_ENTRIES) {
            lmdb.databases.aux_journal.delete(txn, &self.first.to_be_bytes())?;
            self.first += 1;
        }
        Ok(())
    }

    /// Merges some writes of the older generation.
    fn merge(
        &mut self,
        lmdb: &Lmdb,
        txn: &mut RwTxn<'_>,
        writes: &BufferedWrites,
    ) -> Result<(), heed::Error> {
        let Some(buffer) = lmdb.aux_buffer().filter(|buffer| !buffer.older.is_empty()) else { return Ok(()) };
        let from = self.merged_to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut remaining = buffer.older.range::<[u8], _>((from, Bound::Unbounded));
        let mut last = None;
        for (key, write) in remaining.by_ref().take(MIN_MERGED_WRITES.max(2 * writes.len())) {
            // A later write may be in `aux` already.
            if !writes.contains_key(key) && !buffer.newer.contains_key(key) {
                lmdb.merge_write(txn, key, write)?;
            }
            last = Some(key);
        }
        if remaining.next().is_none() {
            self.is_merged = true;
            self.obsolete_end = self.older_end;
        }
        self.merged_to = last.cloned().or(self.merged_to.take());
        Ok(())
    }

    /// Makes committed writes visible to readers.
    pub(crate) fn publish(&mut self, lmdb: &Lmdb, writes: BufferedWrites) {
        let AuxOverlay::Writer(buffer) = &lmdb.aux_overlay else { return };
        let mut buffer = write_lock(buffer);
        buffer.extend(writes);
        let merged = if std::mem::take(&mut self.is_merged) {
            self.merged_to = None;
            std::mem::take(&mut buffer.older)
        } else {
            BufferedWrites::new()
        };
        if buffer.older.is_empty() && buffer.newer_bytes >= MAX_GENERATION_BYTES {
            buffer.older = std::mem::take(&mut buffer.newer);
            buffer.newer_bytes = 0;
            self.older_end = self.next;
        }
        drop(buffer);
        // Takes some time.
        drop(merged);
    }
}

/// Adds a write of a transaction. A large value is written to `aux` by the caller.
pub(crate) fn add_write(writes: &mut BufferedWrites, key: Box<[u8]>, value: Option<Box<[u8]>>) {
    let write = match value {
        Some(value) if is_large(&value) => BufferedWrite::Direct,
        Some(value) => BufferedWrite::Put(value),
        None => BufferedWrite::Remove,
    };
    writes.insert(key, write);
}

/// Whether a value is too large for the buffer.
pub(crate) const fn is_large(value: &[u8]) -> bool {
    value.len() > MAX_BUFFERED_VALUE_BYTES
}

/// Encodes writes as journal entries.
fn encode_writes(writes: &BufferedWrites) -> impl Iterator<Item = Vec<u8>> {
    let mut remaining = writes.iter().peekable();
    iter::from_fn(move || {
        remaining.peek()?;
        let mut body = Vec::with_capacity(2 * MAX_JOURNAL_ENTRY_BYTES);
        while body.len() < MAX_JOURNAL_ENTRY_BYTES
            && let Some((key, write)) = remaining.next()
        {
            varint::write_bytes(&mut body, key);
            match write {
                BufferedWrite::Remove => body.push(0),
                BufferedWrite::Direct => body.push(1),
                BufferedWrite::Put(value) => {
                    body.push(2);
                    varint::write_bytes(&mut body, value);
                }
            }
        }
        Some(body)
    })
}

/// Decodes a journal entry; `None` if it is invalid.
pub(crate) fn decode_writes(mut body: &[u8]) -> Option<BufferedWrites> {
    let mut writes = BufferedWrites::new();
    while !body.is_empty() {
        let key = varint::read_bytes(&mut body)?;
        let (kind, rest) = body.split_first()?;
        body = rest;
        let write = match kind {
            0 => BufferedWrite::Remove,
            1 => BufferedWrite::Direct,
            2 => BufferedWrite::Put(varint::read_bytes(&mut body)?.into()),
            _ => return None,
        };
        writes.insert(key.into(), write);
    }
    Some(writes)
}

pub(super) fn read_lock(buffer: &RwLock<AuxBuffer>) -> RwLockReadGuard<'_, AuxBuffer> {
    buffer.read().unwrap_or_else(PoisonError::into_inner)
}

fn write_lock(buffer: &RwLock<AuxBuffer>) -> RwLockWriteGuard<'_, AuxBuffer> {
    buffer.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_testing::{SeededRng, ram_dir, test_seed};

    use super::*;
    use crate::embedded::lmdb::environment::{Databases, open_read_only_fallback};
    use crate::{ChangeSet, CommitError, Edit, EmbeddedStore, Store as _};

    fn commit(store: &EmbeddedStore, edits: Vec<Edit>) -> Result<(), CommitError> {
        let change = ChangeSet { author: "test".into(), timestamp_ms: 0, edits };
        block_on(store.commit(change)).map(drop)
    }

    /// Random writes of small and large values are read back by the writer, by another reader, after a restart, and when all of
    /// them are merged; several generations are merged meanwhile.
    #[test]
    fn buffered_entries_are_read_as_written() {
        let rng = &mut SeededRng::new(test_seed());
        let directory = ram_dir();
        let mut store = EmbeddedStore::open(directory.path()).unwrap();
        let reader = reader(&store);
        let mut expected = BTreeMap::<Box<[u8]>, Box<[u8]>>::new();
        for round in 0..250 {
            let mut edits = Vec::new();
            for _ in 0..rng.below(12) {
                let key: Box<[u8]> = format!("{}/{:03}", rng.below(2), rng.below(250)).into_bytes().into();
                edits.push(Edit::RequireAux { key: key.clone(), value: expected.get(&key).cloned() });
                if rng.below(4) == 0 {
                    expected.remove(&key);
                    edits.push(Edit::RemoveAux { key });
                    continue;
                }
                let length = if rng.below(8) == 0 { 2_000 } else { rng.below(60) };
                let value: Box<[u8]> = vec![round; length].into();
                expected.insert(key.clone(), value.clone());
                edits.push(Edit::PutAux { key, value });
            }
            commit(&store, edits).unwrap();
            if rng.below(50) == 0 {
                drop(store);
                store = EmbeddedStore::open(directory.path()).unwrap();
            }
            if rng.below(10) == 0 {
                check(&store.lmdb, &expected);
                check(&reader, &expected);
                let report = store.verify(|_| {}).unwrap();
                assert_eq!((report.aux_entries, report.errors), (expected.len() as u64, Vec::new()));
            }
        }
        let outdated = Edit::RequireAux { key: b"0/000"[..].into(), value: Some(b"never"[..].into()) };
        assert!(matches!(commit(&store, vec![outdated]), Err(CommitError::AuxConflict { .. })));
        drop(store);
        let target = EmbeddedStore::open_target(directory.path()).unwrap();
        drop(target);
        let store = EmbeddedStore::open(directory.path()).unwrap();
        check(&store.lmdb, &expected);
        let txn = store.lmdb.begin_read().unwrap();
        assert_eq!(store.lmdb.databases.aux_journal.len(&txn).unwrap(), 0);
        assert_eq!(store.lmdb.databases.aux.len(&txn).unwrap(), expected.len() as u64);
    }

    /// Reads the store as another process does.
    fn reader(store: &EmbeddedStore) -> Lmdb {
        let transaction = store.lmdb.begin_read().unwrap().id() as u64;
        let env = open_read_only_fallback(store.lmdb.env.path(), transaction).unwrap();
        let databases = Databases::open(&env).unwrap().unwrap();
        Lmdb::new(env, databases)
    }

    fn put(key: &str, value: &str) -> Edit {
        Edit::PutAux { key: key.as_bytes().into(), value: value.as_bytes().into() }
    }

    /// Another process reads each journal entry once, even when the journal was empty between two of its reads.
    #[test]
    fn readers_load_new_journal_entries_only() {
        let directory = ram_dir();
        let store = EmbeddedStore::open(directory.path()).unwrap();
        commit(&store, vec![put("a", "1")]).unwrap();
        let reader = reader(&store);
        let read = |key: &str| reader.read_aux(key.as_bytes()).unwrap().map(|value| value[0]);
        assert_eq!((read("a"), read("b")), (Some(b'1'), None));
        let range = |lmdb: &Lmdb| lmdb.journal_range(&lmdb.begin_read().unwrap()).unwrap().unwrap();
        let first = range(&store.lmdb).0;
        let mut txn = store.lmdb.env.write_txn().unwrap();
        store.lmdb.databases.aux_journal.put(&mut txn, &first.to_be_bytes(), b"damaged").unwrap();
        store.lmdb.commit(txn).unwrap();
        commit(&store, vec![put("b", "2")]).unwrap();
        assert_eq!((read("a"), read("b")), (Some(b'1'), Some(b'2')));
        drop(store);
        assert!(EmbeddedStore::open(directory.path()).is_err(), "the damaged entry is read");

        let other = ram_dir();
        let store = EmbeddedStore::open(other.path()).unwrap();
        commit(&store, vec![put("a", "1")]).unwrap();
        let reader = self::reader(&store);
        assert_eq!(reader.read_aux(b"a").unwrap().as_deref(), Some(&b"1"[..]));
        let before = range(&store.lmdb).1;
        drop(store);
        // Merges everything.
        drop(EmbeddedStore::open_target(other.path()).unwrap());
        let store = EmbeddedStore::open(other.path()).unwrap();
        commit(&store, vec![put("a", "2")]).unwrap();
        assert!(range(&store.lmdb).0 > before, "numbers do not occur again");
        assert_eq!(reader.read_aux(b"a").unwrap().as_deref(), Some(&b"2"[..]));
    }

    #[track_caller]
    fn check(lmdb: &Lmdb, expected: &BTreeMap<Box<[u8]>, Box<[u8]>>) {
        let listed = |prefix: &str, after: Option<&[u8]>, limit| {
            let listed = lmdb.list_aux(prefix.as_bytes(), after, limit).unwrap();
            listed.into_iter().map(|entry| (entry.key, entry.value)).collect::<Vec<_>>()
        };
        let all: Vec<_> = expected.clone().into_iter().collect();
        assert_eq!(listed("", None, 1_000), all);
        let ones: Vec<_> = all.iter().filter(|(key, _)| key.starts_with(b"1/")).cloned().collect();
        assert_eq!(listed("1/", None, 7), ones[..ones.len().min(7)]);
        if let Some((third, _)) = ones.get(2) {
            assert_eq!(listed("1/", Some(third), 1_000), ones[3..]);
        }
        for number in 0..250 {
            let key = format!("0/{number:03}").into_bytes();
            assert_eq!(lmdb.read_aux(&key).unwrap().as_ref(), expected.get(&*key), "{number}");
        }
    }

    #[test]
    fn invalid_journal_entries() {
        let put = BufferedWrite::Put(b"value"[..].into());
        let writes = [(b"a", put), (b"b", BufferedWrite::Remove), (b"c", BufferedWrite::Direct)];
        let writes: BufferedWrites = writes.map(|(key, write)| (key[..].into(), write)).into();
        let bodies: Vec<_> = encode_writes(&writes).collect();
        assert_eq!(bodies.len(), 1);
        assert_eq!(decode_writes(&bodies[0]), Some(writes));
        assert_eq!(decode_writes(&bodies[0][..bodies[0].len() - 1]), None);
        assert_eq!(decode_writes(b"\x01a\x03"), None);
        assert_eq!(decode_writes(b""), Some(BufferedWrites::new()));
    }
}
