//! Comparison of the registry with the model.

use super::*;

impl RegistryModel {
    /// Reads, resolves and lists all names, and compares them with the model.
    pub(super) fn check_against_model(&self) {
        let operator = &Caller::Operator;
        let mut by_owner: BTreeMap<Box<str>, BTreeSet<String>> = BTreeMap::new();
        for name in self.names.values() {
            let (prefix, _) = name.spelling.split_once('/').unwrap();
            let owner = self.owner(prefix, name);
            let found = block_on(
                self.registry.get_doi(&name.spelling, CallContext::new(operator, self.now, &mut budget())),
            );
            let found = found.unwrap();
            let actual = (&*found.name, found.state, &*found.registrant, found.url().unwrap());
            assert_eq!(actual, (&*name.spelling, name.state, &*owner, &*name.url));
            assert_eq!(*found.agency, *self.registrants[&owner].agency);
            let secret = found.values.iter().find(|value| value.is_secret());
            assert_eq!(secret, None, "{name:?}: secrets are not returned");
            if name.state == DoiStatus::Registered {
                let mut budget = budget();
                let keys = self.registry.key_values(Handle::from(&*name.spelling), &mut budget);
                let keys = block_on(keys).unwrap();
                let secret = keys.iter().map(|key| String::from_utf8(key.data.to_vec()).unwrap()).next();
                assert_eq!(secret, name.secret, "{name:?}");
            }
            let query = ResolveQuery::new(Handle::from(&*name.spelling));
            let resolved = block_on(self.registry.resolve(&query, &Caller::Anonymous, &mut budget()));
            match (name.state, resolved) {
                (DoiStatus::Registered, Ok(Resolution::Values(values))) => {
                    assert_eq!(*values[0].data, *name.url.as_bytes(), "{name:?}");
                }
                (DoiStatus::Retired, Err(Error::Retired)) | (DoiStatus::Reserved, Err(Error::NotFound)) => {}
                (_, resolved) => panic!("{name:?}: {resolved:?}"),
            }
            by_owner.entry(owner).or_default().insert(name.spelling.clone());
        }
        for id in self.registrants.keys() {
            let found = self.list_names(None, Some(id));
            assert_eq!(found, by_owner.remove(id).unwrap_or_default(), "of {id}");
        }
        for prefix in self.prefixes.keys() {
            let start = format!("{prefix}/");
            let under = self.names.values().filter(|name| name.spelling.starts_with(&start));
            assert_eq!(
                self.list_names(Some(prefix), None),
                under.map(|name| name.spelling.clone()).collect()
            );
        }
        assert_eq!(self.list_names(None, None).len(), self.names.len());
        assert_eq!(check_invariants(&self.registry), self.names.len());
    }

    /// All names of a list, read in small pages.
    pub(super) fn list_names(&self, prefix: Option<&str>, registrant: Option<&str>) -> BTreeSet<String> {
        let (mut all, mut next) = (BTreeSet::new(), None);
        loop {
            let mut budget = budget();
            let operator = &Caller::Operator;
            let after: Option<Box<str>> = next.take();
            let names = self.registry.list_dois(
                DoiFilter { prefix, registrant },
                after.as_deref(),
                37,
                CallContext::new(operator, self.now, &mut budget),
            );
            let names = block_on(names).unwrap();
            assert!(names.items.len() <= 37);
            for item in names.items {
                assert!(all.insert(item.name.to_string()), "duplicate {}", item.name);
            }
            next = names.next;
            if next.is_none() {
                return all;
            }
        }
    }
}
