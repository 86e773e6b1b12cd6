//! Service handle: the record with the site of this server (`HS_SITE`). Prefix records refer to it (`HS_SERV`), so that a
//! change of the site's keys or addresses changes one record.

use std::collections::BTreeSet;

use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::{Edit, Precondition, RecordStatus};

use crate::handle_write::set_timestamps;
use crate::prefix::free_index;
use crate::rules::SiteReader;
use crate::validate::prefix_of;
use crate::{CallContext, Error, HandleWrite, Registry, RegistryError, Resolution, ResolveQuery};

/// Index of the site in the record of the service handle.
const SITE_INDEX: u32 = 1;
/// First index of the reference in a prefix record.
const REFERENCE_INDEX: u32 = 10;

/// Types of values that say which sites serve a prefix.
const SITE_TYPES: [&[u8]; 3] = [b"HS_SITE", b"HS_SITE.6", b"HS_SERV"];

/// Handle whose record has the site of this server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServiceHandleRecord {
    /// Name. A client of the Handle System finds a name that begins with `0.` at the root.
    pub name: Box<str>,
    /// Encoded site record.
    pub site: Vec<u8>,
}

impl ServiceHandleRecord {
    /// Adds the reference to the values of a prefix record, unless they already name sites.
    pub(crate) fn add_reference(&self, values: &mut Vec<HandleValue<'static>>) {
        if values.iter().any(|value| SITE_TYPES.contains(&&*value.value_type)) {
            return;
        }
        let taken: BTreeSet<u32> = values.iter().map(|value| value.index).collect();
        let index = free_index(REFERENCE_INDEX, &taken);
        values.push(HandleValue::with_data(index, "HS_SERV", self.name.as_bytes().to_vec()));
    }

    fn site_value(&self) -> HandleValue<'static> {
        HandleValue::with_data(SITE_INDEX, "HS_SITE", self.site.clone())
    }

    fn is_current(&self, values: &[HandleValue<'_>]) -> bool {
        values.iter().any(|value| *value.value_type == *b"HS_SITE" && *value.data == *self.site)
    }
}

impl SiteReader {
    /// Edits that publish the site in the record of the service handle, unless it is current.
    pub(crate) async fn service_handle_edits(
        &self,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<Vec<Edit>, RegistryError> {
        let Some(service) = &self.settings.service_handle else { return Ok(Vec::new()) };
        let existing = self.get_record(&service.name, budget).await?;
        let is_final = |status| status != RecordStatus::Live;
        if existing
            .as_ref()
            .is_some_and(|record| is_final(record.status) || service.is_current(&record.values))
        {
            return Ok(Vec::new());
        }
        let previous = existing.as_ref().map(|record| record.values.as_slice()).unwrap_or_default();
        let mut values = vec![service.site_value()];
        values.extend(previous.iter().filter(|value| value.index != SITE_INDEX).cloned());
        set_timestamps(&mut values, previous, now_ms);
        let precondition = existing
            .as_ref()
            .map_or(Precondition::Absent, |record| Precondition::AtRevision(record.revision));
        let prefix = prefix_of(&service.name).into();
        Ok(vec![Edit::Home { prefix }, Edit::Put { name: service.name.clone(), values, precondition }])
    }
}

impl Registry {
    /// Updates the record of the service handle if a prefix record may refer to it, that is, if it exists. Returns whether it
    /// was changed.
    pub async fn refresh_service_handle(&self, call: CallContext<'_>) -> Result<bool, Error> {
        let Some(service) = &self.settings().service_handle else { return Ok(false) };
        let handle = Handle::from(&*service.name);
        let record = self.resolve(&ResolveQuery::new(handle), call.caller, call.budget).await;
        match record {
            Ok(Resolution::Values(found)) if !service.is_current(&found) => {
                let values = vec![service.site_value()];
                let write = HandleWrite::AddValues { name: handle, values, overwrite: true, force: true };
                self.write(&write, call).await?;
                Ok(true)
            }
            Ok(_) | Err(Error::NotFound | Error::NotResponsible { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
