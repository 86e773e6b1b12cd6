//! Counts names per prefix and reserves quota for commits.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tendot_store::{CommitError, CommitInfo, Edit, NameKey, Precondition, Store, StoreError};
use tokio::sync::Notify;

use crate::prefix::PrefixAllocation;
use crate::rules::Rules;
use crate::{RegistryError, codes};

/// Maximum age of a count in milliseconds: other processes may write, too.
const COUNT_TTL_MS: u64 = 60_000;

/// Names counted per call to the store.
const COUNT_PAGE_LEN: usize = 100_000;

/// In-memory usage of prefixes with a quota. Counting scans all names, so commits adjust the last count.
#[derive(Debug, Default)]
pub(crate) struct QuotaTable {
    usages: Mutex<UsageByPrefix>,
    /// Notifies that a commit or a count has finished.
    changed: Notify,
}

/// Usage per prefix, and the next reservation number.
#[derive(Debug, Default)]
struct UsageByPrefix {
    prefixes: HashMap<Box<str>, PrefixUsage>,
    /// Number of the next reservation.
    next_reservation: u64,
}

/// Usage of one prefix: last count, pending and in-flight reservations.
#[derive(Debug, Default)]
struct PrefixUsage {
    counted: Option<UsageCount>,
    /// Names reserved by commits in flight.
    pending: u64,
    /// Names committed since the entry was created.
    committed: u64,
    /// Reservations in flight; a count that runs meanwhile may or may not include them.
    in_flight: BTreeSet<u64>,
    /// Number after the last reservation.
    next_reservation: u64,
    /// Whether a count is running.
    is_counting: bool,
}

/// Counted number of names: an upper bound, and whether it is exact.
#[derive(Clone, Copy, Debug)]
struct UsageCount {
    /// Upper bound; exact if no commit was in flight and the result of every commit is known.
    names: u64,
    is_exact: bool,
    /// Reservations from this number on are not included.
    next_reservation: u64,
    quota: u64,
    counted_ms: u64,
}

impl UsageByPrefix {
    fn usage_mut(&mut self, prefix: &str) -> &mut PrefixUsage {
        self.prefixes.entry(prefix.into()).or_default()
    }

    /// Removes an entry that is not in use.
    fn remove_if_idle(&mut self, prefix: &str) {
        let is_idle =
            |usage: &PrefixUsage| usage.counted.is_none() && usage.in_flight.is_empty() && !usage.is_counting;
        if self.prefixes.get(prefix).is_some_and(is_idle) {
            self.prefixes.remove(prefix);
        }
    }
}

impl QuotaTable {
    fn lock(&self) -> MutexGuard<'_, UsageByPrefix> {
        self.usages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remaining quota, if the exact number is known, or at least enough for `wanted` names.
    fn remaining(&self, prefix: &str, quota: u64, now_ms: u64, wanted: u64) -> Option<u64> {
        let mut usages = self.lock();
        let usage = usages.prefixes.get_mut(prefix)?;
        let counted =
            usage.counted.as_mut().filter(|counted| now_ms.abs_diff(counted.counted_ms) < COUNT_TTL_MS)?;
        counted.quota = quota;
        let remaining = quota.saturating_sub(counted.names.saturating_add(usage.pending));
        (counted.is_exact || remaining >= wanted).then_some(remaining)
    }

    /// Sets the count of a prefix with a quota.
    #[cfg(test)]
    pub(crate) fn set_count(&self, prefix: &str, names: u64, quota: u64) {
        self.begin_count(prefix).unwrap().finish(names, quota, 0);
    }

    /// Drops the count of a prefix without a quota.
    fn clear(&self, prefix: &str) {
        let mut usages = self.lock();
        if let Some(usage) = usages.prefixes.get_mut(prefix) {
            usage.counted = None;
            usages.remove_if_idle(prefix);
        }
    }

    /// Starts a count; `None` if one is running.
    fn begin_count<'q>(&'q self, prefix: &'q str) -> Option<CountGuard<'q>> {
        let mut usages = self.lock();
        let next = usages.next_reservation;
        let usage = usages.usage_mut(prefix);
        if std::mem::replace(&mut usage.is_counting, true) {
            return None;
        }
        let is_quiet = usage.in_flight.is_empty();
        Some(CountGuard {
            quotas: self,
            prefix,
            next_reservation: next,
            committed: usage.committed,
            is_quiet,
        })
    }

