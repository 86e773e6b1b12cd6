//! `/api/sessions`: somebody proves once who they are, and is known from then on by the session's name.

use std::time::Instant;

use http::header::{HeaderValue, LOCATION};
use http::{Method, StatusCode};
use hyper::body::Incoming;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{HttpMethod, Required};

use super::body::{Form, no_randomness, print, refuse, unknown_caller, unread};
use super::handles::JSON;
use crate::http::answer::{Answer, TEXT, answer};
use crate::http::authenticate::{
    AuthenticationError, Fields, AuthParamsJson, AuthenticatedKey, SERVER_SIGNATURE_ALGORITHM, Said, Session,
};
use crate::http::describe::{Described, Doing};
use crate::http::request::Request;
use crate::http::{FORM, Http, caching};

/// What an answer says of a session.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
struct SessionBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// What is to be signed, before what the client adds; as Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_alg: Option<&'static str>,
    /// Our signature of both nonces, if the client sent one and said nothing of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authenticated: Option<bool>,
    /// Who is known, `INDEX:HANDLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Http {
    /// Answers `POST /api/sessions`.
    pub(crate) async fn create_session(&self, body: Incoming, request: &Request<'_>) -> Answer {
        let (said, fields) = match self.read_session_params(body, request).await {
            Ok(read) => read,
            Err(refused) => return refused,
        };
        if fields.session().is_some() {
            return refuse("a new session has no name yet");
        }
        let proven = self.authenticate_without_session(said.as_ref(), &fields, request).await;
        if let Some(Err(error)) = proven
            && let Some(answer) = error.later()
        {
            return answer;
        }
        let Some(mut session) = self.sessions.make(Instant::now()) else { return no_randomness() };
        let mut error = None;
        match proven {
            // Whether the key is still in its record could not be seen later.
            Some(Ok(proven))
                if matches!(said, Some(Said::Password(_)))
                    && !self.registry.owns(proven.identity.handle()) =>
            {
                error = Some(AuthenticationError::Elsewhere);
            }
            Some(Ok(proven)) => {
                self.sessions.open(&session, proven.clone());
                session.proven = Some(proven);
            }
            Some(Err(why)) => error = Some(why),
            None => {}
        }
        let mut response = self.show(StatusCode::CREATED, &session, &fields, error, request).await;
        response.headers_mut().insert(LOCATION, HeaderValue::from_static("/api/sessions/this"));
        response
    }

    /// Answers everything at `/api/sessions/this`.
    pub(crate) async fn session_request(
        &self,
        method: &Method,
        other: &str,
        body: Incoming,
        request: &Request<'_>,
    ) -> Answer {
        let (said, fields) = match self.read_session_params(body, request).await {
            Ok(read) => read,
            Err(refused) => return refused,
        };
        if !other.is_empty() {
            return forbidden("nobody sees the sessions of others; yours is `/api/sessions/this`");
        }
        let now = Instant::now();
        let mut session = fields.session().map(|id| id.and_then(|id| self.sessions.get(id, now)));
        // A key that is no longer in its record opens nothing.
        if let Some(Some(found)) = &session
            && let Some(proven) = &found.proven
            && !self.is_key_current(proven).await
        {
            self.sessions.remove(found.id);
            session = Some(None);
        }
        if *method == Method::DELETE {
            return match session.flatten().filter(|session| self.sessions.remove(session.id)) {
                Some(_) => answer(StatusCode::NO_CONTENT, TEXT, ""),
                None => forbidden(NONE),
            };
        }
        match session {
            Some(None) => forbidden(NONE),
            Some(Some(session)) if fields.has_identity_claim() => {
                let answered = self.verify_challenge_answer(&session, &fields, request).await;
                self.challenge_answer_reply(session, answered, &fields, request).await
            }
            Some(Some(session)) => self.show(StatusCode::OK, &session, &fields, None, request).await,
            None => match self.authenticate_without_session(said.as_ref(), &fields, request).await {
                Some(Err(error)) => refused(Some(Err(error)), request),
                proven => {
                    let id = proven.and_then(Result::ok).map(|proven| proven.identity.to_string());
                    let body =
                        SessionBody { authenticated: Some(id.is_some()), id, ..SessionBody::default() };
                    shown(StatusCode::OK, &body)
                }
            },
        }
    }

    /// What a client says in the header, and what in the body; sessions are made where credentials are taken.
    async fn read_session_params<'h>(
        &self,
        body: Incoming,
        request: &Request<'h>,
    ) -> Result<(Option<Said<'h>>, Fields), Answer> {
        if !request.takes_credentials {
            return Err(forbidden(
                "sessions are made only over TLS, from this machine, or by trusted proxies",
            ));
        }
        let body = self.bodies.read(body, FORM).await.map_err(unread)?;
        let no_fields = |error| refuse(&format!("the body is no JSON of a session: {error}"));
        let in_body = Fields::from_json(&body).map_err(no_fields)?;
        let said = Said::of(request).map_err(|error| unknown_caller(error, "", request))?;
        let fields = match &said {
            Some(Said::Fields(fields)) => in_body.or(fields.clone()),
            _ => in_body,
        };
        Ok((said, fields))
    }

    /// Who is known without a session: by a password or a certificate.
    async fn authenticate_without_session(
        &self,
        said: Option<&Said<'_>>,
        fields: &Fields,
        request: &Request<'_>,
    ) -> Option<Result<AuthenticatedKey, AuthenticationError>> {
        match said {
            Some(Said::Password(encoded)) => Some(self.authenticate_basic(encoded, request).await),
            _ if fields.uses_client_certificate() => Some(self.authenticate_certificate(request).await),
            // The operator's token is sent with every request.
            Some(Said::Token(_)) => Some(Err(AuthenticationError::Failed)),
            _ if fields.has_identity_claim() => Some(Err(AuthenticationError::NoSession)),
            _ => None,
        }
    }

    async fn challenge_answer_reply(
        &self,
        mut session: Session,
        answered: Result<AuthenticatedKey, AuthenticationError>,
        fields: &Fields,
        request: &Request<'_>,
    ) -> Answer {
        let error = match answered {
            Err(error) => match error.later() {
                Some(answer) => return answer,
                None => error,
            },
            Ok(proven) => {
                session.proven = Some(proven);
                return self.show(StatusCode::OK, &session, fields, None, request).await;
            }
        };
        // Who was known before is still known.
        let status = if session.proven.is_some() { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        let mut response = self.show(status, &session, fields, Some(error), request).await;
        response.extensions_mut().insert(error);
        response.extensions_mut().insert(session.id);
        response
    }

    async fn show(
        &self,
        status: StatusCode,
        session: &Session,
        fields: &Fields,
        error: Option<AuthenticationError>,
        request: &Request<'_>,
    ) -> Answer {
        let server_signature = self.sign_nonces(session, fields, request).await;
        let body = SessionBody {
            session_id: Some(session.id.to_string()),
            nonce: Some(session.nonce()),
            server_alg: server_signature.is_some().then_some(SERVER_SIGNATURE_ALGORITHM),
            server_signature,
            authenticated: session.proven.as_ref().map(|_| true),
            id: session.proven.as_ref().map(|proven| proven.identity.to_string()),
            error: error.map(|error| error.to_string()),
        };
        shown(status, &body)
    }
}

