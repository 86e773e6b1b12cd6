//! Reports of a prefix: exact counts over every protocol, authorization, paging, CSV and retention.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tendot_proto::HandleValue;
use tendot_proto::endpoint::Transport;
use tendot_server::http::HttpLimits;
use tendot_server::{Maintenance, ResolutionCounter};
use tendot_store::{Edit, Precondition, Store as _};
use tendot_testing::http::{HttpRequest, send_raw};
use tendot_testing::{WAIT_TIMEOUT, block_on, wait_until};

use crate::support::api_client::ApiClient;
use crate::support::edits::{home_edit, put_edit};
use crate::support::http_server::{TOKEN, bind, read_text, start_over};
use crate::support::native_server::{
    NativeServerOptions, NativeTestServer, OPERATOR_TOKEN, resolution, url_value,
};
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    resolutions_are_counted_over_every_protocol,
    counts_are_exact_under_load,
    prefix_allocated_later,
    agency_locations_apply_at_once,
    report_authorization,
    names_of_other_registrants,
    invalid_links_and_confusable_names,
    report_paging,
    csv_has_no_formulas,
    failed_names_are_bounded,
    failures_expire,
    idempotency_records_expire,
    audit_f7_reports_end_with_their_credentials,
);

const DAY: u64 = 86_400_000;

/// A registrant with a prefix, and tokens with and without access to its reports.
struct ReportFixtures {
    server: NativeTestServer,
    counter: Arc<ResolutionCounter>,
    maintenance: Maintenance,
    registrant: String,
    /// Tokens of the registrant, its agency, another registrant of that agency, and another agency.
    tokens: [String; 4],
}

const PREFIX: &str = "10.70000";

impl ReportFixtures {
    fn new(store: StoreKind) -> Self {
        let counter = Arc::new(ResolutionCounter::new(true));
        let server = NativeTestServer::start_over(
            store.open(),
            NativeServerOptions {
                resolution_counter: Some(Arc::clone(&counter)),
                ..NativeServerOptions::default()
            },
        );
        let mut fixtures = Self {
            server,
            counter,
            maintenance: Maintenance::default(),
            registrant: String::new(),
            tokens: Default::default(),
        };
        let id = |created: Json| created["id"].as_str().unwrap().to_owned();
        for code in ["ONE", "TWO"] {
            fixtures.create("agencies", json!({"code": code, "name": code, "metadata": "optional"}));
        }
        fixtures.registrant = id(fixtures.create("registrants", json!({"agency": "ONE", "name": "A press"})));
        let other = id(fixtures.create("registrants", json!({"agency": "ONE", "name": "Another"})));
        fixtures.create("prefixes", json!({"registrant": fixtures.registrant, "prefix": PREFIX}));
        let tokens = [
            ("registrant", fixtures.registrant.clone()),
            ("agency", "ONE".to_owned()),
            ("registrant", other),
            ("agency", "TWO".to_owned()),
        ];
        fixtures.tokens = tokens.map(|(role, subject)| {
            let created = fixtures.create("tokens", json!({"role": role, "subject": subject}));
            created["token"].as_str().unwrap().to_owned()
        });
        fixtures
    }

    fn request(&self, method: &str, path: &str, token: &str, headers: &[&str], body: &str) -> (u16, String) {
        let request = HttpRequest::new(method, path).bearer(token).headers(headers.iter().copied());
        let response = request.header("Content-Type: application/json").body(body).send(self.server.http);
        (response.status, response.text().into_owned())
    }

