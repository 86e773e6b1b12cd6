//! Registrants.

use serde::{Deserialize, Serialize};
use tendot_proto::{Reference, Work};

use super::standing::ActingRole;
use super::{Agency, Held, Kind, Scope, Principal, check_revision, check_text, gets, new_id, put};
use crate::refusal::Reason;
use crate::task::Planned;
use crate::task::sealed::Plan;
use crate::{Caller, Refusal, Registry};

/// Who registers names, with an agency.
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

/// A new registrant.
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

/// What is to be otherwise with a registrant; what is not given stays.
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
    fn check(&self) -> Result<(), Refusal> {
        check_text(&self.name, "/name", 256)?;
        if let Some(contact) = &self.contact {
            check_text(contact, "/contact", 512)?;
        }
        if self.admins.len() > MAX_REGISTRANT_ADMINS {
            let detail = format!("{} identities, at most {MAX_REGISTRANT_ADMINS} are taken", self.admins.len());
            return Err(Refusal::invalid("too-many", "/admins", detail));
        }
        for (number, admin) in self.admins.iter().enumerate() {
            let reference = Reference::parse(admin);
            if reference.index == 0 || reference.handle().check().is_err() {
                let detail = format!("`{admin}` is not written as INDEX:HANDLE, such as 300:10.70000/admin");
                return Err(Refusal::invalid("bad-identity", &format!("/admins/{number}"), detail));
            }
        }
        Ok(())
    }

    /// Without what is told only to those concerned.
    fn for_all(self) -> Self {
        Self { contact: None, admins: Vec::new(), ..self }
    }

    pub(crate) fn group(&self) -> Vec<Reference<'static>> {
        self.admins.iter().map(|admin| Reference::parse(admin).into_owned()).collect()
    }
}

impl Plan for CreateRegistrant {
    type Done = Registrant;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Work,
    ) -> Result<Planned<Registrant>, Refusal> {
        standing.check(Scope::Administer)?;
        let ((Some(code), _) | (None, ActingRole::Agency(code))) = (&self.agency, &standing.role) else {
            return Err(Refusal::invalid("missing", "/agency", "a registrant has an agency"));
        };
        let agency = registry.held::<Agency>(Kind::Agency, code, work).await?.ok_or_else(|| {
            Refusal::invalid("no-such-agency", "/agency", format!("there is no agency `{code}`"))
        })?;
        standing.check_agency(&agency.it.code, Scope::Administer)?;
        standing.check_all_prefixes()?;
        agency.it.check_open("/agency")?;
        let registrant = Registrant {
            id: new_id(&self.random).into(),
            agency: agency.it.code,
            name: self.name.clone(),
            contact: self.contact.clone(),
            admins: self.admins.clone(),
            created: at,
        };
        registrant.check()?;
        let comes = gets(Kind::Agency, &registrant.agency, &registrant.id);
        Ok(Planned::new(vec![put(Kind::Registrant, &registrant.id, &registrant, None), comes], registrant))
    }
}

impl Agency {
    /// It has not ended.
    pub(crate) fn check_open(&self, pointer: &str) -> Result<(), Refusal> {
        let Some(ended) = &self.ended else { return Ok(()) };
        let detail = format!("agency `{}` has ended; `{}` has its registrants", self.code, ended.successor);
        Err(Refusal::new(Reason::Conflict, "agency-ended", detail).at(pointer))
    }
}

impl Plan for UpdateRegistrant {
    type Done = Registrant;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Work,
    ) -> Result<Planned<Registrant>, Refusal> {
        let held = registry.required::<Registrant>(Kind::Registrant, &self.id, work).await?;
        let Held { it: before, revision } = held;
        standing.check_registrant(&before, Scope::Administer)?;
        standing.check_all_prefixes()?;
        check_revision(self.expect, revision)?;
        let mut registrant = before.clone();
        registrant.name = self.name.clone().unwrap_or(registrant.name);
        registrant.contact = self.contact.clone().or(registrant.contact);
        registrant.admins = self.admins.clone().unwrap_or(registrant.admins);
        registrant.check()?;
        if registrant == before {
            return Ok(Planned::new(Vec::new(), registrant));
        }
        let mut edits = vec![put(Kind::Registrant, &registrant.id, &registrant, Some(revision))];
        if registrant.admins != before.admins {
            // Whoever acts for it may do everything for it.
            standing.check_unrestricted()?;
            edits.extend(registry.admin_group_edits(&registrant, at).await?);
        }
        Ok(Planned::new(edits, registrant))
    }
}

impl Registry {
    /// A registrant: all of it to those concerned, its name and agency to everybody.
    pub async fn registrant(
        &self,
        id: &str,
        caller: &Caller,
        at: u64,
        work: &mut Work,
    ) -> Result<Held<Registrant>, Refusal> {
        let standing = self.standing(caller, at, work).await?;
        let held = self.required::<Registrant>(Kind::Registrant, id, work).await?;
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
        work: &mut Work,
    ) -> Result<(Vec<Held<Registrant>>, Option<String>), Refusal> {
        let standing = self.standing(caller, at, work).await?;
        let item = |held: Held<Registrant>| {
            let is_of_it = agency.is_none_or(|agency| agency.eq_ignore_ascii_case(&held.it.agency));
            is_of_it.then(|| shown(held, &standing))
        };
        Ok(self.list_objects(Kind::Registrant, after, limit, work, item).await?)
    }
}

fn shown(held: Held<Registrant>, standing: &Principal) -> Held<Registrant> {
    if standing.may_see(&held.it) { held } else { Held { it: held.it.for_all(), ..held } }
}
