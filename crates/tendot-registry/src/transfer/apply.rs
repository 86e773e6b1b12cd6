//! Edits of a prefix, names or agency transfer.

use tendot_proto::record::{Admin, AdminPermissions};
use tendot_proto::{Budget, HandleValue, ValueReference};
use tendot_store::{Edit, Precondition, RecordStatus, StoredRecord};

use super::{MAX_TRANSFER_NAMES, TransferSubject};
use crate::authorization::Principal;
use crate::party::{
    Agency, AgencyClosure, Registrant, RegistryObjectKind, Scope, Versioned, decode, encode, put_edit,
    touch_holdings,
};
use crate::prefix::{ADMIN_INDEX, GROUP_INDEX, Prefix, PrefixAllocation};
use crate::registration::{Registration, check_admin_index_free, is_reserved, owned_name_key};
use crate::validate::check_indexes;
use crate::{RecordLimits, Registry, RegistryError, RegistryErrorKind, codes};

/// Budget of one name of a transfer.
const NAME_TRANSFER_BUDGET: u32 = 2_000;

/// Previous owners and edits of a transfer.
pub(super) struct TransferPlan {
    /// Previous owners.
    pub(super) from: Vec<Box<str>>,
    /// Edits to commit.
    pub(super) edits: Vec<Edit>,
}