    fn create(&self, resource: &str, body: Json) -> Json {
        let (status, body) =
            self.request("POST", &format!("/api/v1/{resource}"), OPERATOR_TOKEN, &[], &body.to_string());
        assert_eq!(status, 201, "{resource} {body}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    fn register(&self, suffix: &str) {
        let name = format!("{PREFIX}/{suffix}");
        self.create("dois", json!({"name": name, "url": "https://example.org/"}));
    }

    fn get(&self, target: &str) -> u16 {
        self.request("GET", target, "", &[], "").0
    }

    fn flush(&self) {
        block_on(self.maintenance.flush(&self.server.registry, &self.counter));
    }

    fn summary(&self) -> Json {
        self.flush();
        let (status, body) =
            self.request("GET", &format!("/api/v1/reports/{PREFIX}"), &self.tokens[0], &[], "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The lines of a report.
    fn report(&self, report: &str) -> Vec<Json> {
        self.flush();
        let path = format!("/api/v1/reports/{PREFIX}/{report}");
        let (status, body) = self.request("GET", &path, &self.tokens[0], &[], "");
        assert_eq!(status, 200, "{body}");
        body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Columns of the lines of a report, sorted.
    fn columns(&self, report: &str, parts: &[&str]) -> Vec<String> {
        let columns = |line: &Json| parts.iter().map(|part| text(&line[*part])).collect::<Vec<_>>().join(" ");
        let mut columns: Vec<_> = self.report(report).iter().map(columns).collect();
        columns.sort();
        columns
    }
}

fn text(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), |text| text.trim_start_matches("10.70000/").to_owned())
}

fn resolutions_are_counted_over_every_protocol(store: StoreKind) {
    let fixtures = ReportFixtures::new(store);
    for suffix in ["http", "json", "page", "native", "nobody"] {
        fixtures.register(suffix);
    }
    fixtures.create(
        "dois",
        json!({"name": "10.70000/reserved", "url": "https://example.org/", "state": "reserved"}),
    );
    fixtures.register("ended");
    assert_eq!(fixtures.request("DELETE", "/api/v1/dois/10.70000/ended", OPERATOR_TOKEN, &[], "").0, 200);
    // The first response is computed, the others are cached.
    for _ in 0..5 {
        assert_eq!(fixtures.get("/10.70000/http"), 302);
        assert_eq!(fixtures.get("/10.70000/HTTP"), 302);
        assert_eq!(fixtures.get("/api/handles/10.70000/json"), 200);
        for transport in [Transport::Udp, Transport::Tcp, Transport::Http] {
            assert_eq!(fixtures.server.code(transport, &resolution("10.70000/Native")), 1);
            assert_eq!(fixtures.server.code(transport, &resolution("10.70000/none")), 100);
        }
        assert_eq!(fixtures.get("/10.70000/none"), 404);
        assert_eq!(fixtures.get("/api/handles/10.70000/NONE"), 404);
        assert_eq!(fixtures.get("/10.70000/ended"), 410);
        assert_eq!(fixtures.get("/10.70000/reserved"), 404);
    }
    assert_eq!(fixtures.get("/doi:10.70000/page?noredirect"), 200);
    // Not counted: authenticated reads, traces, other prefixes, prefixes themselves.
    assert_eq!(fixtures.request("GET", "/api/handles/10.70000/nobody", OPERATOR_TOKEN, &[], "").0, 200);
    assert_eq!(fixtures.get("/10.70000/nobody?explain"), 200);
    assert_eq!(fixtures.get("/api/handles/10.5555/MULTI"), 200);
    assert_eq!(fixtures.get("/10.5555/none"), 404);
    fixtures.get("/10.70000");
    fixtures.get("/10.70000/");

    let first = ["http 10", "json 5", "native 15", "page 1"];
    assert_eq!(fixtures.columns("resolved", &["name", "count"]), first);
    assert_eq!(fixtures.columns("never-resolved", &["name"]), ["nobody"]);
    let failed = [" 1 null", "ended 5 tombstone", "none 25 null", "reserved 5 reserved"];
    assert_eq!(fixtures.columns("failed-resolutions", &["name", "count", "state"]), failed);
    // Later resolutions are added.
    assert_eq!(fixtures.get("/10.70000/http"), 302);
    assert_eq!(fixtures.get("/10.70000/none"), 404);
    assert_eq!(
        fixtures.summary(),
        json!({"prefix": PREFIX, "names": 7, "registered": 5, "reserved": 1, "retired": 1, "resolved": 4,
            "resolutions": 32, "never-resolved": 1, "failed": 4, "failures": 37, "links": 0, "confusable": 0,
            "complete": true})
    );
    assert_eq!(fixtures.counter.dropped_resolutions() + fixtures.counter.dropped_failures(), 0);
}

/// Concurrent resolutions, cached and not, while counts are flushed all the time.
fn counts_are_exact_under_load(store: StoreKind) {
    const THREADS: usize = 8;
    const REQUESTS_PER_THREAD: usize = 300;
    let fixtures = ReportFixtures::new(store);
    for number in 0..10 {
        fixtures.register(&format!("n{number}"));
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let fixtures = &fixtures;
            scope.spawn(move || {
                let mut requests = String::new();
                for number in 0..REQUESTS_PER_THREAD {
                    let name = match (number + thread) % 3 {
                        0 => format!("n{}", number % 10),
                        1 => "n0".to_owned(),
                        _ => format!("none{}", number % 20),
                    };
                    let end = if number + 1 == REQUESTS_PER_THREAD { "Connection: close\r\n" } else { "" };
                    requests += &format!("GET /10.70000/{name} HTTP/1.1\r\nHost: localhost\r\n{end}\r\n");
                }
                send_raw(fixtures.server.http, requests);
            });
        }
        for _ in 0..50 {
            fixtures.flush();
        }
    });
    let sum = |report: &str| -> u64 {
        fixtures.report(report).iter().map(|line| line["count"].as_u64().unwrap()).sum()
    };
    let kinds =
        (0..THREADS).flat_map(|thread| (0..REQUESTS_PER_THREAD).map(move |number| (number + thread) % 3));
    let failed = kinds.filter(|kind| *kind == 2).count();
    assert_eq!(
        (sum("failed-resolutions"), sum("resolved")),
        (failed as u64, (THREADS * REQUESTS_PER_THREAD - failed) as u64)
    );
}

