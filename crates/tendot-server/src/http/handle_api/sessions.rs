//! `/api/sessions`: authenticate once, then use the session id.

use std::time::Instant;

use http::StatusCode;
use http::header::{HeaderValue, LOCATION};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{HttpMethod, Required};

use crate::authenticated_key::AuthenticatedKey;
use crate::http::authentication::{
    AuthParams, AuthParamsJson, AuthenticationError, HttpCredentials, HttpSession, SERVER_SIGNATURE_ALGORITHM,
};
use crate::http::handle_api::handles::JSON;
use crate::http::handle_api::reply_body::{
    HandleBody, JsonOptions, authentication_error, body_error, json_reply, protocol_error,
};
use crate::http::request::body::RequestBody;
use crate::http::request::request_head::RequestHead;
use crate::http::response::caching;
use crate::http::response::reply::{Reply, TEXT, reply};
use crate::http::routing::endpoint::RequestMethod;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec};
use crate::http::{HttpServer, MAX_FORM_BYTES};

/// Response body of `/api/sessions`.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
struct SessionBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// Server nonce to sign, followed by the client nonce; Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_alg: Option<&'static str>,
    /// Signature of the server over both nonces, if the client sent only a nonce; Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authenticated: Option<bool>,
    /// Authenticated identity, `INDEX:HANDLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl HttpServer {
    /// Handles `POST /api/sessions`.
    pub(crate) async fn create_session(&self, body: RequestBody, request: &RequestHead<'_>) -> Reply {
        let (credentials, params) = match self.read_session_params(body, request).await {
            Ok(read) => read,
            Err(rejected) => return rejected,
        };
        if params.session_id().is_some() {
            return protocol_error("`sessionId` must be absent when creating a session");
        }
        let authenticated = self.authenticate_without_session(credentials.as_ref(), &params, request).await;
        if let Some(Err(error)) = authenticated
            && let Some(reply) = error.early_reply()
        {
            return reply;
        }
        let mut session = self.authenticator.sessions.create(Instant::now());
        let mut error = None;
        match authenticated {
            // Not stored in a session: whether the key is still in its record could not be checked later.
            Some(Ok(authenticated))
                if matches!(credentials, Some(HttpCredentials::Basic(_)))
                    && !self.registry.owns(authenticated.identity.handle()) =>
            {
                error = Some(AuthenticationError::KeyAtPeer);
            }
            Some(Ok(authenticated)) => {
                self.authenticator.sessions.authenticate_new(&session, authenticated.clone());
                session.authenticated = Some(authenticated);
            }
            Some(Err(failure)) => error = Some(failure),
            None => {}
        }
        let mut response = self.session_reply(StatusCode::CREATED, &session, &params, error, request).await;
        response.headers_mut().insert(LOCATION, HeaderValue::from_static("/api/sessions/this"));
        response
    }

    /// Handles all methods of `/api/sessions/this`.
    pub(crate) async fn session_request(
        &self,
        method: RequestMethod,
        other: &str,
        body: RequestBody,
        request: &RequestHead<'_>,
    ) -> Reply {
        let (credentials, params) = match self.read_session_params(body, request).await {
            Ok(read) => read,
            Err(rejected) => return rejected,
        };
        if !other.is_empty() {
            return forbidden("only your own session is accessible: `/api/sessions/this`");
        }
        let now = Instant::now();
        let mut session =
            params.session_id().map(|id| id.and_then(|id| self.authenticator.sessions.get(id, now)));
        // A key that was removed from its record ends its sessions.
        if let Some(Some(found)) = &session
            && let Some(authenticated) = &found.authenticated
            && !self.authenticator.is_key_current(authenticated).await
        {
            self.authenticator.sessions.remove(found.id);
            session = Some(None);
        }
        if method == RequestMethod::Delete {
            return match session.flatten().filter(|session| self.authenticator.sessions.remove(session.id)) {
                Some(_) => reply(StatusCode::NO_CONTENT, TEXT, ""),
                None => forbidden(NO_SUCH_SESSION),
            };
        }
        match session {
            Some(None) => forbidden(NO_SUCH_SESSION),
            Some(Some(session)) if params.has_identity_claim() => {
                let result = self.authenticator.verify_challenge_answer(&session, &params, request).await;
                self.challenge_answer_reply(session, result, &params, request).await
            }
            Some(Some(session)) => self.session_reply(StatusCode::OK, &session, &params, None, request).await,
            None => match self.authenticate_without_session(credentials.as_ref(), &params, request).await {
                Some(Err(error)) => authentication_error(error, "", request),
                authenticated => {
                    let id = authenticated
                        .and_then(Result::ok)
                        .map(|authenticated| authenticated.identity.to_string());
                    let body =
                        SessionBody { authenticated: Some(id.is_some()), id, ..SessionBody::default() };
                    uncached_json(StatusCode::OK, &body)
                }
            },
        }
    }

    /// Parameters of header and body; sessions are created only where credentials are accepted.
    async fn read_session_params<'h>(
        &self,
        body: RequestBody,
        request: &RequestHead<'h>,
    ) -> Result<(Option<HttpCredentials<'h>>, AuthParams), Reply> {
        if !request.accepts_credentials {
            return Err(forbidden("sessions need TLS, a loopback connection or a trusted proxy"));
        }
        let body = self.body_reader.read_text(body, MAX_FORM_BYTES).await.map_err(body_error)?;
        let invalid_json = |error| protocol_error(&format!("invalid session JSON: {error}"));
        let body_params = AuthParams::from_json(body.as_bytes()).map_err(invalid_json)?;
        let credentials = HttpCredentials::from_request(request)
            .map_err(|error| authentication_error(error, "", request))?;
        let params = match &credentials {
            Some(HttpCredentials::Handle(params)) => body_params.merge_missing(params.clone()),
            _ => body_params,
        };
        Ok((credentials, params))
    }

    /// Authenticates by password or certificate, without a session.
    async fn authenticate_without_session(
        &self,
        credentials: Option<&HttpCredentials<'_>>,
        params: &AuthParams,
        request: &RequestHead<'_>,
    ) -> Option<Result<AuthenticatedKey, AuthenticationError>> {
        match credentials {
            Some(HttpCredentials::Basic(encoded)) => {
                Some(self.authenticator.authenticate_basic(encoded, request).await)
            }
            _ if params.uses_client_certificate() => {
                Some(self.authenticator.authenticate_certificate(request).await)
            }
            // API tokens are sent with every request.
            Some(HttpCredentials::Bearer(_)) => Some(Err(AuthenticationError::Failed)),
            _ if params.has_identity_claim() => Some(Err(AuthenticationError::NoSession)),
            _ => None,
        }
    }

    async fn challenge_answer_reply(
        &self,
        mut session: HttpSession,
        result: Result<AuthenticatedKey, AuthenticationError>,
        params: &AuthParams,
        request: &RequestHead<'_>,
    ) -> Reply {
        let error = match result {
            Err(error) => match error.early_reply() {
                Some(reply) => return reply,
                None => error,
            },
            Ok(authenticated) => {
                session.authenticated = Some(authenticated);
                session.id = self.authenticator.sessions.renew_id(session.id).unwrap_or(session.id);
                return self.session_reply(StatusCode::OK, &session, params, None, request).await;
            }
        };
        // An authenticated session stays authenticated.
        let status = if session.authenticated.is_some() { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        let mut response = self.session_reply(status, &session, params, Some(error), request).await;
        response.auth_error = Some(error);
        response.session_id = Some(session.id);
        response
    }

    async fn session_reply(
        &self,
        status: StatusCode,
        session: &HttpSession,
        params: &AuthParams,
        error: Option<AuthenticationError>,
        request: &RequestHead<'_>,
    ) -> Reply {
        let server_signature = self.authenticator.sign_nonces(session, params, request).await;
        let body = SessionBody {
            session_id: Some(session.id.to_string()),
            nonce: Some(session.nonce_base64()),
            server_alg: server_signature.is_some().then_some(SERVER_SIGNATURE_ALGORITHM),
            server_signature,
            authenticated: session.authenticated.as_ref().map(|_| true),
            id: session.authenticated.as_ref().map(|authenticated| authenticated.identity.to_string()),
            error: error.map(|error| error.to_string()),
        };
        uncached_json(status, &body)
    }
}

