//! For whom somebody acts.

use std::fmt;

use tendot_proto::{Budget, ValueReference};

use super::{Agency, ApiToken, Registrant, RegistryObjectKind, Role, Scope};
use crate::caller::reference_covers;
use crate::refusal::RegistryErrorKind;
use crate::{Caller, Registry, RegistryError};

/// Principal: role, scopes and prefixes of a caller. Looked up again for every operation.
#[derive(Clone, Debug)]
#[allow(unreachable_pub, reason = "in the signature of a sealed trait")]
pub struct Principal {
    pub(crate) role: ActingRole,
    /// What a token is for; none for all that its role may.
    scopes: Option<Vec<Scope>>,
    /// Prefixes that a token is for; none for all that its role may.
    prefixes: Vec<Box<str>>,
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

/// As the log has it.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.role {
            ActingRole::Anonymous => f.write_str("anonymous"),
            ActingRole::Operator => f.write_str("operator"),
            ActingRole::Agency(code) => write!(f, "agency:{code}"),
            ActingRole::Registrant(id) => write!(f, "registrant:{id}"),
            ActingRole::Handle(who) => who.fmt(f),
        }
    }
}

impl Principal {
    const fn unrestricted(role: ActingRole) -> Self {
        Self { role, scopes: None, prefixes: Vec::new() }
    }

    /// Of somebody whom the log has so, see [`fmt::Display`]: what they may do for as whom they acted.
    pub(crate) fn from_log(by: &str) -> Self {
        let role = match (by, by.split_once(':')) {
            ("anonymous", _) => ActingRole::Anonymous,
            ("operator", _) => ActingRole::Operator,
            (_, Some(("agency", code))) => ActingRole::Agency(code.into()),
            (_, Some(("registrant", id))) => ActingRole::Registrant(id.into()),
            _ => ActingRole::Handle(ValueReference::parse(by).into_owned()),
        };
        Self::unrestricted(role)
    }

    pub(crate) const fn is_operator(&self) -> bool {
        matches!(self.role, ActingRole::Operator)
    }

