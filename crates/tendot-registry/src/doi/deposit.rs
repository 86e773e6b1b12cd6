//! One name is registered, changed, or ended.

use tendot_names::{Doi, Parser};
use tendot_proto::{Handle, Work};
use tendot_store::{Edit, Entry, Precondition, State};

use super::draw::BuildContext;
use super::{
    Deposit, RegistrationRequest, DoiStatus, Registered, Stage, draw, is_reserved, owned_key, quota, shown, suffix,
};
use crate::party::{PrefixAllocation, GROUP, Kind, Registrant, Scope, Principal, check_revision, is_prefix};
use crate::refusal::Reason;
use crate::task::Planned;
use crate::task::sealed::Plan;
use crate::validate::{check_name, is_mixed};
use crate::{Caller, Note, Refusal, Registry, price};

/// A name is to be registered.
#[derive(Clone, Debug)]
pub struct RegisterDoi {
    /// What it is to be.
    pub draft: RegistrationRequest,
    /// What a new suffix is made of, if there is no name.
    pub random: [u8; 16],
}

/// A name is to be changed.
#[derive(Clone, Debug)]
pub struct UpdateDoi {
    /// Which one.
    pub name: Box<str>,
    /// What is to be otherwise.
    pub draft: RegistrationRequest,
    /// The revision that it has to have.
    pub expect: Option<u64>,
}

/// A name is to be ended.
#[derive(Clone, Debug)]
pub struct RetireDoi {
    /// Which one.
    pub name: Box<str>,
    /// The revision that it has to have.
    pub expect: Option<u64>,
}

/// Suffixes that are tried until one is free.
const TRIES: u64 = 32;

impl Plan for RegisterDoi {
    type Done = Registered;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Work,
    ) -> Result<Planned<Registered>, Refusal> {
        standing.check(Scope::Deposit)?;
        let name = match (&self.draft.name, &self.draft.prefix) {
            (Some(name), prefix) => {
                check_prefix_given(name, prefix.as_deref())?;
                name.clone()
            }
            (None, Some(prefix)) => registry.mint(prefix, &self.random, |_| false, work).await?,
            (None, None) => {
                return Err(Refusal::invalid("missing", "/name", "a deposit has a `name` or a `prefix`"));
            }
        };
        let (prefix, _) = split(&name)?;
        let allocation = registry.authorize_registration(prefix, &name, standing, work).await?;
        if let Some(entry) = registry.get(&name, work).await? {
            return Err(taken(&entry)?);
        }
        if registry.room(&allocation, at, 1).await? == Some(0) {
            return Err(quota::reached(&allocation));
        }
        let notes = registry.check_new_name(&name, &allocation, work).await?;
        let limits = &registry.settings.limits;
        let drawing = BuildContext { allocation: &allocation, group: GROUP, limits, at };
        let drawn = draw(&drawing, &name, &self.draft, None)?;
        let edits = drawn.edit(None).into_iter().collect();
        let (entry, deposit) = drawn.parts();
        let registered = shown(entry, deposit, &allocation.holder, standing);
        Ok(Planned::new(edits, Registered { notes, ..registered }))
    }
}

impl Plan for UpdateDoi {
    type Done = Registered;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Work,
    ) -> Result<Planned<Registered>, Refusal> {
        standing.check(Scope::Deposit)?;
        let (allocation, owner, entry) = registry.load_for_update(&self.name, standing, work).await?;
        check_revision(self.expect, entry.revision)?;
        let same = |given: &str| Handle::from(given).is_same(Handle::from(&*self.name));
        if self.draft.name.as_deref().is_some_and(|given| !same(given)) {
            return Err(Refusal::invalid("other-name", "/name", "a name can't be changed into another"));
        }
        let group = allocation.group_of(Deposit::of(&entry)?.owner.as_deref());
        let limits = &registry.settings.limits;
        let drawn = draw(
            &BuildContext { allocation: &allocation, group, limits, at },
            &self.name,
            &self.draft,
            Some(&entry),
        )?;
        let edits = drawn.edit(Some(entry.revision)).into_iter().collect();
        let (drawn, deposit) = drawn.parts();
        Ok(Planned::new(edits, shown(drawn, deposit, &owner, standing)))
    }
}