    fn is_counting(&self, prefix: &str) -> bool {
        self.lock().prefixes.get(prefix).is_some_and(|usage| usage.is_counting)
    }

    /// Waits for the commits that are in flight now.
    async fn wait_in_flight(&self, prefix: &str) {
        let next = self.lock().next_reservation;
        let first = || self.lock().prefixes.get(prefix).and_then(|usage| usage.in_flight.first().copied());
        self.wait_until(|| first().is_none_or(|first| first >= next)).await;
    }

    /// Waits until a condition on commits and counts is true.
    async fn wait_until(&self, condition: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            if condition() {
                return;
            }
            changed.await;
        }
    }

    /// Reserves quota for the new names of a change set; `None` if there is not enough.
    pub(crate) fn reserve(&self, edits: &[Edit]) -> Option<Reservation<'_>> {
        let mut deltas: HashMap<&str, UsageDelta> = HashMap::new();
        for edit in edits {
            let Some((prefix, _)) = edit.name().split_once('/') else { continue };
            match edit {
                Edit::Put { precondition: Precondition::Absent, .. }
                | Edit::Register { precondition: Precondition::Absent, .. } => {
                    deltas.entry(prefix).or_default().added += 1;
                }
                Edit::Tombstone { .. } | Edit::Remove { .. } => {
                    deltas.entry(prefix).or_default().removed += 1;
                }
                _ => {}
            }
        }
        let mut usages = self.lock();
        let has_quota = |(prefix, deltas): (&&str, &UsageDelta)| {
            let Some(usage) = usages.prefixes.get(*prefix) else { return true };
            let names = |counted: UsageCount| {
                counted.names.saturating_add(usage.pending).saturating_add(deltas.added)
            };
            deltas.added == 0 || usage.counted.is_none_or(|counted| names(counted) <= counted.quota)
        };
        if !deltas.iter().all(has_quota) {
            return None;
        }
        let number = usages.next_reservation;
        usages.next_reservation += 1;
        for (prefix, deltas) in &deltas {
            let usage = usages.usage_mut(prefix);
            usage.pending += deltas.added;
            usage.in_flight.insert(number);
            usage.next_reservation = number + 1;
        }
        let deltas = deltas.into_iter().map(|(prefix, deltas)| (prefix.into(), deltas)).collect();
        Some(Reservation { quotas: self, deltas, number, resolution: CommitResolution::InDoubt })
    }
}

/// Guard of a running count; one per prefix at a time.
#[derive(Debug)]
struct CountGuard<'q> {
    quotas: &'q QuotaTable,
    prefix: &'q str,
    /// State at the start of the count.
    next_reservation: u64,
    committed: u64,
    is_quiet: bool,
}

impl CountGuard<'_> {
    /// Stores the count. Names committed meanwhile may be included already; they are added, so that the count is never too
    /// low.
    fn finish(self, names: u64, quota: u64, now_ms: u64) {
        let mut usages = self.quotas.lock();
        let next = usages.next_reservation;
        let usage = usages.usage_mut(self.prefix);
        let is_exact = self.is_quiet && usage.next_reservation <= self.next_reservation;
        let names = names + (usage.committed - self.committed);
        usage.counted =
            Some(UsageCount { names, is_exact, next_reservation: next, quota, counted_ms: now_ms });
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        let mut usages = self.quotas.lock();
        usages.usage_mut(self.prefix).is_counting = false;
        usages.remove_if_idle(self.prefix);
        drop(usages);
        self.quotas.changed.notify_waiters();
    }
}

/// Names added and removed by a change set.
#[derive(Clone, Copy, Debug, Default)]
struct UsageDelta {
    added: u64,
    removed: u64,
}

/// Quota reservation of a change set in flight. Dropped unresolved, it counts as committed until the next count.
///
/// For example when a client disconnects: the names are assumed to exist until the next count, so that the quota is never
/// exceeded.
#[derive(Debug)]
pub(crate) struct Reservation<'q> {
    quotas: &'q QuotaTable,
    deltas: Vec<(Box<str>, UsageDelta)>,
    number: u64,
    resolution: CommitResolution,
}

/// Result of a reserved change set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CommitResolution {
    Committed,
    Rejected,
    InDoubt,
}

