//! Attacks on sessions: replay, tampering, reflection, weak groups, exhaustion.

use std::time::Duration;

use tendot_proto::auth::{
    AuthContext, AuthPolicy, ClientKeyExchange, DhGroup, ServerKeyExchange, Session, SessionError,
    SessionLimits, SessionTable, add_mac,
};
use tendot_proto::crypto::{AwsLcProvider, Digest, SystemRandom};
use tendot_proto::endpoint::{Endpoint, SealContext, Transport};
use tendot_proto::message::{KeyExchangeMode, SessionKeyMaterial, SessionSetup};
use tendot_proto::record::PublicKey;
use tendot_proto::{
    Envelope, EnvelopeFlags, Message, MessageParts, Now, OpFlags, Opcode, ProtocolVersion, Request,
    ResponseCode, ResponseData, ValueReference,
};
use tendot_testing::auth_context;
use tendot_testing::handle_keys::private_key;

use super::{at, delete_request, no_ids_in_use};
use crate::support::budget;

/// Session setup request and the signed response of a server, which stores the session in the table.
fn set_up_session(
    table: &mut SessionTable,
    proposal: &ClientKeyExchange,
    flags: OpFlags,
    now: Now,
) -> (Vec<u8>, Vec<u8>) {
    let identity = ValueReference::new(300, &b"0.NA/10"[..]);
    let setup = proposal.request(Some(&identity), 100);
    let mut request = Message::request(Opcode::SESSION_SETUP, Request::SessionSetup(setup), 7, now);
    request.header.flags |= flags;
    let request = request.to_bytes().unwrap();
    let endpoint = Endpoint { site_serial: 5, is_primary: true };
    let mut incoming = endpoint.decode_request(&request, Transport::Udp, now).unwrap();
    let (envelope, policy) = (incoming.parts.envelope, AuthPolicy::default());
    let exchange =
        ServerKeyExchange::new(&setup, &envelope, &mut SystemRandom, auth_context!(policy)).unwrap();
    let data = exchange.response_data().to_vec();
    let id = table.insert(exchange, now, &mut SystemRandom, no_ids_in_use);
    let data = ResponseData::SessionSetup { mode: KeyExchangeMode::DIFFIE_HELLMAN, data: &data };
    let mut response = incoming.respond(ResponseCode::SUCCESS, data);
    response.envelope.session_id = id;
    let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let mut context = SealContext {
        provider: &AwsLcProvider,
        random: &mut SystemRandom,
        policy,
        server_key: Some(&*key),
        session: None,
    };
    let response = incoming.seal(response, &mut context).unwrap();
    (request, response)
}

fn complete(proposal: ClientKeyExchange, request: &[u8], response: &[u8]) -> Result<Session, SessionError> {
    let (request, response) = (MessageParts::split(request).unwrap(), MessageParts::split(response).unwrap());
    let key = private_key("admpriv.bin").public_key().unwrap();
    proposal.complete(&request, &response, &key, auth_context!())
}

const SIGNED_WITH_DIGEST: OpFlags = OpFlags::CERTIFY.union(OpFlags::REQUEST_DIGEST);

/// Sets up a session: returns the client side; the server side is in the table.
fn session(table: &mut SessionTable, now: Now) -> Session {
    let proposal = ClientKeyExchange::new(DhGroup::Modp1024, &mut SystemRandom, auth_context!()).unwrap();
    let (request, response) = set_up_session(table, &proposal, SIGNED_WITH_DIGEST, now);
    complete(proposal, &request, &response).unwrap()
}

/// Encoded request of the session, with its MAC.
fn authenticated_request(session: &mut Session, handle: &str) -> Vec<u8> {
    let mut request = delete_request(handle, 7);
    request[4..8].copy_from_slice(&session.id().to_be_bytes());
    session.add_mac(&mut request, auth_context!()).unwrap();
    request
}

