//! Attacks A1–A15 and P1–P10 on the native protocol: authentication and permissions cannot be forged, replayed or exceeded.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::Ipv4Addr;

use serde_json::{Value as Json, json};
use tendot_proto::auth::{ClientKey, ClientKeyExchange, DhGroup, Session};
use tendot_proto::crypto::{AwsLcProvider, SigningKey, SystemRandom};
use tendot_proto::endpoint::Transport;
use tendot_proto::message::{KeyExchangeMode, SessionKeyMaterial, SessionSetup};
use tendot_proto::record::{PublicKey, ValueList};
use tendot_proto::wire::{WireList, WireWriter};
use tendot_proto::{
    Handle, HandleValue, Message, MessageBody, MessageParts, OpFlags, Opcode, Request, Response,
    ResponseData, ValuePermissions, ValueReference,
};
use tendot_server::native::OwnSite;
use tendot_testing::auth_context;
use tendot_testing::handle_keys::private_key;
use tendot_testing::http::HttpRequest;

use crate::support::native_server::*;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    attack_a1_a2_challenges_are_single_use,
    attack_a3_nonces,
    attack_a4_a5_a6_a9_a10_proofs,
    attack_a8_missing_and_wrong_keys_look_alike,
    attack_a13_replayed_session_messages,
    session_errors_have_a_mac,
    encrypted_messages_keep_the_connection,
    attack_p3_index_0_in_a_session,
    attack_a15_weak_session_keys,
    attack_p1_p2_admin_permissions,
    attack_p3_index_0,
    attack_p4_p5_groups,
    attack_p6_p7_prefixes_and_the_last_administrator,
    attack_p10_hidden_values,
    audit_f1_secrets_only_in_encrypted_sessions,
    audit_f1_native_overwrite_removes_secrets,
    audit_f5_exposed_secret_does_not_authenticate,
    audit_f18_public_keys_are_checked,
    audit_f12_log_names_key_and_client,
);

const TCP: Transport = Transport::Tcp;

fn admin_key() -> Box<dyn SigningKey> {
    private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap()
}

fn secret_value(index: u32, text: &'static str) -> HandleValue<'static> {
    HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(index, "HS_SECKEY", text) }
}

fn modify<'a>(handle: &'a str, values: &'a [HandleValue<'a>]) -> Message<'a> {
    values_request(Opcode::MODIFY_VALUE, handle, values)
}

fn attack_a1_a2_challenges_are_single_use(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let key = admin_key();
    let credentials = ClientKey::PrivateKey(&*key);
    let request = delete_request("10.5555/ONE").to_bytes().unwrap();
    let challenge = server.exchange(TCP, &request).remove(0);
    let proof = challenge_response(&request, &challenge, SERVER_ADMIN, credentials, 8);
    let before = server.change_count();
    assert_eq!(server.code_for_bytes(TCP, &proof), 1);
    assert_eq!(server.change_count(), before + 1);
    server.put(
        "10.5555/ONE",
        vec![url_value(1, "https://example.org/"), admin_value(100, 0x0fff, SERVER_ADMIN)],
    );
    let before = server.change_count();
    for transport in [TCP, Transport::Udp, Transport::Http] {
        assert_eq!(server.code_for_bytes(transport, &proof), 405);
    }
    // The proof for another challenge, with the session number of this one.
    let first_challenge = server.exchange(TCP, &request).remove(0);
    let second_challenge = server.exchange(TCP, &request).remove(0);
    let mut swapped = challenge_response(&request, &first_challenge, SERVER_ADMIN, credentials, 8);
    swapped[4..8].copy_from_slice(&second_challenge[4..8]);
    assert_eq!(server.code_for_bytes(TCP, &swapped), 403);
    // An invalid proof uses up the challenge.
    let second_proof = challenge_response(&request, &second_challenge, SERVER_ADMIN, credentials, 8);
    assert_eq!(server.code_for_bytes(TCP, &second_proof), 405);
    // Administration is rejected over UDP, also if the challenge was obtained over TCP.
    let proof = challenge_response(&request, &first_challenge, SERVER_ADMIN, credentials, 8);
    assert_eq!(server.code_for_bytes(Transport::Udp, &proof), 4);
    assert_eq!(server.change_count(), before);
}

