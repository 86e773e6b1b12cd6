//! Allocated prefix with its holder, agency and compiled policy.

use std::collections::BTreeMap;

use regex::Regex;
use tendot_names::Doi;
use tendot_proto::record::Locations;
use tendot_proto::{Budget, HandleValue};
use tendot_store::StoredRecord;
use url::Host;

use super::policy::compile_pattern;
use crate::authorization::Principal;
use crate::party::{Agency, MetadataPolicy, Registrant, decode};
use crate::prefix::{ConfusablePolicy, GROUP_INDEX, NameRules, Prefix};
use crate::registration::Registration;
use crate::rules::RecordReader;
use crate::validate::{UnreadableTargets, prefix_of, target_addresses};
use crate::{Error, RegistryError, UrlFault, codes, cost, url_host};

/// Allocated prefix with its record, holder, agency and compiled pattern.
#[derive(Debug)]
pub(crate) struct PrefixAllocation {
    pub(crate) prefix: Prefix,
    pub(crate) record: StoredRecord,
    pub(crate) agency: Agency,
    pub(crate) holder: Registrant,
    pattern: Option<Regex>,
}

impl PrefixAllocation {
    /// Checks the suffix of a new name against the syntax rules and the pattern of the policy.
    pub(crate) fn check_suffix(&self, name: &Doi) -> Result<(), RegistryError> {
        let suffix = name.suffix();
        if self.prefix.policy.rules.unwrap_or_default() == NameRules::Z3984 && name.has_reserved_suffix() {
            let detail = format!(
                "suffix `{suffix}` is reserved: it starts with one character and `/` (ANSI/NISO Z39.84, section 4.3)"
            );
            return Err(RegistryError::invalid(codes::RESERVED_SUFFIX, "/name", detail).with_hint(format!(
                "the agency can allow such suffixes under {} with `\"rules\": \"current\"` in its policy",
                self.prefix.prefix
            )));
        }
        match (&self.pattern, &self.prefix.policy.pattern) {
            (Some(expression), Some(pattern)) if !expression.is_match(suffix) => {
                let detail = format!(
                    "suffix `{suffix}` does not match pattern `{pattern}` of prefix {}",
                    self.prefix.prefix
                );
                Err(RegistryError::invalid(codes::SUFFIX_PATTERN, "/name", detail))
            }
            _ => Ok(()),
        }
    }

    /// Checks the host of a URL against the policy.
    pub(crate) fn check_host_allowed(&self, url: &[u8], pointer: &str) -> Result<(), RegistryError> {
        let policy = &self.prefix.policy;
        if policy.hosts.is_empty() {
            return Ok(());
        }
        let reason = match host_of_url(url) {
            // The host of a template must not depend on the name: `https://{hdl:path}.example.org` leads elsewhere.
            Ok(host) if !host.to_string().contains('{') && policy.allows_host(&host) => return Ok(()),
            Ok(host) => format!("host `{host}`"),
            Err(fault) => format!("URL ({fault})"),
        };
        Err(self.host_not_allowed(&reason, pointer))
    }

    fn host_not_allowed(&self, reason: &str, pointer: &str) -> RegistryError {
        let (prefix, allowed) = (&self.prefix.prefix, self.prefix.policy.hosts.join(", "));
        let detail = format!("{reason} is not allowed for prefix {prefix} (allowed: {allowed})");
        RegistryError::invalid(codes::HOST_NOT_ALLOWED, pointer, detail)
    }

