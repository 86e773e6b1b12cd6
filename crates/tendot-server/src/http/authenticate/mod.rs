//! Who sends a request.
//!
//! `fields.rs` reads what a client says of itself, `proof.rs` looks whether it is true, `sessions.rs` remembers it, and
//! `attempts.rs` holds those back who guess. There are no cookies: whoever is to be known says so in a header, which the page
//! of another site cannot make a browser send. That is why a certificate, too, counts only if a header says so. Passwords are
//! sent by browsers for other sites' pages; those are not taken (`are_lent`).

mod attempts;
mod fields;
mod proof;
mod sessions;

use std::time::{Duration, Instant, SystemTime};

pub(super) use attempts::{AuthAttempt, GuessThrottle};
use data_encoding::BASE64;
pub(crate) use fields::{AuthParams, AuthParamsJson, ChallengeAnswer};
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
pub(crate) use proof::AuthenticatedKey;
use proof::KeyProof;
pub(crate) use sessions::{HttpSession, HttpSessionId, HttpSessionTable};
use subtle::ConstantTimeEq as _;
use tendot_proto::auth::AuthError;
use tendot_proto::{Budget, HandleValue, ValueReference};
use tendot_registry::Caller;

use super::answer::Reply;
use super::certificate::CertificateSubject;
use super::request::RequestHead;
use super::{HttpServer, REQUEST_BUDGET, page, percent, too_many_requests};

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
    Again,
    #[error("Identity not verified")]
    Failed,
    #[error("there is no such token, or it was revoked, or has expired")]
    BadToken,
    #[error("another server of the site keeps this key: the password has to be sent with each request")]
    Elsewhere,
    #[error(transparent)]
    Refused(AuthError),
    #[error("who guesses too often has to wait")]
    TooOften(Duration),
    #[error("nobody can be known at present: the store failed")]
    Unavailable,
}

impl AuthenticationError {
    /// The answer to somebody who may well be who they say, but has to come again.
    pub(crate) fn retry_reply(self) -> Option<Reply> {
        match self {
            Self::TooOften(wait) => Some(too_many_requests(wait)),
            Self::Unavailable => {
                let detail = "Who asks can't be looked up at present. It is not your fault; try again later.";
                Some(page::problem(StatusCode::SERVICE_UNAVAILABLE, "store-unreachable", detail).into())
            }
            _ => None,
        }
    }
}

