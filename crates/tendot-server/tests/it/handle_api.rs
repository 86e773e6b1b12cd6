//! Handle.Net's HTTP API beyond the recorded exchanges: each expected result was observed with the Handle.Net server 9.2.

use serde_json::{Value as Json, json};
use tendot_server::http::ProxyTrust;
use tendot_testing::handle_keys::{handle_net_file, private_key};

use crate::support::http_server::trust_loopback;
use crate::support::http_session::{HttpSession, SECRET, basic};
use crate::support::records_server::RecordsServer;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    handle_lists,
    list_authorization,
    passwords,
    challenges,
    sessions,
    sessions_by_body,
    signatures_and_macs,
    attack_a4_algorithm_confusion,
    attack_a1_replayed_proof,
    attack_a5_downgrade,
    attack_a6_pbkdf2_iterations,
    attack_a8_identities_are_not_disclosed,
    attack_a12_no_cookies,
    attack_h8_cross_site_credentials,
    audit_f9_cross_origin_changes,
    attack_a14_removed_key,
    attack_a11_guessing_passwords,
    prefixes,
    attack_p7_prefixes_of_others,
    status,
    verifications,
    unsupported_methods,
);

const RECORDS: &str = include_str!("../../../../conformance/vectors/handle-net/records.jsonl");

fn start_trusting(store: StoreKind) -> RecordsServer {
    RecordsServer::start_handle_net(store, RECORDS.lines(), |http| {
        trust_loopback(http, true).operator_token("token")
    })
}

fn start_untrusting(store: StoreKind) -> RecordsServer {
    RecordsServer::start_handle_net(store, RECORDS.lines(), |http| trust_loopback(http, false))
}

fn admin() -> String {
    basic("301%3A10.5555%2FADMIN", SECRET)
}

/// Compares the status and the expected members of the body.
#[track_caller]
fn check(server: &RecordsServer, authorization: &str, target: &str, status: u16, expected: &Json) {
    let (method, target) = target.split_once(' ').unwrap();
    let response = server.request(method, target, &[authorization], "");
    let members = expected.as_object().unwrap().iter();
    let differing: Vec<_> = members.filter(|(name, value)| response.json()[name] != **value).collect();
    assert!(
        response.status == status && differing.is_empty(),
        "{target}: {} {}",
        response.status,
        response.text()
    );
}

/// A header without meaning, for requests without credentials.
const NO_CREDENTIALS: &str = "X-Unused: none";

