use alloc::vec::Vec;
use core::time::Duration;

use zeroize::Zeroizing;

use super::credential::verify_signature;
use super::group::{GENERATOR, Group};
use super::policy::Policy;
use super::price;
use super::request_digest::ComputedDigest;
use super::session::{Session, SessionError, SessionKey, Side};
use crate::crypto::{Crypto, Random};
use crate::handle::Handle;
use crate::limits;
use crate::message::{
    Body, DigestAlgorithm, Envelope, KeyExchangeMode, Message, Outcome, Parts, Response, SessionKeyMaterial,
    SessionSetup, Version,
};
use crate::record::{KeyComponents, PublicKey, Reference};
use crate::wire::{Reader, Writer};
use crate::work::Work;

/// The number of AES in the answer to a request for a session; 1 and 2 are DES.
const AES: u32 = 3;

/// A client's request for a session by Diffie-Hellman, and the secret that belongs to it.
///
/// ```
/// use tendot_proto::Work;
/// use tendot_proto::auth::{Group, ClientKeyExchange};
/// use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
///
/// let proposal = ClientKeyExchange::new(Group::Modp2048, &AwsLcProvider, &mut SystemRandom, &mut { Work::PER_REQUEST })?;
/// let setup = proposal.setup(None, 86_400);
/// assert_eq!(setup.mode.0, 4);
/// # Ok::<(), tendot_proto::auth::SessionError>(())
/// ```
#[derive(Debug)]
pub struct ClientKeyExchange {
    half: DhKeyPair,
}

impl ClientKeyExchange {
    /// Chooses a secret.
    pub fn new(
        group: Group,
        crypto: &dyn Crypto,
        random: &mut dyn Random,
        work: &mut Work,
    ) -> Result<Self, SessionError> {
        Ok(Self { half: DhKeyPair::new(group, crypto, random, work)? })
    }

    /// What is to be sent. `identity` is who will authenticate in the session; `timeout` is in seconds.
    ///
    /// The request has to have the flags `CERTIFY` and `REQUEST_DIGEST`: see [`accept`](Self::accept).
    pub fn setup<'a>(&'a self, identity: Option<&'a Reference<'_>>, timeout: u32) -> SessionSetup<'a> {
        SessionSetup {
            mode: KeyExchangeMode::DIFFIE_HELLMAN,
            timeout,
            identity_handle: identity.map_or(Handle::new(&[]), Reference::handle),
            identity_index: identity.map_or(SessionSetup::ANONYMOUS, |identity| identity.index),
            key: SessionKeyMaterial::PublicKey(&self.half.public_key),
        }
    }

    /// Takes what the server answered to the request as it was sent.
    ///
    /// The answer has to be signed by the server, or anybody could be at the other end; and it has to have the digest of
    /// the request, or somebody between could have put a key of theirs in the place of ours.
    pub fn accept(
        self,
        request: &Parts<'_>,
        response: &Parts<'_>,
        server_key: &PublicKey<'_>,
        policy: &Policy,
        crypto: &dyn Crypto,
        work: &mut Work,
    ) -> Result<Session, SessionError> {
        let refuse = |what| Err(SessionError::Refused { what });
        verify_signature(response, server_key, policy, crypto, work)?;
        let Ok(message) = Message::from_parts(response) else { return refuse("a malformed answer") };
        let Body::Response(Response { digest: Some(digest), outcome: Outcome::Session { mode, data } }) =
            message.body
        else {
            return refuse("an answer that is not bound to the request");
        };
        if digest.algorithm != DigestAlgorithm::Sha256
            || ComputedDigest::check(&digest, request.header_and_body, policy, crypto, work).is_err()
        {
            return refuse("an answer to another request");
        }
        self.agree(response.envelope.session_id, mode, data, crypto, work)
    }

    fn agree(
        self,
        session_id: u32,
        mode: KeyExchangeMode,
        data: &[u8],
        crypto: &dyn Crypto,
        work: &mut Work,
    ) -> Result<Session, SessionError> {
        let refuse = |what| Err(SessionError::Refused { what });
        if mode != KeyExchangeMode::DIFFIE_HELLMAN {
            return refuse("a key exchange other than Diffie-Hellman");
        }
        if session_id == 0 {
            return refuse("the number 0");
        }
        let mut reader = Reader::new(data);
        match reader.u32("session cipher") {
            Ok(AES) => {}
            _ => return refuse("a cipher other than AES"),
        }
        let Ok(theirs) = PublicKey::from_bytes(reader.rest()) else { return refuse("a malformed key") };
        let any = Policy { group_1024: true, ..Policy::default() };
        if Group::of(theirs.kind(), &any) != Some(self.half.group) {
            return refuse("another group than was proposed");
        }
        Ok(Session::new(session_id, Side::Client, self.half.agree(&theirs, crypto, work)?))
    }
}

