//! Authentication of a request: credentials to caller.

use std::sync::Arc;
use std::time::Instant;

use data_encoding::BASE64;
use subtle::ConstantTimeEq as _;
use tendot_proto::{Budget, HandleValue, ValueReference};
use tendot_registry::{Caller, Error, Registry};
use tokio::sync::{OnceCell, Semaphore};

use crate::authenticated_key::AuthenticatedKey;
use crate::clock::to_unix_seconds;
use crate::gcra::Rate;
use crate::guess_throttle::{AttemptSource, AuthAttempt, GuessThrottle, ThrottledAccount};
use crate::http::REQUEST_BUDGET;
use crate::http::authentication::credential_watch::{
    CredentialWatch, OperatorToken, UsedCredential, is_operator_token,
};
use crate::http::authentication::key_proof::verify_secret_at_peer;
use crate::http::authentication::{
    AuthParams, AuthenticationError, HttpCredentials, HttpSession, HttpSessionTable,
};
use crate::http::middleware::rate_limit::{HttpRateLimiter, HttpRateLimits};
use crate::http::request::body::RequestBody;
use crate::http::request::percent;
use crate::http::request::request_head::RequestHead;
use crate::http::server::x509::CertificateSubject;
use crate::native::NativeServer;

/// Result of the authentication of a request: credentials are checked before the body is read, and used after it.
pub(crate) type AuthenticationCell = OnceCell<Result<AuthenticatedCaller, AuthenticationError>>;

/// Caller, and the credential that it was authenticated with.
#[derive(Debug)]
pub(crate) struct AuthenticatedCaller {
    caller: Caller,
    credential: UsedCredential,
}

impl AuthenticatedCaller {
    const ANONYMOUS: Self = Self { caller: Caller::Anonymous, credential: UsedCredential::None };
}

/// Server signatures per client and per network: each costs about as much as verifying a proof.
const SIGNATURE_LIMITS: HttpRateLimits = HttpRateLimits {
    per_client: Rate { per_second: 10, burst: 50 },
    per_network: Rate { per_second: 80, burst: 400 },
    limit_loopback: false,
};

/// Authenticates requests: turns credentials into a caller.
#[derive(Debug)]
pub(crate) struct Authenticator {
    pub(super) registry: Arc<Registry>,
    pub(in crate::http) operator_token: OperatorToken,
    pub(in crate::http) sessions: Arc<HttpSessionTable>,
    /// Shared with the native server.
    pub(in crate::http) guess_throttle: Arc<GuessThrottle>,
    pub(super) signature_limiter: HttpRateLimiter,
    /// Limits concurrent proof verifications to the number of cores.
    pub(super) cpu_permits: Arc<Semaphore>,
    /// Server whose site key signs nonces.
    pub(in crate::http) native_server: Option<Arc<NativeServer>>,
}

