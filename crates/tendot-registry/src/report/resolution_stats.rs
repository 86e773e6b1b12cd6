//! Stored counts of resolutions, as aux entries. They contain nothing about the clients.
//!
//! - `stats/resolved/PREFIX/HASH`: a resolved name: count, first and last day;
//! - `stats/failed/PREFIX/HASH`: a name that was not found: count per day.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tendot_store::{AuxEntry, Edit, NameKey, Store};
use xxhash_rust::xxh3::xxh3_64;

use crate::command::{CommitPlanner, PlannedCommit};
use crate::rules::{RecordReader, Rules};
use crate::{Registry, RegistryError};

const RESOLVED_KEY_PREFIX: &str = "stats/resolved/";
const FAILED_KEY_PREFIX: &str = "stats/failed/";

/// Aux entries read or written together.
const STATS_BATCH_LEN: usize = 500;

/// Author of the changes.
const AUTHOR: &str = "statistics";

/// Resolutions of a name since the last flush.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResolutionCount {
    /// Allocated prefix.
    pub prefix: Arc<str>,
    /// Hash of the name, see [`name_hash`].
    pub name_hash: u64,
    /// Number of resolutions.
    pub count: u64,
}

/// Failed resolutions of a name since the last flush.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FailedResolutionCount {
    /// Allocated prefix.
    pub prefix: Arc<str>,
    /// Name as requested.
    pub name: Box<str>,
    /// Number of resolutions.
    pub count: u64,
}

/// 64-bit hash of a name, equal for every spelling.
pub fn name_hash(name: &NameKey) -> u64 {
    xxh3_64(name.as_bytes())
}

/// Stored resolution statistics of a name; days since 1970.
#[derive(Deserialize, Serialize)]
pub(super) struct ResolutionStats {
    pub(super) count: u64,
    pub(super) first: u32,
    pub(super) last: u32,
}

/// Stored statistics of failed resolutions of a name.
#[derive(Deserialize, Serialize)]
pub(super) struct FailedResolutionStats {
    pub(super) name: Box<str>,
    /// Count per day, in days since 1970.
    pub(super) days: BTreeMap<u32, u64>,
}

