//! Authenticated sessions of the native protocol and of `/api/sessions`: `/api/v1/sessions`.

use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use serde::Serialize;
use tendot_registry::RegistryError;
use utoipa::ToSchema;
use utoipa::openapi::HttpMethod;

use crate::clock::format_millis;
use crate::http::HttpServer;
use crate::http::api_v1::{
    ApiRequest, ApiResult, JSON, ListItem, ListJson, list_reply, request_budget, with_common_responses,
    with_paging, with_write_responses,
};
use crate::http::response::reply::{self, reply};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};
use crate::session_info::SessionInfo;

/// Authenticated session.
#[derive(Serialize, ToSchema)]
#[schema(as = ServerSession)]
struct SessionJson {
    /// Session id, for the operator only: it does not authenticate requests.
    id: String,
    /// `native` or `http`.
    protocol: &'static str,
    /// Authenticated identity, `INDEX:HANDLE`.
    identity: String,
    /// Creation time (RFC 3339).
    #[schema(format = DateTime)]
    created: String,
    /// Time of the last request (RFC 3339).
    #[schema(format = DateTime)]
    used: String,
    /// Expiry time without further requests (RFC 3339).
    #[schema(format = DateTime)]
    expires: String,
}

impl ListItem for SessionJson {
    const LIST_NAME: &'static str = "ServerSessionList";
    const LIST_DESCRIPTION: &'static str = "Page of sessions";
}

impl SessionJson {
    fn new(session: SessionInfo, now_ms: u64) -> Self {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            id: session.id,
            protocol: session.protocol,
            identity: session.identity,
            created: format_millis(now_ms.saturating_sub(millis(session.age))),
            used: format_millis(now_ms.saturating_sub(millis(session.idle))),
            expires: format_millis(now_ms.saturating_add(millis(session.remaining))),
        }
    }
}

impl HttpServer {
    /// Handles `GET /api/v1/sessions`.
    pub(crate) async fn list_sessions(&self, request: &ApiRequest<'_>) -> ApiResult {
        self.registry.authorize_operator(request.call(&mut request_budget())).await?;
        let (after, limit) = request.page_params()?;
        let mut sessions = self.authenticator.sessions.authenticated(Instant::now());
        if let Some(native) = &self.native_server {
            sessions.extend(native.authenticated_sessions());
        }
        sessions.retain(|session| after.is_none_or(|after| *session.id > *after));
        sessions.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let has_more = sessions.len() > limit;
        sessions.truncate(limit);
        let next = sessions.last().filter(|_| has_more).map(|last| last.id.as_str().into());
        let items = sessions.into_iter().map(|session| SessionJson::new(session, request.now_ms)).collect();
        Ok(list_reply::<SessionJson>(items, next))
    }

    /// Handles `DELETE /api/v1/sessions/{id}`.
    pub(crate) async fn end_session(&self, request: &ApiRequest<'_>) -> ApiResult {
        self.registry.authorize_operator(request.call(&mut request_budget())).await?;
        let id = &*request.path_param;
        let is_ended = self.authenticator.sessions.end(id)
            || self.native_server.as_ref().is_some_and(|native| native.end_session(id));
        if !is_ended {
            return Err(RegistryError::not_found("session", id).into());
        }
        let mut response = reply(StatusCode::NO_CONTENT, reply::JSON, "");
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }
}

/// OpenAPI spec of `/api/v1/sessions`.
pub(crate) fn describe() -> PathSpec {
    let get = with_paging(with_common_responses(OperationSpec::new("List sessions")))
        .description(
            "Operator. Authenticated sessions of this server, of the native protocol and of `/api/sessions`. A session ends \
             with its key, after its maximum age or without requests, and when the server stops.",
        )
        .response(StatusCode::OK, "The sessions, ordered by id")
        .json_content::<ListJson<SessionJson>>(JSON);
    PathSpec::readable(get)
}

/// OpenAPI spec of `/api/v1/sessions/{id}`.
pub(crate) fn describe_one() -> PathSpec {
    let delete = with_write_responses(OperationSpec::new("End a session"))
        .description("Operator. The client has to authenticate again; to prevent that, remove its key from the record.")
        .path_param("id", "Session id", text_schema())
        .response(StatusCode::NO_CONTENT, "Ended");
    PathSpec::single(HttpMethod::Delete, delete)
}
