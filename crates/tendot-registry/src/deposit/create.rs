//! A record comes, or gets other values altogether.

use tendot_proto::record::AdminPermissions;
use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::{RecordStatus, StoredRecord};

use super::change::by_index;
use super::difference::{RecordDiff, is_same_value};
use super::{PlannedWrite, WritePlan, with_timestamp};
use crate::doi::is_reserved;
use crate::permission::{AdminSet, Requirement};
use crate::validate::{
    check_handle_name, check_indexes, check_record, check_value, has_mixed_scripts, normalization_variants,
};
use crate::{Error, Registry, WriteWarning, price};

impl Registry {
    pub(super) async fn plan_create(
        &self,
        name: Handle<'_>,
        values: &[HandleValue<'_>],
        overwrite: bool,
        date: u32,
        work: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let limits = &self.settings.limits;
        let text = check_handle_name(name, limits)?;
        check_indexes(values, limits)?;
        self.check_server_responsible(name, work).await?;
        match self.get_record(text, work).await? {
            None => self.plan_new(name, text, values, date, work).await,
            Some(entry) if entry.state == RecordStatus::Tombstone => {
                Err(Error::NotGivenAgain { name: entry.name })
            }
            // That it is there is told only to those who could have made it.
            Some(entry) if is_reserved(&entry) => {
                let needed = Requirement::admin(self.creation_admins(name, work).await?);
                Ok(WritePlan { needed, outcome: Err(Error::AlreadyExists { name: entry.name }) })
            }
            Some(entry) if overwrite => self.plan_overwrite(name, &entry, values, date, work).await,
            // That a name is reserved is told only to those who could have it.
            Some(entry) if is_reserved(&entry) => {
                let needed = Requirement::admin(self.creation_admins(name, work).await?);
                Ok(WritePlan { needed, outcome: Err(Error::AlreadyExists { name: entry.name }) })
            }
            Some(entry) => Err(Error::AlreadyExists { name: entry.name }),
        }
    }

    async fn plan_new(
        &self,
        name: Handle<'_>,
        text: &str,
        values: &[HandleValue<'_>],
        date: u32,
        work: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let limits = &self.settings.limits;
        let outcome = values
            .iter()
            .try_for_each(|value| check_value(value, limits))
            .and_then(|()| check_record(values, limits))
            .map(|()| values.iter().map(|value| with_timestamp(value, date)).collect())
            .map(|values| PlannedWrite::put(text.into(), values, None))
            .map_err(Error::from);
        let outcome = match (self.find_confusable(text, work).await?, outcome) {
            (Some(with), Ok(_)) if !limits.confusable_names => Err(Error::Confusable { with }),
            (with, Ok(mut outcome)) => {
                outcome.notes.extend(with.map(|name| WriteWarning::ConfusableWith { name }));
                outcome.notes.extend(has_mixed_scripts(text).then_some(WriteWarning::MixedScripts));
                Ok(outcome)
            }
            (_, error) => error,
        };
        let needed = Requirement::admin(self.creation_admins(name, work).await?);
        Ok(WritePlan { needed, outcome })
    }

    /// A record whose name is the same text, with its accents composed otherwise throughout.
    pub(crate) async fn find_confusable(
        &self,
        name: &str,
        work: &mut Budget,
    ) -> Result<Option<Box<str>>, Error> {
        work.charge(price::bytes(name.len()))?;
        for form in normalization_variants(name) {
            if let Some(entry) = self.get_record(&form, work).await? {
                return Ok(Some(entry.name));
            }
        }
        Ok(None)
    }

    /// Derived prefixes by the right of the prefix that they are derived from, all other names by that of their prefix.
    async fn creation_admins(&self, name: Handle<'_>, work: &mut Budget) -> Result<AdminSet, Error> {
        match name.parent_prefix_handle() {
            Some(parent) => self.prefix_admins(parent, AdminPermissions::ADD_DERIVED_PREFIX, work).await,
            None => self.prefix_admins(&name.prefix_handle(), AdminPermissions::ADD_HANDLE, work).await,
        }
    }

    async fn plan_overwrite(
        &self,
        name: Handle<'_>,
        entry: &StoredRecord,
        values: &[HandleValue<'_>],
        date: u32,
        work: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let text = name.to_str().unwrap_or_default();
        let (merged, difference, checked) = self.merge_record(&entry.values, values, date);
        let outcome = if difference.any {
            checked
                .and_then(|()| difference.check_writable())
                .map(|()| PlannedWrite::put(text.into(), merged, Some(entry)))
        } else {
            Ok(PlannedWrite::unchanged(text.into()))
        };
        let needed = self.overwrite_requirement(name, entry, &difference, work).await?;
        Ok(WritePlan { needed, outcome })
    }

    /// The new values with the dates of those that stay, what changes, and whether what is new is valid.
    fn merge_record(
        &self,
        old: &[HandleValue<'static>],
        new: &[HandleValue<'_>],
        date: u32,
    ) -> (Vec<HandleValue<'static>>, RecordDiff, Result<(), Error>) {
        let limits = &self.settings.limits;
        let mut difference = RecordDiff::default();
        let mut checked = check_record(new, limits).map_err(Error::from);
        let mut merged = Vec::with_capacity(new.len());
        let before = by_index(old);
        for value in new {
            match before.get(&value.index) {
                Some(same) if is_same_value(same, value) => {
                    difference.keep_unchanged(same);
                    merged.push((*same).clone());
                    continue;
                }
                Some(other) => difference.modify(other, value),
                None => difference.add(value),
            }
            checked = checked.and_then(|()| Ok(check_value(value, limits)?));
            merged.push(with_timestamp(value, date));
        }
        let after = by_index(new);
        for value in old.iter().filter(|value| !after.contains_key(&value.index)) {
            difference.remove(value);
        }
        (merged, difference, checked)
    }

    /// The rights for all that changes; or to give such rights; or to delete the record and create it again.
    async fn overwrite_requirement(
        &self,
        name: Handle<'_>,
        entry: &StoredRecord,
        difference: &RecordDiff,
        work: &mut Budget,
    ) -> Result<Requirement, Error> {
        if let Some(needed) = difference.requirement_without_admin() {
            return Ok(needed);
        }
        let values = &entry.values;
        let change = self.record_admins(name, values, difference.bits, work).await?;
        let give = self.record_admins(name, values, AdminPermissions::ADD_ADMIN, work).await?;
        let delete = self.record_admins(name, values, AdminPermissions::DELETE_HANDLE, work).await?;
        let create = self.creation_admins(name, work).await?;
        Ok(Requirement::Rights(vec![vec![change], vec![give], vec![delete, create]]))
    }
}
