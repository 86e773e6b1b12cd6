//! What the JSON interface says, and how.

use std::borrow::Cow;

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use serde::Serialize;
use tendot_proto::record::Site;
use tendot_proto::{HandleValue, ResponseCode};
use tendot_registry::{Error, OUTCOME_UNKNOWN};
use tendot_store::StoreError;
use utoipa::ToSchema;

use super::form::ValueForm;
use crate::http::answer::{JSON, Reply, add_retry_after, reply};
use crate::http::authenticate::AuthenticationError;
use crate::http::body::BodyError;
use crate::http::page;
use crate::http::parameters::QueryParams;
use crate::http::request::RequestHead;
use crate::http::status;
use crate::http::upstream::UpstreamError;

/// Response body of the handle API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Record)]
pub(super) struct HandleBody<'a> {
    /// 1 if all is well, 100 if there is no such record, 200 if it has no such values, and others of the protocol.
    response_code: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    /// The name as it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<ValueForm>>)]
    values: Option<&'a [HandleValue<'static>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    site: Option<&'a Site<'static>>,
}

impl<'a> HandleBody<'a> {
    pub(super) const fn for_handle(code: ResponseCode, handle: &'a str) -> Self {
        Self { response_code: code.0, message: None, handle: Some(handle), values: None, site: None }
    }

    pub(super) const fn for_site(site: &'a Site<'static>) -> Self {
        let code = ResponseCode::SUCCESS.0;
        Self { response_code: code, message: None, handle: None, values: None, site: Some(site) }
    }

    pub(super) fn with_values(self, values: &'a [HandleValue<'static>]) -> Self {
        Self { values: Some(values), ..self }
    }
}

/// JSON output options: pretty-printing and JSONP callback.
#[derive(Default)]
pub(super) struct JsonOptions<'a> {
    pretty: bool,
    callback: Option<&'a str>,
}

impl<'a> JsonOptions<'a> {
    pub(super) fn from_query(parameters: &'a QueryParams<'_>) -> Self {
        Self { pretty: parameters.is_set("pretty"), callback: parameters.get("callback") }
    }
}

/// A request that is not understood.
pub(super) fn protocol_error(why: &str) -> Reply {
    error_reply(ResponseCode::PROTOCOL_ERROR, StatusCode::BAD_REQUEST, why)
}

/// A path that is not one of ours, or not by this method; also in our own interface.
pub(crate) fn unknown_endpoint(method: &http::Method, path: &str) -> Reply {
    if path == "/api/v1" || path.starts_with("/api/v1/") {
        let detail = format!("There is nothing that is done by {method} at {path}.");
        let hint = "All that is done, and where: /docs, and for programs /openapi.json.";
        return page::problem(StatusCode::NOT_FOUND, "no-such-path", detail).hint(hint).into();
    }
    let why = format!("Unknown HTTP API endpoint {method} {path}");
    error_reply(ResponseCode::PROTOCOL_ERROR, StatusCode::NOT_FOUND, &why)
}

/// A name that is none.
pub(super) fn empty_name() -> Reply {
    error_reply(ResponseCode::INVALID_HANDLE, StatusCode::BAD_REQUEST, "Empty handle invalid")
}

/// A name cannot be made up.
pub(super) fn no_randomness() -> Reply {
    error_reply(ResponseCode::ERROR, StatusCode::INTERNAL_SERVER_ERROR, "the system has no randomness")
}

/// A body that is too large, too slow or broken.
pub(super) fn body_error(error: BodyError) -> Reply {
    error_reply(ResponseCode::PROTOCOL_ERROR, error.status(), &error.to_string())
}

fn error_reply(code: ResponseCode, status: StatusCode, why: &str) -> Reply {
    let body = HandleBody {
        response_code: code.0,
        message: Some(why.into()),
        handle: None,
        values: None,
        site: None,
    };
    json_reply(status, &body, &JsonOptions::default())
}