    /// Checks a handle that a value leads to. Under the same prefix, its values are checked, too; the common locations of the
    /// agency apply to all names.
    fn check_target_handle(&self, handle: &str, what: &str, pointer: &str) -> Result<(), RegistryError> {
        let prefix = prefix_of(handle);
        let is_common = self.agency.locations.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(handle));
        if prefix.eq_ignore_ascii_case(&self.prefix.prefix) || is_common {
            return Ok(());
        }
        Err(self.host_not_allowed(&format!("{what} `{handle}`, which has another prefix,"), pointer))
    }

    /// Checks everything in a value that the resolver follows or sends: URLs, `10320/loc` with the records it includes, links, and
    /// aliases.
    pub(crate) fn check_value_hosts(
        &self,
        value: &HandleValue<'_>,
        pointer: &str,
    ) -> Result<(), RegistryError> {
        if self.prefix.policy.hosts.is_empty() {
            return Ok(());
        }
        if value.has_type("URL") {
            return self.check_host_allowed(&value.data, pointer);
        }
        if value.has_type("HS_ALIAS") {
            let target = String::from_utf8_lossy(&value.data);
            return self.check_target_handle(target.trim(), "alias to", pointer);
        }
        let invalid = |error: UnreadableTargets| {
            let value_type = String::from_utf8_lossy(&value.value_type);
            let detail = format!("invalid {value_type} value: {error}");
            RegistryError::invalid(codes::INVALID_VALUE, pointer, detail)
        };
        if value.has_type("10320/loc") {
            let locations = Locations::from_bytes(&value.data).map_err(|error| invalid(error.into()))?;
            locations
                .included_handles()
                .chain(locations.prefix_location_handles())
                .try_for_each(|handle| self.check_target_handle(handle, "inclusion of", pointer))?;
        }
        let addresses = target_addresses(value).map_err(invalid)?;
        addresses.iter().try_for_each(|address| self.check_host_allowed(address.as_bytes(), pointer))
    }

    /// Whether registrations must include metadata: by the policy of the prefix, else not for a test prefix, else by that of the
    /// agency.
    pub(crate) fn requires_metadata(&self) -> bool {
        let inherited =
            if self.prefix.is_test { MetadataPolicy::Optional } else { self.agency.metadata_policy };
        self.prefix.policy.metadata.unwrap_or(inherited) == MetadataPolicy::Required
    }

    pub(crate) fn rejects_confusable(&self) -> bool {
        self.prefix.policy.confusable == Some(ConfusablePolicy::Reject)
    }

    /// Index of the admin group of a name, by its explicit owner, if any. An owner who later got the prefix keeps the name
    /// when the prefix is transferred again.
    pub(crate) fn admin_group_index(&self, owner: Option<&str>) -> u32 {
        owner.and_then(|owner| self.prefix.group_indexes.get(owner)).copied().unwrap_or(GROUP_INDEX)
    }
}

/// Host of a URL.
fn host_of_url(url: &[u8]) -> Result<Host, UrlFault> {
    url_host(str::from_utf8(url).map_err(|error| UrlFault::NotUtf8 { offset: error.valid_up_to() })?)
}

/// Allocated prefixes and owners of names, each loaded once per plan.
pub(crate) struct AllocationCache<'a> {
    records: &'a RecordReader,
    /// By prefix as requested; `None` if it is not allocated.
    allocations: BTreeMap<Box<str>, Option<PrefixAllocation>>,
    /// Explicit owners by id.
    owners: BTreeMap<Box<str>, Registrant>,
}

impl<'a> AllocationCache<'a> {
    pub(crate) const fn new(records: &'a RecordReader) -> Self {
        Self { records, allocations: BTreeMap::new(), owners: BTreeMap::new() }
    }

    /// Allocation of a prefix; `None` if it is not allocated.
    pub(crate) async fn allocation(
        &mut self,
        prefix: &str,
        budget: &mut Budget,
    ) -> Result<Option<&mut PrefixAllocation>, RegistryError> {
        if !self.allocations.contains_key(prefix) {
            let allocation = self.records.load_allocation(prefix, budget).await?;
            self.allocations.insert(prefix.into(), allocation);
        }
        Ok(self.allocations.get_mut(prefix).and_then(Option::as_mut))
    }

