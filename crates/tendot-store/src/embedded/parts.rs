//! What records share, by number: see `docs/storage-format.md`.

use std::sync::OnceLock;

/// How many parts there may be.
pub(super) const MAX_ENTRIES: u32 = 200_000;

const CHUNK_ENTRIES: usize = 1024;

/// Lock-free cache of dictionary entries for readers; entries never change.
///
/// They never change, so reading them takes no lock.
#[derive(Debug)]
pub(super) struct DictionaryCache {
    chunks: Box<[OnceLock<CacheChunk>]>,
}

/// Lazily allocated part of the cache.
type CacheChunk = Box<[OnceLock<Part>]>;

/// A part. Most are short, and then they stand in the table itself: nearly every read needs one or two of them that are
/// in no cache, and looks there once instead of twice.
#[derive(Debug)]
enum Part {
    Short(u8, [u8; INLINE_LEN]),
    Long(Box<[u8]>),
}

const INLINE_LEN: usize = 62;

impl Part {
    fn new(bytes: Box<[u8]>) -> Self {
        let mut short = [0; INLINE_LEN];
        match short.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(&bytes);
                Self::Short(bytes.len() as u8, short)
            }
            None => Self::Long(bytes),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(length, bytes) => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
        }
    }
}

impl DictionaryCache {
    pub(super) fn new() -> Self {
        Self {
            chunks: (0..(MAX_ENTRIES as usize).div_ceil(CHUNK_ENTRIES)).map(|_| OnceLock::new()).collect(),
        }
    }

    /// A part; `load` is asked for one that has not been read yet.
    #[inline]
    pub(super) fn get_or_load<E>(
        &self,
        number: u32,
        load: impl FnOnce() -> Result<Option<Box<[u8]>>, E>,
    ) -> Result<Option<&[u8]>, E> {
        let Some(place) = self.slot(number) else { return Ok(None) };
        if let Some(part) = place.get() {
            return Ok(Some(part.bytes()));
        }
        Ok(load()?.map(|part| place.get_or_init(|| Part::new(part)).bytes()))
    }

    fn slot(&self, number: u32) -> Option<&OnceLock<Part>> {
        let number = number as usize;
        let chunk = self.chunks.get(number / CHUNK_ENTRIES)?;
        chunk
            .get_or_init(|| (0..CHUNK_ENTRIES).map(|_| OnceLock::new()).collect())
            .get(number % CHUNK_ENTRIES)
    }
}
