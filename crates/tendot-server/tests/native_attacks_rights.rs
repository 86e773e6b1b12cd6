//! Rows A and P of the list of attacks: who somebody is, and what they may do, over real sockets.

mod native;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use native::*;
use tendot_proto::auth::{Credentials, Group, Policy, Session, SessionProposal};
use tendot_proto::crypto::{AwsLc, SigningKey, SystemRandom};
use tendot_proto::endpoint::Transport;
use tendot_proto::message::{KeyExchangeMode, SessionKeyPart, SessionSetup};
use tendot_proto::record::{PublicKey, ValueList};
use tendot_proto::wire::{List, Writer};
use tendot_proto::{
    Body, Handle, Message, OpFlags, Opcode, Outcome, Parts, Permissions, Reference, Request, Response, Value,
    Work,
};
use tendot_server::native::OwnSite;

const TCP: Transport = Transport::Tcp;
const ADMIN: &str = "300:0.NA/10.5555";

fn key() -> Box<dyn SigningKey> {
    private_key("admpriv.bin").signing_key(&AwsLc).unwrap()
}

fn secret(index: u32, text: &'static str) -> Value<'static> {
    Value { permissions: Permissions(0x0c), ..Value::new(index, "HS_SECKEY", text) }
}

fn delete(handle: &str) -> Message<'_> {
    Message::request(Opcode::DELETE_HANDLE, Request::Named { handle: Handle::from(handle) }, 7, now())
}

fn with_values<'a>(opcode: Opcode, handle: &'a str, values: &'a [Value<'a>]) -> Message<'a> {
    let request = Request::Values { handle: Handle::from(handle), values: List::from(values) };
    Message::request(opcode, request, 7, now())
}

fn create<'a>(handle: &'a str, values: &'a [Value<'a>]) -> Message<'a> {
    with_values(Opcode::CREATE_HANDLE, handle, values)
}

fn modify<'a>(handle: &'a str, values: &'a [Value<'a>]) -> Message<'a> {
    with_values(Opcode::MODIFY_VALUE, handle, values)
}

/// The answer to a challenge, with any proof.
fn answer(challenge: &[u8], kind: &[u8], who: &str, proof: &[u8]) -> Vec<u8> {
    let who = Reference::parse(who);
    let request = Request::ChallengeAnswer {
        auth_type: kind,
        key_handle: who.handle(),
        key_index: who.index,
        answer: proof,
    };
    let mut message = Message::request(Opcode::CHALLENGE_RESPONSE, request, 8, now());
    message.envelope.session_id = Message::from_bytes(challenge).unwrap().envelope.session_id;
    message.to_bytes().unwrap()
}

#[test]
fn attack_a1_a2_one_answer_for_one_challenge() {
    let service = start(Setting::default());
    let key = key();
    let credentials = Credentials::PrivateKey(&*key);
    let request = delete("10.5555/ONE").to_bytes().unwrap();
    let challenge = service.ask(TCP, &request).remove(0);
    let proof = answer_to(&request, &challenge, ADMIN, credentials, 8);
    let before = service.changes();
    assert_eq!(service.code_of(TCP, &proof), 1);
    assert_eq!(service.changes(), before + 1);
    service.put("10.5555/ONE", vec![url(1, "https://example.org/"), admin(100, 0x0fff, ADMIN)]);
    let before = service.changes();
    for transport in [TCP, Transport::Udp, Transport::Http] {
        assert_eq!(service.code_of(transport, &proof), 405);
    }
    // The answer to another challenge, under the number of this one.
    let one = service.ask(TCP, &request).remove(0);
    let two = service.ask(TCP, &request).remove(0);
    let mut wrong = answer_to(&request, &one, ADMIN, credentials, 8);
    wrong[4..8].copy_from_slice(&two[4..8]);
    assert_eq!(service.code_of(TCP, &wrong), 403);
    // Which has been used up by that.
    let late = answer_to(&request, &two, ADMIN, credentials, 8);
    assert_eq!(service.code_of(TCP, &late), 405);
    // An answer that came over TCP does not make what it is about come over UDP.
    let proof = answer_to(&request, &one, ADMIN, credentials, 8);
    assert_eq!(service.code_of(Transport::Udp, &proof), 4);
    assert_eq!(service.changes(), before);
}

