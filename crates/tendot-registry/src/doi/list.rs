//! Names of a prefix or a registrant.

use std::collections::BTreeMap;

use tendot_proto::Budget;
use tendot_store::{NameKey, RecordStatus, Store, StoredRecord};

use super::{DoiStatus, Registration, RegistrationState};
use crate::party::{self, Prefix, Principal, Registrant, ScanBudget};
use crate::{Caller, Error, Registry, RegistryError, price};

/// DOIs of one list request, and where to continue.
#[derive(Clone, Debug, Default)]
pub struct DoiList {
    /// The names.
    pub items: Vec<DoiListItem>,
    /// What to ask for as `after`, if there is more.
    pub next: Option<String>,
}

/// DOI in a list.
#[derive(Clone, Debug)]
pub struct DoiListItem {
    /// As it was first spelled.
    pub name: Box<str>,
    /// What became of it.
    pub state: DoiStatus,
    /// Where it leads first.
    pub url: Option<String>,
    /// The id of its registrant.
    pub registrant: Box<str>,
    /// When it was last changed, in milliseconds since 1970.
    pub updated: u64,
}

/// The cursor among names that a registrant has under the prefixes of others.
const OWNED_CURSOR_PREFIX: &str = "owned:";

impl Registry {
    /// Names under a prefix, of a registrant, or both, in the order of their keys; names that are only reserved are told only
    /// to those concerned. There may be fewer than were asked for, and yet more to come.
    #[allow(
        clippy::too_many_arguments,
        reason = "which names, as whom and when: none of them stands for another"
    )]
    pub async fn list_dois(
        &self,
        prefix: Option<&str>,
        registrant: Option<&str>,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<DoiList, RegistryError> {
        work.charge(price::list(limit)).map_err(Error::from)?;
        let standing = self.principal(caller, at, work).await?;
        // As it was first spelled.
        let registrant = match registrant {
            Some(id) => Some(
                self.get_object::<Registrant>(party::RegistryObjectKind::Registrant, id, work).await?.it.id,
            ),
            None => None,
        };
        let registrant = registrant.as_deref();
        let mut list = DoiListing {
            standing,
            registrants: BTreeMap::new(),
            only: registrant,
            limit,
            looking: ScanBudget::new(),
            items: Vec::new(),
        };
        if let Some(prefix) = prefix {
            let held = self.prefix(prefix, work).await?;
            let next = self.scan_prefix_names(&held.it, after, &mut list, work).await?;
            return Ok(DoiList { items: list.items, next });
        }
        let Some(registrant) = registrant else {
            // All that there are: prefix by prefix.
            let next = self.scan_all_prefixes(None, after, &mut list, work).await?;
            return Ok(DoiList { items: list.items, next });
        };
        if after.is_none_or(|after| !after.starts_with(OWNED_CURSOR_PREFIX)) {
            let next = self.scan_all_prefixes(Some(registrant), after, &mut list, work).await?;
            if next.is_some() {
                return Ok(DoiList { items: list.items, next });
            }
            if list.items.len() >= limit {
                return Ok(DoiList { items: list.items, next: Some(OWNED_CURSOR_PREFIX.into()) });
            }
        }
        let after = after.and_then(|after| after.strip_prefix(OWNED_CURSOR_PREFIX));
        let next = self.scan_owned_names(registrant, after, &mut list, work).await?;
        Ok(DoiList { items: list.items, next })
    }

    /// Names under all prefixes of a registrant, or of everybody.
    async fn scan_all_prefixes(
        &self,
        registrant: Option<&str>,
        after: Option<&str>,
        list: &mut DoiListing<'_>,
        work: &mut Budget,
    ) -> Result<Option<String>, RegistryError> {
        let mut place = after.map(str::to_owned);
        loop {
            if list.looking.is_exhausted() || list.items.len() >= list.limit {
                return Ok(place);
            }
            match self.scan_next_prefix(registrant, place.as_deref(), list, work).await {
                Ok((next, true)) => return Ok(next),
                Ok((None, false)) => return Ok(None),
                Ok((next, false)) => place = next,
                Err(refusal) if refusal.is_budget_exceeded() && place.as_deref() != after => {
                    return Ok(place);
                }
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// Names under the prefix where a place is, or the next one. Where to go on, and whether there is more under this prefix.
    async fn scan_next_prefix(
        &self,
        registrant: Option<&str>,
        place: Option<&str>,
        list: &mut DoiListing<'_>,
        work: &mut Budget,
    ) -> Result<(Option<String>, bool), RegistryError> {
        let within = place.and_then(|place| place.split_once('/'));
        let prefix = match within {
            Some((prefix, _)) => self.prefix(prefix, work).await?.it,
            None => {
                work.charge(price::STEP).map_err(Error::from)?;
                let mut found = None;
                let is_it = |prefix: &Prefix| registrant.is_none_or(|id| *prefix.registrant == *id);
                let look = self.look_at_prefixes(place, &mut list.looking, |prefix, _| {
                    found = Some(prefix).filter(is_it);
                    found.is_none()
                });
                let more = look.await?;
                let Some(prefix) = found else { return Ok((more, false)) };
                prefix
            }
        };
        // The last record that may be looked at was that of the prefix.
        let next = match list.looking.is_exhausted() {
            true => Some(format!("{}/", prefix.prefix)),
            false => self.scan_prefix_names(&prefix, place.filter(|_| within.is_some()), list, work).await?,
        };
        let is_more = next.is_some();
        Ok((next.or_else(|| Some(prefix.prefix.into())), is_more))
    }

    /// Names under one prefix; where to go on, if there is more there.
    async fn scan_prefix_names(
        &self,
        prefix: &Prefix,
        after: Option<&str>,
        list: &mut DoiListing<'_>,
        work: &mut Budget,
    ) -> Result<Option<String>, RegistryError> {
        let after = after.and_then(|after| NameKey::new(after).ok());
        let (mut found, mut next, mut problem) = (Vec::new(), None, None);
        let room = list.limit.saturating_sub(list.items.len());
        let mut last: Option<Box<str>> = None;
        let (looking, only) = (&mut list.looking, list.only);
        self.store
            .scan_records(Some(prefix.prefix.as_bytes()), after.as_ref(), |entry| {
                if found.len() >= room || !looking.charge(entry) {
                    next = last.take();
                    return false;
                }
                last = Some(entry.name.clone());
                match DoiCandidate::from_record(entry, prefix, only) {
                    Ok(listed) => found.extend(listed),
                    Err(error) => problem = Some(error),
                }
                problem.is_none()
            })
            .await?;
        problem.map_or(Ok(()), Err)?;
        let mut done = None;
        for listed in found {
            let name = listed.item.name.clone();
            match self.add_if_visible(listed, prefix, list, work).await {
                Err(Error::Exhausted(_)) if done.is_some() => return Ok(done.map(String::from)),
                shown => shown?,
            }
            done = Some(name);
        }
        Ok(next.map(String::from))
    }

    /// Names that a registrant has under the prefixes of others.
    async fn scan_owned_names(
        &self,
        registrant: &str,
        after: Option<&str>,
        list: &mut DoiListing<'_>,
        work: &mut Budget,
    ) -> Result<Option<String>, RegistryError> {
        let beginning = format!("owned/{registrant}/").into_bytes();
        // Who comes from a registrant's own prefixes has got somewhere, where they are at the beginning.
        let mut place = after.unwrap_or_default().to_owned();
        let from = [&beginning[..], place.as_bytes()].concat();
        let room = list.limit.saturating_sub(list.items.len());
        let notes = self
            .store
            .list_aux(&beginning, (!place.is_empty()).then_some(&from[..]), room.saturating_add(1))
            .await?;
        let mut prefixes = BTreeMap::new();
        for (number, (key, name)) in notes.into_iter().enumerate() {
            if number == room || list.looking.is_exhausted() {
                return Ok(Some(format!("{OWNED_CURSOR_PREFIX}{place}")));
            }
            let Ok(name) = std::str::from_utf8(&name) else { continue };
            match self.add_owned_name(name, registrant, &mut prefixes, list, work).await {
                Err(refusal) if refusal.is_budget_exceeded() && Some(&*place) != after => {
                    return Ok(Some(format!("{OWNED_CURSOR_PREFIX}{place}")));
                }
                shown => shown?,
            }
            place = String::from_utf8_lossy(key.get(beginning.len()..).unwrap_or_default()).into_owned();
        }
        Ok(None)
    }

    async fn add_owned_name(
        &self,
        name: &str,
        registrant: &str,
        prefixes: &mut BTreeMap<Box<str>, Prefix>,
        list: &mut DoiListing<'_>,
        work: &mut Budget,
    ) -> Result<(), RegistryError> {
        let Some((prefix, _)) = name.split_once('/') else { return Ok(()) };
        let Some(entry) = self.get_record(name, work).await? else { return Ok(()) };
        list.looking.charge(&entry);
        if !prefixes.contains_key(prefix) {
            prefixes.insert(prefix.into(), self.prefix(prefix, work).await?.it);
        }
        // What has become its own prefix meanwhile was listed there.
        let Some(prefix) = prefixes.get(prefix).filter(|prefix| *prefix.registrant != *registrant) else {
            return Ok(());
        };
        match DoiCandidate::from_record(&entry, prefix, list.only)? {
            Some(listed) => Ok(self.add_if_visible(listed, prefix, list, work).await?),
            None => Ok(()),
        }
    }

    /// Adds a name to a list, if who asks may know of it.
    async fn add_if_visible(
        &self,
        listed: DoiCandidate,
        prefix: &Prefix,
        list: &mut DoiListing<'_>,
        work: &mut Budget,
    ) -> Result<(), Error> {
        let DoiCandidate { item, is_reserved } = listed;
        if is_reserved {
            if !list.registrants.contains_key(&item.registrant) {
                let held = self
                    .find_object::<Registrant>(party::RegistryObjectKind::Registrant, &item.registrant, work)
                    .await?;
                list.registrants.insert(item.registrant.clone(), held.map(|held| held.it));
            }
            let known = list.registrants.get(&item.registrant).and_then(Option::as_ref);
            if !known.is_some_and(|known| list.standing.can_read_under(&prefix.prefix, known)) {
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
    /// If it is of the only registrant that is asked for.
    fn from_record(entry: &StoredRecord, prefix: &Prefix, only: Option<&str>) -> Result<Option<Self>, Error> {
        let deposit = Registration::of_record(entry)?;
        let owner = deposit.owner.unwrap_or_else(|| prefix.registrant.clone());
        if only.is_some_and(|only| *owner != *only) {
            return Ok(None);
        }
        let url = entry.values.iter().find(|value| value.index == 1 && value.has_type("URL"));
        let url = url.filter(|url| url.permissions.is_public());
        let item = DoiListItem {
            name: entry.name.clone(),
            state: match (entry.state, deposit.state) {
                (RecordStatus::Tombstone, _) => DoiStatus::Tombstone,
                (RecordStatus::Live, RegistrationState::Reserved) => DoiStatus::Reserved,
                (RecordStatus::Live, RegistrationState::Registered) => DoiStatus::Registered,
            },
            url: url.map(|url| String::from_utf8_lossy(&url.data).into_owned()),
            registrant: owner,
            updated: deposit.updated,
        };
        Ok(Some(Self { item, is_reserved: deposit.state == RegistrationState::Reserved }))
    }
}

/// State of one list request: principal, filters, scan budget, items.
struct DoiListing<'a> {
    standing: Principal,
    /// Those whose reserved names were met.
    registrants: BTreeMap<Box<str>, Option<Registrant>>,
    only: Option<&'a str>,
    limit: usize,
    looking: ScanBudget,
    items: Vec<DoiListItem>,
}

/// Where it is noted that a registrant has a name under the prefix of another. Names are longer than keys of notes may be.
pub(crate) fn owned_key(registrant: &str, name: &str) -> Result<Vec<u8>, Error> {
    let name = name.to_ascii_uppercase();
    Ok(format!("owned/{registrant}/{}", party::sha256_hex(name.as_bytes())?).into_bytes())
}
