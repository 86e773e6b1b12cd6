//! Lists DOIs of a prefix or a registrant.

use std::collections::BTreeMap;

use tendot_proto::Budget;
use tendot_store::{AuxEntry, NameKey, Store, StoredRecord};

use crate::authorization::Principal;
use crate::listing::ScanBudget;
use crate::party::Registrant;
use crate::prefix::Prefix;
use crate::registration::{DoiStatus, Registration, RegistrationState, url_value};
use crate::rules::RecordReader;
use crate::{CallContext, Error, Registry, RegistryError, ResultPage, cost};

/// DOI in a list.
#[derive(Clone, Debug)]
pub struct DoiListItem {
    /// Name in its original spelling.
    pub name: Box<str>,
    /// Status of the DOI.
    pub state: DoiStatus,
    /// URL at index 1, if it is public.
    pub url: Option<String>,
    /// Id of the owner.
    pub registrant: Box<str>,
    /// Time of the last change, in milliseconds since 1970.
    pub updated_ms: u64,
}

/// Cursor prefix for names that a registrant owns under the prefixes of other registrants.
const OWNED_CURSOR_PREFIX: &str = "owned:";

/// Filters of a DOI list: a prefix, a registrant, or both.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DoiFilter<'a> {
    /// Only names under this prefix.
    pub prefix: Option<&'a str>,
    /// Only names of the registrant with this id.
    pub registrant: Option<&'a str>,
}

impl Registry {
    /// Lists DOIs in key order. Reserved names are returned to authorized principals only. There may be fewer than
    /// requested although more follow.
    pub async fn list_dois(
        &self,
        filter: DoiFilter<'_>,
        after: Option<&str>,
        limit: usize,
        mut call: CallContext<'_>,
    ) -> Result<ResultPage<DoiListItem>, RegistryError> {
        call.budget.charge(cost::list(limit)).map_err(Error::from)?;
        let principal = self.rules.principal(&mut call).await?;
        let budget = call.budget;
        // Ids are case-insensitive; the stored spelling is used from here on.
        let registrant = match filter.registrant {
            Some(id) => Some(self.rules.get_object::<Registrant>(id, budget).await?.value.id),
            None => None,
        };
        let mut list = DoiListing {
            records: &self.rules,
            principal,
            registrants: BTreeMap::new(),
            only: registrant.as_deref(),
            limit,
            scan_budget: ScanBudget::new(),
            items: Vec::new(),
        };
        let next = match filter.prefix {
            Some(prefix) => {
                let object = self.rules.get_prefix(prefix, budget).await?;
                list.scan_prefix_names(&object.value, after, budget).await?
            }
            None => list.scan(after, budget).await?,
        };
        Ok(ResultPage { items: list.items, next })
    }
}

/// State of one list request: principal, filters, scan budget, items.
struct DoiListing<'a> {
    records: &'a RecordReader,
    principal: Principal,
    /// Owners of the reserved names found so far.
    registrants: BTreeMap<Box<str>, Option<Registrant>>,
    /// Id of the registrant whose names are listed; `None` for all.
    only: Option<&'a str>,
    limit: usize,
    scan_budget: ScanBudget,
    items: Vec<DoiListItem>,
}