fn handle_lists(store: StoreKind) {
    let (server, admin) = (start_trusting(store), admin());
    let page_json = |page: Json, size: Json, handles: Json| json!({"responseCode": 1, "totalCount": "13", "page": page, "pageSize": size, "handles": handles});
    let all = server.request("GET", "/api/handles?prefix=10.5555", &[&admin], "").json()["handles"].clone();
    assert_eq!(all.as_array().unwrap().len(), 13);
    let check = |query: &str, status, expected: Json| {
        check(&server, &admin, &format!("GET /api/handles{query}"), status, &expected);
        check(&server, &admin, &format!("POST /api/handles{query}"), status, &expected);
    };
    let all_handles = || page_json(Json::Null, Json::Null, all.clone());
    check("?prefix=10.5555&page=0", 200, all_handles());
    check("?prefix=10.5555&pageSize=2", 200, all_handles());
    check("?prefix=10.5555&page=-1&pageSize=2", 200, all_handles());
    check("?prefix=10.5555&page=0&pageSize=-1", 200, all_handles());
    check("?prefix=10.5555&page=99&pageSize=2", 200, page_json(99.into(), 2.into(), json!([])));
    check("?prefix=10.5555&page=2&pageSize=0", 200, page_json(2.into(), 0.into(), json!([])));
    check(
        "?prefix=0.na/10.5555&page=0&pageSize=1",
        200,
        page_json(0.into(), 1.into(), json!(["10.5555/ADMIN"])),
    );
    check("/?prefix=10.5555&page=0&pageSize=1", 200, page_json(0.into(), 1.into(), json!(["10.5555/ADMIN"])));
    let max_int = i32::MAX;
    check(
        &format!("?prefix=10.5555&page={max_int}&pageSize={max_int}"),
        200,
        page_json(max_int.into(), max_int.into(), json!([])),
    );
    check("?prefix=10.5555&page=x&pageSize=2", 400, json!({"responseCode": 4}));
    check("?prefix=10.5555&page=0&pageSize=4294967296", 400, json!({"responseCode": 4}));
    check("?prefix=", 400, json!({"responseCode": 301, "handle": null}));
    check("", 400, json!({"responseCode": 102}));
    check("?page=0&pageSize=2", 400, json!({"responseCode": 102}));
    check("?prefix=10.5555/X&page=0&pageSize=2", 400, json!({"responseCode": 301, "handle": "10.5555/X"}));
    check("?prefix=0.NA&page=0&pageSize=5", 403, json!({"responseCode": 400, "handle": "0.NA"}));
    // All pages together are the whole list, whatever their size.
    for size in 1..=14 {
        let page = |number: usize| {
            let target = format!("/api/handles?prefix=10.5555&page={number}&pageSize={size}");
            let response = server.get(&target, &[&admin]).json();
            assert_eq!(response["totalCount"], "13", "{target}");
            response["handles"].as_array().unwrap().clone()
        };
        let pages: Vec<Json> = (0..13_usize.div_ceil(size)).flat_map(page).collect();
        assert_eq!(Json::from(pages), all, "{size}");
    }
    for (kind, body) in [
        ("application/json", r#"{"prefix":"10.5555","page":0,"pageSize":1}"#),
        ("application/x-www-form-urlencoded", "prefix=10.5555&page=0&pageSize=1"),
    ] {
        let headers = [admin.as_str(), &format!("Content-Type: {kind}")];
        let response = server.request("POST", "/api/handles", &headers, body);
        assert_eq!(response.json()["handles"], json!(["10.5555/ADMIN"]), "{kind}: {}", response.text());
    }
    let broken = server.request("POST", "/api/handles", &[&admin, "Content-Type: application/json"], "[");
    assert_eq!(broken.status, 400);
}

fn list_authorization(store: StoreKind) {
    let (server, target) = (start_trusting(store), "GET /api/handles?prefix=10.5555&page=0&pageSize=1");
    check(&server, NO_CREDENTIALS, target, 401, &json!({"responseCode": 402, "handle": "10.5555"}));
    check(&server, &basic("301%3A10.5555/ADMIN", "wrong"), target, 401, &json!({}));
    check(&server, NO_CREDENTIALS, "GET /api/handles?prefix=10.9999", 400, &json!({"responseCode": 301}));
    check(&server, "Authorization: Bearer token", target, 200, &json!({"totalCount": "13"}));
    check(
        &start_untrusting(store),
        NO_CREDENTIALS,
        target,
        403,
        &json!({"responseCode": 402, "handle": "10.5555"}),
    );
    check(
        &start_untrusting(store),
        &admin(),
        target,
        403,
        &json!({"responseCode": 402, "handle": "10.5555"}),
    );
}

fn passwords(store: StoreKind) {
    // Of two servers, since a client may fail only 20 times.
    let servers = [start_trusting(store), start_trusting(store)];
    let mut checks = 0;
    let mut check = |user: &str, secret: &str, expected: &str| {
        checks += 1;
        let server = &servers[checks % 2];
        let authorization = basic(user, secret);
        let response = server.get("/api/sessions/this", &[&authorization]);
        let identity =
            response.json()["id"].as_str().map_or_else(|| response.status.to_string(), ToOwned::to_owned);
        assert_eq!(identity, expected, "{user}:{secret}");
        // Wrong credentials are rejected for reads, too.
        let read = server.get("/api/handles/10.5555/ONE", &[&authorization]).status;
        assert_eq!(read == 200, expected != "401", "{user}:{secret}");
    };
    let expected_identity = "301:10.5555/ADMIN";
    check("301%3A10.5555%2FADMIN", SECRET, expected_identity);
    check("301%3A10.5555/ADMIN", SECRET, expected_identity);
    check("301%3a10.5555%2fADMIN", SECRET, expected_identity);
    check("10.5555/ADMIN", SECRET, expected_identity);
    check("0%3A10.5555/ADMIN", SECRET, expected_identity);
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
        let response = servers[0].get("/api/handles/10.5555/ONE", &[&format!("Authorization: {header}")]);
        assert_eq!(response.status, 401, "{header}");
        assert!(response.header("www-authenticate").is_some(), "{header}");
    }
    // Without TLS credentials are ignored.
    let response =
        start_untrusting(store).get("/api/handles/10.5555/ONE", &[&basic("301%3A10.5555/ADMIN", "wrong")]);
    assert_eq!(response.status, 200);
}

fn challenges(store: StoreKind) {
    let server = start_trusting(store);
    let offered = |authorization: &[&str]| {
        let response = server.get("/api/prefixes", authorization);
        assert_eq!(response.status, 401);
        let schemes = response
            .headers("www-authenticate")
            .map(|challenge_header| challenge_header.split(' ').next().unwrap().to_owned());
        (schemes.collect::<Vec<_>>().join(" "), response)
    };
    assert_eq!(offered(&[]).0, "Basic Bearer Handle");
    assert_eq!(offered(&["X-Requested-With: XMLHttpRequest"]).0, "Handle");
    let session = HttpSession::create(&server);
    let (schemes, response) = offered(&[&session.header()]);
    assert_eq!(schemes, "Handle");
    // The challenge has the same session and nonce.
    let challenge = format!("Handle sessionId=\"{}\", nonce=\"{}\"", session.id, session.nonce);
    assert_eq!(response.header("www-authenticate"), Some(&*challenge));
    let (_, response) = offered(&[&session.secret_proof("AAAA", "wrong")]);
    assert_eq!(
        response.header("www-authenticate"),
        Some(&*format!("{challenge}, error=\"Identity not verified\""))
    );
    // A session from a challenge works like a created one.
    let (_, response) = offered(&["Authorization: Handle sessionId=\"unknown\""]);
    let quoted: Vec<&str> = response.header("www-authenticate").unwrap().split('"').collect();
    let session = HttpSession { id: quoted[1].into(), nonce: quoted[3].into() };
    check(&server, &session.key_proof("AAAA"), "GET /api/prefixes", 200, &json!({"totalCount": "2"}));
}

