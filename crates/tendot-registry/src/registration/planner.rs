//! Plans registrations and updates: one name for a command, many for a batch.

use std::collections::{HashMap, HashSet};

use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::{Edit, RecordStatus, StoredRecord};

use super::build_record::{BuildContext, RecordChange, build};
use super::description_index::{DescriptionChange, DescriptionIndex};
use super::new_name::{check_prefix_matches, parse_doi};
use crate::authorization::Principal;
use crate::party::{Registrant, Scope};
use crate::prefix::{AllocationCache, DuplicatePolicy, GROUP_INDEX, PrefixAllocation, quota_exceeded};
use crate::registration::{Registration, RegistrationRequest};
use crate::rules::{Rules, SiteReader};
use crate::validate::looks_percent_encoded;
use crate::{Error, RegistryError, RegistrySettings, WriteWarning, codes};

/// Plans registrations and updates of a principal; prefixes, owners and quotas are loaded once.
pub(crate) struct RegistrationPlanner<'a> {
    rules: &'a Rules,
    principal: &'a Principal,
    now_ms: u64,
    allocations: AllocationCache<'a>,
    /// Prefixes that this site is responsible for.
    responsible: HashSet<Box<str>>,
    quotas: HashMap<Box<str>, RemainingQuota>,
    descriptions: DescriptionIndex,
}

/// Quota left for this plan, and how much of it is used.
struct RemainingQuota {
    left: u64,
    used: u64,
}

impl<'a> RegistrationPlanner<'a> {
    pub(crate) fn new(rules: &'a Rules, principal: &'a Principal, now_ms: u64) -> Self {
        Self {
            rules,
            principal,
            now_ms,
            allocations: AllocationCache::new(rules),
            responsible: HashSet::new(),
            quotas: HashMap::new(),
            descriptions: DescriptionIndex::default(),
        }
    }

    /// Requested name, or a minted one that neither exists in `names` nor is planned.
    pub(crate) async fn name(
        &self,
        request: &RegistrationRequest,
        random_bytes: &[u8; 16],
        names: &SiteReader,
        is_planned: impl Fn(&str) -> bool + Send + Sync,
        budget: &mut Budget,
    ) -> Result<Box<str>, RegistryError> {
        self.principal.check_scope(Scope::Register)?;
        match (&request.name, &request.prefix) {
            (Some(name), prefix) => {
                check_prefix_matches(name, prefix.as_deref())?;
                Ok(name.clone())
            }
            (None, Some(prefix)) => names.mint_name(prefix, random_bytes, is_planned, budget).await,
            (None, None) => {
                Err(RegistryError::invalid(codes::MISSING, "/name", "missing `name` or `prefix`"))
            }
        }
    }

