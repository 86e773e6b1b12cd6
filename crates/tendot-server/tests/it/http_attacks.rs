//! Attacks over real HTTP connections: slow and silent clients, oversized heads, request smuggling, HTTP/2 abuse. The numbers in
//! the test names are those of the list of attacks.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tendot_server::http::HttpLimits;
use tendot_testing::{WAIT_TIMEOUT, wait_until};

use crate::support::http_server::{TOKEN, TestServer, read_text, start, start_default};

const HEADER_TIMEOUT: Duration = Duration::from_millis(200);
const IDLE_TIMEOUT: Duration = Duration::from_millis(300);

fn short_timeouts() -> HttpLimits {
    HttpLimits {
        header_timeout: HEADER_TIMEOUT,
        idle_timeout: IDLE_TIMEOUT,
        write_timeout: IDLE_TIMEOUT,
        ..HttpLimits::default()
    }
}

/// Reads until the server closes the connection, long before the read would time out.
#[track_caller]
fn read_until_server_closes(stream: &TcpStream) -> String {
    let started = Instant::now();
    let text = read_text(stream);
    assert!(started.elapsed() < WAIT_TIMEOUT / 2, "the server does not close the connection");
    text
}

#[test]
fn attack_h10_incomplete_heads_time_out() {
    let server = start(short_timeouts(), None, |http| http);
    let cases: [&[u8]; 4] = [b"", b"PRI * HTTP/2.0\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"\r\n"];
    std::thread::scope(|scope| {
        for head in cases {
            let server = &server;
            scope.spawn(move || {
                let connected = Instant::now();
                let mut stream = server.connect();
                stream.write_all(head).unwrap();
                read_until_server_closes(&stream);
                assert!(connected.elapsed() >= HEADER_TIMEOUT, "{head:?}: {:?}", connected.elapsed());
            });
        }
    });
    // Between two requests a client may wait for longer; an incomplete second request times out like the first.
    let server =
        start(HttpLimits { header_timeout: HEADER_TIMEOUT, ..HttpLimits::default() }, None, |http| http);
    let mut stream = server.connect();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    read_until_server_closes(&server.connect());
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /").unwrap();
    assert_eq!(read_until_server_closes(&stream).matches("HTTP/1.1 200").count(), 2);
}

#[test]
fn attack_h10_single_bytes_do_not_extend_the_timeout() {
    let server = start(short_timeouts(), None, |http| http);
    let mut stream = server.connect();
    stream.set_read_timeout(Some(HEADER_TIMEOUT / 10)).unwrap();
    let started = Instant::now();
    for byte in b"GET / HTTP/1.1\r\nHost: abcdefghijklmnopqrstuvwxyz".iter().cycle() {
        // The read is also the pause between two bytes.
        let is_open = stream.write_all(&[*byte]).is_ok()
            && stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        if !is_open {
            break;
        }
        assert!(started.elapsed() < WAIT_TIMEOUT, "the server does not close the connection");
    }
}

#[test]
fn attack_h10_slow_body() {
    let server = start(short_timeouts(), None, |http| http.body_timeout(HEADER_TIMEOUT));
    let mut stream = server.connect();
    let head = format!(
        "PUT /api/handles/10.5555/NEW HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100000\r\n\r\n["
    );
    stream.write_all(head.as_bytes()).unwrap();
    let response = read_until_server_closes(&stream);
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
}

#[test]
fn attack_h10_write_timeout() {
    let server = start(short_timeouts(), None, |http| http);
    let mut stream = server.connect();
    // Far more than the socket buffers hold.
    let request = "GET /api/handles/10.5555/LARGE HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20);
    stream.write_all(request.as_bytes()).unwrap();
    // The other connection is that of the request for the metrics.
    wait_until("the connection is closed", || server.metric("tendot_http_connections") == 1.0);
    let received = read_text(&stream).len();
    assert!(received < 20 * 2_000_000, "the whole response was sent: {received}");
}

#[test]
fn attack_h10_http2_write_timeout() {
    let server = start(short_timeouts(), None, |http| http);
    let mut stream = server.connect();
    stream.write_all(&http2(&[settings(), get(1, "/api/handles/10.5555/LARGE")])).unwrap();
    // The window of the stream is never opened.
    let received = read_until_server_closes(&stream).len();
    assert!(received < 200_000, "{received} of 2 MB");
}

#[test]
fn attack_h11_oversized_heads() {
    let server = start_default();
    let many_headers: String = (0..1_000).map(|number| format!("X-{number}: y\r\n")).collect();
    check(&server, format!("GET / HTTP/1.1\r\n{many_headers}\r\n"), 431);
    check(&server, format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(1 << 20)), 431);
    let cookies = format!("Cookie: {}\r\n", "y".repeat(8 << 10)).repeat(100);
    check(&server, format!("GET / HTTP/1.1\r\n{cookies}\r\n"), 431);
    check(&server, format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "y".repeat(64 << 10)), 414);
    // A client that continues to send receives the response, too.
    let mut stream = server.connect();
    stream.write_all(format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(200 << 10)).as_bytes()).unwrap();
    stream.peek(&mut [0]).unwrap();
    for _ in 0..5 {
        stream.write_all(&[b'y'; 1 << 10]).unwrap();
    }
    assert!(read_text(&stream).starts_with("HTTP/1.1 431 "));
    // Fewer header fields than the limit are accepted.
    let allowed_headers: String = (0..90).map(|number| format!("X-{number}: y\r\n")).collect();
    check(
        &server,
        format!("GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{allowed_headers}\r\n"),
        200,
    );
}

