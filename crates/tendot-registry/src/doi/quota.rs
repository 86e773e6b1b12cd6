//! How many names there are under prefixes that may only have so many.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tendot_store::{CommitError, CommitInfo, Edit, NameKey, Precondition, Store, StoreError};
use tokio::sync::Notify;

use crate::party::PrefixAllocation;
use crate::refusal::RegistryErrorKind;
use crate::{Registry, RegistryError};

/// After so many milliseconds it is counted anew: others may write, too.
const COUNT_TTL_MS: u64 = 60_000;

/// Names counted in one call of the store.
const COUNT_PAGE_LEN: usize = 100_000;

/// In-memory usage of prefixes with a quota. Counting scans all names, so commits adjust the last count.
///
/// Counting takes the time of walking over all names, so what comes and goes is added and taken off.
#[derive(Debug, Default)]
pub(crate) struct QuotaTable {
    tallies: Mutex<UsageByPrefix>,
    /// A change that was under way has ended, or somebody no longer counts.
    ended: Notify,
}

/// Usage per prefix, and the next reservation number.
#[derive(Debug, Default)]
struct UsageByPrefix {
    prefixes: HashMap<Box<str>, PrefixUsage>,
    /// The number of the next claim.
    next: u64,
}

/// Usage of one prefix: last count, pending and in-flight reservations.
#[derive(Debug, Default)]
struct PrefixUsage {
    counted: Option<UsageCount>,
    /// Names that are about to come.
    coming: u64,
    /// Names that have come, ever since this tally is kept.
    came: u64,
    /// Claims of changes that are being committed; what is counted meanwhile may have them in it or not.
    under_way: BTreeSet<u64>,
    /// The number after that of the last claim.
    next: u64,
    /// Whether somebody counts.
    is_counting: bool,
}

/// Counted number of names: an upper bound, and whether it is exact.
#[derive(Clone, Copy, Debug)]
struct UsageCount {
    /// As many as there may be at the most; exactly so many if nothing was under way, and what became of all changes is known.
    names: u64,
    is_exact: bool,
    /// Claims from this one on are surely not in it.
    next: u64,
    quota: u64,
    at: u64,
}

impl UsageByPrefix {
    fn usage_mut(&mut self, prefix: &str) -> &mut PrefixUsage {
        self.prefixes.entry(prefix.into()).or_default()
    }

    /// What nobody needs is not kept.
    fn remove_if_idle(&mut self, prefix: &str) {
        let is_idle =
            |tally: &PrefixUsage| tally.counted.is_none() && tally.under_way.is_empty() && !tally.is_counting;
        if self.prefixes.get(prefix).is_some_and(is_idle) {
            self.prefixes.remove(prefix);
        }
    }
}

impl QuotaTable {
    fn lock(&self) -> MutexGuard<'_, UsageByPrefix> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many more names there may be, if that is known, or at least that there is room for those that are wanted.
    fn remaining(&self, prefix: &str, quota: u64, at: u64, wanted: u64) -> Option<u64> {
        let mut tallies = self.lock();
        let tally = tallies.prefixes.get_mut(prefix)?;
        let counted = tally.counted.as_mut().filter(|counted| at.abs_diff(counted.at) < COUNT_TTL_MS)?;
        counted.quota = quota;
        let room = quota.saturating_sub(counted.names.saturating_add(tally.coming));
        (counted.is_exact || room >= wanted).then_some(room)
    }

    /// A prefix may have as many names as it likes.
    fn clear(&self, prefix: &str) {
        let mut tallies = self.lock();
        if let Some(tally) = tallies.prefixes.get_mut(prefix) {
            tally.counted = None;
            tallies.remove_if_idle(prefix);
        }
    }

    /// Somebody begins to count, unless somebody else does already.
    fn begin_count<'q>(&'q self, prefix: &'q str) -> Option<CountGuard<'q>> {
        let mut tallies = self.lock();
        let next = tallies.next;
        let tally = tallies.usage_mut(prefix);
        if std::mem::replace(&mut tally.is_counting, true) {
            return None;
        }
        let is_quiet = tally.under_way.is_empty();
        Some(CountGuard { quotas: self, prefix, next, came: tally.came, is_quiet })
    }