/// The allocation of a prefix invalidates its cached responses, which are counted from then on.
fn prefix_allocated_later(store: StoreKind) {
    let fixtures = ReportFixtures::new(store);
    fixtures.server.commit(home_edit("10.70001"));
    fixtures.server.put("10.70001/x", vec![url_value(1, "https://example.org/x")]);
    for _ in 0..3 {
        assert_eq!(fixtures.get("/10.70001/x"), 302);
        assert_eq!(fixtures.get("/10.70001/none"), 404);
    }
    fixtures.create("prefixes", json!({"registrant": fixtures.registrant, "prefix": "10.70001"}));
    for _ in 0..2 {
        assert_eq!(fixtures.get("/10.70001/x"), 302);
        assert_eq!(fixtures.get("/10.70001/none"), 404);
    }
    fixtures.flush();
    let (_, body) = fixtures.request("GET", "/api/v1/reports/10.70001", OPERATOR_TOKEN, &[], "");
    let summary: Json = serde_json::from_str(&body).unwrap();
    assert_eq!((&summary["resolutions"], &summary["failures"]), (&json!(2), &json!(2)), "{body}");
}

/// A cached redirect follows a change of the locations of the agency.
fn agency_locations_apply_at_once(store: StoreKind) {
    let fixtures = ReportFixtures::new(store);
    fixtures.register("x");
    let location = || {
        let response = fixtures.server.get("/10.70000/x");
        response.header("location").unwrap_or_default().to_owned()
    };
    assert_eq!([location(), location()], ["https://example.org/", "https://example.org/"]);
    let locations =
        r#"<locations><location id="0" href="https://example.net/all" weight="1000000000"/></locations>"#;
    let value = HandleValue::new(1, "10320/loc", locations);
    fixtures.server.commit(home_edit("10.SERV"));
    fixtures.server.put("10.SERV/PLACES", vec![value]);
    let (status, body) = fixtures.request(
        "PUT",
        "/api/v1/agencies/ONE",
        OPERATOR_TOKEN,
        &[],
        r#"{"locations":"10.SERV/PLACES"}"#,
    );
    assert_eq!(status, 200, "{body}");
    assert_eq!(location(), "https://example.net/all");
}

