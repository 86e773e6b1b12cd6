//! Names over HTTP on every write path: grammar, written forms, reserved suffixes, directory codes, length; and what a policy
//! and an allocation protect. `name_rules_native.rs` has the native protocol.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tendot_proto::HandleValue;
use tendot_registry::{RecordLimits, Registry, RegistrySettings};
use tendot_server::http::{HttpLimits, HttpServer};

use crate::support::api_client::{ApiClient, over_all_stores};
use crate::support::edits::{commit_as, put_edit};
use crate::support::fixtures::kernel_metadata;
use crate::support::http_server::{TOKEN, bind, start_http};
use crate::support::native_server::{now, url_value};
use crate::support::stores::StoreKind;

over_all_stores!(
    statement_055_empty_suffixes_are_refused,
    statement_142_invalid_characters_are_refused,
    allocated_prefixes_stay_homed,
    updated_follows_every_write_path,
    host_policy_covers_what_leads_away,
    audit_f17_user_information_does_not_disguise_the_host,
    audit_f17_links_stay_within_the_host_policy,
    audit_f17_templates_stay_within_the_host_policy,
    redaction_marks_cannot_be_forged,
    registration_takes_written_forms,
    batches_take_written_forms,
    statement_150_reserved_suffixes,
);

const VALUES: &[u8] = br#"[{"index":1,"type":"URL","data":"https://example.org/"}]"#;

/// Names that violate the grammar of DOIs, percent-encoded: control, format, private-use, unassigned and noncharacters.
const INVALID_SUFFIXES: [&str; 7] =
    ["a%7Fb", "a%C2%85b", "a%E2%80%A9b", "a%EE%80%80b", "a%CD%B8b", "a%EF%B7%90b", "a%F4%8F%BF%BFb"];

/// Response of Handle.Net's API to the creation of a record: status and response code.
fn put(client: &ApiClient, name: &str) -> (u16, Json) {
    let response = client.send("PUT", &format!("/api/handles/{name}"), TOKEN, &[], VALUES);
    (response.status, response.json()["responseCode"].clone())
}

fn home(client: &ApiClient, prefix: &str) {
    assert_eq!(client.send("POST", &format!("/api/prefixes/{prefix}"), TOKEN, &[], b"").status, 200);
}

fn statement_055_empty_suffixes_are_refused(client: &ApiClient) {
    client.create_fixtures();
    home(client, "10.1000");
    home(client, "20.500");
    for prefix in ["10.1000", "10.70000"] {
        assert_eq!(put(client, &format!("{prefix}/")), (400, json!(102)));
        assert_eq!(client.send("GET", &format!("/api/handles/{prefix}/"), "", &[], b"").status, 404);
    }
    let body = json!({"name": "10.70000/", "url": "https://example.org/"});
    client.check("POST", "/dois", TOKEN, &body, (422, "invalid-name"));
    assert_eq!(put(client, "20.500/"), (201, json!(1)), "the grammar is that of DOIs");
}

fn statement_142_invalid_characters_are_refused(client: &ApiClient) {
    client.create_fixtures();
    home(client, "10.1000");
    home(client, "20.500");
    for suffix in INVALID_SUFFIXES {
        for prefix in ["10.1000", "10.70000"] {
            assert_eq!(put(client, &format!("{prefix}/{suffix}")), (400, json!(102)), "{prefix}/{suffix}");
        }
    }
    let private_use = "a%EE%80%80b";
    assert_eq!(put(client, &format!("20.500/{private_use}")), (201, json!(1)));
    assert_eq!(put(client, "10.1000/%E4%BE%8B%20%28%C3%9C%29"), (201, json!(1)));
    // A record that was imported can be changed.
    let imported = put_edit("10.1000/a\u{e000}b", vec![url_value(1, "https://example.org/old")]);
    client.server.commit(vec![imported]);
    let target = format!("/api/handles/10.1000/{private_use}?overwrite=true");
    assert_eq!(client.send("PUT", &target, TOKEN, &[], VALUES).status, 200);
}

