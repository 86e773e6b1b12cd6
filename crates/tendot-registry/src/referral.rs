//! Who keeps derived prefixes, if another service does.

use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::RecordStatus;

use crate::responsible::ancestor_prefix_handles;
use crate::{Error, Registry};

impl Registry {
    /// For the record of a derived prefix that is not here: the public values of its nearest ancestor that say where
    /// the prefixes derived from that are.
    pub(crate) async fn referral(
        &self,
        name: Handle<'_>,
        work: &mut Budget,
    ) -> Result<Option<Vec<HandleValue<'static>>>, Error> {
        for ancestor in ancestor_prefix_handles(name) {
            let text = Handle::new(ancestor).to_str().unwrap_or_default();
            let Some(entry) =
                self.get_record(text, work).await?.filter(|entry| entry.state == RecordStatus::Live)
            else {
                continue;
            };
            let values: Vec<_> = entry.values.into_iter().filter(is_delegation).collect();
            if !values.is_empty() {
                return Ok(Some(values));
            }
        }
        Ok(None)
    }
}

fn is_delegation(value: &HandleValue<'_>) -> bool {
    value.permissions.is_public()
        && matches!(&*value.value_type, b"HS_SITE.PREFIX" | b"HS_SERV.PREFIX" | b"HS_NA_DELEGATE")
}