fn sessions(store: StoreKind) {
    let server = start_trusting(store);
    let anonymous = json!({"authenticated": false, "sessionId": null});
    for method in ["GET", "POST", "PUT"] {
        check(&server, NO_CREDENTIALS, &format!("{method} /api/sessions/this"), 200, &anonymous);
        check(&server, NO_CREDENTIALS, &format!("{method} /api/sessions/this/"), 200, &anonymous);
        check(&server, NO_CREDENTIALS, &format!("{method} /api/sessions/other"), 403, &json!({}));
    }
    for method in ["GET", "PUT", "DELETE", "HEAD"] {
        check(&server, NO_CREDENTIALS, &format!("{method} /api/sessions"), 405, &json!({}));
    }
    for target in ["POST /api/sessions", "GET /api/sessions/this", "DELETE /api/sessions/this"] {
        check(&start_untrusting(store), NO_CREDENTIALS, target, 403, &json!({}));
    }
    check(&server, NO_CREDENTIALS, "DELETE /api/sessions/this", 403, &json!({}));
    let unknown = "Authorization: Handle sessionId=\"unknown\"";
    check(&server, unknown, "GET /api/sessions/this", 403, &json!({}));
    check(&server, unknown, "DELETE /api/sessions/this", 403, &json!({}));
    check(&server, unknown, "GET /api/handles/10.5555/ONE", 401, &json!({}));

    let session = HttpSession::create(&server);
    let fresh = json!({"sessionId": session.id, "nonce": session.nonce, "authenticated": null, "id": null});
    check(&server, &session.header(), "GET /api/sessions/this", 200, &fresh);
    check(&server, &session.header(), "PUT /api/sessions/this", 200, &fresh);
    check(&server, &session.header(), "POST /api/sessions", 400, &json!({}));
    check(&server, &session.header(), "GET /api/handles/10.5555/ONE", 200, &json!({"responseCode": 1}));
    check(
        &server,
        &format!("Authorization: handle SESSIONID={}", session.id),
        "GET /api/sessions/this",
        200,
        &fresh,
    );
    // Cookies are ignored.
    check(&server, &format!("Cookie: JSESSIONID={}", session.id), "GET /api/sessions/this", 200, &anonymous);
    check(
        &server,
        NO_CREDENTIALS,
        &format!("GET /api/sessions/this;jsessionid={}", session.id),
        403,
        &json!({}),
    );

    let wrong = json!({"error": "Identity not verified", "authenticated": null});
    check(&server, &session.secret_proof("AAAA", "wrong"), "PUT /api/sessions/this", 401, &wrong);
    let incomplete = format!("{}, id=\"301:10.5555/ADMIN\"", session.header());
    check(&server, &incomplete, "PUT /api/sessions/this", 401, &json!({"sessionId": session.id}));
    // The login renews the id: a client that knew the old one is not logged in.
    let login = server.request("PUT", "/api/sessions/this", &[&session.secret_proof("AAAA", SECRET)], "");
    check(&server, &session.header(), "GET /api/sessions/this", 403, &json!({}));
    let session = HttpSession { id: login.json()["sessionId"].as_str().unwrap().to_owned(), ..session };
    let authenticated = json!({"sessionId": session.id, "authenticated": true, "id": "301:10.5555/ADMIN"});
    check(&server, &session.header(), "GET /api/sessions/this", 200, &authenticated);
    // A session stays authenticated after a wrong proof.
    let authenticated_with_error = json!({"authenticated": true, "error": "Identity not verified"});
    check(
        &server,
        &session.secret_proof("BBBB", "wrong"),
        "PUT /api/sessions/this",
        200,
        &authenticated_with_error,
    );
    check(&server, &session.header(), "DELETE /api/sessions/this", 204, &json!({}));
    check(&server, &session.header(), "GET /api/sessions/this", 403, &json!({}));

    let id = json!({"authenticated": true, "id": "301:10.5555/ADMIN"});
    check(&server, &admin(), "POST /api/sessions", 201, &id);
    let error = json!({"authenticated": null, "error": "Identity not verified"});
    check(&server, &basic("301%3A10.5555/ADMIN", "wrong"), "POST /api/sessions", 201, &error);
}

