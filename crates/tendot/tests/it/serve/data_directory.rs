//! The data directory is moved or deleted beside the running server: no write is acknowledged that would be lost.

use std::fs;

use tendot_testing::http::HttpRequest;
use tendot_testing::wait_until;

use crate::support::{TestDir, TestServer};

/// Writes are refused, reads work, and health checks and metrics say why; when the directory is back, writes work again.
#[test]
fn moved_and_deleted_data_directory() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).data("data").demo().start();
    let readiness = |target: &str| {
        let response = server.get(target);
        (response.status, response.text().into_owned())
    };
    let writable = || server.metric("tendot_store_writable");
    let requests =
        ["moved", "back", "deleted"].map(|name| server.put_handle(&format!("10.5555/{name}"), "https://x/"));
    let write = |number: usize| server.connect().exchange(&requests[number]).unwrap().status;
    let ready = (200, "ready\n".to_owned());
    assert_eq!(
        (readiness("/readyz"), readiness("/readyz?write"), writable()),
        (ready.clone(), ready.clone(), 1.0)
    );
    assert!(server.metric("tendot_store_free_bytes") > 0.0);
    assert!(server.metric("tendot_store_last_commit_timestamp_seconds") > 1.7e9);

    let check_refused = |number: usize| {
        assert!(write(number) >= 500);
        let reason = "read-only: the data file was deleted, moved or replaced\n";
        assert_eq!(readiness("/readyz"), (200, format!("ready, {reason}")));
        assert_eq!((readiness("/readyz?write"), writable()), ((503, reason.to_owned()), 0.0));
        assert_eq!(server.get("/api/handles/10.5555/demo").status, 200);
    };
    fs::rename(dir.file("data"), dir.file("old")).unwrap();
    check_refused(0);
    server.wait_for_log("the store cannot be written; move its data file back");
    check_refused(0);
    fs::rename(dir.file("old"), dir.file("data")).unwrap();
    assert!(write(1) < 300);
    let logged = server.wait_for_log("the store is writable again");
    assert!(!logged.iter().any(|line| line.contains("cannot be written")), "logged twice: {logged:?}");
    assert_eq!((readiness("/readyz?write"), writable()), (ready, 1.0));
    fs::remove_dir_all(dir.file("data")).unwrap();
    check_refused(2);
    server.wait_for_log("the store cannot be written; move its data file back");
    assert_eq!(server.get("/api/handles/10.5555/moved").status, 404);
}

/// A corrupt record is 500 `corrupt`, never 404, and the scrub shows it in health check and metrics.
#[test]
fn damaged_records_are_reported() {
    let dir = TestDir::new();
    drop(TestServer::builder(&dir).data("data").demo().start());
    let path = dir.file("data/data.mdb");
    let mut bytes = fs::read(&path).unwrap();
    let name = b"10.5555/DEMO";
    let found = bytes.windows(name.len()).enumerate().filter(|(_, window)| window == name);
    let offsets: Vec<usize> = found.map(|(at, _)| at).collect();
    assert!(!offsets.is_empty());
    // The end of the key: the name is not found, and the record belongs to no name.
    offsets.into_iter().for_each(|at| bytes[at + name.len() - 1] ^= 1);
    fs::write(&path, bytes).unwrap();
    let server = TestServer::builder(&dir).data("data").start();
    let response =
        HttpRequest::get("/10.5555/demo").header("Accept: application/json").send(server.address());
    assert_eq!(response.status, 500, "{}", response.text());
    assert!(response.text().contains("\"corrupt\""), "{}", response.text());
    for path in ["/10.5555/demo", "/api/handles/10.5555/demo"] {
        assert_eq!(server.get(path).status, 500, "{path}");
    }
    assert_eq!(server.get("/api/handles/10.5555/absent").status, 404);
    wait_until("the scrub has ended", || server.metric("tendot_store_scrub_errors") > 0.0);
    let response = server.get("/readyz?write");
    assert_eq!(
        (response.status, &*response.text()),
        (200, "ready, corrupt: the scrub found corruption; run `tendot verify`\n")
    );
}
