//! Authentication, and futures that a server can spawn.

use super::*;

store_tests!(memory, embedded, postgres => { sessions_require_authentication, futures_are_send, keys_for_authentication });

fn sessions_require_authentication(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    put_record(registry.store(), "10.1/x", vec![url_value(1, "https://a/")]);
    let query = |public_only| ResolveQuery {
        public_only,
        in_session: true,
        ..ResolveQuery::new(Handle::from("10.1/x"))
    };
    assert_eq!(resolve(&registry, "anonymous", &query(false)), Err(402));
    assert_eq!(resolve(&registry, "anonymous", &query(true)), Ok(vec![1]));
    assert_eq!(resolve(&registry, "300:10.1/b", &query(false)), Ok(vec![1]));
}

/// A server moves these futures between threads.
fn futures_are_send(kind: StoreKind) {
    fn assert_send<T: Send>(_: T) {}
    let (registry, budget) = (fixture(kind, RegistrySettings::default()), &mut Budget::new(1_000));
    let (caller_name, prefix) = (caller("operator"), Handle::from("10.1"));
    assert_send(registry.resolve(&ResolveQuery::new(prefix), &caller_name, budget));
    assert_send(registry.write(&home("10.1"), CallContext::new(&caller_name, NOW_MS, budget)));
    assert_send(registry.list_handles(prefix, None, 1, &caller_name, budget));
    assert_send(registry.list_homed_prefixes(None, 1, &caller_name, budget));
    assert_send(registry.precheck(&HandleOperation::ListHomed, &ValueReference::parse("x"), budget));
    assert_send(registry.key_values(prefix, budget));
}

fn keys_for_authentication(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    let secret =
        HandleValue { permissions: ValuePermissions(0), ..HandleValue::new(301, "HS_SECKEY", "secret") };
    put_record(
        registry.store(),
        "10.1/a",
        vec![url_value(1, "https://a/"), secret.clone(), HandleValue::new(300, "HS_PUBKEY", "x")],
    );
    put_record(registry.store(), "10.9/a", vec![secret]);
    let keys = |name| {
        let keys = block_on(registry.key_values(Handle::from(name), &mut Budget::new(1_000))).unwrap();
        keys.iter().map(|value| value.index).collect::<Vec<_>>()
    };
    assert_eq!(keys("10.1/A"), [301, 300]);
    assert!(keys("10.1/none").is_empty());
    assert!(keys("10.9/a").is_empty(), "records of other services grant no authentication");
}
