//! Registry API over each store: parties, DOI names, conditional and idempotent requests, transfers. `api_v1_batches.rs` has the
//! batches.

use serde_json::{Value as Json, json};

use crate::support::api_client::{ApiClient, kernel_json, over_all_stores};
use crate::support::http_server::TOKEN;

over_all_stores!(
    parties,
    registrations,
    conditional_requests,
    idempotency_keys,
    metadata,
    metadata_is_required_by_default,
    reserved_names,
    retired_names,
    policies,
    transfers,
    agencies_of_names,
    closed_agency,
    malformed_requests,
    audit_f7_revocation_cascades,
    audit_f8_revocation_lists_proposals,
    audit_f12_log_names_token_and_client,
    audit_f12_failed_authentication_is_counted,
    unknown_query_parameters,
    token_over_an_untrusted_proxy,
);

/// A registrant's token creates another, which expires with it and is revoked with it.
fn audit_f7_revocation_cascades(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    let new_token = |token: &str, expires: Option<&str>| {
        let body = json!({"role": "registrant", "subject": fixtures.registrants[0]});
        let mut body = body.as_object().unwrap().clone();
        body.extend(expires.map(|expires| ("expires".into(), json!(expires))));
        client.json("POST", "/tokens", token, &[], &Json::Object(body)).json
    };
    let text = |created: &Json, member: &str| created[member].as_str().unwrap().to_owned();
    let parent = new_token(TOKEN, Some("2098-01-31T00:00:00Z"));
    assert_eq!(parent["parent"], Json::Null);
    let child = new_token(&text(&parent, "token"), None);
    assert_eq!((&child["expires"], &child["parent"]), (&parent["expires"], &parent["id"]));
    let refused = new_token(&text(&parent, "token"), Some("2098-01-31T00:00:00.001Z"));
    assert_eq!(refused["code"], "expires-after-parent");
    let grandchild = new_token(&text(&child, "token"), Some("2097-01-31T00:00:00Z"));
    assert_eq!(grandchild["expires"], "2097-01-31T00:00:00Z");
    let path = format!("/tokens/{}?cascade=true", text(&parent, "id"));
    let revoked = client.check("DELETE", &path, TOKEN, &Json::Null, (200, ""));
    let expected =
        json!({"revoked": [parent["id"], child["id"], grandchild["id"]], "children": [], "proposals": []});
    assert_eq!(revoked, expected);
    for token in [parent, child, grandchild] {
        client.check("GET", "/tokens", &text(&token, "token"), &Json::Null, (401, "unauthenticated"));
    }
    // Without `cascade`, they stay.
    let parent = new_token(TOKEN, None);
    let child = new_token(&text(&parent, "token"), None);
    let path = format!("/tokens/{}", text(&parent, "id"));
    let revoked = client.check("DELETE", &path, TOKEN, &Json::Null, (200, ""));
    assert_eq!(revoked["children"], json!([child["id"]]));
    client.check("GET", "/tokens", &text(&child, "token"), &Json::Null, (200, ""));
}

/// A transfer that was proposed with a token cannot be accepted after its revocation, which lists it.
fn audit_f8_revocation_lists_proposals(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    let listed = client.check("GET", "/tokens", &fixtures.tokens[0], &Json::Null, (200, ""));
    let id = listed["items"][0]["id"].as_str().unwrap();
    let body = json!({"prefix": "10.70000", "to": fixtures.registrants[1]});
    let proposed = client.json("POST", "/transfers", &fixtures.tokens[0], &[], &body).json;
    assert_eq!(proposed["state"], "proposed");
    assert!(proposed["expires"].as_str() > proposed["proposed"].as_str(), "{proposed}");
    let revoked = client.check("DELETE", &format!("/tokens/{id}"), TOKEN, &Json::Null, (200, ""));
    assert_eq!(revoked, json!({"revoked": [id], "children": [], "proposals": [proposed["id"]]}));
    let path = format!("/transfers/{}/accept", proposed["id"].as_str().unwrap());
    client.check("POST", &path, &fixtures.tokens[1], &json!({}), (409, "proposer-invalid"));
    assert_eq!(client.check("GET", "/prefixes/10.70000", "", &Json::Null, (200, ""))["agency"], "A");
}

