//! Registration agencies.

use serde::{Deserialize, Serialize};
use tendot_proto::{Budget, Handle};

use super::prefix::PrefixRange;
use super::{Held, Principal, RegistryObjectKind, Scope, check_text, put_edit};
use crate::refusal::RegistryErrorKind;
use crate::task::CommandPlan;
use crate::task::sealed::Plan;
use crate::{Registry, RegistryError};

/// Registration agency.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Agency {
    /// By which it is known; ASCII case does not matter.
    pub code: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Whether names have to come with metadata.
    #[serde(default)]
    pub metadata: Demand,
    /// The prefixes that it gives away; those that nobody else has, from 10.70000 on, without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<PrefixRange>,
    /// The record with the locations that all of its names have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locations: Option<Box<str>>,
    /// Since when, in milliseconds since 1970.
    pub created: u64,
    /// That it has ended, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<AgencyClosure>,
}

/// Closure of an agency: time and successor.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AgencyClosure {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// The agency that has its registrants.
    pub successor: Box<str>,
}

/// Whether metadata has to be there.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    /// A name is not registered without.
    Required,
    /// It may come later, or never.
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
    /// Which one.
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
    /// The revision that it has to have.
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
            return Err(RegistryError::invalid("bad-code", "/code", detail));
        }
        check_text(&self.name, "/name", 256)?;
        if let Some(range) = &self.range {
            range.validate("/range")?;
        }
        match &self.locations {
            Some(handle) => Handle::from(&**handle)
                .validate_for_create()
                .map_err(|error| RegistryError::invalid("bad-name", "/locations", error.to_string())),
            None => Ok(()),
        }
    }
}

impl Plan for CreateAgency {
    type Output = Agency;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<Agency>, RegistryError> {
        standing.check_operator()?;
        let Self { code, name, metadata, range, locations } = self.clone();
        let agency = Agency { code, name, metadata, range, locations, created: at, ended: None };
        agency.validate()?;
        if let Some(there) =
            registry.find_object::<Agency>(RegistryObjectKind::Agency, &agency.code, work).await?
        {
            let detail = format!("there is an agency `{}`", there.it.code);
            return Err(RegistryError::new(RegistryErrorKind::Conflict, "agency-exists", detail)
                .with_pointer("/code"));
        }
        Ok(CommandPlan::new(vec![put_edit(RegistryObjectKind::Agency, &agency.code, &agency, None)], agency))
    }
}

impl Plan for UpdateAgency {
    type Output = Agency;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<Agency>, RegistryError> {
        let Held { it: before, revision } =
            registry.get_object::<Agency>(RegistryObjectKind::Agency, &self.code, work).await?;
        standing.check_agency(&before.code, Scope::Administer)?;
        standing.check_all_prefixes()?;
        super::check_revision(self.expect, revision)?;
        if self.range.is_some() && !standing.is_operator() {
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
            edits.extend(registry.namespace_edits(&agency, at).await?);
        }
        Ok(CommandPlan::new(edits, agency))
    }
}

impl Registry {
    /// An agency, for everybody.
    pub async fn agency(&self, code: &str, work: &mut Budget) -> Result<Held<Agency>, RegistryError> {
        self.get_object(RegistryObjectKind::Agency, code, work).await
    }

    /// Agencies, for everybody, by their codes.
    pub async fn agencies(
        &self,
        after: Option<&str>,
        limit: usize,
        work: &mut Budget,
    ) -> Result<(Vec<Held<Agency>>, Option<String>), RegistryError> {
        Ok(self.list_objects(RegistryObjectKind::Agency, after, limit, work, Some).await?)
    }
}
