//! Builds the record of a DOI from a request and the policy of its prefix. Pure function, no store access.

use std::collections::BTreeSet;

use serde_json::value::RawValue;
use tendot_proto::{Budget, HandleValue};
use tendot_store::{Edit, Precondition, RecordStatus, StoredRecord};

use super::record::URL_INDEX;
use crate::authorization::{Principal, is_admin_value, is_credential};
use crate::handle_write::{is_same_value, set_timestamps};
use crate::party::{Registrant, Scope};
use crate::prefix::{ADMIN_INDEX, PrefixAllocation, admin_group_value, free_index};
use crate::registration::{MetadataIssue, Registration, RegistrationRequest, RegistrationState};
use crate::validate::{check_indexes, check_record, check_secret_changes, check_targets, check_value};
use crate::{RecordLimits, RegistryError, SigningSettings, ValueFault, codes};

/// Record change built from a request: created, updated or unchanged.
#[derive(Debug)]
pub(crate) enum RecordChange {
    /// New record.
    Created(StoredRecord, Registration),
    /// Changed record.
    Updated(StoredRecord, Registration),
    /// Nothing changes.
    Unchanged(StoredRecord, Registration),
}

impl RecordChange {
    pub(crate) fn into_parts(self) -> (StoredRecord, Registration) {
        let (Self::Created(entry, registration)
        | Self::Updated(entry, registration)
        | Self::Unchanged(entry, registration)) = self;
        (entry, registration)
    }

    /// Fails unless the principal may make the change of keys and groups, if there is one. Admin values are set by the
    /// registry.
    pub(crate) fn check_access_change(
        &self,
        previous: Option<&StoredRecord>,
        owner: &Registrant,
        principal: &Principal,
    ) -> Result<(), RegistryError> {
        let new = match self {
            Self::Created(entry, _) | Self::Updated(entry, _) => &entry.values,
            Self::Unchanged(..) => return Ok(()),
        };
        let old = previous.map(|entry| entry.values.as_slice()).unwrap_or_default();
        check_credentials_unchanged(old, new, owner, principal)
    }

    /// Metadata of the record.
    pub(crate) fn metadata(&self) -> Option<&RawValue> {
        let (Self::Created(_, registration)
        | Self::Updated(_, registration)
        | Self::Unchanged(_, registration)) = self;
        registration.metadata.as_deref()
    }

    /// Edit to commit, with the expected revision of the existing record.
    pub(crate) fn to_edit(&self, existing: Option<u64>) -> Option<Edit> {
        let (Self::Created(entry, _) | Self::Updated(entry, _)) = self else { return None };
        Some(register_edit(entry.clone(), existing))
    }
}

/// Edit that stores a record, with the expected revision of the existing one.
pub(crate) fn register_edit(entry: StoredRecord, existing: Option<u64>) -> Edit {
    let StoredRecord { name, values, registration, .. } = entry;
    let precondition = existing.map_or(Precondition::Absent, Precondition::AtRevision);
    Edit::Register { name, values, registration, precondition }
}

/// Inputs of the record builder: allocation, admin group, limits, time.
pub(crate) struct BuildContext<'a> {
    pub(crate) allocation: &'a PrefixAllocation,
    /// Index of the owner's admin group.
    pub(crate) group: u32,
    pub(crate) limits: &'a RecordLimits,
    pub(crate) signing: Option<&'a SigningSettings>,
    pub(crate) now_ms: u64,
}