/// Parameters of the `Authorization` header are accepted in the body, too.
fn sessions_by_body(store: StoreKind) {
    let server = start_trusting(store);
    let request = |method: &str, target: &str, body: Json| {
        let response = server.request(method, target, &["Content-Type: application/json"], &body.to_string());
        (response.status, response.json())
    };
    let session = HttpSession::create(&server);
    let proof = |secret| {
        json!({"sessionId": session.id, "id": "301:10.5555/ADMIN", "type": "HS_SECKEY", "cnonce": "AAAA",
            "alg": "HMAC-SHA256", "signature": session.mac("AAAA", secret)})
    };
    assert_eq!(request("PUT", "/api/sessions/this", proof("wrong")).0, 401);
    let (status, response) = request("PUT", "/api/sessions/this", proof(SECRET));
    assert_eq!((status, &response["id"]), (200, &json!("301:10.5555/ADMIN")));
    assert_eq!(request("DELETE", "/api/sessions/this", json!({"sessionId": session.id})).0, 403);
    let renewed = response["sessionId"].clone();
    assert_eq!(request("POST", "/api/sessions", json!({"sessionId": session.id})).0, 400);
    assert_eq!(request("PUT", "/api/sessions/this", json!({"sessionId": "unknown"})).0, 403);
    assert_eq!(request("PUT", "/api/sessions/this", json!([])).0, 400);
    assert_eq!(request("DELETE", "/api/sessions/this", json!({"sessionId": renewed})).0, 204);
    // The server signs the nonce of a client.
    let (status, response) = request("POST", "/api/sessions", json!({"cnonce": "AAECAwQFBgcICQoLDA0ODw=="}));
    assert_eq!((status, &response["serverAlg"]), (201, &json!("SHA-256")));
    use tendot_proto::crypto::{AwsLcProvider, CryptoProvider as _, HashAlgorithm};
    let bytes = |text: &Json| data_encoding::BASE64.decode(text.as_str().unwrap().as_bytes()).unwrap();
    let signed = [bytes(&response["nonce"]), (0..16).collect()].concat();
    let file = handle_net_file("pubkey.bin");
    let key = tendot_proto::record::PublicKey::from_bytes(&file).unwrap();
    AwsLcProvider
        .verify_signature(&key, HashAlgorithm::Sha256, &signed, &bytes(&response["serverSignature"]))
        .unwrap();
}

