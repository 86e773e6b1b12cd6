//! A database that is gone: whoever asks is told so, and told the truth; and when it is there again, all goes on.

#![allow(clippy::duplicate_mod, reason = "each kind of service knows its store")]

mod client;
mod native;
mod server;

use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use client::{Client, lines};
use native::{Setting, resolution, start_over, words};
use serde_json::{Value as Json, json};
use server::{Found, TOKEN};
use tendot_proto::auth::Credentials;
use tendot_proto::crypto::AwsLc;
use tendot_proto::endpoint::Transport;
use tendot_proto::wire::List;
use tendot_proto::{Handle, Message, Opcode, Request, Value};
use tendot_registry::OUTCOME_UNKNOWN;
use tendot_server::{Tally, Upkeep};
use tendot_store::{Change, Edit, Expect, Postgres, PostgresSettings, Store as _};
use tendot_testing::block_on;
use tendot_testing::postgres::PostgresServer;

const DATABASE: &str = "directory";

/// A server that is killed, and the store of one of its databases.
fn database() -> (PostgresServer, Postgres) {
    let server = PostgresServer::start("");
    block_on(server.execute("postgres", &format!("create database {DATABASE}")));
    let address = server.url(DATABASE);
    // Nobody waits longer in these tests.
    let patience = Duration::from_secs(1);
    let settings = PostgresSettings { patience, connections: 4, ..PostgresSettings::default() };
    (server, block_on(Postgres::open(&address, &settings)).unwrap())
}

/// As soon as the database is there again, within some seconds.
fn again<T>(ask: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < end, "it does not go on");
        thread::sleep(Duration::from_millis(50));
    }
}

#[track_caller]
fn check_later(found: &Found, code: Option<&str>) {
    let body = String::from_utf8_lossy(&found.body);
    assert_eq!((found.status, found.header("retry-after")), (503, Some("10")), "{}\n{body}", found.head);
    if let Some(code) = code {
        let json: Json = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        assert!(code.split('|').any(|code| json["code"] == code), "{body}");
    }
}

#[test]
fn over_http() {
    let (server, store) = database();
    let client = Client::start(store);
    let scene = client.scene();
    let (token, url) = (&scene.tokens[0], "https://example.org/");
    for name in ["kept", "other"] {
        client.make("/dois", &json!({"name": format!("10.70000/{name}"), "url": url}));
    }
    for _ in 0..2 {
        assert_eq!(client.leads("10.70000/kept").0, 302);
    }
    server.kill();
    // What is kept of a name is right until somebody changes it, and nobody can.
    assert_eq!(client.leads("10.70000/kept"), (302, Some(url.into())));
    let get = |path: &str, headers: &[&str]| client.send("GET", path, "", headers, b"");
    check_later(&get("/10.70000/other", &[]), None);
    let page = String::from_utf8(get("/10.70000/other", &["Accept: text/html"]).body).unwrap();
    assert!(page.contains("<html") && page.contains("The database is not reached at present"), "{page}");
    let unreachable = Some("store-unreachable");
    check_later(&get("/10.70000/other", &["Accept: application/json"]), unreachable);
    check_later(&get("/api/handles/10.70000/other", &[]), None);
    for path in [
        "/api/v1/dois/10.70000/other",
        "/api/v1/dois?prefix=10.70000",
        "/api/v1/prefixes",
        "/api/v1/changes",
        "/api/v1/history/10.70000/other",
        "/api/v1/metadata/10.70000/other",
    ] {
        check_later(&get(path, &[]), unreachable);
    }
    // Who has a token is not told that it is wrong, and who has none is told what is the matter.
    let body = json!({"name": "10.70000/new", "url": url}).to_string();
    for token in [token, TOKEN] {
        let post = |path: &str, body: &str| {
            client.send("POST", &format!("/api/v1{path}"), token, &[], body.as_bytes())
        };
        check_later(&post("/dois", &body), unreachable);
        let path = "/api/v1/dois/10.70000/other";
        check_later(
            &client.send("PUT", path, token, &[], b"{\"url\":\"https://example.org/2\"}"),
            unreachable,
        );
        check_later(&client.send("DELETE", path, token, &[], b""), unreachable);
    }
    // What is noted of a batch is looked for before it begins.
    let (path, lines) = ("/api/v1/dois/batch", format!("{body}\n"));
    check_later(&client.send("POST", path, token, &[], lines.as_bytes()), unreachable);
    check_later(&client.send("POST", path, TOKEN, &["Idempotency-Key: k"], lines.as_bytes()), unreachable);
    let values = br#"{"values":[{"index":1,"type":"URL","data":"https://example.org/"}]}"#;
    let put = client.send("PUT", "/api/handles/10.70000/other?index=1", TOKEN, &[], values);
    check_later(&put, None);
    assert_eq!(serde_json::from_slice::<Json>(&put.body).unwrap()["responseCode"], 3);
    let basic = "Authorization: Basic MzAwJTNBMTAuNzAwMDAlMkZPVEhFUjp4";
    let unknown = client.send("GET", "/api/handles/10.70000/other", "", &[basic], b"");
    check_later(&unknown, unreachable);

    server.restart();
    again(|| (client.leads("10.70000/other").0 == 302).then_some(()));
    client.check("POST", "/dois", token, &serde_json::from_str(&body).unwrap(), (201, ""));
}

