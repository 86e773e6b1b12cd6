//! Pages and problem details equal the files in `tests/snapshots/pages/`, and no value of a record or request becomes markup.
//!
//! `TENDOT_TEST_WRITE_PAGES=1 cargo test -p tendot-server --test it -- page_snapshots` rewrites the files; review the
//! differences before you commit them.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use tendot_proto::record::{Admin, AdminPermissions, HandleRecord, ValueList};
use tendot_proto::{HandleValue, ValuePermissions, ValueReference};
use tendot_registry::transfer::TransferSubject;
use tendot_server::http::HttpLimits;
use tendot_store::{Edit, Precondition};
use tendot_testing::http::{HttpRequest, HttpResponse};

use crate::support::edits::{commit_as, home_edit, put_edit};
use crate::support::fixtures::{PartyFixtures, kernel_metadata};
use crate::support::http_server::{TestServer, bind, start_at};

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
    check("history-page-2", "/10.5555/CHANGED?history&before=25", PAGE);
    check("history-retired", "/10.5555/ENDED?history", PAGE);
    check("history-json", "/api/v1/history/10.5555/changed?limit=2", PAGE);
    check("history-next", "/api/v1/history/10.5555/changed?after=20", PAGE);
    check("record-registered", "/10.70000/PAPER?noredirect", PAGE);
    check("history-registered", "/10.70000/PAPER?history", PAGE);
    check("history-registered-json", "/api/v1/history/10.70000/PAPER", PAGE);
    check("trace-metadata", "/10.70000/PAPER?explain", PAGE);
    check("no-location", "/10.5555/NOURL", PAGE);
    check("target-rejected", "/10.5555/SCRIPT", PAGE);
    check("prefix", "/10.5555", PAGE);
    check("prefix-without-record", "/20.500.12345", PAGE);
    check("trace", "/10.5555/LOC?explain&locatt=country:gb", PAGE);
    check("trace-json", "/10.5555/LOC?explain&locatt=country:gb", JSON);
    check("trace-alias", "/10.5555/ALIAS?explain=json", PAGE);
    check("trace-not-found", "/10.5555/ONE.?explain", PAGE);
}