/// Attack P11: for callers without permission, a report is not found.
fn report_authorization(store: StoreKind) {
    let fixtures = ReportFixtures::new(store);
    fixtures.register("x");
    let [registrant_token, agency_token, other_token, other_agency_token] = &fixtures.tokens;
    let token_for = |body: Json| fixtures.create("tokens", body)["token"].as_str().unwrap().to_owned();
    let other_prefix_token =
        token_for(json!({"role": "registrant", "subject": fixtures.registrant, "prefixes": ["10.70009"]}));
    let read_token =
        token_for(json!({"role": "registrant", "subject": fixtures.registrant, "scopes": ["read"]}));
    for report in
        ["", "/resolved", "/never-resolved", "/failed-resolutions", "/invalid-links", "/confusable-names"]
    {
        let path = format!("/api/v1/reports/{PREFIX}{report}");
        for (token, expected) in [
            (registrant_token, 200),
            (agency_token, 200),
            (&OPERATOR_TOKEN.to_owned(), 200),
            (&read_token, 200),
            (other_token, 404),
            (other_agency_token, 404),
            (&other_prefix_token, 404),
            (&String::new(), 404),
            (&"wrong".to_owned(), 401),
        ] {
            let (status, body) = fixtures.request("GET", &path, token, &[], "");
            assert_eq!(status, expected, "{path} {token}: {body}");
        }
        assert_eq!(fixtures.request("POST", &path, registrant_token, &[], "").0, 405, "{path}");
        for unknown_prefix in ["10.70001", "10.5555", "0.NA", "10.70000%2Fx", "%00"] {
            let path = format!("/api/v1/reports/{unknown_prefix}{report}");
            let (status, body) = fixtures.request("GET", &path, OPERATOR_TOKEN, &[], "");
            assert!(matches!(status, 400 | 404), "{path}: {body}");
        }
    }
}