/// The change log names the token and the client of each change; only the operator sees them.
fn audit_f12_log_names_token_and_client(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    let token = &*fixtures.tokens[0];
    let id = token.split('_').nth(1).unwrap();
    let body = json!({"name": "10.70000/a", "url": "https://example.org/"});
    client.check("POST", "/dois", token, &body, (201, ""));
    let line = br#"{"name": "10.70000/b", "url": "https://example.org/"}"#;
    assert_eq!(client.send("POST", "/api/v1/dois/batch", token, &[], line).status, 200);
    let values = br#"[{"index": 3, "type": "EMAIL", "data": "a@example.org"}]"#;
    let target = "/api/handles/10.70000/a?index=3";
    assert!(client.send("PUT", target, token, &[], values).status < 300);
    client.check("PUT", "/dois/10.70000/b", TOKEN, &json!({"url": "https://example.org/b"}), (200, ""));
    let changes = |token: &str| {
        let response =
            client.send("GET", "/api/v1/changes?limit=1000", token, &["Accept: application/x-ndjson"], b"");
        let lines: Vec<Json> =
            response.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines
            .into_iter()
            .filter(|line| line["name"].as_str().is_some_and(|name| name.starts_with("10.70000/")))
            .map(|line| json!([line["by"], line["token"], line["client"]]))
            .collect::<Vec<_>>()
    };
    let by = format!("registrant:{}", fixtures.registrants[0]);
    let own = json!([by, id, "127.0.0.1"]);
    assert_eq!(changes(TOKEN), [own.clone(), own.clone(), own, json!(["operator", null, "127.0.0.1"])]);
    let public = json!([by, null, null]);
    let expected = [public.clone(), public.clone(), public, json!(["operator", null, null])];
    for reader in ["", token] {
        assert_eq!(changes(reader), expected);
    }
    let history = client.check("GET", "/history/10.70000/a", TOKEN, &Json::Null, (200, ""));
    assert_eq!(
        (&history["items"][0]["token"], &history["items"][0]["client"]),
        (&json!(id), &json!("127.0.0.1"))
    );
    let history = client.check("GET", "/history/10.70000/a", "", &Json::Null, (200, ""));
    assert_eq!((&history["items"][0]["token"], &history["items"][0]["by"]), (&Json::Null, &json!(by)));
}

