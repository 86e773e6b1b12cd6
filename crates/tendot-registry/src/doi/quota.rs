//! How many names there are under prefixes that may only have so many.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tendot_store::{Edit, Expect, Key, Store};

use crate::party::Allocation;
use crate::refusal::Reason;
use crate::{Refusal, Registry};

/// After so many milliseconds it is counted anew: others may write, too.
const HOLDS: u64 = 60_000;

/// Names counted in one call of the store.
const PIECE: usize = 100_000;

/// What was counted, of prefixes that have a quota. Counting takes the time of walking over all names, so what comes and goes
/// is added and taken off.
#[derive(Debug, Default)]
pub(crate) struct Quotas(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    prefixes: HashMap<Box<str>, Counted>,
    /// Changes that were committed; what was counted while one was is not sure.
    commits: u64,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    names: u64,
    /// Names that are about to come.
    claimed: u64,
    quota: u64,
    at: u64,
}

impl Quotas {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many names there are or are about to come, if that is known; and how many changes there were.
    fn get(&self, prefix: &str, quota: u64, at: u64) -> (Option<u64>, u64) {
        let mut counts = self.lock();
        let commits = counts.commits;
        let counted = counts.prefixes.get_mut(prefix).filter(|counted| at.abs_diff(counted.at) < HOLDS);
        let names = counted.map(|counted| {
            counted.quota = quota;
            counted.names.saturating_add(counted.claimed)
        });
        (names, commits)
    }

    /// A prefix may have as many names as it likes.
    fn forget(&self, prefix: &str) {
        self.lock().prefixes.remove(prefix);
    }

    /// What was counted since there had been so many changes, unless there were more.
    fn set(&self, prefix: &str, names: u64, quota: u64, at: u64, commits: u64) -> bool {
        let mut counts = self.lock();
        let is_sure = counts.commits == commits;
        if is_sure {
            let claimed = counts.prefixes.get(prefix).map_or(0, |counted| counted.claimed);
            counts.prefixes.insert(prefix.into(), Counted { names, claimed, quota, at });
        }
        is_sure
    }

    /// Room for the names that a change makes, before it is committed; none if there is not enough.
    pub(crate) fn claim(&self, edits: &[Edit]) -> Option<Claim<'_>> {
        let mut claim = Claim { quotas: self, come: HashMap::new(), gone: HashMap::new() };
        let mut counts = self.lock();
        if counts.prefixes.is_empty() {
            return Some(claim);
        }
        for edit in edits {
            let Some((prefix, _)) = edit.name().split_once('/') else { continue };
            if !counts.prefixes.contains_key(prefix) {
                continue;
            }
            match edit {
                Edit::Put { expect: Expect::Absent, .. } | Edit::Register { expect: Expect::Absent, .. } => {
                    *claim.come.entry(prefix.into()).or_default() += 1;
                }
                Edit::Tombstone { .. } | Edit::Remove { .. } => {
                    *claim.gone.entry(prefix.into()).or_default() += 1;
                }
                _ => {}
            }
        }
        let has_room = |(prefix, come): (&Box<str>, &u64)| {
            counts.prefixes.get(prefix).is_none_or(|counted| {
                counted.names.saturating_add(counted.claimed).saturating_add(*come) <= counted.quota
            })
        };
        if !claim.come.iter().all(has_room) {
            // Nothing was claimed: nothing is to be given back.
            claim.come.clear();
            return None;
        }
        for (prefix, come) in &claim.come {
            if let Some(counted) = counts.prefixes.get_mut(prefix) {
                counted.claimed += come;
            }
        }
        Some(claim)
    }
}

/// Room that is kept for names until they are there; it is given back if they do not come.
#[derive(Debug)]
pub(crate) struct Claim<'q> {
    quotas: &'q Quotas,
    come: HashMap<Box<str>, u64>,
    gone: HashMap<Box<str>, u64>,
}

impl Claim<'_> {
    /// The names are there.
    pub(crate) fn keep(self) {
        let mut counts = self.quotas.lock();
        counts.commits += 1;
        for (prefix, come) in &self.come {
            if let Some(counted) = counts.prefixes.get_mut(prefix) {
                counted.names += come;
            }
        }
        for (prefix, gone) in &self.gone {
            if let Some(counted) = counts.prefixes.get_mut(prefix) {
                counted.names = counted.names.saturating_sub(*gone);
            }
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.come.is_empty() {
            return;
        }
        let mut counts = self.quotas.lock();
        for (prefix, come) in &self.come {
            if let Some(counted) = counts.prefixes.get_mut(prefix) {
                counted.claimed = counted.claimed.saturating_sub(*come);
            }
        }
    }
}

impl<S: Store> Registry<S> {
    /// How many more names there may be under a prefix; none if that does not matter.
    pub(crate) async fn room(&self, allocation: &Allocation, at: u64) -> Result<Option<u64>, Refusal> {
        let prefix = &allocation.prefix.prefix;
        let Some(quota) = allocation.prefix.policy.quota else {
            self.quotas.forget(prefix);
            return Ok(None);
        };
        for _ in 0..TRIES {
            let (known, commits) = self.quotas.get(prefix, quota, at);
            if let Some(names) = known {
                return Ok(Some(quota.saturating_sub(names)));
            }
            let (mut after, mut names): (Option<Key>, u64) = (None, 0);
            loop {
                let counted = self.store.count_under(prefix.as_bytes(), after.as_ref(), PIECE).await?;
                names += counted.live;
                after = counted.next;
                if after.is_none() {
                    break;
                }
            }
            if self.quotas.set(prefix, names, quota, at, commits) {
                return Ok(Some(quota.saturating_sub(names)));
            }
        }
        Err(Refusal::new(Reason::Busy, "contended", "names come faster than they are counted"))
    }
}

/// How often names are counted while others come.
const TRIES: u32 = 8;

/// There is no room for another name.
pub(crate) fn reached(allocation: &Allocation) -> Refusal {
    let quota = allocation.prefix.policy.quota.unwrap_or_default();
    let detail = format!("there may be {quota} names under {}, and there are", allocation.prefix.prefix);
    Refusal::new(Reason::Full, "quota", detail).hint("the agency can give more room")
}
