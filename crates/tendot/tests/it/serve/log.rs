//! The log contains no secrets, and a server whose log cannot be written keeps running.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;

use tendot_testing::http::{HttpRequest, send_raw};
use tendot_testing::wait_until;

use crate::support::{TestDir, TestServer};

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
