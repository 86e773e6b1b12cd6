//! Attacks on challenges and keys: replay, confusion, weak or expensive algorithms, forged signatures, exhaustion.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tendot_proto::auth::{
    AuthContext, AuthError, AuthPolicy, Challenge, ChallengeLimits, ChallengeResponse, ChallengeTable,
    ClientKey, PendingChallenge, PublicKeyError, PublicKeyResponse, SecretKeyMac, SecretKeyResponse,
    validate_public_key,
};
use tendot_proto::crypto::{
    AwsLcProvider, CryptoError, CryptoProvider, Digest, HashAlgorithm, SecureRandom, SystemRandom,
};
use tendot_proto::endpoint::{Endpoint, Transport};
use tendot_proto::record::{KeyComponents, PublicKey};
use tendot_proto::{
    Budget, Envelope, Handle, HandleValue, Message, MessageBody, MessageParts, Now, OpFlags, ProtocolVersion,
    ResponseCode, ResponseData,
};
use tendot_testing::handle_keys::{handle_net_file, private_key};
use tendot_testing::{SeededRng, auth_context, conformance, hex, repetitions};

use super::{at, delete_request, no_ids_in_use};
use crate::support::budget;

fn table() -> ChallengeTable {
    ChallengeTable::new(ChallengeLimits::default())
}

fn issue<'t>(table: &'t mut ChallengeTable, request: &[u8], now: Now) -> &'t PendingChallenge {
    table.issue(request, now, &mut SystemRandom, auth_context!(), no_ids_in_use).unwrap()
}

/// Encoded challenge.
fn challenge_bytes(pending: &PendingChallenge) -> Vec<u8> {
    let endpoint = Endpoint { site_serial: 5, is_primary: true };
    let incoming = endpoint.decode_request(pending.request(), Transport::Tcp, at(0)).unwrap();
    incoming.challenge(pending).to_bytes().unwrap()
}

/// Proof of a client that knows the secret.
fn respond_with_secret(secret: &[u8], request: &[u8], challenge: &[u8]) -> Vec<u8> {
    let (parts, challenge) = (MessageParts::split(request).unwrap(), Message::from_bytes(challenge).unwrap());
    let policy = AuthPolicy::default();
    ClientKey::SecretKey(secret)
        .respond(&parts, &challenge, &mut SystemRandom, auth_context!(policy))
        .unwrap()
}

fn secret_key_response(proof: &[u8]) -> ChallengeResponse<'_> {
    ChallengeResponse { auth_type: b"HS_SECKEY", key_handle: Handle::from("0.NA/10"), key_index: 300, proof }
}

fn public_key_response(proof: &[u8]) -> ChallengeResponse<'_> {
    ChallengeResponse { auth_type: b"HS_PUBKEY", ..secret_key_response(proof) }
}

fn verify(
    pending: &PendingChallenge,
    response: &ChallengeResponse<'_>,
    values: &[HandleValue<'_>],
) -> Result<u32, AuthError> {
    pending.verify(response, values, auth_context!())
}

fn secret_value() -> HandleValue<'static> {
    HandleValue::new(300, "HS_SECKEY", "secret")
}

/// Bytes with this name in `conformance/vectors/signatures.txt`.
fn signature_vector(name: &str) -> Vec<u8> {
    let file = std::fs::read_to_string(conformance("vectors/signatures.txt")).unwrap();
    let digits = file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    hex::decode(digits)
}

#[test]
fn attack_a1_response_is_accepted_once() {
    let (mut table, request) = (table(), delete_request("10.1000/1", 7));
    let pending = issue(&mut table, &request, at(0));
    let (id, challenge) = (pending.id(), challenge_bytes(pending));
    let response = respond_with_secret(b"secret", &request, &challenge);

    let pending = table.consume(id, at(1)).unwrap();
    assert_eq!(verify(&pending, &secret_key_response(&response), &[secret_value()]), Ok(300));
    assert_eq!(pending.request(), request, "the request that is executed");
    let repeated = table.consume(id, at(1)).unwrap_err();
    assert_eq!((repeated, repeated.response_code()), (AuthError::UnknownChallenge, ResponseCode(405)));

    // A wrong response uses up the challenge, too.
    let id = issue(&mut table, &request, at(2)).id();
    let wrong = table.consume(id, at(2)).unwrap();
    let failed = verify(&wrong, &secret_key_response(&response), &[secret_value()]).unwrap_err();
    assert_eq!((failed, failed.response_code()), (AuthError::Failed, ResponseCode(403)));
    assert!(table.consume(id, at(2)).is_err());

    // A challenge expires.
    let id = issue(&mut table, &request, at(10)).id();
    assert!(table.consume(id, at(31)).is_err());
    assert_eq!((table.len(), table.request_bytes()), (0, 0));
}

