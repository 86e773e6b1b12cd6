//! Visibility of reserved names.

use std::collections::BTreeMap;

use tendot_proto::{Budget, Handle};
use tendot_store::{HistoryOrder, NameKey, PriorState, Store, StoredRecord};

use crate::authorization::Principal;
use crate::registration::is_reserved;
use crate::rules::Authorizer;
use crate::validate::prefix_of;
use crate::{Caller, Error};

/// Visibility filter for reserved names; caches the principal and allocated prefixes.
pub(crate) struct VisibilityFilter<'c> {
    caller: &'c Caller,
    now_ms: u64,
    principal: Option<Principal>,
    /// Whether prefixes are allocated: only there names can be reserved.
    allocated_prefixes: BTreeMap<Box<str>, bool>,
}

impl<'c> VisibilityFilter<'c> {
    pub(crate) const fn new(caller: &'c Caller, now_ms: u64) -> Self {
        Self { caller, now_ms, principal: None, allocated_prefixes: BTreeMap::new() }
    }
}

impl Authorizer {
    /// Whether a name is visible to the caller. Reserved names, and names deleted while reserved, are visible to authorized
    /// principals only.
    ///
    /// The cost has been charged with the name.
    pub(crate) async fn is_visible(
        &self,
        name: &str,
        visibility: &mut VisibilityFilter<'_>,
    ) -> Result<bool, Error> {
        let Some((prefix, _)) = name.split_once('/').filter(|_| *visibility.caller != Caller::Operator)
        else {
            return Ok(true);
        };
        let budget = &mut Budget::new(VISIBILITY_BUDGET);
        let is_allocated = match visibility.allocated_prefixes.get(prefix) {
            Some(known) => *known,
            None => {
                let is_allocated = self.prefix_record(prefix, budget).await?.is_some();
                visibility.allocated_prefixes.insert(prefix.into(), is_allocated);
                is_allocated
            }
        };
        if !is_allocated {
            return Ok(true);
        }
        let Ok(key) = NameKey::new(name) else { return Ok(true) };
        match self.last_known_record(&key).await? {
            Some(entry) if is_reserved(&entry) => self.can_see_reserved(name, visibility, budget).await,
            _ => Ok(true),
        }
    }

    /// Whether the caller may see private data of a name.
    pub(crate) async fn can_see_reserved(
        &self,
        name: &str,
        visibility: &mut VisibilityFilter<'_>,
        budget: &mut Budget,
    ) -> Result<bool, Error> {
        match visibility.caller {
            Caller::Anonymous => return Ok(false),
            Caller::Operator => return Ok(true),
            Caller::Handle(_) | Caller::Token(_) => {}
        }
        let principal = match &visibility.principal {
            Some(known) => known,
            None => {
                let now_ms = Some(visibility.now_ms);
                let principal = self.principal_at(visibility.caller, now_ms, budget).await?;
                visibility.principal.insert(principal)
            }
        };
        let owner = self.owner_of_name(Handle::from(name), budget).await?;
        let prefix = prefix_of(name);
        let is_operator = principal.is_operator() && principal.check_prefix(prefix).is_ok();
        Ok(is_operator || owner.is_some_and(|owner| principal.can_read_under(prefix, &owner)))
    }

    /// Current record of a name, or the last one before it was deleted.
    async fn last_known_record(&self, key: &NameKey) -> Result<Option<StoredRecord>, Error> {
        if let Some(entry) = self.store.get(key).await? {
            return Ok(Some(entry));
        }
        let last = self.store.history(key, HistoryOrder::NewestFirst { before: u64::MAX }, 1).await?;
        Ok(last.entries.into_iter().next().and_then(|past| match past.prior {
            PriorState::Record(entry) => Some(entry),
            PriorState::Absent => None,
        }))
    }
}

/// Budget of the check for one name.
const VISIBILITY_BUDGET: u32 = 1_000;
