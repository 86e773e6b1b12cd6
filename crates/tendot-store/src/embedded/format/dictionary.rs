//! Dictionary of shared byte strings: interner (writer) and cache (readers). See `docs/background/storage-format.md`.

use std::collections::HashMap;
use std::sync::OnceLock;

use heed::{PutFlags, RoTxn, RwTxn};
use xxhash_rust::xxh3::xxh3_64;

use super::checksum;
use super::record::Intern;
use crate::StoreError;
use crate::embedded::lmdb::environment::Databases;
use crate::embedded::{Lmdb, backend_error};

/// Name of a dictionary entry in error messages.
pub(crate) const ITEM: &str = "dictionary entry";

/// Maximum length of an entry, and minimum length of an interned prefix.
const MAX_ENTRY_LEN: usize = 512;
const MIN_PREFIX_LEN: usize = 8;

/// Entries that every store may have, plus one per this many records: few large deposits cannot exhaust the dictionary.
const BASE_ENTRIES: u64 = 4_096;
const RECORDS_PER_ENTRY: u64 = 8;

/// Maximum total size of the entries, which writer and readers hold in memory.
const MAX_DICTIONARY_BYTES: usize = 16 << 20;

/// Maximum number of prefixes of a URL that are considered.
const MAX_PREFIX_CANDIDATES: usize = 6;

/// Writer's side of the dictionary: finds entries, and adds strings that were seen before.
#[derive(Debug)]
pub(crate) struct Interner {
    /// Ids by content, so hash collisions are harmless.
    ids: HashMap<Box<[u8]>, u32>,
    /// Direct-mapped table of hashes seen once; newer ones overwrite older. A collision only interns a string too early.
    seen_once: Box<[u64]>,
    /// Entries added in the current transaction, which may be rolled back.
    uncommitted: Vec<Box<[u8]>>,
    /// Number of uncommitted entries that have been written to the transaction.
    written: usize,
    /// Current maximum number of entries, and total size of the existing ones.
    max_entries: u32,
    total_bytes: usize,
}

const SEEN_ONCE_SLOTS: usize = 1 << 16;

impl Interner {
    /// Loads all dictionary entries in a transaction of its own.
    pub(crate) fn open(lmdb: &Lmdb) -> Result<Self, StoreError> {
        Self::load(&lmdb.databases, &*lmdb.begin_read()?)
    }

    /// Loads all dictionary entries.
    pub(crate) fn load(databases: &Databases, txn: &RoTxn<'_>) -> Result<Self, StoreError> {
        let read_error = |error| backend_error("reading the dictionary", error);
        let mut ids: HashMap<Box<[u8]>, u32> = HashMap::new();
        for item in databases.dictionary.iter(txn).map_err(read_error)? {
            let (key, value) = item.map_err(read_error)?;
            let entry = checksum::verify_and_strip(key, value, ITEM)?;
            let id = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            // With a gap, new entries would reuse ids that records refer to.
            if *key != id.to_be_bytes() {
                return Err(checksum::corrupt(key, ITEM, "preceding entry missing"));
            }
            ids.insert(entry.into(), id);
        }
        if ids.len() as u64 != databases.dictionary.len(txn).map_err(read_error)? {
            return Err(StoreError::Corrupt { detail: "dictionary: entries missing or duplicated".into() });
        }
        let total_bytes = ids.keys().map(|entry| entry.len()).sum();
        let max_entries = max_entries(databases, txn).map_err(read_error)?;
        Ok(Self {
            ids,
            seen_once: vec![0; SEEN_ONCE_SLOTS].into(),
            uncommitted: Vec::new(),
            written: 0,
            max_entries,
            total_bytes,
        })
    }

    /// Writes new entries into the transaction, before any record that refers to them is read from it.
    pub(crate) fn write_new(
        &mut self,
        databases: &Databases,
        txn: &mut RwTxn<'_>,
    ) -> Result<(), heed::Error> {
        for entry in &self.uncommitted[self.written..] {
            let id = self.ids.get(entry).copied().unwrap_or(u32::MAX).to_be_bytes();
            let value = checksum::with_checksum(&id, entry);
            databases.dictionary.put_with_flags(txn, PutFlags::APPEND, &id, &value)?;
        }
        self.written = self.uncommitted.len();
        self.max_entries = max_entries(databases, txn)?;
        Ok(())
    }

    /// Ends a committed transaction.
    pub(crate) fn commit(&mut self) {
        self.uncommitted.clear();
        self.written = 0;
    }

    /// Removes the entries of a rolled-back transaction.
    pub(crate) fn rollback(&mut self) {
        for entry in self.uncommitted.drain(..) {
            self.ids.remove(&entry);
            self.total_bytes -= entry.len();
        }
        self.written = 0;
    }

