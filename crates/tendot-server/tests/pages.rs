//! All pages and errors, as they are sent. `TENDOT_WRITE_PAGES=1 cargo test -p tendot-server --test pages` writes the files
//! in `tests/pages/` anew; what changed there is to be looked at before it is committed.

mod deposits;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use deposits::{Parties, metadata};
use tendot_proto::record::{Admin, AdminPermissions, Record, ValueList};
use tendot_proto::{Permissions, Reference, Value};
use tendot_registry::transfer::What;
use tendot_registry::{Registry, Settings};
use tendot_server::http::{Http, Limits, listen};
use tendot_store::{Change, Edit, Expect, Memory, Store as _};

const PAGE: &str = "text/html,application/xhtml+xml,*/*;q=0.8";
const JSON: &str = "application/json";

#[test]
fn pages() {
    check("home", "/", PAGE);
    check("docs", "/docs", PAGE);
    check("record", "/10.5555/ONE?noredirect", PAGE);
    check("record-types", "/10.5555/TYPES?noredirect", PAGE);
    check("record-alias", "/10.5555/ALIAS?noredirect", PAGE);
    check("record-handle", "/20.500.12345/abc%20d?noredirect", PAGE);
    check("record-selected", "/10.5555/TYPES?noredirect&type=DESC", PAGE);
    check("history", "/10.5555/CHANGED?history", PAGE);
    check("history-older", "/10.5555/CHANGED?history&before=25", PAGE);
    check("history-ended", "/10.5555/ENDED?history", PAGE);
    check("history-json", "/api/v1/history/10.5555/changed?limit=2", PAGE);
    check("history-rest", "/api/v1/history/10.5555/changed?after=20", PAGE);
    check("record-registered", "/10.70000/PAPER?noredirect", PAGE);
    check("history-registered", "/10.70000/PAPER?history", PAGE);
    check("history-registered-json", "/api/v1/history/10.70000/PAPER", PAGE);
    check("explain-metadata", "/10.70000/PAPER?explain", PAGE);
    check("no-address", "/10.5555/NOURL", PAGE);
    check("not-followed", "/10.5555/SCRIPT", PAGE);
    check("prefix", "/10.5555", PAGE);
    check("prefix-without-record", "/20.500.12345", PAGE);
    check("explain", "/10.5555/LOC?explain&locatt=country:gb", PAGE);
    check("explain-json", "/10.5555/LOC?explain&locatt=country:gb", JSON);
    check("explain-alias", "/10.5555/ALIAS?explain=json", PAGE);
    check("explain-not-found", "/10.5555/ONE.?explain", PAGE);
}

#[test]
fn problems() {
    for (name, target) in [
        ("not-found", "/10.5555/ONE%2e"),
        ("not-found-near", "/10.5555/TYPE"),
        ("not-kept-here", "/10.9999/X%20Y"),
        ("prefix-not-kept-here", "/10.9999"),
        ("short-doi", "/abcde"),
        ("empty-suffix", "/10.5555/"),
        ("no-name", "//"),
        ("gone", "/10.5555/ENDED"),
        ("gone-registered", "/10.70000/GONE"),
        ("no-values", "/10.5555/HIDDEN"),
        ("alias-loop", "/10.5555/CIRCLE"),
        ("bad-path", "/10.5555/a%zzb"),
        ("bad-query", "/10.5555/ONE?locatt=a%00b"),
        ("bad-text", "/?text=10.5555/ONE+%4"),
        ("history-not-found", "/10.5555/NONE?history"),
        ("history-bad-query", "/10.5555/ONE?history&before=x"),
    ] {
        check(name, target, PAGE);
        check(&format!("{name}-json"), target, JSON);
    }
}