/// Builds the record of a name. `existing` is the existing live record with its registration, if any.
pub(crate) fn build(
    context: &BuildContext<'_>,
    name: &str,
    request: &RegistrationRequest,
    existing: Option<(&StoredRecord, &Registration)>,
) -> Result<RecordChange, RegistryError> {
    let (existing, previous) = existing.unzip();
    let next = next_state(request, previous)?;
    let values = build_values(context, request, existing)?;
    let metadata = match &request.metadata {
        Some(requested) => requested.clone(),
        None => previous.and_then(|previous| previous.metadata.clone()),
    };
    if next == RegistrationState::Registered {
        check_target(&values)?;
        // An imported name without metadata can be changed without adding any.
        let had_none = previous.is_some_and(|previous| {
            previous.state == RegistrationState::Registered && previous.metadata.is_none()
        });
        if metadata.is_none() && !had_none && context.allocation.requires_metadata() {
            return Err(RegistryError::metadata_required(&context.allocation.prefix.prefix)
                .with_hint("set `\"state\": \"reserved\"` to add it later"));
        }
    }
    let text = |metadata: &Option<Box<RawValue>>| metadata.as_ref().map(|metadata| metadata.get().to_owned());
    let same_metadata = previous.is_some_and(|previous| text(&previous.metadata) == text(&metadata));
    let old_issue = previous.and_then(|previous| previous.issue);
    let issue = match (&metadata, same_metadata) {
        (None, _) | (_, true) => old_issue,
        (Some(_), false) => {
            let number = old_issue.map_or(1, |issue| issue.number.saturating_add(1));
            Some(MetadataIssue { number, time_ms: context.now_ms })
        }
    };
    if let (Some(entry), Some(previous)) = (existing, previous)
        && previous.state == next
        && same_metadata
        && entry.values == values
    {
        return Ok(RecordChange::Unchanged(entry.clone(), previous.clone()));
    }
    let registration = Registration {
        state: next,
        owner: previous.and_then(|previous| previous.owner.clone()),
        created_ms: previous.map_or(context.now_ms, |previous| previous.created_ms),
        updated_ms: context.now_ms,
        issue,
        metadata,
    };
    let entry = StoredRecord {
        name: existing.map_or_else(|| name.into(), |entry| entry.name.clone()),
        revision: 0,
        status: RecordStatus::Live,
        values,
        registration: registration.to_bytes(),
    };
    Ok(if existing.is_some() {
        RecordChange::Updated(entry, registration)
    } else {
        RecordChange::Created(entry, registration)
    })
}

