//! Change feed, read from any cursor and followed live: no change is missed or repeated.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value as Json, json};
use tendot_proto::HandleValue;
use tendot_server::http::HttpLimits;
use tendot_store::{AnyStore, Edit, EmbeddedImporter, EmbeddedStore, Precondition, Store as _};
use tendot_testing::{SeededRng, WAIT_TIMEOUT, is_full_run, ram_dir, repetitions, wait_until};

use crate::support::api_client::ApiClient;
use crate::support::edits::{commit_as, home_edit, put_edit};
use crate::support::http_server::{TOKEN, TestServer, bind, read_text, start_over};
use crate::support::http_session::basic;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    ndjson_feed,
    rejected_requests,
    attack_under_load_no_change_is_missed_or_repeated,
    changes_are_visible_at_once,
    quiet_subscribers_stay_connected,
    subscribers_end_with_the_server,
    audit_f11_subscribers_per_client,
    audit_f7_streams_end_with_their_credentials;
    not embedded: attack_h10_subscribers_that_do_not_read,
);

const SECOND: Duration = Duration::from_secs(1);

fn put(name: &str) -> Edit {
    put_edit(name, vec![HandleValue::new(1, "URL", "https://example.org/")])
}

/// A server over a store with these changes.
fn start(store: AnyStore, edits: Vec<Edit>, limits: HttpLimits) -> TestServer {
    start_over(store, bind(), edits, limits, None, |http| http)
}

fn commit(server: &TestServer, author: &str, edits: Vec<Edit>) {
    server.runtime.block_on(commit_as(&server.store, author, 1_700_000_000_000, edits));
}

/// Reads all lines of the feed, over HTTP/1.0, which has no chunks.
fn read_feed(server: &TestServer, query: &str, headers: &str) -> Vec<Json> {
    let response = server.send_raw(format!("GET /api/v1/changes?{query} HTTP/1.0\r\n{headers}\r\n"));
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("200 OK") && head.contains("content-type: application/x-ndjson"), "{head}");
    body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The cursor after a change.
fn cursor(change: &Json) -> String {
    change.get("cursor").map_or_else(|| change["seq"].to_string(), |cursor| cursor.as_str().unwrap().into())
}

/// A client that follows the feed.
struct Subscriber(BufReader<TcpStream>);