#[test]
fn problems() {
    for (name, target) in [
        ("not-found", "/10.5555/ONE%2e"),
        ("not-found-suggestions", "/10.5555/TYPE"),
        ("not-responsible", "/10.9999/X%20Y"),
        ("prefix-not-responsible", "/10.9999"),
        ("short-doi", "/10/abcde"),
        ("unknown-path", "/login"),
        ("unknown-path-of-an-api", "/works/10.5555/one"),
        ("no-name-in-text", "/?text=Self-organized+criticality"),
        ("empty-suffix", "/10.5555/"),
        ("missing-name", "//"),
        ("retired", "/10.5555/ENDED"),
        ("retired-registered", "/10.70000/GONE"),
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

/// The title of a registered work comes before the redirect target.
#[test]
fn title_before_target() {
    let body = body_of("/10.70000/PAPER?noredirect");
    let position = |text: &str| body.find(text).unwrap_or_else(|| panic!("no `{text}`: {body}"));
    assert!(position("class=\"title\"") < position("Redirects to"), "{body}");
}

/// Administrators are not shown to visitors: no page has `HS_ADMIN`, and the JSON of the API has it.
#[test]
fn pages_have_no_administrators() {
    for query in ["noredirect", "explain", "history"] {
        for name in ["10.70000/PAPER", "10.5555/HOSTILE", "10.70000"] {
            let body = body_of(&format!("/{name}?{query}"));
            assert!(!body.contains("HS_ADMIN"), "{name}?{query}: {body}");
        }
    }
    let trace = get("/10.70000/PAPER?explain=json", JSON).json();
    let steps = trace["steps"].as_array().unwrap();
    let values = steps.iter().find(|step| step["step"] == "values").unwrap();
    assert_eq!(values["message"], "1 public value: 1 URL");
    assert!(trace["values"].to_string().contains("HS_ADMIN"), "{trace}");
}

/// Compares a response with its snapshot.
#[track_caller]
fn check(name: &str, target: &str, accept: &str) {
    let response = get(target, accept);
    let extension = if response.head.contains("json") { "json" } else { "html" };
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/pages/{name}.{extension}"));
    let actual = format!("{}\n\n{}\n", stable_head(&response), stable_body(&response).trim_end());
    if std::env::var_os("TENDOT_TEST_WRITE_PAGES").is_some() {
        fs::write(&path, &actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let difference = expected.lines().zip(actual.lines()).position(|(expected, actual)| expected != actual);
    let line_index = difference.unwrap_or_else(|| expected.lines().count().min(actual.lines().count()));
    let line = |text: &str| text.lines().nth(line_index).unwrap_or("(end of file)").to_owned();
    assert!(
        expected == actual,
        "{target} differs from {} at line {}:\n- {}\n+ {}",
        path.display(),
        line_index + 1,
        line(&expected),
        line(&actual)
    );
}

/// No page exceeds 60 kB including its stylesheet, for any record; only `/docs` may be larger.
#[test]
fn page_sizes_are_bounded() {
    let style = get("/static/style.css", "*/*").body.len();
    for target in [
        "/",
        "/docs",
        "/10.5555/LARGE?noredirect",
        "/10.5555/LARGE?explain",
        "/10.5555/MANY?noredirect",
        "/10.5555/LARGE?history",
    ] {
        let page = get(target, PAGE);
        let max_bytes = if target == "/docs" { 180_000 } else { 60_000 };
        assert!(page.body.len() + style < max_bytes, "{target}: {} + {style}", page.body.len());
    }
    let long = "%E2%80%AE".repeat(680);
    for target in
        [format!("/10.5555/{long}"), format!("/20.500.12345/{long}"), format!("/10.9999/{long}?explain")]
    {
        let page = get(&target, PAGE);
        assert!(page.body.len() + style < 60_000, "{} + {style}", page.body.len());
    }
    assert!(get("/10.5555/LARGE?noredirect", PAGE).text().contains("The JSON is complete."));
    assert!(get("/10.5555/MANY?noredirect", PAGE).text().contains("more values"));
}

/// Values of records are never markup.
#[test]
fn attack_h5_values_are_escaped() {
    for query in ["?noredirect", "?explain", "?noredirect&type=10320/loc", "?history"] {
        let page = get(&format!("/10.5555/HOSTILE{query}"), PAGE);
        assert_harmless(&page);
        // Metadata is escaped, too.
        assert_harmless(&get(&format!("/10.70000/PAPER{query}"), PAGE));
    }
    let body = body_of("/10.5555/HOSTILE?noredirect");
    assert!(body.contains("&#60;script&#62;alert(1)&#60;/script&#62;"), "{body}");
    assert!(body.contains("]]&#62;"), "{body}");
}

/// Parts of requests are never markup.
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
            let response = get(&target, accept);
            assert!(response.status != 500, "{target}");
            if response.head.contains("text/html") {
                assert_harmless(&response);
            } else {
                assert!(
                    response.head.contains("application/problem+json") || response.head.contains(JSON),
                    "{target}"
                );
            }
        }
    }
}

/// Histories have neither private values nor authors that are not handles; the JSON of a large history is complete.
#[test]
fn history_hides_private_values() {
    for (target, author) in [
        ("/10.5555/CHANGED?history", "the administrator of 10.5555"),
        ("/api/v1/history/10.5555/CHANGED", "300:0.NA/10.5555"),
    ] {
        let body = body_of(target);
        assert!(body.contains("https://example.org/first") && body.contains(author), "{body}");
        for forbidden in ["administrators", "secret", "SECKEY", "me@example.org", "<script"] {
            assert!(!body.replace("\"300:<script>", "").contains(forbidden), "{target}: {forbidden}");
        }
    }
    let (mut after, mut kinds) = (0, Vec::new());
    loop {
        let response = get(&format!("/api/v1/history/10.5555/CHANGED?limit=1&after={after}"), JSON);
        let response = response.json();
        kinds.extend(response["items"].as_array().unwrap().iter().map(|item| item["kind"].clone()));
        let Some(next) = response["next"].as_u64() else { break };
        after = next;
    }
    assert_eq!(kinds, ["create", "update", "update", "remove", "create", "tombstone"]);
    let (json, page) = ("/api/v1/history/10.5555/LARGE", "/10.5555/LARGE?history");
    assert!(get(json, JSON).body.len() > 900_000 && get(page, PAGE).text().contains("The JSON is complete."));
    for (target, status) in [
        ("/api/v1/history/10.9999/X", 404),
        ("/api/v1/history/10.5555/NONE", 404),
        ("/api/v1/history/10.5555/ENDED", 200),
        ("/api/v1/history/", 400),
        ("/api/v1/history/20.500.12345", 404),
        ("/api/v1/history/10.5555/ONE?limit=-1", 400),
        ("/api/v1/history/10.5555/ONE?after=18446744073709551615&limit=18446744073709551615", 200),
        ("/api/v1/history/10.5555/%zz", 400),
    ] {
        let response = get(target, PAGE);
        let json = response.json();
        assert_eq!(response.status, status, "{target}: {json}");
        let is_problem = response.head.contains("application/problem+json");
        assert_eq!(is_problem, status != 200, "{target}");
        assert_eq!(json["code"].is_string() && !json["detail"].as_str().unwrap().is_empty(), is_problem);
    }
}

/// Invisible and bidirectional control characters are written out (R4, H5).
#[test]
fn attack_h5_bidi_characters_are_escaped() {
    for target in [
        "/10.5555/HOSTILE?noredirect",
        "/10.5555/HOSTILE?history",
        "/10.5555/%E2%80%AE281?noredirect",
        "/10.5555/%E2%80%AEx%E2%80%A8y%E2%81%A6",
        "/10.9999/%E2%80%AE%F3%A0%81%81",
        "/10.5555/a%E2%80%AE%zz",
    ] {
        let body = body_of(target);
        let hidden = ['\u{202e}', '\u{2028}', '\u{2066}', '\u{e0041}'];
        assert!(!body.contains(hidden), "{target}: {body}");
        assert!(body.contains("⟨U+202E⟩") || target.contains("%zz"), "{target}: {body}");
    }
}

/// Only URLs that are allowed as redirect targets are links.
#[test]
fn attack_h2_links_have_safe_schemes() {
    for name in ["SCRIPT", "HOSTILE", "TYPES", "SPLIT"] {
        let body = body_of(&format!("/10.5555/{name}?noredirect"));
        for url in attributes(&body, "href").chain(attributes(&body, "src")) {
            let is_own_path = url.starts_with('/') && !url.starts_with("//") || url.starts_with('#');
            assert!(
                is_own_path || url.starts_with("https://") || url.starts_with("http://"),
                "{name}: {url}"
            );
        }
    }
    let page = get("/10.5555/SCRIPT", PAGE);
    assert_eq!((page.status, page.header("location")), (200, None));
    assert!(page.text().contains("javascript:alert(1)") && page.text().contains("invalid redirect target"));
}

/// A URL with a line break does not split a header.
#[test]
fn attack_h1_header_splitting() {
    for query in ["", "?noredirect", "?explain", "?explain=json", "?action=showurls"] {
        let page = get(&format!("/10.5555/SPLIT{query}"), PAGE);
        assert_eq!(
            (page.status, page.header("set-cookie"), page.header("location")),
            (200, None, None),
            "{query}"
        );
    }
}

/// No page can be framed or sniffed, runs scripts, or sends a referrer.
#[test]
fn attack_h17_security_headers() {
    for target in [
        "/",
        "/10.5555/ONE?noredirect",
        "/10.5555/ONE?history",
        "/10.5555/ONE?explain",
        "/10.5555/NONE",
        "/10.5555/%zz",
        "/10.5555",
    ] {
        let page = get(target, PAGE);
        let policy = page.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{target}"
        );
        assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{target}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{target}");
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"), "{target}");
        assert!(!page.text().contains(" style=") && !page.text().contains("<style"), "{target}");
    }
}

