//! Response cache of both protocols, for replies that are identical for all clients while one record is unchanged.
//!
//! Most requests are for few names. Their whole response is cached with the version of the requested name, sampled before the
//! record was read; it is valid while the name keeps that version. The version also changes with every write under `0.NA` and
//! when a prefix is homed or unhomed, so it covers the records of prefixes.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};
use tendot_registry::Registry;
use tendot_store::{NameKey, RecordVersion};

use crate::resolution_stats::{CounterKey, ResolutionCounter};

/// Default size of a response cache.
pub(crate) const DEFAULT_RESPONSE_CACHE_BYTES: usize = 16 << 20;

/// Expected size of an entry, which decides how many the tables are made for.
const EXPECTED_ENTRY_BYTES: usize = 768;

/// Memory of an entry in addition to its key and response: the cache's own, and that of the allocations.
const ENTRY_OVERHEAD_BYTES: usize = 192;

/// Responses `R` by request `K`, each valid while one record keeps its version.
pub(crate) struct ResponseCache<K, R>(Cache<K, Arc<CachedResponse<R>>, ByteWeighter>);

/// Response with the version of its record, and its counter key.
#[derive(Debug)]
pub(crate) struct CachedResponse<R> {
    version: RecordVersion,
    /// Counter key of the name, if it is counted.
    counter_key: Option<CounterKey>,
    pub(crate) response: R,
}

#[derive(Clone, Debug)]
struct ByteWeighter;

impl<K: Deref<Target: AsRef<[u8]>>, R: AsRef<[u8]>> Weighter<K, Arc<CachedResponse<R>>> for ByteWeighter {
    fn weight(&self, key: &K, cached: &Arc<CachedResponse<R>>) -> u64 {
        let bytes = (**key).as_ref().len() + cached.response.as_ref().len();
        (bytes + size_of::<CachedResponse<R>>() + ENTRY_OVERHEAD_BYTES) as u64
    }
}

impl<K: Deref<Target: AsRef<[u8]>> + Eq + Hash, R: AsRef<[u8]>> ResponseCache<K, R> {
    /// Creates a cache of this size.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Cache::with_weighter(bytes / EXPECTED_ENTRY_BYTES, bytes as u64, ByteWeighter))
    }

    /// Cached response to a request, if its record is unchanged.
    pub(crate) fn get<Q: Equivalent<K> + Hash + ?Sized>(
        &self,
        registry: &Registry,
        request: &Q,
    ) -> Option<Arc<CachedResponse<R>>> {
        let cached = self.0.get(request)?;
        registry.change_counters()?.is_current(cached.version).then_some(cached)
    }

    /// Caches a response that was made from a stored record at this version.
    pub(crate) async fn insert(
        &self,
        registry: &Registry,
        resolution_counter: Option<&ResolutionCounter>,
        (name, version): (NameKey, RecordVersion),
        request: K,
        response: R,
    ) {
        let counter_key = match resolution_counter {
            Some(resolution_counter) => resolution_counter.key_for(registry, &name).await,
            None => None,
        };
        self.0.insert(request, Arc::new(CachedResponse { version, counter_key, response }));
    }
}

impl<R> CachedResponse<R> {
    /// Counts the resolution that this response is sent for.
    pub(crate) fn count(&self, resolution_counter: Option<&ResolutionCounter>) {
        if let (Some(resolution_counter), Some(counter_key)) = (resolution_counter, self.counter_key) {
            resolution_counter.count_key(counter_key);
        }
    }
}

/// Current version of a name's record, for [`ResponseCache::insert`]; to be called before the record is read.
pub(crate) fn record_version(registry: &Registry, name: &NameKey) -> Option<RecordVersion> {
    registry.change_counters()?.version_of(name)
}

impl<K, R> fmt::Debug for ResponseCache<K, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ResponseCache")
    }
}
