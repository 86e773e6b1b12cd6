//! Reports of a prefix: what is counted, who sees it, and what they say of a store whose content is known.

mod native;

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;

use native::{Service, Setting, TOKEN, resolution, rest, url};
use serde_json::{Value as Json, json};
use tendot_proto::Value;
use tendot_proto::endpoint::Transport;
use tendot_server::http::sweep_receipts;
use tendot_server::{Tally, Upkeep};
use tendot_store::{Edit, Expect, Store as _};

const DAY: u64 = 86_400_000;

/// A registrant with a prefix, and those who may or may not see its reports.
struct Scene {
    service: Service,
    tally: Arc<Tally>,
    upkeep: Upkeep,
    registrant: String,
    /// Of the registrant, its agency, another registrant of that, and another agency.
    tokens: [String; 4],
}

const PREFIX: &str = "10.70000";

impl Scene {
    fn new() -> Self {
        let tally = Arc::new(Tally::new(true));
        let service = native::start(Setting { tally: Some(Arc::clone(&tally)), ..Setting::default() });
        let mut scene = Self {
            service,
            tally,
            upkeep: Upkeep::default(),
            registrant: String::new(),
            tokens: Default::default(),
        };
        let id = |made: Json| made["id"].as_str().unwrap().to_owned();
        for code in ["ONE", "TWO"] {
            scene.make("agencies", json!({"code": code, "name": code}));
        }
        scene.registrant = id(scene.make("registrants", json!({"agency": "ONE", "name": "A press"})));
        let other = id(scene.make("registrants", json!({"agency": "ONE", "name": "Another"})));
        scene.make("prefixes", json!({"registrant": scene.registrant, "prefix": PREFIX}));
        let tokens = [
            ("registrant", scene.registrant.clone()),
            ("agency", "ONE".to_owned()),
            ("registrant", other),
            ("agency", "TWO".to_owned()),
        ];
        scene.tokens = tokens.map(|(role, subject)| {
            let made = scene.make("tokens", json!({"role": role, "subject": subject}));
            made["token"].as_str().unwrap().to_owned()
        });
        scene
    }