#[test]
fn attack_a2_response_is_valid_for_one_challenge() {
    let (mut table, request) = (table(), delete_request("10.1000/1", 7));
    let first = issue(&mut table, &request, at(0));
    let (first_id, challenge) = (first.id(), challenge_bytes(first));
    let response = respond_with_secret(b"secret", &request, &challenge);

    let other_id = issue(&mut table, &delete_request("10.1000/2", 8), at(0)).id();
    let same_id = issue(&mut table, &request, at(0)).id();
    assert_eq!(HashSet::from([first_id, other_id, same_id]).len(), 3);
    for id in [other_id, same_id] {
        let pending = table.consume(id, at(0)).unwrap();
        assert_eq!(
            verify(&pending, &secret_key_response(&response), &[secret_value()]),
            Err(AuthError::Failed)
        );
    }
    let pending = table.consume(first_id, at(0)).unwrap();
    assert_eq!(verify(&pending, &secret_key_response(&response), &[secret_value()]), Ok(300));
}

/// A client responds only to challenges of its own request, with nonces of a limited length.
#[test]
fn attack_a2_client_responds_to_own_request_only() {
    let (mut table, request) = (table(), delete_request("10.1000/1", 7));
    let other_request = delete_request("10.1000/OTHER", 7);
    let challenge = challenge_bytes(issue(&mut table, &other_request, at(0)));
    let mut challenge = Message::from_bytes(&challenge).unwrap();
    let response = |request: &[u8], challenge: &Message<'_>| {
        let parts = MessageParts::split(request).unwrap();
        let policy = AuthPolicy::default();
        ClientKey::SecretKey(b"s").respond(&parts, challenge, &mut SystemRandom, auth_context!(policy))
    };
    assert_eq!(response(&request, &challenge), Err(AuthError::DigestMismatch));
    assert!(response(&other_request, &challenge).is_ok());
    challenge.envelope.request_id = 8;
    assert_eq!(response(&other_request, &challenge), Err(AuthError::DigestMismatch));
    challenge.envelope.request_id = 7;
    let MessageBody::Response(body) = &mut challenge.body else { unreachable!() };
    body.data = ResponseData::Challenge { nonce: &[0; 33], legacy_digest: None };
    assert_eq!(response(&other_request, &challenge), Err(AuthError::NonceTooLong { len: 33, max: 32 }));
}

#[test]
fn attack_a3_nonces_are_unique() {
    let limits = ChallengeLimits { max_challenges: 100, ..ChallengeLimits::default() };
    let mut table = ChallengeTable::new(limits);
    let request = delete_request("10.1000/1", 7);
    let (mut nonces, mut ids) = (HashSet::new(), HashSet::new());
    let challenges = repetitions("TENDOT_TEST_CHALLENGES", 10_000, 100_000) as usize;
    for _ in 0..challenges {
        let pending = issue(&mut table, &request, at(0));
        assert!(nonces.insert(pending.challenge().nonce.to_vec()));
        assert!((1..=i32::MAX as u32).contains(&pending.id()));
        ids.insert(pending.id());
    }
    assert!(
        ids.len() > challenges - 20,
        "random ids of 31 bits: {} of {challenges} are different",
        ids.len()
    );

    // Nonces depend on the random source of the caller alone.
    let nonce = |seed| {
        let mut table = ChallengeTable::new(limits);
        let pending =
            table.issue(&request, at(0), &mut SeededRng::new(seed), auth_context!(), no_ids_in_use).unwrap();
        pending.challenge().nonce.to_vec()
    };
    assert_eq!(nonce(1), nonce(1));
    assert_ne!(nonce(1), nonce(2));
}