impl Plan for RetireDoi {
    type Done = Registered;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Work,
    ) -> Result<Planned<Registered>, Refusal> {
        standing.check(Scope::Deposit)?;
        let (allocation, owner, entry) = registry.load_for_update(&self.name, standing, work).await?;
        check_revision(self.expect, entry.revision)?;
        let (name, expect) = (entry.name.clone(), Precondition::Revision(entry.revision));
        // What nobody ever could resolve, or was only to try things out, need not be remembered for ever.
        let deposit = Deposit::of(&entry)?;
        let mut edits = Vec::new();
        if allocation.prefix.test || is_reserved(&entry) {
            edits.push(Edit::Remove { name, expect });
            if let Some(owner) = &deposit.owner {
                edits.push(Edit::RemoveNote { key: owned_key(owner, &entry.name)?.into() });
            }
        } else {
            edits.push(Edit::Tombstone { name, expect });
        }
        let is_removed = matches!(edits.first(), Some(Edit::Remove { .. }));
        let state = if is_removed { DoiStatus::Removed } else { DoiStatus::Tombstone };
        let registered = Registered { state, ended: Some(at), ..shown(entry, deposit, &owner, standing) };
        Ok(Planned::new(edits, registered))
    }
}

/// Prefix and suffix of a name that can be a DOI name.
pub(super) fn split(name: &str) -> Result<(&str, &str), Refusal> {
    let read = Doi::new(name).map_err(|error| {
        let refusal = Refusal::invalid("bad-name", "/name", format!("`{name}` is no DOI name: {error}"));
        let reading = Parser::lenient().max_len(4_096).parse(name).ok();
        match reading.as_ref().and_then(|reading| reading.doi()) {
            Some(meant) => refusal.hint(format!("do you mean `{meant}`?")),
            None => refusal,
        }
    })?;
    Ok((read.prefix(), read.suffix()))
}

pub(super) fn check_prefix_given(name: &str, prefix: Option<&str>) -> Result<(), Refusal> {
    match prefix {
        Some(prefix) if name.split_once('/').is_none_or(|(own, _)| own != prefix) => {
            let detail = format!("`{name}` is not under `{prefix}`");
            Err(Refusal::invalid("other-prefix", "/prefix", detail))
        }
        _ => Ok(()),
    }
}

/// The name is taken, or was.
pub(super) fn taken(entry: &Entry) -> Result<Refusal, Refusal> {
    let created = Deposit::of(entry)?.created;
    let refusal = match entry.state {
        State::Live => {
            let detail = format!("the name is registered as `{}`", entry.name);
            Refusal::new(Reason::Conflict, "already-registered", detail)
                .hint("`PUT /api/v1/dois/{name}` changes it")
        }
        State::Tombstone => {
            let detail = format!(
                "the name was registered as `{}`, has been ended, and is not given again",
                entry.name
            );
            Refusal::new(Reason::Conflict, "already-registered", detail)
        }
    };
    Ok(Refusal { existing: Some((entry.name.clone(), Some(created))), ..refusal.at("/name") })
}

impl Registry {
    /// The prefix under which somebody may register a name.
    pub(super) async fn authorize_registration(
        &self,
        prefix: &str,
        name: &str,
        standing: &Principal,
        work: &mut Work,
    ) -> Result<PrefixAllocation, Refusal> {
        let allocation = self.allocation(prefix, work).await?.ok_or_else(|| {
            let detail = format!("the prefix `{prefix}` has been given to nobody here");
            Refusal::new(Reason::NotFound, "no-such-prefix", detail).at("/name")
        })?;
        standing.check_registrant(&allocation.holder, Scope::Deposit)?;
        standing.check_prefix(&allocation.prefix.prefix)?;
        self.check_server_responsible(Handle::from(name), work).await?;
        Ok(allocation)
    }

