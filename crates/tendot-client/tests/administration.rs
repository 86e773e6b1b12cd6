//! Records changed in the native protocol, over real sockets: by secret and by private key, in a session and without.

mod peer;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use peer::service::Service;
use peer::{ALL, Peer, Step, public_key, rogue_stream, site, site_value};
use tendot_client::Found;
use tendot_client::native::{
    AdministrationError, Administrator, Identity, Native, Peer as Keeper, Query, Root,
};
use tendot_proto::record::Transport;
use tendot_proto::{Envelope, Opcode, Permissions, ResponseCode, Value, limits};

const PREFIX: &str = "0.NA/10.1000";
const SECRET: &[u8] = b"not to be told";

fn service() -> Service {
    let hidden = |value| Value { permissions: Permissions(0x0c), ..value };
    let secret = hidden(Value::with_data(301, "HS_SECKEY", SECRET));
    let key = Value::with_data(300, "HS_PUBKEY", public_key("admpub.bin").to_bytes());
    Service::new().with(PREFIX, vec![key, secret])
}

fn by_secret() -> Identity {
    Identity::with_secret_key(301, PREFIX, SECRET)
}

fn by_key() -> Identity {
    Identity::with_private_key(300, PREFIX, &peer::private_key("admpriv.bin")).unwrap()
}

fn at(peer: &Peer, transports: &[Transport]) -> Keeper {
    let record = serde_json::json!({"handle": "0.NA/0.NA", "values": [
        serde_json::to_value(site_value(1, &site(vec![peer.server(transports)]))).unwrap()]});
    Keeper::of(&Root::from_bytes(record.to_string().as_bytes()).unwrap(), "10.1000/1").unwrap()
}

fn admin(peer: &Peer, identity: Identity) -> Administrator {
    Administrator::new(at(peer, ALL), identity)
}

fn link(text: &'static str) -> [Value<'static>; 1] {
    [Value::new(1, "URL", text)]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Plain,
    Certified,
    Session,
    Encrypted,
}

#[tokio::test]
async fn all_that_can_be_done() {
    for (identity, way) in [
        (by_secret(), Way::Plain),
        (by_key(), Way::Plain),
        (by_key(), Way::Certified),
        (by_secret(), Way::Session),
        (by_key(), Way::Session),
        (by_secret(), Way::Encrypted),
        (by_key(), Way::Encrypted),
    ] {
        check_all(identity, way).await;
    }
}

async fn check_all(identity: Identity, way: Way) {
    let peer = Peer::start(service()).await;
    let mut admin = admin(&peer, identity);
    match way {
        Way::Plain => {}
        Way::Certified => admin = admin.certified(),
        Way::Session => admin.open_session(false).await.unwrap(),
        Way::Encrypted => admin.open_session(true).await.unwrap(),
    }
    let name = "10.1000/182";
    admin.home("10.1000").await.unwrap();
    assert!(peer.service().homed.contains(PREFIX.as_bytes()));
    assert_eq!(homed(&mut admin).await, [PREFIX]);

    admin.create(name, &link("https://example.org/1")).await.unwrap();
    let again = admin.create(name, &link("https://example.org/1")).await;
    assert_eq!(code(again), ResponseCode::HANDLE_ALREADY_EXISTS);
    admin.replace(name, &link("https://example.org/2")).await.unwrap();
    let email = Value { permissions: Permissions(0x0c), ..Value::new(2, "EMAIL", "x@example.org") };
    admin.add(name, &[email]).await.unwrap();
    admin.modify(name, &link("https://example.org/3")).await.unwrap();
    let values = admin.resolve(name, &Query::default()).await.unwrap();
    let texts: Vec<_> = values.iter().map(|value| String::from_utf8_lossy(&value.data)).collect();
    assert_eq!(texts, ["x@example.org", "https://example.org/3"], "also what not everybody may read");
    admin.remove(name, &[2]).await.unwrap();
    assert_eq!(peer.service().records[&b"10.1000/182"[..]].len(), 1);

    let minted = admin.mint("10.1000/", &link("https://example.org/")).await.unwrap();
    assert_eq!(minted.as_deref(), Some("10.1000/minted"));
    assert_eq!(names(&mut admin).await, ["10.1000/182", "10.1000/MINTED"]);
    admin.delete(name).await.unwrap();
    assert_eq!(code(admin.delete(name).await), ResponseCode::HANDLE_NOT_FOUND);
    admin.unhome("0.NA/10.1000").await.unwrap();
    assert!(homed(&mut admin).await.is_empty());

    let done = std::mem::take(&mut peer.service().done);
    let proofs = done.iter().filter(|(opcode, _)| *opcode == Opcode::CHALLENGE_RESPONSE).count();
    let is_session = matches!(way, Way::Session | Way::Encrypted);
    assert_eq!(proofs, if is_session { 1 } else { 15 }, "{way:?}");
    let is_encrypted = |(opcode, encrypted): &(Opcode, bool)| {
        let has_secret = *opcode == Opcode::ADD_VALUE && is_session;
        *encrypted == (way == Way::Encrypted && *opcode != Opcode::SESSION_SETUP || has_secret)
    };
    assert!(done.iter().all(is_encrypted), "{way:?}: {done:?}");
    assert_eq!(peer.service().sessions(), usize::from(is_session));
    admin.close_session().await.unwrap();
    assert_eq!(peer.service().sessions(), 0);
}