/// Compares what is answered with what was looked at once.
#[track_caller]
fn check(name: &str, target: &str, accept: &str) {
    let found = ask(target, accept).without_times();
    let kind = if found.head.contains("json") { "json" } else { "html" };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pages/{name}.{kind}"));
    let shown = format!("{}\n\n{}\n", found.kept_head(), found.body.trim_end());
    if std::env::var_os("TENDOT_WRITE_PAGES").is_some() {
        fs::write(&path, &shown).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let difference = expected.lines().zip(shown.lines()).position(|(one, two)| one != two);
    let at = difference.unwrap_or_else(|| expected.lines().count().min(shown.lines().count()));
    let line = |text: &str| text.lines().nth(at).unwrap_or("(its end)").to_owned();
    assert!(
        expected == shown,
        "{target} is not as in {}, from line {} on:\n- {}\n+ {}",
        path.display(),
        at + 1,
        line(&expected),
        line(&shown)
    );
}

/// No page sends more than 60 kB, its style with it, whatever a record has; but for the one that tells of all paths.
#[test]
fn pages_are_small() {
    let style = ask("/static/style.css", "*/*").body.len();
    for target in [
        "/",
        "/docs",
        "/10.5555/LARGE?noredirect",
        "/10.5555/LARGE?explain",
        "/10.5555/MANY?noredirect",
        "/10.5555/LARGE?history",
    ] {
        let page = ask(target, PAGE);
        let most = if target == "/docs" { 180_000 } else { 60_000 };
        assert!(page.body.len() + style < most, "{target}: {} + {style}", page.body.len());
    }
    let long = "%E2%80%AE".repeat(680);
    for target in
        [format!("/10.5555/{long}"), format!("/20.500.12345/{long}"), format!("/10.9999/{long}?explain")]
    {
        let page = ask(&target, PAGE);
        assert!(page.body.len() + style < 60_000, "{} + {style}", page.body.len());
    }
    assert!(ask("/10.5555/LARGE?noredirect", PAGE).body.contains("The JSON has everything."));
    assert!(ask("/10.5555/MANY?noredirect", PAGE).body.contains("more values"));
}

/// H5: what a record says stays text.
#[test]
fn attack_h5_values_are_escaped() {
    for query in ["?noredirect", "?explain", "?noredirect&type=10320/loc", "?history"] {
        let page = ask(&format!("/10.5555/HOSTILE{query}"), PAGE);
        assert_harmless(&page);
        // And what its metadata says.
        assert_harmless(&ask(&format!("/10.70000/PAPER{query}"), PAGE));
    }
    let body = ask("/10.5555/HOSTILE?noredirect", PAGE).body;
    assert!(body.contains("&#60;script&#62;alert(1)&#60;/script&#62;"), "{body}");
    assert!(body.contains("]]&#62;"), "{body}");
}

/// H5: so does what a request says.
#[test]
fn attack_h5_requests_are_escaped() {
    let hostile = "%3Cscript%3Ealert(1)%3C/script%3E%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E]]%3E%E2%80%A8";
    for target in [
        format!("/10.5555/{hostile}"),
        format!("/10.9999/{hostile}"),
        format!("/{hostile}"),
        format!("/10.5555/{hostile}?explain"),
        format!("/10.5555/{hostile}?history"),
        format!("/10.5555/ONE?history&before={hostile}"),
        format!("/api/v1/history/10.5555/{hostile}"),
        format!("/api/v1/history/10.5555/ONE?after={hostile}"),
        format!("/10.5555/ONE?noredirect&type={hostile}"),
        format!("/10.5555/{hostile}%zz"),
        format!("/10.5555/ONE?a={hostile}%zz"),
        format!("/?text={hostile}%zz"),
    ] {
        for accept in [PAGE, JSON] {
            let answer = ask(&target, accept);
            assert!(answer.status != 500, "{target}");
            if answer.head.contains("text/html") {
                assert_harmless(&answer);
            } else {
                assert!(
                    answer.head.contains("application/problem+json") || answer.head.contains(JSON),
                    "{target}"
                );
            }
        }
    }
}

/// What everybody may not read is in no history, nor who it was if that is no identity; the JSON of a large one is whole.
#[test]
fn histories() {
    for target in ["/10.5555/CHANGED?history", "/api/v1/history/10.5555/CHANGED"] {
        let body = ask(target, PAGE).body;
        assert!(body.contains("https://example.org/first") && body.contains("300:0.NA/10.5555"), "{body}");
        for wrong in ["administrators", "secret", "SECKEY", "me@example.org", "<script"] {
            assert!(!body.replace("\"300:<script>", "").contains(wrong), "{target}: {wrong}");
        }
    }
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let found = ask(&format!("/api/v1/history/10.5555/CHANGED?limit=1&after={after}"), JSON);
        let found: serde_json::Value = serde_json::from_str(&found.body).unwrap();
        seen.extend(found["items"].as_array().unwrap().iter().map(|item| item["kind"].clone()));
        let Some(next) = found["next"].as_u64() else { break };
        after = next;
    }
    assert_eq!(seen, ["create", "update", "update", "remove", "create", "tombstone"]);
    let (one, two) = ("/api/v1/history/10.5555/LARGE", "/10.5555/LARGE?history");
    assert!(ask(one, JSON).body.len() > 900_000 && ask(two, PAGE).body.contains("The JSON has everything."));
    for (target, status) in [
        ("/api/v1/history/10.9999/X", 400),
        ("/api/v1/history/10.5555/NONE", 404),
        ("/api/v1/history/10.5555/ENDED", 200),
        ("/api/v1/history/", 400),
        ("/api/v1/history/20.500.12345", 404),
        ("/api/v1/history/10.5555/ONE?limit=-1", 400),
        ("/api/v1/history/10.5555/ONE?after=18446744073709551615&limit=18446744073709551615", 200),
        ("/api/v1/history/10.5555/%zz", 400),
    ] {
        let found = ask(target, PAGE);
        let json: serde_json::Value = serde_json::from_str(&found.body).unwrap();
        assert_eq!(found.status, status, "{target}: {json}");
        let is_problem = found.head.contains("application/problem+json");
        assert_eq!(is_problem, status != 200, "{target}");
        assert_eq!(json["code"].is_string() && !json["detail"].as_str().unwrap().is_empty(), is_problem);
    }
}

