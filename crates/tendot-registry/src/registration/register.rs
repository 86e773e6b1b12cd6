//! Command that registers a DOI.

use tendot_proto::{Budget, Handle};

use super::build_record::{BuildContext, build};
use super::new_name::{already_registered, check_prefix_matches, parse_doi};
use super::record::visible_record;
use crate::authorization::Principal;
use crate::command::CommandPlan;
use crate::command::sealed::PlanCommand;
use crate::party::Scope;
use crate::prefix::{GROUP_INDEX, PrefixAllocation, quota_exceeded};
use crate::registration::{DoiRecord, RegistrationRequest};
use crate::{Caller, Registry, RegistryError, codes};

/// Command: register a DOI.
#[derive(Clone, Debug)]
pub struct RegisterDoi {
    /// Content of the registration.
    pub request: RegistrationRequest,
    /// Random bytes for a minted suffix, if there is no name.
    pub random_bytes: [u8; 16],
}

impl PlanCommand for RegisterDoi {
    type Output = DoiRecord;

    async fn plan(
        &self,
        registry: &Registry,
        principal: &Principal,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<CommandPlan<DoiRecord>, RegistryError> {
        principal.check_scope(Scope::Register)?;
        let name = match (&self.request.name, &self.request.prefix) {
            (Some(name), prefix) => {
                check_prefix_matches(name, prefix.as_deref())?;
                name.clone()
            }
            (None, Some(prefix)) => registry.mint_name(prefix, &self.random_bytes, |_| false, budget).await?,
            (None, None) => {
                return Err(RegistryError::invalid(codes::MISSING, "/name", "missing `name` or `prefix`"));
            }
        };
        let (prefix, _) = parse_doi(&name)?;
        let allocation = registry.authorize_registration(prefix, &name, principal, budget).await?;
        if let Some(entry) = registry.get_record(&name, budget).await? {
            return Err(already_registered(&entry)?);
        }
        if registry.remaining_quota(&allocation, now_ms, 1).await? == Some(0) {
            return Err(quota_exceeded(&allocation));
        }
        let warnings = registry.check_new_name(&name, &allocation, budget).await?;
        let limits = &registry.settings.limits;
        let context = BuildContext { allocation: &allocation, group: GROUP_INDEX, limits, now_ms };
        let change = build(&context, &name, &self.request, None)?;
        let edits = change.to_edit(None).into_iter().collect();
        let (entry, registration) = change.into_parts();
        let registered = visible_record(entry, registration, &allocation.holder, principal);
        Ok(CommandPlan::new(edits, DoiRecord { warnings, ..registered }))
    }
}

impl Registry {
    /// Authorizes a registration under a prefix and loads the allocation.
    pub(super) async fn authorize_registration(
        &self,
        prefix: &str,
        name: &str,
        principal: &Principal,
        budget: &mut Budget,
    ) -> Result<PrefixAllocation, RegistryError> {
        let allocation = self.load_allocation(prefix, budget).await?.ok_or_else(|| {
            let detail = format!("prefix `{prefix}` is not allocated");
            RegistryError::new(codes::UNKNOWN_PREFIX, detail).with_pointer("/name")
        })?;
        principal.check_registrant(&allocation.holder, Scope::Register)?;
        principal.check_prefix(&allocation.prefix.prefix)?;
        self.check_server_responsible(Handle::from(name), budget).await?;
        Ok(allocation)
    }

    /// Fails unless the caller has the scope to register names.
    pub async fn check_may_register(
        &self,
        caller: &Caller,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<(), RegistryError> {
        self.principal(caller, now_ms, budget).await?.check_scope(Scope::Register)
    }
}