fn attack_a3_nonces(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let (mut nonces, mut numbers) = (HashSet::new(), HashSet::new());
    let request = delete_request("10.5555/ONE").to_bytes().unwrap();
    for _ in 0..2_000 {
        let challenge = server.exchange(TCP, &request).remove(0);
        let message = Message::from_bytes(&challenge).unwrap();
        let MessageBody::Response(Response { data: ResponseData::Challenge { nonce, .. }, .. }) =
            message.body
        else {
            panic!()
        };
        assert!(nonces.insert(nonce.to_vec()) && numbers.insert(message.envelope.session_id));
        assert!((1..=i32::MAX as u32).contains(&message.envelope.session_id));
    }
}

/// A proof with a secret key by PBKDF2, whose MAC is wrong.
fn pbkdf2_proof(salt: usize, rounds: u32, bits: u32) -> Vec<u8> {
    let mut inner = Vec::new();
    let mut writer = WireWriter::new(&mut inner);
    writer.bytes(&vec![7; salt]);
    writer.u32(rounds);
    writer.u32(bits);
    writer.bytes(&[0; 20]);
    let mut proof = vec![0x22];
    WireWriter::new(&mut proof).raw(&inner);
    proof
}

/// A native creation with the overwrite flag replaces the record as a whole, as by Handle.Net: a secret that it does not name is
/// removed.
fn audit_f1_native_overwrite_removes_secrets(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let admin = || admin_value(100, 0x0fff, SERVER_ADMIN);
    let key = admin_key();
    let (secret, other) = (|| secret_value(301, "one"), || secret_value(302, "two"));
    server.put("10.5555/F1", vec![admin(), secret(), other()]);
    let values = [admin(), secret()];
    let mut request = create_request("10.5555/F1", &values);
    request.header.flags |= OpFlags::OVERWRITE;
    assert_eq!(server.authenticated_code(&request, SERVER_ADMIN, ClientKey::PrivateKey(&*key)), 1);
    let stored = server.values("10.5555/F1").unwrap();
    let mut indexes: Vec<u32> = stored.iter().map(|value| value.index).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, [100, 301]);
}

/// The operator sees the key and the address of the client of a native change, others only the key.
fn audit_f12_log_names_key_and_client(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let key = admin_key();
    let credentials = ClientKey::PrivateKey(&*key);
    assert_eq!(server.authenticated_code(&delete_request("10.5555/ONE"), SERVER_ADMIN, credentials), 1);
    let operator = format!("Authorization: Bearer {OPERATOR_TOKEN}");
    for (authorization, client) in [(&*operator, json!("127.0.0.1")), ("X-None: 1", Json::Null)] {
        let request = HttpRequest::get("/api/v1/changes?limit=1000").header("Accept: application/x-ndjson");
        let lines = request.header(authorization).send(server.http).json_lines();
        let last = lines.iter().rfind(|line| line["name"] == "10.5555/ONE").unwrap();
        assert_eq!((&last["by"], &last["client"]), (&json!(SERVER_ADMIN), &client), "{last}");
    }
}

/// Secrets are returned only to administrators with read permission, in an encrypted session that is not tunnelled in HTTP.
fn audit_f1_secrets_only_in_encrypted_sessions(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let values = vec![
        admin_value(100, 0x0fff, SERVER_ADMIN),
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(7, "NOTE", "not public") },
        secret_value(301, "the secret itself"),
    ];
    server.put("10.5555/F1", values);
    let has_secret = |bytes: &[u8]| bytes.windows(17).any(|at| at == b"the secret itself");
    let key = admin_key();
    let credentials = ClientKey::PrivateKey(&*key);
    let mut all = resolution("10.5555/F1");
    all.header.flags -= OpFlags::PUBLIC_ONLY;
    let in_clear = server.authenticated_response(&all, SERVER_ADMIN, credentials);
    assert_eq!(response_code(&in_clear), 1);
    assert!(!has_secret(&in_clear) && in_clear.windows(10).any(|bytes| bytes == b"not public"));
    for (transport, expected) in [(TCP, true), (Transport::Http, false)] {
        let mut session = open_session(&server, Some(SERVER_ADMIN));
        let request = in_session(&mut session, all);
        let mut reply = server.exchange(transport, &request).remove(0);
        if response_code(&reply) == 402 {
            assert!(!has_secret(&reply));
            let proof = challenge_response(&request, &reply, SERVER_ADMIN, credentials, 8);
            reply = server.exchange(transport, &proof).remove(0);
        }
        assert!(!has_secret(&reply), "{transport:?}: in clear");
        let plain = session.key().decrypt(&reply, auth_context!()).unwrap();
        assert_eq!(response_code(&plain), 1);
        assert_eq!(has_secret(&plain), expected, "{transport:?}");
    }
}

