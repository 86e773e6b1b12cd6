//! API tokens: roles, scopes, creation, revocation and authentication.

use std::collections::VecDeque;
use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use tendot_proto::Budget;
use tendot_store::{Edit, Precondition, Store as _};

use crate::authorization::{ActingRole, Principal};
use crate::command::CommandPlan;
use crate::command::sealed::CommandPlanner;
use crate::party::{
    Agency, Registrant, RegistryObject, RegistryObjectKind, Versioned, clear_holdings, generate_id, put_edit,
    sha256_hex, touch_holdings,
};
use crate::rules::{RecordReader, Rules};
use crate::validate::check_text;
use crate::{CallContext, Error, Registry, RegistryError, ResultPage, codes, cost};

/// Prefix of all tokens, so that secret scanners recognize them.
const TOKEN_PREFIX: &str = "tendot_";

/// Maximum number of prefixes of a token.
const MAX_TOKEN_PREFIXES: usize = 1_000;

/// Maximum number of tokens that one revocation revokes.
const MAX_REVOKED_TOKENS: usize = 1_000;

/// Maximum number of transfer proposals that a revocation lists.
const MAX_LISTED_PROPOSALS: usize = 1_000;

/// Maximum length of a label, in bytes.
const MAX_LABEL_BYTES: usize = 256;

/// Role of an API token.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Operator of the service.
    Operator,
    /// Agency.
    Agency,
    /// Registrant.
    Registrant,
}

/// Scope of an API token.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read private data. Every token has this scope.
    Read,
    /// Register, update and retire names.
    #[serde(rename = "deposit")]
    Register,
    /// Propose and accept transfers.
    Transfer,
    /// Create and update registrants, prefixes and tokens.
    Administer,
}

impl Scope {
    /// Name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Register => "deposit",
            Self::Transfer => "transfer",
            Self::Administer => "administer",
        }
    }
}

/// API token without its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ApiToken {
    /// Id of the token.
    pub id: Box<str>,
    /// Role of the token.
    pub role: Role,
    /// Code of the agency or id of the registrant; `None` for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Box<str>>,
    /// Scopes; `None` for all scopes of the role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Scope>>,
    /// Prefixes; empty for all prefixes of the role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<Box<str>>,
    /// Expiry, in milliseconds since 1970; `None` for none.
    #[serde(default, rename = "expires", skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// Description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Box<str>>,
    /// Time of creation, in milliseconds since 1970.
    #[serde(rename = "created")]
    pub created_ms: u64,
    /// Id of the token that created this one; `None` if it was created with another credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<str>>,
    /// SHA-256 of the secret.
    pub(crate) hash: Box<str>,
}

impl RegistryObject for ApiToken {
    const KIND: RegistryObjectKind = RegistryObjectKind::Token;

    fn id(&self) -> &str {
        &self.id
    }
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
    /// See [`ApiToken::expires_ms`].
    pub expires_ms: Option<u64>,
    /// See [`ApiToken::label`].
    pub label: Option<Box<str>>,
    /// Random bytes for id and secret.
    pub random_bytes: [u8; 48],
}

/// Command: revoke an API token.
#[derive(Clone, Debug)]
pub struct RevokeToken {
    /// Id of the token.
    pub id: Box<str>,
    /// Whether the tokens that were created with it, and with those, are revoked, too.
    pub cascade: bool,
}

/// Result of a revocation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TokenRevocation {
    /// Revoked tokens, the requested one first.
    pub revoked: Vec<Box<str>>,
    /// Tokens that were created with the revoked ones and stay valid.
    pub children: Vec<Box<str>>,
    /// Transfers that were proposed with the revoked tokens and can no longer be accepted.
    pub proposals: Vec<Box<str>>,
}

/// Authenticated API token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenIdentity {
    /// Id of the token.
    pub id: Box<str>,
    role: Role,
    subject: Option<Box<str>>,
    /// Time of authentication, in milliseconds since 1970.
    pub(crate) authenticated_ms: u64,
}

impl TokenIdentity {
    /// Agency or registrant of the token, such as `registrant:ID`; the same for all its tokens.
    pub fn party(&self) -> String {
        match (self.role, &self.subject) {
            (Role::Agency, Some(code)) => format!("agency:{code}"),
            (Role::Registrant, Some(id)) => format!("registrant:{id}"),
            _ => "operator".into(),
        }
    }

    /// Whether it is an operator token.
    pub fn is_operator(&self) -> bool {
        self.role == Role::Operator
    }
}

/// Format of the author in the change log.
impl fmt::Display for TokenIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.party())
    }
}

impl CreateToken {
    /// The token with its secret. Return it to the client once and never store it.
    pub fn plaintext(&self) -> String {
        format!("{TOKEN_PREFIX}{}_{}", self.id(), self.secret())
    }