    /// Prefix of a name, after checks: it is allocated, this server is responsible, and the token is not restricted to
    /// others.
    pub(crate) async fn check_prefix<'n>(
        &mut self,
        name: &'n str,
        budget: &mut Budget,
    ) -> Result<&'n str, RegistryError> {
        let prefix = parse_doi(name, &self.rules.settings)?.prefix();
        self.allocation(prefix, budget).await?;
        if !self.responsible.contains(prefix) {
            // The same for all names under the prefix.
            self.rules.check_site_responsible(Handle::from(name), budget).await?;
            self.responsible.insert(prefix.into());
        }
        self.principal.check_prefix(prefix)?;
        if self.rules.owns(Handle::from(name)) { Ok(prefix) } else { Err(Error::OtherServer.into()) }
    }

    async fn allocation(
        &mut self,
        prefix: &str,
        budget: &mut Budget,
    ) -> Result<&PrefixAllocation, RegistryError> {
        match self.allocations.allocation(prefix, budget).await? {
            Some(allocation) => Ok(allocation),
            None => Err(RegistryError::prefix_not_allocated(prefix)),
        }
    }

    /// Fails unless the principal may register new names under the prefix.
    pub(crate) async fn check_holder(
        &mut self,
        prefix: &str,
        budget: &mut Budget,
    ) -> Result<(), RegistryError> {
        let principal = self.principal;
        principal.check_registrant(&self.allocation(prefix, budget).await?.holder, Scope::Register)
    }

    /// Allocation of the prefix and owner of an existing name.
    pub(crate) async fn owner(
        &mut self,
        prefix: &str,
        registration: &Registration,
        budget: &mut Budget,
    ) -> Result<(&PrefixAllocation, &Registrant), RegistryError> {
        let found = self.allocations.owner(prefix, registration, budget).await?;
        found.ok_or_else(|| RegistryError::prefix_not_allocated(prefix))
    }

    /// Plans a new name. The principal has been authorized. `planned_variant` is a name that looks like it and is
    /// planned, too.
    pub(crate) async fn plan_new(
        &mut self,
        name: &str,
        prefix: &str,
        request: &RegistrationRequest,
        planned_variant: Option<Box<str>>,
        budget: &mut Budget,
    ) -> Result<(RecordChange, Vec<WriteWarning>), RegistryError> {
        let (rules, now_ms) = (self.rules, self.now_ms);
        let allocation = self.allocations.allocation(prefix, budget).await?;
        let allocation = allocation.ok_or_else(|| RegistryError::prefix_not_allocated(prefix))?;
        let limits = &rules.settings.limits;
        let mut warnings = rules.check_new_name(name, allocation, budget).await?;
        if let Some(with) = planned_variant {
            if allocation.rejects_confusable() || !limits.allow_confusable_names {
                return Err(Error::Confusable { name: name.into(), with }.into());
            }
            warnings.insert(0, WriteWarning::ConfusableWith { name: with });
        }
        let is_bare = request.name.is_some() && request.input_form.is_none();
        warnings
            .extend((is_bare && looks_percent_encoded(name)).then(|| WriteWarning::percent_encoded(name)));
        if !self.quotas.contains_key(prefix)
            && let Some(left) = rules.remaining_quota(allocation, now_ms).await?
        {
            self.quotas.insert(prefix.into(), RemainingQuota { left, used: 0 });
        }
        let quota = self.quotas.get_mut(prefix);
        if quota.as_ref().is_some_and(|quota| quota.left == quota.used) {
            return Err(quota_exceeded(allocation));
        }
        let context = BuildContext { allocation, group: GROUP_INDEX, limits, signing: None, now_ms };
        let change = build(&context, name, request, None)?;
        change.check_access_change(None, &allocation.holder, self.principal)?;
        let descriptions = DescriptionChange {
            name,
            registrant: &allocation.holder.id,
            principal: Some(self.principal),
            policy: allocation.prefix.policy.duplicates.unwrap_or_default(),
            before: None,
            after: change.metadata(),
        };
        warnings.extend(self.descriptions.update(rules, &descriptions, budget).await?);
        if let Some(quota) = quota {
            quota.used += 1;
        }
        Ok((change, warnings))
    }

    /// Edits of the index of descriptions, for all names that were planned.
    pub(crate) fn into_index_edits(self) -> impl Iterator<Item = Edit> {
        self.descriptions.into_edits()
    }

    /// Plans the update of an existing name. The principal has been authorized.
    pub(crate) async fn plan_update(
        &mut self,
        prefix: &str,
        entry: &StoredRecord,
        registration: &Registration,
        request: &RegistrationRequest,
        budget: &mut Budget,
    ) -> Result<(RecordChange, Vec<WriteWarning>), RegistryError> {
        let (rules, now_ms) = (self.rules, self.now_ms);
        let (_, owner) = self.owner(prefix, registration, budget).await?;
        let owner = owner.clone();
        // Also if they are equal to the stored ones: otherwise they could be guessed by writing.
        if request.values.iter().flatten().any(HandleValue::is_secret) {
            let check = self.principal.check_registrant(&owner, Scope::Administer);
            check
                .and_then(|()| self.principal.check_may_grant_access())
                .map_err(|rejection| rejection.with_pointer("/values"))?;
        }
        let allocation = self.allocations.allocation(prefix, budget).await?;
        let allocation = allocation.ok_or_else(|| RegistryError::prefix_not_allocated(prefix))?;
        let group = allocation.admin_group_index(registration.owner.as_deref());
        let RegistrySettings { limits, signing, .. } = &*rules.settings;
        let context = BuildContext { allocation, group, limits, signing: signing.as_ref(), now_ms };
        let change = build(&context, &entry.name, request, Some((entry, registration)))?;
        change.check_access_change(Some(entry), &owner, self.principal)?;
        let descriptions = DescriptionChange {
            name: &entry.name,
            registrant: registration.owner_id(&allocation.prefix),
            principal: Some(self.principal),
            policy: allocation.prefix.policy.duplicates.unwrap_or_default(),
            before: registration.metadata.as_deref(),
            after: change.metadata(),
        };
        let warning = self.descriptions.update(rules, &descriptions, budget).await?;
        Ok((change, warning.into_iter().collect()))
    }

    /// Removes a name that is retired from the index of descriptions.
    pub(crate) async fn forget_description(
        &mut self,
        prefix: &str,
        entry: &StoredRecord,
        registration: &Registration,
        budget: &mut Budget,
    ) -> Result<(), RegistryError> {
        let allocation = self.allocations.allocation(prefix, budget).await?;
        let allocation = allocation.ok_or_else(|| RegistryError::prefix_not_allocated(prefix))?;
        let change = DescriptionChange {
            name: &entry.name,
            registrant: registration.owner_id(&allocation.prefix),
            principal: None,
            policy: DuplicatePolicy::Allow,
            before: registration.metadata.as_deref(),
            after: None,
        };
        self.descriptions.update(self.rules, &change, budget).await.map(drop)
    }

    /// Loads a name to update or retire, and authorizes the principal. Returns its prefix, record and registration.
    pub(crate) async fn load_for_update<'n>(
        &mut self,
        name: &'n str,
        budget: &mut Budget,
    ) -> Result<(&'n str, StoredRecord, Registration), RegistryError> {
        let (rules, principal) = (self.rules, self.principal);
        principal.check_scope(Scope::Register)?;
        let loaded = self.allocations.load_name(name, principal, budget).await?;
        let (prefix, entry, registration) = loaded.ok_or_else(|| RegistryError::not_found("DOI", name))?;
        let (_, owner) = self.owner(prefix, &registration, budget).await?;
        principal.check_registrant(owner, Scope::Register)?;
        principal.check_prefix(prefix)?;
        rules.check_server_responsible(Handle::from(name), budget).await?;
        if entry.status == RecordStatus::Tombstone {
            let detail = format!("`{}` is retired and cannot be changed", entry.name);
            return Err(RegistryError::new(codes::RETIRED, detail));
        }
        Ok((prefix, entry, registration))
    }
}
