//! Answers that are kept: until their time is over, and for a while after that in case nobody answers.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache as Table;
use quick_cache::{OptionsBuilder, Weighter};
use tokio::time::Instant;

use crate::resolver::LookupOutcome;

/// Size and TTL limits of the resolver cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheSettings {
    /// Bytes of all answers.
    pub bytes: u64,
    /// The longest that an answer is kept, whatever its values say.
    pub longest: Duration,
    /// How long it is kept that there is nothing.
    pub nothing: Duration,
    /// How long after its time an answer is still given when nobody else answers.
    pub stale: Duration,
    /// When, after nobody answered, it is tried again (RFC 9520, 3.2).
    pub retry: Duration,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            bytes: 32 << 20,
            longest: Duration::from_secs(86_400),
            nothing: Duration::from_secs(60),
            stale: Duration::from_secs(86_400),
            retry: Duration::from_secs(5),
        }
    }
}

/// Cached result of a lookup, successful or failed.
#[derive(Debug)]
pub(crate) struct CachedLookup<E> {
    pub(crate) outcome: Result<Arc<LookupOutcome>, Arc<E>>,
    /// When its time began, and when it is over.
    pub(crate) since: Instant,
    pub(crate) over: Instant,
    /// When it came, or was tried for in vain.
    pub(crate) heard: Instant,
    /// Before that, nobody is asked again.
    pub(crate) until: Instant,
    /// When it is no longer given even if nobody else answers.
    pub(crate) end: Instant,
}

impl<E> Clone for CachedLookup<E> {
    fn clone(&self) -> Self {
        Self { outcome: self.outcome.clone(), ..*self }
    }
}

/// Cache of lookups by comparison key (upper-case ASCII).
pub(crate) type LookupCache<E> = Table<Box<[u8]>, CachedLookup<E>, LookupWeighter>;

/// Approximate size of a cache entry in bytes.
#[derive(Clone, Debug)]
pub(crate) struct LookupWeighter;

impl<E> Weighter<Box<[u8]>, CachedLookup<E>> for LookupWeighter {
    fn weight(&self, key: &Box<[u8]>, kept: &CachedLookup<E>) -> u64 {
        // An error has a line of text.
        let size = kept.outcome.as_ref().map_or(256, |found| found.memory_size());
        (key.len() + size + 256) as u64
    }
}

/// Bytes of a part of the cache, so that the largest record fits into one.
const SHARD_BYTES: u64 = 4 << 20;

pub(crate) fn new<E>(settings: &CacheSettings) -> LookupCache<E> {
    let options = OptionsBuilder::new()
        .estimated_items_capacity(usize::try_from(settings.bytes / 1_024).unwrap_or(usize::MAX).max(16))
        .weight_capacity(settings.bytes)
        .shards(usize::try_from(settings.bytes / SHARD_BYTES).unwrap_or(usize::MAX).clamp(1, 64))
        .build();
    match options {
        Ok(options) => Table::with_options(options, LookupWeighter, Default::default(), Default::default()),
        Err(_) => Table::with_weighter(16, settings.bytes, LookupWeighter),
    }
}
