//! Command that updates a DOI.

use tendot_proto::Handle;

use super::planner::RegistrationPlanner;
use super::record::visible_record;
use crate::authorization::Principal;
use crate::command::CommandPlan;
use crate::command::sealed::CommandPlanner;
use crate::party::check_revision;
use crate::registration::{DoiRecord, RegistrationRequest};
use crate::rules::Rules;
use crate::{CallContext, RegistryError, codes};

/// Command: update a DOI.
#[derive(Clone, Debug)]
pub struct UpdateDoi {
    /// Name to update.
    pub name: Box<str>,
    /// Fields to change.
    pub request: RegistrationRequest,
    /// Expected revision.
    pub expected_revision: Option<u64>,
}

impl CommandPlanner for UpdateDoi {
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
        let is_same_name =
            |requested: &str| Handle::from(requested).eq_ignore_case(Handle::from(&*self.name));
        if self.request.name.as_deref().is_some_and(|requested| !is_same_name(requested)) {
            let detail = "`name` does not match the DOI that is updated";
            return Err(RegistryError::invalid(codes::NAME_MISMATCH, "/name", detail));
        }
        let (change, warnings) =
            planner.plan_update(prefix, &entry, &registration, &self.request, budget).await?;
        let mut edits: Vec<_> = change.to_edit(Some(entry.revision)).into_iter().collect();
        let (entry, registration) = change.into_parts();
        let (_, owner) = planner.owner(prefix, &registration, budget).await?;
        let updated = DoiRecord { warnings, ..visible_record(entry, registration, owner, principal) };
        edits.extend(planner.into_index_edits());
        Ok(CommandPlan::new(edits, updated))
    }
}