    fn ask(&self, method: &str, path: &str, token: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.service.http).unwrap();
        let known =
            if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        let length = body.len();
        let said = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n{known}{headers}Content-Type: \
             application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(said.as_bytes()).unwrap();
        let answer = String::from_utf8(rest(&mut stream)).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn make(&self, noun: &str, form: Json) -> Json {
        let (status, body) = self.ask("POST", &format!("/api/v1/{noun}"), TOKEN, "", &form.to_string());
        assert_eq!(status, 201, "{noun} {form}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    fn register(&self, suffix: &str) {
        let name = format!("{PREFIX}/{suffix}");
        self.make("dois", json!({"name": name, "url": "https://example.org/"}));
    }

    fn get(&self, target: &str) -> u16 {
        self.ask("GET", target, "", "", "").0
    }

    fn write(&self) {
        self.service.runtime.block_on(self.upkeep.write(&self.service.registry, &self.tally));
    }

    fn summary(&self) -> Json {
        self.write();
        let (status, body) = self.ask("GET", &format!("/api/v1/reports/{PREFIX}"), &self.tokens[0], "", "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The lines of a report.
    fn report(&self, report: &str) -> Vec<Json> {
        self.write();
        let path = format!("/api/v1/reports/{PREFIX}/{report}");
        let (status, body) = self.ask("GET", &path, &self.tokens[0], "", "");
        assert_eq!(status, 200, "{body}");
        body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The same, with the parts of each line that are named.
    fn told(&self, report: &str, parts: &[&str]) -> Vec<String> {
        let told = |line: &Json| parts.iter().map(|part| text(&line[*part])).collect::<Vec<_>>().join(" ");
        let mut told: Vec<_> = self.report(report).iter().map(told).collect();
        told.sort();
        told
    }
}

fn text(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), |text| text.trim_start_matches("10.70000/").to_owned())
}

#[test]
fn resolutions_are_counted_by_every_door() {
    let scene = Scene::new();
    for suffix in ["http", "json", "page", "native", "nobody"] {
        scene.register(suffix);
    }
    scene.make(
        "dois",
        json!({"name": "10.70000/reserved", "url": "https://example.org/", "state": "reserved"}),
    );
    scene.register("ended");
    assert_eq!(scene.ask("DELETE", "/api/v1/dois/10.70000/ended", TOKEN, "", "").0, 200);
    // The first is made, and those after it are kept.
    for _ in 0..5 {
        assert_eq!(scene.get("/10.70000/http"), 302);
        assert_eq!(scene.get("/10.70000/HTTP"), 302);
        assert_eq!(scene.get("/api/handles/10.70000/json"), 200);
        for transport in [Transport::Udp, Transport::Tcp, Transport::Http] {
            assert_eq!(scene.service.code(transport, &resolution("10.70000/Native")), 1);
            assert_eq!(scene.service.code(transport, &resolution("10.70000/none")), 100);
        }
        assert_eq!(scene.get("/10.70000/none"), 404);
        assert_eq!(scene.get("/api/handles/10.70000/NONE"), 404);
        assert_eq!(scene.get("/10.70000/ended"), 410);
        assert_eq!(scene.get("/10.70000/reserved"), 404);
    }
    assert_eq!(scene.get("/doi:10.70000/page?noredirect"), 200);
    // Of these nothing is counted: who is known, who looks why, other prefixes, what is no name.
    assert_eq!(scene.ask("GET", "/api/handles/10.70000/nobody", TOKEN, "", "").0, 200);
    assert_eq!(scene.get("/10.70000/nobody?explain"), 200);
    assert_eq!(scene.get("/api/handles/10.5555/MULTI"), 200);
    assert_eq!(scene.get("/10.5555/none"), 404);
    scene.get("/10.70000");
    scene.get("/10.70000/");

    let first = ["http 10", "json 5", "native 15", "page 1"];
    assert_eq!(scene.told("resolved", &["name", "count"]), first);
    assert_eq!(scene.told("never-resolved", &["name"]), ["nobody"]);
    let failed = [" 1 null", "ended 5 tombstone", "none 25 null", "reserved 5 reserved"];
    assert_eq!(scene.told("failed", &["name", "count", "state"]), failed);
    // What comes later is added.
    assert_eq!(scene.get("/10.70000/http"), 302);
    assert_eq!(scene.get("/10.70000/none"), 404);
    assert_eq!(
        scene.summary(),
        json!({"prefix": PREFIX, "names": 7, "registered": 5, "reserved": 1, "ended": 1, "resolved": 4,
            "resolutions": 32, "never-resolved": 1, "failed": 4, "failures": 37, "links": 0, "confusable": 0,
            "complete": true})
    );
    assert_eq!(scene.tally.dropped_resolutions() + scene.tally.dropped_failures(), 0);
}

/// Who asks at the same time, for names that are kept and names that are not, while it is written down all the time.
#[test]
fn counts_are_exact_under_load() {
    const THREADS: usize = 8;
    const EACH: usize = 300;
    let scene = Scene::new();
    for number in 0..10 {
        scene.register(&format!("n{number}"));
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let scene = &scene;
            scope.spawn(move || {
                let mut stream = TcpStream::connect(scene.service.http).unwrap();
                let mut said = String::new();
                for number in 0..EACH {
                    let name = match (number + thread) % 3 {
                        0 => format!("n{}", number % 10),
                        1 => "n0".to_owned(),
                        _ => format!("none{}", number % 20),
                    };
                    let end = if number + 1 == EACH { "Connection: close\r\n" } else { "" };
                    said += &format!("GET /10.70000/{name} HTTP/1.1\r\nHost: localhost\r\n{end}\r\n");
                }
                stream.write_all(said.as_bytes()).unwrap();
                rest(&mut stream);
            });
        }
        for _ in 0..50 {
            scene.write();
        }
    });
    let sum = |report: &str| -> u64 {
        scene.report(report).iter().map(|line| line["count"].as_u64().unwrap()).sum()
    };
    let all = (0..THREADS).flat_map(|thread| (0..EACH).map(move |number| (number + thread) % 3));
    let failed = all.filter(|kind| *kind == 2).count();
    assert_eq!((sum("failed"), sum("resolved")), (failed as u64, (THREADS * EACH - failed) as u64));
}