fn signatures_and_macs(store: StoreKind) {
    let server = start_trusting(store);
    let secret = "GET /api/handles/10.5555/SECRET?publicOnly=false";
    let check = |authorization: &dyn Fn(&HttpSession) -> String, status: u16| {
        let session = HttpSession::create(&server);
        check(&server, &authorization(&session), secret, status, &json!({}));
    };
    let key = |id: &'static str, alg: &'static str| {
        move |session: &HttpSession| session.proof("AAAA", id, "HS_PUBKEY", alg, &session.sign("AAAA"))
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
    // Authenticated, but without permission.
    check(&key("300:10.5555/ADMIN", "SHA256"), 403);
    check(&|session| session.secret_proof("AAAA", SECRET), 403);
    check(&|session| session.secret_proof("AAAA", "wrong"), 401);
    check(&|session| session.header(), 401);
    let kind = |kind: &'static str, alg: &'static str| {
        move |session: &HttpSession| {
            session.proof("AAAA", "301:10.5555/ADMIN", kind, alg, &session.mac("AAAA", SECRET))
        }
    };
    check(&kind("HS_SECKEY", "hmac-sha256"), 403);
    check(&kind("HS_PUBKEY", "HMAC-SHA256"), 401);
    check(&kind("HS_OTHER", "HMAC-SHA256"), 401);
    check(&kind("HS_SECKEY", "none"), 401);
    // The nonce of another session.
    check(
        &|session| {
            HttpSession { nonce: "AAAAAAAAAAAAAAAAAAAAAA==".into(), ..session.clone() }.key_proof("AAAA")
        },
        401,
    );
}

/// The algorithm is bound to the stored key: a public key is not accepted as an HMAC secret.
fn attack_a4_algorithm_confusion(store: StoreKind) {
    let server = start_trusting(store);
    let session = HttpSession::create(&server);
    let public = private_key("admpriv.bin").public_key().unwrap().to_bytes();
    let signed =
        [&session.nonce, "AAAA"].map(|nonce| data_encoding::BASE64.decode(nonce.as_bytes()).unwrap());
    use tendot_proto::crypto::{AwsLcProvider, CryptoProvider as _, HashAlgorithm};
    let mac = AwsLcProvider.hmac(HashAlgorithm::Sha256, &public, &[&signed.concat()]).unwrap();
    let mac = data_encoding::BASE64.encode(&mac);
    for kind in ["HS_SECKEY", "HS_PUBKEY"] {
        let authorization = session.proof("AAAA", "300:0.NA/10.5555", kind, "HMAC-SHA256", &mac);
        check(&server, &authorization, "GET /api/prefixes", 401, &json!({}));
    }
}

fn attack_a1_replayed_proof(store: StoreKind) {
    let server = start_trusting(store);
    let session = HttpSession::create(&server);
    let proof = session.key_proof("AAAA");
    check(&server, &proof, "POST /api/prefixes/10.5570", 200, &json!({}));
    check(&server, &proof, "POST /api/prefixes/10.5571", 401, &json!({}));
    check(&server, &session.key_proof("BBBB"), "GET /api/prefixes", 200, &json!({"totalCount": "3"}));
    check(&server, &session.header(), "DELETE /api/sessions/this", 204, &json!({}));
    check(&server, &session.key_proof("CCCC"), "GET /api/prefixes", 401, &json!({}));
}

/// MD5 and SHA-1 are rejected, unlike by the Handle.Net server.
fn attack_a5_downgrade(store: StoreKind) {
    let server = start_trusting(store);
    use tendot_proto::crypto::{AwsLcProvider, CryptoProvider as _, HashAlgorithm};
    for (alg, hash) in [
        ("MD5", HashAlgorithm::Md5),
        ("SHA1", HashAlgorithm::Sha1),
        ("SHA-1", HashAlgorithm::Sha1),
        ("SHA-256", HashAlgorithm::Sha256),
    ] {
        let session = HttpSession::create(&server);
        let nonces =
            [&session.nonce, "AAAA"].map(|nonce| data_encoding::BASE64.decode(nonce.as_bytes()).unwrap());
        let parts = [SECRET.as_bytes(), &nonces[0], &nonces[1], SECRET.as_bytes()];
        let mac = AwsLcProvider
            .hash(hash, &parts)
            .map(|mac| data_encoding::BASE64.encode(&mac))
            .unwrap_or_default();
        let authorization = session.proof("AAAA", "301:10.5555/ADMIN", "HS_SECKEY", alg, &mac);
        check(&server, &authorization, "GET /api/handles/10.5555/ONE", 401, &json!({}));
    }
}

/// Excessive PBKDF2 parameters are rejected before any work is done.
fn attack_a6_pbkdf2_iterations(store: StoreKind) {
    let server = start_trusting(store);
    for (iterations, length) in [("2147483647", "160"), ("0", "160"), ("-1", "160"), ("10000", "4294967288")]
    {
        let session = HttpSession::create(&server);
        let pbkdf2 = session.proof("AAAA", "301:10.5555/ADMIN", "HS_SECKEY", "PBKDF2-HMAC-SHA1", "AAAA");
        let authorization =
            format!("{pbkdf2}, salt=\"AAAA\", iterations=\"{iterations}\", length=\"{length}\"");
        let started = std::time::Instant::now();
        check(&server, &authorization, "GET /api/handles/10.5555/ONE", 401, &json!({}));
        // Takes milliseconds; two thousand million rounds would take many minutes.
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{iterations} {length}");
    }
}

/// An unknown identity and a wrong secret get the same response.
fn attack_a8_identities_are_not_disclosed(store: StoreKind) {
    let server = start_trusting(store);
    let outcome = |user: &str| {
        let response = server.get("/api/handles/10.5555/ONE", &[&basic(user, "wrong")]);
        (response.status, response.text().into_owned())
    };
    assert_eq!(outcome("301%3A10.5555/ADMIN"), outcome("301%3A10.5555/NOBODY"));
    assert_eq!(outcome("301%3A10.5555/ADMIN"), outcome("301%3A10.9999/NOBODY"));
}

/// Browsers cannot authenticate implicitly: no cookie is set or read, and cross-site requests are anonymous.
fn attack_a12_no_cookies(store: StoreKind) {
    let server = start_trusting(store);
    let session = HttpSession::create(&server);
    check(&server, &session.key_proof("AAAA"), "GET /api/prefixes", 200, &json!({}));
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
        let response = server.request(method, target, &headers.each_ref().map(String::as_str), "");
        let is_anonymous =
            response.status == 401 || response.json()["id"].is_null() && target.contains("sessions");
        assert!(is_anonymous, "{target}: {}", response.text());
        assert_eq!(response.header("set-cookie"), None, "{target}");
        assert_eq!(response.header("access-control-allow-credentials"), None, "{target}");
    }
}

/// Credentials that a browser adds by itself to cross-site requests are rejected.
fn attack_h8_cross_site_credentials(store: StoreKind) {
    let (server, admin) = (start_trusting(store), admin());
    let check = |site: &str, mode: &str, expected: [u16; 2]| {
        let fetch_metadata = [format!("Sec-Fetch-Site: {site}"), format!("Sec-Fetch-Mode: {mode}")];
        let headers = ["Authorization: Bearer token", &fetch_metadata[0], &fetch_metadata[1]];
        let home = server.request("POST", "/api/prefixes/0.NA/10.7777", &headers, "").status;
        let headers = [&*admin, &fetch_metadata[0], &fetch_metadata[1]];
        let list = server.request("GET", "/api/handles?prefix=10.5555&callback=steal", &headers, "");
        let is_listed = u16::from(list.text().contains("10.5555/"));
        assert_eq!([home, is_listed], expected, "{site} {mode}: {}", list.text());
    };
    check("cross-site", "navigate", [403, 0]);
    check("cross-site", "no-cors", [403, 0]);
    check("same-site", "no-cors", [403, 0]);
    // A script has to know the password, and a typed URL is not cross-site.
    check("cross-site", "cors", [200, 1]);
    check("same-origin", "no-cors", [200, 1]);
    check("none", "navigate", [200, 1]);
}

