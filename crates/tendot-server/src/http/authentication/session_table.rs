//! Bounded table of HTTP sessions.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use tendot_proto::crypto::{AwsLcProvider, CryptoProvider as _, HashAlgorithm};

use crate::authenticated_key::AuthenticatedKey;
use crate::http::authentication::AuthenticationError;
use crate::http::authentication::auth_params::encode_base64;
use crate::random::random_bytes;
use crate::session_info::SessionInfo;

/// Maximum number of sessions, and of authenticated ones; the rest is for unauthenticated sessions.
const MAX_SESSIONS: usize = 10_000;
const MAX_AUTHENTICATED_SESSIONS: usize = 8_000;

/// Maximum number of sessions per identity.
const MAX_SESSIONS_PER_IDENTITY: usize = 100;

/// Idle timeout, as in Handle.Net, and maximum lifetime.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const MAX_SESSION_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Answers stored per nonce to reject replays; then the nonce is replaced.
const MAX_ANSWERS_PER_NONCE: usize = 32;

/// Random 128-bit session id; redacted in `Debug`.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct HttpSessionId([u8; 16]);

impl HttpSessionId {
    /// Id for the operator: a hash, since the session id itself is a credential.
    fn to_public_id(self) -> String {
        let hash = AwsLcProvider.hash(HashAlgorithm::Sha256, &[&self.0]).ok();
        let hash = hash.as_deref().and_then(|hash| hash.first_chunk::<8>()).copied().unwrap_or_default();
        format!("http-{}", HEXLOWER.encode(&hash))
    }
}

impl FromStr for HttpSessionId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(())
    }
}

impl fmt::Display for HttpSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// Redacted: a session id is a credential.
impl fmt::Debug for HttpSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpSessionId")
    }
}

/// Snapshot of a session.
#[derive(Clone, Debug)]
pub(crate) struct HttpSession {
    pub(crate) id: HttpSessionId,
    pub(crate) nonce: [u8; 16],
    pub(crate) authenticated: Option<AuthenticatedKey>,
}

impl HttpSession {
    /// Nonce as sent to clients, Base64.
    pub(crate) fn nonce_base64(&self) -> String {
        encode_base64(&self.nonce)
    }
}

/// Stored session with its used client nonces and timestamps.
#[derive(Debug)]
struct SessionEntry {
    session: HttpSession,
    /// Hashes of client nonces already used with the session's nonce.
    used_cnonces: Vec<u64>,
    created_at: Instant,
    last_used: Instant,
}

impl SessionEntry {
    fn is_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last_used) > IDLE_TIMEOUT
            || now.saturating_duration_since(self.created_at) > MAX_SESSION_AGE
    }

    /// Session for the operator; `None` if it is not authenticated.
    fn to_info(&self, now: Instant) -> Option<SessionInfo> {
        let (age, idle) =
            (now.saturating_duration_since(self.created_at), now.saturating_duration_since(self.last_used));
        Some(SessionInfo {
            id: self.session.id.to_public_id(),
            protocol: "http",
            identity: self.session.authenticated.as_ref()?.identity.to_string(),
            age,
            idle,
            remaining: IDLE_TIMEOUT.saturating_sub(idle).min(MAX_SESSION_AGE.saturating_sub(age)),
        })
    }

    const fn last_use(&self) -> (Instant, HttpSessionId) {
        (self.last_used, self.session.id)
    }
}

/// Bounded table of sessions; unauthenticated sessions are evicted first.
///
/// When the table is full, the least recently used session is evicted, unauthenticated ones first: creating them costs an
/// attacker little. No identity can have so many sessions that others have none.
#[derive(Debug, Default)]
pub(crate) struct HttpSessionTable {
    indexes: Mutex<SessionIndexes>,
    hash: RandomState,
}

/// Sessions by id, by last use, and their number per identity.
#[derive(Debug, Default)]
struct SessionIndexes {
    sessions: HashMap<HttpSessionId, SessionEntry>,
    /// Sessions by time of last use: unauthenticated and authenticated ones.
    unauthenticated: BTreeSet<(Instant, HttpSessionId)>,
    authenticated: BTreeSet<(Instant, HttpSessionId)>,
    /// Number of sessions per identity.
    per_identity: HashMap<String, usize>,
}

