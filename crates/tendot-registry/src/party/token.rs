//! Tokens: by which parties are known.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use tendot_proto::Work;
use tendot_store::{Edit, Precondition};

use super::standing::ActingRole;
use super::{Agency, Held, Kind, Registrant, Principal, check_text, fingerprint, new_id, put};
use crate::refusal::Reason;
use crate::task::Planned;
use crate::task::sealed::Plan;
use crate::{Caller, Error, Refusal, Registry};

/// What all tokens begin with, so that they are known for what they are where they should not be.
const START: &str = "tendot_";

/// For whom a token is.
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

/// What a token is for.
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

/// A token, without its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Token {
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

/// A new token.
#[derive(Clone, Debug)]
pub struct CreateToken {
    /// See [`Token::role`].
    pub role: Role,
    /// See [`Token::subject`].
    pub subject: Option<Box<str>>,
    /// See [`Token::scopes`].
    pub scopes: Option<Vec<Scope>>,
    /// See [`Token::prefixes`].
    pub prefixes: Vec<Box<str>>,
    /// See [`Token::expires`].
    pub expires: Option<u64>,
    /// See [`Token::label`].
    pub label: Option<Box<str>>,
    /// What its id and its secret are made of.
    pub random: [u8; 48],
}

/// A token is to be no longer.
#[derive(Clone, Debug)]
pub struct RevokeToken {
    /// Its id.
    pub id: Box<str>,
}

/// Somebody who has shown a token.
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
    pub fn text(&self) -> String {
        format!("{START}{}_{}", self.id(), self.secret())
    }

    fn id(&self) -> String {
        let [id @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = &self.random;
        new_id(id.get(..12).unwrap_or(id))
    }

    fn secret(&self) -> String {
        HEXLOWER.encode(self.random.get(16..).unwrap_or_default())
    }
}

impl Plan for CreateToken {
    type Done = Token;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Work,
    ) -> Result<Planned<Token>, Refusal> {
        standing.check(Scope::Administer)?;
        // A token for some prefixes does not make one for others.
        standing.check_unrestricted()?;
        let missing = |what: &str| Refusal::invalid("missing", "/subject", format!("which {what} it is for"));
        let subject = match (self.role, &self.subject) {
            (Role::Operator, None) => {
                standing.check_operator()?;
                None
            }
            (Role::Operator, Some(_)) => {
                return Err(Refusal::invalid("bad-subject", "/subject", "the operator's token has none"));
            }
            (Role::Agency, code) => {
                let code = code.as_ref().ok_or_else(|| missing("agency"))?;
                let agency = registry.held::<Agency>(Kind::Agency, code, work).await?;
                let no_such = format!("there is no agency `{code}`");
                let agency = agency.ok_or_else(|| Refusal::invalid("no-such-agency", "/subject", no_such))?;
                standing.check_agency(&agency.it.code, Scope::Administer)?;
                agency.it.check_open("/subject")?;
                Some(agency.it.code)
            }
            (Role::Registrant, id) => {
                let id = id.as_ref().ok_or_else(|| missing("registrant"))?;
                let registrant = registry.held::<Registrant>(Kind::Registrant, id, work).await?;
                let no_such = format!("there is no registrant `{id}`");
                let registrant =
                    registrant.ok_or_else(|| Refusal::invalid("no-such-registrant", "/subject", no_such))?;
                standing.check_registrant(&registrant.it, Scope::Administer)?;
                Some(registrant.it.id)
            }
        };
        if self.expires.is_some_and(|end| end <= at) {
            return Err(Refusal::invalid("expired", "/expires", "it would have expired already"));
        }
        if self.scopes.as_ref().is_some_and(Vec::is_empty) {
            return Err(Refusal::invalid("missing", "/scopes", "a token is for something"));
        }
        if self.prefixes.len() > 1_000 {
            return Err(Refusal::invalid("too-many", "/prefixes", "at most 1,000 prefixes are taken"));
        }
        if let Some(label) = &self.label {
            check_text(label, "/label", 256)?;
        }
        let token = Token {
            id: self.id().into(),
            role: self.role,
            subject,
            scopes: self.scopes.clone(),
            prefixes: self.prefixes.clone(),
            expires: self.expires,
            label: self.label.clone(),
            created: at,
            hash: fingerprint(self.secret().as_bytes())?.into(),
        };
        Ok(Planned::new(vec![put(Kind::Token, &token.id, &token, None)], token))
    }
}

impl Plan for RevokeToken {
    type Done = ();

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        _: u64,
        work: &mut Work,
    ) -> Result<Planned<()>, Refusal> {
        standing.check(Scope::Administer)?;
        standing.check_all_prefixes()?;
        let no_such = || Refusal::not_found(Kind::Token.name(), &self.id);
        let Held { it: token, revision } = registry.required::<Token>(Kind::Token, &self.id, work).await?;
        // Of others' tokens nobody learns that they are there.
        if !registry.is_concerned(&token, standing, work).await? {
            return Err(no_such());
        }
        let name = Kind::Token.storage_name(&self.id).into();
        Ok(Planned::new(vec![Edit::Remove { name, expect: Precondition::Revision(revision) }], ()))
    }
}

impl Registry {
    /// Who has shown a token; nobody if it is none, or no longer.
    pub async fn by_token(
        &self,
        text: &str,
        at: u64,
        work: &mut Work,
    ) -> Result<Option<TokenIdentity>, Error> {
        let Some((id, secret)) = text.strip_prefix(START).and_then(|rest| rest.split_once('_')) else {
            return Ok(None);
        };
        let Some(held) = self.held::<Token>(Kind::Token, id, work).await? else { return Ok(None) };
        let token = held.it;
        let is_it = bool::from(fingerprint(secret.as_bytes())?.as_bytes().ct_eq(token.hash.as_bytes()))
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
        work: &mut Work,
    ) -> Result<(Vec<Held<Token>>, Option<String>), Refusal> {
        let standing = self.standing(caller, at, work).await?;
        standing.check(Scope::Administer)?;
        standing.check_all_prefixes()?;
        let item = |held: Held<Token>| {
            let whom = match (&standing.role, held.it.role, &held.it.subject) {
                (ActingRole::Operator, ..) => None,
                (ActingRole::Agency(code), Role::Agency, Some(subject)) if code.eq_ignore_ascii_case(subject) => {
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
        Ok(self.list_objects_for(Kind::Token, after, limit, &standing, work, item).await?)
    }

    async fn is_concerned(
        &self,
        token: &Token,
        standing: &Principal,
        work: &mut Work,
    ) -> Result<bool, Refusal> {
        Ok(match (token.role, &token.subject) {
            (Role::Agency, Some(code)) => standing.is_agency(code),
            (Role::Registrant, Some(id)) => {
                let registrant = self.held::<Registrant>(Kind::Registrant, id, work).await?;
                registrant
                    .map_or_else(|| standing.is_operator(), |registrant| standing.is_for_registrant(&registrant.it))
            }
            _ => standing.is_operator(),
        })
    }
}

impl Principal {
    /// It is by no token that is only for some things: rights that it has not are not its to give.
    pub(super) fn check_unrestricted(&self) -> Result<(), Refusal> {
        if self.is_whole() {
            return Ok(());
        }
        let detail = "a token that is for some things only makes no others";
        Err(Refusal::new(Reason::Forbidden, "out-of-scope", detail))
    }
}