const NONE: &str = "there is no such session, or no longer";

fn shown(status: StatusCode, body: &SessionBody) -> Answer {
    let mut response = print(status, body, &Form::default());
    caching::set_private_no_store(response.headers_mut());
    response
}

fn refused(proven: Option<Result<AuthenticatedKey, AuthenticationError>>, request: &Request<'_>) -> Answer {
    let error = proven.and_then(Result::err).unwrap_or(AuthenticationError::Failed);
    unknown_caller(error, "", request)
}

fn forbidden(why: &str) -> Answer {
    answer(StatusCode::FORBIDDEN, TEXT, format!("{why}\n"))
}

fn answers(doing: Doing, status: StatusCode, about: &str) -> Doing {
    doing
        .group("Sessions")
        .answer(status, about)
        .json::<SessionBody>(JSON)
        .answer(StatusCode::BAD_REQUEST, "Not understood")
        .json::<super::body::Body<'_>>(JSON)
        .answer(StatusCode::UNAUTHORIZED, "The answer is not right, or the header not understood")
        .json::<SessionBody>(JSON)
        .header("WWW-Authenticate", "The session and its nonce")
        .answer(
            StatusCode::FORBIDDEN,
            "There is no such session, or no longer; or credentials are not taken here",
        )
        .text("text/plain")
        .answer(StatusCode::REQUEST_TIMEOUT, "The body did not come in time")
        .json::<super::body::Body<'_>>(JSON)
        .answer(StatusCode::PAYLOAD_TOO_LARGE, "The body is too large")
        .json::<super::body::Body<'_>>(JSON)
}

const FIELDS: &str = "What could stand in the header";

/// What is done at `/api/sessions`.
pub(crate) fn describe() -> Described {
    let doing = Doing::new("A new session")
        .about(
            "Its name and nonce. Whoever signs that, together with a nonce of their own, is known in it from then on; who \
             sends a password or a certificate is at once. It ends after half an hour without a request, or a day.",
        )
        .body::<AuthParamsJson>(JSON, FIELDS, Required::False)
        .sample("curl -s -X POST $SERVER/api/sessions");
    let doing = answers(doing, StatusCode::CREATED, "The session").header("Location", "`/api/sessions/this`");
    Described::only(HttpMethod::Post, doing)
}

/// What is done at `/api/sessions/this`.
pub(crate) fn describe_one() -> Described {
    let get = Doing::new("The session of who asks").sample("curl -s $SERVER/api/sessions/this");
    let get = answers(get, StatusCode::OK, "The session, and who is known in it").credentials(false);
    let put = || {
        let doing = Doing::new("Who somebody is").body::<AuthParamsJson>(JSON, FIELDS, Required::False);
        answers(doing, StatusCode::OK, "The session, and who is known in it").credentials(false)
    };
    let delete = Doing::new("Ends the session");
    let delete =
        answers(delete, StatusCode::OK, "").answer(StatusCode::NO_CONTENT, "It is over").credentials(true);
    Described::read(get)
        .and(HttpMethod::Put, put())
        .and(HttpMethod::Post, put())
        .and(HttpMethod::Delete, delete)
}
