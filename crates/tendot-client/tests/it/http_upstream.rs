//! HTTP upstream against valid and malicious responses.

use std::time::Duration;

use tendot_client::{HttpUpstream, HttpUpstreamError, LookupOutcome, Upstream as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::advance;

use crate::stopped_clock::StoppedClock;

/// Resolves a name at an upstream that sends this response. Returns the outcome and the request line.
async fn resolve(name: &str, response: impl Into<Vec<u8>>) -> (Result<LookupOutcome, String>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = HttpUpstream::new(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let response = response.into();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 8_192];
        let length = stream.read(&mut request).await.unwrap();
        let _ = stream.write_all(&response).await;
        let _ = stream.shutdown().await;
        let request = String::from_utf8_lossy(&request[..length]).into_owned();
        request.lines().next().unwrap_or_default().to_owned()
    });
    let reply = upstream.resolve(&name.into()).await;
    let outcome = reply.map(|reply| reply.outcome).map_err(|error| error.to_string());
    (outcome, server.await.unwrap())
}

fn response(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn outcomes() {
    let record = r#"{"responseCode":1,"handle":"10.1000/A b","values":[{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/"},"ttl":60}]}"#;
    let (outcome, request) = resolve("10.1000/a b", response(200, record)).await;
    assert_eq!(request, "GET /api/handles/10.1000/a%20b HTTP/1.1");
    let Ok(LookupOutcome::Values(values)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(&*values[0].data, b"https://example.org/");
    let not_found = r#"{"responseCode":100,"handle":"10.1000/x"}"#;
    assert_eq!(resolve("10.1000/x", response(404, not_found)).await.0, Ok(LookupOutcome::NotFound));
    let not_responsible = r#"{"responseCode":301,"handle":"10.1000/x"}"#;
    assert_eq!(
        resolve("10.1000/x", response(400, not_responsible)).await.0,
        Ok(LookupOutcome::NotResponsible)
    );
    let no_values = r#"{"responseCode":200,"handle":"10.1000/x","values":[]}"#;
    assert_eq!(resolve("10.1000/x", response(200, no_values)).await.0, Ok(LookupOutcome::NoValues));
}

#[tokio::test]
async fn attack_c6_invalid_responses() {
    check(
        response(200, r#"{"responseCode":1,"handle":"10.1000/other","values":[]}"#),
        "response is for another handle: `10.1000/other`",
    )
    .await;
    check(response(200, r#"{"responseCode":302,"handle":"10.1000/x"}"#), "unexpected response code 302")
        .await;
    check(response(400, "what?"), "expected value").await;
    check(response(200, "<html>"), "expected value").await;
    check(response(500, "{}"), "unexpected status 500").await;
    check(response(302, ""), "unexpected status 302").await;
    check("invalid".into(), "request to http://").await;
    check("".into(), "request to http://").await;
    check("HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n{".into(), "request to http://").await;
    let long = format!(r#"{{"responseCode":1,"x":"{}"}}"#, "y".repeat(2 << 20));
    check(response(200, &long), "response exceeds 1048576 bytes").await;
    let value = |data: &str| format!(r#"{{"index":1,"type":"DESC","data":"{data}"}}"#);
    let record = |values: &str| format!(r#"{{"responseCode":1,"values":[{values}]}}"#);
    let many = vec![value("x"); 2_049].join(",");
    check(response(200, &record(&many)), "record too large: 2049 values").await;
    check(response(200, &record(&value(&"x".repeat(270_000)))), "record too large: 1 values, 270004 bytes")
        .await;
    check(response(508, "{}"), "forwarding loop detected at http://").await;
    check(response(200, &"[".repeat(100_000)), "invalid response from http://").await;
}

async fn check(response: String, expected: &str) {
    let excerpt: String = response.chars().take(60).collect();
    let error = resolve("10.1000/x", response).await.0.unwrap_err();
    assert!(error.contains(expected), "{excerpt}: {error}");
}

#[tokio::test]
async fn silent_upstream_times_out() {
    let _clock = StoppedClock::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = HttpUpstream::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let reply = tokio::spawn(async move { upstream.resolve(&"10.1000/x".into()).await });
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_ne!(stream.read(&mut [0; 8_192]).await.unwrap(), 0);
    advance(Duration::from_millis(4_900)).await;
    assert!(!reply.is_finished());
    advance(Duration::from_millis(200)).await;
    let error = reply.await.unwrap().unwrap_err().to_string();
    assert!(error.ends_with("timed out after 5 s"), "{error}");
}

/// A host that does not respond uses up the time of connecting, not of the whole request.
#[tokio::test]
async fn unresponsive_host_times_out_early() {
    let _clock = StoppedClock::new();
    // The queue of one connection is full, so the system drops further ones.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let _queued = TcpStream::connect(address).await.unwrap();
    let upstream = HttpUpstream::new(&format!("http://{address}")).unwrap();
    let reply = tokio::spawn(async move { upstream.resolve(&"10.1000/x".into()).await });
    for step in 0..49 {
        assert!(step >= 30 || !reply.is_finished(), "the connection was refused");
        advance(Duration::from_millis(100)).await;
    }
    assert!(reply.is_finished(), "4.9 s of 5 s are over");
    let error = reply.await.unwrap().unwrap_err();
    assert!(matches!(error, HttpUpstreamError::Connection { .. }), "{error}");
}

/// Dot segments would lead web servers to another path; such names are rejected.
#[tokio::test]
async fn attack_h16_names_stay_in_path() {
    let (_, request) = resolve("10.1000/?x=y#z\r\nHost: evil.net", response(404, "{}")).await;
    assert_eq!(request, "GET /api/handles/10.1000/%3Fx%3Dy%23z%0D%0AHost%3A%20evil.net HTTP/1.1");
    let upstream = HttpUpstream::new("http://127.0.0.1:9").unwrap();
    for name in ["10.1000/../../x", "../x", "10.1000/.", "10.1000/a/./b"] {
        let error = upstream.resolve(&name.into()).await.unwrap_err();
        assert!(matches!(error, HttpUpstreamError::UnsupportedName { .. }), "{name}: {error}");
    }
}

#[tokio::test]
async fn private_values_are_dropped() {
    let record = r#"{"responseCode":1,"values":[{"index":1,"type":"A","data":"x","permissions":"1100"},
        {"index":2,"type":"B","data":"x"}]}"#;
    let (outcome, _) = resolve("10.1000/x", response(200, record)).await;
    let Ok(LookupOutcome::Values(values)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(values.iter().map(|value| value.index).collect::<Vec<_>>(), [2]);
}

#[test]
fn base_urls() {
    for valid in ["https://doi.org", "http://127.0.0.1:8080/", "https://example.org/resolver"] {
        assert!(HttpUpstream::new(valid).is_ok(), "{valid}");
    }
    for invalid in [
        "",
        "doi.org",
        "ftp://doi.org",
        "https://",
        "https://doi.org/?x",
        "javascript:x",
        "https://me:secret@doi.org",
    ] {
        assert!(HttpUpstream::new(invalid).is_err(), "{invalid}");
    }
}