impl Reservation<'_> {
    /// Resolves the reservation by the result of the commit.
    pub(crate) fn resolve(mut self, committed: &Result<CommitInfo, CommitError>) {
        self.resolution = match committed {
            Ok(_) => CommitResolution::Committed,
            Err(CommitError::Store(StoreError::InDoubt { .. })) => CommitResolution::InDoubt,
            Err(_) => CommitResolution::Rejected,
        };
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut usages = self.quotas.lock();
        for (prefix, UsageDelta { added, removed }) in &self.deltas {
            let usage = usages.usage_mut(prefix);
            usage.pending -= added;
            usage.in_flight.remove(&self.number);
            if self.resolution != CommitResolution::Rejected {
                usage.committed += added;
                if let Some(counted) = &mut usage.counted {
                    counted.names += added;
                    counted.is_exact &= self.resolution == CommitResolution::Committed;
                    // A count that ran meanwhile may exclude them already.
                    if self.resolution == CommitResolution::Committed
                        && self.number >= counted.next_reservation
                    {
                        counted.names = counted.names.saturating_sub(*removed);
                    }
                }
            }
            usages.remove_if_idle(prefix);
        }
        drop(usages);
        self.quotas.changed.notify_waiters();
    }
}

impl Rules {
    /// Remaining quota of a prefix, for a request of `wanted` names; `None` without a quota.
    pub(crate) async fn remaining_quota(
        &self,
        allocation: &PrefixAllocation,
        now_ms: u64,
        wanted: usize,
    ) -> Result<Option<u64>, RegistryError> {
        let prefix = &allocation.prefix.prefix;
        let Some(quota) = allocation.prefix.policy.quota else {
            self.quotas.clear(prefix);
            return Ok(None);
        };
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let known = || self.quotas.remaining(prefix, quota, now_ms, wanted);
        for _ in 0..MAX_COUNT_ATTEMPTS {
            if let Some(remaining) = known() {
                return Ok(Some(remaining));
            }
            self.quotas.wait_in_flight(prefix).await;
            // Another request may have counted meanwhile.
            if let Some(remaining) = known() {
                return Ok(Some(remaining));
            }
            // A count scans all names, so one request counts for all.
            let Some(counting) = self.quotas.begin_count(prefix) else {
                self.quotas.wait_until(|| known().is_some() || !self.quotas.is_counting(prefix)).await;
                continue;
            };
            let (mut after, mut names): (Option<NameKey>, u64) = (None, 0);
            loop {
                let counted =
                    self.store.count_names(prefix.as_bytes(), after.as_ref(), COUNT_PAGE_LEN).await?;
                names += counted.live;
                after = counted.next;
                if after.is_none() {
                    break;
                }
            }
            counting.finish(names, quota, now_ms);
        }
        let detail = "write conflict: names were added during every count; retry";
        known().map(Some).ok_or_else(|| RegistryError::new(codes::WRITE_CONFLICT, detail))
    }
}

/// Maximum number of counts, by any request, while names are added.
const MAX_COUNT_ATTEMPTS: u32 = 8;

