//! Diffie-Hellman session setup: client and server side.

use alloc::vec::Vec;
use core::time::Duration;

use zeroize::Zeroizing;

use super::dh_group::{DhGroup, GENERATOR};
use super::{Session, SessionError, SessionKey, SessionRole};
use crate::auth::AuthContext;
use crate::auth::computed_digest::ComputedDigest;
use crate::auth::cost;
use crate::auth::credential::verify_message_signature;
use crate::auth::policy::AuthPolicy;
use crate::crypto::SecureRandom;
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
/// use tendot_proto::auth::{AuthContext, AuthPolicy, ClientKeyExchange, DhGroup};
/// use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
///
/// let mut budget = Budget::PER_REQUEST;
/// let mut context = AuthContext::new(&AwsLcProvider, AuthPolicy::default(), &mut budget);
/// let exchange = ClientKeyExchange::new(DhGroup::Modp2048, &mut SystemRandom, &mut context)?;
/// let setup = exchange.request(None, 86_400);
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
        random: &mut dyn SecureRandom,
        context: &mut AuthContext<'_>,
    ) -> Result<Self, SessionError> {
        Ok(Self { key_pair: DhKeyPair::generate(group, random, context)? })
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
        context: &mut AuthContext<'_>,
    ) -> Result<Session, SessionError> {
        let refuse = |reason| Err(SessionError::Refused { reason });
        verify_message_signature(response, server_key, context)?;
        let Ok(message) = Message::from_parts(response) else { return refuse("malformed response") };
        let MessageBody::Response(Response {
            digest: Some(digest),
            data: ResponseData::SessionSetup { mode, data },
        }) = message.body
        else {
            return refuse("response without request digest");
        };
        if digest.algorithm != DigestAlgorithm::Sha256
            || ComputedDigest::verify(&digest, request.header_and_body, context).is_err()
        {
            return refuse("request digest mismatch");
        }
        self.derive_session(response.envelope.session_id, mode, data, context)
    }

    fn derive_session(
        self,
        session_id: u32,
        mode: KeyExchangeMode,
        data: &[u8],
        context: &mut AuthContext<'_>,
    ) -> Result<Session, SessionError> {
        let refuse = |reason| Err(SessionError::Refused { reason });
        if mode != KeyExchangeMode::DIFFIE_HELLMAN {
            return refuse("key exchange mode not supported");
        }
        if session_id == 0 {
            return refuse("invalid session id 0");
        }
        let mut reader = WireReader::new(data);
        match reader.u32("session cipher") {
            Ok(CIPHER_AES) => {}
            _ => return refuse("cipher not supported"),
        }
        let Ok(peer_key) = PublicKey::from_bytes(reader.remaining()) else {
            return refuse("malformed public key");
        };
        let any_group = AuthPolicy { allow_dh_1024: true, ..AuthPolicy::default() };
        if DhGroup::from_public_key(peer_key.components(), &any_group) != Some(self.key_pair.group) {
            return refuse("Diffie-Hellman group mismatch");
        }
        Ok(Session::new(
            session_id,
            SessionRole::Client,
            self.key_pair.derive_session_key(&peer_key, context)?,
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
        random: &mut dyn SecureRandom,
        context: &mut AuthContext<'_>,
    ) -> Result<Self, SessionError> {
        let refuse = |reason| Err(SessionError::Refused { reason });
        if envelope.response_version() < ProtocolVersion::SHA256 {
            return refuse("protocol version below 2.7");
        }
        let (KeyExchangeMode::DIFFIE_HELLMAN, SessionKeyMaterial::PublicKey(key)) = (setup.mode, setup.key)
        else {
            return refuse("key exchange mode not supported");
        };
        if setup.identity_handle.as_bytes().len() > limits::MAX_HANDLE_LEN {
            return refuse("invalid identity handle");
        }
        let Ok(peer_key) = PublicKey::from_bytes(key) else { return refuse("malformed public key") };
        let Some(group) = DhGroup::from_public_key(peer_key.components(), &context.policy) else {
            return refuse("Diffie-Hellman group not allowed");
        };
        group.validate_public_value(&peer_key)?;
        let key_pair = DhKeyPair::generate(group, random, context)?;
        let mut data = Vec::new();
        let mut writer = WireWriter::new(&mut data);
        writer.u32(CIPHER_AES);
        writer.raw(&key_pair.public_key);
        let anonymous = setup.identity_index == SessionSetup::ANONYMOUS_INDEX;
        let identity = ValueReference::new(setup.identity_index, setup.identity_handle.as_bytes());
        Ok(Self {
            key: key_pair.derive_session_key(&peer_key, context)?,
            identity: (!anonymous).then(|| identity.into_owned()),
            timeout: Duration::from_secs(u64::from(setup.timeout)),
            data,
        })
    }

    /// Data of [`ResponseData::SessionSetup`].
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
        f.write_str("DhSecret")
    }
}

impl DhKeyPair {
    fn generate(
        group: DhGroup,
        random: &mut dyn SecureRandom,
        context: &mut AuthContext<'_>,
    ) -> Result<Self, SessionError> {
        let prime = group.prime();
        context.budget.charge(cost::mod_exp(prime.len()))?;
        let mut secret = DhSecret(Zeroizing::new([0; 64]));
        random.fill(&mut *secret.0);
        let y = context.provider.mod_exp(GENERATOR, &*secret.0, &prime).map_err(|_| PROVIDER_UNSUPPORTED)?;
        let public_key = PublicKey::diffie_hellman(&y, &prime, GENERATOR).to_bytes();
        Ok(Self { group, secret, public_key })
    }

