//! The registry API over each store: parties, DOI names, batches, transfers.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value as Json, json};
use tendot_store::{Edit, EmbeddedStore, MemoryStore, Store as _};
use tendot_testing::{ram_dir, wait_for};

use crate::support::api_client::ApiClient;
use crate::support::http_server::{TOKEN, TestServer};
use crate::support::stores::StoreKind;

/// Runs each function, which takes a client, as a test over each store.
macro_rules! over_all_stores {
    ($($test:ident),+ $(,)?) => {
        mod memory {
            $(#[test]
            fn $test() {
                super::$test(&super::ApiClient::start(super::MemoryStore::new()));
            })+
        }

        mod embedded {
            $(#[test]
            fn $test() {
                let directory = super::ram_dir();
                super::$test(&super::ApiClient::start(super::EmbeddedStore::open(directory.path()).unwrap()));
            })+
        }

        mod postgres {
            $(#[test]
            fn $test() {
                super::$test(&super::ApiClient::start(super::StoreKind::Postgres.open()));
            })+
        }
    };
}

over_all_stores!(
    parties,
    registrations,
    conditions,
    idempotency_keys,
    metadata,
    reserved_names,
    retired_names,
    policies,
    batches,
    batches_are_replayed,
    batches_resume_after_gaps,
    batch_keys_are_bound_to_the_body,
    refused_lines,
    csv_batches,
    slow_csv_rows,
    oversized_csv_rows,
    token_revoked_during_a_batch,
    transfers,
    agency_closes,
    malformed_requests,
);

fn kernel(title: &str) -> Json {
    json!({"primaryReferentType": "Creation", "referentCreation": {
        "name": [{"value": title, "type": "Title", "primaryLanguage": "en"}],
        "structuralType": "Digital", "mode": ["Visual"], "character": ["Language"], "type": ["Article"],
        "principalAgent": [{"name": {"value": "Bak, Per", "type": "Name"}, "role": "Author"}]}})
}

