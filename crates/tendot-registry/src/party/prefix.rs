//! Prefixes, and what may be registered under them.
//!
//! A prefix is the record `0.NA/PREFIX`: for the Handle System it has its values, and for the registry its registration.

use std::collections::{BTreeMap, BTreeSet};

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use tendot_proto::record::{Admin, AdminPermissions, Locations, ValueList};
use tendot_proto::{Budget, HandleValue, ValueReference};
use tendot_store::{Edit, Precondition, RecordStatus, Store, StoredRecord};

use super::{
    Agency, Demand, Held, Principal, Registrant, RegistryObjectKind, ScanBudget, Scope, check_revision,
    decode, encode, gets,
};
use crate::refusal::RegistryErrorKind;
use crate::task::CommandPlan;
use crate::task::sealed::Plan;
use crate::{Error, Registry, RegistryError, price};

/// Where the values of a prefix's record stand that are ours.
const NAMESPACE_INDEX: u32 = 20;
pub(crate) const ADMIN_INDEX: u32 = 100;
pub(crate) const GROUP_INDEX: u32 = 200;

/// The first prefix of agencies that have none of their own.
const FIRST_PREFIX_NUMBER: u32 = 70_000;

/// Registrants that may have names under the prefix of another: each has a value in its record.
const MAX_PREFIX_REGISTRANTS: usize = 1_000;

/// Prefixes that are tried for a free one.
const MAX_PREFIX_ATTEMPTS: u32 = 1_000;

/// Prefix allocated to a registrant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Prefix {
    /// As `10.70000`.
    pub prefix: Box<str>,
    /// The id of the registrant who has it.
    pub registrant: Box<str>,
    /// The code of the agency of that.
    pub agency: Box<str>,
    /// Since when, in milliseconds since 1970.
    pub allocated: u64,
    /// Whether names under it are only for trying things out, and may be removed.
    #[serde(default)]
    pub test: bool,
    /// What may be registered under it.
    #[serde(default)]
    pub policy: PrefixPolicy,
    /// Where in its record the administrators of other registrants stand who have names under it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) groups: BTreeMap<Box<str>, u32>,
}

/// Registration policy of a prefix.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PrefixPolicy {
    /// An expression that all of a new suffix has to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Box<str>>,
    /// Hosts that addresses may lead to, each with all below it; any, without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Box<str>>,
    /// Whether metadata has to be there, whatever the agency says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Demand>,
    /// Whether a name may look like another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confusable: Option<Lookalikes>,
    /// How many names there may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
}

/// What is done about names that look like others.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lookalikes {
    /// They are registered, and who does is told.
    Warn,
    /// They are not registered.
    Refuse,
}

/// Range of prefixes that an agency allocates, such as `10.70000` to `10.79999`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixRange {
    /// The first one.
    pub first: Box<str>,
    /// The last one.
    pub last: Box<str>,
}

impl PrefixRange {
    pub(super) fn validate(&self, pointer: &str) -> Result<(), RegistryError> {
        match self.bounds() {
            Some((first, last)) if first <= last => Ok(()),
            _ => Err(RegistryError::invalid(
                "bad-range",
                pointer,
                "a range is `first` and `last`, such as 10.70000 and 10.79999",
            )),
        }
    }

    fn bounds(&self) -> Option<(u32, u32)> {
        Some((number(&self.first)?, number(&self.last)?))
    }
}