/// A secret that an import left publicly readable is neither returned nor accepted.
fn audit_f5_exposed_secret_does_not_authenticate(store: StoreKind) {
    let server = server_with_secret_keys(store);
    let exposed = HandleValue { permissions: ValuePermissions(0x0e), ..secret_value(301, "one") };
    let admins = [admin_value(100, 0x0fff, KEY_1), admin_value(101, 0x0fff, KEY_2)];
    server.put("10.5555/F5", [vec![url_value(1, "https://example.org/")], admins.to_vec()].concat());
    server.put("10.5555/KEYHOLDER", vec![exposed, secret_value(302, "two")]);
    let reply = server.exchange(TCP, &resolution("10.5555/KEYHOLDER").to_bytes().unwrap()).remove(0);
    assert_eq!(response_code(&reply), 200);
    check(&server, KEY_1, &modify("10.5555/F5", &[url_value(1, "https://example.org/1")]), 403);
    check(&server, KEY_2, &modify("10.5555/F5", &[url_value(1, "https://example.org/2")]), 1);
    // The history shows that it was readable.
    server.put("10.5555/KEYHOLDER", vec![secret_value(301, "one"), secret_value(302, "two")]);
    check(&server, KEY_1, &modify("10.5555/F5", &[url_value(1, "https://example.org/1")]), 403);
    check(&server, KEY_2, &modify("10.5555/F5", &[url_value(1, "https://example.org/3")]), 1);
}

/// Unusable public keys are rejected by every write.
fn audit_f18_public_keys_are_checked(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let key = admin_key();
    let credentials = ClientKey::PrivateKey(&*key);
    let short = PublicKey::rsa(&[0xc1; 128], &[1, 0, 1]).to_bytes();
    for data in [vec![0; 3], short] {
        let values = [admin_value(100, 0x0fff, SERVER_ADMIN), HandleValue::with_data(300, "HS_PUBKEY", data)];
        let create = create_request("10.5555/F18", &values);
        assert_eq!(server.authenticated_code(&create, SERVER_ADMIN, credentials), 202);
        let add = values_request(Opcode::ADD_VALUE, "10.5555/ONE", &values[1..]);
        assert_eq!(server.authenticated_code(&add, SERVER_ADMIN, credentials), 202);
        let modify = modify("10.5555/ADMIN", &values[1..]);
        assert_eq!(server.authenticated_code(&modify, SERVER_ADMIN, credentials), 202);
    }
}

/// A proof with a public key.
fn signature_proof(algorithm: &str, bytes: &[u8]) -> Vec<u8> {
    let mut proof = Vec::new();
    let mut writer = WireWriter::new(&mut proof);
    writer.bytes(algorithm.as_bytes());
    writer.bytes(bytes);
    proof
}

