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
            if !self.is_valid().await {
                return;
            }
        }
    }

    /// Whether the credential is still valid; assumed while the store cannot be read.
    async fn is_valid(&self) -> bool {
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
                verify_secret_at_peer(&self.registry, claim, secret).await
            }
            UsedCredential::Session(id, key) => {
                let session = self.sessions.peek(*id, Instant::now());
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
        Err(error) => matches!(error, Error::Store(_) | Error::SitePeer { .. }),
    }
}
