//! Diffie-Hellman session setup: client and server side.

use alloc::vec::Vec;
use core::time::Duration;

use zeroize::Zeroizing;

use super::dh_group::{DhGroup, GENERATOR};
use super::{Session, SessionError, SessionKey, SessionRole};
use crate::auth::computed_digest::ComputedDigest;
use crate::auth::cost;
use crate::auth::credential::verify_message_signature;
use crate::auth::policy::AuthPolicy;
use crate::budget::Budget;
use crate::crypto::{CryptoProvider, SecureRandom};
use crate::handle::Handle;
use crate::limits;
use crate::message::{
    DigestAlgorithm, Envelope, KeyExchangeMode, Message, MessageBody, MessageParts, ProtocolVersion,
    Response, ResponseData, SessionKeyMaterial, SessionSetup,
};
use crate::record::{KeyComponents, PublicKey, ValueReference};
use crate::wire::{WireReader, WireWriter};

/// Cipher code of AES in session setup; 1 and 2 are DES.
const CIPHER_AES: u32 = 3;

/// Client side of a Diffie-Hellman session setup.
///
/// ```
/// use tendot_proto::Budget;
/// use tendot_proto::auth::{DhGroup, ClientKeyExchange};
/// use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
///
/// let proposal = ClientKeyExchange::new(DhGroup::Modp2048, &AwsLcProvider, &mut SystemRandom, &mut { Budget::PER_REQUEST })?;
/// let setup = proposal.request(None, 86_400);
/// assert_eq!(setup.mode.0, 4);
/// # Ok::<(), tendot_proto::auth::SessionError>(())
/// ```
#[derive(Debug)]
pub struct ClientKeyExchange {
    key_pair: DhKeyPair,
}

impl ClientKeyExchange {
    /// Chooses a random secret.
    pub fn new(
        group: DhGroup,
        crypto: &dyn CryptoProvider,
        random: &mut dyn SecureRandom,
        budget: &mut Budget,
    ) -> Result<Self, SessionError> {
        Ok(Self { key_pair: DhKeyPair::generate(group, crypto, random, budget)? })
    }

    /// Session setup request. `identity` is the identity that will authenticate in the session; `timeout` is in
    /// seconds.
    ///
    /// The request needs the flags `CERTIFY` and `REQUEST_DIGEST`: see [`complete`](Self::complete).
    pub fn request<'a>(&'a self, identity: Option<&'a ValueReference<'_>>, timeout: u32) -> SessionSetup<'a> {
        SessionSetup {
            mode: KeyExchangeMode::DIFFIE_HELLMAN,
            timeout,
            identity_handle: identity.map_or(Handle::new(&[]), ValueReference::handle),
            identity_index: identity.map_or(SessionSetup::ANONYMOUS_INDEX, |identity| identity.index),
            key: SessionKeyMaterial::PublicKey(&self.key_pair.public_key),
        }
    }

    /// Completes the exchange with the server's response to the request as it was sent.
    ///
    /// The response must be signed by the server, and must have the digest of the request; otherwise a man in the
    /// middle could impersonate the server or replace our key.
    pub fn complete(
        self,
        request: &MessageParts<'_>,
        response: &MessageParts<'_>,
        server_key: &PublicKey<'_>,
        policy: &AuthPolicy,
        crypto: &dyn CryptoProvider,
        budget: &mut Budget,
    ) -> Result<Session, SessionError> {
        let refuse = |what| Err(SessionError::Refused { what });
        verify_message_signature(response, server_key, policy, crypto, budget)?;
        let Ok(message) = Message::from_parts(response) else { return refuse("a malformed answer") };
        let MessageBody::Response(Response {
            digest: Some(digest),
            outcome: ResponseData::Session { mode, data },
        }) = message.body
        else {
            return refuse("an answer that is not bound to the request");
        };
        if digest.algorithm != DigestAlgorithm::Sha256
            || ComputedDigest::verify(&digest, request.header_and_body, policy, crypto, budget).is_err()
        {
            return refuse("an answer to another request");
        }
        self.derive_session(response.envelope.session_id, mode, data, crypto, budget)
    }

    fn derive_session(
        self,
        session_id: u32,
        mode: KeyExchangeMode,
        data: &[u8],
        crypto: &dyn CryptoProvider,
        budget: &mut Budget,
    ) -> Result<Session, SessionError> {
        let refuse = |what| Err(SessionError::Refused { what });
        if mode != KeyExchangeMode::DIFFIE_HELLMAN {
            return refuse("a key exchange other than Diffie-Hellman");
        }
        if session_id == 0 {
            return refuse("the number 0");
        }
        let mut reader = WireReader::new(data);
        match reader.u32("session cipher") {
            Ok(CIPHER_AES) => {}
            _ => return refuse("a cipher other than AES"),
        }
        let Ok(theirs) = PublicKey::from_bytes(reader.remaining()) else { return refuse("a malformed key") };
        let any = AuthPolicy { group_1024: true, ..AuthPolicy::default() };
        if DhGroup::from_public_key(theirs.components(), &any) != Some(self.key_pair.group) {
            return refuse("another group than was proposed");
        }
        Ok(Session::new(
            session_id,
            SessionRole::Client,
            self.key_pair.derive_session_key(&theirs, crypto, budget)?,
        ))
    }
}

