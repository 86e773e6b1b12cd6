//! The interface of Handle.Net, beside what was recorded: each case was asked of its server 9.2, and is answered as it was.

mod service;
mod session;

use serde_json::{Value as Json, json};
use service::{Found, Service};
use session::{SECRET, Session, basic};
use tendot_server::http::Trust;

const RECORDS: &str = include_str!("../../../conformance/vectors/handle-net/records.jsonl");

fn trusted() -> Service {
    Service::of_handle_net(RECORDS.lines(), |http| http.trust_loopback(true).operator_token("token"))
}

fn plain() -> Service {
    Service::of_handle_net(RECORDS.lines(), |http| http.trust_loopback(false))
}

fn admin() -> String {
    basic("301%3A10.5555%2FADMIN", SECRET)
}

fn json(found: &Found) -> Json {
    serde_json::from_str(&found.body).unwrap_or_default()
}

/// The status, and the members that are expected, of which none may be missing.
#[track_caller]
fn check(service: Service, said: &str, target: &str, status: u16, expected: &Json) {
    let (method, target) = target.split_once(' ').unwrap();
    let found = service.ask(method, target, &[said], "");
    let members = expected.as_object().unwrap().iter();
    let differs: Vec<_> = members.filter(|(name, value)| json(&found)[name] != **value).collect();
    assert!(found.status == status && differs.is_empty(), "{target}: {} {}", found.status, found.body);
}

const NOTHING: &str = "X-Nothing: said";

