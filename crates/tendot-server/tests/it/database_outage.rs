//! Database outages: every protocol reports them, unknown commit outcomes are reported as unknown, and the server recovers when
//! the database is back.

use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tendot_proto::auth::ClientKey;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::endpoint::Transport;
use tendot_proto::{HandleValue, Message};
use tendot_registry::OUTCOME_UNKNOWN;
use tendot_server::{Maintenance, ResolutionCounter};
use tendot_store::{AnyStore, PostgresSettings, PostgresStore, Store as _};
use tendot_testing::handle_keys::private_key;
use tendot_testing::http::HttpResponse;
use tendot_testing::postgres::PostgresServer;
use tendot_testing::{block_on, repetitions, wait_for, wait_until};

use crate::support::api_client::ApiClient;
use crate::support::edits::{home_edit, put_edit};
use crate::support::http_server::{TOKEN, TestServer};
use crate::support::native_server::{
    NativeServerOptions, NativeTestServer, SERVER_ADMIN, admin_value, create_request, error_message,
    resolution, response_code, url_value,
};

const DATABASE: &str = "directory";

/// Starts a PostgreSQL server, which a test kills, and opens a store in one of its databases. Requests wait a second for it.
fn database() -> (PostgresServer, AnyStore) {
    database_with_timeout(Duration::from_secs(1))
}

/// Like [`database`], with another time that requests wait for the database; health checks may take half of it.
fn database_with_timeout(wait_timeout: Duration) -> (PostgresServer, AnyStore) {
    // A kill of its processes loses nothing without fsync, unlike a power failure.
    let postgres = PostgresServer::start("fsync = off\nfull_page_writes = off");
    block_on(postgres.execute("postgres", &format!("create database {DATABASE}")));
    let url = postgres.url(DATABASE);
    let settings = PostgresSettings { wait_timeout, max_connections: 4, ..PostgresSettings::default() };
    (postgres, block_on(PostgresStore::open(&url, &settings)).unwrap().into())
}

#[track_caller]
fn check_unavailable(response: &HttpResponse, code: Option<&str>) {
    let body = response.text();
    assert_eq!(
        (response.status, response.header("retry-after")),
        (503, Some("10")),
        "{}\n{body}",
        response.head
    );
    if let Some(code) = code {
        assert_eq!(response.json()["code"], code, "{body}");
    }
}