/// An allocated prefix cannot be unhomed: its registered names would not resolve.
fn allocated_prefixes_stay_homed(client: &ApiClient) {
    client.create_fixtures();
    home(client, "10.1000");
    client.create("/dois", &json!({"name": "10.70000/kept", "url": "https://example.org/"}));
    for prefix in ["10.70000", "0.NA/10.70000"] {
        let response = client.send("DELETE", &format!("/api/prefixes/{prefix}"), TOKEN, &[], b"");
        assert_eq!(response.status, 400, "{}", response.text());
        assert!(response.text().contains("allocated"), "{}", response.text());
    }
    assert_eq!(client.redirect_of("10.70000/kept").0, 302);
    assert_eq!(client.send("DELETE", "/api/prefixes/10.1000", TOKEN, &[], b"").status, 200);
}

fn updated_follows_every_write_path(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    let values = json!([{"index": 2, "type": "EMAIL", "data": "a@example.org"}]);
    let body = json!({"name": "10.70000/u", "url": "https://example.org/", "values": values});
    let created = client.create("/dois", &body);
    // Without the `Z`, times sort as text, whether or not they have milliseconds.
    let time = |json: &Json| json["updated"].as_str().unwrap().trim_end_matches('Z').to_owned();
    let mut last = time(&created);
    let mut check_later = |step: &str| {
        let now = client.check("GET", "/dois/10.70000/u", "", &Json::Null, (200, ""));
        let listed = client.check("GET", "/dois?prefix=10.70000", "", &Json::Null, (200, ""));
        assert_eq!(now["created"], created["created"], "{step}");
        let updated = time(&now);
        assert!(updated > last, "{step}: {updated}, before {last}");
        assert_eq!(listed["items"][0]["updated"], now["updated"], "{step}");
        last = updated;
        // Times have milliseconds.
        thread::sleep(Duration::from_millis(3));
    };
    thread::sleep(Duration::from_millis(3));
    let send = |method: &str, query: &str, body: &[u8]| {
        let target = format!("/api/handles/10.70000/u?{query}");
        let response = client.send(method, &target, TOKEN, &[], body);
        assert!(response.status < 300, "{method} {query}: {}", response.text());
    };
    send("PUT", "index=3", br#"[{"index":3,"type":"EMAIL","data":"b@example.org"}]"#);
    check_later("added value");
    send("PUT", "index=3&overwrite=true", br#"[{"index":3,"type":"EMAIL","data":"c@example.org"}]"#);
    check_later("changed value");
    send("DELETE", "index=3", b"");
    check_later("removed value");
    client.check("PUT", "/dois/10.70000/u", TOKEN, &json!({"url": "https://example.org/2"}), (200, ""));
    check_later("registry API");
    let results = client.batch(TOKEN, &[], r#"{"name": "10.70000/u", "url": "https://example.org/3"}"#);
    assert_eq!(results[0]["status"], "updated", "{results:?}");
    check_later("batch");
    let transfer = json!({"names": ["10.70000/u"], "to": fixtures.registrants[1], "force": true});
    assert_eq!(client.create("/transfers", &transfer)["state"], "done");
    check_later("transfer");
    // A redaction removes earlier states, and leaves the present one as it is.
    let read = || client.check("GET", "/dois/10.70000/u", "", &Json::Null, (200, ""));
    let (before, redaction) = (read(), json!({"name": "10.70000/u", "reason": "request"}));
    client.check("POST", "/redactions", TOKEN, &redaction, (200, ""));
    assert_eq!(read(), before);
    // An import writes the record, but not its registration.
    thread::sleep(Duration::from_millis(1_100));
    let timestamp = u32::try_from(now().unix).unwrap();
    let value = HandleValue { timestamp, ..url_value(1, "https://example.org/imported") };
    let store = &client.server.store;
    let edits = vec![put_edit("10.70000/u", vec![value])];
    client.server.runtime.block_on(commit_as(store, "import", now().unix * 1_000, edits));
    check_later("import");
}

/// With a host policy, everything that the resolver follows stays within it: URLs, locations, included records and aliases.
fn host_policy_covers_what_leads_away(client: &ApiClient) {
    client.create_fixtures();
    let policy = json!({"policy": {"hosts": ["example.org"]}});
    client.check("PUT", "/prefixes/10.70000", TOKEN, &policy, (200, ""));
    let location = |attributes: &str, content: &str| format!("<locations{attributes}>{content}</locations>");
    let inside = r#"<location href="https://www.example.org/" weight="1"/>"#;
    let outside = r#"<location href="https://evil.example/" weight="1"/>"#;
    let template = r#"<location href_template="https://evil.example/{hdl}"/>"#;
    let cases = [
        ("URL", "https://example.org/".to_owned(), true),
        ("URL", "https://evil.example/".to_owned(), false),
        ("URL.mobile", "https://evil.example/".to_owned(), false),
        ("10320/loc", location("", inside), true),
        ("10320/loc", location("", outside), false),
        ("10320/loc", location("", template), false),
        ("10320/loc", location("", &template.replace("evil.example", "example.org")), true),
        ("10320/loc", location("", &template.replace("evil.example", "{hdl:path}.example.org")), false),
        ("10320/loc", location("", &format!("{inside}<include>10.70001/x</include>")), false),
        ("10320/loc", location("", &format!("{inside}<include>10.70000/x</include>")), true),
        ("10320/loc", location(" include='10.70000/x,10.70001/x'", inside), false),
        ("10320/loc", location(" nshdl='10.70001/x'", inside), false),
        ("HS_ALIAS", "10.70001/x".to_owned(), false),
        ("hs_alias", " 10.70001/x".to_owned(), false),
        ("HS_ALIAS", "https://evil.example/".to_owned(), false),
        ("HS_ALIAS", "10.70000/x".to_owned(), true),
    ];
    for (number, (value_type, data, is_allowed)) in cases.iter().enumerate() {
        let value = json!({"index": 2, "type": value_type, "data": data});
        let url = json!({"index": 1, "type": "URL", "data": "https://example.org/"});
        let body =
            json!({"name": format!("10.70000/a{number}"), "url": "https://example.org/", "values": [value]});
        let expected = if *is_allowed { (201, "") } else { (422, "host-not-allowed") };
        client.check("POST", "/dois", TOKEN, &body, expected);
        let name = format!("/api/handles/10.70000/b{number}");
        let record = serde_json::to_vec(&json!([url, value])).unwrap();
        let response = client.send("PUT", &name, TOKEN, &[], &record);
        assert_eq!(response.status, if *is_allowed { 201 } else { 400 }, "{value}: {}", response.text());
        // Added to an existing record.
        let plain = client.send("PUT", &format!("/api/handles/10.70000/c{number}"), TOKEN, &[], VALUES);
        assert_eq!(plain.status, 201, "{}", plain.text());
        let target = format!("/api/handles/10.70000/c{number}?index=2");
        let record = serde_json::to_vec(&json!([value])).unwrap();
        let response = client.send("PUT", &target, TOKEN, &[], &record);
        assert_eq!(response.status < 300, *is_allowed, "{value}: {}", response.text());
    }
    // Without a host policy, aliases may lead anywhere.
    let body =
        json!({"name": "10.70001/y", "values": [{"index": 2, "type": "HS_ALIAS", "data": "10.70000/a0"}]});
    client.check("POST", "/dois", TOKEN, &body, (201, ""));
}

/// The host of an address is that to which browsers connect, in each kind of value and on each write path.
fn audit_f17_user_information_does_not_disguise_the_host(client: &ApiClient) {
    client.create_fixtures();
    home(client, "20.500");
    let policy = json!({"policy": {"hosts": ["example.org"]}});
    client.check("PUT", "/prefixes/10.70000", TOKEN, &policy, (200, ""));
    let location = |href: &str| format!("<locations><location href='{href}'/></locations>");
    let template = |href: &str| format!("<locations><location href_template='{href}'/></locations>");
    let link = |href: &str| format!("<links><location rel='item' href='{href}'/></links>");
    let write = |name: &str, value: &Json| {
        let body = json!({"name": name, "url": "https://example.org/", "values": [value]});
        let (target, record) =
            (format!("/api/handles/{name}h"), serde_json::to_vec(&json!([value])).unwrap());
        let native = client.send("PUT", &target, TOKEN, &[], &record).status;
        (client.send("POST", "/api/v1/dois", TOKEN, &[], body.to_string().as_bytes()).status, native)
    };
    let outside = [
        "https://example.org:x@evil.example/",
        "https://example.org@evil.example/",
        "https://@evil.example/",
        "https://evil.example\\.example.org/",
        "https://evil.example%2F.example.org/",
        "https://evil.example&#x9;.example.org/",
        "https://[2001:db8::1]/",
        "https:evil.example",
        "https:\\\\evil.example/",
    ];
    for (number, href) in outside.into_iter().enumerate() {
        let values = [("10320/loc", location(href)), ("10320/loc", template(href)), ("URL", href.into())];
        for (kind, (value_type, data)) in values.into_iter().enumerate() {
            let value = json!({"index": 2, "type": value_type, "data": data});
            let name = format!("10.70000/out{number}-{kind}");
            assert_eq!(write(&name, &value), (422, 400), "{value}");
        }
    }
    let inside =
        ["https://www.example%2Eorg./", "https://EXAMPLE\u{3002}org/", "https://example.org\\@evil.example/"];
    for (number, href) in inside.into_iter().enumerate() {
        let name = format!("10.70000/in{number}");
        let value = json!({"index": 2, "type": "10320/loc", "data": location(href)});
        assert_eq!(write(&name, &value), (201, 201), "{value}");
        let response = client.send("GET", &format!("/{name}"), "", &[], b"");
        let target = url::Url::parse(response.header("location").unwrap()).unwrap();
        assert!(target.host_str().unwrap().trim_end_matches('.').ends_with("example.org"), "{target}");
    }
    // Registered names have no user information even without a policy; other handles may.
    for (number, data) in ["location", "link", "url"].into_iter().enumerate() {
        let href = "https://example.org:x@evil.example/";
        let (value_type, data) = match data {
            "location" => ("10320/loc", location(href)),
            "link" => ("10320/links", link(href)),
            _ => ("URL", href.into()),
        };
        let value = json!({"index": 2, "type": value_type, "data": data});
        assert_eq!(write(&format!("10.70001/a{number}"), &value), (422, 400), "{value}");
        let record = serde_json::to_vec(&json!([value])).unwrap();
        let name = format!("/api/handles/20.500/a{number}");
        let expected = if value_type == "URL" { 400 } else { 201 };
        assert_eq!(client.send("PUT", &name, TOKEN, &[], &record).status, expected, "{value}");
    }
}

/// The host policy holds for links, too: in `10320/links` values and in `Link` lines that are added to responses.
fn audit_f17_links_stay_within_the_host_policy(client: &ApiClient) {
    client.create_fixtures();
    let policy = json!({"policy": {"hosts": ["example.org"]}});
    client.check("PUT", "/prefixes/10.70000", TOKEN, &policy, (200, ""));
    let links = |href: &str| format!("<links><location rel='item' href='{href}'/></links>");
    let line = |href: &str| format!("X-Shelf: 7\nLink: <https://example.org/>; rel=a, <{href}>; rel=b");
    let write = |name: &str, value: &Json| {
        let body = json!({"name": name, "url": "https://example.org/", "values": [value]});
        let registered = client.send("POST", "/api/v1/dois", TOKEN, &[], body.to_string().as_bytes()).status;
        let record = serde_json::to_vec(&json!([value])).unwrap();
        let target = format!("/api/handles/{name}h");
        (registered, client.send("PUT", &target, TOKEN, &[], &record).status)
    };
    let outside =
        ["https://evil.example/", "https://example.org:x@evil.example/", "//evil.example/", "/10.1/x"];
    for (number, href) in outside.into_iter().enumerate() {
        for (value_type, data) in [("10320/links", links(href)), ("10320/headers", line(href))] {
            let value = json!({"index": 2, "type": value_type, "data": data});
            let name = format!("10.70000/out{number}-{}", &value_type[6..]);
            assert_eq!(write(&name, &value), (422, 400), "{value}");
        }
    }
    let malformed =
        json!({"index": 2, "type": "10320/headers", "data": "Link: <https://example.org/>; title=\"a"});
    assert_eq!(write("10.70000/malformed", &malformed), (422, 400));
    for (value_type, data) in [
        ("10320/links", links("https://www.example.org/")),
        ("10320/headers", line("https://www.example.org/")),
    ] {
        let name = format!("10.70000/in-{}", &value_type[6..]);
        let value = json!({"index": 2, "type": value_type, "data": data});
        assert_eq!(write(&name, &value), (201, 201), "{value}");
        let response = client.send("GET", &format!("/{name}"), "", &[], b"");
        assert!(response.headers("link").any(|link| link.contains("<https://www.example.org/>")));
    }
    // Without a policy, links lead anywhere.
    let value = json!({"index": 2, "type": "10320/headers", "data": line("https://evil.example/")});
    assert_eq!(write("10.70001/x", &value).0, 201);
}

/// The client chooses the extension of a name that a template derives: it must not lead to another host.
fn audit_f17_templates_stay_within_the_host_policy(client: &ApiClient) {
    client.create_fixtures();
    let namespace = "<namespace><template delimiter='~'><value type='URL' data='https://example.org${extension}'/>\
        </template></namespace>";
    let values = json!([{"index": 10, "type": "HS_NAMESPACE", "data": namespace}]);
    let record = serde_json::to_vec(&values).unwrap();
    for prefix in ["10.70000", "10.70001"] {
        let target = format!("/api/handles/0.NA/{prefix}?index=10");
        let response = client.send("PUT", &target, TOKEN, &[], &record);
        assert!(response.status < 300, "{}", response.text());
        assert_eq!(put(client, &format!("{prefix}/base")), (201, json!(1)));
    }
    let policy = json!({"policy": {"hosts": ["example.org"]}});
    client.check("PUT", "/prefixes/10.70000", TOKEN, &policy, (200, ""));
    let target = |name: &str| {
        let response = client.send("GET", &format!("/{name}"), "", &[], b"");
        response.header("location").map(str::to_owned)
    };
    for prefix in ["10.70000", "10.70001"] {
        assert_eq!(target(&format!("{prefix}/base~/x")).as_deref(), Some("https://example.org/x"));
        assert_eq!(target(&format!("{prefix}/base~:x@evil.example")), None);
    }
    assert_eq!(target("10.70000/base~.evil.example"), None);
    assert_eq!(target("10.70001/base~.evil.example").as_deref(), Some("https://example.org.evil.example"));
}

/// Only a redaction writes its mark: a record must not look redacted, nor keep metadata from being redacted.
fn redaction_marks_cannot_be_forged(client: &ApiClient) {
    const MARK: &str = r#"{"at":1,"by":"operator","reason":"x"}"#;
    client.create_fixtures();
    let mark = json!({"index": 2, "type": "0.TENDOT/REDACTED", "data": MARK});
    let record = serde_json::to_vec(&json!([mark])).unwrap();
    let response = client.send("PUT", "/api/handles/10.70000/forged", TOKEN, &[], &record);
    assert_eq!(response.status, 400, "{}", response.text());
    let body = json!({"name": "10.70000/forged", "url": "https://example.org/", "values": [mark]});
    client.check("POST", "/dois", TOKEN, &body, (422, "invalid-value"));

    // An import can write it; the metadata of that state is redacted nevertheless.
    let metadata = |title: &str| serde_json::from_str::<Json>(&kernel_metadata(title)).unwrap();
    let body =
        json!({"name": "10.70000/a", "url": "https://example.org/", "metadata": metadata("Private title")});
    client.check("POST", "/dois", TOKEN, &body, (201, ""));
    let imported = put_edit("10.70000/a", vec![HandleValue::new(1, "0.TENDOT/REDACTED", MARK)]);
    client.server.commit(vec![imported]);
    let update = json!({"url": "https://example.org/", "values": [], "metadata": metadata("Public title")});
    client.check("PUT", "/dois/10.70000/a", TOKEN, &update, (200, ""));
    let redaction = json!({"name": "10.70000/a", "reason": "request"});
    let redacted = client.check("POST", "/redactions", TOKEN, &redaction, (200, ""));
    assert_eq!(redacted["states"], 2, "{redacted}");
    let history = client.send("GET", "/api/v1/history/10.70000/a", TOKEN, &[], b"").text().into_owned();
    assert!(!history.contains("Private title"), "{history}");
}

/// Each written form of a name, the stored name, and the form that is reported.
const WRITTEN_FORMS: [(&str, &str, Option<&str>); 9] = [
    ("10.70000/a", "10.70000/a", None),
    ("doi:10.70000/b%23c", "10.70000/b#c", Some("doi")),
    ("DOI:10.70000/d", "10.70000/d", Some("doi")),
    ("urn:doi:10.70000/e%23f", "10.70000/e#f", Some("urn")),
    ("https://doi.org/10.70000/g%23h", "10.70000/g#h", Some("proxy-url")),
    ("http://dx.doi.org/10.70000/i%2Fj", "10.70000/i/j", Some("proxy-url")),
    ("info:doi/10.70000/k", "10.70000/k", Some("info")),
    ("https://hdl.handle.net/10.70000/l", "10.70000/l", Some("handle-url")),
    ("https://doi.org/10.70000/m%2523n", "10.70000/m%23n", Some("proxy-url")),
];

fn registration_takes_written_forms(client: &ApiClient) {
    client.create_fixtures();
    let policy = json!({"policy": {"rules": "current"}});
    client.check("PUT", "/prefixes/10.70000", TOKEN, &policy, (200, ""));
    for (written, name, form) in WRITTEN_FORMS {
        let body = json!({"name": written, "url": "https://example.org/"});
        let dry = client.json("POST", "/dois?dry-run=true", TOKEN, &[], &body);
        let created = client.create("/dois", &body);
        for response in [&dry.json, &created] {
            assert_eq!((&response["name"], response["form"].as_str()), (&json!(name), form), "{written}");
            assert_eq!(response["warnings"], Json::Null, "{written}");
        }
        client.check("POST", "/dois", TOKEN, &body, (409, "already-registered"));
    }
    // The form is that of a request, not of the name.
    let found = client.check("GET", "/dois/10.70000/b%23c", "", &Json::Null, (200, ""));
    assert_eq!((&found["name"], &found["form"]), (&json!("10.70000/b#c"), &Json::Null));
    assert_eq!(client.redirect_of("10.70000/b%23c").0, 302);
    // A bare name that looks encoded is stored as it stands.
    let bare = client.create("/dois", &json!({"name": "10.70000/x%23y", "url": "https://example.org/"}));
    assert_eq!((&bare["name"], &bare["form"]), (&json!("10.70000/x%23y"), &Json::Null));
    let warning = bare["warnings"][0].as_str().unwrap();
    assert!(warning.contains("10.70000/x#y") && warning.contains("doi:10.70000/x%23y"), "{warning}");
    let percent = client.create("/dois", &json!({"name": "10.70000/100%", "url": "https://example.org/"}));
    assert_eq!(percent["warnings"], Json::Null);
    // What is not a written form of a DOI is refused, as are shortDOIs.
    for invalid in
        ["https://example.org/10.70000/z", "https://doi.org/10.70000/%zz", "doi:10/abc", "DOI: 10.70000/z"]
    {
        let body = json!({"name": invalid, "url": "https://example.org/"});
        client.check("POST", "/dois", TOKEN, &body, (422, "invalid-name"));
    }
    // An update may have the name in any form, too.
    let body = json!({"name": "doi:10.70000/b%23c", "url": "https://example.org/2"});
    client.check("PUT", "/dois/10.70000/b%23c", TOKEN, &body, (200, ""));
}

fn batches_take_written_forms(client: &ApiClient) {
    client.create_fixtures();
    let policy = json!({"policy": {"rules": "current"}});
    client.check("PUT", "/prefixes/10.70000", TOKEN, &policy, (200, ""));
    let mut lines = String::new();
    let mut rows = "name,url\n".to_owned();
    for (written, ..) in WRITTEN_FORMS {
        lines += &format!("{}\n", json!({"name": written, "url": "https://example.org/"}));
        rows += &format!("{written},https://example.org/\n");
    }
    lines += "{\"name\":\"10.70000/x%23y\",\"url\":\"https://example.org/\"}\n";
    rows += "10.70000/x%23y,https://example.org/\n";
    for (headers, body, status) in
        [(&[][..], &lines, "created"), (&["Content-Type: text/csv"][..], &rows, "unchanged")]
    {
        let results = client.batch(TOKEN, headers, body);
        assert_eq!(results.len(), WRITTEN_FORMS.len() + 1);
        for ((written, name, form), result) in WRITTEN_FORMS.iter().zip(&results) {
            let found = (result["status"].as_str(), result["name"].as_str(), result["form"].as_str());
            assert_eq!(found, (Some(status), Some(*name), *form), "{written}: {result}");
        }
        let bare = results.last().unwrap();
        assert_eq!((&bare["name"], &bare["form"]), (&json!("10.70000/x%23y"), &Json::Null), "{bare}");
        assert_eq!(bare["warnings"].is_array(), status == "created", "{bare}");
    }
}

/// Suffixes of one character and a slash are reserved (Z39.84, section 4.3) unless the policy of the prefix allows them.
fn statement_150_reserved_suffixes(client: &ApiClient) {
    client.create_fixtures();
    let set_rules = |rules: Json| {
        let policy = json!({"policy": {"rules": rules}});
        client.json("PUT", "/prefixes/10.70000", TOKEN, &[], &policy).status
    };
    let register = |name: &str, expected: (u16, &str)| {
        let body = json!({"name": name, "url": "https://example.org/"});
        client.check("POST", "/dois", TOKEN, &body, expected)
    };
    for name in ["10.70000/a/b", "10.70000/\u{fc}/", "10.70000///"] {
        let refused = register(name, (422, "reserved-suffix"));
        assert!(refused["hint"].as_str().unwrap().contains("current"), "{refused}");
    }
    assert_eq!(put(client, "10.70000/a/b"), (400, json!(202)));
    let line = r#"{"name":"10.70000/a/b","url":"https://example.org/"}"#;
    assert_eq!(client.batch(TOKEN, &[], line)[0]["error"]["code"], "reserved-suffix");
    for name in ["10.70000/ab/c", "10.70000//ab", "10.70000/a"] {
        register(name, (201, ""));
    }
    assert_eq!(set_rules(json!("current")), 200);
    register("10.70000/a/b", (201, ""));
    assert_eq!(put(client, "10.70000/b/c"), (201, json!(1)));
    assert_eq!(set_rules(json!("z3984")), 200);
    register("10.70000/c/d", (422, "reserved-suffix"));
    // Existing names can be changed.
    client.check("PUT", "/dois/10.70000/a/b", TOKEN, &json!({"url": "https://example.org/2"}), (200, ""));
    assert_eq!(set_rules(json!("minimal")), 400);
    // Without an allocation there is no policy.
    home(client, "10.1000");
    assert_eq!(put(client, "10.1000/a/b"), (201, json!(1)));
}

/// Stores of every kind, for tests with settings of their own.
fn with_each_store(settings: &RegistrySettings, test: impl Fn(&ApiClient)) {
    for store in [StoreKind::Memory, StoreKind::Embedded, StoreKind::Postgres] {
        let store = Arc::new(store.open());
        let registry = Arc::new(Registry::with_shared_store(Arc::clone(&store), settings.clone()));
        let http = HttpServer::new(registry).operator_token(TOKEN);
        let server = start_http(http, store, bind(), Vec::new(), HttpLimits::default(), None);
        test(&ApiClient { server });
    }
}

/// The operator decides which directory codes beside 10 the registry allocates.
#[test]
fn statement_091_other_directory_codes() {
    let register = |client: &ApiClient, name: &str, expected: (u16, &str)| {
        let body = json!({"name": name, "url": "https://example.org/"});
        client.check("POST", "/dois", TOKEN, &body, expected)
    };
    let allocate = |client: &ApiClient, registrant: &str, prefix: &str, expected: (u16, &str)| {
        let body = json!({"registrant": registrant, "prefix": prefix});
        client.check("POST", "/prefixes", TOKEN, &body, expected)
    };
    with_each_store(&RegistrySettings::default(), |client| {
        let fixtures = client.create_fixtures();
        for prefix in ["20.500", "20", "11.1", "10", "10.x"] {
            allocate(client, &fixtures.registrants[0], prefix, (422, "invalid-prefix"));
        }
        register(client, "20.500/x", (422, "invalid-name"));
        register(client, "doi:20.500/x", (422, "invalid-name"));
    });
    let directory_codes = vec!["10".into(), "20".into(), "30.4".into()];
    with_each_store(&RegistrySettings { directory_codes, ..RegistrySettings::default() }, |client| {
        let fixtures = client.create_fixtures();
        for prefix in ["20.500.12345", "20", "30.4", "30.4.1", "10.1234"] {
            allocate(client, &fixtures.registrants[0], prefix, (201, ""));
            for (written, name) in [("", "/x"), ("doi:", "/y%23z"), ("urn:doi:", "/z")] {
                let created = register(client, &format!("{written}{prefix}{name}"), (201, ""));
                assert_eq!(created["name"], format!("{prefix}{}", name.replace("%23", "#")));
            }
            assert_eq!(client.redirect_of(&format!("{prefix}/x")).0, 302, "{prefix}");
            let minted = client.create("/dois", &json!({"prefix": prefix, "url": "https://example.org/"}));
            assert!(minted["name"].as_str().unwrap().starts_with(&format!("{prefix}/")), "{minted}");
            register(client, &format!("{prefix}/a\u{e000}"), (422, "invalid-name"));
            assert_eq!(put(client, &format!("{prefix}/")), (400, json!(102)));
        }
        for prefix in ["30.5", "30", "40.1", "10", "20.x"] {
            allocate(client, &fixtures.registrants[0], prefix, (422, "invalid-prefix"));
        }
        // Agencies allocate prefixes of their ranges only.
        let body = json!({"registrant": fixtures.registrants[0], "prefix": "20.7"});
        client.check("POST", "/prefixes", &fixtures.agency_tokens[0], &body, (403, "prefix-out-of-range"));
    });
}

/// The maximum length of names is a setting; errors state it.
#[test]
fn statement_094_length_is_a_setting() {
    let name = |length: usize| format!("10.70000/{}", "x".repeat(length - "10.70000/".len()));
    let check = |client: &ApiClient, limit: usize| {
        client.create_fixtures();
        let body = |length: usize| json!({"name": name(length), "url": "https://example.org/"});
        client.check("POST", "/dois", TOKEN, &body(limit), (201, ""));
        let refused = client.check("POST", "/dois", TOKEN, &body(limit + 1), (422, "invalid-name"));
        assert!(refused["detail"].as_str().unwrap().contains(&limit.to_string()), "{refused}");
        assert_eq!(client.redirect_of(&name(limit)).0, 302);
        let found =
            |length: usize| client.send("GET", &format!("/api/handles/{}", name(length)), "", &[], b"");
        assert_eq!(found(limit).status, 200);
        assert_eq!(
            client.check("GET", &format!("/dois/{}", name(limit)), "", &Json::Null, (200, ""))["name"],
            name(limit)
        );
        let too_long = found(limit + 1);
        assert_eq!((too_long.status, &too_long.json()["responseCode"]), (400, &json!(102)));
        assert!(too_long.text().contains(&limit.to_string()), "{}", too_long.text());
        let record = client.send("PUT", &format!("/api/handles/{}", name(limit + 1)), TOKEN, &[], VALUES);
        assert_eq!(record.status, 400);
        assert!(record.text().contains(&limit.to_string()), "{}", record.text());
        let target = format!("/api/handles/{}?index=1&overwrite=true", name(limit));
        assert_eq!(client.send("PUT", &target, TOKEN, &[], VALUES).status, 200);
    };
    with_each_store(&RegistrySettings::default(), |client| check(client, 2_048));
    let limits = RecordLimits { max_name_bytes: 4_096, ..RecordLimits::default() };
    with_each_store(&RegistrySettings { limits, ..RegistrySettings::default() }, |client| {
        check(client, 4_096);
    });
}
