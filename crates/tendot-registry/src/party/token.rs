//! Tokens: by which parties are known.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use tendot_proto::Budget;
use tendot_store::{Edit, Precondition};

use super::standing::ActingRole;
use super::{
    Agency, Held, Principal, Registrant, RegistryObjectKind, check_text, generate_id, put_edit, sha256_hex,
};
use crate::refusal::RegistryErrorKind;
use crate::task::CommandPlan;
use crate::task::sealed::Plan;
use crate::{Caller, Error, Registry, RegistryError};

/// What all tokens begin with, so that they are known for what they are where they should not be.
const TOKEN_PREFIX: &str = "tendot_";

/// Role of an API token.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Who runs the service.
    Operator,
    /// An agency.
    Agency,
    /// A registrant.
    Registrant,
}

/// Scope of an API token.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// To see what is only for those concerned. Every token is for that.
    Read,
    /// To register, change and end names.
    Deposit,
    /// To give names, prefixes and agencies away, and to take them.
    Transfer,
    /// To make and change registrants, prefixes and tokens.
    Administer,
}

impl Scope {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Deposit => "deposit",
            Self::Transfer => "transfer",
            Self::Administer => "administer",
        }
    }
}

/// API token without its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ApiToken {
    /// By which it is known.
    pub id: Box<str>,
    /// For whom it is …
    pub role: Role,
    /// … by code or id; none for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Box<str>>,
    /// What for; all that its role may, without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Scope>>,
    /// Which prefixes it is for; all, without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<Box<str>>,
    /// Until when, in milliseconds since 1970; for ever, without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Box<str>>,
    /// Since when, in milliseconds since 1970.
    pub created: u64,
    /// SHA-256 of its secret.
    pub(crate) hash: Box<str>,
}

/// Command: create an API token.
#[derive(Clone, Debug)]
pub struct CreateToken {
    /// See [`ApiToken::role`].
    pub role: Role,
    /// See [`ApiToken::subject`].
    pub subject: Option<Box<str>>,
    /// See [`ApiToken::scopes`].
    pub scopes: Option<Vec<Scope>>,
    /// See [`ApiToken::prefixes`].
    pub prefixes: Vec<Box<str>>,
    /// See [`ApiToken::expires`].
    pub expires: Option<u64>,
    /// See [`ApiToken::label`].
    pub label: Option<Box<str>>,
    /// What its id and its secret are made of.
    pub random: [u8; 48],
}

/// Command: revoke an API token.
#[derive(Clone, Debug)]
pub struct RevokeToken {
    /// Its id.
    pub id: Box<str>,
}

/// Authenticated API token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenIdentity {
    /// Its id.
    pub id: Box<str>,
    role: Role,
    subject: Option<Box<str>>,
    /// When it was shown, in milliseconds since 1970.
    pub(super) at: u64,
}

impl TokenIdentity {
    /// Whether it is the operator's.
    pub fn is_operator(&self) -> bool {
        self.role == Role::Operator
    }
}

/// As the log has it.
impl fmt::Display for TokenIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.role, &self.subject) {
            (Role::Agency, Some(code)) => write!(f, "agency:{code}"),
            (Role::Registrant, Some(id)) => write!(f, "registrant:{id}"),
            _ => f.write_str("operator"),
        }
    }
}

impl CreateToken {
    /// The token as it is shown, once.
    pub fn plaintext(&self) -> String {
        format!("{TOKEN_PREFIX}{}_{}", self.id(), self.secret())
    }