    /// Allocation of the prefix and owner of an existing name; `None` if the prefix is not allocated.
    pub(crate) async fn owner(
        &mut self,
        prefix: &str,
        registration: &Registration,
        budget: &mut Budget,
    ) -> Result<Option<(&PrefixAllocation, &Registrant)>, RegistryError> {
        if self.allocation(prefix, budget).await?.is_none() {
            return Ok(None);
        }
        let Some(Some(allocation)) = self.allocations.get(prefix) else { return Ok(None) };
        let id = registration.owner_id(&allocation.prefix);
        if *id == *allocation.holder.id {
            return Ok(Some((allocation, &allocation.holder)));
        }
        if !self.owners.contains_key(id) {
            let owner = self.records.get_object::<Registrant>(id, budget).await?.value;
            self.owners.insert(id.into(), owner);
        }
        Ok(self.owners.get(id).map(|owner| (allocation, owner)))
    }

    /// Loads a name with its prefix and registration; `None` if it does not exist or is hidden from the principal.
    pub(crate) async fn load_name<'n>(
        &mut self,
        name: &'n str,
        principal: &Principal,
        budget: &mut Budget,
    ) -> Result<Option<(&'n str, StoredRecord, Registration)>, RegistryError> {
        let Some((prefix, _)) = name.split_once('/') else { return Ok(None) };
        if self.allocation(prefix, budget).await?.is_none() {
            return Ok(None);
        }
        let Some(entry) = self.records.get_record(name, budget).await? else { return Ok(None) };
        let registration = Registration::of_record(&entry)?;
        let owner = self.owner(prefix, &registration, budget).await?;
        let is_visible =
            owner.is_some_and(|(_, owner)| !registration.is_hidden_from(principal, prefix, owner));
        if !is_visible {
            return Ok(None);
        }
        let registration = self.records.with_creation_time(registration, &entry.name, budget).await?;
        Ok(Some((prefix, entry, registration)))
    }

    /// All allocations that were loaded, in the order of their prefixes.
    pub(crate) fn into_allocations(self) -> impl Iterator<Item = PrefixAllocation> {
        self.allocations.into_values().flatten()
    }
}

impl RecordReader {
    /// Loads an allocated prefix with its holder, agency and compiled pattern.
    pub(crate) async fn load_allocation(
        &self,
        prefix: &str,
        budget: &mut Budget,
    ) -> Result<Option<PrefixAllocation>, RegistryError> {
        let Some(record) = self.prefix_record(prefix, budget).await? else { return Ok(None) };
        let prefix: Prefix = decode(&record)?;
        let agency = self.get_object::<Agency>(&prefix.agency, budget).await?.value;
        let holder = self.get_object::<Registrant>(&prefix.registrant, budget).await?.value;
        let pattern = match &prefix.policy.pattern {
            Some(pattern) => {
                budget.charge(cost::REGEX_COMPILE).map_err(Error::from)?;
                compile_pattern(pattern).ok()
            }
            None => None,
        };
        Ok(Some(PrefixAllocation { prefix, record, agency, holder, pattern }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix::PrefixPolicy;

    #[test]
    fn hosts() {
        let hosts = ["example.org", "192.0.2.1", "[2001:db8::1]"].map(Into::into);
        let policy = PrefixPolicy { hosts: hosts.into(), ..PrefixPolicy::default() };
        assert!(policy.validate().is_ok());
        for (url, expected) in [
            ("https://example.org/", true),
            ("https://www.EXAMPLE.org:8080/x", true),
            ("https://badexample.org/", false),
            ("https://example.org.evil.net/", false),
            ("https://evil.net/?example.org", false),
            ("https://evil.net\\example.org", false),
            ("https://org/", false),
            ("https://example.org:x@evil.net/", false),
            ("https://example.org@evil.net/", false),
            ("//example.org/", false),
            ("mailto:a@example.org", false),
            ("https://www.example.org./", true),
            ("https://www.example%2eorg/", true),
            ("https://evil.net%2F.example.org/", false),
            ("https://example.org\\@evil.net/", true),
            ("https://[2001:db8:0::1]/", true),
            ("https://[2001:db8::2]/", false),
            ("https://0xc0000201/", true),
            ("https://192.0.2.10/", false),
        ] {
            let is_allowed = host_of_url(url.as_bytes()).is_ok_and(|host| policy.allows_host(&host));
            assert_eq!(is_allowed, expected, "{url}");
        }
    }
}