/// Error: quota exceeded.
pub(crate) fn quota_exceeded(allocation: &PrefixAllocation) -> RegistryError {
    let quota = allocation.prefix.policy.quota.unwrap_or_default();
    let detail = format!("quota of {quota} names reached for prefix {}", allocation.prefix.prefix);
    RegistryError::new(codes::QUOTA_EXCEEDED, detail).with_hint("ask the agency to raise the quota")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "10.1";

    fn reservation(quotas: &QuotaTable) -> Option<Reservation<'_>> {
        quotas.reserve(&[Edit::Put {
            name: "10.1/a".into(),
            values: Vec::new(),
            precondition: Precondition::Absent,
        }])
    }

    fn removal(quotas: &QuotaTable) -> Reservation<'_> {
        quotas
            .reserve(&[Edit::Tombstone { name: "10.1/a".into(), precondition: Precondition::Live }])
            .unwrap()
    }

    /// Remaining quota for `wanted` names, with a quota of ten.
    fn remaining(quotas: &QuotaTable, wanted: u64) -> Option<u64> {
        quotas.remaining(PREFIX, 10, 0, wanted)
    }

    fn set_count(quotas: &QuotaTable, names: u64) {
        quotas.set_count(PREFIX, names, 10);
    }

    fn commit(reservation: Reservation<'_>) {
        reservation.resolve(&Ok(CommitInfo { revision: 1 }));
    }

    fn reject(reservation: Reservation<'_>) {
        reservation.resolve(&Err(CommitError::AuxConflict { edit: 0 }));
    }

    #[test]
    fn reserve_commit_release() {
        let quotas = QuotaTable::default();
        assert_eq!(remaining(&quotas, 0), None);
        set_count(&quotas, 8);
        assert_eq!(remaining(&quotas, 5), Some(2));
        let pending_reservation = reservation(&quotas).unwrap();
        let rejected = reservation(&quotas).unwrap();
        assert_eq!(remaining(&quotas, 5), Some(0));
        assert!(reservation(&quotas).is_none());
        reject(rejected);
        assert_eq!(remaining(&quotas, 5), Some(1));
        commit(pending_reservation);
        assert_eq!(remaining(&quotas, 5), Some(1));
        commit(removal(&quotas));
        assert_eq!(remaining(&quotas, 5), Some(2));
        reject(removal(&quotas));
        assert_eq!(remaining(&quotas, 5), Some(2));
        assert_eq!(quotas.remaining(PREFIX, 10, COUNT_TTL_MS, 0), None);
        quotas.clear(PREFIX);
        assert!(quotas.lock().prefixes.is_empty());
    }

    /// A name that was counted before its commit is resolved is not counted twice.
    #[test]
    fn commit_during_count() {
        for begins_before in [true, false] {
            let quotas = QuotaTable::default();
            let (counting, pending_reservation);
            if begins_before {
                pending_reservation = reservation(&quotas).unwrap();
                counting = quotas.begin_count(PREFIX).unwrap();
            } else {
                counting = quotas.begin_count(PREFIX).unwrap();
                pending_reservation = reservation(&quotas).unwrap();
            }
            counting.finish(9, 10, 0);
            commit(pending_reservation);
            assert_eq!(remaining(&quotas, 1), None, "must be counted again");
            set_count(&quotas, 9);
            assert_eq!(remaining(&quotas, 1), Some(1));
        }
    }

    /// A count during commits may be too high, never too low; it is used if the quota suffices.
    #[test]
    fn count_during_commits() {
        let quotas = QuotaTable::default();
        let counting = quotas.begin_count(PREFIX).unwrap();
        let removed = removal(&quotas);
        commit(reservation(&quotas).unwrap());
        counting.finish(5, 10, 0);
        commit(removed);
        assert_eq!((remaining(&quotas, 4), remaining(&quotas, 5)), (Some(4), None));
        commit(removal(&quotas));
        assert_eq!(remaining(&quotas, 5), Some(5));
    }

    /// A commit in doubt neither blocks quota for ever nor frees quota that may be used.
    #[test]
    fn in_doubt_commits() {
        fn dropped(_: Reservation<'_>) {}
        fn lost(reservation: Reservation<'_>) {
            reservation.resolve(&Err(CommitError::Store(StoreError::InDoubt { reason: "lost".into() })));
        }
        for in_doubt in [dropped, lost] {
            let quotas = QuotaTable::default();
            set_count(&quotas, 8);
            in_doubt(reservation(&quotas).unwrap());
            assert_eq!(
                (remaining(&quotas, 1), remaining(&quotas, 2)),
                (Some(1), None),
                "must be counted again"
            );
            in_doubt(removal(&quotas));
            assert_eq!((remaining(&quotas, 1), remaining(&quotas, 2)), (Some(1), None));
            set_count(&quotas, 8);
            assert_eq!(remaining(&quotas, 3), Some(2));
            let counting = quotas.begin_count(PREFIX).unwrap();
            in_doubt(reservation(&quotas).unwrap());
            counting.finish(8, 10, 0);
            assert_eq!(
                (remaining(&quotas, 1), remaining(&quotas, 2)),
                (Some(1), None),
                "may have been committed after the count"
            );
        }
    }

    /// One request counts; if it is cancelled, another does.
    #[test]
    fn one_count_at_a_time() {
        let quotas = QuotaTable::default();
        let counting = quotas.begin_count(PREFIX).unwrap();
        assert!(quotas.begin_count(PREFIX).is_none() && quotas.begin_count("10.2").is_some());
        let mut waiting = Box::pin(quotas.wait_until(|| !quotas.is_counting(PREFIX)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(counting);
        assert!(waiting.as_mut().poll(&mut context).is_ready());
        assert!(quotas.begin_count(PREFIX).is_some());
    }

    #[test]
    fn no_state_without_quota() {
        let quotas = QuotaTable::default();
        commit(reservation(&quotas).unwrap());
        reject(removal(&quotas));
        drop(quotas.begin_count(PREFIX));
        assert!(quotas.lock().prefixes.is_empty());
    }
}