impl Authenticator {
    /// Creates an authenticator without an operator token and a site key.
    pub(in crate::http) fn new(registry: Arc<Registry>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            registry,
            operator_token: OperatorToken::default(),
            sessions: Arc::default(),
            guess_throttle: Arc::new(GuessThrottle::new()),
            signature_limiter: HttpRateLimiter::new(SIGNATURE_LIMITS),
            cpu_permits: Arc::new(Semaphore::new(cores)),
            native_server: None,
        }
    }

    /// Starts an attempt to authenticate as this identity, unless too many have failed.
    pub(in crate::http) fn start_attempt(
        &self,
        request: &RequestHead<'_>,
        account: ThrottledAccount<'_>,
    ) -> Result<AuthAttempt<'_>, AuthenticationError> {
        let source = request.client.map_or(AttemptSource::Hidden, AttemptSource::Connection);
        self.guess_throttle.start_attempt(source, account).map_err(AuthenticationError::Throttled)
    }

    /// Authenticates a request, once; `Anonymous` without credentials.
    pub(crate) async fn authenticate(
        &self,
        request: &RequestHead<'_>,
    ) -> Result<Caller, AuthenticationError> {
        let authenticated = request.authentication.get_or_init(|| self.check_credentials(request)).await;
        authenticated.as_ref().map(|authenticated| authenticated.caller.clone()).map_err(|error| *error)
    }

    /// Watches the credential of a request that was authenticated, for a response that lasts.
    pub(crate) fn watch_credential(&self, request: &RequestHead<'_>) -> CredentialWatch {
        let authenticated = request.authentication.get().and_then(|result| result.as_ref().ok());
        CredentialWatch {
            registry: Arc::clone(&self.registry),
            operator_token: Arc::clone(&self.operator_token),
            sessions: Arc::clone(&self.sessions),
            credential: authenticated.map_or(UsedCredential::None, |found| found.credential.clone()),
        }
    }

    /// Lets authenticated callers use their part of the memory for bodies; an error for invalid credentials.
    ///
    /// Called before a body is read: a client without valid credentials cannot fill the memory that is reserved for others.
    pub(crate) async fn admit_body(
        &self,
        body: RequestBody,
        request: &RequestHead<'_>,
    ) -> Result<(Caller, RequestBody), AuthenticationError> {
        match self.authenticate(request).await? {
            Caller::Anonymous => Ok((Caller::Anonymous, body)),
            caller => {
                let body = body.of_caller(&caller);
                Ok((caller, body))
            }
        }
    }

    async fn check_credentials(
        &self,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedCaller, AuthenticationError> {
        match HttpCredentials::from_request(request)? {
            None => Ok(AuthenticatedCaller::ANONYMOUS),
            Some(HttpCredentials::Bearer(token)) => {
                let caller = self.authenticate_bearer(token, request).await?;
                Ok(AuthenticatedCaller { caller, credential: UsedCredential::Token(token.into()) })
            }
            Some(HttpCredentials::Basic(encoded)) => {
                let (key, credential) = self.check_basic(encoded, request).await?;
                Ok(AuthenticatedCaller { caller: key.into(), credential })
            }
            Some(HttpCredentials::Handle(params)) if params.uses_client_certificate() => {
                let key = self.authenticate_certificate(request).await?;
                let certificate = request.certificate.unwrap_or_default().into();
                let credential = UsedCredential::Certificate(key.clone(), certificate);
                Ok(AuthenticatedCaller { caller: key.into(), credential })
            }
            Some(HttpCredentials::Handle(params)) => self.authenticate_session(&params, request).await,
        }
    }

    async fn authenticate_session(
        &self,
        params: &AuthParams,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedCaller, AuthenticationError> {
        let Some(id) = params.session_id() else {
            return if params.has_identity_claim() {
                Err(AuthenticationError::NoSession)
            } else {
                Ok(AuthenticatedCaller::ANONYMOUS)
            };
        };
        let session = id.and_then(|id| self.sessions.get(id, Instant::now()));
        let session = session.ok_or(AuthenticationError::NoSession)?;
        let of_session = |key: AuthenticatedKey| {
            let credential = UsedCredential::Session(session.id, key.clone());
            AuthenticatedCaller { caller: key.into(), credential }
        };
        if params.has_identity_claim() {
            return Ok(of_session(self.verify_challenge_answer(&session, params, request).await?));
        }
        let Some(authenticated) = &session.authenticated else { return Ok(AuthenticatedCaller::ANONYMOUS) };
        // A key that was removed from its record ends its sessions.
        if self.is_key_current(authenticated).await {
            Ok(of_session(authenticated.clone()))
        } else {
            self.sessions.remove(session.id);
            Err(AuthenticationError::NoSession)
        }
    }

    /// Verifies the answer to a session's nonce, which authenticates the session. Each answer is accepted once.
    pub(crate) async fn verify_challenge_answer(
        &self,
        session: &HttpSession,
        params: &AuthParams,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedKey, AuthenticationError> {
        let answer = params.challenge_answer()?;
        let cnonce = answer.cnonce.clone();
        let authenticated = self.verify_nonce_signature(session.nonce, answer, request).await?;
        self.sessions.authenticate(session, &cnonce, authenticated.clone(), Instant::now())?;
        Ok(authenticated)
    }

    /// Basic: `INDEX%3AHANDLE:SECRET` with the secret of an `HS_SECKEY` value; without an index, of any.
    pub(crate) async fn authenticate_basic(
        &self,
        encoded: &str,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedKey, AuthenticationError> {
        Ok(self.check_basic(encoded, request).await?.0)
    }

    async fn check_basic(
        &self,
        encoded: &str,
        request: &RequestHead<'_>,
    ) -> Result<(AuthenticatedKey, UsedCredential), AuthenticationError> {
        let malformed = AuthenticationError::Malformed;
        let decoded = BASE64.decode(encoded.as_bytes()).map_err(|_| malformed)?;
        let mut parts = decoded.splitn(2, |byte| *byte == b':');
        let (Some(user), Some(password)) = (parts.next(), parts.next()) else { return Err(malformed) };
        let user = str::from_utf8(user)
            .map_err(|error| AuthenticationError::InvalidUtf8 { offset: error.valid_up_to() })?;
        let user = percent::decode_text(user, "user").map_err(|error| AuthenticationError::from(&error))?;
        let is_match = |key: &HandleValue<'_>| {
            *key.value_type == *b"HS_SECKEY" && !key.data.is_empty() && bool::from(key.data.ct_eq(password))
        };
        let claim = ValueReference::parse(&user);
        if self.registry.owns(claim.handle()) {
            let key = self.match_key(&claim, is_match, request).await?;
            return Ok((key.clone(), UsedCredential::Key(key)));
        }
        // Another server of the site stores the key.
        let attempt = self.start_attempt(request, ThrottledAccount::Identity(&claim))?;
        match verify_secret_at_peer(&self.registry, &claim, password).await {
            Ok(true) => attempt.mark_succeeded(),
            Err(Error::Store(_) | Error::SitePeer { .. }) => {
                // The store or the peer failed, not the client.
                attempt.mark_succeeded();
                return Err(AuthenticationError::Unavailable);
            }
            Ok(false) | Err(_) => return Err(AuthenticationError::Failed),
        }
        let key = HandleValue::with_data(claim.index, "HS_SECKEY", password);
        let key = AuthenticatedKey::new(&claim, &key).ok_or(AuthenticationError::Failed)?;
        let reference = ValueReference::new(claim.index, claim.handle().as_bytes().to_vec());
        Ok((key, UsedCredential::PeerKey(reference, password.into())))
    }

    /// Authenticates by the client certificate: its subject and key must be those of an `HS_PUBKEY` value. The issuer does not
    /// matter.
    pub(crate) async fn authenticate_certificate(
        &self,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedKey, AuthenticationError> {
        let subject =
            request.certificate.and_then(CertificateSubject::parse).ok_or(AuthenticationError::Failed)?;
        // Checked here, not in the handshake: a connection or a resumed session may outlive the certificate.
        if !subject.is_valid_at(to_unix_seconds(request.now)) {
            return Err(AuthenticationError::CertificateExpired);
        }
        let is_match =
            |key: &HandleValue<'_>| *key.value_type == *b"HS_PUBKEY" && subject.matches_public_key(&key.data);
        self.match_key(&ValueReference::parse(&subject.name), is_match, request).await
    }

    /// Finds the claimed identity's key that satisfies `is_match`.
    async fn match_key(
        &self,
        claim: &ValueReference<'_>,
        is_match: impl Fn(&HandleValue<'_>) -> bool,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedKey, AuthenticationError> {
        let attempt = self.start_attempt(request, ThrottledAccount::Identity(claim))?;
        let (keys, attempt) = self.read_keys(claim, attempt).await?;
        let mut keys = keys.iter().filter(|key| claim.index == 0 || key.index == claim.index);
        let authenticated = keys.find(|key| is_match(key)).and_then(|key| AuthenticatedKey::new(claim, key));
        let authenticated = authenticated.ok_or(AuthenticationError::Failed)?;
        attempt.mark_succeeded();
        Ok(authenticated)
    }

    async fn authenticate_bearer(
        &self,
        token: &str,
        request: &RequestHead<'_>,
    ) -> Result<Caller, AuthenticationError> {
        if is_operator_token(&self.operator_token, token) {
            return Ok(Caller::Operator);
        }
        // Tokens cannot be guessed, so a valid one is never throttled: failed guesses cannot lock its owner out.
        match self
            .registry
            .authenticate_token(token, self.registry.now_ms(), &mut Budget::new(REQUEST_BUDGET))
            .await
        {
            Ok(Some(identity)) => Ok(Caller::Token(identity)),
            Ok(None) => {
                self.start_attempt(request, ThrottledAccount::Tokens)?;
                Err(AuthenticationError::InvalidToken)
            }
            Err(error) => {
                tracing::error!(%error, "token lookup failed");
                Err(AuthenticationError::Unavailable)
            }
        }
    }
}
