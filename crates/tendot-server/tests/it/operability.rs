//! Operability of the HTTP server: metrics, request ids, compression, rate limits, trusted proxies, graceful shutdown.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tendot_proto::{HandleValue, ValuePermissions};
use tendot_server::http::{HttpLimits, HttpRateLimits, ProxyTrust, Rate};
use tendot_testing::http::HttpResponse;
use tendot_testing::{ensure_programs, wait_until};

use crate::support::edits::{commit_as, put_edit};
use crate::support::http_server::{TOKEN, TestServer, start, start_default};

#[test]
fn metrics() {
    let server =
        start(HttpLimits::default(), None, |http| http.external_counter("tendot_x", "y", || Some(5.0)));
    for _ in 0..3 {
        server.request("GET", "/10.5555/ONE", "");
    }
    server.request("GET", "/10.5555/NONE", "");
    server.request("GET", "/api/handles/10.5555/ONE", "");
    server.request("POST", "/api/v1/agencies", "");
    server.request("GET", "/doiRA/10.5555", "");
    server.request("GET", "/static/none.css", "");
    let response = server.request(
        "GET",
        "/metrics",
        "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
    );
    assert_eq!(
        response.header("content-type"),
        Some("application/openmetrics-text;version=1.0.0;charset=utf-8")
    );
    let text = String::from_utf8(response.body).unwrap();
    for line in [
        "tendot_http_requests_total{kind=\"redirect\",code=\"302\"} 3",
        "tendot_http_requests_total{kind=\"redirect\",code=\"404\"} 2",
        "tendot_http_requests_total{kind=\"read\",code=\"200\"} 2",
        "tendot_http_requests_total{kind=\"write\",code=\"401\"} 1",
        "tendot_http_request_duration_seconds_count{kind=\"redirect\"} 5",
        "tendot_http_connections_accepted_total 9.0",
        "tendot_http_rate_limited_total 0.0",
        "tendot_store_head_sequence 3.0",
        "tendot_x_total 5.0",
    ] {
        assert!(text.lines().any(|metric| metric == line), "{line}\n{text}");
    }
    assert!(text.contains("tendot_build_info{version=\"") && text.contains("process_start_time_seconds 1"));
    assert!(!text.contains("5555"), "a name is a label");
    // A request through a proxy is not local.
    assert_eq!(server.request("GET", "/metrics", "X-Forwarded-For: 127.0.0.1").status, 403);
}

/// Prometheus's own linter finds nothing to complain about.
#[test]
fn promtool_accepts_metrics() {
    let server = start(HttpLimits::default(), None, |http| {
        http.external_counter("tendot_x", "An example.", || Some(5.0))
    });
    server.get("/10.5555/ONE");
    for accept in ["", "Accept: text/plain", "Accept: */*"] {
        let response = server.request("GET", "/metrics", accept);
        assert_eq!(response.header("content-type"), Some("text/plain;version=0.0.4;charset=utf-8"));
        let text = response.text();
        assert!(
            text.contains("# TYPE tendot_http_requests_total counter") && !text.contains("# EOF"),
            "{text}"
        );
        let output = run_promtool(&response.body);
        assert!(output.is_empty(), "{output}\n{text}");
    }
    // The linter works: it complains about the other format.
    let openmetrics = server.request("GET", "/metrics", "Accept: application/openmetrics-text");
    assert!(!run_promtool(&openmetrics.body).is_empty());
}

