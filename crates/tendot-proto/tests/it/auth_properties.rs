//! Property tests of challenge responses, keys, ciphertexts and credentials: nothing panics, decoding and encoding are inverse.

use proptest::collection::vec;
use proptest::prelude::*;
use tendot_proto::auth::{
    PrivateKey, PublicKeyResponse, SecretKeyResponse, SessionKey, sign_message, validate_public_key,
    verify_message_mac, verify_message_signature,
};
use tendot_proto::crypto::{AwsLcProvider, CryptoProvider, HashAlgorithm, SystemRandom};
use tendot_proto::record::PublicKey;
use tendot_proto::{Envelope, Handle, Message, MessageParts, Now, ProtocolVersion};
use tendot_testing::auth_context;
use tendot_testing::handle_keys::{handle_net_file, private_key};

use crate::support::budget;

/// Odd integer of this many bits.
fn odd_integer(bits: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), bits / 8).prop_map(|mut bytes| {
        *bytes.first_mut().unwrap() |= 0x80;
        *bytes.last_mut().unwrap() |= 1;
        bytes
    })
}

/// DER sequence of two integers, not always valid.
fn dsa_signature() -> impl Strategy<Value = Vec<u8>> {
    (vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..40)).prop_map(|(r, s)| {
        let integer = |bytes: &[u8]| [&[2, bytes.len() as u8][..], bytes].concat();
        let both = [integer(&r), integer(&s)].concat();
        [&[0x30, both.len() as u8][..], &both].concat()
    })
}

proptest! {
    #[test]
    fn challenge_responses_round_trip(bytes in vec(any::<u8>(), 0..80), minor in 0_u8..12) {
        if let Ok(response) = SecretKeyResponse::from_bytes(&bytes, ProtocolVersion::new(2, minor)) {
            prop_assert_eq!(response.to_bytes(), &*bytes);
        }
        let derived = [&[0x22, 0, 0, 0, 3][..], &bytes].concat();
        if let Ok(response) = SecretKeyResponse::from_bytes(&derived, ProtocolVersion::LATEST) {
            prop_assert_eq!(response.to_bytes(), derived);
        }
        if let Ok(response) = PublicKeyResponse::from_bytes(&bytes) {
            prop_assert_eq!(response.to_bytes(), bytes);
        }
    }

    #[test]
    fn key_files_do_not_panic(encryption in 0_u8..6, bytes in vec(any::<u8>(), 0..200)) {
        let file = [&[0, 0, 0, encryption][..], &bytes].concat();
        if let Ok(key) = PrivateKey::from_file_bytes(&file, Some(b"x"), &AwsLcProvider, &mut budget()) {
            prop_assert_eq!(&**key.to_file_bytes(), &file);
        }
        let _ = PrivateKey::from_der(&bytes);
        let _ = PrivateKey::from_der(&[&[0x30, bytes.len() as u8 & 0x7f][..], &bytes].concat());
    }

    #[test]
    fn damaged_key_file_is_rejected_or_parsed(offset in 0_usize..1213, byte in any::<u8>()) {
        let mut file = handle_net_file("admpriv.bin");
        file[offset] = byte;
        if let Ok(key) = PrivateKey::from_file_bytes(&file, None, &AwsLcProvider, &mut budget()) {
            prop_assert_eq!(&**key.to_file_bytes(), &file);
            let _ = key.signing_key(&AwsLcProvider);
        }
    }

    #[test]
    fn untrusted_keys_do_not_panic(
        p in odd_integer(1024),
        q in odd_integer(160),
        g in vec(any::<u8>(), 0..130),
        y in vec(any::<u8>(), 0..130),
        signature in dsa_signature(),
        n in vec(any::<u8>(), 0..300),
        e in vec(any::<u8>(), 0..8),
    ) {
        for key in [PublicKey::dsa(&q, &p, &g, &y), PublicKey::dsa(&p, &q, &y, &g), PublicKey::rsa(&n, &e)] {
            let _ = validate_public_key(&key);
            prop_assert!(AwsLcProvider.verify_signature(&key, HashAlgorithm::Sha256, b"message", &signature).is_err());
        }
    }

    #[test]
    fn untrusted_ciphertexts_do_not_panic(bytes in vec(any::<u8>(), 0..100)) {
        let envelope = Envelope { length: bytes.len() as u32, ..Envelope::new(ProtocolVersion::LATEST) };
        let message = [&envelope.to_bytes()[..], &bytes].concat();
        let key = SessionKey::new([3; 32]);
        let _ = key.decrypt(&bytes, auth_context!());
        let _ = key.decrypt(&message, auth_context!());
        let cipher = key.encrypt(&message, &mut SystemRandom, auth_context!()).unwrap();
        prop_assert_eq!(key.decrypt(&cipher, auth_context!()).unwrap(), message);
    }

    #[test]
    fn untrusted_credentials_do_not_panic(credential in vec(any::<u8>(), 0..120), minor in 0_u8..12) {
        let now = Now { elapsed: std::time::Duration::ZERO, unix: 0 };
        let mut bytes = Message::resolution(Handle::from("10.1000/1"), 7, now).to_bytes().unwrap();
        bytes.truncate(bytes.len() - 4);
        bytes.extend((credential.len() as u32).to_be_bytes());
        bytes.extend(&credential);
        let length = bytes.len() as u32 - 20;
        bytes[1] = minor;
        bytes[16..20].copy_from_slice(&length.to_be_bytes());
        let parts = MessageParts::split(&bytes).unwrap();
        let public = handle_net_file("pubkey.bin");
        let public = PublicKey::from_bytes(&public).unwrap();
        prop_assert!(verify_message_signature(&parts, &public, auth_context!()).is_err());
        prop_assert!(verify_message_mac(&parts, &SessionKey::new([3; 32]), auth_context!()).is_err());
        let before = bytes.clone();
        if !credential.is_empty() {
            let key = private_key("privkey.bin").signing_key(&AwsLcProvider).unwrap();
            prop_assert!(sign_message(&mut bytes, &*key, &mut budget()).is_err(), "a credential section is present");
            prop_assert_eq!(bytes, before);
        }
    }
}