    fn insert(&mut self, entry: &[u8]) -> Option<u32> {
        let id = u32::try_from(self.ids.len()).ok().filter(|id| *id < self.max_entries)?;
        if self.total_bytes + entry.len() > MAX_DICTIONARY_BYTES {
            return None;
        }
        self.total_bytes += entry.len();
        self.ids.insert(entry.into(), id);
        self.uncommitted.push(entry.into());
        Some(id)
    }

    /// Whether these bytes were seen before; marks them as seen.
    fn was_seen_before(&mut self, bytes: &[u8]) -> bool {
        let hash = xxh3_64(bytes);
        match self.seen_once.get_mut(hash as usize % SEEN_ONCE_SLOTS) {
            Some(slot) => std::mem::replace(slot, hash) == hash,
            None => false,
        }
    }
}

/// Maximum number of entries for the number of records.
fn max_entries(databases: &Databases, txn: &RoTxn<'_>) -> Result<u32, heed::Error> {
    let records = databases.records.len(txn)?;
    Ok(u32::try_from(BASE_ENTRIES + records / RECORDS_PER_ENTRY)
        .map_or(MAX_ENTRIES, |max_entries| max_entries.min(MAX_ENTRIES)))
}

impl Intern for Interner {
    fn intern(&mut self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > MAX_ENTRY_LEN {
            return None;
        }
        if let Some(id) = self.ids.get(bytes) {
            return Some(*id);
        }
        self.was_seen_before(bytes).then(|| self.insert(bytes)).flatten()
    }

    /// Interns the longest prefix, ending in a slash or an equals sign, that is an entry or was seen before.
    fn intern_prefix(&mut self, bytes: &[u8]) -> Option<(u32, usize)> {
        let window = &bytes[..bytes.len().min(MAX_ENTRY_LEN)];
        let ends = window.iter().enumerate().rev();
        let ends = ends.filter(|(_, byte)| matches!(byte, b'/' | b'=')).map(|(at, _)| at + 1);
        let mut seen = None;
        for end in ends.filter(|end| *end >= MIN_PREFIX_LEN).take(MAX_PREFIX_CANDIDATES) {
            let entry = &window[..end];
            if let Some(id) = self.ids.get(entry) {
                // A longer prefix that was seen before becomes an entry and is preferred.
                return match seen {
                    Some(end) => self.insert(&window[..end]).map(|id| (id, end)),
                    None => Some((*id, end)),
                };
            }
            if self.was_seen_before(entry) && seen.is_none() {
                seen = Some(end);
            }
        }
        let end = seen?;
        Some((self.insert(&window[..end])?, end))
    }
}

/// Maximum number of entries.
pub(crate) const MAX_ENTRIES: u32 = 200_000;

const CHUNK_ENTRIES: usize = 1024;

/// Lock-free cache of dictionary entries for readers; entries never change.
#[derive(Debug)]
pub(crate) struct DictionaryCache {
    chunks: Box<[OnceLock<CacheChunk>]>,
}

/// Lazily allocated part of the cache.
type CacheChunk = Box<[OnceLock<CachedEntry>]>;

/// Dictionary entry; short ones are stored inline to save a cache miss on nearly every read.
#[derive(Debug)]
enum CachedEntry {
    Inline(u8, [u8; INLINE_LEN]),
    Boxed(Box<[u8]>),
}

const INLINE_LEN: usize = 62;

impl CachedEntry {
    fn new(bytes: Box<[u8]>) -> Self {
        let mut inline = [0; INLINE_LEN];
        match inline.get_mut(..bytes.len()) {
            Some(target) => {
                target.copy_from_slice(&bytes);
                Self::Inline(bytes.len() as u8, inline)
            }
            None => Self::Boxed(bytes),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Inline(length, bytes) => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Boxed(bytes) => bytes,
        }
    }
}

impl DictionaryCache {
    pub(crate) fn new() -> Self {
        Self {
            chunks: (0..(MAX_ENTRIES as usize).div_ceil(CHUNK_ENTRIES)).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Returns an entry; `load` reads it on first use.
    #[inline]
    pub(crate) fn get_or_load<E>(
        &self,
        id: u32,
        load: impl FnOnce() -> Result<Option<Box<[u8]>>, E>,
    ) -> Result<Option<&[u8]>, E> {
        let Some(slot) = self.slot(id) else { return Ok(None) };
        if let Some(entry) = slot.get() {
            return Ok(Some(entry.bytes()));
        }
        Ok(load()?.map(|entry| slot.get_or_init(|| CachedEntry::new(entry)).bytes()))
    }

    fn slot(&self, id: u32) -> Option<&OnceLock<CachedEntry>> {
        let index = id as usize;
        let chunk = self.chunks.get(index / CHUNK_ENTRIES)?;
        chunk.get_or_init(|| (0..CHUNK_ENTRIES).map(|_| OnceLock::new()).collect()).get(index % CHUNK_ENTRIES)
    }
}