/// Server side of a Diffie-Hellman session setup, before the session has an id.
#[derive(Debug)]
pub struct ServerKeyExchange {
    pub(super) key: SessionKey,
    pub(super) identity: Option<ValueReference<'static>>,
    pub(super) timeout: Duration,
    data: Vec<u8>,
}

impl ServerKeyExchange {
    /// Processes a session setup request with this envelope.
    ///
    /// Accepts only Diffie-Hellman in a [`DhGroup`], with AES, since version 2.7: older versions have no sound MAC.
    pub fn new(
        setup: &SessionSetup<'_>,
        envelope: &Envelope,
        policy: &AuthPolicy,
        crypto: &dyn CryptoProvider,
        random: &mut dyn SecureRandom,
        budget: &mut Budget,
    ) -> Result<Self, SessionError> {
        let refuse = |what| Err(SessionError::Refused { what });
        if envelope.response_version() < ProtocolVersion::SHA256 {
            return refuse("a version below 2.7");
        }
        let (KeyExchangeMode::DIFFIE_HELLMAN, SessionKeyMaterial::PublicKey(key)) = (setup.mode, setup.key)
        else {
            return refuse("a key exchange other than Diffie-Hellman");
        };
        if setup.identity_handle.as_bytes().len() > limits::MAX_HANDLE_LEN {
            return refuse("an identity that is no handle");
        }
        let Ok(theirs) = PublicKey::from_bytes(key) else { return refuse("a malformed key") };
        let Some(group) = DhGroup::from_public_key(theirs.components(), policy) else {
            return refuse("this group");
        };
        group.validate_public_value(&theirs)?;
        let key_pair = DhKeyPair::generate(group, crypto, random, budget)?;
        let mut data = Vec::new();
        let mut writer = WireWriter::new(&mut data);
        writer.u32(CIPHER_AES);
        writer.raw(&key_pair.public_key);
        let anonymous = setup.identity_index == SessionSetup::ANONYMOUS_INDEX;
        let identity = ValueReference::new(setup.identity_index, setup.identity_handle.as_bytes());
        Ok(Self {
            key: key_pair.derive_session_key(&theirs, crypto, budget)?,
            identity: (!anonymous).then(|| identity.into_owned()),
            timeout: Duration::from_secs(u64::from(setup.timeout)),
            data,
        })
    }

    /// Data of [`ResponseData::Session`].
    pub fn response_data(&self) -> &[u8] {
        &self.data
    }
}

/// Ephemeral Diffie-Hellman key pair.
#[derive(Debug)]
struct DhKeyPair {
    group: DhGroup,
    secret: DhSecret,
    /// Encoded public key.
    public_key: Vec<u8>,
}

/// Secret exponent of 512 bits: more than twice the strength of the largest group.
struct DhSecret(Zeroizing<[u8; 64]>);

impl core::fmt::Debug for DhSecret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

impl DhKeyPair {
    fn generate(
        group: DhGroup,
        crypto: &dyn CryptoProvider,
        random: &mut dyn SecureRandom,
        budget: &mut Budget,
    ) -> Result<Self, SessionError> {
        let prime = group.prime();
        budget.charge(cost::mod_exp(prime.len()))?;
        let mut secret = DhSecret(Zeroizing::new([0; 64]));
        random.fill(&mut *secret.0);
        let y = crypto.mod_exp(GENERATOR, &*secret.0, &prime).map_err(|_| PROVIDER_UNSUPPORTED)?;
        let public_key = PublicKey::diffie_hellman(&y, &prime, GENERATOR).to_bytes();
        Ok(Self { group, secret, public_key })
    }

    fn derive_session_key(
        &self,
        theirs: &PublicKey<'_>,
        crypto: &dyn CryptoProvider,
        budget: &mut Budget,
    ) -> Result<SessionKey, SessionError> {
        self.group.validate_public_value(theirs)?;
        let KeyComponents::DiffieHellman { y, .. } = theirs.components() else {
            return Err(PROVIDER_UNSUPPORTED);
        };
        let prime = self.group.prime();
        budget.charge(cost::mod_exp(prime.len()))?;
        let shared = crypto.mod_exp(y, &*self.secret.0, &prime).map_err(|_| PROVIDER_UNSUPPORTED)?;
        SessionKey::from_shared_secret(&Zeroizing::new(shared)).ok_or(PROVIDER_UNSUPPORTED)
    }
}

