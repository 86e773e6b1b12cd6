//! Cryptography of the recordings, computed again: digests, challenge responses, signatures, MACs and ciphertexts.

use std::collections::HashMap;

use tendot_proto::auth::{
    AuthError, AuthPolicy, Challenge, ClientKey, ComputedDigest, CredentialError, PublicKeyResponse,
    SecretKeyResponse, SessionKey, add_mac, sign_message, verify_message_mac, verify_message_signature,
};
use tendot_proto::crypto::{AwsLcProvider, SecureRandom};
use tendot_proto::message::DigestAlgorithm;
use tendot_proto::record::PublicKey;
use tendot_proto::{
    Credential, CredentialSection, Envelope, EnvelopeFlags, HandleValue, Message, MessageBody, MessageParts,
    ProtocolVersion, Request, RequestDigest, ResponseData,
};
use tendot_testing::handle_keys::{handle_net_file, private_key};
use tendot_testing::recordings::{Recording, encoding, recordings};
use tendot_testing::{auth_context, hex};

use crate::support::budget;

/// Policy that accepts all digests of the recordings.
fn policy() -> AuthPolicy {
    AuthPolicy {
        allow_sha1: cfg!(feature = "legacy-crypto"),
        allow_md5: cfg!(feature = "legacy-crypto"),
        ..AuthPolicy::default()
    }
}

/// Random source that returns given bytes.
struct FixedRandom(Vec<u8>);

impl SecureRandom for FixedRandom {
    fn fill(&mut self, out: &mut [u8]) {
        out.copy_from_slice(&self.0);
    }
}

/// Recorded message, reassembled and decrypted.
struct DecryptedRecording {
    conversation: String,
    name: String,
    is_request: bool,
    bytes: Vec<u8>,
    encrypted: Option<(Vec<u8>, SessionKey)>,
}

/// Session keys by session id, from the client's notes.
fn session_keys(recordings: &[Recording]) -> HashMap<u32, SessionKey> {
    let mut keys = HashMap::new();
    for recording in recordings {
        let after = |label: &str| recording.note.split_once(label).map(|(_, after)| after);
        let Some(digits) = after("sessionKeyHex=") else { continue };
        let id = Envelope::from_bytes(&recording.bytes).unwrap().session_id;
        keys.insert(id, SessionKey::new(hex::decode(&digits[..64]).try_into().unwrap()));
    }
    keys
}

fn decrypted_recordings() -> Vec<DecryptedRecording> {
    let recordings = recordings();
    let keys = session_keys(&recordings);
    let mut all = Vec::new();
    for recording in &recordings {
        let mut bytes = recording.bytes.clone();
        if let Some((_, payload)) = recording.reassembled() {
            bytes.truncate(20);
            bytes.extend(payload);
        }
        let mut encrypted = None;
        if let Ok(envelope) = Envelope::from_bytes(&bytes)
            && envelope.flags.contains(EnvelopeFlags::ENCRYPTED)
        {
            let key = keys[&envelope.session_id].clone();
            let plain = key.decrypt(&bytes, auth_context!()).unwrap();
            encrypted = Some((bytes, key));
            bytes = plain;
        }
        if Message::from_bytes(&bytes).is_ok() {
            all.push(DecryptedRecording {
                conversation: recording.conversation().to_owned(),
                name: recording.name.clone(),
                is_request: recording.is_request,
                bytes,
                encrypted,
            });
        }
    }
    all
}

