//! Findings of a security audit that concern HTTP: bodies without credentials, hosts, headers, loopback proxies, and tokens
//! that are requested twice. The numbers in the test names are those of the findings.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tendot_server::http::{HttpLimits, ProxyTrust};
use tendot_testing::WAIT_TIMEOUT;
use tendot_testing::http::HttpRequest;

use crate::support::api_client::{ApiClient, over_all_stores};
use crate::support::http_server::{TOKEN, TestServer, read_text, start, start_default, trust_loopback};

over_all_stores!(audit_f15_repeated_token_request, audit_f15_lists_are_private);

/// Longer than the bytes that unfinished bodies of 4 MiB leave of the memory for bodies.
const RECORD: &str = r#"[{"index":1,"type":"URL","data":"https://example.org/a-target-of-more-than-sixty-four-bytes/in-a-record"}]"#;

#[track_caller]
fn check_write(server: &TestServer, expected: u16) {
    let put = HttpRequest::new("PUT", "/api/handles/10.5555/NEW").bearer(TOKEN).body(RECORD);
    let response = put.send(server.address);
    assert_eq!(response.status, expected, "{}", response.text());
}

/// Bodies of 4 MiB each, more than all bodies may have together, from clients without credentials that do not finish them.
#[test]
fn audit_f4_anonymous_bodies_do_not_stop_writes() {
    let server = start_default();
    let head = "PUT /api/handles/10.5555/X HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n";
    let body = vec![b' '; (4 << 20) - 1];
    let _connections: Vec<_> = (0..66)
        .map(|_| {
            let mut stream = server.connect();
            stream.set_write_timeout(Some(WAIT_TIMEOUT)).unwrap();
            // The server may have closed the connection.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            stream
        })
        .collect();
    check_write(&server, 201);
}

/// Credentials in the head are checked although the body does not come.
#[test]
fn audit_f4_credentials_before_body() {
    let server = start(HttpLimits::default(), None, |http| http.body_timeout(Duration::from_secs(3_600)));
    let wrong = "Authorization: Bearer wrong\r\n";
    for (line, authorization) in [
        ("PUT /api/handles/10.5555/X", wrong),
        ("PUT /api/handles/10.5555/X", ""),
        ("POST /api/handles/10.5555/ONE", wrong),
        ("POST /api/handles", wrong),
        ("POST /api/prefixes", wrong),
        ("POST /api/v1/dois", wrong),
        ("POST /api/v1/dois", ""),
        ("POST /api/v1/dois/batch", wrong),
        ("POST /api/v1/transfers", ""),
    ] {
        let response = server.send_raw(format!(
            "{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{authorization}Content-Length: 1000\r\n\r\n"
        ));
        assert!(response.starts_with("HTTP/1.1 401 "), "{line} {authorization}: {response}");
    }
    // Without credentials, forms are small.
    let form = format!("type={}", "x".repeat(64 << 10));
    for path in ["/api/handles/10.5555/ONE", "/", "/api/sessions", "/api/handles"] {
        let response = HttpRequest::new("POST", path).body(form.clone()).send(server.address);
        assert_eq!(response.status, 413, "{path}: {}", response.text());
    }
}

