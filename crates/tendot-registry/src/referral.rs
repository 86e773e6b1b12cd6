//! Who keeps derived prefixes, if another service does.

use tendot_proto::{Handle, Value, Work};
use tendot_store::State;

use crate::responsible::ancestors;
use crate::{Error, Registry};

impl Registry {
    /// For the record of a derived prefix that is not here: the public values of its nearest ancestor that say where
    /// the prefixes derived from that are.
    pub(crate) async fn referral(
        &self,
        name: Handle<'_>,
        work: &mut Work,
    ) -> Result<Option<Vec<Value<'static>>>, Error> {
        for ancestor in ancestors(name) {
            let text = Handle::new(ancestor).to_str().unwrap_or_default();
            let Some(entry) = self.get(text, work).await?.filter(|entry| entry.state == State::Live) else {
                continue;
            };
            let values: Vec<_> = entry.values.into_iter().filter(delegates).collect();
            if !values.is_empty() {
                return Ok(Some(values));
            }
        }
        Ok(None)
    }
}

fn delegates(value: &Value<'_>) -> bool {
    value.permissions.is_public()
        && matches!(&*value.value_type, b"HS_SITE.PREFIX" | b"HS_SERV.PREFIX" | b"HS_NA_DELEGATE")
}
