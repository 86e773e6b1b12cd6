//! Plans the lines of one batch over a shared read set.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use tendot_proto::{Budget, Handle};
use tendot_store::{Edit, NameKey, RecordStatus, StoredRecord};

use super::batch::{BatchLineOutcome, BatchLineStatus};
use super::build_record::{BuildContext, RecordChange, build};
use super::new_name::{already_registered, check_prefix_matches, parse_doi};
use crate::authorization::Principal;
use crate::party::{Registrant, RegistryObjectKind, Scope};
use crate::prefix::{GROUP_INDEX, PrefixAllocation, quota_exceeded};
use crate::registration::{Registration, RegistrationRequest, is_reserved};
use crate::validate::normalization_variants;
use crate::{Registry, RegistryError, WriteWarning, codes};

/// Budget of one line.
pub(super) const LINE_BUDGET: u32 = 5_000;

/// Plans the lines of one batch over a shared read set.
pub(super) struct BatchPlanner<'a> {
    /// Registry with a read set, for everything except names.
    pub(super) tracked: &'a Registry,
    /// Registry without a read set, for names: each edit has its own precondition.
    pub(super) untracked: &'a Registry,
    pub(super) principal: &'a Principal,
    pub(super) now_ms: u64,
    /// Number of lines, which limits the number of new names.
    pub(super) line_count: usize,
    pub(super) allocations: HashMap<Box<str>, Option<PrefixAllocation>>,
    pub(super) owners: HashMap<Box<str>, Registrant>,
    pub(super) remaining: HashMap<Box<str>, RemainingQuota>,
    /// Planned records in line order.
    pub(super) planned: Vec<PlannedRecord>,
    /// Position of each name in `planned`.
    pub(super) planned_by_key: HashMap<NameKey, usize>,
}

/// Quota left for this batch, and how much of it is used.
#[derive(Clone, Copy)]
pub(super) struct RemainingQuota {
    left: u64,
    used: u64,
}

/// Record as planned by the lines so far.
pub(super) struct PlannedRecord {
    entry: StoredRecord,
    /// Revision that was read.
    existing: Option<u64>,
    pub(super) edit: Edit,
}

