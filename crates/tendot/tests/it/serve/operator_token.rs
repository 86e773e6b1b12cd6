//! The file of the operator token: its mode, and reloading on SIGHUP. Trust in loopback, which the token needs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use tendot_testing::http::HttpRequest;
use tendot_testing::wait_until;

use crate::support::{TestDir, TestServer};

fn status_with(server: &TestServer, token: &str) -> u16 {
    HttpRequest::get("/api/v1/agencies").bearer(token).send(server.address()).status
}

/// A token that every user of the machine can read is refused, with the path and the remedy.
#[test]
fn audit_f14_world_accessible_token() {
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir);
    let server = builder.start();
    let path = fs::canonicalize(dir.file("tendot-data/operator.token")).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(server.terminate(), Some(0));
    for mode in [0o666, 0o604, 0o601] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let output = builder.command().output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("operator.token` is world-accessible"), "{stderr}");
        assert!(stderr.contains("chmod 600 "), "{stderr}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(builder.start().terminate(), Some(0));
}

#[test]
fn audit_f14_token_is_reloaded() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).start();
    let (path, old, new) = (dir.file("tendot-data/operator.token"), server.token(), "another-operator-token");
    assert_eq!((status_with(&server, &old), status_with(&server, new)), (200, 401));
    fs::write(&path, format!("{new}\n")).unwrap();
    server.signal("HUP");
    wait_until("the new token is valid", || status_with(&server, new) == 200);
    assert_eq!(status_with(&server, &old), 401);
    // A file that cannot be used changes nothing.
    fs::write(&path, "short\n").unwrap();
    server.signal("HUP");
    server.wait_for_log("operator token reload failed");
    assert_eq!(status_with(&server, new), 200);
}

/// The command replaces the file, which stays private; tokens of the registry stay valid.
#[test]
fn operator_token_is_rotated() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).start();
    let old = server.token();
    let create = server.request("POST", "/api/v1/tokens").json(&json!({"role": "operator"}));
    let created = create.send(server.address()).json()["token"].as_str().unwrap().to_owned();
    let (_, stderr) = dir.run_to(0, &["token", "rotate-operator"]);
    assert!(stderr.contains("new operator token in `tendot-data/operator.token`"), "{stderr}");
    assert_eq!(dir.mode("tendot-data/operator.token"), 0o600);
    let new = server.token();
    assert_ne!(old, new);
    server.signal("HUP");
    wait_until("the new token is valid", || status_with(&server, &new) == 200);
    assert_eq!((status_with(&server, &old), status_with(&server, &created)), (401, 200));
    let (_, stderr) = dir.run_to(2, &["token", "rotate-operator", "--data", "none"]);
    assert!(stderr.contains("no operator token `none/operator.token`"), "{stderr}");
}

/// Where other clients are served through a proxy or over TLS, loopback is not trusted unless a setting says so.
#[test]
fn audit_f10_loopback_behind_a_proxy() {
    let dir = TestDir::new();
    let metrics = |server: &TestServer, header: &str| {
        HttpRequest::get("/metrics").header(header).send(server.address()).status
    };
    let with_proxies = |dir| TestServer::builder(dir).in_memory().set("http.trusted_proxies=192.0.2.1");
    let server = with_proxies(&dir).start();
    assert_eq!(metrics(&server, "Accept: */*"), 403);
    assert_eq!(metrics(&server, "X-Forwarded-For: 198.51.100.1"), 403);
    server.wait_for_log("request forwarded by an untrusted proxy on loopback");
    let server = TestServer::builder(&dir).in_memory().set("http.public_url=https://id.example.org").start();
    assert_eq!(metrics(&server, "Accept: */*"), 403);
    dir.write_certificate(&["localhost"]);
    let server = TestServer::builder(&dir).in_memory().with_https().start();
    assert_eq!(metrics(&server, "Accept: */*"), 403);
    let server = with_proxies(&dir).set("http.trust_loopback=true").start();
    assert_eq!(metrics(&server, "Accept: */*"), 200);
    assert_eq!(metrics(&server, "X-Forwarded-For: 198.51.100.1"), 403);
    let server = TestServer::builder(&dir).in_memory().start();
    assert_eq!(metrics(&server, "Accept: */*"), 200);
}