#[test]
fn ids_in_use_are_skipped() {
    /// Random source that repeats each value.
    struct RepeatingRandom(u8);
    impl SecureRandom for RepeatingRandom {
        fn fill(&mut self, out: &mut [u8]) {
            self.0 += 1;
            out.fill(self.0 / 4);
        }
    }
    let mut table = table();
    let mut random = RepeatingRandom(3);
    let request = delete_request("10.1000/1", 7);
    let mut next = |used_id: u32| {
        table.issue(&request, at(0), &mut random, auth_context!(), |id| id == used_id).unwrap().id()
    };
    let (first, second) = (next(0), next(0));
    assert_ne!(first, second);
    let used_id = 0x0202_0202;
    assert_ne!(next(used_id), used_id);
}

#[test]
fn attack_a4_key_type_confusion() {
    let (mut table, request) = (table(), delete_request("10.1000/1", 7));
    let public = private_key("admpriv.bin").public_key().unwrap().to_bytes();
    let key = HandleValue::with_data(300, "HS_PUBKEY", public.clone());

    // The public key as a secret key.
    let id = issue(&mut table, &request, at(0)).id();
    let pending = table.consume(id, at(0)).unwrap();
    let challenge = pending.challenge();
    let response = SecretKeyResponse::create(
        SecretKeyMac::HmacSha256,
        &public,
        challenge,
        &mut SystemRandom,
        auth_context!(),
    )
    .unwrap();
    assert_eq!(
        verify(&pending, &secret_key_response(&response), std::slice::from_ref(&key)),
        Err(AuthError::Failed)
    );

    // A secret key as a public key.
    let secret = HandleValue::with_data(300, "HS_SECKEY", public.clone());
    let signing_key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let signed =
        PublicKeyResponse::create(&*signing_key, challenge, ProtocolVersion::LATEST, auth_context!())
            .unwrap();
    assert_eq!(verify(&pending, &public_key_response(&signed), &[secret]), Err(AuthError::Failed));
    assert_eq!(verify(&pending, &public_key_response(&signed), std::slice::from_ref(&key)), Ok(300));

    // No algorithm, algorithms of other kinds of keys, an unknown authentication type.
    let signature = PublicKeyResponse::from_bytes(&signed).unwrap().signature;
    for (hash, expected) in [
        (&b"none"[..], AuthError::UnknownAlgorithm),
        (b"", AuthError::UnknownAlgorithm),
        (b"HMAC-SHA256", AuthError::UnknownAlgorithm),
        (b"SHA256withDSA", AuthError::UnknownAlgorithm),
    ] {
        let response = PublicKeyResponse { hash, signature }.to_bytes();
        assert_eq!(
            verify(&pending, &public_key_response(&response), std::slice::from_ref(&key)),
            Err(expected)
        );
    }
    let response = ChallengeResponse { auth_type: b"HS_PUBKEY.x", ..public_key_response(&signed) };
    let error = verify(&pending, &response, std::slice::from_ref(&key)).unwrap_err();
    assert_eq!((error, error.response_code()), (AuthError::UnknownAuthType, ResponseCode(404)));

    // Another index, and a subtype.
    let other_index = HandleValue { index: 301, ..key.clone() };
    assert_eq!(
        verify(&pending, &public_key_response(&signed), std::slice::from_ref(&other_index)),
        Err(AuthError::Failed)
    );
    let any_index = ChallengeResponse { key_index: 0, ..public_key_response(&signed) };
    assert_eq!(verify(&pending, &any_index, &[other_index]), Ok(301), "index 0 matches any value");
    let subtype = HandleValue::with_data(300, "HS_PUBKEY.old", public);
    assert_eq!(verify(&pending, &public_key_response(&signed), &[subtype]), Err(AuthError::Failed));
}