impl FailedResolutionStats {
    pub(super) fn total(&self) -> u64 {
        self.days.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

fn stats_key(kind: &str, prefix: &str, hash: u64) -> Box<[u8]> {
    let mut key = format!("{kind}{prefix}/").into_bytes();
    key.extend_from_slice(&hash.to_be_bytes());
    key.into()
}

fn encode(body: &impl Serialize) -> Box<[u8]> {
    serde_json::to_vec(body).unwrap_or_default().into()
}

/// A malformed entry counts as absent.
fn decode<'a, T: Deserialize<'a>>(body: Option<&'a [u8]>) -> Option<T> {
    serde_json::from_slice(body?).ok()
}

impl Registry {
    /// Adds resolutions to the stored counts.
    pub async fn add_resolutions(
        &self,
        counted: &[ResolutionCount],
        now_ms: u64,
    ) -> Result<(), RegistryError> {
        let today = day_number(now_ms);
        self.update_stats(
            counted,
            |item| stats_key(RESOLVED_KEY_PREFIX, &item.prefix, item.name_hash),
            |item, previous| {
                let previous =
                    decode(previous).unwrap_or(ResolutionStats { count: 0, first: today, last: today });
                encode(&ResolutionStats {
                    count: previous.count.saturating_add(item.count),
                    first: previous.first.min(today),
                    last: previous.last.max(today),
                })
            },
            now_ms,
        )
        .await
    }

    /// Adds failed resolutions to the stored counts.
    pub async fn add_failed_resolutions(
        &self,
        counted: &[FailedResolutionCount],
        now_ms: u64,
    ) -> Result<(), RegistryError> {
        let hash = |name: &str| NameKey::new(name).map_or(0, |key| name_hash(&key));
        self.update_stats(
            counted,
            |item| stats_key(FAILED_KEY_PREFIX, &item.prefix, hash(&item.name)),
            |item, previous| {
                let fresh = || FailedResolutionStats { name: item.name.clone(), days: BTreeMap::new() };
                let mut failed: FailedResolutionStats = decode(previous).unwrap_or_else(fresh);
                let count = failed.days.entry(day_number(now_ms)).or_default();
                *count = count.saturating_add(item.count);
                encode(&failed)
            },
            now_ms,
        )
        .await
    }

    /// Updates aux entries, so that concurrent updates of other processes are not lost.
    async fn update_stats<T: Sync>(
        &self,
        counted: &[T],
        key: impl Fn(&T) -> Box<[u8]> + Send + Sync,
        updated: impl Fn(&T, Option<&[u8]>) -> Box<[u8]> + Send + Sync,
        now_ms: u64,
    ) -> Result<(), RegistryError> {
        for items in counted.chunks(STATS_BATCH_LEN) {
            let mut update = StatsCommit { items, key: &key, updated: &updated, now_ms };
            self.commit_planned(&mut update).await?.into_result::<RegistryError>()?;
        }
        Ok(())
    }

    /// Removes counts before a day from a batch of entries after `after`; returns the cursor if there may be more.
    pub async fn purge_failed_resolutions(
        &self,
        oldest: u32,
        after: Option<&[u8]>,
        now_ms: u64,
    ) -> Result<Option<Box<[u8]>>, RegistryError> {
        let entries = self.rules.store.list_aux(FAILED_KEY_PREFIX.as_bytes(), after, STATS_BATCH_LEN).await?;
        let next = (entries.len() == STATS_BATCH_LEN)
            .then(|| entries.last().map(|entry| entry.key.clone()))
            .flatten();
        let mut edits = Vec::new();
        for AuxEntry { key, value: body } in entries {
            let failed = decode::<FailedResolutionStats>(Some(&body));
            let left = failed.and_then(|mut failed| {
                failed.days.retain(|day, _| *day >= oldest);
                (!failed.days.is_empty()).then(|| encode(&failed))
            });
            if left.as_ref() == Some(&body) {
                continue;
            }
            edits.push(Edit::RequireAux { key: key.clone(), value: Some(body) });
            edits.push(match left {
                Some(body) => Edit::PutAux { key, value: body },
                None => Edit::RemoveAux { key },
            });
        }
        self.commit_purge(edits, now_ms).await?;
        Ok(next)
    }

    /// Removes the least frequent and oldest failed names of a prefix until at most `max_names` are left.
    pub async fn trim_failed_resolutions(
        &self,
        prefix: &str,
        max_names: usize,
        now_ms: u64,
    ) -> Result<(), RegistryError> {
        let mut all = Vec::new();
        let visit = |hash, failed: FailedResolutionStats| {
            let last = failed.days.keys().next_back().copied().unwrap_or_default();
            all.push((failed.total(), last, hash));
            true
        };
        self.rules.visit_failed_resolutions(prefix, None, visit).await?;
        let over = all.len().saturating_sub(max_names);
        all.sort_unstable();
        all.truncate(over);
        for batch in all.chunks(STATS_BATCH_LEN) {
            let remove =
                |(_, _, hash): &_| Edit::RemoveAux { key: stats_key(FAILED_KEY_PREFIX, prefix, *hash) };
            self.commit_purge(batch.iter().map(remove).collect(), now_ms).await?;
        }
        Ok(())
    }

    async fn commit_purge(&self, edits: Vec<Edit>, now_ms: u64) -> Result<(), RegistryError> {
        if !edits.is_empty() {
            // If counts changed meanwhile, the next purge removes the entries.
            self.commit_once(AUTHOR, now_ms, edits).await?;
        }
        Ok(())
    }
}

/// Update of stored counts in the commit loop.
struct StatsCommit<'a, T, K, U> {
    items: &'a [T],
    key: &'a K,
    updated: &'a U,
    now_ms: u64,
}

impl<T, K, U> CommitPlanner for StatsCommit<'_, T, K, U>
where
    T: Sync,
    K: Fn(&T) -> Box<[u8]> + Send + Sync,
    U: Fn(&T, Option<&[u8]>) -> Box<[u8]> + Send + Sync,
{
    type Output = ();
    type Error = RegistryError;

    async fn plan(&mut self, rules: &Rules) -> Result<PlannedCommit<()>, RegistryError> {
        let mut values: BTreeMap<Box<[u8]>, Box<[u8]>> = BTreeMap::new();
        for item in self.items {
            let key = (self.key)(item);
            // Items with the same key add up.
            let previous = match values.get(&key).cloned() {
                Some(value) => Some(value),
                None => rules.store.get_aux(&key).await?,
            };
            values.insert(key, (self.updated)(item, previous.as_deref()));
        }
        let edits = values.into_iter().map(|(key, value)| Edit::PutAux { key, value }).collect();
        let author = AUTHOR.into();
        Ok(PlannedCommit { author, now_ms: self.now_ms, edits, extra_edits: Vec::new(), output: () })
    }
}

impl RecordReader {
    /// Visits the failed resolutions under a prefix by hash, after one, until `visit` returns false.
    pub(super) async fn visit_failed_resolutions(
        &self,
        prefix: &str,
        after: Option<u64>,
        mut visit: impl FnMut(u64, FailedResolutionStats) -> bool + Send,
    ) -> Result<(), RegistryError> {
        let key_prefix = format!("{FAILED_KEY_PREFIX}{prefix}/").into_bytes();
        let mut after = after.map(|hash| stats_key(FAILED_KEY_PREFIX, prefix, hash));
        loop {
            let entries = self.store.list_aux(&key_prefix, after.as_deref(), STATS_BATCH_LEN).await?;
            let is_end = entries.len() < STATS_BATCH_LEN;
            after = entries.last().map(|entry| entry.key.clone());
            for AuxEntry { key, value: body } in entries {
                let hash = key.get(key_prefix.len()..).and_then(|bytes| bytes.try_into().ok());
                let Some(hash) = hash.map(u64::from_be_bytes) else { continue };
                let Some(failed) = decode::<FailedResolutionStats>(Some(&body)) else { continue };
                if !visit(hash, failed) {
                    return Ok(());
                }
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// Stored counts of a name; `None` if it was never resolved.
    pub(super) async fn resolution_stats(
        &self,
        prefix: &str,
        name: &NameKey,
    ) -> Result<Option<ResolutionStats>, RegistryError> {
        let entry = self.store.get_aux(&stats_key(RESOLVED_KEY_PREFIX, prefix, name_hash(name))).await?;
        // Even a malformed entry shows that the name was resolved.
        let unreadable = || ResolutionStats { count: 1, first: 0, last: 0 };
        Ok(entry.map(|entry| decode(Some(&entry)).unwrap_or_else(unreadable)))
    }
}

/// Day of a time in milliseconds, both since 1970.
pub fn day_number(time_ms: u64) -> u32 {
    u32::try_from(time_ms / 86_400_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_store::MemoryStore;

    use super::*;
    use crate::RegistrySettings;

    #[test]
    fn counts_of_equal_names_add_up() {
        let registry = Registry::new(MemoryStore::new(), RegistrySettings::default());
        let (prefix, key) = (Arc::<str>::from("10.1"), NameKey::new("10.1/a").unwrap());
        let resolved = [1, 2].map(|count| {
            let (prefix, name_hash) = (Arc::clone(&prefix), name_hash(&key));
            ResolutionCount { prefix, name_hash, count }
        });
        block_on(registry.add_resolutions(&resolved, 0)).unwrap();
        let stats = block_on(registry.rules.resolution_stats("10.1", &key)).unwrap().unwrap();
        assert_eq!(stats.count, 3);
        let failed = [("10.1/a", 4), ("10.1/A", 5)].map(|(name, count)| {
            let prefix = Arc::clone(&prefix);
            FailedResolutionCount { prefix, name: name.into(), count }
        });
        block_on(registry.add_failed_resolutions(&failed, 0)).unwrap();
        let mut totals = Vec::new();
        let visit = |_, failed: FailedResolutionStats| {
            totals.push(failed.total());
            true
        };
        block_on(registry.rules.visit_failed_resolutions("10.1", None, visit)).unwrap();
        assert_eq!(totals, [9]);
    }
}
