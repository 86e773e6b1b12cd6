//! Registration agencies.

use serde::{Deserialize, Serialize};
use tendot_proto::{Budget, Handle};

use crate::authorization::Principal;
use crate::command::CommandPlan;
use crate::command::sealed::PlanCommand;
use crate::party::{Held, RegistryObjectKind, Scope, put_edit};
use crate::prefix::PrefixRange;
use crate::validate::check_text;
use crate::{Registry, RegistryError, codes};

/// Registration agency.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Agency {
    /// Code of the agency, ASCII case-insensitive.
    pub code: Box<str>,
    /// Name of the agency.
    pub name: Box<str>,
    /// Whether registrations must include metadata.
    #[serde(default)]
    pub metadata: Demand,
    /// Range of prefixes to allocate from; without one, prefixes from 10.70000 on that are in no other range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<PrefixRange>,
    /// Handle of a record with the common locations of its names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locations: Option<Box<str>>,
    /// Time of creation, in milliseconds since 1970.
    pub created: u64,
    /// Closure, if the agency was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<AgencyClosure>,
}

/// Closure of an agency: time and successor.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AgencyClosure {
    /// Time of closure, in milliseconds since 1970.
    pub at: u64,
    /// Code of the agency that took over the registrants.
    pub successor: Box<str>,
}

/// Whether a registration must include kernel metadata.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    /// Required for registration.
    Required,
    /// Optional.
    #[default]
    OnRequest,
}

/// Command: create an agency.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateAgency {
    /// See [`Agency::code`].
    pub code: Box<str>,
    /// See [`Agency::name`].
    pub name: Box<str>,
    /// See [`Agency::metadata`].
    #[serde(default)]
    pub metadata: Demand,
    /// See [`Agency::range`].
    #[serde(default)]
    pub range: Option<PrefixRange>,
    /// See [`Agency::locations`].
    #[serde(default)]
    pub locations: Option<Box<str>>,
}

/// Command: update an agency; absent fields are unchanged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateAgency {
    /// Code of the agency to update.
    #[serde(skip)]
    pub code: Box<str>,
    /// See [`Agency::name`].
    #[serde(default)]
    pub name: Option<Box<str>>,
    /// See [`Agency::metadata`].
    #[serde(default)]
    pub metadata: Option<Demand>,
    /// See [`Agency::range`].
    #[serde(default)]
    pub range: Option<PrefixRange>,
    /// See [`Agency::locations`].
    #[serde(default)]
    pub locations: Option<Box<str>>,
    /// Expected revision.
    #[serde(skip)]
    pub expect: Option<u64>,
}

impl Agency {
    fn validate(&self) -> Result<(), RegistryError> {
        let is_code = |code: &str| {
            code.len() <= 32
                && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if self.code.is_empty() || !is_code(&self.code) {
            let detail = "a code has 1 to 32 ASCII letters, digits, `-` and `_`";
            return Err(RegistryError::invalid(codes::INVALID_CODE, "/code", detail));
        }
        check_text(&self.name, "/name", 256)?;
        if let Some(range) = &self.range {
            range.validate("/range")?;
        }
        match &self.locations {
            Some(handle) => Handle::from(&**handle).validate_for_create().map_err(|error| {
                RegistryError::invalid(codes::INVALID_NAME, "/locations", error.to_string())
            }),
            None => Ok(()),
        }
    }
}

impl PlanCommand for CreateAgency {
    type Output = Agency;

    async fn plan(
        &self,
        registry: &Registry,
        principal: &Principal,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<CommandPlan<Agency>, RegistryError> {
        principal.check_operator()?;
        let Self { code, name, metadata, range, locations } = self.clone();
        let agency = Agency { code, name, metadata, range, locations, created: now_ms, ended: None };
        agency.validate()?;
        if let Some(existing) =
            registry.find_object::<Agency>(RegistryObjectKind::Agency, &agency.code, budget).await?
        {
            let detail = format!("there is an agency `{}`", existing.it.code);
            return Err(RegistryError::new(codes::AGENCY_EXISTS, detail).with_pointer("/code"));
        }
        Ok(CommandPlan::new(vec![put_edit(RegistryObjectKind::Agency, &agency.code, &agency, None)], agency))
    }
}

impl PlanCommand for UpdateAgency {
    type Output = Agency;

    async fn plan(
        &self,
        registry: &Registry,
        principal: &Principal,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<CommandPlan<Agency>, RegistryError> {
        let Held { it: before, revision } =
            registry.get_object::<Agency>(RegistryObjectKind::Agency, &self.code, budget).await?;
        principal.check_agency(&before.code, Scope::Administer)?;
        principal.check_all_prefixes()?;
        super::check_revision(self.expect, revision)?;
        if self.range.is_some() && !principal.is_operator() {
            return Err(RegistryError::forbidden("only the operator gives an agency other prefixes"));
        }
        let mut agency = before.clone();
        agency.name = self.name.clone().unwrap_or(agency.name);
        agency.metadata = self.metadata.unwrap_or(agency.metadata);
        agency.range = self.range.clone().or(agency.range);
        agency.locations = self.locations.clone().or(agency.locations);
        agency.validate()?;
        if agency == before {
            return Ok(CommandPlan::new(Vec::new(), agency));
        }
        let mut edits = vec![put_edit(RegistryObjectKind::Agency, &agency.code, &agency, Some(revision))];
        if agency.locations != before.locations {
            edits.extend(registry.namespace_edits(&agency, now_ms).await?);
        }
        Ok(CommandPlan::new(edits, agency))
    }
}

impl Registry {
    /// Gets an agency. Public.
    pub async fn agency(&self, code: &str, budget: &mut Budget) -> Result<Held<Agency>, RegistryError> {
        self.get_object(RegistryObjectKind::Agency, code, budget).await
    }

    /// Lists agencies in code order. Public.
    pub async fn agencies(
        &self,
        after: Option<&str>,
        limit: usize,
        budget: &mut Budget,
    ) -> Result<(Vec<Held<Agency>>, Option<String>), RegistryError> {
        Ok(self.list_objects(RegistryObjectKind::Agency, after, limit, budget, Some).await?)
    }
}

impl Agency {
    /// Fails if the agency is closed.
    pub(crate) fn check_open(&self, pointer: &str) -> Result<(), RegistryError> {
        let Some(ended) = &self.ended else { return Ok(()) };
        let detail = format!("agency `{}` has ended; `{}` has its registrants", self.code, ended.successor);
        Err(RegistryError::new(codes::AGENCY_CLOSED, detail).with_pointer(pointer))
    }
}
