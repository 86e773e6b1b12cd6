use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::error::AuthError;
use super::identifier;
use super::policy::AuthPolicy;
use super::public_key::{self, PublicKeyResponse};
use super::request_digest::ComputedDigest;
use super::secret_key::{SecretKeyMac, SecretKeyResponse};
use crate::crypto::{CryptoProvider, SecureRandom, SigningKey};
use crate::handle::Handle;
use crate::message::{
    DigestAlgorithm, Envelope, Message, MessageBody, MessageParts, ProtocolVersion, Request, RequestDigest,
    Response, ResponseData,
};
use crate::record::{HandleValue, PublicKey};
use crate::time::Now;
use crate::work::Budget;

/// Challenge: nonce and request digest that a proof covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Challenge<'a> {
    /// Chosen by who wants the proof, never twice the same.
    pub nonce: &'a [u8],
    /// The digest of the request's header and body.
    pub digest: &'a [u8],
}

/// The type of a proof by secret key, and of the value where the key is.
const AUTH_TYPE_SECRET_KEY: &[u8] = b"HS_SECKEY";
/// The type of a proof by public key, and of the value where the key is.
const AUTH_TYPE_PUBLIC_KEY: &[u8] = b"HS_PUBKEY";

/// Bounded table of outstanding challenges; each is removed before its response is verified.
///
/// A challenge is taken out before its answer is looked at: the same answer never works twice. When the table is full, the
/// oldest challenge goes.
#[derive(Debug)]
pub struct ChallengeTable {
    limits: ChallengeLimits,
    policy: AuthPolicy,
    /// In the order in which they were made.
    pending: BTreeMap<u64, PendingChallenge>,
    by_id: BTreeMap<u32, u64>,
    next: u64,
    /// Bytes of all requests.
    bytes: usize,
}

/// Limits of a [`ChallengeTable`]: entries, request bytes, lifetime.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChallengeLimits {
    /// Challenges; below 1 it is 1.
    pub capacity: usize,
    /// Bytes of all their requests together.
    pub bytes: usize,
    /// How long an answer is waited for.
    pub life: Duration,
}

impl Default for ChallengeLimits {
    fn default() -> Self {
        Self { capacity: 10_000, bytes: 16 << 20, life: Duration::from_secs(20) }
    }
}

/// Outstanding challenge and the request it protects.
pub struct PendingChallenge {
    id: u32,
    version: ProtocolVersion,
    nonce: [u8; 16],
    digest: ComputedDigest,
    request: Vec<u8>,
    made: Duration,
}

impl ChallengeTable {
    /// An empty table.
    pub const fn new(limits: ChallengeLimits, policy: AuthPolicy) -> Self {
        Self { limits, policy, pending: BTreeMap::new(), by_id: BTreeMap::new(), next: 0, bytes: 0 }
    }

    /// Challenges a request, which is a whole message, decrypted.
    ///
    /// A request outside of a session gets a number that nobody can guess and that `is_taken` does not know, since
    /// sessions have numbers in the same place. A request in a session, which has to have been verified, gets that of
    /// the session; if the same request comes again, so does the challenge.
    pub fn issue(
        &mut self,
        request: &[u8],
        now: Now,
        crypto: &dyn CryptoProvider,
        random: &mut dyn SecureRandom,
        work: &mut Budget,
        is_taken: impl Fn(u32) -> bool,
    ) -> Result<&PendingChallenge, AuthError> {
        if request.len() > self.limits.bytes {
            return Err(AuthError::TooLarge { length: request.len(), limit: self.limits.bytes });
        }
        let parts = MessageParts::split(request)?;
        let version = parts.envelope.response_version();
        if version < ProtocolVersion::DIGEST_ALGORITHMS
            || version < ProtocolVersion::SHA256 && !self.policy.sha1
        {
            return Err(AuthError::TooOld);
        }
        let digest = ComputedDigest::for_request(parts.header_and_body, version, &self.policy, crypto, work)?;
        self.purge_expired(now);
        let session = parts.envelope.session_id;
        if session != 0
            && let Some(again) = self.find_repeated(session, parts.envelope.request_id, &digest)
        {
            return self.pending.get(&again).ok_or(AuthError::NoChallenge);
        }
        self.remove(session);
        while self.pending.len() >= self.limits.capacity.max(1)
            || self.bytes.saturating_add(request.len()) > self.limits.bytes
        {
            let Some(oldest) = self.pending.values().next().map(|oldest| oldest.id) else { break };
            self.remove(oldest);
        }
        let mut nonce = [0; 16];
        random.fill(&mut nonce);
        let id = match session {
            0 => identifier::random_id(random, |id| self.contains(id) || is_taken(id)),
            session => session,
        };
        let sequence = self.next;
        self.next += 1;
        self.bytes += request.len();
        self.by_id.insert(id, sequence);
        let made = now.elapsed;
        let pending = PendingChallenge { id, version, nonce, digest, request: request.to_vec(), made };
        Ok(self.pending.entry(sequence).or_insert(pending))
    }