#[test]
fn attack_h12_request_smuggling() {
    let server = start_default();
    let hidden = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
    let length = hidden.len();
    let put = format!("PUT /api/handles/10.5555/X HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n");
    for head in [
        format!("{put}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{put}Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{put}Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{hidden}"),
        format!("{put}Content-Length: {length}\r\nContent-Length: {length}\r\n\r\n{hidden}{hidden}"),
        format!("{put}Content-Length: +0\r\n\r\n{hidden}"),
        format!("{put}Content-Length: 0, {length}\r\n\r\n{hidden}"),
        format!("{put}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{put}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{put}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{put}X: y\r\n folded\r\n\r\n{hidden}"),
        format!("{put}X: y\nContent-Length: 0\r\n\r\n{hidden}"),
        format!("GET /livez HTTP/1.1\nHost: a\n\n{hidden}"),
        format!("{put}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{hidden}"),
        format!("{put}Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{put}X\0: y\r\n\r\n{hidden}"),
        format!("GET /livez HTTP/1.1\r\nX: \r y\r\n\r\n{hidden}"),
        format!("PUT /api/handles/10.5555/X HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
    ] {
        check(&server, head, 400);
    }
    // A chunked body is the last of its connection: a proxy may see its end elsewhere.
    let response =
        server.send_raw(format!("{put}Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n{hidden}"));
    assert_eq!(response.matches("HTTP/1.1 ").count(), 1, "{response}");
}

/// Expects one response with this status, after which the connection is closed.
#[track_caller]
fn check(server: &TestServer, request: String, expected: u16) {
    let response = server.send_raw(&request);
    let excerpt: String = request.chars().take(200).collect();
    assert!(response.starts_with(&format!("HTTP/1.1 {expected} ")), "{excerpt:?}: {response}");
    assert_eq!(response.matches("HTTP/1.1 ").count(), 1, "{excerpt:?}: {response}");
    check_request_id_and_length(&response);
}

/// Expects a request id, and a body of the length in the head.
#[track_caller]
fn check_request_id_and_length(response: &str) {
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    assert_eq!(length.parse(), Ok(body.len()), "{response}");
    assert!(body.len() > 2 && head.contains("\r\nx-request-id: "), "{response}");
}

#[test]
fn attack_h11_rejected_heads_get_a_reason() {
    let server = start_default();
    let check = |request: String, expected: &str| {
        let response = server.send_raw(&request);
        check_request_id_and_length(&response);
        let excerpt: String = request.chars().take(200).collect();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap();
        assert_eq!(format!("{status} {}", body.trim_end()), expected, "{excerpt:?}");
    };
    let malformed_head =
        "400 malformed request head: expected `METHOD TARGET HTTP/1.1` and `name: value` lines";
    let line = |number: u32, reason: &str| format!("400 malformed request head: line {number}: {reason}");
    check("GET /10.5555/\0 HTTP/1.1\r\nHost: a\r\n\r\n".into(), &line(1, "line has control characters"));
    check("GET /x HTTP/1.1\r\nHost: a\r\nX: \u{1b}\r\n\r\n".into(), &line(3, "line has control characters"));
    check("GET /x HTTP/1.1\nHost: a\r\n\r\n".into(), &line(1, "line does not end with CRLF"));
    check("GET /x HTTP/1.1\r\nHost a\r\n\r\n".into(), malformed_head);
    check("GET /x HTTP/9.9\r\nHost: a\r\n\r\n".into(), malformed_head);
    check("hello\r\n\r\n".into(), malformed_head);
    check("\u{16}\u{3}\u{1}\u{2}\0\u{1}".into(), &line(1, "line has control characters"));
    let long_target = "y".repeat(64 << 10);
    check(
        format!("GET /{long_target} HTTP/1.1\r\nHost: a\r\n\r\n"),
        "414 the request target exceeds 65534 bytes",
    );
    let head_too_large = "431 the request head exceeds 100 header fields or 98304 bytes";
    check(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(128 << 10)), head_too_large);
    check(format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(200)), head_too_large);
    // Invalid percent-encoding is rejected by the handlers, with a page or JSON.
    for target in ["/10.5555/%zz", "/10.5555/%00", "/api/handles/10.5555/%4"] {
        let response =
            server.send_raw(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        assert!(
            response.starts_with("HTTP/1.1 400 ") && response.contains("of the path"),
            "{target}: {response}"
        );
        check_request_id_and_length(&response);
    }
}

