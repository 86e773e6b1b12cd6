//! Names over the native protocol: the grammar of DOIs, and the rights of the administrators of an allocated prefix.

use serde_json::json;
use tendot_proto::auth::ClientKey;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::endpoint::Transport;
use tendot_proto::{HandleValue, Message, Opcode};
use tendot_store::Store as _;
use tendot_testing::block_on;
use tendot_testing::handle_keys::private_key;
use tendot_testing::http::HttpRequest;

use crate::support::fixtures::PartyFixtures;
use crate::support::native_server::*;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(native_grammar, native_unhome, names_without_admin, updated_follows_native_writes);

/// Response code to a request of the server administrator.
fn admin_code(server: &NativeTestServer, request: &Message<'_>) -> u32 {
    let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    server.authenticated_code(request, SERVER_ADMIN, ClientKey::PrivateKey(&*key))
}

/// Native creates under DOI prefixes follow the grammar of DOIs, too.
fn native_grammar(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    block_on(PartyFixtures::create(&server.registry));
    let values = [url_value(1, "https://example.org/")];
    for prefix in ["10.5555", "10.70000"] {
        for suffix in ["", "a\u{7f}", "a\u{85}", "a\u{2029}", "a\u{e000}", "a\u{fdd0}", "a\u{378}"] {
            let name = format!("{prefix}/{suffix}");
            assert_eq!(admin_code(&server, &create_request(&name, &values)), 102, "{name:?}");
            assert_eq!(server.code(Transport::Tcp, &resolution(&name)), 100, "{name:?}");
        }
        assert_eq!(admin_code(&server, &create_request(&format!("{prefix}/new"), &values)), 1);
    }
}

/// An allocated prefix cannot be unhomed natively, others can.
fn native_unhome(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    block_on(PartyFixtures::create(&server.registry));
    assert_eq!(server.code(Transport::Tcp, &resolution("10.70000/PAPER")), 1);
    let request = handle_request(Opcode::UNHOME_PREFIX, "0.NA/10.70000");
    assert_eq!(admin_code(&server, &request), 202);
    assert_eq!(server.code(Transport::Tcp, &resolution("10.70000/PAPER")), 1);
    assert!(block_on(server.store.is_homed(b"10.70000")).unwrap());
    assert_eq!(admin_code(&server, &handle_request(Opcode::UNHOME_PREFIX, "0.NA/10.5557")), 1);
}

/// The time of the last update of a registered name is that of native changes, too.
fn updated_follows_native_writes(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    block_on(PartyFixtures::create(&server.registry));
    let times = || {
        let record = HttpRequest::new("GET", "/api/v1/dois/10.70000/PLAIN").send(server.http).json();
        (record["created"].clone(), record["updated"].as_str().unwrap().to_owned())
    };
    let (created, before) = times();
    let changed = [url_value(1, "https://example.org/changed")];
    let modify = values_request(Opcode::MODIFY_VALUE, "10.70000/PLAIN", &changed);
    assert_eq!(admin_code(&server, &modify), 1);
    let (same, after) = times();
    assert!(same == created && after > before, "{after}, before {before}");
}

/// A record without `HS_ADMIN` under an allocated prefix can be changed by the admins of the prefix.
fn names_without_admin(store: StoreKind) {
    let options = NativeServerOptions { full_access: false, ..NativeServerOptions::default() };
    let server = NativeTestServer::start_over(store.open(), options);
    let parties = block_on(PartyFixtures::create(&server.registry));
    let update = HttpRequest::new("PUT", &format!("/api/v1/registrants/{}", parties.first))
        .bearer(OPERATOR_TOKEN)
        .body(json!({"admins": [SERVER_ADMIN]}).to_string())
        .send(server.http);
    assert_eq!(update.status, 200, "{}", update.text());
    let values = [url_value(1, "https://example.org/")];
    assert_eq!(admin_code(&server, &create_request("10.70000/native", &values)), 1);
    let changed = [url_value(1, "https://example.org/changed")];
    let modify = values_request(Opcode::MODIFY_VALUE, "10.70000/native", &changed);
    assert_eq!(admin_code(&server, &modify), 1);
    assert_eq!(&*server.values("10.70000/native").unwrap()[0].data, b"https://example.org/changed");
    let email = [HandleValue::new(2, "EMAIL", "a@example.org")];
    let add = values_request(Opcode::ADD_VALUE, "10.70000/native", &email);
    assert_eq!(admin_code(&server, &add), 1);
    // Admins of another prefix have no permission.
    let update = HttpRequest::new("PUT", &format!("/api/v1/registrants/{}", parties.first))
        .bearer(OPERATOR_TOKEN)
        .body(json!({"admins": []}).to_string())
        .send(server.http);
    assert_eq!(update.status, 200, "{}", update.text());
    assert_eq!(admin_code(&server, &modify), 400);
    assert_eq!(admin_code(&server, &delete_request("10.70000/native")), 400);
}
