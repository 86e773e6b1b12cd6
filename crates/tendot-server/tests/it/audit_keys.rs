//! Key values over HTTP: secrets are never sent, restricted tokens cannot write them, unusable keys are rejected.

use serde_json::{Value as Json, json};
use tendot_proto::HandleValue;
use tendot_proto::record::PublicKey;

use crate::support::api_client::ApiClient;
use crate::support::edits::{home_edit, put_edit};
use crate::support::http_server::TOKEN;
use crate::support::http_session::basic;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    audit_f1_token_scopes_hold_for_keys,
    audit_f5_secret_without_permissions_is_private,
    audit_f18_unusable_public_keys_are_rejected,
);

const NAME: &str = "10.70000/admin";
const SECRET: &str = "open-sesame";

/// An `HS_SECKEY` value without `permissions`.
fn secret_json(index: u32, secret: &str) -> Json {
    json!({"index": index, "type": "HS_SECKEY", "data": {"format": "string", "value": secret}})
}

/// Status of a request for something that only the registrant may see, with a password.
fn status_with_password(client: &ApiClient, user: &str, password: &str) -> u16 {
    let header = basic(user, password);
    client.send("GET", "/api/v1/tokens", "", &[&header], b"").status
}

/// Sends a request with JSON; the response never has the secret.
fn request(client: &ApiClient, method: &str, path: &str, token: &str, body: &Json) -> (u16, String) {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let response = client.send(method, path, token, &["Content-Type: application/json"], &body);
    let text = response.text().into_owned();
    assert!(!text.contains(SECRET), "{method} {path}: {text}");
    (response.status, text)
}

/// No record, page, list, history, feed or search has the secret.
fn check_reads(client: &ApiClient, token: &str) {
    for path in [
        "/api/v1/dois/10.70000/admin",
        "/api/v1/dois?prefix=10.70000",
        "/api/v1/history/10.70000/admin",
        "/api/v1/changes?after=0",
        "/api/handles/10.70000/admin",
        "/api/handles/10.70000/admin?publicOnly=false",
        "/api/handles/10.70000/admin?index=300",
        "/api/handles/10.70000/admin?type=HS_SECKEY",
        "/10.70000/admin?noredirect",
        "/10.70000/admin?noredirect&index=300",
        "/10.70000/admin?explain=json",
        "/10.70000/admin?explain",
        "/10.70000/admin?history",
        "/10.70000/admin?action=api",
        "/10.70000/admin?action=showurls",
        "/api/v1/metadata/10.70000/admin",
        "/api/v1/reports/10.70000/invalid-links",
        "/api/v1/reports/10.70000/resolved",
        "/hrls/handles?HS_SECKEY=*",
    ] {
        request(client, "GET", path, token, &Json::Null);
    }
}