impl Registry {
    /// Plans a transfer. `principal` is the proposer, who must be authorized for all of it.
    pub(super) async fn plan_transfer(
        &self,
        subject: &TransferSubject,
        to: &str,
        principal: &Principal,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<TransferPlan, RegistryError> {
        if let TransferSubject::Agency(code) = subject {
            return self.plan_agency_transfer(code, to, principal, now_ms, budget).await;
        }
        let not_found =
            || RegistryError::invalid(codes::UNKNOWN_REGISTRANT, "/to", format!("unknown registrant `{to}`"));
        let to = self
            .find_object::<Registrant>(RegistryObjectKind::Registrant, to, budget)
            .await?
            .ok_or_else(not_found)?
            .value;
        let agency = self.get_object::<Agency>(RegistryObjectKind::Agency, &to.agency, budget).await?.value;
        match subject {
            TransferSubject::Prefix(prefix) => {
                self.plan_prefix_transfer(prefix, &to, &agency, principal, now_ms, budget).await
            }
            TransferSubject::Names(names) => self.plan_names_transfer(names, &to, principal, now_ms).await,
            TransferSubject::Agency(_) => Err(not_found()),
        }
    }

    async fn plan_prefix_transfer(
        &self,
        prefix: &str,
        to: &Registrant,
        agency: &Agency,
        principal: &Principal,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<TransferPlan, RegistryError> {
        let not_found = || {
            RegistryError::invalid(
                codes::UNKNOWN_PREFIX,
                "/prefix",
                format!("prefix `{prefix}` is not allocated"),
            )
        };
        let allocation = self.load_allocation(prefix, budget).await?.ok_or_else(not_found)?;
        principal.check_registrant(&allocation.holder, Scope::Transfer)?;
        principal.check_prefix(prefix)?;
        if allocation.holder.id == to.id {
            return Err(RegistryError::new(codes::ALREADY_OWNER, "the recipient already holds the prefix")
                .with_pointer("/to"));
        }
        let PrefixAllocation { prefix, record, holder, .. } = allocation;
        let transferred = Prefix { registrant: to.id.clone(), agency: agency.code.clone(), ..prefix };
        let mut edits = vec![transferred.record_edit(to, agency, Some(&record), now_ms)];
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
        let mut prefixes: std::collections::BTreeMap<Box<str>, PrefixAllocation> = Default::default();
        let mut owners: std::collections::BTreeMap<Box<str>, Registrant> = Default::default();
        let mut seen = std::collections::BTreeSet::new();
        let mut edits = Vec::new();
        for (number, name) in names.iter().enumerate() {
            // Every name has its own budget; the number of names is limited.
            let mut budget = Budget::new(NAME_TRANSFER_BUDGET);
            let budget = &mut budget;
            let pointer = format!("/names/{number}");
            let not_found =
                || RegistryError::invalid(codes::UNKNOWN_NAME, &pointer, format!("unknown name `{name}`"));
            let (prefix, _) = name.split_once('/').ok_or_else(not_found)?;
            if !prefixes.contains_key(prefix) {
                let allocation = self.load_allocation(prefix, budget).await?.ok_or_else(not_found)?;
                prefixes.insert(prefix.into(), allocation);
            }
            let allocation = prefixes.get_mut(prefix).ok_or_else(not_found)?;
            let entry = self.get_record(name, budget).await?.ok_or_else(not_found)?;
            let registration = Registration::of_record(&entry)?;
            let owner = match &registration.owner {
                None => allocation.holder.clone(),
                Some(id) => {
                    self.get_object::<Registrant>(RegistryObjectKind::Registrant, id, budget).await?.value
                }
            };
            if is_reserved(&entry) && !principal.is_for_registrant(&owner) {
                return Err(not_found());
            }
            principal
                .check_registrant(&owner, Scope::Transfer)
                .map_err(|rejection| rejection.with_pointer(&*pointer))?;
            principal.check_prefix(prefix)?;
            if entry.status == RecordStatus::Tombstone {
                let detail = format!("`{}` is retired", entry.name);
                return Err(RegistryError::invalid(codes::RETIRED, &pointer, detail));
            }
            if owner.id == to.id {
                let detail = format!("the recipient already owns `{}`", entry.name);
                return Err(RegistryError::new(codes::ALREADY_OWNER, detail).with_pointer(pointer));
            }
            if !seen.insert(entry.name.to_ascii_uppercase()) {
                let detail = format!("duplicate name `{}`", entry.name);
                return Err(RegistryError::invalid(codes::DUPLICATE_NAME, &pointer, detail));
            }
            let transferred =
                name_transfer_edits(&entry, registration, to, allocation, &self.settings.limits, now_ms);
            edits.extend(transferred.map_err(|rejection| match rejection.kind {
                RegistryErrorKind::Invalid => rejection.with_pointer(&*pointer),
                _ => rejection,
            })?);
            owners.insert(owner.id.clone(), owner);
        }
        for PrefixAllocation { prefix, record, .. } in prefixes.into_values() {
            let previous: Prefix = decode(&record)?;
            // Only prefixes with a new admin group have changed.
            if let (Some(index), None) =
                (prefix.group_indexes.get(&to.id), previous.group_indexes.get(&to.id))
            {
                edits.push(prefix.admin_groups_edit(to, [*index], &record, now_ms));
                edits.push(touch_holdings(
                    RegistryObjectKind::Registrant,
                    &to.id,
                    &format!("{} {now_ms}", prefix.prefix),
                ));
            }
        }
        Ok(TransferPlan { from: owners.into_keys().collect(), edits })
    }

    async fn plan_agency_transfer(
        &self,
        code: &str,
        to: &str,
        principal: &Principal,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<TransferPlan, RegistryError> {
        let not_found = |pointer: &str, code: &str| {
            RegistryError::invalid(codes::UNKNOWN_AGENCY, pointer, format!("unknown agency `{code}`"))
        };
        let from = self.find_object::<Agency>(RegistryObjectKind::Agency, code, budget).await?;
        let Versioned { value: from, revision } = from.ok_or_else(|| not_found("/agency", code))?;
        principal.check_agency(&from.code, Scope::Transfer)?;
        principal.check_all_prefixes()?;
        let to = self
            .find_object::<Agency>(RegistryObjectKind::Agency, to, budget)
            .await?
            .ok_or_else(|| not_found("/to", to))?
            .value;
        from.check_open("/agency")?;
        to.check_open("/to")?;
        if from.code.eq_ignore_ascii_case(&to.code) {
            return Err(RegistryError::new(codes::ALREADY_OWNER, "source and target agency are the same")
                .with_pointer("/to"));
        }
        let mut edits = vec![touch_holdings(RegistryObjectKind::Agency, &to.code, &from.code)];
        self.guard_holdings(RegistryObjectKind::Agency, &from.code).await?;
        self.visit_objects(RegistryObjectKind::Registrant, None, |object: Versioned<Registrant>| {
            if object.value.agency.eq_ignore_ascii_case(&from.code) {
                let transferred = Registrant { agency: to.code.clone(), ..object.value };
                edits.push(put_edit(
                    RegistryObjectKind::Registrant,
                    &transferred.id,
                    &transferred,
                    Some(object.revision),
                ));
            }
            true
        })
        .await?;
        self.visit_prefixes(|prefix, entry| {
            if prefix.agency.eq_ignore_ascii_case(&from.code) {
                edits.push(prefix.namespace_edit(&to, entry, now_ms));
            }
            true
        })
        .await?;
        let closure = AgencyClosure { time_ms: now_ms, successor: to.code.clone() };
        let closed = Agency { closed: Some(closure), ..from.clone() };
        edits.push(put_edit(RegistryObjectKind::Agency, &from.code, &closed, Some(revision)));
        Ok(TransferPlan { from: vec![from.code], edits })
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
    let reference = ValueReference::new(group, allocation.prefix.record_name().as_bytes().to_vec());
    let admin = Admin { permissions: AdminPermissions::ALL, reference, legacy_byte_length: false };
    let timestamp = u32::try_from(now_ms / 1_000).unwrap_or(u32::MAX);
    values
        .push(HandleValue { timestamp, ..HandleValue::with_data(ADMIN_INDEX, "HS_ADMIN", admin.to_bytes()) });
    check_indexes(&values, limits)?;
    values.sort_by_key(|value| value.index);
    let owner = (!is_to_holder).then(|| to.id.clone());
    let from = registration.owner.clone();
    let registration = encode(&Registration { owner, updated_ms: now_ms, ..registration });
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