/// R4 and H5: characters that nobody sees, or that turn others around, are written out.
#[test]
fn attack_h5_bidi_is_written_out() {
    for target in [
        "/10.5555/HOSTILE?noredirect",
        "/10.5555/HOSTILE?history",
        "/10.5555/%E2%80%AE281?noredirect",
        "/10.5555/%E2%80%AEx%E2%80%A8y%E2%81%A6",
        "/10.9999/%E2%80%AE%F3%A0%81%81",
        "/10.5555/a%E2%80%AE%zz",
    ] {
        let body = ask(target, PAGE).body;
        let hidden = ['\u{202e}', '\u{2028}', '\u{2066}', '\u{e0041}'];
        assert!(!body.contains(hidden), "{target}: {body}");
        assert!(body.contains("⟨U+202E⟩") || target.contains("%zz"), "{target}: {body}");
    }
}

/// H2: only addresses that are redirected to are links.
#[test]
fn attack_h2_no_link_runs_anything() {
    for name in ["SCRIPT", "HOSTILE", "TYPES", "SPLIT"] {
        let page = ask(&format!("/10.5555/{name}?noredirect"), PAGE);
        for address in attributes(&page.body, "href").chain(attributes(&page.body, "src")) {
            let is_ours = address.starts_with('/') && !address.starts_with("//") || address.starts_with('#');
            assert!(
                is_ours || address.starts_with("https://") || address.starts_with("http://"),
                "{name}: {address}"
            );
        }
    }
    let page = ask("/10.5555/SCRIPT", PAGE);
    assert_eq!((page.status, page.header("location")), (200, None));
    assert!(page.body.contains("javascript:alert(1)") && page.body.contains("not followed"));
}

/// H1: an address with a line break splits no header.
#[test]
fn attack_h1_no_header_is_split() {
    for query in ["", "?noredirect", "?explain", "?explain=json", "?action=showurls"] {
        let page = ask(&format!("/10.5555/SPLIT{query}"), PAGE);
        assert_eq!(
            (page.status, page.header("set-cookie"), page.header("location")),
            (200, None, None),
            "{query}"
        );
    }
}

/// No page may be framed, sniffed, or run anything, and none tells where somebody came from.
#[test]
fn attack_h17_pages_have_their_policy() {
    for target in [
        "/",
        "/10.5555/ONE?noredirect",
        "/10.5555/ONE?history",
        "/10.5555/ONE?explain",
        "/10.5555/NONE",
        "/10.5555/%zz",
        "/10.5555",
    ] {
        let page = ask(target, PAGE);
        let policy = page.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{target}"
        );
        assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{target}");
        assert_eq!(page.header("x-content-type-options").as_deref(), Some("nosniff"), "{target}");
        assert_eq!(page.header("referrer-policy").as_deref(), Some("no-referrer"), "{target}");
        assert!(!page.body.contains(" style=") && !page.body.contains("<style"), "{target}");
    }
}