const NO_SUCH_SESSION: &str = "unknown or expired session";

fn uncached_json(status: StatusCode, body: &SessionBody) -> Reply {
    let mut response = json_reply(status, body, &JsonOptions::default());
    caching::set_private_no_store(response.headers_mut());
    response
}

fn forbidden(message: &str) -> Reply {
    reply(StatusCode::FORBIDDEN, TEXT, format!("{message}\n"))
}

fn with_session_responses(spec: OperationSpec, status: StatusCode, about: &str) -> OperationSpec {
    with_session_errors(spec.tag("Sessions").response(status, about).json_content::<SessionBody>(JSON))
}

fn with_session_errors(spec: OperationSpec) -> OperationSpec {
    spec.response(StatusCode::BAD_REQUEST, "Malformed request")
        .json_content::<HandleBody<'_>>(JSON)
        .response(StatusCode::UNAUTHORIZED, "Invalid signature or `Authorization` header")
        .json_content::<SessionBody>(JSON)
        .response_header("WWW-Authenticate", "Session id and nonce")
        .response(
            StatusCode::FORBIDDEN,
            "Unknown or expired session, or credentials not accepted on this connection",
        )
        .text_content("text/plain")
        .response(StatusCode::REQUEST_TIMEOUT, "Timeout while reading the body")
        .json_content::<HandleBody<'_>>(JSON)
        .response(StatusCode::PAYLOAD_TOO_LARGE, "Body too large")
        .json_content::<HandleBody<'_>>(JSON)
}