fn parties(client: &ApiClient) {
    let none = &Json::Null;
    client.check("POST", "/agencies", "", &json!({"code": "A", "name": "A"}), (401, "unauthenticated"));
    client.check(
        "POST",
        "/agencies",
        "tendot_x_y",
        &json!({"code": "A", "name": "A"}),
        (401, "unauthenticated"),
    );
    let fixtures = client.create_fixtures();
    assert_eq!(fixtures.prefixes, ["10.70000", "10.70001"]);
    client.check("POST", "/agencies", TOKEN, &json!({"code": "a", "name": "x"}), (409, "agency-exists"));
    client.check("POST", "/agencies", TOKEN, &json!({"code": "a b", "name": "x"}), (422, "bad-code"));
    client.check(
        "POST",
        "/agencies",
        &fixtures.agency_tokens[0],
        &json!({"code": "C", "name": "C"}),
        (403, "not-yours"),
    );
    let listed = client.check("GET", "/agencies", "", none, (200, ""));
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    client.check("GET", "/agencies/a", "", none, (200, ""));
    client.check("GET", "/agencies/c", "", none, (404, "not-found"));
    // An agency creates its own registrants.
    let created = client.json(
        "POST",
        "/registrants",
        &fixtures.agency_tokens[0],
        &[],
        &json!({"name": "New", "contact": "a@b.c"}),
    );
    assert_eq!((created.status, &created.json["agency"]), (201, &json!("A")));
    let path = format!("/registrants/{}", created.json["id"].as_str().unwrap());
    assert_eq!(client.check("GET", &path, &fixtures.agency_tokens[0], none, (200, ""))["contact"], "a@b.c");
    assert_eq!(
        client.check("GET", &path, &fixtures.agency_tokens[1], none, (200, ""))["contact"],
        Json::Null
    );
    client.check("PUT", &path, &fixtures.agency_tokens[1], &json!({"name": "x"}), (403, "not-yours"));
    assert_eq!(
        client.check("PUT", &path, &fixtures.agency_tokens[0], &json!({"name": "Newer"}), (200, ""))["name"],
        "Newer"
    );
    client.check(
        "POST",
        "/registrants",
        &fixtures.agency_tokens[0],
        &json!({"agency": "B", "name": "x"}),
        (403, "not-yours"),
    );
    client.check(
        "POST",
        "/registrants",
        TOKEN,
        &json!({"agency": "C", "name": "x"}),
        (422, "no-such-agency"),
    );
    // Prefixes.
    let body = json!({"registrant": fixtures.registrants[1], "prefix": "10.70000"});
    let response = client.check("POST", "/prefixes", TOKEN, &body, (409, "prefix-taken"));
    assert_eq!(response["existing"], "10.70000");
    client.check(
        "POST",
        "/prefixes",
        &fixtures.agency_tokens[0],
        &json!({"registrant": fixtures.registrants[1]}),
        (403, "not-yours"),
    );
    client.check("POST", "/prefixes", TOKEN, &json!({"registrant": "none"}), (422, "no-such-registrant"));
    client.check(
        "POST",
        "/prefixes",
        TOKEN,
        &json!({"registrant": fixtures.registrants[0], "prefix": "x"}),
        (422, "bad-prefix"),
    );
    client.create(
        "/prefixes",
        &json!({"registrant": fixtures.registrants[0], "prefix": "10.1234", "test": true}),
    );
    let listed = client.check(
        "GET",
        &format!("/prefixes?registrant={}", fixtures.registrants[0]),
        "",
        none,
        (200, ""),
    );
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(client.check("GET", "/prefixes/10.70001", "", none, (200, ""))["agency"], "B");
    // Tokens.
    client.check("GET", "/tokens", "", none, (401, "unauthenticated"));
    let listed = client.check("GET", "/tokens", &fixtures.tokens[0], none, (200, ""));
    let items = listed["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["token"]), (1, &Json::Null), "{listed}");
    let path = format!("/tokens/{}", items[0]["id"].as_str().unwrap());
    client.check("DELETE", &path, &fixtures.tokens[1], none, (404, "not-found"));
    client.check("DELETE", &path, &fixtures.tokens[0], none, (204, ""));
    client.check("GET", "/tokens", &fixtures.tokens[0], none, (401, "unauthenticated"));
    let body = json!({"role": "agency", "subject": "B"});
    client.check("POST", "/tokens", &fixtures.tokens[1], &body, (403, "not-yours"));
    let body = json!({"role": "operator", "expires": "2001-01-01T00:00:00Z"});
    client.check("POST", "/tokens", TOKEN, &body, (422, "expired"));
    let body =
        json!({"role": "registrant", "subject": fixtures.registrants[1], "scopes": ["read"], "label": "CI"});
    let token = client.create("/tokens", &body);
    let body = json!({"name": "10.70001/x", "url": "https://example.org/"});
    client.check("POST", "/dois", token["token"].as_str().unwrap(), &body, (403, "out-of-scope"));
}

fn registrations(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    let doi = |name: &str| json!({"name": name, "url": "https://example.org/1"});
    let response = client.json("POST", "/dois", &fixtures.tokens[0], &[], &doi("10.70000/Abc"));
    assert_eq!((response.status, response.http.header("location")), (201, Some("/api/v1/dois/10.70000/Abc")));
    assert_eq!(response.json["values"][0]["index"], 1);
    assert_eq!(response.json["values"][1]["data"]["value"]["handle"], "0.NA/10.70000");
    assert_eq!(client.redirect_of("10.70000/aBC"), (302, Some("https://example.org/1".into())));
    let refused =
        client.check("POST", "/dois", &fixtures.tokens[0], &doi("10.70000/ABC"), (409, "already-registered"));
    assert_eq!(refused["existing"], "10.70000/Abc");
    assert!(refused["since"].is_string());
    client.check("POST", "/dois", &fixtures.tokens[1], &doi("10.70000/y"), (403, "not-yours"));
    client.check("POST", "/dois", TOKEN, &doi("10.9999/y"), (404, "no-such-prefix"));
    client.check("POST", "/dois", TOKEN, &doi("10.70000"), (422, "bad-name"));
    client.check("POST", "/dois", TOKEN, &doi("10.70000/a\u{202e}b"), (422, "bad-name"));
    client.check("POST", "/dois", TOKEN, &json!({"url": "https://example.org/"}), (422, "missing"));
    client.check("POST", "/dois", TOKEN, &json!({"name": "10.70000/n"}), (422, "missing"));
    for url in
        ["/a", "//example.org/", "javascript:alert(1)", "https://u:p@example.org/", "https://exаmple.org/"]
    {
        let response = client.check(
            "POST",
            "/dois",
            TOKEN,
            &json!({"name": "10.70000/n", "url": url}),
            (422, "bad-url"),
        );
        assert_eq!(response["pointer"], "/url");
    }
    // Minted names.
    let minted = client.create("/dois", &json!({"prefix": "10.70000", "url": "https://example.org/2"}));
    let name = minted["name"].as_str().unwrap();
    assert!(tendot_registry::registration::is_minted(name.strip_prefix("10.70000/").unwrap()), "{name}");
    assert_eq!(client.redirect_of(name).0, 302);
    // Several locations.
    let loc = "<locations><location href=\"https://example.org/loc\" weight=\"1\"/></locations>";
    let values = json!([{"index": 2, "type": "URL", "data": "https://example.org/b"}, {"index": 5, "type": "10320/loc", "data": loc}]);
    let created = client.create("/dois", &json!({"name": "10.70000/many", "values": values}));
    assert_eq!(created["values"].as_array().unwrap().len(), 3);
    for index in [100, 1] {
        let values = json!([{"index": index, "type": "HS_ADMIN", "data": "x"}]);
        client.check(
            "POST",
            "/dois",
            TOKEN,
            &json!({"name": "10.70000/z", "url": "https://a.org/", "values": values}),
            (422, "bad-value"),
        );
    }
    // An update replaces the given members only.
    let body = json!({"url": "https://example.org/3"});
    let changed = client.check("PUT", "/dois/10.70000/ABC", &fixtures.tokens[0], &body, (200, ""));
    assert_eq!(
        (&changed["name"], &changed["url"]),
        (&json!("10.70000/Abc"), &json!("https://example.org/3"))
    );
    assert_eq!(client.redirect_of("10.70000/abc"), (302, Some("https://example.org/3".into())));
    client.check("PUT", "/dois/10.70000/abc", &fixtures.tokens[1], &body, (403, "not-yours"));
    client.check("PUT", "/dois/10.70000/none", &fixtures.tokens[0], &body, (404, "not-found"));
    // A dry run changes nothing.
    let response = client.json("POST", "/dois?dry-run=true", TOKEN, &[], &doi("10.70000/dry"));
    assert_eq!((response.status, client.redirect_of("10.70000/dry").0), (200, 404));
    let listed = client.check("GET", "/dois?prefix=10.70000&limit=2", "", &Json::Null, (200, ""));
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let path = format!("/dois?prefix=10.70000&after={}", listed["next"].as_str().unwrap());
    let rest = client.check("GET", &path, "", &Json::Null, (200, ""));
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (1, &Json::Null), "{rest}");
}

