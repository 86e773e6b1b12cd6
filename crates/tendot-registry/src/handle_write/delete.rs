//! Plans the deletion of a record, or its replacement by a tombstone.

use tendot_proto::record::AdminPermissions;
use tendot_proto::{Budget, Handle};
use tendot_store::{Edit, Precondition, StoredRecord};

use super::{PlannedWrite, WritePlan, WritePlanner};
use crate::authorization::{Requirement, is_credential};
use crate::party::decode;
use crate::prefix::Prefix;
use crate::registration::{Registration, is_reserved, owned_name_key};
use crate::{Error, RegistryError, codes};

impl WritePlanner<'_> {
    pub(super) async fn plan_delete(
        &self,
        name: Handle<'_>,
        permanent: bool,
        budget: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let (name, entry) = self.load_live_record(name, budget).await?;
        let Some(entry) = entry else { return Ok(WritePlan::not_found()) };
        let handle = Handle::from(&*name);
        let admins =
            self.rules.record_admins(handle, &entry.values, AdminPermissions::DELETE_HANDLE, budget).await?;
        let expect = Precondition::AtRevision(entry.revision);
        let is_allocated = handle.is_prefix_handle() && !entry.registration.is_empty();
        let edit = if permanent || self.is_permanent(handle, &entry, budget).await? {
            Edit::Tombstone { name: name.clone(), precondition: expect }
        } else {
            Edit::Remove { name: name.clone(), precondition: expect }
        };
        // Removes the name from the index of its owner.
        let owner = match &edit {
            Edit::Remove { .. } if !is_allocated => Registration::of_record(&entry)?.owner,
            _ => None,
        };
        let key = owner.map(|owner| owned_name_key(&owner, &entry.name)).transpose()?;
        let aux_edit = key.map(|key| Edit::RemoveAux { key: key.into() });
        let result = if is_allocated {
            let detail = "prefix is allocated to a registrant; its record cannot be deleted";
            Err(Error::Registry(Box::new(RegistryError::new(codes::PREFIX_ALLOCATED, detail))))
        } else {
            Ok(PlannedWrite { edit: Some(edit), aux_edit, ..PlannedWrite::unchanged(name) })
        };
        // Admin values are part of every name; a key may authenticate for others.
        let changes_access = entry.values.iter().any(is_credential);
        Ok(WritePlan { requirement: Requirement::admin(admins), changes_access, result })
    }

    /// Whether a deleted name leaves a tombstone: by the settings, or because it was registered or its prefix is allocated.
    /// Names of test prefixes and reserved names do not.
    async fn is_permanent(
        &self,
        name: Handle<'_>,
        entry: &StoredRecord,
        budget: &mut Budget,
    ) -> Result<bool, Error> {
        let prefixes = &self.rules.settings.permanent_prefixes;
        if prefixes.iter().any(|prefix| prefix.as_bytes().eq_ignore_ascii_case(name.prefix())) {
            return Ok(true);
        }
        if is_reserved(entry) {
            return Ok(false);
        }
        let prefix = std::str::from_utf8(name.prefix()).unwrap_or_default();
        match self.rules.prefix_record(prefix, budget).await? {
            Some(record) => Ok(!decode::<Prefix>(&record)?.is_test),
            None => Ok(!entry.registration.is_empty()),
        }
    }
}