/// What is made of one prefix's answers is made anew when the prefix is given to somebody, and counted from then on.
#[test]
fn a_prefix_that_is_given_later() {
    let scene = Scene::new();
    scene.service.commit(Edit::Home { prefix: "10.70001".into() });
    scene.service.put("10.70001/x", vec![url(1, "https://example.org/x")]);
    for _ in 0..3 {
        assert_eq!(scene.get("/10.70001/x"), 302);
        assert_eq!(scene.get("/10.70001/none"), 404);
    }
    scene.make("prefixes", json!({"registrant": scene.registrant, "prefix": "10.70001"}));
    for _ in 0..2 {
        assert_eq!(scene.get("/10.70001/x"), 302);
        assert_eq!(scene.get("/10.70001/none"), 404);
    }
    scene.write();
    let (_, body) = scene.ask("GET", "/api/v1/reports/10.70001", TOKEN, "", "");
    let summary: Json = serde_json::from_str(&body).unwrap();
    assert_eq!((&summary["resolutions"], &summary["failures"]), (&json!(2), &json!(2)), "{body}");
}

/// A redirect under a prefix that was given to somebody is kept, and follows what its agency says of locations.
#[test]
fn locations_of_an_agency_hold_at_once() {
    let scene = Scene::new();
    scene.register("x");
    let lead = || {
        let answer = scene.service.get("/10.70000/x");
        let location = answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap_or_default();
        location.trim().to_owned()
    };
    assert_eq!([lead(), lead()], ["https://example.org/", "https://example.org/"]);
    let places =
        r#"<locations><location id="0" href="https://example.net/all" weight="1000000000"/></locations>"#;
    let value = Value::new(1, "10320/loc", places);
    scene.service.commit(Edit::Home { prefix: "10.SERV".into() });
    scene.service.put("10.SERV/PLACES", vec![value]);
    let (status, body) =
        scene.ask("PUT", "/api/v1/agencies/ONE", TOKEN, "", r#"{"locations":"10.SERV/PLACES"}"#);
    assert_eq!(status, 200, "{body}");
    assert_eq!(lead(), "https://example.net/all");
}

/// Security, row P11: a report is not there for those whom it does not concern.
#[test]
fn who_may_see_reports() {
    let scene = Scene::new();
    scene.register("x");
    let [own, agency, other, other_agency] = &scene.tokens;
    let narrow = |form: Json| scene.make("tokens", form)["token"].as_str().unwrap().to_owned();
    let elsewhere =
        narrow(json!({"role": "registrant", "subject": scene.registrant, "prefixes": ["10.70009"]}));
    let reads = narrow(json!({"role": "registrant", "subject": scene.registrant, "scopes": ["read"]}));
    for report in ["", "/resolved", "/never-resolved", "/failed", "/links", "/confusable"] {
        let path = format!("/api/v1/reports/{PREFIX}{report}");
        for (token, expected) in [
            (own, 200),
            (agency, 200),
            (&TOKEN.to_owned(), 200),
            (&reads, 200),
            (other, 404),
            (other_agency, 404),
            (&elsewhere, 404),
            (&String::new(), 404),
            (&"wrong".to_owned(), 401),
        ] {
            let (status, body) = scene.ask("GET", &path, token, "", "");
            assert_eq!(status, expected, "{path} {token}: {body}");
        }
        assert_eq!(scene.ask("POST", &path, own, "", "").0, 405, "{path}");
        for nothing in ["10.70001", "10.5555", "0.NA", "10.70000%2Fx", "%00"] {
            let path = format!("/api/v1/reports/{nothing}{report}");
            let (status, body) = scene.ask("GET", &path, TOKEN, "", "");
            assert!(matches!(status, 400 | 404), "{path}: {body}");
        }
    }
}

/// Names that were given to another registrant: what these only reserve, and what only they may read, is not told.
#[test]
fn names_of_others() {
    let scene = Scene::new();
    for (name, state) in [("10.70000/theirs", "registered"), ("10.70000/secret", "reserved")] {
        scene.make("dois", json!({"name": name, "url": "https://example.org/", "state": state}));
        let mut values = scene.service.values(name).unwrap();
        values.push(Value {
            permissions: tendot_proto::Permissions(0x0c),
            ..Value::new(2, "URL", "ftp:hidden")
        });
        scene.service.put(name, values);
        assert_eq!(scene.get(&format!("/{name}")), if state == "reserved" { 404 } else { 302 });
    }
    assert_eq!(scene.told("links", &["name", "index"]), ["secret 2", "theirs 2"]);
    let others = scene.ask("GET", "/api/v1/registrants?agency=ONE", TOKEN, "", "").1;
    let others: Json = serde_json::from_str(&others).unwrap();
    let other = others["items"].as_array().unwrap().iter().find(|one| one["name"] == "Another").unwrap();
    let names = ["10.70000/theirs", "10.70000/secret"];
    scene.make("transfers", json!({"names": names, "to": other["id"], "force": true}));
    assert_eq!(scene.told("links", &["name"]), Vec::<String>::new());
    assert_eq!(scene.told("failed", &["name", "state"]), ["secret null"]);
    let summary = scene.summary();
    assert_eq!((&summary["reserved"], &summary["registered"]), (&json!(0), &json!(1)));
}

#[test]
fn links_and_names_that_are_odd() {
    let scene = Scene::new();
    scene.register("good");
    scene.register("caf\u{e9}");
    scene.make("dois", json!({"name": "10.70000/cafe\u{301}", "url": "https://example.org/"}));
    scene.register("\u{440}aypal");
    scene.register("дом");
    let put = |suffix: &str, values: Vec<Value<'static>>| {
        let name = format!("{PREFIX}/{suffix}").into();
        scene.service.commit(Edit::Put { name, values, expect: Expect::Any });
    };
    put("odd", vec![url(1, "javascript:alert(1)"), url(2, "https://example.org/"), url(3, "/relative")]);
    put("old", vec![url(1, "https://user:word@example.org/")]);
    put("gone", vec![url(1, "nothing")]);
    scene.service.commit(Edit::Tombstone { name: "10.70000/gone".into(), expect: Expect::Any });
    let parts = ["name", "index", "code", "data"];
    let links = [
        "odd 1 scheme javascript:alert(1)",
        "odd 3 relative /relative",
        "old 1 credentials https://user:word@example.org/",
    ];
    assert_eq!(scene.told("links", &parts), links);
    let confusable = [
        "cafe\u{301} same-text caf\u{e9}",
        "caf\u{e9} same-text cafe\u{301}",
        "\u{440}aypal mixed-scripts null",
    ];
    let mut expected = confusable.map(str::to_owned);
    expected.sort();
    assert_eq!(scene.told("confusable", &["name", "code", "with"]), expected);
    let summary = scene.summary();
    assert_eq!((&summary["links"], &summary["confusable"]), (&json!(3), &json!(3)));
    // A policy that comes later makes links odd that were not.
    let policy = r#"{"policy":{"hosts":["example.net"]}}"#;
    assert_eq!(scene.ask("PUT", "/api/v1/prefixes/10.70000", TOKEN, "", policy).0, 200);
    let told = scene.told("links", &["name", "index", "code"]);
    assert!(told.contains(&"good 1 host".to_owned()) && told.contains(&"odd 2 host".to_owned()), "{told:?}");
}