/// An on-path attacker replaces the client's key exchange by its own.
#[test]
fn session_is_bound_to_request_and_server() {
    let mut table = SessionTable::new(SessionLimits::default());
    let propose = || ClientKeyExchange::new(DhGroup::Modp1024, &mut SystemRandom, auth_context!()).unwrap();
    let error_text = |result: Result<Session, SessionError>| result.unwrap_err().to_string();
    let (client, attacker) = (propose(), propose());
    let (request, _) = set_up_session(&mut table, &client, SIGNED_WITH_DIGEST, at(0));
    let (_, response) = set_up_session(&mut table, &attacker, SIGNED_WITH_DIGEST, at(0));
    assert_eq!(error_text(complete(client, &request, &response)), "session refused: request digest mismatch");
    // No digest, no signature, tampered with.
    let check = |flags, change: fn(&mut Vec<u8>), expected: &str| {
        let client = propose();
        let mut table = SessionTable::new(SessionLimits::default());
        let (request, mut response) = set_up_session(&mut table, &client, flags, at(0));
        change(&mut response);
        assert_eq!(error_text(complete(client, &request, &response)), expected);
    };
    check(OpFlags::CERTIFY, |_| {}, "session refused: response without request digest");
    check(OpFlags::REQUEST_DIGEST, |_| {}, "missing credential");
    check(SIGNED_WITH_DIGEST, |response| response[7] ^= 1, "credential verification failed");
    check(SIGNED_WITH_DIGEST, |response| response[100] ^= 1, "credential verification failed");
}

/// A reflected message is not accepted by its sender.
#[test]
fn session_messages_have_a_direction() {
    let mut table = SessionTable::new(SessionLimits::default());
    let mut client = session(&mut table, at(0));
    let message = authenticated_request(&mut client, "10.1000/1");
    let parts = MessageParts::split(&message).unwrap();
    assert_eq!(client.verify(&parts, auth_context!()), Err(SessionError::WrongDirection));
    let mut response = message[..message.len() - 81].to_vec();
    response[27] = 1;
    let length = response.len() as u32 - 20;
    response[16..20].copy_from_slice(&length.to_be_bytes());
    let server = table.get_mut(client.id()).unwrap().session_mut();
    server.add_mac(&mut response, auth_context!()).unwrap();
    let parts = MessageParts::split(&response).unwrap();
    assert_eq!(server.verify(&parts, auth_context!()), Err(SessionError::WrongDirection));
    assert_eq!(client.verify(&parts, auth_context!()), Ok(()));
    // A session does not authenticate a message without its id.
    let mut other = delete_request("10.1000/1", 7);
    assert_eq!(client.add_mac(&mut other, auth_context!()), Err(SessionError::UnknownSession));
}

/// A challenge response needs no MAC, so tampered ciphertexts that decrypt to one could be a padding oracle. They are accepted only
/// while a challenge is pending, and each attempt uses it up.
#[test]
fn attack_a13_no_decryption_oracle() {
    let mut table = SessionTable::new(SessionLimits::default());
    let client = session(&mut table, at(0));
    let mut response = delete_request("10.1000/1", 7);
    response[4..8].copy_from_slice(&client.id().to_be_bytes());
    response[20..24].copy_from_slice(&200_u32.to_be_bytes());
    let cipher = client.key().encrypt(&response, &mut SystemRandom, auth_context!()).unwrap();
    let opened = table.open(&cipher, false, at(0), auth_context!()).map(|_| ());
    assert_eq!(opened, Err(SessionError::DecryptionFailed));
    let opened = table.open(&cipher, true, at(0), auth_context!()).map(|(plain, _)| plain);
    assert_eq!(opened, Ok(response));
    // A session ends after many such messages.
    for _ in 0..16 {
        assert!(table.open(&cipher, false, at(0), auth_context!()).is_err());
    }
    assert!(!table.contains(client.id()));
}