impl HttpSessionTable {
    /// Creates a session.
    pub(crate) fn create(&self, now: Instant) -> HttpSession {
        let session =
            HttpSession { id: HttpSessionId(random_bytes()), nonce: random_bytes(), authenticated: None };
        let mut indexes = self.lock();
        indexes.purge_expired(now);
        while indexes.sessions.len() >= MAX_SESSIONS {
            let Some((_, oldest)) =
                indexes.unauthenticated.first().or(indexes.authenticated.first()).copied()
            else {
                break;
            };
            indexes.remove(oldest);
        }
        let entry = SessionEntry {
            session: session.clone(),
            used_cnonces: Vec::new(),
            created_at: now,
            last_used: now,
        };
        indexes.insert(entry);
        session
    }

    /// Looks up a session, and marks it as used.
    pub(crate) fn get(&self, id: HttpSessionId, now: Instant) -> Option<HttpSession> {
        let mut indexes = self.lock();
        if indexes.sessions.get(&id)?.is_expired(now) {
            indexes.remove(id);
            return None;
        }
        indexes.update(id, |entry| {
            entry.last_used = now;
            entry.session.clone()
        })
    }

    /// Authenticates a session. The same answer is not accepted again.
    pub(crate) fn authenticate(
        &self,
        session: &HttpSession,
        cnonce: &[u8],
        authenticated: AuthenticatedKey,
        now: Instant,
    ) -> Result<(), AuthenticationError> {
        let answer = self.hash.hash_one(cnonce);
        let next_nonce = random_bytes();
        let mut indexes = self.lock();
        let result = indexes.mark_authenticated(session.id, |entry| {
            if entry.session.nonce != session.nonce || entry.used_cnonces.contains(&answer) {
                return Err(AuthenticationError::Replayed);
            }
            entry.used_cnonces.push(answer);
            if entry.used_cnonces.len() >= MAX_ANSWERS_PER_NONCE {
                entry.used_cnonces.clear();
                entry.session.nonce = next_nonce;
            }
            entry.session.authenticated = Some(authenticated);
            entry.last_used = now;
            Ok(())
        });
        result.unwrap_or(Err(AuthenticationError::NoSession))
    }

    /// Authenticates a new session for an identity that was verified otherwise.
    pub(crate) fn authenticate_new(&self, session: &HttpSession, authenticated: AuthenticatedKey) {
        self.lock().mark_authenticated(session.id, |entry| entry.session.authenticated = Some(authenticated));
    }

    /// Gives a session a new id at login: a client that knew the old one is not logged in (session fixation). The old id is unknown
    /// from now on.
    pub(crate) fn renew_id(&self, id: HttpSessionId) -> Option<HttpSessionId> {
        let new_id = HttpSessionId(random_bytes());
        let mut indexes = self.lock();
        let mut entry = indexes.remove(id)?;
        entry.session.id = new_id;
        indexes.insert(entry);
        Some(new_id)
    }

    /// Removes a session; returns whether it existed.
    pub(crate) fn remove(&self, id: HttpSessionId) -> bool {
        self.lock().remove(id).is_some()
    }

    /// Authenticated sessions, for the operator.
    pub(crate) fn authenticated(&self, now: Instant) -> Vec<SessionInfo> {
        let indexes = self.lock();
        let entries = indexes.authenticated.iter().filter_map(|(_, id)| indexes.sessions.get(id));
        entries.filter(|entry| !entry.is_expired(now)).filter_map(|entry| entry.to_info(now)).collect()
    }

    /// Ends the authenticated session with this id of [`authenticated`](Self::authenticated); returns whether it existed.
    pub(crate) fn end(&self, public_id: &str) -> bool {
        let mut indexes = self.lock();
        let mut ids = indexes.authenticated.iter().map(|(_, id)| *id);
        let found = ids.find(|id| id.to_public_id() == public_id);
        found.is_some_and(|id| indexes.remove(id).is_some())
    }

