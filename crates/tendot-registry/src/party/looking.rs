//! Lists are bounded by what is looked at, whether it is wanted or not: who goes on where they end pays again.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use tendot_proto::Budget;
use tendot_store::{RecordStatus, StoredRecord};

use super::{Held, Principal, Registrant, RegistryObjectKind, decode};
use crate::{Error, Registry, price};

/// Records that are looked at in one call.
const MAX_SCANNED_RECORDS: usize = 10_000;

/// Bytes of them.
const MAX_SCANNED_BYTES: usize = 8 << 20;

/// Records and bytes that one list request may still scan.
#[derive(Debug)]
pub(crate) struct ScanBudget {
    records: usize,
    bytes: usize,
}

impl ScanBudget {
    pub(crate) const fn new() -> Self {
        Self { records: MAX_SCANNED_RECORDS, bytes: MAX_SCANNED_BYTES }
    }

    pub(crate) const fn is_exhausted(&self) -> bool {
        self.records == 0 || self.bytes == 0
    }

    /// Whether a record may be looked at; of those that are too large, one at a time.
    pub(crate) fn charge(&mut self, entry: &StoredRecord) -> bool {
        if self.is_exhausted() {
            return false;
        }
        let values: usize = entry.values.iter().map(|value| value.data.len()).sum();
        self.records -= 1;
        self.bytes = self.bytes.saturating_sub(values.saturating_add(entry.registration.len()));
        true
    }
}

/// Objects with their ids, and where to continue.
type ScannedObjects<I> = (Vec<(String, I)>, Option<String>);

impl Registry {
    /// A page of all of a kind of which `item` makes something, and where to go on. There may be fewer than were asked for,
    /// and yet more to come.
    pub(crate) async fn list_objects<T: DeserializeOwned, I: Send>(
        &self,
        kind: RegistryObjectKind,
        after: Option<&str>,
        limit: usize,
        work: &mut Budget,
        item: impl Fn(Held<T>) -> Option<I> + Send + Sync,
    ) -> Result<(Vec<I>, Option<String>), Error> {
        let (items, next) =
            self.scan_objects(kind, after, limit, &mut ScanBudget::new(), work, &item).await?;
        Ok((items.into_iter().map(|(_, item)| item).collect(), next))
    }

    async fn scan_objects<T: DeserializeOwned, I: Send>(
        &self,
        kind: RegistryObjectKind,
        after: Option<&str>,
        limit: usize,
        looking: &mut ScanBudget,
        work: &mut Budget,
        item: &(impl Fn(Held<T>) -> Option<I> + Send + Sync),
    ) -> Result<ScannedObjects<I>, Error> {
        work.charge(price::list(limit))?;
        let (mut items, mut next, mut last) = (Vec::new(), None, None);
        self.visit_records(kind, after, |id, entry| {
            if !looking.charge(entry) {
                next = last.take();
                return Ok(false);
            }
            if entry.state == RecordStatus::Live
                && let Some(item) = item(Held { it: decode(entry)?, revision: entry.revision })
            {
                if items.len() >= limit {
                    next = last.take();
                    return Ok(false);
                }
                items.push((id.to_owned(), item));
            }
            last = Some(id.to_owned());
            Ok(true)
        })
        .await?;
        Ok((items, next))
    }

    /// The same for who acts for one of the registrants that `item` names, or if it names none. Where work runs short, the
    /// page ends.
    pub(crate) async fn list_objects_for<T: DeserializeOwned, I: Send>(
        &self,
        kind: RegistryObjectKind,
        after: Option<&str>,
        limit: usize,
        standing: &Principal,
        work: &mut Budget,
        item: impl Fn(Held<T>) -> Option<(I, Vec<Box<str>>)> + Send + Sync,
    ) -> Result<(Vec<I>, Option<String>), Error> {
        let (mut shown, mut looking, mut known) = (Vec::new(), ScanBudget::new(), BTreeMap::new());
        let mut place = after.map(str::to_owned);
        loop {
            let room = limit.saturating_sub(shown.len());
            let found = self.scan_objects(kind, place.as_deref(), room, &mut looking, work, &item).await;
            let (items, next) = match found {
                Err(Error::Exhausted(_)) if place.as_deref() != after => return Ok((shown, place)),
                found => found?,
            };
            for (id, (item, whom)) in items {
                match self.is_for_any(&whom, standing, &mut known, work).await {
                    Err(Error::Exhausted(_)) if place.as_deref() != after => return Ok((shown, place)),
                    is_shown => shown.extend(is_shown?.then_some(item)),
                }
                place = Some(id);
            }
            place = next;
            if place.is_none() || shown.len() >= limit || looking.is_exhausted() {
                return Ok((shown, place));
            }
        }
    }

    async fn is_for_any(
        &self,
        whom: &[Box<str>],
        standing: &Principal,
        known: &mut BTreeMap<Box<str>, bool>,
        work: &mut Budget,
    ) -> Result<bool, Error> {
        for id in whom {
            let acts = match known.get(id) {
                Some(known) => *known,
                None => {
                    let held =
                        self.find_object::<Registrant>(RegistryObjectKind::Registrant, id, work).await?;
                    let acts = held.is_some_and(|held| standing.is_for_registrant(&held.it));
                    known.insert(id.clone(), acts);
                    acts
                }
            };
            if acts {
                return Ok(true);
            }
        }
        Ok(whom.is_empty())
    }
}