/// Forged proofs against a record with keys of all kinds, each of which may delete it.
fn attack_a4_a5_a6_a9_a10_proofs(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let public = private_key("admpriv.bin").public_key().unwrap().to_bytes();
    let short_key = PublicKey::rsa(&[0xc1; 64], &[1, 0, 1]).to_bytes();
    let dsa_key = PublicKey::dsa(&[0xc1; 20], &[0xc1; 128], &[2], &[0xc1; 128]).to_bytes();
    server.put(
        "10.5555/KEYS",
        vec![
            admin_value(100, 0x0fff, "0:10.5555/KEYS"),
            HandleValue::with_data(300, "HS_PUBKEY", public.clone()),
            secret_value(301, "secret"),
            HandleValue::with_data(302, "HS_PUBKEY", short_key),
            HandleValue::with_data(303, "HS_PUBKEY", dsa_key),
            HandleValue::new(304, "HS_PUBKEY", "no key"),
            HandleValue::new(305, "NOTE", "secret"),
        ],
    );
    let request = delete_request("10.5555/KEYS").to_bytes().unwrap();
    // From several addresses, since each may fail only 20 times.
    let mut attempts = 0_u8;
    let mut check = |kind: &str, index: u32, proof: &[u8], expected: u32| {
        attempts += 1;
        let client = Ipv4Addr::new(127, 0, 0, 2 + attempts / 10);
        let challenge = server.exchange(TCP, &request).remove(0);
        let identity = format!("{index}:10.5555/KEYS");
        let message = challenge_response_with(&challenge, kind.as_bytes(), &identity, proof, 8);
        let code = response_code(&server.exchange_from(client, &message));
        assert_eq!(code, expected, "{kind} {index} {:x?}", &proof[..proof.len().min(40)]);
    };
    // A4: a public key used as a secret key, a value that is not a key, an unknown kind of proof.
    let challenge = server.exchange(TCP, &request).remove(0);
    let forged =
        challenge_response(&request, &challenge, "300:10.5555/KEYS", ClientKey::SecretKey(&public), 8);
    assert_eq!(server.code_for_bytes(TCP, &forged), 403);
    let challenge = server.exchange(TCP, &request).remove(0);
    let forged =
        challenge_response(&request, &challenge, "305:10.5555/KEYS", ClientKey::SecretKey(b"secret"), 8);
    assert_eq!(server.code_for_bytes(TCP, &forged), 403);
    check("none", 300, b"", 404);
    check("HS_PUBKEY", 301, &signature_proof("SHA-256", &[0; 256]), 403);
    // A5: MD5 and SHA-1 are rejected.
    for algorithm in [0x01, 0x02, 0x03, 0x11, 0x12] {
        check("HS_SECKEY", 301, &[&[algorithm][..], &[0; 32]].concat(), 404);
    }
    check("HS_PUBKEY", 300, &signature_proof("MD5", &[0; 256]), 404);
    check("HS_PUBKEY", 300, &signature_proof("SHA1", &[0; 256]), 404);
    check("HS_SECKEY", 301, &[&[0x13][..], &[0; 32]].concat(), 403);
    // A6: the cost of PBKDF2 is limited; without a limit, these would run into the timeout of the connection.
    check("HS_SECKEY", 301, &pbkdf2_proof(16, 0x7fff_ffff, 160), 404);
    check("HS_SECKEY", 301, &pbkdf2_proof(16, u32::MAX, 160), 404);
    check("HS_SECKEY", 301, &pbkdf2_proof(16, 0, 160), 404);
    check("HS_SECKEY", 301, &pbkdf2_proof(200_000, 10_000, 160), 404);
    check("HS_SECKEY", 301, &pbkdf2_proof(16, 10_000, u32::MAX), 404);
    check("HS_SECKEY", 301, &pbkdf2_proof(16, 10_000, 160), 403);
    check("HS_SECKEY", 301, &pbkdf2_proof(16, 200_000, 160), 403);
    // A9, A10: forged signatures and invalid keys.
    for bytes in [&[][..], &[0; 1], &[0; 256], &[0xff; 256], &[1; 10_000]] {
        for index in [0, 300, 302, 303, 304, 999] {
            check("HS_PUBKEY", index, &signature_proof("SHA-256", bytes), 403);
        }
    }
    // The right proof is accepted.
    assert_eq!(
        server.authenticated_code(
            &delete_request("10.5555/KEYS"),
            "301:10.5555/KEYS",
            ClientKey::SecretKey(b"secret")
        ),
        1
    );
}

fn attack_a8_missing_and_wrong_keys_look_alike(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    server.put(
        "10.5555/A8",
        vec![admin_value(100, 0x0fff, "0:10.5555/NOBODY"), admin_value(101, 0x0fff, "301:10.5555/ADMIN")],
    );
    let request = delete_request("10.5555/A8").to_bytes().unwrap();
    let attempt = |identity: &str| {
        let challenge = server.exchange(TCP, &request).remove(0);
        let proof = challenge_response(&request, &challenge, identity, ClientKey::SecretKey(b"wrong"), 8);
        let response = server.exchange(TCP, &proof).remove(0);
        (response_code(&response), error_message(&response))
    };
    assert_eq!(attempt("301:10.5555/NOBODY"), attempt("301:10.5555/ADMIN"));
    assert_eq!(attempt("301:10.5555/NOBODY").0, 403);
    // Secrets of identities without permission can't be guessed: right or wrong, the response is the same.
    server.put("10.5555/OTHER", vec![secret_value(301, "wrong")]);
    assert_eq!(attempt("301:10.5555/OTHER").0, 400);
    server.put("10.5555/OTHER", vec![secret_value(301, "right")]);
    assert_eq!(attempt("301:10.5555/OTHER").0, 400);
}

/// Sets up a session over UDP.
pub(crate) fn open_session(server: &NativeTestServer, identity: Option<&str>) -> Session {
    let proposal = ClientKeyExchange::new(DhGroup::Modp2048, &mut SystemRandom, auth_context!()).unwrap();
    let identity = identity.map(ValueReference::parse);
    let mut request = Message::request(
        Opcode::SESSION_SETUP,
        Request::SessionSetup(proposal.request(identity.as_ref(), 60)),
        7,
        now(),
    );
    request.header.flags |= OpFlags::CERTIFY | OpFlags::REQUEST_DIGEST;
    let sent = request.to_bytes().unwrap();
    let response = server.exchange(Transport::Udp, &sent).remove(0);
    let key = private_key("privkey.bin").public_key().unwrap();
    let (sent, received) = (MessageParts::split(&sent).unwrap(), MessageParts::split(&response).unwrap());
    proposal.complete(&sent, &received, &key, auth_context!()).unwrap()
}

