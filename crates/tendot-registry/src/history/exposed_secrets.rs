//! Secrets that were publicly readable in an earlier state of their record: they cannot authenticate.
//!
//! Exposure is derived from the history of the record. Each entry is read once: the scan position is cached, so that the cost of a
//! login does not grow with the history, and a long history never makes a key unusable.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::{
    History, HistoryEntry, HistoryOrder, LogEntry, NameKey, PriorState, Store, shows_exposure,
};
use tokio::task::yield_now;

use crate::command::TrackedStore;
use crate::idempotency::KeyLocks;
use crate::{Error, cost};

/// Number of entries read at once. Shorter histories are not cached.
const PAGE_LEN: usize = 100;

/// Maximum number of cached histories.
const MAX_HISTORIES: usize = 1 << 12;

/// Finds exposed secrets; caches how far each long history was read.
#[derive(Debug, Default)]
pub(crate) struct ExposedSecrets {
    scans: Mutex<HashMap<NameKey, HistoryScan>>,
    /// One reader at a time of a history of several pages.
    locks: KeyLocks,
}

/// Part of a history that was read, from its beginning.
#[derive(Clone, Debug, Default)]
struct HistoryScan {
    /// Log entry of the last state that was read.
    last: Option<LogEntry>,
    /// Cost of reading it again: by entries and bytes.
    cost: u64,
    /// Exposed secrets: their hashes, or in old histories their indexes.
    exposed: Arc<Vec<HandleValue<'static>>>,
}

impl HistoryScan {
    /// Reads the next page; returns the number of its entries, and whether it was the last one. A history that does not contain the
    /// last entry any more, since the store was restored from a backup, is read again.
    async fn read_page(
        &mut self,
        store: &TrackedStore,
        key: &NameKey,
        is_first_page: bool,
    ) -> Result<(usize, bool), Error> {
        let mut repeated = u64::from(is_first_page && self.last.is_some());
        loop {
            let after = self.last.as_ref().map_or(0, |last| last.sequence.saturating_sub(repeated));
            let order = HistoryOrder::OldestFirst { after };
            let History { entries, next } = store.history(key, order, PAGE_LEN).await?;
            let mut entries = entries.into_iter();
            if mem::take(&mut repeated) == 1 && entries.next().map(|entry| entry.log_entry) != self.last {
                *self = Self::default();
                continue;
            }
            let count = entries.len();
            entries.for_each(|entry| self.add(entry));
            return Ok((count, next.is_none()));
        }
    }

    fn add(&mut self, entry: HistoryEntry) {
        self.last = Some(entry.log_entry);
        self.cost += 1;
        let PriorState::Record(past) = entry.prior else { return };
        let bytes = past.values.iter().map(|value| value.data.len()).sum::<usize>() + past.registration.len();
        self.cost += u64::from(cost::bytes(bytes));
        for secret in past.values.into_iter().filter(HandleValue::is_exposed_secret) {
            // Without a hash, all later secrets at the index are meant.
            let is_same = |known: &HandleValue<'_>| {
                known.data == secret.data && (!secret.data.is_empty() || known.index == secret.index)
            };
            if !self.exposed.iter().any(is_same) {
                Arc::make_mut(&mut self.exposed).push(secret);
            }
        }
    }

    fn is_exposed(&self, key: &HandleValue<'_>) -> bool {
        key.is_secret() && self.exposed.iter().any(|past| shows_exposure(past, key))
    }
}

impl ExposedSecrets {
    /// Removes the secrets from `keys` that were publicly readable in an earlier state of the record, at any index.
    ///
    /// The first page is charged to the budget. The rest is read only once; writing each entry cost more than reading it.
    pub(crate) async fn remove_exposed(
        &self,
        store: &TrackedStore,
        name: Handle<'_>,
        keys: &mut Vec<HandleValue<'static>>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let Some(key) = name.to_str().ok().and_then(|name| NameKey::new(name).ok()) else { return Ok(()) };
        budget.charge(cost::LOOKUP)?;
        let mut scan = self.cached(&key);
        let is_cached = scan.last.is_some();
        let (entries, mut is_complete) = scan.read_page(store, &key, true).await?;
        budget.charge(cost::list(entries))?;
        if is_complete {
            if is_cached && entries > 0 {
                self.insert(&key, &scan);
            }
        } else {
            self.insert(&key, &scan);
            let lock = self.locks.get(&String::from_utf8_lossy(key.as_bytes()));
            let _guard = lock.lock().await;
            // Another login may have read it meanwhile.
            scan = self.cached(&key);
            (_, is_complete) = scan.read_page(store, &key, true).await?;
            while !is_complete {
                self.insert(&key, &scan);
                // A local store never yields: let other tasks run.
                yield_now().await;
                (_, is_complete) = scan.read_page(store, &key, false).await?;
            }
            self.insert(&key, &scan);
        }
        keys.retain(|key| !scan.is_exposed(key));
        Ok(())
    }

    /// Part of the history that was read already.
    fn cached(&self, key: &NameKey) -> HistoryScan {
        let scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        scans.get(key).cloned().unwrap_or_default()
    }

    /// Caches a scan of more than one page. If there are too many, the one that costs least to read again is evicted.
    fn insert(&self, key: &NameKey, scan: &HistoryScan) {
        let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        if scans.len() >= MAX_HISTORIES && !scans.contains_key(key) {
            let cheapest = scans.iter().min_by_key(|(_, scan)| scan.cost);
            match cheapest.map(|(key, scan)| (key.clone(), scan.cost)) {
                Some((cheapest, cost)) if cost < scan.cost => scans.remove(&cheapest),
                _ => return,
            };
        }
        scans.insert(key.clone(), scan.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(cost: u64) -> HistoryScan {
        HistoryScan { cost, ..HistoryScan::default() }
    }

    /// The cache is bounded, and keeps the longest histories.
    #[test]
    fn short_histories_are_evicted() {
        let secrets = ExposedSecrets::default();
        let key = |number: usize| NameKey::new(&format!("10.1/{number}")).unwrap();
        secrets.insert(&key(0), &scan(1_000_000));
        (1..MAX_HISTORIES + 10).for_each(|number| secrets.insert(&key(number), &scan(100)));
        assert_eq!(secrets.scans.lock().unwrap().len(), MAX_HISTORIES);
        secrets.insert(&key(9_999), &scan(200));
        assert_eq!(secrets.scans.lock().unwrap().len(), MAX_HISTORIES);
        assert_eq!([0, 9_999].map(|number| secrets.cached(&key(number)).cost), [1_000_000, 200]);
    }
}
