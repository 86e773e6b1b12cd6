//! One name is registered, changed, or ended.

use tendot_names::{Doi, Parser};
use tendot_proto::{Budget, Handle};
use tendot_store::{Edit, Precondition, RecordStatus, StoredRecord};

use super::draw::BuildContext;
use super::{
    DoiRecord, DoiStatus, Registration, RegistrationRequest, RegistrationState, build, is_reserved,
    owned_key, quota, shown, suffix,
};
use crate::party::{
    GROUP_INDEX, PrefixAllocation, Principal, Registrant, RegistryObjectKind, Scope, check_revision,
    is_doi_prefix,
};
use crate::refusal::RegistryErrorKind;
use crate::task::CommandPlan;
use crate::task::sealed::Plan;
use crate::validate::{check_handle_name, has_mixed_scripts};
use crate::{Caller, Registry, RegistryError, WriteWarning, price};

/// Command: register a DOI.
#[derive(Clone, Debug)]
pub struct RegisterDoi {
    /// What it is to be.
    pub draft: RegistrationRequest,
    /// What a new suffix is made of, if there is no name.
    pub random: [u8; 16],
}

/// Command: update a DOI.
#[derive(Clone, Debug)]
pub struct UpdateDoi {
    /// Which one.
    pub name: Box<str>,
    /// What is to be otherwise.
    pub draft: RegistrationRequest,
    /// The revision that it has to have.
    pub expect: Option<u64>,
}

/// Command: retire a DOI; reserved and test names are deleted.
#[derive(Clone, Debug)]
pub struct RetireDoi {
    /// Which one.
    pub name: Box<str>,
    /// The revision that it has to have.
    pub expect: Option<u64>,
}

/// Suffixes that are tried until one is free.
const MAX_MINT_ATTEMPTS: u64 = 32;

impl Plan for RegisterDoi {
    type Output = DoiRecord;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<DoiRecord>, RegistryError> {
        standing.check_scope(Scope::Deposit)?;
        let name = match (&self.draft.name, &self.draft.prefix) {
            (Some(name), prefix) => {
                check_prefix_matches(name, prefix.as_deref())?;
                name.clone()
            }
            (None, Some(prefix)) => registry.mint_name(prefix, &self.random, |_| false, work).await?,
            (None, None) => {
                return Err(RegistryError::invalid(
                    "missing",
                    "/name",
                    "a deposit has a `name` or a `prefix`",
                ));
            }
        };
        let (prefix, _) = parse_doi(&name)?;
        let allocation = registry.authorize_registration(prefix, &name, standing, work).await?;
        if let Some(entry) = registry.get_record(&name, work).await? {
            return Err(already_registered(&entry)?);
        }
        if registry.remaining_quota(&allocation, at, 1).await? == Some(0) {
            return Err(quota::reached(&allocation));
        }
        let notes = registry.check_new_name(&name, &allocation, work).await?;
        let limits = &registry.settings.limits;
        let drawing = BuildContext { allocation: &allocation, group: GROUP_INDEX, limits, at };
        let drawn = build(&drawing, &name, &self.draft, None)?;
        let edits = drawn.to_edit(None).into_iter().collect();
        let (entry, deposit) = drawn.into_parts();
        let registered = shown(entry, deposit, &allocation.holder, standing);
        Ok(CommandPlan::new(edits, DoiRecord { notes, ..registered }))
    }
}

impl Plan for UpdateDoi {
    type Output = DoiRecord;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<DoiRecord>, RegistryError> {
        standing.check_scope(Scope::Deposit)?;
        let (allocation, owner, entry) = registry.load_for_update(&self.name, standing, work).await?;
        check_revision(self.expect, entry.revision)?;
        let same = |given: &str| Handle::from(given).eq_ignore_case(Handle::from(&*self.name));
        if self.draft.name.as_deref().is_some_and(|given| !same(given)) {
            return Err(RegistryError::invalid(
                "other-name",
                "/name",
                "a name can't be changed into another",
            ));
        }
        let group = allocation.admin_group_index(Registration::of_record(&entry)?.owner.as_deref());
        let limits = &registry.settings.limits;
        let drawn = build(
            &BuildContext { allocation: &allocation, group, limits, at },
            &self.name,
            &self.draft,
            Some(&entry),
        )?;
        let edits = drawn.to_edit(Some(entry.revision)).into_iter().collect();
        let (drawn, deposit) = drawn.into_parts();
        Ok(CommandPlan::new(edits, shown(drawn, deposit, &owner, standing)))
    }
}

