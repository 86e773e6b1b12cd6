//! Limits on how much one list request scans, and pages of registry objects.

use std::collections::BTreeMap;

use tendot_proto::Budget;
use tendot_store::{RecordStatus, StoredRecord};

use crate::authorization::Principal;
use crate::party::{Registrant, RegistryObject, Versioned, decode};
use crate::rules::RecordReader;
use crate::{Error, ResultPage, cost};

/// Maximum number of records that one request scans.
const MAX_SCANNED_RECORDS: usize = 10_000;

/// Maximum number of bytes that one request scans.
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

    /// For a write that concerns all records.
    pub(crate) const fn unlimited() -> Self {
        Self { records: usize::MAX, bytes: usize::MAX }
    }

    pub(crate) const fn is_exhausted(&self) -> bool {
        self.records == 0 || self.bytes == 0
    }

    /// Charges a record; false if the budget is used up. A single record may exceed it.
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

impl RecordReader {
    /// Lists objects of a kind for which `item` returns something. There may be fewer than requested although more follow.
    pub(crate) async fn list_objects<T: RegistryObject, I: Send>(
        &self,
        after: Option<&str>,
        limit: usize,
        budget: &mut Budget,
        item: impl Fn(Versioned<T>) -> Option<I> + Send + Sync,
    ) -> Result<ResultPage<I>, Error> {
        let page = self.scan_objects(after, limit, &mut ScanBudget::new(), budget, &item).await?;
        let items = page.items.into_iter().map(|(_, item)| item).collect();
        Ok(ResultPage { items, next: page.next })
    }

    /// Lists objects with their ids.
    async fn scan_objects<T: RegistryObject, I: Send>(
        &self,
        after: Option<&str>,
        limit: usize,
        scan_budget: &mut ScanBudget,
        budget: &mut Budget,
        item: &(impl Fn(Versioned<T>) -> Option<I> + Send + Sync),
    ) -> Result<ResultPage<(Box<str>, I)>, Error> {
        budget.charge(cost::list(limit))?;
        let (mut items, mut next, mut last) = (Vec::new(), None, None);
        self.visit_records(T::KIND, after, |id, entry| {
            if !scan_budget.charge(entry) {
                next = last.take();
                return Ok(false);
            }
            if entry.status == RecordStatus::Live
                && let Some(item) = item(Versioned { value: decode(entry)?, revision: entry.revision })
            {
                if items.len() >= limit {
                    next = last.take();
                    return Ok(false);
                }
                items.push((id.into(), item));
            }
            last = Some(id.into());
            Ok(true)
        })
        .await?;
        Ok(ResultPage { items, next })
    }

    /// Lists objects for a principal who acts for one of the registrants that `item` returns, or if it returns none. The page
    /// ends early if the budget runs out.
    pub(crate) async fn list_objects_for<T: RegistryObject, I: Send>(
        &self,
        after: Option<&str>,
        limit: usize,
        principal: &Principal,
        budget: &mut Budget,
        item: impl Fn(Versioned<T>) -> Option<(I, Vec<Box<str>>)> + Send + Sync,
    ) -> Result<ResultPage<I>, Error> {
        let (mut visible, mut scan_budget, mut acts_for) = (Vec::new(), ScanBudget::new(), BTreeMap::new());
        let mut cursor: Option<Box<str>> = after.map(Into::into);
        loop {
            let remaining = limit.saturating_sub(visible.len());
            let found =
                self.scan_objects(cursor.as_deref(), remaining, &mut scan_budget, budget, &item).await;
            let ResultPage { items, next } = match found {
                Err(Error::BudgetExceeded(_)) if cursor.as_deref() != after => {
                    return Ok(ResultPage { items: visible, next: cursor });
                }
                found => found?,
            };
            for (id, (item, registrants)) in items {
                match self.is_for_any(&registrants, principal, &mut acts_for, budget).await {
                    Err(Error::BudgetExceeded(_)) if cursor.as_deref() != after => {
                        return Ok(ResultPage { items: visible, next: cursor });
                    }
                    is_visible => visible.extend(is_visible?.then_some(item)),
                }
                cursor = Some(id);
            }
            cursor = next;
            if cursor.is_none() || visible.len() >= limit || scan_budget.is_exhausted() {
                return Ok(ResultPage { items: visible, next: cursor });
            }
        }
    }

    async fn is_for_any(
        &self,
        registrants: &[Box<str>],
        principal: &Principal,
        acts_for: &mut BTreeMap<Box<str>, bool>,
        budget: &mut Budget,
    ) -> Result<bool, Error> {
        for id in registrants {
            let acts = match acts_for.get(id) {
                Some(acts_for) => *acts_for,
                None => {
                    let object = self.find_object::<Registrant>(id, budget).await?;
                    let acts = object.is_some_and(|object| principal.is_for_registrant(&object.value));
                    acts_for.insert(id.clone(), acts);
                    acts
                }
            };
            if acts {
                return Ok(true);
            }
        }
        Ok(registrants.is_empty())
    }
}