    fn lock(&self) -> MutexGuard<'_, SessionIndexes> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionIndexes {
    fn insert(&mut self, entry: SessionEntry) {
        match &entry.session.authenticated {
            None => drop(self.unauthenticated.insert(entry.last_use())),
            Some(authenticated) => {
                self.authenticated.insert(entry.last_use());
                *self.per_identity.entry(authenticated.account()).or_default() += 1;
            }
        }
        self.sessions.insert(entry.session.id, entry);
    }

    fn remove(&mut self, id: HttpSessionId) -> Option<SessionEntry> {
        let entry = self.sessions.remove(&id)?;
        self.unauthenticated.remove(&entry.last_use());
        self.authenticated.remove(&entry.last_use());
        if let Some(authenticated) = &entry.session.authenticated
            && let Entry::Occupied(mut number) = self.per_identity.entry(authenticated.account())
        {
            *number.get_mut() -= 1;
            if *number.get() == 0 {
                number.remove();
            }
        }
        Some(entry)
    }

    fn update<T>(&mut self, id: HttpSessionId, change: impl FnOnce(&mut SessionEntry) -> T) -> Option<T> {
        let mut entry = self.remove(id)?;
        let result = change(&mut entry);
        self.insert(entry);
        Some(result)
    }

    /// Removes expired sessions.
    fn purge_expired(&mut self, now: Instant) {
        let is_idle =
            |(used, _): &(Instant, HttpSessionId)| now.saturating_duration_since(*used) > IDLE_TIMEOUT;
        loop {
            let idle = self.unauthenticated.first().copied().filter(is_idle);
            let Some((_, id)) = idle.or_else(|| self.authenticated.first().copied().filter(is_idle)) else {
                return;
            };
            self.remove(id);
        }
    }

