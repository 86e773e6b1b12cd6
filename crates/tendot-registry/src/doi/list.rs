//! Names of a prefix or a registrant.

use std::collections::BTreeMap;

use tendot_proto::Work;
use tendot_store::{Entry, Key, State, Store};

use super::{Deposit, DoiStatus, Stage};
use crate::party::{self, ScanBudget, Prefix, Registrant, Principal};
use crate::{Caller, Error, Refusal, Registry, price};

/// Some names, and where to go on.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The names.
    pub items: Vec<DoiListItem>,
    /// What to ask for as `after`, if there is more.
    pub next: Option<String>,
}

/// A name in a list.
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
    pub async fn names(
        &self,
        prefix: Option<&str>,
        registrant: Option<&str>,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        at: u64,
        work: &mut Work,
    ) -> Result<Names, Refusal> {
        work.spend(price::names(limit)).map_err(Error::from)?;
        let standing = self.standing(caller, at, work).await?;
        // As it was first spelled.
        let registrant = match registrant {
            Some(id) => Some(self.required::<Registrant>(party::Kind::Registrant, id, work).await?.it.id),
            None => None,
        };
        let registrant = registrant.as_deref();
        let mut list = List {
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
            return Ok(Names { items: list.items, next });
        }
        let Some(registrant) = registrant else {
            // All that there are: prefix by prefix.
            let next = self.scan_all_prefixes(None, after, &mut list, work).await?;
            return Ok(Names { items: list.items, next });
        };
        if after.is_none_or(|after| !after.starts_with(OWNED_CURSOR_PREFIX)) {
            let next = self.scan_all_prefixes(Some(registrant), after, &mut list, work).await?;
            if next.is_some() {
                return Ok(Names { items: list.items, next });
            }
            if list.items.len() >= limit {
                return Ok(Names { items: list.items, next: Some(OWNED_CURSOR_PREFIX.into()) });
            }
        }
        let after = after.and_then(|after| after.strip_prefix(OWNED_CURSOR_PREFIX));
        let next = self.scan_owned_names(registrant, after, &mut list, work).await?;
        Ok(Names { items: list.items, next })
    }

    /// Names under all prefixes of a registrant, or of everybody.
    async fn scan_all_prefixes(
        &self,
        registrant: Option<&str>,
        after: Option<&str>,
        list: &mut List<'_>,
        work: &mut Work,
    ) -> Result<Option<String>, Refusal> {
        let mut place = after.map(str::to_owned);
        loop {
            if list.looking.is_over() || list.items.len() >= list.limit {
                return Ok(place);
            }
            match self.scan_next_prefix(registrant, place.as_deref(), list, work).await {
                Ok((next, true)) => return Ok(next),
                Ok((None, false)) => return Ok(None),
                Ok((next, false)) => place = next,
                Err(refusal) if refusal.is_budget_exceeded() && place.as_deref() != after => return Ok(place),
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// Names under the prefix where a place is, or the next one. Where to go on, and whether there is more under this prefix.
    async fn scan_next_prefix(
        &self,
        registrant: Option<&str>,
        place: Option<&str>,
        list: &mut List<'_>,
        work: &mut Work,
    ) -> Result<(Option<String>, bool), Refusal> {
        let within = place.and_then(|place| place.split_once('/'));
        let prefix = match within {
            Some((prefix, _)) => self.prefix(prefix, work).await?.it,
            None => {
                work.spend(price::STEP).map_err(Error::from)?;
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
        let next = match list.looking.is_over() {
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
        list: &mut List<'_>,
        work: &mut Work,
    ) -> Result<Option<String>, Refusal> {
        let after = after.and_then(|after| Key::new(after).ok());
        let (mut found, mut next, mut problem) = (Vec::new(), None, None);
        let room = list.limit.saturating_sub(list.items.len());
        let mut last: Option<Box<str>> = None;
        let (looking, only) = (&mut list.looking, list.only);
        self.store
            .visit(Some(prefix.prefix.as_bytes()), after.as_ref(), |entry| {
                if found.len() >= room || !looking.at(entry) {
                    next = last.take();
                    return false;
                }
                last = Some(entry.name.clone());
                match Listed::of(entry, prefix, only) {
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
            match self.show(listed, prefix, list, work).await {
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
        list: &mut List<'_>,
        work: &mut Work,
    ) -> Result<Option<String>, Refusal> {
        let beginning = format!("owned/{registrant}/").into_bytes();
        // Who comes from a registrant's own prefixes has got somewhere, where they are at the beginning.
        let mut place = after.unwrap_or_default().to_owned();
        let from = [&beginning[..], place.as_bytes()].concat();
        let room = list.limit.saturating_sub(list.items.len());
        let notes = self
            .store
            .notes(&beginning, (!place.is_empty()).then_some(&from[..]), room.saturating_add(1))
            .await?;
        let mut prefixes = BTreeMap::new();
        for (number, (key, name)) in notes.into_iter().enumerate() {
            if number == room || list.looking.is_over() {
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
        list: &mut List<'_>,
        work: &mut Work,
    ) -> Result<(), Refusal> {
        let Some((prefix, _)) = name.split_once('/') else { return Ok(()) };
        let Some(entry) = self.get(name, work).await? else { return Ok(()) };
        list.looking.at(&entry);
        if !prefixes.contains_key(prefix) {
            prefixes.insert(prefix.into(), self.prefix(prefix, work).await?.it);
        }
        // What has become its own prefix meanwhile was listed there.
        let Some(prefix) = prefixes.get(prefix).filter(|prefix| *prefix.registrant != *registrant) else {
            return Ok(());
        };
        match Listed::of(&entry, prefix, list.only)? {
            Some(listed) => Ok(self.show(listed, prefix, list, work).await?),
            None => Ok(()),
        }
    }

    /// Adds a name to a list, if who asks may know of it.
    async fn show(
        &self,
        listed: Listed,
        prefix: &Prefix,
        list: &mut List<'_>,
        work: &mut Work,
    ) -> Result<(), Error> {
        let Listed { item, is_reserved } = listed;
        if is_reserved {
            if !list.registrants.contains_key(&item.registrant) {
                let held = self.held::<Registrant>(party::Kind::Registrant, &item.registrant, work).await?;
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

/// A name that may be in a list.
struct Listed {
    item: DoiListItem,
    is_reserved: bool,
}

impl Listed {
    /// If it is of the only registrant that is asked for.
    fn of(entry: &Entry, prefix: &Prefix, only: Option<&str>) -> Result<Option<Self>, Error> {
        let deposit = Deposit::of(entry)?;
        let owner = deposit.owner.unwrap_or_else(|| prefix.registrant.clone());
        if only.is_some_and(|only| *owner != *only) {
            return Ok(None);
        }
        let url = entry.values.iter().find(|value| value.index == 1 && value.has_type("URL"));
        let url = url.filter(|url| url.permissions.is_public());
        let item = DoiListItem {
            name: entry.name.clone(),
            state: match (entry.state, deposit.state) {
                (State::Tombstone, _) => DoiStatus::Tombstone,
                (State::Live, Stage::Reserved) => DoiStatus::Reserved,
                (State::Live, Stage::Registered) => DoiStatus::Registered,
            },
            url: url.map(|url| String::from_utf8_lossy(&url.data).into_owned()),
            registrant: owner,
            updated: deposit.updated,
        };
        Ok(Some(Self { item, is_reserved: deposit.state == Stage::Reserved }))
    }
}

/// A list that is being made.
struct List<'a> {
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
    Ok(format!("owned/{registrant}/{}", party::fingerprint(name.as_bytes())?).into_bytes())
}