#[test]
fn attack_a13_session_replay() {
    let mut table = SessionTable::new(SessionLimits::default());
    let mut client = session(&mut table, at(0));
    let mut verify = |message: &[u8], now| {
        let parts = MessageParts::split(message).unwrap();
        table.verify(&parts, false, now, auth_context!()).map(|_| ())
    };
    let messages: Vec<_> = (0..300).map(|_| authenticated_request(&mut client, "10.1000/1")).collect();
    let replayed = |counter| Err(SessionError::Replayed { counter });
    assert_eq!(verify(&messages[0], at(1)), Ok(()));
    assert_eq!(verify(&messages[0], at(1)), replayed(1));
    assert_eq!(verify(&messages[299], at(1)), Ok(()));
    assert_eq!(verify(&messages[99], at(1)), replayed(100), "behind the replay window");
    assert_eq!(verify(&messages[100], at(1)), Ok(()), "late, but within the window");
    assert_eq!(verify(&messages[100], at(1)), replayed(101));
    assert_eq!(verify(&messages[100], at(1)).unwrap_err().response_code(), ResponseCode(505));

    // A forged message does not use up a counter.
    let mut forged = messages[150].clone();
    *forged.last_mut().unwrap() ^= 1;
    let error = verify(&forged, at(1)).unwrap_err();
    assert_eq!(error.response_code(), ResponseCode::INVALID_SESSION_KEY);
    assert_eq!(verify(&messages[150], at(1)), Ok(()));

    // Counter 0, a changed counter, no MAC, an unknown session.
    let counter_offset = messages[150].len() - 77 + 8;
    let mut zero = messages[151].clone();
    zero[counter_offset..counter_offset + 4].fill(0);
    assert_eq!(verify(&zero, at(1)).unwrap_err().response_code(), ResponseCode(502));
    let mut request = delete_request("10.1000/1", 7);
    request[4..8].copy_from_slice(&client.id().to_be_bytes());
    let mut counted_zero = request.clone();
    add_mac(&mut counted_zero, client.key(), 0, auth_context!()).unwrap();
    assert_eq!(verify(&counted_zero, at(1)), replayed(0));
    assert_eq!(verify(&request, at(1)).unwrap_err().response_code(), ResponseCode(404));
    request[7] ^= 1;
    assert_eq!(verify(&request, at(1)), Err(SessionError::UnknownSession));

    // Idle for longer than the requested timeout.
    assert_eq!(verify(&messages[152], at(101)), Ok(()));
    assert_eq!(verify(&messages[153], at(202)), Err(SessionError::UnknownSession));
    assert_eq!(verify(&messages[154], at(102)).unwrap_err().response_code(), ResponseCode(500));
}

#[test]
fn attack_a13_tampered_ciphertext() {
    let mut table = SessionTable::new(SessionLimits::default());
    let mut client = session(&mut table, at(0));
    let plain = authenticated_request(&mut client, "10.1000/1");
    let cipher = client.key().encrypt(&plain, &mut SystemRandom, auth_context!()).unwrap();
    assert!(Envelope::from_bytes(&cipher).unwrap().flags.contains(EnvelopeFlags::ENCRYPTED));
    // Each byte after the envelope changed, and the message cut at each offset: one error for all.
    for offset in 20..cipher.len() {
        let mut changed = cipher.clone();
        changed[offset] ^= 1;
        let mut cut = cipher[..offset].to_vec();
        cut[16..20].copy_from_slice(&(offset as u32 - 20).to_be_bytes());
        for hostile in [changed, cut] {
            // Directly on the session, since the table drops it after some failures.
            let server = table.get_mut(client.id()).unwrap().session_mut();
            let opened = server.open(&hostile, false, auth_context!()).map(|_| ());
            assert_eq!(opened, Err(SessionError::DecryptionFailed), "byte {offset}");
        }
    }
    assert_eq!(SessionError::DecryptionFailed.response_code(), ResponseCode(501));
    assert_eq!(table.open(&cipher, false, at(1), auth_context!()).unwrap().0, plain);
    assert!(matches!(
        table.open(&cipher, false, at(1), auth_context!()),
        Err(SessionError::Replayed { counter: 1 })
    ));
}

