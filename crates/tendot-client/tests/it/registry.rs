//! Registry client against scripted responses: problems, lost connections, stalls, long lines.

use std::io::{self, Read};
use std::time::Duration;

use tendot_client::{BatchOptions, BatchResultStream, RegistryClient, RegistryClientError, StatusCode};
use tendot_testing::free_port;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance};

use crate::stopped_clock::StoppedClock;

const LINES: &str = "{\"name\":\"10.1000/1\"}\n{\"name\":\"10.1000/2\"}\n";

/// Client of a server that reads one request and sends this response; the task returns the request and the open connection.
async fn client(response: impl Into<Vec<u8>>) -> (RegistryClient, JoinHandle<(String, TcpStream)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let response = response.into();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !is_complete(&request) && stream.read_buf(&mut request).await.unwrap() != 0 {}
        let _ = stream.write_all(&response).await;
        (String::from_utf8(request).unwrap(), stream)
    });
    (RegistryClient::new(&url, Some("secret"), None).unwrap(), server)
}

/// Whether a request has been received: a batch ends with an empty chunk, an update with its JSON object.
fn is_complete(request: &[u8]) -> bool {
    request.ends_with(match request {
        [b'P', b'O', ..] => &b"\r\n0\r\n\r\n"[..],
        [b'P', b'U', ..] => b"}",
        _ => b"\r\n\r\n",
    })
}

fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// All results of a batch, or its first error.
async fn results(
    stream: Result<BatchResultStream, RegistryClientError>,
) -> Result<Vec<String>, RegistryClientError> {
    let (mut stream, mut lines) = (stream?, Vec::new());
    while let Some(line) = stream.next_line().await? {
        lines.push(String::from_utf8(line.to_vec()).unwrap());
    }
    Ok(lines)
}

/// Uploads two lines to a server that sends this response and closes the connection.
async fn upload(response: impl Into<Vec<u8>>) -> Result<Vec<String>, RegistryClientError> {
    let (client, server) = client(response).await;
    let batch =
        tokio::spawn(
            async move { results(client.batch(&BatchOptions::default(), LINES.as_bytes()).await).await },
        );
    drop(server.await.unwrap());
    batch.await.unwrap()
}

