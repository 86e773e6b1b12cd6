//! Principal of a request: role, scopes and prefixes of the caller.

use std::fmt;

use tendot_proto::{Budget, ValueReference};

use crate::authorization::reference_covers;
use crate::party::{Agency, ApiToken, Registrant, Role, Scope};
use crate::rules::Authorizer;
use crate::{CallContext, Caller, RegistryError, codes};

/// Principal: role, scopes and prefixes of a caller. Looked up again for every operation.
#[derive(Clone, Debug)]
#[allow(unreachable_pub, reason = "in the signature of a sealed trait")]
pub struct Principal {
    pub(crate) role: ActingRole,
    /// Scopes of a token; `None` for all scopes of the role.
    scopes: Option<Vec<Scope>>,
    /// Prefixes of a token; empty for all prefixes of the role.
    prefixes: Vec<Box<str>>,
    /// Token of the principal.
    token: Option<PrincipalToken>,
}

/// Token that a principal uses.
#[derive(Clone, Debug)]
pub(crate) struct PrincipalToken {
    pub(crate) id: Box<str>,
    /// Expiry, in milliseconds since 1970; `None` for none.
    pub(crate) expires_ms: Option<u64>,
}

/// Role in which a principal acts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ActingRole {
    Anonymous,
    Operator,
    Agency(Box<str>),
    Registrant(Box<str>),
    Handle(ValueReference<'static>),
}

/// Format of the author in the change log.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.role {
            ActingRole::Anonymous => f.write_str("anonymous"),
            ActingRole::Operator => f.write_str("operator"),
            ActingRole::Agency(code) => write!(f, "agency:{code}"),
            ActingRole::Registrant(id) => write!(f, "registrant:{id}"),
            ActingRole::Handle(identity) => identity.fmt(f),
        }
    }
}

impl Principal {
    const fn unrestricted(role: ActingRole) -> Self {
        Self { role, scopes: None, prefixes: Vec::new(), token: None }
    }

    /// Parses the author of a log entry (see [`fmt::Display`]) into an unrestricted principal.
    pub(crate) fn from_log(author: &str) -> Self {
        let role = match (author, author.split_once(':')) {
            ("anonymous", _) => ActingRole::Anonymous,
            ("operator", _) => ActingRole::Operator,
            (_, Some(("agency", code))) => ActingRole::Agency(code.into()),
            (_, Some(("registrant", id))) => ActingRole::Registrant(id.into()),
            _ => ActingRole::Handle(ValueReference::parse(author).into_owned()),
        };
        Self::unrestricted(role)
    }

    pub(crate) const fn is_operator(&self) -> bool {
        matches!(self.role, ActingRole::Operator)
    }

    /// Token of the principal; `None` without one, such as for the operator token of the server or a key.
    pub(crate) const fn token(&self) -> Option<&PrincipalToken> {
        self.token.as_ref()
    }

    /// Whether no scopes and prefixes restrict the principal.
    fn is_unrestricted(&self) -> bool {
        self.scopes.is_none() && self.prefixes.is_empty()
    }

    /// Whether the principal acts for an agency.
    pub(crate) fn is_for_agency(&self, code: &str) -> bool {
        match &self.role {
            ActingRole::Operator => true,
            ActingRole::Agency(own) => own.eq_ignore_ascii_case(code),
            _ => false,
        }
    }

    /// Whether the principal acts for a registrant: as itself, its agency, one of its admins or the operator.
    pub(crate) fn is_for_registrant(&self, registrant: &Registrant) -> bool {
        match &self.role {
            ActingRole::Operator => true,
            ActingRole::Anonymous => false,
            ActingRole::Agency(code) => code.eq_ignore_ascii_case(&registrant.agency),
            ActingRole::Registrant(id) => **id == *registrant.id,
            ActingRole::Handle(identity) => registrant
                .admins
                .iter()
                .any(|admin| reference_covers(&ValueReference::parse(admin), identity)),
        }
    }

    /// Whether private data of a registrant is visible.
    pub(crate) fn can_read(&self, registrant: &Registrant) -> bool {
        self.is_for_registrant(registrant) && self.has_scope(Scope::Read)
    }

    /// Whether private data of a registrant's names under a prefix is visible.
    pub(crate) fn can_read_under(&self, prefix: &str, registrant: &Registrant) -> bool {
        self.can_read(registrant) && self.check_prefix(prefix).is_ok()
    }

    fn has_scope(&self, scope: Scope) -> bool {
        self.scopes
            .as_ref()
            .is_none_or(|scopes| scopes.contains(&scope) || scope == Scope::Read && !scopes.is_empty())
    }

    /// Fails unless the principal is authenticated and has the scope.
    pub(crate) fn check_scope(&self, scope: Scope) -> Result<(), RegistryError> {
        if self.role == ActingRole::Anonymous {
            return Err(RegistryError::new(codes::UNAUTHENTICATED, "authentication required")
                .with_hint("send `Authorization: Bearer TOKEN`"));
        }
        if self.has_scope(scope) {
            return Ok(());
        }
        let detail = format!("token lacks scope `{}`", scope.as_str());
        Err(RegistryError::new(codes::INSUFFICIENT_SCOPE, detail))
    }

    /// Fails if the token is restricted to other prefixes.
    pub(crate) fn check_prefix(&self, prefix: &str) -> Result<(), RegistryError> {
        if self.prefixes.is_empty() || self.prefixes.iter().any(|own| own.eq_ignore_ascii_case(prefix)) {
            return Ok(());
        }
        let detail = format!("token is not valid for prefix `{prefix}`");
        Err(RegistryError::new(codes::INSUFFICIENT_SCOPE, detail))
    }