fn conditions(client: &ApiClient) {
    client.create_fixtures();
    let created = client.json(
        "POST",
        "/dois",
        TOKEN,
        &[],
        &json!({"name": "10.70000/a", "url": "https://example.org/1"}),
    );
    let tag = created.http.header("etag").unwrap().to_owned();
    let put = |url: &str, header: &str| {
        client.json("PUT", "/dois/10.70000/a", TOKEN, &[header], &json!({"url": url}))
    };
    let changed = put("https://example.org/2", &format!("If-Match: {tag}"));
    assert_eq!(changed.status, 200);
    let stale = put("https://example.org/3", &format!("If-Match: {tag}"));
    assert_eq!((stale.status, stale.json["code"].as_str()), (412, Some("changed")));
    let read = client.json("GET", "/dois/10.70000/a", "", &[], &Json::Null);
    assert_eq!(read.http.header("etag"), changed.http.header("etag"));
    let same = format!("If-None-Match: {}", read.http.header("etag").unwrap());
    assert_eq!(client.json("GET", "/dois/10.70000/a", "", &[&same], &Json::Null).status, 304);
    assert_eq!(put("https://example.org/4", "If-None-Match: *").status, 412);
    let body = json!({"name": "10.70000/b", "url": "https://example.org/n"});
    let other = client.json("PUT", "/dois/10.70000/new", TOKEN, &["If-None-Match: *"], &body);
    assert_eq!((other.status, other.json["code"].as_str()), (422, Some("other-name")));
    // The registrant is part of the ETag: a transfer changes it without a change of the record.
    let tag = format!("If-None-Match: {}", read.http.header("etag").unwrap());
    let listed = client.check("GET", "/prefixes/10.70001", "", &Json::Null, (200, ""));
    client.create("/transfers", &json!({"prefix": "10.70000", "to": listed["registrant"], "force": true}));
    assert_eq!(client.json("GET", "/dois/10.70000/a", "", &[&tag], &Json::Null).status, 200);
    let new = client.json(
        "PUT",
        "/dois/10.70000/new",
        TOKEN,
        &["If-None-Match: *"],
        &json!({"url": "https://example.org/n"}),
    );
    assert_eq!((new.status, client.redirect_of("10.70000/new").0), (201, 302));
    assert_eq!(client.redirect_of("10.70000/a").1.as_deref(), Some("https://example.org/2"));
}

fn idempotency_keys(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    let send = |token: &str, key: &str, url: &str| {
        let header = format!("Idempotency-Key: {key}");
        client.json("POST", "/dois", token, &[&header], &json!({"prefix": "10.70000", "url": url}))
    };
    let first = send(TOKEN, "k1", "https://example.org/1");
    let second = send(TOKEN, "k1", "https://example.org/1");
    assert_eq!((first.status, second.status), (201, 201));
    assert_eq!(first.http.body, second.http.body);
    assert!(first.http.header("location").is_some());
    assert_eq!(first.http.header("location"), second.http.header("location"));
    let replayed = [&first, &second].map(|response| response.http.header("idempotency-replayed"));
    assert_eq!(replayed, [None, Some("true")]);
    let other = send(TOKEN, "k1", "https://example.org/2");
    assert_eq!((other.status, other.json["code"].as_str()), (422, Some("key-reused")));
    assert_ne!(send(TOKEN, "k2", "https://example.org/1").json["name"], first.json["name"]);
    // Keys are separate for each principal.
    assert_ne!(send(&fixtures.tokens[0], "k1", "https://example.org/1").json["name"], first.json["name"]);
    assert_eq!(send(TOKEN, &"k".repeat(256), "https://example.org/1").status, 400);
    let listed = client.check("GET", "/dois?prefix=10.70000", "", &Json::Null, (200, ""));
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
}

fn metadata(client: &ApiClient) {
    client.create_fixtures();
    let created = client.create(
        "/dois",
        &json!({"name": "10.70000/m", "url": "https://example.org/", "metadata": kernel("One")}),
    );
    assert_eq!(created["metadata"]["referentCreation"]["name"][0]["value"], "One");
    let mut wrong = kernel("Two");
    wrong["referentCreation"]["mode"] = json!(["Visual", "Loud"]);
    let body = json!({"name": "10.70000/w", "url": "https://example.org/", "metadata": wrong});
    let response = client.check("POST", "/dois", TOKEN, &body, (422, "bad-metadata"));
    assert_eq!(response["pointer"], "/metadata/referentCreation/mode/1");
    assert!(response["faults"][0]["allowed"].as_array().unwrap().contains(&json!("Audio")), "{response}");
    // An agency may require metadata.
    client.check("PUT", "/agencies/A", TOKEN, &json!({"metadata": "required"}), (200, ""));
    let body = json!({"name": "10.70000/n", "url": "https://example.org/"});
    let response = client.check("POST", "/dois", TOKEN, &body, (422, "missing"));
    assert_eq!(response["pointer"], "/metadata");
    client.check("PUT", "/dois/10.70000/m", TOKEN, &json!({"metadata": null}), (422, "missing"));
    client.check("PUT", "/dois/10.70000/m", TOKEN, &json!({"metadata": kernel("Other")}), (200, ""));
}

