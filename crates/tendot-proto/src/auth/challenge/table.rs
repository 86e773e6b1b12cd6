//! Bounded table of outstanding challenges.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::{AUTH_TYPE_PUBLIC_KEY, AUTH_TYPE_SECRET_KEY, Challenge, PublicKeyResponse, SecretKeyResponse};
use crate::auth::AuthContext;
use crate::auth::computed_digest::ComputedDigest;
use crate::auth::error::AuthError;
use crate::crypto::{SecureRandom, unused_id};
use crate::message::{ChallengeResponse, Envelope, MessageParts, ProtocolVersion, RequestDigest};
use crate::now::Now;
use crate::record::HandleValue;

/// Bounded table of outstanding challenges; each is removed before its response is verified.
///
/// So a response never succeeds twice. A full table evicts the oldest challenge.
#[derive(Debug)]
pub struct ChallengeTable {
    limits: ChallengeLimits,
    /// Challenges in order of creation.
    pending: BTreeMap<u64, PendingChallenge>,
    by_id: BTreeMap<u32, u64>,
    next_sequence: u64,
    /// Total bytes of all requests.
    request_bytes: usize,
}

/// Limits of a [`ChallengeTable`]: entries, request bytes, lifetime.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChallengeLimits {
    /// Maximum number of challenges; at least 1.
    pub max_challenges: usize,
    /// Maximum total bytes of their requests.
    pub max_request_bytes: usize,
    /// Lifetime of a challenge.
    pub lifetime: Duration,
}

impl Default for ChallengeLimits {
    fn default() -> Self {
        Self { max_challenges: 10_000, max_request_bytes: 16 << 20, lifetime: Duration::from_secs(20) }
    }
}

/// Outstanding challenge and the request it protects.
pub struct PendingChallenge {
    id: u32,
    version: ProtocolVersion,
    nonce: [u8; 16],
    digest: ComputedDigest,
    request: Vec<u8>,
    created_at: Duration,
}

impl ChallengeTable {
    /// Empty table.
    pub const fn new(limits: ChallengeLimits) -> Self {
        Self { limits, pending: BTreeMap::new(), by_id: BTreeMap::new(), next_sequence: 0, request_bytes: 0 }
    }

    /// Issues a challenge for a request, given as a complete, decrypted message.
    ///
    /// Outside of a session the challenge gets an unpredictable id for which `is_id_in_use` is false, since challenges
    /// and sessions share the id field. In a session, whose request must have been verified, it has the session id; a
    /// repeated request gets the same challenge.
    pub fn issue(
        &mut self,
        request: &[u8],
        now: Now,
        random: &mut dyn SecureRandom,
        context: &mut AuthContext<'_>,
        is_id_in_use: impl Fn(u32) -> bool,
    ) -> Result<&PendingChallenge, AuthError> {
        if request.len() > self.limits.max_request_bytes {
            let (len, max) = (request.len(), self.limits.max_request_bytes);
            return Err(AuthError::RequestTooLarge { len, max });
        }
        let parts = MessageParts::split(request)?;
        let version = parts.envelope.response_version();
        if version < ProtocolVersion::DIGEST_ALGORITHMS
            || version < ProtocolVersion::SHA256 && !context.policy.allow_sha1
        {
            return Err(AuthError::VersionTooOld);
        }
        let digest = ComputedDigest::for_request(parts.header_and_body, version, context)?;
        self.purge_expired(now);
        let session = parts.envelope.session_id;
        if session != 0
            && let Some(repeated) = self.find_repeated(session, parts.envelope.request_id, &digest)
        {
            return self.pending.get(&repeated).ok_or(AuthError::UnknownChallenge);
        }
        self.remove(session);
        while self.pending.len() >= self.limits.max_challenges.max(1)
            || self.request_bytes.saturating_add(request.len()) > self.limits.max_request_bytes
        {
            let Some(oldest) = self.pending.values().next().map(|oldest| oldest.id) else { break };
            self.remove(oldest);
        }
        let mut nonce = [0; 16];
        random.fill(&mut nonce);
        let id = match session {
            0 => unused_id(random, |id| self.contains(id) || is_id_in_use(id)),
            session => session,
        };
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.request_bytes += request.len();
        self.by_id.insert(id, sequence);
        let created_at = now.elapsed;
        let pending = PendingChallenge { id, version, nonce, digest, request: request.to_vec(), created_at };
        Ok(self.pending.entry(sequence).or_insert(pending))
    }

    /// Removes and returns the challenge with this id, for its only response. Expired challenges are not found.
    pub fn consume(&mut self, id: u32, now: Now) -> Result<PendingChallenge, AuthError> {
        self.purge_expired(now);
        self.remove(id).ok_or(AuthError::UnknownChallenge)
    }

    /// Whether there is a challenge with this id.
    pub fn contains(&self, id: u32) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Number of challenges.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Total bytes of all stored requests.
    pub const fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    fn find_repeated(&self, id: u32, request_id: u32, digest: &ComputedDigest) -> Option<u64> {
        let sequence = *self.by_id.get(&id)?;
        let pending = self.pending.get(&sequence)?;
        (pending.envelope()?.request_id == request_id && pending.digest == *digest).then_some(sequence)
    }

    /// Removes expired challenges.
    fn purge_expired(&mut self, now: Now) {
        while let Some(oldest) = self.pending.values().next()
            && now.elapsed.saturating_sub(oldest.created_at) > self.limits.lifetime
        {
            let id = oldest.id;
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u32) -> Option<PendingChallenge> {
        let pending = self.pending.remove(&self.by_id.remove(&id)?)?;
        self.request_bytes -= pending.request.len();
        Some(pending)
    }
}

/// Without the request, which may contain secrets.
impl core::fmt::Debug for PendingChallenge {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "PendingChallenge({}, {} bytes)", self.id, self.request.len())
    }
}

impl PendingChallenge {
    /// Id in the envelope of the challenge and of its response.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Request to execute after a successful response: a complete message.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Nonce and digest that the proof covers.
    pub fn challenge(&self) -> Challenge<'_> {
        Challenge { nonce: &self.nonce, digest: self.digest.as_bytes() }
    }

    /// Digest of the request, as in the challenge.
    pub fn digest(&self) -> RequestDigest<'_> {
        self.digest.as_request_digest()
    }

    /// Verifies a challenge response; returns the index of the matching key.
    ///
    /// `values` are the values of the record that the response names, or empty if there is no such record or it cannot
    /// be resolved; the caller checks first whether that identity has the permission. Only values of the matching type
    /// count, and only the given index if the response has one. A missing key and a wrong key are the same error at
    /// about the same cost.
    pub fn verify(
        &self,
        response: &ChallengeResponse<'_>,
        values: &[HandleValue<'_>],
        context: &mut AuthContext<'_>,
    ) -> Result<u32, AuthError> {
        match response.auth_type {
            AUTH_TYPE_SECRET_KEY => {
                let proof = SecretKeyResponse::from_bytes(response.proof, self.version)?;
                self.challenge().verify_secret_key(&proof, response.key_index, values, context)
            }
            AUTH_TYPE_PUBLIC_KEY => {
                let proof = PublicKeyResponse::from_bytes(response.proof)?;
                self.challenge().verify_public_key(&proof, response.key_index, values, context)
            }
            _ => Err(AuthError::UnknownAuthType),
        }
    }

    fn envelope(&self) -> Option<Envelope> {
        Envelope::from_bytes(&self.request).ok()
    }
}
