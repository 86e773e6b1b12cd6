//! Bounded table of server sessions.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::key_exchange::ServerKeyExchange;
use super::{Session, SessionError, SessionRole, is_challenge_response_without_mac};
use crate::auth::AuthContext;
use crate::crypto::{Digest, SecureRandom, unused_id};
use crate::message::{Envelope, MessageParts};
use crate::now::Now;
use crate::record::ValueReference;

/// Bounded table of server sessions; evicts the least recently used, unauthenticated first.
///
/// Sessions are cheap for an unauthenticated peer to create, so those are evicted first.
#[derive(Debug)]
pub struct SessionTable {
    limits: SessionLimits,
    sessions: BTreeMap<u32, ServerSession>,
    /// Authenticated or not, time of last use, session id.
    eviction_order: BTreeSet<(bool, Duration, u32)>,
}

/// Limits of a [`SessionTable`]: entries, idle timeout and maximum age.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionLimits {
    /// Maximum number of sessions; at least 1.
    pub max_sessions: usize,
    /// Maximum idle time, whatever a client requests.
    pub max_idle: Duration,
    /// Maximum time since session setup, whatever is sent.
    pub max_age: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            max_sessions: 10_000,
            max_idle: Duration::from_secs(3_600),
            max_age: Duration::from_secs(86_400),
        }
    }
}

/// Server session: session state, identity, age and idle time.
#[derive(Debug)]
pub struct ServerSession {
    session: Session,
    identity: Option<ValueReference<'static>>,
    /// Fingerprint of the key that authenticated the session.
    key_fingerprint: Option<Digest>,
    max_idle: Duration,
    max_age: Duration,
    created_at: Duration,
    last_used: Duration,
    /// Number of messages that failed to decrypt.
    decrypt_failures: u32,
}

impl ServerSession {
    /// Number of decryption failures that ends a session.
    const MAX_DECRYPT_FAILURES: u32 = 16;

    /// Session, to send messages.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Identity that the client named at session setup.
    pub fn identity(&self) -> Option<&ValueReference<'static>> {
        self.identity.as_ref()
    }

    /// Authenticated identity, and the fingerprint of its key.
    pub fn authenticated_identity(&self) -> Option<(&ValueReference<'static>, Digest)> {
        Some((self.identity.as_ref()?, self.key_fingerprint?))
    }

    /// Time of session setup, as [`Now::elapsed`].
    pub const fn created_at(&self) -> Duration {
        self.created_at
    }

    /// Time of the last verified message, as [`Now::elapsed`].
    pub const fn last_used(&self) -> Duration {
        self.last_used
    }

    /// Time at which the session expires if it is not used, as [`Now::elapsed`].
    pub fn expires_at(&self) -> Duration {
        let idle = self.last_used.saturating_add(self.max_idle);
        idle.min(self.created_at.saturating_add(self.max_age))
    }

    fn eviction_key(&self) -> (bool, Duration, u32) {
        (self.key_fingerprint.is_some(), self.last_used, self.session.id())
    }

    fn is_expired(&self, now: Now) -> bool {
        now.elapsed > self.expires_at()
    }
}

impl SessionTable {
    /// Empty table.
    pub const fn new(limits: SessionLimits) -> Self {
        Self { limits, sessions: BTreeMap::new(), eviction_order: BTreeSet::new() }
    }

    /// Inserts a new session with an id for which `is_id_in_use` is false: sessions and challenges share the id field.
    pub fn insert(
        &mut self,
        exchange: ServerKeyExchange,
        now: Now,
        random: &mut dyn SecureRandom,
        is_id_in_use: impl Fn(u32) -> bool,
    ) -> u32 {
        while self.sessions.len() >= self.limits.max_sessions.max(1) {
            let Some((_, _, oldest)) = self.eviction_order.first().copied() else { break };
            self.remove(oldest);
        }
        let id = unused_id(random, |id| self.contains(id) || is_id_in_use(id));
        let session = ServerSession {
            session: Session::new(id, SessionRole::Server, exchange.key),
            identity: exchange.identity,
            key_fingerprint: None,
            max_idle: exchange.timeout.min(self.limits.max_idle),
            max_age: self.limits.max_age,
            created_at: now.elapsed,
            last_used: now.elapsed,
            decrypt_failures: 0,
        };
        self.eviction_order.insert(session.eviction_key());
        self.sessions.insert(id, session);
        id
    }