/// Something that was not done.
pub(super) fn registry_error(error: &Error, status: StatusCode, name: &str, form: &JsonOptions<'_>) -> Reply {
    let message = match error {
        // The code says it all.
        Error::NotFound | Error::NeedsAuthentication | Error::NotAdministrator { .. } => None,
        Error::AlreadyExists { name: existing } if **existing == *name => None,
        Error::Store(error) => {
            tracing::error!(%error, "the store failed");
            Some(match error {
                StoreError::Full { .. } => "there is no room on the disk of the server".into(),
                StoreError::ReadOnly { .. } => "nothing can be written at present".into(),
                StoreError::Unreachable { .. } => "the database is not reached at present".into(),
                StoreError::Unknown { .. } => OUTCOME_UNKNOWN.into(),
                _ => "the store failed".into(),
            })
        }
        error => Some(error.to_string().into()),
    };
    let handle = (!name.is_empty()).then_some(name);
    let body = HandleBody { message, handle, ..HandleBody::for_handle(error.response_code(), name) };
    let mut response = json_reply(status, &body, form);
    if status == StatusCode::SERVICE_UNAVAILABLE && !matches!(error, Error::Exhausted(_)) {
        add_retry_after(response.headers_mut());
    }
    response
}

/// A name that is kept elsewhere, of which nobody could say anything.
pub(super) fn upstream_error(error: &UpstreamError, name: &str, form: &JsonOptions<'_>) -> Reply {
    let message =
        format!("this handle is not kept here, and could not be asked for: {}", error.public_message());
    let body =
        HandleBody { message: Some(message.into()), ..HandleBody::for_handle(ResponseCode::ERROR, name) };
    json_reply(error.status(), &body, form)
}

/// Somebody who is not believed to be who they say.
pub(super) fn authentication_error(
    error: AuthenticationError,
    name: &str,
    request: &RequestHead<'_>,
) -> Reply {
    if let Some(answer) = error.retry_reply() {
        return answer;
    }
    let status = status::status_for(ResponseCode::AUTHENTICATION_NEEDED, request.takes_credentials);
    let handle = (!name.is_empty()).then_some(name);
    let code = ResponseCode::AUTHENTICATION_FAILED;
    let body =
        HandleBody { message: Some(error.to_string().into()), handle, ..HandleBody::for_handle(code, name) };
    let mut response = json_reply(status, &body, &JsonOptions::default());
    response.extensions_mut().insert(error);
    response
}

/// The status of an error in reading or writing: to have asked for values that are not there is wrong only in writing.
pub(super) const fn write_status(error: &Error, takes_credentials: bool) -> StatusCode {
    match (error, error.response_code()) {
        (Error::Store(StoreError::Full { .. }), _) => StatusCode::INSUFFICIENT_STORAGE,
        (Error::Store(StoreError::Unknown { .. }), _) => StatusCode::SERVICE_UNAVAILABLE,
        (_, ResponseCode::VALUES_NOT_FOUND) => StatusCode::BAD_REQUEST,
        (_, code) => status::status_for(code, takes_credentials),
    }
}

pub(super) fn json_reply(status: StatusCode, body: &impl Serialize, form: &JsonOptions<'_>) -> Reply {
    let printed = if form.pretty { serde_json::to_vec_pretty(body) } else { serde_json::to_vec(body) };
    let Ok(json) = printed else { return reply(StatusCode::INTERNAL_SERVER_ERROR, JSON, "") };
    let Some(callback) = form.callback else {
        let mut response = reply(status, JSON, json);
        if status != StatusCode::OK {
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        return response;
    };
    // To a browser a script with another status is none.
    let script = format!("{}({});", callback_name(callback), escape_for_script(&json));
    reply(StatusCode::OK, HeaderValue::from_static("application/javascript;charset=utf-8"), script)
}

/// The name of a function: what cannot be part of one becomes `_`.
fn callback_name(callback: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
    callback.chars().take(128).map(|c| if is_part(c) { c } else { '_' }).collect()
}

/// JSON as a script may have it: without two ends of lines that JSON allows and old scripts do not.
fn escape_for_script(json: &[u8]) -> String {
    String::from_utf8_lossy(json).replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions() {
        assert_eq!(callback_name("my.call_back$1"), "my.call_back$1");
        assert_eq!(callback_name("alert(1)//"), "alert_1___");
        assert_eq!(callback_name(&"a".repeat(1_000)).len(), 128);
    }

    #[test]
    fn scripts() {
        let body = HandleBody::for_handle(ResponseCode::SUCCESS, "a\u{2028}b");
        let response =
            json_reply(StatusCode::BAD_REQUEST, &body, &JsonOptions { pretty: false, callback: Some("f") });
        assert_eq!(&**response.body(), br#"f({"responseCode":1,"handle":"a\u2028b"});"#);
    }
}
