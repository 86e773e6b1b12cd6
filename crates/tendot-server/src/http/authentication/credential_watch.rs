//! Ends long-running responses when their credentials expire or are revoked.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use subtle::ConstantTimeEq as _;
use tendot_proto::{Budget, ValueReference};
use tendot_registry::{Error, Registry};
use tokio::time::sleep;

use crate::authenticated_key::AuthenticatedKey;
use crate::clock::to_unix_seconds;
use crate::http::REQUEST_BUDGET;
use crate::http::authentication::key_proof::verify_secret_at_peer;
use crate::http::authentication::{HttpSessionId, HttpSessionTable};
use crate::http::server::x509::CertificateSubject;

/// Interval between checks of local credentials.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between checks of keys that another server verifies.
const PEER_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Token of the operator; it can be replaced.
pub(in crate::http) type OperatorToken = Arc<RwLock<Option<Box<str>>>>;

/// Credential that a request was authenticated with.
#[derive(Clone)]
pub(crate) enum UsedCredential {
    None,
    /// Token of the operator or of a party.
    Token(Arc<str>),
    /// Key, by its secret.
    Key(AuthenticatedKey),
    /// Key, by a client certificate, which expires.
    Certificate(AuthenticatedKey, Arc<[u8]>),
    /// Secret of a key at another server of the site.
    PeerKey(ValueReference<'static>, Arc<[u8]>),
    /// Session, and the key that authenticated it.
    Session(HttpSessionId, AuthenticatedKey),
}

/// Omits tokens and secrets.
impl fmt::Debug for UsedCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsedCredential")
    }
}

/// Watches a credential until it is no longer valid.
pub(crate) struct CredentialWatch {
    pub(super) registry: Arc<Registry>,
    pub(super) operator_token: OperatorToken,
    pub(super) sessions: Arc<HttpSessionTable>,
    pub(super) credential: UsedCredential,
}

impl CredentialWatch {
    /// Completes when the credential is replaced, revoked or expired; never without one.
    pub(crate) async fn wait_invalid(&self) {
        let interval = match &self.credential {
            UsedCredential::None => return pending().await,
            UsedCredential::PeerKey(..) => PEER_CHECK_INTERVAL,
            _ => CHECK_INTERVAL,
        };
        loop {
            sleep(interval).await;
            if !self.is_valid(Instant::now()).await {
                return;
            }
        }
    }

    /// Whether the credential is still valid; assumed while the store cannot be read, or another server of the site does not answer.
    async fn is_valid(&self, now: Instant) -> bool {
        match &self.credential {
            UsedCredential::None => true,
            UsedCredential::Token(token) => {
                is_operator_token(&self.operator_token, token) || self.is_party_token(token).await
            }
            UsedCredential::Key(key) => self.is_key_current(key).await,
            UsedCredential::Certificate(key, certificate) => {
                let now = to_unix_seconds(SystemTime::now());
                let subject = CertificateSubject::parse(certificate);
                subject.is_some_and(|subject| subject.is_valid_at(now)) && self.is_key_current(key).await
            }
            UsedCredential::PeerKey(claim, secret) => {
                match verify_secret_at_peer(&self.registry, claim, secret).await {
                    Ok(is_valid) => is_valid,
                    Err(error) => is_outage(&error),
                }
            }
            UsedCredential::Session(id, key) => {
                // The response uses the session, which is not idle meanwhile.
                let session = self.sessions.get(*id, now);
                let is_same =
                    session.and_then(|session| session.authenticated).is_some_and(|now| now == *key);
                is_same && self.is_key_current(key).await
            }
        }
    }

    async fn is_party_token(&self, token: &str) -> bool {
        let budget = &mut Budget::new(REQUEST_BUDGET);
        let found = self.registry.authenticate_token(token, self.registry.now_ms(), budget).await;
        found.map_or(true, |identity| identity.is_some())
    }

    async fn is_key_current(&self, key: &AuthenticatedKey) -> bool {
        is_key_current(&self.registry, key).await
    }
}

/// Whether this is the operator's token.
pub(super) fn is_operator_token(operator_token: &OperatorToken, token: &str) -> bool {
    let operator_token = operator_token.read().unwrap_or_else(PoisonError::into_inner);
    operator_token.as_ref().is_some_and(|own| bool::from(own.as_bytes().ct_eq(token.as_bytes())))
}

/// Whether the record still has the key; assumed while the record cannot be read.
pub(super) async fn is_key_current(registry: &Registry, authenticated: &AuthenticatedKey) -> bool {
    match authenticated.is_current(registry, &mut Budget::new(REQUEST_BUDGET)).await {
        Ok(is_current) => is_current,
        Err(error) => is_outage(&error),
    }
}