#[test]
fn natively() {
    let (server, store) = database();
    let service = start_over(store, Setting::default());
    let key = native::private_key("admpriv.bin").signing_key(&AwsLc).unwrap();
    let values = [native::url(1, "https://example.org/"), native::admin(100, 0xfff, "300:0.NA/10.5555")];
    let create = |name: &'static str| {
        let values = List::from(&values[..]);
        let request = Request::Values { handle: Handle::from(name), values };
        Message::request(Opcode::CREATE_HANDLE, request, 7, native::now())
    };
    let prove =
        |request: &Message<'_>| service.prove(request, "300:0.NA/10.5555", Credentials::PrivateKey(&*key));
    assert_eq!(prove(&create("10.5555/before")), 1);
    server.kill();
    for transport in [Transport::Udp, Transport::Tcp, Transport::Http] {
        let answer = service.ask(transport, &resolution("10.5555/before").to_bytes().unwrap()).remove(0);
        assert_eq!(native::code(&answer), 3, "{transport:?}");
        assert!(words(&answer).contains("the database is not reached"), "{}", words(&answer));
    }
    assert_eq!(prove(&create("10.5555/after")), 3);
    server.restart();
    again(|| (prove(&create("10.5555/after")) == 1).then_some(()));
}

/// Names are not led anywhere while nobody can say what their prefix wants, nor where other records lead that have a part in it.
#[test]
fn a_prefix_that_cannot_be_read() {
    let (server, store) = database();
    let client = Client::start(store);
    let inactive = "<namespace><status>inactive</status></namespace>";
    let put = |name: &str, kind: &'static str, data: &str| Edit::Put {
        name: name.into(),
        values: vec![Value::new(1, "URL", "https://example.org/"), Value::new(20, kind, data.to_owned())],
        expect: Expect::Absent,
    };
    let edits = ["10.6666", "10.7777"].map(|prefix| Edit::Home { prefix: prefix.into() });
    let edits = edits.into_iter().chain([
        put("0.NA/10.6666", "HS_NAMESPACE", inactive),
        put("10.6666/x", "DESC", ""),
        put("10.7777/x", "10320/loc", "<locations include='10.7777/far'/>"),
        put("10.7777/far", "10320/loc", "<locations><location href='https://far.example.org/'/></locations>"),
    ]);
    let change = Change { by: "test".into(), at: 0, edits: edits.collect() };
    block_on(client.service.http.registry().store().commit(change)).unwrap();
    let sql = "update tendot_records set body = '\\x01' where convert_from(name, 'UTF8') in ('0.NA/10.6666', '10.7777/far')";
    block_on(server.execute(DATABASE, sql));
    for path in
        ["/10.6666/x", "/10.7777/x", "/doiRA/10.6666", "/doiRA/10.7777/x,10.6666/x", "/doiRA/10.7777/far"]
    {
        let found = client.send("GET", path, "", &["Accept: application/json"], b"");
        let json: Json = serde_json::from_slice(&found.body).unwrap_or_default();
        assert_eq!((found.status, &json["code"]), (500, &json!("failed")), "{path}: {}", found.head);
        assert_eq!(found.header("expires"), None, "{path}");
        assert!(!found.head.contains("max-age"), "{}", found.head);
    }
    let agency = client.send("GET", "/doiRA/10.7777/x", "", &[], b"");
    assert_eq!(agency.status, 200, "{}", agency.head);
    server.kill();
    check_later(&client.send("GET", "/doiRA/10.6666/x", "", &[], b""), Some("store-unreachable"));
}