#[test]
fn attack_h11_rejection_after_pipelined_requests() {
    let server = start_default();
    for method in ["GET", "HEAD"] {
        let valid_request = format!("{method} /livez HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = server.send_raw(format!("{}GET /\0 HTTP/1.1\r\n\r\n", valid_request.repeat(3)));
        assert_eq!(response.matches("HTTP/1.1 200 OK\r\n").count(), 3, "{response}");
        assert_eq!(response.matches("\r\nx-request-id: ").count(), 4, "{response}");
        let last = response.rfind("HTTP/1.1 ").unwrap();
        assert!(response[last..].starts_with("HTTP/1.1 400 "), "{response}");
        check_request_id_and_length(&response[last..]);
    }
}

#[test]
fn attack_h13_rapid_reset() {
    let server = start_default();
    let mut stream = server.connect();
    stream.write_all(&http2(&[settings()])).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let frames =
        std::thread::spawn(move || std::iter::from_fn(|| read_frame(&mut reader)).collect::<Vec<_>>());
    let mut sent = 0;
    'sending: for _ in 0..1_000 {
        let frames: Vec<Vec<u8>> = (0..100)
            .flat_map(|number| {
                let id = 2 * (sent + number) + 1;
                [get(id, "/10.5555/ONE"), frame(3, 0, id, &8_u32.to_be_bytes())]
            })
            .collect();
        sent += 100;
        if stream.write_all(&frames.concat()).is_err() {
            break 'sending;
        }
    }
    assert!(sent < 100_000, "the server accepts everything");
    // GOAWAY with ENHANCE_YOUR_CALM.
    assert!(
        frames.join().unwrap().iter().any(|(kind, payload)| *kind == 7 && payload[4..8] == [0, 0, 0, 11])
    );
    assert_eq!(server.request("GET", "/livez", "").status, 200);
}

#[test]
fn attack_h13_endless_headers() {
    let server = start_default();
    let mut stream = server.connect();
    stream.write_all(&http2(&[settings()])).unwrap();
    // HEADERS without END_HEADERS, followed by CONTINUATION frames.
    let _ = stream.write_all(&frame(1, 0, 1, &[0x82, 0x86, 0x84]));
    let continuation = frame(9, 0, 1, &[0x40, 1, b'x', 1, b'y'].repeat(3_000));
    let sent = (0..10_000).take_while(|_| stream.write_all(&continuation).is_ok()).count();
    assert!(sent < 10_000, "the server accepts everything");
    assert_eq!(server.request("GET", "/livez", "").status, 200);
}