/// Reserved names and private values of names that were transferred to another registrant are hidden.
fn names_of_other_registrants(store: StoreKind) {
    let fixtures = ReportFixtures::new(store);
    for (name, state) in [("10.70000/theirs", "registered"), ("10.70000/secret", "reserved")] {
        fixtures.create("dois", json!({"name": name, "url": "https://example.org/", "state": state}));
        let mut values = fixtures.server.values(name).unwrap();
        values.push(HandleValue {
            permissions: tendot_proto::ValuePermissions(0x0c),
            ..HandleValue::new(2, "URL", "ftp:hidden")
        });
        fixtures.server.put(name, values);
        assert_eq!(fixtures.get(&format!("/{name}")), if state == "reserved" { 404 } else { 302 });
    }
    assert_eq!(fixtures.columns("invalid-links", &["name", "index"]), ["secret 2", "theirs 2"]);
    let registrants = fixtures.request("GET", "/api/v1/registrants?agency=ONE", OPERATOR_TOKEN, &[], "").1;
    let registrants: Json = serde_json::from_str(&registrants).unwrap();
    let other = registrants["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|registrant| registrant["name"] == "Another")
        .unwrap();
    let names = ["10.70000/theirs", "10.70000/secret"];
    fixtures.create("transfers", json!({"names": names, "to": other["id"], "force": true}));
    assert_eq!(fixtures.columns("invalid-links", &["name"]), Vec::<String>::new());
    assert_eq!(fixtures.columns("failed-resolutions", &["name", "state"]), ["secret null"]);
    let summary = fixtures.summary();
    assert_eq!((&summary["reserved"], &summary["registered"]), (&json!(0), &json!(1)));
}

fn invalid_links_and_confusable_names(store: StoreKind) {
    let fixtures = ReportFixtures::new(store);
    fixtures.register("good");
    fixtures.register("caf\u{e9}");
    fixtures.create("dois", json!({"name": "10.70000/cafe\u{301}", "url": "https://example.org/"}));
    fixtures.register("\u{440}aypal");
    fixtures.register("дом");
    let put = |suffix: &str, values: Vec<HandleValue<'static>>| {
        fixtures.server.put(&format!("{PREFIX}/{suffix}"), values);
    };
    put(
        "odd",
        vec![
            url_value(1, "javascript:alert(1)"),
            url_value(2, "https://example.org/"),
            url_value(3, "/relative"),
        ],
    );
    put("old", vec![url_value(1, "https://user:word@example.org/")]);
    put("gone", vec![url_value(1, "nothing")]);
    fixtures
        .server
        .commit(Edit::Tombstone { name: "10.70000/gone".into(), precondition: Precondition::NotTombstone });
    let parts = ["name", "index", "code", "data"];
    let links = [
        "odd 1 scheme-not-allowed javascript:alert(1)",
        "odd 3 relative /relative",
        "old 1 credentials https://user:word@example.org/",
    ];
    assert_eq!(fixtures.columns("invalid-links", &parts), links);
    let confusable = [
        "cafe\u{301} same-text caf\u{e9}",
        "caf\u{e9} same-text cafe\u{301}",
        "\u{440}aypal mixed-scripts null",
    ];
    let mut expected = confusable.map(str::to_owned);
    expected.sort();
    assert_eq!(fixtures.columns("confusable-names", &["name", "code", "with"]), expected);
    let summary = fixtures.summary();
    assert_eq!((&summary["links"], &summary["confusable"]), (&json!(3), &json!(3)));
    // A later policy makes other links invalid.
    let policy = r#"{"policy":{"hosts":["example.net"]}}"#;
    assert_eq!(fixtures.request("PUT", "/api/v1/prefixes/10.70000", OPERATOR_TOKEN, &[], policy).0, 200);
    let columns = fixtures.columns("invalid-links", &["name", "index", "code"]);
    assert!(
        columns.contains(&"good 1 host-not-allowed".to_owned())
            && columns.contains(&"odd 2 host-not-allowed".to_owned()),
        "{columns:?}"
    );
}

fn report_paging(store: StoreKind) {
    let fixtures = ReportFixtures::new(store);
    let names: Vec<String> = (0..1_234).map(|number| format!("10.70000/{number:05}")).collect();
    let values = vec![url_value(1, "nowhere"), url_value(2, "nowhere else")];
    fixtures.server.commit_all(names.iter().map(|name| put_edit(name, values.clone())).collect());
    assert_eq!(fixtures.report("invalid-links").len(), 2 * names.len());
    assert_eq!(fixtures.columns("never-resolved", &["name"]).len(), names.len());
    for (report, limit, lines) in [
        ("never-resolved", 100, 1),
        ("invalid-links", 7, 2),
        ("invalid-links", 500, 2),
        ("failed-resolutions", 3, 1),
    ] {
        if report == "failed-resolutions" {
            for number in 0..50 {
                assert_eq!(fixtures.get(&format!("/10.70000/none{number}")), 404);
            }
        }
        let all: Vec<Json> = fixtures.report(report);
        let (mut after, mut paged) = (String::new(), Vec::new());
        loop {
            let path = format!("/api/v1/reports/{PREFIX}/{report}?limit={limit}&after={after}");
            let (status, body) = fixtures.request("GET", &path, &fixtures.tokens[0], &[], "");
            assert_eq!(status, 200, "{body}");
            let page: Vec<Json> = body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert!(page.len() < limit + lines, "{} lines of {report}", page.len());
            let Some(last) = page.last() else { break };
            after = last["name"].as_str().unwrap().to_owned();
            paged.extend(page);
        }
        assert_eq!(paged, all, "{report}");
    }
    for query in ["limit=0", "limit=x"] {
        let path = format!("/api/v1/reports/{PREFIX}/invalid-links?{query}");
        assert_eq!(fixtures.request("GET", &path, &fixtures.tokens[0], &[], "").0, 400, "{query}");
    }
}

