//! Idempotency keys: a command is executed at most once per key, and its reply is replayed.

use serde_json::value::{RawValue, to_raw_value};
use tendot_registry::batch::BatchJournal;
use tendot_registry::registration::{DoiRecord, RegisterDoi};
use tendot_registry::{
    CallContext, Caller, IdempotencyKey, IdempotentOutcome, IdempotentRequest, RegistryError,
};
use tendot_store::Store;
use tendot_testing::block_on;

use crate::fixtures::registry_fixture::*;
use crate::support::{StoreKind, TestRegistry};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

fn load(registry: &TestRegistry, caller: &Caller, key: &str, body: &str) -> IdempotentRequest {
    let key = IdempotencyKey::new(caller, key).unwrap();
    block_on(registry.load_idempotent_request(key, "POST /dois", body.as_bytes())).unwrap()
}

/// Opens the journal of a batch.
fn open_journal(
    registry: &TestRegistry,
    caller: &Caller,
    key: &str,
    now_ms: u64,
) -> Result<BatchJournal, RegistryError> {
    let key = IdempotencyKey::new(caller, key).unwrap();
    block_on(async {
        let lock = registry.lock_key(key).await;
        registry.open_journal(lock, "test", [7; 16], now_ms).await
    })
}

/// Number of aux entries of idempotency keys.
fn aux_entries(registry: &TestRegistry) -> usize {
    block_on(registry.store().list_aux(b"idempotency/", None, 10)).unwrap().len()
}

