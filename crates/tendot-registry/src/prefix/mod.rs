//! Prefixes, their policy and quota.
//!
//! A prefix is the record `0.NA/PREFIX`: the Handle System reads its values, the registry its registration.
//!
//! In reading order: `policy`, `allocation` (a prefix with its holder and agency), `commands`, `record` (values of the prefix
//! record), `service_handle` (site that the prefix record refers to), `quota`.

mod allocation;
mod commands;
mod policy;
mod quota;
mod record;
mod service_handle;

pub(crate) use allocation::{AllocationCache, PrefixAllocation};
pub use commands::{AllocatePrefix, PrefixRange, UpdatePrefix};
pub use policy::{ConfusablePolicy, DuplicatePolicy, NameRules, PrefixPolicy};
pub(crate) use quota::{PlannedQuotas, QuotaTable, counter_edits, quota_exceeded};
pub(crate) use record::{ADMIN_INDEX, GROUP_INDEX, admin_group_value, free_index};
pub use service_handle::ServiceHandleRecord;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tendot_proto::Budget;
use tendot_store::{RecordStatus, Store, StoredRecord};

use crate::listing::ScanBudget;
use crate::party::{Versioned, decode};
use crate::rules::RecordReader;
use crate::{Error, Registry, RegistryError, ResultPage, cost};

/// Prefix allocated to a registrant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Prefix {
    /// Prefix, such as `10.70000`.
    pub prefix: Box<str>,
    /// Id of the holder.
    pub registrant: Box<str>,
    /// Code of the holder's agency.
    pub agency: Box<str>,
    /// Time of allocation, in milliseconds since 1970.
    #[serde(rename = "allocated")]
    pub allocated_ms: u64,
    /// Whether it is a test prefix, whose names may be deleted.
    #[serde(default, rename = "test")]
    pub is_test: bool,
    /// Registration policy.
    #[serde(default)]
    pub policy: PrefixPolicy,
    /// Index of the admin group of every other registrant who owns names under the prefix.
    #[serde(default, rename = "groups", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) group_indexes: BTreeMap<Box<str>, u32>,
}

/// Maximum length of a prefix that can be allocated, in bytes.
const MAX_PREFIX_LEN: usize = 64;

/// Whether a text has the form of an allocated prefix: numbers, separated by dots. [`RegistrySettings::is_doi_prefix`] decides
/// which of them the registry may allocate.
///
/// [`RegistrySettings::is_doi_prefix`]: crate::RegistrySettings::is_doi_prefix
pub(crate) fn is_numeric_prefix(prefix: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    prefix.len() <= MAX_PREFIX_LEN && prefix.split('.').all(is_number)
}

impl Registry {
    /// Gets an allocated prefix. Public.
    pub async fn get_prefix(
        &self,
        prefix: &str,
        budget: &mut Budget,
    ) -> Result<Versioned<Prefix>, RegistryError> {
        self.rules.get_prefix(prefix, budget).await
    }

    /// Lists allocated prefixes, of a registrant or an agency if given. Public.
    pub async fn list_prefixes(
        &self,
        registrant: Option<&str>,
        agency: Option<&str>,
        after: Option<&str>,
        limit: usize,
        budget: &mut Budget,
    ) -> Result<ResultPage<Versioned<Prefix>>, RegistryError> {
        budget.charge(cost::list(limit)).map_err(Error::from)?;
        let matches = |prefix: &Prefix| {
            registrant.is_none_or(|id| prefix.registrant.eq_ignore_ascii_case(id))
                && agency.is_none_or(|code| prefix.agency.eq_ignore_ascii_case(code))
        };
        let (mut items, mut is_full) = (Vec::new(), false);
        let mut scan_budget = ScanBudget::new();
        let more = self.rules.scan_prefixes(after, &mut scan_budget, |prefix, entry| {
            if matches(&prefix) {
                if items.len() >= limit {
                    is_full = true;
                    return false;
                }
                items.push(Versioned { value: prefix, revision: entry.revision });
            }
            true
        });
        let more = more.await?;
        let last = items.last().map(|last: &Versioned<Prefix>| last.value.prefix.clone());
        Ok(ResultPage { items, next: if is_full { last } else { more } })
    }

    /// Whether a prefix is allocated, so that its resolutions are counted.
    pub async fn is_allocated_prefix(&self, prefix: &str) -> Result<bool, Error> {
        let mut budget = Budget::new(cost::LOOKUP);
        Ok(self.rules.prefix_record(prefix, &mut budget).await?.is_some())
    }
}

impl RecordReader {
    /// Allocated prefix; fails if there is none.
    pub(crate) async fn get_prefix(
        &self,
        prefix: &str,
        budget: &mut Budget,
    ) -> Result<Versioned<Prefix>, RegistryError> {
        let entry = self.prefix_record(prefix, budget).await?;
        let entry = entry.ok_or_else(|| RegistryError::not_found("prefix", prefix))?;
        Ok(Versioned { value: decode(&entry)?, revision: entry.revision })
    }

    /// Visits allocated prefixes after one, within the scan budget; returns the cursor if there are more.
    pub(crate) async fn scan_prefixes(
        &self,
        after: Option<&str>,
        scan_budget: &mut ScanBudget,
        mut visit: impl FnMut(Prefix, &StoredRecord) -> bool + Send,
    ) -> Result<Option<Box<str>>, Error> {
        let after = after.and_then(|after| tendot_store::NameKey::new(&format!("0.NA/{after}")).ok());
        let (mut last, mut next, mut problem) = (None, None, None);
        self.store
            .scan_records(Some(b"0.NA"), after.as_ref(), |entry| {
                if !scan_budget.charge(entry) {
                    next = last.take();
                    return false;
                }
                last = entry.name.split_once('/').map(|(_, prefix)| prefix.into());
                if entry.registration.is_empty() || entry.status != RecordStatus::Live {
                    return true;
                }
                match decode(entry) {
                    Ok(prefix) => visit(prefix, entry),
                    Err(error) => {
                        problem = Some(error);
                        false
                    }
                }
            })
            .await?;
        problem.map_or(Ok(next), Err)
    }

    /// Visits all allocated prefixes.
    pub(crate) async fn visit_prefixes(
        &self,
        mut visit: impl FnMut(Prefix, &StoredRecord) + Send,
    ) -> Result<(), Error> {
        let visit_all = |prefix, entry: &StoredRecord| {
            visit(prefix, entry);
            true
        };
        self.scan_prefixes(None, &mut ScanBudget::unlimited(), visit_all).await.map(drop)
    }

    /// Record of an allocated prefix.
    pub(crate) async fn prefix_record(
        &self,
        prefix: &str,
        budget: &mut Budget,
    ) -> Result<Option<StoredRecord>, Error> {
        if !is_numeric_prefix(prefix) {
            return Ok(None);
        }
        let entry = self.get_record(&format!("0.NA/{prefix}"), budget).await?;
        Ok(entry.filter(|entry| entry.status == RecordStatus::Live && !entry.registration.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        for (prefix, expected) in [
            ("10.1", true),
            ("10.70000", true),
            ("10.70000.5", true),
            ("10", true),
            ("10.", false),
            ("10.1.", false),
            ("10.abc", false),
            ("11.1", true),
            ("0.NA", false),
            ("10.1/x", false),
            ("", false),
        ] {
            assert_eq!(is_numeric_prefix(prefix), expected, "{prefix}");
        }
    }
}