impl Subscriber {
    fn new(server: &TestServer, query: &str, headers: &str) -> Self {
        let mut stream = server.connect();
        let head =
            format!("GET /api/v1/changes?{query} HTTP/1.0\r\nAccept: text/event-stream\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut subscriber = Self(BufReader::new(stream));
        let head = subscriber.event().unwrap();
        assert!(head[0].contains("200 OK"), "{head:?}");
        assert!(head.contains(&"content-type: text/event-stream".into()), "{head:?}");
        assert!(head.contains(&"x-accel-buffering: no".into()), "{head:?}");
        subscriber
    }

    /// The lines of the next event; none at the end of the feed.
    fn event(&mut self) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => return Some(lines),
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// The cursor and the content of the next change.
    fn change(&mut self) -> Option<(String, Json)> {
        loop {
            let event = self.event()?;
            let field_value = |field: &str| event.iter().find_map(|line| line.strip_prefix(field));
            if let (Some(id), Some(kind), Some(data)) =
                (field_value("id: "), field_value("event: "), field_value("data: "))
            {
                let data: Json = serde_json::from_str(data).unwrap();
                assert_eq!(data["kind"], kind);
                return Some((id.to_owned(), data));
            }
        }
    }
}

fn ndjson_feed(store: StoreKind) {
    let server = start(store.open(), vec![home_edit("10.1")], HttpLimits::default());
    commit(&server, "300:0.NA/10.1", vec![put("10.1/x"), put("10.1/X")]);
    commit(&server, "me@example.org", vec![put("0.TENDOT/agency/alpha"), put("0.TENDOT/token/t")]);
    commit(
        &server,
        "operator",
        vec![Edit::Tombstone { name: "10.1/x".into(), precondition: Precondition::Live }],
    );
    let line = |json: &Json| json.to_string();
    let all = read_feed(&server, "", "");
    assert_eq!(
        all.iter().map(line).collect::<Vec<_>>(),
        [
            r#"{"at":"1970-01-01T00:00:00Z","by":"test","kind":"home","name":"10.1","seq":1}"#,
            r#"{"at":"2023-11-14T22:13:20Z","by":"300:0.NA/10.1","kind":"create","name":"10.1/x","seq":2}"#,
            r#"{"at":"2023-11-14T22:13:20Z","by":"300:0.NA/10.1","kind":"update","name":"10.1/x","seq":3}"#,
            r#"{"at":"2023-11-14T22:13:20Z","by":null,"kind":"agency","name":"alpha","seq":4}"#,
            r#"{"at":"2023-11-14T22:13:20Z","by":"operator","kind":"tombstone","name":"10.1/x","seq":6}"#,
        ]
    );
    assert_eq!(read_feed(&server, "after=2&limit=2", ""), all[2..4]);
    assert_eq!(read_feed(&server, "after=6", ""), Vec::<Json>::new());
    assert_eq!(
        read_feed(&server, "after=2", "Last-Event-ID: 4\r\n"),
        all[2..],
        "Last-Event-ID applies to event streams only"
    );
    let for_operator = read_feed(&server, "after=4&limit=1", &format!("Authorization: Bearer {TOKEN}\r\n"));
    assert_eq!(for_operator[0]["kind"], "token");
}

fn rejected_requests(store: StoreKind) {
    let server = start(store.open(), vec![], HttpLimits::default());
    let check = |method: &str, target: &str, headers: &str, status: u16, code: &str| {
        let response = server.request(method, target, headers);
        assert_eq!(
            (response.status, response.header("content-type")),
            (status, Some("application/problem+json")),
            "{method} {target}"
        );
        let problem = response.json();
        assert_eq!((&problem["code"], &problem["status"]), (&code.into(), &status.into()), "{problem}");
        response
    };
    let events = "Accept: text/event-stream";
    for query in
        ["after=x", "after=-1", "after=1:", "after=1:%FF", "after=", "limit=0", "limit=x", "limit=-1"]
    {
        check("GET", &format!("/api/v1/changes?{query}"), "", 400, "malformed");
        check("GET", &format!("/api/v1/changes?{query}"), events, 400, "malformed");
    }
    check("GET", "/api/v1/changes", &format!("{events}\nLast-Event-ID: x"), 400, "malformed");
    check("GET", "/api/v1/changes", "Authorization: Bearer wrong", 401, "unauthenticated");
    let response = check("POST", "/api/v1/changes", "", 405, "method-not-allowed");
    assert_eq!(response.header("allow"), Some("GET, HEAD, OPTIONS"));
    for path in ["/api/v1/changes/", "/api/v1/", "/api/v1", "/api/v1/nothing/here"] {
        check("GET", path, "", 404, "unknown-endpoint");
    }
}

/// The feed of an import continues at the cursor of each of its changes.
#[test]
fn imports_are_resumed_at_any_cursor() {
    let directory = ram_dir();
    let mut importer = EmbeddedImporter::open(directory.path(), "import", 7).unwrap();
    for number in 0..300 {
        importer
            .add(format!("10.1/É%&{number:03}").into(), &[HandleValue::new(1, "URL", "https://a.example/")])
            .unwrap();
    }
    importer.finish(|_| {}).unwrap();
    let server = start(
        EmbeddedStore::open(directory.path()).unwrap().into(),
        vec![put("10.1/after")],
        HttpLimits::default(),
    );
    let all = read_feed(&server, "", "");
    assert_eq!(all.len(), 301);
    assert!(all[..300].iter().all(|change| change["kind"] == "import" && change["cursor"].is_string()));
    let mut after = "0".to_owned();
    for expected in &all {
        let next = read_feed(&server, &format!("after={after}&limit=1"), "");
        assert_eq!(next, std::slice::from_ref(expected));
        after = cursor(expected);
    }
    assert!(read_feed(&server, &format!("after={after}"), "").is_empty());
    for expected in [150, 299] {
        let last_event_id = format!("Last-Event-ID: {}\r\n", cursor(&all[expected]));
        let (id, change) = Subscriber::new(&server, "after=0", &last_event_id).change().unwrap();
        assert_eq!((id, &change), (cursor(&all[expected + 1]), &all[expected + 1]));
    }
}

/// While several clients write, each of many readers that reconnect again and again reads exactly the log.
fn attack_under_load_no_change_is_missed_or_repeated(store: StoreKind) {
    const WRITERS: u64 = 3;
    let changes = repetitions("TENDOT_TEST_FEED_CHANGES", 120, 400);
    let server = start(store.open(), vec![put("10.1/first")], HttpLimits::default());
    let is_finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let server = &server;
                scope.spawn(move || {
                    for number in 0..changes {
                        let name = format!("10.{writer}/{}", number / 2);
                        commit(server, "operator", vec![put(&name), put("10.1/Both")]);
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..6_u64)
            .map(|reader| {
                let (server, is_finished) = (&server, &is_finished);
                scope.spawn(move || {
                    let (mut received, mut after) = (Vec::new(), "0".to_owned());
                    let mut rng = SeededRng::new(reader);
                    let last = 1 + WRITERS * changes * 2;
                    while received.len() as u64 != last {
                        let count = rng.below(200) as u64 + 1;
                        if reader % 2 == 0 {
                            let mut subscriber =
                                Subscriber::new(server, "", &format!("Last-Event-ID: {after}\r\n"));
                            for _ in 0..count.min(last - received.len() as u64) {
                                let (id, change) = subscriber.change().unwrap();
                                received.push((change["seq"].as_u64().unwrap(), change["name"].to_string()));
                                after = id;
                            }
                        } else {
                            let was_finished = is_finished.load(Ordering::SeqCst);
                            let read = read_feed(server, &format!("after={after}&limit={count}"), "");
                            for change in &read {
                                received.push((change["seq"].as_u64().unwrap(), change["name"].to_string()));
                                after = cursor(change);
                            }
                            assert!(
                                !read.is_empty() || !was_finished,
                                "the feed ended before the last change"
                            );
                        }
                    }
                    received
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_finished.store(true, Ordering::SeqCst);
        let log = server.runtime.block_on(server.store.read_log(0, 10_000)).unwrap();
        let log: Vec<(u64, String)> =
            log.iter().map(|line| (line.sequence, Json::from(&*line.name).to_string())).collect();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), log);
        }
    });
}

/// Each of ten subscribers receives a change as soon as it is committed, not with a later one or the next heartbeat. Full runs
/// check the bounds of the contract (50 and 500 ms) with a margin of ten, because other programs run beside them.
fn changes_are_visible_at_once(store: StoreKind) {
    let changes = repetitions("TENDOT_TEST_FEED_DELAYS", 40, 200);
    let server = start(store.open(), vec![put("10.1/first")], HttpLimits::default());
    let mut subscribers: Vec<_> = (0..10).map(|_| Subscriber::new(&server, "after=1", "")).collect();
    let mut delays = Vec::new();
    for number in 0..changes {
        let name = format!("10.1/{number}");
        commit(&server, "operator", vec![put(&name)]);
        let committed = Instant::now();
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.change().unwrap().1["name"], name);
            delays.push(committed.elapsed());
        }
    }
    delays.sort_unstable();
    let (median, p99) = (delays[delays.len() / 2], delays[delays.len() * 99 / 100]);
    // The log is polled every 10 ms, and a heartbeat comes every 15 s.
    assert!(median < 2 * SECOND, "median {median:?}");
    if is_full_run() {
        assert!(median < SECOND / 2, "median {median:?}");
        assert!(p99 < 5 * SECOND, "99th percentile: {p99:?}");
    }
}