/// Steady use does not extend a session beyond its maximum age.
#[test]
fn audit_f2_maximum_age() {
    let (max_idle, max_age) = (Duration::from_secs(50), Duration::from_secs(200));
    let mut table = SessionTable::new(SessionLimits { max_idle, max_age, ..SessionLimits::default() });
    let mut client = session(&mut table, at(0));
    let mut send = |second| {
        let message = authenticated_request(&mut client, "10.1000/1");
        table.verify(&MessageParts::split(&message).unwrap(), false, at(second), auth_context!()).err()
    };
    for second in [50, 100, 150, 200] {
        assert_eq!(send(second), None);
    }
    assert_eq!(send(201), Some(SessionError::UnknownSession));
    session(&mut table, at(300));
    assert_eq!(
        table.iter(at(300)).map(|(_, session)| session.expires_at()).collect::<Vec<_>>(),
        [at(350).elapsed]
    );
    assert_eq!(table.iter(at(351)).count(), 0);
}

#[test]
fn session_table_evicts_unauthenticated_first() {
    let limits =
        SessionLimits { max_sessions: 3, max_idle: Duration::from_secs(50), ..SessionLimits::default() };
    let mut table = SessionTable::new(limits);
    let fingerprint = Digest::new(b"fingerprint");
    let mut first = session(&mut table, at(0));
    let identity = ValueReference::new(300, &b"0.na/10"[..]);
    assert!(
        !table.mark_authenticated(first.id(), &ValueReference::new(301, &b"0.NA/10"[..]), fingerprint),
        "other identity"
    );
    assert!(table.mark_authenticated(first.id(), &identity, fingerprint));
    let clients: Vec<_> = (1..6).map(|second| session(&mut table, at(second))).collect();
    assert_eq!(table.len(), 3);
    let stored: Vec<_> = clients.iter().map(|client| table.contains(client.id())).collect();
    assert_eq!(stored, [false, false, false, true, true]);
    let message = authenticated_request(&mut first, "10.1000/1");
    let parts = MessageParts::split(&message).unwrap();
    let stored = table.verify(&parts, false, at(10), auth_context!()).unwrap();
    let (identity, key) = stored.authenticated_identity().unwrap();
    assert_eq!((&*identity.to_string(), key), ("300:0.NA/10", fingerprint));
    table.purge_expired(at(56));
    assert_eq!(table.len(), 1, "all but the used one expired");
    assert!(table.remove(first.id()) && !table.remove(first.id()) && table.is_empty());

    // The client verifies a response of the server.
    let mut client = session(&mut table, at(100));
    let message = authenticated_request(&mut client, "10.1000/1");
    let server =
        table.verify(&MessageParts::split(&message).unwrap(), false, at(100), auth_context!()).unwrap();
    assert_eq!((server.identity().is_some(), server.authenticated_identity()), (true, None));
    let mut response = delete_request("10.1000/1", 7);
    response[27] = 1;
    response[4..8].copy_from_slice(&client.id().to_be_bytes());
    server.session_mut().add_mac(&mut response, auth_context!()).unwrap();
    let parts = MessageParts::split(&response).unwrap();
    assert_eq!(client.verify(&parts, auth_context!()), Ok(()));
    assert!(client.verify(&parts, auth_context!()).is_err(), "replayed response");

    // A challenge response needs no MAC; a response message with the same opcode does.
    let mut response = delete_request("10.1000/1", 7);
    response[4..8].copy_from_slice(&client.id().to_be_bytes());
    response[20..24].copy_from_slice(&200_u32.to_be_bytes());
    let parts = MessageParts::split(&response).unwrap();
    assert!(table.verify(&parts, true, at(100), auth_context!()).is_ok());
    assert!(table.verify(&parts, false, at(100), auth_context!()).is_err(), "no pending challenge");
    response[27] = 1;
    let forged = client.verify(&MessageParts::split(&response).unwrap(), auth_context!());
    assert_eq!(forged.unwrap_err().response_code(), ResponseCode::INVALID_CREDENTIAL);
}