#[test]
fn http_responses() {
    let (postgres, store) = database();
    let client = ApiClient::start(store);
    let fixtures = client.create_fixtures();
    let (token, url) = (&fixtures.tokens[0], "https://example.org/");
    for name in ["cached", "other"] {
        client.create("/dois", &json!({"name": format!("10.70000/{name}"), "url": url}));
    }
    // The store polls its log five times a second and discards cached responses about changed names. Ten times as long: there is
    // no event for the last entry read.
    thread::sleep(Duration::from_secs(2));
    for _ in 0..2 {
        assert_eq!(client.redirect_of("10.70000/cached").0, 302);
    }
    postgres.kill();
    // A cached redirect stays valid, because nothing can change the record.
    assert_eq!(client.redirect_of("10.70000/cached"), (302, Some(url.into())));
    let get = |path: &str, headers: &[&str]| client.send("GET", path, "", headers, b"");
    check_unavailable(&get("/10.70000/other", &[]), None);
    let page = get("/10.70000/other", &["Accept: text/html"]);
    let page = page.text();
    assert!(page.contains("<html") && page.contains("The database is unreachable"), "{page}");
    let unreachable = Some("store-unavailable");
    check_unavailable(&get("/10.70000/other", &["Accept: application/json"]), unreachable);
    check_unavailable(&get("/api/handles/10.70000/other", &[]), None);
    for path in [
        "/api/v1/dois/10.70000/other",
        "/api/v1/dois?prefix=10.70000",
        "/api/v1/prefixes",
        "/api/v1/changes",
        "/api/v1/history/10.70000/other",
        "/api/v1/metadata/10.70000/other",
    ] {
        check_unavailable(&get(path, &[]), unreachable);
    }
    // A token is not rejected as wrong while it cannot be looked up.
    let body = json!({"name": "10.70000/new", "url": url}).to_string();
    for token in [token, TOKEN] {
        let post = |path: &str, body: &str| {
            client.send("POST", &format!("/api/v1{path}"), token, &[], body.as_bytes())
        };
        check_unavailable(&post("/dois", &body), unreachable);
        let path = "/api/v1/dois/10.70000/other";
        check_unavailable(
            &client.send("PUT", path, token, &[], b"{\"url\":\"https://example.org/2\"}"),
            unreachable,
        );
        check_unavailable(&client.send("DELETE", path, token, &[], b""), unreachable);
    }
    // The journal of a batch is read before it starts.
    let (path, lines) = ("/api/v1/dois/batch", format!("{body}\n"));
    check_unavailable(&client.send("POST", path, token, &[], lines.as_bytes()), unreachable);
    check_unavailable(
        &client.send("POST", path, TOKEN, &["Idempotency-Key: k"], lines.as_bytes()),
        unreachable,
    );
    let values = br#"{"values":[{"index":1,"type":"URL","data":"https://example.org/"}]}"#;
    let put = client.send("PUT", "/api/handles/10.70000/other?index=1", TOKEN, &[], values);
    check_unavailable(&put, None);
    assert_eq!(put.json()["responseCode"], 3);
    let basic = "Authorization: Basic MzAwJTNBMTAuNzAwMDAlMkZPVEhFUjp4";
    let with_password = client.send("GET", "/api/handles/10.70000/other", "", &[basic], b"");
    check_unavailable(&with_password, unreachable);

    postgres.restart();
    wait_until("the server has recovered", || client.redirect_of("10.70000/other").0 == 302);
    client.check("POST", "/dois", token, &serde_json::from_str(&body).unwrap(), (201, ""));
}

#[test]
fn native_responses() {
    let (postgres, store) = database();
    let server = NativeTestServer::start_over(store, NativeServerOptions::default());
    let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let values = [url_value(1, "https://example.org/"), admin_value(100, 0xfff, SERVER_ADMIN)];
    let create = |name: &'static str| create_request(name, &values);
    let send_authenticated = |request: &Message<'_>| {
        server.authenticated_code(request, SERVER_ADMIN, ClientKey::PrivateKey(&*key))
    };
    assert_eq!(send_authenticated(&create("10.5555/before")), 1);
    postgres.kill();
    for transport in [Transport::Udp, Transport::Tcp, Transport::Http] {
        let response =
            server.exchange(transport, &resolution("10.5555/before").to_bytes().unwrap()).remove(0);
        assert_eq!(response_code(&response), 3, "{transport:?}");
        assert!(error_message(&response).contains("database unavailable"), "{}", error_message(&response));
    }
    assert_eq!(send_authenticated(&create("10.5555/after")), 3);
    postgres.restart();
    wait_until("the server has recovered", || send_authenticated(&create("10.5555/after")) == 1);
}

