//! Attacks on authentication, by their rows in the list of attacks: what must not work does not, and costs little.

#![cfg(feature = "crypto")]

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tendot_proto::auth::{
    Answer, AuthError, Challenge, ChallengeLimits, ChallengeTable, Credentials, Group, KeyError, Pending,
    Policy, PrivateKey, PublicKeyAnswer, SecretKeyAnswer, SecretKeyMac, SessionAnswer, SessionError,
    SessionLimits, SessionProposal, SessionTable, check_key,
};
use tendot_proto::crypto::{AwsLc, Crypto, CryptoError, Hash, Random, SystemRandom};
use tendot_proto::endpoint::{Endpoint, Sealing, Transport};
use tendot_proto::message::{KeyExchangeMode, SessionKeyPart};
use tendot_proto::record::PublicKey;
use tendot_proto::{
    Body, Envelope, EnvelopeFlags, Handle, Message, Now, OpFlags, Opcode, Outcome, Parts, Reference, Request,
    ResponseCode, Value, Version, Work,
};

fn work() -> Work {
    Work::REQUEST
}

fn at(seconds: u64) -> Now {
    Now { elapsed: Duration::from_secs(seconds), unix: 1_700_000_000 + seconds }
}

fn nobody(_: u32) -> bool {
    false
}

/// Numbers that are the same each time, and quick.
struct Counted(u64);

impl Random for Counted {
    fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(mixed ^ mixed >> 31).to_be_bytes()[..chunk.len()]);
        }
    }
}

/// A request to delete a record.
fn delete(handle: &str, request_id: u32) -> Vec<u8> {
    let request = Request::Named { handle: Handle::from(handle) };
    Message::request(Opcode::DELETE_HANDLE, request, request_id, at(0)).to_bytes().unwrap()
}

fn table() -> ChallengeTable {
    ChallengeTable::new(ChallengeLimits::default(), Policy::default())
}

fn issue<'t>(table: &'t mut ChallengeTable, request: &[u8], now: Now) -> &'t Pending {
    table.issue(request, now, &AwsLc, &mut SystemRandom, &mut work(), nobody).unwrap()
}

/// A challenge as it goes out.
fn challenge_bytes(pending: &Pending) -> Vec<u8> {
    let endpoint = Endpoint { site_serial: 5, primary: true };
    let incoming = endpoint.read(pending.request(), Transport::Tcp, at(0)).unwrap();
    incoming.challenge(pending).to_bytes().unwrap()
}

/// What a client sends that knows the secret.
fn answer_by_secret(secret: &[u8], request: &[u8], challenge: &[u8]) -> Vec<u8> {
    let (parts, challenge) = (Parts::split(request).unwrap(), Message::from_bytes(challenge).unwrap());
    let policy = Policy::default();
    Credentials::SecretKey(secret)
        .answer(&parts, &challenge, &policy, &AwsLc, &mut SystemRandom, &mut work())
        .unwrap()
}

fn by_secret(answer: &[u8]) -> Answer<'_> {
    Answer { auth_type: b"HS_SECKEY", key_handle: Handle::from("0.NA/10"), key_index: 300, answer }
}

fn by_public_key(answer: &[u8]) -> Answer<'_> {
    Answer { auth_type: b"HS_PUBKEY", ..by_secret(answer) }
}

fn verify(pending: &Pending, answer: &Answer<'_>, values: &[Value<'_>]) -> Result<u32, AuthError> {
    pending.verify(answer, values, &Policy::default(), &AwsLc, &mut work())
}

fn secret_value() -> Value<'static> {
    Value::new(300, "HS_SECKEY", "secret")
}

fn private_key() -> PrivateKey {
    let file = include_bytes!("../../../conformance/vectors/handle-net/admpriv.bin");
    PrivateKey::from_file(file, None, &AwsLc, &mut work()).unwrap()
}

fn vector(name: &str) -> Vec<u8> {
    let file = include_str!("../../../conformance/vectors/signatures.txt");
    let hex = file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn attack_a1_an_answer_works_once() {
    let (mut table, request) = (table(), delete("10.1000/1", 7));
    let pending = issue(&mut table, &request, at(0));
    let (id, challenge) = (pending.id(), challenge_bytes(pending));
    let answer = answer_by_secret(b"secret", &request, &challenge);

    let pending = table.take(id, at(1)).unwrap();
    assert_eq!(verify(&pending, &by_secret(&answer), &[secret_value()]), Ok(300));
    assert_eq!(pending.request(), request, "which is carried out");
    let again = table.take(id, at(1)).unwrap_err();
    assert_eq!((again, again.response_code()), (AuthError::NoChallenge, ResponseCode(405)));

    // Nor does a wrong answer leave the challenge for a second guess.
    let id = issue(&mut table, &request, at(2)).id();
    let wrong = table.take(id, at(2)).unwrap();
    let failed = verify(&wrong, &by_secret(&answer), &[secret_value()]).unwrap_err();
    assert_eq!((failed, failed.response_code()), (AuthError::Failed, ResponseCode(403)));
    assert!(table.take(id, at(2)).is_err());

    // Nor does one that comes late.
    let id = issue(&mut table, &request, at(10)).id();
    assert!(table.take(id, at(31)).is_err());
    assert_eq!((table.len(), table.bytes()), (0, 0));
}

#[test]
fn attack_a2_an_answer_works_for_its_challenge_alone() {
    let (mut table, request) = (table(), delete("10.1000/1", 7));
    let first = issue(&mut table, &request, at(0));
    let (first_id, challenge) = (first.id(), challenge_bytes(first));
    let answer = answer_by_secret(b"secret", &request, &challenge);

    let other_id = issue(&mut table, &delete("10.1000/2", 8), at(0)).id();
    let same_id = issue(&mut table, &request, at(0)).id();
    assert_eq!(HashSet::from([first_id, other_id, same_id]).len(), 3);
    for id in [other_id, same_id] {
        let pending = table.take(id, at(0)).unwrap();
        assert_eq!(verify(&pending, &by_secret(&answer), &[secret_value()]), Err(AuthError::Failed));
    }
    let pending = table.take(first_id, at(0)).unwrap();
    assert_eq!(verify(&pending, &by_secret(&answer), &[secret_value()]), Ok(300));
}

/// A client signs nothing but its own request, and nothing that could pass for something else.
#[test]
fn attack_a2_a_server_cannot_have_other_requests_answered() {
    let (mut table, request) = (table(), delete("10.1000/1", 7));
    let wanted = delete("10.1000/OTHER", 7);
    let challenge = challenge_bytes(issue(&mut table, &wanted, at(0)));
    let mut challenge = Message::from_bytes(&challenge).unwrap();
    let answer = |request: &[u8], challenge: &Message<'_>| {
        let parts = Parts::split(request).unwrap();
        let policy = Policy::default();
        Credentials::SecretKey(b"s").answer(
            &parts,
            challenge,
            &policy,
            &AwsLc,
            &mut SystemRandom,
            &mut work(),
        )
    };
    assert_eq!(answer(&request, &challenge), Err(AuthError::OtherRequest));
    assert!(answer(&wanted, &challenge).is_ok());
    challenge.envelope.request_id = 8;
    assert_eq!(answer(&wanted, &challenge), Err(AuthError::OtherRequest));
    challenge.envelope.request_id = 7;
    let Body::Response(response) = &mut challenge.body else { unreachable!() };
    response.outcome = Outcome::Challenge { nonce: &[0; 33], old_digest: None };
    assert_eq!(answer(&wanted, &challenge), Err(AuthError::Nonce { length: 33, limit: 32 }));
}

