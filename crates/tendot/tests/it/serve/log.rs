//! The log contains no secrets, and a server whose log cannot be written keeps running.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value as Json;
use tendot_testing::http::{HttpRequest, send_raw};
use tendot_testing::wait_until;

use crate::support::{NativeSession, SESSION_HOLDER, TestDir, TestServer};

/// The log contains neither secrets of requests nor terminal control sequences.
#[test]
fn attack_o3_log_contains_no_secrets() {
    let dir = TestDir::new();
    for format in ["json", "text"] {
        let format = format!("log.format={format}");
        let builder = TestServer::builder(&dir).demo().in_memory();
        let builder = builder.set("log.requests=true").set("log.level=trace").set(&format);
        let server = builder.start();
        let request = "PUT /api/handles/10.5555/X%1B%5B2J?secret=canary HTTP/1.1\r\nHost: a\r\n\
                       Authorization: Bearer canary\r\nCookie: canary\r\nContent-Length: 2\r\n\
                       Connection: close\r\n\r\n[]";
        let response = send_raw(server.address(), request);
        let id = response.header("x-request-id").unwrap();
        server.signal("TERM");
        server.wait();
        let lines: Vec<String> = server.log_to_end();
        let line = lines.iter().find(|line| line.contains(id)).expect("a line for the request");
        assert!(line.contains("10.5555/X%1B%5B2J") && line.contains("401"), "{line}");
        assert!(!lines.iter().any(|line| line.contains("canary") || line.contains('\x1B')), "{lines:?}");
        if format.ends_with("json") {
            let json: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((&json["method"], &json["status"]), (&"PUT".into(), &401.into()));
        }
    }
}

/// Standard error is closed: lines are dropped and counted, and the server keeps running.
#[test]
fn attack_s13_closed_stderr() {
    let dir = TestDir::new();
    let mut command = TestServer::builder(&dir).demo().in_memory().set("log.requests=true").command();
    let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
    let ready = lines.find(|line| line.starts_with("ready: ")).expect("the server is ready");
    drop(lines);
    let address: SocketAddr =
        ready.trim_start_matches("ready: http://").trim_end_matches('/').parse().unwrap();
    for _ in 0..50 {
        assert_eq!(HttpRequest::get("/10.5555/DEMO").send(address).status, 302);
    }
    wait_until("dropped lines are counted", || {
        let metrics = HttpRequest::get("/metrics").send(address);
        let text = metrics.text();
        let dropped = text.lines().find_map(|line| line.strip_prefix("tendot_log_dropped_total ")).unwrap();
        dropped.parse::<f64>().unwrap() > 1.0
    });
    process.kill().unwrap();
    process.wait().unwrap();
}

/// A failed authentication is logged with identity, client and reason, without the credential; many of them do not fill the log.
#[test]
fn audit_f12_failed_authentication_is_logged() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).demo().with_native().set("log.format=json").start();
    NativeSession::open(&dir, &server);
    let started = Instant::now();
    dir.write("secret.txt", "canary-secret");
    let native = format!("hdl://{}", server.native_address());
    let credentials = ["--auth", "301:10.5555/HOLDER", "--secret-file", "secret.txt"];
    let delete = ["handle", "delete", SESSION_HOLDER, "--server", &native];
    let (code, _, stderr) = dir.run(&[&delete[..], &credentials].concat());
    assert_ne!(code, Some(0), "{stderr}");
    let guess = || HttpRequest::get("/api/v1/tokens").bearer("canary-token").send(server.address()).status;
    for _ in 0..15 {
        assert_eq!(guess(), 401);
    }
    let mut lines: Vec<Json> = Vec::new();
    wait_until("a later failure is logged", || {
        guess();
        let new = server.log_lines();
        assert!(!new.iter().any(|line| line.contains("canary")), "{new:?}");
        let new = new.iter().filter(|line| line.contains("authentication failed"));
        lines.extend(new.map(|line| serde_json::from_str::<Json>(line).unwrap()));
        lines.iter().any(|line| line["identity"] == "operator")
    });
    let seconds = started.elapsed().as_secs() as usize;
    assert!(lines.len() <= seconds + 2, "{seconds} s: {lines:?}");
    let (first, last) = (&lines[0], lines.last().unwrap());
    for line in [first, last] {
        assert_eq!((&line["level"], &line["client"]), (&"WARN".into(), &"127.0.0.1".into()), "{line}");
    }
    assert_eq!((&first["identity"], &first["reason"]), (&"301:10.5555/HOLDER".into(), &"failed".into()));
    assert!(last["suppressed"].as_u64().unwrap() > 0, "{lines:?}");
}