/// Request in a session, with its MAC.
pub(crate) fn in_session(session: &mut Session, mut message: Message<'_>) -> Vec<u8> {
    message.envelope.session_id = session.id();
    let mut bytes = message.to_bytes().unwrap();
    session.add_mac(&mut bytes, auth_context!()).unwrap();
    bytes
}

fn attack_a13_replayed_session_messages(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let key = admin_key();
    let mut session = open_session(&server, Some(SERVER_ADMIN));
    let values = [url_value(1, "https://example.org/"), admin_value(100, 0x0fff, SERVER_ADMIN)];
    let first = in_session(&mut session, create_request("10.5555/A13", &values));
    let challenge = server.exchange(TCP, &first).remove(0);
    assert_eq!(response_code(&challenge), 402);
    assert_eq!(
        server.code_for_bytes(
            TCP,
            &challenge_response(&first, &challenge, SERVER_ADMIN, ClientKey::PrivateKey(&*key), 8)
        ),
        1
    );
    // Later requests of the session get no challenge.
    let mut later_requests = Vec::new();
    for index in 2..6 {
        let value = [url_value(index, "https://example.org/")];
        later_requests
            .push(in_session(&mut session, values_request(Opcode::ADD_VALUE, "10.5555/A13", &value)));
        assert_eq!(server.code_for_bytes(TCP, later_requests.last().unwrap()), 1, "{index}");
    }
    let before = server.change_count();
    for message in &later_requests {
        assert_eq!(server.code_for_bytes(TCP, message), 505);
    }
    // Forged: a changed byte, no MAC, the MAC of another session.
    let mut signed_delete = in_session(&mut session, delete_request("10.5555/A13"));
    let at = signed_delete.len() - 1;
    signed_delete[at] ^= 1;
    assert_eq!(server.code_for_bytes(TCP, &signed_delete), 502);
    let mut without_mac = delete_request("10.5555/A13");
    without_mac.envelope.session_id = session.id();
    assert_eq!(server.code(TCP, &without_mac), 404);
    let mut other_session = open_session(&server, None);
    let mut message = delete_request("10.5555/A13");
    message.envelope.session_id = other_session.id();
    let mut bytes = message.to_bytes().unwrap();
    other_session.add_mac(&mut bytes, auth_context!()).unwrap();
    bytes[4..8].copy_from_slice(&session.id().to_be_bytes());
    assert_eq!(server.code_for_bytes(TCP, &bytes), 502);
    // The other session has no identity.
    assert_eq!(
        server.code_for_bytes(TCP, &in_session(&mut other_session, delete_request("10.5555/A13"))),
        402
    );
    assert_eq!(server.change_count(), before);
    signed_delete[at] ^= 1;
    assert_eq!(server.code_for_bytes(TCP, &signed_delete), 1, "forged messages use up no message number");
    let end = Message::request(Opcode::SESSION_TERMINATE, Request::NoOperand { handle: None }, 7, now());
    assert_eq!(server.code_for_bytes(TCP, &in_session(&mut session, end)), 1);
    assert_eq!(server.code_for_bytes(TCP, &in_session(&mut session, end)), 500);
    assert_eq!(server.code(TCP, &end), 500, "without a session");
}

/// Error responses have a MAC if the request asks for one and has a valid MAC itself.
fn session_errors_have_a_mac(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let mut session = open_session(&server, None);
    let certified = |mut message: Message<'static>| {
        message.header.flags |= OpFlags::CERTIFY;
        message
    };
    for (transport, message, expected) in
        [(Transport::Udp, delete_request("10.5555/ONE"), 4), (TCP, create_request("no-slash", &[]), 102)]
    {
        let mut request = in_session(&mut session, certified(message));
        let response = server.exchange(transport, &request).remove(0);
        assert_eq!(response_code(&response), expected, "{}", error_message(&response));
        session.verify(&MessageParts::split(&response).unwrap(), auth_context!()).unwrap();
        let end = request.len() - 1;
        request[end] ^= 1;
        let response = server.exchange(transport, &request).remove(0);
        assert!(session.verify(&MessageParts::split(&response).unwrap(), auth_context!()).is_err());
    }
}

