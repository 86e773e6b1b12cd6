//! What is counted of resolutions, for reports: which names, how often, and nothing of who asked.
//!
//! Names that are found are counted by fingerprint in a table of fixed size (`table.rs`), which costs some nanoseconds; names
//! that are not, with their names, in one that is bounded, too (`failed.rs`). Only names under prefixes that the registry gave
//! to somebody count (`prefixes.rs`). `upkeep.rs` writes all of it down.

mod failed;
mod prefixes;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use failed::FailedResolutions;
use prefixes::PrefixIds;
use table::CounterTable;
use tendot_registry::report::{FailedResolutionCount, ResolutionCount, name_hash};
use tendot_registry::{Error, Registry};
use tendot_store::{NameKey, RecordStatus, Store};
use tokio::sync::Notify;

/// Counts resolutions and failed resolutions per name until they are flushed to the registry.
#[derive(Debug)]
pub struct ResolutionCounter {
    resolved: CounterTable,
    failed: Option<FailedResolutions>,
    prefixes: PrefixIds,
    dropped: AtomicU64,
    /// There is much to write down.
    is_filling: Notify,
}

/// Key of a counter: hash of the name and id of its prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct CounterKey {
    fingerprint: u64,
    /// Its number among the prefixes.
    prefix: u32,
}

impl ResolutionCounter {
    /// Nothing yet; names that are not found are counted if `counts_failures`.
    pub fn new(counts_failures: bool) -> Self {
        Self {
            resolved: CounterTable::new(),
            failed: counts_failures.then(FailedResolutions::new),
            prefixes: PrefixIds::default(),
            dropped: AtomicU64::new(0),
            is_filling: Notify::new(),
        }
    }

    /// Resolutions that were not counted, since there was no room.
    pub fn dropped_resolutions(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Failures that were not counted, since there was no room.
    pub fn dropped_failures(&self) -> u64 {
        self.failed.as_ref().map_or(0, FailedResolutions::dropped)
    }

    /// As what a name is counted; none if it is not.
    pub(crate) async fn key_for(&self, registry: &Registry, name: &NameKey) -> Option<CounterKey> {
        // A prefix by itself is none of its names.
        let prefix = Some(name.prefix()).filter(|prefix| prefix.len() < name.as_bytes().len())?;
        let prefix = self.prefixes.id_for(registry, prefix).await?;
        Some(CounterKey { fingerprint: name_hash(name), prefix })
    }

    /// Counts a resolution of a name that is known to be there.
    pub(crate) fn count_key(&self, name: CounterKey) {
        self.add(name, 1);
    }

    fn add(&self, name: CounterKey, count: u64) {
        match self.resolved.add(name, count) {
            None => _ = self.dropped.fetch_add(count, Ordering::Relaxed),
            Some(is_filling) if is_filling => self.is_filling.notify_one(),
            Some(_) => {}
        }
    }

    /// Counts a resolution of a name. One that is only made by a template is not counted: there is no end of them.
    pub(crate) async fn count_resolution(&self, registry: &Registry, name: &str) {
        let Ok(key) = NameKey::new(name) else { return };
        let Some(counted) = self.key_for(registry, &key).await else { return };
        if self.resolved.increment_existing(counted) {
            return;
        }
        let entry = registry.store().get(&key).await;
        if entry.is_ok_and(|entry| entry.is_some_and(|entry| entry.state == RecordStatus::Live)) {
            self.count_key(counted);
        }
    }

    /// Counts what became of a look-up, if it is the name that is not there.
    pub(crate) async fn count_failure(&self, registry: &Registry, name: &str, error: &Error) {
        let (Some(failed), Error::NotFound | Error::Tombstone) = (&self.failed, error) else { return };
        let Ok(key) = NameKey::new(name) else { return };
        if let Some(counted) = self.key_for(registry, &key).await {
            failed.add(counted, name, 1);
        }
    }

    /// Ready when there is much to write down.
    pub(crate) async fn wait_filling(&self) {
        self.is_filling.notified().await;
    }

    /// Takes out what was counted of names that were found.
    pub(crate) fn drain_resolutions(&self) -> Vec<ResolutionCount> {
        let mut taken = self.resolved.drain();
        // Afterwards: a prefix gets its number before it is counted.
        let names = self.prefixes.names();
        // One that was counted while others went may be there twice.
        taken.sort_unstable_by_key(|(name, _)| (name.prefix, name.fingerprint));
        taken.dedup_by(|(name, count), (before, sum)| {
            let is_same = name == before;
            *sum += if is_same { *count } else { 0 };
            is_same
        });
        let told = |(name, count): (CounterKey, u64)| {
            let prefix = Arc::clone(names.get(name.prefix as usize)?);
            Some(ResolutionCount { prefix, fingerprint: name.fingerprint, count })
        };
        taken.into_iter().filter_map(told).collect()
    }

    /// Takes out what was counted of names that were not found.
    pub(crate) fn drain_failures(&self) -> Vec<FailedResolutionCount> {
        let taken = self.failed.as_ref().map(FailedResolutions::drain).unwrap_or_default();
        let names = self.prefixes.names();
        let told = |(prefix, name, count): (u32, Box<str>, u64)| {
            Some(FailedResolutionCount { prefix: Arc::clone(names.get(prefix as usize)?), name, count })
        };
        taken.into_iter().filter_map(told).collect()
    }

    /// Puts back what could not be written down.
    pub(crate) fn restore(&self, resolutions: &[ResolutionCount], failures: &[FailedResolutionCount]) {
        for one in resolutions {
            if let Some(prefix) = self.prefixes.id_if_assigned(&one.prefix) {
                self.add(CounterKey { fingerprint: one.fingerprint, prefix }, one.count);
            }
        }
        for one in failures {
            let (Some(prefix), Ok(key)) =
                (self.prefixes.id_if_assigned(&one.prefix), NameKey::new(&one.name))
            else {
                continue;
            };
            if let Some(failed) = &self.failed {
                failed.add(CounterKey { fingerprint: name_hash(&key), prefix }, &one.name, one.count);
            }
        }
    }
}