const PARAMS_DESCRIPTION: &str = "Parameters of the Handle scheme, instead of the header";

/// OpenAPI spec of `/api/sessions`.
pub(crate) fn describe() -> PathSpec {
    let spec = OperationSpec::new("Create a session")
        .description(
            "Returns an id and a nonce. A signature over this nonce and a client nonce authenticates the session; Basic \
             and certificate authentication do so at once. A session expires after 30 minutes of inactivity or 24 hours.",
        )
        .request_body::<AuthParamsJson>(JSON, PARAMS_DESCRIPTION, Required::False)
        .example_command("curl -s -X POST $SERVER/api/sessions");
    let spec = with_session_responses(spec, StatusCode::CREATED, "The session")
        .response_header("Location", "`/api/sessions/this`");
    PathSpec::single(HttpMethod::Post, spec)
}

/// OpenAPI spec of `/api/sessions/this`.
pub(crate) fn describe_one() -> PathSpec {
    let get =
        OperationSpec::new("Get the current session").example_command("curl -s $SERVER/api/sessions/this");
    let get = with_session_responses(get, StatusCode::OK, "Session and authenticated identity");
    let put = || {
        let spec = OperationSpec::new("Authenticate the session")
            .description("The authenticated session has a new id, `sessionId` of the reply; the old one is unknown from then on.")
            .request_body::<AuthParamsJson>(
            JSON,
            PARAMS_DESCRIPTION,
            Required::False,
        );
        with_session_responses(spec, StatusCode::OK, "Session and authenticated identity")
    };
    let delete =
        OperationSpec::new("Delete the session").tag("Sessions").response(StatusCode::NO_CONTENT, "Deleted");
    let delete = with_session_errors(delete);
    PathSpec::readable(get)
        .with_method(HttpMethod::Put, put())
        .with_method(HttpMethod::Post, put())
        .with_method(HttpMethod::Delete, delete)
}
