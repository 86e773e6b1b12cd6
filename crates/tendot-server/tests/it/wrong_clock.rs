//! A system clock that is a day ahead: idempotency keys stay valid, and changes get the right time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde_json::json;
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::http::{HttpLimits, HttpServer};
use tendot_store::{AnyStore, EmbeddedStore, MemoryStore, Store as _};
use tendot_testing::{block_on, ram_dir};

use crate::support::api_client::ApiClient;
use crate::support::http_server::{TOKEN, bind, start_http};
use crate::support::stores::{open_postgres, postgres_url};

/// More than the lifetime of an idempotency key.
const SHIFT_MS: u64 = 25 * 3_600 * 1_000;

/// Difference that is not an error: requests take time.
const TOLERANCE_MS: u64 = 15 * 60 * 1_000;

const BATCH: &str = concat!(
    r#"{"name": "10.70000/a", "url": "https://example.org/old"}"#,
    "\n",
    r#"{"name": "10.70000/b", "url": "https://example.org/old"}"#,
    "\n"
);

fn system_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Starts a server whose system clock is ahead by this time, which may change.
fn start(store: AnyStore, shift_ms: &Arc<AtomicU64>) -> ApiClient {
    start_with_registry(store, shift_ms).0
}

fn start_with_registry(store: AnyStore, shift_ms: &Arc<AtomicU64>) -> (ApiClient, Arc<Registry>) {
    let (store, shift_ms) = (Arc::new(store), Arc::clone(shift_ms));
    let registry = Registry::with_shared_store(Arc::clone(&store), RegistrySettings::default())
        .with_system_clock(move || system_ms() + shift_ms.load(Ordering::SeqCst));
    let registry = Arc::new(registry);
    let http = HttpServer::new(Arc::clone(&registry)).operator_token(TOKEN);
    let server = start_http(http, store, bind(), Vec::new(), HttpLimits::default(), None);
    (ApiClient { server }, registry)
}

/// Sends a batch to `first`, changes one of its names, moves the clock of `second` ahead, and sends the batch to it again.
fn check(first: &ApiClient, second: &ApiClient, shift_ms: &AtomicU64) {
    let fixtures = first.create_fixtures();
    let token = &*fixtures.tokens[0];
    let key = ["Idempotency-Key: day"];
    let results = first.batch(token, &key, BATCH);
    assert!(results.iter().all(|result| result["status"] == "created"), "{results:?}");
    let newer = "https://example.org/new";
    first.check("PUT", "/dois/10.70000/a", token, &json!({"url": newer}), (200, ""));

    shift_ms.store(SHIFT_MS, Ordering::SeqCst);
    let response = second.send("POST", "/api/v1/dois/batch", token, &key, BATCH.as_bytes());
    assert_eq!(response.header("idempotency-replayed"), Some("true"), "{}", response.text());
    assert_eq!(
        second.redirect_of("10.70000/a"),
        (302, Some(newer.to_owned())),
        "a newer value was overwritten"
    );

    let later = json!({"name": "10.70000/c", "url": newer});
    second.check("POST", "/dois", token, &later, (201, ""));
    first.check("PUT", "/dois/10.70000/c", token, &json!({"url": "https://example.org/c"}), (200, ""));
    let log = block_on(first.server.store.read_log(0, 1_000)).unwrap();
    let times: Vec<u64> = log.iter().map(|entry| entry.timestamp_ms).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(times.iter().all(|time| time.abs_diff(system_ms()) < TOLERANCE_MS), "{times:?}");
}

#[test]
fn one_of_two_servers_has_a_wrong_clock() {
    let url = postgres_url();
    let (right, shift_ms) = (Arc::default(), Arc::default());
    check(&start(open_postgres(&url), &right), &start(open_postgres(&url), &shift_ms), &shift_ms);
    // Even if it was wrong when the server started.
    let server = start(open_postgres(&url), &shift_ms);
    let response = server.send("POST", "/api/v1/dois/batch", TOKEN, &[], BATCH.as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
    let last = block_on(async {
        let head = server.server.store.head().await.unwrap();
        server.server.store.read_log(head.sequence - 1, 1).await.unwrap().remove(0)
    });
    assert!(last.timestamp_ms.abs_diff(system_ms()) < TOLERANCE_MS, "{last:?}");
}

#[test]
fn system_clock_jump() {
    let directory = ram_dir();
    let embedded = EmbeddedStore::open(directory.path()).unwrap();
    for store in [AnyStore::from(MemoryStore::new()), embedded.into()] {
        let shift_ms = Arc::default();
        let (server, registry) = start_with_registry(store, &shift_ms);
        assert!(!registry.has_wrong_system_clock());
        check(&server, &server, &shift_ms);
        assert!(registry.has_wrong_system_clock());
        assert!(registry.clock_skew_ms().unsigned_abs().abs_diff(SHIFT_MS) < TOLERANCE_MS);
    }
}