    fn derive_session_key(
        &self,
        peer_key: &PublicKey<'_>,
        context: &mut AuthContext<'_>,
    ) -> Result<SessionKey, SessionError> {
        self.group.validate_public_value(peer_key)?;
        let KeyComponents::DiffieHellman { y, .. } = peer_key.components() else {
            return Err(PROVIDER_UNSUPPORTED);
        };
        let prime = self.group.prime();
        context.budget.charge(cost::mod_exp(prime.len()))?;
        let shared =
            context.provider.mod_exp(y, &*self.secret.0, &prime).map_err(|_| PROVIDER_UNSUPPORTED)?;
        SessionKey::from_shared_secret(&Zeroizing::new(shared)).ok_or(PROVIDER_UNSUPPORTED)
    }
}

impl DhGroup {
    fn validate_public_value(self, key: &PublicKey<'_>) -> Result<(), SessionError> {
        match key.components() {
            KeyComponents::DiffieHellman { y, .. } if self.is_valid_public_value(y) => Ok(()),
            _ => Err(SessionError::Refused { reason: "weak Diffie-Hellman public value" }),
        }
    }
}

const PROVIDER_UNSUPPORTED: SessionError =
    SessionError::Refused { reason: "not supported by the crypto provider" };

#[cfg(all(test, feature = "crypto"))]
mod tests {
    use super::*;
    use crate::auth::context::auth_context;
    use crate::crypto::SystemRandom;

    fn respond(
        setup: &SessionSetup<'_>,
        version: ProtocolVersion,
    ) -> Result<ServerKeyExchange, SessionError> {
        let envelope = Envelope { suggested_version: version, ..Envelope::new(version) };
        let policy = AuthPolicy::default();
        ServerKeyExchange::new(setup, &envelope, &mut SystemRandom, auth_context!(policy))
    }

    fn propose(group: DhGroup) -> ClientKeyExchange {
        ClientKeyExchange::new(group, &mut SystemRandom, auth_context!()).unwrap()
    }

    #[test]
    fn both_sides_agree() {
        for group in [DhGroup::Modp1024, DhGroup::Modp2048] {
            let proposal = propose(group);
            let identity = ValueReference::new(300, &b"0.NA/10"[..]);
            let response = respond(&proposal.request(Some(&identity), 60), ProtocolVersion::LATEST).unwrap();
            assert_eq!(response.identity.as_ref(), Some(&identity));
            assert_eq!(response.timeout, Duration::from_secs(60));
            let mode = KeyExchangeMode::DIFFIE_HELLMAN;
            let session =
                proposal.derive_session(9, mode, response.response_data(), auth_context!()).unwrap();
            assert_eq!(session.key().as_bytes(), response.key.as_bytes());
        }
    }

    #[test]
    fn server_rejections() {
        let proposal = propose(DhGroup::Modp1024);
        let setup = proposal.request(None, 60);
        let check = |setup: SessionSetup<'_>, version, expected: &'static str| {
            let error = respond(&setup, version).unwrap_err();
            assert_eq!(error, SessionError::Refused { reason: expected });
        };
        assert_eq!(respond(&setup, ProtocolVersion::LATEST).unwrap().identity, None);
        check(setup, ProtocolVersion::new(2, 6), "protocol version below 2.7");
        let mode = KeyExchangeMode::SERVER_RSA;
        check(SessionSetup { mode, ..setup }, ProtocolVersion::LATEST, "key exchange mode not supported");
        let key = SessionKeyMaterial::None;
        check(SessionSetup { key, ..setup }, ProtocolVersion::LATEST, "key exchange mode not supported");
        let key = SessionKeyMaterial::PublicKey(b"\0\0\0\x01x");
        check(SessionSetup { key, ..setup }, ProtocolVersion::LATEST, "malformed public key");
        let identity_handle = Handle::new(&[b'x'; 2049]);
        check(SessionSetup { identity_handle, ..setup }, ProtocolVersion::LATEST, "invalid identity handle");
    }

    #[test]
    fn client_rejections() {
        let server = propose(DhGroup::Modp1024).key_pair.public_key;
        let good = [&[0, 0, 0, 3][..], &server].concat();
        let check = |id, mode, data: &[u8], expected| {
            let accepted = propose(DhGroup::Modp1024).derive_session(id, mode, data, auth_context!());
            assert_eq!(accepted.map(|_| ()), expected);
        };
        let refused = |reason| Err(SessionError::Refused { reason });
        let mode = KeyExchangeMode::DIFFIE_HELLMAN;
        check(1, mode, &good, Ok(()));
        check(0, mode, &good, refused("invalid session id 0"));
        check(1, KeyExchangeMode(1), &good, refused("key exchange mode not supported"));
        check(1, mode, &[&[0, 0, 0, 1][..], &server].concat(), refused("cipher not supported"));
        check(1, mode, &server, refused("cipher not supported"));
        check(1, mode, &[], refused("cipher not supported"));
        check(1, mode, &good[..50], refused("malformed public key"));
        let other = [&[0, 0, 0, 3][..], &propose(DhGroup::Modp2048).key_pair.public_key].concat();
        check(1, mode, &other, refused("Diffie-Hellman group mismatch"));
        let weak = PublicKey::diffie_hellman(&[1], &DhGroup::Modp1024.prime(), &[2]).to_bytes();
        let weak = [&[0, 0, 0, 3][..], &weak].concat();
        check(1, mode, &weak, refused("weak Diffie-Hellman public value"));
    }
}
