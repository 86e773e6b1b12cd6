//! Slow clients and the file descriptor limit do not block other clients.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use tendot_testing::http::HttpRequest;

use crate::support::{TENDOT, TestDir, TestServer};

/// Five hundred connections send their requests byte by byte; they are closed after the timeout, and do not delay another
/// client.
#[test]
fn attack_h10_five_hundred_slow_clients() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).demo().in_memory().set("http.limits.header_timeout=12s").start();
    let slow: Vec<TcpStream> = (0..500).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let is_open = |mut stream: &TcpStream, byte: u8| stream.write_all(&[byte]).is_ok();
    let head = b"GET / HTTP/1.1\r\nHost: somewhere\r\n";
    let mut other = server.connect();
    // A hundred requests take about a tenth of a second, far less than the timeout of slow clients.
    for byte in &head[..20] {
        assert!(
            slow.iter().all(|stream| is_open(stream, *byte)),
            "closed before the other client was served"
        );
        for _ in 0..5 {
            assert_eq!(other.exchange(&HttpRequest::get("/10.5555/DEMO")).unwrap().status, 302);
        }
    }
    let mut open = slow;
    for byte in head[20..].iter().cycle() {
        open.retain(|stream| is_open(stream, *byte));
        if open.is_empty() {
            break;
        }
        assert_eq!(other.exchange(&HttpRequest::get("/10.5555/DEMO")).unwrap().status, 302);
        // Each byte arrives in time, the whole head does not.
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Idle connections are closed first when file descriptors run out: a write does not wait for their timeout.
#[test]
fn idle_connections_make_room_for_a_write() {
    let dir = TestDir::new();
    let script = format!(
        "ulimit -n 64; exec {TENDOT} serve --data tendot-data --http 127.0.0.1:0 --native off --set http.limits.idle_timeout=1h"
    );
    let mut command = Command::new("sh");
    let data = dir.path().join("tendot-data");
    let server = TestServer::from_command(command.args(["-c", &script]).current_dir(dir.path()), &data);
    let connections: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    // The client's own timeout is far below that of idle connections.
    assert_eq!(server.request("POST", "/api/prefixes/0.NA/10.5555").send(server.address()).status, 200);
    drop(connections);
}

/// At the file descriptor limit the server waits without spinning, and accepts connections again afterwards.
#[test]
fn attack_s11_file_descriptor_limit() {
    let dir = TestDir::new();
    let script =
        format!("ulimit -n 64; exec {TENDOT} serve --demo --store memory: --http 127.0.0.1:0 --native off");
    let mut command = Command::new("sh");
    let server = TestServer::from_command(command.args(["-c", &script]).current_dir(dir.path()), dir.path());
    let connections: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let message = "accept failed; retrying";
    server.wait_for_log(message);
    let before = server.cpu_time();
    // A busy loop would use all of this time.
    std::thread::sleep(Duration::from_secs(1));
    let used = server.cpu_time() - before;
    assert!(used < Duration::from_millis(250), "{used:?}");
    drop(connections);
    assert_eq!(server.get("/10.5555/DEMO").status, 302);
    let more = server.log_lines().iter().filter(|line| line.contains(message)).count();
    assert!(more <= 2, "logged {more} times more");
}
