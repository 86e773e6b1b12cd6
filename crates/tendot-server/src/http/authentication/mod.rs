//! Authentication of HTTP requests.
//!
//! `auth_params.rs` parses the `Handle` scheme, `key_proof.rs` verifies proofs of possession, `session_table.rs` stores
//! sessions, and `guess_throttle.rs` limits failed attempts. There are no cookies: credentials come in a header that a page of
//! another site cannot make a browser send, which is why a client certificate counts only if a header claims it. Browsers do
//! send stored passwords for pages of other sites; those are ignored (`is_cross_site_credential`).

mod auth_params;
mod guess_throttle;
mod key_proof;
mod session_table;

use std::time::{Duration, Instant, SystemTime};

pub(crate) use auth_params::{AuthParams, AuthParamsJson, ChallengeAnswer};
use data_encoding::BASE64;
pub(super) use guess_throttle::{AuthAttempt, GuessThrottle};
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
pub(crate) use key_proof::AuthenticatedKey;
use key_proof::KeyProof;
pub(crate) use session_table::{HttpSession, HttpSessionId, HttpSessionTable};
use subtle::ConstantTimeEq as _;
use tendot_proto::auth::AuthError;
use tendot_proto::{Budget, HandleValue, ValueReference};
use tendot_registry::Caller;

use crate::http::request::percent;
use crate::http::request::request_head::RequestHead;
use crate::http::response::reply::Reply;
use crate::http::server::x509::CertificateSubject;
use crate::http::{HttpServer, REQUEST_BUDGET, pages, too_many_requests};

/// Reason a caller could not be authenticated.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum AuthenticationError {
    #[error("the `Authorization` header is not understood: `Basic`, `Handle` and `Bearer` are")]
    Malformed,
    #[error("Missing fields in authentication data")]
    Incomplete,
    #[error("there is no such session, or no longer")]
    NoSession,
    #[error("this answer was given before")]
    Replayed,
    #[error("Identity not verified")]
    Failed,
    #[error("there is no such token, or it was revoked, or has expired")]
    InvalidToken,
    #[error("another server of the site keeps this key: the password has to be sent with each request")]
    KeyAtPeer,
    #[error(transparent)]
    Rejected(AuthError),
    #[error("who guesses too often has to wait")]
    Throttled(Duration),
    #[error("nobody can be known at present: the store failed")]
    Unavailable,
}

impl AuthenticationError {
    /// Reply to a client that may be legitimate but has to retry.
    pub(crate) fn retry_reply(self) -> Option<Reply> {
        match self {
            Self::Throttled(wait) => Some(too_many_requests(wait)),
            Self::Unavailable => {
                let detail = "Who asks can't be looked up at present. It is not your fault; try again later.";
                Some(pages::problem(StatusCode::SERVICE_UNAVAILABLE, "store-unavailable", detail).into())
            }
            _ => None,
        }
    }
}