    fn id(&self) -> String {
        let [id @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = &self.random;
        generate_id(id.get(..12).unwrap_or(id))
    }

    fn secret(&self) -> String {
        HEXLOWER.encode(self.random.get(16..).unwrap_or_default())
    }
}

impl Plan for CreateToken {
    type Output = ApiToken;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<ApiToken>, RegistryError> {
        standing.check_scope(Scope::Administer)?;
        // A token for some prefixes does not make one for others.
        standing.check_unrestricted()?;
        let missing =
            |what: &str| RegistryError::invalid("missing", "/subject", format!("which {what} it is for"));
        let subject = match (self.role, &self.subject) {
            (Role::Operator, None) => {
                standing.check_operator()?;
                None
            }
            (Role::Operator, Some(_)) => {
                return Err(RegistryError::invalid(
                    "bad-subject",
                    "/subject",
                    "the operator's token has none",
                ));
            }
            (Role::Agency, code) => {
                let code = code.as_ref().ok_or_else(|| missing("agency"))?;
                let agency = registry.find_object::<Agency>(RegistryObjectKind::Agency, code, work).await?;
                let no_such = format!("there is no agency `{code}`");
                let agency =
                    agency.ok_or_else(|| RegistryError::invalid("no-such-agency", "/subject", no_such))?;
                standing.check_agency(&agency.it.code, Scope::Administer)?;
                agency.it.check_open("/subject")?;
                Some(agency.it.code)
            }
            (Role::Registrant, id) => {
                let id = id.as_ref().ok_or_else(|| missing("registrant"))?;
                let registrant =
                    registry.find_object::<Registrant>(RegistryObjectKind::Registrant, id, work).await?;
                let no_such = format!("there is no registrant `{id}`");
                let registrant = registrant
                    .ok_or_else(|| RegistryError::invalid("no-such-registrant", "/subject", no_such))?;
                standing.check_registrant(&registrant.it, Scope::Administer)?;
                Some(registrant.it.id)
            }
        };
        if self.expires.is_some_and(|end| end <= at) {
            return Err(RegistryError::invalid("expired", "/expires", "it would have expired already"));
        }
        if self.scopes.as_ref().is_some_and(Vec::is_empty) {
            return Err(RegistryError::invalid("missing", "/scopes", "a token is for something"));
        }
        if self.prefixes.len() > 1_000 {
            return Err(RegistryError::invalid("too-many", "/prefixes", "at most 1,000 prefixes are taken"));
        }
        if let Some(label) = &self.label {
            check_text(label, "/label", 256)?;
        }
        let token = ApiToken {
            id: self.id().into(),
            role: self.role,
            subject,
            scopes: self.scopes.clone(),
            prefixes: self.prefixes.clone(),
            expires: self.expires,
            label: self.label.clone(),
            created: at,
            hash: sha256_hex(self.secret().as_bytes())?.into(),
        };
        Ok(CommandPlan::new(vec![put_edit(RegistryObjectKind::Token, &token.id, &token, None)], token))
    }
}

impl Plan for RevokeToken {
    type Output = ();

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        _: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<()>, RegistryError> {
        standing.check_scope(Scope::Administer)?;
        standing.check_all_prefixes()?;
        let no_such = || RegistryError::not_found(RegistryObjectKind::Token.name(), &self.id);
        let Held { it: token, revision } =
            registry.get_object::<ApiToken>(RegistryObjectKind::Token, &self.id, work).await?;
        // Of others' tokens nobody learns that they are there.
        if !registry.is_concerned(&token, standing, work).await? {
            return Err(no_such());
        }
        let name = RegistryObjectKind::Token.storage_name(&self.id).into();
        Ok(CommandPlan::new(vec![Edit::Remove { name, expect: Precondition::Revision(revision) }], ()))
    }
}

impl Registry {
    /// Who has shown a token; nobody if it is none, or no longer.
    pub async fn by_token(
        &self,
        text: &str,
        at: u64,
        work: &mut Budget,
    ) -> Result<Option<TokenIdentity>, Error> {
        let Some((id, secret)) = text.strip_prefix(TOKEN_PREFIX).and_then(|rest| rest.split_once('_')) else {
            return Ok(None);
        };
        let Some(held) = self.find_object::<ApiToken>(RegistryObjectKind::Token, id, work).await? else {
            return Ok(None);
        };
        let token = held.it;
        let is_it = bool::from(sha256_hex(secret.as_bytes())?.as_bytes().ct_eq(token.hash.as_bytes()))
            && token.expires.is_none_or(|end| end > at);
        Ok(is_it.then_some(TokenIdentity { id: token.id, role: token.role, subject: token.subject, at }))
    }

    /// The tokens of those for whom somebody acts, by their ids, without their secrets.
    pub async fn tokens(
        &self,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<(Vec<Held<ApiToken>>, Option<String>), RegistryError> {
        let standing = self.principal(caller, at, work).await?;
        standing.check_scope(Scope::Administer)?;
        standing.check_all_prefixes()?;
        let item = |held: Held<ApiToken>| {
            let whom = match (&standing.role, held.it.role, &held.it.subject) {
                (ActingRole::Operator, ..) => None,
                (ActingRole::Agency(code), Role::Agency, Some(subject))
                    if code.eq_ignore_ascii_case(subject) =>
                {
                    None
                }
                (ActingRole::Registrant(id), Role::Registrant, Some(subject)) if id == subject => None,
                (ActingRole::Agency(_) | ActingRole::Handle(_), Role::Registrant, Some(subject)) => {
                    Some(subject.clone())
                }
                _ => return None,
            };
            Some((held, whom.into_iter().collect()))
        };
        Ok(self.list_objects_for(RegistryObjectKind::Token, after, limit, &standing, work, item).await?)
    }

    async fn is_concerned(
        &self,
        token: &ApiToken,
        standing: &Principal,
        work: &mut Budget,
    ) -> Result<bool, RegistryError> {
        Ok(match (token.role, &token.subject) {
            (Role::Agency, Some(code)) => standing.is_for_agency(code),
            (Role::Registrant, Some(id)) => {
                let registrant =
                    self.find_object::<Registrant>(RegistryObjectKind::Registrant, id, work).await?;
                registrant.map_or_else(
                    || standing.is_operator(),
                    |registrant| standing.is_for_registrant(&registrant.it),
                )
            }
            _ => standing.is_operator(),
        })
    }
}

impl Principal {
    /// It is by no token that is only for some things: rights that it has not are not its to give.
    pub(super) fn check_unrestricted(&self) -> Result<(), RegistryError> {
        if self.is_unrestricted() {
            return Ok(());
        }
        let detail = "a token that is for some things only makes no others";
        Err(RegistryError::new(RegistryErrorKind::Forbidden, "out-of-scope", detail))
    }
}
