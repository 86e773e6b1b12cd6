//! Native administration: secret and private keys, sessions, tampering.

use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tendot_client::LookupOutcome;
use tendot_client::native::{
    AdminClient, AdminError, AdminIdentity, AdminServer, NativeClient, ResolveOptions, RootSites,
};
use tendot_proto::auth::{AuthPolicy, SecretKeyMacSet};
use tendot_proto::record::{InterfaceProtocol, SiteServer};
use tendot_proto::{
    CredentialSection, Envelope, Handle, HandleValue, Message, MessageBody, Opcode, Request, ResponseCode,
    ValuePermissions, limits,
};
use tendot_testing::free_port;
use tendot_testing::handle_keys::{private_key, public_key};
use tendot_testing::handle_server::{
    ALL_TRANSPORTS, ServerTransport, StreamStep, TestHandleServer, TestHandleService, envelope, now,
    scripted_tcp_server, site, site_value, tampering_proxy,
};

use crate::stopped_clock::StoppedClock;

const PREFIX: &str = "0.NA/10.1000";
const SECRET: &[u8] = b"example-secret";

fn service() -> TestHandleService {
    let hidden = |value| HandleValue { permissions: ValuePermissions(0x0c), ..value };
    let secret = hidden(HandleValue::with_data(301, "HS_SECKEY", SECRET));
    let key = HandleValue::with_data(300, "HS_PUBKEY", public_key("admpub.bin").to_bytes());
    TestHandleService::new().with_record(PREFIX, vec![key, secret])
}

fn by_secret() -> AdminIdentity {
    AdminIdentity::with_secret_key(301, PREFIX, SECRET)
}

fn by_key() -> AdminIdentity {
    AdminIdentity::with_private_key(300, PREFIX, &private_key("admpriv.bin")).unwrap()
}

/// Single server of a site.
fn admin_server(server: SiteServer<'static>) -> AdminServer {
    AdminServer::for_handle(&RootSites::from_site(site(vec![server])), "10.1000/1").unwrap()
}

fn admin_server_at(address: SocketAddr) -> AdminServer {
    AdminServer::for_handle(&RootSites::from_addresses(&[address], None), "10.1000/1").unwrap()
}

fn admin(server: &TestHandleServer, identity: AdminIdentity) -> AdminClient {
    AdminClient::new(admin_server(server.server(ALL_TRANSPORTS)), identity)
}

