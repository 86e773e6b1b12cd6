//! Native sessions end with their key, after their maximum age, and when the operator ends them.

use tendot_proto::auth::{ClientKey, Session};
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::endpoint::Transport;
use tendot_proto::{HandleValue, Opcode, ValuePermissions};
use tendot_testing::handle_keys::private_key;
use tendot_testing::http::HttpRequest;

use crate::native_attacks_permissions::{in_session, open_session};
use crate::support::http_session::basic;
use crate::support::native_server::*;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(audit_f2_sessions_end_with_their_key, audit_f2_operator_ends_sessions);

const KEY: &str = "301:10.5555/HOLDER";
const SESSION_TIMEOUT: u32 = 500;

fn key_record(secret: &'static str) -> Vec<HandleValue<'static>> {
    let secret =
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(301, "HS_SECKEY", secret) };
    vec![secret, admin_value(100, 0x0fff, SERVER_ADMIN)]
}

/// A session that is authenticated with a secret key.
fn authenticated_session(server: &NativeTestServer) -> Session {
    server.put("10.5555/HOLDER", key_record("secret"));
    server.put("10.5555/F2", vec![url_value(1, "https://example.org/"), admin_value(100, 0x0fff, KEY)]);
    let mut session = open_session(server, Some(KEY));
    let value = [url_value(2, "https://example.org/")];
    let request = in_session(&mut session, values_request(Opcode::ADD_VALUE, "10.5555/F2", &value));
    let challenge = server.exchange(Transport::Tcp, &request).remove(0);
    let proof = challenge_response(&request, &challenge, KEY, ClientKey::SecretKey(b"secret"), 8);
    assert_eq!(server.code_for_bytes(Transport::Tcp, &proof), 1);
    session
}

/// Response code to a change in the session.
fn modify(server: &NativeTestServer, session: &mut Session) -> u32 {
    let value = [url_value(1, "https://example.org/2")];
    let request = in_session(session, values_request(Opcode::MODIFY_VALUE, "10.5555/F2", &value));
    server.code_for_bytes(Transport::Tcp, &request)
}

fn audit_f2_sessions_end_with_their_key(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    // Rotated, removed, its record deleted.
    let changes: [&dyn Fn(); 3] = [
        &|| server.put("10.5555/HOLDER", key_record("rotated")),
        &|| server.put("10.5555/HOLDER", vec![admin_value(100, 0x0fff, SERVER_ADMIN)]),
        &|| {
            let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
            let request = delete_request("10.5555/HOLDER");
            assert_eq!(server.authenticated_code(&request, SERVER_ADMIN, ClientKey::PrivateKey(&*key)), 1);
        },
    ];
    for change in changes {
        let mut session = authenticated_session(&server);
        assert_eq!(modify(&server, &mut session), 1);
        // Other changes of the record do not matter.
        let mut values = key_record("secret");
        values.push(url_value(1, "https://example.org/"));
        server.put("10.5555/HOLDER", values);
        assert_eq!(modify(&server, &mut session), 1);
        change();
        let before = server.change_count();
        assert_eq!(modify(&server, &mut session), SESSION_TIMEOUT);
        let delete = in_session(&mut session, delete_request("10.5555/F2"));
        assert_eq!(server.code_for_bytes(Transport::Tcp, &delete), SESSION_TIMEOUT, "the session has ended");
        assert_eq!(server.change_count(), before);
    }
}

/// The operator sees authenticated sessions of both protocols, without their credentials, and ends them; other callers do not.
fn audit_f2_operator_ends_sessions(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let mut session = authenticated_session(&server);
    let _unauthenticated = open_session(&server, Some(KEY));
    let created = HttpRequest::new("POST", "/api/sessions")
        .header(&basic("301%3A10.5555/HOLDER", "secret"))
        .send(server.http);
    let http_session = created.json()["sessionId"].as_str().unwrap().to_owned();
    let request = |method: &str, path: &str, authorization: &str| {
        HttpRequest::new(method, &format!("/api/v1/sessions{path}")).header(authorization).send(server.http)
    };
    let operator = format!("Authorization: Bearer {OPERATOR_TOKEN}");
    let listed = request("GET", "", &operator);
    assert!(!listed.text().contains(&http_session));
    let items = listed.json()["items"].as_array().unwrap().clone();
    let native_id = format!("native-{}", session.id());
    let protocols: Vec<_> = items.iter().map(|item| item["protocol"].as_str().unwrap()).collect();
    assert_eq!(protocols, ["http", "native"]);
    assert!(items.iter().all(|item| item["identity"] == KEY), "{items:?}");
    assert_eq!(items[1]["id"], *native_id);
    // By pages.
    let first = request("GET", "?limit=1", &operator).json();
    assert_eq!(first["items"][0]["id"], items[0]["id"]);
    let after = first["next"].as_str().unwrap();
    let second = request("GET", &format!("?limit=1&after={after}"), &operator).json();
    assert_eq!((&second["items"][0]["id"], &second["next"]), (&items[1]["id"], &serde_json::Value::Null));
    for (authorization, status) in
        [("X-None: 1".to_owned(), 401), (basic("301%3A10.5555/HOLDER", "secret"), 403)]
    {
        assert_eq!(request("GET", "", &authorization).status, status);
        assert_eq!(request("DELETE", &format!("/{native_id}"), &authorization).status, status);
    }
    assert_eq!(modify(&server, &mut session), 1);
    for item in &items {
        let path = format!("/{}", item["id"].as_str().unwrap());
        assert_eq!(request("DELETE", &path, &operator).status, 204);
        assert_eq!(request("DELETE", &path, &operator).status, 404);
    }
    assert_eq!(modify(&server, &mut session), SESSION_TIMEOUT);
    let header = format!("Authorization: Handle sessionId=\"{http_session}\"");
    let status = HttpRequest::get("/api/sessions/this").header(&header).send(server.http).status;
    assert_eq!(status, 403);
    assert_eq!(request("GET", "", &operator).json()["items"], serde_json::json!([]));
}
