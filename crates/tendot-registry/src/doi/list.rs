//! Names of a prefix or a registrant.

use tendot_proto::Work;
use tendot_store::{Entry, Key, State, Store};

use super::{Deposit, NameState, Stage};
use crate::party::{self, Held, Prefix, Registrant, Standing};
use crate::{Caller, Error, Refusal, Registry, price};

/// Some names, and where to go on.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The names.
    pub items: Vec<NameItem>,
    /// What to ask for as `after`, if there is more.
    pub next: Option<String>,
}

/// A name in a list.
#[derive(Clone, Debug)]
pub struct NameItem {
    /// As it was first spelled.
    pub name: Box<str>,
    /// What became of it.
    pub state: NameState,
    /// Where it leads first.
    pub url: Option<String>,
    /// The id of its registrant.
    pub registrant: Box<str>,
    /// When it was last changed, in milliseconds since 1970.
    pub updated: u64,
}

/// The cursor among names that a registrant has under the prefixes of others.
const OWNED: &str = "owned:";

/// Records that are looked at in one call, whether they are wanted or not.
const LOOKED_AT: usize = 10_000;

impl<S: Store> Registry<S> {
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
        let mut list = List { standing, registrants: Vec::new(), only: registrant, limit, items: Vec::new() };
        if let Some(prefix) = prefix {
            let held = self.prefix(prefix, work).await?;
            let next = self.names_under(&held.it, after, &mut list, work).await?;
            return Ok(Names { items: list.items, next });
        }
        let Some(registrant) = registrant else {
            // All that there are: prefix by prefix.
            let next = self.names_of_all(None, after, &mut list, work).await?;
            return Ok(Names { items: list.items, next });
        };
        if after.is_none_or(|after| !after.starts_with(OWNED)) {
            let next = self.names_of_all(Some(registrant), after, &mut list, work).await?;
            if next.is_some() {
                return Ok(Names { items: list.items, next });
            }
            if list.items.len() >= limit {
                return Ok(Names { items: list.items, next: Some(OWNED.into()) });
            }
        }
        let after = after.and_then(|after| after.strip_prefix(OWNED)).unwrap_or_default();
        let next = self.names_elsewhere(registrant, after, &mut list, work).await?;
        Ok(Names { items: list.items, next })
    }

    /// Names under all prefixes of a registrant, or of everybody.
    async fn names_of_all(
        &self,
        registrant: Option<&str>,
        after: Option<&str>,
        list: &mut List<'_>,
        work: &mut Work,
    ) -> Result<Option<String>, Refusal> {
        let mut after = after.map(str::to_owned);
        loop {
            // The prefix of where it stands, or the next one.
            let (start, within) = match &after {
                Some(after) => {
                    let prefix = after.split_once('/').map_or(&**after, |(prefix, _)| prefix).to_owned();
                    (Some(prefix), after.contains('/'))
                }
                None => (None, false),
            };
            let held = match start.as_deref().filter(|_| within) {
                Some(prefix) => Some(self.prefix(prefix, work).await?),
                None => {
                    let (mut items, _) = self.prefixes(registrant, None, start.as_deref(), 1, work).await?;
                    items.pop()
                }
            };
            let Some(Held { it: prefix, .. }) = held else { return Ok(None) };
            let begin = after.take().filter(|_| within);
            let next = self.names_under(&prefix, begin.as_deref(), list, work).await?;
            if next.is_some() {
                return Ok(next);
            }
            after = Some(prefix.prefix.to_string());
            if list.items.len() >= list.limit {
                return Ok(after);
            }
        }
    }

    /// Names under one prefix; where to go on, if there is more there.
    async fn names_under(
        &self,
        prefix: &Prefix,
        after: Option<&str>,
        list: &mut List<'_>,
        work: &mut Work,
    ) -> Result<Option<String>, Refusal> {
        let after = after.and_then(|after| Key::new(after).ok());
        let (mut found, mut next, mut seen) = (Vec::new(), None, 0);
        let room = list.limit.saturating_sub(list.items.len());
        let mut last: Option<Box<str>> = None;
        self.store
            .visit(Some(prefix.prefix.as_bytes()), after.as_ref(), |entry| {
                if found.len() >= room || seen >= LOOKED_AT {
                    next = last.take();
                    return false;
                }
                seen += 1;
                last = Some(entry.name.clone());
                found.push(entry.clone());
                true
            })
            .await?;
        for entry in found {
            if let Some(item) = self.item(&entry, prefix, list, work).await? {
                list.items.push(item);
            }
        }
        Ok(next.map(String::from))
    }

    /// Names that a registrant has under the prefixes of others.
    async fn names_elsewhere(
        &self,
        registrant: &str,
        after: &str,
        list: &mut List<'_>,
        work: &mut Work,
    ) -> Result<Option<String>, Refusal> {
        let beginning = format!("owned/{registrant}/").into_bytes();
        let from = [&beginning[..], after.as_bytes()].concat();
        let room = list.limit.saturating_sub(list.items.len());
        let after = (!after.is_empty()).then_some(&from[..]);
        let notes = self.store.notes(&beginning, after, room.saturating_add(1)).await?;
        let mut last = None;
        for (number, (key, name)) in notes.into_iter().enumerate() {
            if number == room {
                return Ok(last.map(|last: String| format!("{OWNED}{last}")));
            }
            let end = key.get(beginning.len()..).unwrap_or_default();
            last = Some(String::from_utf8_lossy(end).into_owned());
            let Ok(name) = std::str::from_utf8(&name) else { continue };
            let Some(entry) = self.get(name, work).await? else { continue };
            let Some((prefix, _)) = name.split_once('/') else { continue };
            let held = self.prefix(prefix, work).await?;
            // What has become its own prefix meanwhile was listed there.
            if *held.it.registrant == *registrant {
                continue;
            }
            if let Some(item) = self.item(&entry, &held.it, list, work).await? {
                list.items.push(item);
            }
        }
        Ok(None)
    }

    async fn item(
        &self,
        entry: &Entry,
        prefix: &Prefix,
        list: &mut List<'_>,
        work: &mut Work,
    ) -> Result<Option<NameItem>, Refusal> {
        let deposit = Deposit::of(entry)?;
        let owner = deposit.owner.unwrap_or_else(|| prefix.registrant.clone());
        if list.only.is_some_and(|only| *owner != *only) {
            return Ok(None);
        }
        if deposit.state == Stage::Reserved {
            if !list.registrants.iter().any(|known| known.id == owner) {
                let held = self.required::<Registrant>(party::Kind::Registrant, &owner, work).await?;
                list.registrants.push(held.it);
            }
            let known = list.registrants.iter().find(|known| known.id == owner);
            if !known.is_some_and(|known| list.standing.may_see_under(&prefix.prefix, known)) {
                return Ok(None);
            }
        }
        let url = entry.values.iter().find(|value| value.index == 1 && value.has_type("URL"));
        let url = url.filter(|url| url.permissions.is_public());
        Ok(Some(NameItem {
            name: entry.name.clone(),
            state: match (entry.state, deposit.state) {
                (State::Tombstone, _) => NameState::Tombstone,
                (State::Live, Stage::Reserved) => NameState::Reserved,
                (State::Live, Stage::Registered) => NameState::Registered,
            },
            url: url.map(|url| String::from_utf8_lossy(&url.data).into_owned()),
            registrant: owner,
            updated: deposit.updated,
        }))
    }
}

/// A list that is being made.
struct List<'a> {
    standing: Standing,
    /// Those whose reserved names were met.
    registrants: Vec<Registrant>,
    only: Option<&'a str>,
    limit: usize,
    items: Vec<NameItem>,
}

/// Where it is noted that a registrant has a name under the prefix of another. Names are longer than keys of notes may be.
pub(crate) fn owned_key(registrant: &str, name: &str) -> Result<Vec<u8>, Error> {
    let name = name.to_ascii_uppercase();
    Ok(format!("owned/{registrant}/{}", party::fingerprint(name.as_bytes())?).into_bytes())
}