impl BatchPlanner<'_> {
    /// Plans a line. Fails on store errors only.
    pub(super) async fn plan_line(
        &mut self,
        number: u64,
        request: &RegistrationRequest,
        random: &[u8; 16],
    ) -> Result<BatchLineOutcome, RegistryError> {
        let mut budget = Budget::new(LINE_BUDGET);
        let name = match self.line_name(request, random, &mut budget).await {
            Ok(name) => name,
            Err(rejection) => {
                return store_error_or(BatchLineOutcome::rejected(number, request.name.clone(), rejection));
            }
        };
        match self.plan_record(&name, request, &mut budget).await {
            Ok((status, name, warnings)) => {
                Ok(BatchLineOutcome { number, name: Some(name), result: Ok(status), warnings })
            }
            Err(rejection) => store_error_or(BatchLineOutcome::rejected(number, Some(name), rejection)),
        }
    }

    async fn line_name(
        &self,
        request: &RegistrationRequest,
        random: &[u8; 16],
        budget: &mut Budget,
    ) -> Result<Box<str>, RegistryError> {
        self.principal.check_scope(Scope::Register)?;
        match (&request.name, &request.prefix) {
            (Some(name), prefix) => {
                check_prefix_matches(name, prefix.as_deref())?;
                Ok(name.clone())
            }
            (None, Some(prefix)) => {
                let is_planned =
                    |name: &str| NameKey::new(name).is_ok_and(|key| self.planned_by_key.contains_key(&key));
                self.untracked.mint_name(prefix, random, is_planned, budget).await
            }
            (None, None) => {
                Err(RegistryError::invalid(codes::MISSING, "/name", "missing `name` or `prefix`"))
            }
        }
    }

    async fn plan_record(
        &mut self,
        name: &str,
        request: &RegistrationRequest,
        budget: &mut Budget,
    ) -> Result<(BatchLineStatus, Box<str>, Vec<WriteWarning>), RegistryError> {
        let (prefix, _) = parse_doi(name)?;
        if let Slot::Vacant(slot) = self.allocations.entry(prefix.into()) {
            let allocation = self.tracked.load_allocation(prefix, budget).await?;
            if allocation.is_some() {
                self.tracked.check_site_responsible(Handle::from(name), budget).await?;
            }
            slot.insert(allocation);
        }
        let Some(Some(allocation)) = self.allocations.get(prefix) else {
            let detail = format!("prefix `{prefix}` is not allocated");
            return Err(RegistryError::new(codes::UNKNOWN_PREFIX, detail).with_pointer("/name"));
        };
        self.principal.check_prefix(prefix)?;
        if !self.untracked.owns(Handle::from(name)) {
            return Err(crate::Error::OtherServer.into());
        }
        let key = NameKey::new(name)
            .map_err(|error| RegistryError::invalid(codes::INVALID_NAME, "/name", error.to_string()))?;
        let position = self.planned_by_key.get(&key).copied();
        let (existing, read) = match position.and_then(|position| self.planned.get(position)) {
            Some(planned) => (Some(planned.entry.clone()), planned.existing),
            None => {
                let entry = self.untracked.store.get(&key).await?;
                let revision = entry.as_ref().map(|entry| entry.revision);
                (entry, revision)
            }
        };
        let mut warnings = Vec::new();
        let group = match &existing {
            None => {
                self.principal.check_registrant(&allocation.holder, Scope::Register)?;
                // Confusable names are preconditions of the commit.
                warnings = self.tracked.check_new_name(name, allocation, budget).await?;
                self.check_confusable_in_batch(name, allocation, &mut warnings)?;
                GROUP_INDEX
            }
            Some(entry) => {
                let explicit_owner = Registration::of_record(entry)?.owner;
                let group = allocation.admin_group_index(explicit_owner.as_deref());
                let owner = match explicit_owner {
                    None => &allocation.holder,
                    Some(id) => match self.owners.entry(id) {
                        Slot::Occupied(slot) => slot.into_mut(),
                        Slot::Vacant(slot) => {
                            let id = slot.key().clone();
                            let object = self.tracked.get_object::<Registrant>(
                                RegistryObjectKind::Registrant,
                                &id,
                                budget,
                            );
                            slot.insert(object.await?.value)
                        }
                    },
                };
                // Reserved names of other registrants are disclosed only to principals who could register them.
                let is_retired = entry.status == RecordStatus::Tombstone;
                if (is_reserved(entry) || is_retired) && !self.principal.is_for_registrant(owner) {
                    self.principal.check_registrant(&allocation.holder, Scope::Register)?;
                    return Err(already_registered(entry)?);
                }
                self.principal.check_registrant(owner, Scope::Register)?;
                if is_retired {
                    return Err(already_registered(entry)?);
                }
                group
            }
        };
        if existing.is_none() {
            let quota = match self.remaining.get_mut(prefix) {
                Some(quota) => Some(quota),
                None => match self.tracked.remaining_quota(allocation, self.now_ms, self.line_count).await? {
                    Some(left) => {
                        Some(self.remaining.entry(prefix.into()).or_insert(RemainingQuota { left, used: 0 }))
                    }
                    None => None,
                },
            };
            if quota.is_some_and(|quota| quota.left == quota.used) {
                return Err(quota_exceeded(allocation));
            }
        }
        let limits = &self.tracked.settings.limits;
        let change = build(
            &BuildContext { allocation, group, limits, now_ms: self.now_ms },
            name,
            request,
            existing.as_ref(),
        )?;
        let status = match change {
            RecordChange::Created(..) => BatchLineStatus::Created,
            RecordChange::Updated(..) => BatchLineStatus::Updated,
            RecordChange::Unchanged(..) => BatchLineStatus::Unchanged,
        };
        if status == BatchLineStatus::Created
            && let Some(quota) = self.remaining.get_mut(prefix)
        {
            quota.used += 1;
        }
        let edit = change.to_edit(read);
        let original_name = match &change {
            RecordChange::Created(entry, _)
            | RecordChange::Updated(entry, _)
            | RecordChange::Unchanged(entry, _) => entry.name.clone(),
        };
        if let Some(edit) = edit {
            let (entry, _) = change.into_parts();
            let planned = PlannedRecord { entry, existing: read, edit };
            match position.and_then(|position| self.planned.get_mut(position)) {
                Some(previous) => *previous = planned,
                None => {
                    self.planned_by_key.insert(key, self.planned.len());
                    self.planned.push(planned);
                }
            }
        }
        Ok((status, original_name, warnings))
    }

    /// Checks for confusable names planned by earlier lines.
    fn check_confusable_in_batch(
        &self,
        name: &str,
        allocation: &PrefixAllocation,
        warnings: &mut Vec<WriteWarning>,
    ) -> Result<(), RegistryError> {
        if name.is_ascii() {
            return Ok(());
        }
        let planned = |form: String| {
            let position = *self.planned_by_key.get(&NameKey::new(&form).ok()?)?;
            self.planned.get(position).map(|planned| planned.entry.name.clone())
        };
        let Some(with) = normalization_variants(name).into_iter().find_map(planned) else { return Ok(()) };
        if allocation.rejects_confusable() || !self.tracked.settings.limits.allow_confusable_names {
            return Err(crate::Error::Confusable { with }.into());
        }
        warnings.insert(0, WriteWarning::ConfusableWith { name: with });
        Ok(())
    }
}

/// Store errors abort the batch instead of rejecting the line.
fn store_error_or(outcome: BatchLineOutcome) -> Result<BatchLineOutcome, RegistryError> {
    match outcome.result {
        Err(rejection) if rejection.source.is_some() => Err(rejection),
        result => Ok(BatchLineOutcome { result, ..outcome }),
    }
}