/// Failed and throttled attempts are counted; valid credentials and anonymous requests are not.
fn audit_f12_failed_authentication_is_counted(client: &ApiClient) {
    let counts = || {
        let response = client.send("GET", "/metrics", "", &[], b"");
        let text = response.text();
        ["failed", "throttled"].map(|reason| {
            let sample = format!("tendot_authentication_failures_total{{reason=\"{reason}\"}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&*sample));
            line.unwrap_or_else(|| panic!("{text}")).parse::<f64>().unwrap()
        })
    };
    client.check("GET", "/tokens", TOKEN, &Json::Null, (200, ""));
    client.check("GET", "/agencies", "", &Json::Null, (200, ""));
    assert_eq!(counts(), [0.0, 0.0]);
    client.check("GET", "/tokens", "tendot_x_y", &Json::Null, (401, "unauthenticated"));
    let basic = ["Authorization: Basic MzAwJTNBMTAuMS94OnNlY3JldA=="];
    assert!(client.send("GET", "/api/v1/tokens", "", &basic, b"").status >= 400);
    assert_eq!(counts(), [2.0, 0.0]);
    for _ in 0..30 {
        client.json("GET", "/tokens", "tendot_x_y", &[], &Json::Null);
    }
    let [failed, throttled] = counts();
    assert!((failed + throttled - 32.0).abs() < 0.5 && throttled > 0.0, "{failed} {throttled}");
    client.check("GET", "/tokens", TOKEN, &Json::Null, (200, ""));
}

fn parties(client: &ApiClient) {
    let no_body = &Json::Null;
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
    client.check("POST", "/agencies", TOKEN, &json!({"code": "a b", "name": "x"}), (422, "invalid-code"));
    client.check(
        "POST",
        "/agencies",
        &fixtures.agency_tokens[0],
        &json!({"code": "C", "name": "C"}),
        (403, "forbidden"),
    );
    let listed = client.check("GET", "/agencies", "", no_body, (200, ""));
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    client.check("GET", "/agencies/a", "", no_body, (200, ""));
    client.check("GET", "/agencies/c", "", no_body, (404, "not-found"));
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
    assert_eq!(
        client.check("GET", &path, &fixtures.agency_tokens[0], no_body, (200, ""))["contact"],
        "a@b.c"
    );
    assert_eq!(
        client.check("GET", &path, &fixtures.agency_tokens[1], no_body, (200, ""))["contact"],
        Json::Null
    );
    client.check("PUT", &path, &fixtures.agency_tokens[1], &json!({"name": "x"}), (403, "forbidden"));
    assert_eq!(
        client.check("PUT", &path, &fixtures.agency_tokens[0], &json!({"name": "Newer"}), (200, ""))["name"],
        "Newer"
    );
    client.check(
        "POST",
        "/registrants",
        &fixtures.agency_tokens[0],
        &json!({"agency": "B", "name": "x"}),
        (403, "forbidden"),
    );
    client.check(
        "POST",
        "/registrants",
        TOKEN,
        &json!({"agency": "C", "name": "x"}),
        (422, "unknown-agency"),
    );
    // Prefixes.
    let body = json!({"registrant": fixtures.registrants[1], "prefix": "10.70000"});
    let response = client.check("POST", "/prefixes", TOKEN, &body, (409, "prefix-in-use"));
    assert_eq!(response["existing"], "10.70000");
    client.check(
        "POST",
        "/prefixes",
        &fixtures.agency_tokens[0],
        &json!({"registrant": fixtures.registrants[1]}),
        (403, "forbidden"),
    );
    client.check("POST", "/prefixes", TOKEN, &json!({"registrant": "none"}), (422, "unknown-registrant"));
    client.check(
        "POST",
        "/prefixes",
        TOKEN,
        &json!({"registrant": fixtures.registrants[0], "prefix": "x"}),
        (422, "invalid-prefix"),
    );
    client.create(
        "/prefixes",
        &json!({"registrant": fixtures.registrants[0], "prefix": "10.1234", "test": true}),
    );
    let listed = client.check(
        "GET",
        &format!("/prefixes?registrant={}", fixtures.registrants[0]),
        "",
        no_body,
        (200, ""),
    );
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(client.check("GET", "/prefixes/10.70001", "", no_body, (200, ""))["agency"], "B");
    // Tokens.
    client.check("GET", "/tokens", "", no_body, (401, "unauthenticated"));
    let listed = client.check("GET", "/tokens", &fixtures.tokens[0], no_body, (200, ""));
    let items = listed["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["token"]), (1, &Json::Null), "{listed}");
    let path = format!("/tokens/{}", items[0]["id"].as_str().unwrap());
    client.check("DELETE", &path, &fixtures.tokens[1], no_body, (404, "not-found"));
    client.check("DELETE", &path, &fixtures.tokens[0], no_body, (200, ""));
    client.check("GET", "/tokens", &fixtures.tokens[0], no_body, (401, "unauthenticated"));
    let body = json!({"role": "agency", "subject": "B"});
    client.check("POST", "/tokens", &fixtures.tokens[1], &body, (403, "forbidden"));
    let body = json!({"role": "operator", "expires": "2001-01-01T00:00:00Z"});
    client.check("POST", "/tokens", TOKEN, &body, (422, "expires-in-past"));
    let body =
        json!({"role": "registrant", "subject": fixtures.registrants[1], "scopes": ["read"], "label": "CI"});
    let token = client.create("/tokens", &body);
    let body = json!({"name": "10.70001/x", "url": "https://example.org/"});
    client.check("POST", "/dois", token["token"].as_str().unwrap(), &body, (403, "insufficient-scope"));
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
    client.check("POST", "/dois", &fixtures.tokens[1], &doi("10.70000/y"), (403, "forbidden"));
    client.check("POST", "/dois", TOKEN, &doi("10.9999/y"), (404, "unknown-prefix"));
    client.check("POST", "/dois", TOKEN, &doi("10.70000"), (422, "invalid-name"));
    client.check("POST", "/dois", TOKEN, &doi("10.70000/a\u{202e}b"), (422, "invalid-name"));
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
            (422, "invalid-url"),
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
            (422, "invalid-value"),
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
    client.check("PUT", "/dois/10.70000/abc", &fixtures.tokens[1], &body, (403, "forbidden"));
    client.check("PUT", "/dois/10.70000/none", &fixtures.tokens[0], &body, (404, "not-found"));
    // A dry run changes nothing.
    let response = client.json("POST", "/dois?dry-run=true", TOKEN, &[], &doi("10.70000/dry"));
    assert_eq!((response.status, client.redirect_of("10.70000/dry").0), (200, 404));
    let listed = client.check("GET", "/dois?prefix=10.70000&limit=2", "", &Json::Null, (200, ""));
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let path = format!("/dois?prefix=10.70000&after={}", listed["next"].as_str().unwrap());
    let second_page = client.check("GET", &path, "", &Json::Null, (200, ""));
    assert_eq!(
        (second_page["items"].as_array().unwrap().len(), &second_page["next"]),
        (1, &Json::Null),
        "{second_page}"
    );
}

fn conditional_requests(client: &ApiClient) {
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
    assert_eq!((stale.status, stale.json["code"].as_str()), (412, Some("revision-mismatch")));
    let read = client.json("GET", "/dois/10.70000/a", "", &[], &Json::Null);
    assert_eq!(read.http.header("etag"), changed.http.header("etag"));
    let if_none_match = format!("If-None-Match: {}", read.http.header("etag").unwrap());
    assert_eq!(client.json("GET", "/dois/10.70000/a", "", &[&if_none_match], &Json::Null).status, 304);
    assert_eq!(put("https://example.org/4", "If-None-Match: *").status, 412);
    let body = json!({"name": "10.70000/b", "url": "https://example.org/n"});
    let other = client.json("PUT", "/dois/10.70000/new", TOKEN, &["If-None-Match: *"], &body);
    assert_eq!((other.status, other.json["code"].as_str()), (422, Some("name-mismatch")));
    // The registrant is part of the ETag: a transfer changes it without a change of the record.
    let tag = format!("If-None-Match: {}", read.http.header("etag").unwrap());
    let listed = client.check("GET", "/prefixes/10.70001", "", &Json::Null, (200, ""));
    client.create("/transfers", &json!({"prefix": "10.70000", "to": listed["registrant"], "force": true}));
    assert_eq!(client.json("GET", "/dois/10.70000/a", "", &[&tag], &Json::Null).status, 200);
    let created_by_put = client.json(
        "PUT",
        "/dois/10.70000/new",
        TOKEN,
        &["If-None-Match: *"],
        &json!({"url": "https://example.org/n"}),
    );
    assert_eq!((created_by_put.status, client.redirect_of("10.70000/new").0), (201, 302));
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
    // A dry run ignores the key.
    let request = json!({"prefix": "10.70000", "url": "https://example.org/1"});
    let dry_run = client.json("POST", "/dois?dry-run=true", TOKEN, &["Idempotency-Key: k1"], &request);
    assert_eq!((dry_run.status, dry_run.http.header("idempotency-replayed")), (200, None));
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
        &json!({"name": "10.70000/m", "url": "https://example.org/", "metadata": kernel_json("One")}),
    );
    assert_eq!(created["metadata"]["referentCreation"]["name"][0]["value"], "One");
    let mut invalid = kernel_json("Two");
    invalid["referentCreation"]["mode"] = json!(["Visual", "Loud"]);
    let body = json!({"name": "10.70000/w", "url": "https://example.org/", "metadata": invalid});
    let response = client.check("POST", "/dois", TOKEN, &body, (422, "invalid-metadata"));
    assert_eq!(response["pointer"], "/metadata/referentCreation/mode/1");
    assert!(response["faults"][0]["allowed"].as_array().unwrap().contains(&json!("Audio")), "{response}");
    // An agency may require metadata.
    client.check("PUT", "/agencies/A", TOKEN, &json!({"metadata": "required"}), (200, ""));
    let body = json!({"name": "10.70000/n", "url": "https://example.org/"});
    let response = client.check("POST", "/dois", TOKEN, &body, (422, "missing"));
    assert_eq!(response["pointer"], "/metadata");
    client.check("PUT", "/dois/10.70000/m", TOKEN, &json!({"metadata": null}), (422, "missing"));
    client.check("PUT", "/dois/10.70000/m", TOKEN, &json!({"metadata": kernel_json("Other")}), (200, ""));
}

/// Metadata is required when a name is registered, but not under a test prefix, or if a policy makes it optional. A registered name
/// without metadata can be changed.
fn metadata_is_required_by_default(client: &ApiClient) {
    let agency = client.create("/agencies", &json!({"code": "ISO", "name": "Default policy"}));
    assert_eq!(agency["metadata"], "required");
    let registrant = client.create("/registrants", &json!({"agency": "ISO", "name": "Press"}))["id"].clone();
    let prefix = |prefix: &str, extra: Json| {
        let mut body = json!({"registrant": registrant, "prefix": prefix});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        client.create("/prefixes", &body);
    };
    prefix("10.70000", json!({}));
    prefix("10.70001", json!({"test": true}));
    prefix("10.70002", json!({"policy": {"metadata": "optional"}}));
    prefix("10.70003", json!({"test": true, "policy": {"metadata": "required"}}));
    let bare = |prefix: &str| json!({"name": format!("{prefix}/a"), "url": "https://example.org/"});
    for prefix in ["10.70000", "10.70003"] {
        let refused = client.check("POST", "/dois", TOKEN, &bare(prefix), (422, "missing"));
        assert_eq!(refused["pointer"], "/metadata");
    }
    for prefix in ["10.70001", "10.70002"] {
        client.create("/dois", &bare(prefix));
    }
    let reserved = json!({"name": "10.70000/b", "state": "reserved"});
    client.create("/dois", &reserved);
    let register = json!({"state": "registered", "url": "https://example.org/"});
    client.check("PUT", "/dois/10.70000/b", TOKEN, &register, (422, "missing"));
    let described =
        json!({"state": "registered", "url": "https://example.org/", "metadata": kernel_json("B")});
    client.check("PUT", "/dois/10.70000/b", TOKEN, &described, (200, ""));
    client.check("PUT", "/dois/10.70000/b", TOKEN, &json!({"metadata": null}), (422, "missing"));
    client.check("PUT", "/prefixes/10.70002", TOKEN, &json!({"policy": {"metadata": "required"}}), (200, ""));
    client.check("PUT", "/dois/10.70002/a", TOKEN, &json!({"url": "https://example.org/2"}), (200, ""));
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
        (409, "invalid-state-transition"),
    );
    // A reserved name, which never resolved, can be deleted.
    client.create("/dois", &json!({"name": "10.70000/s", "state": "reserved"}));
    client.check("DELETE", "/dois/10.70000/s?dry-run=true", TOKEN, &Json::Null, (200, ""));
    let deleted = client.check("DELETE", "/dois/10.70000/s", TOKEN, &Json::Null, (200, ""));
    assert_eq!(deleted["state"], "deleted");
    client.create("/dois", &json!({"name": "10.70000/s", "state": "reserved"}));
}