#[test]
fn attack_a3_no_nonce_comes_twice() {
    let limits = ChallengeLimits { capacity: 100, ..ChallengeLimits::default() };
    let mut table = ChallengeTable::new(limits, Policy::default());
    let request = delete("10.1000/1", 7);
    let (mut nonces, mut ids) = (HashSet::new(), HashSet::new());
    for _ in 0..100_000 {
        let pending = issue(&mut table, &request, at(0));
        assert!(nonces.insert(pending.challenge().nonce.to_vec()));
        assert!((1..=i32::MAX as u32).contains(&pending.id()));
        ids.insert(pending.id());
    }
    assert!(ids.len() > 99_980, "no counter, and hardly a repetition among 2^31: {}", ids.len());

    // What is random is taken from the caller alone: other random numbers, other nonces.
    let nonce = |seed| {
        let mut table = ChallengeTable::new(limits, Policy::default());
        let pending = table.issue(&request, at(0), &AwsLc, &mut Counted(seed), &mut work(), nobody).unwrap();
        pending.challenge().nonce.to_vec()
    };
    assert_eq!(nonce(1), nonce(1));
    assert_ne!(nonce(1), nonce(2));
}

#[test]
fn a_number_in_use_is_not_given_again() {
    /// Three times the same number.
    struct Stubborn(u8);
    impl Random for Stubborn {
        fn fill(&mut self, out: &mut [u8]) {
            self.0 += 1;
            out.fill(self.0 / 4);
        }
    }
    let mut table = table();
    let mut random = Stubborn(3);
    let request = delete("10.1000/1", 7);
    let mut next = |taken: u32| {
        table.issue(&request, at(0), &AwsLc, &mut random, &mut work(), |id| id == taken).unwrap().id()
    };
    let (first, second) = (next(0), next(0));
    assert_ne!(first, second);
    let refused = 0x0202_0202;
    assert_ne!(next(refused), refused);
}

#[test]
fn attack_a4_a_key_is_what_it_is_stored_as() {
    let (mut table, request) = (table(), delete("10.1000/1", 7));
    let public = private_key().public_key().unwrap().to_bytes();
    let key = Value::with_data(300, "HS_PUBKEY", public.clone());

    // The public key, which everybody knows, as a secret.
    let id = issue(&mut table, &request, at(0)).id();
    let pending = table.take(id, at(0)).unwrap();
    let challenge = pending.challenge();
    let answer = SecretKeyAnswer::make(
        SecretKeyMac::HmacSha256,
        &public,
        challenge,
        &AwsLc,
        &mut SystemRandom,
        &mut work(),
    )
    .unwrap();
    assert_eq!(verify(&pending, &by_secret(&answer), std::slice::from_ref(&key)), Err(AuthError::Failed));

    // A secret as a public key.
    let secret = Value::with_data(300, "HS_SECKEY", public.clone());
    let signing_key = private_key().signing_key(&AwsLc).unwrap();
    let signed =
        PublicKeyAnswer::make(&*signing_key, challenge, Version::OURS, &Policy::default(), &mut work())
            .unwrap();
    assert_eq!(verify(&pending, &by_public_key(&signed), &[secret]), Err(AuthError::Failed));
    assert_eq!(verify(&pending, &by_public_key(&signed), std::slice::from_ref(&key)), Ok(300));

    // No algorithm, one that belongs to another kind of key, and a type that does not exist.
    let signature = PublicKeyAnswer::from_bytes(&signed).unwrap().signature;
    for (hash, expected) in [
        (&b"none"[..], AuthError::UnknownAlgorithm),
        (b"", AuthError::UnknownAlgorithm),
        (b"HMAC-SHA256", AuthError::UnknownAlgorithm),
        (b"SHA256withDSA", AuthError::UnknownAlgorithm),
    ] {
        let answer = PublicKeyAnswer { hash, signature }.to_bytes();
        assert_eq!(verify(&pending, &by_public_key(&answer), std::slice::from_ref(&key)), Err(expected));
    }
    let answer = Answer { auth_type: b"HS_PUBKEY.x", ..by_public_key(&signed) };
    let error = verify(&pending, &answer, std::slice::from_ref(&key)).unwrap_err();
    assert_eq!((error, error.response_code()), (AuthError::UnknownType, ResponseCode(404)));

    // A value of another index, and of a type below the right one.
    let elsewhere = Value { index: 301, ..key.clone() };
    assert_eq!(
        verify(&pending, &by_public_key(&signed), std::slice::from_ref(&elsewhere)),
        Err(AuthError::Failed)
    );
    let any = Answer { key_index: 0, ..by_public_key(&signed) };
    assert_eq!(verify(&pending, &any, &[elsewhere]), Ok(301), "index 0 is any");
    let below = Value::with_data(300, "HS_PUBKEY.old", public);
    assert_eq!(verify(&pending, &by_public_key(&signed), &[below]), Err(AuthError::Failed));
}

