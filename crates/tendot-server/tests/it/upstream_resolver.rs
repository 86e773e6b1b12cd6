//! Upstream resolver: names of another server are resolved and cached, and an upstream that misbehaves does no harm.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tendot_client::native::NativeClient;
use tendot_client::{CacheSettings, HttpUpstream};
use tendot_proto::{HandleValue, Ttl, ValuePermissions};
use tendot_server::http::{HttpLimits, UpstreamClient};
use tendot_testing::handle_server::{TestHandleServer, TestHandleService, site_value};
use tendot_testing::http::{HttpRequest, HttpResponse};
use tendot_testing::{wait_for, wait_until};

use crate::support::edits::{home_edit, put_edit};
use crate::support::http_server::{TOKEN, TestServer, bind, start_at};

const SECOND: Duration = Duration::from_secs(1);

fn url(address: &'static str) -> Vec<HandleValue<'static>> {
    vec![HandleValue::new(1, "URL", address)]
}

/// A server that resolves names outside of 10.5555 at `upstream`.
fn start_resolver_at(socket: TcpListener, upstream: SocketAddr, settings: CacheSettings) -> TestServer {
    let edits = vec![
        put_edit("10.5555/ONE", url("https://example.org/one")),
        put_edit("10.5555/ALIAS", vec![HandleValue::new(1, "HS_ALIAS", "10.7777/SHORT")]),
        put_edit("10.5555/CIRCLE", vec![HandleValue::new(1, "HS_ALIAS", "10.7777/CIRCLE")]),
        home_edit("10.5555"),
    ];
    let upstream = HttpUpstream::new(&format!("http://{upstream}")).unwrap();
    start_at(socket, edits, HttpLimits::default(), None, |http| {
        http.upstream(UpstreamClient::Http(Box::new(upstream)), settings)
    })
}

fn start_resolver(upstream: SocketAddr) -> TestServer {
    start_resolver_at(bind(), upstream, CacheSettings::default())
}

/// A server with 10.7777 and other prefixes.
fn start_upstream(socket: TcpListener) -> TestServer {
    let short = |value| HandleValue { ttl: Ttl::Relative(1), ..value };
    let several = vec![
        HandleValue::new(1, "URL", "https://example.org/a"),
        HandleValue { ttl: Ttl::Relative(600), ..HandleValue::new(2, "EMAIL", "a@example.org") },
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(3, "NOTE", "hidden") },
    ];
    let locations = "<locations><location href='https://example.org/by-namespace' weight='1'/></locations>";
    let negotiating = "<locations><location weight='0' http_role='conneg' \
                       href_template='https://data.example.org/{hdl}'/></locations>";
    let namespace = "<namespace><DOI.RA>10.SERV/DATACITE</DOI.RA></namespace>";
    let edits = vec![
        put_edit("10.7777/Several", several),
        put_edit("10.7777/SHORT", vec![short(HandleValue::new(1, "URL", "https://example.org/short"))]),
        put_edit("10.7777/ALIAS", vec![HandleValue::new(1, "HS_ALIAS", "10.7777/Several")]),
        put_edit("10.7777/CIRCLE", vec![HandleValue::new(1, "HS_ALIAS", "10.5555/CIRCLE")]),
        put_edit(
            "10.7777/LOC",
            vec![HandleValue::new(1, "10320/loc", "<locations include='10.7777/PLACES'/>")],
        ),
        put_edit("10.7777/PLACES", vec![HandleValue::new(1, "10320/loc", locations)]),
        put_edit("10.7777/SCRIPT", url("javascript:alert(1)")),
        put_edit("10.7777/HTML", vec![HandleValue::new(1, "DESC", "<script>alert(1)</script>")]),
        put_edit("10.7777/HEADERS", {
            let mut values = url("https://example.org/");
            values.push(HandleValue::new(2, "10320/headers", "Set-Cookie: a=b\nX-Shelf: 7"));
            values
        }),
        put_edit("10.7777/KEY", vec![private(HandleValue::new(300, "HS_SECKEY", "secret"))]),
        put_edit("0.NA/10.7777", vec![HandleValue::new(1, "HS_NAMESPACE", namespace)]),
        put_edit("10.6666/ONE", url("https://example.org/one-there")),
        put_edit(
            "0.NA/10.6666",
            vec![HandleValue::new(1, "HS_NAMESPACE", "<namespace><locs>10.SERV/X</locs></namespace>")],
        ),
        put_edit("10.SERV/X", vec![HandleValue::new(1, "10320/loc", negotiating)]),
        home_edit("10.7777"),
        home_edit("10.6666"),
        home_edit("10.SERV"),
        home_edit("0.NA"),
    ];
    start_at(socket, edits, HttpLimits::default(), None, |http| http)
}