/// The number of a prefix that has only one.
fn number(prefix: &str) -> Option<u32> {
    let digits = prefix.strip_prefix("10.")?;
    let is_number = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

impl PrefixPolicy {
    fn validate(&self) -> Result<(), RegistryError> {
        if let Some(pattern) = &self.pattern {
            // By itself, too: it must not end the group that it is put into.
            RegexBuilder::new(pattern)
                .size_limit(1 << 18)
                .build()
                .and_then(|_| expression(pattern))
                .map_err(|error| {
                    RegistryError::invalid("bad-pattern", "/policy/pattern", error.to_string())
                })?;
        }
        if self.hosts.len() > 100 {
            return Err(RegistryError::invalid("too-many", "/policy/hosts", "at most 100 hosts are taken"));
        }
        let is_host = |host: &str| {
            !host.is_empty()
                && host.len() <= 253
                && !host.starts_with('.')
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
        };
        match self.hosts.iter().position(|host| !is_host(host)) {
            Some(number) => Err(RegistryError::invalid(
                "bad-host",
                &format!("/policy/hosts/{number}"),
                "a host is written as `example.org`, in ASCII",
            )),
            None => Ok(()),
        }
    }

    fn allows_host(&self, host: &str) -> bool {
        self.hosts.is_empty()
            || self.hosts.iter().any(|allowed| {
                let at = host.len().checked_sub(allowed.len());
                let end = at.and_then(|at| host.get(at..));
                let before = at.and_then(|at| at.checked_sub(1)).and_then(|at| host.as_bytes().get(at));
                end.is_some_and(|end| end.eq_ignore_ascii_case(allowed))
                    && (host.len() == allowed.len() || before == Some(&b'.'))
            })
    }
}

/// An expression of a registrant, for all of a suffix. Its size is bounded, and matching takes linear time.
fn expression(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(1 << 18).build()
}

/// Command: allocate a prefix to a registrant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocatePrefix {
    /// The registrant's id.
    pub registrant: Box<str>,
    /// The one that is wanted; the next free one without.
    #[serde(default)]
    pub prefix: Option<Box<str>>,
    /// See [`Prefix::test`].
    #[serde(default)]
    pub test: bool,
    /// See [`Prefix::policy`].
    #[serde(default)]
    pub policy: PrefixPolicy,
}

/// Command: update the policy of a prefix.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdatePrefix {
    /// Which one.
    #[serde(skip)]
    pub prefix: Box<str>,
    /// See [`Prefix::policy`].
    #[serde(default)]
    pub policy: Option<PrefixPolicy>,
    /// The revision that it has to have.
    #[serde(skip)]
    pub expect: Option<u64>,
}

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
    /// A new name is one that may be registered here.
    pub(crate) fn check_suffix(&self, suffix: &str) -> Result<(), RegistryError> {
        match (&self.pattern, &self.prefix.policy.pattern) {
            (Some(expression), Some(pattern)) if !expression.is_match(suffix) => {
                let detail = format!(
                    "suffixes under {} have to match `{pattern}`, `{suffix}` does not",
                    self.prefix.prefix
                );
                Err(RegistryError::invalid("pattern", "/name", detail))
            }
            _ => Ok(()),
        }
    }

    /// An address leads where addresses may lead.
    pub(crate) fn check_host_allowed(&self, address: &[u8], pointer: &str) -> Result<(), RegistryError> {
        let policy = &self.prefix.policy;
        if policy.hosts.is_empty() {
            return Ok(());
        }
        let host = std::str::from_utf8(address).ok().and_then(host_of).unwrap_or_default();
        if policy.allows_host(host) {
            return Ok(());
        }
        let detail = format!("addresses under {} lead to {}, not to `{host}`", self.prefix.prefix, {
            policy.hosts.join(", ")
        });
        Err(RegistryError::invalid("host", pointer, detail))
    }

    /// All addresses of a value do.
    pub(crate) fn check_value_hosts(
        &self,
        value: &HandleValue<'_>,
        pointer: &str,
    ) -> Result<(), RegistryError> {
        if value.has_type("URL") {
            return self.check_host_allowed(&value.data, pointer);
        }
        if !value.has_type("10320/loc") || self.prefix.policy.hosts.is_empty() {
            return Ok(());
        }
        let locations = Locations::from_bytes(&value.data).map_err(|error| {
            RegistryError::invalid("bad-value", pointer, format!("no locations: {error}"))
        })?;
        locations
            .locations
            .iter()
            .flat_map(|one| one.href().into_iter().chain(one.href_template()))
            .try_for_each(|address| self.check_host_allowed(address.as_bytes(), pointer))
    }

    /// Whether names have to come with metadata.
    pub(crate) fn requires_metadata(&self) -> bool {
        self.prefix.policy.metadata.unwrap_or(self.agency.metadata) == Demand::Required
    }

    pub(crate) fn rejects_confusable(&self) -> bool {
        self.prefix.policy.confusable == Some(Lookalikes::Refuse)
    }

    /// The group of the administrators of a name that was given to somebody, or was not. Who then got the prefix, too, keeps
    /// the name when the prefix goes on to another.
    pub(crate) fn admin_group_index(&self, owner: Option<&str>) -> u32 {
        owner.and_then(|owner| self.prefix.groups.get(owner)).copied().unwrap_or(GROUP_INDEX)
    }
}