impl DhGroup {
    fn validate_public_value(self, key: &PublicKey<'_>) -> Result<(), SessionError> {
        match key.components() {
            KeyComponents::DiffieHellman { y, .. } if self.is_valid_public_value(y) => Ok(()),
            _ => Err(SessionError::Refused { what: "a public value that gives away the key" }),
        }
    }
}

const PROVIDER_UNSUPPORTED: SessionError = SessionError::Refused { what: "this provider of cryptography" };

#[cfg(all(test, feature = "crypto"))]
mod tests {
    use super::*;
    use crate::crypto::{AwsLcProvider, SystemRandom};

    fn answer(setup: &SessionSetup<'_>, version: ProtocolVersion) -> Result<ServerKeyExchange, SessionError> {
        let envelope = Envelope { suggestion: version, ..Envelope::new(version) };
        let policy = AuthPolicy::default();
        ServerKeyExchange::new(setup, &envelope, &policy, &AwsLcProvider, &mut SystemRandom, &mut {
            Budget::PER_REQUEST
        })
    }

    fn propose(group: DhGroup) -> ClientKeyExchange {
        ClientKeyExchange::new(group, &AwsLcProvider, &mut SystemRandom, &mut { Budget::PER_REQUEST })
            .unwrap()
    }

    #[test]
    fn both_sides_agree() {
        for group in [DhGroup::Modp1024, DhGroup::Modp2048] {
            let proposal = propose(group);
            let identity = ValueReference::new(300, &b"0.NA/10"[..]);
            let answer = answer(&proposal.request(Some(&identity), 60), ProtocolVersion::LATEST).unwrap();
            assert_eq!(answer.identity.as_ref(), Some(&identity));
            assert_eq!(answer.timeout, Duration::from_secs(60));
            let mode = KeyExchangeMode::DIFFIE_HELLMAN;
            let session = proposal
                .derive_session(9, mode, answer.response_data(), &AwsLcProvider, &mut { Budget::PER_REQUEST })
                .unwrap();
            assert_eq!(session.key().as_bytes(), answer.key.as_bytes());
        }
    }

    #[test]
    fn what_a_server_refuses() {
        let proposal = propose(DhGroup::Modp1024);
        let setup = proposal.request(None, 60);
        let check = |setup: SessionSetup<'_>, version, expected: &'static str| {
            let error = answer(&setup, version).unwrap_err();
            assert_eq!(error, SessionError::Refused { what: expected });
        };
        assert_eq!(answer(&setup, ProtocolVersion::LATEST).unwrap().identity, None);
        check(setup, ProtocolVersion::new(2, 6), "a version below 2.7");
        let mode = KeyExchangeMode::SERVER_RSA;
        check(
            SessionSetup { mode, ..setup },
            ProtocolVersion::LATEST,
            "a key exchange other than Diffie-Hellman",
        );
        let key = SessionKeyMaterial::None;
        check(
            SessionSetup { key, ..setup },
            ProtocolVersion::LATEST,
            "a key exchange other than Diffie-Hellman",
        );
        let key = SessionKeyMaterial::PublicKey(b"\0\0\0\x01x");
        check(SessionSetup { key, ..setup }, ProtocolVersion::LATEST, "a malformed key");
        let identity_handle = Handle::new(&[b'x'; 2049]);
        check(
            SessionSetup { identity_handle, ..setup },
            ProtocolVersion::LATEST,
            "an identity that is no handle",
        );
    }

    #[test]
    fn what_a_client_refuses() {
        let server = propose(DhGroup::Modp1024).key_pair.public_key;
        let good = [&[0, 0, 0, 3][..], &server].concat();
        let check = |id, mode, data: &[u8], expected| {
            let accepted = propose(DhGroup::Modp1024)
                .derive_session(id, mode, data, &AwsLcProvider, &mut { Budget::PER_REQUEST });
            assert_eq!(accepted.map(|_| ()), expected);
        };
        let refused = |what| Err(SessionError::Refused { what });
        let mode = KeyExchangeMode::DIFFIE_HELLMAN;
        check(1, mode, &good, Ok(()));
        check(0, mode, &good, refused("the number 0"));
        check(1, KeyExchangeMode(1), &good, refused("a key exchange other than Diffie-Hellman"));
        check(1, mode, &[&[0, 0, 0, 1][..], &server].concat(), refused("a cipher other than AES"));
        check(1, mode, &server, refused("a cipher other than AES"));
        check(1, mode, &[], refused("a cipher other than AES"));
        check(1, mode, &good[..50], refused("a malformed key"));
        let other = [&[0, 0, 0, 3][..], &propose(DhGroup::Modp2048).key_pair.public_key].concat();
        check(1, mode, &other, refused("another group than was proposed"));
        let one = PublicKey::diffie_hellman(&[1], &DhGroup::Modp1024.prime(), &[2]).to_bytes();
        let one = [&[0, 0, 0, 3][..], &one].concat();
        check(1, mode, &one, refused("a public value that gives away the key"));
    }
}
