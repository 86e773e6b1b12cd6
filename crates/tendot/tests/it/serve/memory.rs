//! Memory of batches that are sent at the same time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tendot_testing::{anonymous_memory, repetitions};

use crate::support::{TestDir, TestServer, run_by};

/// Long lines: batches at the same time, and their lines.
const BATCHES: usize = 8;
const LINES: usize = 400;

/// Bytes of a line. All batches together have a hundred megabytes.
const LINE_BYTES: usize = 30_000;

/// Maximum anonymous memory in bytes (measured: 50 MB).
const MAX_MEMORY_BYTES: u64 = 96 << 20;

/// Memory that the server needs as documented in `docs/how-to/run-the-server.md`.
const MIN_MEMORY_BYTES: u64 = 128_000_000;

/// Batches of short lines at the same time.
const SHORT_BATCHES: usize = 4;

/// Allocates the prefix 10.70000.
fn create_prefix(server: &TestServer) {
    let post = |path: &str, body| {
        let response = server.request("POST", path).json(&body).send(server.address());
        assert_eq!(response.status, 201, "{}", response.text());
        response.json()
    };
    post("/api/v1/agencies", json!({"code": "LIB", "name": "Library", "metadata": "optional"}));
    let registrant = json!({"agency": "LIB", "name": "Press", "contact": "a@example.org"});
    let registrant = post("/api/v1/registrants", registrant);
    post("/api/v1/prefixes", json!({"registrant": registrant["id"], "prefix": "10.70000"}));
}

/// Sends batches at the same time, of lines with values of this length.
fn send_batches(server: &TestServer, batches: usize, lines: usize, value_bytes: usize) {
    let send = |batch: usize| {
        let value = json!([{"index": 2, "type": "DESC", "data": "x".repeat(value_bytes)}]);
        let line = |number: usize| {
            let name = format!("10.70000/{batch}-{number}");
            json!({"name": name, "url": "https://example.org/", "values": value}).to_string()
        };
        let body: Vec<String> = (0..lines).map(line).collect();
        let request = server.request("POST", "/api/v1/dois/batch").body(body.join("\n"));
        let request = request.header("Content-Type: application/x-ndjson");
        let results = request.send(server.address()).json_lines();
        let created = results.iter().filter(|result| result["status"] == "created").count();
        assert_eq!(created, lines, "{:?}", results.last());
    };
    thread::scope(|scope| {
        let sending: Vec<_> = (0..batches).map(|batch| scope.spawn(move || send(batch))).collect();
        let results: Vec<_> = sending.into_iter().map(thread::ScopedJoinHandle::join).collect();
        assert!(results.iter().all(Result::is_ok));
    });
}

#[test]
fn concurrent_batches() {
    let dir = TestDir::new();
    let server = &TestServer::builder(&dir).start();
    create_prefix(server);
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
        let sent = scope.spawn(|| send_batches(server, BATCHES, LINES, LINE_BYTES)).join();
        is_finished.store(true, Ordering::SeqCst);
        sent.unwrap();
        watching.join().unwrap()
    });
    assert!(peak < MAX_MEMORY_BYTES, "{peak} bytes of memory");
}

/// With the documented minimum as the limit of its control group, the server executes batches of many short lines and of long ones.
#[test]
fn documented_minimum() {
    let dir = TestDir::new();
    let limit = MemoryLimit::new(MIN_MEMORY_BYTES);
    let join = format!("echo $$ > '{}' && exec \"$0\" \"$@\"", limit.0.join("cgroup.procs").display());
    let builder = TestServer::builder(&dir).data("data");
    let server =
        TestServer::from_command(&mut run_by(&["sh", "-c", &join], &builder.command()), &dir.file("data"));
    let members = fs::read_to_string(limit.0.join("cgroup.procs")).unwrap();
    assert_eq!(members.trim(), server.pid().to_string());
    create_prefix(&server);
    let lines = repetitions("TENDOT_TEST_MEMORY_LINES", 5_000, 20_000) as usize;
    send_batches(&server, SHORT_BATCHES, lines, 10);
    assert_eq!(server.terminate(), Some(0));
}

/// Control group with a limit of memory, removed on drop. Needs root.
struct MemoryLimit(PathBuf);

impl MemoryLimit {
    fn new(bytes: u64) -> Self {
        // Version 1 has a hierarchy for memory.
        let (root, version_1) = (Path::new("/sys/fs/cgroup"), Path::new("/sys/fs/cgroup/memory"));
        let (parent, limit, swap) = if version_1.exists() {
            (version_1, "memory.limit_in_bytes", ("memory.swappiness", "0"))
        } else {
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
            (root, "memory.max", ("memory.swap.max", "0"))
        };
        let path = parent.join(format!("tendot-test-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let group = Self(path);
        fs::write(group.0.join(limit), bytes.to_string()).unwrap();
        // Without swap there is nothing to set.
        let _ = fs::write(group.0.join(swap.0), swap.1);
        group
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Fails while a process of a failed test ends.
        let _ = fs::remove_dir(&self.0);
    }
}