/// The trace shows the same redirect as the server sends.
#[test]
fn trace_agrees_with_the_redirect() {
    for target in ["/10.5555/ONE", "/10.5555/LOC?locatt=country:gb", "/10.5555/ALIAS", "/10.5555/ALIAS?a=b&c"]
    {
        let redirect = get(target, PAGE);
        let separator = if target.contains('?') { '&' } else { '?' };
        let trace = get(&format!("{target}{separator}explain=json"), PAGE);
        let trace = trace.json();
        let first = &trace["redirects"][0];
        assert_eq!(first["status"], redirect.status, "{target}");
        assert_eq!(first["location"].as_str(), redirect.header("location"), "{target}");
    }
}

#[track_caller]
fn assert_harmless(page: &HttpResponse) {
    assert!(page.header("content-security-policy").is_some());
    let body = page.text().to_lowercase();
    for forbidden in ["<script", "<img src=x", "javascript:alert(1)\"", "href=\"javascript", "\u{2028}"] {
        assert!(!body.contains(forbidden), "{forbidden}");
    }
    assert_eq!(body.matches("<img").count(), 1, "only the icon in the header");
    // Only elements that the templates use.
    let elements =
        body.split('<').skip(1).filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
    for element in elements.filter(|name| !name.is_empty()) {
        assert!(OWN_ELEMENTS.contains(&element), "<{element}>");
    }
    // No event handlers or styles as attributes.
    for tag in body.split('<').filter_map(|rest| rest.split('>').next()) {
        let outside: String = tag.split('"').step_by(2).collect();
        assert!(!outside.contains(" on") && !outside.contains(" style"), "<{tag}>");
    }
}