fn url_value(text: &'static str) -> [HandleValue<'static>; 1] {
    [HandleValue::new(1, "URL", text)]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum AdminMode {
    Plain,
    Signed,
    Session,
    EncryptedSession,
}

#[tokio::test]
async fn all_operations() {
    for (identity, mode) in [
        (by_secret(), AdminMode::Plain),
        (by_key(), AdminMode::Plain),
        (by_key(), AdminMode::Signed),
        (by_secret(), AdminMode::Session),
        (by_key(), AdminMode::Session),
        (by_secret(), AdminMode::EncryptedSession),
        (by_key(), AdminMode::EncryptedSession),
    ] {
        check_all(identity, mode).await;
    }
}

async fn check_all(identity: AdminIdentity, mode: AdminMode) {
    let server = TestHandleServer::start(service()).await;
    let mut admin = admin(&server, identity);
    match mode {
        AdminMode::Plain => {}
        AdminMode::Signed => admin = admin.require_signature(),
        AdminMode::Session => admin.open_session(false).await.unwrap(),
        AdminMode::EncryptedSession => admin.open_session(true).await.unwrap(),
    }
    let name = "10.1000/182";
    admin.home_prefix("10.1000").await.unwrap();
    assert!(server.service().homed.contains(PREFIX.as_bytes()));
    assert_eq!(homed(&mut admin).await, [PREFIX]);

    admin.create(name, &url_value("https://example.org/1")).await.unwrap();
    let again = admin.create(name, &url_value("https://example.org/1")).await;
    assert_eq!(code(again), ResponseCode::HANDLE_ALREADY_EXISTS);
    admin.replace(name, &url_value("https://example.org/2")).await.unwrap();
    let email =
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(2, "EMAIL", "x@example.org") };
    admin.add_values(name, &[email]).await.unwrap();
    admin.modify_values(name, &url_value("https://example.org/3")).await.unwrap();
    let values = admin.resolve(name, &ResolveOptions::default()).await.unwrap();
    let texts: Vec<_> = values.iter().map(|value| String::from_utf8_lossy(&value.data)).collect();
    assert_eq!(texts, ["x@example.org", "https://example.org/3"], "private values are included");
    admin.remove_values(name, &[2]).await.unwrap();
    assert_eq!(server.service().records[&b"10.1000/182"[..]].len(), 1);

    let minted = admin.mint("10.1000/", &url_value("https://example.org/")).await.unwrap();
    assert_eq!(minted.as_deref(), Some("10.1000/minted"));
    assert_eq!(names(&mut admin).await, ["10.1000/182", "10.1000/MINTED"]);
    admin.delete(name).await.unwrap();
    assert_eq!(code(admin.delete(name).await), ResponseCode::HANDLE_NOT_FOUND);
    admin.unhome_prefix("0.NA/10.1000").await.unwrap();
    assert!(homed(&mut admin).await.is_empty());

    let operations = std::mem::take(&mut server.service().operations);
    let challenge_responses =
        operations.iter().filter(|(opcode, _)| *opcode == Opcode::CHALLENGE_RESPONSE).count();
    let is_session = matches!(mode, AdminMode::Session | AdminMode::EncryptedSession);
    assert_eq!(challenge_responses, if is_session { 1 } else { 15 }, "{mode:?}");
    let is_encrypted = |(opcode, encrypted): &(Opcode, bool)| {
        let has_secret = *opcode == Opcode::ADD_VALUE && is_session;
        *encrypted == (mode == AdminMode::EncryptedSession && *opcode != Opcode::SESSION_SETUP || has_secret)
    };
    assert!(operations.iter().all(is_encrypted), "{mode:?}: {operations:?}");
    assert_eq!(server.service().session_count(), usize::from(is_session));
    admin.close_session().await.unwrap();
    assert_eq!(server.service().session_count(), 0);
}

async fn homed(admin: &mut AdminClient) -> Vec<String> {
    let mut prefixes = Vec::new();
    admin.list_homed_prefixes(collect_into(&mut prefixes)).await.unwrap();
    prefixes
}

async fn names(admin: &mut AdminClient) -> Vec<String> {
    let mut names = Vec::new();
    admin.list_handles("10.1000", collect_into(&mut names)).await.unwrap();
    names
}

fn collect_into(names: &mut Vec<String>) -> impl FnMut(Handle<'_>) -> ControlFlow<()> {
    |name| {
        names.push(name.to_string());
        ControlFlow::Continue(())
    }
}

