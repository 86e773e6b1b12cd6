//! Commands that allocate and update prefixes; prefix ranges of agencies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tendot_proto::Budget;
use tendot_store::{Edit, RecordStatus, StoredRecord};

use crate::authorization::Principal;
use crate::command::CommandPlan;
use crate::command::sealed::CommandPlanner;
use crate::party::{Agency, Registrant, Scope, Versioned, check_revision, decode};
use crate::prefix::quota::remove_counter;
use crate::prefix::{Prefix, PrefixAllocation, PrefixPolicy, is_numeric_prefix};
use crate::rules::{RecordReader, Rules, SiteReader};
use crate::{CallContext, Error, RegistryError, codes, cost};

/// First prefix number for agencies without a range.
const FIRST_PREFIX_NUMBER: u32 = 70_000;

/// Maximum number of prefixes tried to find a free one.
const MAX_PREFIX_ATTEMPTS: u32 = 1_000;

/// Command: allocate a prefix to a registrant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocatePrefix {
    /// Id of the registrant.
    pub registrant: Box<str>,
    /// Requested prefix; without it, the next free one is allocated.
    #[serde(default)]
    pub prefix: Option<Box<str>>,
    /// See [`Prefix::is_test`].
    #[serde(default, rename = "test")]
    pub is_test: bool,
    /// See [`Prefix::policy`].
    #[serde(default)]
    pub policy: PrefixPolicy,
}

/// Command: update the policy of a prefix.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdatePrefix {
    /// Prefix to update.
    #[serde(skip)]
    pub prefix: Box<str>,
    /// See [`Prefix::policy`].
    #[serde(default)]
    pub policy: Option<PrefixPolicy>,
    /// Expected revision.
    #[serde(skip)]
    pub expected_revision: Option<u64>,
}

/// Range of prefixes that an agency allocates, such as `10.70000` to `10.79999`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixRange {
    /// First prefix of the range.
    pub first: Box<str>,
    /// Last prefix of the range.
    pub last: Box<str>,
}

impl PrefixRange {
    pub(crate) fn validate(&self, pointer: &str) -> Result<(), RegistryError> {
        match self.bounds() {
            Some((first, last)) if first <= last => Ok(()),
            _ => Err(RegistryError::invalid(
                codes::INVALID_RANGE,
                pointer,
                "invalid range; expected `first` up to `last`, for example 10.70000 to 10.79999",
            )),
        }
    }

    fn bounds(&self) -> Option<(u32, u32)> {
        Some((prefix_number(&self.first)?, prefix_number(&self.last)?))
    }
}