impl DoiListing<'_> {
    /// Scans prefix by prefix, then the names that the registrant owns under the prefixes of others. Returns the cursor if
    /// there are more.
    async fn scan(
        &mut self,
        after: Option<&str>,
        budget: &mut Budget,
    ) -> Result<Option<Box<str>>, RegistryError> {
        let owned_after = after.and_then(|after| after.strip_prefix(OWNED_CURSOR_PREFIX));
        if owned_after.is_none() {
            let next = self.scan_all_prefixes(after, budget).await?;
            if next.is_some() || self.only.is_none() {
                return Ok(next);
            }
            if self.items.len() >= self.limit {
                return Ok(Some(OWNED_CURSOR_PREFIX.into()));
            }
        }
        match self.only {
            Some(registrant) => self.scan_owned_names(registrant, owned_after, budget).await,
            None => Ok(None),
        }
    }

    /// Scans all prefixes of a registrant, or all prefixes.
    async fn scan_all_prefixes(
        &mut self,
        after: Option<&str>,
        budget: &mut Budget,
    ) -> Result<Option<Box<str>>, RegistryError> {
        let mut cursor: Option<Box<str>> = after.map(Into::into);
        loop {
            if self.scan_budget.is_exhausted() || self.items.len() >= self.limit {
                return Ok(cursor);
            }
            match self.scan_next_prefix(cursor.as_deref(), budget).await {
                Ok((next, true)) => return Ok(next),
                Ok((None, false)) => return Ok(None),
                Ok((next, false)) => cursor = next,
                Err(rejection) if rejection.is_budget_exceeded() && cursor.as_deref() != after => {
                    return Ok(cursor);
                }
                Err(rejection) => return Err(rejection),
            }
        }
    }

    /// Scans the prefix of the cursor, or the next one. Returns the next cursor, and whether this prefix has more names.
    async fn scan_next_prefix(
        &mut self,
        cursor: Option<&str>,
        budget: &mut Budget,
    ) -> Result<(Option<Box<str>>, bool), RegistryError> {
        let within = cursor.and_then(|cursor| cursor.split_once('/'));
        let prefix = match within {
            Some((prefix, _)) => self.records.get_prefix(prefix, budget).await?.value,
            None => {
                budget.charge(cost::STEP).map_err(Error::from)?;
                let mut next_prefix = None;
                let matches = |prefix: &Prefix| self.only.is_none_or(|id| *prefix.registrant == *id);
                let scan = self.records.scan_prefixes(cursor, &mut self.scan_budget, |prefix, _| {
                    next_prefix = Some(prefix).filter(matches);
                    next_prefix.is_none()
                });
                let more = scan.await?;
                let Some(prefix) = next_prefix else { return Ok((more, false)) };
                prefix
            }
        };
        // The prefix record used up the scan budget.
        let next = match self.scan_budget.is_exhausted() {
            true => Some(format!("{}/", prefix.prefix).into()),
            false => self.scan_prefix_names(&prefix, cursor.filter(|_| within.is_some()), budget).await?,
        };
        let is_more = next.is_some();
        Ok((next.or(Some(prefix.prefix)), is_more))
    }

    /// Scans the names under one prefix; returns the cursor if there are more.
    async fn scan_prefix_names(
        &mut self,
        prefix: &Prefix,
        after: Option<&str>,
        budget: &mut Budget,
    ) -> Result<Option<Box<str>>, RegistryError> {
        let after = after.and_then(|after| NameKey::new(after).ok());
        let (mut candidates, mut next, mut problem) = (Vec::new(), None, None);
        let remaining = self.limit.saturating_sub(self.items.len());
        let mut last: Option<Box<str>> = None;
        let (scan_budget, only) = (&mut self.scan_budget, self.only);
        self.records
            .store
            .scan_records(Some(prefix.prefix.as_bytes()), after.as_ref(), |entry| {
                if candidates.len() >= remaining || !scan_budget.charge(entry) {
                    next = last.take();
                    return false;
                }
                last = Some(entry.name.clone());
                match DoiCandidate::from_record(entry, prefix, only) {
                    Ok(candidate) => candidates.extend(candidate),
                    Err(error) => problem = Some(error),
                }
                problem.is_none()
            })
            .await?;
        problem.map_or(Ok(()), Err)?;
        let mut last_added = None;
        for candidate in candidates {
            let name = candidate.item.name.clone();
            match self.add_if_visible(candidate, prefix, budget).await {
                Err(Error::BudgetExceeded(_)) if last_added.is_some() => {
                    return Ok(last_added);
                }
                result => result?,
            }
            last_added = Some(name);
        }
        Ok(next)
    }

    /// Scans names that a registrant owns under the prefixes of other registrants.
    async fn scan_owned_names(
        &mut self,
        registrant: &str,
        after: Option<&str>,
        budget: &mut Budget,
    ) -> Result<Option<Box<str>>, RegistryError> {
        let key_prefix = format!("owned-name/{registrant}/").into_bytes();
        // A client that comes from the registrant's own prefixes starts here at the beginning.
        let mut cursor = after.unwrap_or_default().to_owned();
        let from = [&key_prefix[..], cursor.as_bytes()].concat();
        let remaining = self.limit.saturating_sub(self.items.len());
        let entries = self
            .records
            .store
            .list_aux(&key_prefix, (!cursor.is_empty()).then_some(&from[..]), remaining.saturating_add(1))
            .await?;
        let mut prefixes = BTreeMap::new();
        for (number, AuxEntry { key, value: name }) in entries.into_iter().enumerate() {
            if number == remaining || self.scan_budget.is_exhausted() {
                return Ok(Some(format!("{OWNED_CURSOR_PREFIX}{cursor}").into()));
            }
            let Ok(name) = std::str::from_utf8(&name) else { continue };
            match self.add_owned_name(name, registrant, &mut prefixes, budget).await {
                Err(rejection) if rejection.is_budget_exceeded() && Some(&*cursor) != after => {
                    return Ok(Some(format!("{OWNED_CURSOR_PREFIX}{cursor}").into()));
                }
                result => result?,
            }
            cursor = String::from_utf8_lossy(key.get(key_prefix.len()..).unwrap_or_default()).into_owned();
        }
        Ok(None)
    }

    async fn add_owned_name(
        &mut self,
        name: &str,
        registrant: &str,
        prefixes: &mut BTreeMap<Box<str>, Prefix>,
        budget: &mut Budget,
    ) -> Result<(), RegistryError> {
        let Some((prefix, _)) = name.split_once('/') else { return Ok(()) };
        let Some(entry) = self.records.get_record(name, budget).await? else { return Ok(()) };
        self.scan_budget.charge(&entry);
        if !prefixes.contains_key(prefix) {
            prefixes.insert(prefix.into(), self.records.get_prefix(prefix, budget).await?.value);
        }
        // Names under a prefix that the registrant holds were listed with the prefix.
        let Some(prefix) = prefixes.get(prefix).filter(|prefix| *prefix.registrant != *registrant) else {
            return Ok(());
        };
        match DoiCandidate::from_record(&entry, prefix, self.only)? {
            Some(candidate) => Ok(self.add_if_visible(candidate, prefix, budget).await?),
            None => Ok(()),
        }
    }

    /// Adds a DOI to the list if it is visible to the principal.
    async fn add_if_visible(
        &mut self,
        candidate: DoiCandidate,
        prefix: &Prefix,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let DoiCandidate { item, is_reserved } = candidate;
        if is_reserved {
            if !self.registrants.contains_key(&item.registrant) {
                let object = self.records.find_object::<Registrant>(&item.registrant, budget).await?;
                self.registrants.insert(item.registrant.clone(), object.map(|object| object.value));
            }
            let known = self.registrants.get(&item.registrant).and_then(Option::as_ref);
            if !known.is_some_and(|known| self.principal.can_read_under(&prefix.prefix, known)) {
                return Ok(());
            }
        }
        self.items.push(item);
        Ok(())
    }
}

/// List item before the visibility check.
struct DoiCandidate {
    item: DoiListItem,
    is_reserved: bool,
}

impl DoiCandidate {
    /// Candidate for the list; `None` if it belongs to another registrant than the requested one.
    fn from_record(entry: &StoredRecord, prefix: &Prefix, only: Option<&str>) -> Result<Option<Self>, Error> {
        let registration = Registration::of_record(entry)?;
        let owner = registration.owner_id(prefix);
        if only.is_some_and(|only| owner != only) {
            return Ok(None);
        }
        let url = url_value(&entry.values).filter(|url| url.is_public());
        let item = DoiListItem {
            name: entry.name.clone(),
            state: DoiStatus::new(entry.status, registration.state),
            url: url.map(|url| String::from_utf8_lossy(&url.data).into_owned()),
            registrant: owner.into(),
            updated_ms: registration.last_update_ms(&entry.values),
        };
        Ok(Some(Self { item, is_reserved: registration.state == RegistrationState::Reserved }))
    }
}
