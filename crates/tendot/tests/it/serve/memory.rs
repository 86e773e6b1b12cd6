//! Memory of batches that are sent at the same time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tendot_testing::anonymous_memory;

use crate::support::{TestDir, TestServer};

/// Batches at the same time, and their lines.
const BATCHES: usize = 8;
const LINES: usize = 400;

/// Bytes of a line. All batches together have a hundred megabytes.
const LINE_BYTES: usize = 30_000;

/// Maximum anonymous memory in bytes (measured: 50 MB).
const MAX_MEMORY_BYTES: u64 = 96 << 20;

#[test]
fn concurrent_batches() {
    let dir = TestDir::new();
    let server = &TestServer::builder(&dir).start();
    let post = |path: &str, body| {
        let response = server.request("POST", path).json(&body).send(server.address());
        assert_eq!(response.status, 201, "{}", response.text());
        response.json()
    };
    post("/api/v1/agencies", json!({"code": "LIB", "name": "Library", "metadata": "optional"}));
    let registrant = json!({"agency": "LIB", "name": "Press", "contact": "a@example.org"});
    let registrant = post("/api/v1/registrants", registrant);
    post("/api/v1/prefixes", json!({"registrant": registrant["id"], "prefix": "10.70000"}));
    let is_finished = AtomicBool::new(false);
    let peak = thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut peak = 0;
            while !is_finished.load(Ordering::SeqCst) {
                peak = peak.max(anonymous_memory(server.pid()));
                // Often enough for a sample of each group of lines.
                thread::sleep(Duration::from_millis(2));
            }
            peak
        });
        let sending = (0..BATCHES).map(|batch| {
            scope.spawn(move || {
                let value = json!([{"index": 2, "type": "DESC", "data": "x".repeat(LINE_BYTES)}]);
                let line = |number: usize| {
                    let name = format!("10.70000/{batch}-{number}");
                    json!({"name": name, "url": "https://example.org/", "values": value}).to_string()
                };
                let lines: Vec<String> = (0..LINES).map(line).collect();
                let request = server.request("POST", "/api/v1/dois/batch").body(lines.join("\n"));
                let request = request.header("Content-Type: application/x-ndjson");
                let results = request.send(server.address()).json_lines();
                let created = results.iter().filter(|result| result["status"] == "created").count();
                assert_eq!(created, LINES, "{:?}", results.last());
            })
        });
        let sending: Vec<_> = sending.collect();
        let results: Vec<_> = sending.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_finished.store(true, Ordering::SeqCst);
        assert!(results.iter().all(Result::is_ok));
        watching.join().unwrap()
    });
    assert!(peak < MAX_MEMORY_BYTES, "{peak} bytes of memory");
}
