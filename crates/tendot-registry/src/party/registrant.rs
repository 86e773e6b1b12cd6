//! Registrants.

use serde::{Deserialize, Serialize};
use tendot_proto::{Budget, ValueReference};

use crate::authorization::{ActingRole, Principal};
use crate::command::CommandPlan;
use crate::command::sealed::PlanCommand;
use crate::party::{
    Agency, Held, RegistryObjectKind, Scope, check_revision, generate_id, put_edit, touch_holdings,
};
use crate::validate::check_text;
use crate::{Caller, Registry, RegistryError, codes};

/// Registrant: organization that registers DOIs through an agency.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Registrant {
    /// Id of the registrant.
    pub id: Box<str>,
    /// Code of its agency.
    pub agency: Box<str>,
    /// Name of the registrant.
    pub name: Box<str>,
    /// Contact; private.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<Box<str>>,
    /// Handle identities that act for it, such as `300:10.70000/admin`; private.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admins: Vec<Box<str>>,
    /// Time of creation, in milliseconds since 1970.
    pub created: u64,
}

/// Command: create a registrant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateRegistrant {
    /// See [`Registrant::agency`]; defaults to the caller's agency.
    #[serde(default)]
    pub agency: Option<Box<str>>,
    /// See [`Registrant::name`].
    pub name: Box<str>,
    /// See [`Registrant::contact`].
    #[serde(default)]
    pub contact: Option<Box<str>>,
    /// See [`Registrant::admins`].
    #[serde(default)]
    pub admins: Vec<Box<str>>,
    /// Random bytes for the id.
    #[serde(skip)]
    pub random: [u8; 16],
}

/// Command: update a registrant; absent fields are unchanged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateRegistrant {
    /// Id of the registrant to update.
    #[serde(skip)]
    pub id: Box<str>,
    /// See [`Registrant::name`].
    #[serde(default)]
    pub name: Option<Box<str>>,
    /// See [`Registrant::contact`].
    #[serde(default)]
    pub contact: Option<Box<str>>,
    /// See [`Registrant::admins`].
    #[serde(default)]
    pub admins: Option<Vec<Box<str>>>,
    /// Expected revision.
    #[serde(skip)]
    pub expect: Option<u64>,
}

/// Maximum number of admins of a registrant.
const MAX_REGISTRANT_ADMINS: usize = 64;

impl Registrant {
    fn validate(&self) -> Result<(), RegistryError> {
        check_text(&self.name, "/name", 256)?;
        if let Some(contact) = &self.contact {
            check_text(contact, "/contact", 512)?;
        }
        if self.admins.len() > MAX_REGISTRANT_ADMINS {
            let detail =
                format!("{} identities, at most {MAX_REGISTRANT_ADMINS} are taken", self.admins.len());
            return Err(RegistryError::invalid(codes::TOO_MANY, "/admins", detail));
        }
        for (number, admin) in self.admins.iter().enumerate() {
            let reference = ValueReference::parse(admin);
            if reference.index == 0 || reference.handle().validate_for_create().is_err() {
                let detail = format!("`{admin}` is not written as INDEX:HANDLE, such as 300:10.70000/admin");
                return Err(RegistryError::invalid(
                    codes::INVALID_IDENTITY,
                    &format!("/admins/{number}"),
                    detail,
                ));
            }
        }
        Ok(())
    }

    /// Removes private fields.
    fn redacted(self) -> Self {
        Self { contact: None, admins: Vec::new(), ..self }
    }

    pub(crate) fn admin_references(&self) -> Vec<ValueReference<'static>> {
        self.admins.iter().map(|admin| ValueReference::parse(admin).into_owned()).collect()
    }
}

impl PlanCommand for CreateRegistrant {
    type Output = Registrant;

    async fn plan(
        &self,
        registry: &Registry,
        principal: &Principal,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<CommandPlan<Registrant>, RegistryError> {
        principal.check_scope(Scope::Administer)?;
        let ((Some(code), _) | (None, ActingRole::Agency(code))) = (&self.agency, &principal.role) else {
            return Err(RegistryError::invalid(codes::MISSING, "/agency", "a registrant has an agency"));
        };
        let agency = registry
            .find_object::<Agency>(RegistryObjectKind::Agency, code, budget)
            .await?
            .ok_or_else(|| {
                RegistryError::invalid(
                    codes::UNKNOWN_AGENCY,
                    "/agency",
                    format!("there is no agency `{code}`"),
                )
            })?;
        principal.check_agency(&agency.it.code, Scope::Administer)?;
        principal.check_all_prefixes()?;
        agency.it.check_open("/agency")?;
        let registrant = Registrant {
            id: generate_id(&self.random).into(),
            agency: agency.it.code,
            name: self.name.clone(),
            contact: self.contact.clone(),
            admins: self.admins.clone(),
            created: now_ms,
        };
        registrant.validate()?;
        let holdings_edit = touch_holdings(RegistryObjectKind::Agency, &registrant.agency, &registrant.id);
        Ok(CommandPlan::new(
            vec![put_edit(RegistryObjectKind::Registrant, &registrant.id, &registrant, None), holdings_edit],
            registrant,
        ))
    }
}

impl PlanCommand for UpdateRegistrant {
    type Output = Registrant;

    async fn plan(
        &self,
        registry: &Registry,
        principal: &Principal,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<CommandPlan<Registrant>, RegistryError> {
        let object =
            registry.get_object::<Registrant>(RegistryObjectKind::Registrant, &self.id, budget).await?;
        let Held { it: before, revision } = object;
        principal.check_registrant(&before, Scope::Administer)?;
        principal.check_all_prefixes()?;
        check_revision(self.expect, revision)?;
        let mut registrant = before.clone();
        registrant.name = self.name.clone().unwrap_or(registrant.name);
        registrant.contact = self.contact.clone().or(registrant.contact);
        registrant.admins = self.admins.clone().unwrap_or(registrant.admins);
        registrant.validate()?;
        if registrant == before {
            return Ok(CommandPlan::new(Vec::new(), registrant));
        }
        let mut edits =
            vec![put_edit(RegistryObjectKind::Registrant, &registrant.id, &registrant, Some(revision))];
        if registrant.admins != before.admins {
            // Admins get all permissions of the registrant.
            principal.check_unrestricted()?;
            edits.extend(registry.admin_group_edits(&registrant, now_ms).await?);
        }
        Ok(CommandPlan::new(edits, registrant))
    }
}

impl Registry {
    /// Gets a registrant. Name and agency are public, other fields only for authorized principals.
    pub async fn registrant(
        &self,
        id: &str,
        caller: &Caller,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<Held<Registrant>, RegistryError> {
        let principal = self.principal(caller, now_ms, budget).await?;
        let object = self.get_object::<Registrant>(RegistryObjectKind::Registrant, id, budget).await?;
        Ok(redact_for(object, &principal))
    }

    /// Lists registrants in id order, of one agency if given.
    pub async fn registrants(
        &self,
        agency: Option<&str>,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<(Vec<Held<Registrant>>, Option<String>), RegistryError> {
        let principal = self.principal(caller, now_ms, budget).await?;
        let item = |object: Held<Registrant>| {
            let is_of_agency = agency.is_none_or(|agency| agency.eq_ignore_ascii_case(&object.it.agency));
            is_of_agency.then(|| redact_for(object, &principal))
        };
        Ok(self.list_objects(RegistryObjectKind::Registrant, after, limit, budget, item).await?)
    }
}

fn redact_for(object: Held<Registrant>, principal: &Principal) -> Held<Registrant> {
    if principal.can_read(&object.it) { object } else { Held { it: object.it.redacted(), ..object } }
}