#[test]
fn ciphertexts_round_trip() {
    let mut seen = 0;
    for DecryptedRecording { name, bytes, encrypted, .. } in decrypted_recordings() {
        let Some((cipher, key)) = encrypted else { continue };
        seen += 1;
        let encrypted_again =
            key.encrypt(&bytes, &mut FixedRandom(cipher[20..36].to_vec()), auth_context!()).unwrap();
        assert_eq!(encrypted_again, cipher, "{name}");
    }
    assert_eq!(seen, 6);

    // Example E35 of the protocol description.
    let key = SessionKey::new(core::array::from_fn(|n| n as u8));
    let message =
        [&Envelope { length: 7, ..Envelope::new(ProtocolVersion::LATEST) }.to_bytes()[..], b"Handle!"]
            .concat();
    let cipher = key.encrypt(&message, &mut FixedRandom(vec![0x11; 16]), auth_context!()).unwrap();
    assert_eq!(cipher[20..], hex::decode("11111111111111111111111111111111c23f3f1607b62c02748290a6f17fc14b"));
    assert_eq!(key.decrypt(&cipher, auth_context!()).unwrap(), message);
}

#[test]
fn request_digests_verify() {
    let mut requests = HashMap::new();
    let mut seen = [0; 3];
    for message in decrypted_recordings() {
        let parts = MessageParts::split(&message.bytes).unwrap();
        let key = (message.conversation.clone(), parts.envelope.request_id);
        if message.is_request {
            requests.insert(key, parts.header_and_body.to_vec());
            continue;
        }
        let MessageBody::Response(response) = Message::from_parts(&parts).unwrap().body else {
            unreachable!()
        };
        let legacy = match response.data {
            ResponseData::Challenge { legacy_digest, .. } => legacy_digest,
            _ => None,
        };
        let legacy = legacy.map(|bytes| RequestDigest { algorithm: DigestAlgorithm::Untagged, bytes });
        let Some(digest) = response.digest.or(legacy) else { continue };
        let request = &requests[&key];
        seen[match digest.algorithm {
            DigestAlgorithm::Sha256 => 0,
            DigestAlgorithm::Sha1 => 1,
            _ => 2,
        }] += 1;
        if digest.algorithm != DigestAlgorithm::Sha256 {
            let rejected = ComputedDigest::verify(&digest, request, auth_context!());
            assert!(matches!(rejected, Err(AuthError::AlgorithmNotAllowed { .. })), "{}", message.name);
        }
        if digest.algorithm == DigestAlgorithm::Sha256 || cfg!(feature = "legacy-crypto") {
            let checked = ComputedDigest::verify(&digest, request, auth_context!(policy()));
            assert_eq!(checked, Ok(()), "{}", message.name);
            let version = parts.envelope.version;
            let computed = ComputedDigest::for_request(request, version, auth_context!(policy())).unwrap();
            assert_eq!(computed.as_request_digest(), digest, "{}", message.name);
        }
    }
    assert_eq!(seen, [37, 0, 1], "SHA-256, SHA-1, MD5");
}

/// Keys of the recorded server's records.
fn key_values(handle: &str) -> Vec<HandleValue<'static>> {
    let secret = |text: &'static str| HandleValue::new(301, "HS_SECKEY", text);
    match handle {
        "10.5555/ADMIN" => vec![secret("opensesame")],
        "10.5555/READER" => vec![secret("readonly")],
        "0.NA/10.5555" => {
            vec![
                secret("opensesame"),
                HandleValue::with_data(300, "HS_PUBKEY", handle_net_file("admpub.bin")),
            ]
        }
        other => panic!("{other}"),
    }
}