/// Output of `promtool check metrics`.
fn run_promtool(metrics: &[u8]) -> String {
    ensure_programs(&["promtool"], &["prometheus"]);
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(metrics).unwrap();
    let output = promtool.wait_with_output().unwrap();
    [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
}

#[test]
fn request_ids() {
    let server = start(HttpLimits::default(), None, |http| {
        let trusted_proxies = vec!["127.0.0.2/32".parse().unwrap()];
        http.proxy_trust(ProxyTrust { trusted_proxies, ..ProxyTrust::default() })
    });
    let request_id =
        |headers: &str| server.request("GET", "/livez", headers).header("x-request-id").unwrap().to_owned();
    let generated = request_id("X-Request-Id: mine");
    assert!(generated.len() == 16 && generated != request_id(""), "{generated}");

    let server = start(HttpLimits::default(), None, |http| {
        http.proxy_trust(ProxyTrust {
            trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
            ..ProxyTrust::default()
        })
    });
    let response = server.request("GET", "/livez", "X-Request-Id: mine\nX-Forwarded-For: 192.0.2.1");
    assert_eq!(response.header("x-request-id"), Some("mine"));
}

#[test]
fn attack_h8_credentials_through_proxies() {
    let write = |server: &TestServer, headers: &str| {
        let headers = format!("{headers}\nAuthorization: Bearer {TOKEN}");
        server.request("PUT", "/api/handles/10.5555/X", headers.trim_start()).status
    };
    let direct = start_default();
    assert_eq!(write(&direct, ""), 400);
    // Without credentials, the empty body is not read.
    assert_eq!(write(&direct, "X-Forwarded-For: 192.0.2.1\nX-Forwarded-Proto: https"), 403);
    let list = |server: &TestServer, headers: &str| {
        let headers = format!("{headers}\nAuthorization: Bearer {TOKEN}");
        server.request("GET", "/api/prefixes", headers.trim_start()).status
    };
    assert_eq!(list(&direct, ""), 200);
    assert_eq!(list(&direct, "X-Forwarded-For: 192.0.2.1\nX-Forwarded-Proto: https"), 403);
    let proxied = start(HttpLimits::default(), None, |http| {
        http.proxy_trust(ProxyTrust {
            trusted_proxies: vec!["127.0.0.1/32".parse().unwrap()],
            ..ProxyTrust::default()
        })
    });
    assert_eq!(list(&proxied, "X-Forwarded-For: 192.0.2.1"), 403);
    assert_eq!(list(&proxied, "X-Forwarded-For: 192.0.2.1\nX-Forwarded-Proto: https"), 200);
}

#[test]
fn rate_limit() {
    let server = start(HttpLimits::default(), None, |http| {
        let rate = Rate { per_second: 1, burst: 3 };
        let trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
        http.rate_limits(HttpRateLimits {
            per_client: rate,
            per_network: Rate { burst: 5, ..rate },
            limit_loopback: false,
        })
        .proxy_trust(ProxyTrust { trusted_proxies, ..ProxyTrust::default() })
    });
    let request = |client: &str| server.request("GET", "/10.5555/ONE", &format!("X-Forwarded-For: {client}"));
    let statuses: Vec<u16> = (0..5).map(|_| request("192.0.2.1").status).collect();
    assert_eq!(statuses, [302, 302, 302, 429, 429]);
    let limited = request("192.0.2.1");
    assert_eq!(limited.header("retry-after"), Some("1"));
    assert_eq!(limited.header("cache-control"), Some("no-store"));
    // Two more clients of the same network, and one of another.
    let statuses: Vec<u16> = (2..5).map(|host| request(&format!("192.0.2.{host}")).status).collect();
    assert_eq!(statuses, [302, 302, 429]);
    assert_eq!(request("198.51.100.1").status, 302);
    assert_eq!(server.request("GET", "/livez", "X-Forwarded-For: 192.0.2.1").status, 200);
    // A proxy that does not report the client is not limited itself.
    let without_client = "X-Forwarded-Proto: https";
    assert!((0..9).all(|_| server.request("GET", "/10.5555/ONE", without_client).status == 302));
}

#[test]
fn loopback_is_exempt_from_rate_limits() {
    let rate = Rate { per_second: 1, burst: 1 };
    for (limit_loopback, expected) in [(false, 302), (true, 429)] {
        let server = start(HttpLimits::default(), None, |http| {
            http.rate_limits(HttpRateLimits {
                per_client: rate,
                per_network: Rate { burst: 100, ..rate },
                limit_loopback,
            })
        });
        server.request("GET", "/10.5555/ONE", "");
        assert_eq!(server.request("GET", "/10.5555/ONE", "").status, expected);
    }
}

#[test]
fn responses_are_compressed() {
    let server = start_default();
    let target = "/api/handles/10.5555/LARGE";
    let uncompressed = server.request("GET", target, "");
    assert_eq!(
        (uncompressed.header("content-encoding"), uncompressed.headers("vary").last()),
        (None, Some("Accept-Encoding"))
    );
    let tag = uncompressed.header("etag").unwrap().to_owned();
    let compressed = server.request("GET", target, "Accept-Encoding: br, gzip");
    assert_eq!(compressed.header("content-encoding"), Some("gzip"));
    assert_eq!(compressed.headers("vary").collect::<Vec<_>>(), ["Authorization", "Accept-Encoding"]);
    assert_eq!(compressed.header("content-length").unwrap(), compressed.body.len().to_string());
    assert!(
        compressed.body.len() < uncompressed.body.len() / 4,
        "{} of {}",
        compressed.body.len(),
        uncompressed.body.len()
    );
    let mut decompressed = Vec::new();
    flate2::read::GzDecoder::new(&compressed.body[..]).read_to_end(&mut decompressed).unwrap();
    assert_eq!(decompressed, uncompressed.body);
    // The compressed body has a weak ETag.
    assert_eq!(compressed.header("etag").unwrap(), format!("W/{tag}"));
    for etag in [&tag, &format!("W/{tag}")] {
        let headers = format!("Accept-Encoding: gzip\nIf-None-Match: {etag}");
        let not_modified = server.request("GET", target, &headers);
        assert_eq!(
            (not_modified.status, not_modified.headers("vary").last()),
            (304, Some("Accept-Encoding"))
        );
    }
    let head = server.request("HEAD", target, "Accept-Encoding: gzip");
    assert_eq!(head.header("content-length"), compressed.header("content-length"));
    // Small and private responses are not compressed.
    assert_eq!(
        server.request("GET", "/10.5555/ONE", "Accept-Encoding: gzip").header("content-encoding"),
        None
    );
    let private =
        server.request("GET", target, &format!("Accept-Encoding: gzip\nAuthorization: Bearer {TOKEN}"));
    assert_eq!((private.status, private.header("content-encoding")), (200, None));
}

/// A shutdown under load completes all accepted requests and closes their connections with `Connection: close`.
#[test]
fn attack_s12_drain_under_load() {
    for round in 0..3 {
        let limits = HttpLimits { drain_timeout: Duration::from_secs(60), ..HttpLimits::default() };
        let mut server = start(limits, None, |http| http);
        let (failed, responses, is_shutting_down) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let address = server.address;
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (failed, responses, is_shutting_down) = (&failed, &responses, &is_shutting_down);
                scope.spawn(move || {
                    loop {
                        let Ok(mut stream) = std::net::TcpStream::connect(address) else { return };
                        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                        // Some clients send many requests on a connection, some one.
                        for request in 0..if number % 2 == 0 { 1_000 } else { 1 } {
                            // Some clients are idle between requests; there is no event to wait for.
                            std::thread::sleep(Duration::from_millis(if number % 4 == 0 { 2 } else { 0 }));
                            let request_text = b"GET /10.5555/ONE HTTP/1.1\r\nHost: a\r\n\r\n";
                            let mut buffer = [0; 4 << 10];
                            let response =
                                stream.write_all(request_text).and_then(|()| stream.read(&mut buffer));
                            let Some(read) = response.ok().filter(|read| *read > 0) else {
                                // A connection that is opened just before the socket closes is not accepted.
                                let was_accepted = request > 0 || !is_shutting_down.load(Ordering::Relaxed);
                                failed.fetch_add(usize::from(was_accepted), Ordering::Relaxed);
                                return;
                            };
                            responses.fetch_add(1, Ordering::Relaxed);
                            let response = HttpResponse::parse(&buffer[..read]);
                            assert_eq!(response.status, 302);
                            if response.header("connection") == Some("close") {
                                break;
                            }
                        }
                    }
                });
            }
            wait_until("the clients have received responses", || {
                responses.load(Ordering::Relaxed) > 200 * (round + 1)
            });
            let started = Instant::now();
            is_shutting_down.store(true, Ordering::Relaxed);
            let _ = server.shutdown.take().unwrap().send(());
            server.runtime.block_on(server.serving.take().unwrap()).unwrap();
            // Takes about a second; the timeouts for clients that do not finish are a minute.
            assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
        });
        assert!(responses.load(Ordering::Relaxed) > 100);
        assert_eq!(failed.load(Ordering::Relaxed), 0, "of {}", responses.load(Ordering::Relaxed));
    }
}