/// A subscriber without changes is neither idle nor slow.
fn quiet_subscribers_stay_connected(store: StoreKind) {
    let limits = HttpLimits { idle_timeout: SECOND / 5, write_timeout: SECOND / 5, ..HttpLimits::default() };
    let server = start(store.open(), vec![put("10.1/first")], limits);
    let mut subscriber = Subscriber::new(&server, "after=1", "");
    let (mut body, _sender) = server.runtime.block_on(http2(server.address, "after=1"));
    // Meanwhile three idle connections are closed, one after the other.
    for _ in 0..3 {
        let mut idle = server.connect();
        idle.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert!(read_text(&idle).starts_with("HTTP/1.1 200"));
    }
    commit(&server, "operator", vec![put("10.1/second")]);
    assert_eq!(subscriber.change().unwrap().1["name"], "10.1/second");
    let frame = server.runtime.block_on(body.frame()).unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&frame).contains("10.1/second"), "{frame:?}");
}

/// The body of the feed over HTTP/2, and the sender, which keeps its connection open. Only the first frame is read.
async fn http2(address: SocketAddr, query: &str) -> (Incoming, SendRequest<Empty<Bytes>>) {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(format!("http://{address}/api/v1/changes?{query}"));
    let request = request.header("accept", "text/event-stream").body(Empty::<Bytes>::new()).unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"retry: "));
    (body, sender)
}

