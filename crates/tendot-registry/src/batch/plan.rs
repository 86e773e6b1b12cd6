//! Plans the lines of one group over a shared read set.

use std::collections::HashMap;

use tendot_proto::Budget;
use tendot_store::{Edit, NameKey, RecordStatus, StoredRecord};

use super::line::{BatchLine, BatchLineOutcome, BatchLineStatus};
use crate::authorization::Principal;
use crate::party::Scope;
use crate::registration::{
    RecordChange, Registration, RegistrationPlanner, RegistrationRequest, already_registered, register_edit,
};
use crate::rules::Rules;
use crate::validate::{LookalikePattern, lookalike_variants};
use crate::{RegistryError, WriteWarning, codes};

/// Budget of one line.
pub(super) const LINE_BUDGET: u32 = 5_000;

/// Plans the lines of one group over a shared read set.
pub(super) struct BatchPlanner<'a> {
    planner: RegistrationPlanner<'a>,
    principal: &'a Principal,
    /// Rules without a read set, for names: each edit has its own precondition.
    untracked: Rules,
    /// Planned records in line order.
    planned: Vec<PlannedRecord>,
    /// Position of each name in `planned`.
    planned_by_key: HashMap<NameKey, usize>,
    /// Whether a planned name has characters other than ASCII.
    has_non_ascii: bool,
}

/// Record as planned by the lines so far.
struct PlannedRecord {
    entry: StoredRecord,
    /// Revision that was read.
    existing: Option<u64>,
}

impl<'a> BatchPlanner<'a> {
    pub(super) fn new(rules: &'a Rules, principal: &'a Principal, now_ms: u64) -> Self {
        Self {
            planner: RegistrationPlanner::new(rules, principal, now_ms),
            principal,
            untracked: rules.untracked(),
            planned: Vec::new(),
            planned_by_key: HashMap::new(),
            has_non_ascii: false,
        }
    }

    /// Edits of all lines.
    pub(super) fn into_edits(self) -> Vec<Edit> {
        let records = self.planned.into_iter().map(|planned| register_edit(planned.entry, planned.existing));
        records.chain(self.planner.into_index_edits()).collect()
    }

    /// Plans a line. Fails on store errors only.
    pub(super) async fn plan_line(
        &mut self,
        line: &BatchLine,
        request: &RegistrationRequest,
    ) -> Result<BatchLineOutcome, RegistryError> {
        let budget = &mut Budget::new(LINE_BUDGET);
        let is_planned =
            |name: &str| NameKey::new(name).is_ok_and(|key| self.planned_by_key.contains_key(&key));
        let name = self.planner.name(request, &line.random_bytes, &self.untracked, is_planned, budget).await;
        let name = match name {
            Ok(name) => name,
            Err(rejection) => return rejected(line.number, request.name.clone(), rejection),
        };
        match self.plan_record(&name, request, budget).await {
            Ok((status, name, warnings)) => {
                let (number, result, input_form) = (line.number, Ok(status), request.input_form);
                Ok(BatchLineOutcome { number, name: Some(name), result, warnings, input_form })
            }
            Err(rejection) => rejected(line.number, Some(name), rejection),
        }
    }

    async fn plan_record(
        &mut self,
        name: &str,
        request: &RegistrationRequest,
        budget: &mut Budget,
    ) -> Result<(BatchLineStatus, Box<str>, Vec<WriteWarning>), RegistryError> {
        let prefix = self.planner.check_prefix(name, budget).await?;
        let key = NameKey::new(name)
            .map_err(|error| RegistryError::invalid(codes::INVALID_NAME, "/name", error.to_string()))?;
        let position = self.planned_by_key.get(&key).copied();
        let (existing, revision) = match position.and_then(|position| self.planned.get(position)) {
            Some(planned) => (Some(planned.entry.clone()), planned.existing),
            None => {
                let entry = self.untracked.store.get(&key).await?;
                let revision = entry.as_ref().map(|entry| entry.revision);
                (entry, revision)
            }
        };
        let (change, warnings) = match &existing {
            // Confusable names are preconditions of the commit.
            None => {
                let variant = self.planned_variant(name);
                self.planner.check_holder(prefix, budget).await?;
                self.planner.plan_new(name, prefix, request, variant, budget).await?
            }
            Some(entry) => self.plan_update(entry, prefix, request, budget).await?,
        };
        let status = match change {
            RecordChange::Created(..) => BatchLineStatus::Created,
            RecordChange::Updated(..) => BatchLineStatus::Updated,
            RecordChange::Unchanged(..) => BatchLineStatus::Unchanged,
        };
        let (entry, _) = change.into_parts();
        let original_name = entry.name.clone();
        if status != BatchLineStatus::Unchanged {
            let planned = PlannedRecord { entry, existing: revision };
            match position.and_then(|position| self.planned.get_mut(position)) {
                Some(previous) => *previous = planned,
                None => {
                    self.has_non_ascii |= !planned.entry.name.is_ascii();
                    self.planned_by_key.insert(key, self.planned.len());
                    self.planned.push(planned);
                }
            }
        }
        Ok((status, original_name, warnings))
    }

    async fn plan_update(
        &mut self,
        entry: &StoredRecord,
        prefix: &str,
        request: &RegistrationRequest,
        budget: &mut Budget,
    ) -> Result<(RecordChange, Vec<WriteWarning>), RegistryError> {
        let registration = Registration::of_record(entry)?;
        let registration = self.untracked.with_creation_time(registration, &entry.name, budget).await?;
        let (allocation, owner) = self.planner.owner(prefix, &registration, budget).await?;
        let is_retired = entry.status == RecordStatus::Tombstone;
        // Reserved names of other registrants are disclosed only to principals who could register them.
        let is_hidden = registration.is_hidden_from(self.principal, prefix, owner);
        if is_hidden || is_retired && !self.principal.is_for_registrant(owner) {
            self.principal.check_registrant(&allocation.holder, Scope::Register)?;
            return Err(already_registered(entry, &registration));
        }
        self.principal.check_registrant(owner, Scope::Register)?;
        if is_retired {
            return Err(already_registered(entry, &registration));
        }
        self.planner.plan_update(prefix, entry, &registration, request, budget).await
    }

    /// Name that looks like this one and that an earlier line has planned.
    fn planned_variant(&self, name: &str) -> Option<Box<str>> {
        // No two ASCII names are variants of each other.
        if name.is_ascii() && !self.has_non_ascii {
            return None;
        }
        let planned = |form: String| {
            let position = *self.planned_by_key.get(&NameKey::new(&form).ok()?)?;
            self.planned.get(position).map(|planned| planned.entry.name.clone())
        };
        lookalike_variants(name).into_iter().find_map(planned).or_else(|| {
            let pattern = LookalikePattern::new(name)?;
            let mut names = self.planned.iter().map(|planned| &planned.entry.name);
            names.find(|planned| pattern.matches(planned)).cloned()
        })
    }
}

/// Rejection of a line. A store error aborts the batch instead.
fn rejected(
    number: u64,
    name: Option<Box<str>>,
    rejection: RegistryError,
) -> Result<BatchLineOutcome, RegistryError> {
    if rejection.source.is_some() {
        return Err(rejection);
    }
    Ok(BatchLineOutcome::rejected(number, name, rejection))
}