/// Credentials of an `Authorization` header: Basic, Bearer or Handle.
pub(crate) enum HttpCredentials<'h> {
    Basic(&'h str),
    Bearer(&'h str),
    Handle(AuthParams),
}

impl<'h> HttpCredentials<'h> {
    /// Parses the `Authorization` header where credentials are accepted; elsewhere it is ignored, as in Handle.Net.
    pub(crate) fn from_request(request: &RequestHead<'h>) -> Result<Option<Self>, AuthenticationError> {
        let header = request.headers.get(AUTHORIZATION).filter(|_| request.accepts_credentials);
        header.map(Self::parse).transpose()
    }

    fn parse(header: &'h HeaderValue) -> Result<Self, AuthenticationError> {
        let malformed = AuthenticationError::Malformed;
        let (scheme, rest) = header.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(malformed)?;
        match scheme.to_ascii_lowercase().as_str() {
            "basic" => Ok(Self::Basic(rest.trim())),
            "bearer" => Ok(Self::Bearer(rest.trim())),
            "handle" => AuthParams::from_header(rest).map(Self::Handle).ok_or(malformed),
            _ => Err(malformed),
        }
    }
}

impl HttpServer {
    /// Authenticates a request; `Anonymous` without credentials.
    pub(crate) async fn authenticate(
        &self,
        request: &RequestHead<'_>,
    ) -> Result<Caller, AuthenticationError> {
        match HttpCredentials::from_request(request)? {
            None => Ok(Caller::Anonymous),
            Some(HttpCredentials::Bearer(token)) => self.authenticate_bearer(token, request).await,
            Some(HttpCredentials::Basic(encoded)) => {
                Ok(self.authenticate_basic(encoded, request).await?.into())
            }
            Some(HttpCredentials::Handle(fields)) if fields.uses_client_certificate() => {
                Ok(self.authenticate_certificate(request).await?.into())
            }
            Some(HttpCredentials::Handle(fields)) => self.authenticate_session(&fields, request).await,
        }
    }

    async fn authenticate_session(
        &self,
        fields: &AuthParams,
        request: &RequestHead<'_>,
    ) -> Result<Caller, AuthenticationError> {
        let Some(id) = fields.session_id() else {
            return if fields.has_identity_claim() {
                Err(AuthenticationError::NoSession)
            } else {
                Ok(Caller::Anonymous)
            };
        };
        let session = id.and_then(|id| self.sessions.get(id, Instant::now()));
        let session = session.ok_or(AuthenticationError::NoSession)?;
        if fields.has_identity_claim() {
            return self.verify_challenge_answer(&session, fields, request).await.map(Into::into);
        }
        let Some(authenticated) = session.authenticated else { return Ok(Caller::Anonymous) };
        // A key that was removed from its record ends its sessions.
        if self.is_key_current(&authenticated).await {
            Ok(authenticated.into())
        } else {
            self.sessions.remove(session.id);
            Err(AuthenticationError::NoSession)
        }
    }

    /// Verifies the answer to a session's nonce, which authenticates the session. Each answer is accepted once.
    pub(crate) async fn verify_challenge_answer(
        &self,
        session: &HttpSession,
        fields: &AuthParams,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedKey, AuthenticationError> {
        let answer = fields.challenge_answer()?;
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
        let malformed = AuthenticationError::Malformed;
        let decoded = BASE64.decode(encoded.as_bytes()).map_err(|_| malformed)?;
        let at = decoded.iter().position(|byte| *byte == b':').ok_or(malformed)?;
        let (user, password) = (&decoded[..at], &decoded[at + 1..]);
        let user = str::from_utf8(user).map_err(|_| malformed)?;
        let user = percent::decode_text(user, "user").map_err(|_| malformed)?;
        let is_match = |key: &HandleValue<'_>| {
            *key.value_type == *b"HS_SECKEY" && !key.data.is_empty() && bool::from(key.data.ct_eq(password))
        };
        let claim = ValueReference::parse(&user);
        if self.registry.owns(claim.handle()) {
            return self.match_key(&claim, is_match, request).await;
        }
        // Another server of the site stores the key.
        let attempt = self.guess_throttle.start_attempt(request, &claim.to_string())?;
        if !self.verify_secret_at_peer(&claim, password).await {
            return Err(AuthenticationError::Failed);
        }
        attempt.mark_succeeded();
        let key = HandleValue::with_data(claim.index, "HS_SECKEY", password);
        AuthenticatedKey::new(&claim, &key).ok_or(AuthenticationError::Failed)
    }

    /// Authenticates by the client certificate: its subject and key must be those of an `HS_PUBKEY` value. The issuer does not
    /// matter.
    pub(crate) async fn authenticate_certificate(
        &self,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedKey, AuthenticationError> {
        let owner =
            request.certificate.and_then(CertificateSubject::parse).ok_or(AuthenticationError::Failed)?;
        let is_match =
            |key: &HandleValue<'_>| *key.value_type == *b"HS_PUBKEY" && owner.matches_public_key(&key.data);
        self.match_key(&ValueReference::parse(&owner.name), is_match, request).await
    }

    /// Finds the claimed identity's key that satisfies `is_match`.
    async fn match_key(
        &self,
        claim: &ValueReference<'_>,
        is_match: impl Fn(&HandleValue<'_>) -> bool,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedKey, AuthenticationError> {
        let attempt = self.guess_throttle.start_attempt(request, &claim.to_string())?;
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
        if let Some(known) = &self.operator_token
            && bool::from(known.as_bytes().ct_eq(token.as_bytes()))
        {
            return Ok(Caller::Operator);
        }
        // Tokens cannot be guessed, so a valid one is never throttled: failed guesses cannot lock its owner out.
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        match self.registry.authenticate_token(token, at, &mut Budget::new(REQUEST_BUDGET)).await {
            Ok(Some(identity)) => Ok(Caller::Token(identity)),
            Ok(None) => {
                self.guess_throttle.start_attempt(request, "operator")?;
                Err(AuthenticationError::InvalidToken)
            }
            Err(error) => {
                tracing::error!(%error, "a token could not be looked up");
                Err(AuthenticationError::Unavailable)
            }
        }
    }
}

impl HttpServer {
    /// Adds `WWW-Authenticate`: Basic, Bearer, and a `Handle` session with its nonce.
    pub(super) async fn add_challenge_headers(&self, response: &mut Reply, request: &RequestHead<'_>) {
        let credentials = HttpCredentials::from_request(request);
        // For a script's request, the browser would show a password prompt.
        let is_script = request.headers.get("x-requested-with").is_some_and(|by| by == "XMLHttpRequest");
        if matches!(credentials, Ok(Some(HttpCredentials::Basic(_))))
            || !is_script && !has_non_basic_credentials(request.headers)
        {
            append_challenge(response, "Basic realm=\"handle\"".to_owned());
            append_challenge(response, "Bearer".to_owned());
        }
        let named = response.extensions().get::<HttpSessionId>().copied();
        let fields = match credentials {
            Ok(Some(HttpCredentials::Handle(fields))) => fields,
            _ => AuthParams::default(),
        };
        let now = Instant::now();
        let id = named.or_else(|| fields.session_id().flatten());
        let session = id.and_then(|id| self.sessions.get(id, now));
        let Some(session) = session.or_else(|| self.sessions.create(now)) else { return };
        let mut challenge =
            format!("Handle sessionId=\"{}\", nonce=\"{}\"", session.id, session.nonce_base64());
        if let Some(signature) = self.sign_nonces(&session, &fields, request).await {
            challenge +=
                &format!(", serverAlg=\"{SERVER_SIGNATURE_ALGORITHM}\", serverSignature=\"{signature}\"");
        }
        if let Some(error) = response.extensions().get::<AuthenticationError>() {
            challenge += &format!(", error=\"{error}\"");
        }
        append_challenge(response, challenge);
    }
}

/// Algorithm of server signatures.
pub(crate) const SERVER_SIGNATURE_ALGORITHM: &str = "SHA-256";

/// Whether the request has credentials other than Basic.
fn has_non_basic_credentials(headers: &HeaderMap) -> bool {
    headers.get(AUTHORIZATION).is_some_and(|credentials| {
        !credentials.as_bytes().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic"))
    })
}

fn append_challenge(response: &mut Reply, challenge: String) {
    if let Ok(challenge) = HeaderValue::try_from(challenge) {
        response.headers_mut().append(WWW_AUTHENTICATE, challenge);
    }
}

/// Whether a browser added its user's credentials to a form or script request of another site. Requests of a page's own scripts
/// (`cors`) carry only credentials that the script knows.
pub(crate) fn is_cross_site_credential(headers: &HeaderMap) -> bool {
    let is = |name: &str, words: &[&[u8]]| {
        headers.get(name).is_some_and(|value| words.contains(&value.as_bytes()))
    };
    is("sec-fetch-site", &[b"cross-site", b"same-site"]) && !is("sec-fetch-mode", &[b"cors"])
}