#[test]
fn attack_a5_weak_answers_are_refused_unless_allowed() {
    let challenge = Challenge { nonce: &[1; 16], digest: &[2; 32] };
    for (byte, length) in [(0x01, 16), (0x02, 20), (0x03, 32), (0x12, 20)] {
        let answer = [&[byte][..], &vec![0; length]].concat();
        let answer = SecretKeyAnswer::from_bytes(&answer, Version::OURS).unwrap();
        let error = answer
            .verify(b"secret", challenge, Policy::default().secret_keys, &AwsLc, &mut work())
            .unwrap_err();
        assert!(matches!(error, AuthError::NotAllowed { .. }), "{byte:#x}: {error}");
        assert_eq!(error.response_code(), ResponseCode::INVALID_CREDENTIAL);
    }

    // A client that states an old version gets no challenge that could be answered by an old hash.
    let mut table = table();
    for minor in 0..7 {
        let mut request = delete("10.1000/1", 7);
        request[1] = minor;
        request[3] = minor;
        let issued = table.issue(&request, at(0), &AwsLc, &mut SystemRandom, &mut work(), nobody);
        assert_eq!(issued.unwrap_err(), AuthError::TooOld, "2.{minor}");
    }
    // An old message of a client that can do better gets the better challenge.
    let mut request = delete("10.1000/1", 7);
    request[1] = 3;
    let pending = issue(&mut table, &request, at(0));
    assert_eq!(pending.challenge().digest.len(), 32);
    let challenge = challenge_bytes(pending);
    assert_eq!(Envelope::from_bytes(&challenge).unwrap().version, Version::OURS);

    // Nor does our client answer one.
    let request = delete("10.1000/1", 7);
    let challenge = challenge_bytes(issue(&mut table, &request, at(0)));
    let mut challenge = Message::from_bytes(&challenge).unwrap();
    challenge.envelope.suggestion = Version::new(2, 3);
    let parts = Parts::split(&request).unwrap();
    let policy = Policy::default();
    let answer = Credentials::SecretKey(b"s").answer(
        &parts,
        &challenge,
        &policy,
        &AwsLc,
        &mut SystemRandom,
        &mut work(),
    );
    assert_eq!(answer, Err(AuthError::NotAllowed { algorithm: "SHA-1" }));
}

#[test]
fn attack_a6_pbkdf2_cannot_be_made_expensive() {
    let challenge = Challenge { nonce: &[1; 16], digest: &[2; 32] };
    let check = |salt: &[u8], iterations, key_bits, is_refused| {
        let answer = SecretKeyAnswer::Pbkdf2 { salt, iterations, key_bits, mac: &[0; 20] };
        let bytes = answer.to_bytes();
        let (start, mut left) = (Instant::now(), work());
        let answer = SecretKeyAnswer::from_bytes(&bytes, Version::OURS).unwrap();
        let error = answer
            .verify(b"secret", challenge, Policy::default().secret_keys, &AwsLc, &mut left)
            .unwrap_err();
        if is_refused {
            assert!(matches!(error, AuthError::OutOfBounds { .. }), "{error}");
            assert_eq!((error.response_code(), left), (ResponseCode::INVALID_CREDENTIAL, work()));
            assert!(start.elapsed() < Duration::from_millis(200));
        } else {
            assert_eq!(error, AuthError::Failed);
            assert!(left.left() + iterations / 4 <= work().left(), "it was charged");
        }
    };
    check(&[0; 16], i32::MAX as u32, 160, true);
    check(&[0; 16], u32::MAX, 160, true);
    check(&[0; 16], 0, 160, true);
    check(&[0; 16], 999, 160, true);
    check(&[0; 16], 200_001, 160, true);
    check(&[0; 16], 10_000, 0, true);
    check(&[0; 16], 10_000, 159, true);
    check(&[0; 16], 10_000, 520, true);
    check(&[0; 16], 10_000, u32::MAX, true);
    check(&[0; 65], 10_000, 160, true);
    check(&vec![0; 1 << 20], 10_000, 160, true);
    check(&[0; 16], 1_000, 8, false);
    check(&[0; 64], 10_000, 512, false);
    check(&[], 200_000, 160, false);

    // What is allowed still ends where the request's budget ends.
    let answer =
        SecretKeyAnswer::Pbkdf2 { salt: &[0; 16], iterations: 200_000, key_bits: 160, mac: &[0; 20] };
    let poor = answer.verify(b"s", challenge, Policy::default().secret_keys, &AwsLc, &mut Work::new(40_000));
    assert!(matches!(poor, Err(AuthError::Exhausted(_))));
}

