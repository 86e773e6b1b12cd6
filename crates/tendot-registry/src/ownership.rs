//! Names under a prefix that the registry gave to somebody: whatever their records say, only those have rights there who act
//! for who has them. So a name or prefix that changes hands is lost to the keys of who had it, in that moment.

use tendot_proto::{Budget, Handle};

use crate::caller::Claimant;
use crate::doi::{Registration, reached};
use crate::party::{Prefix, Registrant, RegistryObjectKind, Scope, decode};
use crate::permission::Requirement;
use crate::{Caller, Error, HandleWrite, Registry, RegistryError};

impl Registry {
    /// Whether who asks has what is needed over a name. A token has to be for `scope`.
    pub(crate) async fn authorize_for_name(
        &self,
        name: Option<Handle<'_>>,
        needed: &Requirement,
        asker: Claimant<'_>,
        scope: Scope,
        work: &mut Budget,
    ) -> Result<(), Error> {
        if matches!(needed, Requirement::Nothing | Requirement::Proof)
            || matches!(asker, Claimant::Anonymous | Claimant::Operator)
        {
            return self.authorize(needed, asker, work).await;
        }
        let owner = match name {
            Some(name) => self.owner_of_name(name, work).await?,
            None => None,
        };
        let Some(owner) = owner else { return self.authorize(needed, asker, work).await };
        match asker {
            Claimant::Token(caller, at) => {
                let standing = self.principal(caller, at, work).await.map_err(failure)?;
                standing.check_registrant(&owner, scope).map_err(|_| not_administrator(caller))?;
                let prefix = name.map(|name| Handle::new(name.prefix()).to_string()).unwrap_or_default();
                standing.check_prefix(&prefix).map_err(|_| not_administrator(caller))
            }
            Claimant::Handle(who) => {
                self.authorize(needed, asker, work).await?;
                let is_admin = self.is_member(who, &owner.admin_references(), work).await?;
                let settings = &self.settings;
                let listed = |list: &[tendot_proto::ValueReference<'_>]| {
                    list.iter().any(|listed| crate::caller::reference_covers(listed, who))
                };
                // Who administers the server may list all that it keeps.
                let is_enough =
                    settings.server_admins_full_access || matches!(needed, Requirement::RightOrServer(_));
                if is_admin || is_enough && listed(&settings.server_admins) {
                    return Ok(());
                }
                Err(Error::NotAdministrator { who: who.to_string().into() })
            }
            Claimant::Anonymous | Claimant::Operator => Ok(()),
        }
    }

    /// A token where no prefix is anybody's: only the operator's has rights. To be known, any will do.
    pub(crate) async fn authorize_operator_token(
        &self,
        needed: &Requirement,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<(), Error> {
        let standing = self.principal(caller, at, work).await.map_err(failure)?;
        if matches!(needed, Requirement::Proof) {
            return Ok(());
        }
        standing.check_operator().map_err(|_| not_administrator(caller))
    }

    /// Whether it is the operator, also by a token.
    pub(crate) async fn is_operator(
        &self,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<bool, Error> {
        match caller {
            Caller::Operator => Ok(true),
            Caller::Token(token) if token.is_operator() => {
                match self.authorize_operator_token(&Requirement::Server, caller, at, work).await {
                    Ok(()) => Ok(true),
                    Err(Error::Policy(_) | Error::NotAdministrator { .. }) => Ok(false),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(false),
        }
    }

    /// Who has a name, if its prefix was given to somebody.
    pub(crate) async fn owner_of_name(
        &self,
        name: Handle<'_>,
        work: &mut Budget,
    ) -> Result<Option<Registrant>, Error> {
        let (Ok(text), Ok(prefix)) = (name.to_str(), std::str::from_utf8(name.prefix())) else {
            return Ok(None);
        };
        let Some(record) = self.prefix_entry(prefix, work).await? else { return Ok(None) };
        let prefix: Prefix = decode(&record)?;
        let deposit = match self.get_record(text, work).await? {
            Some(entry) => Registration::of_record(&entry)?.owner,
            None => None,
        };
        let owner = deposit.unwrap_or(prefix.registrant);
        Ok(self
            .find_object::<Registrant>(RegistryObjectKind::Registrant, &owner, work)
            .await?
            .map(|held| held.it))
    }

    /// What is written under a name keeps to the rules of its prefix, by whichever door it comes.
    pub(crate) async fn check_prefix_policy(
        &self,
        write: &HandleWrite<'_>,
        name: &str,
        at: u64,
        work: &mut Budget,
    ) -> Result<(), Error> {
        let (values, is_new) = match write {
            HandleWrite::Create { values, .. } => (values, true),
            HandleWrite::Add { values, .. } | HandleWrite::Modify { values, .. } => (values, false),
            _ => return Ok(()),
        };
        let Some((prefix, _)) = name.split_once('/') else { return Ok(()) };
        let refused = |refusal: RegistryError| match refusal.failure {
            Some(error) => Error::Store(error),
            None => Error::Policy(Box::new(refusal)),
        };
        let Some(allocation) = self.allocation(prefix, work).await.map_err(refused)? else { return Ok(()) };
        values
            .iter()
            .try_for_each(|value| allocation.check_value_hosts(value, "/values"))
            .map_err(refused)?;
        if !is_new || self.get_record(name, work).await?.is_some() {
            return Ok(());
        }
        self.check_new_name(name, &allocation, work).await.map_err(refused)?;
        if allocation.requires_metadata() {
            let detail = format!("names under {prefix} have kernel metadata");
            let refusal = RegistryError::invalid("missing", "/metadata", detail)
                .with_hint("register it at `/api/v1/dois`, or reserve it there first");
            return Err(refused(refusal));
        }
        match self.remaining_quota(&allocation, at, 1).await.map_err(refused)? {
            Some(0) => Err(refused(reached(&allocation))),
            _ => Ok(()),
        }
    }
}

pub(crate) fn failure(refusal: RegistryError) -> Error {
    match refusal.failure {
        Some(error) => Error::Store(error),
        None => Error::Policy(Box::new(refusal)),
    }
}

fn not_administrator(caller: &Caller) -> Error {
    Error::NotAdministrator { who: caller.to_string().into() }
}
