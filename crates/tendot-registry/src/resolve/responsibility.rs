//! Responsibility of this service for a name, and referrals for derived prefixes.

use tendot_proto::{Budget, Handle, HandleValue};
use tendot_store::RecordStatus;

use crate::party::is_reserved_prefix;
use crate::rules::SiteReader;
use crate::{Error, cost};

/// Maximum number of ancestors of a prefix that are looked up.
pub(crate) const MAX_PREFIX_ANCESTORS: usize = 16;

impl SiteReader {
    /// Whether this site is responsible for a name (which has a slash): its prefix is homed or allocated, or the name is the
    /// record of a prefix derived from one whose derived prefixes are homed.
    pub(crate) async fn is_responsible(&self, name: Handle<'_>, budget: &mut Budget) -> Result<bool, Error> {
        // Objects under the reserved prefix are not handles, even if the prefix is homed.
        if is_reserved_prefix(name.prefix()) {
            return Ok(false);
        }
        if self.is_homed(name.prefix(), budget).await? {
            return Ok(true);
        }
        // The record of an allocated prefix is stored with the names under it.
        if name.is_prefix_handle()
            && let Some(prefix) = name.suffix().and_then(|suffix| std::str::from_utf8(suffix).ok())
            && self.prefix_record(prefix, budget).await?.is_some()
        {
            return Ok(true);
        }
        for ancestor in ancestor_prefix_handles(name) {
            // `0.NA/0.NA/10` is homed for the prefixes derived from 10; the store has it without the first five bytes.
            if self.is_homed(ancestor, budget).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails unless this site is responsible for the name.
    pub(crate) async fn check_site_responsible(
        &self,
        name: Handle<'_>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        if self.is_responsible(name, budget).await? {
            return Ok(());
        }
        Err(Error::NotResponsible { prefix: Handle::new(name.prefix()).to_string().into() })
    }

    /// Fails unless this server of the site is responsible for the name.
    pub(crate) async fn check_server_responsible(
        &self,
        name: Handle<'_>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        self.check_site_responsible(name, budget).await?;
        if self.owns(name) { Ok(()) } else { Err(Error::OtherServer) }
    }

    async fn is_homed(&self, prefix: &[u8], budget: &mut Budget) -> Result<bool, Error> {
        budget.charge(cost::LOOKUP)?;
        Ok(self.store.is_homed(prefix).await?)
    }

    /// Referral for the record of a derived prefix that is not stored here: the public delegation values of its nearest
    /// ancestor.
    pub(crate) async fn referral(
        &self,
        name: Handle<'_>,
        budget: &mut Budget,
    ) -> Result<Option<Vec<HandleValue<'static>>>, Error> {
        for ancestor in ancestor_prefix_handles(name) {
            let text = Handle::new(ancestor).to_str().unwrap_or_default();
            let Some(entry) =
                self.get_record(text, budget).await?.filter(|entry| entry.status == RecordStatus::Live)
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

/// Record names of the ancestors of a prefix, nearest first: `0.NA/10.1000` and `0.NA/10` for `0.NA/10.1000.2`.
pub(crate) fn ancestor_prefix_handles(name: Handle<'_>) -> impl Iterator<Item = &[u8]> {
    let parent = |of: &[u8]| Handle::new(of).parent_prefix_handle().map(<[u8]>::len);
    let bytes = name.as_bytes();
    std::iter::successors(parent(bytes), move |length| parent(bytes.get(..*length)?))
        .filter_map(move |length| bytes.get(..length))
        .take(MAX_PREFIX_ANCESTORS)
}

fn is_delegation(value: &HandleValue<'_>) -> bool {
    value.is_public()
        && matches!(&*value.value_type, b"HS_SITE.PREFIX" | b"HS_SERV.PREFIX" | b"HS_NA_DELEGATE")
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_store::{ChangeSet, Edit, MemoryStore, Store};

    use super::*;
    use crate::{Registry, RegistrySettings};

    #[test]
    fn responsible_prefixes() {
        let homed = ["10.5555", "0.NA/10.20", "20.abc"];
        check(&homed, "10.5555/x", true);
        check(&homed, "10.5555/", true);
        check(&homed, "10.5555.1/x", false);
        check(&homed, "10.555/x", false);
        check(&homed, "20.ABC/x", true);
        check(&homed, "0.NA/10.5555", false);
        check(&homed, "0.NA/10.20", false);
        check(&homed, "0.NA/10.20.1", true);
        check(&homed, "0.na/10.20.1.2.3", true);
        check(&homed, "0.NA/10.201", false);
        check(&homed, "10.20.1/x", false);
        check(&homed, "/", false);
        check(&["0.NA"], "0.NA/10.5555", true);
        check(&["0.NA"], "10.5555/x", false);
        check(&["0.TENDOT"], "0.TENDOT/agency/a", false);
        check(&["0.TENDOT"], "0.tendot/agency/a", false);
        check(&["0.TENDOTS"], "0.TENDOTS/x", true);
        check(&["0.NA/1"], &format!("0.NA/1{}", ".1".repeat(16)), true);
        check(&["0.NA/1"], &format!("0.NA/1{}", ".1".repeat(17)), false);
    }

    #[track_caller]
    fn check(homed: &[&str], name: &str, expected: bool) {
        let store = MemoryStore::new();
        let edits = homed.iter().map(|prefix| Edit::Home { prefix: (*prefix).into() }).collect();
        block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits })).unwrap();
        let registry = Registry::new(store, RegistrySettings::default());
        let found = block_on(registry.rules.is_responsible(Handle::from(name), &mut Budget::new(1_000)));
        assert_eq!(found.unwrap(), expected, "{name}");
    }
}