fn audit_f1_token_scopes_hold_for_keys(store: StoreKind) {
    let client = ApiClient::start(store.open());
    let fixtures = client.create_fixtures();
    let (id, owner) = (&*fixtures.registrants[0], &*fixtures.tokens[0]);
    let admins = json!({"admins": [format!("300:{NAME}")]});
    client.check("PUT", &format!("/registrants/{id}"), owner, &admins, (200, ""));
    let name = json!({"name": NAME, "url": "https://example.org/", "values": [secret_json(300, SECRET)]});
    let token = |scopes: Json, prefixes: Json, expires: Json| {
        let body = json!({"role": "registrant", "subject": id, "scopes": scopes, "prefixes": prefixes,
            "expires": expires});
        client.create("/tokens", &body)["token"].as_str().unwrap().to_owned()
    };
    let all = json!(["read", "deposit", "transfer", "administer"]);
    let restricted = [
        token(json!(["read"]), json!([]), Json::Null),
        token(json!(["deposit"]), json!(["10.70000"]), json!("2100-01-01T00:00:00Z")),
        token(all, json!([]), Json::Null),
        token(Json::Null, json!(["10.70000"]), Json::Null),
        token(Json::Null, json!([]), json!("2100-01-01T00:00:00Z")),
    ];
    let deposit = &*restricted[1];
    for token in &restricted {
        client.check("POST", "/dois", token, &name, (403, "insufficient-scope"));
    }
    assert_eq!(request(&client, "POST", "/api/v1/dois", owner, &name).0, 201);
    assert_eq!(status_with_password(&client, "300%3A10.70000%2Fadmin", SECRET), 200);
    for token in restricted.iter().map(|token| &**token).chain([owner, TOKEN, ""]) {
        check_reads(&client, token);
    }
    // Writing and removing.
    let other = json!([secret_json(300, "other")]);
    let path = "/api/handles/10.70000/admin";
    let public_key = PublicKey::rsa(&[0xc1; 256], &[1, 0, 1]).to_bytes();
    let public_key = data_encoding::BASE64.encode(&public_key);
    let group = json!([{"index": 200, "type": "HS_VLIST",
        "data": {"format": "vlist", "value": [{"index": 300, "handle": "10.9/x"}]}}]);
    let public_key = json!([{"index": 301, "type": "HS_PUBKEY",
        "data": {"format": "base64", "value": public_key}}]);
    // An equal secret is refused like a different one: otherwise it could be guessed.
    let equal = json!([secret_json(300, SECRET)]);
    let new_owner = &fixtures.registrants[1];
    for token in &restricted {
        for (method, path, body) in [
            ("POST", "/api/v1/transfers".to_owned(), &json!({"names": [NAME], "to": new_owner})),
            ("POST", "/api/v1/transfers".to_owned(), &json!({"prefix": "10.70000", "to": new_owner})),
            ("PUT", format!("{path}?index=300"), &equal),
            ("PUT", path.to_owned(), &equal),
            ("PUT", format!("/api/v1/dois/{NAME}"), &json!({"values": equal})),
            ("PUT", format!("{path}?index=300"), &other),
            ("PUT", format!("{path}?index=301"), &public_key),
            ("PUT", format!("{path}?index=200"), &group),
            ("PUT", path.to_owned(), &other),
            ("DELETE", format!("{path}?index=300"), &Json::Null),
            ("DELETE", path.to_owned(), &Json::Null),
            ("PUT", format!("/api/v1/dois/{NAME}"), &json!({"values": other})),
            ("DELETE", format!("/api/v1/dois/{NAME}"), &Json::Null),
        ] {
            let (status, text) = request(&client, method, &path, token, body);
            assert!([401, 403].contains(&status), "{method} {path}: {status} {text}");
        }
    }
    let line = json!({"name": NAME, "url": "https://example.org/", "values": other}).to_string();
    let lines = client.batch(deposit, &[], &line);
    assert_eq!(lines[0]["error"]["code"], "insufficient-scope", "{}", lines[0]);
    // A name can be updated without naming its secrets, which stay.
    for values in [json!([]), json!([{"index": 5, "type": "NOTE", "data": "x"}])] {
        let update = json!({"url": "https://example.org/2", "values": values});
        client.check("PUT", &format!("/dois/{NAME}"), deposit, &update, (200, ""));
        assert_eq!(status_with_password(&client, "300%3A10.70000%2Fadmin", SECRET), 200);
    }
    let record = json!([{"index": 1, "type": "URL", "data": "https://example.org/3"}]);
    assert_eq!(request(&client, "PUT", &format!("{path}?force=true"), owner, &record).0, 200);
    assert_eq!(status_with_password(&client, "300%3A10.70000%2Fadmin", SECRET), 200);
    assert_eq!(request(&client, "DELETE", &format!("{path}?index=300"), owner, &Json::Null).0, 200);
    assert_eq!(status_with_password(&client, "300%3A10.70000%2Fadmin", SECRET), 401);
}