/// A server's answer to a request for a session, before it has a number.
#[derive(Debug)]
pub struct ServerKeyExchange {
    pub(super) key: SessionKey,
    pub(super) identity: Option<Reference<'static>>,
    pub(super) timeout: Duration,
    data: Vec<u8>,
}

impl ServerKeyExchange {
    /// Answers a request that came in this envelope.
    ///
    /// Only Diffie-Hellman in a [`Group`], with AES, and from version 2.7 on: what was before has no sound MAC.
    pub fn new(
        setup: &SessionSetup<'_>,
        envelope: &Envelope,
        policy: &Policy,
        crypto: &dyn Crypto,
        random: &mut dyn Random,
        work: &mut Work,
    ) -> Result<Self, SessionError> {
        let refuse = |what| Err(SessionError::Refused { what });
        if envelope.response_version() < Version::SHA256 {
            return refuse("a version below 2.7");
        }
        let (KeyExchangeMode::DIFFIE_HELLMAN, SessionKeyMaterial::PublicKey(key)) = (setup.mode, setup.key)
        else {
            return refuse("a key exchange other than Diffie-Hellman");
        };
        if setup.identity_handle.as_bytes().len() > limits::HANDLE {
            return refuse("an identity that is no handle");
        }
        let Ok(theirs) = PublicKey::from_bytes(key) else { return refuse("a malformed key") };
        let Some(group) = Group::of(theirs.kind(), policy) else { return refuse("this group") };
        group.check(&theirs)?;
        let half = DhKeyPair::new(group, crypto, random, work)?;
        let mut data = Vec::new();
        let mut writer = Writer::new(&mut data);
        writer.u32(AES);
        writer.raw(&half.public_key);
        let anonymous = setup.identity_index == SessionSetup::ANONYMOUS;
        let identity = Reference::new(setup.identity_index, setup.identity_handle.as_bytes());
        Ok(Self {
            key: half.agree(&theirs, crypto, work)?,
            identity: (!anonymous).then(|| identity.into_owned()),
            timeout: Duration::from_secs(u64::from(setup.timeout)),
            data,
        })
    }

    /// What belongs into [`Outcome::Session`](crate::Outcome::Session).
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

/// One half of an exchange.
#[derive(Debug)]
struct DhKeyPair {
    group: Group,
    secret: Secret,
    /// As it is sent.
    public_key: Vec<u8>,
}

/// 512 bits: twice the strength of the largest group and more.
struct Secret(Zeroizing<[u8; 64]>);

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

impl DhKeyPair {
    fn new(
        group: Group,
        crypto: &dyn Crypto,
        random: &mut dyn Random,
        work: &mut Work,
    ) -> Result<Self, SessionError> {
        let prime = group.prime();
        work.spend(price::power(prime.len()))?;
        let mut secret = Secret(Zeroizing::new([0; 64]));
        random.fill(&mut *secret.0);
        let y = crypto.power(GENERATOR, &*secret.0, &prime).map_err(|_| PROVIDER_UNSUPPORTED)?;
        let public_key = PublicKey::diffie_hellman(&y, &prime, GENERATOR).to_bytes();
        Ok(Self { group, secret, public_key })
    }