fn reserved_names(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    let reserve = json!({"name": "10.70000/r", "state": "reserved"});
    let created = client.json("POST", "/dois", &fixtures.tokens[0], &[], &reserve);
    assert_eq!((created.status, created.json["state"].as_str()), (201, Some("reserved")));
    assert_eq!(client.redirect_of("10.70000/r").0, 404);
    client.check("GET", "/dois/10.70000/r", "", &Json::Null, (404, "not-found"));
    client.check("GET", "/dois/10.70000/r", &fixtures.tokens[1], &Json::Null, (404, "not-found"));
    client.check("GET", "/dois/10.70000/r", &fixtures.agency_tokens[0], &Json::Null, (200, ""));
    client.check("PUT", "/dois/10.70000/r", &fixtures.tokens[1], &json!({}), (404, "not-found"));
    let listed = client.check("GET", "/dois?prefix=10.70000", "", &Json::Null, (200, ""));
    assert_eq!(listed["items"], json!([]));
    client.check("POST", "/dois", TOKEN, &reserve, (409, "already-registered"));
    client.check(
        "PUT",
        "/dois/10.70000/r",
        &fixtures.tokens[0],
        &json!({"state": "registered"}),
        (422, "missing"),
    );
    let body = json!({"state": "registered", "url": "https://example.org/"});
    client.check("PUT", "/dois/10.70000/r", &fixtures.tokens[0], &body, (200, ""));
    assert_eq!(client.redirect_of("10.70000/r").0, 302);
    client.check(
        "PUT",
        "/dois/10.70000/r",
        &fixtures.tokens[0],
        &json!({"state": "reserved"}),
        (409, "already-public"),
    );
    // A name that never resolved can be removed.
    client.create("/dois", &json!({"name": "10.70000/s", "state": "reserved"}));
    client.check("DELETE", "/dois/10.70000/s?dry-run=true", TOKEN, &Json::Null, (200, ""));
    let gone = client.check("DELETE", "/dois/10.70000/s", TOKEN, &Json::Null, (200, ""));
    assert_eq!(gone["state"], "removed");
    client.create("/dois", &json!({"name": "10.70000/s", "state": "reserved"}));
}

fn retired_names(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    client.create("/dois", &json!({"name": "10.70000/a", "url": "https://example.org/"}));
    client.check("DELETE", "/dois/10.70000/a", &fixtures.tokens[1], &Json::Null, (403, "not-yours"));
    let ended = client.check("DELETE", "/dois/10.70000/A", &fixtures.tokens[0], &Json::Null, (200, ""));
    assert_eq!(ended["state"], "tombstone");
    assert_eq!(client.redirect_of("10.70000/a").0, 410);
    assert_eq!(client.send("GET", "/api/handles/10.70000/a", "", &[], b"").status, 404);
    let read = client.check("GET", "/dois/10.70000/a", "", &Json::Null, (200, ""));
    assert_eq!((&read["state"], read["ended"].is_string()), (&json!("tombstone"), true));
    let again = json!({"name": "10.70000/A", "url": "https://example.org/"});
    client.check("POST", "/dois", TOKEN, &again, (409, "already-registered"));
    client.check("PUT", "/dois/10.70000/a", TOKEN, &json!({}), (410, "ended"));
    client.check("DELETE", "/dois/10.70000/a", TOKEN, &Json::Null, (410, "ended"));
    let history = client.check("GET", "/history/10.70000/a", "", &Json::Null, (200, ""));
    assert_eq!(history["items"].as_array().unwrap().len(), 2);
    // The same over the Handle API.
    client.create("/dois", &json!({"name": "10.70000/b", "url": "https://example.org/"}));
    assert_eq!(client.send("DELETE", "/api/handles/10.70000/b", &fixtures.tokens[0], &[], b"").status, 200);
    assert_eq!(client.redirect_of("10.70000/b").0, 410);
    // Names under a test prefix can be removed.
    client.create(
        "/prefixes",
        &json!({"registrant": fixtures.registrants[0], "prefix": "10.5072", "test": true}),
    );
    for _ in 0..2 {
        client.create("/dois", &json!({"name": "10.5072/t", "url": "https://example.org/"}));
        client.check("DELETE", "/dois/10.5072/t", TOKEN, &Json::Null, (200, ""));
    }
}