#[test]
fn attack_a3_nonces() {
    let service = start(Setting::default());
    let (mut nonces, mut numbers) = (HashSet::new(), HashSet::new());
    let request = delete("10.5555/ONE").to_bytes().unwrap();
    for _ in 0..2_000 {
        let challenge = service.ask(TCP, &request).remove(0);
        let message = Message::from_bytes(&challenge).unwrap();
        let Body::Response(Response { outcome: Outcome::Challenge { nonce, .. }, .. }) = message.body else {
            panic!()
        };
        assert!(nonces.insert(nonce.to_vec()) && numbers.insert(message.envelope.session_id));
        assert!((1..=i32::MAX as u32).contains(&message.envelope.session_id));
    }
}

/// A record with keys of all kinds whose owners may delete it, and how a proof by them ends.
#[test]
fn attack_a4_a5_a6_a9_a10_proofs() {
    let service = start(Setting::default());
    let public = private_key("admpriv.bin").public_key().unwrap().to_bytes();
    let short = PublicKey::rsa(&[0xc1; 64], &[1, 0, 1]).to_bytes();
    let dsa = PublicKey::dsa(&[0xc1; 20], &[0xc1; 128], &[2], &[0xc1; 128]).to_bytes();
    service.put(
        "10.5555/KEYS",
        vec![
            admin(100, 0x0fff, "0:10.5555/KEYS"),
            Value::with_data(300, "HS_PUBKEY", public.clone()),
            secret(301, "secret"),
            Value::with_data(302, "HS_PUBKEY", short),
            Value::with_data(303, "HS_PUBKEY", dsa),
            Value::new(304, "HS_PUBKEY", "no key"),
            Value::new(305, "NOTE", "secret"),
        ],
    );
    let request = delete("10.5555/KEYS").to_bytes().unwrap();
    let check = |kind: &str, index: u32, proof: &[u8], expected: u32| {
        let challenge = service.ask(TCP, &request).remove(0);
        let begun = Instant::now();
        let code = service
            .code_of(TCP, &answer(&challenge, kind.as_bytes(), &format!("{index}:10.5555/KEYS"), proof));
        assert_eq!(code, expected, "{kind} {index} {:x?}", &proof[..proof.len().min(40)]);
        assert!(begun.elapsed() < Duration::from_secs(1), "{kind} {index} took {:?}", begun.elapsed());
    };
    let pbkdf2 = |salt: usize, rounds: u32, bits: u32| {
        let mut proof = vec![0x22];
        let mut inner = Vec::new();
        let mut writer = Writer::new(&mut inner);
        writer.bytes(&vec![7; salt]);
        writer.u32(rounds);
        writer.u32(bits);
        writer.bytes(&[0; 20]);
        Writer::new(&mut proof).raw(&inner);
        proof
    };
    let signature = |algorithm: &str, bytes: &[u8]| {
        let mut proof = Vec::new();
        let mut writer = Writer::new(&mut proof);
        writer.bytes(algorithm.as_bytes());
        writer.bytes(bytes);
        proof
    };
    // A4: a public key is nobody's secret, a note no key, and kinds of proof are those that are known.
    let challenge = service.ask(TCP, &request).remove(0);
    let forged = answer_to(&request, &challenge, "300:10.5555/KEYS", Credentials::SecretKey(&public), 8);
    assert_eq!(service.code_of(TCP, &forged), 403);
    let challenge = service.ask(TCP, &request).remove(0);
    let forged = answer_to(&request, &challenge, "305:10.5555/KEYS", Credentials::SecretKey(b"secret"), 8);
    assert_eq!(service.code_of(TCP, &forged), 403);
    check("none", 300, b"", 404);
    check("HS_PUBKEY", 301, &signature("SHA-256", &[0; 256]), 403);
    // A5: MD5, SHA-1 and their like.
    for algorithm in [0x01, 0x02, 0x03, 0x11, 0x12] {
        check("HS_SECKEY", 301, &[&[algorithm][..], &[0; 32]].concat(), 404);
    }
    check("HS_PUBKEY", 300, &signature("MD5", &[0; 256]), 404);
    check("HS_PUBKEY", 300, &signature("SHA1", &[0; 256]), 404);
    check("HS_SECKEY", 301, &[&[0x13][..], &[0; 32]].concat(), 403);
    // A6: what PBKDF2 may cost.
    check("HS_SECKEY", 301, &pbkdf2(16, 0x7fff_ffff, 160), 404);
    check("HS_SECKEY", 301, &pbkdf2(16, u32::MAX, 160), 404);
    check("HS_SECKEY", 301, &pbkdf2(16, 0, 160), 404);
    check("HS_SECKEY", 301, &pbkdf2(200_000, 10_000, 160), 404);
    check("HS_SECKEY", 301, &pbkdf2(16, 10_000, u32::MAX), 404);
    check("HS_SECKEY", 301, &pbkdf2(16, 10_000, 160), 403);
    check("HS_SECKEY", 301, &pbkdf2(16, 200_000, 160), 403);
    // A9, A10: forged signatures, and keys that are none.
    for bytes in [&[][..], &[0; 1], &[0; 256], &[0xff; 256], &[1; 10_000]] {
        for index in [0, 300, 302, 303, 304, 999] {
            check("HS_PUBKEY", index, &signature("SHA-256", bytes), 403);
        }
    }
    // The right proof is good.
    assert_eq!(
        service.prove(&delete("10.5555/KEYS"), "301:10.5555/KEYS", Credentials::SecretKey(b"secret")),
        1
    );
}

