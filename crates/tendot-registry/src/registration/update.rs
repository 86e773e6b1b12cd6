//! Command that updates a DOI.

use tendot_proto::{Budget, Handle};
use tendot_store::{RecordStatus, StoredRecord};

use super::build_record::{BuildContext, build};
use super::record::visible_record;
use crate::authorization::Principal;
use crate::command::CommandPlan;
use crate::command::sealed::PlanCommand;
use crate::party::{Registrant, RegistryObjectKind, Scope, check_revision};
use crate::prefix::PrefixAllocation;
use crate::registration::{DoiRecord, Registration, RegistrationRequest, RegistrationState};
use crate::{Registry, RegistryError, codes};

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

impl PlanCommand for UpdateDoi {
    type Output = DoiRecord;

    async fn plan(
        &self,
        registry: &Registry,
        principal: &Principal,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<CommandPlan<DoiRecord>, RegistryError> {
        principal.check_scope(Scope::Register)?;
        let (allocation, owner, entry) = registry.load_for_update(&self.name, principal, budget).await?;
        check_revision(self.expected_revision, entry.revision)?;
        let is_same_name =
            |requested: &str| Handle::from(requested).eq_ignore_case(Handle::from(&*self.name));
        if self.request.name.as_deref().is_some_and(|requested| !is_same_name(requested)) {
            return Err(RegistryError::invalid(
                codes::NAME_MISMATCH,
                "/name",
                "`name` does not match the DOI that is updated",
            ));
        }
        let group = allocation.admin_group_index(Registration::of_record(&entry)?.owner.as_deref());
        let limits = &registry.settings.limits;
        let change = build(
            &BuildContext { allocation: &allocation, group, limits, now_ms },
            &self.name,
            &self.request,
            Some(&entry),
        )?;
        let edits = change.to_edit(Some(entry.revision)).into_iter().collect();
        let (change, registration) = change.into_parts();
        Ok(CommandPlan::new(edits, visible_record(change, registration, &owner, principal)))
    }
}

impl Registry {
    /// Loads a name for update, with its allocation and owner, and authorizes the principal.
    pub(super) async fn load_for_update(
        &self,
        name: &str,
        principal: &Principal,
        budget: &mut Budget,
    ) -> Result<(PrefixAllocation, Registrant, StoredRecord), RegistryError> {
        let not_found = || RegistryError::not_found("DOI", name);
        let (prefix, _) = name.split_once('/').ok_or_else(not_found)?;
        let allocation = self.load_allocation(prefix, budget).await?.ok_or_else(not_found)?;
        let entry = self.get_record(name, budget).await?.ok_or_else(not_found)?;
        let registration = Registration::of_record(&entry)?;
        let owner = self.owner_or_holder(&allocation, registration.owner.as_deref(), budget).await?;
        // Reserved names of other registrants are reported as not found.
        if registration.state == RegistrationState::Reserved && !principal.can_read_under(prefix, &owner) {
            return Err(not_found());
        }
        principal.check_registrant(&owner, Scope::Register)?;
        principal.check_prefix(&allocation.prefix.prefix)?;
        self.check_server_responsible(Handle::from(name), budget).await?;
        if entry.status == RecordStatus::Tombstone {
            let detail = format!("`{}` is retired and cannot be changed", entry.name);
            return Err(RegistryError::new(codes::RETIRED, detail));
        }
        Ok((allocation, owner, entry))
    }

    /// Owner of a name: the explicit owner, or the holder of the prefix.
    pub(super) async fn owner_or_holder(
        &self,
        allocation: &PrefixAllocation,
        owner: Option<&str>,
        budget: &mut Budget,
    ) -> Result<Registrant, RegistryError> {
        match owner {
            None => Ok(allocation.holder.clone()),
            Some(id) => {
                Ok(self.get_object::<Registrant>(RegistryObjectKind::Registrant, id, budget).await?.value)
            }
        }
    }
}