/// What a page explains is what the redirect does.
#[test]
fn explanations_agree_with_redirects() {
    for target in ["/10.5555/ONE", "/10.5555/LOC?locatt=country:gb", "/10.5555/ALIAS", "/10.5555/ALIAS?a=b&c"]
    {
        let redirect = ask(target, PAGE);
        let separator = if target.contains('?') { '&' } else { '?' };
        let explained = ask(&format!("{target}{separator}explain=json"), PAGE);
        let explained: serde_json::Value = serde_json::from_str(&explained.body).unwrap();
        let first = &explained["redirects"][0];
        assert_eq!(first["status"], redirect.status, "{target}");
        assert_eq!(first["location"].as_str(), redirect.header("location").as_deref(), "{target}");
    }
}

#[track_caller]
fn assert_harmless(page: &Found) {
    assert!(page.header("content-security-policy").is_some());
    let body = page.body.to_lowercase();
    for wrong in ["<script", "<img src=x", "javascript:alert(1)\"", "href=\"javascript", "\u{2028}"] {
        assert!(!body.contains(wrong), "{wrong}");
    }
    assert_eq!(body.matches("<img").count(), 1, "the picture at the top");
    // Every element is one of ours.
    let elements =
        body.split('<').skip(1).filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
    for element in elements.filter(|name| !name.is_empty()) {
        assert!(OURS.contains(&element), "<{element}>");
    }
    // Outside of quotes a tag has only names of attributes.
    for tag in body.split('<').filter_map(|rest| rest.split('>').next()) {
        let outside: String = tag.split('"').step_by(2).collect();
        assert!(!outside.contains(" on") && !outside.contains(" style"), "<{tag}>");
    }
}

const OURS: [&str; 46] = [
    "html", "head", "meta", "title", "link", "body", "a", "header", "nav", "img", "main", "footer", "p",
    "h1", "h2", "div", "span", "bdi", "section", "table", "thead", "tbody", "tr", "th", "td", "details",
    "summary", "pre", "time", "dl", "dt", "dd", "code", "ul", "ol", "li", "form", "label", "input", "button",
    "mark", "doctype", "b", "i", "br", "del",
];

fn attributes<'a>(body: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let tags = body.split('<').filter_map(|rest| rest.split('>').next());
    let start = format!(" {name}=\"");
    tags.filter_map(move |tag| tag.split_once(&start)?.1.split('"').next())
}

struct Found {
    status: u16,
    head: String,
    body: String,
}

impl Found {
    fn header(&self, name: &str) -> Option<String> {
        let line = self.head.lines().find(|line| line.starts_with(&format!("{name}: ")))?;
        Some(line[name.len() + 2..].to_owned())
    }

    /// The head without what has to do with the connection.
    fn kept_head(&self) -> String {
        let is_kept = |line: &&str| {
            !["date", "content-length", "connection", "x-request-id"]
                .iter()
                .any(|name| line.starts_with(name))
        };
        self.head.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
    }

    /// The same with how long it took left out.
    fn without_times(mut self) -> Self {
        for (before, after) in [("\"microseconds\": ", "\n"), ("Found out in ", " µs")] {
            if let Some(at) = self.body.find(before).map(|at| at + before.len())
                && let Some(end) = self.body[at..].find(after)
            {
                self.body.replace_range(at..at + end, "0");
            }
        }
        self
    }
}

fn ask(target: &str, accept: &str) -> Found {
    let mut stream = TcpStream::connect(*SERVICE).unwrap();
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Found { status, head: head.replace('\r', ""), body: body.to_owned() }
}

static SERVICE: LazyLock<SocketAddr> = LazyLock::new(|| {
    let (told, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Memory::new();
            store.commit(Change { by: "test".into(), at: 0, edits: edits() }).await.unwrap();
            for (number, (by, edit)) in changes().into_iter().enumerate() {
                let at = 1_700_000_000_000 + 86_400_000 * number as u64;
                store.commit(Change { by: by.into(), at, edits: vec![edit] }).await.unwrap();
            }
            let registry = Registry::new(store, Settings::default());
            let parties = Parties::new(&registry).await;
            let titled = format!(r#"{{"metadata":{}}}"#, metadata("<script>alert(1)</script>"));
            parties.change(&registry, "10.70000/PAPER", &titled).await;
            parties.transfer(&registry, What::Prefix("10.70000".into()), &parties.second).await;
            let http = Http::new(Arc::new(registry));
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            listen(listener, Arc::new(http), Limits::default(), std::future::pending()).await.unwrap();
        });
    });
    address.recv().unwrap()
});

