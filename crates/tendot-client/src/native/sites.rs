use std::sync::Arc;
use std::time::Duration;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tendot_proto::Handle;
use tendot_proto::record::Site;

/// Cache of the sites that serve a prefix, limited by their TTL.
#[derive(Debug)]
pub(super) struct SiteCache {
    known: Cache<Box<[u8]>, CachedSites, SiteWeighter>,
}

/// Cached sites of one prefix.
#[derive(Clone, Debug)]
struct CachedSites {
    sites: Arc<[Arc<Site<'static>>]>,
    /// In seconds since 1970.
    until: u64,
    size: u64,
}

/// Approximate size of a cache entry in bytes.
#[derive(Clone, Debug)]
struct SiteWeighter;

impl Weighter<Box<[u8]>, CachedSites> for SiteWeighter {
    fn weight(&self, key: &Box<[u8]>, known: &CachedSites) -> u64 {
        key.len() as u64 + known.size
    }
}

impl SiteCache {
    const CACHE_BYTES: u64 = 8 << 20;

    /// The longest that sites are kept, whatever their records say.
    const MAX_TTL: Duration = Duration::from_secs(86_400);

    pub(super) fn new() -> Self {
        Self { known: Cache::with_weighter(1_024, Self::CACHE_BYTES, SiteWeighter) }
    }

    /// Keeps the sites of a prefix handle.
    pub(super) fn insert(&self, prefix: &[u8], sites: Vec<Arc<Site<'static>>>, until: u64, now: u64) {
        let size = sites.iter().map(|site| site.to_bytes().len() as u64 * 2 + 256).sum();
        let until = until.min(now.saturating_add(Self::MAX_TTL.as_secs()));
        self.known.insert(cache_key(prefix), CachedSites { sites: sites.into(), until, size });
    }

    pub(super) fn get(&self, prefix: &[u8], now: u64) -> Option<Vec<Arc<Site<'static>>>> {
        let known = self.known.get(&cache_key(prefix)).filter(|known| now < known.until)?;
        Some(known.sites.to_vec())
    }

    pub(super) fn remove(&self, prefix: &[u8]) {
        self.known.remove(&cache_key(prefix));
    }
}

fn cache_key(prefix: &[u8]) -> Box<[u8]> {
    Handle::new(prefix).canonical().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_kept_for_their_time() {
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
        assert!(sites.known.weight() <= SiteCache::CACHE_BYTES);
    }
}