#[test]
fn a_report_in_pieces() {
    let scene = Scene::new();
    let names: Vec<String> = (0..1_234).map(|number| format!("10.70000/{number:05}")).collect();
    let put = |name: &String| Edit::Put {
        name: name.as_str().into(),
        values: vec![url(1, "nowhere"), url(2, "nowhere else")],
        expect: Expect::Any,
    };
    let change = tendot_store::Change { by: "test".into(), at: 0, edits: names.iter().map(put).collect() };
    scene.service.runtime.block_on(scene.service.registry.store().commit(change)).unwrap();
    assert_eq!(scene.report("links").len(), 2 * names.len());
    assert_eq!(scene.told("never-resolved", &["name"]).len(), names.len());
    for (report, limit, lines) in
        [("never-resolved", 100, 1), ("links", 7, 2), ("links", 500, 2), ("failed", 3, 1)]
    {
        if report == "failed" {
            for number in 0..50 {
                assert_eq!(scene.get(&format!("/10.70000/none{number}")), 404);
            }
        }
        let all: Vec<Json> = scene.report(report);
        let (mut after, mut found) = (String::new(), Vec::new());
        loop {
            let path = format!("/api/v1/reports/{PREFIX}/{report}?limit={limit}&after={after}");
            let (status, body) = scene.ask("GET", &path, &scene.tokens[0], "", "");
            assert_eq!(status, 200, "{body}");
            let piece: Vec<Json> = body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert!(piece.len() < limit + lines, "{} lines of {report}", piece.len());
            let Some(last) = piece.last() else { break };
            after = last["name"].as_str().unwrap().to_owned();
            found.extend(piece);
        }
        assert_eq!(found, all, "{report}");
    }
    for query in ["limit=0", "limit=x"] {
        let path = format!("/api/v1/reports/{PREFIX}/links?{query}");
        assert_eq!(scene.ask("GET", &path, &scene.tokens[0], "", "").0, 400, "{query}");
    }
}

