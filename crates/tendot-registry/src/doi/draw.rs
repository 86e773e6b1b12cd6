//! A record is drawn up from what was sent, under the rules of its prefix: what depends on nothing else.

use std::collections::BTreeSet;

use tendot_proto::record::{Admin, AdminPermissions};
use tendot_proto::{Reference, Value};
use tendot_store::{Edit, Entry, Precondition, State};

use super::{Deposit, RegistrationRequest, MetadataIssue, Stage};
use crate::deposit::is_unchanged;
use crate::party::{ADMIN, PrefixAllocation, free_index, write};
use crate::permission::is_admin;
use crate::refusal::Reason;
use crate::validate::{check_indexes, check_record, check_value};
use crate::{Limits, Refusal, ValueFault};

/// Where the address of a registered name stands; its administrator stands at [`ADMIN`].
const URL: u32 = 1;

/// What becomes of a name.
#[derive(Debug)]
pub(crate) enum RecordChange {
    /// It is new.
    Created(Entry, Deposit),
    /// It changes.
    Updated(Entry, Deposit),
    /// It is as it should be.
    Unchanged(Entry, Deposit),
}

impl RecordChange {
    pub(crate) fn parts(self) -> (Entry, Deposit) {
        let (Self::Created(entry, deposit) | Self::Updated(entry, deposit) | Self::Unchanged(entry, deposit)) =
            self;
        (entry, deposit)
    }

    /// What has to be done, on what was there.
    pub(crate) fn edit(&self, there: Option<u64>) -> Option<Edit> {
        let (Self::Created(entry, _) | Self::Updated(entry, _)) = self else { return None };
        Some(Edit::Register {
            name: entry.name.clone(),
            values: entry.values.clone(),
            registration: entry.registration.clone(),
            expect: there.map_or(Precondition::Absent, Precondition::Revision),
        })
    }
}

/// What is drawn up, and for whom.
pub(crate) struct BuildContext<'a> {
    pub(crate) allocation: &'a PrefixAllocation,
    /// The group of who has the name.
    pub(crate) group: u32,
    pub(crate) limits: &'a Limits,
    pub(crate) at: u64,
}

/// Draws up what becomes of a name. `there` is a record that resolves or is reserved, if there is one.
pub(crate) fn draw(
    drawing: &BuildContext<'_>,
    name: &str,
    draft: &RegistrationRequest,
    there: Option<&Entry>,
) -> Result<RecordChange, Refusal> {
    let before = there.map(Deposit::of).transpose()?;
    let stage = stage(draft, before.as_ref())?;
    let values = values(drawing, draft, there)?;
    let metadata = match &draft.metadata {
        Some(given) => given.clone(),
        None => before.as_ref().and_then(|before| before.metadata.clone()),
    };
    if stage == Stage::Registered {
        check_complete(drawing, &values, metadata.is_some())?;
    }
    let text = |metadata: &Option<Box<serde_json::value::RawValue>>| {
        metadata.as_ref().map(|metadata| metadata.get().to_owned())
    };
    let same_metadata = before.as_ref().is_some_and(|before| text(&before.metadata) == text(&metadata));
    let old_issue = before.as_ref().and_then(|before| before.issue);
    let issue = match (&metadata, same_metadata) {
        (None, _) | (_, true) => old_issue,
        (Some(_), false) => {
            let number = old_issue.map_or(1, |issue| issue.number.saturating_add(1));
            Some(MetadataIssue { number, at: drawing.at })
        }
    };
    if let (Some(entry), Some(before)) = (there, &before)
        && before.state == stage
        && same_metadata
        && entry.values == values
    {
        return Ok(RecordChange::Unchanged(entry.clone(), before.clone()));
    }
    let deposit = Deposit {
        state: stage,
        owner: before.as_ref().and_then(|before| before.owner.clone()),
        created: before.as_ref().map_or(drawing.at, |before| before.created),
        updated: drawing.at,
        issue,
        metadata,
    };
    let entry = Entry {
        name: there.map_or_else(|| name.into(), |entry| entry.name.clone()),
        revision: 0,
        state: State::Live,
        values,
        registration: write(&deposit),
    };
    Ok(if there.is_some() { RecordChange::Updated(entry, deposit) } else { RecordChange::Created(entry, deposit) })
}

fn stage(draft: &RegistrationRequest, before: Option<&Deposit>) -> Result<Stage, Refusal> {
    match (draft.state, before.map(|before| before.state)) {
        (Some(Stage::Reserved), Some(Stage::Registered)) => {
            let detail = "a name that is registered stays so; it can be ended";
            Err(Refusal::new(Reason::Conflict, "already-public", detail).at("/state"))
        }
        (given, before) => Ok(given.or(before).unwrap_or_default()),
    }
}