#[test]
fn challenge_responses_verify() {
    let mut challenges = HashMap::new();
    let (mut secret, mut public) = (0, 0);
    for message in decrypted_recordings() {
        let decoded = Message::from_bytes(&message.bytes).unwrap();
        let id = (message.conversation.clone(), decoded.envelope.session_id);
        if let MessageBody::Response(response) = decoded.body
            && let ResponseData::Challenge { nonce, .. } = response.data
            && let Some(digest) = response.digest
        {
            challenges.insert(id, (nonce.to_vec(), digest.bytes.to_vec()));
            continue;
        }
        let MessageBody::Request(Request::ChallengeResponse(response)) = decoded.body else { continue };
        let (nonce, digest) = &challenges[&id];
        let challenge = Challenge { nonce, digest };
        let values = key_values(response.key_handle.to_str().unwrap());
        let value = values.iter().find(|value| value.index == response.key_index).unwrap();
        let verified = match response.auth_type {
            b"HS_SECKEY" => {
                secret += 1;
                let proof = SecretKeyResponse::from_bytes(response.proof, decoded.envelope.version).unwrap();
                assert_eq!(proof.to_bytes(), response.proof);
                proof.verify(&value.data, challenge, auth_context!())
            }
            b"HS_PUBKEY" => {
                public += 1;
                let proof = PublicKeyResponse::from_bytes(response.proof).unwrap();
                assert_eq!(proof.to_bytes(), response.proof);
                let key = PublicKey::from_bytes(&value.data).unwrap();
                proof.verify(&key, challenge, auth_context!(policy()))
            }
            other => panic!("{other:?}"),
        };
        let is_wrong = message.conversation.starts_with("create_bad_");
        assert_eq!(verified, if is_wrong { Err(AuthError::Failed) } else { Ok(()) }, "{}", message.name);
    }
    assert_eq!((secret, public), (14, 14));
}

/// RSA signatures are deterministic, and the salt of PBKDF2 is in the response: our client computes the recorded responses.
#[test]
fn our_client_computes_the_same_responses() {
    let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let messages = decrypted_recordings();
    let mut seen = 0;
    for window in messages.windows(3) {
        let [request, challenge, response] = window else { unreachable!() };
        let decoded = Message::from_bytes(&response.bytes).unwrap();
        let MessageBody::Request(Request::ChallengeResponse(response)) = decoded.body else { continue };
        if request.conversation.starts_with("create_bad_") {
            continue;
        }
        let handle = response.key_handle.to_str().unwrap();
        let values = key_values(handle);
        let value = values.iter().find(|value| value.index == response.key_index).unwrap();
        let (client_key, mut random) = match response.auth_type {
            b"HS_SECKEY" => (ClientKey::SecretKey(&value.data), FixedRandom(response.proof[5..21].to_vec())),
            _ => (ClientKey::PrivateKey(&*key), FixedRandom(Vec::new())),
        };
        assert_eq!(client_key.auth_type(), response.auth_type);
        let parts = MessageParts::split(&request.bytes).unwrap();
        let challenge = Message::from_bytes(&challenge.bytes).unwrap();
        let computed = client_key.respond(&parts, &challenge, &mut random, auth_context!(policy()));
        assert_eq!(computed.as_deref(), Ok(response.proof), "{}", request.name);
        seen += 1;
    }
    assert_eq!(seen, 26);
}

#[test]
fn server_signatures_verify() {
    let file = handle_net_file("pubkey.bin");
    let key = PublicKey::from_bytes(&file).unwrap();
    let other = handle_net_file("admpub.bin");
    let other = PublicKey::from_bytes(&other).unwrap();
    let signing_key = private_key("privkey.bin").signing_key(&AwsLcProvider).unwrap();
    let mut seen = 0;
    for message in decrypted_recordings() {
        let parts = MessageParts::split(&message.bytes).unwrap();
        let decoded = Message::from_parts(&parts).unwrap();
        let verify = |key| verify_message_signature(&parts, key, auth_context!());
        if decoded.credential().is_none_or(|credential| credential.credential_type != Credential::TYPE_SIGNED)
        {
            assert_eq!(verify(&key), Err(CredentialError::Missing), "{}", message.name);
            continue;
        }
        seen += 1;
        assert_eq!(verify(&key), Ok(()), "{}", message.name);
        assert_eq!(verify(&other), Err(CredentialError::Mismatch), "{}", message.name);
        // Our server computes the same signature.
        let mut unsigned =
            Message { credential_section: CredentialSection::Empty, ..decoded }.to_bytes().unwrap();
        sign_message(&mut unsigned, &*signing_key, &mut budget()).unwrap();
        assert_eq!(unsigned, message.bytes, "{}", message.name);
    }
    assert_eq!(seen, 7);
}

