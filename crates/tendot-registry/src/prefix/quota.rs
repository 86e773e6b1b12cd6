//! Quota of names per prefix.
//!
//! The number of names under a prefix with a quota is a counter in the store. A commit that adds names adjusts it within the quota,
//! in the same transaction, so the quota is exact however many servers share the store; and since adjustments do not conflict,
//! registrations under one prefix do not wait for each other. Prefixes without a quota have no counter.
//!
//! The first registration counts the names and creates the counter. The count is compared with it from time to time, since names
//! may be written without the registry, such as by an import.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tendot_store::{AuxCounter, Edit, NameKey, Precondition, Store};
use tokio::sync::Notify;

use crate::prefix::{PrefixAllocation, is_numeric_prefix};
use crate::rules::Rules;
use crate::{Error, RegistryError, codes};

/// Milliseconds after which a counter is compared with a count again.
const CHECK_INTERVAL_MS: u64 = 60_000;

/// Names counted per call to the store.
const COUNT_PAGE_LEN: usize = 100_000;

/// Maximum number of attempts to create or correct a counter.
const MAX_COUNT_ATTEMPTS: u32 = 8;

/// Author of the change sets that create and correct counters.
const AUTHOR: &str = "quota";

/// Which counters were compared with a count, and when.
#[derive(Debug, Default)]
pub(crate) struct QuotaTable {
    checks: Mutex<HashMap<Box<str>, CounterCheck>>,
    /// Notifies that a count has ended.
    changed: Notify,
}

/// Comparisons of one counter with a count.
#[derive(Debug, Default)]
struct CounterCheck {
    /// Time of the last one.
    checked_ms: Option<u64>,
    /// Whether a count is running.
    is_counting: bool,
}

impl QuotaTable {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, CounterCheck>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the counter was compared with a count recently.
    fn is_checked(&self, prefix: &str, now_ms: u64) -> bool {
        let checked_ms = self.lock().get(prefix).and_then(|check| check.checked_ms);
        checked_ms.is_some_and(|checked_ms| now_ms.abs_diff(checked_ms) < CHECK_INTERVAL_MS)
    }

    /// Forgets a prefix without a quota.
    fn forget(&self, prefix: &str) {
        let mut checks = self.lock();
        if checks.get(prefix).is_some_and(|check| !check.is_counting) {
            checks.remove(prefix);
        }
    }

    /// Starts a count, which takes as long as a scan; `None` if one is running.
    fn begin_count<'q>(&'q self, prefix: &'q str) -> Option<CountGuard<'q>> {
        let mut checks = self.lock();
        let check = checks.entry(prefix.into()).or_default();
        let is_free = !std::mem::replace(&mut check.is_counting, true);
        is_free.then(|| CountGuard { quotas: self, prefix })
    }

    /// Waits for the count of a prefix that is running.
    async fn wait_counted(&self, prefix: &str) {
        loop {
            let changed = self.changed.notified();
            if !self.lock().get(prefix).is_some_and(|check| check.is_counting) {
                return;
            }
            changed.await;
        }
    }
}

/// Guard of a running count; one per prefix at a time.
#[derive(Debug)]
struct CountGuard<'q> {
    quotas: &'q QuotaTable,
    prefix: &'q str,
}

impl CountGuard<'_> {
    /// Records that the counter is right.
    fn finish(self, now_ms: u64) {
        self.quotas.lock().entry(self.prefix.into()).or_default().checked_ms = Some(now_ms);
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        if let Some(check) = self.quotas.lock().get_mut(self.prefix) {
            check.is_counting = false;
        }
        self.quotas.changed.notify_waiters();
    }
}

/// Quotas that a plan relies on, by prefix.
pub(crate) type PlannedQuotas = BTreeMap<Box<str>, u64>;

/// Key of the counter of a prefix.
fn counter_key(prefix: &str) -> Box<[u8]> {
    format!("quota/{prefix}").into_bytes().into()
}

/// Edit that removes the counter of a prefix, when it gets a quota or loses it: without a quota, the counter is not adjusted.
pub(super) fn remove_counter(prefix: &str) -> Edit {
    Edit::RemoveAux { key: counter_key(prefix) }
}

