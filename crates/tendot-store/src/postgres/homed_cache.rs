//! Cache of homed prefixes: every resolution needs one, and they rarely change.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Maximum number of cached prefixes.
const MAX_CACHED_PREFIXES: usize = 1 << 14;

/// Cache of homed-prefix lookups, valid for one version of the prefix counter.
#[derive(Debug, Default)]
pub(crate) struct HomedCache(Mutex<HomedCacheEntries>);

/// Entries of the cache and the version they are valid for.
#[derive(Debug, Default)]
struct HomedCacheEntries {
    /// Version of the prefix counter for which the entries are valid.
    version: u64,
    results: HashMap<Box<[u8]>, bool>,
}

impl HomedCache {
    pub(crate) fn get(&self, version: Option<u64>, prefix: &[u8]) -> Option<bool> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.results.get(prefix).copied().filter(|_| version == Some(entries.version))
    }

    /// Inserts a result; `version` was sampled before the read.
    pub(crate) fn insert(&self, version: Option<u64>, prefix: Vec<u8>, is_homed: bool) {
        let Some(version) = version else { return };
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.version != version || entries.results.len() >= MAX_CACHED_PREFIXES {
            *entries = HomedCacheEntries { version, results: HashMap::new() };
        }
        entries.results.insert(prefix.into(), is_homed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_expire_with_version() {
        let cache = HomedCache::default();
        cache.insert(Some(2), b"10.1".to_vec(), true);
        cache.insert(None, b"10.2".to_vec(), true);
        assert_eq!(cache.get(Some(2), b"10.1"), Some(true));
        assert_eq!(cache.get(Some(2), b"10.2"), None);
        assert_eq!(cache.get(Some(4), b"10.1"), None);
        assert_eq!(cache.get(None, b"10.1"), None);
        cache.insert(Some(4), b"10.2".to_vec(), false);
        assert_eq!((cache.get(Some(4), b"10.1"), cache.get(Some(4), b"10.2")), (None, Some(false)));
    }
}