#[test]
fn attack_a5_weak_algorithms_need_a_policy() {
    let challenge = Challenge { nonce: &[1; 16], digest: &[2; 32] };
    for (byte, length) in [(0x01, 16), (0x02, 20), (0x03, 32), (0x12, 20)] {
        let response = [&[byte][..], &vec![0; length]].concat();
        let response = SecretKeyResponse::from_bytes(&response, ProtocolVersion::LATEST).unwrap();
        let error = response.verify(b"secret", challenge, auth_context!()).unwrap_err();
        assert!(matches!(error, AuthError::AlgorithmNotAllowed { .. }), "{byte:#x}: {error}");
        assert_eq!(error.response_code(), ResponseCode::INVALID_CREDENTIAL);
    }

    // An old client gets no challenge, because its response would use a weak hash.
    let mut table = table();
    for minor in 0..7 {
        let mut request = delete_request("10.1000/1", 7);
        request[1] = minor;
        request[3] = minor;
        let issued = table.issue(&request, at(0), &mut SystemRandom, auth_context!(), no_ids_in_use);
        assert_eq!(issued.unwrap_err(), AuthError::VersionTooOld, "2.{minor}");
    }
    // A message of an old version that suggests a new one gets a challenge of the new version.
    let mut request = delete_request("10.1000/1", 7);
    request[1] = 3;
    let pending = issue(&mut table, &request, at(0));
    assert_eq!(pending.challenge().digest.len(), 32);
    let challenge = challenge_bytes(pending);
    assert_eq!(Envelope::from_bytes(&challenge).unwrap().version, ProtocolVersion::LATEST);

    // Our client does not respond to an old challenge.
    let request = delete_request("10.1000/1", 7);
    let challenge = challenge_bytes(issue(&mut table, &request, at(0)));
    let mut challenge = Message::from_bytes(&challenge).unwrap();
    challenge.envelope.suggested_version = ProtocolVersion::new(2, 3);
    let parts = MessageParts::split(&request).unwrap();
    let policy = AuthPolicy::default();
    let response =
        ClientKey::SecretKey(b"s").respond(&parts, &challenge, &mut SystemRandom, auth_context!(policy));
    assert_eq!(response, Err(AuthError::AlgorithmNotAllowed { algorithm: "SHA-1" }));
}

