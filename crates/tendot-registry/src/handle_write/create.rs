//! Plans the creation of a record, or its overwriting.

use tendot_proto::record::AdminPermissions;
use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::{RecordStatus, StoredRecord};

use super::record_diff::{RecordDiff, is_same_value};
use super::values::by_index;
use super::{Overwrite, PlannedWrite, WritePlan, WritePlanner};
use crate::authorization::{AdminSet, Requirement, grants_access};
use crate::registration::is_reserved;
use crate::validate::{
    check_doi_syntax, check_handle_name, check_indexes, check_record, check_value, has_mixed_scripts,
};
use crate::{Error, WriteWarning};

impl WritePlanner<'_> {
    pub(super) async fn plan_create(
        &self,
        name: Handle<'_>,
        values: &[HandleValue<'_>],
        overwrite: Option<Overwrite>,
        budget: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let limits = &self.rules.settings.limits;
        let text = check_handle_name(name, limits)?;
        check_indexes(values, limits)?;
        self.rules.check_server_responsible(name, budget).await?;
        match self.rules.get_record(text, budget).await? {
            None => self.plan_new(name, text, values, budget).await,
            Some(entry) if entry.status == RecordStatus::Tombstone => {
                Err(Error::NameRetired { name: entry.name })
            }
            // Only callers who could create the name get to know that it is reserved.
            Some(entry) if is_reserved(&entry) => {
                let requirement = Requirement::admin(self.creation_admins(name, budget).await?);
                let result = Err(Error::AlreadyExists { name: entry.name });
                Ok(WritePlan { requirement, changes_access: false, result })
            }
            Some(entry) => match overwrite {
                Some(overwrite) => self.plan_overwrite(name, &entry, values, overwrite, budget).await,
                None => Err(Error::AlreadyExists { name: entry.name }),
            },
        }
    }

    async fn plan_new(
        &self,
        name: Handle<'_>,
        text: &str,
        values: &[HandleValue<'_>],
        budget: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let limits = &self.rules.settings.limits;
        check_doi_syntax(text, &self.rules.settings)?;
        let result = values
            .iter()
            .try_for_each(|value| check_value(value, limits, budget))
            .and_then(|()| check_record(values, limits))
            .map(|()| values.iter().map(|value| self.to_stored(value)).collect())
            .map_err(Error::from)
            .and_then(|values| PlannedWrite::put(text.into(), values, None));
        // ASCII names look only like names with other characters: that is worth the lookups only if they are rejected.
        let confusable = if text.is_ascii() && limits.allow_confusable_names {
            None
        } else {
            self.rules.find_confusable(text, budget).await?
        };
        let result = match (confusable, result) {
            (Some(with), Ok(_)) if !limits.allow_confusable_names => {
                Err(Error::Confusable { name: text.into(), with })
            }
            (with, Ok(mut planned)) => {
                planned.warnings.extend(with.map(|name| WriteWarning::ConfusableWith { name }));
                planned.warnings.extend(has_mixed_scripts(text).then_some(WriteWarning::MixedScripts));
                Ok(planned)
            }
            (_, error) => error,
        };
        let requirement = Requirement::admin(self.creation_admins(name, budget).await?);
        Ok(WritePlan { requirement, changes_access: values.iter().any(grants_access), result })
    }

    /// Admins who may create a name: those of the parent prefix for a derived prefix, otherwise those of the prefix.
    async fn creation_admins(&self, name: Handle<'_>, budget: &mut Budget) -> Result<AdminSet, Error> {
        match name.parent_prefix_handle() {
            Some(parent) => {
                self.rules.prefix_admins(parent, AdminPermissions::ADD_DERIVED_PREFIX, budget).await
            }
            None => {
                self.rules.prefix_admins(&name.prefix_handle(), AdminPermissions::ADD_HANDLE, budget).await
            }
        }
    }

    async fn plan_overwrite(
        &self,
        name: Handle<'_>,
        entry: &StoredRecord,
        values: &[HandleValue<'_>],
        overwrite: Overwrite,
        budget: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let text = name.to_str().unwrap_or_default();
        let signing = self.rules.settings.signing.as_ref();
        let signature = signing.and_then(|signing| signing.stored_signature(text, &entry.values, values));
        let with_signature: Vec<HandleValue<'_>>;
        let values = match signature {
            None => values,
            Some(signature) => {
                with_signature = values.iter().chain([signature]).cloned().collect();
                &with_signature
            }
        };
        let (merged, diff, checked) = self.merge_record(&entry.values, values, overwrite, budget);
        let result = if diff.has_changes {
            checked
                .and_then(|()| diff.check_writable())
                .and_then(|()| PlannedWrite::put(text.into(), merged, Some(entry)))
        } else {
            Ok(PlannedWrite::unchanged(text.into()))
        };
        let requirement = self.overwrite_requirement(name, entry, &diff, budget).await?;
        Ok(WritePlan { requirement, changes_access: diff.changes_access, result })
    }

    /// New values with the timestamps of unchanged ones and, if requested, the secrets that no new value replaces; the
    /// difference, and the result of validation.
    fn merge_record(
        &self,
        old: &[HandleValue<'static>],
        new: &[HandleValue<'_>],
        overwrite: Overwrite,
        budget: &mut Budget,
    ) -> (Vec<HandleValue<'static>>, RecordDiff, Result<(), Error>) {
        let mut diff = RecordDiff::default();
        let mut checked = Ok(());
        let mut merged = Vec::with_capacity(new.len());
        let old_by_index = by_index(old);
        for value in new {
            match old_by_index.get(&value.index) {
                Some(same) if is_same_value(same, value) => {
                    diff.keep_unchanged(same);
                    merged.push((*same).clone());
                    continue;
                }
                Some(other) => diff.modify(other, value),
                None => diff.add(value),
            }
            checked = checked.and_then(|()| self.check_new_value(value, old, budget));
            merged.push(self.to_stored(value));
        }
        let new_by_index = by_index(new);
        for value in old.iter().filter(|value| !new_by_index.contains_key(&value.index)) {
            if overwrite.keep_secrets && value.is_secret() {
                merged.push(value.clone());
            } else {
                diff.remove(value);
            }
        }
        let checked = check_record(&merged, &self.rules.settings.limits).and(checked).map_err(Error::from);
        (merged, diff, checked)
    }

    /// Requirement for overwriting: permissions for every change, or permission to add admins, or to delete and create the
    /// record.
    async fn overwrite_requirement(
        &self,
        name: Handle<'_>,
        entry: &StoredRecord,
        diff: &RecordDiff,
        budget: &mut Budget,
    ) -> Result<Requirement, Error> {
        if let Some(requirement) = diff.requirement_without_admin() {
            return Ok(requirement);
        }
        let values = &entry.values;
        let change = self.rules.record_admins(name, values, diff.required, budget).await?;
        let add_admin = self.rules.record_admins(name, values, AdminPermissions::ADD_ADMIN, budget).await?;
        let delete = self.rules.record_admins(name, values, AdminPermissions::DELETE_HANDLE, budget).await?;
        let create = self.creation_admins(name, budget).await?;
        Ok(Requirement::AnyOf(vec![vec![change], vec![add_admin], vec![delete, create]]))
    }
}
