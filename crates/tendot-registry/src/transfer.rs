//! Names, prefixes and agencies change hands: proposed by who has them, accepted by who is to have them. Names stay as they
//! are.

use std::iter;

use serde::{Deserialize, Serialize};
use tendot_proto::record::{Admin, AdminPermissions};
use tendot_proto::{Budget, HandleValue, ValueReference};
use tendot_store::{Edit, Precondition, RecordStatus, StoredRecord};

use crate::doi::{Registration, check_admin_index_free, is_reserved, owned_key};
use crate::party::{
    ADMIN_INDEX, ActingRole, Agency, AgencyClosure, GROUP_INDEX, Held, Prefix, PrefixAllocation, Principal,
    Registrant, RegistryObjectKind, Scope, decode, encode, generate_id, gets, put_edit,
};
use crate::refusal::RegistryErrorKind;
use crate::task::CommandPlan;
use crate::task::sealed::Plan;
use crate::validate::check_indexes;
use crate::{Caller, RecordLimits, Registry, RegistryError};

/// Names in one transfer.
pub const MAX_TRANSFER_NAMES: usize = 10_000;

/// Names of a transfer in a list.
const LISTED_NAMES: usize = 10;

/// Registrants of one transfer that are asked for whom they are, for a list.
const MAX_LOOKED_UP_OWNERS: usize = 500;

/// Transfer of names, a prefix or an agency.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Transfer {
    /// By which it is known.
    pub id: Box<str>,
    /// What changes hands.
    #[serde(flatten)]
    pub what: TransferSubject,
    /// From whom, each once: ids of registrants, or the code of an agency.
    pub from: Vec<Box<str>>,
    /// To whom: the id of a registrant, or the code of an agency.
    pub to: Box<str>,
    /// How far it has come.
    pub state: TransferState,
    /// When it was proposed, in milliseconds since 1970.
    pub proposed: u64,
    /// By whom, as the log has it.
    pub by: Box<str>,
    /// When it was accepted, declined or forced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<u64>,
}

/// Transfer in a list, with its first names only.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TransferListItem {
    /// What it is, with some of its names: all of them are in [`Registry::get_transfer`].
    pub transfer: Transfer,
    /// How many names there are, if it is one of names.
    pub count: Option<usize>,
}

impl TransferListItem {
    fn from_transfer(mut transfer: Transfer) -> Self {
        let mut count = None;
        if let TransferSubject::Names(names) = &mut transfer.what {
            count = Some(names.len());
            names.truncate(LISTED_NAMES);
            names.shrink_to_fit();
        }
        Self { transfer, count }
    }
}

impl Transfer {
    /// Whether somebody gives, and whether they receive, if that is known without asking for whom registrants are.
    fn sides_without_lookup(&self, standing: &Principal) -> Option<(bool, bool)> {
        match (&standing.role, &self.what) {
            (ActingRole::Operator, _) => Some((true, true)),
            (_, TransferSubject::Agency(code)) => {
                Some((standing.is_for_agency(code), standing.is_for_agency(&self.to)))
            }
            (ActingRole::Registrant(id), _) => {
                Some((self.from.contains(id), self.to.eq_ignore_ascii_case(id)))
            }
            (ActingRole::Anonymous, _) => Some((false, false)),
            (ActingRole::Agency(_) | ActingRole::Handle(_), _) => None,
        }
    }
}

/// What is transferred.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TransferSubject {
    /// These names, to a registrant.
    Names(Vec<Box<str>>),
    /// A prefix and all names under it that have not been given to others, to a registrant.
    Prefix(Box<str>),
    /// All registrants of an agency, with all they have, to another agency. The agency ends.
    Agency(Box<str>),
}

impl TransferSubject {
    /// A token is for all of it.
    fn check_prefixes(&self, standing: &Principal) -> Result<(), RegistryError> {
        let prefix_of =
            |name: &str| name.split_once('/').map_or_else(String::new, |(prefix, _)| prefix.into());
        match self {
            Self::Names(names) => names.iter().try_for_each(|name| standing.check_prefix(&prefix_of(name))),
            Self::Prefix(prefix) => standing.check_prefix(prefix),
            Self::Agency(_) => standing.check_all_prefixes(),
        }
    }
}