    /// A new name is one that may be: what there is to tell of it.
    pub(crate) async fn check_new_name(
        &self,
        name: &str,
        allocation: &PrefixAllocation,
        work: &mut Work,
    ) -> Result<Vec<Note>, Refusal> {
        check_name(Handle::from(name), &self.settings.limits)?;
        let (_, suffix) = split(name)?;
        allocation.check_suffix(suffix)?;
        let mut notes = Vec::new();
        if name.is_ascii() {
            return Ok(notes);
        }
        if let Some(with) = self.find_confusable(name, work).await? {
            if allocation.rejects_confusable() || !self.settings.limits.confusable_names {
                return Err(crate::Error::Confusable { with }.into());
            }
            notes.push(Note::ConfusableWith { name: with });
        }
        if is_mixed(name) {
            if allocation.rejects_confusable() {
                let detail = "the name has letters of several scripts, some of which look the same";
                return Err(Refusal::new(Reason::Conflict, "confusable", detail).at("/name"));
            }
            notes.push(Note::MixedScripts);
        }
        Ok(notes)
    }

    /// Whether somebody may register names at all, be it only some.
    pub async fn check_may_register(&self, caller: &Caller, at: u64, work: &mut Work) -> Result<(), Refusal> {
        self.standing(caller, at, work).await?.check(Scope::Deposit)
    }

    /// A name that somebody may change, who has it, and the prefix that it is under.
    async fn load_for_update(
        &self,
        name: &str,
        standing: &Principal,
        work: &mut Work,
    ) -> Result<(PrefixAllocation, Registrant, Entry), Refusal> {
        let no_such = || Refusal::not_found("name", name);
        let (prefix, _) = name.split_once('/').ok_or_else(no_such)?;
        let allocation = self.allocation(prefix, work).await?.ok_or_else(no_such)?;
        let entry = self.get(name, work).await?.ok_or_else(no_such)?;
        let deposit = Deposit::of(&entry)?;
        let owner = self.owner(&allocation, deposit.owner.as_deref(), work).await?;
        // Of names that are only reserved others do not learn.
        if deposit.state == Stage::Reserved && !standing.can_read_under(prefix, &owner) {
            return Err(no_such());
        }
        standing.check_registrant(&owner, Scope::Deposit)?;
        standing.check_prefix(&allocation.prefix.prefix)?;
        self.check_server_responsible(Handle::from(name), work).await?;
        if entry.state == State::Tombstone {
            let detail = format!("`{}` has been ended, and is not given again", entry.name);
            return Err(Refusal::new(Reason::Gone, "ended", detail));
        }
        Ok((allocation, owner, entry))
    }

    /// Who has a name.
    pub(super) async fn owner(
        &self,
        allocation: &PrefixAllocation,
        owner: Option<&str>,
        work: &mut Work,
    ) -> Result<Registrant, Refusal> {
        match owner {
            None => Ok(allocation.holder.clone()),
            Some(id) => Ok(self.required::<Registrant>(Kind::Registrant, id, work).await?.it),
        }
    }

    /// A name under a prefix that nobody has yet, nor will by what is planned.
    pub(super) async fn mint(
        &self,
        prefix: &str,
        random: &[u8; 16],
        is_planned: impl Fn(&str) -> bool + Send + Sync,
        work: &mut Work,
    ) -> Result<Box<str>, Refusal> {
        if !is_prefix(prefix) {
            let detail = format!("`{prefix}` is no prefix of DOI names");
            return Err(Refusal::invalid("bad-prefix", "/prefix", detail));
        }
        let random = u128::from_be_bytes(*random);
        for number in 0..TRIES {
            let bits = (random >> 64) as u64 ^ (random as u64).wrapping_mul(number);
            let name = format!("{prefix}/{}", suffix::make(bits));
            work.spend(price::LOOKUP).map_err(crate::Error::from)?;
            if self.owns(Handle::from(&*name))
                && !is_planned(&name)
                && self.get(&name, work).await?.is_none()
            {
                return Ok(name.into());
            }
        }
        Err(Refusal::new(Reason::Busy, "no-name-left", "no free name was found"))
    }
}