#[test]
fn attack_a6_pbkdf2_cost_is_limited() {
    let challenge = Challenge { nonce: &[1; 16], digest: &[2; 32] };
    let check = |salt: &[u8], iterations, key_bits, is_rejected| {
        let response = SecretKeyResponse::Pbkdf2 { salt, iterations, key_bits, mac: &[0; 20] };
        let bytes = response.to_bytes();
        let (provider, mut remaining) = (CountingProvider::default(), budget());
        let response = SecretKeyResponse::from_bytes(&bytes, ProtocolVersion::LATEST).unwrap();
        let error = response
            .verify(
                b"secret",
                challenge,
                &mut AuthContext::new(&provider, AuthPolicy::default(), &mut remaining),
            )
            .unwrap_err();
        if is_rejected {
            assert!(matches!(error, AuthError::Pbkdf2OutOfRange { .. }), "{error}");
            assert_eq!((error.response_code(), remaining), (ResponseCode::INVALID_CREDENTIAL, budget()));
            assert_eq!(provider.pbkdf2_iterations.into_inner(), 0);
        } else {
            assert_eq!(error, AuthError::Failed);
            assert!(remaining.remaining() + iterations / 4 <= budget().remaining(), "the budget is charged");
            assert!(provider.pbkdf2_iterations.into_inner() >= iterations);
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

    // Permitted parameters are still limited by the budget of the request.
    let response =
        SecretKeyResponse::Pbkdf2 { salt: &[0; 16], iterations: 200_000, key_bits: 160, mac: &[0; 20] };
    let over_budget = response.verify(
        b"s",
        challenge,
        &mut AuthContext::new(&AwsLcProvider, AuthPolicy::default(), &mut Budget::new(40_000)),
    );
    assert!(matches!(over_budget, Err(AuthError::Budget(_))));
}

/// Provider that counts expensive operations.
#[derive(Debug, Default)]
struct CountingProvider {
    pbkdf2_iterations: AtomicU32,
    verifications: AtomicU32,
}

impl CryptoProvider for CountingProvider {
    fn hash(&self, hash: HashAlgorithm, parts: &[&[u8]]) -> Result<Digest, CryptoError> {
        AwsLcProvider.hash(hash, parts)
    }

    fn hmac(&self, hash: HashAlgorithm, key: &[u8], parts: &[&[u8]]) -> Result<Digest, CryptoError> {
        AwsLcProvider.hmac(hash, key, parts)
    }

    fn pbkdf2_sha1(
        &self,
        password: &[u8],
        salt: &[u8],
        iterations: NonZeroU32,
        out: &mut [u8],
    ) -> Result<(), CryptoError> {
        self.pbkdf2_iterations.fetch_add(iterations.get(), Ordering::Relaxed);
        AwsLcProvider.pbkdf2_sha1(password, salt, iterations, out)
    }

    fn verify_signature(
        &self,
        key: &PublicKey<'_>,
        hash: HashAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoError> {
        self.verifications.fetch_add(1, Ordering::Relaxed);
        AwsLcProvider.verify_signature(key, hash, message, signature)
    }
}

#[test]
fn attack_a8_missing_and_wrong_key_indistinguishable() {
    let (mut table, request) = (table(), delete_request("10.1000/1", 7));
    let pending = issue(&mut table, &request, at(0));
    let (id, challenge) = (pending.id(), challenge_bytes(pending));
    let response = respond_with_secret(b"guess", &request, &challenge);
    let pending = table.consume(id, at(0)).unwrap();
    let signing_key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let signed = PublicKeyResponse::create(
        &*signing_key,
        pending.challenge(),
        ProtocolVersion::LATEST,
        auth_context!(),
    )
    .unwrap();
    let other = HandleValue::with_data(300, "HS_PUBKEY", handle_net_file("pubkey.bin"));

    let try_with = |response: &ChallengeResponse<'_>, values: &[HandleValue<'_>]| {
        let (crypto, mut remaining) = (CountingProvider::default(), budget());
        let error = pending
            .verify(response, values, &mut AuthContext::new(&crypto, AuthPolicy::default(), &mut remaining))
            .unwrap_err();
        let cost = (crypto.pbkdf2_iterations.into_inner(), crypto.verifications.into_inner(), remaining);
        (error, error.response_code(), error.to_string(), cost)
    };
    let wrong_secret =
        try_with(&secret_key_response(&response), &[HandleValue::new(300, "HS_SECKEY", "sixteen letters.")]);
    assert_eq!((wrong_secret.1, wrong_secret.3.0), (ResponseCode::AUTHENTICATION_FAILED, 10_000));
    assert_eq!(try_with(&secret_key_response(&response), &[]), wrong_secret, "no record");
    assert_eq!(
        try_with(&secret_key_response(&response), std::slice::from_ref(&other)),
        wrong_secret,
        "no secret key"
    );

    let wrong_key = try_with(&public_key_response(&signed), &[other]);
    assert_eq!((wrong_key.1, wrong_key.3.1), (ResponseCode::AUTHENTICATION_FAILED, 1));
    assert_eq!(try_with(&public_key_response(&signed), &[]), wrong_key, "no record");
    let malformed = HandleValue::with_data(300, "HS_PUBKEY", &b"\0\0\0\x03xyz"[..]);
    assert_eq!(try_with(&public_key_response(&signed), &[malformed]), wrong_key, "malformed key");
    let short = HandleValue::with_data(300, "HS_PUBKEY", signature_vector("rsa_1024_key"));
    assert_eq!(try_with(&public_key_response(&signed), &[short]).1, ResponseCode::AUTHENTICATION_FAILED);
}

#[test]
fn attack_a9_forged_signatures() {
    let message = signature_vector("message");
    let check = |key: &str, signature: &[u8], expected| {
        let key = signature_vector(key);
        let key = PublicKey::from_bytes(&key).unwrap();
        assert_eq!(
            AwsLcProvider.verify_signature(&key, HashAlgorithm::Sha256, &message, signature),
            expected,
            "{signature:x?}"
        );
    };
    // The cube of the forged signature begins like the padded hash of the message, followed by garbage (exponent 3).
    check("rsa_2048_key", &signature_vector("rsa_2048_sha256"), Ok(()));
    check("rsa_2048_key", &signature_vector("rsa_2048_forged_sha256"), Err(CryptoError::Signature));
    for signature in [vec![], vec![0; 256], vec![0xff; 256], vec![0; 257], [&[0; 255][..], &[1]].concat()] {
        check("rsa_2048_key", &signature, Err(CryptoError::Signature));
    }
    let long = [&[0][..], &signature_vector("rsa_2048_sha256")].concat();
    check("rsa_2048_key", &long, Err(CryptoError::Signature));

    let integer = |bytes: &[u8]| [&[2, bytes.len() as u8][..], bytes].concat();
    let pair = |r: &[u8], s: &[u8]| {
        let both = [integer(r), integer(s)].concat();
        [&[0x30, both.len() as u8][..], &both].concat()
    };
    for key in ["dsa_1024_key", "dsa_2048_key"] {
        let bytes = signature_vector(key);
        let public = PublicKey::from_bytes(&bytes).unwrap();
        let KeyComponents::Dsa { q, .. } = public.components() else { unreachable!() };
        let q = [&[0][..], q].concat();
        let good = signature_vector(&key.replace("key", "sha256"));
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
fn attack_a10_key_sizes() {
    let rsa = |bytes: usize| validate_public_key(&PublicKey::rsa(&vec![0xc1; bytes], &[1, 0, 1]));
    let wrong_size = |bits| Err(PublicKeyError::Size { bits, min: 2048, max: 8192 });
    assert_eq!(rsa(64), wrong_size(512));
    assert_eq!(rsa(128), wrong_size(1024));
    assert_eq!(rsa(8192), wrong_size(65_536));
    assert_eq!(rsa(256), Ok(()));
    assert_eq!(rsa(1024), Ok(()));

    // A record may still have such a key. It is rejected before anything is computed: an exponentiation modulo the largest would
    // take many seconds, the check takes less than a millisecond.
    let message = [0; 40];
    for bytes in [0, 1, 8, 64, 1025, 8192, 131_072] {
        let key = PublicKey::rsa(&vec![0xc1; bytes], &[1, 0, 1]);
        let start = Instant::now();
        assert!(
            AwsLcProvider.verify_signature(&key, HashAlgorithm::Sha256, &message, &vec![1; bytes]).is_err()
        );
        assert!(start.elapsed() < Duration::from_secs(2), "{bytes}");
    }
    let short = signature_vector("rsa_1024_key");
    let response = PublicKeyResponse { hash: b"SHA-256", signature: &signature_vector("rsa_1024_sha256") };
    let challenge = Challenge { nonce: &signature_vector("message"), digest: &[] };
    let key = PublicKey::from_bytes(&short).unwrap();
    let verify = |policy: AuthPolicy| response.verify(&key, challenge, auth_context!(policy));
    assert!(matches!(verify(AuthPolicy::default()), Err(AuthError::AlgorithmNotAllowed { .. })));
    #[cfg(feature = "legacy-crypto")]
    assert_eq!(verify(AuthPolicy { allow_short_rsa_keys: true, ..AuthPolicy::default() }), Ok(()));
}

#[test]
fn attack_u7_no_amplification() {
    let mut table = table();
    let request = delete_request("10.1000/1", 7);
    let bytes = challenge_bytes(issue(&mut table, &request, at(0)));
    let challenge = Message::from_bytes(&bytes).unwrap();
    assert_eq!(challenge.header.response_code, ResponseCode::AUTHENTICATION_NEEDED);
    assert!(challenge.header.flags.contains(OpFlags::REQUEST_DIGEST));
    assert!(bytes.len() <= 3 * request.len());
}

#[test]
fn attack_u8_challenge_table_is_bounded() {
    let limits = ChallengeLimits {
        max_challenges: 1_000,
        max_request_bytes: 100_000,
        lifetime: Duration::from_secs(20),
    };
    let mut table = ChallengeTable::new(limits);
    let (mut random, small, large) =
        (SeededRng::new(7), delete_request("10.1000/1", 7), delete_request(&"x".repeat(40_000), 8));
    let mut last = 0;
    for n in 0..repetitions("TENDOT_TEST_CHALLENGES", 10_000, 200_000) {
        let request = if n % 1_000 == 999 { &large } else { &small };
        last = table.issue(request, at(0), &mut random, auth_context!(), no_ids_in_use).unwrap().id();
        assert!(table.len() <= 1_000 && table.request_bytes() <= 100_000);
    }
    assert!(table.consume(last, at(1)).is_ok(), "the newest challenge is stored");
    let huge = delete_request(&"x".repeat(100_000), 9);
    let error = table.issue(&huge, at(0), &mut random, auth_context!(), no_ids_in_use).unwrap_err();
    assert_eq!(error.response_code(), ResponseCode::SERVER_TOO_BUSY);
}

#[test]
fn repeated_request_gets_the_same_challenge() {
    let mut table = table();
    let in_session = |handle, request_id| {
        let mut request = delete_request(handle, request_id);
        request[4..8].copy_from_slice(&77_u32.to_be_bytes());
        request
    };
    let mut nonce = |request: &[u8]| {
        let pending = issue(&mut table, request, at(0));
        assert_eq!(pending.id(), 77, "the session id");
        pending.challenge().nonce.to_vec()
    };
    let first = nonce(&in_session("10.1000/1", 7));
    assert_eq!(nonce(&in_session("10.1000/1", 7)), first);
    let other = nonce(&in_session("10.1000/2", 7));
    assert_ne!(other, first, "same request id, other request");
    assert_ne!(nonce(&in_session("10.1000/2", 8)), other);
    assert_eq!(table.len(), 1);
}