/// How far a transfer has come.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TransferState {
    /// It waits for who is to receive.
    Proposed,
    /// It is done.
    Done,
    /// It was declined, or taken back.
    Declined,
}

/// Command: propose a transfer; the operator may force it.
#[derive(Clone, Debug)]
pub struct ProposeTransfer {
    /// See [`Transfer::what`].
    pub what: TransferSubject,
    /// See [`Transfer::to`].
    pub to: Box<str>,
    /// Whether it is done at once, without being accepted: for the operator.
    pub force: bool,
    /// What its id is made of.
    pub random: [u8; 16],
}

/// Command: accept or decline a transfer.
#[derive(Clone, Debug)]
pub struct DecideTransfer {
    /// Which one.
    pub id: Box<str>,
    /// Whether it is accepted.
    pub accept: bool,
}

/// Previous owners and edits of a transfer.
struct TransferPlan {
    /// From whom.
    from: Vec<Box<str>>,
    /// What is to be done.
    edits: Vec<Edit>,
}

impl Plan for ProposeTransfer {
    type Output = Transfer;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<Transfer>, RegistryError> {
        standing.check_scope(Scope::Transfer)?;
        if self.force && !standing.is_operator() {
            return Err(
                RegistryError::forbidden("only the operator forces a transfer").with_pointer("/force")
            );
        }
        let TransferPlan { from, mut edits } =
            registry.plan_transfer(&self.what, &self.to, standing, at, work).await?;
        let mut transfer = Transfer {
            id: generate_id(&self.random).into(),
            what: self.what.clone(),
            from,
            to: self.to.clone(),
            state: TransferState::Proposed,
            proposed: at,
            by: standing.to_string().into(),
            decided: None,
        };
        if self.force {
            (transfer.state, transfer.decided) = (TransferState::Done, Some(at));
        } else {
            edits.clear();
        }
        edits.push(put_edit(RegistryObjectKind::Transfer, &transfer.id, &transfer, None));
        Ok(CommandPlan::new(edits, transfer))
    }
}

impl Plan for DecideTransfer {
    type Output = Transfer;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<Transfer>, RegistryError> {
        standing.check_scope(Scope::Transfer)?;
        let no_such = || RegistryError::not_found(RegistryObjectKind::Transfer.name(), &self.id);
        let Held { it: mut transfer, revision } =
            registry.get_object::<Transfer>(RegistryObjectKind::Transfer, &self.id, work).await?;
        let (gives, receives) = registry.sides(&transfer, standing, work).await?;
        if !gives && !receives {
            return Err(no_such());
        }
        transfer.what.check_prefixes(standing)?;
        match transfer.state {
            TransferState::Proposed => {}
            // Who asks twice is told the same.
            TransferState::Done if self.accept => return Ok(CommandPlan::new(Vec::new(), transfer)),
            TransferState::Declined if !self.accept => return Ok(CommandPlan::new(Vec::new(), transfer)),
            _ => {
                let detail = "it has been decided already";
                return Err(RegistryError::new(RegistryErrorKind::Conflict, "decided", detail));
            }
        }
        if self.accept && !receives {
            return Err(RegistryError::forbidden("who is to receive accepts a transfer"));
        }
        let mut edits = Vec::new();
        if self.accept {
            // What was proposed has to be theirs still who proposed it.
            let proposer = Principal::from_log(&transfer.by);
            let changed = || {
                let detail = "what was proposed belongs to others by now";
                RegistryError::new(RegistryErrorKind::Conflict, "changed", detail)
                    .with_hint("propose it again")
            };
            let moved = registry.plan_transfer(&transfer.what, &transfer.to, &proposer, at, work).await;
            let moved = moved.map_err(|refusal| match refusal.reason {
                RegistryErrorKind::Forbidden => changed(),
                _ => refusal,
            })?;
            if moved.from != transfer.from {
                return Err(changed());
            }
            edits = moved.edits;
        }
        transfer.state = if self.accept { TransferState::Done } else { TransferState::Declined };
        transfer.decided = Some(at);
        edits.push(put_edit(RegistryObjectKind::Transfer, &transfer.id, &transfer, Some(revision)));
        Ok(CommandPlan::new(edits, transfer))
    }
}

