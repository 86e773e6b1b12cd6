use tendot_proto::{Handle, Permissions, Reference, Work};
use tendot_store::{Before, History, Key, Order, Store};

use crate::{Caller, Error, Registry, price};

impl<S: Store> Registry<S> {
    /// What ever changed under a name that is kept here, also if it has ended or was removed: at most `limit` changes.
    ///
    /// Of names that are only reserved, or never were more, only the operator is told. Of what was there before, everybody gets the values that everybody could read then, and the operator those that
    /// anybody could. Who made a change is told to everybody if it is a handle's identity or a part of this program.
    pub async fn history(
        &self,
        name: Handle<'_>,
        order: Order,
        limit: usize,
        caller: &Caller,
        work: &mut Work,
    ) -> Result<History, Error> {
        name.check_bytes()?;
        let full = name.with_slash();
        let name = Handle::new(&full);
        self.check_responsible(name, work).await?;
        // The line and the record that was there, and twice for the name itself.
        let lookups = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(2);
        work.spend(price::LOOKUP.saturating_mul(lookups))?;
        let key = name.to_str().ok().and_then(|name| Key::new(name).ok()).ok_or(Error::NotFound)?;
        let mut history = self.store.history(&key, order, limit).await?;
        let begins =
            matches!(order, Order::OldestFirst { after: 0 } | Order::NewestFirst { before: u64::MAX });
        if history.items.is_empty() && begins {
            return Err(Error::NotFound);
        }
        let is_operator = self.is_operator(caller, work).await?;
        if !is_operator && self.is_secret(name.to_str().unwrap_or_default()).await? {
            return Err(Error::NotFound);
        }
        let readable = if is_operator { Permissions::ADMIN_READ.0 } else { 0 } | Permissions::PUBLIC_READ.0;
        for past in &mut history.items {
            if let Before::Record(entry) = &mut past.before {
                entry.values.retain(|value| value.permissions.0 & readable != 0);
            }
            past.line.by = told_by(std::mem::take(&mut past.line.by), is_operator);
        }
        Ok(history)
    }
}

/// Who made a change, as it is told; empty if it is not.
pub(crate) fn told_by(by: Box<str>, is_operator: bool) -> Box<str> {
    if is_operator || is_for_all(&by) { by } else { "".into() }
}

