//! A small registry to try things on.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

#[path = "../store/mod.rs"]
pub mod store;

use std::time::Duration;

use store::Kept;
use tendot_proto::record::{Admin, AdminPermissions, ValueList};
use tendot_proto::{Handle, Now, Permissions, Reference, Value, Work};
use tendot_registry::{Caller, Done, Error, Identity, Query, Registry, Resolution, Settings, Write};
use tendot_store::{Change, Edit, Expect, Key, Store};
use tendot_testing::block_on;

pub const NOW: Now = Now { elapsed: Duration::ZERO, unix: 1_800_000_000 };

/// When everything was made that was there before.
pub const BEFORE: u32 = 1_700_000_000;

/// Names under 0.NA, 10.1 and 10.2 are kept here; `300:0.NA/10.1` administers the one, `300:0.NA/10.2` the other.
pub fn registry() -> Registry<Kept> {
    with(store::new(), Settings::default())
}

pub fn with<S: Store>(store: S, settings: Settings) -> Registry<S> {
    for prefix in ["0.NA", "10.1", "10.2"] {
        commit(&store, Edit::Home { prefix: prefix.into() });
    }
    for prefix in ["10.1", "10.2"] {
        let name = format!("0.NA/{prefix}");
        put(&store, &name, vec![admin(100, 0x0fff, &format!("300:{name}"))]);
    }
    Registry::new(store, settings)
}

pub fn commit(store: &impl Store, edit: Edit) {
    block_on(store.commit(Change { by: "test".into(), at: 0, edits: vec![edit] })).unwrap();
}

/// Puts a record past all rules.
pub fn put(store: &impl Store, name: &str, values: Vec<Value<'static>>) {
    let values = values.into_iter().map(|value| Value { timestamp: BEFORE, ..value }).collect();
    commit(store, Edit::Put { name: name.into(), values, expect: Expect::Any });
}

pub fn values(store: &impl Store, name: &str) -> Option<Vec<Value<'static>>> {
    let entry = block_on(store.get(&Key::new(name).unwrap())).unwrap();
    entry.map(|entry| entry.values)
}

pub fn url(index: u32, data: &'static str) -> Value<'static> {
    Value::new(index, "URL", data)
}

pub fn note(index: u32, permissions: u8) -> Value<'static> {
    Value { permissions: Permissions(permissions), ..Value::new(index, "NOTE", "x") }
}

pub fn admin(index: u32, bits: u16, who: &str) -> Value<'static> {
    let admin = Admin {
        permissions: AdminPermissions(bits),
        reference: Reference::parse(who),
        legacy_byte_length: false,
    };
    Value::with_data(index, "HS_ADMIN", admin.to_bytes())
}

pub fn group(index: u32, members: &[&str]) -> Value<'static> {
    let members = members.iter().map(|member| Reference::parse(member)).collect();
    Value::with_data(index, "HS_VLIST", ValueList { members }.to_bytes())
}

/// `anonymous`, `operator`, or the identity that is written so.
pub fn caller(written: &str) -> Caller {
    match written {
        "anonymous" => Caller::Anonymous,
        "operator" => Caller::Operator,
        identity => {
            let reference = Reference::parse(identity);
            Caller::Handle(Identity::proven(reference.index, &reference.handle).unwrap())
        }
    }
}

pub fn create<'a>(name: &'a str, values: Vec<Value<'a>>) -> Write<'a> {
    Write::Create { name: Handle::from(name), values, overwrite: false, mint: None, force: false }
}

pub fn overwrite<'a>(name: &'a str, values: Vec<Value<'a>>) -> Write<'a> {
    Write::Create { name: Handle::from(name), values, overwrite: true, mint: None, force: false }
}

pub fn add<'a>(name: &'a str, overwrite: bool, values: Vec<Value<'a>>) -> Write<'a> {
    Write::Add { name: Handle::from(name), values, overwrite, force: false }
}

pub fn modify<'a>(name: &'a str, values: Vec<Value<'a>>) -> Write<'a> {
    Write::Modify { name: Handle::from(name), values, force: false }
}

pub fn remove<'a>(name: &'a str, indexes: &[u32]) -> Write<'a> {
    Write::Remove { name: Handle::from(name), indexes: indexes.to_vec(), force: false }
}

/// The same, though nobody may administer the record afterwards.
pub fn forced(mut write: Write<'_>) -> Write<'_> {
    match &mut write {
        Write::Create { force, .. }
        | Write::Add { force, .. }
        | Write::Remove { force, .. }
        | Write::Modify { force, .. } => *force = true,
        _ => {}
    }
    write
}

pub fn delete(name: &str) -> Write<'_> {
    Write::Delete { name: Handle::from(name), for_ever: false }
}

pub fn write<S: Store>(registry: &Registry<S>, who: &str, write: &Write<'_>) -> Result<Done, Error> {
    block_on(registry.write(write, &caller(who), NOW, &mut Work::new(20_000)))
}

/// The code of the outcome; 1 if it was done.
pub fn code<T>(outcome: &Result<T, Error>) -> u32 {
    outcome.as_ref().map_or_else(|error| error.response_code().0, |_| 1)
}

/// Does it, and looks at the code; whatever is refused changes nothing.
#[track_caller]
pub fn check<S: Store>(registry: &Registry<S>, who: &str, what: &Write<'_>, expected: u32) {
    let before = block_on(registry.store().changes(0, 100_000)).unwrap().len();
    let outcome = write(registry, who, what);
    assert_eq!(code(&outcome), expected, "{who}: {what:?}: {outcome:?}");
    let after = block_on(registry.store().changes(0, 100_000)).unwrap().len();
    assert!(expected == 1 || before == after, "{who}: {what:?} changed something");
}

/// The indexes of the values that are answered, or the code.
pub fn resolve<S: Store>(registry: &Registry<S>, who: &str, query: &Query<'_>) -> Result<Vec<u32>, u32> {
    match block_on(registry.resolve(query, &caller(who), &mut Work::new(20_000))) {
        Ok(Resolution::Values(values)) => Ok(values.iter().map(|value| value.index).collect()),
        Ok(Resolution::Referral(_)) => Err(303),
        Err(error) => Err(error.response_code().0),
    }
}