const OWN_ELEMENTS: [&str; 46] = [
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

/// The head without headers that belong to the connection.
fn stable_head(response: &HttpResponse) -> String {
    let names = ["date", "content-length", "connection", "x-request-id"];
    let is_stable = |line: &&str| !line.is_empty() && !names.iter().any(|name| line.starts_with(name));
    response.head.lines().filter(is_stable).collect::<Vec<_>>().join("\n")
}

/// The body without the time that a trace took.
fn stable_body(response: &HttpResponse) -> String {
    let mut body = response.text().into_owned();
    let before = "\"duration_us\": ";
    if let Some(start) = body.find(before).map(|start| start + before.len())
        && let Some(end) = body[start..].find('\n')
    {
        body.replace_range(start..start + end, "0");
    }
    body
}

fn body_of(target: &str) -> String {
    get(target, PAGE).text().into_owned()
}

fn get(target: &str, accept: &str) -> HttpResponse {
    HttpRequest::get(target).header(&format!("Accept: {accept}")).send(SERVER.address)
}

static SERVER: LazyLock<TestServer> = LazyLock::new(|| {
    let server = start_at(bind(), edits(), HttpLimits::default(), None, |http| http);
    let registry = server.http.registry();
    server.runtime.block_on(async {
        for (number, (author, edit)) in changes().into_iter().enumerate() {
            let timestamp_ms = 1_700_000_000_000 + 86_400_000 * number as u64;
            commit_as(&server.store, author, timestamp_ms, vec![edit]).await;
        }
        let parties = PartyFixtures::create(registry).await;
        let update = format!(r#"{{"metadata":{}}}"#, kernel_metadata("<script>alert(1)</script>"));
        parties.update(registry, "10.70000/PAPER", &update).await;
        parties.transfer(registry, TransferSubject::Prefix("10.70000".into()), &parties.second).await;
    });
    server
});

fn edits() -> Vec<Edit> {
    let url = |address: &str| HandleValue {
        timestamp: 1_700_000_000,
        ..HandleValue::new(1, "URL", address.to_owned())
    };
    let alias = |name: &str| HandleValue::new(1, "HS_ALIAS", name.to_owned());
    let hidden = HandleValue {
        permissions: ValuePermissions(0x0c),
        ..HandleValue::new(1, "URL", "https://example.org/")
    };
    let mut edits = vec![
        put_edit(
            "10.5555/ONE",
            vec![url("https://example.org/one"), HandleValue::new(2, "DESC", "The first")],
        ),
        put_edit("10.5555/TYPES", types()),
        put_edit(
            "10.5555/LOC",
            vec![url("https://example.org/loc"), HandleValue::new(2, "10320/loc", LOCATIONS)],
        ),
        put_edit("10.5555/ALIAS", vec![alias("10.5555/ONE")]),
        put_edit("10.5555/CIRCLE", vec![alias("10.5555/CIRCLE2")]),
        put_edit("10.5555/CIRCLE2", vec![alias("10.5555/CIRCLE")]),
        put_edit("10.5555/NOURL", vec![HandleValue::new(2, "DESC", "Nothing to lead to")]),
        put_edit("10.5555/SCRIPT", vec![url("javascript:alert(1)")]),
        put_edit("10.5555/SPLIT", vec![url("https://x/\r\nSet-Cookie:a=1")]),
        put_edit("10.5555/HIDDEN", vec![hidden]),
        put_edit("10.5555/ENDED", vec![url("https://example.org/ended")]),
        Edit::Tombstone { name: "10.5555/ENDED".into(), precondition: Precondition::NotTombstone },
        put_edit("10.5555/HOSTILE", hostile()),
        put_edit("10.5555/\u{202e}281", vec![url("https://example.org/bidi")]),
        put_edit("20.500.12345/abc d", vec![url("https://example.org/handle")]),
        put_edit("10.5555/LARGE", large_values()),
        put_edit("10.5555/MANY", (1..=2_000).map(|index| HandleValue::new(index, "NOTE", "n")).collect()),
        put_edit("0.NA/10.5555", vec![HandleValue::new(1, "DESC", "A prefix for tests")]),
    ];
    edits.extend(["10.5555", "20.500.12345", "0.NA"].map(home_edit));
    edits
}

/// A name that is updated, removed, created again and retired, and names with hostile and large versions.
fn changes() -> Vec<(&'static str, Edit)> {
    let url = |address: &str| HandleValue {
        timestamp: 1_700_000_000,
        ..HandleValue::new(1, "URL", address.to_owned())
    };
    let hidden = HandleValue {
        permissions: ValuePermissions(0x0c),
        ..HandleValue::new(2, "NOTE", "for administrators")
    };
    let secret =
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(300, "HS_SECKEY", "a secret") };
    let name = "10.5555/CHANGED";
    vec![
        ("300:0.NA/10.5555", put_edit(name, vec![url("https://example.org/first"), hidden.clone()])),
        ("operator", put_edit(name, vec![hidden, secret])),
        (
            "me@example.org",
            put_edit(name, vec![url("https://example.org/second"), HandleValue::new(3, "DESC", "Now")]),
        ),
        ("operator", Edit::Remove { name: name.into(), precondition: Precondition::NotTombstone }),
        ("300:<script>alert(1)</script>/x", put_edit(name, vec![url("https://example.org/third")])),
        ("operator", Edit::Tombstone { name: name.into(), precondition: Precondition::NotTombstone }),
        ("operator", put_edit("10.5555/HOSTILE", vec![url("https://example.org/")])),
        ("operator", put_edit("10.5555/HOSTILE", hostile())),
        ("operator", put_edit("10.5555/LARGE", vec![url("https://example.org/")])),
        ("operator", put_edit("10.5555/LARGE", large_values())),
    ]
}

const LOCATIONS: &str = "<locations chooseby='locatt,country,weighted'>\
    <location id='0' href='https://a.example.org/' weight='1'/>\
    <location id='1' href='https://b.example.org/' weight='0' country='gb'/>\
    <location id='2' href='javascript:alert(1)' weight='0' role='pdf'/></locations>";

fn large_values() -> Vec<HandleValue<'static>> {
    vec![
        HandleValue::new(1, "NOTE", "<&>\"'".repeat(150_000)),
        HandleValue::new(2, "10320/loc", large_locations()),
    ]
}

