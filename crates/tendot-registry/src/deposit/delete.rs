//! A record goes.

use tendot_proto::record::AdminPermissions;
use tendot_proto::{Budget, Handle};
use tendot_store::{Edit, Precondition, StoredRecord};

use super::{PlannedWrite, WritePlan};
use crate::doi::{Registration, is_reserved, owned_key};
use crate::party::{Prefix, decode};
use crate::permission::Requirement;
use crate::{Error, Registry, RegistryError, RegistryErrorKind};

impl Registry {
    pub(super) async fn plan_delete(
        &self,
        name: Handle<'_>,
        for_ever: bool,
        work: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let (name, entry) = self.load_live_record(name, work).await?;
        let Some(entry) = entry else { return Ok(WritePlan::not_found()) };
        let handle = Handle::from(&*name);
        let right = self.record_admins(handle, &entry.values, AdminPermissions::DELETE_HANDLE, work).await?;
        let expect = Precondition::Revision(entry.revision);
        let is_allocated = handle.is_prefix_handle() && !entry.registration.is_empty();
        let edit = if for_ever || self.is_permanent(handle, &entry, work).await? {
            Edit::Tombstone { name: name.clone(), expect }
        } else {
            Edit::Remove { name: name.clone(), expect }
        };
        // Who had it under another's prefix is not to be told of it any more.
        let owner = match &edit {
            Edit::Remove { .. } if !is_allocated => Registration::of_record(&entry)?.owner,
            _ => None,
        };
        let key = owner.map(|owner| owned_key(&owner, &entry.name)).transpose()?;
        let beside = key.map(|key| Edit::RemoveNote { key: key.into() });
        let outcome = if is_allocated {
            let detail = "the prefix has been given to a registrant, and names under it go by its record";
            Err(Error::Policy(Box::new(RegistryError::new(RegistryErrorKind::Conflict, "allocated", detail))))
        } else {
            let (edit, notes) = (Some(edit), Vec::new());
            Ok(PlannedWrite { name, replaced: true, edit, beside, locks_out: false, notes })
        };
        Ok(WritePlan { needed: Requirement::admin(right), outcome })
    }

    /// By the settings, or since it was registered, or the registry gave its prefix to somebody; not if that was just to try
    /// things out, and not if nobody ever could resolve the name.
    async fn is_permanent(
        &self,
        name: Handle<'_>,
        entry: &StoredRecord,
        work: &mut Budget,
    ) -> Result<bool, Error> {
        let prefixes = &self.settings.permanent_prefixes;
        if prefixes.iter().any(|prefix| prefix.as_bytes().eq_ignore_ascii_case(name.prefix())) {
            return Ok(true);
        }
        if is_reserved(entry) {
            return Ok(false);
        }
        let prefix = std::str::from_utf8(name.prefix()).unwrap_or_default();
        match self.prefix_entry(prefix, work).await? {
            Some(record) => Ok(!decode::<Prefix>(&record)?.test),
            None => Ok(!entry.registration.is_empty()),
        }
    }
}
