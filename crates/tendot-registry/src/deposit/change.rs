//! Values of a record are added, removed and modified.

use std::collections::{BTreeSet, HashMap};

use tendot_proto::record::AdminPermissions;
use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::StoredRecord;

use super::difference::{RecordDiff, is_same_value};
use super::{PlannedWrite, WritePlan, with_timestamp};
use crate::permission::Requirement;
use crate::validate::{InvalidValue, check_indexes, check_record, check_value};
use crate::{Error, Registry};

impl Registry {
    pub(super) async fn plan_add_values(
        &self,
        name: Handle<'_>,
        values: &[HandleValue<'_>],
        overwrite: bool,
        date: u32,
        work: &mut Budget,
    ) -> Result<WritePlan, Error> {
        self.check_not_empty(values)?;
        let (name, entry) = self.load_live_record(name, work).await?;
        let Some(entry) = entry else { return Ok(WritePlan::not_found()) };
        let mut difference = RecordDiff::default();
        let before = by_index(&entry.values);
        let mut taken = None;
        for value in values {
            match before.get(&value.index) {
                Some(old) if overwrite => difference.replace(old, value),
                Some(_) => {
                    taken.get_or_insert(value.index);
                    difference.add(value);
                }
                None => difference.add(value),
            }
        }
        let replaced = values.iter().any(|value| before.contains_key(&value.index));
        let outcome = match taken {
            Some(index) => Err(Error::ValueExists { index }),
            None => self.merge_values(&name, &entry, &difference, values, date),
        };
        let outcome = outcome.map(|outcome| PlannedWrite { replaced, ..outcome });
        Ok(WritePlan { needed: self.requirement_for(&name, &entry, &difference, work).await?, outcome })
    }

    pub(super) async fn plan_modify_values(
        &self,
        name: Handle<'_>,
        values: &[HandleValue<'_>],
        date: u32,
        work: &mut Budget,
    ) -> Result<WritePlan, Error> {
        self.check_not_empty(values)?;
        let (name, entry) = self.load_live_record(name, work).await?;
        let entry = entry.ok_or(Error::NotFound)?;
        let mut difference = RecordDiff::default();
        let before = by_index(&entry.values);
        for value in values {
            // Told to everybody, as by the deployed software.
            let old = before.get(&value.index).ok_or(Error::NoValues)?;
            difference.modify(old, value);
        }
        let outcome = self.merge_values(&name, &entry, &difference, values, date);
        Ok(WritePlan { needed: self.requirement_for(&name, &entry, &difference, work).await?, outcome })
    }

    pub(super) async fn plan_remove_values(
        &self,
        name: Handle<'_>,
        indexes: &[u32],
        work: &mut Budget,
    ) -> Result<WritePlan, Error> {
        if indexes.is_empty() {
            return Err(InvalidValue::no_values().into());
        }
        let (name, entry) = self.load_live_record(name, work).await?;
        let Some(entry) = entry else { return Ok(WritePlan::not_found()) };
        let indexes: BTreeSet<u32> = indexes.iter().copied().collect();
        let mut difference = RecordDiff::default();
        let (removed, kept): (Vec<&HandleValue<'_>>, Vec<_>) =
            entry.values.iter().partition(|value| indexes.contains(&value.index));
        for value in &removed {
            difference.remove(value);
        }
        if removed.is_empty() {
            difference.bits = AdminPermissions::REMOVE_VALUE;
        }
        let missing = removed.len() < indexes.len();
        let outcome = if missing { Err(Error::NoValues) } else { difference.check_writable() };
        let needed = Requirement::admin(
            self.record_admins(Handle::from(&*name), &entry.values, difference.bits, work).await?,
        );
        let kept = kept.into_iter().cloned().collect();
        let outcome = outcome.map(|()| PlannedWrite::put(name, kept, Some(&entry)));
        Ok(WritePlan { needed, outcome })
    }

    fn check_not_empty(&self, values: &[HandleValue<'_>]) -> Result<(), Error> {
        if values.is_empty() {
            return Err(InvalidValue::no_values().into());
        }
        check_indexes(values, &self.settings.limits)
    }

    async fn requirement_for(
        &self,
        name: &str,
        entry: &StoredRecord,
        difference: &RecordDiff,
        work: &mut Budget,
    ) -> Result<Requirement, Error> {
        if let Some(needed) = difference.requirement_without_admin() {
            return Ok(needed);
        }
        let right = self.record_admins(Handle::from(name), &entry.values, difference.bits, work).await?;
        Ok(Requirement::admin(right))
    }

    /// The record with the given values in the place of those with the same index, or at its end. Those that do not
    /// change keep their dates.
    fn merge_values(
        &self,
        name: &str,
        entry: &StoredRecord,
        difference: &RecordDiff,
        given: &[HandleValue<'_>],
        date: u32,
    ) -> Result<PlannedWrite, Error> {
        let limits = &self.settings.limits;
        difference.check_writable()?;
        if !difference.any {
            return Ok(PlannedWrite::unchanged(name.into()));
        }
        let after = by_index(given);
        let mut merged = Vec::with_capacity(entry.values.len() + given.len());
        for old in &entry.values {
            match after.get(&old.index) {
                Some(new) if !is_same_value(old, new) => {
                    check_value(new, limits)?;
                    merged.push(with_timestamp(new, date));
                }
                _ => merged.push(old.clone()),
            }
        }
        let before = by_index(&entry.values);
        for new in given.iter().filter(|new| !before.contains_key(&new.index)) {
            check_value(new, limits)?;
            merged.push(with_timestamp(new, date));
        }
        check_record(&merged, limits)?;
        Ok(PlannedWrite::put(name.into(), merged, Some(entry)))
    }
}

/// The values by their indexes; of several with the same, which no deposit makes, the first.
pub(super) fn by_index<'v, 'a>(values: &'v [HandleValue<'a>]) -> HashMap<u32, &'v HandleValue<'a>> {
    let mut by_index = HashMap::with_capacity(values.len());
    for value in values {
        by_index.entry(value.index).or_insert(value);
    }
    by_index
}