async fn homed(admin: &mut Administrator) -> Vec<String> {
    let mut all = Vec::new();
    let each = |name: tendot_proto::Handle<'_>| {
        all.push(name.to_string());
        ControlFlow::Continue(())
    };
    admin.list_homed(each).await.unwrap();
    all
}

async fn names(admin: &mut Administrator) -> Vec<String> {
    let mut all = Vec::new();
    let each = |name: tendot_proto::Handle<'_>| {
        all.push(name.to_string());
        ControlFlow::Continue(())
    };
    admin.list_handles("10.1000", each).await.unwrap();
    all
}

fn code<T: std::fmt::Debug>(result: Result<T, AdministrationError>) -> ResponseCode {
    match result {
        Err(AdministrationError::Refused { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn long_lists() {
    let mut service = service();
    for number in 0..1_234 {
        service = service.with_link(&format!("10.1000/{number:04}"), "https://example.org/");
    }
    let peer = Peer::start(service).await;
    for is_session in [false, true] {
        let mut admin = admin(&peer, by_secret());
        if is_session {
            admin.open_session(true).await.unwrap();
        }
        let all = names(&mut admin).await;
        assert_eq!((all.len(), &*all[1_233]), (1_234, "10.1000/1233"));
        let mut few = 0;
        let each = |_: tendot_proto::Handle<'_>| {
            few += 1;
            if few == 60 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        admin.list_handles("10.1000", each).await.unwrap();
        assert_eq!(few, 60);
    }
}

#[tokio::test]
async fn who_may_not() {
    let peer = Peer::start(service()).await;
    for identity in [
        Identity::with_secret_key(301, PREFIX, b"something else"),
        Identity::with_secret_key(300, PREFIX, SECRET),
        Identity::with_secret_key(301, "0.NA/10.2000", SECRET),
        Identity::with_private_key(300, PREFIX, &peer::private_key("privkey.bin")).unwrap(),
        Identity::with_private_key(301, PREFIX, &peer::private_key("admpriv.bin")).unwrap(),
    ] {
        for session in [None, Some(false), Some(true)] {
            let mut admin = admin(&peer, identity.clone());
            if let Some(is_encrypted) = session {
                admin.open_session(is_encrypted).await.unwrap();
            }
            let created = admin.create("10.1000/182", &link("https://example.org/")).await;
            assert_eq!(code(created), ResponseCode::AUTHENTICATION_FAILED, "{identity:?}");
        }
    }
    assert_eq!(peer.service().records.len(), 1);
}

#[tokio::test]
async fn over_http_where_there_is_nothing_else() {
    let peer = Peer::start(service()).await;
    let mut admin = Administrator::new(at(&peer, &[Transport::UDP, Transport::HTTP]), by_key());
    admin.open_session(true).await.unwrap();
    admin.create("10.1000/182", &link("https://example.org/")).await.unwrap();
    assert!(peer.service().transports().iter().all(|transport| *transport == Transport::HTTP));
    let listed = admin.list_handles("10.1000", |_| ControlFlow::Continue(())).await.unwrap_err();
    assert!(matches!(listed, AdministrationError::NoInterface), "lists come over TCP only: {listed}");
    let mut admin = Administrator::new(at(&peer, &[Transport::UDP]), by_key());
    let error = admin.delete("10.1000/182").await.unwrap_err();
    assert!(matches!(error, AdministrationError::NoInterface), "never by datagrams: {error}");
}

#[tokio::test]
async fn a_session_that_is_over() {
    let peer = Peer::start(service()).await;
    let mut admin = admin(&peer, by_secret());
    for is_encrypted in [false, true] {
        admin.open_session(is_encrypted).await.unwrap();
        admin.create("10.1000/182", &link("https://example.org/")).await.unwrap();
        peer.service().forget_sessions();
        assert_eq!(code(admin.delete("10.1000/182").await), ResponseCode::SESSION_TIMEOUT);
        // From now on without, until it is opened anew.
        admin.delete("10.1000/182").await.unwrap();
    }
}

#[tokio::test]
async fn attack_somebody_else_at_the_other_end() {
    let peer = Peer::start(service()).await;
    let mut server = peer.server(ALL);
    server.public_key = public_key("admpub.bin").to_bytes().into();
    let record = serde_json::json!({"handle": "0.NA/0.NA", "values": [
        serde_json::to_value(site_value(1, &site(vec![server]))).unwrap()]});
    let keeper = Keeper::of(&Root::from_bytes(record.to_string().as_bytes()).unwrap(), "10.1000/1").unwrap();
    let mut admin = Administrator::new(keeper.clone(), by_key());
    let error = admin.open_session(true).await.unwrap_err().to_string();
    assert_eq!(error, "the session: the credential does not fit the message and the key");
    let mut admin = Administrator::new(keeper, by_key()).certified();
    let error = admin.home("10.1000").await.unwrap_err().to_string();
    assert!(error.contains("nothing proves that the answer is the server's"), "{error}");
    let root = Root::at(&[peer.address], None);
    let mut admin = Administrator::new(Keeper::of(&root, "10.1000/1").unwrap(), by_key());
    assert!(matches!(admin.open_session(true).await, Err(AdministrationError::NoKey)));
    admin.home("10.1000").await.unwrap();
}

/// What a server without any rules answers to a deletion.
async fn delete(steps: impl FnMut(&[u8]) -> Vec<Step> + Send + 'static) -> AdministrationError {
    let root = Root::at(&[rogue_stream(steps, false).await], None);
    let mut admin = Administrator::new(Keeper::of(&root, "10.1000/1").unwrap(), by_secret());
    admin.delete("10.1000/1").await.unwrap_err()
}

#[tokio::test]
async fn attack_answers_that_are_none() {
    let check = |error: AdministrationError, expected: &str| {
        assert!(matches!(error, AdministrationError::Uncertain { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let started = Instant::now();
    let answer = |request: &[u8]| service().answer(request, tendot_proto::endpoint::Transport::Tcp).remove(0);
    check(delete(|_| Vec::new()).await, "the connection was closed");
    check(delete(move |request| vec![Step::Send(answer(request)[..70].to_vec())]).await, "closed");
    check(delete(|request| vec![Step::Send(request.to_vec())]).await, "the answer is a request");
    let other = move |request: &[u8]| {
        let mut answer = answer(request);
        answer[8] ^= 1;
        vec![Step::Send(answer)]
    };
    check(delete(other).await, "the answer is to request");
    let opcode = move |request: &[u8]| {
        let mut answer = answer(request);
        answer[limits::ENVELOPE + 3] = 102;
        vec![Step::Send(answer)]
    };
    check(delete(opcode).await, "the answer is to operation 102");
    let huge = |request: &[u8]| {
        let envelope = Envelope { length: u32::MAX, ..peer::envelope(request) };
        vec![Step::Send(envelope.to_bytes().to_vec()), Step::Flood(vec![0; 1 << 16])]
    };
    check(delete(huge).await, "4294967295 bytes announced");
    let encrypted = |request: &[u8]| {
        let mut request = request.to_vec();
        request[2] |= 0x40;
        vec![Step::Send(request)]
    };
    check(delete(encrypted).await, "no such session");
    // A challenge about something else is not answered.
    let challenge = move |request: &[u8]| {
        let mut request = request.to_vec();
        *request.last_mut().unwrap() = 0;
        let end = request.len() - 5;
        request[end] ^= 1;
        vec![Step::Send(answer(&request))]
    };
    let error = delete(challenge).await;
    assert_eq!(error.to_string(), "no proof is given: the challenge is not about the request that was sent");
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// An administrator with somebody on the way, who does this to every answer once told to.
async fn with_somebody_between(
    peer: &Peer,
    mut change: impl FnMut(Vec<u8>) -> Vec<u8> + Send + 'static,
) -> (Administrator, Arc<AtomicBool>) {
    let is_active = Arc::new(AtomicBool::new(false));
    let active = Arc::clone(&is_active);
    let address =
        peer::between(
            peer.address,
            move |response| {
                if active.load(Ordering::Relaxed) { change(response) } else { response }
            },
        )
        .await;
    let key = peer.service().public_key();
    let keeper = Keeper::of(&Root::at(&[address], Some(&key)), "10.1000/1").unwrap();
    (Administrator::new(keeper, by_secret()), is_active)
}

#[tokio::test]
async fn attack_answers_changed_on_the_way() {
    let check = async |change: fn(Vec<u8>) -> Vec<u8>, is_encrypted: bool, expected: &str| {
        let peer = Peer::start(service()).await;
        let (mut admin, is_active) = with_somebody_between(&peer, change).await;
        admin.open_session(is_encrypted).await.unwrap();
        admin.home("10.1000").await.unwrap();
        is_active.store(true, Ordering::Relaxed);
        let error = admin.create("10.1000/1", &link("https://example.org/")).await.unwrap_err();
        assert!(matches!(error, AdministrationError::Uncertain { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let flipped = |mut response: Vec<u8>| {
        response[limits::ENVELOPE + limits::HEADER + 5] ^= 1;
        response
    };
    check(flipped, false, "does not fit the message and the key").await;
    check(flipped, true, "cannot be decrypted").await;
    // Without the proof, and with lengths that say so.
    let bare = |response: Vec<u8>| {
        let mut message = tendot_proto::Message::from_bytes(&response).unwrap();
        message.tail = tendot_proto::Tail::Empty;
        message.to_bytes().unwrap()
    };
    check(bare, false, "nothing proves that the answer is the server's").await;
    // An answer in the clear where it should be encrypted, made up by somebody who has seen none.
    let made_up = |response: Vec<u8>| {
        let request = peer::envelope(&response);
        let mut service = Service::new();
        let mut message =
            tendot_proto::Message::resolution("0.NA/10".into(), request.request_id, peer::now());
        message.header.opcode = Opcode::GET_SITE_INFO;
        message.body = tendot_proto::Body::Request(tendot_proto::Request::Plain { handle: None });
        let mut answer =
            service.answer(&message.to_bytes().unwrap(), tendot_proto::endpoint::Transport::Tcp).remove(0);
        answer[limits::ENVELOPE + 3] = 100;
        answer
    };
    check(made_up, true, "nothing proves that the answer is the server's").await;
}

/// A challenge is answered only in the session that the request was in.
#[tokio::test]
async fn attack_a_challenge_of_another_session() {
    let peer = Peer::start(service()).await;
    let other = |mut response: Vec<u8>| {
        response[4] ^= 1;
        response
    };
    let (mut admin, is_active) = with_somebody_between(&peer, other).await;
    admin.open_session(false).await.unwrap();
    is_active.store(true, Ordering::Relaxed);
    let error = admin.home("10.1000").await.unwrap_err();
    assert!(error.to_string().contains("the challenge is not of the session"), "{error}");
    let proofs = |peer: &Peer| {
        peer.service().done.iter().filter(|(opcode, _)| *opcode == Opcode::CHALLENGE_RESPONSE).count()
    };
    assert_eq!(proofs(&peer), 0);
}

#[tokio::test]
async fn attack_old_answers() {
    let peer = Peer::start(service()).await;
    peer.service().behind = 50_000;
    let error = admin(&peer, by_secret()).home("10.1000").await.unwrap_err();
    assert!(error.to_string().contains("the answer ended at"), "{error}");
}

#[tokio::test]
async fn nobody_is_there() {
    let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut admin =
        Administrator::new(Keeper::of(&Root::at(&[dead], None), "10.1000/1").unwrap(), by_secret());
    let error = admin.delete("10.1000/1").await.unwrap_err();
    assert!(matches!(error, AdministrationError::Unreachable { .. }), "{error}");
}

/// From a root to the server of a name, and there a new record.
#[tokio::test]
async fn where_a_name_is_kept() {
    let keeper = Peer::start(service()).await;
    let root = Peer::start(Service::new().with(PREFIX, vec![site_value(1, &keeper.site())])).await;
    let native = Native::new(root.config());
    let located = native.locate("10.1000/new").await.unwrap();
    let mut admin = Administrator::new(located, by_key());
    admin.open_session(true).await.unwrap();
    admin.create("10.1000/new", &link("https://example.org/")).await.unwrap();
    let found = native.resolve("10.1000/NEW", &Query::default()).await.unwrap().found;
    assert!(matches!(found, Found::Values(_)));
}