/// The flag that keeps a connection open is read from the decrypted message, not from the bytes of the ciphertext.
fn encrypted_messages_keep_the_connection(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let mut session = open_session(&server, None);
    let mut stream = server.connect();
    for number in 0..=20 {
        let is_last = number == 20;
        let request = if is_last { resolution("10.5555/ONE") } else { keep_alive_resolution("10.5555/ONE") };
        let request = in_session(&mut session, request);
        let request = session.key().encrypt(&request, &mut SystemRandom, auth_context!()).unwrap();
        stream.write_all(&request).unwrap();
        let response = read_message(&mut stream).unwrap_or_else(|| panic!("closed after {number} messages"));
        assert_eq!(response_code(&response), 1);
    }
    assert!(read_until_closed(&mut stream).is_empty());
}

/// A session with index 0 gets the permissions of the key that proved the identity, and of no other key.
fn attack_p3_index_0_in_a_session(store: StoreKind) {
    let server = server_with_secret_keys(store);
    server.put("10.5555/P3", vec![url_value(1, "https://example.org/"), admin_value(100, 0x0fff, KEY_2)]);
    let mut session = open_session(&server, Some("0:10.5555/KEYHOLDER"));
    let new_values = [url_value(1, "https://example.org/2")];
    let request = in_session(&mut session, modify("10.5555/P3", &new_values));
    let challenge = server.exchange(TCP, &request).remove(0);
    let proof =
        challenge_response(&request, &challenge, "0:10.5555/KEYHOLDER", ClientKey::SecretKey(b"one"), 8);
    assert_eq!(server.code_for_bytes(TCP, &proof), 400, "the first key has no permission");
    let request = in_session(&mut session, delete_request("10.5555/P3"));
    assert_eq!(server.code_for_bytes(TCP, &request), 400, "and there is no further challenge");
    let mut session = open_session(&server, Some("0:10.5555/KEYHOLDER"));
    let request = in_session(&mut session, modify("10.5555/P3", &new_values));
    let challenge = server.exchange(TCP, &request).remove(0);
    let proof =
        challenge_response(&request, &challenge, "0:10.5555/KEYHOLDER", ClientKey::SecretKey(b"two"), 8);
    assert_eq!(server.code_for_bytes(TCP, &proof), 1);
    let request = in_session(&mut session, delete_request("10.5555/P3"));
    assert_eq!(server.code_for_bytes(TCP, &request), 1, "there is no further challenge");
}

fn attack_a15_weak_session_keys(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let key_exchange = ClientKeyExchange::new(DhGroup::Modp2048, &mut SystemRandom, auth_context!()).unwrap();
    let SessionKeyMaterial::PublicKey(bytes) = key_exchange.request(None, 60).key else { panic!() };
    let client_key = PublicKey::from_bytes(bytes).unwrap();
    let tendot_proto::record::KeyComponents::DiffieHellman { p, g, y } = client_key.components() else {
        panic!()
    };
    let mut below = p.to_vec();
    *below.last_mut().unwrap() -= 1;
    let composite = [&p[..p.len() - 1], &[p[p.len() - 1] - 2]].concat();
    let check = |key: PublicKey<'_>, mode: u16, expected: u32| {
        let bytes = key.to_bytes();
        let setup = SessionSetup {
            mode: KeyExchangeMode(mode),
            timeout: 60,
            identity_handle: Handle::new(&[]),
            identity_index: SessionSetup::ANONYMOUS_INDEX,
            key: SessionKeyMaterial::PublicKey(&bytes),
        };
        let request = Message::request(Opcode::SESSION_SETUP, Request::SessionSetup(setup), 7, now());
        assert_eq!(server.code(TCP, &request), expected, "{mode}");
    };
    check(PublicKey::diffie_hellman(y, p, g), 4, 1);
    check(PublicKey::diffie_hellman(&[], p, g), 4, 501);
    check(PublicKey::diffie_hellman(&[1], p, g), 4, 501);
    check(PublicKey::diffie_hellman(&below, p, g), 4, 501);
    check(PublicKey::diffie_hellman(p, p, g), 4, 501);
    check(PublicKey::diffie_hellman(y, &composite, g), 4, 501);
    check(PublicKey::diffie_hellman(y, p, &[1]), 4, 501);
    check(PublicKey::diffie_hellman(&[2], &[0xfb], &[2]), 4, 501);
    check(PublicKey::rsa(&[0xc1; 256], &[1, 0, 1]), 4, 501);
    check(PublicKey::rsa(&[0xc1; 256], &[1, 0, 1]), 1, 501);
}