impl Plan for RetireDoi {
    type Output = DoiRecord;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<DoiRecord>, RegistryError> {
        standing.check_scope(Scope::Deposit)?;
        let (allocation, owner, entry) = registry.load_for_update(&self.name, standing, work).await?;
        check_revision(self.expect, entry.revision)?;
        let (name, expect) = (entry.name.clone(), Precondition::Revision(entry.revision));
        // What nobody ever could resolve, or was only to try things out, need not be remembered for ever.
        let deposit = Registration::of_record(&entry)?;
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
        let registered = DoiRecord { state, ended: Some(at), ..shown(entry, deposit, &owner, standing) };
        Ok(CommandPlan::new(edits, registered))
    }
}

/// Prefix and suffix of a name that can be a DOI name.
pub(super) fn parse_doi(name: &str) -> Result<(&str, &str), RegistryError> {
    let read = Doi::new(name).map_err(|error| {
        let refusal =
            RegistryError::invalid("bad-name", "/name", format!("`{name}` is no DOI name: {error}"));
        let reading = Parser::lenient().max_len(4_096).parse(name).ok();
        match reading.as_ref().and_then(|reading| reading.doi()) {
            Some(meant) => refusal.with_hint(format!("do you mean `{meant}`?")),
            None => refusal,
        }
    })?;
    Ok((read.prefix(), read.suffix()))
}

pub(super) fn check_prefix_matches(name: &str, prefix: Option<&str>) -> Result<(), RegistryError> {
    match prefix {
        Some(prefix) if name.split_once('/').is_none_or(|(own, _)| own != prefix) => {
            let detail = format!("`{name}` is not under `{prefix}`");
            Err(RegistryError::invalid("other-prefix", "/prefix", detail))
        }
        _ => Ok(()),
    }
}

/// The name is taken, or was.
pub(super) fn already_registered(entry: &StoredRecord) -> Result<RegistryError, RegistryError> {
    let created = Registration::of_record(entry)?.created;
    let refusal = match entry.state {
        RecordStatus::Live => {
            let detail = format!("the name is registered as `{}`", entry.name);
            RegistryError::new(RegistryErrorKind::Conflict, "already-registered", detail)
                .with_hint("`PUT /api/v1/dois/{name}` changes it")
        }
        RecordStatus::Tombstone => {
            let detail = format!(
                "the name was registered as `{}`, has been ended, and is not given again",
                entry.name
            );
            RegistryError::new(RegistryErrorKind::Conflict, "already-registered", detail)
        }
    };
    Ok(RegistryError { existing: Some((entry.name.clone(), Some(created))), ..refusal.with_pointer("/name") })
}

