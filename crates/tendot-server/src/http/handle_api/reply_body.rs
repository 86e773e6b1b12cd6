//! Response bodies of the handle API: JSON, JSONP and errors.

use std::borrow::Cow;

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use serde::Serialize;
use tendot_proto::record::Site;
use tendot_proto::{HandleValue, ResponseCode};
use tendot_registry::{Error, describe_store_error};
use tendot_store::StoreError;
use utoipa::ToSchema;

use crate::http::authentication::AuthenticationError;
use crate::http::handle_api::schemas::ValueForm;
use crate::http::request::body::BodyError;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::upstream::UpstreamError;
use crate::http::response::caching;
use crate::http::response::errors::status_for;
use crate::http::response::reply::{JSON, Reply, add_retry_after, reply};

/// Response body of the handle API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Record)]
pub(crate) struct HandleBody<'a> {
    /// Response code of the Handle protocol: 1 success, 100 record not found, 200 no values match.
    response_code: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    /// Name as requested.
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
    pub(crate) const fn for_handle(code: ResponseCode, handle: &'a str) -> Self {
        Self { response_code: code.0, message: None, handle: Some(handle), values: None, site: None }
    }

    pub(crate) const fn for_site(site: &'a Site<'static>) -> Self {
        let code = ResponseCode::SUCCESS.0;
        Self { response_code: code, message: None, handle: None, values: None, site: Some(site) }
    }

    pub(crate) fn with_values(self, values: &'a [HandleValue<'static>]) -> Self {
        Self { values: Some(values), ..self }
    }
}

/// JSON output options: pretty-printing and JSONP callback.
#[derive(Default)]
pub(crate) struct JsonOptions<'a> {
    pretty: bool,
    callback: Option<&'a str>,
}

impl<'a> JsonOptions<'a> {
    pub(crate) fn from_query(parameters: &'a QueryParams<'_>) -> Self {
        Self { pretty: parameters.is_set("pretty"), callback: parameters.get("callback") }
    }
}

/// Invalid request.
pub(crate) fn protocol_error(message: &str) -> Reply {
    error_reply(ResponseCode::PROTOCOL_ERROR, StatusCode::BAD_REQUEST, message)
}

/// Empty handle.
pub(crate) fn empty_handle() -> Reply {
    error_reply(ResponseCode::INVALID_HANDLE, StatusCode::BAD_REQUEST, "Empty handle invalid")
}

/// Request body rejected: too large, too slow or malformed.
pub(crate) fn body_error(error: BodyError) -> Reply {
    error_reply(ResponseCode::PROTOCOL_ERROR, error.status(), &error.to_string())
}

/// Error without a name.
pub(crate) fn error_reply(code: ResponseCode, status: StatusCode, message: &str) -> Reply {
    let body = HandleBody {
        response_code: code.0,
        message: Some(message.into()),
        handle: None,
        values: None,
        site: None,
    };
    json_reply(status, &body, &JsonOptions::default())
}

/// Reply for a registry error.
pub(crate) fn registry_error(
    error: &Error,
    status: StatusCode,
    name: &str,
    options: &JsonOptions<'_>,
) -> Reply {
    let message = match error {
        // The response code is sufficient.
        Error::NotFound | Error::AuthenticationRequired | Error::NotAuthorized { .. } => None,
        Error::AlreadyExists { name: existing } if **existing == *name => None,
        Error::Store(error) => {
            tracing::error!(%error, "store error");
            Some(describe_store_error(error).1.into())
        }
        error => Some(error.to_string().into()),
    };
    let handle = (!name.is_empty()).then_some(name);
    let body = HandleBody { message, handle, ..HandleBody::for_handle(error.response_code(), name) };
    let mut response = json_reply(status, &body, options);
    let is_in_doubt = matches!(error, Error::Store(StoreError::InDoubt { .. }));
    let is_unavailable =
        status == StatusCode::SERVICE_UNAVAILABLE && !matches!(error, Error::BudgetExceeded(_));
    if is_in_doubt || is_unavailable {
        add_retry_after(response.headers_mut());
    }
    response
}

/// Reply for a name whose responsible service could not be queried: response code 2 and status 500, as at Handle.Net's servers.
/// `Cache-Status` names the failure of the upstream.
pub(crate) fn upstream_error(error: &UpstreamError, name: &str, options: &JsonOptions<'_>) -> Reply {
    let message = format!(
        "this server is not responsible for the handle, and the upstream failed: {}",
        error.public_message()
    );
    let body =
        HandleBody { message: Some(message.into()), ..HandleBody::for_handle(ResponseCode::ERROR, name) };
    let mut response = json_reply(StatusCode::INTERNAL_SERVER_ERROR, &body, options);
    caching::add_upstream_failure(response.headers_mut(), error);
    if error.status() == StatusCode::SERVICE_UNAVAILABLE {
        add_retry_after(response.headers_mut());
    }
    response
}

/// Reply for failed authentication.
pub(crate) fn authentication_error(
    error: AuthenticationError,
    name: &str,
    request: &RequestHead<'_>,
) -> Reply {
    if matches!(error, AuthenticationError::InvalidUtf8 { .. }) {
        return protocol_error(&error.to_string());
    }
    if let Some(reply) = error.early_reply() {
        return reply;
    }
    let status = status_for(ResponseCode::AUTHENTICATION_NEEDED, request.accepts_credentials);
    let handle = (!name.is_empty()).then_some(name);
    let code = ResponseCode::AUTHENTICATION_FAILED;
    let body =
        HandleBody { message: Some(error.to_string().into()), handle, ..HandleBody::for_handle(code, name) };
    let mut response = json_reply(status, &body, &JsonOptions::default());
    response.auth_error = Some(error);
    response
}

pub(crate) fn json_reply(status: StatusCode, body: &impl Serialize, options: &JsonOptions<'_>) -> Reply {
    let rendered = if options.pretty { serde_json::to_vec_pretty(body) } else { serde_json::to_vec(body) };
    let Ok(json) = rendered else { return reply(StatusCode::INTERNAL_SERVER_ERROR, JSON, "") };
    let Some(callback) = options.callback else {
        let mut response = reply(status, JSON, json);
        if status != StatusCode::OK {
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        return response;
    };
    // Browsers do not run a script with an error status.
    let script = format!("{}({});", callback_name(callback), escape_for_script(&json));
    reply(StatusCode::OK, HeaderValue::from_static("application/javascript;charset=utf-8"), script)
}

/// JSONP callback name; invalid characters become `_`.
fn callback_name(callback: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
    callback.chars().take(128).map(|c| if is_allowed(c) { c } else { '_' }).collect()
}

/// JSON for a script: escapes U+2028 and U+2029, which old scripts do not allow.
fn escape_for_script(json: &[u8]) -> String {
    String::from_utf8_lossy(json).replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callback_names() {
        assert_eq!(callback_name("my.call_back$1"), "my.call_back$1");
        assert_eq!(callback_name("alert(1)//"), "alert_1___");
        assert_eq!(callback_name(&"a".repeat(1_000)).len(), 128);
    }

    #[test]
    fn jsonp_bodies() {
        let body = HandleBody::for_handle(ResponseCode::SUCCESS, "a\u{2028}b");
        let response =
            json_reply(StatusCode::BAD_REQUEST, &body, &JsonOptions { pretty: false, callback: Some("f") });
        assert_eq!(&**response.body(), br#"f({"responseCode":1,"handle":"a\u2028b"});"#);
    }
}