/// Whether the store or another server of the site failed, which says nothing about a credential.
const fn is_outage(error: &Error) -> bool {
    matches!(error, Error::Store(_) | Error::SitePeer { .. })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use data_encoding::BASE64;
    use http::{HeaderMap, Version};
    use tendot_proto::auth::Challenge;
    use tendot_proto::record::HashOption;
    use tendot_proto::{Handle, HandleValue, ValuePermissions};
    use tendot_registry::{HashPartition, PeerFuture, RegistrySettings, SitePeers};
    use tendot_store::{ChangeSet, Edit, MemoryStore, Precondition, Store as _};
    use tendot_testing::block_on;

    use super::*;
    use crate::http::authentication::{AuthenticationCell, AuthenticationError, Authenticator};
    use crate::http::pages::ServiceIdentity;
    use crate::http::request::request_head::RequestHead;

    const NAME: &str = "10.1/ADMIN";
    const MINUTE: Duration = Duration::from_secs(60);

    /// Other server of the site, and whether it accepts secrets; `None` if it does not answer.
    #[derive(Debug, Default)]
    struct TestPeer(Mutex<Option<bool>>);

    impl TestPeer {
        fn set(&self, is_valid: Option<bool>) {
            *self.0.lock().unwrap() = is_valid;
        }
    }

    impl SitePeers for TestPeer {
        fn public_values<'a>(
            &'a self,
            _: &'a str,
            _: &'a mut Budget,
        ) -> PeerFuture<'a, Option<Vec<HandleValue<'static>>>> {
            Box::pin(async { Ok(None) })
        }

        fn verify_secret<'a>(
            &'a self,
            _: &'a ValueReference<'a>,
            _: Challenge<'a>,
            _: &'a [u8],
            _: &'a mut Budget,
        ) -> PeerFuture<'a, bool> {
            let is_valid = *self.0.lock().unwrap();
            Box::pin(async move { is_valid.ok_or_else(|| Error::SitePeer { reason: "timeout".into() }) })
        }
    }

    fn secret_key() -> HandleValue<'static> {
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(300, "HS_SECKEY", "secret") }
    }

    /// Registry with the key of [`NAME`]; with a peer, the key counts as stored there.
    fn registry(peer: Option<Arc<TestPeer>>) -> Arc<Registry> {
        let store = MemoryStore::new();
        let put =
            Edit::Put { name: NAME.into(), values: vec![secret_key()], precondition: Precondition::Absent };
        let edits = vec![Edit::Home { prefix: "10.1".into() }, put];
        block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits })).unwrap();
        let Some(peer) = peer else {
            return Arc::new(Registry::new(store, RegistrySettings::default()));
        };
        let partition =
            |server_index| HashPartition { hash_option: HashOption::WHOLE, server_count: 2, server_index };
        let partition = (0..2).map(partition).find(|partition| !partition.owns(Handle::from(NAME)));
        let settings = RegistrySettings { partition, ..RegistrySettings::default() };
        Arc::new(Registry::new(store, settings).with_site_peers(peer))
    }

    fn watch(registry: Arc<Registry>, credential: UsedCredential) -> CredentialWatch {
        let (operator_token, sessions) = (OperatorToken::default(), Arc::default());
        CredentialWatch { registry, operator_token, sessions, credential }
    }

    /// A long response is a use of its session, which ends after its maximum age.
    #[test]
    fn long_responses_use_their_session() {
        let (claim, start) = (ValueReference::new(300, NAME.as_bytes()), Instant::now());
        let key = AuthenticatedKey::new(&claim, &secret_key()).unwrap();
        let mut watch = watch(registry(None), UsedCredential::None);
        let session = watch.sessions.create(start);
        watch.sessions.authenticate(&session, b"cnonce", key.clone(), start).unwrap();
        watch.credential = UsedCredential::Session(session.id, key);
        for number in 1..=48 {
            assert!(block_on(watch.is_valid(start + 29 * number * MINUTE)), "{number}");
        }
        assert!(!block_on(watch.is_valid(start + 24 * 60 * MINUTE + MINUTE)));
    }

    /// A key at a server of the site that does not answer is valid as long as it was.
    #[test]
    fn peer_outage_ends_no_response() {
        let peer = Arc::new(TestPeer::default());
        let reference = ValueReference::new(300, NAME.as_bytes().to_vec());
        let credential = UsedCredential::PeerKey(reference, b"secret"[..].into());
        let watch = watch(registry(Some(Arc::clone(&peer))), credential);
        for (is_valid, expected) in [(Some(true), true), (None, true), (Some(false), false)] {
            peer.set(is_valid);
            assert_eq!(block_on(watch.is_valid(Instant::now())), expected, "{is_valid:?}");
        }
    }

    /// A server of the site that does not answer is no wrong password: clients are not throttled.
    #[test]
    fn peer_outage_is_no_failed_attempt() {
        let peer = Arc::new(TestPeer::default());
        let authenticator = Authenticator::new(registry(Some(Arc::clone(&peer))));
        let (headers, authentication, identity) =
            (HeaderMap::new(), AuthenticationCell::new(), ServiceIdentity::default());
        let head = RequestHead {
            query: None,
            headers: &headers,
            version: Version::HTTP_11,
            client: Some([192, 0, 2, 1].into()),
            is_loopback: false,
            is_proxied: false,
            accepts_credentials: true,
            certificate: None,
            authentication: &authentication,
            identity: &identity,
            now: SystemTime::now(),
        };
        let credentials = BASE64.encode(format!("300%3A{NAME}:secret").as_bytes());
        let authenticate = || block_on(authenticator.authenticate_basic(&credentials, &head)).map(drop);
        for _ in 0..50 {
            assert_eq!(authenticate(), Err(AuthenticationError::Unavailable));
        }
        peer.set(Some(true));
        assert_eq!(authenticate(), Ok(()));
        peer.set(Some(false));
        assert_eq!(authenticate(), Err(AuthenticationError::Failed));
    }
}