impl Registry {
    /// The prefix under which somebody may register a name.
    pub(super) async fn authorize_registration(
        &self,
        prefix: &str,
        name: &str,
        standing: &Principal,
        work: &mut Budget,
    ) -> Result<PrefixAllocation, RegistryError> {
        let allocation = self.allocation(prefix, work).await?.ok_or_else(|| {
            let detail = format!("the prefix `{prefix}` has been given to nobody here");
            RegistryError::new(RegistryErrorKind::NotFound, "no-such-prefix", detail).with_pointer("/name")
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
        work: &mut Budget,
    ) -> Result<Vec<WriteWarning>, RegistryError> {
        check_handle_name(Handle::from(name), &self.settings.limits)?;
        let (_, suffix) = parse_doi(name)?;
        allocation.check_suffix(suffix)?;
        let mut notes = Vec::new();
        if name.is_ascii() {
            return Ok(notes);
        }
        if let Some(with) = self.find_confusable(name, work).await? {
            if allocation.rejects_confusable() || !self.settings.limits.confusable_names {
                return Err(crate::Error::Confusable { with }.into());
            }
            notes.push(WriteWarning::ConfusableWith { name: with });
        }
        if has_mixed_scripts(name) {
            if allocation.rejects_confusable() {
                let detail = "the name has letters of several scripts, some of which look the same";
                return Err(RegistryError::new(RegistryErrorKind::Conflict, "confusable", detail)
                    .with_pointer("/name"));
            }
            notes.push(WriteWarning::MixedScripts);
        }
        Ok(notes)
    }

    /// Whether somebody may register names at all, be it only some.
    pub async fn check_may_register(
        &self,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<(), RegistryError> {
        self.principal(caller, at, work).await?.check_scope(Scope::Deposit)
    }

    /// A name that somebody may change, who has it, and the prefix that it is under.
    async fn load_for_update(
        &self,
        name: &str,
        standing: &Principal,
        work: &mut Budget,
    ) -> Result<(PrefixAllocation, Registrant, StoredRecord), RegistryError> {
        let no_such = || RegistryError::not_found("name", name);
        let (prefix, _) = name.split_once('/').ok_or_else(no_such)?;
        let allocation = self.allocation(prefix, work).await?.ok_or_else(no_such)?;
        let entry = self.get_record(name, work).await?.ok_or_else(no_such)?;
        let deposit = Registration::of_record(&entry)?;
        let owner = self.owner_or_holder(&allocation, deposit.owner.as_deref(), work).await?;
        // Of names that are only reserved others do not learn.
        if deposit.state == RegistrationState::Reserved && !standing.can_read_under(prefix, &owner) {
            return Err(no_such());
        }
        standing.check_registrant(&owner, Scope::Deposit)?;
        standing.check_prefix(&allocation.prefix.prefix)?;
        self.check_server_responsible(Handle::from(name), work).await?;
        if entry.state == RecordStatus::Tombstone {
            let detail = format!("`{}` has been ended, and is not given again", entry.name);
            return Err(RegistryError::new(RegistryErrorKind::Gone, "ended", detail));
        }
        Ok((allocation, owner, entry))
    }

    /// Who has a name.
    pub(super) async fn owner_or_holder(
        &self,
        allocation: &PrefixAllocation,
        owner: Option<&str>,
        work: &mut Budget,
    ) -> Result<Registrant, RegistryError> {
        match owner {
            None => Ok(allocation.holder.clone()),
            Some(id) => Ok(self.get_object::<Registrant>(RegistryObjectKind::Registrant, id, work).await?.it),
        }
    }

    /// A name under a prefix that nobody has yet, nor will by what is planned.
    pub(super) async fn mint_name(
        &self,
        prefix: &str,
        random: &[u8; 16],
        is_planned: impl Fn(&str) -> bool + Send + Sync,
        work: &mut Budget,
    ) -> Result<Box<str>, RegistryError> {
        if !is_doi_prefix(prefix) {
            let detail = format!("`{prefix}` is no prefix of DOI names");
            return Err(RegistryError::invalid("bad-prefix", "/prefix", detail));
        }
        let random = u128::from_be_bytes(*random);
        for number in 0..MAX_MINT_ATTEMPTS {
            let bits = (random >> 64) as u64 ^ (random as u64).wrapping_mul(number);
            let name = format!("{prefix}/{}", suffix::generate(bits));
            work.charge(price::LOOKUP).map_err(crate::Error::from)?;
            if self.owns(Handle::from(&*name))
                && !is_planned(&name)
                && self.get_record(&name, work).await?.is_none()
            {
                return Ok(name.into());
            }
        }
        Err(RegistryError::new(RegistryErrorKind::Busy, "no-name-left", "no free name was found"))
    }
}