fn edits() -> Vec<Edit> {
    let url = |address: &str| Value { timestamp: 1_700_000_000, ..Value::new(1, "URL", address.to_owned()) };
    let alias = |name: &str| Value::new(1, "HS_ALIAS", name.to_owned());
    let hidden = Value { permissions: Permissions(0x0c), ..Value::new(1, "URL", "https://example.org/") };
    let mut edits = vec![
        put("10.5555/ONE", vec![url("https://example.org/one"), Value::new(2, "DESC", "The first")]),
        put("10.5555/TYPES", types()),
        put("10.5555/LOC", vec![url("https://example.org/loc"), Value::new(2, "10320/loc", LOCATIONS)]),
        put("10.5555/ALIAS", vec![alias("10.5555/ONE")]),
        put("10.5555/CIRCLE", vec![alias("10.5555/CIRCLE2")]),
        put("10.5555/CIRCLE2", vec![alias("10.5555/CIRCLE")]),
        put("10.5555/NOURL", vec![Value::new(2, "DESC", "Nothing to lead to")]),
        put("10.5555/SCRIPT", vec![url("javascript:alert(1)")]),
        put("10.5555/SPLIT", vec![url("https://x/\r\nSet-Cookie:a=1")]),
        put("10.5555/HIDDEN", vec![hidden]),
        put("10.5555/ENDED", vec![url("https://example.org/ended")]),
        Edit::Tombstone { name: "10.5555/ENDED".into(), expect: Expect::Any },
        put("10.5555/HOSTILE", hostile()),
        put("10.5555/\u{202e}281", vec![url("https://example.org/bidi")]),
        put("20.500.12345/abc d", vec![url("https://example.org/handle")]),
        put("10.5555/LARGE", large_values()),
        put("10.5555/MANY", (1..=2_000).map(|index| Value::new(index, "NOTE", "n")).collect()),
        put("0.NA/10.5555", vec![Value::new(1, "DESC", "A prefix for tests")]),
    ];
    edits.extend(["10.5555", "20.500.12345", "0.NA"].map(|prefix| Edit::Home { prefix: prefix.into() }));
    edits
}

/// A name that was changed, removed, given again and ended, and one whose every record was hostile.
fn changes() -> Vec<(&'static str, Edit)> {
    let url = |address: &str| Value { timestamp: 1_700_000_000, ..Value::new(1, "URL", address.to_owned()) };
    let hidden = Value { permissions: Permissions(0x0c), ..Value::new(2, "NOTE", "for administrators") };
    let secret = Value { permissions: Permissions(0x0c), ..Value::new(300, "HS_SECKEY", "a secret") };
    let put = |name: &str, values| Edit::Put { name: name.into(), values, expect: Expect::Any };
    let name = "10.5555/CHANGED";
    vec![
        ("300:0.NA/10.5555", put(name, vec![url("https://example.org/first"), hidden.clone()])),
        ("operator", put(name, vec![hidden, secret])),
        ("me@example.org", put(name, vec![url("https://example.org/second"), Value::new(3, "DESC", "Now")])),
        ("operator", Edit::Remove { name: name.into(), expect: Expect::Any }),
        ("300:<script>alert(1)</script>/x", put(name, vec![url("https://example.org/third")])),
        ("operator", Edit::Tombstone { name: name.into(), expect: Expect::Any }),
        ("operator", put("10.5555/HOSTILE", vec![url("https://example.org/")])),
        ("operator", put("10.5555/HOSTILE", hostile())),
        ("operator", put("10.5555/LARGE", vec![url("https://example.org/")])),
        ("operator", put("10.5555/LARGE", large_values())),
    ]
}

fn put(name: &str, values: Vec<Value<'static>>) -> Edit {
    Edit::Put { name: name.into(), values, expect: Expect::Absent }
}