/// Attack D6: no field of a CSV is a formula.
/// A report does not go on after the token that requested it was replaced, however slowly it is read.
fn audit_f7_reports_end_with_their_credentials(store: StoreKind) {
    // Clients that read slowly are not disconnected.
    let limits = HttpLimits { write_timeout: 10 * WAIT_TIMEOUT, ..HttpLimits::default() };
    let server = start_over(store.open(), bind(), Vec::new(), limits, None, |http| http);
    let client = ApiClient { server };
    client.create_fixtures();
    let long = format!("nowhere{}", "x".repeat(500));
    let values: Vec<_> = (1..=100).map(|index| HandleValue::new(index, "URL", long.clone())).collect();
    let edits = (0..500).map(|number| put_edit(&format!("{PREFIX}/{number}"), values.clone()));
    client.server.commit(edits.collect());
    let mut stream = client.server.connect();
    let head = format!("GET /api/v1/reports/{PREFIX}/invalid-links HTTP/1.1\r\nHost: a\r\n");
    stream.write_all(format!("{head}Authorization: Bearer {TOKEN}\r\n\r\n").as_bytes()).unwrap();
    let mut start = [0; 64];
    stream.read_exact(&mut start).unwrap();
    assert!(start.starts_with(b"HTTP/1.1 200 "));
    client.server.http.replace_operator_token("rotated");
    // The other connection is that of the request for the metrics.
    wait_until("the report ends", || client.server.metric("tendot_http_connections") == 1.0);
    assert!(!read_text(&stream).ends_with("0\r\n\r\n"), "the report is complete");
}

fn csv_has_no_formulas(store: StoreKind) {
    let fixtures = ReportFixtures::new(store);
    fixtures.register("x");
    fixtures.server.put("10.70000/x", vec![url_value(1, "=cmd|'/C calc'!A0"), url_value(2, "@SUM(1,\"2\")")]);
    for suffix in ["=1+1", "a,b", "%22q%22"] {
        assert_eq!(fixtures.get(&format!("/10.70000/{suffix}")), 404);
    }
    fixtures.flush();
    let csv = |report: &str| {
        let path = format!("/api/v1/reports/{PREFIX}/{report}");
        let (status, body) = fixtures.request("GET", &path, &fixtures.tokens[0], &["Accept: text/csv"], "");
        assert_eq!(status, 200, "{body}");
        body
    };
    let detail = "invalid URL: relative URL; add a scheme such as `https:`";
    assert_eq!(
        csv("invalid-links"),
        format!(
            "name,index,data,code,detail\r\n10.70000/x,1,\"'=cmd|'/C calc'!A0\",relative,{detail}\r\n\
             10.70000/x,2,\"'@SUM(1,\"\"2\"\")\",relative,{detail}\r\n"
        )
    );
    let failed = csv("failed-resolutions");
    assert!(failed.starts_with("name,count,first,last,state\r\n"), "{failed}");
    for name in ["10.70000/=1+1,1,", "\"10.70000/a,b\",1,", "\"10.70000/\"\"q\"\"\",1,"] {
        assert!(failed.contains(&format!("\n{name}")), "{failed}");
    }
    for report in ["resolved", "never-resolved", "confusable-names"] {
        assert!(csv(report).starts_with("name,"), "{report}");
    }
}

