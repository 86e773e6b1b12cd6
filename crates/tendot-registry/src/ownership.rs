//! Names under a prefix that the registry gave to somebody: whatever their records say, only those have rights there who act
//! for who has them. So a name or prefix that changes hands is lost to the keys of who had it, in that moment.

use tendot_proto::{Handle, Value, Work};
use tendot_store::Store;

use crate::caller::Asker;
use crate::doi::{Deposit, is_reserved, reached};
use crate::party::{Allocation, Kind, Prefix, Registrant, Scope, read};
use crate::permission::Needed;
use crate::{Caller, Error, Refusal, Registry, Write};

impl<S: Store> Registry<S> {
    /// Whether who asks has what is needed over a name.
    pub(crate) async fn settle_over(
        &self,
        name: Option<Handle<'_>>,
        needed: &Needed,
        asker: Asker<'_>,
        work: &mut Work,
    ) -> Result<(), Error> {
        if matches!(needed, Needed::Nothing | Needed::Proof)
            || matches!(asker, Asker::Anonymous | Asker::Operator)
        {
            return self.settle(needed, asker, work).await;
        }
        let owner = match name {
            Some(name) => self.owner_of(name, work).await?,
            None => None,
        };
        let Some(owner) = owner else { return self.settle(needed, asker, work).await };
        match asker {
            Asker::Token(caller) => {
                let standing = self.standing(caller, 0, work).await.map_err(failure)?;
                standing.check_for(&owner, Scope::Deposit).map_err(|_| not_administrator(caller))?;
                let prefix = name.map(|name| Handle::new(name.prefix()).to_string()).unwrap_or_default();
                standing.check_prefix(&prefix).map_err(|_| not_administrator(caller))
            }
            Asker::Handle(who) => {
                self.settle(needed, asker, work).await?;
                let is_admin = self.is_among(who, &owner.group(), work).await?;
                let settings = &self.settings;
                let listed = |list: &[tendot_proto::Reference<'_>]| {
                    list.iter().any(|listed| crate::caller::is_meant(listed, who))
                };
                if is_admin || settings.server_admins_full_access && listed(&settings.server_admins) {
                    return Ok(());
                }
                Err(Error::NotAdministrator { who: who.to_string().into() })
            }
            Asker::Anonymous | Asker::Operator => Ok(()),
        }
    }

    /// Whether a write is for a name that is only reserved, of which who may not write it does not learn. Who wants to make a
    /// name is told the same whether it is there or not.
    pub(crate) async fn is_hidden(&self, write: &Write<'_>, work: &mut Work) -> Result<bool, Error> {
        let name = match write {
            Write::Delete { name, .. }
            | Write::Add { name, .. }
            | Write::Remove { name, .. }
            | Write::Modify { name, .. } => name.to_str(),
            Write::Create { .. } | Write::Home { .. } | Write::Unhome { .. } => return Ok(false),
        };
        let Ok(name) = name else { return Ok(false) };
        Ok(self.get(name, work).await?.is_some_and(|entry| is_reserved(&entry)))
    }

    /// A token where no prefix is anybody's: only the operator's has rights.
    pub(crate) async fn settle_server(&self, caller: &Caller, work: &mut Work) -> Result<(), Error> {
        let standing = self.standing(caller, 0, work).await.map_err(failure)?;
        standing.check_operator().map_err(|_| not_administrator(caller))
    }

    /// Who has a name, if its prefix was given to somebody.
    pub(crate) async fn owner_of(
        &self,
        name: Handle<'_>,
        work: &mut Work,
    ) -> Result<Option<Registrant>, Error> {
        let (Ok(text), Ok(prefix)) = (name.to_str(), std::str::from_utf8(name.prefix())) else {
            return Ok(None);
        };
        let Some(record) = self.prefix_entry(prefix, work).await? else { return Ok(None) };
        let prefix: Prefix = read(&record)?;
        let deposit = match self.get(text, work).await? {
            Some(entry) => Deposit::of(&entry)?.owner,
            None => None,
        };
        let owner = deposit.unwrap_or(prefix.registrant);
        Ok(self.held::<Registrant>(Kind::Registrant, &owner, work).await?.map(|held| held.it))
    }

    /// What is written keeps to the rules of its prefix, by whichever door it comes.
    pub(crate) async fn check_policy(
        &self,
        write: &Write<'_>,
        at: u64,
        work: &mut Work,
    ) -> Result<(), Error> {
        let (name, values, is_new) = match write {
            Write::Create { name, values, .. } => (*name, values, true),
            Write::Add { name, values, .. } | Write::Modify { name, values, .. } => (*name, values, false),
            _ => return Ok(()),
        };
        let Ok(prefix) = std::str::from_utf8(name.prefix()) else { return Ok(()) };
        let refused = |refusal: Refusal| match refusal.failure {
            Some(error) => Error::Store(error),
            None => Error::Policy(Box::new(refusal)),
        };
        let Some(allocation) = self.allocation(prefix, work).await.map_err(refused)? else { return Ok(()) };
        check_addresses(&allocation, values).map_err(refused)?;
        let text = name.to_str().unwrap_or_default();
        if !is_new || self.get(text, work).await?.is_some() {
            return Ok(());
        }
        let suffix = name.suffix().and_then(|suffix| std::str::from_utf8(suffix).ok()).unwrap_or_default();
        allocation.check_suffix(suffix).map_err(refused)?;
        if allocation.demands_metadata() {
            let detail = format!("names under {prefix} have kernel metadata");
            let refusal = Refusal::invalid("missing", "/metadata", detail)
                .hint("register it at `/api/v1/dois`, or reserve it there first");
            return Err(refused(refusal));
        }
        match self.room(&allocation, at, work).await.map_err(refused)? {
            Some(0) => Err(refused(reached(&allocation))),
            _ => Ok(()),
        }
    }
}

fn check_addresses(allocation: &Allocation, values: &[Value<'_>]) -> Result<(), Refusal> {
    for value in values.iter().filter(|value| value.has_type("URL")) {
        allocation.check_address(&value.data, "/values")?;
    }
    Ok(())
}

pub(crate) fn failure(refusal: Refusal) -> Error {
    match refusal.failure {
        Some(error) => Error::Store(error),
        None => Error::Policy(Box::new(refusal)),
    }
}

fn not_administrator(caller: &Caller) -> Error {
    Error::NotAdministrator { who: caller.to_string().into() }
}