/// Whether everybody may know that it was they: `300:0.NA/10.1000`, `agency:CODE`, `registrant:ID`, or one word, as
/// `operator` and `import`. Other stores and programs may write there what they like, also addresses.
fn is_for_all(by: &str) -> bool {
    let is_party = by.strip_prefix("agency:").or_else(|| by.strip_prefix("registrant:")).is_some_and(|id| {
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    });
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_index = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_identity =
        by.split_once(':').is_some_and(|(index, handle)| is_index(index) && handle.contains('/'));
    is_word(by) || is_party || (is_identity && Reference::parse(by).index != 0)
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_proto::Value;
    use tendot_store::{Change, Edit, Expect, Memory, Past};

    use super::*;
    use crate::Settings;

    #[test]
    fn who_is_told() {
        for (by, expected) in [
            ("300:0.NA/10.1000", true),
            ("operator", true),
            ("import", true),
            ("agency:alpha", true),
            ("registrant:R-1", true),
            ("registrant:me@example.org", false),
            ("registrant:", false),
            ("other:alpha", false),
            ("", false),
            ("0:0.NA/10.1000", false),
            ("192.0.2.1", false),
            ("192.0.2.1:4711", false),
            ("2001:db8::1", false),
            ("me@example.org", false),
            ("Bearer abc", false),
            ("300:", false),
            (":0.NA/10.1000", false),
        ] {
            assert_eq!(is_for_all(by), expected, "{by}");
        }
    }

    /// What was public then stays so, and what was not does, too, whatever became of it later.
    #[test]
    fn permissions_of_their_time() {
        let store = Memory::new();
        let commit = |edits| block_on(store.commit(Change { by: "operator".into(), at: 0, edits })).unwrap();
        commit(vec![Edit::Home { prefix: "10.1".into() }]);
        for (data, permissions) in
            [("one", 0x0e), ("two", 0x0c), ("three", 0x05), ("four", 0x0e), ("five", 0x0c)]
        {
            let value = Value { permissions: Permissions(permissions), ..Value::new(1, "NOTE", data) };
            commit(vec![Edit::Put { name: "10.1/x".into(), values: vec![value], expect: Expect::Any }]);
        }
        let registry = Registry::new(store, Settings::default());
        for (caller, expected) in [
            (Caller::Anonymous, ["", "one", "", "", "four"]),
            (Caller::Operator, ["", "one", "two", "", "four"]),
        ] {
            let (name, order) = (Handle::from("10.1/x"), Order::OldestFirst { after: 0 });
            let mut work = Work::new(1_000);
            let history = block_on(registry.history(name, order, 10, &caller, &mut work)).unwrap();
            let told = |past: Past| match past.before {
                Before::Record(entry) => entry.values.iter().map(|value| value.data.to_vec()).collect(),
                _ => Vec::new(),
            };
            let items = history.items.into_iter().map(told);
            let found: Vec<String> =
                items.map(|values| String::from_utf8(values.concat()).unwrap()).collect();
            assert_eq!(found, expected, "{caller:?}");
        }
    }

    #[test]
    fn what_is_told() {
        let store = Memory::new();
        let commit =
            |by: &str, edits| block_on(store.commit(Change { by: by.into(), at: 0, edits })).unwrap();
        let value = |index, permissions| Value {
            permissions: Permissions(permissions),
            ..Value::new(index, "NOTE", index.to_string())
        };
        let values = vec![value(1, 0x0e), value(2, 0x0c), value(3, 0x05)];
        let put = |name: &str| Edit::Put { name: name.into(), values: values.clone(), expect: Expect::Any };
        let remove = Edit::Remove { name: "10.1/X".into(), expect: Expect::Live };
        commit("operator", vec![Edit::Home { prefix: "10.1".into() }, Edit::Home { prefix: "0.NA".into() }]);
        commit("me@example.org", vec![put("10.1/x"), put("0.NA/10.1"), put("10.2/x")]);
        commit("300:10.1/a", vec![remove]);
        let registry = Registry::new(store, Settings::default());
        let history = |name: &str, after, caller: &Caller| {
            let order = Order::OldestFirst { after };
            block_on(registry.history(Handle::from(name), order, 10, caller, &mut Work::new(1_000)))
        };
        let told = |caller: &Caller| {
            let items = history("10.1/X", 0, caller).unwrap().items.into_iter();
            items
                .map(|past| match past.before {
                    Before::Record(entry) => {
                        let indexes = entry.values.iter().map(|value| value.index).collect();
                        (past.line.by.into_string(), indexes)
                    }
                    _ => (past.line.by.into_string(), Vec::new()),
                })
                .collect::<Vec<(String, Vec<u32>)>>()
        };
        let identity = crate::Identity::proven(300, "10.1/a").unwrap();
        for caller in [Caller::Anonymous, Caller::Handle(identity)] {
            assert_eq!(told(&caller), [(String::new(), vec![]), ("300:10.1/a".into(), vec![1])]);
        }
        let all = [("me@example.org".into(), vec![]), ("300:10.1/a".into(), vec![1, 2])];
        assert_eq!(told(&Caller::Operator), all);
        // A prefix's own record.
        assert_eq!(history("10.1", 0, &Caller::Anonymous).unwrap().items.len(), 1);
        assert!(matches!(history("10.2/x", 0, &Caller::Operator), Err(Error::NotResponsible { .. })));
        assert!(matches!(history("10.1/none", 0, &Caller::Anonymous), Err(Error::NotFound)));
        assert!(history("10.1/x", 99, &Caller::Anonymous).unwrap().items.is_empty());
        let (all, mut work) = (Order::OldestFirst { after: 0 }, Work::new(1_000));
        let name = Handle::from("10.1/x");
        let dear = registry.history(name, all, usize::MAX, &Caller::Operator, &mut work);
        assert!(matches!(block_on(dear), Err(Error::Exhausted(_))));
    }
}