fn audit_f5_secret_without_permissions_is_private(store: StoreKind) {
    let client = ApiClient::start(store.open());
    let exposed = HandleValue::new(300, "HS_SECKEY", SECRET);

    let values = vec![exposed, HandleValue::new(1, "URL", "https://a/")];
    client.server.commit(vec![home_edit("10.5555"), put_edit("10.5555/KEY", values)]);
    let handle = "/api/handles/10.5555/KEY";
    for (path, token) in [(handle, ""), (handle, TOKEN), ("/10.5555/KEY?noredirect", "")] {
        assert_eq!(request(&client, "GET", path, token, &Json::Null).0, 200);
    }
    let status = |secret: &str| status_with_password(&client, "300%3A10.5555%2FKEY", secret);
    assert_eq!(status(SECRET), 401, "it was publicly readable");
    // It has to be replaced by another, which is private whatever is sent.
    let path = format!("{handle}?index=300");
    let mut private = secret_json(300, SECRET);
    private["permissions"] = json!("1100");
    assert_eq!(request(&client, "PUT", &path, TOKEN, &json!([private])).0, 400);
    let mut public = secret_json(300, "another");
    public["permissions"] = json!("1111");
    assert_eq!(request(&client, "PUT", &path, TOKEN, &json!([public])).0, 200);
    assert_ne!(status("another"), 401);
    for path in ["/api/handles/10.5555/KEY", "/10.5555/KEY?noredirect", "/api/v1/history/10.5555/KEY"] {
        for token in ["", TOKEN] {
            assert!(!request(&client, "GET", path, token, &Json::Null).1.contains("another"), "{path}");
        }
    }
    assert_ne!(request(&client, "PUT", &path, "", &json!([secret_json(300, "mine")])).0, 200);
    // A subtype is a secret, too, in any spelling.
    let mut subtype = secret_json(302, "of-a-subtype");
    subtype["type"] = json!("hs_seckey.old");
    subtype["permissions"] = json!("1111");
    assert_eq!(request(&client, "PUT", &format!("{handle}?index=302"), TOKEN, &json!([subtype])).0, 201);
    for path in
        [handle, "/10.5555/KEY?noredirect", "/10.5555/KEY?explain=json", "/api/v1/history/10.5555/KEY"]
    {
        for token in ["", TOKEN] {
            assert!(!request(&client, "GET", path, token, &Json::Null).1.contains("of-a-subtype"), "{path}");
        }
    }
    // The history shows that the first one was readable.
    assert_eq!(request(&client, "PUT", &path, TOKEN, &json!([secret_json(300, SECRET)])).0, 200);
    assert_eq!(status(SECRET), 401);
}

fn audit_f18_unusable_public_keys_are_rejected(store: StoreKind) {
    let client = ApiClient::start(store.open());
    client.create_fixtures();
    client.create("/dois", &json!({"name": "10.70000/x", "url": "https://example.org/"}));
    let short = PublicKey::rsa(&[0xc1; 128], &[1, 0, 1]).to_bytes();
    for (data, rule) in [(&[0; 3][..], "malformed data"), (&short, "key size 1024 bits out of range")] {
        let data = data_encoding::BASE64.encode(data);
        let values =
            json!([{"index": 300, "type": "HS_PUBKEY", "data": {"format": "base64", "value": data}}]);
        let new = json!({"name": "10.70000/new", "url": "https://example.org/", "values": values});
        let update = json!({"values": values});
        for (method, path, body) in [
            ("PUT", "/api/handles/10.70000/x?index=300", &values),
            ("PUT", "/api/handles/10.70000/other", &values),
            ("POST", "/api/v1/dois", &new),
            ("PUT", "/api/v1/dois/10.70000/x", &update),
        ] {
            let (status, text) = request(&client, method, path, TOKEN, body);
            assert!([400, 422].contains(&status) && text.contains(rule), "{method} {path}: {status} {text}");
        }
        let lines = client.batch(TOKEN, &[], &new.to_string());
        assert_eq!(lines[0]["error"]["code"], "invalid-value", "{}", lines[0]);
    }
}