#[test]
fn attack_a8_no_key_and_a_wrong_key() {
    let service = start(Setting::default());
    service.put(
        "10.5555/A8",
        vec![admin(100, 0x0fff, "0:10.5555/NOBODY"), admin(101, 0x0fff, "301:10.5555/ADMIN")],
    );
    let request = delete("10.5555/A8").to_bytes().unwrap();
    let ask = |who: &str| {
        let challenge = service.ask(TCP, &request).remove(0);
        let proof = answer_to(&request, &challenge, who, Credentials::SecretKey(b"wrong"), 8);
        let answer = service.ask(TCP, &proof).remove(0);
        (code(&answer), words(&answer))
    };
    assert_eq!(ask("301:10.5555/NOBODY"), ask("301:10.5555/ADMIN"));
    assert_eq!(ask("301:10.5555/NOBODY").0, 403);
    // Secrets of those who have no right can't be tried out.
    service.put("10.5555/OTHER", vec![secret(301, "wrong")]);
    assert_eq!(ask("301:10.5555/OTHER").0, 400);
    service.put("10.5555/OTHER", vec![secret(301, "right")]);
    assert_eq!(ask("301:10.5555/OTHER").0, 400);
}

/// A session that was set up over this.
fn session(service: &Service, who: Option<&str>) -> Session {
    let work = &mut { Work::REQUEST };
    let proposal = SessionProposal::new(Group::Modp2048, &AwsLc, &mut SystemRandom, work).unwrap();
    let who = who.map(Reference::parse);
    let mut request = Message::request(
        Opcode::SESSION_SETUP,
        Request::SessionSetup(proposal.setup(who.as_ref(), 60)),
        7,
        now(),
    );
    request.header.flags = request.header.flags.with(OpFlags::CERTIFY.with(OpFlags::REQUEST_DIGEST));
    let sent = request.to_bytes().unwrap();
    let answer = service.ask(Transport::Udp, &sent).remove(0);
    let key = private_key("privkey.bin").public_key().unwrap();
    let (sent, came) = (Parts::split(&sent).unwrap(), Parts::split(&answer).unwrap());
    proposal.accept(&sent, &came, &key, &Policy::default(), &AwsLc, work).unwrap()
}

fn in_session(session: &mut Session, mut message: Message<'_>) -> Vec<u8> {
    message.envelope.session_id = session.id();
    let mut bytes = message.to_bytes().unwrap();
    session.authenticate(&mut bytes, &AwsLc, &mut { Work::REQUEST }).unwrap();
    bytes
}