/// Edits that adjust the counters of the prefixes whose names are added or removed by a change set.
pub(crate) fn counter_edits(edits: &[Edit], quotas: &PlannedQuotas) -> Vec<Edit> {
    let mut changes: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for edit in edits {
        let Some((prefix, _)) = edit.name().split_once('/') else { continue };
        match edit {
            Edit::Put { precondition: Precondition::Absent, .. }
            | Edit::Register { precondition: Precondition::Absent, .. }
                if quotas.contains_key(prefix) =>
            {
                changes.entry(prefix).or_default().0 += 1;
            }
            Edit::Tombstone { .. } | Edit::Remove { .. } if is_numeric_prefix(prefix) => {
                changes.entry(prefix).or_default().1 += 1;
            }
            _ => {}
        }
    }
    let edit = |(prefix, (added, subtracted)): (&str, (u64, u64))| Edit::AdjustCounter {
        key: counter_key(prefix),
        added,
        subtracted,
        limit: quotas.get(prefix).copied().filter(|_| added > 0),
    };
    changes.into_iter().map(edit).collect()
}

impl Rules {
    /// Remaining quota of a prefix; `None` without a quota. A commit of this plan adds no more names than the quota allows.
    pub(crate) async fn remaining_quota(
        &self,
        allocation: &PrefixAllocation,
        now_ms: u64,
    ) -> Result<Option<u64>, RegistryError> {
        let prefix = &allocation.prefix.prefix;
        let Some(quota) = allocation.prefix.policy.quota else {
            self.quotas.forget(prefix);
            return Ok(None);
        };
        if !self.store.is_tracked() {
            let names = self.names_without_commit(prefix).await?;
            return Ok(Some(quota.saturating_sub(names)));
        }
        self.rely_on_quota(prefix, quota);
        let key = counter_key(prefix);
        for _ in 0..MAX_COUNT_ATTEMPTS {
            // Not part of the read set: the commit adjusts it.
            let stored = Store::get_aux(&*self.store, &key).await?;
            let counter = stored.as_deref().and_then(AuxCounter::decode);
            let is_counted = counter.is_some() && self.quotas.is_checked(prefix, now_ms);
            let counting = if is_counted { None } else { self.quotas.begin_count(prefix) };
            match (counter, counting) {
                (Some(counter), None) => return Ok(Some(quota.saturating_sub(counter.count()))),
                (Some(counter), Some(counting)) => {
                    self.check_counter(prefix, counter, now_ms).await?;
                    counting.finish(now_ms);
                }
                (None, Some(counting)) => {
                    let added = self.count_live_names(prefix).await?;
                    let counter = AuxCounter { added, subtracted: 0 };
                    if self.replace_counter(key.clone(), stored, counter, now_ms).await? {
                        counting.finish(now_ms);
                    }
                }
                // One request counts for all.
                (None, None) => self.quotas.wait_counted(prefix).await,
            }
        }
        let detail = "write conflict: the quota counter changed during every attempt; retry";
        Err(RegistryError::new(codes::WRITE_CONFLICT, detail))
    }

    /// Number of names under a prefix, for a dry run: neither creates nor corrects the counter.
    async fn names_without_commit(&self, prefix: &str) -> Result<u64, RegistryError> {
        let stored = Store::get_aux(&*self.store, &counter_key(prefix)).await?;
        if let Some(counter) = stored.as_deref().and_then(AuxCounter::decode) {
            return Ok(counter.count());
        }
        loop {
            // One count at a time: it takes as long as a scan.
            if let Some(_counting) = self.quotas.begin_count(prefix) {
                return Ok(self.count_live_names(prefix).await?);
            }
            self.quotas.wait_counted(prefix).await;
        }
    }