/// Counts what was asked of it.
#[derive(Debug, Default)]
struct Counting {
    pbkdf2: std::sync::atomic::AtomicU32,
    verifications: std::sync::atomic::AtomicU32,
}

impl Crypto for Counting {
    fn hash(&self, hash: Hash, parts: &[&[u8]]) -> Result<tendot_proto::crypto::Digest, CryptoError> {
        AwsLc.hash(hash, parts)
    }

    fn hmac(
        &self,
        hash: Hash,
        key: &[u8],
        parts: &[&[u8]],
    ) -> Result<tendot_proto::crypto::Digest, CryptoError> {
        AwsLc.hmac(hash, key, parts)
    }

    fn pbkdf2_sha1(
        &self,
        password: &[u8],
        salt: &[u8],
        iterations: std::num::NonZeroU32,
        out: &mut [u8],
    ) -> Result<(), CryptoError> {
        self.pbkdf2.fetch_add(iterations.get(), std::sync::atomic::Ordering::Relaxed);
        AwsLc.pbkdf2_sha1(password, salt, iterations, out)
    }

    fn verify(
        &self,
        key: &PublicKey<'_>,
        hash: Hash,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoError> {
        self.verifications.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        AwsLc.verify(key, hash, message, signature)
    }

    fn signing_key(&self, der: &[u8]) -> Result<Box<dyn tendot_proto::crypto::SigningKey>, CryptoError> {
        AwsLc.signing_key(der)
    }

    fn encrypt(&self, key: &[u8; 16], iv: &[u8; 16], plain: &[u8]) -> Result<Vec<u8>, CryptoError> {
        AwsLc.encrypt(key, iv, plain)
    }

    fn decrypt(&self, key: &[u8; 16], iv: &[u8; 16], cipher: &[u8]) -> Result<Vec<u8>, CryptoError> {
        AwsLc.decrypt(key, iv, cipher)
    }

    fn power(&self, base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Vec<u8>, CryptoError> {
        AwsLc.power(base, exponent, modulus)
    }
}

#[test]
fn attack_a8_no_key_and_a_wrong_key_look_the_same() {
    let (mut table, request) = (table(), delete("10.1000/1", 7));
    let pending = issue(&mut table, &request, at(0));
    let (id, challenge) = (pending.id(), challenge_bytes(pending));
    let answer = answer_by_secret(b"guess", &request, &challenge);
    let pending = table.take(id, at(0)).unwrap();
    let signing_key = private_key().signing_key(&AwsLc).unwrap();
    let signed = PublicKeyAnswer::make(
        &*signing_key,
        pending.challenge(),
        Version::OURS,
        &Policy::default(),
        &mut work(),
    )
    .unwrap();
    let other = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../conformance/vectors/handle-net/pubkey.bin"
    ));
    let other = Value::with_data(300, "HS_PUBKEY", other.unwrap());

    let try_with = |answer: &Answer<'_>, values: &[Value<'_>]| {
        let (crypto, mut left) = (Counting::default(), work());
        let error = pending.verify(answer, values, &Policy::default(), &crypto, &mut left).unwrap_err();
        let cost = (crypto.pbkdf2.into_inner(), crypto.verifications.into_inner(), left);
        (error, error.response_code(), error.to_string(), cost)
    };
    let wrong_secret = try_with(&by_secret(&answer), &[Value::new(300, "HS_SECKEY", "sixteen letters.")]);
    assert_eq!((wrong_secret.1, wrong_secret.3.0), (ResponseCode::AUTHENTICATION_FAILED, 10_000));
    assert_eq!(try_with(&by_secret(&answer), &[]), wrong_secret, "no record");
    assert_eq!(try_with(&by_secret(&answer), std::slice::from_ref(&other)), wrong_secret, "no secret there");

    let wrong_key = try_with(&by_public_key(&signed), &[other]);
    assert_eq!((wrong_key.1, wrong_key.3.1), (ResponseCode::AUTHENTICATION_FAILED, 1));
    assert_eq!(try_with(&by_public_key(&signed), &[]), wrong_key, "no record");
    let malformed = Value::with_data(300, "HS_PUBKEY", &b"\0\0\0\x03xyz"[..]);
    assert_eq!(try_with(&by_public_key(&signed), &[malformed]), wrong_key, "a key that is none");
    let short = Value::with_data(300, "HS_PUBKEY", vector("rsa_1024_key"));
    assert_eq!(try_with(&by_public_key(&signed), &[short]).1, ResponseCode::AUTHENTICATION_FAILED);
}

#[test]
fn attack_a9_forged_signatures_are_refused() {
    let message = vector("message");
    let check = |key: &str, signature: &[u8], expected| {
        let key = vector(key);
        let key = PublicKey::from_bytes(&key).unwrap();
        assert_eq!(AwsLc.verify(&key, Hash::Sha256, &message, signature), expected, "{signature:x?}");
    };
    // The cube of this one begins like the padded hash of the message, followed by rubbish.
    check("rsa_2048_key", &vector("rsa_2048_sha256"), Ok(()));
    check("rsa_2048_key", &vector("rsa_2048_forged_sha256"), Err(CryptoError::Signature));
    for signature in [vec![], vec![0; 256], vec![0xff; 256], vec![0; 257], [&[0; 255][..], &[1]].concat()] {
        check("rsa_2048_key", &signature, Err(CryptoError::Signature));
    }
    let long = [&[0][..], &vector("rsa_2048_sha256")].concat();
    check("rsa_2048_key", &long, Err(CryptoError::Signature));

    let integer = |bytes: &[u8]| [&[2, bytes.len() as u8][..], bytes].concat();
    let pair = |r: &[u8], s: &[u8]| {
        let both = [integer(r), integer(s)].concat();
        [&[0x30, both.len() as u8][..], &both].concat()
    };
    for key in ["dsa_1024_key", "dsa_2048_key"] {
        let bytes = vector(key);
        let public = PublicKey::from_bytes(&bytes).unwrap();
        let tendot_proto::record::KeyKind::Dsa { q, .. } = public.kind() else { unreachable!() };
        let q = [&[0][..], q].concat();
        let good = vector(&key.replace("key", "sha256"));
        check(key, &good, Ok(()));
        let mut above = q.clone();
        *above.last_mut().unwrap() += 1;
        for (r, s) in [
            (&[0][..], &[0][..]),
            (&[0], &[1]),
            (&[1], &[0]),
            (&q, &[1]),
            (&[1], &q),
            (&[1], &above),
            (&[1], &[1]),
            (&[0xff], &[1]),
            (&[], &[]),
        ] {
            check(key, &pair(r, s), Err(CryptoError::Signature));
        }
        check(key, &[&good[..], &[0]].concat(), Err(CryptoError::Signature));
        check(key, &[0x30; 100_000], Err(CryptoError::Signature));
    }
}

