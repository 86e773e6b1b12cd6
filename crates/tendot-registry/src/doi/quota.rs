//! How many names there are under prefixes that may only have so many.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tendot_proto::Work;
use tendot_store::{Key, Store};

use crate::party::Allocation;
use crate::refusal::Reason;
use crate::{Refusal, Registry};

/// After so many milliseconds it is counted anew: others may write, too.
const HOLDS: u64 = 60_000;

/// Names counted in one call of the store.
const PIECE: usize = 100_000;

/// What was counted, of prefixes that have a quota. Counting takes the time of walking over all names, so new ones are
/// added as they come.
#[derive(Debug, Default)]
pub(crate) struct Quotas(Mutex<HashMap<Box<str>, Counted>>);

#[derive(Clone, Copy, Debug)]
struct Counted {
    names: u64,
    at: u64,
}

impl Quotas {
    fn get(&self, prefix: &str, at: u64) -> Option<u64> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.get(prefix).filter(|counted| at.abs_diff(counted.at) < HOLDS).map(|counted| counted.names)
    }

    fn set(&self, prefix: &str, names: u64, at: u64) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.insert(prefix.into(), Counted { names, at });
    }

    /// Names have come.
    pub(crate) fn add(&self, prefix: &str, names: u64) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counted) = counted.get_mut(prefix) {
            counted.names += names;
        }
    }
}

impl<S: Store> Registry<S> {
    /// How many more names there may be under a prefix; none if that does not matter.
    pub(crate) async fn room(
        &self,
        allocation: &Allocation,
        at: u64,
        _: &mut Work,
    ) -> Result<Option<u64>, Refusal> {
        let Some(quota) = allocation.prefix.policy.quota else { return Ok(None) };
        let prefix = &allocation.prefix.prefix;
        let names = match self.quotas.get(prefix, at) {
            Some(names) => names,
            None => {
                let mut after: Option<Key> = None;
                let mut names = 0;
                loop {
                    let counted = self.store.count_under(prefix.as_bytes(), after.as_ref(), PIECE).await?;
                    names += counted.live;
                    after = counted.next;
                    if after.is_none() {
                        break;
                    }
                }
                self.quotas.set(prefix, names, at);
                names
            }
        };
        Ok(Some(quota.saturating_sub(names)))
    }
}

/// There is no room for another name.
pub(crate) fn reached(allocation: &Allocation) -> Refusal {
    let quota = allocation.prefix.policy.quota.unwrap_or_default();
    let detail = format!("there may be {quota} names under {}, and there are", allocation.prefix.prefix);
    Refusal::new(Reason::Full, "quota", detail).hint("the agency can give more room")
}