    /// Fails if the token is restricted to prefixes: the operation concerns none, or all of them.
    pub(crate) fn check_all_prefixes(&self) -> Result<(), RegistryError> {
        if self.prefixes.is_empty() {
            return Ok(());
        }
        let detail = format!("token is restricted to prefixes {}", self.prefixes.join(", "));
        Err(RegistryError::new(codes::INSUFFICIENT_SCOPE, detail))
    }

    /// Fails if scopes or prefixes restrict the principal: it must not grant more than it has.
    pub(crate) fn check_unrestricted(&self) -> Result<(), RegistryError> {
        if self.is_unrestricted() {
            return Ok(());
        }
        let detail = "a restricted token cannot create tokens or change administrators";
        Err(RegistryError::new(codes::INSUFFICIENT_SCOPE, detail))
    }

    /// Fails if scopes, prefixes or an expiry restrict the principal: keys, groups and administrators have no such restrictions,
    /// so that a restricted token could use them to exceed its own.
    pub(crate) fn check_may_grant_access(&self) -> Result<(), RegistryError> {
        let expires = self.token.as_ref().is_some_and(|token| token.expires_ms.is_some());
        if self.is_unrestricted() && !expires {
            return Ok(());
        }
        let detail =
            "a token with scopes, prefixes or an expiry cannot change keys, groups and administrators";
        Err(RegistryError::new(codes::INSUFFICIENT_SCOPE, detail)
            .with_hint("use a token without them, or leave out HS_SECKEY, HS_PUBKEY, HS_VLIST and HS_ADMIN"))
    }

    /// Fails unless the principal is the operator.
    pub(crate) fn check_operator(&self) -> Result<(), RegistryError> {
        self.check_scope(Scope::Administer)?;
        self.check_all_prefixes()?;
        if self.is_operator() { Ok(()) } else { Err(RegistryError::forbidden("operator role required")) }
    }

    /// Fails unless the principal acts for the agency and has the scope.
    pub(crate) fn check_agency(&self, code: &str, scope: Scope) -> Result<(), RegistryError> {
        self.check_scope(scope)?;
        if self.is_for_agency(code) {
            return Ok(());
        }
        Err(RegistryError::forbidden(format!("agency `{code}` or the operator required")))
    }

    /// Fails unless the principal acts for the registrant and has the scope.
    pub(crate) fn check_registrant(
        &self,
        registrant: &Registrant,
        scope: Scope,
    ) -> Result<(), RegistryError> {
        self.check_scope(scope)?;
        if self.is_for_registrant(registrant) {
            return Ok(());
        }
        let (id, agency) = (&registrant.id, &registrant.agency);
        Err(RegistryError::forbidden(format!(
            "registrant `{id}`, agency `{agency}` or the operator required"
        )))
    }
}

impl Authorizer {
    /// Principal of a request: role, scopes and prefixes of the caller.
    pub(crate) async fn principal(&self, call: &mut CallContext<'_>) -> Result<Principal, RegistryError> {
        self.principal_at(call.caller, Some(call.now_ms), call.budget).await
    }

    /// Principal whose token must be valid at a time in milliseconds since 1970, and in any case when it was authenticated.
    pub(crate) async fn principal_at(
        &self,
        caller: &Caller,
        now_ms: Option<u64>,
        budget: &mut Budget,
    ) -> Result<Principal, RegistryError> {
        let token_identity = match caller {
            Caller::Anonymous => return Ok(Principal::unrestricted(ActingRole::Anonymous)),
            Caller::Operator => return Ok(Principal::unrestricted(ActingRole::Operator)),
            Caller::Handle(identity) => {
                return Ok(Principal::unrestricted(ActingRole::Handle(identity.reference())));
            }
            Caller::Token(identity) => identity,
        };
        let now_ms = now_ms.unwrap_or_default().max(token_identity.authenticated_ms);
        self.token_principal(&token_identity.id, now_ms, budget).await
    }

    /// Principal of a token that is valid at a time in milliseconds since 1970.
    pub(crate) async fn token_principal(
        &self,
        id: &str,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<Principal, RegistryError> {
        let reject = |detail: &str| RegistryError::new(codes::INVALID_TOKEN, detail);
        let object = self.find_object::<ApiToken>(id, budget).await?;
        let token = object.ok_or_else(|| reject("token revoked"))?.value;
        if token.expires_ms.is_some_and(|expiry| expiry <= now_ms) {
            return Err(reject("token expired"));
        }
        let role = match (token.role, &token.subject) {
            (Role::Operator, _) => ActingRole::Operator,
            (Role::Agency, Some(code)) => {
                let agency = self.find_object::<Agency>(code, budget).await?;
                if agency.is_none_or(|agency| agency.value.closed.is_some()) {
                    return Err(reject("invalid token: agency is closed"));
                }
                ActingRole::Agency(code.clone())
            }
            (Role::Registrant, Some(id)) => {
                let registrant = self.find_object::<Registrant>(id, budget).await?;
                registrant.ok_or_else(|| reject("invalid token: registrant no longer exists"))?;
                ActingRole::Registrant(id.clone())
            }
            (_, None) => return Err(reject("invalid token: no subject")),
        };
        let id = PrincipalToken { id: token.id, expires_ms: token.expires_ms };
        Ok(Principal { role, scopes: token.scopes, prefixes: token.prefixes, token: Some(id) })
    }
}