    fn id(&self) -> String {
        let [id @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = &self.random_bytes;
        generate_id(id.get(..12).unwrap_or(id))
    }

    fn secret(&self) -> String {
        HEXLOWER.encode(self.random_bytes.get(16..).unwrap_or_default())
    }

    /// Checks that the caller may create tokens of the subject, and returns its code or id.
    async fn check_subject(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<Option<Box<str>>, RegistryError> {
        let missing = |what: &str| {
            RegistryError::invalid(
                codes::MISSING,
                "/subject",
                format!("missing `subject`: {what} of the token"),
            )
        };
        match (self.role, &self.subject) {
            (Role::Operator, None) => {
                principal.check_operator()?;
                Ok(None)
            }
            (Role::Operator, Some(_)) => Err(RegistryError::invalid(
                codes::INVALID_SUBJECT,
                "/subject",
                "an operator token has no `subject`",
            )),
            (Role::Agency, code) => {
                let code = code.as_ref().ok_or_else(|| missing("agency"))?;
                let agency = rules.get_named_object::<Agency>(code, "/subject", call.budget).await?;
                principal.check_agency(&agency.value.code, Scope::Administer)?;
                agency.value.check_open("/subject")?;
                Ok(Some(agency.value.code))
            }
            (Role::Registrant, id) => {
                let id = id.as_ref().ok_or_else(|| missing("registrant"))?;
                let registrant = rules.get_named_object::<Registrant>(id, "/subject", call.budget).await?;
                principal.check_registrant(&registrant.value, Scope::Administer)?;
                Ok(Some(registrant.value.id))
            }
        }
    }

    /// Checks expiry, scopes, prefixes and label. `latest_ms` is the expiry of the token that creates this one.
    fn check_limits(&self, now_ms: u64, latest_ms: Option<u64>) -> Result<(), RegistryError> {
        if self.expires_ms.is_some_and(|expiry| expiry <= now_ms) {
            return Err(RegistryError::invalid(
                codes::EXPIRES_IN_PAST,
                "/expires",
                "`expires` is in the past",
            ));
        }
        // A child must not outlive its parent.
        if let (Some(expiry), Some(latest)) = (self.expires_ms, latest_ms)
            && expiry > latest
        {
            return Err(RegistryError::invalid(
                codes::EXPIRES_AFTER_PARENT,
                "/expires",
                "`expires` is after the expiry of the token that creates this one",
            )
            .with_hint("omit `expires`: the new token then expires together with it"));
        }
        if self.scopes.as_ref().is_some_and(Vec::is_empty) {
            return Err(RegistryError::invalid(codes::MISSING, "/scopes", "`scopes` must not be empty"));
        }
        if self.prefixes.len() > MAX_TOKEN_PREFIXES {
            return Err(RegistryError::invalid(
                codes::TOO_MANY,
                "/prefixes",
                format!("too many prefixes (maximum {MAX_TOKEN_PREFIXES})"),
            ));
        }
        self.label.as_ref().map_or(Ok(()), |label| check_text(label, "/label", MAX_LABEL_BYTES))
    }
}

impl CommandPlanner for CreateToken {
    type Output = ApiToken;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<ApiToken>, RegistryError> {
        principal.check_scope(Scope::Administer)?;
        // A restricted token must not create an unrestricted one.
        principal.check_unrestricted()?;
        let subject = self.check_subject(rules, principal, call).await?;
        let parent = principal.token();
        let latest_ms = parent.and_then(|parent| parent.expires_ms);
        self.check_limits(call.now_ms, latest_ms)?;
        let token = ApiToken {
            id: self.id().into(),
            role: self.role,
            subject,
            scopes: self.scopes.clone(),
            prefixes: self.prefixes.clone(),
            expires_ms: self.expires_ms.or(latest_ms),
            label: self.label.clone(),
            created_ms: call.now_ms,
            parent: parent.map(|parent| parent.id.clone()),
            hash: sha256_hex(self.secret().as_bytes())?.into(),
        };
        let mut edits = vec![put_edit(&token, None)];
        if let Some(parent) = &token.parent {
            edits.push(Edit::PutAux { key: child_key(parent, &token.id), value: Box::default() });
            // A concurrent revocation of the parent must not miss this token.
            edits.push(touch_holdings(RegistryObjectKind::Token, parent, &token.id));
        }
        Ok(CommandPlan::new(edits, token))
    }
}

impl CommandPlanner for RevokeToken {
    type Output = TokenRevocation;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<TokenRevocation>, RegistryError> {
        principal.check_scope(Scope::Administer)?;
        principal.check_all_prefixes()?;
        let not_found = || RegistryError::not_found(RegistryObjectKind::Token.as_str(), &self.id);
        let token = rules.get_object::<ApiToken>(&self.id, call.budget).await?;
        // Tokens of other principals are reported as not found.
        if !rules.can_manage_token(&token.value, principal, call.budget).await? {
            return Err(not_found());
        }
        let (mut edits, mut outcome) = (Vec::new(), TokenRevocation::default());
        let mut pending = VecDeque::from([token]);
        while let Some(Versioned { value: token, revision }) = pending.pop_front() {
            rules.guard_holdings(RegistryObjectKind::Token, &token.id).await?;
            for id in rules.list_ids(&child_key(&token.id, ""), MAX_REVOKED_TOKENS, call.budget).await? {
                let Some(child) = rules.find_object::<ApiToken>(&id, call.budget).await? else { continue };
                if self.cascade {
                    // What it may do was granted by the revoked token, so there is no further authorization.
                    pending.push_back(child);
                } else {
                    outcome.children.push(id);
                }
            }
            let proposals = proposal_key(&token.id, "");
            let room = MAX_LISTED_PROPOSALS.saturating_sub(outcome.proposals.len());
            outcome.proposals.extend(rules.list_ids(&proposals, room, call.budget).await?);
            if outcome.revoked.len() + pending.len() >= MAX_REVOKED_TOKENS {
                let detail = format!("more than {MAX_REVOKED_TOKENS} tokens were created with this one");
                return Err(RegistryError::new(codes::TOO_MANY, detail)
                    .with_hint("revoke the tokens that were created with it first"));
            }
            let name = RegistryObjectKind::Token.storage_name(&token.id).into();
            edits.push(Edit::Remove { name, precondition: Precondition::AtRevision(revision) });
            edits.push(clear_holdings(RegistryObjectKind::Token, &token.id));
            if let Some(parent) = &token.parent {
                edits.push(Edit::RemoveAux { key: child_key(parent, &token.id) });
            }
            outcome.revoked.push(token.id);
        }
        Ok(CommandPlan::new(edits, outcome))
    }
}

/// Key of the aux entry for a token that was created with another.
fn child_key(parent: &str, child: &str) -> Box<[u8]> {
    format!("token-child/{parent}/{child}").into_bytes().into()
}

/// Key of the aux entry for an undecided transfer that was proposed with a token.
pub(crate) fn proposal_key(token: &str, transfer: &str) -> Box<[u8]> {
    format!("token-proposal/{token}/{transfer}").into_bytes().into()
}

impl Registry {
    /// Authenticates a token; `None` if it is unknown, revoked or expired.
    pub async fn authenticate_token(
        &self,
        text: &str,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<Option<TokenIdentity>, Error> {
        let Some((id, secret)) = text.strip_prefix(TOKEN_PREFIX).and_then(|rest| rest.split_once('_')) else {
            return Ok(None);
        };
        let Some(object) = self.rules.find_object::<ApiToken>(id, budget).await? else {
            return Ok(None);
        };
        let token = object.value;
        let matches = bool::from(sha256_hex(secret.as_bytes())?.as_bytes().ct_eq(token.hash.as_bytes()))
            && token.expires_ms.is_none_or(|expiry| expiry > now_ms);
        Ok(matches.then_some(TokenIdentity {
            id: token.id,
            role: token.role,
            subject: token.subject,
            authenticated_ms: now_ms,
        }))
    }

    /// Lists the tokens that the principal may manage, in id order, without secrets.
    pub async fn list_tokens(
        &self,
        after: Option<&str>,
        limit: usize,
        mut call: CallContext<'_>,
    ) -> Result<ResultPage<Versioned<ApiToken>>, RegistryError> {
        let principal = self.rules.principal(&mut call).await?;
        principal.check_scope(Scope::Administer)?;
        principal.check_all_prefixes()?;
        let item = |object: Versioned<ApiToken>| {
            let subject_registrant = match (&principal.role, object.value.role, &object.value.subject) {
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
            Some((object, subject_registrant.into_iter().collect()))
        };
        Ok(self.rules.list_objects_for(after, limit, &principal, call.budget, item).await?)
    }
}

impl RecordReader {
    /// Lists the last parts of the keys of aux entries.
    async fn list_ids(
        &self,
        key_prefix: &[u8],
        limit: usize,
        budget: &mut Budget,
    ) -> Result<Vec<Box<str>>, RegistryError> {
        let entries = self.store.list_aux(key_prefix, None, limit).await.map_err(Error::from)?;
        budget.charge(cost::list(entries.len())).map_err(Error::from)?;
        let id = |key: &[u8]| {
            let id = key.get(key_prefix.len()..).and_then(|id| str::from_utf8(id).ok());
            id.map(Box::from)
        };
        Ok(entries.iter().filter_map(|entry| id(&entry.key)).collect())
    }

    /// Whether the principal may list and revoke a token.
    async fn can_manage_token(
        &self,
        token: &ApiToken,
        principal: &Principal,
        budget: &mut Budget,
    ) -> Result<bool, RegistryError> {
        Ok(match (token.role, &token.subject) {
            (Role::Agency, Some(code)) => principal.is_for_agency(code),
            (Role::Registrant, Some(id)) => {
                let registrant = self.find_object::<Registrant>(id, budget).await?;
                registrant.map_or_else(
                    || principal.is_operator(),
                    |registrant| principal.is_for_registrant(&registrant.value),
                )
            }
            _ => principal.is_operator(),
        })
    }
}