const LOCATIONS: &str = "<locations chooseby='locatt,country,weighted'>\
    <location id='0' href='https://a.example.org/' weight='1'/>\
    <location id='1' href='https://b.example.org/' weight='0' country='gb'/>\
    <location id='2' href='javascript:alert(1)' weight='0' role='pdf'/></locations>";

fn large_values() -> Vec<Value<'static>> {
    vec![Value::new(1, "NOTE", "<&>\"'".repeat(150_000)), Value::new(2, "10320/loc", large())]
}

fn large() -> String {
    let locations = (0..250)
        .map(|number| format!("<location href='https://example.org/{}{number}'/>", "&amp;".repeat(30)));
    format!("<locations>{}</locations>", locations.collect::<String>())
}

/// One of each kind that is shown in its own way; the site and the key are those that were recorded.
fn types() -> Vec<Value<'static>> {
    let rights = AdminPermissions::ADD_HANDLE | AdminPermissions::MODIFY_VALUE;
    let admin = |permissions| {
        let reference = Reference::new(200, &b"0.NA/10.5555"[..]);
        Admin { permissions, reference, legacy_byte_length: false }.to_bytes()
    };
    let group = ValueList {
        members: vec![Reference::parse("300:10.5555/ADMIN"), Reference::parse("0:0.NA/10.5555")],
    };
    let mut values = vec![
        Value { timestamp: 1_700_000_000, ..Value::new(1, "URL", "https://example.org/a b?x=<1>") },
        Value {
            ttl: tendot_proto::Ttl::Absolute(1_800_000_000),
            ..Value::new(2, "URL.mobile", "https://m.example.org/")
        },
        Value { ttl: tendot_proto::Ttl::Relative(0), ..Value::new(3, "EMAIL", "me@example.org") },
        Value { ttl: tendot_proto::Ttl::Relative(90), ..Value::new(4, "DESC", "Ein Satz, dann ".repeat(30)) },
        Value::new(5, "10320/loc", LOCATIONS),
        Value::with_data(6, "X.BYTES", vec![0, 1, 2, 0xff]),
        Value::new(7, "X.LINES", "one\ntwo\n\tthree"),
        Value::with_data(100, "HS_ADMIN", admin(AdminPermissions::ALL)),
        Value::with_data(101, "HS_ADMIN", admin(rights)),
        Value::with_data(102, "HS_ADMIN", &b"not one"[..]),
        Value::with_data(200, "HS_VLIST", group.to_bytes()),
    ];
    for line in include_str!("../../../conformance/vectors/handle-net/records.jsonl").lines() {
        let record = Record::from_json(line.as_bytes()).unwrap();
        let special = record.values.into_iter().filter(|value| {
            (value.has_type("HS_SITE") || value.has_type("HS_PUBKEY")) && value.permissions.is_public()
        });
        for value in special {
            if !values.iter().any(|known| known.value_type == value.value_type) {
                values.push(Value { index: 300 + values.len() as u32, ..value });
            }
        }
    }
    values
}

fn hostile() -> Vec<Value<'static>> {
    let script = "<script>alert(1)</script>";
    let image = "\"><img src=x onerror=alert(1)>";
    let locations = "<locations><location href='javascript:alert(1)' role='&lt;script&gt;alert(1)&lt;/script&gt;'/>\
        <location href='https://example.org/&quot;&gt;&lt;img src=x onerror=alert(1)&gt;'/></locations>";
    vec![
        Value::new(1, "URL", format!("https://example.org/{image}")),
        Value::new(2, script, script),
        Value::new(3, "DESC", image),
        Value::new(4, "DESC", "]]> +ADw-script+AD4- \u{2028} \u{202e}txt.exe\u{2066}"),
        Value::new(5, "10320/loc", locations),
        Value::new(6, "EMAIL", image),
        Value::new(7, "HS_ALIAS.x", script),
        Value::new(8, "NOTE", format!("{script}\n{}", image.repeat(100))),
        Value::with_data(
            9,
            "HS_ADMIN",
            Admin {
                permissions: AdminPermissions::ALL,
                reference: Reference::new(1, image.as_bytes().to_vec()),
                legacy_byte_length: false,
            }
            .to_bytes(),
        ),
        Value::new(10, "URL", "javascript:alert(1)"),
        Value::new(11, "URL", "data:text/html,<script>alert(1)</script>"),
    ]
}
