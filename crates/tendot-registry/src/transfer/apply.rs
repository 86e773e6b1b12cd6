//! Edits of a prefix, names or agency transfer.

use std::collections::BTreeSet;

use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::{Edit, Precondition, RecordStatus, StoredRecord};

use super::{MAX_TRANSFER_NAMES, TransferSubject};
use crate::authorization::{Principal, is_credential};
use crate::call::handle_timestamp;
use crate::party::{
    Agency, AgencyClosure, Registrant, RegistryObjectKind, Scope, Versioned, decode, put_edit, touch_holdings,
};
use crate::prefix::{AllocationCache, GROUP_INDEX, Prefix, PrefixAllocation, admin_group_value};
use crate::registration::{Registration, check_admin_index_free, owned_name_key};
use crate::rules::Rules;
use crate::validate::check_indexes;
use crate::{CallContext, RecordLimits, RegistryError, RegistryErrorKind, codes};

/// Budget of one name of a transfer.
const NAME_TRANSFER_BUDGET: u32 = 2_000;

/// Previous owners and edits of a transfer.
pub(super) struct TransferPlan {
    /// Previous owners.
    pub(super) from: Vec<Box<str>>,
    /// Edits to commit.
    pub(super) edits: Vec<Edit>,
}

impl Rules {
    /// Plans a transfer. `principal` is the proposer, who must be authorized for all of it.
    pub(super) async fn plan_transfer(
        &self,
        subject: &TransferSubject,
        to: &str,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<TransferPlan, RegistryError> {
        let (now_ms, budget) = (call.now_ms, &mut *call.budget);
        match subject {
            TransferSubject::Agency(code) => {
                self.plan_agency_transfer(code, to, principal, now_ms, budget).await
            }
            TransferSubject::Prefix(prefix) => {
                let to = self.get_named_object(to, "/to", budget).await?.value;
                self.plan_prefix_transfer(prefix, &to, principal, now_ms, budget).await
            }
            TransferSubject::Names(names) => {
                let to = self.get_named_object(to, "/to", budget).await?.value;
                self.plan_names_transfer(names, &to, principal, now_ms).await
            }
        }
    }

    async fn plan_prefix_transfer(
        &self,
        prefix: &str,
        to: &Registrant,
        principal: &Principal,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<TransferPlan, RegistryError> {
        let agency = self.get_object::<Agency>(&to.agency, budget).await?.value;
        let not_found = || {
            let detail = format!("prefix `{prefix}` is not allocated");
            RegistryError::invalid(codes::UNKNOWN_NAME, "/prefix", detail)
        };
        let allocation = self.load_allocation(prefix, budget).await?.ok_or_else(not_found)?;
        principal.check_registrant(&allocation.holder, Scope::Transfer)?;
        principal.check_prefix(prefix)?;
        if has_admin_key_under(&allocation.holder, prefix) {
            check_may_give_away_access(principal, &allocation.holder)?;
        }
        if allocation.holder.id == to.id {
            return Err(RegistryError::new(codes::ALREADY_OWNER, "the recipient already holds the prefix")
                .with_pointer("/to"));
        }
        let PrefixAllocation { prefix, record, holder, .. } = allocation;
        let transferred = Prefix { registrant: to.id.clone(), agency: agency.code.clone(), ..prefix };
        let service = self.settings.service_handle.as_ref();
        let mut edits = self.service_handle_edits(now_ms, budget).await?;
        edits.push(transferred.record_edit(to, &agency, service, Some(&record), now_ms));
        edits.extend(transferred.holdings_edits(now_ms));
        Ok(TransferPlan { from: vec![holder.id], edits })
    }

    async fn plan_names_transfer(
        &self,
        names: &[Box<str>],
        to: &Registrant,
        principal: &Principal,
        now_ms: u64,
    ) -> Result<TransferPlan, RegistryError> {
        if names.is_empty() {
            return Err(RegistryError::invalid(codes::MISSING, "/names", "`names` must not be empty"));
        }
        if names.len() > MAX_TRANSFER_NAMES {
            let detail = format!("{} names (maximum {MAX_TRANSFER_NAMES})", names.len());
            return Err(RegistryError::invalid(codes::TOO_MANY, "/names", detail));
        }
        let mut transfer = NamesTransfer {
            rules: self,
            to,
            principal,
            now_ms,
            allocations: AllocationCache::new(self),
            owners: BTreeSet::new(),
            seen: BTreeSet::new(),
            edits: Vec::new(),
        };
        for (number, name) in names.iter().enumerate() {
            transfer.add(name, &format!("/names/{number}")).await?;
        }
        transfer.finish()
    }

    async fn plan_agency_transfer(
        &self,
        code: &str,
        to: &str,
        principal: &Principal,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<TransferPlan, RegistryError> {
        let Versioned { value: from, revision } =
            self.get_named_object::<Agency>(code, "/agency", budget).await?;
        principal.check_agency(&from.code, Scope::Transfer)?;
        principal.check_all_prefixes()?;
        let to = self.get_named_object::<Agency>(to, "/to", budget).await?.value;
        from.check_open("/agency")?;
        to.check_open("/to")?;
        if from.code.eq_ignore_ascii_case(&to.code) {
            return Err(RegistryError::new(codes::ALREADY_OWNER, "source and target agency are the same")
                .with_pointer("/to"));
        }
        let mut edits = vec![touch_holdings(RegistryObjectKind::Agency, &to.code, &from.code)];
        self.guard_holdings(RegistryObjectKind::Agency, &from.code).await?;
        self.visit_objects(|object: Versioned<Registrant>| {
            if object.value.agency.eq_ignore_ascii_case(&from.code) {
                let transferred = Registrant { agency: to.code.clone(), ..object.value };
                edits.push(put_edit(&transferred, Some(object.revision)));
            }
            true
        })
        .await?;
        self.visit_prefixes(|prefix, entry| {
            if prefix.agency.eq_ignore_ascii_case(&from.code) {
                edits.push(prefix.namespace_edit(&to, entry, now_ms));
            }
        })
        .await?;
        let closure = AgencyClosure { time_ms: now_ms, successor: to.code.clone() };
        let closed = Agency { closed: Some(closure), ..from.clone() };
        edits.push(put_edit(&closed, Some(revision)));
        Ok(TransferPlan { from: vec![from.code], edits })
    }
}

/// Whether a key of a registrant's administrators is in the record of a name.
fn has_admin_key(registrant: &Registrant, name: &str) -> bool {
    registrant.admin_references().iter().any(|admin| admin.handle().eq_ignore_case(Handle::from(name)))
}

/// Whether a key of a registrant's administrators is in the record of a prefix, or of a name under it.
fn has_admin_key_under(registrant: &Registrant, prefix: &str) -> bool {
    let references = registrant.admin_references();
    has_admin_key(registrant, &format!("0.NA/{prefix}"))
        || references.iter().any(|admin| admin.handle().prefix().eq_ignore_ascii_case(prefix.as_bytes()))
}

/// Fails unless the principal may change keys: the owner of a record controls its keys and groups, and with them the rights of
/// those who refer to them.
fn check_may_give_away_access(principal: &Principal, owner: &Registrant) -> Result<(), RegistryError> {
    principal.check_registrant(owner, Scope::Administer)?;
    principal.check_may_grant_access()
}

/// Transfer of names while it is planned.
struct NamesTransfer<'a> {
    rules: &'a Rules,
    to: &'a Registrant,
    principal: &'a Principal,
    now_ms: u64,
    allocations: AllocationCache<'a>,
    /// Ids of the previous owners.
    owners: BTreeSet<Box<str>>,
    /// Names added so far, case-folded.
    seen: BTreeSet<String>,
    edits: Vec<Edit>,
}

impl NamesTransfer<'_> {
    /// Adds a name; `pointer` is its place in the request.
    async fn add(&mut self, name: &str, pointer: &str) -> Result<(), RegistryError> {
        // Every name has its own budget; the number of names is limited.
        let budget = &mut Budget::new(NAME_TRANSFER_BUDGET);
        let (rules, principal, to) = (self.rules, self.principal, self.to);
        let not_found =
            || RegistryError::invalid(codes::UNKNOWN_NAME, pointer, format!("unknown name `{name}`"));
        let loaded = self.allocations.load_name(name, principal, budget).await?;
        let (prefix, entry, registration) = loaded.ok_or_else(not_found)?;
        let owner = self.allocations.owner(prefix, &registration, budget).await?;
        let (_, owner) = owner.ok_or_else(not_found)?;
        principal
            .check_registrant(owner, Scope::Transfer)
            .map_err(|rejection| rejection.with_pointer(pointer))?;
        principal.check_prefix(prefix)?;
        if entry.values.iter().any(is_credential) || has_admin_key(owner, &entry.name) {
            check_may_give_away_access(principal, owner)
                .map_err(|rejection| rejection.with_pointer(pointer))?;
        }
        if entry.status == RecordStatus::Tombstone {
            let detail = format!("`{}` is retired", entry.name);
            return Err(RegistryError::new(codes::NAME_RETIRED, detail).with_pointer(pointer));
        }
        if owner.id == to.id {
            let detail = format!("the recipient already owns `{}`", entry.name);
            return Err(RegistryError::new(codes::ALREADY_OWNER, detail).with_pointer(pointer));
        }
        if !self.seen.insert(entry.name.to_ascii_uppercase()) {
            let detail = format!("duplicate name `{}`", entry.name);
            return Err(RegistryError::invalid(codes::DUPLICATE_NAME, pointer, detail));
        }
        self.owners.insert(owner.id.clone());
        let allocation = self.allocations.allocation(prefix, budget).await?.ok_or_else(not_found)?;
        let limits = &rules.settings.limits;
        let edits = name_transfer_edits(&entry, registration, to, allocation, limits, self.now_ms);
        self.edits.extend(edits.map_err(|rejection| match rejection.kind {
            RegistryErrorKind::Invalid => rejection.with_pointer(pointer),
            _ => rejection,
        })?);
        Ok(())
    }

    /// Adds the edits of prefixes with a new admin group.
    fn finish(self) -> Result<TransferPlan, RegistryError> {
        let (to, now_ms, mut edits) = (self.to, self.now_ms, self.edits);
        for PrefixAllocation { prefix, record, .. } in self.allocations.into_allocations() {
            let previous: Prefix = decode(&record)?;
            if let (Some(index), None) =
                (prefix.group_indexes.get(&to.id), previous.group_indexes.get(&to.id))
            {
                edits.push(prefix.admin_groups_edit(to, [*index], &record, now_ms));
                let marker = format!("{} {now_ms}", prefix.prefix);
                edits.push(touch_holdings(RegistryObjectKind::Registrant, &to.id, &marker));
            }
        }
        Ok(TransferPlan { from: self.owners.into_iter().collect(), edits })
    }
}

/// Edits that transfer a name: registration, admin value and owner index.
fn name_transfer_edits(
    entry: &StoredRecord,
    registration: Registration,
    to: &Registrant,
    allocation: &mut PrefixAllocation,
    limits: &RecordLimits,
    now_ms: u64,
) -> Result<Vec<Edit>, RegistryError> {
    let is_to_holder = to.id == allocation.holder.id;
    let group = if is_to_holder {
        GROUP_INDEX
    } else {
        allocation.prefix.allocate_group_index(&to.id, &allocation.record)?
    };
    let mut values: Vec<HandleValue<'static>> =
        entry.values.iter().filter(|value| !value.has_type("HS_ADMIN")).cloned().collect();
    check_admin_index_free(entry)?;
    let timestamp = handle_timestamp(now_ms);
    values.push(HandleValue { timestamp, ..admin_group_value(&allocation.prefix, group) });
    check_indexes(&values, limits)?;
    values.sort_by_key(|value| value.index);
    let owner = (!is_to_holder).then(|| to.id.clone());
    let from = registration.owner.clone();
    let registration = Registration { owner, updated_ms: now_ms, ..registration }.to_bytes();
    let (name, expect) = (entry.name.clone(), Precondition::AtRevision(entry.revision));
    let mut edits = vec![Edit::Register { name, values, registration, precondition: expect }];
    if let Some(from) = from {
        edits.push(Edit::RemoveAux { key: owned_name_key(&from, &entry.name)?.into() });
    }
    if !is_to_holder {
        let key = owned_name_key(&to.id, &entry.name)?.into();
        edits.push(Edit::PutAux { key, value: entry.name.as_bytes().into() });
    }
    Ok(edits)
}
