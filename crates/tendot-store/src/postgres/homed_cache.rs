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
    answers: HashMap<Box<[u8]>, bool>,
}

impl HomedCache {
    pub(crate) fn get(&self, version: Option<u64>, prefix: &[u8]) -> Option<bool> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.answers.get(prefix).copied().filter(|_| version == Some(known.version))
    }

    /// Inserts a result; `version` was sampled before the read.
    pub(crate) fn put(&self, version: Option<u64>, prefix: Vec<u8>, is_homed: bool) {
        let Some(version) = version else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.version != version || known.answers.len() >= MAX_CACHED_PREFIXES {
            *known = HomedCacheEntries { version, answers: HashMap::new() };
        }
        known.answers.insert(prefix.into(), is_homed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_with_their_version() {
        let homed = HomedCache::default();
        homed.put(Some(2), b"10.1".to_vec(), true);
        homed.put(None, b"10.2".to_vec(), true);
        assert_eq!(homed.get(Some(2), b"10.1"), Some(true));
        assert_eq!(homed.get(Some(2), b"10.2"), None);
        assert_eq!(homed.get(Some(4), b"10.1"), None);
        assert_eq!(homed.get(None, b"10.1"), None);
        homed.put(Some(4), b"10.2".to_vec(), false);
        assert_eq!((homed.get(Some(4), b"10.1"), homed.get(Some(4), b"10.2")), (None, Some(false)));
    }
}
