//! Plans adding, modifying and removing values.

use std::collections::{BTreeSet, HashMap};

use tendot_proto::record::AdminPermissions;
use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::StoredRecord;

use super::record_diff::{RecordDiff, is_same_value};
use super::{PlannedWrite, WritePlan, WritePlanner};
use crate::authorization::Requirement;
use crate::validate::{check_indexes, check_record};
use crate::{Error, InvalidValue};

impl WritePlanner<'_> {
    pub(super) async fn plan_add_values(
        &self,
        name: Handle<'_>,
        values: &[HandleValue<'_>],
        overwrite: bool,
        budget: &mut Budget,
    ) -> Result<WritePlan, Error> {
        self.check_not_empty(values)?;
        let (name, entry) = self.load_live_record(name, budget).await?;
        let Some(entry) = entry else { return Ok(WritePlan::not_found()) };
        let mut diff = RecordDiff::default();
        let old_by_index = by_index(&entry.values);
        let mut occupied_index = None;
        for value in values {
            match old_by_index.get(&value.index) {
                Some(old) if overwrite => diff.replace(old, value),
                Some(_) => {
                    occupied_index.get_or_insert(value.index);
                    diff.add(value);
                }
                None => diff.add(value),
            }
        }
        let existed = values.iter().any(|value| old_by_index.contains_key(&value.index));
        let result = match occupied_index {
            Some(index) => Err(Error::ValueExists { index }),
            None => self.merge_values(&name, &entry, &diff, values, budget),
        };
        let result = result.map(|planned| PlannedWrite { existed, ..planned });
        self.to_plan(&name, &entry, &diff, result, budget).await
    }

    pub(super) async fn plan_modify_values(
        &self,
        name: Handle<'_>,
        values: &[HandleValue<'_>],
        budget: &mut Budget,
    ) -> Result<WritePlan, Error> {
        self.check_not_empty(values)?;
        let (name, entry) = self.load_live_record(name, budget).await?;
        let entry = entry.ok_or(Error::NotFound)?;
        let mut diff = RecordDiff::default();
        let old_by_index = by_index(&entry.values);
        for value in values {
            // Returned without authorization, as by deployed servers.
            let old = old_by_index.get(&value.index).ok_or(Error::ValuesNotFound)?;
            diff.modify(old, value);
        }
        let result = self.merge_values(&name, &entry, &diff, values, budget);
        self.to_plan(&name, &entry, &diff, result, budget).await
    }

    pub(super) async fn plan_remove_values(
        &self,
        name: Handle<'_>,
        indexes: &[u32],
        budget: &mut Budget,
    ) -> Result<WritePlan, Error> {
        if indexes.is_empty() {
            return Err(InvalidValue::no_values().into());
        }
        let (name, entry) = self.load_live_record(name, budget).await?;
        let Some(entry) = entry else { return Ok(WritePlan::not_found()) };
        let indexes: BTreeSet<u32> = indexes.iter().copied().collect();
        let mut diff = RecordDiff::default();
        let (removed, remaining): (Vec<&HandleValue<'_>>, Vec<_>) =
            entry.values.iter().partition(|value| indexes.contains(&value.index));
        for value in &removed {
            diff.remove(value);
        }
        if removed.is_empty() {
            diff.required = AdminPermissions::REMOVE_VALUE;
        }
        let missing = removed.len() < indexes.len();
        let result = if missing { Err(Error::ValuesNotFound) } else { diff.check_writable() };
        let requirement = Requirement::admin(
            self.rules.record_admins(Handle::from(&*name), &entry.values, diff.required, budget).await?,
        );
        let remaining = remaining.into_iter().cloned().collect();
        let result = result.and_then(|()| PlannedWrite::put(name, remaining, Some(&entry)));
        Ok(WritePlan { requirement, changes_access: diff.changes_access, result })
    }

    fn check_not_empty(&self, values: &[HandleValue<'_>]) -> Result<(), Error> {
        if values.is_empty() {
            return Err(InvalidValue::no_values().into());
        }
        check_indexes(values, &self.rules.settings.limits)
    }

    async fn to_plan(
        &self,
        name: &str,
        entry: &StoredRecord,
        diff: &RecordDiff,
        result: Result<PlannedWrite, Error>,
        budget: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let requirement = match diff.requirement_without_admin() {
            Some(requirement) => requirement,
            None => {
                let name = Handle::from(name);
                Requirement::admin(
                    self.rules.record_admins(name, &entry.values, diff.required, budget).await?,
                )
            }
        };
        Ok(WritePlan { requirement, changes_access: diff.changes_access, result })
    }

    /// Merges values into a record by index; new ones are appended. Unchanged values keep their timestamps.
    fn merge_values(
        &self,
        name: &str,
        entry: &StoredRecord,
        diff: &RecordDiff,
        new_values: &[HandleValue<'_>],
        budget: &mut Budget,
    ) -> Result<PlannedWrite, Error> {
        let limits = &self.rules.settings.limits;
        diff.check_writable()?;
        if !diff.has_changes {
            return Ok(PlannedWrite::unchanged(name.into()));
        }
        let new_by_index = by_index(new_values);
        let mut merged = Vec::with_capacity(entry.values.len() + new_values.len());
        for old in &entry.values {
            match new_by_index.get(&old.index) {
                Some(new) if !is_same_value(old, new) => {
                    self.check_new_value(new, &entry.values, budget)?;
                    merged.push(self.to_stored(new));
                }
                _ => merged.push(old.clone()),
            }
        }
        let old_by_index = by_index(&entry.values);
        for new in new_values.iter().filter(|new| !old_by_index.contains_key(&new.index)) {
            self.check_new_value(new, &entry.values, budget)?;
            merged.push(self.to_stored(new));
        }
        check_record(&merged, limits)?;
        PlannedWrite::put(name.into(), merged, Some(entry))
    }
}

/// Values by index. If an imported record has an index twice, the first one counts.
pub(super) fn by_index<'v, 'a>(values: &'v [HandleValue<'a>]) -> HashMap<u32, &'v HandleValue<'a>> {
    let mut by_index = HashMap::with_capacity(values.len());
    for value in values {
        by_index.entry(value.index).or_insert(value);
    }
    by_index
}