#[test]
fn attack_a10_keys_are_neither_too_small_nor_too_large() {
    let rsa = |bytes: usize| check_key(&PublicKey::rsa(&vec![0xc1; bytes], &[1, 0, 1]));
    let refused = |bits| Err(KeyError::Size { bits, least: 2048, most: 8192 });
    assert_eq!(rsa(64), refused(512));
    assert_eq!(rsa(128), refused(1024));
    assert_eq!(rsa(8192), refused(65_536));
    assert_eq!(rsa(256), Ok(()));
    assert_eq!(rsa(1024), Ok(()));

    // Nor is anything computed with them if they are in a record nevertheless.
    let message = [0; 40];
    for bytes in [0, 1, 8, 64, 1025, 8192, 131_072] {
        let key = PublicKey::rsa(&vec![0xc1; bytes], &[1, 0, 1]);
        let start = Instant::now();
        assert!(AwsLc.verify(&key, Hash::Sha256, &message, &vec![1; bytes]).is_err());
        assert!(start.elapsed() < Duration::from_millis(500), "{bytes}");
    }
    let short = vector("rsa_1024_key");
    let answer = PublicKeyAnswer { hash: b"SHA-256", signature: &vector("rsa_1024_sha256") };
    let challenge = Challenge { nonce: &vector("message"), digest: &[] };
    let key = PublicKey::from_bytes(&short).unwrap();
    let verify = |policy: &Policy| answer.verify(&key, challenge, policy, &AwsLc, &mut work());
    assert!(matches!(verify(&Policy::default()), Err(AuthError::NotAllowed { .. })));
    #[cfg(feature = "legacy")]
    assert_eq!(verify(&Policy { short_rsa_keys: true, ..Policy::default() }), Ok(()));
}

/// A request for a session and what a server with this key answers, which it has in a table then.
fn set_up(
    table: &mut SessionTable,
    proposal: &SessionProposal,
    flags: OpFlags,
    now: Now,
) -> (Vec<u8>, Vec<u8>) {
    let identity = Reference::new(300, &b"0.NA/10"[..]);
    let setup = proposal.setup(Some(&identity), 100);
    let mut request = Message::request(Opcode::SESSION_SETUP, Request::SessionSetup(setup), 7, now);
    request.header.flags = request.header.flags.with(flags);
    let request = request.to_bytes().unwrap();
    let endpoint = Endpoint { site_serial: 5, primary: true };
    let mut incoming = endpoint.read(&request, Transport::Udp, now).unwrap();
    let (envelope, policy) = (incoming.message.envelope, Policy::default());
    let answer =
        SessionAnswer::new(&setup, &envelope, &policy, &AwsLc, &mut SystemRandom, &mut work()).unwrap();
    let data = answer.data().to_vec();
    let id = table.insert(answer, now, &mut SystemRandom, nobody);
    let outcome = Outcome::Session { mode: KeyExchangeMode::DIFFIE_HELLMAN, data: &data };
    let mut response = incoming.respond(ResponseCode::SUCCESS, outcome);
    response.envelope.session_id = id;
    let key = private_key().signing_key(&AwsLc).unwrap();
    let mut sealing = Sealing {
        crypto: &AwsLc,
        random: &mut SystemRandom,
        policy: &policy,
        key: Some(&*key),
        session: None,
    };
    let response = incoming.seal(response, &mut sealing).unwrap();
    (request, response)
}

fn accept(
    proposal: SessionProposal,
    request: &[u8],
    response: &[u8],
) -> Result<tendot_proto::auth::Session, SessionError> {
    let (request, response) = (Parts::split(request).unwrap(), Parts::split(response).unwrap());
    let key = private_key().public_key().unwrap();
    proposal.accept(&request, &response, &key, &Policy::default(), &AwsLc, &mut work())
}

const BOUND: OpFlags = OpFlags::CERTIFY.with(OpFlags::REQUEST_DIGEST);

/// Both sides of a session, the server's in a table.
fn session(table: &mut SessionTable, now: Now) -> tendot_proto::auth::Session {
    let proposal = SessionProposal::new(Group::Modp1024, &AwsLc, &mut SystemRandom, &mut work()).unwrap();
    let (request, response) = set_up(table, &proposal, BOUND, now);
    accept(proposal, &request, &response).unwrap()
}

