//! Registration agencies.

use serde::{Deserialize, Serialize};
use tendot_proto::{Budget, Handle};

use crate::authorization::Principal;
use crate::command::CommandPlan;
use crate::command::sealed::CommandPlanner;
use crate::party::{RegistryObject, RegistryObjectKind, Scope, Versioned, put_edit};
use crate::prefix::PrefixRange;
use crate::rules::Rules;
use crate::validate::check_text;
use crate::{CallContext, Registry, RegistryError, ResultPage, codes};

/// Registration agency.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Agency {
    /// Code of the agency, ASCII case-insensitive.
    pub code: Box<str>,
    /// Name of the agency.
    pub name: Box<str>,
    /// Whether registrations must include metadata.
    #[serde(default, rename = "metadata")]
    pub metadata_policy: MetadataPolicy,
    /// Range of prefixes to allocate from; without one, prefixes from 10.70000 on that are in no other range.
    #[serde(default, rename = "range", skip_serializing_if = "Option::is_none")]
    pub prefix_range: Option<PrefixRange>,
    /// Handle of a record with the common locations of its names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locations: Option<Box<str>>,
    /// Time of creation, in milliseconds since 1970.
    #[serde(rename = "created")]
    pub created_ms: u64,
    /// Closure, if the agency was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<AgencyClosure>,
}

/// Closure of an agency: time and successor.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AgencyClosure {
    /// Time of closure, in milliseconds since 1970.
    #[serde(rename = "at")]
    pub time_ms: u64,
    /// Code of the agency that took over the registrants.
    pub successor: Box<str>,
}

/// Whether a registration must include kernel metadata.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetadataPolicy {
    /// Required for registration (ISO 26324).
    #[default]
    Required,
    /// Optional.
    Optional,
}

/// Command: create an agency.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateAgency {
    /// See [`Agency::code`].
    pub code: Box<str>,
    /// See [`Agency::name`].
    pub name: Box<str>,
    /// See [`Agency::metadata_policy`].
    #[serde(default, rename = "metadata")]
    pub metadata_policy: MetadataPolicy,
    /// See [`Agency::prefix_range`].
    #[serde(default, rename = "range")]
    pub prefix_range: Option<PrefixRange>,
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
    /// See [`Agency::metadata_policy`].
    #[serde(default, rename = "metadata")]
    pub metadata_policy: Option<MetadataPolicy>,
    /// See [`Agency::prefix_range`].
    #[serde(default, rename = "range")]
    pub prefix_range: Option<PrefixRange>,
    /// See [`Agency::locations`].
    #[serde(default)]
    pub locations: Option<Box<str>>,
    /// Expected revision.
    #[serde(skip)]
    pub expected_revision: Option<u64>,
}

/// Maximum length of an agency code.
const MAX_CODE_LEN: usize = 32;

/// Maximum length of the name of an agency or registrant, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 256;

impl RegistryObject for Agency {
    const KIND: RegistryObjectKind = RegistryObjectKind::Agency;

    fn id(&self) -> &str {
        &self.code
    }
}

impl Agency {
    fn validate(&self) -> Result<(), RegistryError> {
        let is_code = |code: &str| {
            code.len() <= MAX_CODE_LEN
                && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if self.code.is_empty() || !is_code(&self.code) {
            let detail = "invalid agency code; use 1 to 32 ASCII letters, digits, `-` or `_`";
            return Err(RegistryError::invalid(codes::INVALID_CODE, "/code", detail));
        }
        check_text(&self.name, "/name", MAX_NAME_BYTES)?;
        if let Some(range) = &self.prefix_range {
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

impl CommandPlanner for CreateAgency {
    type Output = Agency;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<Agency>, RegistryError> {
        principal.check_operator()?;
        let Self { code, name, metadata_policy, prefix_range, locations } = self.clone();
        let created_ms = call.now_ms;
        let agency =
            Agency { code, name, metadata_policy, prefix_range, locations, created_ms, closed: None };
        agency.validate()?;
        if let Some(existing) = rules.find_object::<Agency>(&agency.code, call.budget).await? {
            let detail = format!("agency `{}` already exists", existing.value.code);
            return Err(RegistryError::new(codes::AGENCY_EXISTS, detail).with_pointer("/code"));
        }
        Ok(CommandPlan::new(vec![put_edit(&agency, None)], agency))
    }
}

impl CommandPlanner for UpdateAgency {
    type Output = Agency;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<Agency>, RegistryError> {
        let Versioned { value: previous, revision } =
            rules.get_object::<Agency>(&self.code, call.budget).await?;
        principal.check_agency(&previous.code, Scope::Administer)?;
        principal.check_all_prefixes()?;
        super::check_revision(self.expected_revision, revision)?;
        if self.prefix_range.is_some() && !principal.is_operator() {
            return Err(RegistryError::forbidden("only the operator can change an agency's prefix range"));
        }
        let mut agency = previous.clone();
        agency.name = self.name.clone().unwrap_or(agency.name);
        agency.metadata_policy = self.metadata_policy.unwrap_or(agency.metadata_policy);
        agency.prefix_range = self.prefix_range.clone().or(agency.prefix_range);
        agency.locations = self.locations.clone().or(agency.locations);
        agency.validate()?;
        if agency == previous {
            return Ok(CommandPlan::new(Vec::new(), agency));
        }
        let mut edits = vec![put_edit(&agency, Some(revision))];
        if agency.locations != previous.locations {
            edits.extend(rules.namespace_edits(&agency, call.now_ms).await?);
        }
        Ok(CommandPlan::new(edits, agency))
    }
}

impl Registry {
    /// Gets an agency. Public.
    pub async fn get_agency(
        &self,
        code: &str,
        budget: &mut Budget,
    ) -> Result<Versioned<Agency>, RegistryError> {
        self.rules.get_object(code, budget).await
    }

    /// Lists agencies in code order. Public.
    pub async fn list_agencies(
        &self,
        after: Option<&str>,
        limit: usize,
        budget: &mut Budget,
    ) -> Result<ResultPage<Versioned<Agency>>, RegistryError> {
        Ok(self.rules.list_objects(after, limit, budget, Some).await?)
    }
}

impl Agency {
    /// Fails if the agency is closed.
    pub(crate) fn check_open(&self, pointer: &str) -> Result<(), RegistryError> {
        let Some(closure) = &self.closed else { return Ok(()) };
        let detail = format!("agency `{}` is closed; its successor is `{}`", self.code, closure.successor);
        Err(RegistryError::new(codes::AGENCY_CLOSED, detail).with_pointer(pointer))
    }
}
