//! Command that registers a DOI.

use super::new_name::already_registered;
use super::planner::RegistrationPlanner;
use super::record::visible_record;
use crate::authorization::Principal;
use crate::command::CommandPlan;
use crate::command::sealed::CommandPlanner;
use crate::party::Scope;
use crate::registration::{DoiRecord, Registration, RegistrationRequest};
use crate::rules::Rules;
use crate::{CallContext, Registry, RegistryError};

/// Command: register a DOI.
#[derive(Clone, Debug)]
pub struct RegisterDoi {
    /// Content of the registration.
    pub request: RegistrationRequest,
    /// Random bytes for a minted suffix, if there is no name.
    pub random_bytes: [u8; 16],
}

impl CommandPlanner for RegisterDoi {
    type Output = DoiRecord;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<DoiRecord>, RegistryError> {
        let budget = &mut *call.budget;
        let mut planner = RegistrationPlanner::new(rules, principal, call.now_ms);
        let name = planner.name(&self.request, &self.random_bytes, rules, |_| false, budget).await?;
        let prefix = planner.check_prefix(&name, budget).await?;
        planner.check_holder(prefix, budget).await?;
        if let Some(entry) = rules.get_record(&name, budget).await? {
            return Err(already_registered(&entry, &Registration::of_record(&entry)?));
        }
        let (change, warnings) = planner.plan_new(&name, prefix, &self.request, None, budget).await?;
        let mut edits: Vec<_> = change.to_edit(None).into_iter().collect();
        let (entry, registration) = change.into_parts();
        let (_, owner) = planner.owner(prefix, &registration, budget).await?;
        let registered = visible_record(entry, registration, owner, principal);
        edits.extend(planner.into_index_edits());
        let input_form = self.request.input_form;
        Ok(CommandPlan::new(edits, DoiRecord { warnings, input_form, ..registered }))
    }
}

impl Registry {
    /// Fails unless the caller has the scope to register names.
    pub async fn check_may_register(&self, mut call: CallContext<'_>) -> Result<(), RegistryError> {
        self.rules.principal(&mut call).await?.check_scope(Scope::Register)
    }
}