/// Fails if credentials differ between two records, unless the principal may grant access for the owner.
pub(super) fn check_credentials_unchanged(
    old: &[HandleValue<'_>],
    new: &[HandleValue<'_>],
    owner: &Registrant,
    principal: &Principal,
) -> Result<(), RegistryError> {
    let has_others = |these: &[HandleValue<'_>], those: &[HandleValue<'_>]| {
        let mut credentials = these.iter().filter(|value| is_credential(value));
        credentials.any(|value| !those.iter().any(|other| is_same_value(other, value)))
    };
    if !has_others(old, new) && !has_others(new, old) {
        return Ok(());
    }
    principal.check_registrant(owner, Scope::Administer)?;
    principal.check_may_grant_access().map_err(|rejection| rejection.with_pointer("/values"))
}

fn next_state(
    request: &RegistrationRequest,
    previous: Option<&Registration>,
) -> Result<RegistrationState, RegistryError> {
    match (request.state, previous.map(|previous| previous.state)) {
        (Some(RegistrationState::Reserved), Some(RegistrationState::Registered)) => {
            let detail = "a registered name cannot become reserved; retire it instead";
            Err(RegistryError::new(codes::INVALID_STATE_TRANSITION, detail).with_pointer("/state"))
        }
        (requested, previous) => Ok(requested.or(previous).unwrap_or_default()),
    }
}

/// Values of the new record, sorted by index, with timestamps.
fn build_values(
    context: &BuildContext<'_>,
    request: &RegistrationRequest,
    existing: Option<&StoredRecord>,
) -> Result<Vec<HandleValue<'static>>, RegistryError> {
    let (limits, budget) = (context.limits, &mut Budget::PER_REQUEST.clone());
    let previous = existing.map(|entry| entry.values.as_slice()).unwrap_or_default();
    let mut values: Vec<HandleValue<'static>> = Vec::with_capacity(4);
    if let Some(url) = &request.url {
        let value = HandleValue::new(URL_INDEX, "URL", url.to_string());
        check_value(&value, limits, budget).map_err(|error| {
            let detail = match error.fault {
                ValueFault::Url(fault) => format!("invalid URL: {fault}"),
                fault => format!("invalid URL: {fault}"),
            };
            RegistryError::invalid(codes::INVALID_URL, "/url", detail).with_hint(
                "use an absolute URL such as `https://example.org/`, without credentials or line breaks",
            )
        })?;
        context.allocation.check_host_allowed(url.as_bytes(), "/url")?;
        values.push(value);
    }
    match &request.values {
        Some(requested) => {
            for (number, value) in requested.iter().enumerate() {
                check_given_value(context, request, value, previous, &format!("/values/{number}"), budget)?;
                let unchanged = previous.iter().find(|old| is_same_value(old, value));
                let permissions = value.stored_permissions();
                values
                    .push(unchanged.cloned().unwrap_or_else(|| HandleValue { permissions, ..value.clone() }));
            }
            // Secrets are never sent to clients, so they cannot be sent back.
            let taken: BTreeSet<u32> = values.iter().map(|value| value.index).collect();
            values.extend(
                previous.iter().filter(|old| old.is_secret() && !taken.contains(&old.index)).cloned(),
            );
            if let (Some(signing), Some(entry)) = (context.signing, existing) {
                values.extend(signing.stored_signature(&entry.name, previous, &values).cloned());
            }
        }
        None => {
            existing.map_or(Ok(()), check_admin_index_free)?;
            values.extend(
                previous.iter().filter(|old| old.index != URL_INDEX && !is_admin_value(old)).cloned(),
            );
        }
    }
    if request.url.is_none() && !values.iter().any(|value| value.index == URL_INDEX) {
        values.extend(previous.iter().find(|old| old.index == URL_INDEX && !is_admin_value(old)).cloned());
    }
    values.push(admin_group_value(&context.allocation.prefix, context.group));
    // Keeps other admin values; a conflicting index is changed, because admins are not referenced by index.
    let mut taken: BTreeSet<u32> = values.iter().map(|value| value.index).collect();
    for old in previous.iter().filter(|old| is_admin_value(old) && old.index != ADMIN_INDEX) {
        let index = if taken.contains(&old.index) { free_index(ADMIN_INDEX + 1, &taken) } else { old.index };
        taken.insert(index);
        values.push(HandleValue { index, ..old.clone() });
    }
    check_indexes(&values, limits)?;
    check_record(&values, limits).map_err(crate::Error::from)?;
    values.sort_by_key(|value| value.index);
    set_timestamps(&mut values, previous, context.now_ms);
    Ok(values)
}

/// Fails if another value occupies the index of the admin value.
pub(crate) fn check_admin_index_free(entry: &StoredRecord) -> Result<(), RegistryError> {
    if !entry.values.iter().any(|value| value.index == ADMIN_INDEX && !is_admin_value(value)) {
        return Ok(());
    }
    let detail =
        format!("index {ADMIN_INDEX} of `{}` is reserved for HS_ADMIN but has another value", entry.name);
    Err(RegistryError::invalid(codes::RESERVED_INDEX, "/values", detail)
        .with_hint("move the value to another index, with `values` or over the Handle protocol"))
}

/// Checks a value of the request. An unchanged value of the previous record, such as an imported key that is too short today,
/// may be sent back.
fn check_given_value(
    context: &BuildContext<'_>,
    request: &RegistrationRequest,
    value: &HandleValue<'_>,
    previous: &[HandleValue<'_>],
    pointer: &str,
    budget: &mut Budget,
) -> Result<(), RegistryError> {
    let reject = |detail: String| Err(RegistryError::invalid(codes::INVALID_VALUE, pointer, detail));
    if is_admin_value(value) {
        return reject("HS_ADMIN values are set by the registry".into());
    }
    if value.index == ADMIN_INDEX
        || value.index == URL_INDEX && (request.url.is_some() || !value.has_type("URL"))
    {
        return reject(format!("index {} is reserved for the registry", value.index));
    }
    if !previous.iter().any(|old| is_same_value(old, value)) {
        check_value(value, context.limits, budget)
            .and_then(|()| check_targets(value))
            .and_then(|()| check_secret_changes(value, previous))
            .map_err(|error| RegistryError::invalid(codes::INVALID_VALUE, pointer, error.to_string()))?;
    }
    context.allocation.check_value_hosts(value, pointer)
}

/// Checks that a registered name has a target.
fn check_target(values: &[HandleValue<'_>]) -> Result<(), RegistryError> {
    let is_target = |value: &HandleValue<'_>| {
        value.has_type("URL") || value.has_type("10320/loc") || value.has_type("HS_ALIAS")
    };
    if !values.iter().any(is_target) {
        return Err(RegistryError::invalid(
            codes::MISSING,
            "/url",
            "a registered name needs a URL, 10320/loc or HS_ALIAS value",
        )
        .with_hint("set `\"state\": \"reserved\"` to add it later"));
    }
    Ok(())
}