/// The host of an address, as text.
fn host_of(address: &str) -> Option<&str> {
    let (_, after) = address.split_once("://")?;
    let authority = after.split(['/', '?', '#', '\\']).next()?;
    authority.split(':').next()
}

impl Prefix {
    pub(crate) fn record_name(&self) -> Box<str> {
        format!("0.NA/{}", self.prefix).into()
    }

    /// The record as the Handle System has it: what is ours anew, what others have put there as it is.
    pub(crate) fn record_edit(
        &self,
        holder: &Registrant,
        agency: &Agency,
        there: Option<&StoredRecord>,
        at: u64,
    ) -> Edit {
        let (name, date) = (self.record_name(), u32::try_from(at / 1_000).unwrap_or(u32::MAX));
        let reference = ValueReference::new(GROUP_INDEX, name.as_bytes().to_vec());
        let permissions = AdminPermissions::ADD_HANDLE | AdminPermissions::LIST_HANDLES;
        let admin = Admin { permissions, reference, legacy_byte_length: false };
        let members = holder.admin_references();
        let mut values = vec![
            HandleValue::with_data(NAMESPACE_INDEX, "HS_NAMESPACE", namespace_xml(agency).into_bytes()),
            HandleValue::with_data(ADMIN_INDEX, "HS_ADMIN", admin.to_bytes()),
            HandleValue::with_data(GROUP_INDEX, "HS_VLIST", ValueList { members }.to_bytes()),
        ];
        let before = there.map(|entry| entry.values.as_slice()).unwrap_or_default();
        values.extend(before.iter().filter(|value| !is_registry_index(value.index)).cloned());
        values.sort_by_key(|value| value.index);
        self.put_edit(values, there, date)
    }

    /// The same with the administrators of somebody else who has names here.
    pub(crate) fn admin_groups_edit(
        &self,
        of: &Registrant,
        indexes: impl IntoIterator<Item = u32>,
        there: &StoredRecord,
        at: u64,
    ) -> Edit {
        let mut values = there.values.clone();
        for index in indexes {
            let members = of.admin_references();
            values.retain(|value| value.index != index);
            values.push(HandleValue::with_data(index, "HS_VLIST", ValueList { members }.to_bytes()));
        }
        values.sort_by_key(|value| value.index);
        self.put_edit(values, Some(there), u32::try_from(at / 1_000).unwrap_or(u32::MAX))
    }

    fn put_edit(
        &self,
        mut values: Vec<HandleValue<'static>>,
        there: Option<&StoredRecord>,
        date: u32,
    ) -> Edit {
        let before = there.map(|entry| entry.values.as_slice()).unwrap_or_default();
        for value in &mut values {
            let same = before.iter().find(|old| old.index == value.index && old.data == value.data);
            value.timestamp = same.map_or(date, |old| old.timestamp);
        }
        let expect = there.map_or(Precondition::Absent, |entry| Precondition::Revision(entry.revision));
        Edit::Register { name: self.record_name(), values, registration: encode(self), expect }
    }
}

impl Prefix {
    /// That it comes to who has it now.
    pub(crate) fn holdings_edits(&self, at: u64) -> [Edit; 2] {
        let what = format!("{} {at}", self.prefix);
        [
            gets(RegistryObjectKind::Agency, &self.agency, &what),
            gets(RegistryObjectKind::Registrant, &self.registrant, &what),
        ]
    }

    /// Where the administrators of somebody else stand who has, or gets, names here: where nothing stands in the record yet.
    pub(crate) fn allocate_group_index(
        &mut self,
        registrant: &str,
        record: &StoredRecord,
    ) -> Result<u32, RegistryError> {
        if let Some(index) = self.groups.get(registrant) {
            return Ok(*index);
        }
        if self.groups.len() >= MAX_PREFIX_REGISTRANTS {
            let detail =
                format!("{MAX_PREFIX_REGISTRANTS} registrants have names under {} already", self.prefix);
            return Err(RegistryError::new(RegistryErrorKind::Full, "too-many-registrants", detail)
                .with_pointer("/to"));
        }
        let taken = record.values.iter().map(|value| value.index).chain(self.groups.values().copied());
        let index = free_index(GROUP_INDEX + 1, &taken.collect());
        self.groups.insert(registrant.into(), index);
        Ok(index)
    }
}