/// Executes a registration with a minted name; returns `executed` or `replayed` with the name.
fn register(
    registry: &TestRegistry,
    caller: &Caller,
    request: &IdempotentRequest,
    random: u8,
    now_ms: u64,
) -> Result<String, RegistryError> {
    let body = request_from_json(&format!(r#"{{"prefix": "{PREFIX_A1}", "url": "https://a/"}}"#));
    let command = RegisterDoi { request: body, random_bytes: [random; 16] };
    let reply = |record: &DoiRecord| to_raw_value(&record.name).ok();
    let mut budget = budget();
    let call = CallContext::new(caller, now_ms, &mut budget);
    Ok(match block_on(registry.execute_idempotent(&command, call, request, reply))? {
        IdempotentOutcome::Executed(outcome) => format!("executed {}", outcome.output.name),
        IdempotentOutcome::Replayed(stored) => format!("replayed {}", name(&stored)),
    })
}

fn name(stored: &RawValue) -> String {
    serde_json::from_str(stored.get()).unwrap()
}

#[test]
fn stored_reply() {
    let fixture = RegistryFixture::in_memory();
    let (registry, caller) = (&fixture.registry, &fixture.caller('1'));
    let request = load(registry, caller, "key", "body");
    assert!(request.stored_reply(NOW).unwrap().is_none());
    let executed = register(registry, caller, &request, 1, NOW).unwrap();
    let minted = executed.strip_prefix("executed ").unwrap();
    let again = load(registry, caller, "key", "body");
    assert_eq!(name(&again.stored_reply(NOW + DAY_MS - 1).unwrap().unwrap()), minted);
    assert!(again.stored_reply(NOW + DAY_MS).unwrap().is_none(), "expired");
    // Another body, another operation.
    let error = load(registry, caller, "key", "other").stored_reply(NOW).unwrap_err();
    assert_eq!(error.code, "key-reused");
    let key = IdempotencyKey::new(caller, "key").unwrap();
    let other = block_on(registry.load_idempotent_request(key, "POST /other", b"body")).unwrap();
    assert_eq!(other.stored_reply(NOW).unwrap_err().code, "key-reused");
    // Another caller, other tokens of the same registrant, another key.
    for (letter, key) in [('A', "key"), ('r', "key"), ('p', "key"), ('k', "key"), ('1', "other")] {
        let request = load(registry, &fixture.caller(letter), key, "body");
        assert!(request.stored_reply(NOW).unwrap().is_none(), "{letter} {key}");
    }
    let longest = "k".repeat(255);
    assert!(IdempotencyKey::new(caller, &longest).is_ok());
    for key in ["", &format!("{longest}k"), "a b", "a\tb", "a\u{7f}", "\u{e9}"] {
        assert_eq!(IdempotencyKey::new(caller, key).unwrap_err().code, "malformed", "{key}");
    }
}

/// A key that was used for a batch is free for a registration after a day, and the other way round.
#[test]
fn expired_key_of_the_other_kind() {
    let fixture = RegistryFixture::in_memory();
    let (registry, caller) = (&fixture.registry, &fixture.caller('1'));
    let later = NOW + DAY_MS;
    open_journal(registry, caller, "batch", NOW).unwrap();
    let request = load(registry, caller, "batch", "body");
    assert_eq!(request.stored_reply(later - 1).unwrap_err().code, "key-reused");
    assert!(request.stored_reply(later).unwrap().is_none());
    assert!(register(registry, caller, &request, 1, later).unwrap().starts_with("executed "));
    let request = load(registry, caller, "single", "body");
    register(registry, caller, &request, 2, NOW).unwrap();
    assert_eq!(open_journal(registry, caller, "single", later - 1).unwrap_err().code, "key-reused");
    assert!(!open_journal(registry, caller, "single", later).unwrap().is_complete());
    assert_eq!(aux_entries(registry), 2);
}

/// The expired entry of the key is purged between the load and the commit.
#[test]
fn concurrent_purge() {
    let (fixture, store) = FixtureSource::new(StoreKind::Memory).hooked_fixture();
    let (registry, caller) = (&fixture.registry, &fixture.caller('1'));
    let later = NOW + DAY_MS;
    let first = register(registry, caller, &load(registry, caller, "key", "body"), 1, NOW).unwrap();
    let request = load(registry, caller, "key", "body");
    store.before_commit(move |store| {
        block_on(store.registry().purge_idempotency_keys(later)).unwrap();
    });
    let second = register(registry, caller, &request, 2, later).unwrap();
    assert!(second.starts_with("executed ") && second != first, "{first}, {second}");
    // The new reply is stored.
    let replayed = register(registry, caller, &request, 3, later).unwrap();
    assert_eq!(replayed, second.replace("executed", "replayed"));
}

/// Two requests with the same key that both found no stored reply: one is executed, the other gets its reply at once.
#[test]
fn concurrent_requests() {
    let (fixture, store) = FixtureSource::new(StoreKind::Memory).hooked_fixture();
    let (registry, caller) = (&fixture.registry, fixture.caller('1'));
    let (first, second) = (load(registry, &caller, "key", "body"), load(registry, &caller, "key", "body"));
    let before = store.commit_calls();
    let other = caller.clone();
    store.before_commit(move |store| {
        let executed = register(&store.registry(), &other, &first, 1, NOW).unwrap();
        assert!(executed.starts_with("executed "));
    });
    let replayed = register(registry, &caller, &second, 2, NOW).unwrap();
    assert!(replayed.starts_with("replayed 10.71000/"), "{replayed}");
    assert_eq!(store.commit_calls() - before, 1, "the key is not tried again");
}

/// The same key with another body, while the first request is executed.
#[test]
fn concurrent_reuse() {
    let (fixture, store) = FixtureSource::new(StoreKind::Memory).hooked_fixture();
    let (registry, caller) = (&fixture.registry, fixture.caller('1'));
    let (first, second) = (load(registry, &caller, "key", "body"), load(registry, &caller, "key", "other"));
    let other = caller.clone();
    store.before_commit(move |store| drop(register(&store.registry(), &other, &first, 1, NOW).unwrap()));
    assert_eq!(register(registry, &caller, &second, 2, NOW).unwrap_err().code, "key-reused");
}

#[test]
fn expired_keys_are_purged() {
    let fixture = RegistryFixture::in_memory();
    let (registry, caller) = (&fixture.registry, &fixture.caller('1'));
    for (number, key) in (1..).zip(["a", "b"]) {
        let request = load(registry, caller, key, "body");
        register(registry, caller, &request, number, NOW + u64::from(number)).unwrap();
    }
    fixture
        .journaled_batch(
            &[batch_line(1, request(&format!("{PREFIX_A1}/z"), "https://a/"))],
            caller,
            "c",
            |_| b"result".to_vec(),
        )
        .unwrap();
    let purged = |now_ms: u64| {
        block_on(registry.purge_idempotency_keys(now_ms)).unwrap();
        aux_entries(registry)
    };
    // Two replies, the header of the journal and one chunk.
    assert_eq!(purged(NOW + DAY_MS), 4);
    assert_eq!(purged(NOW + DAY_MS + 1), 3);
    assert_eq!(purged(NOW + DAY_MS + 2), 2, "an incomplete batch is stored for another day");
    assert_eq!(purged(NOW + 2 * DAY_MS), 0);
}