/// Names that fail take bounded space in memory and in the store; the least requested are dropped first.
fn failed_names_are_bounded(store: StoreKind) {
    let mut fixtures = ReportFixtures::new(store);
    fixtures.maintenance.max_failed_per_prefix = 100;
    let flood = |from: usize, to: usize| {
        let mut requests = String::new();
        for number in from..to {
            let end = if number + 1 == to { "Connection: close\r\n" } else { "" };
            // Multiples of 50 are requested more often.
            for _ in 0..if number % 50 == 0 { 3 } else { 1 } {
                requests +=
                    &format!("GET /api/handles/10.70000/{number} HTTP/1.1\r\nHost: localhost\r\n{end}\r\n");
            }
        }
        send_raw(fixtures.server.http, requests);
    };
    flood(0, 500);
    let names = fixtures.columns("failed-resolutions", &["name", "count"]);
    assert_eq!(names.len(), 100);
    for number in (0..500).step_by(50) {
        assert!(names.contains(&format!("{number} 3")), "{number}: {names:?}");
    }
    flood(501, 1_000);
    let names = fixtures.columns("failed-resolutions", &["name", "count"]);
    assert_eq!(names.len(), 100);
    for number in (0..1_000).step_by(50).filter(|number| *number != 500) {
        assert!(names.contains(&format!("{number} 3")), "{number}: {names:?}");
    }
    assert_eq!(fixtures.server.metric("tendot_stats_failures_dropped_total"), 0);
}

fn failures_expire(store: StoreKind) {
    let fixtures = ReportFixtures::new(store);
    assert_eq!(fixtures.get("/10.70000/none"), 404);
    fixtures.flush();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let purge = |retention: u32, at: u64| {
        let maintenance = Maintenance { retention_days: retention, ..fixtures.maintenance.clone() };
        block_on(maintenance.purge_failed_resolutions(&fixtures.server.registry, at)).unwrap();
        fixtures.report("failed-resolutions").len()
    };
    assert_eq!(purge(1, now), 1);
    assert_eq!(purge(90, now + 89 * DAY), 1);
    assert_eq!(purge(90, now + 90 * DAY), 0);

    let disabled_counter = ResolutionCounter::new(false);
    let server = NativeTestServer::start_over(
        store.open(),
        NativeServerOptions {
            resolution_counter: Some(Arc::new(disabled_counter)),
            ..NativeServerOptions::default()
        },
    );
    assert_eq!(server.get("/10.5555/none").status, 404);
}

/// Idempotency records are purged after a day, with their journals; nothing else is.
fn idempotency_records_expire(store: StoreKind) {
    let fixtures = ReportFixtures::new(store);
    let register = |key: &str, path: &str, body: &str| {
        let header = format!("Idempotency-Key: {key}");
        let (status, body) = fixtures.request("POST", path, OPERATOR_TOKEN, &[&header], body);
        assert!(matches!(status, 200 | 201), "{body}");
    };
    let unix_ms = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap().as_millis() as u64
    };
    let start = unix_ms();
    let line = |number: usize| format!("{{\"name\":\"10.70000/b{number}\",\"url\":\"https://e.org/\"}}\n");
    let batch_body: String = (0..20_000).map(line).collect();
    register("one", "/api/v1/dois", &line(100_000));
    register("many", "/api/v1/dois/batch", &batch_body);
    let store = &fixtures.server.store;
    let aux_entries = |prefix: &str| block_on(store.list_aux(prefix.as_bytes(), None, 10_000)).unwrap().len();
    let (keys, all_entries) = (aux_entries("idempotency/"), aux_entries(""));
    assert!(keys > 20, "{keys}");
    // A journal entry without its header.
    fixtures.server.commit(Edit::PutAux { key: b"idempotency/ff/0000".as_slice().into(), value: [1].into() });
    let purge = |at| block_on(fixtures.server.registry.purge_idempotency_keys(at)).unwrap();
    purge(unix_ms());
    assert_eq!((aux_entries("idempotency/"), aux_entries("")), (keys, all_entries));
    register("one", "/api/v1/dois", &line(100_000));
    register("many", "/api/v1/dois/batch", &batch_body);
    purge(start + DAY - 60_000);
    assert_eq!(aux_entries("idempotency/"), keys);
    purge(unix_ms() + DAY + 60_000);
    assert_eq!((aux_entries("idempotency/"), aux_entries("")), (0, all_entries - keys));
}