/// Security, row D6: nothing in a table is a formula.
#[test]
fn tables() {
    let scene = Scene::new();
    scene.register("x");
    scene.service.put("10.70000/x", vec![url(1, "=cmd|'/C calc'!A0"), url(2, "@SUM(1,\"2\")")]);
    for suffix in ["=1+1", "a,b", "%22q%22"] {
        assert_eq!(scene.get(&format!("/10.70000/{suffix}")), 404);
    }
    scene.write();
    let table = |report: &str| {
        let path = format!("/api/v1/reports/{PREFIX}/{report}");
        let (status, body) = scene.ask("GET", &path, &scene.tokens[0], "Accept: text/csv\r\n", "");
        assert_eq!(status, 200, "{body}");
        body
    };
    let why = "the address is relative: it needs a scheme such as `https:`";
    assert_eq!(
        table("links"),
        format!(
            "name,index,data,code,detail\r\n10.70000/x,1,\"'=cmd|'/C calc'!A0\",relative,{why}\r\n\
             10.70000/x,2,\"'@SUM(1,\"\"2\"\")\",relative,{why}\r\n"
        )
    );
    let failed = table("failed");
    assert!(failed.starts_with("name,count,first,last,state\r\n"), "{failed}");
    for name in ["10.70000/=1+1,1,", "\"10.70000/a,b\",1,", "\"10.70000/\"\"q\"\"\",1,"] {
        assert!(failed.contains(&format!("\n{name}")), "{failed}");
    }
    for report in ["resolved", "never-resolved", "confusable"] {
        assert!(table(report).starts_with("name,"), "{report}");
    }
}

