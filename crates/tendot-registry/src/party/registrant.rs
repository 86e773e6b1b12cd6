//! Registrants.

use serde::{Deserialize, Serialize};
use tendot_proto::{Budget, ValueReference};

use super::standing::ActingRole;
use super::{
    Agency, Held, Principal, RegistryObjectKind, Scope, check_revision, check_text, generate_id, gets,
    put_edit,
};
use crate::refusal::RegistryErrorKind;
use crate::task::CommandPlan;
use crate::task::sealed::Plan;
use crate::{Caller, Registry, RegistryError};

/// Registrant: organization that registers DOIs through an agency.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Registrant {
    /// By which it is known.
    pub id: Box<str>,
    /// The code of its agency.
    pub agency: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// How it is reached; only told to those concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<Box<str>>,
    /// Identities of the Handle System that act for it, as `300:10.70000/admin`; only told to those concerned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admins: Vec<Box<str>>,
    /// Since when, in milliseconds since 1970.
    pub created: u64,
}

/// Command: create a registrant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateRegistrant {
    /// See [`Registrant::agency`]; an agency's own without.
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
    /// What its id is made of.
    #[serde(skip)]
    pub random: [u8; 16],
}

/// Command: update a registrant; absent fields are unchanged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateRegistrant {
    /// Which one.
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
    /// The revision that it has to have.
    #[serde(skip)]
    pub expect: Option<u64>,
}

/// Identities that act for one registrant.
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
            return Err(RegistryError::invalid("too-many", "/admins", detail));
        }
        for (number, admin) in self.admins.iter().enumerate() {
            let reference = ValueReference::parse(admin);
            if reference.index == 0 || reference.handle().validate_for_create().is_err() {
                let detail = format!("`{admin}` is not written as INDEX:HANDLE, such as 300:10.70000/admin");
                return Err(RegistryError::invalid("bad-identity", &format!("/admins/{number}"), detail));
            }
        }
        Ok(())
    }

    /// Without what is told only to those concerned.
    fn redacted(self) -> Self {
        Self { contact: None, admins: Vec::new(), ..self }
    }

    pub(crate) fn admin_references(&self) -> Vec<ValueReference<'static>> {
        self.admins.iter().map(|admin| ValueReference::parse(admin).into_owned()).collect()
    }
}

impl Plan for CreateRegistrant {
    type Output = Registrant;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<Registrant>, RegistryError> {
        standing.check_scope(Scope::Administer)?;
        let ((Some(code), _) | (None, ActingRole::Agency(code))) = (&self.agency, &standing.role) else {
            return Err(RegistryError::invalid("missing", "/agency", "a registrant has an agency"));
        };
        let agency = registry
            .find_object::<Agency>(RegistryObjectKind::Agency, code, work)
            .await?
            .ok_or_else(|| {
                RegistryError::invalid("no-such-agency", "/agency", format!("there is no agency `{code}`"))
            })?;
        standing.check_agency(&agency.it.code, Scope::Administer)?;
        standing.check_all_prefixes()?;
        agency.it.check_open("/agency")?;
        let registrant = Registrant {
            id: generate_id(&self.random).into(),
            agency: agency.it.code,
            name: self.name.clone(),
            contact: self.contact.clone(),
            admins: self.admins.clone(),
            created: at,
        };
        registrant.validate()?;
        let comes = gets(RegistryObjectKind::Agency, &registrant.agency, &registrant.id);
        Ok(CommandPlan::new(
            vec![put_edit(RegistryObjectKind::Registrant, &registrant.id, &registrant, None), comes],
            registrant,
        ))
    }
}

impl Agency {
    /// It has not ended.
    pub(crate) fn check_open(&self, pointer: &str) -> Result<(), RegistryError> {
        let Some(ended) = &self.ended else { return Ok(()) };
        let detail = format!("agency `{}` has ended; `{}` has its registrants", self.code, ended.successor);
        Err(RegistryError::new(RegistryErrorKind::Conflict, "agency-ended", detail).with_pointer(pointer))
    }
}

impl Plan for UpdateRegistrant {
    type Output = Registrant;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<Registrant>, RegistryError> {
        let held = registry.get_object::<Registrant>(RegistryObjectKind::Registrant, &self.id, work).await?;
        let Held { it: before, revision } = held;
        standing.check_registrant(&before, Scope::Administer)?;
        standing.check_all_prefixes()?;
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
            // Whoever acts for it may do everything for it.
            standing.check_unrestricted()?;
            edits.extend(registry.admin_group_edits(&registrant, at).await?);
        }
        Ok(CommandPlan::new(edits, registrant))
    }
}

impl Registry {
    /// A registrant: all of it to those concerned, its name and agency to everybody.
    pub async fn registrant(
        &self,
        id: &str,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<Held<Registrant>, RegistryError> {
        let standing = self.principal(caller, at, work).await?;
        let held = self.get_object::<Registrant>(RegistryObjectKind::Registrant, id, work).await?;
        Ok(shown(held, &standing))
    }

    /// Registrants, by their ids; those of one agency, if it is given.
    pub async fn registrants(
        &self,
        agency: Option<&str>,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<(Vec<Held<Registrant>>, Option<String>), RegistryError> {
        let standing = self.principal(caller, at, work).await?;
        let item = |held: Held<Registrant>| {
            let is_of_it = agency.is_none_or(|agency| agency.eq_ignore_ascii_case(&held.it.agency));
            is_of_it.then(|| shown(held, &standing))
        };
        Ok(self.list_objects(RegistryObjectKind::Registrant, after, limit, work, item).await?)
    }
}

fn shown(held: Held<Registrant>, standing: &Principal) -> Held<Registrant> {
    if standing.can_read(&held.it) { held } else { Held { it: held.it.redacted(), ..held } }
}
