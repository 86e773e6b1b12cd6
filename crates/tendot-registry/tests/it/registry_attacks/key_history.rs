//! Keys whose records have a long history.

use super::*;
use crate::fixtures::HookedStore;
use crate::support::stores::empty_store;

store_tests!(memory, embedded => { audit_f5_long_history_keeps_keys_usable, audit_f5_one_secret_at_two_indexes });
store_tests!(postgres => { audit_f5_long_history_keeps_keys_usable, audit_f5_one_secret_at_two_indexes });

const NAME: &str = "10.1/key";

const NO_KEYS: [u32; 0] = [];

fn secret(index: u32, data: &str, permissions: u8) -> HandleValue<'static> {
    let value = HandleValue::new(index, "HS_SECKEY", data.to_owned());
    HandleValue { permissions: ValuePermissions(permissions), ..value }
}

fn put(values: Vec<HandleValue<'static>>) -> Edit {
    Edit::Put { name: NAME.into(), values, precondition: Precondition::NotTombstone }
}

fn commit(store: &HookedStore, edits: Vec<Edit>) {
    block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits })).unwrap();
}

/// Indexes of the keys that can authenticate.
fn key_indexes(registry: &tendot_registry::Registry) -> Vec<u32> {
    let mut budget = tendot_proto::Budget::new(1_000);
    let keys = block_on(registry.key_values(Handle::from(NAME), &mut budget)).unwrap();
    keys.iter().map(|key| key.index).collect()
}

/// The history is read once, regardless of its length, and each change of it once. A budget is not exceeded.
fn audit_f5_long_history_keeps_keys_usable(kind: StoreKind) {
    let (store, _directory) = empty_store(kind);
    let store = HookedStore::new(store);
    let keys = |first: u8| vec![secret(300, "one", first), secret(301, "two", 0x0c)];
    commit(&store, vec![Edit::Home { prefix: "10.1".into() }, put(keys(0x0e))]);
    for _ in 0..11 {
        commit(&store, (0..100).map(|_| put(keys(0x0c))).collect());
    }
    let registry = store.registry();
    assert_eq!(key_indexes(&registry), [301]);
    assert!(store.take_history_entries() >= 1_101);
    for _ in 0..10 {
        assert_eq!(key_indexes(&registry), [301]);
    }
    assert_eq!(store.take_history_entries(), 10, "one entry, to recognize the history");
    // A change after that counts, too.
    commit(&store, vec![put(vec![secret(301, "two", 0x0e)]), put(keys(0x0c)), put(keys(0x0c))]);
    assert_eq!(key_indexes(&registry), NO_KEYS);
    assert_eq!(store.take_history_entries(), 4);
    assert_eq!(key_indexes(&registry), NO_KEYS);
    assert_eq!(store.take_history_entries(), 1);
    // Another server reads it once, too, although many clients log in at once.
    let other = store.registry();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(key_indexes(&other), NO_KEYS));
        }
    });
    assert!(store.take_history_entries() < 3 * 1_104);
}

/// A secret that is publicly readable at one index does not authenticate at another one.
fn audit_f5_one_secret_at_two_indexes(kind: StoreKind) {
    let (store, _directory) = empty_store(kind);
    let store = HookedStore::new(store);
    let values = vec![secret(300, "one", 0x0e), secret(301, "one", 0x0c), secret(302, "two", 0x0c)];
    commit(&store, vec![Edit::Home { prefix: "10.1".into() }, put(values)]);
    assert_eq!(key_indexes(&store.registry()), [302]);
}