/// Number of a prefix with a single number, such as `10.70000`.
fn prefix_number(prefix: &str) -> Option<u32> {
    let digits = prefix.strip_prefix("10.")?;
    let is_number = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

impl CommandPlanner for AllocatePrefix {
    type Output = Prefix;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<Prefix>, RegistryError> {
        principal.check_scope(Scope::Administer)?;
        let registrant =
            rules.get_named_object::<Registrant>(&self.registrant, "/registrant", call.budget).await?.value;
        principal.check_agency(&registrant.agency, Scope::Administer)?;
        principal.check_all_prefixes()?;
        let agency = rules.get_object::<Agency>(&registrant.agency, call.budget).await?.value;
        self.policy.validate()?;
        let (prefix, existing, next) = match &self.prefix {
            Some(prefix) => {
                let existing = rules.check_requested_prefix(prefix, &agency, principal, call.budget).await?;
                (prefix.clone(), existing, None)
            }
            None => {
                let (prefix, next) = rules.next_free_prefix(&agency, call.budget).await?;
                (prefix, None, Some(next))
            }
        };
        let prefix = Prefix {
            prefix,
            registrant: registrant.id.clone(),
            agency: agency.code.clone(),
            allocated_ms: call.now_ms,
            is_test: self.is_test,
            policy: self.policy.clone(),
            group_indexes: BTreeMap::new(),
        };
        let service = rules.settings.service_handle.as_ref();
        let mut edits = rules.service_handle_edits(call.now_ms, call.budget).await?;
        edits.push(prefix.record_edit(&registrant, &agency, service, existing.as_ref(), call.now_ms));
        edits.push(Edit::Home { prefix: prefix.prefix.clone() });
        edits.extend(prefix.holdings_edits(call.now_ms));
        edits.extend(next);
        Ok(CommandPlan::new(edits, prefix))
    }
}

impl CommandPlanner for UpdatePrefix {
    type Output = Prefix;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<Prefix>, RegistryError> {
        let not_found = || RegistryError::not_found("prefix", &self.prefix);
        let PrefixAllocation { prefix: previous, record, agency, holder, .. } =
            rules.load_allocation(&self.prefix, call.budget).await?.ok_or_else(not_found)?;
        // The agency decides on the policy, not the registrant.
        principal.check_agency(&agency.code, Scope::Administer)?;
        principal.check_prefix(&previous.prefix)?;
        check_revision(self.expected_revision, record.revision)?;
        let mut prefix = previous.clone();
        prefix.policy = self.policy.clone().unwrap_or(prefix.policy);
        prefix.policy.validate()?;
        if prefix == previous {
            return Ok(CommandPlan::new(Vec::new(), prefix));
        }
        let service = rules.settings.service_handle.as_ref();
        let mut edits = rules.service_handle_edits(call.now_ms, call.budget).await?;
        edits.push(prefix.record_edit(&holder, &agency, service, Some(&record), call.now_ms));
        if prefix.policy.quota.is_some() != previous.policy.quota.is_some() {
            edits.push(remove_counter(&prefix.prefix));
        }
        Ok(CommandPlan::new(edits, prefix))
    }
}

impl SiteReader {
    /// Checks that a requested prefix can be allocated; returns its existing record, if any.
    async fn check_requested_prefix(
        &self,
        prefix: &str,
        agency: &Agency,
        principal: &Principal,
        budget: &mut Budget,
    ) -> Result<Option<StoredRecord>, RegistryError> {
        if !is_numeric_prefix(prefix) || !self.settings.is_doi_prefix(prefix) {
            let codes = self.settings.directory_codes.join("`, `");
            let detail = format!(
                "invalid DOI prefix `{prefix}`; expected the directory code `{codes}`, a dot and digits, for example \
                 10.70000"
            );
            return Err(RegistryError::invalid(codes::INVALID_PREFIX, "/prefix", detail));
        }
        let in_use = |detail: String| {
            RegistryError::new(codes::PREFIX_IN_USE, detail)
                .with_pointer("/prefix")
                .with_hint("omit `prefix` to allocate the next free one")
        };
        let entry = self.get_record(&format!("0.NA/{prefix}"), budget).await?;
        if let Some(entry) = entry.as_ref().filter(|entry| !entry.registration.is_empty()) {
            let existing: Prefix = decode(entry)?;
            let rejection = in_use(format!("prefix `{prefix}` is allocated to another registrant"));
            return Err(rejection.with_existing(existing.prefix, Some(existing.allocated_ms)));
        }
        if principal.is_operator() {
            return match entry {
                Some(entry) if entry.status == RecordStatus::Tombstone => {
                    Err(in_use(format!("prefix `{prefix}` is retired and cannot be reallocated")))
                }
                entry => Ok(entry),
            };
        }
        budget.charge(cost::LOOKUP).map_err(Error::from)?;
        if entry.is_some() || self.store.is_homed(prefix.as_bytes()).await? {
            return Err(in_use(format!("prefix `{prefix}` is in use")));
        }
        let (first, last) = agency
            .prefix_range
            .as_ref()
            .and_then(PrefixRange::bounds)
            .unwrap_or((FIRST_PREFIX_NUMBER, u32::MAX));
        let others = self.other_agency_ranges(agency).await?;
        let is_foreign = |number: u32| others.iter().any(|(first, last)| (*first..=*last).contains(&number));
        if prefix_number(prefix).is_some_and(|number| (first..=last).contains(&number) && !is_foreign(number))
        {
            return Ok(None);
        }
        let detail = format!(
            "prefix `{prefix}` is outside the range of agency `{}` (10.{first} to 10.{last})",
            agency.code
        );
        Err(RegistryError::new(codes::PREFIX_OUT_OF_RANGE, detail).with_pointer("/prefix"))
    }
}

impl RecordReader {
    /// Finds the next free prefix of an agency, with the edit that stores where to start next time.
    async fn next_free_prefix(
        &self,
        agency: &Agency,
        budget: &mut Budget,
    ) -> Result<(Box<str>, Edit), RegistryError> {
        let range = agency.prefix_range.as_ref().and_then(PrefixRange::bounds);
        let key = match range {
            Some(_) => format!("next-prefix/{}", agency.code.to_ascii_uppercase()),
            None => "next-prefix/".to_owned(),
        };
        let (first, last) = range.unwrap_or((FIRST_PREFIX_NUMBER, u32::MAX));
        let stored = self.store.get_aux(key.as_bytes()).await?;
        let stored = stored.and_then(|body| std::str::from_utf8(&body).ok()?.parse::<u32>().ok());
        let start = stored.filter(|stored| (first..=last).contains(stored)).unwrap_or(first);
        let others = self.other_agency_ranges(agency).await?;
        let mut number = start;
        for _ in 0..MAX_PREFIX_ATTEMPTS {
            // Skips ranges of other agencies; they are sorted.
            for (begin, end) in &others {
                if (*begin..=*end).contains(&number) {
                    number = end.saturating_add(1);
                }
            }
            if !(start..=last).contains(&number) {
                break;
            }
            let prefix: Box<str> = format!("10.{number}").into();
            budget.charge(cost::LOOKUP).map_err(Error::from)?;
            let is_free = self.get_record(&format!("0.NA/{prefix}"), budget).await?.is_none()
                && !self.store.is_homed(prefix.as_bytes()).await?;
            if is_free {
                let body = number.saturating_add(1).to_string().into_bytes().into();
                return Ok((prefix, Edit::PutAux { key: key.into_bytes().into(), value: body }));
            }
            number = number.saturating_add(1);
        }
        let detail =
            format!("prefix range of agency `{}` is exhausted (searched from 10.{start})", agency.code);
        Err(RegistryError::new(codes::PREFIX_RANGE_EXHAUSTED, detail))
    }

    /// Sorted ranges of other agencies, for an agency without a range; empty for one with a range.
    async fn other_agency_ranges(&self, agency: &Agency) -> Result<Vec<(u32, u32)>, Error> {
        let mut ranges = Vec::new();
        if agency.prefix_range.is_none() {
            self.visit_objects(|object: Versioned<Agency>| {
                ranges.extend(object.value.prefix_range.as_ref().and_then(PrefixRange::bounds));
                true
            })
            .await?;
        }
        ranges.sort_unstable();
        Ok(ranges)
    }
}