/// A server with a record that has two secret keys, [`KEY_1`] and [`KEY_2`].
fn server_with_secret_keys(store: StoreKind) -> NativeTestServer {
    let options = NativeServerOptions { full_access: false, ..NativeServerOptions::default() };
    let server = NativeTestServer::start_over(store.open(), options);
    let keys =
        vec![admin_value(100, 0x0fff, SERVER_ADMIN), secret_value(301, "one"), secret_value(302, "two")];
    server.put("10.5555/KEYHOLDER", keys);
    server
}

const KEY_1: &str = "301:10.5555/KEYHOLDER";
const KEY_2: &str = "302:10.5555/KEYHOLDER";

#[track_caller]
fn check(server: &NativeTestServer, identity: &str, request: &Message<'_>, expected: u32) {
    let secret = if identity == KEY_1 { "one" } else { "two" };
    let before = server.change_count();
    let code = server.authenticated_code(request, identity, ClientKey::SecretKey(secret.as_bytes()));
    assert_eq!(code, expected, "{identity} {request:?}");
    assert_eq!(server.change_count() - before, usize::from(expected == 1));
}

fn attack_p1_p2_admin_permissions(store: StoreKind) {
    let server = server_with_secret_keys(store);
    let read_only =
        HandleValue { permissions: ValuePermissions(0x0a), ..url_value(3, "https://example.org/3") };
    server.put(
        "10.5555/P1",
        vec![
            url_value(1, "https://example.org/"),
            read_only,
            admin_value(100, 0x0010, KEY_1),
            admin_value(101, 0x0fff, KEY_2),
        ],
    );
    let new_url = [url_value(1, "https://example.org/2")];
    check(&server, KEY_1, &modify("10.5555/P1", &new_url), 1);
    check(&server, KEY_1, &modify("10.5555/P1", &[admin_value(100, 0x0fff, KEY_1)]), 400);
    check(&server, KEY_1, &modify("10.5555/P1", &[admin_value(1, 0x0fff, KEY_1)]), 400);
    check(&server, KEY_1, &delete_request("10.5555/P1"), 400);
    check(&server, KEY_2, &modify("10.5555/P1", &[url_value(3, "https://example.org/4")]), 401);
    let mut overwrite = values_request(Opcode::ADD_VALUE, "10.5555/P1", &new_url);
    check(&server, KEY_2, &overwrite, 201);
    let value_3 = [url_value(3, "https://example.org/4")];
    overwrite = values_request(Opcode::ADD_VALUE, "10.5555/P1", &value_3);
    overwrite.header.flags |= OpFlags::OVERWRITE;
    check(&server, KEY_2, &overwrite, 401);
    let value_4 = [url_value(4, "https://example.org/4")];
    check(&server, KEY_1, &values_request(Opcode::ADD_VALUE, "10.5555/P1", &value_4), 400);
}

fn attack_p3_index_0(store: StoreKind) {
    let server = server_with_secret_keys(store);
    for (administrator, claimed, expected) in [
        ("301:10.5555/KEYHOLDER", KEY_1, 1),
        ("301:10.5555/KEYHOLDER", KEY_2, 400),
        ("0:10.5555/KEYHOLDER", KEY_2, 1),
        ("301:10.5555/KEYHOLDER", "0:10.5555/KEYHOLDER", 400),
        ("302:10.5555/KEYHOLDER", "0:10.5555/KEYHOLDER", 1),
    ] {
        server.put(
            "10.5555/P3",
            vec![url_value(1, "https://example.org/"), admin_value(100, 0x0fff, administrator)],
        );
        // Index 0 has the permissions of the key that proves it, which is the second.
        check(&server, claimed, &delete_request("10.5555/P3"), expected);
    }
}

fn attack_p4_p5_groups(store: StoreKind) {
    let server = server_with_secret_keys(store);
    let group = |members: &[String]| {
        let members = members.iter().map(|member| ValueReference::parse(member).into_owned()).collect();
        HandleValue::with_data(200, "HS_VLIST", ValueList { members }.to_bytes())
    };
    let level = |number: u32| format!("10.5555/G{number}");
    for number in 0..12 {
        let next = if number == 11 { KEY_1.to_owned() } else { format!("200:{}", level(number + 1)) };
        server.put(&level(number), vec![group(&[next])]);
    }
    let record = |group: &str| {
        server.put("10.5555/P4", vec![url_value(1, "https://example.org/"), admin_value(100, 0x0fff, group)]);
    };
    record("200:10.5555/G4");
    check(&server, KEY_1, &delete_request("10.5555/P4"), 1);
    record("200:10.5555/G0");
    check(&server, KEY_1, &delete_request("10.5555/P4"), 400);
    // Groups in a cycle, and a group that is too large: a search without a limit would run into the timeout of the connection.
    server.put("10.5555/A", vec![group(&["200:10.5555/B".into()])]);
    server.put("10.5555/B", vec![group(&["200:10.5555/A".into(), "200:99.9/FOREIGN".into()])]);
    record("200:10.5555/A");
    check(&server, KEY_1, &delete_request("10.5555/P4"), 400);
    let many: Vec<String> = (0..5_000).map(|number| format!("200:10.5555/M{number}")).collect();
    server.put("10.5555/MANY", vec![group(&many)]);
    record("200:10.5555/MANY");
    let code = server.authenticated_code(&delete_request("10.5555/P4"), KEY_1, ClientKey::SecretKey(b"one"));
    assert!(matches!(code, 400 | 3), "{code}");
}