    fn is_counting(&self, prefix: &str) -> bool {
        self.lock().prefixes.get(prefix).is_some_and(|tally| tally.is_counting)
    }

    /// Waits until the changes that are under way have ended, well or badly.
    async fn wait_in_flight(&self, prefix: &str) {
        let next = self.lock().next;
        let first = || self.lock().prefixes.get(prefix).and_then(|tally| tally.under_way.first().copied());
        self.wait_until(|| first().is_none_or(|first| first >= next)).await;
    }

    /// Waits until something is so that depends on who changes or counts.
    async fn wait_until(&self, is_so: impl Fn() -> bool) {
        loop {
            let ended = self.ended.notified();
            if is_so() {
                return;
            }
            ended.await;
        }
    }

    /// Room for the names that a change makes, before it is committed; none if there is not enough.
    pub(crate) fn reserve(&self, edits: &[Edit]) -> Option<Reservation<'_>> {
        let mut moves: HashMap<&str, UsageDelta> = HashMap::new();
        for edit in edits {
            let Some((prefix, _)) = edit.name().split_once('/') else { continue };
            match edit {
                Edit::Put { expect: Precondition::Absent, .. }
                | Edit::Register { expect: Precondition::Absent, .. } => {
                    moves.entry(prefix).or_default().come += 1;
                }
                Edit::Tombstone { .. } | Edit::Remove { .. } => moves.entry(prefix).or_default().gone += 1,
                _ => {}
            }
        }
        let mut tallies = self.lock();
        let has_room = |(prefix, moves): (&&str, &UsageDelta)| {
            let Some(tally) = tallies.prefixes.get(*prefix) else { return true };
            let names =
                |counted: UsageCount| counted.names.saturating_add(tally.coming).saturating_add(moves.come);
            moves.come == 0 || tally.counted.is_none_or(|counted| names(counted) <= counted.quota)
        };
        if !moves.iter().all(has_room) {
            return None;
        }
        let number = tallies.next;
        tallies.next += 1;
        for (prefix, moves) in &moves {
            let tally = tallies.usage_mut(prefix);
            tally.coming += moves.come;
            tally.under_way.insert(number);
            tally.next = number + 1;
        }
        let moves = moves.into_iter().map(|(prefix, moves)| (prefix.into(), moves)).collect();
        Some(Reservation { quotas: self, moves, number, end: End::Unknown })
    }
}

/// Guard of a running count; one per prefix at a time.
#[derive(Debug)]
struct CountGuard<'q> {
    quotas: &'q QuotaTable,
    prefix: &'q str,
    /// As they were when it began.
    next: u64,
    came: u64,
    is_quiet: bool,
}

impl CountGuard<'_> {
    /// So many were found. Those that came meanwhile may have been found or not: they are added, so that there are never more
    /// than there may be.
    fn finish(self, names: u64, quota: u64, at: u64) {
        let mut tallies = self.quotas.lock();
        let next = tallies.next;
        let tally = tallies.usage_mut(self.prefix);
        let is_exact = self.is_quiet && tally.next <= self.next;
        let names = names + (tally.came - self.came);
        tally.counted = Some(UsageCount { names, is_exact, next, quota, at });
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        let mut tallies = self.quotas.lock();
        tallies.usage_mut(self.prefix).is_counting = false;
        tallies.remove_if_idle(self.prefix);
        drop(tallies);
        self.quotas.ended.notify_waiters();
    }
}

/// Names added and removed by a change set.
#[derive(Clone, Copy, Debug, Default)]
struct UsageDelta {
    come: u64,
    gone: u64,
}