/// Names that somebody makes up take bounded room in memory and in the store, and the rarest go first.
#[test]
fn a_flood_of_made_up_names() {
    let mut scene = Scene::new();
    scene.upkeep.failed = 100;
    let flood = |from: usize, to: usize| {
        let mut stream = TcpStream::connect(scene.service.http).unwrap();
        for number in from..to {
            let end = if number + 1 == to { "Connection: close\r\n" } else { "" };
            // Those whose number is divided by 50 are asked for more often.
            for _ in 0..if number % 50 == 0 { 3 } else { 1 } {
                let said =
                    format!("GET /api/handles/10.70000/{number} HTTP/1.1\r\nHost: localhost\r\n{end}\r\n");
                stream.write_all(said.as_bytes()).unwrap();
            }
        }
        rest(&mut stream);
    };
    flood(0, 500);
    let names = scene.told("failed", &["name", "count"]);
    assert_eq!(names.len(), 100);
    for number in (0..500).step_by(50) {
        assert!(names.contains(&format!("{number} 3")), "{number}: {names:?}");
    }
    flood(501, 1_000);
    let names = scene.told("failed", &["name", "count"]);
    assert_eq!(names.len(), 100);
    for number in (0..1_000).step_by(50).filter(|number| *number != 500) {
        assert!(names.contains(&format!("{number} 3")), "{number}: {names:?}");
    }
    assert_eq!(scene.service.metric("tendot_failures_not_counted_total"), 0);
}

#[test]
fn failures_are_forgotten() {
    let scene = Scene::new();
    assert_eq!(scene.get("/10.70000/none"), 404);
    scene.write();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let sweep = |retention: u32, at: u64| {
        let upkeep = Upkeep { retention, ..scene.upkeep };
        scene.service.runtime.block_on(upkeep.sweep_failures(&scene.service.registry, at)).unwrap();
        scene.report("failed").len()
    };
    assert_eq!(sweep(1, now), 1);
    assert_eq!(sweep(90, now + 89 * DAY), 1);
    assert_eq!(sweep(90, now + 90 * DAY), 0);

    let silent = Tally::new(false);
    let service = native::start(Setting { tally: Some(Arc::new(silent)), ..Setting::default() });
    assert!(service.get("/10.5555/none").starts_with("HTTP/1.1 404"));
}

/// Receipts go after a day, with all that belongs to them; nothing else goes.
#[test]
fn receipts_are_swept() {
    let scene = Scene::new();
    let deposit = |key: &str, path: &str, body: &str| {
        let headers = format!("Idempotency-Key: {key}\r\n");
        let (status, body) = scene.ask("POST", path, TOKEN, &headers, body);
        assert!(matches!(status, 200 | 201), "{body}");
    };
    let line = |number: usize| format!("{{\"name\":\"10.70000/b{number}\",\"url\":\"https://e.org/\"}}\n");
    let many: String = (0..20_000).map(line).collect();
    deposit("one", "/api/v1/dois", &line(100_000));
    deposit("many", "/api/v1/dois/batch", &many);
    let store = scene.service.registry.store();
    let notes = |beginning: &str| {
        scene.service.runtime.block_on(store.notes(beginning.as_bytes(), None, 10_000)).unwrap().len()
    };
    let (receipts, all) = (notes("receipt/"), notes(""));
    assert!(receipts > 20, "{receipts}");
    // A part whose head is gone, which a crash of an older version could leave.
    scene.service.commit(Edit::PutNote { key: b"receipt/ff/0000".as_slice().into(), body: [1].into() });
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let sweep = |at| scene.service.runtime.block_on(sweep_receipts(&scene.service.registry, at)).unwrap();
    sweep(now);
    assert_eq!((notes("receipt/"), notes("")), (receipts, all));
    deposit("one", "/api/v1/dois", &line(100_000));
    deposit("many", "/api/v1/dois/batch", &many);
    sweep(now + DAY - 60_000);
    assert_eq!(notes("receipt/"), receipts);
    sweep(now + DAY + 60_000);
    assert_eq!((notes("receipt/"), notes("")), (0, all - receipts));
}