#[test]
fn session_macs_verify() {
    let keys = session_keys(&recordings());
    let (mut seen, mut without) = (0, Vec::new());
    for message in decrypted_recordings() {
        let parts = MessageParts::split(&message.bytes).unwrap();
        let decoded = Message::from_parts(&parts).unwrap();
        let Some(credential) = decoded.credential() else { continue };
        if credential.credential_type != Credential::TYPE_MAC {
            continue;
        }
        let Some(key) = keys.get(&decoded.envelope.session_id) else {
            without.push(message.name);
            continue;
        };
        seen += 1;
        let verified = verify_message_mac(&parts, key, auth_context!());
        assert_eq!(verified, Ok(credential.counter), "{}", message.name);
        let other = SessionKey::new([7; 32]);
        assert_eq!(verify_message_mac(&parts, &other, auth_context!()), Err(CredentialError::Mismatch));
        let mut unsigned =
            Message { credential_section: CredentialSection::Empty, ..decoded }.to_bytes().unwrap();
        add_mac(&mut unsigned, key, credential.counter, auth_context!()).unwrap();
        assert_eq!(unsigned, message.bytes, "{}", message.name);
    }
    assert_eq!(seen, 8);
    assert_eq!(without, ["default_session_create#4"], "the recorder did not note its key");
}

/// Examples of the protocol description, sections 17 and 18.
#[test]
fn protocol_examples() {
    let request = encoding("req_del");
    let parts = MessageParts::split(&request).unwrap();
    let digest =
        ComputedDigest::for_request(parts.header_and_body, ProtocolVersion::LATEST, auth_context!()).unwrap();
    assert_eq!(digest.as_bytes(), encoding("chal_digest"));
    let challenge = encoding("challenge");
    let challenge = Message::from_bytes(&challenge).unwrap();
    let salt = FixedRandom((0xa0..0xb0).collect());
    let respond = |random: &mut dyn SecureRandom, challenge: &Message<'_>, policy: AuthPolicy| {
        ClientKey::SecretKey(b"secret").respond(&parts, challenge, random, auth_context!(policy))
    };
    assert_eq!(respond(&mut { salt }, &challenge, AuthPolicy::default()), Ok(encoding("seckey_pbkdf2")));

    let verify = encoding("req_verify");
    let verify = MessageParts::split(&verify).unwrap();
    let verified = encoding("resp_verify");
    let MessageBody::Response(response) = Message::from_bytes(&verified).unwrap().body else {
        unreachable!()
    };
    let checked = |header_and_body| {
        ComputedDigest::verify(&response.digest.unwrap(), header_and_body, auth_context!(policy()))
    };
    assert_eq!(checked(verify.header_and_body), Ok(()));
    assert_eq!(checked(parts.header_and_body), Err(AuthError::DigestMismatch));

    let key = SessionKey::new(core::array::from_fn(|n| n as u8));
    let mut message = encoding("req_del");
    message[7] = 9;
    add_mac(&mut message, &key, 1, auth_context!()).unwrap();
    assert_eq!(message, encoding("req_del_mac"));

    #[cfg(feature = "legacy-crypto")]
    {
        use tendot_proto::auth::SecretKeyMac;
        use tendot_proto::crypto::SystemRandom;

        // E21: the challenge has version 2.3, and the digest is of SHA-1.
        let old = ProtocolVersion::new(2, 3);
        let digest =
            ComputedDigest::for_request(parts.header_and_body, old, auth_context!(policy())).unwrap();
        let mut challenge = challenge;
        challenge.envelope.version = old;
        let MessageBody::Response(response) = &mut challenge.body else { unreachable!() };
        response.digest = Some(digest.as_request_digest());
        let mut policy = policy();
        let rejected = respond(&mut SystemRandom, &challenge, policy);
        assert_eq!(rejected, Err(AuthError::AlgorithmNotAllowed { algorithm: "SHA-1" }));
        policy.secret_key_macs = policy.secret_key_macs.with(SecretKeyMac::Sha1);
        assert_eq!(respond(&mut SystemRandom, &challenge, policy), Ok(encoding("seckey_sha1")));
    }
}