fn policies(client: &ApiClient) {
    client.create_fixtures();
    let set = |policy: Json| {
        client.json("PUT", "/prefixes/10.70000", TOKEN, &[], &json!({"policy": policy})).status
    };
    let doi = |name: &str, url: &str| {
        let response = client.json("POST", "/dois", TOKEN, &[], &json!({"name": name, "url": url}));
        (response.status, response.json["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(set(json!({"pattern": "[a-z]{2,4}"})), 200);
    assert_eq!(doi("10.70000/abc", "https://example.org/").0, 201);
    assert_eq!(doi("10.70000/abcde", "https://example.org/"), (422, "pattern".into()));
    assert_eq!(set(json!({"pattern": "("})), 422);
    assert_eq!(set(json!({"hosts": ["example.org"]})), 200);
    assert_eq!(doi("10.70000/h", "https://www.example.org/").0, 201);
    assert_eq!(doi("10.70000/i", "https://example.com/"), (422, "host".into()));
    let body = br#"[{"index":1,"type":"URL","data":"https://example.com/"}]"#;
    let native = client.send("PUT", "/api/handles/10.70000/j", TOKEN, &[], body);
    assert_eq!(native.status, 400, "{}", native.text());
    assert_eq!(set(json!({"quota": 4})), 200);
    assert_eq!(doi("10.70000/q1", "https://example.com/").0, 201);
    assert_eq!(doi("10.70000/q2", "https://example.com/").0, 201);
    assert_eq!(doi("10.70000/q3", "https://example.com/"), (507, "quota".into()));
    assert_eq!(set(json!({"confusable": "refuse"})), 200);
    assert_eq!(doi("10.70000/caf\u{e9}", "https://example.com/").0, 201);
    assert_eq!(doi("10.70000/cafe\u{301}", "https://example.com/"), (409, "confusable".into()));
    assert_eq!(set(json!({"confusable": "warn"})), 200);
    assert_eq!(doi("10.70000/cafe\u{301}", "https://example.com/").0, 201);
}

fn batches(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    // Every hundredth of 5,000 lines is invalid; each line has a result, in order.
    let mut body = String::new();
    for number in 1..=5_000 {
        body += &match number % 100 {
            0 if number % 200 == 0 => format!("{{\"name\":\"10.70000/{number}\",\"url\":\"nowhere\"}}\n"),
            0 => "not JSON\n".to_owned(),
            _ => format!("{{\"name\":\"10.70000/{number}\",\"url\":\"https://example.org/{number}\"}}\r\n"),
        };
    }
    let response = client.batch(&fixtures.tokens[0], &["Content-Type: application/x-ndjson"], &body);
    assert_eq!(response.len(), 5_000);
    for (line, number) in response.iter().zip(1..) {
        let expected = if number % 100 == 0 { "refused" } else { "created" };
        assert_eq!((&line["line"], &line["status"]), (&json!(number), &json!(expected)), "{line}");
        if number % 100 == 0 {
            let code = if number % 200 == 0 { "bad-url" } else { "malformed" };
            assert_eq!((&line["error"]["code"], &line["error"]["line"]), (&json!(code), &json!(number)));
        }
    }
    assert_eq!(client.redirect_of("10.70000/4999").0, 302);
    assert_eq!(client.redirect_of("10.70000/5000").0, 404);
    // Existing names are updated or unchanged; the lines of a batch apply in order.
    let line = |name: &str, url: &str| format!("{{\"name\":\"{name}\",\"url\":\"{url}\"}}\n");
    let mut body =
        line("10.70000/1", "https://example.org/1") + &line("10.70000/2", "https://example.org/new");
    body += "\n";
    body += &(line("10.70000/new", "https://example.org/a") + &line("10.70000/NEW", "https://example.org/b"));
    body += &(line("10.70001/x", "https://example.org/a") + &line("10.9/x", "https://example.org/a"));
    let mut lines = body.clone();
    for number in 0..3_000 {
        lines += &line("10.70000/same", &format!("https://example.org/{number}"));
    }
    let response = client.batch(&fixtures.tokens[0], &[], &lines);
    let statuses: Vec<&str> = response.iter().take(6).map(|line| line["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["unchanged", "updated", "created", "updated", "refused", "refused"]);
    assert_eq!((&response[2]["line"], &response[3]["name"]), (&json!(4), &json!("10.70000/new")));
    assert_eq!(client.redirect_of("10.70000/same").1.as_deref(), Some("https://example.org/2999"));
    // A dry run.
    let response = client.send(
        "POST",
        "/api/v1/dois/batch?dry-run=true",
        &fixtures.tokens[0],
        &[],
        line("10.70000/dry", "https://a.org/").as_bytes(),
    );
    assert_eq!(response.json_lines()[0]["status"], "created");
    assert_eq!(client.redirect_of("10.70000/dry").0, 404);
    // Without permission.
    for (token, status) in [("", 401), ("tendot_a_b", 401)] {
        assert_eq!(client.send("POST", "/api/v1/dois/batch", token, &[], b"{}").status, status);
    }
    assert_eq!(
        client.send("POST", "/api/v1/dois/batch", TOKEN, &["Content-Type: text/xml"], b"{}").status,
        415
    );
    for kind in ["application/ndjson", "text/plain; charset=utf-8"] {
        let response = client.batch(TOKEN, &[&format!("Content-Type: {kind}")], &body);
        assert_eq!(response[0]["status"], "unchanged", "{kind}");
    }
    assert_eq!(client.batch(TOKEN, &[], ""), Vec::<Json>::new());
}

fn batches_are_replayed(client: &ApiClient) {
    client.create_fixtures();
    let body: String = (0..2_500)
        .map(|number| format!("{{\"prefix\":\"10.70000\",\"url\":\"https://example.org/{number}\"}}\n"))
        .collect();
    let key = "Idempotency-Key: batch-1";
    let first = client.send("POST", "/api/v1/dois/batch", TOKEN, &[key], body.as_bytes());
    let second = client.send("POST", "/api/v1/dois/batch", TOKEN, &[key], body.as_bytes());
    assert_eq!(first.body, second.body);
    assert_eq!(first.json_lines().len(), 2_500);
    for other in
        [format!("{body}{{}}\n"), body[..body.len() - 100].to_owned(), body.replacen("/7\"", "/x\"", 1)]
    {
        let response = client.send("POST", "/api/v1/dois/batch", TOKEN, &[key], other.as_bytes());
        assert_eq!(response.status, 422, "{}", response.text());
    }
    // A batch whose connection is lost continues where it was: nothing is created twice, and every line has a result.
    let half = body.len() / 2;
    let mut stream = client.server.connect();
    let head = format!(
        "POST /api/v1/dois/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nIdempotency-Key: batch-2\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body.as_bytes()[..half]).unwrap();
    let mut some = [0; 1_000];
    assert!(stream.read(&mut some).unwrap() > 0, "answers come while it is sent");
    drop(stream);
    let key = ["Idempotency-Key: batch-2"];
    // The interrupted request may still be under way.
    let resumed = wait_for("the key is free", || {
        let response = client.send("POST", "/api/v1/dois/batch", TOKEN, &key, body.as_bytes());
        (response.json()["code"] != "key-in-use").then_some(response)
    });
    let response = resumed.json_lines();
    assert_eq!(response.len(), 2_500);
    let names: BTreeMap<&str, u64> = response
        .iter()
        .map(|line| (line["name"].as_str().unwrap(), line["line"].as_u64().unwrap()))
        .collect();
    assert_eq!(names.len(), 2_500);
    let mut all = 0;
    let mut after = String::new();
    loop {
        let path = format!("/dois?prefix=10.70000&limit=1000{after}");
        let listed = client.check("GET", &path, "", &Json::Null, (200, ""));
        all += listed["items"].as_array().unwrap().len();
        match listed["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(all, 5_000);
}

/// Lines that were in flight when the server ended, while later ones were done, are executed when the batch is sent again.
fn batches_resume_after_gaps(client: &ApiClient) {
    client.create_fixtures();
    let body: String = (0..3_500)
        .map(|number| {
            format!("{{\"name\":\"10.70000/{number}\",\"url\":\"https://example.org/{number}\"}}\n")
        })
        .collect();
    let key = "Idempotency-Key: batch-1";
    let send = |body: &str| client.send("POST", "/api/v1/dois/batch", TOKEN, &[key], body.as_bytes());
    let first = send(&body).json_lines();
    let TestServer { runtime, http, .. } = &client.server;
    let store = http.registry().store();
    let notes = runtime.block_on(store.list_aux(b"receipt/", None, 100)).unwrap();
    let (head, chunks) = notes.split_first().unwrap();
    assert!(chunks.len() > 3);
    let mut edits = vec![Edit::PutNote {
        key: head.0.clone(),
        body: String::from_utf8_lossy(&head.1).replace("true", "false").into_bytes().into(),
    }];
    edits.extend([0, 2].map(|chunk: usize| Edit::RemoveNote { key: chunks[chunk].0.clone() }));
    client.server.commit(edits);
    // A line with a result was changed or removed.
    assert_eq!(send(&body.replacen("org/3499", "org/x", 1)).status, 422);
    assert_eq!(send(&body[..1_000]).status, 422);
    let second = send(&body).json_lines();
    assert_eq!(second.len(), 3_500);
    let mut again = 0;
    for ((first, second), number) in first.iter().zip(&second).zip(1..) {
        assert_eq!((&second["line"], &second["name"]), (&json!(number), &first["name"]));
        again += u32::from(second["status"] == "unchanged");
    }
    assert!((1..3_000).contains(&again), "{again} are done again");
    let third = send(&body);
    assert_eq!(third.header("idempotency-replayed"), Some("true"));
    assert_eq!(third.json_lines(), second);
}

/// An idempotency key belongs to one request: its format, its columns and the lengths of its lines.
fn batch_keys_are_bound_to_the_body(client: &ApiClient) {
    client.create_fixtures();
    let send = |key: &str, kind: &str, body: &str| {
        let headers = [&*format!("Idempotency-Key: {key}"), &*format!("Content-Type: {kind}")];
        client.send("POST", "/api/v1/dois/batch", TOKEN, &headers, body.as_bytes())
    };
    let long = |length: usize| format!("{}\n", "x".repeat(length));
    let (lines, table) = ("application/x-ndjson", "text/csv");
    let row = "10.70000/a,https://example.org/\n";
    for (key, first, second) in [
        ("a", (table, "name,url\n"), (lines, "")),
        ("b", (table, "name,url\n"), (table, "name,state\n")),
        ("c", (table, &*format!("name,url\n{row}")), (table, &*format!("url,name\n{row}"))),
        ("d", (lines, &*long(70_000)), (lines, &*long(70_001))),
        ("e", (table, "name\n\"a\n"), (table, "name\n\"ab\n")),
    ] {
        assert_eq!(send(key, first.0, first.1).status, 200, "{key}");
        let other = send(key, second.0, second.1);
        assert_eq!(other.status, 422, "{key}: {}", other.text());
        let header = format!("Idempotency-Key: {key}");
        let single = client.json("POST", "/dois", TOKEN, &[&header], &json!({"prefix": "10.70000"}));
        assert_eq!((single.status, single.json["code"].as_str()), (422, Some("key-reused")), "{key}");
        assert_eq!(send(key, first.0, first.1).header("idempotency-replayed"), Some("true"), "{key}");
    }
}

/// A refused line has its name and the position of its fault, and is short: a thousand are in one journal entry.
fn refused_lines(client: &ApiClient) {
    client.create_fixtures();
    let response = client.batch(TOKEN, &[], "{\"name\":\"10.70000/a\",\"url\":7}\n7\n");
    assert_eq!(
        (&response[0]["name"], &response[0]["error"]["pointer"]),
        (&json!("10.70000/a"), &json!("/url")),
        "{response:?}"
    );
    assert!(!response[1].to_string().contains("struct"), "{response:?}");
    let response =
        client.batch(TOKEN, &["Content-Type: text/csv"], "url,name,state\nx,10.70000/a\nx,10.70000/b,y\n");
    let names: Vec<_> = response.iter().map(|line| &line["name"]).collect();
    assert_eq!(names, ["10.70000/a", "10.70000/b"], "{response:?}");
    // Every member is invalid.
    let mut wrong = kernel(&"x".repeat(300));
    for value in wrong.as_object_mut().unwrap().values_mut() {
        *value = json!("x".repeat(500));
    }
    for number in 0..20 {
        wrong[format!("{number}{}", "y".repeat(300))] = json!(1);
    }
    let body: String = (0..1_500)
        .map(|number| format!("{}\n", json!({"name": format!("10.70000/{number}"), "metadata": wrong})))
        .collect();
    let key = "Idempotency-Key: refused";
    let response = client.send("POST", "/api/v1/dois/batch", TOKEN, &[key], body.as_bytes());
    let response = response.json_lines();
    assert_eq!(response.len(), 1_500);
    for (line, number) in response.iter().zip(0..) {
        assert_eq!(line["name"], format!("10.70000/{number}"));
        assert_eq!(line["error"]["code"], "bad-metadata");
        let (length, fault) = (line.to_string().len(), &line["error"]["faults"][0]);
        assert!(
            length < 1_500 && fault["code"] == "not-allowed" && fault["allowed"].is_null(),
            "{length}: {line}"
        );
    }
}

fn csv_batches(client: &ApiClient) {
    client.create_fixtures();
    let body = "name,url,metadata\r\n10.70000/a,https://example.org/a,\r\n10.70000/b,\"https://example.org/b\",\"{\"\"primaryReferentType\"\":\n1}\"\r\n\
                =cmd(),https://example.org/,\r\n10.70000/c,\"https://example.org/\"\"c\",\r\n10.70000/d\r\n";
    let response =
        client.send("POST", "/api/v1/dois/batch", TOKEN, &["Content-Type: text/csv"], body.as_bytes());
    let response = response.json_lines();
    let shown: Vec<(u64, &str, &str)> = response
        .iter()
        .map(|line| {
            (
                line["line"].as_u64().unwrap(),
                line["status"].as_str().unwrap(),
                line["error"]["code"].as_str().unwrap_or(""),
            )
        })
        .collect();
    let expected = [
        (2, "created", ""),
        (3, "refused", "bad-metadata"),
        (5, "refused", "bad-name"),
        (6, "created", ""),
        (7, "refused", "malformed"),
    ];
    assert_eq!(shown, expected, "{response:?}");
    let response =
        client.send("POST", "/api/v1/dois/batch", TOKEN, &["Content-Type: text/csv"], b"name,title\n");
    assert_eq!(response.status, 400);
}

/// A quoted field that is interrupted for longer than lines are gathered remains one field.
fn slow_csv_rows(client: &ApiClient) {
    client.create_fixtures();
    let parts = [
        "name,url,metadata\n10.70000/a,https://example.org/a,\n10.70000/b,https://example.org/b,\"{\n",
        "\n\"\"a\"\":\n",
        "1}\"\n10.70000/c,https://example.org/c,\n",
    ];
    let parts = parts.map(str::as_bytes);
    let csv = ["Content-Type: text/csv"];
    let response = client.send_in_parts("POST", "/api/v1/dois/batch", TOKEN, &csv, &parts).json_lines();
    let shown: Vec<_> =
        response.iter().map(|line| (line["line"].clone(), line["error"]["code"].clone())).collect();
    let expected = [(2, Json::Null), (3, json!("bad-metadata")), (7, Json::Null)];
    assert_eq!(shown, expected.map(|(line, code)| (json!(line), code)), "{response:?}");
}

/// An oversized row is refused once; the next row begins after its closing quote.
fn oversized_csv_rows(client: &ApiClient) {
    client.create_fixtures();
    let many = "x\n".repeat(100_000);
    let long = "x".repeat(100_000);
    for (field, next) in [(many, 100_003), (format!("{long}\n,"), 4), (format!("\n{long}\n,\n"), 6)] {
        let body = format!(
            "name,url\n10.70000/a,\"{field}\"\n10.70000/b,https://example.org/b\n10.70000/c,\"open\n\n"
        );
        let response = client.batch(TOKEN, &["Content-Type: text/csv"], &body);
        let shown: Vec<_> =
            response.iter().map(|line| (line["line"].as_u64(), line["status"] == "refused")).collect();
        assert_eq!(shown, [(Some(2), true), (Some(next), false), (Some(next + 1), true)], "{response:?}");
    }
}

fn token_revoked_during_a_batch(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    let mut stream = client.server.connect();
    let head = format!(
        "POST /api/v1/dois/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        fixtures.tokens[0]
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut send_line = |name: &str| {
        send_chunk(&mut stream, &format!("{{\"name\":\"{name}\",\"url\":\"https://example.org/\"}}\n"));
        loop {
            let mut line = String::new();
            assert!(reader.read_line(&mut line).unwrap() > 0, "it goes on");
            if line.starts_with("{\"line\"") {
                return serde_json::from_str::<Json>(&line).unwrap();
            }
        }
    };
    assert_eq!(send_line("10.70000/a")["status"], "created");
    let listed = client.check("GET", "/tokens", &fixtures.tokens[0], &Json::Null, (200, ""));
    let path = format!("/tokens/{}", listed["items"][0]["id"].as_str().unwrap());
    client.check("DELETE", &path, TOKEN, &Json::Null, (204, ""));
    let refused = send_line("10.70000/b");
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!("refused"), &json!("bad-token")));
    assert_eq!(refused["name"], "10.70000/b");
    assert_eq!(client.redirect_of("10.70000/b").0, 404);
}

fn send_chunk(stream: &mut TcpStream, text: &str) {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).unwrap();
}

fn transfers(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    for name in ["10.70000/a", "10.70000/b", "10.70000/c"] {
        client.create("/dois", &json!({"name": name, "url": "https://example.org/"}));
    }
    let propose = json!({"names": ["10.70000/a", "10.70000/B"], "to": fixtures.registrants[1]});
    client.check("POST", "/transfers", &fixtures.tokens[1], &propose, (403, "not-yours"));
    client.check(
        "POST",
        "/transfers",
        &fixtures.tokens[0],
        &json!({"names": ["10.70000/a"], "to": fixtures.registrants[1], "force": true}),
        (403, "not-yours"),
    );
    let created = client.json("POST", "/transfers", &fixtures.tokens[0], &[], &propose);
    assert_eq!((created.status, &created.json["state"]), (201, &json!("proposed")), "{}", created.json);
    let path = format!("/transfers/{}", created.json["id"].as_str().unwrap());
    let accept = format!("{path}/accept");
    client.check("POST", &accept, &fixtures.tokens[0], &Json::Null, (403, "not-yours"));
    assert_eq!(
        client.check("GET", "/dois/10.70000/a", "", &Json::Null, (200, ""))["registrant"],
        json!(fixtures.registrants[0])
    );
    assert_eq!(client.check("POST", &accept, &fixtures.tokens[1], &Json::Null, (200, ""))["state"], "done");
    assert_eq!(client.check("POST", &accept, &fixtures.tokens[1], &Json::Null, (200, ""))["state"], "done");
    assert_eq!(
        client.check("GET", "/dois/10.70000/b", "", &Json::Null, (200, ""))["registrant"],
        json!(fixtures.registrants[1])
    );
    let body = json!({"url": "https://example.org/2"});
    client.check("PUT", "/dois/10.70000/a", &fixtures.tokens[0], &body, (403, "not-yours"));
    client.check("PUT", "/dois/10.70000/a", &fixtures.tokens[1], &body, (200, ""));
    client.check("PUT", "/dois/10.70000/c", &fixtures.tokens[1], &body, (403, "not-yours"));
    let listed = client.check(
        "GET",
        &format!("/dois?registrant={}", fixtures.registrants[1]),
        "",
        &Json::Null,
        (200, ""),
    );
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let history = client.check("GET", "/history/10.70000/a", "", &Json::Null, (200, ""));
    assert_eq!(history["items"].as_array().unwrap().len(), 3);
    // The transfer of a prefix includes its other names.
    let created = client
        .create("/transfers", &json!({"prefix": "10.70000", "to": fixtures.registrants[1], "force": true}));
    assert_eq!(created["state"], "done");
    client.check("PUT", "/dois/10.70000/c", &fixtures.tokens[1], &body, (200, ""));
    client.check("PUT", "/dois/10.70000/c", &fixtures.tokens[0], &body, (403, "not-yours"));
    assert_eq!(client.redirect_of("10.70000/c"), (302, Some("https://example.org/2".into())));
    // Transfers are hidden from other registrants.
    let body = json!({"agency": "A", "name": "Third"});
    let third = client.create("/registrants", &body);
    let token = client.create("/tokens", &json!({"role": "registrant", "subject": third["id"]}));
    client.check("GET", &path, token["token"].as_str().unwrap(), &Json::Null, (404, "not-found"));
    // Declined.
    let created = client.json(
        "POST",
        "/transfers",
        &fixtures.tokens[1],
        &[],
        &json!({"prefix": "10.70001", "to": fixtures.registrants[0]}),
    );
    let path = format!("/transfers/{}", created.json["id"].as_str().unwrap());
    assert_eq!(
        client.check("POST", &format!("{path}/decline"), &fixtures.tokens[0], &Json::Null, (200, ""))["state"],
        "declined"
    );
    client.check("POST", &format!("{path}/accept"), &fixtures.tokens[0], &Json::Null, (409, "decided"));
    client.check("POST", "/transfers", TOKEN, &json!({"to": "x"}), (400, "malformed"));
}

fn agency_closes(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    client.create("/dois", &json!({"name": "10.70000/a", "url": "https://example.org/"}));
    let body = json!({"agency": "A", "to": "B"});
    client.check("POST", "/transfers", &fixtures.tokens[0], &body, (403, "not-yours"));
    let created = client.json("POST", "/transfers", &fixtures.agency_tokens[0], &[], &body);
    let path = format!("/transfers/{}/accept", created.json["id"].as_str().unwrap());
    assert_eq!(
        client.check("POST", &path, &fixtures.agency_tokens[1], &Json::Null, (200, ""))["state"],
        "done"
    );
    let ended = client.check("GET", "/agencies/A", "", &Json::Null, (200, ""));
    assert_eq!((&ended["state"], &ended["successor"]), (&json!("ended"), &json!("B")));
    assert_eq!(client.redirect_of("10.70000/a").0, 302);
    assert_eq!(client.check("GET", "/dois/10.70000/a", "", &Json::Null, (200, ""))["agency"], "B");
    let response = client.send("GET", "/doiRA/10.70000/a", "", &[], b"");
    assert_eq!(response.json_lines()[0][0]["RA"], "B");
    let body = json!({"name": "10.70000/n", "url": "https://example.org/"});
    client.check("POST", "/dois", &fixtures.agency_tokens[0], &body, (401, "bad-token"));
    client.check("POST", "/dois", &fixtures.agency_tokens[1], &body, (201, ""));
    client.check(
        "POST",
        "/dois",
        &fixtures.tokens[0],
        &json!({"name": "10.70000/o", "url": "https://example.org/"}),
        (201, ""),
    );
    client.check("POST", "/registrants", TOKEN, &json!({"agency": "A", "name": "x"}), (409, "agency-ended"));
}

fn malformed_requests(client: &ApiClient) {
    client.create_fixtures();
    let check = |body: &[u8], status: u16, code: &str| {
        let response = client.send("POST", "/api/v1/dois", TOKEN, &[], body);
        let json = response.json();
        assert_eq!((response.status, json["code"].as_str()), (status, Some(code)), "{json}");
    };
    // Attack D1: deep nesting.
    let deep =
        format!("{{\"name\":\"10.70000/a\",\"metadata\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    check(deep.as_bytes(), 422, "bad-metadata");
    let deep = format!("{{\"name\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    check(deep.as_bytes(), 400, "malformed");
    check(br#"{"name":"10.70000/a","name":"10.70000/b","url":"https://a.org/"}"#, 400, "malformed");
    check(br#"{"name":1e400}"#, 400, "malformed");
    check(br#"{"name":"10.70000/\ud800"}"#, 400, "malformed");
    check(b"\xef\xbb\xbf{}", 400, "malformed");
    check(b"", 400, "malformed");
    check(b"[]", 400, "malformed");
    check(b"{} {}", 400, "malformed");
    check(br#"{"nmae":"10.70000/a"}"#, 400, "malformed");
    check(&[b' '; 3 << 20], 413, "too-large");
    let response = client.send("PATCH", "/api/v1/dois/10.70000/a", TOKEN, &[], b"");
    assert_eq!((response.status, response.header("allow").is_some()), (405, true));
    let response = client.send("GET", "/api/v1/nothing", "", &[], b"");
    assert_eq!(response.status, 404);
}