#[test]
fn attack_h13_too_many_streams() {
    let server = start_default();
    let mut stream = server.connect();
    let mut frames = vec![settings()];
    // Bodies that never come, so that no stream ends.
    frames.extend((0..1_000).map(|number| head(2 * number + 1, "PUT", "/api/handles/10.5555/X", false)));
    let _ = stream.write_all(&http2(&frames));
    let mut frames = std::iter::from_fn(|| read_frame(&mut stream));
    assert!(frames.any(|(kind, _)| kind == 3 || kind == 7), "all streams were accepted");
    assert_eq!(server.request("GET", "/livez", "").status, 200);
}

#[test]
fn attack_h18_methods() {
    let server = start_default();
    let get = server.request("GET", "/10.5555/ONE", "");
    let head = server.request("HEAD", "/10.5555/ONE", "");
    let stable_lines = |head: &str| -> Vec<String> {
        let varying = ["date", "expires", "x-request-id"];
        let lines = head.lines().filter(|line| !varying.iter().any(|name| line.starts_with(name)));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(stable_lines(&get.head), stable_lines(&head.head));
    assert!(head.body.is_empty() && !get.body.is_empty());
    for method in ["TRACE", "PROPFIND", "get", "PUT", "DELETE", "POST", "PATCH"] {
        let response = server.request(method, "/10.5555/ONE", "");
        assert_eq!(
            (response.status, response.header("allow")),
            (405, Some("GET, HEAD, OPTIONS")),
            "{method}"
        );
    }
    let response = server.request("PATCH", "/api/handles/10.5555/ONE", "");
    assert_eq!(response.header("allow"), Some("GET, HEAD, OPTIONS, POST, PUT, DELETE"));
    assert_eq!(server.request("CONNECT", "example.org:80", "").status, 405);
}

#[test]
fn attack_h19_ranges_and_etags() {
    let server = start_default();
    let response = server.request("GET", "/api/handles/10.5555/ONE", "Range: bytes=0-1");
    assert_eq!(response.status, 200);
    let tag = response.header("etag").unwrap().to_owned();
    let tags = |other_tags: usize| format!("If-None-Match: {}{tag}", "\"x\", ".repeat(other_tags));
    assert_eq!(server.request("GET", "/api/handles/10.5555/ONE", &tags(63)).status, 304);
    assert_eq!(server.request("GET", "/api/handles/10.5555/ONE", &tags(10_000)).status, 200);
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn settings() -> Vec<u8> {
    frame(4, 0, 0, &[])
}

fn http2(frames: &[Vec<u8>]) -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frames.concat()].concat()
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    head(stream, "GET", path, true)
}

/// HEADERS of a request, as literal fields of HPACK.
fn head(stream: u32, method: &str, path: &str, ends_stream: bool) -> Vec<u8> {
    let mut block = vec![0x86, 0x02, u8::try_from(method.len()).unwrap()];
    block.extend(method.bytes());
    block.extend([0x04, u8::try_from(path.len()).unwrap()]);
    block.extend(path.bytes());
    block.extend([0x01, 1, b'a']);
    frame(1, 4 + u8::from(ends_stream), stream, &block)
}

/// The type and the payload of the next frame.
fn read_frame(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).ok()?;
    Some((head[3], payload))
}

#[test]
fn attack_h10_idle_http2() {
    let server = start(short_timeouts(), None, |http| http);
    for frames in [vec![settings()], vec![settings(), get(1, "/livez")]] {
        let connected = Instant::now();
        let mut stream = server.connect();
        stream.write_all(&http2(&frames)).unwrap();
        read_until_server_closes(&stream);
        assert!(connected.elapsed() >= HEADER_TIMEOUT, "{:?}", connected.elapsed());
    }
}