#[tokio::test]
async fn requests_and_replies() {
    let (client, server) = client(response("200 OK", "ETag: \"2\"\r\n", "{}")).await;
    let body = serde_json::json!({"url": "https://example.org/"});
    let reply =
        client.put(&["dois", "10.1000/a b"], &[("dry-run", "a&b")], &body, Some("\"1\"")).await.unwrap();
    assert_eq!((&reply.body[..], reply.revision.as_deref()), (&b"{}"[..], Some("\"2\"")));
    let (request, _) = server.await.unwrap();
    assert!(request.starts_with("PUT /api/v1/dois/10.1000%2Fa%20b?dry-run=a%26b HTTP/1.1\r\n"), "{request}");
    for header in ["authorization: Bearer secret", "if-match: \"1\"", "content-type: application/json"] {
        assert!(request.contains(&format!("\r\n{header}\r\n")), "{header}: {request}");
    }
    assert!(request.ends_with(r#"{"url":"https://example.org/"}"#), "{request}");
}

#[tokio::test]
async fn problems() {
    let get = async |response: String| {
        let (client, server) = client(response).await;
        let error = client.get(&["dois", "10.1000/1"], &[]).await.unwrap_err();
        assert!(server.await.unwrap().0.starts_with("GET /api/v1/dois/10.1000%2F1 HTTP/1.1\r\n"));
        error
    };
    let problem =
        r#"{"status":503,"code":"busy","detail":"try again","faults":[{"pointer":"/url","message":"no"}]}"#;
    let error = get(response("503 X", "", problem)).await;
    assert!(error.is_transient() && error.to_string() == "try again", "{error}");
    let RegistryClientError::Problem(problem) = error else { panic!("{error}") };
    assert_eq!((&*problem.code, &*problem.faults[0].pointer), ("busy", "/url"));
    // A page of a proxy, and a problem that belongs to another status.
    for body in ["<html>", r#"{"status":400,"code":"x"}"#] {
        let error = get(response("502 X", "", body)).await;
        assert!(error.is_transient(), "{error}");
        assert!(matches!(
            error,
            RegistryClientError::UnexpectedStatus { status: StatusCode::BAD_GATEWAY, .. }
        ));
    }
    let error = get(response("404 X", "", "<html>")).await;
    assert!(!error.is_transient(), "{error}");
    let error = get("invalid".into()).await;
    assert!(matches!(error, RegistryClientError::ConnectionLost { .. }), "{error}");
}

#[test]
fn settings() {
    let error = |url, token, ca| RegistryClient::new(url, token, ca).unwrap_err().to_string();
    assert!(error("example.org", None, None).starts_with("invalid server URL `example.org`: expected"));
    assert!(error("http://example.org", Some("x"), None).starts_with("refusing to send the token"));
    assert!(error("http://localhost", Some("x\n"), None).starts_with("invalid token"));
    assert!(
        error("https://localhost", None, Some(b"x")).starts_with("invalid CA certificates: no certificate")
    );
    let client = RegistryClient::new("http://example.org//", None, None).unwrap();
    assert_eq!((client.base_url(), client.has_token()), ("http://example.org", false));
}

#[tokio::test]
async fn unreachable_server() {
    let client = RegistryClient::new(&format!("http://127.0.0.1:{}", free_port()), None, None).unwrap();
    let error = client.delete(&["tokens", "1"], &[]).await.unwrap_err();
    assert!(error.is_transient() && matches!(error, RegistryClientError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn batch_results() {
    let reply = response("200 OK", "Idempotency-Replayed: true\r\n", "{\"line\":1}\n\n{\"line\":2}\n");
    let (client, server) = client(reply).await;
    let options = BatchOptions {
        is_csv: true,
        is_dry_run: true,
        idempotency_key: Some("k"),
        ..BatchOptions::default()
    };
    let stream = client.batch(&options, LINES.as_bytes()).await.unwrap();
    assert!(stream.is_replayed());
    assert_eq!(results(Ok(stream)).await.unwrap(), [r#"{"line":1}"#, "", r#"{"line":2}"#]);
    let (request, _) = server.await.unwrap();
    assert!(request.starts_with("POST /api/v1/dois/batch?dry-run=true HTTP/1.1\r\n"), "{request}");
    assert!(
        request.contains("\r\nidempotency-key: k\r\n") && request.contains("\r\ncontent-type: text/csv\r\n")
    );
    assert!(request.contains(LINES), "{request}");
    // A rejected batch has no results.
    let error = upload(response("409 X", "", r#"{"status":409,"code":"key-in-use","detail":"x"}"#))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, RegistryClientError::Problem(problem) if problem.code == "key-in-use"),
        "{error}"
    );
}

#[tokio::test]
async fn truncated_results() {
    let error = upload("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"line\":1}\n").await.unwrap_err();
    assert!(error.is_transient() && matches!(error, RegistryClientError::ConnectionLost { .. }), "{error}");
    let error = upload("").await.unwrap_err();
    assert!(error.is_transient() && matches!(error, RegistryClientError::ConnectionLost { .. }), "{error}");
    let error = upload(response("200 OK", "", "{\"line\":1}\n{\"line\"")).await.unwrap_err();
    assert!(error.to_string().ends_with(": truncated last line"), "{error}");
}

#[tokio::test]
async fn attack_endless_line() {
    let error = upload(response("200 OK", "", &"x".repeat((1 << 20) + (1 << 17)))).await.unwrap_err();
    assert!(error.to_string().ends_with(": line exceeds 1048576 bytes"), "{error}");
}

#[tokio::test]
async fn stalled_upload() {
    let _clock = StoppedClock::new();
    for has_slow_source in [false, true] {
        let (client, server) = client("").await;
        let options = BatchOptions { has_slow_source, ..BatchOptions::default() };
        let batch =
            tokio::spawn(async move { results(client.batch(&options, LINES.as_bytes()).await).await });
        // The server has received everything, and does not respond.
        let connection = server.await.unwrap();
        let started = Instant::now();
        while !batch.is_finished() && started.elapsed() < Duration::from_secs(600) {
            advance(Duration::from_secs(10)).await;
        }
        assert_eq!(batch.is_finished(), !has_slow_source);
        drop(connection);
        let error = batch.await.unwrap().unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert_eq!(error.to_string().ends_with("no progress for 60 s"), !has_slow_source, "{error}");
    }
}

/// Source that fails after its first line.
struct FailingSource(bool);

impl Read for FailingSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.0, true) {
            return Err(io::Error::other("disk failure"));
        }
        Read::read(&mut LINES.as_bytes(), buffer)
    }
}

#[tokio::test]
async fn unreadable_source() {
    let (client, _server) = client("").await;
    let error =
        results(client.batch(&BatchOptions::default(), FailingSource(false)).await).await.unwrap_err();
    assert!(!error.is_transient());
    assert_eq!(error.to_string(), "cannot read the input: disk failure");
}