/// The values that the record is to have, by their indexes, each with its date.
fn values(
    drawing: &BuildContext<'_>,
    draft: &RegistrationRequest,
    there: Option<&Entry>,
) -> Result<Vec<Value<'static>>, Refusal> {
    let limits = drawing.limits;
    let before = there.map(|entry| entry.values.as_slice()).unwrap_or_default();
    let mut values: Vec<Value<'static>> = Vec::with_capacity(4);
    if let Some(url) = &draft.url {
        let value = Value::new(URL, "URL", url.to_string());
        check_value(&value, limits).map_err(|error| {
            let detail = match error.fault {
                ValueFault::Url(odd) => format!("the address {odd}"),
                fault => format!("the address {fault}"),
            };
            Refusal::invalid("bad-url", "/url", detail)
                .hint("an address begins with `https://`, and has no user name and no line breaks")
        })?;
        drawing.allocation.check_host_allowed(url.as_bytes(), "/url")?;
        values.push(value);
    }
    match &draft.values {
        Some(given) => {
            for (number, value) in given.iter().enumerate() {
                check_given(drawing, draft, value, &format!("/values/{number}"))?;
                values.push(value.clone());
            }
        }
        None => {
            there.map_or(Ok(()), check_room)?;
            values.extend(before.iter().filter(|old| old.index != URL && !is_admin(old)).cloned());
        }
    }
    if draft.url.is_none() && !values.iter().any(|value| value.index == URL) {
        values.extend(before.iter().find(|old| old.index == URL && !is_admin(old)).cloned());
    }
    let reference = Reference::new(drawing.group, drawing.allocation.prefix.name().as_bytes().to_vec());
    let admin = Admin { permissions: AdminPermissions::ALL, reference, legacy_byte_length: false };
    values.push(Value::with_data(ADMIN, "HS_ADMIN", admin.to_bytes()));
    // Administrators that were put there in another way stay; where is not what they are known by.
    let mut taken: BTreeSet<u32> = values.iter().map(|value| value.index).collect();
    for old in before.iter().filter(|old| is_admin(old) && old.index != ADMIN) {
        let index = if taken.contains(&old.index) { free_index(ADMIN + 1, &taken) } else { old.index };
        taken.insert(index);
        values.push(Value { index, ..old.clone() });
    }
    check_indexes(&values, limits)?;
    check_record(&values, limits).map_err(crate::Error::from)?;
    values.sort_by_key(|value| value.index);
    let date = u32::try_from(drawing.at / 1_000).unwrap_or(u32::MAX);
    for value in &mut values {
        let same = before.iter().find(|old| old.index == value.index && is_unchanged(old, value));
        value.timestamp = same.map_or(date, |old| old.timestamp);
    }
    Ok(values)
}

/// Where the administrator is to stand, nothing else does.
pub(crate) fn check_room(entry: &Entry) -> Result<(), Refusal> {
    if !entry.values.iter().any(|value| value.index == ADMIN && !is_admin(value)) {
        return Ok(());
    }
    let detail =
        format!("`{}` has a value at index {ADMIN}, where its administrator has to stand", entry.name);
    Err(Refusal::invalid("index-taken", "/values", detail)
        .hint("give it another index, with `values` or by the Handle protocol"))
}

fn check_given(
    drawing: &BuildContext<'_>,
    draft: &RegistrationRequest,
    value: &Value<'_>,
    pointer: &str,
) -> Result<(), Refusal> {
    let refused = |detail: String| Err(Refusal::invalid("bad-value", pointer, detail));
    if is_admin(value) {
        return refused("who administers a name is for the registry to say".into());
    }
    if value.index == ADMIN || value.index == URL && (draft.url.is_some() || !value.has_type("URL")) {
        return refused(format!("index {} is taken by the registry", value.index));
    }
    check_value(value, drawing.limits)
        .map_err(|error| Refusal::invalid("bad-value", pointer, error.to_string()))?;
    drawing.allocation.check_value_hosts(value, pointer)
}

/// A name that resolves leads somewhere, and has the metadata that it has to have.
fn check_complete(drawing: &BuildContext<'_>, values: &[Value<'_>], has_metadata: bool) -> Result<(), Refusal> {
    let leads = |value: &Value<'_>| {
        value.has_type("URL") || value.has_type("10320/loc") || value.has_type("HS_ALIAS")
    };
    if !values.iter().any(leads) {
        return Err(Refusal::invalid("missing", "/url", "a registered name leads somewhere")
            .hint("with `\"state\": \"reserved\"` it may come later"));
    }
    if drawing.allocation.requires_metadata() && !has_metadata {
        let detail = format!("names under {} have kernel metadata", drawing.allocation.prefix.prefix);
        return Err(Refusal::invalid("missing", "/metadata", detail)
            .hint("with `\"state\": \"reserved\"` it may come later"));
    }
    Ok(())
}