/// Quota reservation of a change set in flight. Dropped unresolved, it counts as committed until the next count.
///
/// Who drops it without a word does not know, as when a client hangs up: then they are taken to be there until they are counted
/// anew, so that there are never too many.
#[derive(Debug)]
pub(crate) struct Reservation<'q> {
    quotas: &'q QuotaTable,
    moves: Vec<(Box<str>, UsageDelta)>,
    number: u64,
    end: End,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Done,
    Refused,
    Unknown,
}

impl Reservation<'_> {
    /// The change came to this.
    pub(crate) fn resolve(mut self, committed: &Result<CommitInfo, CommitError>) {
        self.end = match committed {
            Ok(_) => End::Done,
            Err(CommitError::Store(StoreError::Unknown { .. })) => End::Unknown,
            Err(_) => End::Refused,
        };
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut tallies = self.quotas.lock();
        for (prefix, UsageDelta { come, gone }) in &self.moves {
            let tally = tallies.usage_mut(prefix);
            tally.coming -= come;
            tally.under_way.remove(&self.number);
            if self.end != End::Refused {
                tally.came += come;
                if let Some(counted) = &mut tally.counted {
                    counted.names += come;
                    counted.is_exact &= self.end == End::Done;
                    // What was counted while they went may be without them already.
                    if self.end == End::Done && self.number >= counted.next {
                        counted.names = counted.names.saturating_sub(*gone);
                    }
                }
            }
            tallies.remove_if_idle(prefix);
        }
        drop(tallies);
        self.quotas.ended.notify_waiters();
    }
}

impl Registry {
    /// How many more names there may be under a prefix, for somebody who wants so many; none if that does not matter.
    pub(crate) async fn remaining_quota(
        &self,
        allocation: &PrefixAllocation,
        at: u64,
        wanted: usize,
    ) -> Result<Option<u64>, RegistryError> {
        let prefix = &allocation.prefix.prefix;
        let Some(quota) = allocation.prefix.policy.quota else {
            self.quotas.clear(prefix);
            return Ok(None);
        };
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let known = || self.quotas.remaining(prefix, quota, at, wanted);
        for _ in 0..MAX_COUNT_ATTEMPTS {
            if let Some(room) = known() {
                return Ok(Some(room));
            }
            self.quotas.wait_in_flight(prefix).await;
            // Others have waited, too, and may have counted.
            if let Some(room) = known() {
                return Ok(Some(room));
            }
            // Each walks over all names, so one does it for all.
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
            counting.finish(names, quota, at);
        }
        let busy = || {
            RegistryError::new(
                RegistryErrorKind::Busy,
                "contended",
                "names come faster than they are counted",
            )
        };
        known().map(Some).ok_or_else(busy)
    }
}

/// How often names are counted, by whomever, while others come.
const MAX_COUNT_ATTEMPTS: u32 = 8;