/// A fake upstream that responds as the test specifies and records the requests.
struct FakeUpstream {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FakeUpstream {
    fn start(respond: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = bind();
        let address = listener.local_addr().unwrap();
        let (requests, respond) = (Arc::new(Mutex::new(Vec::new())), Arc::new(respond));
        let received_requests = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, received_requests, respond) =
                    (stream.unwrap(), Arc::clone(&received_requests), Arc::clone(&respond));
                thread::spawn(move || {
                    let mut head = vec![0; 16 << 10];
                    let Ok(length @ 1..) = stream.read(&mut head) else { return };
                    let head = String::from_utf8_lossy(&head[..length]).into_owned();
                    received_requests.lock().unwrap().push(head.clone());
                    respond(&head, &mut stream);
                });
            }
        });
        Self { address, requests }
    }

    /// Starts an upstream that sends one response to every request.
    fn respond_always(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::start(move |_, stream| _ = stream.write_all(&response))
    }

    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn http_response(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn record_response(values: &str) -> String {
    http_response(200, &format!(r#"{{"responseCode":1,"values":[{values}]}}"#))
}

const ONE: &str = r#"{"index":1,"type":"URL","data":"https://example.org/there","ttl":600}"#;

#[test]
fn names_of_another_server() {
    let upstream = start_upstream(bind());
    let resolver = start_resolver(upstream.address);
    let check = |target: &str, status: u16, location: Option<&str>| {
        let response = resolver.get(target);
        let actual = (response.status, response.header("location"));
        assert_eq!(actual, (status, location), "{target}: {}", response.text());
    };
    check("/10.5555/ONE", 302, Some("https://example.org/one"));
    check("/10.7777/SEVERAL", 302, Some("https://example.org/a"));
    check("/10.7777/ALIAS?x=1", 301, Some("/10.7777/Several?x=1"));
    check("/10.5555/ALIAS", 301, Some("/10.7777/SHORT"));
    check("/10.5555/CIRCLE", 508, None);
    check("/10.7777/LOC", 302, Some("https://example.org/by-namespace"));
    check("/10.7777/NONE", 404, None);
    check("/10.8888/NONE", 404, None);
    check("/api/handles/10.8888/NONE", 400, None);
    check("/10.7777/SEVERAL?type=EMAIL", 200, None);
    check("/10.7777/SEVERAL?type=NOTE", 404, None);
    check("/10.7777/SEVERAL?noredirect", 200, None);
    // A name that cannot be a path is not queried.
    check("/api/handles/10.7777/a%2F..%2Fb", 400, None);

    let page = resolver.get("/10.7777/SEVERAL?noredirect").text().into_owned();
    assert!(
        page.contains(&format!("From the upstream resolver: cached from http://{}", upstream.address)),
        "{page}"
    );
    assert!(!page.contains("hidden"), "{page}");
    let page = resolver.get("/10.7777/NONE").text().into_owned();
    assert!(page.contains(&format!(
        "This server is not responsible for it, and http://{} has no record of it.",
        upstream.address
    )));
    let page = resolver.get("/10.8888/NONE").text().into_owned();
    assert!(page.contains(&format!(
        "This server is not responsible for it, and http://{} cannot locate it.",
        upstream.address
    )));
    let agencies = resolver.get("/doiRA/10.7777/SEVERAL,10.7777/NONE,10.7777").text().into_owned();
    assert_eq!(
        agencies,
        r#"[{"DOI":"10.7777/SEVERAL","RA":"DataCite"},{"DOI":"10.7777/NONE","status":"DOI does not exist"},{"DOI":"10.7777","RA":"DataCite"}]"#
    );
}

/// The record of a prefix has locations for metadata of its names.
#[test]
fn metadata_locations_of_a_prefix() {
    let upstream = start_upstream(bind());
    let resolver = start_resolver(upstream.address);
    for (accept, location) in [
        ("text/html", "https://example.org/one-there"),
        ("application/vnd.citationstyles.csl+json", "https://data.example.org/10.6666%2FONE"),
    ] {
        let response = resolver.request("GET", "/10.6666/ONE", &format!("Accept: {accept}"));
        assert_eq!((response.status, response.header("location")), (302, Some(location)), "{accept}");
        assert_eq!(response.header("vary"), Some("Accept, User-Agent"));
    }
}

#[test]
fn records_as_json() {
    let upstream = start_upstream(bind());
    let resolver = start_resolver(upstream.address);
    for target in ["", "?type=EMAIL", "?index=1", "?index=3", "?type=NOTE&index=2", "?pretty", "?callback=f"]
    {
        let target = format!("/api/handles/10.7777/several{target}");
        let (theirs, ours) = (upstream.get(&target), resolver.get(&target));
        assert_eq!((ours.status, ours.text()), (theirs.status, theirs.text()), "{target}");
    }
    let (theirs, ours) =
        (upstream.get("/api/handles/10.7777/none"), resolver.get("/api/handles/10.7777/none"));
    assert_eq!((ours.status, ours.text()), (404, theirs.text()));
    // Credentials do not show private values of the upstream.
    let target = "/api/handles/10.7777/several?publicOnly=false";
    let response = resolver.request("GET", target, &format!("Authorization: Bearer {TOKEN}"));
    assert!(response.status == 200 && !response.text().contains("hidden"));
    assert_eq!(response.header("cache-control"), Some("private, no-store"));
}

/// `max-age` is the remaining TTL of the shortest value, also for a resolver behind this one.
#[test]
fn max_age_is_what_remains() {
    let upstream = start_upstream(bind());
    let resolver = start_resolver(upstream.address);
    let first = resolver.get("/api/handles/10.7777/several");
    assert_eq!(first.header("cache-status"), Some("tendot; fwd=miss"));
    assert_eq!((first.header("age"), first.header("cache-control")), (None, Some("public, max-age=600")));
    let number = |response: &HttpResponse, name: &str, prefix: &str| -> u64 {
        let value = response.header(name).unwrap_or_else(|| panic!("{name}: {}", response.head));
        value.strip_prefix(prefix).unwrap_or_else(|| panic!("{value}")).parse().unwrap()
    };
    let second = wait_for("a second of the TTL is over", || {
        let response = resolver.get("/api/handles/10.7777/several");
        (number(&response, "cache-control", "public, max-age=") < 599).then_some(response)
    });
    let remaining = number(&second, "cache-control", "public, max-age=");
    assert!((500..=598).contains(&remaining), "{}", second.head);
    assert_eq!(number(&second, "cache-status", "tendot; hit; ttl="), remaining);
    assert_eq!(second.header("age"), None);
    let redirect = resolver.get("/10.7777/several");
    assert!(number(&redirect, "cache-control", "public, max-age=") <= remaining, "{}", redirect.head);
    assert!(redirect.header("age").is_none() && redirect.header("cache-status").is_some());
    // A resolver behind this one, and one behind that.
    let third = start_resolver(resolver.address);
    let fourth = start_resolver(third.address);
    for resolver in [&fourth, &third, &fourth] {
        for target in ["/api/handles/10.7777/several", "/10.7777/several"] {
            let response = resolver.get(target);
            assert!(number(&response, "cache-control", "public, max-age=") <= remaining, "{}", response.head);
        }
    }
    // Local names have no such header.
    assert_eq!(resolver.get("/10.5555/ONE").header("cache-status"), None);
}

/// The age of the prefix record does not extend the lifetime of a redirect: a TTL of 3 s stays 3 s.
#[test]
fn max_age_is_not_extended_by_the_age_of_the_prefix() {
    let upstream = FakeUpstream::start(|head, stream| {
        let namespace = r#"{"index":1,"type":"HS_NAMESPACE","data":"<namespace></namespace>","ttl":86400}"#;
        let url = r#"{"index":1,"type":"URL","data":"https://example.org/there","ttl":3}"#;
        let (age, values) = if head.contains("0.NA") { (1_329, namespace) } else { (0, url) };
        let response = record_response(values).replacen("\r\n", &format!("\r\nAge: {age}\r\n"), 1);
        let _ = stream.write_all(response.as_bytes());
    });
    let resolver = start_resolver(upstream.address);
    for _ in 0..3 {
        let response = resolver.get("/10.7777/x");
        let control = response.header("cache-control").unwrap();
        assert!(
            ["no-cache", "public, max-age=1", "public, max-age=2", "public, max-age=3"].contains(&control),
            "{}",
            response.head
        );
        assert_eq!(response.header("age"), None);
    }
}

/// Draft, section 3: response code 2 comes with status 500, also when the upstream fails; `Cache-Status` and the problem details
/// say that it was the upstream.
#[test]
fn statement_000_response_code_2_has_status_500() {
    let check = |resolver: &TestServer, code: &str, page_status: u16| {
        let response = resolver.get("/api/handles/10.7777/x");
        assert_eq!(response.status, 500, "{code}: {}", response.head);
        assert_eq!(response.json()["responseCode"], 2);
        assert!(response.text().contains("the upstream failed"), "{}", response.text());
        let cache_status = format!("tendot; fwd=miss; detail={code}");
        assert_eq!(response.header("cache-status"), Some(&*cache_status));
        let page = resolver.request("GET", "/10.7777/x", "Accept: application/json");
        assert_eq!((page.status, page.header("cache-status")), (page_status, Some(&*cache_status)));
        let problem = page.json();
        let upstream = problem["upstream"].as_str().unwrap_or_default();
        assert!(problem["code"] == code && upstream.starts_with("http://127.0.0.1:"), "{problem}");
    };
    let failing = FakeUpstream::respond_always(http_response(500, "{}"));
    check(&start_resolver(failing.address), "upstream-failed", 502);
    let silent = FakeUpstream::start(|_, stream| _ = stream.read(&mut [0]));
    check(&start_resolver(silent.address), "upstream-timeout", 504);
    let socket = bind();
    let address = socket.local_addr().unwrap();
    check(&start_resolver_at(socket, address, CacheSettings::default()), "upstream-loop", 508);
}

#[test]
fn auth_bypasses_the_cache() {
    let upstream = FakeUpstream::respond_always(record_response(ONE));
    let resolver = start_resolver(upstream.address);
    for target in ["/10.7777/x", "/10.7777/x", "/api/handles/10.7777/x"] {
        resolver.get(target);
    }
    let lines = |requests: Vec<String>| -> Vec<String> {
        requests.iter().map(|request| request.lines().next().unwrap().to_owned()).collect()
    };
    let expected = ["GET /api/handles/10.7777/x HTTP/1.1", "GET /api/handles/0.NA/10.7777 HTTP/1.1"];
    assert_eq!(lines(upstream.take_requests()), expected);
    let response = resolver.get("/api/handles/10.7777/x?auth");
    assert_eq!(response.header("cache-status"), Some("tendot; fwd=miss"));
    resolver.get("/api/handles/10.7777/x?auth=false");
    assert_eq!(lines(upstream.take_requests()), ["GET /api/handles/10.7777/x?auth HTTP/1.1"]);
    let page = resolver.get("/10.7777/x?auth&noredirect");
    assert_eq!(page.status, 200);
    let requests_taken = lines(upstream.take_requests());
    assert_eq!(
        requests_taken.iter().filter(|line| line.contains("/10.7777/x")).count(),
        1,
        "{requests_taken:?}"
    );
}

/// JSON over HTTP has no signature, so an HTTP upstream cannot send certified responses; local names do not need them.
#[test]
fn cert_at_an_http_upstream() {
    let upstream = FakeUpstream::respond_always(record_response(ONE));
    let resolver = start_resolver(upstream.address);
    let response = resolver.get("/api/handles/10.7777/x?cert");
    assert_eq!((response.status, response.json()["responseCode"].as_u64()), (500, Some(2)));
    assert!(response.text().contains("sends no signed responses over HTTP"), "{}", response.text());
    assert_eq!(response.header("cache-status"), Some("tendot; fwd=miss; detail=upstream-failed"));
    assert_eq!(resolver.get("/10.7777/x?cert").status, 502);
    assert!(upstream.take_requests().is_empty());
    assert_eq!(resolver.get("/10.7777/x?cert=false").status, 302);
    assert_eq!(resolver.get("/10.5555/ONE?cert").status, 302);
    assert_eq!(resolver.get("/api/handles/10.5555/ONE?cert").status, 200);
}

/// Over the native protocol, certified responses are requested, verified and cached apart from others.
#[test]
fn cert_over_the_native_protocol() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let start_servers = |service: TestHandleService| {
        runtime.block_on(async {
            let server =
                TestHandleServer::start(service.with_url("10.1000/x", "https://example.org/x")).await;
            let root =
                TestHandleService::new().with_record("0.NA/10.1000", vec![site_value(1, &server.site())]);
            (TestHandleServer::start(root).await, server)
        })
    };
    let start_resolver = |root: &TestHandleServer| {
        let client = NativeClient::new(root.config());
        start_at(bind(), vec![home_edit("10.5555")], HttpLimits::default(), None, |http| {
            http.upstream(UpstreamClient::Native(client), CacheSettings::default())
        })
    };
    let cache_status = |resolver: &TestServer, target: &str| {
        let response = resolver.get(target);
        assert_eq!(response.status, 200, "{target}: {}", response.text());
        response.header("cache-status").unwrap().split("; ttl").next().unwrap().to_owned()
    };
    let (root, _server) = start_servers(TestHandleService::with_other_key());
    let resolver = start_resolver(&root);
    for (target, expected) in [
        ("/api/handles/10.1000/x?cert", "tendot; fwd=miss"),
        ("/api/handles/10.1000/x?cert", "tendot; hit"),
        ("/api/handles/10.1000/x", "tendot; fwd=miss"),
        ("/api/handles/10.1000/x", "tendot; hit"),
    ] {
        assert_eq!(cache_status(&resolver, target), expected, "{target}");
    }
    assert_eq!(resolver.get("/10.1000/x?cert").header("location"), Some("https://example.org/x"));
    // A server that does not sign.
    let (root, server) = start_servers(TestHandleService::new());
    server.service().is_signing = false;
    let resolver = start_resolver(&root);
    assert_eq!(resolver.get("/10.1000/x").status, 302);
    assert_eq!(resolver.get("/10.1000/x?cert").status, 502);
    let response = resolver.get("/api/handles/10.1000/x?cert");
    assert_eq!((response.status, response.json()["responseCode"].as_u64()), (500, Some(2)));
}

#[test]
fn trace_of_an_upstream_query() {
    let upstream = start_upstream(bind());
    let resolver = start_resolver(upstream.address);
    let trace = |name: &str| -> serde_json::Value { resolver.get(&format!("/{name}?explain=json")).json() };
    let upstream_steps = |trace_json: &serde_json::Value| -> Vec<String> {
        let steps = trace_json["steps"].as_array().unwrap();
        let upstream = steps.iter().filter(|step| step["step"] == "upstream");
        upstream.map(|step| format!("{} {}", step["ok"], step["message"].as_str().unwrap())).collect()
    };
    let base = format!("http://{}", upstream.address);
    let trace_json = trace("10.7777/SEVERAL");
    assert_eq!(upstream_steps(&trace_json), [format!("true fetched from {base}")]);
    assert_eq!(trace_json["upstream"]["cache_status"], "miss");
    let trace_json = trace("10.7777/SEVERAL");
    assert_eq!(trace_json["upstream"]["cache_status"], "hit");
    assert!(upstream_steps(&trace_json)[0].contains("fresh for"), "{trace_json}");
    let trace_json = trace("10.7777/NONE");
    assert_eq!(
        (trace_json["outcome"].as_str(), upstream_steps(&trace_json).len()),
        (Some("does-not-resolve"), 1)
    );
    assert_eq!(upstream_steps(&trace("10.5555/ONE")).len(), 0);
    assert!(trace("10.5555/ONE").get("upstream").is_none());
    drop(upstream);
    let trace_json = trace("10.7777/OTHER");
    assert_eq!(trace_json["outcome"], "failed");
    assert_eq!(upstream_steps(&trace_json), [format!("false {base} is unreachable")]);
}

#[test]
fn concurrent_queries_are_coalesced() {
    let (release, released) = mpsc::channel();
    let released = Mutex::new(released);
    let upstream = FakeUpstream::start(move |_, stream| {
        released.lock().unwrap().recv().unwrap();
        let _ = stream.write_all(record_response(ONE).as_bytes());
    });
    let resolver = start_resolver(upstream.address);
    thread::scope(|scope| {
        for number in 0..100 {
            let resolver = &resolver;
            scope.spawn(move || {
                let name = if number % 2 == 0 { "10.7777/x" } else { "10.7777/X" };
                assert_eq!(resolver.get(&format!("/api/handles/{name}")).status, 200);
            });
        }
        // One more connection is that of the request for the metrics.
        wait_until("all clients wait", || resolver.metric("tendot_http_connections") == 101.0);
        release.send(()).unwrap();
    });
    assert_eq!(upstream.take_requests().len(), 1);
    assert_eq!(resolver.metric("tendot_upstream_requests_total{outcome=\"found\"}"), 1.0);
    assert_eq!(resolver.metric("tendot_upstream_cache_misses_total"), 1.0);
    let others = resolver.metric("tendot_upstream_cache_coalesced_total")
        + resolver.metric("tendot_upstream_cache_hits_total");
    assert_eq!(others, 99.0);
    assert_eq!(resolver.metric("tendot_upstream_cache_entries"), 1.0);
    assert_eq!(resolver.metric("tendot_upstream_request_duration_seconds_count"), 1.0);
}

#[test]
fn not_found_is_cached() {
    let upstream =
        FakeUpstream::respond_always(http_response(404, r#"{"responseCode":100,"handle":"10.7777/none"}"#));
    let resolver = start_resolver(upstream.address);
    for _ in 0..5 {
        assert_eq!(resolver.get("/api/handles/10.7777/none").status, 404);
    }
    assert_eq!(upstream.take_requests().len(), 1);
    assert_eq!(resolver.metric("tendot_upstream_requests_total{outcome=\"not_found\"}"), 1.0);
}

#[test]
fn stale_responses_while_the_upstream_is_down() {
    let socket = bind();
    let address = socket.local_addr().unwrap();
    let upstream = start_upstream(socket);
    let resolver = start_resolver_at(
        bind(),
        address,
        CacheSettings { error_ttl: SECOND / 10, ..CacheSettings::default() },
    );
    assert_eq!(resolver.get("/10.7777/SHORT").status, 302);
    drop(upstream);
    let response = wait_for("the response is stale", || {
        let response = resolver.get("/10.7777/SHORT");
        response.header("cache-status").is_some_and(|status| status.contains("ttl=-")).then_some(response)
    });
    assert_eq!((response.status, response.header("location")), (302, Some("https://example.org/short")));
    assert_eq!(response.header("cache-control"), Some("no-cache"));
    assert!(response.header("cache-status").unwrap().starts_with("tendot; hit; ttl=-"), "{}", response.head);
    assert!(response.header("age").is_none());
    let response = resolver.get("/api/handles/10.7777/SHORT");
    assert!(
        response.status == 200 && response.header("cache-status").unwrap().contains("ttl=-"),
        "{}",
        response.head
    );
    let page = resolver.get("/10.7777/SHORT?noredirect").text().into_owned();
    assert!(page.contains("is unavailable; stale response, cached"), "{page}");
    assert!(resolver.metric("tendot_upstream_cache_stale_total") >= 3.0);
    // Authoritative queries and other names fail.
    assert_eq!(resolver.get("/api/handles/10.7777/SHORT?auth").status, 500);
    assert_eq!(resolver.get("/10.7777/OTHER").status, 502);
    // The upstream is back.
    let upstream = start_upstream(TcpListener::bind(address).unwrap());
    wait_until("the upstream is queried again", || {
        let response = resolver.get("/10.7777/SHORT");
        assert_eq!(response.status, 302);
        response.header("cache-status") == Some("tendot; fwd=miss")
    });
    drop(upstream);
}

#[test]
fn attack_c6_invalid_responses() {
    let values = |count: usize| vec![ONE; count].join(",");
    let cases: Vec<Vec<u8>> = vec![
        b"rubbish".to_vec(),
        Vec::new(),
        b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n{".to_vec(),
        http_response(200, "<html>").into(),
        http_response(200, r#"{"responseCode":1,"handle":"10.7777/other","values":[]}"#).into(),
        http_response(200, r#"{"responseCode":302}"#).into(),
        http_response(400, "what?").into(),
        http_response(200, &"[".repeat(100_000)).into(),
        http_response(200, &format!(r#"{{"x":"{}"}}"#, "y".repeat(4 << 20))).into(),
        http_response(500, "{}").into(),
        record_response(&values(3_000)).into(),
        record_response(&format!(r#"{{"index":1,"type":"DESC","data":"{}"}}"#, "x".repeat(300_000))).into(),
    ];
    for case in cases {
        let excerpt = String::from_utf8_lossy(&case[..case.len().min(80)]).into_owned();
        let resolver = start_resolver(FakeUpstream::respond_always(case).address);
        let response = resolver.get("/api/handles/10.7777/x");
        assert_eq!(response.status, 500, "{excerpt}: {}", response.text());
        assert!(
            response.text().starts_with(r#"{"responseCode":2,"message":"this server is not responsible for"#)
        );
        let page = resolver.request("GET", "/10.7777/x", "Accept: text/html");
        assert_eq!((page.status, page.header("cache-control")), (502, Some("no-cache")));
        assert!(page.text().contains("Retry later."), "{excerpt}");
        let problem = resolver.request("GET", "/10.7777/x", "Accept: application/json");
        assert!(problem.text().contains(r#""code":"upstream-failed""#), "{}", problem.text());
        assert_eq!(resolver.get("/10.5555/ONE").status, 302);
    }
}

/// A redirect of the upstream is not followed.
#[test]
fn attack_h16_upstream_redirects_are_not_followed() {
    let internal_server = FakeUpstream::respond_always(record_response(ONE));
    let location = format!(
        "HTTP/1.1 302 X\r\nLocation: http://{}/\r\nContent-Length: 0\r\n\r\n",
        internal_server.address
    );
    let resolver = start_resolver(FakeUpstream::respond_always(location).address);
    assert_eq!(resolver.get("/10.7777/x").status, 502);
    assert!(internal_server.take_requests().is_empty());
}

#[test]
fn attack_c6_upstream_timeout() {
    let upstream = FakeUpstream::start(|_, stream| {
        // Single bytes do not extend the timeout; the read is the pause, and ends when the resolver disconnects.
        stream.set_read_timeout(Some(SECOND)).unwrap();
        while stream.write_all(b"H").is_ok() && stream.read(&mut [0]).is_err() {}
    });
    let resolver = start_resolver(upstream.address);
    let started = Instant::now();
    let finished = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let response = resolver.get("/10.7777/x");
                finished.fetch_add(1, Ordering::SeqCst);
                assert_eq!(response.status, 504, "{}", response.text());
            });
        }
        // A local name does not wait for the upstream.
        assert_eq!(resolver.get("/10.5555/ONE").status, 302);
        assert_eq!(finished.load(Ordering::SeqCst), 0);
    });
    // All of them wait for the same query, which times out after 5 s.
    assert!(started.elapsed() >= 5 * SECOND && started.elapsed() < 50 * SECOND, "{:?}", started.elapsed());
    assert_eq!(upstream.take_requests().len(), 1);
    assert_eq!(resolver.metric("tendot_upstream_requests_total{outcome=\"timeout\"}"), 1.0);
    let response = resolver.get("/api/handles/10.7777/x");
    assert_eq!(response.status, 500);
    assert!(response.text().contains("timed out after 5 s"), "{}", response.text());
}

/// Queries to an upstream that does not respond are limited.
#[test]
fn attack_c6_queries_in_flight_are_limited() {
    let upstream = FakeUpstream::start(|_, stream| _ = stream.read(&mut [0]));
    let resolver = start_resolver(upstream.address);
    let rejected = AtomicU32::new(0);
    thread::scope(|scope| {
        for number in 0..200 {
            let (resolver, rejected) = (&resolver, &rejected);
            scope.spawn(move || {
                let response = resolver.get(&format!("/api/handles/10.7777/{number}"));
                if response.header("cache-status").is_some_and(|status| status.contains("overloaded")) {
                    assert_eq!((response.status, response.header("retry-after")), (500, Some("10")));
                    rejected.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    // On a slow machine the first queries time out before the last ones come.
    let (query_count, rejected) = (upstream.take_requests().len(), rejected.into_inner() as usize);
    assert!(query_count + rejected == 200 && (1..=72).contains(&rejected), "{query_count} {rejected}");
    assert_eq!(resolver.metric("tendot_upstream_requests_total{outcome=\"overloaded\"}"), rejected as f64);
}

#[test]
fn attack_h4_resolver_loops() {
    let (one, two) = (bind(), bind());
    let (first, second) = (one.local_addr().unwrap(), two.local_addr().unwrap());
    let one = start_resolver_at(one, second, CacheSettings::default());
    let two = start_resolver_at(two, first, CacheSettings::default());
    // A loop that is not detected ends with 504 after the timeout.
    for server in [&one, &two] {
        let response = server.get("/api/handles/10.7777/x");
        assert_eq!(response.status, 500, "{}", response.text());
        assert_eq!(response.header("cache-status"), Some("tendot; fwd=miss; detail=upstream-loop"));
        assert!(response.text().starts_with(r#"{"responseCode":2,"#), "{}", response.text());
    }
    // Concurrent loops do not wait for each other.
    thread::scope(|scope| {
        for number in 0..20 {
            for server in [&one, &two] {
                scope.spawn(move || assert_eq!(server.get(&format!("/10.7777/{number}")).status, 508));
            }
        }
    });
    // A server that is its own upstream.
    let self_resolver = bind();
    let address = self_resolver.local_addr().unwrap();
    let self_resolver = start_resolver_at(self_resolver, address, CacheSettings::default());
    assert_eq!(self_resolver.get("/10.7777/x").status, 508);
    // Too many hops count as a loop.
    let upstream = start_upstream(bind());
    let resolver = start_resolver(upstream.address);
    let cdn_loop = |count: usize| format!("CDN-Loop: {}", vec!["x"; count].join(", "));
    assert_eq!(resolver.request("GET", "/api/handles/10.7777/several", &cdn_loop(9)).status, 200);
    assert_eq!(resolver.request("GET", "/api/handles/10.7777/several", &cdn_loop(10)).status, 500);
    assert_eq!(resolver.request("GET", "/api/handles/10.7777/several", &cdn_loop(2_000)).status, 500);
    assert_eq!(resolver.request("GET", "/api/handles/10.5555/ONE", &cdn_loop(2_000)).status, 200);
}

#[test]
fn attack_c6_memory_is_bounded() {
    let value = format!(r#"{{"index":1,"type":"DESC","data":"{}","ttl":600}}"#, "x".repeat(100_000));
    let upstream = FakeUpstream::respond_always(record_response(&value));
    let settings = CacheSettings { max_bytes: 1 << 20, ..CacheSettings::default() };
    let resolver = start_resolver_at(bind(), upstream.address, settings);
    for number in 0..40 {
        assert_eq!(resolver.get(&format!("/api/handles/10.7777/{number}")).status, 200);
    }
    let (bytes, entries) =
        (resolver.metric("tendot_upstream_cache_bytes"), resolver.metric("tendot_upstream_cache_entries"));
    assert!(bytes > 100_000.0 && bytes <= 1_048_576.0 && entries <= 10.0, "{bytes} {entries}");
}

/// Values from upstream are untrusted.
#[test]
fn attack_h1_values_from_upstream() {
    let upstream = start_upstream(bind());
    let resolver = start_resolver(upstream.address);
    let response = resolver.get("/10.7777/SCRIPT");
    assert_eq!((response.status, response.header("location")), (200, None));
    assert!(!response.text().contains("href=\"javascript:"));
    let page = resolver.get("/10.7777/HTML").text().into_owned();
    assert!(!page.contains("<script>alert"), "{page}");
    let response = resolver.get("/10.7777/HEADERS");
    assert_eq!((response.header("set-cookie"), response.header("x-shelf")), (None, Some("7")));
    let upstream = FakeUpstream::respond_always(record_response(
        r#"{"index":1,"type":"URL","data":"https://e.org/\r\nSet-Cookie: a=b","ttl":9}"#,
    ));
    let response = start_resolver(upstream.address).get("/10.7777/x");
    assert!(
        !response.head.contains("Set-Cookie") && response.header("location").is_none(),
        "{}",
        response.head
    );
    // A key at the upstream does not authenticate here.
    let identity = "Authorization: Basic MzAwJTNBMTAuNzc3NyUyRktFWTpzZWNyZXQ=";
    assert_eq!(resolver.request("DELETE", "/api/handles/10.5555/ONE", identity).status, 401);
    assert_eq!(resolver.get("/10.5555/ONE").status, 302);
}

/// The queries of one request are limited, for included records and for many names in a path.
#[test]
fn attack_c6_queries_per_request_are_limited() {
    let upstream = FakeUpstream::start(|head, stream| {
        let names: Vec<String> = (0..50).map(|number| format!("10.7777/{}{number}", head.len())).collect();
        let locations = format!("<locations include='{}'/>", names.join(","));
        let value = format!(r#"{{"index":1,"type":"10320/loc","data":"{locations}"}}"#);
        let _ = stream.write_all(record_response(&value).as_bytes());
    });
    let resolver = start_resolver(upstream.address);
    resolver.get("/10.7777/x");
    let query_count = upstream.take_requests().len();
    assert!((3..=32).contains(&query_count), "{query_count}");
    let names: Vec<String> = (0..100).map(|number| format!("10.{number}/x")).collect();
    let agencies = resolver.get(&format!("/doiRA/{}", names.join(",")));
    assert_eq!(upstream.take_requests().len(), 32);
    // The names beyond the limit are not reported as unknown.
    assert_eq!((agencies.status, &agencies.json()["code"]), (502, &"upstream-failed".into()), "{agencies:?}");
}

#[test]
fn local_names_do_not_query_the_upstream() {
    let upstream = FakeUpstream::respond_always(record_response(ONE));
    let resolver = start_resolver(upstream.address);
    for target in
        ["/10.5555/ONE", "/10.5555/ONE?noredirect", "/10.5555/ONE?explain", "/api/handles/10.5555/ONE"]
    {
        assert!(matches!(resolver.get(target).status, 200 | 302), "{target}");
    }
    for target in ["/10.5555/NONE", "/api/handles/10.5555/NONE", "/api/handles/10.5555/one?auth"] {
        resolver.get(target);
    }
    let put = r#"[{"index":1,"type":"URL","data":"https://example.org/"}]"#;
    let request = HttpRequest::new("PUT", "/api/handles/10.7777/NEW").bearer(TOKEN);
    let response = request.header("Content-Type: application/json").body(put).send(resolver.address);
    assert!(
        response.status == 400 && response.text().contains(r#"{"responseCode":301,"#),
        "{}",
        response.text()
    );
    assert!(upstream.take_requests().is_empty());
}

/// Included locations that could not be fetched are missing only for now, so the choice without them is not cached.
#[test]
fn incomplete_locations_are_not_cached() {
    let closed = bind().local_addr().unwrap();
    let locations =
        "<locations include='10.9999/PLACES'><location href='https://example.org/own'/></locations>";
    let complete = "<locations><location href='https://example.org/own'/></locations>";
    let dangling = "<locations include='10.5555/NONE'><location href='https://example.org/own'/></locations>";
    let edits = vec![
        put_edit("10.5555/INCLUDES", vec![HandleValue::new(1, "10320/loc", locations)]),
        put_edit("10.5555/COMPLETE", vec![HandleValue::new(1, "10320/loc", complete)]),
        put_edit("10.5555/DANGLING", vec![HandleValue::new(1, "10320/loc", dangling)]),
        home_edit("10.5555"),
    ];
    let upstream = HttpUpstream::new(&format!("http://{closed}")).unwrap();
    let server = start_at(bind(), edits, HttpLimits::default(), None, |http| {
        http.upstream(UpstreamClient::Http(Box::new(upstream)), CacheSettings::default())
    });
    for (target, is_cached) in [
        ("/10.5555/INCLUDES", false),
        ("/10.5555/INCLUDES?action=showurls", false),
        ("/10.5555/COMPLETE", true),
        ("/10.5555/COMPLETE?action=showurls", true),
    ] {
        let response = server.get(target);
        assert!([200, 302].contains(&response.status), "{target}: {}", response.head);
        let control = response.header("cache-control").unwrap();
        assert_eq!(control.contains("max-age"), is_cached, "{target}: {control}");
        assert_eq!(control.contains("no-cache"), !is_cached, "{target}: {control}");
    }
    // The trace says what is missing, and whether that may change.
    for (name, expected) in [
        ("INCLUDES", Some(("cannot fetch `10.9999/PLACES`: ", "not cached"))),
        ("DANGLING", Some(("no locations in `10.5555/NONE`: ", "fix the record"))),
        ("COMPLETE", None),
    ] {
        let trace = server.get(&format!("/10.5555/{name}?explain=json")).json();
        assert_eq!(trace["outcome"], "resolves", "{trace}");
        let failed = trace["steps"].as_array().unwrap().iter().find(|step| step["ok"] == false);
        let text = |member: &str| failed.map(|step| step[member].as_str().unwrap().to_owned());
        match (expected, text("message"), text("hint")) {
            (None, None, None) => {}
            (Some((message, hint)), Some(found), Some(action)) => {
                assert!(found.starts_with(message) && action.contains(hint), "{trace}");
            }
            _ => panic!("{trace}"),
        }
    }
}

fn private(value: HandleValue<'static>) -> HandleValue<'static> {
    HandleValue { permissions: ValuePermissions(0x0c), ..value }
}