/// Credentials of an `Authorization` header: Basic, Bearer or Handle.
pub(crate) enum HttpCredentials<'h> {
    Password(&'h str),
    Token(&'h str),
    Fields(AuthParams),
}

impl<'h> HttpCredentials<'h> {
    /// What stands in the header, where such things are taken; elsewhere it counts for nothing, as with Handle.Net.
    pub(crate) fn from_request(request: &RequestHead<'h>) -> Result<Option<Self>, AuthenticationError> {
        let header = request.headers.get(AUTHORIZATION).filter(|_| request.takes_credentials);
        header.map(Self::parse).transpose()
    }

    fn parse(header: &'h HeaderValue) -> Result<Self, AuthenticationError> {
        let malformed = AuthenticationError::Malformed;
        let (scheme, rest) = header.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(malformed)?;
        match scheme.to_ascii_lowercase().as_str() {
            "basic" => Ok(Self::Password(rest.trim())),
            "bearer" => Ok(Self::Token(rest.trim())),
            "handle" => AuthParams::from_header(rest).map(Self::Fields).ok_or(malformed),
            _ => Err(malformed),
        }
    }
}

impl HttpServer {
    /// Finds out who sends a request; nobody in particular if it does not say.
    pub(crate) async fn authenticate(
        &self,
        request: &RequestHead<'_>,
    ) -> Result<Caller, AuthenticationError> {
        match HttpCredentials::from_request(request)? {
            None => Ok(Caller::Anonymous),
            Some(HttpCredentials::Token(token)) => self.authenticate_bearer(token, request).await,
            Some(HttpCredentials::Password(encoded)) => {
                Ok(self.authenticate_basic(encoded, request).await?.into())
            }
            Some(HttpCredentials::Fields(fields)) if fields.uses_client_certificate() => {
                Ok(self.authenticate_certificate(request).await?.into())
            }
            Some(HttpCredentials::Fields(fields)) => self.authenticate_session(&fields, request).await,
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
        let Some(proven) = session.proven else { return Ok(Caller::Anonymous) };
        // A key that is no longer in its record opens nothing, not even what it has opened before.
        if self.is_key_current(&proven).await {
            Ok(proven.into())
        } else {
            self.sessions.remove(session.id);
            Err(AuthenticationError::NoSession)
        }
    }

    /// Takes the answer to the nonce of a session, which knows its client from then on. No answer is taken twice.
    pub(crate) async fn verify_challenge_answer(
        &self,
        session: &HttpSession,
        fields: &AuthParams,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedKey, AuthenticationError> {
        let answer = fields.challenge_answer()?;
        let cnonce = answer.cnonce.clone();
        let proven = self.verify_nonce_signature(session.nonce, answer, request).await?;
        self.sessions.authenticate(session, &cnonce, proven.clone(), Instant::now())?;
        Ok(proven)
    }

    /// `INDEX%3AHANDLE:SECRET`, the secret being that of an `HS_SECKEY` value; without an index, of any.
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
        let is_it = |key: &HandleValue<'_>| {
            *key.value_type == *b"HS_SECKEY" && !key.data.is_empty() && bool::from(key.data.ct_eq(password))
        };
        let claim = ValueReference::parse(&user);
        if self.registry.owns(claim.handle()) {
            return self.match_key(&claim, is_it, request).await;
        }
        // It is kept by another server of our site.
        let attempt = self.attempts.start_attempt(request, &claim.to_string())?;
        if !self.verify_secret_at_peer(&claim, password).await {
            return Err(AuthenticationError::Failed);
        }
        attempt.mark_succeeded();
        let key = HandleValue::with_data(claim.index, "HS_SECKEY", password);
        AuthenticatedKey::new(&claim, &key).ok_or(AuthenticationError::Failed)
    }

    /// The certificate of the connection, which has the name and the key of an `HS_PUBKEY` value. Whoever signed it vouches
    /// for nothing: the record does.
    pub(crate) async fn authenticate_certificate(
        &self,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedKey, AuthenticationError> {
        let owner =
            request.certificate.and_then(CertificateSubject::parse).ok_or(AuthenticationError::Failed)?;
        let is_it =
            |key: &HandleValue<'_>| *key.value_type == *b"HS_PUBKEY" && owner.matches_public_key(&key.data);
        self.match_key(&ValueReference::parse(&owner.name), is_it, request).await
    }

    /// Somebody with this key of theirs.
    async fn match_key(
        &self,
        claim: &ValueReference<'_>,
        is_it: impl Fn(&HandleValue<'_>) -> bool,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedKey, AuthenticationError> {
        let attempt = self.attempts.start_attempt(request, &claim.to_string())?;
        let (keys, attempt) = self.read_keys(claim, attempt).await?;
        let mut keys = keys.iter().filter(|key| claim.index == 0 || key.index == claim.index);
        let proven = keys.find(|key| is_it(key)).and_then(|key| AuthenticatedKey::new(claim, key));
        let proven = proven.ok_or(AuthenticationError::Failed)?;
        attempt.mark_succeeded();
        Ok(proven)
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
        // Nobody guesses one, so that nobody can keep others out by guessing: what is right is never held back.
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        match self.registry.by_token(token, at, &mut Budget::new(REQUEST_BUDGET)).await {
            Ok(Some(identity)) => Ok(Caller::Token(identity)),
            Ok(None) => {
                self.attempts.start_attempt(request, "operator")?;
                Err(AuthenticationError::BadToken)
            }
            Err(error) => {
                tracing::error!(%error, "a token could not be looked up");
                Err(AuthenticationError::Unavailable)
            }
        }
    }
}

impl HttpServer {
    /// Says in an answer by what means somebody can be known: a password, or a session whose nonce is to be signed.
    pub(super) async fn add_challenge_headers(&self, response: &mut Reply, request: &RequestHead<'_>) {
        let said = HttpCredentials::from_request(request);
        // To a script, a browser would show a window that asks for a password.
        let is_script = request.headers.get("x-requested-with").is_some_and(|by| by == "XMLHttpRequest");
        if matches!(said, Ok(Some(HttpCredentials::Password(_))))
            || !is_script && !has_non_basic_credentials(request.headers)
        {
            append_challenge(response, "Basic realm=\"handle\"".to_owned());
            append_challenge(response, "Bearer".to_owned());
        }
        let named = response.extensions().get::<HttpSessionId>().copied();
        let fields = match said {
            Ok(Some(HttpCredentials::Fields(fields))) => fields,
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

/// What we sign with.
pub(crate) const SERVER_SIGNATURE_ALGORITHM: &str = "SHA-256";

/// Whether a client says something of itself in another way than by a password.
fn has_non_basic_credentials(headers: &HeaderMap) -> bool {
    headers.get(AUTHORIZATION).is_some_and(|said| {
        !said.as_bytes().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic"))
    })
}

fn append_challenge(response: &mut Reply, challenge: String) {
    if let Ok(challenge) = HeaderValue::try_from(challenge) {
        response.headers_mut().append(WWW_AUTHENTICATE, challenge);
    }
}