fn attack_p6_p7_prefixes_and_the_last_administrator(store: StoreKind) {
    let server = server_with_secret_keys(store);
    server.put("10.5555/P6", vec![url_value(1, "https://example.org/"), admin_value(100, 0x0fff, KEY_1)]);
    let indexes =
        Request::RemoveValues { handle: Handle::from("10.5555/P6"), indexes: WireList::from(&[100][..]) };
    check(&server, KEY_1, &Message::request(Opcode::REMOVE_VALUE, indexes, 7, now()), 401);
    check(&server, KEY_1, &modify("10.5555/P6", &[admin_value(100, 0, KEY_1)]), 401);
    // An administrator of 10.5556 only.
    server.put("0.NA/10.5556", vec![admin_value(100, 0x0fff, KEY_1)]);
    let values = [url_value(1, "https://example.org/"), admin_value(100, 0x0fff, KEY_1)];
    check(&server, KEY_1, &create_request("10.5556/OWN", &values), 1);
    check(&server, KEY_1, &create_request("10.5555/OTHERS", &values), 400);
    check(&server, KEY_1, &create_request("0.NA/10.1234", &values), 400);
    check(&server, KEY_1, &create_request("0.NA/10.5555.5", &values), 400);
    check(&server, KEY_1, &create_request("0.NA/10.5556.5", &values), 1);
    for opcode in [Opcode::HOME_PREFIX, Opcode::UNHOME_PREFIX] {
        check(&server, KEY_1, &handle_request(opcode, "0.NA/10.5556"), 400);
    }
    let all = Message::request(Opcode::LIST_HOMED_PREFIXES, Request::NoOperand { handle: None }, 7, now());
    check(&server, KEY_1, &all, 400);
    let mut status = resolution("0.site/STATUS");
    status.header.flags -= OpFlags::PUBLIC_ONLY;
    check(&server, KEY_1, &status, 400);
}

/// Values that are not public are in no response without permission to read them.
fn attack_p10_hidden_values(store: StoreKind) {
    let server = server_with_secret_keys(store);
    let request = |indexes: &'static [u32], types: &'static [&'static [u8]], flags: u32| {
        let mut message = selection("10.5555/MULTI", indexes, types);
        message.header.flags = OpFlags(message.header.flags.0 ^ flags);
        message.to_bytes().unwrap()
    };
    const TYPES: &[&[u8]] = &[b"NOTE", b"NOTE.", b"note"];
    for (indexes, types) in [(&[][..], &[][..]), (&[7][..], &[][..]), (&[][..], TYPES), (&[1, 7][..], TYPES)]
    {
        for flags in
            [0, OpFlags::CERTIFY.0, OpFlags::AUTHORITATIVE.0, OpFlags::PUBLIC_ONLY.0, OpFlags::ENCRYPT.0]
        {
            for transport in [TCP, Transport::Udp, Transport::Http] {
                let response = server.exchange(transport, &request(indexes, types, flags)).concat();
                assert!(!response.windows(10).any(|bytes| bytes == b"not public"), "{indexes:?} {flags:x}");
            }
        }
    }
    assert!(!server.get("/api/handles/10.5555/MULTI").text().contains("not public"));
    // An authenticated identity without permission to read.
    let mut restricted = resolution("10.5555/MULTI");
    restricted.header.flags -= OpFlags::PUBLIC_ONLY;
    check(&server, KEY_1, &restricted, 400);
    let key = admin_key();
    assert_eq!(server.authenticated_code(&restricted, SERVER_ADMIN, ClientKey::PrivateKey(&*key)), 1);
    // A signature by another key.
    let other_key = OwnSite::generate_key().unwrap().signing_key(&AwsLcProvider).unwrap();
    assert_eq!(server.authenticated_code(&restricted, SERVER_ADMIN, ClientKey::PrivateKey(&*other_key)), 403);
}
