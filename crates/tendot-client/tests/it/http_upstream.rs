//! HTTP upstream against valid and malicious responses.

use std::time::Duration;

use tendot_client::{HttpUpstream, HttpUpstreamError, LookupOutcome, Upstream as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::advance;

use crate::stopped_clock::StoppedClock;

/// Resolves a name at an upstream that sends this response. Returns the result and the request line.
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
    let found = upstream.ask(name).await.map_err(|error| error.to_string());
    (found, server.await.unwrap())
}

fn response(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn outcomes() {
    let record = r#"{"responseCode":1,"handle":"10.1000/A b","values":[{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/"},"ttl":60}]}"#;
    let (found, request) = resolve("10.1000/a b", response(200, record)).await;
    assert_eq!(request, "GET /api/handles/10.1000/a%20b HTTP/1.1");
    let Ok(LookupOutcome::Values(values)) = found else { panic!("{found:?}") };
    assert_eq!(&*values[0].data, b"https://example.org/");
    let nothing = r#"{"responseCode":100,"handle":"10.1000/x"}"#;
    assert_eq!(resolve("10.1000/x", response(404, nothing)).await.0, Ok(LookupOutcome::Nothing));
    let elsewhere = r#"{"responseCode":301,"handle":"10.1000/x"}"#;
    assert_eq!(resolve("10.1000/x", response(400, elsewhere)).await.0, Ok(LookupOutcome::NotKept));
    let none = r#"{"responseCode":200,"handle":"10.1000/x","values":[]}"#;
    assert_eq!(resolve("10.1000/x", response(200, none)).await.0, Ok(LookupOutcome::NoValues));
}

#[tokio::test]
async fn attack_c6_invalid_responses() {
    check(
        response(200, r#"{"responseCode":1,"handle":"10.1000/other","values":[]}"#),
        "it is about `10.1000/other`",
    )
    .await;
    check(response(200, r#"{"responseCode":302,"handle":"10.1000/x"}"#), "response code 302").await;
    check(response(400, "what?"), "expected value").await;
    check(response(200, "<html>"), "expected value").await;
    check(response(500, "{}"), "status 500").await;
    check(response(302, ""), "status 302").await;
    check("rubbish".into(), "could not be asked").await;
    check("".into(), "could not be asked").await;
    check("HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n{".into(), "could not be asked").await;
    let long = format!(r#"{{"responseCode":1,"x":"{}"}}"#, "y".repeat(2 << 20));
    check(response(200, &long), "it has more than 1048576 bytes").await;
    let value = |data: &str| format!(r#"{{"index":1,"type":"DESC","data":"{data}"}}"#);
    let record = |values: &str| format!(r#"{{"responseCode":1,"values":[{values}]}}"#);
    let many = vec![value("x"); 2_049].join(",");
    check(response(200, &record(&many)), "a record of 2049 values").await;
    check(response(200, &record(&value(&"x".repeat(270_000)))), "a record of 1 values and 270004 bytes")
        .await;
    check(response(508, "{}"), "passes the question on to who asked it").await;
    check(response(200, &"[".repeat(100_000)), "gave an answer that is none").await;
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
    let reply = tokio::spawn(async move { upstream.ask("10.1000/x").await });
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_ne!(stream.read(&mut [0; 8_192]).await.unwrap(), 0);
    advance(Duration::from_millis(4_900)).await;
    assert!(!reply.is_finished());
    advance(Duration::from_millis(200)).await;
    let error = reply.await.unwrap().unwrap_err().to_string();
    assert!(error.ends_with("did not answer within 5 s"), "{error}");
}

/// Dot segments would lead web servers to another path; such names are rejected.
#[tokio::test]
async fn attack_h16_names_stay_in_path() {
    let (_, request) = resolve("10.1000/?x=y#z\r\nHost: evil.net", response(404, "{}")).await;
    assert_eq!(request, "GET /api/handles/10.1000/%3Fx%3Dy%23z%0D%0AHost%3A%20evil.net HTTP/1.1");
    let upstream = HttpUpstream::new("http://127.0.0.1:9").unwrap();
    for name in ["10.1000/../../x", "../x", "10.1000/.", "10.1000/a/./b"] {
        let error = upstream.ask(name).await.unwrap_err();
        assert!(matches!(error, HttpUpstreamError::Name { .. }), "{name}: {error}");
    }
}

#[tokio::test]
async fn private_values_are_dropped() {
    let record = r#"{"responseCode":1,"values":[{"index":1,"type":"A","data":"x","permissions":"1100"},
        {"index":2,"type":"B","data":"x"}]}"#;
    let (found, _) = resolve("10.1000/x", response(200, record)).await;
    let Ok(LookupOutcome::Values(values)) = found else { panic!("{found:?}") };
    assert_eq!(values.iter().map(|value| value.index).collect::<Vec<_>>(), [2]);
}

#[test]
fn base_urls() {
    for good in ["https://doi.org", "http://127.0.0.1:8080/", "https://example.org/resolver"] {
        assert!(HttpUpstream::new(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "doi.org",
        "ftp://doi.org",
        "https://",
        "https://doi.org/?x",
        "javascript:x",
        "https://me:secret@doi.org",
    ] {
        assert!(HttpUpstream::new(bad).is_err(), "{bad}");
    }
}