    /// Takes out the challenge of this number, for its one answer. None is found that is over.
    pub fn consume(&mut self, id: u32, now: Now) -> Result<PendingChallenge, AuthError> {
        self.purge_expired(now);
        self.remove(id).ok_or(AuthError::NoChallenge)
    }

    /// Whether there is a challenge of this number.
    pub fn contains(&self, id: u32) -> bool {
        self.by_id.contains_key(&id)
    }

    /// How many challenges there are.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Bytes of all requests that are kept.
    pub const fn request_bytes(&self) -> usize {
        self.bytes
    }

    fn find_repeated(&self, id: u32, request_id: u32, digest: &ComputedDigest) -> Option<u64> {
        let sequence = *self.by_id.get(&id)?;
        let pending = self.pending.get(&sequence)?;
        (pending.envelope()?.request_id == request_id && pending.digest == *digest).then_some(sequence)
    }

    /// Forgets the challenges that are over.
    fn purge_expired(&mut self, now: Now) {
        while let Some(oldest) = self.pending.values().next()
            && now.elapsed.saturating_sub(oldest.made) > self.limits.life
        {
            let id = oldest.id;
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u32) -> Option<PendingChallenge> {
        let pending = self.pending.remove(&self.by_id.remove(&id)?)?;
        self.bytes -= pending.request.len();
        Some(pending)
    }
}

/// Without the request, which may have secrets in it.
impl core::fmt::Debug for PendingChallenge {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Pending({}, {} bytes)", self.id, self.request.len())
    }
}

impl PendingChallenge {
    /// The number in the envelope of the challenge and of its answer.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// The request that is carried out once the challenge is answered: a whole message.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// What an answer is over.
    pub fn challenge(&self) -> Challenge<'_> {
        Challenge { nonce: &self.nonce, digest: self.digest.as_bytes() }
    }

    /// The digest of the request, as it stands in the challenge.
    pub fn digest(&self) -> RequestDigest<'_> {
        self.digest.as_request_digest()
    }

    /// Whether an answer proves what it claims, and the index of the key by which.
    ///
    /// `values` are those of the record that the answer names, or none if there is no such record or it cannot be had; who
    /// asks is to find out first whether that identity has the right at all. Only values of the type that belongs to the
    /// answer count, and if the answer names an index only that one. That there is no key and that the key does not fit
    /// are the same error at about the same cost.
    pub fn verify(
        &self,
        answer: &ChallengeResponse<'_>,
        values: &[HandleValue<'_>],
        policy: &AuthPolicy,
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<u32, AuthError> {
        match answer.auth_type {
            AUTH_TYPE_SECRET_KEY => {
                let proof = SecretKeyResponse::from_bytes(answer.answer, self.version)?;
                self.challenge().verify_secret_key(&proof, answer.key_index, values, policy, crypto, work)
            }
            AUTH_TYPE_PUBLIC_KEY => {
                let proof = PublicKeyResponse::from_bytes(answer.answer)?;
                self.challenge().verify_public_key(&proof, answer.key_index, values, policy, crypto, work)
            }
            _ => Err(AuthError::UnknownType),
        }
    }

    fn envelope(&self) -> Option<Envelope> {
        Envelope::from_bytes(&self.request).ok()
    }
}

impl Challenge<'_> {
    /// Whether an answer fits a secret key, as other servers ask by opcode 201, and the index of the key.
    pub fn verify_secret_key(
        self,
        answer: &SecretKeyResponse<'_>,
        key_index: u32,
        values: &[HandleValue<'_>],
        policy: &AuthPolicy,
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<u32, AuthError> {
        let mut verify = |secret: &[u8]| answer.verify(secret, self, policy.secret_keys, crypto, work);
        let mut tried = false;
        for value in key_values(values, key_index, AUTH_TYPE_SECRET_KEY) {
            tried = true;
            match verify(&value.data) {
                Ok(()) => return Ok(value.index),
                Err(AuthError::Failed) => {}
                Err(error) => return Err(error),
            }
        }
        if !tried {
            // As long and as strange as the secret that is not there might be.
            verify(&[0xa5; 16]).and(Err(AuthError::Failed))?;
        }
        Err(AuthError::Failed)
    }

    /// Verifies a signature by the public keys among `values`, as [`PendingChallenge::verify`] does.
    pub fn verify_public_key(
        self,
        answer: &PublicKeyResponse<'_>,
        key_index: u32,
        values: &[HandleValue<'_>],
        policy: &AuthPolicy,
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<u32, AuthError> {
        let mut verify = |key: &PublicKey<'_>| answer.verify(key, self, policy, crypto, work);
        let mut tried = false;
        for value in key_values(values, key_index, AUTH_TYPE_PUBLIC_KEY) {
            let Ok(key) = PublicKey::from_bytes(&value.data) else { continue };
            tried = true;
            match verify(&key) {
                Ok(()) => return Ok(value.index),
                Err(AuthError::Failed | AuthError::Crypto(_) | public_key::RSA_KEY_TOO_SHORT) => {}
                Err(error) => return Err(error),
            }
        }
        if !tried {
            // Nobody has the private key of a modulus that is all ones.
            verify(&PublicKey::rsa(&[0xff; 256], &[1, 0, 1])).and(Err(AuthError::Failed))?;
        }
        Err(AuthError::Failed)
    }
}

/// The values that can be the key, in the order of their indexes. A key is one only as what it is stored as: the bytes
/// of a public key are nobody's secret.
fn key_values<'v, 'a>(
    values: &'v [HandleValue<'a>],
    index: u32,
    value_type: &[u8],
) -> Vec<&'v HandleValue<'a>> {
    let fits =
        |value: &&HandleValue<'_>| (index == 0 || value.index == index) && *value.value_type == *value_type;
    let mut values: Vec<_> = values.iter().filter(fits).collect();
    values.sort_by_key(|value| value.index);
    values
}

/// Challenge response (opcode 200): authentication type, key reference and proof.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChallengeResponse<'a> {
    /// `HS_SECKEY` or `HS_PUBKEY`.
    pub auth_type: &'a [u8],
    /// The record where the key is.
    pub key_handle: Handle<'a>,
    /// The key's index; 0 is any.
    pub key_index: u32,
    /// The proof, whose form is that of the type.
    pub answer: &'a [u8],
}

impl<'a> ChallengeResponse<'a> {
    /// The answer in a request, if it is one.
    pub const fn of(request: &Request<'a>) -> Option<Self> {
        match *request {
            Request::ChallengeAnswer { auth_type, key_handle, key_index, answer } => {
                Some(Self { auth_type, key_handle, key_index, answer })
            }
            _ => None,
        }
    }
}

/// Client key for challenge responses: secret key or private key.
#[derive(Clone, Copy)]
pub enum ClientKey<'a> {
    /// The secret that stands in `HS_SECKEY`.
    SecretKey(&'a [u8]),
    /// The private key whose public key stands in `HS_PUBKEY`.
    PrivateKey(&'a dyn SigningKey),
}

impl core::fmt::Debug for ClientKey<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::SecretKey(_) => "SecretKey",
            Self::PrivateKey(_) => "PrivateKey",
        })
    }
}