/// A request on an idle connection gets a response after the shutdown has begun.
#[test]
fn attack_s12_idle_clients_during_drain() {
    let mut server = start_default();
    let mut stream = server.connect();
    let mut request = || {
        stream.write_all(b"GET /10.5555/ONE HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut buffer = [0; 4 << 10];
        let read = stream.read(&mut buffer).unwrap();
        HttpResponse::parse(&buffer[..read])
    };
    assert_eq!(request().header("connection"), None);
    let _ = server.shutdown.take().unwrap().send(());
    wait_until("a response announces the end of the connection", || {
        let response = request();
        assert_eq!(response.status, 302);
        response.header("connection") == Some("close")
    });
}

/// The operator sees private values and every author in a history.
#[test]
fn history_for_the_operator() {
    let server = start_default();
    let hidden = HandleValue {
        permissions: ValuePermissions(0x0c),
        ..HandleValue::new(1, "NOTE", "for administrators")
    };
    let put = put_edit("10.5555/HIDDEN", vec![hidden]);
    for _ in 0..2 {
        let edits = vec![put.clone()];
        server.runtime.block_on(commit_as(&server.store, "me@example.org", 0, edits));
    }
    let request = |headers: &str| {
        let response = server.request("GET", "/api/v1/history/10.5555/HIDDEN", headers);
        (
            response.status,
            response.header("cache-control").unwrap().to_owned(),
            String::from_utf8(response.body).unwrap(),
        )
    };
    let token = format!("Authorization: Bearer {TOKEN}");
    let (status, caching, body) = request(&token);
    assert_eq!((status, &*caching), (200, "private, no-store"));
    assert!(body.contains("for administrators") && body.contains("me@example.org"), "{body}");
    let (status, caching, body) = request("");
    assert_eq!((status, &*caching), (200, "no-cache"));
    assert!(!body.contains("for administrators") && !body.contains("me@example.org"), "{body}");
    let response = server.request("GET", "/api/v1/history/10.5555/HIDDEN", "Authorization: Bearer wrong");
    assert_eq!((response.status, response.header("content-type")), (401, Some("application/problem+json")));
    assert!(response.header("www-authenticate").is_some());
}