/// There is no room for another name.
pub(crate) fn reached(allocation: &PrefixAllocation) -> RegistryError {
    let quota = allocation.prefix.policy.quota.unwrap_or_default();
    let detail = format!("there may be {quota} names under {}, and there are", allocation.prefix.prefix);
    RegistryError::new(RegistryErrorKind::Full, "quota", detail).with_hint("the agency can give more room")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "10.1";

    fn claim(quotas: &QuotaTable) -> Option<Reservation<'_>> {
        quotas.reserve(&[Edit::Put {
            name: "10.1/a".into(),
            values: Vec::new(),
            expect: Precondition::Absent,
        }])
    }

    fn end(quotas: &QuotaTable) -> Reservation<'_> {
        quotas.reserve(&[Edit::Tombstone { name: "10.1/a".into(), expect: Precondition::Live }]).unwrap()
    }

    /// How many more there may be for somebody who wants so many, if there may be ten.
    fn room(quotas: &QuotaTable, wanted: u64) -> Option<u64> {
        quotas.remaining(PREFIX, 10, 0, wanted)
    }

    fn found(quotas: &QuotaTable, names: u64) {
        quotas.begin_count(PREFIX).unwrap().finish(names, 10, 0);
    }

    fn keep(claim: Reservation<'_>) {
        claim.resolve(&Ok(CommitInfo { revision: 1 }));
    }

    fn give_back(claim: Reservation<'_>) {
        claim.resolve(&Err(CommitError::Note { edit: 0 }));
    }

    #[test]
    fn what_comes_and_goes() {
        let quotas = QuotaTable::default();
        assert_eq!(room(&quotas, 0), None);
        found(&quotas, 8);
        assert_eq!(room(&quotas, 5), Some(2));
        let kept = claim(&quotas).unwrap();
        let given_back = claim(&quotas).unwrap();
        assert_eq!(room(&quotas, 5), Some(0));
        assert!(claim(&quotas).is_none());
        give_back(given_back);
        assert_eq!(room(&quotas, 5), Some(1));
        keep(kept);
        assert_eq!(room(&quotas, 5), Some(1));
        keep(end(&quotas));
        assert_eq!(room(&quotas, 5), Some(2));
        give_back(end(&quotas));
        assert_eq!(room(&quotas, 5), Some(2));
        assert_eq!(quotas.remaining(PREFIX, 10, COUNT_TTL_MS, 0), None);
        quotas.clear(PREFIX);
        assert!(quotas.lock().prefixes.is_empty());
    }

    /// A name that was counted, and only then is known to have come, is not taken for two.
    #[test]
    fn a_name_that_comes_while_it_is_counted() {
        for begins_before in [true, false] {
            let quotas = QuotaTable::default();
            let (counting, kept);
            if begins_before {
                kept = claim(&quotas).unwrap();
                counting = quotas.begin_count(PREFIX).unwrap();
            } else {
                counting = quotas.begin_count(PREFIX).unwrap();
                kept = claim(&quotas).unwrap();
            }
            counting.finish(9, 10, 0);
            keep(kept);
            assert_eq!(room(&quotas, 1), None, "it has to be counted again");
            found(&quotas, 9);
            assert_eq!(room(&quotas, 1), Some(1));
        }
    }

    /// While names come there may be too many in what was counted, never too few; where there is enough room that is enough.
    #[test]
    fn counting_while_names_come_and_go() {
        let quotas = QuotaTable::default();
        let counting = quotas.begin_count(PREFIX).unwrap();
        let gone = end(&quotas);
        keep(claim(&quotas).unwrap());
        counting.finish(5, 10, 0);
        keep(gone);
        assert_eq!((room(&quotas, 4), room(&quotas, 5)), (Some(4), None));
        keep(end(&quotas));
        assert_eq!(room(&quotas, 5), Some(5));
    }

    /// Who does not know what became of a change takes no room away from others for good, and gives none that may be taken.
    #[test]
    fn what_nobody_knows() {
        fn hangs_up(_: Reservation<'_>) {}
        fn lost(claim: Reservation<'_>) {
            claim.resolve(&Err(CommitError::Store(StoreError::Unknown { why: "lost".into() })));
        }
        for unknown in [hangs_up, lost] {
            let quotas = QuotaTable::default();
            found(&quotas, 8);
            unknown(claim(&quotas).unwrap());
            assert_eq!((room(&quotas, 1), room(&quotas, 2)), (Some(1), None), "it has to be counted again");
            unknown(end(&quotas));
            assert_eq!((room(&quotas, 1), room(&quotas, 2)), (Some(1), None));
            found(&quotas, 8);
            assert_eq!(room(&quotas, 3), Some(2));
            let counting = quotas.begin_count(PREFIX).unwrap();
            unknown(claim(&quotas).unwrap());
            counting.finish(8, 10, 0);
            assert_eq!((room(&quotas, 1), room(&quotas, 2)), (Some(1), None), "it may have come afterwards");
        }
    }

    /// One counts; if that comes to nothing, another does.
    #[test]
    fn one_counts_at_a_time() {
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
    fn nothing_is_kept_of_prefixes_without_quota() {
        let quotas = QuotaTable::default();
        keep(claim(&quotas).unwrap());
        give_back(end(&quotas));
        drop(quotas.begin_count(PREFIX));
        assert!(quotas.lock().prefixes.is_empty());
    }
}