    /// Verifies that a message is authentic and not replayed; resets the idle time of its session.
    ///
    /// A challenge response may lack a MAC while the session `has_pending_challenge`.
    pub fn verify(
        &mut self,
        parts: &MessageParts<'_>,
        has_pending_challenge: bool,
        now: Now,
        context: &mut AuthContext<'_>,
    ) -> Result<&mut ServerSession, SessionError> {
        let id = parts.envelope.session_id;
        let session = self.get_live_mut(id, now)?;
        if !(has_pending_challenge && is_challenge_response_without_mac(parts)) {
            session.session.verify(parts, context)?;
        }
        self.touch(id, now)
    }

    /// Decrypts a message and verifies it. Encrypted messages without a session are rejected undecoded.
    ///
    /// Too many decryption failures end the session: an honest peer does not cause them.
    pub fn open(
        &mut self,
        message: &[u8],
        has_pending_challenge: bool,
        now: Now,
        context: &mut AuthContext<'_>,
    ) -> Result<(Vec<u8>, &mut ServerSession), SessionError> {
        let envelope = Envelope::from_bytes(message).map_err(|_| SessionError::DecryptionFailed)?;
        let session = self.get_live_mut(envelope.session_id, now)?;
        match session.session.open(message, has_pending_challenge, context) {
            Ok(plain) => Ok((plain, self.touch(envelope.session_id, now)?)),
            Err(error) => {
                if error == SessionError::DecryptionFailed {
                    session.decrypt_failures += 1;
                    if session.decrypt_failures >= ServerSession::MAX_DECRYPT_FAILURES {
                        self.remove(envelope.session_id);
                    }
                }
                Err(error)
            }
        }
    }

    /// Session with this id, whose message has been verified or decrypted.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut ServerSession> {
        self.sessions.get_mut(&id)
    }

    /// Marks a session as authenticated by the key with this fingerprint, if the identity is the one named at session setup.
    /// If that was any key of a record, the proven key becomes the identity.
    ///
    /// With each request in the session the caller checks that the record still has the key, and removes the session if not.
    pub fn mark_authenticated(
        &mut self,
        id: u32,
        identity: &ValueReference<'_>,
        key_fingerprint: Digest,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let Some(named) = &mut session.identity else { return false };
        if named.index != 0 && named.index != identity.index || !named.handle().eq_identity(identity.handle())
        {
            return false;
        }
        named.index = identity.index;
        self.eviction_order.remove(&session.eviction_key());
        session.key_fingerprint = Some(key_fingerprint);
        self.eviction_order.insert(session.eviction_key());
        true
    }

    /// Removes a session; returns whether it existed.
    pub fn remove(&mut self, id: u32) -> bool {
        let removed = self.sessions.remove(&id);
        removed.is_some_and(|session| self.eviction_order.remove(&session.eviction_key()))
    }

    /// Whether there is a session with this id.
    pub fn contains(&self, id: u32) -> bool {
        self.sessions.contains_key(&id)
    }

    /// Sessions that are not expired, ordered by id.
    pub fn iter(&self, now: Now) -> impl Iterator<Item = (u32, &ServerSession)> {
        self.sessions
            .iter()
            .filter(move |(_, session)| !session.is_expired(now))
            .map(|(id, session)| (*id, session))
    }

    /// Number of sessions, including expired ones that are not purged yet.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Removes expired sessions. Only frees memory.
    pub fn purge_expired(&mut self, now: Now) {
        let expired: Vec<u32> =
            self.sessions.iter().filter(|(_, session)| session.is_expired(now)).map(|(id, _)| *id).collect();
        for id in expired {
            self.remove(id);
        }
    }

    fn get_live_mut(&mut self, id: u32, now: Now) -> Result<&mut ServerSession, SessionError> {
        if self.sessions.get(&id).is_some_and(|session| session.is_expired(now)) {
            self.remove(id);
        }
        self.sessions.get_mut(&id).ok_or(SessionError::UnknownSession)
    }

    fn touch(&mut self, id: u32, now: Now) -> Result<&mut ServerSession, SessionError> {
        let session = self.sessions.get_mut(&id).ok_or(SessionError::UnknownSession)?;
        self.eviction_order.remove(&session.eviction_key());
        session.last_used = session.last_used.max(now.elapsed);
        self.eviction_order.insert(session.eviction_key());
        Ok(session)
    }
}
