//! Command that retires a DOI.

use tendot_store::{Edit, Precondition};

use super::build_record::check_credentials_unchanged;
use super::planner::RegistrationPlanner;
use super::record::visible_record;
use crate::authorization::Principal;
use crate::command::CommandPlan;
use crate::command::sealed::CommandPlanner;
use crate::party::check_revision;
use crate::registration::{DoiRecord, DoiStatus, is_reserved, owned_name_key};
use crate::rules::Rules;
use crate::{CallContext, RegistryError};

/// Command: retire a DOI; reserved and test names are deleted.
#[derive(Clone, Debug)]
pub struct RetireDoi {
    /// Name to retire.
    pub name: Box<str>,
    /// Expected revision.
    pub expected_revision: Option<u64>,
}

impl CommandPlanner for RetireDoi {
    type Output = DoiRecord;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<DoiRecord>, RegistryError> {
        let budget = &mut *call.budget;
        let mut planner = RegistrationPlanner::new(rules, principal, call.now_ms);
        let (prefix, entry, registration) = planner.load_for_update(&self.name, budget).await?;
        check_revision(self.expected_revision, entry.revision)?;
        let (name, expect) = (entry.name.clone(), Precondition::AtRevision(entry.revision));
        planner.forget_description(prefix, &entry, &registration, budget).await?;
        let (allocation, owner) = planner.owner(prefix, &registration, budget).await?;
        check_credentials_unchanged(&entry.values, &[], owner, principal)?;
        // Names that never resolved, and names of test prefixes, leave no tombstone.
        let mut edits = Vec::new();
        if allocation.prefix.is_test || is_reserved(&entry) {
            edits.push(Edit::Remove { name, precondition: expect });
            if let Some(owner) = &registration.owner {
                edits.push(Edit::RemoveAux { key: owned_name_key(owner, &entry.name)?.into() });
            }
        } else {
            edits.push(Edit::Tombstone { name, precondition: expect });
        }
        let is_removed = matches!(edits.first(), Some(Edit::Remove { .. }));
        let state = if is_removed { DoiStatus::Deleted } else { DoiStatus::Retired };
        let registered = DoiRecord {
            state,
            retired_ms: Some(call.now_ms),
            ..visible_record(entry, registration, owner, principal)
        };
        edits.extend(planner.into_index_edits());
        Ok(CommandPlan::new(edits, registered))
    }
}