/// Clients that do not read are disconnected, and can tell that the response is incomplete.
fn attack_h10_subscribers_that_do_not_read(store: StoreKind) {
    let limits = HttpLimits { write_timeout: SECOND / 2, ..HttpLimits::default() };
    let long_suffix = "x".repeat(2_000);
    let edits = (0..15_000).map(|number| put(&format!("10.1/{number}{long_suffix}"))).collect();
    let server = start(store.open(), edits, limits);
    let streams = ["*/*", "text/event-stream"].map(|accept| {
        let mut stream = server.connect();
        let head = format!("GET /api/v1/changes HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        (accept, stream)
    });
    let (body, _sender) = server.runtime.block_on(http2(server.address, ""));
    // The other connection is that of the request for the metrics.
    wait_until("the connections are closed", || server.metric("tendot_http_connections") == 1.0);
    for (accept, stream) in streams {
        let read = read_text(&stream);
        assert!(read.len() < 25_000_000 && !read.ends_with("0\r\n\r\n"), "{accept}: {} bytes", read.len());
    }
    assert!(server.runtime.block_on(body.collect()).is_err(), "the response over HTTP/2 is complete");
}

/// A stream ends when the token, key or session that opened it is replaced, revoked or ended; others go on.
fn audit_f7_streams_end_with_their_credentials(store: StoreKind) {
    let client = ApiClient::start(store.open());
    let fixtures = client.create_fixtures();
    let (registrant, token) = (&fixtures.registrants[0], &*fixtures.tokens[0]);
    let admins = json!({"admins": ["300:10.70000/admin"]});
    client.check("PUT", &format!("/registrants/{registrant}"), token, &admins, (200, ""));
    let secret = |data: &str| json!([{"index": 300, "type": "HS_SECKEY", "data": data}]);
    let name = json!({"name": "10.70000/admin", "url": "https://example.org/", "values": secret("one")});
    client.check("POST", "/dois", TOKEN, &name, (201, ""));
    let password = basic("300%3A10.70000%2Fadmin", "one");
    let session = client.send("POST", "/api/sessions", "", &[&password], b"").json();
    let session = format!("Authorization: Handle sessionId=\"{}\"", session["sessionId"].as_str().unwrap());
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let credentials = [bearer(TOKEN), bearer(token), session.clone(), password];
    let [operator, of_token, of_session, of_key] =
        credentials.map(|header| Subscriber::new(&client.server, "", &format!("{header}\r\n")));
    let mut anonymous = Subscriber::new(&client.server, "", "");

    client.server.http.replace_operator_token("rotated");
    let id = token.split('_').nth(1).unwrap();
    client.check("DELETE", &format!("/tokens/{id}"), "rotated", &Json::Null, (200, ""));
    assert_eq!(client.send("DELETE", "/api/sessions/this", "", &[&session], b"").status, 204);
    [operator, of_token, of_session].into_iter().for_each(wait_end);
    let update = json!({"values": secret("two")});
    client.check("PUT", "/dois/10.70000/admin", "rotated", &update, (200, ""));
    wait_end(of_key);
    client.server.commit(vec![put("10.1/last")]);
    while anonymous.change().unwrap().1["name"] != "10.1/last" {}
}

/// Reads a stream to its end.
#[track_caller]
fn wait_end(mut subscriber: Subscriber) {
    let started = Instant::now();
    // A heartbeat is an event, too.
    while subscriber.event().is_some() {
        assert!(started.elapsed() < WAIT_TIMEOUT, "the stream continues");
    }
    assert!(started.elapsed() < WAIT_TIMEOUT, "nothing was received, and the stream did not end");
}

/// Shutdown does not wait for subscribers, and their responses end properly.
fn subscribers_end_with_the_server(store: StoreKind) {
    let mut server = start(store.open(), vec![put("10.1/first")], HttpLimits::default());
    let mut stream = server.connect();
    stream
        .write_all(b"GET /api/v1/changes HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n")
        .unwrap();
    let mut first_bytes = [0; 64];
    stream.read_exact(&mut first_bytes).unwrap();
    let started = Instant::now();
    drop(server.shutdown.take());
    let read = read_text(&stream);
    assert!(read.ends_with("0\r\n\r\n"), "{read}");
    // Takes about a second; the next heartbeat would come after 15 s.
    assert!(started.elapsed() < 12 * SECOND, "{:?}", started.elapsed());
}

/// The number of subscribers of one client is limited, and HEAD requests do not count.
fn audit_f11_subscribers_per_client(store: StoreKind) {
    let server = start(store.open(), vec![put("10.1/first")], HttpLimits::default());
    let mut subscribers: Vec<_> = (0..32).map(|_| Subscriber::new(&server, "", "")).collect();
    let overloaded = server.request("GET", "/api/v1/changes", "");
    assert_eq!((overloaded.status, overloaded.header("retry-after")), (503, Some("10")));
    // A place is reserved for the operator.
    let authorization = format!("Authorization: Bearer {}", TOKEN);
    assert_eq!(server.request("GET", "/api/v1/changes", &authorization).status, 200);
    subscribers.truncate(31);
    wait_until("the permit of the subscriber is free", || server.get("/api/v1/changes").status != 503);
    let head = server.request("HEAD", "/api/v1/changes", "Accept: text/event-stream");
    assert_eq!((head.status, head.body.len()), (200, 0));
    wait_until("the permit of the HEAD request is free", || server.get("/api/v1/changes").status != 503);
    // The subscribers still receive changes.
    commit(&server, "operator", vec![put("10.1/second")]);
    for subscriber in &mut subscribers {
        assert_eq!(subscriber.change().unwrap().0, "1");
        assert_eq!(subscriber.change().unwrap().0, "2");
    }
}