fn retired_names(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    client.create("/dois", &json!({"name": "10.70000/a", "url": "https://example.org/"}));
    client.check("DELETE", "/dois/10.70000/a", &fixtures.tokens[1], &Json::Null, (403, "forbidden"));
    let retired = client.check("DELETE", "/dois/10.70000/A", &fixtures.tokens[0], &Json::Null, (200, ""));
    assert_eq!(retired["state"], "tombstone");
    assert_eq!(client.redirect_of("10.70000/a").0, 410);
    assert_eq!(client.send("GET", "/api/handles/10.70000/a", "", &[], b"").status, 404);
    let read = client.check("GET", "/dois/10.70000/a", "", &Json::Null, (200, ""));
    assert_eq!((&read["state"], read["retired"].is_string()), (&json!("tombstone"), true));
    let duplicate = json!({"name": "10.70000/A", "url": "https://example.org/"});
    client.check("POST", "/dois", TOKEN, &duplicate, (409, "already-registered"));
    client.check("PUT", "/dois/10.70000/a", TOKEN, &json!({}), (410, "retired"));
    client.check("DELETE", "/dois/10.70000/a", TOKEN, &Json::Null, (410, "retired"));
    let history = client.check("GET", "/history/10.70000/a", "", &Json::Null, (200, ""));
    assert_eq!(history["items"].as_array().unwrap().len(), 2);
    // Retirement over the Handle API.
    client.create("/dois", &json!({"name": "10.70000/b", "url": "https://example.org/"}));
    assert_eq!(client.send("DELETE", "/api/handles/10.70000/b", &fixtures.tokens[0], &[], b"").status, 200);
    assert_eq!(client.redirect_of("10.70000/b").0, 410);
    // Names under a test prefix can be deleted and registered again.
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
    let set_policy = |policy: Json| {
        client.json("PUT", "/prefixes/10.70000", TOKEN, &[], &json!({"policy": policy})).status
    };
    let register = |name: &str, url: &str| {
        let response = client.json("POST", "/dois", TOKEN, &[], &json!({"name": name, "url": url}));
        (response.status, response.json["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(set_policy(json!({"pattern": "[a-z]{2,4}"})), 200);
    assert_eq!(register("10.70000/abc", "https://example.org/").0, 201);
    assert_eq!(register("10.70000/abcde", "https://example.org/"), (422, "suffix-pattern".into()));
    assert_eq!(set_policy(json!({"pattern": "("})), 422);
    assert_eq!(set_policy(json!({"hosts": ["example.org"]})), 200);
    assert_eq!(register("10.70000/h", "https://www.example.org/").0, 201);
    assert_eq!(register("10.70000/i", "https://example.com/"), (422, "host-not-allowed".into()));
    let body = br#"[{"index":1,"type":"URL","data":"https://example.com/"}]"#;
    let native = client.send("PUT", "/api/handles/10.70000/j", TOKEN, &[], body);
    assert_eq!(native.status, 400, "{}", native.text());
    assert_eq!(set_policy(json!({"quota": 4})), 200);
    assert_eq!(register("10.70000/q1", "https://example.com/").0, 201);
    assert_eq!(register("10.70000/q2", "https://example.com/").0, 201);
    assert_eq!(register("10.70000/q3", "https://example.com/"), (507, "quota-exceeded".into()));
    assert_eq!(set_policy(json!({"confusable": "refuse"})), 200);
    assert_eq!(register("10.70000/caf\u{e9}", "https://example.com/").0, 201);
    assert_eq!(register("10.70000/cafe\u{301}", "https://example.com/"), (409, "confusable".into()));
    assert_eq!(set_policy(json!({"confusable": "warn"})), 200);
    assert_eq!(register("10.70000/cafe\u{301}", "https://example.com/").0, 201);
}

fn transfers(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    for name in ["10.70000/a", "10.70000/b", "10.70000/c"] {
        client.create("/dois", &json!({"name": name, "url": "https://example.org/"}));
    }
    let propose = json!({"names": ["10.70000/a", "10.70000/B"], "to": fixtures.registrants[1]});
    client.check("POST", "/transfers", &fixtures.tokens[1], &propose, (403, "forbidden"));
    client.check(
        "POST",
        "/transfers",
        &fixtures.tokens[0],
        &json!({"names": ["10.70000/a"], "to": fixtures.registrants[1], "force": true}),
        (403, "forbidden"),
    );
    let created = client.json("POST", "/transfers", &fixtures.tokens[0], &[], &propose);
    assert_eq!((created.status, &created.json["state"]), (201, &json!("proposed")), "{}", created.json);
    let path = format!("/transfers/{}", created.json["id"].as_str().unwrap());
    let accept = format!("{path}/accept");
    client.check("POST", &accept, &fixtures.tokens[0], &Json::Null, (403, "forbidden"));
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
    client.check("PUT", "/dois/10.70000/a", &fixtures.tokens[0], &body, (403, "forbidden"));
    client.check("PUT", "/dois/10.70000/a", &fixtures.tokens[1], &body, (200, ""));
    client.check("PUT", "/dois/10.70000/c", &fixtures.tokens[1], &body, (403, "forbidden"));
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
    client.check("PUT", "/dois/10.70000/c", &fixtures.tokens[0], &body, (403, "forbidden"));
    assert_eq!(client.redirect_of("10.70000/c"), (302, Some("https://example.org/2".into())));
    // Transfers are hidden from other registrants.
    let body = json!({"agency": "A", "name": "Third"});
    let third = client.create("/registrants", &body);
    let token = client.create("/tokens", &json!({"role": "registrant", "subject": third["id"]}));
    client.check("GET", &path, token["token"].as_str().unwrap(), &Json::Null, (404, "not-found"));
    // A declined transfer.
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
    client.check(
        "POST",
        &format!("{path}/accept"),
        &fixtures.tokens[0],
        &Json::Null,
        (409, "already-decided"),
    );
    client.check("POST", "/transfers", TOKEN, &json!({"to": "x"}), (400, "malformed"));
}

/// `/doiRA` names the agency of a name, also after a transfer of the name to a registrant of another agency.
fn agencies_of_names(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    for name in ["10.70000/a", "10.70000/b", "10.70000/gone"] {
        client.create("/dois", &json!({"name": name, "url": "https://example.org/"}));
    }
    let agencies = |names: &str| -> Vec<String> {
        let response = client.send("GET", &format!("/doiRA/{names}"), "", &[], b"");
        assert_eq!(response.status, 200, "{}", response.text());
        let agencies = response.json_lines()[0].as_array().unwrap().clone();
        let text = |agency: &Json| agency["RA"].as_str().or(agency["status"].as_str()).unwrap().to_owned();
        agencies.iter().map(text).collect()
    };
    let names = "10.70000/a,10.70000/b,10.70000,10.70000/none";
    assert_eq!(agencies(names), ["A", "A", "A", "DOI does not exist"]);
    let body =
        json!({"names": ["10.70000/b", "10.70000/gone"], "to": fixtures.registrants[1], "force": true});
    client.create("/transfers", &body);
    assert_eq!(agencies(names), ["A", "B", "A", "DOI does not exist"]);
    // Also of a retired name.
    client.check("DELETE", "/dois/10.70000/gone", TOKEN, &Json::Null, (200, ""));
    assert_eq!(agencies("10.70000/gone"), ["B"]);
    // The prefix goes to the other agency, and its names with it.
    client.create("/transfers", &json!({"prefix": "10.70000", "to": fixtures.registrants[1], "force": true}));
    assert_eq!(agencies(names), ["B", "B", "B", "DOI does not exist"]);
    // 100 names are answered, and more are an error.
    let many = vec!["10.70000/a"; 100].join(",");
    assert_eq!(agencies(&many), vec!["B"; 100]);
    let response = client.send("GET", &format!("/doiRA/{many},10.70000/b"), "", &[], b"");
    assert_eq!(response.status, 400);
    let problem = &response.json_lines()[0];
    assert_eq!(problem["detail"], "101 names in the path; the maximum is 100.", "{problem}");
}

fn closed_agency(client: &ApiClient) {
    let fixtures = client.create_fixtures();
    client.create("/dois", &json!({"name": "10.70000/a", "url": "https://example.org/"}));
    let body = json!({"agency": "A", "to": "B"});
    client.check("POST", "/transfers", &fixtures.tokens[0], &body, (403, "forbidden"));
    let created = client.json("POST", "/transfers", &fixtures.agency_tokens[0], &[], &body);
    let path = format!("/transfers/{}/accept", created.json["id"].as_str().unwrap());
    assert_eq!(
        client.check("POST", &path, &fixtures.agency_tokens[1], &Json::Null, (200, ""))["state"],
        "done"
    );
    let closed = client.check("GET", "/agencies/A", "", &Json::Null, (200, ""));
    assert_eq!((&closed["state"], &closed["successor"]), (&json!("closed"), &json!("B")));
    assert_eq!(client.redirect_of("10.70000/a").0, 302);
    assert_eq!(client.check("GET", "/dois/10.70000/a", "", &Json::Null, (200, ""))["agency"], "B");
    let response = client.send("GET", "/doiRA/10.70000/a", "", &[], b"");
    assert_eq!(response.json_lines()[0][0]["RA"], "B");
    let body = json!({"name": "10.70000/n", "url": "https://example.org/"});
    client.check("POST", "/dois", &fixtures.agency_tokens[0], &body, (401, "invalid-token"));
    client.check("POST", "/dois", &fixtures.agency_tokens[1], &body, (201, ""));
    client.check(
        "POST",
        "/dois",
        &fixtures.tokens[0],
        &json!({"name": "10.70000/o", "url": "https://example.org/"}),
        (201, ""),
    );
    client.check("POST", "/registrants", TOKEN, &json!({"agency": "A", "name": "x"}), (409, "agency-closed"));
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
    check(deep.as_bytes(), 422, "invalid-metadata");
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

/// A parameter that an operation does not have is refused with a suggestion, on reads and writes, before anything is written.
fn unknown_query_parameters(client: &ApiClient) {
    client.create_fixtures();
    let body = json!({"name": "10.70000/q", "url": "https://example.org/"});
    let check = |method: &str, path: &str, body: &Json, hint: &str| {
        let refused = client.check(method, path, TOKEN, body, (400, "unknown-parameter"));
        assert_eq!(refused["hint"], hint, "{path}: {refused}");
    };
    let filters = "query parameters of this operation: `after`, `limit`, `prefix`, `registrant`";
    check("GET", "/dois?query=x", &Json::Null, filters);
    check("GET", "/dois?limit=1&prefx=10.70000", &Json::Null, "did you mean `prefix`?");
    check("GET", "/changes?limits=1", &Json::Null, "did you mean `limit`?");
    check("GET", "/agencies/A?limit=1", &Json::Null, "this operation has no query parameters");
    check("POST", "/dois?dry_run", &body, "did you mean `dry-run`?");
    check("POST", "/dois/batch?dryrun=true", &body, "did you mean `dry-run`?");
    check("DELETE", "/dois/10.70000/q?force", &Json::Null, "query parameters of this operation: `dry-run`");
    client.check("GET", "/dois/10.70000/q", "", &Json::Null, (404, "not-found"));
    client.check("POST", "/dois?dry-run", TOKEN, &body, (200, ""));
}

/// A token that came in clear text through a proxy that is not trusted is ignored; the error says so, and what to set.
fn token_over_an_untrusted_proxy(client: &ApiClient) {
    let body = json!({"code": "C", "name": "C"});
    for header in ["X-Forwarded-For: 203.0.113.7", "Forwarded: for=203.0.113.7", "Via: 1.1 proxy"] {
        let refused = client.json("POST", "/agencies", TOKEN, &[header], &body);
        assert_eq!(
            (refused.status, refused.json["code"].as_str()),
            (403, Some("insecure-transport")),
            "{header}"
        );
        assert!(refused.json["detail"].as_str().unwrap().contains("a proxy that is not trusted"), "{header}");
        assert!(refused.json["hint"].as_str().unwrap().contains("`http.trusted_proxies`"), "{header}");
    }
    assert_eq!(client.json("POST", "/agencies", TOKEN, &[], &body).status, 201);
}
