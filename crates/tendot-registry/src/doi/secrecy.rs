//! Who may know of names that are only reserved.

use std::collections::BTreeMap;

use tendot_proto::{Budget, Handle};
use tendot_store::{HistoryOrder, NameKey, PriorState, Store, StoredRecord};

use super::is_reserved;
use crate::ownership::failure;
use crate::party::Principal;
use crate::{Caller, Error, Registry};

/// Visibility filter for reserved names; caches the principal and allocated prefixes.
pub(crate) struct VisibilityFilter<'c> {
    caller: &'c Caller,
    at: u64,
    standing: Option<Principal>,
    /// Whether prefixes were given to somebody: only there names are reserved.
    allocated: BTreeMap<Box<str>, bool>,
}

impl<'c> VisibilityFilter<'c> {
    pub(crate) const fn new(caller: &'c Caller, at: u64) -> Self {
        Self { caller, at, standing: None, allocated: BTreeMap::new() }
    }
}

impl Registry {
    /// Whether somebody may know of a name: of those that are reserved, or were and went as such, only those concerned.
    ///
    /// What this costs has been paid for with the name.
    pub(crate) async fn is_visible(
        &self,
        name: &str,
        secrecy: &mut VisibilityFilter<'_>,
    ) -> Result<bool, Error> {
        let Some((prefix, _)) = name.split_once('/').filter(|_| *secrecy.caller != Caller::Operator) else {
            return Ok(true);
        };
        let work = &mut Budget::new(VISIBILITY_BUDGET);
        let is_allocated = match secrecy.allocated.get(prefix) {
            Some(known) => *known,
            None => {
                let is_allocated = self.prefix_entry(prefix, work).await?.is_some();
                secrecy.allocated.insert(prefix.into(), is_allocated);
                is_allocated
            }
        };
        if !is_allocated {
            return Ok(true);
        }
        let Ok(key) = NameKey::new(name) else { return Ok(true) };
        match self.last_known_record(&key).await? {
            Some(entry) if is_reserved(&entry) => self.can_see_reserved(name, secrecy, work).await,
            _ => Ok(true),
        }
    }

    /// Whether somebody may see what is only for those who have a name.
    pub(crate) async fn can_see_reserved(
        &self,
        name: &str,
        secrecy: &mut VisibilityFilter<'_>,
        work: &mut Budget,
    ) -> Result<bool, Error> {
        match secrecy.caller {
            Caller::Anonymous => return Ok(false),
            Caller::Operator => return Ok(true),
            Caller::Handle(_) | Caller::Token(_) => {}
        }
        let standing = match &secrecy.standing {
            Some(known) => known,
            None => {
                let found = self.principal(secrecy.caller, secrecy.at, work).await.map_err(failure)?;
                secrecy.standing.insert(found)
            }
        };
        let owner = self.owner_of_name(Handle::from(name), work).await?;
        let prefix = name.split_once('/').map_or(name, |(prefix, _)| prefix);
        let is_operator = standing.is_operator() && standing.check_prefix(prefix).is_ok();
        Ok(is_operator || owner.is_some_and(|owner| standing.can_read_under(prefix, &owner)))
    }

    /// What is under a name, or was before it was removed.
    async fn last_known_record(&self, key: &NameKey) -> Result<Option<StoredRecord>, Error> {
        if let Some(entry) = self.store.get(key).await? {
            return Ok(Some(entry));
        }
        let last = self.store.history(key, HistoryOrder::NewestFirst { before: u64::MAX }, 1).await?;
        Ok(last.items.into_iter().next().and_then(|past| match past.before {
            PriorState::Record(entry) => Some(entry),
            PriorState::Nothing | PriorState::Unknown => None,
        }))
    }
}

/// Steps for one name.
const VISIBILITY_BUDGET: u32 = 1_000;