/// Somebody between the two sides has a key of theirs answered in the place of the client's.
#[test]
fn a_session_is_bound_to_the_request_and_to_the_server() {
    let mut table = SessionTable::new(SessionLimits::default());
    let propose = || SessionProposal::new(Group::Modp1024, &AwsLc, &mut SystemRandom, &mut work()).unwrap();
    let refused = |result: Result<tendot_proto::auth::Session, SessionError>| result.unwrap_err().to_string();
    let (client, stranger) = (propose(), propose());
    let (request, _) = set_up(&mut table, &client, BOUND, at(0));
    let (_, response) = set_up(&mut table, &stranger, BOUND, at(0));
    assert_eq!(refused(accept(client, &request, &response)), "no session with an answer to another request");
    // Without a digest, without a signature, changed on the way.
    let check = |flags, change: fn(&mut Vec<u8>), expected: &str| {
        let client = propose();
        let mut table = SessionTable::new(SessionLimits::default());
        let (request, mut response) = set_up(&mut table, &client, flags, at(0));
        change(&mut response);
        assert_eq!(refused(accept(client, &request, &response)), expected);
    };
    check(OpFlags::CERTIFY, |_| {}, "no session with an answer that is not bound to the request");
    check(OpFlags::REQUEST_DIGEST, |_| {}, "the message has no credential of this kind");
    check(BOUND, |response| response[7] ^= 1, "the credential does not fit the message and the key");
    check(BOUND, |response| response[100] ^= 1, "the credential does not fit the message and the key");
}

/// What one side sends does not come back to it as the other's.
#[test]
fn a_session_has_two_sides() {
    let mut table = SessionTable::new(SessionLimits::default());
    let mut client = session(&mut table, at(0));
    let message = authenticated(&mut client, "10.1000/1");
    let parts = Parts::split(&message).unwrap();
    assert_eq!(client.verify(&parts, &AwsLc, &mut work()), Err(SessionError::WrongSide));
    let mut response = message[..message.len() - 81].to_vec();
    response[27] = 1;
    let length = response.len() as u32 - 20;
    response[16..20].copy_from_slice(&length.to_be_bytes());
    let server = table.get_mut(client.id()).unwrap().session();
    server.authenticate(&mut response, &AwsLc, &mut work()).unwrap();
    let parts = Parts::split(&response).unwrap();
    assert_eq!(server.verify(&parts, &AwsLc, &mut work()), Err(SessionError::WrongSide));
    assert_eq!(client.verify(&parts, &AwsLc, &mut work()), Ok(()));
    // Nor is a message of another session authenticated by this one.
    let mut other = delete("10.1000/1", 7);
    assert_eq!(client.authenticate(&mut other, &AwsLc, &mut work()), Err(SessionError::Unknown));
}

/// Whoever can change a ciphertext could make it seem to be the answer to a challenge, which needs no MAC, and see
/// whether it decrypts. So such is taken only while there is a challenge, which each try uses up.
#[test]
fn attack_a13_answers_without_a_mac_are_no_oracle() {
    let mut table = SessionTable::new(SessionLimits::default());
    let client = session(&mut table, at(0));
    let mut answer = delete("10.1000/1", 7);
    answer[4..8].copy_from_slice(&client.id().to_be_bytes());
    answer[20..24].copy_from_slice(&200_u32.to_be_bytes());
    let cipher = client.key().encrypt(&answer, &AwsLc, &mut SystemRandom, &mut work()).unwrap();
    let opened = table.open(&cipher, false, at(0), &AwsLc, &mut work()).map(|_| ());
    assert_eq!(opened, Err(SessionError::Undecipherable));
    let opened = table.open(&cipher, true, at(0), &AwsLc, &mut work()).map(|(plain, _)| plain);
    assert_eq!(opened, Ok(answer));
    // A session that gets many messages of this kind is over.
    for _ in 0..16 {
        assert!(table.open(&cipher, false, at(0), &AwsLc, &mut work()).is_err());
    }
    assert!(!table.contains(client.id()));
}

/// A request of a session, with its MAC.
fn authenticated(session: &mut tendot_proto::auth::Session, handle: &str) -> Vec<u8> {
    let mut request = delete(handle, 7);
    request[4..8].copy_from_slice(&session.id().to_be_bytes());
    session.authenticate(&mut request, &AwsLc, &mut work()).unwrap();
    request
}

#[test]
fn attack_a13_a_message_of_a_session_works_once() {
    let mut table = SessionTable::new(SessionLimits::default());
    let mut client = session(&mut table, at(0));
    let mut take = |message: &[u8], now| {
        let parts = Parts::split(message).unwrap();
        table.verify(&parts, false, now, &AwsLc, &mut work()).map(|_| ())
    };
    let messages: Vec<_> = (0..300).map(|_| authenticated(&mut client, "10.1000/1")).collect();
    let replayed = |counter| Err(SessionError::Replayed { counter });
    assert_eq!(take(&messages[0], at(1)), Ok(()));
    assert_eq!(take(&messages[0], at(1)), replayed(1));
    assert_eq!(take(&messages[299], at(1)), Ok(()));
    assert_eq!(take(&messages[99], at(1)), replayed(100), "200 and more behind");
    assert_eq!(take(&messages[100], at(1)), Ok(()), "overtaken");
    assert_eq!(take(&messages[100], at(1)), replayed(101));
    assert_eq!(take(&messages[100], at(1)).unwrap_err().response_code(), ResponseCode(505));

    // A forged message does not use up a counter.
    let mut forged = messages[150].clone();
    *forged.last_mut().unwrap() ^= 1;
    let error = take(&forged, at(1)).unwrap_err();
    assert_eq!(error.response_code(), ResponseCode::INVALID_SESSION_KEY);
    assert_eq!(take(&messages[150], at(1)), Ok(()));

    // Counter 0, a changed counter, no MAC, another session.
    let counter_at = messages[150].len() - 77 + 8;
    let mut zero = messages[151].clone();
    zero[counter_at..counter_at + 4].fill(0);
    assert_eq!(take(&zero, at(1)).unwrap_err().response_code(), ResponseCode(502));
    let mut request = delete("10.1000/1", 7);
    request[4..8].copy_from_slice(&client.id().to_be_bytes());
    let mut counted_zero = request.clone();
    tendot_proto::auth::mac_message(&mut counted_zero, client.key(), 0, &AwsLc, &mut work()).unwrap();
    assert_eq!(take(&counted_zero, at(1)), replayed(0));
    assert_eq!(take(&request, at(1)).unwrap_err().response_code(), ResponseCode(404));
    request[7] ^= 1;
    assert_eq!(take(&request, at(1)), Err(SessionError::Unknown));

    // Idle for longer than was asked for.
    assert_eq!(take(&messages[152], at(101)), Ok(()));
    assert_eq!(take(&messages[153], at(202)), Err(SessionError::Unknown));
    assert_eq!(take(&messages[154], at(102)).unwrap_err().response_code(), ResponseCode(500));
}