/// The first index from one on that is not taken.
pub(crate) fn free_index(first: u32, taken: &BTreeSet<u32>) -> u32 {
    (first..u32::MAX).find(|index| !taken.contains(index)).unwrap_or(u32::MAX)
}

const fn is_registry_index(index: u32) -> bool {
    matches!(index, NAMESPACE_INDEX | ADMIN_INDEX | GROUP_INDEX)
}

/// What names under a prefix have in common: who looks after them, and where they lead beside their own places.
fn namespace_xml(agency: &Agency) -> String {
    let code = agency.code.to_ascii_uppercase();
    let locations = agency.locations.as_ref().map_or_else(String::new, |handle| {
        let escaped = handle.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        format!("<locs>{escaped}</locs>")
    });
    format!("<namespace><DOI.RA>10.SERV/{code}</DOI.RA>{locations}</namespace>")
}

/// Whether it can be the prefix of DOI names: `10.` and numbers.
pub(crate) fn is_doi_prefix(prefix: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    prefix.len() <= 64 && prefix.strip_prefix("10.").is_some_and(|rest| rest.split('.').all(is_number))
}

impl Plan for AllocatePrefix {
    type Output = Prefix;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<Prefix>, RegistryError> {
        standing.check_scope(Scope::Administer)?;
        let no_such = || {
            let detail = format!("there is no registrant `{}`", self.registrant);
            RegistryError::invalid("no-such-registrant", "/registrant", detail)
        };
        let held = registry
            .find_object::<Registrant>(RegistryObjectKind::Registrant, &self.registrant, work)
            .await?;
        let registrant = held.ok_or_else(no_such)?.it;
        standing.check_agency(&registrant.agency, Scope::Administer)?;
        standing.check_all_prefixes()?;
        let agency =
            registry.get_object::<Agency>(RegistryObjectKind::Agency, &registrant.agency, work).await?.it;
        self.policy.validate()?;
        let (prefix, there, next) = match &self.prefix {
            Some(prefix) => {
                let there = registry.check_requested_prefix(prefix, &agency, standing, work).await?;
                (prefix.clone(), there, None)
            }
            None => {
                let (prefix, next) = registry.next_free_prefix(&agency, work).await?;
                (prefix, None, Some(next))
            }
        };
        let prefix = Prefix {
            prefix,
            registrant: registrant.id.clone(),
            agency: agency.code.clone(),
            allocated: at,
            test: self.test,
            policy: self.policy.clone(),
            groups: BTreeMap::new(),
        };
        let mut edits = vec![prefix.record_edit(&registrant, &agency, there.as_ref(), at)];
        edits.push(Edit::Home { prefix: prefix.prefix.clone() });
        edits.extend(prefix.holdings_edits(at));
        edits.extend(next);
        Ok(CommandPlan::new(edits, prefix))
    }
}

impl Plan for UpdatePrefix {
    type Output = Prefix;

    async fn plan(
        &self,
        registry: &Registry,
        standing: &Principal,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandPlan<Prefix>, RegistryError> {
        let no_such = || RegistryError::not_found("prefix", &self.prefix);
        let PrefixAllocation { prefix: before, record, agency, holder, .. } =
            registry.allocation(&self.prefix, work).await?.ok_or_else(no_such)?;
        // What its registrant may do there is for the agency to say.
        standing.check_agency(&agency.code, Scope::Administer)?;
        standing.check_prefix(&before.prefix)?;
        check_revision(self.expect, record.revision)?;
        let mut prefix = before.clone();
        prefix.policy = self.policy.clone().unwrap_or(prefix.policy);
        prefix.policy.validate()?;
        if prefix == before {
            return Ok(CommandPlan::new(Vec::new(), prefix));
        }
        Ok(CommandPlan::new(vec![prefix.record_edit(&holder, &agency, Some(&record), at)], prefix))
    }
}

impl Registry {
    /// A prefix, for everybody.
    pub async fn prefix(&self, prefix: &str, work: &mut Budget) -> Result<Held<Prefix>, RegistryError> {
        let entry = self.prefix_entry(prefix, work).await?;
        let entry = entry.ok_or_else(|| RegistryError::not_found("prefix", prefix))?;
        Ok(Held { it: decode(&entry)?, revision: entry.revision })
    }

