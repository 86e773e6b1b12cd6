//! Decides whether a claimant satisfies a requirement.
//!
//! Under an allocated prefix only those who act for the owner of a name are authorized, whatever the records say. So the keys
//! of the previous holder lose access the moment a name or prefix is transferred.

use tendot_proto::{Budget, Handle, ValueReference};

use crate::authorization::{AdminSet, Claimant, Requirement, reference_covers};
use crate::party::{Registrant, Scope, decode};
use crate::prefix::Prefix;
use crate::registration::Registration;
use crate::rules::Authorizer;
use crate::{CallContext, Caller, Error};

impl Authorizer {
    /// Authorizes a claimant by admin values and settings.
    pub(crate) async fn authorize(
        &self,
        requirement: &Requirement,
        claimant: Claimant<'_>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let identity = match (claimant, requirement) {
            (Claimant::Operator, _) | (_, Requirement::Public) => return Ok(()),
            (Claimant::Anonymous, _) => return Err(Error::AuthenticationRequired),
            (Claimant::Token(caller, now_ms), _) => {
                return self.authorize_operator_token(requirement, caller, now_ms, budget).await;
            }
            (Claimant::Handle(identity), _) => identity,
        };
        let settings = &self.settings;
        let is_server_admin = is_listed(&settings.server_admins, identity);
        if settings.server_admins_full_access && is_server_admin {
            return Ok(());
        }
        let is_authorized = match requirement {
            Requirement::Public | Requirement::Authenticated => true,
            Requirement::ServerAdmin => is_server_admin || is_listed(&settings.home_only_admins, identity),
            Requirement::ReverseLookup => {
                is_server_admin || is_listed(&settings.reverse_lookup_users, identity)
            }
            Requirement::AdminOrServerAdmin(admins) => {
                is_server_admin || self.is_member(identity, admins, budget).await?
            }
            Requirement::AnyOf(alternatives) => self.satisfies_any(identity, alternatives, budget).await?,
        };
        if is_authorized { Ok(()) } else { Err(Error::NotAuthorized { who: identity.to_string().into() }) }
    }

    async fn satisfies_any(
        &self,
        identity: &ValueReference<'_>,
        alternatives: &[Vec<AdminSet>],
        budget: &mut Budget,
    ) -> Result<bool, Error> {
        'alternatives: for alternative in alternatives {
            for admins in alternative {
                if !self.is_member(identity, admins, budget).await? {
                    continue 'alternatives;
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Authorizes a claimant for an operation on a name. A token must have `scope`.
    pub(crate) async fn authorize_for_name(
        &self,
        name: Option<Handle<'_>>,
        requirement: &Requirement,
        claimant: Claimant<'_>,
        scope: Scope,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        if matches!(requirement, Requirement::Public | Requirement::Authenticated)
            || matches!(claimant, Claimant::Anonymous | Claimant::Operator)
        {
            return self.authorize(requirement, claimant, budget).await;
        }
        let owner = match name {
            Some(name) => self.owner_of_name(name, budget).await?,
            None => None,
        };
        let Some(owner) = owner else { return self.authorize(requirement, claimant, budget).await };
        match claimant {
            Claimant::Token(caller, now_ms) => {
                let principal = self.principal_at(caller, now_ms, budget).await?;
                principal.check_registrant(&owner, scope).map_err(|_| not_authorized(caller))?;
                let prefix = name.map(|name| Handle::new(name.prefix()).to_string()).unwrap_or_default();
                principal.check_prefix(&prefix).map_err(|_| not_authorized(caller))
            }
            Claimant::Handle(identity) => {
                self.authorize(requirement, claimant, budget).await?;
                let is_admin = self.is_member(identity, &owner.admin_references(), budget).await?;
                let settings = &self.settings;
                // Server administrators may list all names.
                let is_enough = settings.server_admins_full_access
                    || matches!(requirement, Requirement::AdminOrServerAdmin(_));
                if is_admin || is_enough && is_listed(&settings.server_admins, identity) {
                    return Ok(());
                }
                Err(Error::NotAuthorized { who: identity.to_string().into() })
            }
            Claimant::Anonymous | Claimant::Operator => Ok(()),
        }
    }

    /// Authorizes a token to change values that grant access; see [`grants_access`](crate::authorization::grants_access).
    /// Handle identities are authorized by the admin values of the record.
    pub(crate) async fn authorize_access_change(
        &self,
        name: Option<Handle<'_>>,
        caller: &Caller,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let Caller::Token(_) = caller else { return Ok(()) };
        let principal = self.principal_at(caller, Some(now_ms), budget).await?;
        let owner = match name {
            Some(name) => self.owner_of_name(name, budget).await?,
            None => None,
        };
        match owner {
            Some(owner) => principal.check_registrant(&owner, Scope::Administer)?,
            None => principal.check_operator()?,
        }
        Ok(principal.check_may_grant_access()?)
    }

    /// Authorizes a token where no allocated prefix is concerned: only the operator's. Any token is enough to be
    /// authenticated.
    pub(crate) async fn authorize_operator_token(
        &self,
        requirement: &Requirement,
        caller: &Caller,
        now_ms: Option<u64>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let principal = self.principal_at(caller, now_ms, budget).await?;
        if matches!(requirement, Requirement::Authenticated) {
            return Ok(());
        }
        principal.check_operator().map_err(|_| not_authorized(caller))
    }

    /// Whether the caller is the operator, directly or by a token.
    pub(crate) async fn is_operator(&self, call: &mut CallContext<'_>) -> Result<bool, Error> {
        let (caller, now_ms) = (call.caller, Some(call.now_ms));
        match caller {
            Caller::Operator => Ok(true),
            Caller::Token(token) if token.is_operator() => {
                let required = &Requirement::ServerAdmin;
                match self.authorize_operator_token(required, caller, now_ms, call.budget).await {
                    Ok(()) => Ok(true),
                    Err(Error::Registry(_) | Error::NotAuthorized { .. }) => Ok(false),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(false),
        }
    }

    /// Owner of a name, if its prefix is allocated.
    pub(crate) async fn owner_of_name(
        &self,
        name: Handle<'_>,
        budget: &mut Budget,
    ) -> Result<Option<Registrant>, Error> {
        let (Ok(text), Ok(prefix)) = (name.to_str(), std::str::from_utf8(name.prefix())) else {
            return Ok(None);
        };
        let Some(record) = self.prefix_record(prefix, budget).await? else { return Ok(None) };
        let prefix: Prefix = decode(&record)?;
        let registration = match self.get_record(text, budget).await? {
            Some(entry) => Some(Registration::of_record(&entry)?),
            None => None,
        };
        self.find_owner(registration.as_ref(), &prefix, budget).await
    }
}

/// Whether an identity is in a list of the settings.
fn is_listed(list: &[ValueReference<'_>], identity: &ValueReference<'_>) -> bool {
    list.iter().any(|listed| reference_covers(listed, identity))
}

fn not_authorized(caller: &Caller) -> Error {
    Error::NotAuthorized { who: caller.to_string().into() }
}