/// A name does not redirect while the record of its prefix, or a record that it includes, cannot be read.
#[test]
fn unreadable_prefix_record() {
    let (postgres, store) = database();
    let client = ApiClient::start(store);
    let inactive = "<namespace><status>inactive</status></namespace>";
    let put = |name: &str, kind: &'static str, data: &str| {
        let other = HandleValue::new(20, kind, data.to_owned());
        put_edit(name, vec![url_value(1, "https://example.org/"), other])
    };
    let edits = ["10.6666", "10.7777"].map(home_edit);
    let edits = edits.into_iter().chain([
        put("0.NA/10.6666", "HS_NAMESPACE", inactive),
        put("10.6666/x", "DESC", ""),
        put("10.7777/x", "10320/loc", "<locations include='10.7777/far'/>"),
        put("10.7777/far", "10320/loc", "<locations><location href='https://far.example.org/'/></locations>"),
    ]);
    client.server.commit(edits.collect());
    let sql = "update tendot_records set body = '\\x01' where convert_from(name, 'UTF8') in ('0.NA/10.6666', '10.7777/far')";
    block_on(postgres.execute(DATABASE, sql));
    for path in
        ["/10.6666/x", "/10.7777/x", "/doiRA/10.6666", "/doiRA/10.7777/x,10.6666/x", "/doiRA/10.7777/far"]
    {
        let response = client.send("GET", path, "", &["Accept: application/json"], b"");
        let json = response.json();
        assert_eq!((response.status, &json["code"]), (500, &json!("corrupt")), "{path}: {}", response.head);
        assert_eq!(response.header("expires"), None, "{path}");
        assert!(!response.head.contains("max-age"), "{}", response.head);
    }
    let agency = client.send("GET", "/doiRA/10.7777/x", "", &[], b"");
    assert_eq!(agency.status, 200, "{}", agency.head);
    postgres.kill();
    check_unavailable(&client.send("GET", "/doiRA/10.6666/x", "", &[], b""), Some("store-unavailable"));
}

