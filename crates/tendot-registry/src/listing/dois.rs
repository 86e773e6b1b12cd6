//! Lists DOIs of a prefix or a registrant.

use std::collections::BTreeMap;

use tendot_proto::Budget;
use tendot_store::{AuxEntry, NameKey, RecordStatus, Store, StoredRecord};

use crate::authorization::Principal;
use crate::listing::ScanBudget;
use crate::party::Registrant;
use crate::prefix::Prefix;
use crate::registration::{DoiStatus, Registration, RegistrationState};
use crate::{Caller, Error, Registry, RegistryError, cost, party};

/// DOIs of one list request, and where to continue.
#[derive(Clone, Debug, Default)]
pub struct DoiList {
    /// DOIs in key order.
    pub items: Vec<DoiListItem>,
    /// Cursor for `after`, if there are more.
    pub next: Option<String>,
}

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

impl Registry {
    /// Lists DOIs under a prefix, of a registrant, or both, in key order. Reserved names are returned to authorized
    /// principals only. There may be fewer than requested although more follow.
    #[allow(
        clippy::too_many_arguments,
        reason = "independent inputs: filters, page, caller, time and budget"
    )]
    pub async fn list_dois(
        &self,
        prefix: Option<&str>,
        registrant: Option<&str>,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<DoiList, RegistryError> {
        budget.charge(cost::list(limit)).map_err(Error::from)?;
        let principal = self.principal(caller, now_ms, budget).await?;
        // Ids are case-insensitive; the stored spelling is used from here on.
        let registrant = match registrant {
            Some(id) => Some(
                self.get_object::<Registrant>(party::RegistryObjectKind::Registrant, id, budget)
                    .await?
                    .value
                    .id,
            ),
            None => None,
        };
        let registrant = registrant.as_deref();
        let mut list = DoiListing {
            principal,
            registrants: BTreeMap::new(),
            only: registrant,
            limit,
            scan_budget: ScanBudget::new(),
            items: Vec::new(),
        };
        if let Some(prefix) = prefix {
            let object = self.get_prefix(prefix, budget).await?;
            let next = self.scan_prefix_names(&object.value, after, &mut list, budget).await?;
            return Ok(DoiList { items: list.items, next });
        }
        let Some(registrant) = registrant else {
            // No filter: prefix by prefix.
            let next = self.scan_all_prefixes(None, after, &mut list, budget).await?;
            return Ok(DoiList { items: list.items, next });
        };
        if after.is_none_or(|after| !after.starts_with(OWNED_CURSOR_PREFIX)) {
            let next = self.scan_all_prefixes(Some(registrant), after, &mut list, budget).await?;
            if next.is_some() {
                return Ok(DoiList { items: list.items, next });
            }
            if list.items.len() >= limit {
                return Ok(DoiList { items: list.items, next: Some(OWNED_CURSOR_PREFIX.into()) });
            }
        }
        let after = after.and_then(|after| after.strip_prefix(OWNED_CURSOR_PREFIX));
        let next = self.scan_owned_names(registrant, after, &mut list, budget).await?;
        Ok(DoiList { items: list.items, next })
    }

    /// Scans all prefixes of a registrant, or all prefixes.
    async fn scan_all_prefixes(
        &self,
        registrant: Option<&str>,
        after: Option<&str>,
        list: &mut DoiListing<'_>,
        budget: &mut Budget,
    ) -> Result<Option<String>, RegistryError> {
        let mut cursor = after.map(str::to_owned);
        loop {
            if list.scan_budget.is_exhausted() || list.items.len() >= list.limit {
                return Ok(cursor);
            }
            match self.scan_next_prefix(registrant, cursor.as_deref(), list, budget).await {
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
        &self,
        registrant: Option<&str>,
        cursor: Option<&str>,
        list: &mut DoiListing<'_>,
        budget: &mut Budget,
    ) -> Result<(Option<String>, bool), RegistryError> {
        let within = cursor.and_then(|cursor| cursor.split_once('/'));
        let prefix = match within {
            Some((prefix, _)) => self.get_prefix(prefix, budget).await?.value,
            None => {
                budget.charge(cost::STEP).map_err(Error::from)?;
                let mut next_prefix = None;
                let matches = |prefix: &Prefix| registrant.is_none_or(|id| *prefix.registrant == *id);
                let scan = self.scan_prefixes(cursor, &mut list.scan_budget, |prefix, _| {
                    next_prefix = Some(prefix).filter(matches);
                    next_prefix.is_none()
                });
                let more = scan.await?;
                let Some(prefix) = next_prefix else { return Ok((more, false)) };
                prefix
            }
        };
        // The prefix record used up the scan budget.
        let next = match list.scan_budget.is_exhausted() {
            true => Some(format!("{}/", prefix.prefix)),
            false => {
                self.scan_prefix_names(&prefix, cursor.filter(|_| within.is_some()), list, budget).await?
            }
        };
        let is_more = next.is_some();
        Ok((next.or_else(|| Some(prefix.prefix.into())), is_more))
    }

    /// Scans the names under one prefix; returns the cursor if there are more.
    async fn scan_prefix_names(
        &self,
        prefix: &Prefix,
        after: Option<&str>,
        list: &mut DoiListing<'_>,
        budget: &mut Budget,
    ) -> Result<Option<String>, RegistryError> {
        let after = after.and_then(|after| NameKey::new(after).ok());
        let (mut candidates, mut next, mut problem) = (Vec::new(), None, None);
        let remaining = list.limit.saturating_sub(list.items.len());
        let mut last: Option<Box<str>> = None;
        let (scan_budget, only) = (&mut list.scan_budget, list.only);
        self.store
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
            match self.add_if_visible(candidate, prefix, list, budget).await {
                Err(Error::BudgetExceeded(_)) if last_added.is_some() => {
                    return Ok(last_added.map(String::from));
                }
                result => result?,
            }
            last_added = Some(name);
        }
        Ok(next.map(String::from))
    }

    /// Scans names that a registrant owns under the prefixes of other registrants.
    async fn scan_owned_names(
        &self,
        registrant: &str,
        after: Option<&str>,
        list: &mut DoiListing<'_>,
        budget: &mut Budget,
    ) -> Result<Option<String>, RegistryError> {
        let key_prefix = format!("owned-name/{registrant}/").into_bytes();
        // A client that comes from the registrant's own prefixes starts here at the beginning.
        let mut cursor = after.unwrap_or_default().to_owned();
        let from = [&key_prefix[..], cursor.as_bytes()].concat();
        let remaining = list.limit.saturating_sub(list.items.len());
        let entries = self
            .store
            .list_aux(&key_prefix, (!cursor.is_empty()).then_some(&from[..]), remaining.saturating_add(1))
            .await?;
        let mut prefixes = BTreeMap::new();
        for (number, AuxEntry { key, value: name }) in entries.into_iter().enumerate() {
            if number == remaining || list.scan_budget.is_exhausted() {
                return Ok(Some(format!("{OWNED_CURSOR_PREFIX}{cursor}")));
            }
            let Ok(name) = std::str::from_utf8(&name) else { continue };
            match self.add_owned_name(name, registrant, &mut prefixes, list, budget).await {
                Err(rejection) if rejection.is_budget_exceeded() && Some(&*cursor) != after => {
                    return Ok(Some(format!("{OWNED_CURSOR_PREFIX}{cursor}")));
                }
                result => result?,
            }
            cursor = String::from_utf8_lossy(key.get(key_prefix.len()..).unwrap_or_default()).into_owned();
        }
        Ok(None)
    }

    async fn add_owned_name(
        &self,
        name: &str,
        registrant: &str,
        prefixes: &mut BTreeMap<Box<str>, Prefix>,
        list: &mut DoiListing<'_>,
        budget: &mut Budget,
    ) -> Result<(), RegistryError> {
        let Some((prefix, _)) = name.split_once('/') else { return Ok(()) };
        let Some(entry) = self.get_record(name, budget).await? else { return Ok(()) };
        list.scan_budget.charge(&entry);
        if !prefixes.contains_key(prefix) {
            prefixes.insert(prefix.into(), self.get_prefix(prefix, budget).await?.value);
        }
        // Names under a prefix that the registrant holds were listed with the prefix.
        let Some(prefix) = prefixes.get(prefix).filter(|prefix| *prefix.registrant != *registrant) else {
            return Ok(());
        };
        match DoiCandidate::from_record(&entry, prefix, list.only)? {
            Some(candidate) => Ok(self.add_if_visible(candidate, prefix, list, budget).await?),
            None => Ok(()),
        }
    }

    /// Adds a DOI to the list if it is visible to the principal.
    async fn add_if_visible(
        &self,
        candidate: DoiCandidate,
        prefix: &Prefix,
        list: &mut DoiListing<'_>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let DoiCandidate { item, is_reserved } = candidate;
        if is_reserved {
            if !list.registrants.contains_key(&item.registrant) {
                let object = self
                    .find_object::<Registrant>(
                        party::RegistryObjectKind::Registrant,
                        &item.registrant,
                        budget,
                    )
                    .await?;
                list.registrants.insert(item.registrant.clone(), object.map(|object| object.value));
            }
            let known = list.registrants.get(&item.registrant).and_then(Option::as_ref);
            if !known.is_some_and(|known| list.principal.can_read_under(&prefix.prefix, known)) {
                return Ok(());
            }
        }
        list.items.push(item);
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
        let owner = registration.owner.unwrap_or_else(|| prefix.registrant.clone());
        if only.is_some_and(|only| *owner != *only) {
            return Ok(None);
        }
        let url = entry.values.iter().find(|value| value.index == 1 && value.has_type("URL"));
        let url = url.filter(|url| url.permissions.is_public());
        let item = DoiListItem {
            name: entry.name.clone(),
            state: match (entry.status, registration.state) {
                (RecordStatus::Tombstone, _) => DoiStatus::Retired,
                (RecordStatus::Live, RegistrationState::Reserved) => DoiStatus::Reserved,
                (RecordStatus::Live, RegistrationState::Registered) => DoiStatus::Registered,
            },
            url: url.map(|url| String::from_utf8_lossy(&url.data).into_owned()),
            registrant: owner,
            updated_ms: registration.updated_ms,
        };
        Ok(Some(Self { item, is_reserved: registration.state == RegistrationState::Reserved }))
    }
}

/// State of one list request: principal, filters, scan budget, items.
struct DoiListing<'a> {
    principal: Principal,
    /// Owners of the reserved names found so far.
    registrants: BTreeMap<Box<str>, Option<Registrant>>,
    only: Option<&'a str>,
    limit: usize,
    scan_budget: ScanBudget,
    items: Vec<DoiListItem>,
}
