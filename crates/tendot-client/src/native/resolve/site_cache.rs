//! Cache of the sites that serve a prefix.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tendot_proto::Handle;
use tendot_proto::record::Site;

/// Cache of the sites that serve a prefix, limited by their TTL.
#[derive(Debug)]
pub(super) struct SiteCache {
    entries: Cache<Box<[u8]>, CachedSites, SiteWeighter>,
}

/// Cached sites of one prefix.
#[derive(Clone, Debug)]
struct CachedSites {
    sites: Arc<[Arc<Site<'static>>]>,
    /// Unix time in seconds.
    expires_at: u64,
    /// Approximate size in bytes.
    weight: u64,
}

/// Approximate size of a cache entry in bytes.
#[derive(Clone, Debug)]
struct SiteWeighter;

impl Weighter<Box<[u8]>, CachedSites> for SiteWeighter {
    fn weight(&self, key: &Box<[u8]>, cached: &CachedSites) -> u64 {
        key.len() as u64 + cached.weight
    }
}

impl SiteCache {
    const CACHE_BYTES: u64 = 8 << 20;

    /// Upper limit of the TTL of sites.
    const MAX_TTL: Duration = Duration::from_secs(86_400);

    pub(super) fn new() -> Self {
        Self { entries: Cache::with_weighter(1_024, Self::CACHE_BYTES, SiteWeighter) }
    }

    /// Caches the sites of a prefix handle until `expires_at`, but not longer than [`MAX_TTL`](Self::MAX_TTL).
    pub(super) fn insert(&self, prefix: &[u8], sites: Vec<Arc<Site<'static>>>, expires_at: u64, now: u64) {
        let weight = sites.iter().map(|site| site.to_bytes().len() as u64 * 2 + 256).sum();
        let expires_at = expires_at.min(now.saturating_add(Self::MAX_TTL.as_secs()));
        self.entries.insert(cache_key(prefix), CachedSites { sites: sites.into(), expires_at, weight });
    }

    /// Sites of a prefix handle, unless they have expired.
    pub(super) fn get(&self, prefix: &[u8], now: u64) -> Option<Vec<Arc<Site<'static>>>> {
        let cached = self.entries.get(&cache_key(prefix)).filter(|cached| now < cached.expires_at)?;
        Some(cached.sites.to_vec())
    }

    pub(super) fn remove(&self, prefix: &[u8]) {
        self.entries.remove(&cache_key(prefix));
    }
}

fn cache_key(prefix: &[u8]) -> Box<[u8]> {
    Handle::new(prefix).canonical().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_expire() {
        let sites = SiteCache::new();
        sites.insert(b"0.NA/10.1000", vec![Arc::default()], 200, 100);
        assert_eq!(sites.get(b"0.na/10.1000", 199).map(|sites| sites.len()), Some(1));
        assert_eq!(sites.get(b"0.NA/10.1000", 200), None);
        assert_eq!(sites.get(b"0.NA/10.2000", 100), None);
        sites.insert(b"0.NA/10.1000", vec![Arc::default()], u64::MAX, 100);
        assert!(sites.get(b"0.NA/10.1000", 100 + SiteCache::MAX_TTL.as_secs() - 1).is_some());
        assert!(sites.get(b"0.NA/10.1000", 100 + SiteCache::MAX_TTL.as_secs()).is_none());
        sites.remove(b"0.na/10.1000");
        assert_eq!(sites.get(b"0.NA/10.1000", 100), None);
    }

    #[test]
    fn memory_is_bounded() {
        let sites = SiteCache::new();
        let large = Site { hash_filter: vec![0; 100_000].into(), ..Site::default() };
        for number in 0..1_000_u32 {
            sites.insert(&number.to_be_bytes(), vec![Arc::new(large.clone())], u64::MAX, 0);
        }
        assert!(sites.entries.weight() <= SiteCache::CACHE_BYTES);
    }
}