/// A batch that an outage interrupts continues with its idempotency key, and no line is executed twice.
#[test]
fn interrupted_batch_resumes() {
    let lines = repetitions("TENDOT_TEST_OUTAGE_LINES", 5_000, 20_000) as usize;
    // Long enough that the database does not count as unreachable on a busy machine before it is killed.
    let (postgres, store) = database_with_timeout(Duration::from_secs(10));
    let client = ApiClient::start(store);
    let fixtures = client.create_fixtures();
    let line = "{\"prefix\":\"10.70000\",\"url\":\"https://example.org/\"}\n";
    let body = line.repeat(lines);
    let parts: Vec<_> = body.as_bytes().chunks(line.len() * 250).collect();
    let (received, is_killed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let send = || {
        let (path, key) = ("/api/v1/dois/batch", ["Idempotency-Key: one"]);
        // The second half is sent after the outage has begun, however fast the first half was.
        let before_part = |number| {
            if number == parts.len() / 2 {
                wait_until("the database is killed", || is_killed.load(Ordering::SeqCst));
            }
        };
        client.send_in_parts_counting("POST", path, &fixtures.tokens[0], &key, &parts, &received, before_part)
    };
    let partial = thread::scope(|scope| {
        let sending = scope.spawn(send);
        // More than the head of the response, and far less than all its lines.
        wait_until("the first results have come", || received.load(Ordering::SeqCst) > 20_000);
        postgres.kill();
        is_killed.store(true, Ordering::SeqCst);
        sending.join().unwrap()
    });
    let results = partial.json_lines();
    assert!(!results.is_empty() && results.len() < lines, "{} results: not interrupted", results.len());
    postgres.restart();
    let all_results = wait_for("the server has recovered", || {
        let response = send();
        let all_results = response.json_lines();
        (response.status == 200 && all_results.len() == lines).then_some(all_results)
    });
    assert_eq!(results, all_results[..results.len()], "earlier results stay the same");
    let mut names: Vec<_> = all_results.iter().map(|line| line["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), lines);
    let TestServer { runtime, store, .. } = &client.server;
    let count = runtime.block_on(store.count_names(b"10.70000", None, 1_000_000));
    assert_eq!(count.unwrap().live as usize, lines, "nothing was executed twice");
}

/// When the acknowledgement of a commit is lost, the response reports an unknown outcome; with an idempotency key the
/// request is not executed twice.
#[test]
fn unknown_commit_outcome() {
    let (postgres, store) = database();
    let client = ApiClient::start(store);
    let fixtures = client.create_fixtures();
    let (token, key) = (&fixtures.tokens[0], "Idempotency-Key: lost");
    let body = json!({"name": "10.70000/lost", "url": "https://example.org/"});
    let response =
        with_lost_commit_response(&postgres, || client.json("POST", "/dois", token, &[key], &body));
    check_unavailable(&response.http, Some("outcome-unknown"));
    let detail = response.json["detail"].as_str().unwrap();
    assert!(detail.contains("outcome unknown") && detail.contains("read the name"), "{detail}");
    let response = wait_for("the server has recovered", || {
        let response = client.json("POST", "/dois", token, &[key], &body);
        (response.status != 503).then_some(response)
    });
    assert_eq!(response.status, 201, "{}", response.json);
    assert_eq!(client.redirect_of("10.70000/lost").0, 302);
    client.check("POST", "/dois", token, &body, (409, "already-registered"));

    let values = br#"{"values":[{"index":1,"type":"URL","data":"https://example.org/2"}]}"#;
    let put = || client.send("PUT", "/api/handles/10.70000/lost?index=1", TOKEN, &[], values);
    let response = with_lost_commit_response(&postgres, put);
    // Response code 2 has this status.
    assert_eq!((response.status, response.header("retry-after")), (500, Some("10")), "{}", response.head);
    let json = response.json();
    assert_eq!((&json["responseCode"], &json["message"]), (&json!(2), &json!(OUTCOME_UNKNOWN)));
    wait_until("the server has recovered", || {
        client.redirect_of("10.70000/lost").1.as_deref() == Some("https://example.org/2")
    });
    assert_eq!(put().status, 200);
}

#[test]
fn unknown_native_commit_outcome() {
    let (postgres, store) = database();
    let server = NativeTestServer::start_over(store, NativeServerOptions::default());
    let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let values = [url_value(1, "https://example.org/"), admin_value(100, 0xfff, SERVER_ADMIN)];
    let create = create_request("10.5555/lost", &values);
    let send_authenticated =
        || server.authenticated_response(&create, SERVER_ADMIN, ClientKey::PrivateKey(&*key));
    let response = with_lost_commit_response(&postgres, send_authenticated);
    assert_eq!((response_code(&response), &*error_message(&response)), (2, OUTCOME_UNKNOWN));
    wait_for("the server has recovered", || {
        let response =
            server.exchange(Transport::Tcp, &resolution("10.5555/lost").to_bytes().unwrap()).remove(0);
        (response_code(&response) == 1).then_some(())
    });
    assert_eq!(response_code(&send_authenticated()), 101, "the handle exists");
}

/// Resolutions are counted once, also if the outcome of the flush is unknown.
#[test]
fn resolutions_are_not_counted_twice() {
    let (postgres, store) = database();
    let counter = Arc::new(ResolutionCounter::new(true));
    let client = ApiClient::start_with(store, |http| http.resolution_counter(Arc::clone(&counter)));
    client.create_fixtures();
    client.create("/dois", &json!({"name": "10.70000/x", "url": "https://example.org/"}));
    let flush = || {
        let registry = client.server.http.registry();
        client.server.runtime.block_on(Maintenance::default().flush(registry, &counter));
    };
    let get_report = || client.json("GET", "/reports/10.70000", TOKEN, &[], &Json::Null);
    for (name, expected) in [("10.70000/x", (1, 0)), ("10.70000/none", (1, 1))] {
        client.redirect_of(name);
        with_lost_commit_response(&postgres, flush);
        wait_until("the server has recovered", || get_report().status == 200);
        flush();
        let json = get_report().json;
        assert_eq!(
            (&json["resolutions"], &json["failures"]),
            (&json!(expected.0), &json!(expected.1)),
            "{json}"
        );
    }
}

/// Metrics are served while the database hangs.
#[test]
fn metrics_while_the_database_hangs() {
    let (postgres, store) = database();
    let client = ApiClient::start(store);
    client.create_fixtures();
    let head_metric = || {
        let response = client.server.get("/metrics");
        let body = response.text();
        assert!(response.status == 200 && body.contains("tendot_http_requests_total"), "{body}");
        body.lines().find(|line| line.starts_with("tendot_store_head_sequence")).map(str::to_owned)
    };
    let before = head_metric();
    postgres.signal("STOP");
    let started = Instant::now();
    let while_hanging = head_metric();
    let elapsed = started.elapsed();
    postgres.signal("CONT");
    assert_eq!(while_hanging, before);
    // The server waits half a second for the database.
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
}

/// When the database has lost its last changes, as after the promotion of a standby that was behind, subscribers are reset, and
/// a cursor beyond the end of the log is rejected instead of waiting.
#[test]
fn truncated_change_log() {
    let (postgres, store) = database();
    let client = ApiClient::start(store);
    client.create_fixtures();
    let create = |name: &str| client.create("/dois", &json!({"name": name, "url": "https://example.org/"}));
    for number in 0..5 {
        create(&format!("10.70000/lost-{number}"));
    }
    let sequence = || {
        block_on(postgres.query_text(DATABASE, "select sequence from tendot_counters"))
            .parse::<u64>()
            .unwrap()
    };
    let get = |query: &str, headers: &[&str]| {
        client.send("GET", &format!("/api/v1/changes?{query}"), "", headers, b"")
    };
    let last = sequence();
    for is_noticed_before_writes in [true, false] {
        let mut stream = client.server.connect();
        let head = "GET /api/v1/changes HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut events = BufReader::new(stream).lines().map_while(Result::ok);
        let last_event = format!("id: {}", sequence());
        assert!(events.any(|line| line == last_event));
        // A change that the subscriber receives as it happens: the server has seen the end of the log.
        create(&format!("10.70000/seen-{is_noticed_before_writes}"));
        let new_event = format!("id: {}", sequence());
        assert!(events.any(|line| line == new_event));
        let truncate_log = "begin; \
             update tendot_counters set sequence = $, \
                 log_hash = (select previous_hash from tendot_log where sequence = $ + 1); \
             delete from tendot_log where sequence > $; commit";
        block_on(postgres.execute(DATABASE, &truncate_log.replace('$', &(last - 4).to_string())));
        if is_noticed_before_writes {
            let lines = get(&format!("after={last}"), &[]);
            assert_eq!((lines.status, &*lines.body), (200, b"" as &[u8]));
            let response = get(&format!("after={last}"), &["Accept: text/event-stream"]);
            assert_eq!(
                (response.status, &*response.body),
                (200, b"id:\nevent: reset\ndata: {}\n\n" as &[u8])
            );
            // There is no event for the poll of the truncated log. If the wait is too short, both rounds test the same case.
            thread::sleep(Duration::from_secs(2));
        }
        // The loss is certain, and the stream ends, when the log grows again.
        let reader = thread::spawn(move || events.collect::<Vec<_>>());
        let mut number = 0;
        wait_until("the subscriber receives a reset", || {
            create(&format!("10.70000/{is_noticed_before_writes}-{number}"));
            number += 1;
            reader.is_finished()
        });
        let end = reader.join().unwrap();
        assert!(end.ends_with(&["id:", "event: reset", "data: {}", ""].map(str::to_owned)), "{end:?}");
        let changes = get(&format!("after={}", last - 4), &[]).json_lines();
        assert_eq!(changes[0]["name"], format!("10.70000/{is_noticed_before_writes}-0"));
    }
}

/// Executes a write whose commit is durable but never acknowledged, because it waits for a standby that does not exist until the
/// database is killed; then restarts the database.
fn with_lost_commit_response<T: Send>(postgres: &PostgresServer, request: impl FnOnce() -> T + Send) -> T {
    postgres.alter_system("synchronous_standby_names = 'missing'");
    let response = thread::scope(|scope| {
        let pending = scope.spawn(request);
        let waiting_commits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
        wait_until("the commit waits for a standby", || {
            block_on(postgres.query_text("postgres", waiting_commits)) != "0"
        });
        postgres.kill();
        pending.join().unwrap()
    });
    std::fs::write(postgres.dir().join("data/postgresql.auto.conf"), "").unwrap();
    postgres.restart();
    response
}
