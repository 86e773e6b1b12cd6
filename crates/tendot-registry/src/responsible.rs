//! Which names are kept here.

use tendot_proto::{Budget, Handle};

use crate::party::is_reserved_prefix;
use crate::{Error, Registry, price};

/// How many dots of a prefix are gone up. Nobody derives prefixes that deep, and each costs a lookup.
pub(crate) const MAX_PREFIX_ANCESTORS: usize = 16;

impl Registry {
    /// Whether a name, which has a slash, is kept by our site: its prefix is homed, or it is the record of a prefix that is
    /// derived from one of which all derived prefixes are.
    pub(crate) async fn is_responsible(&self, name: Handle<'_>, work: &mut Budget) -> Result<bool, Error> {
        // What is kept under the registry's own prefix are no names, whoever says that it is homed.
        if is_reserved_prefix(name.prefix()) {
            return Ok(false);
        }
        if self.is_homed(name.prefix(), work).await? {
            return Ok(true);
        }
        // The record of a prefix that the registry gave to somebody is kept with the names under it.
        if name.is_prefix_handle()
            && let Some(prefix) = name.suffix().and_then(|suffix| std::str::from_utf8(suffix).ok())
            && self.prefix_entry(prefix, work).await?.is_some()
        {
            return Ok(true);
        }
        for ancestor in ancestor_prefix_handles(name) {
            // `0.NA/0.NA/10` is homed for the prefixes derived from 10, and kept without its first five bytes.
            if self.is_homed(ancestor, work).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same as an error.
    pub(crate) async fn check_site_responsible(
        &self,
        name: Handle<'_>,
        work: &mut Budget,
    ) -> Result<(), Error> {
        if self.is_responsible(name, work).await? {
            return Ok(());
        }
        Err(Error::NotResponsible { prefix: Handle::new(name.prefix()).to_string().into() })
    }

    /// The same, and whether it is this server of the site that keeps the name.
    pub(crate) async fn check_server_responsible(
        &self,
        name: Handle<'_>,
        work: &mut Budget,
    ) -> Result<(), Error> {
        self.check_site_responsible(name, work).await?;
        if self.owns(name) { Ok(()) } else { Err(Error::OtherServer) }
    }

    async fn is_homed(&self, prefix: &[u8], work: &mut Budget) -> Result<bool, Error> {
        work.charge(price::LOOKUP)?;
        Ok(self.store.is_homed(prefix).await?)
    }
}

/// The records of the prefixes that a prefix is derived from, the nearest first: `0.NA/10.1000` and `0.NA/10` of
/// `0.NA/10.1000.2`.
pub(crate) fn ancestor_prefix_handles(name: Handle<'_>) -> impl Iterator<Item = &[u8]> {
    let parent = |of: &[u8]| Handle::new(of).parent_prefix_handle().map(<[u8]>::len);
    let bytes = name.as_bytes();
    std::iter::successors(parent(bytes), move |length| parent(bytes.get(..*length)?))
        .filter_map(move |length| bytes.get(..length))
        .take(MAX_PREFIX_ANCESTORS)
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_store::{ChangeSet, Edit, MemoryStore, Store};

    use super::*;
    use crate::RegistrySettings;

    #[test]
    fn homed_or_not() {
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
        block_on(store.commit(ChangeSet { by: "test".into(), at: 0, edits })).unwrap();
        let registry = Registry::new(store, RegistrySettings::default());
        let found = block_on(registry.is_responsible(Handle::from(name), &mut Budget::new(1_000)));
        assert_eq!(found.unwrap(), expected, "{name}");
    }
}