    /// Compares a counter, as it was before, with a count, and corrects it if neither the names nor the adjustments since then
    /// explain the difference.
    async fn check_counter(
        &self,
        prefix: &str,
        before: AuxCounter,
        now_ms: u64,
    ) -> Result<(), RegistryError> {
        let names = self.count_live_names(prefix).await?;
        let key = counter_key(prefix);
        for _ in 0..MAX_COUNT_ATTEMPTS {
            let stored = Store::get_aux(&*self.store, &key).await?;
            let Some(mut counter) = stored.as_deref().and_then(AuxCounter::decode) else { return Ok(()) };
            let added = counter.added.checked_sub(before.added);
            let subtracted = counter.subtracted.checked_sub(before.subtracted);
            // Otherwise it was created again meanwhile.
            let (Some(added), Some(subtracted)) = (added, subtracted) else { return Ok(()) };
            let most = before.count().saturating_add(added);
            let least = before.count().saturating_sub(subtracted);
            if (least..=most).contains(&names) {
                return Ok(());
            }
            counter.added = counter.added.saturating_add(names.saturating_sub(most));
            counter.subtracted = counter.subtracted.saturating_add(least.saturating_sub(names));
            if self.replace_counter(key.clone(), stored, counter, now_ms).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn count_live_names(&self, prefix: &str) -> Result<u64, Error> {
        let (mut after, mut names): (Option<NameKey>, u64) = (None, 0);
        loop {
            let counted = self.store.count_names(prefix.as_bytes(), after.as_ref(), COUNT_PAGE_LEN).await?;
            names += counted.live;
            after = counted.next;
            if after.is_none() {
                return Ok(names);
            }
        }
    }

    /// Replaces a counter; false if it has changed meanwhile.
    async fn replace_counter(
        &self,
        key: Box<[u8]>,
        stored: Option<Box<[u8]>>,
        counter: AuxCounter,
        now_ms: u64,
    ) -> Result<bool, RegistryError> {
        let edits = vec![
            Edit::RequireAux { key: key.clone(), value: stored },
            Edit::PutAux { key, value: counter.encode() },
        ];
        Ok(self.commit_once(AUTHOR, now_ms, edits).await?)
    }
}

/// Error: quota exceeded.
pub(crate) fn quota_exceeded(allocation: &PrefixAllocation) -> RegistryError {
    let quota = allocation.prefix.policy.quota.unwrap_or_default();
    let detail = format!("quota of {quota} names reached for prefix {}", allocation.prefix.prefix);
    RegistryError::new(codes::QUOTA_EXCEEDED, detail).with_hint("ask the agency to raise the quota")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(name: &str, precondition: Precondition) -> Edit {
        Edit::Put { name: name.into(), values: Vec::new(), precondition }
    }

    #[test]
    fn edits_of_counters() {
        let quotas = PlannedQuotas::from([("10.1".into(), 5)]);
        let edits = [
            put("10.1/a", Precondition::Absent),
            put("10.1/b", Precondition::Absent),
            put("10.1/c", Precondition::AtRevision(1)),
            put("10.2/a", Precondition::Absent),
            Edit::Tombstone { name: "10.2/b".into(), precondition: Precondition::Live },
            Edit::Remove { name: "10.3/b".into(), precondition: Precondition::Live },
            Edit::Remove { name: "0.NA/10.1".into(), precondition: Precondition::Live },
        ];
        let adjust = |prefix, added, subtracted, limit| Edit::AdjustCounter {
            key: counter_key(prefix),
            added,
            subtracted,
            limit,
        };
        let expected =
            [adjust("10.1", 2, 0, Some(5)), adjust("10.2", 0, 1, None), adjust("10.3", 0, 1, None)];
        assert_eq!(counter_edits(&edits, &quotas), expected);
        assert!(counter_edits(&edits[3..4], &quotas).is_empty(), "nothing without a quota");
    }

    #[test]
    fn one_count_at_a_time() {
        let quotas = QuotaTable::default();
        let counting = quotas.begin_count("10.1").unwrap();
        assert!(quotas.begin_count("10.1").is_none() && quotas.begin_count("10.2").is_some());
        let mut waiting = Box::pin(quotas.wait_counted("10.1"));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(counting);
        assert!(waiting.as_mut().poll(&mut context).is_ready());
        assert!(!quotas.is_checked("10.1", 0));
        quotas.begin_count("10.1").unwrap().finish(7);
        assert!(quotas.is_checked("10.1", 7) && !quotas.is_checked("10.1", 7 + CHECK_INTERVAL_MS));
        quotas.forget("10.1");
        assert!(!quotas.is_checked("10.1", 7));
    }
}
