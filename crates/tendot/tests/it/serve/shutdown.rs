//! SIGTERM: in-flight requests are drained, stalled clients do not delay the shutdown, and statistics are saved.

use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value as Json, json};
use tendot_testing::http::HttpRequest;
use tendot_testing::wait_until;

use crate::support::{TestDir, TestServer, wait_until_received};

/// The server exits as soon as the in-flight request is answered, long before the drain timeout.
#[test]
fn attack_s12_sigterm() {
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir).demo().in_memory();
    let server =
        builder.set("http.limits.drain_timeout=10min").set("http.limits.header_timeout=10min").start();
    let mut connection = server.connect();
    assert_eq!(connection.exchange(&HttpRequest::get("/10.5555/DEMO")).unwrap().status, 302);
    // The head of the second request has begun.
    connection.write(b"GET /10.5555/DEMO HTTP/1.1\r\n").unwrap();
    wait_until_received(connection.stream());
    let address = server.address();
    server.signal("TERM");
    wait_until("no further connection is accepted", || TcpStream::connect(address).is_err());
    connection.write(b"Host: localhost\r\n\r\n").unwrap();
    let response = connection.read_response(false).unwrap();
    assert_eq!((response.status, response.header("connection")), (302, Some("close")));
    assert_eq!(server.wait(), Some(0));
}

/// A client that never completes its request is disconnected after the drain timeout.
#[test]
fn attack_s12_stalled_client_does_not_block_shutdown() {
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir).demo().in_memory();
    let server = builder.set("http.limits.drain_timeout=500ms").set("http.limits.body_timeout=10min").start();
    let mut connection = server.connect();
    let request = b"PUT /api/handles/10.5555/X HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n";
    connection.write(request).unwrap();
    wait_until_received(connection.stream());
    assert_eq!(server.terminate(), Some(0));
}

/// Resolution statistics survive a restart, also when the server is stopped during resolutions.
#[test]
fn statistics_survive_restart() {
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir).set("reports.flush_interval=1h");
    let server = builder.start();
    let post = |path: &str, body: Json| {
        let request = server.request("POST", &format!("/api/v1/{path}")).json(&body);
        request.send(server.address()).json()
    };
    post("agencies", json!({"code": "A", "name": "A", "metadata": "optional"}));
    let registrant = post("registrants", json!({"agency": "A", "name": "B"}));
    post("prefixes", json!({"registrant": registrant["id"], "prefix": "10.70000"}));
    post("dois", json!({"name": "10.70000/x", "url": "https://example.org/"}));
    let (sent, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut connection = server.connect();
            let (sent, answered) = (&sent, &answered);
            scope.spawn(move || {
                loop {
                    sent.fetch_add(1, Ordering::SeqCst);
                    match connection.exchange(&HttpRequest::get("/10.70000/x")) {
                        Ok(response) if response.status == 302 => answered.fetch_add(1, Ordering::SeqCst),
                        _ => break,
                    };
                }
            });
        }
        wait_until("enough is counted", || answered.load(Ordering::SeqCst) > 200);
        server.signal("TERM");
    });
    assert_eq!(server.wait(), Some(0));
    drop(server);
    let server = builder.start();
    let report = server.request("GET", "/api/v1/reports/10.70000/resolved").send(server.address()).json();
    let counted = report["count"].as_u64().unwrap();
    // The last requests may have been counted and not answered.
    let (sent, answered) = (sent.into_inner(), answered.into_inner());
    assert!((answered..=sent).contains(&counted), "{answered} {counted} {sent}");
}