    /// Marks a session as authenticated. Evicts the oldest session of the identity, or of all, if there are too many.
    fn mark_authenticated<T>(
        &mut self,
        id: HttpSessionId,
        change: impl FnOnce(&mut SessionEntry) -> T,
    ) -> Option<T> {
        let result = self.update(id, change)?;
        let account_of =
            |id: &HttpSessionId| Some(self.sessions.get(id)?.session.authenticated.as_ref()?.account());
        let account = account_of(&id)?;
        let has_too_many =
            self.per_identity.get(&account).is_some_and(|number| *number > MAX_SESSIONS_PER_IDENTITY);
        let mut oldest = self.authenticated.iter().map(|(_, id)| *id);
        if has_too_many
            && let Some(oldest_of_identity) = oldest.find(|id| account_of(id).as_ref() == Some(&account))
        {
            self.remove(oldest_of_identity);
        } else if self.authenticated.len() > MAX_AUTHENTICATED_SESSIONS
            && let Some(oldest) = oldest.next()
        {
            self.remove(oldest);
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use tendot_proto::{HandleValue, ValueReference};

    use super::*;

    fn authenticated_key() -> AuthenticatedKey {
        AuthenticatedKey::new(
            &ValueReference::parse("300:0.NA/10.1"),
            &HandleValue::new(300, "HS_SECKEY", "secret"),
        )
        .unwrap()
    }

    #[test]
    fn session_ids() {
        let sessions = HttpSessionTable::default();
        let session = sessions.create(Instant::now());
        assert_eq!(session.id.to_string().parse(), Ok(session.id));
        assert_eq!(format!("{:?}", session.id), "HttpSessionId");
        for invalid in ["", "unknown", "ff", &"F".repeat(32), &"0".repeat(34)] {
            assert_eq!(invalid.parse::<HttpSessionId>(), Err(()), "{invalid}");
        }
        assert!(sessions.get(HttpSessionId([0; 16]), Instant::now()).is_none());
        assert!(sessions.remove(session.id) && !sessions.remove(session.id));
        assert!(sessions.get(session.id, Instant::now()).is_none());
    }

    #[test]
    fn expiry() {
        let (sessions, start) = (HttpSessionTable::default(), Instant::now());
        let after = |minutes: u64| start + Duration::from_secs(60 * minutes);
        let id = sessions.create(start).id;
        assert!((1..=48).all(|half_hours| sessions.get(id, after(30 * half_hours)).is_some()));
        // The maximum lifetime is over, in spite of steady use.
        assert!(sessions.get(id, after(24 * 60 + 1)).is_none());
        let id = sessions.create(start).id;
        assert!(sessions.get(id, after(31)).is_none());
        let mut indexes = sessions.lock();
        assert!(
            indexes.sessions.is_empty()
                && indexes.unauthenticated.is_empty()
                && indexes.authenticated.is_empty()
        );
        drop(indexes);
        // Idle sessions are removed, too.
        let known = sessions.create(start);
        sessions.authenticate_new(&known, authenticated_key());
        sessions.create(start);
        sessions.create(after(31));
        indexes = sessions.lock();
        assert_eq!(
            (indexes.sessions.len(), indexes.unauthenticated.len(), indexes.authenticated.len()),
            (1, 1, 0)
        );
    }

    /// A hundred thousand unauthenticated sessions: authenticated ones survive, and memory is bounded.
    #[test]
    fn attack_a12_many_sessions() {
        let (sessions, start) = (HttpSessionTable::default(), Instant::now());
        let known = sessions.create(start);
        sessions.authenticate(&known, b"cnonce", authenticated_key(), start).unwrap();
        let first = sessions.create(start);
        for number in 0..100_000 {
            sessions.create(start + Duration::from_millis(number));
        }
        let indexes = sessions.lock();
        assert_eq!(
            (indexes.sessions.len(), indexes.unauthenticated.len(), indexes.authenticated.len()),
            (MAX_SESSIONS, MAX_SESSIONS - 1, 1)
        );
        drop(indexes);
        assert!(sessions.get(known.id, start).is_some_and(|session| session.authenticated.is_some()));
        assert!(sessions.get(first.id, start).is_none());
    }

    /// One identity creates as many sessions as it can, and so do many others: another identity still gets one.
    #[test]
    fn attack_a12_many_sessions_of_one_identity() {
        let (sessions, now) = (HttpSessionTable::default(), Instant::now());
        let open = |handle: &str| {
            let key = HandleValue::new(300, "HS_SECKEY", "secret");
            let session = sessions.create(now);
            sessions.authenticate_new(
                &session,
                AuthenticatedKey::new(&ValueReference::new(300, handle.as_bytes()), &key).unwrap(),
            );
            session.id
        };
        let other = open("0.NA/10.2");
        // Spellings of a handle do not count apart.
        for number in 0..1_000 {
            open(["0.NA/10.1", "0.na/10.1", "10.1"][number % 3]);
        }
        assert_eq!(sessions.lock().authenticated.len(), 1 + MAX_SESSIONS_PER_IDENTITY);
        assert!(sessions.get(other, now).is_some());
        for number in 0..MAX_AUTHENTICATED_SESSIONS {
            open(&format!("10.1/{number}"));
        }
        assert_eq!(sessions.lock().authenticated.len(), MAX_AUTHENTICATED_SESSIONS);
        let unauthenticated: Vec<_> = (0..1_000).map(|_| sessions.create(now).id).collect();
        assert!(unauthenticated.into_iter().all(|id| sessions.get(id, now).is_some()));
    }

    #[test]
    fn attack_a1_answers_are_single_use() {
        let (sessions, now) = (HttpSessionTable::default(), Instant::now());
        let session = sessions.create(now);
        let answer = |cnonce: &[u8]| sessions.authenticate(&session, cnonce, authenticated_key(), now);
        for number in 0..u8::try_from(MAX_ANSWERS_PER_NONCE).unwrap() {
            assert_eq!(answer(&[number]), Ok(()));
            assert_eq!(answer(&[number]), Err(AuthenticationError::Replayed));
        }
        // The nonce was replaced; old answers are invalid.
        assert_ne!(sessions.get(session.id, now).unwrap().nonce, session.nonce);
        assert_eq!(answer(b"new"), Err(AuthenticationError::Replayed));
        sessions.remove(session.id);
        assert_eq!(answer(b"new"), Err(AuthenticationError::NoSession));
    }
}