/// A page of another port of this host cannot change anything with a password that the browser stored.
fn audit_f9_cross_origin_changes(store: StoreKind) {
    let (server, admin) = (start_trusting(store), admin());
    const JSON: &str = "Content-Type: application/json";
    const NAME: &str = "/api/handles/10.5555/CROSS";
    let other_port = "Origin: http://localhost:8081";
    let record = r#"{"values":[{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/"}},
        {"index":100,"type":"HS_ADMIN","data":{"format":"admin","value":{"handle":"10.5555/ADMIN","index":301,"permissions":"111111111111"}}}]}"#;
    let put = |headers: &[&str]| server.request("PUT", NAME, headers, record).status;
    assert_eq!(put(&[&admin, JSON, other_port]), 403);
    assert_eq!(put(&[&admin, JSON, "Origin: null"]), 403);
    assert_eq!(put(&[&admin, JSON, "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors"]), 403);
    for simple in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        assert_eq!(put(&[&admin, &format!("Content-Type: {simple}")]), 415, "{simple}");
    }
    assert_eq!(put(&[&admin]), 415);
    assert_eq!(server.get(NAME, &[]).status, 404);
    let transfer = r#"{"name":"10.5555/ONE","to":"x"}"#;
    let transfer = server.request("POST", "/api/v1/transfers", &[&admin, JSON, other_port], transfer);
    assert_eq!((transfer.status, &transfer.json()["code"]), (403, &json!("cross-origin")));
    // Pages of this server, programs, and callers whose credentials no browser stores.
    assert_eq!(put(&[&admin, JSON, "Origin: http://localhost"]), 201);
    assert_eq!(put(&[&admin, JSON, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"]), 200);
    assert_eq!(put(&[&admin, JSON]), 200);
    assert_eq!(put(&["Authorization: Bearer token", JSON, other_port]), 200);
    assert_eq!(put(&["Authorization: Bearer token", "Content-Type: application/x-www-form-urlencoded"]), 200);
    assert_eq!(server.request("DELETE", NAME, &[&admin, other_port], "").status, 403);
    assert_eq!(server.get(NAME, &[]).status, 200);
    assert_eq!(server.request("DELETE", NAME, &[&admin], "").status, 200);
}

fn attack_a14_removed_key(store: StoreKind) {
    let server = start_trusting(store);
    let session = HttpSession::create(&server);
    let target = "GET /api/handles?prefix=10.5555&page=0&pageSize=1";
    check(&server, &session.secret_proof("AAAA", SECRET), target, 200, &json!({"responseCode": 1}));
    check(&server, &session.header(), target, 200, &json!({"responseCode": 1}));
    let value = r#"[{"index":301,"type":"HS_SECKEY","data":"another"}]"#;
    let headers = ["Authorization: Bearer token", "Content-Type: application/json"];
    let changed = server.request("PUT", "/api/handles/10.5555/ADMIN?index=301", &headers, value);
    assert_eq!(changed.status, 200, "{}", changed.text());
    check(&server, &session.header(), target, 401, &json!({}));
    check(&server, &session.header(), "GET /api/sessions/this", 403, &json!({}));
    check(&server, &admin(), target, 401, &json!({}));
}

/// Failed attempts are limited per client, for all authentication methods.
fn attack_a11_guessing_passwords(store: StoreKind) {
    let trust =
        ProxyTrust { trusted_proxies: vec!["127.0.0.1/32".parse().unwrap()], ..ProxyTrust::default() };
    let server = RecordsServer::start_handle_net(store, RECORDS.lines(), |http| {
        http.proxy_trust(trust).operator_token("token")
    });
    let request = |client: &str, authorization: &str| {
        let headers =
            [format!("X-Forwarded-For: {client}"), "X-Forwarded-Proto: https".into(), authorization.into()];
        server.get("/api/handles/10.5555/ONE", &headers.each_ref().map(String::as_str))
    };
    let wrong = basic("301%3A10.5555/ADMIN", "wrong");
    for client in ["192.0.2.1", "2001:db8::1"] {
        let statuses: Vec<u16> = (0..40).map(|_| request(client, &wrong).status).collect();
        let rejected = statuses.iter().filter(|status| **status == 429).count();
        assert!(statuses[..20].iter().all(|status| *status == 401) && rejected > 10, "{statuses:?}");
        // The right password is rejected, too; the operator token is not, since it cannot be guessed. On a busy machine the
        // next attempt may be allowed already: then they are used up again.
        for authorization in [&*admin(), "Authorization: Bearer wrong"] {
            let is_rejected = (0..20).any(|_| {
                while request(client, &wrong).status != 429 {}
                let response = request(client, authorization);
                response.status == 429 && response.header("retry-after").is_some()
            });
            assert!(is_rejected, "{client}: {authorization}");
        }
        assert_eq!(request(client, "Authorization: Bearer token").status, 200);
    }
    assert_eq!(request("198.51.100.1", &admin()).status, 200);
    assert_eq!(request("198.51.100.1", NO_CREDENTIALS).status, 200);
    for client in ["203.0.113.1", "203.0.113.2"] {
        let verify =
            "/api/verifications/301:10.5555/ADMIN?nonce=AAAA&cnonce=AAAA&alg=HMAC-SHA256&signature=AAAA";
        let headers = [&format!("X-Forwarded-For: {client}"), "X-Forwarded-Proto: https"];
        let statuses: Vec<u16> = (0..40).map(|_| server.get(verify, &headers).status).collect();
        assert!(statuses[0] == 200 && statuses[39] == 429, "{statuses:?}");
    }
}

fn prefixes(store: StoreKind) {
    let server = start_trusting(store);
    let session = HttpSession::create(&server);
    let login = server.get("/api/sessions/this", &[&session.key_proof("AAAA")]).json();
    let session = HttpSession { id: login["sessionId"].as_str().unwrap().to_owned(), ..session };
    let authorization = session.header();
    let check =
        |target: &str, status, expected: Json| check(&server, &authorization, target, status, &expected);
    let all = json!({"responseCode": 1, "totalCount": "2", "prefixes": ["0.NA/0.NA", "0.NA/10.5555"], "page": null});
    check("GET /api/prefixes", 200, all.clone());
    check("GET /api/prefixes/", 200, all);
    let second_page = json!({"totalCount": "2", "page": 1, "pageSize": 1, "prefixes": ["0.NA/10.5555"]});
    check("GET /api/prefixes?page=1&pageSize=1", 200, second_page);
    check("GET /api/prefixes?page=0&pageSize=0", 200, json!({"totalCount": "2", "prefixes": []}));
    check("GET /api/prefixes?page=9&pageSize=9", 200, json!({"totalCount": "2", "prefixes": []}));
    check("GET /api/prefixes?page=x", 400, json!({"responseCode": 4}));
    for name in ["10.5561", "0.NA/10.5561", "0.NA%2F10.5561"] {
        let success = json!({"responseCode": 1, "handle": name.replace("%2F", "/")});
        for method in ["POST", "POST", "DELETE", "DELETE"] {
            check(&format!("{method} /api/prefixes/{name}"), 200, success.clone());
        }
        check(&format!("POST /api/prefixes?prefix={name}"), 200, success.clone());
        check("GET /api/prefixes", 200, json!({"totalCount": "3"}));
        check(&format!("DELETE /api/prefixes?prefix={name}"), 200, success);
    }
    check("POST /api/prefixes", 400, json!({"responseCode": 4}));
    check("DELETE /api/prefixes/", 400, json!({"responseCode": 4}));
    check("GET /api/prefixes/10.5555", 405, json!({"responseCode": 4}));
    check("PUT /api/prefixes/10.5555", 405, json!({"responseCode": 4}));
    check("POST /api/prefixes/10.5555/X", 400, json!({"responseCode": 102, "handle": "10.5555/X"}));
    let headers = [authorization.as_str(), "Content-Type: application/json"];
    assert_eq!(server.request("POST", "/api/prefixes", &headers, r#"{"prefix":"10.5566"}"#).status, 200);
    check("GET /api/prefixes", 200, json!({"totalCount": "3"}));
}

/// Only server administrators home or unhome a prefix.
fn attack_p7_prefixes_of_others(store: StoreKind) {
    let server = start_trusting(store);
    let (forbidden, unauthenticated) =
        (json!({"responseCode": 400}), json!({"responseCode": 402, "handle": "0.NA/10.5560"}));
    for method in ["POST", "DELETE"] {
        let target = format!("{method} /api/prefixes/0.NA/10.5560");
        check(&server, NO_CREDENTIALS, &target, 401, &unauthenticated);
        check(&start_untrusting(store), NO_CREDENTIALS, &target, 403, &unauthenticated);
        check(&server, &admin(), &target, 403, &forbidden);
        check(&server, "Authorization: Handle sessionId=\"unknown\"", &target, 401, &json!({}));
        check(&server, &HttpSession::create(&server).header(), &target, 401, &unauthenticated);
    }
    check(&server, &admin(), "GET /api/prefixes", 403, &json!({"responseCode": 400, "handle": null}));
    check(&server, NO_CREDENTIALS, "GET /api/prefixes", 401, &json!({"responseCode": 402, "handle": null}));
}

fn status(store: StoreKind) {
    let server = start_trusting(store);
    let target = "GET /api/handles/0.SITE/status";
    let session = HttpSession::create(&server);
    let response = server.get("/api/handles/0.site/STATUS", &[&session.key_proof("AAAA")]).json();
    assert_eq!((&response["responseCode"], response["values"].as_array().unwrap().len()), (&json!(1), 2));
    let no_values = json!({"responseCode": 200, "values": [], "handle": "0.SITE/status"});
    check(&server, NO_CREDENTIALS, target, 200, &no_values);
    check(&start_untrusting(store), NO_CREDENTIALS, target, 200, &no_values);
    check(&server, &session.header(), &format!("{target}?publicOnly=true"), 200, &no_values);
    check(&server, &admin(), target, 403, &json!({"responseCode": 400}));
    check(&server, NO_CREDENTIALS, &format!("{target}?publicOnly=false"), 401, &json!({"responseCode": 402}));
    check(&server, &session.header(), "GET /api/handles/0.SITE/other", 400, &json!({"responseCode": 301}));
}

fn verifications(store: StoreKind) {
    let server = start_trusting(store);
    let session = HttpSession { id: String::new(), nonce: "AAECAwQFBgcICQoLDA0ODw==".into() };
    let (cnonce, mac) = ("EBESExQVFhcYGRobHB0eHw==", session.mac("EBESExQVFhcYGRobHB0eHw==", SECRET));
    let encoded = mac.replace('+', "%2B");
    let query =
        |alg: &str, mac: &str| format!("nonce={}&cnonce={cnonce}&alg={alg}&signature={mac}", session.nonce);
    let valid_query = query("HMAC-SHA256", &encoded);
    let check = |identity: &str, query: &str, status, expected: Json| {
        let target = format!("GET /api/verifications/{identity}?{query}");
        check(&server, NO_CREDENTIALS, &target, status, &expected);
        check(&start_untrusting(store), NO_CREDENTIALS, &target.replace("GET", "POST"), status, &expected);
    };
    let verification =
        |is_valid: bool, handle: &str| json!({"responseCode": 1, "isValid": is_valid, "handle": handle});
    check("301:10.5555/ADMIN", &valid_query, 200, verification(true, "10.5555/ADMIN"));
    check("301%3A10.5555%2FADMIN", &valid_query, 200, verification(true, "10.5555/ADMIN"));
    check("0:10.5555/admin", &valid_query, 200, verification(true, "10.5555/admin"));
    check("300:10.5555/ADMIN", &valid_query, 200, verification(false, "10.5555/ADMIN"));
    check("301:10.5555/NOBODY", &valid_query, 200, verification(false, "10.5555/NOBODY"));
    check("300:0.NA/10.5555", &valid_query, 200, verification(false, "0.NA/10.5555"));
    check("301:10.5555/ADMIN", &query("HMAC-SHA256", "AAAA"), 200, verification(false, "10.5555/ADMIN"));
    check("301:10.5555/ADMIN", &query("HMAC-SHA256", "!!!"), 200, verification(false, "10.5555/ADMIN"));
    check("301:10.9999/NOBODY", &valid_query, 400, json!({"responseCode": 301, "handle": "10.9999/NOBODY"}));
    check("301:10.5555/ADMIN", &query("none", &encoded), 400, json!({"responseCode": 4}));
    for (identity, query) in [
        ("10.5555/ADMIN", &*valid_query),
        ("x:10.5555/ADMIN", &valid_query),
        ("301:10.5555/ADMIN", ""),
        ("301:10.5555/ADMIN", "nonce=AAAA&cnonce=AAAA&alg=HMAC-SHA256"),
        ("", &valid_query),
    ] {
        check(identity, query, 400, json!({"responseCode": 4}));
    }
    let body =
        json!({"nonce": session.nonce, "cnonce": cnonce, "alg": "HMAC-SHA256", "signature": mac}).to_string();
    let content_type = ["Content-Type: application/json"];
    let response = server.request("POST", "/api/verifications/301:10.5555/ADMIN", &content_type, &body);
    assert_eq!(response.json()["isValid"], true, "{}", response.text());
}

fn unsupported_methods(store: StoreKind) {
    let server = start_trusting(store);
    for target in
        ["PUT /api/site", "DELETE /api/site", "PUT /api/verifications/1:10.1/x", "PUT /api/prefixes"]
    {
        let message = format!("Unknown HTTP API endpoint {target}");
        check(&server, NO_CREDENTIALS, target, 405, &json!({"responseCode": 4, "message": message}));
    }
    check(&server, NO_CREDENTIALS, "POST /api/site", 200, &json!({"responseCode": 1}));
    check(&server, NO_CREDENTIALS, "PUT /api/foo", 404, &json!({"responseCode": 4}));
}