#[test]
fn attack_a13_messages_of_a_session() {
    let service = start(Setting::default());
    let key = key();
    let mut own = session(&service, Some(ADMIN));
    let values = [url(1, "https://example.org/"), admin(100, 0x0fff, ADMIN)];
    let first = in_session(&mut own, create("10.5555/A13", &values));
    let challenge = service.ask(TCP, &first).remove(0);
    assert_eq!(code(&challenge), 402);
    assert_eq!(
        service.code_of(TCP, &answer_to(&first, &challenge, ADMIN, Credentials::PrivateKey(&*key), 8)),
        1
    );
    // From now on, no proof is asked for.
    let mut more = Vec::new();
    for index in 2..6 {
        let value = [url(index, "https://example.org/")];
        more.push(in_session(&mut own, with_values(Opcode::ADD_VALUE, "10.5555/A13", &value)));
        assert_eq!(service.code_of(TCP, more.last().unwrap()), 1, "{index}");
    }
    let before = service.changes();
    for message in &more {
        assert_eq!(service.code_of(TCP, message), 505);
    }
    // Forged: another byte, no MAC, and somebody else's session.
    let mut good = in_session(&mut own, delete("10.5555/A13"));
    let at = good.len() - 1;
    good[at] ^= 1;
    assert_eq!(service.code_of(TCP, &good), 502);
    let mut bare = delete("10.5555/A13");
    bare.envelope.session_id = own.id();
    assert_eq!(service.code(TCP, &bare), 404);
    let mut stranger = session(&service, None);
    let mut message = delete("10.5555/A13");
    message.envelope.session_id = stranger.id();
    let mut bytes = message.to_bytes().unwrap();
    stranger.authenticate(&mut bytes, &AwsLc, &mut { Work::REQUEST }).unwrap();
    bytes[4..8].copy_from_slice(&own.id().to_be_bytes());
    assert_eq!(service.code_of(TCP, &bytes), 502);
    // Their own session is nobody's.
    assert_eq!(service.code_of(TCP, &in_session(&mut stranger, delete("10.5555/A13"))), 402);
    assert_eq!(service.changes(), before);
    good[at] ^= 1;
    assert_eq!(service.code_of(TCP, &good), 1, "what was forged used up nothing");
    let end = Message::request(Opcode::SESSION_TERMINATE, Request::Plain { handle: None }, 7, now());
    assert_eq!(service.code_of(TCP, &in_session(&mut own, end)), 1);
    assert_eq!(service.code_of(TCP, &in_session(&mut own, end)), 500);
    assert_eq!(service.code(TCP, &end), 500, "without a session");
}

/// Who asked for a MAC believes nothing else, a refusal neither; and nobody else gets one.
#[test]
fn refusals_in_a_session_are_authenticated() {
    let service = start(Setting::default());
    let mut own = session(&service, None);
    let work = &mut { Work::REQUEST };
    let certified = |mut message: Message<'static>| {
        message.header.flags = message.header.flags.with(OpFlags::CERTIFY);
        message
    };
    for (transport, message, expected) in
        [(Transport::Udp, delete("10.5555/ONE"), 4), (TCP, create("no-slash", &[]), 102)]
    {
        let mut asked = in_session(&mut own, certified(message));
        let answer = service.ask(transport, &asked).remove(0);
        assert_eq!(code(&answer), expected, "{}", words(&answer));
        own.verify(&Parts::split(&answer).unwrap(), &AwsLc, work).unwrap();
        let end = asked.len() - 1;
        asked[end] ^= 1;
        let answer = service.ask(transport, &asked).remove(0);
        assert!(own.verify(&Parts::split(&answer).unwrap(), &AwsLc, work).is_err());
    }
}

/// Who names no index is, in a session, the key by which they have proved who they are, and no other.
#[test]
fn attack_p3_index_0_in_a_session() {
    let service = with_rights();
    service.put("10.5555/P3", vec![url(1, "https://example.org/"), admin(100, 0x0fff, TWO)]);
    let mut own = session(&service, Some("0:10.5555/WHO"));
    let other = [url(1, "https://example.org/2")];
    let request = in_session(&mut own, modify("10.5555/P3", &other));
    let challenge = service.ask(TCP, &request).remove(0);
    let proof = answer_to(&request, &challenge, "0:10.5555/WHO", Credentials::SecretKey(b"one"), 8);
    assert_eq!(service.code_of(TCP, &proof), 400, "the first key has no right");
    let request = in_session(&mut own, delete("10.5555/P3"));
    assert_eq!(service.code_of(TCP, &request), 400, "and no further proof is asked for");
    let mut own = session(&service, Some("0:10.5555/WHO"));
    let request = in_session(&mut own, modify("10.5555/P3", &other));
    let challenge = service.ask(TCP, &request).remove(0);
    let proof = answer_to(&request, &challenge, "0:10.5555/WHO", Credentials::SecretKey(b"two"), 8);
    assert_eq!(service.code_of(TCP, &proof), 1);
    let request = in_session(&mut own, delete("10.5555/P3"));
    assert_eq!(service.code_of(TCP, &request), 1, "no further proof is asked for");
}