fn code<T: Debug>(result: Result<T, AdminError>) -> ResponseCode {
    match result {
        Err(AdminError::ErrorResponse { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn long_lists() {
    let mut service = service();
    for number in 0..1_234 {
        service = service.with_url(&format!("10.1000/{number:04}"), "https://example.org/");
    }
    let server = TestHandleServer::start(service).await;
    for is_session in [false, true] {
        let mut admin = admin(&server, by_secret());
        if is_session {
            admin.open_session(true).await.unwrap();
        }
        let all = names(&mut admin).await;
        assert_eq!((all.len(), &*all[1_233]), (1_234, "10.1000/1233"));
        let mut count = 0;
        let on_handle = |_: Handle<'_>| {
            count += 1;
            if count == 60 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        admin.list_handles("10.1000", on_handle).await.unwrap();
        assert_eq!(count, 60);
    }
}

#[tokio::test]
async fn wrong_keys_are_rejected() {
    let server = TestHandleServer::start(service()).await;
    for identity in [
        AdminIdentity::with_secret_key(301, PREFIX, b"something else"),
        AdminIdentity::with_secret_key(300, PREFIX, SECRET),
        AdminIdentity::with_secret_key(301, "0.NA/10.2000", SECRET),
        AdminIdentity::with_private_key(300, PREFIX, &private_key("privkey.bin")).unwrap(),
        AdminIdentity::with_private_key(301, PREFIX, &private_key("admpriv.bin")).unwrap(),
    ] {
        for session in [None, Some(false), Some(true)] {
            let mut admin = admin(&server, identity.clone());
            if let Some(is_encrypted) = session {
                admin.open_session(is_encrypted).await.unwrap();
            }
            let created = admin.create("10.1000/182", &url_value("https://example.org/")).await;
            assert_eq!(code(created), ResponseCode::AUTHENTICATION_FAILED, "{identity:?}");
        }
    }
    assert_eq!(server.service().records.len(), 1);
}

/// A policy without a MAC for secret keys refuses to respond to the challenge; nothing is written.
#[tokio::test]
async fn policy_limits_algorithms() {
    let server = TestHandleServer::start(service()).await;
    let policy = AuthPolicy { secret_key_macs: SecretKeyMacSet::NONE, ..AuthPolicy::default() };
    let mut admin = admin(&server, by_secret()).with_policy(policy);
    let error = admin.create("10.1000/182", &url_value("https://example.org/")).await.unwrap_err();
    assert!(matches!(error, AdminError::Authentication(_)), "{error}");
    let mut admin = admin.with_policy(AuthPolicy::default());
    admin.create("10.1000/182", &url_value("https://example.org/")).await.unwrap();
}

#[tokio::test]
async fn falls_back_to_http() {
    let server = TestHandleServer::start(service()).await;
    let mut admin = AdminClient::new(
        admin_server(server.server(&[InterfaceProtocol::UDP, InterfaceProtocol::HTTP])),
        by_key(),
    );
    admin.open_session(true).await.unwrap();
    admin.create("10.1000/182", &url_value("https://example.org/")).await.unwrap();
    assert!(server.service().transports().iter().all(|transport| *transport == InterfaceProtocol::HTTP));
    let listed = admin.list_handles("10.1000", |_| ControlFlow::Continue(())).await.unwrap_err();
    assert!(matches!(listed, AdminError::NoAdminInterface), "lists need TCP: {listed}");
    let mut admin = AdminClient::new(admin_server(server.server(&[InterfaceProtocol::UDP])), by_key());
    let error = admin.delete("10.1000/182").await.unwrap_err();
    assert!(matches!(error, AdminError::NoAdminInterface), "UDP is never used: {error}");
}

#[tokio::test]
async fn expired_session() {
    let server = TestHandleServer::start(service()).await;
    let mut admin = admin(&server, by_secret());
    for is_encrypted in [false, true] {
        admin.open_session(is_encrypted).await.unwrap();
        admin.create("10.1000/182", &url_value("https://example.org/")).await.unwrap();
        server.service().forget_sessions();
        assert_eq!(code(admin.delete("10.1000/182").await), ResponseCode::SESSION_TIMEOUT);
        // Later requests are sent without a session.
        admin.delete("10.1000/182").await.unwrap();
    }
}

#[tokio::test]
async fn attack_wrong_server_key() {
    let server = TestHandleServer::start(service()).await;
    let mut entry = server.server(ALL_TRANSPORTS);
    entry.public_key = public_key("admpub.bin").to_bytes().into();
    let with_wrong_key = admin_server(entry);
    let mut admin = AdminClient::new(with_wrong_key.clone(), by_key());
    let error = admin.open_session(true).await.unwrap_err().to_string();
    assert_eq!(error, "session error: credential verification failed");
    let mut admin = AdminClient::new(with_wrong_key, by_key()).require_signature();
    let error = admin.home_prefix("10.1000").await.unwrap_err().to_string();
    assert!(error.contains("response is not authenticated"), "{error}");
    let mut admin = AdminClient::new(admin_server_at(server.address), by_key());
    assert!(matches!(admin.open_session(true).await, Err(AdminError::UnknownServerKey)));
    admin.home_prefix("10.1000").await.unwrap();
}

/// The error of a deletion at a scripted server.
async fn delete(script: impl FnMut(&[u8]) -> Vec<StreamStep> + Send + 'static) -> AdminError {
    let address = scripted_tcp_server(script, false).await;
    let mut admin = AdminClient::new(admin_server_at(address), by_secret());
    admin.delete("10.1000/1").await.unwrap_err()
}

#[tokio::test]
async fn attack_invalid_responses() {
    let _clock = StoppedClock::new();
    let check = |error: AdminError, expected: &str| {
        assert!(matches!(error, AdminError::OutcomeUnknown { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let response = |request: &[u8]| service().respond(request, ServerTransport::Tcp).remove(0);
    check(delete(|_| Vec::new()).await, "connection closed by the server");
    check(delete(move |request| vec![StreamStep::Send(response(request)[..70].to_vec())]).await, "closed");
    check(delete(|request| vec![StreamStep::Send(request.to_vec())]).await, "message is not a response");
    let other = move |request: &[u8]| {
        let mut message = response(request);
        message[8] ^= 1;
        vec![StreamStep::Send(message)]
    };
    check(delete(other).await, "request id mismatch");
    // The request id is compared before the body is decoded: the body belongs to another request.
    let undecodable = move |request: &[u8], id_bits: u8| {
        let mut message = response(request);
        message[8] ^= id_bits;
        let credential = message.len() - 4;
        message[limits::ENVELOPE_LEN + limits::HEADER_LEN..credential].fill(0xff);
        vec![StreamStep::Send(message)]
    };
    check(delete(move |request| undecodable(request, 0)).await, "request digest at byte");
    check(delete(move |request| undecodable(request, 1)).await, "request id mismatch");
    let opcode = move |request: &[u8]| {
        let mut message = response(request);
        message[limits::ENVELOPE_LEN + 3] = 102;
        vec![StreamStep::Send(message)]
    };
    check(delete(opcode).await, "opcode mismatch: 102");
    let huge = |request: &[u8]| {
        let envelope = Envelope { length: u32::MAX, ..envelope(request) };
        vec![StreamStep::Send(envelope.to_bytes().to_vec()), StreamStep::Flood(vec![0; 1 << 16])]
    };
    check(delete(huge).await, "message length 4294967295");
    let encrypted = |request: &[u8]| {
        let mut request = request.to_vec();
        request[2] |= 0x40;
        vec![StreamStep::Send(request)]
    };
    check(delete(encrypted).await, "unknown or expired session");
    // A challenge for another request is rejected.
    let challenge = move |request: &[u8]| {
        let mut request = request.to_vec();
        *request.last_mut().unwrap() = 0;
        let end = request.len() - 5;
        request[end] ^= 1;
        vec![StreamStep::Send(response(&request))]
    };
    let error = delete(challenge).await;
    assert_eq!(error.to_string(), "authentication failed: request digest mismatch");
}

/// An administrator behind a proxy that changes every response once the returned flag is set.
async fn with_tampering_proxy(
    server: &TestHandleServer,
    mut change: impl FnMut(Vec<u8>) -> Vec<u8> + Send + 'static,
) -> (AdminClient, Arc<AtomicBool>) {
    let is_active = Arc::new(AtomicBool::new(false));
    let active = Arc::clone(&is_active);
    let address = tampering_proxy(server.address, move |response| {
        if active.load(Ordering::Relaxed) { change(response) } else { response }
    })
    .await;
    let key = server.service().public_key();
    let server =
        AdminServer::for_handle(&RootSites::from_addresses(&[address], Some(&key)), "10.1000/1").unwrap();
    (AdminClient::new(server, by_secret()), is_active)
}

#[tokio::test]
async fn attack_tampered_responses() {
    let check = async |change: fn(Vec<u8>) -> Vec<u8>, is_encrypted: bool, expected: &str| {
        let server = TestHandleServer::start(service()).await;
        let (mut admin, is_active) = with_tampering_proxy(&server, change).await;
        admin.open_session(is_encrypted).await.unwrap();
        admin.home_prefix("10.1000").await.unwrap();
        is_active.store(true, Ordering::Relaxed);
        let error = admin.create("10.1000/1", &url_value("https://example.org/")).await.unwrap_err();
        assert!(matches!(error, AdminError::OutcomeUnknown { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let flipped = |mut response: Vec<u8>| {
        response[limits::ENVELOPE_LEN + limits::HEADER_LEN + 5] ^= 1;
        response
    };
    check(flipped, false, "credential verification failed").await;
    check(flipped, true, "decryption failed").await;
    // Without the credential, and with lengths that match.
    let bare = |response: Vec<u8>| {
        let mut message = Message::from_bytes(&response).unwrap();
        message.credential_section = CredentialSection::Empty;
        message.to_bytes().unwrap()
    };
    check(bare, false, "response is not authenticated").await;
    // A forged plaintext response where an encrypted one is expected.
    let forged_response = |response: Vec<u8>| {
        let request = envelope(&response);
        let mut service = TestHandleService::new();
        let mut message = Message::resolution("0.NA/10".into(), request.request_id, now());
        message.header.opcode = Opcode::GET_SITE_INFO;
        message.body = MessageBody::Request(Request::NoOperand { handle: None });
        let mut forged = service.respond(&message.to_bytes().unwrap(), ServerTransport::Tcp).remove(0);
        forged[limits::ENVELOPE_LEN + 3] = 100;
        forged
    };
    check(forged_response, true, "response is not authenticated").await;
}

/// A challenge is accepted only in the session of the request.
#[tokio::test]
async fn attack_challenge_of_another_session() {
    let server = TestHandleServer::start(service()).await;
    let other = |mut response: Vec<u8>| {
        response[4] ^= 1;
        response
    };
    let (mut admin, is_active) = with_tampering_proxy(&server, other).await;
    admin.open_session(false).await.unwrap();
    is_active.store(true, Ordering::Relaxed);
    let error = admin.home_prefix("10.1000").await.unwrap_err();
    assert!(error.to_string().contains("challenge belongs to another session"), "{error}");
    let challenge_responses = |server: &TestHandleServer| {
        server.service().operations.iter().filter(|(opcode, _)| *opcode == Opcode::CHALLENGE_RESPONSE).count()
    };
    assert_eq!(challenge_responses(&server), 0);
}

#[tokio::test]
async fn attack_replayed_responses() {
    let server = TestHandleServer::start(service()).await;
    server.service().clock_lag_secs = 50_000;
    let error = admin(&server, by_secret()).home_prefix("10.1000").await.unwrap_err();
    assert!(error.to_string().contains("response expired 68"), "{error}");
}

#[tokio::test]
async fn unreachable_server() {
    let closed = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut admin = AdminClient::new(admin_server_at(closed), by_secret());
    let error = admin.delete("10.1000/1").await.unwrap_err();
    assert!(matches!(error, AdminError::Unreachable { .. }), "{error}");
}

/// Locates the server of a handle through the root, and creates a record there.
#[tokio::test]
async fn locates_admin_server() {
    let server = TestHandleServer::start(service()).await;
    let root = TestHandleServer::start(
        TestHandleService::new().with_record(PREFIX, vec![site_value(1, &server.site())]),
    )
    .await;
    let native = NativeClient::new(root.config());
    let located = native.locate_admin_server("10.1000/new").await.unwrap();
    let mut admin = AdminClient::new(located, by_key());
    admin.open_session(true).await.unwrap();
    admin.create("10.1000/new", &url_value("https://example.org/")).await.unwrap();
    let reply = native.resolve("10.1000/NEW", &ResolveOptions::default()).await.unwrap();
    assert!(matches!(reply.outcome, LookupOutcome::Values(_)));
}