impl Registry {
    /// A transfer, for both sides.
    pub async fn get_transfer(
        &self,
        id: &str,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<Held<Transfer>, RegistryError> {
        let standing = self.principal(caller, at, work).await?;
        standing.check_scope(Scope::Read)?;
        let held = self.get_object::<Transfer>(RegistryObjectKind::Transfer, id, work).await?;
        let (gives, receives) = self.sides(&held.it, &standing, work).await?;
        if gives || receives {
            Ok(held)
        } else {
            Err(RegistryError::not_found(RegistryObjectKind::Transfer.name(), id))
        }
    }

    /// Transfers in which somebody gives or receives. There may be fewer than were asked for, and yet more to come.
    pub async fn list_transfers(
        &self,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<(Vec<TransferListItem>, Option<String>), RegistryError> {
        let standing = self.principal(caller, at, work).await?;
        standing.check_scope(Scope::Read)?;
        let item = |held: Held<Transfer>| {
            let whom = match held.it.sides_without_lookup(&standing) {
                Some((false, false)) => return None,
                Some(_) => Vec::new(),
                None => iter::once(&held.it.to)
                    .chain(held.it.from.iter().take(MAX_LOOKED_UP_OWNERS))
                    .cloned()
                    .collect(),
            };
            Some((TransferListItem::from_transfer(held.it), whom))
        };
        Ok(self.list_objects_for(RegistryObjectKind::Transfer, after, limit, &standing, work, item).await?)
    }

    /// Whether somebody gives, and whether they receive.
    async fn sides(
        &self,
        transfer: &Transfer,
        standing: &Principal,
        work: &mut Budget,
    ) -> Result<(bool, bool), RegistryError> {
        if let Some(known) = transfer.sides_without_lookup(standing) {
            return Ok(known);
        }
        let to = self.find_object::<Registrant>(RegistryObjectKind::Registrant, &transfer.to, work).await?;
        let receives = to.is_some_and(|to| standing.is_for_registrant(&to.it));
        for id in &transfer.from {
            let from = self.find_object::<Registrant>(RegistryObjectKind::Registrant, id, work).await?;
            if from.is_some_and(|from| standing.is_for_registrant(&from.it)) {
                return Ok((true, receives));
            }
        }
        Ok((false, receives))
    }

    /// What a transfer takes. `standing` is of who proposes it: all of it has to be theirs.
    async fn plan_transfer(
        &self,
        what: &TransferSubject,
        to: &str,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<TransferPlan, RegistryError> {
        if let TransferSubject::Agency(code) = what {
            return self.plan_agency_transfer(code, to, standing, at, work).await;
        }
        let no_such =
            || RegistryError::invalid("no-such-registrant", "/to", format!("there is no registrant `{to}`"));
        let to = self
            .find_object::<Registrant>(RegistryObjectKind::Registrant, to, work)
            .await?
            .ok_or_else(no_such)?
            .it;
        let agency = self.get_object::<Agency>(RegistryObjectKind::Agency, &to.agency, work).await?.it;
        match what {
            TransferSubject::Prefix(prefix) => {
                self.plan_prefix_transfer(prefix, &to, &agency, standing, at, work).await
            }
            TransferSubject::Names(names) => self.plan_names_transfer(names, &to, standing, at).await,
            TransferSubject::Agency(_) => Err(no_such()),
        }
    }

    async fn plan_prefix_transfer(
        &self,
        prefix: &str,
        to: &Registrant,
        agency: &Agency,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<TransferPlan, RegistryError> {
        let no_such = || {
            RegistryError::invalid(
                "no-such-prefix",
                "/prefix",
                format!("the prefix `{prefix}` has been given to nobody here"),
            )
        };
        let allocation = self.allocation(prefix, work).await?.ok_or_else(no_such)?;
        standing.check_registrant(&allocation.holder, Scope::Transfer)?;
        standing.check_prefix(prefix)?;
        if allocation.holder.id == to.id {
            return Err(RegistryError::new(
                RegistryErrorKind::Conflict,
                "has-it",
                "who is to receive it has it already",
            )
            .with_pointer("/to"));
        }
        let PrefixAllocation { prefix, record, holder, .. } = allocation;
        let moved = Prefix { registrant: to.id.clone(), agency: agency.code.clone(), ..prefix };
        let mut edits = vec![moved.record_edit(to, agency, Some(&record), at)];
        edits.extend(moved.holdings_edits(at));
        Ok(TransferPlan { from: vec![holder.id], edits })
    }

    async fn plan_names_transfer(
        &self,
        names: &[Box<str>],
        to: &Registrant,
        standing: &Principal,
        at: u64,
    ) -> Result<TransferPlan, RegistryError> {
        if names.is_empty() {
            return Err(RegistryError::invalid("missing", "/names", "there are no names"));
        }
        if names.len() > MAX_TRANSFER_NAMES {
            let detail = format!("{} names, at most {MAX_TRANSFER_NAMES} are taken at once", names.len());
            return Err(RegistryError::invalid("too-many", "/names", detail));
        }
        let mut prefixes: std::collections::BTreeMap<Box<str>, PrefixAllocation> = Default::default();
        let mut owners: std::collections::BTreeMap<Box<str>, Registrant> = Default::default();
        let mut seen = std::collections::BTreeSet::new();
        let mut edits = Vec::new();
        for (number, name) in names.iter().enumerate() {
            // Each is paid for by itself: what one costs is bounded, and so is their number.
            let mut work = Budget::new(NAME_TRANSFER_BUDGET);
            let work = &mut work;
            let pointer = format!("/names/{number}");
            let no_such =
                || RegistryError::invalid("no-such-name", &pointer, format!("there is no name `{name}`"));
            let (prefix, _) = name.split_once('/').ok_or_else(no_such)?;
            if !prefixes.contains_key(prefix) {
                let allocation = self.allocation(prefix, work).await?.ok_or_else(no_such)?;
                prefixes.insert(prefix.into(), allocation);
            }
            let allocation = prefixes.get_mut(prefix).ok_or_else(no_such)?;
            let entry = self.get_record(name, work).await?.ok_or_else(no_such)?;
            let deposit = Registration::of_record(&entry)?;
            let owner = match &deposit.owner {
                None => allocation.holder.clone(),
                Some(id) => self.get_object::<Registrant>(RegistryObjectKind::Registrant, id, work).await?.it,
            };
            if is_reserved(&entry) && !standing.is_for_registrant(&owner) {
                return Err(no_such());
            }
            standing
                .check_registrant(&owner, Scope::Transfer)
                .map_err(|refusal| refusal.with_pointer(&*pointer))?;
            standing.check_prefix(prefix)?;
            if entry.state == RecordStatus::Tombstone {
                let detail = format!("`{}` has been ended", entry.name);
                return Err(RegistryError::invalid("ended", &pointer, detail));
            }
            if owner.id == to.id {
                let detail = format!("who is to receive `{}` has it already", entry.name);
                return Err(
                    RegistryError::new(RegistryErrorKind::Conflict, "has-it", detail).with_pointer(pointer)
                );
            }
            if !seen.insert(entry.name.to_ascii_uppercase()) {
                let detail = format!("`{}` is there twice", entry.name);
                return Err(RegistryError::invalid("twice", &pointer, detail));
            }
            let moved = name_transfer_edits(&entry, deposit, to, allocation, &self.settings.limits, at);
            edits.extend(moved.map_err(|refusal| match refusal.reason {
                RegistryErrorKind::Invalid => refusal.with_pointer(&*pointer),
                _ => refusal,
            })?);
            owners.insert(owner.id.clone(), owner);
        }
        for PrefixAllocation { prefix, record, .. } in prefixes.into_values() {
            let before: Prefix = decode(&record)?;
            // Only of those that got a group: the others are as they were.
            if let (Some(index), None) = (prefix.groups.get(&to.id), before.groups.get(&to.id)) {
                edits.push(prefix.admin_groups_edit(to, [*index], &record, at));
                edits.push(gets(RegistryObjectKind::Registrant, &to.id, &format!("{} {at}", prefix.prefix)));
            }
        }
        Ok(TransferPlan { from: owners.into_keys().collect(), edits })
    }

    async fn plan_agency_transfer(
        &self,
        code: &str,
        to: &str,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<TransferPlan, RegistryError> {
        let no_such = |pointer: &str, code: &str| {
            RegistryError::invalid("no-such-agency", pointer, format!("there is no agency `{code}`"))
        };
        let from = self.find_object::<Agency>(RegistryObjectKind::Agency, code, work).await?;
        let Held { it: from, revision } = from.ok_or_else(|| no_such("/agency", code))?;
        standing.check_agency(&from.code, Scope::Transfer)?;
        standing.check_all_prefixes()?;
        let to = self
            .find_object::<Agency>(RegistryObjectKind::Agency, to, work)
            .await?
            .ok_or_else(|| no_such("/to", to))?
            .it;
        from.check_open("/agency")?;
        to.check_open("/to")?;
        if from.code.eq_ignore_ascii_case(&to.code) {
            return Err(RegistryError::new(RegistryErrorKind::Conflict, "has-it", "it is the same agency")
                .with_pointer("/to"));
        }
        let mut edits = vec![gets(RegistryObjectKind::Agency, &to.code, &from.code)];
        self.look_through(RegistryObjectKind::Agency, &from.code).await?;
        self.visit_objects(RegistryObjectKind::Registrant, None, |held: Held<Registrant>| {
            if held.it.agency.eq_ignore_ascii_case(&from.code) {
                let moved = Registrant { agency: to.code.clone(), ..held.it };
                edits.push(put_edit(RegistryObjectKind::Registrant, &moved.id, &moved, Some(held.revision)));
            }
            true
        })
        .await?;
        self.visit_prefixes(|prefix, entry| {
            if prefix.agency.eq_ignore_ascii_case(&from.code) {
                edits.push(prefix.namespace_edit(&to, entry, at));
            }
            true
        })
        .await?;
        let ended = AgencyClosure { at, successor: to.code.clone() };
        let ended = Agency { ended: Some(ended), ..from.clone() };
        edits.push(put_edit(RegistryObjectKind::Agency, &from.code, &ended, Some(revision)));
        Ok(TransferPlan { from: vec![from.code], edits })
    }
}

/// Steps that one name of a transfer may cost.
const NAME_TRANSFER_BUDGET: u32 = 2_000;

/// What it takes that a name changes hands: its registration, who administers it, and where it is looked for.
fn name_transfer_edits(
    entry: &StoredRecord,
    deposit: Registration,
    to: &Registrant,
    allocation: &mut PrefixAllocation,
    limits: &RecordLimits,
    at: u64,
) -> Result<Vec<Edit>, RegistryError> {
    let comes_home = to.id == allocation.holder.id;
    let group = if comes_home {
        GROUP_INDEX
    } else {
        allocation.prefix.allocate_group_index(&to.id, &allocation.record)?
    };
    let mut values: Vec<HandleValue<'static>> =
        entry.values.iter().filter(|value| !value.has_type("HS_ADMIN")).cloned().collect();
    check_admin_index_free(entry)?;
    let reference = ValueReference::new(group, allocation.prefix.record_name().as_bytes().to_vec());
    let admin = Admin { permissions: AdminPermissions::ALL, reference, legacy_byte_length: false };
    let timestamp = u32::try_from(at / 1_000).unwrap_or(u32::MAX);
    values
        .push(HandleValue { timestamp, ..HandleValue::with_data(ADMIN_INDEX, "HS_ADMIN", admin.to_bytes()) });
    check_indexes(&values, limits)?;
    values.sort_by_key(|value| value.index);
    let owner = (!comes_home).then(|| to.id.clone());
    let from = deposit.owner.clone();
    let registration = encode(&Registration { owner, updated: at, ..deposit });
    let (name, expect) = (entry.name.clone(), Precondition::Revision(entry.revision));
    let mut edits = vec![Edit::Register { name, values, registration, expect }];
    if let Some(from) = from {
        edits.push(Edit::RemoveNote { key: owned_key(&from, &entry.name)?.into() });
    }
    if !comes_home {
        let key = owned_key(&to.id, &entry.name)?.into();
        edits.push(Edit::PutNote { key, body: entry.name.as_bytes().into() });
    }
    Ok(edits)
}