#[test]
fn attack_a13_a_changed_ciphertext_tells_nothing() {
    let mut table = SessionTable::new(SessionLimits::default());
    let mut client = session(&mut table, at(0));
    let plain = authenticated(&mut client, "10.1000/1");
    let cipher = client.key().encrypt(&plain, &AwsLc, &mut SystemRandom, &mut work()).unwrap();
    assert!(Envelope::from_bytes(&cipher).unwrap().flags.has(EnvelopeFlags::ENCRYPTED));
    // Each byte after the envelope changed, and cut off at each place: one error for all.
    for at_byte in 20..cipher.len() {
        let mut changed = cipher.clone();
        changed[at_byte] ^= 1;
        let mut cut = cipher[..at_byte].to_vec();
        cut[16..20].copy_from_slice(&(at_byte as u32 - 20).to_be_bytes());
        for hostile in [changed, cut] {
            // The session itself: the table gives up sooner.
            let server = table.get_mut(client.id()).unwrap().session();
            let opened = server.open(&hostile, false, &AwsLc, &mut work()).map(|_| ());
            assert_eq!(opened, Err(SessionError::Undecipherable), "byte {at_byte}");
        }
    }
    assert_eq!(SessionError::Undecipherable.response_code(), ResponseCode(501));
    assert_eq!(table.open(&cipher, false, at(1), &AwsLc, &mut work()).unwrap().0, plain);
    assert!(matches!(
        table.open(&cipher, false, at(1), &AwsLc, &mut work()),
        Err(SessionError::Replayed { counter: 1 })
    ));
}

#[test]
fn sessions_are_bounded_and_the_authenticated_stay_longest() {
    let mut table = SessionTable::new(SessionLimits { capacity: 3, timeout: Duration::from_secs(50) });
    let mut first = session(&mut table, at(0));
    let identity = Reference::new(300, &b"0.na/10"[..]);
    assert!(!table.authenticate(first.id(), &Reference::new(301, &b"0.NA/10"[..])), "somebody else");
    assert!(table.authenticate(first.id(), &identity));
    let clients: Vec<_> = (1..6).map(|second| session(&mut table, at(second))).collect();
    assert_eq!(table.len(), 3);
    let kept: Vec<_> = clients.iter().map(|client| table.contains(client.id())).collect();
    assert_eq!(kept, [false, false, false, true, true]);
    let message = authenticated(&mut first, "10.1000/1");
    let parts = Parts::split(&message).unwrap();
    let kept = table.verify(&parts, false, at(10), &AwsLc, &mut work()).unwrap();
    assert_eq!(kept.authenticated().unwrap().to_string(), "300:0.NA/10");
    table.expire(at(56));
    assert_eq!(table.len(), 1, "all but the one that was used");
    assert!(table.remove(first.id()) && !table.remove(first.id()) && table.is_empty());

    // A response of the server, which the client verifies.
    let mut client = session(&mut table, at(100));
    let message = authenticated(&mut client, "10.1000/1");
    let server = table.verify(&Parts::split(&message).unwrap(), false, at(100), &AwsLc, &mut work()).unwrap();
    assert_eq!((server.identity().is_some(), server.authenticated()), (true, None));
    let mut response = delete("10.1000/1", 7);
    response[27] = 1;
    response[4..8].copy_from_slice(&client.id().to_be_bytes());
    server.session().authenticate(&mut response, &AwsLc, &mut work()).unwrap();
    let parts = Parts::split(&response).unwrap();
    assert_eq!(client.verify(&parts, &AwsLc, &mut work()), Ok(()));
    assert!(client.verify(&parts, &AwsLc, &mut work()).is_err(), "nor does a response work twice");

    // The answer to a challenge may come without a MAC; a response that says to be one may not.
    let mut answer = delete("10.1000/1", 7);
    answer[4..8].copy_from_slice(&client.id().to_be_bytes());
    answer[20..24].copy_from_slice(&200_u32.to_be_bytes());
    let parts = Parts::split(&answer).unwrap();
    assert!(table.verify(&parts, true, at(100), &AwsLc, &mut work()).is_ok());
    assert!(table.verify(&parts, false, at(100), &AwsLc, &mut work()).is_err(), "to which challenge?");
    answer[27] = 1;
    let forged = client.verify(&Parts::split(&answer).unwrap(), &AwsLc, &mut work());
    assert_eq!(forged.unwrap_err().response_code(), ResponseCode::INVALID_CREDENTIAL);
}