    /// Whether it is by nothing that is only for some things.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.scopes.is_none() && self.prefixes.is_empty()
    }

    /// Whether it is for an agency.
    pub(crate) fn is_for_agency(&self, code: &str) -> bool {
        match &self.role {
            ActingRole::Operator => true,
            ActingRole::Agency(own) => own.eq_ignore_ascii_case(code),
            _ => false,
        }
    }

    /// Whether it is for a registrant, by itself, its agency or one of its administrators.
    pub(crate) fn is_for_registrant(&self, registrant: &Registrant) -> bool {
        match &self.role {
            ActingRole::Operator => true,
            ActingRole::Anonymous => false,
            ActingRole::Agency(code) => code.eq_ignore_ascii_case(&registrant.agency),
            ActingRole::Registrant(id) => **id == *registrant.id,
            ActingRole::Handle(who) => {
                registrant.admins.iter().any(|admin| reference_covers(&ValueReference::parse(admin), who))
            }
        }
    }

    /// Whether it may see what is only for those concerned.
    pub(crate) fn can_read(&self, registrant: &Registrant) -> bool {
        self.is_for_registrant(registrant) && self.has_scope(Scope::Read)
    }

    /// The same of a name under a prefix.
    pub(crate) fn can_read_under(&self, prefix: &str, registrant: &Registrant) -> bool {
        self.can_read(registrant) && self.check_prefix(prefix).is_ok()
    }

    fn has_scope(&self, scope: Scope) -> bool {
        self.scopes
            .as_ref()
            .is_none_or(|scopes| scopes.contains(&scope) || scope == Scope::Read && !scopes.is_empty())
    }

    /// Somebody is known, and their token is for this.
    pub(crate) fn check_scope(&self, scope: Scope) -> Result<(), RegistryError> {
        if self.role == ActingRole::Anonymous {
            return Err(RegistryError::new(
                RegistryErrorKind::Unknown,
                "unauthenticated",
                "who asks has to be known",
            )
            .with_hint("send a token: `Authorization: Bearer TOKEN`"));
        }
        if self.has_scope(scope) {
            return Ok(());
        }
        let detail = format!("this token is not for `{}`", scope.name());
        Err(RegistryError::new(RegistryErrorKind::Forbidden, "out-of-scope", detail))
    }

    /// A token is for this prefix.
    pub(crate) fn check_prefix(&self, prefix: &str) -> Result<(), RegistryError> {
        if self.prefixes.is_empty() || self.prefixes.iter().any(|own| own.eq_ignore_ascii_case(prefix)) {
            return Ok(());
        }
        let detail = format!("this token is not for the prefix `{prefix}`");
        Err(RegistryError::new(RegistryErrorKind::Forbidden, "out-of-scope", detail))
    }

    /// A token is for more than some prefixes: what it asks for is about no prefix, or about others.
    pub(crate) fn check_all_prefixes(&self) -> Result<(), RegistryError> {
        if self.prefixes.is_empty() {
            return Ok(());
        }
        let detail = format!("this token is only for {}", self.prefixes.join(", "));
        Err(RegistryError::new(RegistryErrorKind::Forbidden, "out-of-scope", detail))
    }

    /// It is the operator who asks.
    pub(crate) fn check_operator(&self) -> Result<(), RegistryError> {
        self.check_scope(Scope::Administer)?;
        self.check_all_prefixes()?;
        if self.is_operator() {
            Ok(())
        } else {
            Err(RegistryError::forbidden("only the operator may do this"))
        }
    }

    /// It is for an agency, and the token is for this.
    pub(crate) fn check_agency(&self, code: &str, scope: Scope) -> Result<(), RegistryError> {
        self.check_scope(scope)?;
        if self.is_for_agency(code) {
            return Ok(());
        }
        Err(RegistryError::forbidden(format!("only agency `{code}` and the operator may do this")))
    }

    /// It is for a registrant, and the token is for this.
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
            "only registrant `{id}`, its agency `{agency}` and the operator may do this"
        )))
    }
}

impl Registry {
    /// For whom somebody acts.
    pub(crate) async fn principal(
        &self,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<Principal, RegistryError> {
        let shown = match caller {
            Caller::Anonymous => return Ok(Principal::unrestricted(ActingRole::Anonymous)),
            Caller::Operator => return Ok(Principal::unrestricted(ActingRole::Operator)),
            Caller::Handle(identity) => {
                return Ok(Principal::unrestricted(ActingRole::Handle(identity.reference())));
            }
            Caller::Token(identity) => identity,
        };
        // Where no time is known, it is the one at which the token was shown.
        let at = at.max(shown.at);
        let refused = |detail: &str| RegistryError::new(RegistryErrorKind::Unknown, "bad-token", detail);
        let held = self.find_object::<ApiToken>(RegistryObjectKind::Token, &shown.id, work).await?;
        let token = held.ok_or_else(|| refused("this token has been revoked"))?.it;
        if token.expires.is_some_and(|end| end <= at) {
            return Err(refused("this token has expired"));
        }
        let role = match (token.role, &token.subject) {
            (Role::Operator, _) => ActingRole::Operator,
            (Role::Agency, Some(code)) => {
                let agency = self.find_object::<Agency>(RegistryObjectKind::Agency, code, work).await?;
                if agency.is_none_or(|agency| agency.it.ended.is_some()) {
                    return Err(refused("the agency of this token has ended"));
                }
                ActingRole::Agency(code.clone())
            }
            (Role::Registrant, Some(id)) => {
                let registrant =
                    self.find_object::<Registrant>(RegistryObjectKind::Registrant, id, work).await?;
                registrant.ok_or_else(|| refused("there is no such registrant any more"))?;
                ActingRole::Registrant(id.clone())
            }
            (_, None) => return Err(refused("this token is for nobody")),
        };
        Ok(Principal { role, scopes: token.scopes, prefixes: token.prefixes })
    }
}