/// The longest nonce that is signed. Deployed servers send 16 bytes. As long as it is shorter than what stands before the
/// body in a signed message, nobody can make a client sign a message by calling most of it a nonce.
const MAX_NONCE_LEN: usize = 32;

impl ClientKey<'_> {
    /// The authentication type that belongs to the answer.
    pub const fn auth_type(&self) -> &'static [u8] {
        match self {
            Self::SecretKey(_) => AUTH_TYPE_SECRET_KEY,
            Self::PrivateKey(_) => AUTH_TYPE_PUBLIC_KEY,
        }
    }

    /// Answers a challenge, if it is one to the request as it was sent.
    pub fn respond(
        &self,
        request: &MessageParts<'_>,
        challenge: &Message<'_>,
        policy: &AuthPolicy,
        crypto: &dyn CryptoProvider,
        random: &mut dyn SecureRandom,
        work: &mut Budget,
    ) -> Result<Vec<u8>, AuthError> {
        let envelope = &challenge.envelope;
        let MessageBody::Response(Response {
            digest,
            outcome: ResponseData::Challenge { nonce, old_digest },
        }) = challenge.body
        else {
            return Err(AuthError::OtherRequest);
        };
        let old = |bytes| RequestDigest { algorithm: DigestAlgorithm::Untold, bytes };
        let digest = digest.or(old_digest.map(old)).ok_or(AuthError::OtherRequest)?;
        if envelope.request_id != request.envelope.request_id {
            return Err(AuthError::OtherRequest);
        }
        if nonce.len() > MAX_NONCE_LEN {
            return Err(AuthError::Nonce { length: nonce.len(), limit: MAX_NONCE_LEN });
        }
        ComputedDigest::verify(&digest, request.header_and_body, policy, crypto, work)?;
        let version = envelope.version.min(envelope.newest_version());
        let challenge = Challenge { nonce, digest: digest.bytes };
        match self {
            Self::SecretKey(secret) => {
                let algorithm = SecretKeyMac::preferred_for(version);
                if !policy.secret_keys.contains(algorithm) {
                    return Err(AuthError::NotAllowed { algorithm: algorithm.name() });
                }
                SecretKeyResponse::create(algorithm, secret, challenge, crypto, random, work)
            }
            Self::PrivateKey(key) => PublicKeyResponse::create(*key, challenge, version, policy, work),
        }
    }
}