    fn agree(
        &self,
        theirs: &PublicKey<'_>,
        crypto: &dyn Crypto,
        work: &mut Work,
    ) -> Result<SessionKey, SessionError> {
        self.group.check(theirs)?;
        let KeyComponents::DiffieHellman { y, .. } = theirs.kind() else { return Err(PROVIDER_UNSUPPORTED) };
        let prime = self.group.prime();
        work.spend(price::power(prime.len()))?;
        let shared = crypto.power(y, &*self.secret.0, &prime).map_err(|_| PROVIDER_UNSUPPORTED)?;
        SessionKey::from_shared(&Zeroizing::new(shared)).ok_or(PROVIDER_UNSUPPORTED)
    }
}

impl Group {
    fn check(self, key: &PublicKey<'_>) -> Result<(), SessionError> {
        match key.kind() {
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

    fn answer(setup: &SessionSetup<'_>, version: Version) -> Result<ServerKeyExchange, SessionError> {
        let envelope = Envelope { suggestion: version, ..Envelope::new(version) };
        let policy = Policy::default();
        ServerKeyExchange::new(setup, &envelope, &policy, &AwsLcProvider, &mut SystemRandom, &mut { Work::PER_REQUEST })
    }

    fn propose(group: Group) -> ClientKeyExchange {
        ClientKeyExchange::new(group, &AwsLcProvider, &mut SystemRandom, &mut { Work::PER_REQUEST }).unwrap()
    }

    #[test]
    fn both_sides_agree() {
        for group in [Group::Modp1024, Group::Modp2048] {
            let proposal = propose(group);
            let identity = Reference::new(300, &b"0.NA/10"[..]);
            let answer = answer(&proposal.setup(Some(&identity), 60), Version::OURS).unwrap();
            assert_eq!(answer.identity.as_ref(), Some(&identity));
            assert_eq!(answer.timeout, Duration::from_secs(60));
            let mode = KeyExchangeMode::DIFFIE_HELLMAN;
            let session = proposal.agree(9, mode, answer.data(), &AwsLcProvider, &mut { Work::PER_REQUEST }).unwrap();
            assert_eq!(session.key().as_bytes(), answer.key.as_bytes());
        }
    }

    #[test]
    fn what_a_server_refuses() {
        let proposal = propose(Group::Modp1024);
        let setup = proposal.setup(None, 60);
        let check = |setup: SessionSetup<'_>, version, expected: &'static str| {
            let error = answer(&setup, version).unwrap_err();
            assert_eq!(error, SessionError::Refused { what: expected });
        };
        assert_eq!(answer(&setup, Version::OURS).unwrap().identity, None);
        check(setup, Version::new(2, 6), "a version below 2.7");
        let mode = KeyExchangeMode::SERVER_RSA;
        check(SessionSetup { mode, ..setup }, Version::OURS, "a key exchange other than Diffie-Hellman");
        let key = SessionKeyMaterial::None;
        check(SessionSetup { key, ..setup }, Version::OURS, "a key exchange other than Diffie-Hellman");
        let key = SessionKeyMaterial::PublicKey(b"\0\0\0\x01x");
        check(SessionSetup { key, ..setup }, Version::OURS, "a malformed key");
        let identity_handle = Handle::new(&[b'x'; 2049]);
        check(SessionSetup { identity_handle, ..setup }, Version::OURS, "an identity that is no handle");
    }

    #[test]
    fn what_a_client_refuses() {
        let server = propose(Group::Modp1024).half.public_key;
        let good = [&[0, 0, 0, 3][..], &server].concat();
        let check = |id, mode, data: &[u8], expected| {
            let accepted = propose(Group::Modp1024).agree(id, mode, data, &AwsLcProvider, &mut { Work::PER_REQUEST });
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
        let other = [&[0, 0, 0, 3][..], &propose(Group::Modp2048).half.public_key].concat();
        check(1, mode, &other, refused("another group than was proposed"));
        let one = PublicKey::diffie_hellman(&[1], &Group::Modp1024.prime(), &[2]).to_bytes();
        let one = [&[0, 0, 0, 3][..], &one].concat();
        check(1, mode, &one, refused("a public value that gives away the key"));
    }
}