    /// Prefixes, for everybody; those of a registrant or an agency, if one is given.
    pub async fn prefixes(
        &self,
        registrant: Option<&str>,
        agency: Option<&str>,
        after: Option<&str>,
        limit: usize,
        work: &mut Budget,
    ) -> Result<(Vec<Held<Prefix>>, Option<String>), RegistryError> {
        work.charge(price::list(limit)).map_err(Error::from)?;
        let is_it = |prefix: &Prefix| {
            registrant.is_none_or(|id| prefix.registrant.eq_ignore_ascii_case(id))
                && agency.is_none_or(|code| prefix.agency.eq_ignore_ascii_case(code))
        };
        let (mut items, mut is_full) = (Vec::new(), false);
        let mut looking = ScanBudget::new();
        let more = self.look_at_prefixes(after, &mut looking, |prefix, entry| {
            if is_it(&prefix) {
                if items.len() >= limit {
                    is_full = true;
                    return false;
                }
                items.push(Held { it: prefix, revision: entry.revision });
            }
            true
        });
        let more = more.await?;
        let last = items.last().map(|last: &Held<Prefix>| last.it.prefix.to_string());
        Ok((items, if is_full { last } else { more }))
    }

    /// Shows prefixes that were given to somebody, after one, as far as may be looked; where to go on, if that was not all.
    pub(crate) async fn look_at_prefixes(
        &self,
        after: Option<&str>,
        looking: &mut ScanBudget,
        mut visit: impl FnMut(Prefix, &StoredRecord) -> bool + Send,
    ) -> Result<Option<String>, Error> {
        let after = after.and_then(|after| tendot_store::NameKey::new(&format!("0.NA/{after}")).ok());
        let (mut last, mut next, mut problem) = (None, None, None);
        self.store
            .scan_records(Some(b"0.NA"), after.as_ref(), |entry| {
                if !looking.charge(entry) {
                    next = last.take();
                    return false;
                }
                last = entry.name.split_once('/').map(|(_, prefix)| prefix.to_owned());
                if entry.registration.is_empty() || entry.state != RecordStatus::Live {
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

    /// Shows all prefixes that were given to somebody.
    pub(crate) async fn visit_prefixes(
        &self,
        mut visit: impl FnMut(Prefix, &StoredRecord) -> bool + Send,
    ) -> Result<(), Error> {
        let mut problem = None;
        self.store
            .scan_records(Some(b"0.NA"), None, |entry| {
                if entry.registration.is_empty() || entry.state != RecordStatus::Live {
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
        problem.map_or(Ok(()), Err)
    }

    /// The record of a prefix that was given to somebody.
    pub(crate) async fn prefix_entry(
        &self,
        prefix: &str,
        work: &mut Budget,
    ) -> Result<Option<StoredRecord>, Error> {
        if !is_doi_prefix(prefix) {
            return Ok(None);
        }
        let entry = self.get_record(&format!("0.NA/{prefix}"), work).await?;
        Ok(entry.filter(|entry| entry.state == RecordStatus::Live && !entry.registration.is_empty()))
    }

    /// A prefix that was given to somebody, with what that takes.
    pub(crate) async fn allocation(
        &self,
        prefix: &str,
        work: &mut Budget,
    ) -> Result<Option<PrefixAllocation>, RegistryError> {
        let Some(record) = self.prefix_entry(prefix, work).await? else { return Ok(None) };
        let prefix: Prefix = decode(&record)?;
        let agency = self.get_object::<Agency>(RegistryObjectKind::Agency, &prefix.agency, work).await?.it;
        let holder =
            self.get_object::<Registrant>(RegistryObjectKind::Registrant, &prefix.registrant, work).await?.it;
        let pattern = match &prefix.policy.pattern {
            Some(pattern) => {
                work.charge(price::REGEX_COMPILE).map_err(Error::from)?;
                expression(pattern).ok()
            }
            None => None,
        };
        Ok(Some(PrefixAllocation { prefix, record, agency, holder, pattern }))
    }

    /// Whether a prefix that is asked for may be had, and what is in its record already.
    async fn check_requested_prefix(
        &self,
        prefix: &str,
        agency: &Agency,
        standing: &Principal,
        work: &mut Budget,
    ) -> Result<Option<StoredRecord>, RegistryError> {
        if !is_doi_prefix(prefix) {
            let detail = format!("`{prefix}` is no prefix of DOI names: `10.` and numbers, such as 10.70000");
            return Err(RegistryError::invalid("bad-prefix", "/prefix", detail));
        }
        let taken = |detail: String| {
            RegistryError::new(RegistryErrorKind::Conflict, "prefix-taken", detail)
                .with_pointer("/prefix")
                .with_hint("without `prefix`, the next free one is given")
        };
        let entry = self.get_record(&format!("0.NA/{prefix}"), work).await?;
        if let Some(entry) = entry.as_ref().filter(|entry| !entry.registration.is_empty()) {
            let since: Prefix = decode(entry)?;
            let refusal = taken(format!("`{prefix}` is another registrant's"));
            return Err(RegistryError { existing: Some((since.prefix, Some(since.allocated))), ..refusal });
        }
        if standing.is_operator() {
            return match entry {
                Some(entry) if entry.state == RecordStatus::Tombstone => {
                    Err(taken(format!("`{prefix}` was given to somebody, and is not given again")))
                }
                entry => Ok(entry),
            };
        }
        work.charge(price::LOOKUP).map_err(Error::from)?;
        if entry.is_some() || self.store.is_homed(prefix.as_bytes()).await? {
            return Err(taken(format!("`{prefix}` is in use")));
        }
        let (first, last) =
            agency.range.as_ref().and_then(PrefixRange::bounds).unwrap_or((FIRST_PREFIX_NUMBER, u32::MAX));
        let others = self.other_agency_ranges(agency).await?;
        let is_others = |number: u32| others.iter().any(|(first, last)| (*first..=*last).contains(&number));
        if number(prefix).is_some_and(|number| (first..=last).contains(&number) && !is_others(number)) {
            return Ok(None);
        }
        let detail = format!("agency `{}` gives prefixes from 10.{first} on, not `{prefix}`", agency.code);
        Err(RegistryError::new(RegistryErrorKind::Forbidden, "out-of-range", detail).with_pointer("/prefix"))
    }

    /// The next free prefix of an agency, and the note that tells where to look the next time.
    async fn next_free_prefix(
        &self,
        agency: &Agency,
        work: &mut Budget,
    ) -> Result<(Box<str>, Edit), RegistryError> {
        let range = agency.range.as_ref().and_then(PrefixRange::bounds);
        let key = match range {
            Some(_) => format!("prefix/{}", agency.code.to_ascii_uppercase()),
            None => "prefix/".to_owned(),
        };
        let (first, last) = range.unwrap_or((FIRST_PREFIX_NUMBER, u32::MAX));
        let noted = self.store.note(key.as_bytes()).await?;
        let noted = noted.and_then(|body| std::str::from_utf8(&body).ok()?.parse::<u32>().ok());
        let start = noted.filter(|noted| (first..=last).contains(noted)).unwrap_or(first);
        let others = self.other_agency_ranges(agency).await?;
        let mut number = start;
        for _ in 0..MAX_PREFIX_ATTEMPTS {
            // Those of other agencies are gone past at once; the ranges stand in order.
            for (begin, end) in &others {
                if (*begin..=*end).contains(&number) {
                    number = end.saturating_add(1);
                }
            }
            if !(start..=last).contains(&number) {
                break;
            }
            let prefix: Box<str> = format!("10.{number}").into();
            work.charge(price::LOOKUP).map_err(Error::from)?;
            let is_free = self.get_record(&format!("0.NA/{prefix}"), work).await?.is_none()
                && !self.store.is_homed(prefix.as_bytes()).await?;
            if is_free {
                let body = number.saturating_add(1).to_string().into_bytes().into();
                return Ok((prefix, Edit::PutNote { key: key.into_bytes().into(), body }));
            }
            number = number.saturating_add(1);
        }
        let detail = format!("agency `{}` has no free prefix from 10.{start} on", agency.code);
        Err(RegistryError::new(RegistryErrorKind::Full, "no-prefix-left", detail))
    }

    /// What an agency without a range of its own leaves to others, in order; those with one have what was given to them.
    async fn other_agency_ranges(&self, agency: &Agency) -> Result<Vec<(u32, u32)>, Error> {
        let mut ranges = Vec::new();
        if agency.range.is_none() {
            self.visit_objects(RegistryObjectKind::Agency, None, |held: Held<Agency>| {
                ranges.extend(held.it.range.as_ref().and_then(PrefixRange::bounds));
                true
            })
            .await?;
        }
        ranges.sort_unstable();
        Ok(ranges)
    }

    /// The groups of a registrant in all prefixes where it has names, as its administrators are now.
    pub(crate) async fn admin_group_edits(
        &self,
        registrant: &Registrant,
        at: u64,
    ) -> Result<Vec<Edit>, RegistryError> {
        self.look_through(RegistryObjectKind::Registrant, &registrant.id).await?;
        let mut edits = Vec::new();
        self.visit_prefixes(|prefix, entry| {
            let own = (*prefix.registrant == *registrant.id).then_some(GROUP_INDEX);
            let other = prefix.groups.get(&registrant.id).copied();
            if own.or(other).is_some() {
                edits.push(prefix.admin_groups_edit(registrant, own.into_iter().chain(other), entry, at));
            }
            true
        })
        .await?;
        Ok(edits)
    }

    /// What names of an agency have in common, as it is now, in all of its prefixes.
    pub(crate) async fn namespace_edits(&self, agency: &Agency, at: u64) -> Result<Vec<Edit>, RegistryError> {
        self.look_through(RegistryObjectKind::Agency, &agency.code).await?;
        let mut edits = Vec::new();
        self.visit_prefixes(|prefix, entry| {
            if prefix.agency.eq_ignore_ascii_case(&agency.code) {
                edits.push(prefix.namespace_edit(agency, entry, at));
            }
            true
        })
        .await?;
        Ok(edits)
    }
}

impl Prefix {
    /// The record with another agency, or with another place of its locations.
    pub(crate) fn namespace_edit(&self, agency: &Agency, there: &StoredRecord, at: u64) -> Edit {
        let prefix = Self { agency: agency.code.clone(), ..self.clone() };
        let mut values = there.values.clone();
        values.retain(|value| value.index != NAMESPACE_INDEX);
        values.push(HandleValue::with_data(
            NAMESPACE_INDEX,
            "HS_NAMESPACE",
            namespace_xml(agency).into_bytes(),
        ));
        values.sort_by_key(|value| value.index);
        prefix.put_edit(values, Some(there), u32::try_from(at / 1_000).unwrap_or(u32::MAX))
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
            ("10", false),
            ("10.", false),
            ("10.1.", false),
            ("10.abc", false),
            ("11.1", false),
            ("10.1/x", false),
            ("", false),
        ] {
            assert_eq!(is_doi_prefix(prefix), expected, "{prefix}");
        }
    }

    #[test]
    fn groups() {
        let (policy, groups) = (PrefixPolicy::default(), BTreeMap::new());
        let (registrant, agency) = ("r".into(), "a".into());
        let mut prefix =
            Prefix { prefix: "10.1".into(), registrant, agency, allocated: 0, test: false, policy, groups };
        let values = vec![HandleValue::new(201, "NOTE", ""), HandleValue::new(300, "HS_PUBKEY", "")];
        let (name, registration) = (prefix.record_name(), Box::default());
        let record = StoredRecord { name, revision: 1, state: RecordStatus::Live, values, registration };
        let mut taken = BTreeSet::from([201, 300]);
        for number in 0..MAX_PREFIX_REGISTRANTS {
            let registrant = format!("r{number}");
            let index = prefix.allocate_group_index(&registrant, &record).unwrap();
            assert!(taken.insert(index), "{index} is there twice");
            assert_eq!(prefix.allocate_group_index(&registrant, &record).unwrap(), index);
        }
        let refusal = prefix.allocate_group_index("one more", &record).unwrap_err();
        assert_eq!((refusal.reason, refusal.code), (RegistryErrorKind::Full, "too-many-registrants"));
        assert_eq!(prefix.groups.len(), MAX_PREFIX_REGISTRANTS);
    }

    #[test]
    fn hosts() {
        let policy = PrefixPolicy { hosts: vec!["example.org".into()], ..PrefixPolicy::default() };
        for (address, expected) in [
            ("https://example.org/", true),
            ("https://www.EXAMPLE.org:8080/x", true),
            ("https://badexample.org/", false),
            ("https://example.org.evil.net/", false),
            ("https://evil.net/?example.org", false),
            ("https://evil.net\\example.org", false),
            ("https://org/", false),
            ("mailto:a@example.org", false),
        ] {
            let is_allowed = policy.allows_host(host_of(address).unwrap_or_default());
            assert_eq!(is_allowed, expected, "{address}");
        }
    }
}