fn large_locations() -> String {
    let locations = (0..250)
        .map(|number| format!("<location href='https://example.org/{}{number}'/>", "&amp;".repeat(30)));
    format!("<locations>{}</locations>", locations.collect::<String>())
}

/// One value of each type that has its own presentation; the site and the key are from the recordings.
fn types() -> Vec<HandleValue<'static>> {
    let permissions_subset = AdminPermissions::ADD_HANDLE | AdminPermissions::MODIFY_VALUE;
    let admin = |permissions| {
        let reference = ValueReference::new(200, &b"0.NA/10.5555"[..]);
        Admin { permissions, reference, legacy_byte_length: false }.to_bytes()
    };
    let group = ValueList {
        members: vec![ValueReference::parse("300:10.5555/ADMIN"), ValueReference::parse("0:0.NA/10.5555")],
    };
    let mut values = vec![
        HandleValue {
            timestamp: 1_700_000_000,
            ..HandleValue::new(1, "URL", "https://example.org/a b?x=<1>")
        },
        HandleValue {
            ttl: tendot_proto::Ttl::Absolute(1_800_000_000),
            ..HandleValue::new(2, "URL.mobile", "https://m.example.org/")
        },
        HandleValue { ttl: tendot_proto::Ttl::Relative(0), ..HandleValue::new(3, "EMAIL", "me@example.org") },
        HandleValue {
            ttl: tendot_proto::Ttl::Relative(90),
            ..HandleValue::new(4, "DESC", "Ein Satz, dann ".repeat(30))
        },
        HandleValue::new(5, "10320/loc", LOCATIONS),
        HandleValue::with_data(6, "X.BYTES", vec![0, 1, 2, 0xff]),
        HandleValue::new(7, "X.LINES", "one\ntwo\n\tthree"),
        HandleValue::with_data(100, "HS_ADMIN", admin(AdminPermissions::ALL)),
        HandleValue::with_data(101, "HS_ADMIN", admin(permissions_subset)),
        HandleValue::with_data(102, "HS_ADMIN", &b"not one"[..]),
        HandleValue::with_data(200, "HS_VLIST", group.to_bytes()),
    ];
    for line in include_str!("../../../../conformance/vectors/handle-net/records.jsonl").lines() {
        let record = HandleRecord::from_json(line.as_bytes()).unwrap();
        let sites_and_keys = record
            .values
            .into_iter()
            .filter(|value| (value.has_type("HS_SITE") || value.has_type("HS_PUBKEY")) && value.is_public());
        for value in sites_and_keys {
            if !values.iter().any(|other| other.value_type == value.value_type) {
                values.push(HandleValue { index: 300 + values.len() as u32, ..value });
            }
        }
    }
    values
}