#[test]
fn attack_a15_keys_of_sessions() {
    let service = start(Setting::default());
    let work = &mut { Work::REQUEST };
    let good = SessionProposal::new(Group::Modp2048, &AwsLc, &mut SystemRandom, work).unwrap();
    let SessionKeyPart::PublicKey(bytes) = good.setup(None, 60).key else { panic!() };
    let half = PublicKey::from_bytes(bytes).unwrap();
    let tendot_proto::record::KeyKind::DiffieHellman { p, g, y } = half.kind() else { panic!() };
    let mut below = p.to_vec();
    *below.last_mut().unwrap() -= 1;
    let composite = [&p[..p.len() - 1], &[p[p.len() - 1] - 2]].concat();
    let check = |key: PublicKey<'_>, mode: u16, expected: u32| {
        let bytes = key.to_bytes();
        let setup = SessionSetup {
            mode: KeyExchangeMode(mode),
            timeout: 60,
            identity_handle: Handle::new(&[]),
            identity_index: SessionSetup::ANONYMOUS,
            key: SessionKeyPart::PublicKey(&bytes),
        };
        let request = Message::request(Opcode::SESSION_SETUP, Request::SessionSetup(setup), 7, now());
        assert_eq!(service.code(TCP, &request), expected, "{mode}");
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

/// Records that are administered by their own secret keys, and what these may do.
fn with_rights() -> Service {
    let service = start(Setting { full_access: false, ..Setting::default() });
    let keys = vec![admin(100, 0x0fff, ADMIN), secret(301, "one"), secret(302, "two")];
    service.put("10.5555/WHO", keys);
    service
}

const ONE: &str = "301:10.5555/WHO";
const TWO: &str = "302:10.5555/WHO";

#[track_caller]
fn check(service: &Service, who: &str, request: &Message<'_>, expected: u32) {
    let secret = if who == ONE { "one" } else { "two" };
    let before = service.changes();
    let code = service.prove(request, who, Credentials::SecretKey(secret.as_bytes()));
    assert_eq!(code, expected, "{who} {request:?}");
    assert_eq!(service.changes() - before, usize::from(expected == 1));
}

#[test]
fn attack_p1_p2_kinds_of_rights() {
    let service = with_rights();
    let read_only = Value { permissions: Permissions(0x0a), ..url(3, "https://example.org/3") };
    service.put(
        "10.5555/P1",
        vec![url(1, "https://example.org/"), read_only, admin(100, 0x0010, ONE), admin(101, 0x0fff, TWO)],
    );
    let other = [url(1, "https://example.org/2")];
    check(&service, ONE, &modify("10.5555/P1", &other), 1);
    check(&service, ONE, &modify("10.5555/P1", &[admin(100, 0x0fff, ONE)]), 400);
    check(&service, ONE, &modify("10.5555/P1", &[admin(1, 0x0fff, ONE)]), 400);
    check(&service, ONE, &delete("10.5555/P1"), 400);
    check(&service, TWO, &modify("10.5555/P1", &[url(3, "https://example.org/4")]), 401);
    let mut overwrite = with_values(Opcode::ADD_VALUE, "10.5555/P1", &other);
    check(&service, TWO, &overwrite, 201);
    let three = [url(3, "https://example.org/4")];
    overwrite = with_values(Opcode::ADD_VALUE, "10.5555/P1", &three);
    overwrite.header.flags = overwrite.header.flags.with(OpFlags::OVERWRITE);
    check(&service, TWO, &overwrite, 401);
    let four = [url(4, "https://example.org/4")];
    check(&service, ONE, &with_values(Opcode::ADD_VALUE, "10.5555/P1", &four), 400);
}

#[test]
fn attack_p3_index_0() {
    let service = with_rights();
    for (written, claimed, expected) in [
        ("301:10.5555/WHO", ONE, 1),
        ("301:10.5555/WHO", TWO, 400),
        ("0:10.5555/WHO", TWO, 1),
        ("301:10.5555/WHO", "0:10.5555/WHO", 400),
        ("302:10.5555/WHO", "0:10.5555/WHO", 1),
    ] {
        service.put("10.5555/P3", vec![url(1, "https://example.org/"), admin(100, 0x0fff, written)]);
        // Who names no index has the rights of the key that proves it, which is the second.
        check(&service, claimed, &delete("10.5555/P3"), expected);
    }
}

#[test]
fn attack_p4_p5_groups() {
    let service = with_rights();
    let group = |members: &[String]| {
        let members = members.iter().map(|member| Reference::parse(member).into_owned()).collect();
        Value::with_data(200, "HS_VLIST", ValueList { members }.to_bytes())
    };
    let level = |number: u32| format!("10.5555/G{number}");
    for number in 0..12 {
        let next = if number == 11 { ONE.to_owned() } else { format!("200:{}", level(number + 1)) };
        service.put(&level(number), vec![group(&[next])]);
    }
    let record = |group: &str| {
        service.put("10.5555/P4", vec![url(1, "https://example.org/"), admin(100, 0x0fff, group)]);
    };
    record("200:10.5555/G4");
    check(&service, ONE, &delete("10.5555/P4"), 1);
    record("200:10.5555/G0");
    check(&service, ONE, &delete("10.5555/P4"), 400);
    // Around in a circle, and without end.
    service.put("10.5555/A", vec![group(&["200:10.5555/B".into()])]);
    service.put("10.5555/B", vec![group(&["200:10.5555/A".into(), "200:99.9/FOREIGN".into()])]);
    record("200:10.5555/A");
    let begun = Instant::now();
    check(&service, ONE, &delete("10.5555/P4"), 400);
    let many: Vec<String> = (0..5_000).map(|number| format!("200:10.5555/M{number}")).collect();
    service.put("10.5555/MANY", vec![group(&many)]);
    record("200:10.5555/MANY");
    let code = service.prove(&delete("10.5555/P4"), ONE, Credentials::SecretKey(b"one"));
    assert!(matches!(code, 400 | 3), "{code}");
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn attack_p6_p7_prefixes_and_the_last_administrator() {
    let service = with_rights();
    service.put("10.5555/P6", vec![url(1, "https://example.org/"), admin(100, 0x0fff, ONE)]);
    let indexes =
        Request::RemoveValues { handle: Handle::from("10.5555/P6"), indexes: List::from(&[100][..]) };
    check(&service, ONE, &Message::request(Opcode::REMOVE_VALUE, indexes, 7, now()), 401);
    check(&service, ONE, &modify("10.5555/P6", &[admin(100, 0, ONE)]), 401);
    // Somebody who administers 10.5556 alone.
    service.put("0.NA/10.5556", vec![admin(100, 0x0fff, ONE)]);
    let values = [url(1, "https://example.org/"), admin(100, 0x0fff, ONE)];
    check(&service, ONE, &create("10.5556/OWN", &values), 1);
    check(&service, ONE, &create("10.5555/OTHERS", &values), 400);
    check(&service, ONE, &create("0.NA/10.1234", &values), 400);
    check(&service, ONE, &create("0.NA/10.5555.5", &values), 400);
    check(&service, ONE, &create("0.NA/10.5556.5", &values), 1);
    for opcode in [Opcode::HOME_PREFIX, Opcode::UNHOME_PREFIX] {
        let request = Request::Named { handle: Handle::from("0.NA/10.5556") };
        check(&service, ONE, &Message::request(opcode, request, 7, now()), 400);
    }
    let all = Message::request(Opcode::LIST_HOMED_PREFIXES, Request::Plain { handle: None }, 7, now());
    check(&service, ONE, &all, 400);
    let mut status = resolution("0.site/STATUS");
    status.header.flags = status.header.flags.without(OpFlags::PUBLIC_ONLY);
    check(&service, ONE, &status, 400);
}

/// A hidden value is in no answer to somebody who may not see it.
#[test]
fn attack_p10_hidden_values() {
    let service = with_rights();
    let request = |indexes: &'static [u32], types: &'static [&'static [u8]], flags: u32| {
        let (indexes, types) = (List::from(indexes), List::from(types));
        let handle = Handle::from("10.5555/MULTI");
        let request = Request::Resolve { handle, indexes, types };
        let mut message = Message::request(Opcode::RESOLUTION, request, 7, now());
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
                let answers = service.ask(transport, &request(indexes, types, flags)).concat();
                assert!(!answers.windows(10).any(|bytes| bytes == b"not public"), "{indexes:?} {flags:x}");
            }
        }
    }
    assert!(!service.get("/api/handles/10.5555/MULTI").contains("not public"));
    // Somebody who is known, but may not read it.
    let mut question = resolution("10.5555/MULTI");
    question.header.flags = question.header.flags.without(OpFlags::PUBLIC_ONLY);
    check(&service, ONE, &question, 400);
    let key = key();
    assert_eq!(service.prove(&question, ADMIN, Credentials::PrivateKey(&*key)), 1);
    // Secret keys are not given to who guesses them by asking.
    let stranger = OwnSite::make_key().unwrap().signing_key(&AwsLc).unwrap();
    assert_eq!(service.prove(&question, ADMIN, Credentials::PrivateKey(&*stranger)), 403);
}