#[test]
fn lists() {
    let (service, admin) = (trusted(), admin());
    let total = |page: Json, size: Json, handles: Json| json!({"responseCode": 1, "totalCount": "13", "page": page, "pageSize": size, "handles": handles});
    let all = json(&service.ask("GET", "/api/handles?prefix=10.5555", &[&admin], ""))["handles"].clone();
    assert_eq!(all.as_array().unwrap().len(), 13);
    let check = |query: &str, status, expected: Json| {
        check(service, &admin, &format!("GET /api/handles{query}"), status, &expected);
        check(service, &admin, &format!("POST /api/handles{query}"), status, &expected);
    };
    let whole = || total(Json::Null, Json::Null, all.clone());
    check("?prefix=10.5555&page=0", 200, whole());
    check("?prefix=10.5555&pageSize=2", 200, whole());
    check("?prefix=10.5555&page=-1&pageSize=2", 200, whole());
    check("?prefix=10.5555&page=0&pageSize=-1", 200, whole());
    check("?prefix=10.5555&page=99&pageSize=2", 200, total(99.into(), 2.into(), json!([])));
    check("?prefix=10.5555&page=2&pageSize=0", 200, total(2.into(), 0.into(), json!([])));
    check("?prefix=0.na/10.5555&page=0&pageSize=1", 200, total(0.into(), 1.into(), json!(["10.5555/ADMIN"])));
    check("/?prefix=10.5555&page=0&pageSize=1", 200, total(0.into(), 1.into(), json!(["10.5555/ADMIN"])));
    let huge = i32::MAX;
    check(
        &format!("?prefix=10.5555&page={huge}&pageSize={huge}"),
        200,
        total(huge.into(), huge.into(), json!([])),
    );
    check("?prefix=10.5555&page=x&pageSize=2", 400, json!({"responseCode": 4}));
    check("?prefix=10.5555&page=0&pageSize=4294967296", 400, json!({"responseCode": 4}));
    check("?prefix=", 400, json!({"responseCode": 301, "handle": null}));
    check("", 400, json!({"responseCode": 102}));
    check("?page=0&pageSize=2", 400, json!({"responseCode": 102}));
    check("?prefix=10.5555/X&page=0&pageSize=2", 400, json!({"responseCode": 301, "handle": "10.5555/X"}));
    check("?prefix=0.NA&page=0&pageSize=5", 403, json!({"responseCode": 400, "handle": "0.NA"}));
    // All pages together are the whole, whatever their size.
    for size in 1..=14 {
        let page = |number: usize| {
            let target = format!("/api/handles?prefix=10.5555&page={number}&pageSize={size}");
            let found = json(&service.get(&target, &[&admin]));
            assert_eq!(found["totalCount"], "13", "{target}");
            found["handles"].as_array().unwrap().clone()
        };
        let pages: Vec<Json> = (0..13_usize.div_ceil(size)).flat_map(page).collect();
        assert_eq!(Json::from(pages), all, "{size}");
    }
    for (kind, body) in [
        ("application/json", r#"{"prefix":"10.5555","page":0,"pageSize":1}"#),
        ("application/x-www-form-urlencoded", "prefix=10.5555&page=0&pageSize=1"),
    ] {
        let headers = [admin.as_str(), &format!("Content-Type: {kind}")];
        let found = service.ask("POST", "/api/handles", &headers, body);
        assert_eq!(json(&found)["handles"], json!(["10.5555/ADMIN"]), "{kind}: {}", found.body);
    }
    let broken = service.ask("POST", "/api/handles", &[&admin, "Content-Type: application/json"], "[");
    assert_eq!(broken.status, 400);
}

#[test]
fn who_may_list() {
    let (service, target) = (trusted(), "GET /api/handles?prefix=10.5555&page=0&pageSize=1");
    check(service, NOTHING, target, 401, &json!({"responseCode": 402, "handle": "10.5555"}));
    check(service, &basic("301%3A10.5555/ADMIN", "wrong"), target, 401, &json!({}));
    check(service, NOTHING, "GET /api/handles?prefix=10.9999", 400, &json!({"responseCode": 301}));
    check(service, "Authorization: Bearer token", target, 200, &json!({"totalCount": "13"}));
    check(plain(), NOTHING, target, 403, &json!({"responseCode": 402, "handle": "10.5555"}));
    check(plain(), &admin(), target, 403, &json!({"responseCode": 402, "handle": "10.5555"}));
}

#[test]
fn passwords() {
    let service = trusted();
    let check = |user: &str, secret: &str, expected: &str| {
        let said = basic(user, secret);
        let found = service.get("/api/sessions/this", &[&said]);
        let shown = json(&found)["id"].as_str().map_or_else(|| found.status.to_string(), ToOwned::to_owned);
        assert_eq!(shown, expected, "{user}:{secret}");
        // What is not right is not taken anywhere.
        let read = service.get("/api/handles/10.5555/ONE", &[&said]).status;
        assert_eq!(read == 200, expected != "401", "{user}:{secret}");
    };
    let right = "301:10.5555/ADMIN";
    check("301%3A10.5555%2FADMIN", SECRET, right);
    check("301%3A10.5555/ADMIN", SECRET, right);
    check("301%3a10.5555%2fADMIN", SECRET, right);
    check("10.5555/ADMIN", SECRET, right);
    check("0%3A10.5555/ADMIN", SECRET, right);
    check("301%3A10.5555%2Fadmin", SECRET, "301:10.5555/admin");
    check("302%3A10.5555/ADMIN", SECRET, "401");
    check("300%3A10.5555/ADMIN", SECRET, "401");
    check("x%3A10.5555/ADMIN", SECRET, "401");
    check("-1%3A10.5555/ADMIN", SECRET, "401");
    check("301:10.5555/ADMIN", SECRET, "401");
    check("301%3A10.5555/ADMIN", "", "401");
    check("301%3A10.5555/ADMIN", "opensesamE", "401");
    check("301%3A10.5555/NOBODY", SECRET, "401");
    check("301%3A10.9999/NOBODY", SECRET, "401");
    check("300%3A0.NA/10.5555", SECRET, "401");
    check("", "", "401");
    for header in
        ["Basic", "Basic !!!", "Basic bm9jb2xvbg==", "Bearer x", "Foo bar", "Handle", "Handle garbage"]
    {
        let found = service.get("/api/handles/10.5555/ONE", &[&format!("Authorization: {header}")]);
        assert_eq!(found.status, 401, "{header}");
        assert!(found.header("www-authenticate").is_some(), "{header}");
    }
    // Where none is taken, none is looked at.
    let found = plain().get("/api/handles/10.5555/ONE", &[&basic("301%3A10.5555/ADMIN", "wrong")]);
    assert_eq!(found.status, 200);
}

#[test]
fn challenges() {
    let service = trusted();
    let offered = |said: &[&str]| {
        let found = service.get("/api/prefixes", said);
        assert_eq!(found.status, 401);
        let schemes = found.headers("www-authenticate").map(|one| one.split(' ').next().unwrap().to_owned());
        (schemes.collect::<Vec<_>>().join(" "), found)
    };
    assert_eq!(offered(&[]).0, "Basic Bearer Handle");
    assert_eq!(offered(&["X-Requested-With: XMLHttpRequest"]).0, "Handle");
    let session = Session::new(service);
    let (schemes, found) = offered(&[&session.header()]);
    assert_eq!(schemes, "Handle");
    // It is the same session, and its nonce.
    let challenge = format!("Handle sessionId=\"{}\", nonce=\"{}\"", session.id, session.nonce);
    assert_eq!(found.header("www-authenticate"), Some(&*challenge));
    let (_, found) = offered(&[&session.by_secret("AAAA", "wrong")]);
    assert_eq!(
        found.header("www-authenticate"),
        Some(&*format!("{challenge}, error=\"Identity not verified\""))
    );
    // A new one is as good as one that was asked for.
    let (_, found) = offered(&["Authorization: Handle sessionId=\"unknown\""]);
    let quoted: Vec<&str> = found.header("www-authenticate").unwrap().split('"').collect();
    let session = Session { id: quoted[1].into(), nonce: quoted[3].into() };
    check(service, &session.by_key("AAAA"), "GET /api/prefixes", 200, &json!({"totalCount": "2"}));
}

#[test]
fn sessions() {
    let service = trusted();
    let nobody = json!({"authenticated": false, "sessionId": null});
    for method in ["GET", "POST", "PUT"] {
        check(service, NOTHING, &format!("{method} /api/sessions/this"), 200, &nobody);
        check(service, NOTHING, &format!("{method} /api/sessions/this/"), 200, &nobody);
        check(service, NOTHING, &format!("{method} /api/sessions/other"), 403, &json!({}));
    }
    for method in ["GET", "PUT", "DELETE", "HEAD"] {
        check(service, NOTHING, &format!("{method} /api/sessions"), 405, &json!({}));
    }
    for target in ["POST /api/sessions", "GET /api/sessions/this", "DELETE /api/sessions/this"] {
        check(plain(), NOTHING, target, 403, &json!({}));
    }
    check(service, NOTHING, "DELETE /api/sessions/this", 403, &json!({}));
    let unknown = "Authorization: Handle sessionId=\"unknown\"";
    check(service, unknown, "GET /api/sessions/this", 403, &json!({}));
    check(service, unknown, "DELETE /api/sessions/this", 403, &json!({}));
    check(service, unknown, "GET /api/handles/10.5555/ONE", 401, &json!({}));

    let session = Session::new(service);
    let fresh = json!({"sessionId": session.id, "nonce": session.nonce, "authenticated": null, "id": null});
    check(service, &session.header(), "GET /api/sessions/this", 200, &fresh);
    check(service, &session.header(), "PUT /api/sessions/this", 200, &fresh);
    check(service, &session.header(), "POST /api/sessions", 400, &json!({}));
    check(service, &session.header(), "GET /api/handles/10.5555/ONE", 200, &json!({"responseCode": 1}));
    check(
        service,
        &format!("Authorization: handle SESSIONID={}", session.id),
        "GET /api/sessions/this",
        200,
        &fresh,
    );
    // There are no cookies.
    check(service, &format!("Cookie: JSESSIONID={}", session.id), "GET /api/sessions/this", 200, &nobody);
    check(service, NOTHING, &format!("GET /api/sessions/this;jsessionid={}", session.id), 403, &json!({}));

    let wrong = json!({"error": "Identity not verified", "authenticated": null});
    check(service, &session.by_secret("AAAA", "wrong"), "PUT /api/sessions/this", 401, &wrong);
    let incomplete = format!("{}, id=\"301:10.5555/ADMIN\"", session.header());
    check(service, &incomplete, "PUT /api/sessions/this", 401, &json!({"sessionId": session.id}));
    let known = json!({"sessionId": session.id, "authenticated": true, "id": "301:10.5555/ADMIN"});
    check(service, &session.by_secret("AAAA", SECRET), "PUT /api/sessions/this", 200, &known);
    check(service, &session.header(), "GET /api/sessions/this", 200, &known);
    // Who was known before is still known after a wrong answer.
    let both = json!({"authenticated": true, "error": "Identity not verified"});
    check(service, &session.by_secret("BBBB", "wrong"), "PUT /api/sessions/this", 200, &both);
    check(service, &session.header(), "DELETE /api/sessions/this", 204, &json!({}));
    check(service, &session.header(), "GET /api/sessions/this", 403, &json!({}));

    let id = json!({"authenticated": true, "id": "301:10.5555/ADMIN"});
    check(service, &admin(), "POST /api/sessions", 201, &id);
    let error = json!({"authenticated": null, "error": "Identity not verified"});
    check(service, &basic("301%3A10.5555/ADMIN", "wrong"), "POST /api/sessions", 201, &error);
}

/// What may stand in the header may stand in the body.
#[test]
fn sessions_by_body() {
    let service = trusted();
    let ask = |method: &str, target: &str, body: Json| {
        let found = service.ask(method, target, &["Content-Type: application/json"], &body.to_string());
        (found.status, json(&found))
    };
    let session = Session::new(service);
    let answer = |secret| {
        json!({"sessionId": session.id, "id": "301:10.5555/ADMIN", "type": "HS_SECKEY", "cnonce": "AAAA",
            "alg": "HMAC-SHA256", "signature": session.mac("AAAA", secret)})
    };
    assert_eq!(ask("PUT", "/api/sessions/this", answer("wrong")).0, 401);
    let (status, found) = ask("PUT", "/api/sessions/this", answer(SECRET));
    assert_eq!((status, &found["id"]), (200, &json!("301:10.5555/ADMIN")));
    assert_eq!(ask("POST", "/api/sessions", json!({"sessionId": session.id})).0, 400);
    assert_eq!(ask("PUT", "/api/sessions/this", json!({"sessionId": "unknown"})).0, 403);
    assert_eq!(ask("PUT", "/api/sessions/this", json!([])).0, 400);
    assert_eq!(ask("DELETE", "/api/sessions/this", json!({"sessionId": session.id})).0, 204);
    // The server proves who it is, to whoever sends a nonce.
    let (status, found) = ask("POST", "/api/sessions", json!({"cnonce": "AAECAwQFBgcICQoLDA0ODw=="}));
    assert_eq!((status, &found["serverAlg"]), (201, &json!("SHA-256")));
    use tendot_proto::crypto::{AwsLc, Crypto as _, Hash};
    let bytes = |text: &Json| data_encoding::BASE64.decode(text.as_str().unwrap().as_bytes()).unwrap();
    let signed = [bytes(&found["nonce"]), (0..16).collect()].concat();
    let file = include_bytes!("../../../conformance/vectors/handle-net/pubkey.bin");
    let key = tendot_proto::record::PublicKey::from_bytes(file).unwrap();
    AwsLc.verify(&key, Hash::Sha256, &signed, &bytes(&found["serverSignature"])).unwrap();
}

#[test]
fn proofs() {
    let service = trusted();
    let secret = "GET /api/handles/10.5555/SECRET?publicOnly=false";
    let check = |said: &dyn Fn(&Session) -> String, status: u16| {
        let session = Session::new(service);
        check(service, &said(&session), secret, status, &json!({}));
    };
    let key = |id: &'static str, alg: &'static str| {
        move |session: &Session| session.answer("AAAA", id, "HS_PUBKEY", alg, &session.sign("AAAA"))
    };
    check(&key("300:0.NA/10.5555", "SHA256"), 200);
    check(&key("300:0.NA/10.5555", "SHA-256"), 200);
    check(&key("300:0.NA/10.5555", "sha256"), 200);
    check(&key("300%3A0.NA%2F10.5555", "SHA256"), 200);
    check(&key("0:0.NA/10.5555", "SHA256"), 200);
    check(&key("0.NA/10.5555", "SHA256"), 200);
    check(&key("301:0.NA/10.5555", "SHA256"), 401);
    check(&key("301:10.5555/ADMIN", "SHA256"), 401);
    check(&key("300:0.NA/10.5555", "none"), 401);
    // Known, but without the right.
    check(&key("300:10.5555/ADMIN", "SHA256"), 403);
    check(&|session| session.by_secret("AAAA", SECRET), 403);
    check(&|session| session.by_secret("AAAA", "wrong"), 401);
    check(&|session| session.header(), 401);
    let kind = |kind: &'static str, alg: &'static str| {
        move |session: &Session| {
            session.answer("AAAA", "301:10.5555/ADMIN", kind, alg, &session.mac("AAAA", SECRET))
        }
    };
    check(&kind("HS_SECKEY", "hmac-sha256"), 403);
    check(&kind("HS_PUBKEY", "HMAC-SHA256"), 401);
    check(&kind("HS_OTHER", "HMAC-SHA256"), 401);
    check(&kind("HS_SECKEY", "none"), 401);
    // The nonce of another session.
    check(
        &|session| Session { nonce: "AAAAAAAAAAAAAAAAAAAAAA==".into(), ..session.clone() }.by_key("AAAA"),
        401,
    );
}

/// An algorithm is bound to the stored key: its public part is no secret that one could sign with.
#[test]
fn attack_a4_algorithm_confusion() {
    let service = trusted();
    let session = Session::new(service);
    let public = session::private_key().public_key().unwrap().to_bytes();
    let signed =
        [&session.nonce, "AAAA"].map(|nonce| data_encoding::BASE64.decode(nonce.as_bytes()).unwrap());
    use tendot_proto::crypto::{AwsLc, Crypto as _, Hash};
    let mac = AwsLc.hmac(Hash::Sha256, &public, &[&signed.concat()]).unwrap();
    let mac = data_encoding::BASE64.encode(&mac);
    for kind in ["HS_SECKEY", "HS_PUBKEY"] {
        let said = session.answer("AAAA", "300:0.NA/10.5555", kind, "HMAC-SHA256", &mac);
        check(service, &said, "GET /api/prefixes", 401, &json!({}));
    }
}

#[test]
fn attack_a1_an_answer_sent_twice() {
    let service = trusted();
    let session = Session::new(service);
    let answer = session.by_key("AAAA");
    check(service, &answer, "POST /api/prefixes/10.5570", 200, &json!({}));
    check(service, &answer, "POST /api/prefixes/10.5571", 401, &json!({}));
    check(service, &session.by_key("BBBB"), "GET /api/prefixes", 200, &json!({"totalCount": "3"}));
    check(service, &session.header(), "DELETE /api/sessions/this", 204, &json!({}));
    check(service, &session.by_key("CCCC"), "GET /api/prefixes", 401, &json!({}));
}

/// MD5 and SHA-1 are not taken, though the server of Handle.Net takes them.
#[test]
fn attack_a5_downgrade() {
    let service = trusted();
    use tendot_proto::crypto::{AwsLc, Crypto as _, Hash};
    for (alg, hash) in
        [("MD5", Hash::Md5), ("SHA1", Hash::Sha1), ("SHA-1", Hash::Sha1), ("SHA-256", Hash::Sha256)]
    {
        let session = Session::new(service);
        let nonces =
            [&session.nonce, "AAAA"].map(|one| data_encoding::BASE64.decode(one.as_bytes()).unwrap());
        let parts = [SECRET.as_bytes(), &nonces[0], &nonces[1], SECRET.as_bytes()];
        let mac = AwsLc.hash(hash, &parts).map(|mac| data_encoding::BASE64.encode(&mac)).unwrap_or_default();
        let said = session.answer("AAAA", "301:10.5555/ADMIN", "HS_SECKEY", alg, &mac);
        check(service, &said, "GET /api/handles/10.5555/ONE", 401, &json!({}));
    }
}

/// Numbers of PBKDF2 that would keep a core busy are refused before anything is done.
#[test]
fn attack_a6_rounds() {
    let service = trusted();
    for (iterations, length) in [("2147483647", "160"), ("0", "160"), ("-1", "160"), ("10000", "4294967288")]
    {
        let session = Session::new(service);
        let pbkdf2 = session.answer("AAAA", "301:10.5555/ADMIN", "HS_SECKEY", "PBKDF2-HMAC-SHA1", "AAAA");
        let said = format!("{pbkdf2}, salt=\"AAAA\", iterations=\"{iterations}\", length=\"{length}\"");
        let begun = std::time::Instant::now();
        check(service, &said, "GET /api/handles/10.5555/ONE", 401, &json!({}));
        assert!(begun.elapsed() < std::time::Duration::from_millis(500), "{iterations} {length}");
    }
}

/// Whoever knows no such identity is told the same as who has the wrong secret.
#[test]
fn attack_a8_nobody_is_told_who_there_is() {
    let service = trusted();
    let told = |user: &str| {
        let found = service.get("/api/handles/10.5555/ONE", &[&basic(user, "wrong")]);
        (found.status, found.body)
    };
    assert_eq!(told("301%3A10.5555/ADMIN"), told("301%3A10.5555/NOBODY"));
    assert_eq!(told("301%3A10.5555/ADMIN"), told("301%3A10.9999/NOBODY"));
}

/// A browser sends nothing of itself by which somebody would be known: no cookie is set, none is read, and the answer to a
/// page of another site is that of a stranger.
#[test]
fn attack_a12_nothing_is_known_without_a_header() {
    let service = trusted();
    let session = Session::new(service);
    check(service, &session.by_key("AAAA"), "GET /api/prefixes", 200, &json!({}));
    let cookies =
        ["JSESSIONID", "sessionId", "session", "__Host-session"].map(|name| format!("{name}={}", session.id));
    let headers = [format!("Cookie: {}", cookies.join("; ")), "Origin: https://example.net".to_owned()];
    for (method, target) in [
        ("POST", "/api/prefixes/10.5572"),
        ("POST", "/api/prefixes?prefix=10.5572"),
        ("DELETE", "/api/prefixes/10.5555"),
        ("GET", "/api/prefixes"),
        ("POST", "/api/sessions"),
        ("GET", "/api/sessions/this"),
    ] {
        let found = service.ask(method, target, &headers.each_ref().map(String::as_str), "");
        let is_stranger = found.status == 401 || json(&found)["id"].is_null() && target.contains("sessions");
        assert!(is_stranger, "{target}: {}", found.body);
        assert_eq!(found.header("set-cookie"), None, "{target}");
        assert_eq!(found.header("access-control-allow-credentials"), None, "{target}");
    }
}

/// After a key is taken out of its record, what it has opened is closed.
/// Passwords that a browser adds by itself to what the page of another site asks for.
#[test]
fn attack_h8_lent_passwords() {
    let (service, admin) = (trusted(), admin());
    let check = |site: &str, mode: &str, expected: [u16; 2]| {
        let led = [format!("Sec-Fetch-Site: {site}"), format!("Sec-Fetch-Mode: {mode}")];
        let headers = ["Authorization: Bearer token", &led[0], &led[1]];
        let home = service.ask("POST", "/api/prefixes/0.NA/10.7777", &headers, "").status;
        let headers = [&*admin, &led[0], &led[1]];
        let list = service.ask("GET", "/api/handles?prefix=10.5555&callback=steal", &headers, "");
        let is_told = u16::from(list.body.contains("10.5555/"));
        assert_eq!([home, is_told], expected, "{site} {mode}: {}", list.body);
    };
    check("cross-site", "navigate", [403, 0]);
    check("cross-site", "no-cors", [403, 0]);
    check("same-site", "no-cors", [403, 0]);
    // The script of a page has to know the password, and who types an address is not led by anybody.
    check("cross-site", "cors", [200, 1]);
    check("same-origin", "no-cors", [200, 1]);
    check("none", "navigate", [200, 1]);
}

#[test]
fn attack_a14_an_old_key() {
    let service = trusted();
    let session = Session::new(service);
    let target = "GET /api/handles?prefix=10.5555&page=0&pageSize=1";
    check(service, &session.by_secret("AAAA", SECRET), target, 200, &json!({"responseCode": 1}));
    check(service, &session.header(), target, 200, &json!({"responseCode": 1}));
    let value = r#"[{"index":301,"type":"HS_SECKEY","data":"another"}]"#;
    let headers = ["Authorization: Bearer token", "Content-Type: application/json"];
    let changed = service.ask("PUT", "/api/handles/10.5555/ADMIN?index=301", &headers, value);
    assert_eq!(changed.status, 200, "{}", changed.body);
    check(service, &session.header(), target, 401, &json!({}));
    check(service, &session.header(), "GET /api/sessions/this", 403, &json!({}));
    check(service, &admin(), target, 401, &json!({}));
}

/// Guessing is slow: of a client, and for all ways to be known.
#[test]
fn attack_a11_guessing_passwords() {
    let trust = Trust { proxies: vec!["127.0.0.1/32".parse().unwrap()], ..Trust::default() };
    let service = Service::of_handle_net(RECORDS.lines(), |http| http.trust(trust).operator_token("token"));
    let ask = |client: &str, said: &str| {
        let headers = [format!("X-Forwarded-For: {client}"), "X-Forwarded-Proto: https".into(), said.into()];
        service.get("/api/handles/10.5555/ONE", &headers.each_ref().map(String::as_str))
    };
    let wrong = basic("301%3A10.5555/ADMIN", "wrong");
    for client in ["192.0.2.1", "2001:db8::1"] {
        let statuses: Vec<u16> = (0..40).map(|_| ask(client, &wrong).status).collect();
        let refused = statuses.iter().filter(|status| **status == 429).count();
        assert!(statuses[..20].iter().all(|status| *status == 401) && refused > 10, "{statuses:?}");
        // Not even the right one is tried. The operator is not kept out: nobody guesses the token.
        assert_eq!(ask(client, &admin()).status, 429);
        assert_eq!(ask(client, "Authorization: Bearer wrong").status, 429);
        assert_eq!(ask(client, "Authorization: Bearer token").status, 200);
        assert!(ask(client, &admin()).header("retry-after").is_some());
    }
    assert_eq!(ask("198.51.100.1", &admin()).status, 200);
    assert_eq!(ask("198.51.100.1", NOTHING).status, 200);
    for client in ["203.0.113.1", "203.0.113.2"] {
        let verify =
            "/api/verifications/301:10.5555/ADMIN?nonce=AAAA&cnonce=AAAA&alg=HMAC-SHA256&signature=AAAA";
        let headers = [&format!("X-Forwarded-For: {client}"), "X-Forwarded-Proto: https"];
        let statuses: Vec<u16> = (0..40).map(|_| service.get(verify, &headers).status).collect();
        assert!(statuses[0] == 200 && statuses[39] == 429, "{statuses:?}");
    }
}

#[test]
fn prefixes() {
    let service = trusted();
    let session = Session::new(service);
    assert_eq!(service.get("/api/sessions/this", &[&session.by_key("AAAA")]).status, 200);
    let said = session.header();
    let check = |target: &str, status, expected: Json| check(service, &said, target, status, &expected);
    let all = json!({"responseCode": 1, "totalCount": "2", "prefixes": ["0.NA/0.NA", "0.NA/10.5555"], "page": null});
    check("GET /api/prefixes", 200, all.clone());
    check("GET /api/prefixes/", 200, all);
    let one = json!({"totalCount": "2", "page": 1, "pageSize": 1, "prefixes": ["0.NA/10.5555"]});
    check("GET /api/prefixes?page=1&pageSize=1", 200, one);
    check("GET /api/prefixes?page=0&pageSize=0", 200, json!({"totalCount": "2", "prefixes": []}));
    check("GET /api/prefixes?page=9&pageSize=9", 200, json!({"totalCount": "2", "prefixes": []}));
    check("GET /api/prefixes?page=x", 400, json!({"responseCode": 4}));
    for name in ["10.5561", "0.NA/10.5561", "0.NA%2F10.5561"] {
        let done = json!({"responseCode": 1, "handle": name.replace("%2F", "/")});
        for method in ["POST", "POST", "DELETE", "DELETE"] {
            check(&format!("{method} /api/prefixes/{name}"), 200, done.clone());
        }
        check(&format!("POST /api/prefixes?prefix={name}"), 200, done.clone());
        check("GET /api/prefixes", 200, json!({"totalCount": "3"}));
        check(&format!("DELETE /api/prefixes?prefix={name}"), 200, done);
    }
    check("POST /api/prefixes", 400, json!({"responseCode": 4}));
    check("DELETE /api/prefixes/", 400, json!({"responseCode": 4}));
    check("GET /api/prefixes/10.5555", 405, json!({"responseCode": 4}));
    check("PUT /api/prefixes/10.5555", 405, json!({"responseCode": 4}));
    check("POST /api/prefixes/10.5555/X", 400, json!({"responseCode": 102, "handle": "10.5555/X"}));
    let headers = [said.as_str(), "Content-Type: application/json"];
    assert_eq!(service.ask("POST", "/api/prefixes", &headers, r#"{"prefix":"10.5566"}"#).status, 200);
    check("GET /api/prefixes", 200, json!({"totalCount": "3"}));
}

/// Nobody homes or unhomes a prefix who does not administer the server, at either front door.
#[test]
fn attack_p7_prefixes_of_others() {
    let service = trusted();
    let (taken, mine) =
        (json!({"responseCode": 400}), json!({"responseCode": 402, "handle": "0.NA/10.5560"}));
    for method in ["POST", "DELETE"] {
        let target = format!("{method} /api/prefixes/0.NA/10.5560");
        check(service, NOTHING, &target, 401, &mine);
        check(plain(), NOTHING, &target, 403, &mine);
        check(service, &admin(), &target, 403, &taken);
        check(service, "Authorization: Handle sessionId=\"unknown\"", &target, 401, &json!({}));
        check(service, &Session::new(service).header(), &target, 401, &mine);
    }
    check(service, &admin(), "GET /api/prefixes", 403, &json!({"responseCode": 400, "handle": null}));
    check(service, NOTHING, "GET /api/prefixes", 401, &json!({"responseCode": 402, "handle": null}));
}

#[test]
fn status() {
    let service = trusted();
    let target = "GET /api/handles/0.SITE/status";
    let session = Session::new(service);
    let found = json(&service.get("/api/handles/0.site/STATUS", &[&session.by_key("AAAA")]));
    assert_eq!((&found["responseCode"], found["values"].as_array().unwrap().len()), (&json!(1), 2));
    let nothing = json!({"responseCode": 200, "values": [], "handle": "0.SITE/status"});
    check(service, NOTHING, target, 200, &nothing);
    check(plain(), NOTHING, target, 200, &nothing);
    check(service, &session.header(), &format!("{target}?publicOnly=true"), 200, &nothing);
    check(service, &admin(), target, 403, &json!({"responseCode": 400}));
    check(service, NOTHING, &format!("{target}?publicOnly=false"), 401, &json!({"responseCode": 402}));
    check(service, &session.header(), "GET /api/handles/0.SITE/other", 400, &json!({"responseCode": 301}));
}

#[test]
fn verifications() {
    let service = trusted();
    let both = Session { id: String::new(), nonce: "AAECAwQFBgcICQoLDA0ODw==".into() };
    let (cnonce, mac) = ("EBESExQVFhcYGRobHB0eHw==", both.mac("EBESExQVFhcYGRobHB0eHw==", SECRET));
    let encoded = mac.replace('+', "%2B");
    let query =
        |alg: &str, mac: &str| format!("nonce={}&cnonce={cnonce}&alg={alg}&signature={mac}", both.nonce);
    let good = query("HMAC-SHA256", &encoded);
    let check = |identity: &str, query: &str, status, expected: Json| {
        let target = format!("GET /api/verifications/{identity}?{query}");
        check(service, NOTHING, &target, status, &expected);
        check(plain(), NOTHING, &target.replace("GET", "POST"), status, &expected);
    };
    let fits =
        |is_valid: bool, handle: &str| json!({"responseCode": 1, "isValid": is_valid, "handle": handle});
    check("301:10.5555/ADMIN", &good, 200, fits(true, "10.5555/ADMIN"));
    check("301%3A10.5555%2FADMIN", &good, 200, fits(true, "10.5555/ADMIN"));
    check("0:10.5555/admin", &good, 200, fits(true, "10.5555/admin"));
    check("300:10.5555/ADMIN", &good, 200, fits(false, "10.5555/ADMIN"));
    check("301:10.5555/NOBODY", &good, 200, fits(false, "10.5555/NOBODY"));
    check("300:0.NA/10.5555", &good, 200, fits(false, "0.NA/10.5555"));
    check("301:10.5555/ADMIN", &query("HMAC-SHA256", "AAAA"), 200, fits(false, "10.5555/ADMIN"));
    check("301:10.5555/ADMIN", &query("HMAC-SHA256", "!!!"), 200, fits(false, "10.5555/ADMIN"));
    check("301:10.9999/NOBODY", &good, 400, json!({"responseCode": 301, "handle": "10.9999/NOBODY"}));
    check("301:10.5555/ADMIN", &query("none", &encoded), 400, json!({"responseCode": 4}));
    for (identity, query) in [
        ("10.5555/ADMIN", &*good),
        ("x:10.5555/ADMIN", &good),
        ("301:10.5555/ADMIN", ""),
        ("301:10.5555/ADMIN", "nonce=AAAA&cnonce=AAAA&alg=HMAC-SHA256"),
        ("", &good),
    ] {
        check(identity, query, 400, json!({"responseCode": 4}));
    }
    let body =
        json!({"nonce": both.nonce, "cnonce": cnonce, "alg": "HMAC-SHA256", "signature": mac}).to_string();
    let kind = ["Content-Type: application/json"];
    let found = service.ask("POST", "/api/verifications/301:10.5555/ADMIN", &kind, &body);
    assert_eq!(json(&found)["isValid"], true, "{}", found.body);
}

#[test]
fn what_is_not_done() {
    let service = trusted();
    for target in
        ["PUT /api/site", "DELETE /api/site", "PUT /api/verifications/1:10.1/x", "PUT /api/prefixes"]
    {
        let message = format!("Unknown HTTP API endpoint {target}");
        check(service, NOTHING, target, 405, &json!({"responseCode": 4, "message": message}));
    }
    check(service, NOTHING, "POST /api/site", 200, &json!({"responseCode": 1}));
    check(service, NOTHING, "PUT /api/foo", 404, &json!({"responseCode": 4}));
}