/// What a client sent quickly does not let it keep the rest back.
#[test]
fn audit_f4_stalled_body() {
    let server = start(HttpLimits::default(), None, |http| http.body_timeout(Duration::from_millis(200)));
    let mut stream = server.connect();
    let head = format!(
        "PUT /api/handles/10.5555/X HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 4194304\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b' '; 2 << 20]).unwrap();
    let started = Instant::now();
    let response = read_text(&stream);
    assert!(started.elapsed() < WAIT_TIMEOUT / 2, "the body may take too long");
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
}

/// A length behind more white space or zeros than the guard examines.
#[test]
fn audit_f13_padded_content_length() {
    let server = start_default();
    let hidden = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
    for padding in [" ".repeat(70), "\t".repeat(70), "0".repeat(70), " ".repeat(8_000)] {
        let response = server.send_raw(format!(
            "PUT /api/handles/10.5555/X HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Length:{padding}{}\r\n\r\n{hidden}",
            hidden.len()
        ));
        assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
        assert_eq!(response.matches("HTTP/1.1 ").count(), 1, "{response}");
    }
}

#[test]
fn audit_f15_host() {
    let server = start_default();
    let status = |request: &str| {
        let response = server.send_raw(request.replace('\n', "\r\n") + "\r\n");
        response.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for path in ["/livez", "/10.5555/ONE", "/api/handles/10.5555/ONE", "/api/v1/changes?limit=1"] {
        let request = |headers: &str| format!("GET {path} HTTP/1.1\nConnection: close\n{headers}");
        assert_ne!(status(&request("Host: a\n")), "400", "{path}");
        assert_eq!(status(&request("")), "400", "{path}");
        assert_eq!(status(&request("Host: a\nHost: a\n")), "400", "{path}");
        assert_eq!(status(&request("Host: a\nX: y\nhost: b\n")), "400", "{path}");
        assert_ne!(status(&format!("GET {path} HTTP/1.0\n")), "400", "{path}");
        assert_eq!(status(&format!("GET {path} HTTP/1.0\nHost: a\nHost: b\n")), "400", "{path}");
    }
}

#[test]
fn audit_f15_transport_security() {
    let trust = || ProxyTrust {
        trusted_proxies: vec!["127.0.0.1/32".parse().unwrap()],
        trust_loopback: false,
        ..ProxyTrust::default()
    };
    let hsts = |server: &TestServer, headers: &str| {
        let response = server.request("GET", "/10.5555/ONE", headers);
        response.header("strict-transport-security").map(str::to_owned)
    };
    let server = start(HttpLimits::default(), None, |http| {
        http.proxy_trust(trust()).hsts_max_age(Duration::from_secs(86_400))
    });
    assert_eq!(hsts(&server, "X-Forwarded-Proto: https").as_deref(), Some("max-age=86400"));
    // Not over plain HTTP (RFC 6797, section 7.2).
    assert_eq!(hsts(&server, ""), None);
    let server = start(HttpLimits::default(), None, |http| http.proxy_trust(trust()));
    assert_eq!(hsts(&server, "X-Forwarded-Proto: https"), None);
}

/// Pages of other sites cannot read what the browser of an operator may.
#[test]
fn audit_f15_metrics_without_cors() {
    let server = start_default();
    for path in ["/metrics", "/readyz"] {
        let response = server.request("GET", path, "Origin: https://example.net");
        assert_eq!((response.status, response.header("access-control-allow-origin")), (200, None), "{path}");
    }
    let public = server.request("GET", "/api/handles/10.5555/ONE", "Origin: https://example.net");
    assert_eq!(public.header("access-control-allow-origin"), Some("*"));
}

/// Where a proxy on this machine may send no headers, no client is "this machine".
#[test]
fn audit_f10_untrusted_loopback() {
    let server = start(HttpLimits::default(), None, |http| trust_loopback(http, false));
    assert_eq!(server.get("/metrics").status, 403);
    check_write(&server, 403);
    let server = start_default();
    assert_eq!(server.get("/metrics").status, 200);
    check_write(&server, 201);
}

#[test]
fn security_txt() {
    let server = start_default();
    assert_eq!(server.get("/.well-known/security.txt").status, 404);
    let text = "Contact: mailto:security@example.org\nExpires: 2030-01-01T00:00:00Z\n";
    let server = start(HttpLimits::default(), None, |http| http.security_txt(text));
    let response = server.get("/.well-known/security.txt");
    assert_eq!((response.status, &*response.text()), (200, text));
    assert_eq!(response.header("content-type"), Some("text/plain;charset=utf-8"));
    server.http.replace_security_txt("other");
    assert_eq!(server.get("/.well-known/security.txt").text(), "other");
    // Other names of this form are names.
    assert_ne!(server.get("/.well-known/other").status, 200);
}

fn audit_f15_lists_are_private(client: &ApiClient) {
    client.create_fixtures();
    for path in ["agencies", "registrants", "prefixes", "tokens", "transfers", "dois"] {
        let list = client.send("GET", &format!("/api/v1/{path}"), TOKEN, &[], b"");
        assert_eq!((list.status, list.header("cache-control")), (200, Some("private, no-store")), "{path}");
    }
}

/// A repeated request makes no second token, and does not show the secret again.
fn audit_f15_repeated_token_request(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    let body = json!({"role": "registrant", "subject": fixtures.registrants[0], "label": "once"});
    let create = |key: &str, body: &Json| {
        client.json("POST", "/tokens", TOKEN, &[&format!("Idempotency-Key: {key}")], body)
    };
    let first = create("a", &body);
    assert_eq!(first.status, 201, "{}", first.json);
    let secret = first.json["token"].as_str().unwrap();
    let again = create("a", &body);
    assert_eq!((again.status, again.http.header("idempotency-replayed")), (201, Some("true")));
    assert_eq!((&again.json["id"], &again.json["token"]), (&first.json["id"], &Json::Null), "{}", again.json);
    assert!(again.json["hint"].as_str().unwrap().contains("revoke"), "{}", again.json);
    assert!(!again.http.text().contains(secret));
    assert_eq!(again.http.header("location"), first.http.header("location"));
    let tokens = client.json("GET", "/tokens", TOKEN, &[], &Json::Null).json;
    let created = tokens["items"].as_array().unwrap().iter().filter(|token| token["label"] == "once");
    assert_eq!(created.count(), 1);
    // The key is for this request only.
    let other = create("a", &json!({"role": "operator"}));
    assert_eq!((other.status, &other.json["code"]), (422, &json!("key-reused")), "{}", other.json);
    assert_ne!(create("b", &body).json["id"], first.json["id"]);
}