fn hostile() -> Vec<HandleValue<'static>> {
    let script = "<script>alert(1)</script>";
    let image = "\"><img src=x onerror=alert(1)>";
    let locations = "<locations><location href='javascript:alert(1)' role='&lt;script&gt;alert(1)&lt;/script&gt;'/>\
        <location href='https://example.org/&quot;&gt;&lt;img src=x onerror=alert(1)&gt;'/></locations>";
    vec![
        HandleValue::new(1, "URL", format!("https://example.org/{image}")),
        HandleValue::new(2, script, script),
        HandleValue::new(3, "DESC", image),
        HandleValue::new(4, "DESC", "]]> +ADw-script+AD4- \u{2028} \u{202e}txt.exe\u{2066}"),
        HandleValue::new(5, "10320/loc", locations),
        HandleValue::new(6, "EMAIL", image),
        HandleValue::new(7, "HS_ALIAS.x", script),
        HandleValue::new(8, "NOTE", format!("{script}\n{}", image.repeat(100))),
        HandleValue::with_data(
            9,
            "HS_ADMIN",
            Admin {
                permissions: AdminPermissions::ALL,
                reference: ValueReference::new(1, image.as_bytes().to_vec()),
                legacy_byte_length: false,
            }
            .to_bytes(),
        ),
        HandleValue::new(10, "URL", "javascript:alert(1)"),
        HandleValue::new(11, "URL", "data:text/html,<script>alert(1)</script>"),
    ]
}