#[test]
fn attack_a15_dh_groups_and_public_values() {
    let proposal = ClientKeyExchange::new(DhGroup::Modp2048, &mut SystemRandom, auth_context!()).unwrap();
    let setup = proposal.request(None, 60);
    let envelope = Envelope::new(ProtocolVersion::LATEST);
    let check = |y: &[u8], p: &[u8], g: &[u8]| {
        let key = PublicKey::diffie_hellman(y, p, g).to_bytes();
        let setup = SessionSetup { key: SessionKeyMaterial::PublicKey(&key), ..setup };
        let mut remaining = budget();
        let policy = AuthPolicy { allow_dh_1024: false, ..AuthPolicy::default() };
        let response = ServerKeyExchange::new(
            &setup,
            &envelope,
            &mut SystemRandom,
            &mut AuthContext::new(&AwsLcProvider, policy, &mut remaining),
        );
        let response = response.map(|_| ()).map_err(|error| error.response_code());
        assert!(response.is_ok() || remaining == budget(), "rejection costs nothing");
        response
    };
    let prime = DhGroup::Modp2048.prime();
    let minus_one = [&prime[..255], &[prime[255] - 1]].concat();
    let minus_two = [&prime[..255], &[prime[255] - 2]].concat();
    assert_eq!(check(&[4], &prime, &[2]), Ok(()));
    assert_eq!(check(&minus_two, &prime, &[2]), Ok(()));
    let rejected = Err(ResponseCode::SESSION_FAILED);
    for y in [&[0][..], &[1], &minus_one, &prime, &[0xff; 256], &[1; 300], &[]] {
        assert_eq!(check(y, &prime, &[2]), rejected, "{y:x?}");
    }
    let mut composite = prime.clone();
    composite[128] ^= 1;
    assert_eq!(check(&[4], &composite, &[2]), rejected);
    assert_eq!(check(&[4], &[0xfb], &[2]), rejected);
    assert_eq!(check(&[4], &vec![0xff; 100_000], &[2]), rejected);
    assert_eq!(check(&[4], &prime, &[5]), rejected);
    assert_eq!(check(&[4], &prime, &minus_one), rejected);
    assert_eq!(check(&[4], &DhGroup::Modp1024.prime(), &[2]), rejected, "disabled by the policy");
    let rsa = PublicKey::rsa(&[0xff; 256], &[1, 0, 1]).to_bytes();
    let setup = SessionSetup { key: SessionKeyMaterial::PublicKey(&rsa), ..setup };
    let response = ServerKeyExchange::new(&setup, &envelope, &mut SystemRandom, auth_context!());
    assert_eq!(response.unwrap_err().response_code(), ResponseCode(501));
}

#[test]
fn attack_n17_ciphertext_is_not_parsed_as_plaintext() {
    let mut plain = delete_request("10.1000/1", 7);
    plain[2] |= 0x40;
    assert!(MessageParts::split(&plain).is_err() && Message::from_bytes(&plain).is_err());
    let mut table = SessionTable::new(SessionLimits::default());
    for session_id in [0, 1, u32::MAX] {
        plain[4..8].copy_from_slice(&session_id.to_be_bytes());
        let opened = table.open(&plain, false, at(0), auth_context!()).map(|_| ());
        assert_eq!(opened, Err(SessionError::UnknownSession));
    }
    // Plaintext with the flag for encryption does not decrypt.
    let mut client = session(&mut table, at(0));
    let mut message = authenticated_request(&mut client, "10.1000/1");
    message[2] |= 0x40;
    let opened = table.open(&message, false, at(0), auth_context!()).map(|_| ());
    assert_eq!(opened, Err(SessionError::DecryptionFailed));
    message[2] = 0x82;
    assert!(MessageParts::split(&message).is_err(), "compressed");
}