/// Batches that the database left in the middle go on with their key, and no line of them is done twice.
#[test]
fn a_batch_goes_on() {
    const LINES: usize = 20_000;
    let (server, store) = database();
    let client = Client::start(store);
    let scene = client.scene();
    let line = "{\"prefix\":\"10.70000\",\"url\":\"https://example.org/\"}\n";
    let body = line.repeat(LINES);
    let pieces: Vec<_> = body.as_bytes().chunks(line.len() * 1_000).collect();
    let send = || {
        let path = "/api/v1/dois/batch";
        client.try_send("POST", path, &scene.tokens[0], &["Idempotency-Key: one"], &pieces)
    };
    let cut = thread::scope(|scope| {
        let sent = scope.spawn(send);
        // The head of its receipt, and some pieces.
        let noted = || {
            block_on(server.query_text(
                DATABASE,
                "select count(*) from tendot_notes where note_key >= 'receipt/' and note_key < 'receipt0'",
            ))
        };
        again(|| (noted().parse::<u32>().unwrap() > 3).then_some(()));
        // Their answers are on the way: all of them may be of one transaction, which ended just now.
        thread::sleep(Duration::from_millis(60));
        server.kill();
        sent.join().unwrap()
    });
    let told = lines(&cut.body);
    assert!(!told.is_empty() && told.len() < LINES, "{} were answered: not in the middle", told.len());
    server.restart();
    let answers = again(|| {
        let found = send();
        let answers = lines(&found.body);
        (found.status == 200 && answers.len() == LINES).then_some(answers)
    });
    assert_eq!(told, answers[..told.len()], "what was answered stays so");
    let mut names: Vec<_> = answers.iter().map(|line| line["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), LINES);
    let registry = client.service.http.registry();
    let counted = client.service.runtime.block_on(tendot_store::Store::count_under(
        registry.store(),
        b"10.70000",
        None,
        1_000_000,
    ));
    assert_eq!(counted.unwrap().live as usize, LINES, "nothing was done twice");
}

/// Nobody knows whether a change was carried out whose answer was lost: that is said, and with its key it is not done twice.
#[test]
fn what_nobody_knows() {
    let (server, store) = database();
    let client = Client::start(store);
    let scene = client.scene();
    let (token, key) = (&scene.tokens[0], "Idempotency-Key: lost");
    let body = json!({"name": "10.70000/lost", "url": "https://example.org/"});
    let told = lost(&server, || client.told("POST", "/dois", token, &[key], &body));
    check_later(&told.head, Some("outcome-unknown"));
    let detail = told.json["detail"].as_str().unwrap();
    assert!(detail.contains("it is not known whether") && detail.contains("ask for the name"), "{detail}");
    let told = again(|| {
        let told = client.told("POST", "/dois", token, &[key], &body);
        (told.status != 503).then_some(told)
    });
    assert_eq!(told.status, 201, "{}", told.json);
    assert_eq!(client.leads("10.70000/lost").0, 302);
    client.check("POST", "/dois", token, &body, (409, "already-registered"));

    let values = br#"{"values":[{"index":1,"type":"URL","data":"https://example.org/2"}]}"#;
    let put = || client.send("PUT", "/api/handles/10.70000/lost?index=1", TOKEN, &[], values);
    let found = lost(&server, put);
    check_later(&found, None);
    let json: Json = serde_json::from_slice(&found.body).unwrap();
    assert_eq!((&json["responseCode"], &json["message"]), (&json!(2), &json!(OUTCOME_UNKNOWN)));
    again(|| (client.leads("10.70000/lost").1.as_deref() == Some("https://example.org/2")).then_some(()));
    assert_eq!(put().status, 200);
}

#[test]
fn what_nobody_knows_natively() {
    let (server, store) = database();
    let service = start_over(store, Setting::default());
    let key = native::private_key("admpriv.bin").signing_key(&AwsLc).unwrap();
    let values = [native::url(1, "https://example.org/"), native::admin(100, 0xfff, "300:0.NA/10.5555")];
    let request = Request::Values { handle: Handle::from("10.5555/lost"), values: List::from(&values[..]) };
    let create = Message::request(Opcode::CREATE_HANDLE, request, 7, native::now());
    let prove = || service.proved(&create, "300:0.NA/10.5555", Credentials::PrivateKey(&*key));
    let answer = lost(&server, prove);
    assert_eq!((native::code(&answer), &*words(&answer)), (2, OUTCOME_UNKNOWN));
    again(|| {
        let answer = service.ask(Transport::Tcp, &resolution("10.5555/lost").to_bytes().unwrap()).remove(0);
        (native::code(&answer) == 1).then_some(())
    });
    assert_eq!(native::code(&prove()), 101, "it is there already");
}

/// What was counted is in reports once, also if nobody knows whether it was written down.
#[test]
fn nothing_is_counted_twice() {
    let (server, store) = database();
    let tally = Arc::new(Tally::new(true));
    let client = Client::start_as(store, |http| http.tally(Arc::clone(&tally)));
    client.scene();
    client.make("/dois", &json!({"name": "10.70000/x", "url": "https://example.org/"}));
    let write = || {
        let registry = client.service.http.registry();
        client.service.runtime.block_on(Upkeep::default().write(registry, &tally));
    };
    let told = || client.told("GET", "/reports/10.70000", TOKEN, &[], &Json::Null);
    for (name, counted) in [("10.70000/x", (1, 0)), ("10.70000/none", (1, 1))] {
        client.leads(name);
        lost(&server, write);
        again(|| (told().status == 200).then_some(()));
        write();
        let json = told().json;
        assert_eq!(
            (&json["resolutions"], &json["failures"]),
            (&json!(counted.0), &json!(counted.1)),
            "{json}"
        );
    }
}

/// The figures are shown while the database hangs.
#[test]
fn figures() {
    let (server, store) = database();
    let client = Client::start(store);
    client.scene();
    let ask = || {
        let asked = Instant::now();
        (client.try_send("GET", "/metrics", "", &[], &[]), asked.elapsed())
    };
    let last = |found: &Found| {
        let body = String::from_utf8_lossy(&found.body);
        assert!(found.status == 200 && body.contains("tendot_http_requests_total"), "{body}");
        body.lines().find(|line| line.starts_with("tendot_store_last_change")).map(str::to_owned)
    };
    let known = last(&ask().0);
    server.signal("STOP");
    let (found, took) = ask();
    server.signal("CONT");
    assert_eq!(last(&found), known);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// A database that lost its last changes, as a standby does that was promoted too early: those who follow are told, and whoever
/// knows more than there is is not left waiting.
#[test]
fn changes_that_are_lost() {
    let (server, store) = database();
    let client = Client::start(store);
    client.scene();
    let make = |name: &str| client.make("/dois", &json!({"name": name, "url": "https://example.org/"}));
    for number in 0..5 {
        make(&format!("10.70000/lost-{number}"));
    }
    let sequence = || {
        block_on(server.query_text(DATABASE, "select sequence from tendot_counters")).parse::<u64>().unwrap()
    };
    let ask = |query: &str, accept: &[&str]| {
        client.send("GET", &format!("/api/v1/changes?{query}"), "", accept, b"")
    };
    let get = |query: &str| ask(query, &[]);
    let last = sequence();
    for slow in [true, false] {
        let mut stream = client.service.connect();
        let head = "GET /api/v1/changes HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut events = BufReader::new(stream).lines().map_while(Result::ok);
        let known = format!("id: {}", sequence());
        assert!(events.any(|line| line == known));
        // So that it was seen by who looks, too.
        thread::sleep(Duration::from_secs(1));
        let lose = "begin; delete from tendot_log where sequence > $; update tendot_counters set sequence = $; commit";
        block_on(server.execute(DATABASE, &lose.replace('$', &(last - 4).to_string())));
        if slow {
            let lines = get(&format!("after={last}"));
            assert_eq!((lines.status, &*lines.body), (200, b"" as &[u8]));
            let events = ask(&format!("after={last}"), &["Accept: text/event-stream"]);
            assert_eq!((events.status, &*events.body), (200, b"id:\nevent: lost\ndata: {}\n\n" as &[u8]));
            thread::sleep(Duration::from_millis(2_500));
        }
        for number in 0..if slow { 2 } else { 6 } {
            make(&format!("10.70000/{slow}-{number}"));
        }
        // A sign of life comes in any case.
        let made = Instant::now();
        let end: Vec<String> = events.take_while(|_| made.elapsed() < Duration::from_secs(10)).collect();
        assert!(end.ends_with(&["id:", "event: lost", "data: {}", ""].map(str::to_owned)), "{end:?}");
        let told = lines(&get(&format!("after={}", last - 4)).body);
        assert_eq!(told[0]["name"], format!("10.70000/{slow}-0"));
    }
}

/// What is answered to a change that is durable while nobody is told so, since its commit waits for a standby that never comes;
/// the database is killed then, and is there again.
fn lost<T: Send>(server: &PostgresServer, ask: impl FnOnce() -> T + Send) -> T {
    block_on(server.execute("postgres", "alter system set synchronous_standby_names = 'nobody'"));
    block_on(server.execute("postgres", "select pg_reload_conf()"));
    let is_set = || block_on(server.query_text("postgres", "show synchronous_standby_names")) == "nobody";
    again(|| is_set().then_some(()));
    let told = thread::scope(|scope| {
        let asked = scope.spawn(ask);
        let waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
        again(|| (block_on(server.query_text("postgres", waiting)) != "0").then_some(()));
        server.kill();
        asked.join().unwrap()
    });
    std::fs::write(server.dir().join("data/postgresql.auto.conf"), "").unwrap();
    server.restart();
    told
}
