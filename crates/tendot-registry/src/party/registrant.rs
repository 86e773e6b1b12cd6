//! Registrants.

use serde::{Deserialize, Serialize};
use tendot_proto::ValueReference;

use super::agency::MAX_NAME_BYTES;
use crate::authorization::{ActingRole, Principal};
use crate::command::CommandPlan;
use crate::command::sealed::CommandPlanner;
use crate::party::{
    Agency, RegistryObject, RegistryObjectKind, Scope, Versioned, check_revision, generate_id, put_edit,
    touch_holdings,
};
use crate::rules::Rules;
use crate::validate::check_text;
use crate::{CallContext, Registry, RegistryError, ResultPage, codes};

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
    #[serde(rename = "created")]
    pub created_ms: u64,
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
    pub random_bytes: [u8; 16],
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
    pub expected_revision: Option<u64>,
}

/// Maximum length of a contact, in bytes.
const MAX_CONTACT_BYTES: usize = 512;

/// Maximum number of admins of a registrant.
const MAX_REGISTRANT_ADMINS: usize = 64;

impl RegistryObject for Registrant {
    const KIND: RegistryObjectKind = RegistryObjectKind::Registrant;

    fn id(&self) -> &str {
        &self.id
    }
}

impl Registrant {
    fn validate(&self) -> Result<(), RegistryError> {
        check_text(&self.name, "/name", MAX_NAME_BYTES)?;
        if let Some(contact) = &self.contact {
            check_text(contact, "/contact", MAX_CONTACT_BYTES)?;
        }
        if self.admins.len() > MAX_REGISTRANT_ADMINS {
            let detail = format!("{} administrators (maximum {MAX_REGISTRANT_ADMINS})", self.admins.len());
            return Err(RegistryError::invalid(codes::TOO_MANY, "/admins", detail));
        }
        for (number, admin) in self.admins.iter().enumerate() {
            let reference = ValueReference::parse(admin);
            if reference.index == 0 || reference.handle().validate_for_create().is_err() {
                let detail = format!(
                    "invalid identity `{admin}`; expected INDEX:HANDLE, for example 300:10.70000/admin"
                );
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

impl CommandPlanner for CreateRegistrant {
    type Output = Registrant;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<Registrant>, RegistryError> {
        principal.check_scope(Scope::Administer)?;
        let ((Some(code), _) | (None, ActingRole::Agency(code))) = (&self.agency, &principal.role) else {
            return Err(RegistryError::invalid(codes::MISSING, "/agency", "missing `agency`"));
        };
        let agency = rules.get_named_object::<Agency>(code, "/agency", call.budget).await?;
        principal.check_agency(&agency.value.code, Scope::Administer)?;
        principal.check_all_prefixes()?;
        if !self.admins.is_empty() {
            principal.check_may_grant_access()?;
        }
        agency.value.check_open("/agency")?;
        let registrant = Registrant {
            id: generate_id(&self.random_bytes).into(),
            agency: agency.value.code,
            name: self.name.clone(),
            contact: self.contact.clone(),
            admins: self.admins.clone(),
            created_ms: call.now_ms,
        };
        registrant.validate()?;
        let holdings_edit = touch_holdings(RegistryObjectKind::Agency, &registrant.agency, &registrant.id);
        Ok(CommandPlan::new(vec![put_edit(&registrant, None), holdings_edit], registrant))
    }
}

impl CommandPlanner for UpdateRegistrant {
    type Output = Registrant;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<Registrant>, RegistryError> {
        let Versioned { value: previous, revision } =
            rules.get_object::<Registrant>(&self.id, call.budget).await?;
        principal.check_registrant(&previous, Scope::Administer)?;
        principal.check_all_prefixes()?;
        check_revision(self.expected_revision, revision)?;
        let mut registrant = previous.clone();
        registrant.name = self.name.clone().unwrap_or(registrant.name);
        registrant.contact = self.contact.clone().or(registrant.contact);
        registrant.admins = self.admins.clone().unwrap_or(registrant.admins);
        registrant.validate()?;
        if registrant == previous {
            return Ok(CommandPlan::new(Vec::new(), registrant));
        }
        let mut edits = vec![put_edit(&registrant, Some(revision))];
        if registrant.admins != previous.admins {
            // Admins get all permissions of the registrant.
            principal.check_may_grant_access()?;
            edits.extend(rules.admin_group_edits(&registrant, call.now_ms).await?);
        }
        Ok(CommandPlan::new(edits, registrant))
    }
}

impl Registry {
    /// Gets a registrant. Name and agency are public, other fields only for authorized principals.
    pub async fn get_registrant(
        &self,
        id: &str,
        mut call: CallContext<'_>,
    ) -> Result<Versioned<Registrant>, RegistryError> {
        let principal = self.rules.principal(&mut call).await?;
        let object = self.rules.get_object::<Registrant>(id, call.budget).await?;
        Ok(redact_for(object, &principal))
    }

    /// Lists registrants in id order, of one agency if given.
    pub async fn list_registrants(
        &self,
        agency: Option<&str>,
        after: Option<&str>,
        limit: usize,
        mut call: CallContext<'_>,
    ) -> Result<ResultPage<Versioned<Registrant>>, RegistryError> {
        let principal = self.rules.principal(&mut call).await?;
        let item = |object: Versioned<Registrant>| {
            let is_of_agency = agency.is_none_or(|agency| agency.eq_ignore_ascii_case(&object.value.agency));
            is_of_agency.then(|| redact_for(object, &principal))
        };
        Ok(self.rules.list_objects(after, limit, call.budget, item).await?)
    }
}

fn redact_for(object: Versioned<Registrant>, principal: &Principal) -> Versioned<Registrant> {
    if principal.can_read(&object.value) {
        object
    } else {
        Versioned { value: object.value.redacted(), ..object }
    }
}
