//! Names that are kept elsewhere: by another service of ours, and by a peer that misbehaves, over real connections.

mod server;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use server::{Found, Service, TOKEN, start_at};
use tendot_client::{CacheSettings, HttpUpstream};
use tendot_proto::{Ttl, Value};
use tendot_server::http::{Limits, Upstream};
use tendot_store::{Edit, Expect};

const SECOND: Duration = Duration::from_secs(1);

fn socket() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn put(name: &str, values: Vec<Value<'static>>) -> Edit {
    Edit::Put { name: name.into(), values, expect: Expect::Absent }
}

fn url(address: &'static str) -> Vec<Value<'static>> {
    vec![Value::new(1, "URL", address)]
}

/// Asks `upstream` for all that is not under 10.5555.
fn asking_at(socket: TcpListener, upstream: SocketAddr, settings: CacheSettings) -> Service {
    let edits = vec![
        put("10.5555/ONE", url("https://example.org/one")),
        put("10.5555/ALIAS", vec![Value::new(1, "HS_ALIAS", "10.7777/SHORT")]),
        put("10.5555/CIRCLE", vec![Value::new(1, "HS_ALIAS", "10.7777/CIRCLE")]),
        Edit::Home { prefix: "10.5555".into() },
    ];
    let upstream = HttpUpstream::new(&format!("http://{upstream}")).unwrap();
    start_at(socket, edits, Limits::default(), None, |http| {
        http.upstream(Upstream::Http(Box::new(upstream)), settings)
    })
}

fn asking(upstream: SocketAddr) -> Service {
    asking_at(socket(), upstream, CacheSettings::default())
}

/// Keeps 10.7777.
fn keeping(socket: TcpListener) -> Service {
    let short = |value| Value { ttl: Ttl::Relative(1), ..value };
    let several = vec![
        Value::new(1, "URL", "https://example.org/a"),
        Value { ttl: Ttl::Relative(600), ..Value::new(2, "EMAIL", "a@example.org") },
        Value { permissions: tendot_proto::Permissions(0x0c), ..Value::new(3, "NOTE", "hidden") },
    ];
    let locations = "<locations><location href='https://example.org/by-namespace' weight='1'/></locations>";
    let negotiating = "<locations><location weight='0' http_role='conneg' \
                       href_template='https://data.example.org/{hdl}'/></locations>";
    let namespace = "<namespace><DOI.RA>10.SERV/DATACITE</DOI.RA></namespace>";
    let edits = vec![
        put("10.7777/Several", several),
        put("10.7777/SHORT", vec![short(Value::new(1, "URL", "https://example.org/short"))]),
        put("10.7777/ALIAS", vec![Value::new(1, "HS_ALIAS", "10.7777/Several")]),
        put("10.7777/CIRCLE", vec![Value::new(1, "HS_ALIAS", "10.5555/CIRCLE")]),
        put("10.7777/LOC", vec![Value::new(1, "10320/loc", "<locations include='10.7777/PLACES'/>")]),
        put("10.7777/PLACES", vec![Value::new(1, "10320/loc", locations)]),
        put("10.7777/SCRIPT", url("javascript:alert(1)")),
        put("10.7777/HTML", vec![Value::new(1, "DESC", "<script>alert(1)</script>")]),
        put("10.7777/HEADERS", {
            let mut values = url("https://example.org/");
            values.push(Value::new(2, "10320/headers", "Set-Cookie: a=b\nX-Shelf: 7"));
            values
        }),
        put("10.7777/KEY", vec![Value::new(300, "HS_SECKEY", "secret")]),
        put("0.NA/10.7777", vec![Value::new(1, "HS_NAMESPACE", namespace)]),
        put("10.6666/ONE", url("https://example.org/one-there")),
        put(
            "0.NA/10.6666",
            vec![Value::new(1, "HS_NAMESPACE", "<namespace><locs>10.SERV/X</locs></namespace>")],
        ),
        put("10.SERV/X", vec![Value::new(1, "10320/loc", negotiating)]),
        Edit::Home { prefix: "10.7777".into() },
        Edit::Home { prefix: "10.6666".into() },
        Edit::Home { prefix: "10.SERV".into() },
        Edit::Home { prefix: "0.NA".into() },
    ];
    start_at(socket, edits, Limits::default(), None, |http| http)
}

fn text(found: &Found) -> String {
    String::from_utf8_lossy(&found.body).into_owned()
}

impl Service {
    fn get(&self, target: &str) -> Found {
        self.ask("GET", target, "")
    }

    fn figure(&self, name: &str) -> f64 {
        let figures = text(&self.get("/metrics"));
        let line = figures.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {figures}")).parse().unwrap()
    }
}

/// A peer that answers each request as it is told, and remembers them.
struct Peer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    fn start(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = socket();
        let address = listener.local_addr().unwrap();
        let (requests, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, seen, answer) = (stream.unwrap(), Arc::clone(&seen), Arc::clone(&answer));
                thread::spawn(move || {
                    let mut head = vec![0; 16 << 10];
                    let Ok(length @ 1..) = stream.read(&mut head) else { return };
                    let head = String::from_utf8_lossy(&head[..length]).into_owned();
                    seen.lock().unwrap().push(head.clone());
                    answer(&head, &mut stream);
                });
            }
        });
        Self { address, requests }
    }

    /// The same answer to all.
    fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |_, stream| _ = stream.write_all(&answer))
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn json(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn record(values: &str) -> String {
    json(200, &format!(r#"{{"responseCode":1,"values":[{values}]}}"#))
}

const ONE: &str = r#"{"index":1,"type":"URL","data":"https://example.org/there","ttl":600}"#;

#[test]
fn names_of_another_service() {
    let there = keeping(socket());
    let here = asking(there.address);
    let check = |target: &str, status: u16, location: Option<&str>| {
        let found = here.get(target);
        let shown = (found.status, found.header("location"));
        assert_eq!(shown, (status, location), "{target}: {}", text(&found));
    };
    check("/10.5555/ONE", 302, Some("https://example.org/one"));
    check("/10.7777/SEVERAL", 302, Some("https://example.org/a"));
    check("/10.7777/ALIAS?x=1", 301, Some("/10.7777/Several?x=1"));
    check("/10.5555/ALIAS", 301, Some("/10.7777/SHORT"));
    check("/10.5555/CIRCLE", 508, None);
    check("/10.7777/LOC", 302, Some("https://example.org/by-namespace"));
    check("/10.7777/NONE", 404, None);
    check("/10.8888/NONE", 400, None);
    check("/api/handles/10.8888/NONE", 400, None);
    check("/10.7777/SEVERAL?type=EMAIL", 200, None);
    check("/10.7777/SEVERAL?type=NOTE", 404, None);
    check("/10.7777/SEVERAL?noredirect", 200, None);
    // What cannot be asked for over HTTP is as if nobody could be.
    check("/api/handles/10.7777/a%2F..%2Fb", 400, None);

    let page = text(&here.get("/10.7777/SEVERAL?noredirect"));
    assert!(page.contains(&format!("Not kept here: http://{} said this", there.address)), "{page}");
    assert!(!page.contains("hidden"), "{page}");
    let page = text(&here.get("/10.7777/NONE"));
    assert!(
        page.contains(&format!("It is not kept here, and http://{} has no record of it.", there.address))
    );
    let page = text(&here.get("/10.8888/NONE"));
    assert!(
        page.contains(&format!("It is not kept here, and http://{} does not know where.", there.address))
    );
    let agencies = text(&here.get("/doiRA/10.7777/SEVERAL,10.7777/NONE,10.7777"));
    assert_eq!(
        agencies,
        r#"[{"DOI":"10.7777/SEVERAL","RA":"DataCite"},{"DOI":"10.7777/NONE","status":"DOI does not exist"},{"DOI":"10.7777","RA":"DataCite"}]"#
    );
}

/// Agencies say by the record of a prefix where data about its names is.
#[test]
fn negotiated() {
    let there = keeping(socket());
    let here = asking(there.address);
    for (accept, location) in [
        ("text/html", "https://example.org/one-there"),
        ("application/vnd.citationstyles.csl+json", "https://data.example.org/10.6666%2FONE"),
    ] {
        let found = here.ask("GET", "/10.6666/ONE", &format!("Accept: {accept}"));
        assert_eq!((found.status, found.header("location")), (302, Some(location)), "{accept}");
        assert_eq!(found.header("vary"), Some("Accept, User-Agent"));
    }
}

#[test]
fn records_as_json() {
    let there = keeping(socket());
    let here = asking(there.address);
    for target in ["", "?type=EMAIL", "?index=1", "?index=3", "?type=NOTE&index=2", "?pretty", "?callback=f"]
    {
        let target = format!("/api/handles/10.7777/several{target}");
        let (theirs, ours) = (there.get(&target), here.get(&target));
        assert_eq!((ours.status, text(&ours)), (theirs.status, text(&theirs)), "{target}");
    }
    let (theirs, ours) = (there.get("/api/handles/10.7777/none"), here.get("/api/handles/10.7777/none"));
    assert_eq!((ours.status, text(&ours)), (404, text(&theirs)));
    // Nobody sees more elsewhere than everybody does, whoever they are here.
    let target = "/api/handles/10.7777/several?publicOnly=false";
    let found = here.ask("GET", target, &format!("Authorization: Bearer {TOKEN}"));
    assert!(found.status == 200 && !text(&found).contains("hidden"));
    assert_eq!(found.header("cache-control"), Some("private, no-store"));
}

/// `max-age` less `Age` is what is left of the time of the shortest value.
#[test]
fn times() {
    let there = keeping(socket());
    let here = asking(there.address);
    let first = here.get("/api/handles/10.7777/several");
    assert_eq!(first.header("cache-status"), Some("tendot; fwd=miss"));
    assert_eq!((first.header("age"), first.header("cache-control")), (None, Some("public, max-age=600")));
    thread::sleep(SECOND * 21 / 10);
    let second = here.get("/api/handles/10.7777/several");
    let number = |found: &Found, name: &str, before: &str| -> u64 {
        let value = found.header(name).unwrap_or_else(|| panic!("{name}: {}", found.head));
        value.strip_prefix(before).unwrap_or_else(|| panic!("{value}")).parse().unwrap()
    };
    let age = number(&second, "age", "");
    assert!((2..=9).contains(&age), "{}", second.head);
    let left = number(&second, "cache-control", "public, max-age=") - age;
    assert!((590..=598).contains(&left), "{}", second.head);
    assert_eq!(number(&second, "cache-status", "tendot; hit; ttl="), left);
    let redirect = here.get("/10.7777/several");
    assert!(
        redirect.header("age").is_some() && redirect.header("cache-status").is_some(),
        "{}",
        redirect.head
    );
    // Another one that asks this one keeps it no longer.
    let third = asking(here.address);
    let found = third.get("/api/handles/10.7777/several");
    assert!(number(&found, "age", "") >= 2, "{}", found.head);
    // What is kept here tells nothing of this.
    let ours = here.get("/10.5555/ONE");
    assert_eq!((ours.header("age"), ours.header("cache-status")), (None, None));
}

#[test]
fn from_the_source() {
    let peer = Peer::saying(record(ONE));
    let here = asking(peer.address);
    for target in ["/10.7777/x", "/10.7777/x", "/api/handles/10.7777/x"] {
        here.get(target);
    }
    let lines = |requests: Vec<String>| -> Vec<String> {
        requests.iter().map(|request| request.lines().next().unwrap().to_owned()).collect()
    };
    let expected = ["GET /api/handles/10.7777/x HTTP/1.1", "GET /api/handles/0.NA/10.7777 HTTP/1.1"];
    assert_eq!(lines(peer.asked()), expected);
    let found = here.get("/api/handles/10.7777/x?auth");
    assert_eq!(found.header("cache-status"), Some("tendot; fwd=miss"));
    here.get("/api/handles/10.7777/x?auth=false");
    assert_eq!(lines(peer.asked()), ["GET /api/handles/10.7777/x?auth HTTP/1.1"]);
    let page = here.get("/10.7777/x?auth&noredirect");
    assert_eq!(page.status, 200);
    let asked = lines(peer.asked());
    assert_eq!(asked.iter().filter(|line| line.contains("/10.7777/x")).count(), 1, "{asked:?}");
}

#[test]
fn told_step_by_step() {
    let there = keeping(socket());
    let here = asking(there.address);
    let explain = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&here.get(&format!("/{name}?explain=json")).body).unwrap()
    };
    let says = |explained: &serde_json::Value| -> Vec<String> {
        let steps = explained["steps"].as_array().unwrap();
        let upstream = steps.iter().filter(|step| step["step"] == "upstream");
        upstream.map(|step| format!("{} {}", step["ok"], step["says"].as_str().unwrap())).collect()
    };
    let base = format!("http://{}", there.address);
    let explained = explain("10.7777/SEVERAL");
    assert_eq!(says(&explained), [format!("true {base} was asked just now")]);
    assert_eq!(explained["upstream"]["source"], "asked");
    let explained = explain("10.7777/SEVERAL");
    assert_eq!(explained["upstream"]["source"], "kept");
    assert!(says(&explained)[0].contains("it may be kept for"), "{explained}");
    let explained = explain("10.7777/NONE");
    assert_eq!((explained["outcome"].as_str(), says(&explained).len()), (Some("does-not-resolve"), 1));
    assert_eq!(says(&explain("10.5555/ONE")).len(), 0);
    assert!(explain("10.5555/ONE").get("upstream").is_none());
    drop(there);
    let explained = explain("10.7777/OTHER");
    assert_eq!(explained["outcome"], "failed");
    assert_eq!(says(&explained), [format!("false {base} can't be reached")]);
}

#[test]
fn one_question_for_many_who_wait() {
    let peer = Peer::start(|_, stream| {
        thread::sleep(SECOND / 2);
        let _ = stream.write_all(record(ONE).as_bytes());
    });
    let here = asking(peer.address);
    thread::scope(|scope| {
        for number in 0..100 {
            let here = &here;
            scope.spawn(move || {
                let name = if number % 2 == 0 { "10.7777/x" } else { "10.7777/X" };
                assert_eq!(here.get(&format!("/api/handles/{name}")).status, 200);
            });
        }
    });
    assert_eq!(peer.asked().len(), 1);
    assert_eq!(here.figure("tendot_upstream_requests_total{outcome=\"found\"}"), 1.0);
    assert_eq!(here.figure("tendot_upstream_cache_misses_total"), 1.0);
    let others =
        here.figure("tendot_upstream_cache_shared_total") + here.figure("tendot_upstream_cache_hits_total");
    assert_eq!(others, 99.0);
    assert_eq!(here.figure("tendot_upstream_cache_entries"), 1.0);
    assert_eq!(here.figure("tendot_upstream_request_duration_seconds_count"), 1.0);
}

#[test]
fn nothing_is_kept_too() {
    let peer = Peer::saying(json(404, r#"{"responseCode":100,"handle":"10.7777/none"}"#));
    let here = asking(peer.address);
    for _ in 0..5 {
        assert_eq!(here.get("/api/handles/10.7777/none").status, 404);
    }
    assert_eq!(peer.asked().len(), 1);
    assert_eq!(here.figure("tendot_upstream_requests_total{outcome=\"nothing\"}"), 1.0);
}

#[test]
fn old_answers_when_the_upstream_is_away() {
    let place = socket();
    let address = place.local_addr().unwrap();
    let there = keeping(place);
    let here = asking(address);
    assert_eq!(here.get("/10.7777/SHORT").status, 302);
    drop(there);
    thread::sleep(SECOND * 3 / 2);
    let found = here.get("/10.7777/SHORT");
    assert_eq!((found.status, found.header("location")), (302, Some("https://example.org/short")));
    assert_eq!(found.header("cache-control"), Some("no-cache"));
    assert!(found.header("cache-status").unwrap().starts_with("tendot; hit; ttl=-"), "{}", found.head);
    assert!(found.header("age").is_some());
    let found = here.get("/api/handles/10.7777/SHORT");
    assert!(found.status == 200 && found.header("cache-status").unwrap().contains("ttl=-"), "{}", found.head);
    let page = text(&here.get("/10.7777/SHORT?noredirect"));
    assert!(page.contains("does not answer; this is what it said"), "{page}");
    assert!(here.figure("tendot_upstream_cache_stale_total") >= 3.0);
    // Who asks for the source is told that it is away, and others are not known.
    assert_eq!(here.get("/api/handles/10.7777/SHORT?auth").status, 502);
    assert_eq!(here.get("/10.7777/OTHER").status, 502);
    // It comes back.
    let there = keeping(TcpListener::bind(address).unwrap());
    thread::sleep(6 * SECOND);
    let found = here.get("/10.7777/SHORT");
    assert_eq!((found.status, found.header("cache-status")), (302, Some("tendot; fwd=miss")));
    drop(there);
}

#[test]
fn attack_c6_answers_that_are_none() {
    let values = |count: usize| vec![ONE; count].join(",");
    let cases: Vec<Vec<u8>> = vec![
        b"rubbish".to_vec(),
        Vec::new(),
        b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n{".to_vec(),
        json(200, "<html>").into(),
        json(200, r#"{"responseCode":1,"handle":"10.7777/other","values":[]}"#).into(),
        json(200, r#"{"responseCode":302}"#).into(),
        json(400, "what?").into(),
        json(200, &"[".repeat(100_000)).into(),
        json(200, &format!(r#"{{"x":"{}"}}"#, "y".repeat(4 << 20))).into(),
        json(500, "{}").into(),
        record(&values(3_000)).into(),
        record(&format!(r#"{{"index":1,"type":"DESC","data":"{}"}}"#, "x".repeat(300_000))).into(),
    ];
    for case in cases {
        let shown = String::from_utf8_lossy(&case[..case.len().min(80)]).into_owned();
        let here = asking(Peer::saying(case).address);
        let found = here.get("/api/handles/10.7777/x");
        assert_eq!(found.status, 502, "{shown}: {}", text(&found));
        assert!(
            text(&found)
                .starts_with(r#"{"responseCode":2,"message":"this handle is not kept here, and could"#)
        );
        let page = here.ask("GET", "/10.7777/x", "Accept: text/html");
        assert_eq!((page.status, page.header("cache-control")), (502, Some("no-cache")));
        assert!(text(&page).contains("It is not your fault"), "{shown}");
        let problem = here.ask("GET", "/10.7777/x", "Accept: application/json");
        assert!(text(&problem).contains(r#""code":"upstream-failed""#), "{}", text(&problem));
        assert_eq!(here.get("/10.5555/ONE").status, 302);
    }
}

/// Whoever an upstream sends us to is not asked.
#[test]
fn attack_h16_redirects_of_the_upstream_are_not_followed() {
    let inside = Peer::saying(record(ONE));
    let location =
        format!("HTTP/1.1 302 X\r\nLocation: http://{}/\r\nContent-Length: 0\r\n\r\n", inside.address);
    let here = asking(Peer::saying(location).address);
    assert_eq!(here.get("/10.7777/x").status, 502);
    assert!(inside.asked().is_empty());
}

#[test]
fn attack_c6_who_never_answers() {
    let peer = Peer::start(|_, stream| {
        // A byte now and then gains no time.
        while stream.write_all(b"H").is_ok() {
            thread::sleep(SECOND);
        }
    });
    let here = asking(peer.address);
    let begun = Instant::now();
    // All who wait are told at the same time; names that are kept here wait for nobody.
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let found = here.get("/10.7777/x");
                assert_eq!(found.status, 504, "{}", text(&found));
            });
        }
        scope.spawn(|| {
            let begun = Instant::now();
            assert_eq!(here.get("/10.5555/ONE").status, 302);
            assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
        });
    });
    assert!(begun.elapsed() > 4 * SECOND && begun.elapsed() < 8 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(peer.asked().len(), 1);
    assert_eq!(here.figure("tendot_upstream_requests_total{outcome=\"silence\"}"), 1.0);
    let found = here.get("/api/handles/10.7777/x");
    assert_eq!(found.status, 504);
    assert!(text(&found).contains("did not answer within 5 s"), "{}", text(&found));
}

/// Somebody who asks for many names at once of who never answers takes no more than their share.
#[test]
fn attack_c6_many_questions_to_who_never_answers() {
    let peer = Peer::start(|_, _| thread::sleep(20 * SECOND));
    let here = asking(peer.address);
    let refused = AtomicU32::new(0);
    thread::scope(|scope| {
        for number in 0..200 {
            let (here, refused) = (&here, &refused);
            scope.spawn(move || {
                if here.get(&format!("/api/handles/10.7777/{number}")).status == 503 {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    // On a slow machine the first ones have given up before the last ones come.
    let (asked, refused) = (peer.asked().len(), refused.into_inner() as usize);
    assert!(asked + refused == 200 && (1..=72).contains(&refused), "{asked} {refused}");
    assert_eq!(here.figure("tendot_upstream_requests_total{outcome=\"no-room\"}"), refused as f64);
}

#[test]
fn attack_h4_services_that_ask_each_other() {
    let (one, two) = (socket(), socket());
    let (first, second) = (one.local_addr().unwrap(), two.local_addr().unwrap());
    let one = asking_at(one, second, CacheSettings::default());
    let two = asking_at(two, first, CacheSettings::default());
    let begun = Instant::now();
    for service in [&one, &two] {
        let found = service.get("/api/handles/10.7777/x");
        assert_eq!(found.status, 508, "{}", text(&found));
        assert!(text(&found).starts_with(r#"{"responseCode":2,"#), "{}", text(&found));
    }
    // At the same time, too, they do not wait for each other.
    thread::scope(|scope| {
        for number in 0..20 {
            for service in [&one, &two] {
                scope.spawn(move || assert_eq!(service.get(&format!("/10.7777/{number}")).status, 508));
            }
        }
    });
    assert!(begun.elapsed() < 4 * SECOND, "{:?}", begun.elapsed());
    // One that asks itself.
    let own = socket();
    let address = own.local_addr().unwrap();
    let own = asking_at(own, address, CacheSettings::default());
    assert_eq!(own.get("/10.7777/x").status, 508);
    assert!(begun.elapsed() < 5 * SECOND, "{:?}", begun.elapsed());
    // A way that is too long is one, too.
    let there = keeping(socket());
    let here = asking(there.address);
    let way = |count: usize| format!("Tendot-Way: {}", vec!["x"; count].join(", "));
    assert_eq!(here.ask("GET", "/api/handles/10.7777/several", &way(9)).status, 200);
    assert_eq!(here.ask("GET", "/api/handles/10.7777/several", &way(10)).status, 508);
    assert_eq!(here.ask("GET", "/api/handles/10.7777/several", &way(2_000)).status, 508);
    assert_eq!(here.ask("GET", "/api/handles/10.5555/ONE", &way(2_000)).status, 200);
}

#[test]
fn attack_c6_memory_is_bounded() {
    let value = format!(r#"{{"index":1,"type":"DESC","data":"{}","ttl":600}}"#, "x".repeat(100_000));
    let peer = Peer::saying(record(&value));
    let settings = CacheSettings { bytes: 1 << 20, ..CacheSettings::default() };
    let here = asking_at(socket(), peer.address, settings);
    for number in 0..40 {
        assert_eq!(here.get(&format!("/api/handles/10.7777/{number}")).status, 200);
    }
    let (bytes, entries) =
        (here.figure("tendot_upstream_cache_bytes"), here.figure("tendot_upstream_cache_entries"));
    assert!(bytes > 100_000.0 && bytes <= 1_048_576.0 && entries <= 10.0, "{bytes} {entries}");
}

/// What comes from elsewhere is as much a stranger's as any record.
#[test]
fn attack_h1_values_of_others() {
    let there = keeping(socket());
    let here = asking(there.address);
    let found = here.get("/10.7777/SCRIPT");
    assert_eq!((found.status, found.header("location")), (200, None));
    assert!(!text(&found).contains("href=\"javascript:"));
    let page = text(&here.get("/10.7777/HTML"));
    assert!(!page.contains("<script>alert"), "{page}");
    let found = here.get("/10.7777/HEADERS");
    assert_eq!((found.header("set-cookie"), found.header("x-shelf")), (None, Some("7")));
    let peer = Peer::saying(record(
        r#"{"index":1,"type":"URL","data":"https://e.org/\r\nSet-Cookie: a=b","ttl":9}"#,
    ));
    let found = asking(peer.address).get("/10.7777/x");
    assert!(!found.head.contains("Set-Cookie") && found.header("location").is_none(), "{}", found.head);
    // A key that is kept elsewhere opens nothing here.
    let identity = "Authorization: Basic MzAwJTNBMTAuNzc3NyUyRktFWTpzZWNyZXQ=";
    assert_eq!(here.ask("DELETE", "/api/handles/10.5555/ONE", identity).status, 401);
    assert_eq!(here.get("/10.5555/ONE").status, 302);
}

/// Records that include others, and many names in a path, make one request ask for many: not for as many as it likes.
#[test]
fn attack_c6_a_record_that_asks_for_many() {
    let peer = Peer::start(|head, stream| {
        let names: Vec<String> = (0..50).map(|number| format!("10.7777/{}{number}", head.len())).collect();
        let locations = format!("<locations include='{}'/>", names.join(","));
        let value = format!(r#"{{"index":1,"type":"10320/loc","data":"{locations}"}}"#);
        let _ = stream.write_all(record(&value).as_bytes());
    });
    let here = asking(peer.address);
    here.get("/10.7777/x");
    let asked = peer.asked().len();
    assert!((3..=32).contains(&asked), "{asked}");
    let names: Vec<String> = (0..100).map(|number| format!("10.{number}/x")).collect();
    here.get(&format!("/doiRA/{}", names.join(",")));
    assert_eq!(peer.asked().len(), 32);
}

#[test]
fn names_that_are_kept_here_ask_nobody() {
    let peer = Peer::saying(record(ONE));
    let here = asking(peer.address);
    for target in
        ["/10.5555/ONE", "/10.5555/ONE?noredirect", "/10.5555/ONE?explain", "/api/handles/10.5555/ONE"]
    {
        assert!(matches!(here.get(target).status, 200 | 302), "{target}");
    }
    for target in ["/10.5555/NONE", "/api/handles/10.5555/NONE", "/api/handles/10.5555/one?auth"] {
        here.get(target);
    }
    let put = r#"[{"index":1,"type":"URL","data":"https://example.org/"}]"#;
    let answer = here.say(format!(
        "PUT /api/handles/10.7777/NEW HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{put}",
        put.len()
    ));
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains(r#"{"responseCode":301,"#), "{answer}");
    assert!(peer.asked().is_empty());
}