#[test]
fn attack_a15_only_known_groups_and_values_within() {
    let proposal = SessionProposal::new(Group::Modp2048, &AwsLc, &mut SystemRandom, &mut work()).unwrap();
    let setup = proposal.setup(None, 60);
    let envelope = Envelope::new(Version::OURS);
    let check = |y: &[u8], p: &[u8], g: &[u8]| {
        let key = PublicKey::diffie_hellman(y, p, g).to_bytes();
        let setup = tendot_proto::message::SessionSetup { key: SessionKeyPart::PublicKey(&key), ..setup };
        let mut left = work();
        let policy = Policy { group_1024: false, ..Policy::default() };
        let answer = SessionAnswer::new(&setup, &envelope, &policy, &AwsLc, &mut SystemRandom, &mut left);
        let answer = answer.map(|_| ()).map_err(|error| error.response_code());
        assert!(answer.is_ok() || left == work(), "what is refused costs nothing");
        answer
    };
    let prime = Group::Modp2048.prime();
    let minus_one = [&prime[..255], &[prime[255] - 1]].concat();
    let minus_two = [&prime[..255], &[prime[255] - 2]].concat();
    assert_eq!(check(&[4], &prime, &[2]), Ok(()));
    assert_eq!(check(&minus_two, &prime, &[2]), Ok(()));
    let refused = Err(ResponseCode::SESSION_FAILED);
    for y in [&[0][..], &[1], &minus_one, &prime, &[0xff; 256], &[1; 300], &[]] {
        assert_eq!(check(y, &prime, &[2]), refused, "{y:x?}");
    }
    let mut composite = prime.clone();
    composite[128] ^= 1;
    assert_eq!(check(&[4], &composite, &[2]), refused);
    assert_eq!(check(&[4], &[0xfb], &[2]), refused);
    assert_eq!(check(&[4], &vec![0xff; 100_000], &[2]), refused);
    assert_eq!(check(&[4], &prime, &[5]), refused);
    assert_eq!(check(&[4], &prime, &minus_one), refused);
    assert_eq!(check(&[4], &Group::Modp1024.prime(), &[2]), refused, "switched off");
    let rsa = PublicKey::rsa(&[0xff; 256], &[1, 0, 1]).to_bytes();
    let setup = tendot_proto::message::SessionSetup { key: SessionKeyPart::PublicKey(&rsa), ..setup };
    let answer =
        SessionAnswer::new(&setup, &envelope, &Policy::default(), &AwsLc, &mut SystemRandom, &mut work());
    assert_eq!(answer.unwrap_err().response_code(), ResponseCode(501));
}

#[test]
fn attack_n17_ciphertext_is_never_read_as_plain_text() {
    let mut plain = delete("10.1000/1", 7);
    plain[2] |= 0x40;
    assert!(Parts::split(&plain).is_err() && Message::from_bytes(&plain).is_err());
    let mut table = SessionTable::new(SessionLimits::default());
    for session_id in [0, 1, u32::MAX] {
        plain[4..8].copy_from_slice(&session_id.to_be_bytes());
        let opened = table.open(&plain, false, at(0), &AwsLc, &mut work()).map(|_| ());
        assert_eq!(opened, Err(SessionError::Unknown));
    }
    // Within a session, what was never encrypted does not decrypt.
    let mut client = session(&mut table, at(0));
    let mut message = authenticated(&mut client, "10.1000/1");
    message[2] |= 0x40;
    let opened = table.open(&message, false, at(0), &AwsLc, &mut work()).map(|_| ());
    assert_eq!(opened, Err(SessionError::Undecipherable));
    message[2] = 0x82;
    assert!(Parts::split(&message).is_err(), "compressed");
}

#[test]
fn attack_u7_a_challenge_is_no_amplifier() {
    let mut table = table();
    let request = delete("10.1000/1", 7);
    let bytes = challenge_bytes(issue(&mut table, &request, at(0)));
    let challenge = Message::from_bytes(&bytes).unwrap();
    assert_eq!(challenge.header.response_code, ResponseCode::AUTHENTICATION_NEEDED);
    assert!(challenge.header.flags.has(OpFlags::REQUEST_DIGEST));
    assert!(bytes.len() <= 3 * request.len());
}

#[test]
fn attack_u8_unanswered_challenges_take_no_more_memory() {
    let limits = ChallengeLimits { capacity: 1_000, bytes: 100_000, life: Duration::from_secs(20) };
    let mut table = ChallengeTable::new(limits, Policy::default());
    let (mut random, small, large) = (Counted(7), delete("10.1000/1", 7), delete(&"x".repeat(40_000), 8));
    let mut last = 0;
    for n in 0..200_000 {
        let request = if n % 1_000 == 999 { &large } else { &small };
        last = table.issue(request, at(0), &AwsLc, &mut random, &mut work(), nobody).unwrap().id();
        assert!(table.len() <= 1_000 && table.bytes() <= 100_000);
    }
    assert!(table.take(last, at(1)).is_ok(), "the newest is there");
    let huge = delete(&"x".repeat(100_000), 9);
    let refused = table.issue(&huge, at(0), &AwsLc, &mut random, &mut work(), nobody).unwrap_err();
    assert_eq!(refused.response_code(), ResponseCode::SERVER_TOO_BUSY);
}

#[test]
fn a_request_repeated_in_a_session_gets_the_same_challenge() {
    let mut table = table();
    let in_session = |handle, request_id| {
        let mut request = delete(handle, request_id);
        request[4..8].copy_from_slice(&77_u32.to_be_bytes());
        request
    };
    let mut nonce = |request: &[u8]| {
        let pending = issue(&mut table, request, at(0));
        assert_eq!(pending.id(), 77, "that of the session");
        pending.challenge().nonce.to_vec()
    };
    let first = nonce(&in_session("10.1000/1", 7));
    assert_eq!(nonce(&in_session("10.1000/1", 7)), first);
    let other = nonce(&in_session("10.1000/2", 7));
    assert_ne!(other, first, "the same number, but another request");
    assert_ne!(nonce(&in_session("10.1000/2", 8)), other);
    assert_eq!(table.len(), 1);
}
