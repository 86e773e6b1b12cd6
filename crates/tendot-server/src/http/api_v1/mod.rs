//! The registry API, `/api/v1`: one file or folder per resource. Errors are problem details (RFC 9457); the rules,
//! authorization included, are those of `tendot_registry`.
//!
//! `resource.rs` dispatches a request to its handler, `api_request.rs` has the parsed request and its errors; replies and
//! OpenAPI fragments that the resources share are here.

mod api_request;
mod batch;
pub(crate) mod changes;
mod dois;
mod history;
mod idempotency;
mod metadata;
pub(crate) mod parties;
mod reports;
mod resource;
mod schemas;

use api_request::{
    ApiError, ApiRequest, ApiResult, malformed, problem_for_registry_error, random, request_budget,
};
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION};
use http::{HeaderMap, StatusCode};
pub(super) use resource::Resource;
use serde::Serialize;
use tendot_registry::Caller;

pub(crate) use crate::clock::format_millis;
use crate::http::pages::ProblemJson;
use crate::http::request::conditional::json_with_revision;
pub(crate) use crate::http::request::query::number;
use crate::http::response::caching;
use crate::http::response::reply::{self, Reply, reply};
use crate::http::routing::operation_spec::{OperationSpec, count_schema, text_schema};
pub(crate) use changes::endpoint::describe as describe_changes;
pub(crate) use history::describe as describe_history;
pub(crate) use metadata::{MetadataSchema, describe as describe_metadata, describe_types};

/// Reply 201 with `Location` and ETag.
fn created_reply(body: &impl Serialize, revision: Option<u64>, path: &str, headers: &HeaderMap) -> Reply {
    let mut response = json_with_revision(StatusCode::CREATED, body, revision.unwrap_or_default(), headers);
    if let Ok(path) = HeaderValue::try_from(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    caching::set_private_no_store(response.headers_mut());
    response
}

/// JSON reply with the ETag of a revision.
fn json_reply(body: &impl Serialize, revision: u64, api_request: &ApiRequest<'_>) -> Reply {
    let mut response = json_with_revision(StatusCode::OK, body, revision, api_request.head.headers);
    if api_request.caller != Caller::Anonymous {
        caching::set_private_no_store(response.headers_mut());
    }
    response
}

/// One page of a list.
#[derive(Serialize)]
struct ListJson<T> {
    items: Vec<T>,
    /// Cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Box<str>>,
}

fn list_reply<T: Serialize>(items: Vec<T>, next: Option<Box<str>>) -> Reply {
    let json = serde_json::to_vec(&ListJson { items, next }).unwrap_or_default();
    let mut response = reply(StatusCode::OK, reply::JSON, json);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Responses of all operations.
fn with_common_responses(spec: OperationSpec, needs_token: bool) -> OperationSpec {
    let spec = spec.tag("Registry").security(needs_token);
    let spec = with_problem(spec, StatusCode::BAD_REQUEST, "Malformed request");
    let spec = with_problem(spec, StatusCode::UNAUTHORIZED, "Authentication required or failed")
        .response_header("WWW-Authenticate", "Supported authentication schemes");
    let spec = with_problem(
        spec,
        StatusCode::FORBIDDEN,
        "Forbidden, or credentials not accepted on this connection",
    );
    let spec = with_problem(spec, StatusCode::INTERNAL_SERVER_ERROR, "Store error");
    with_problem(spec, StatusCode::SERVICE_UNAVAILABLE, "Server busy, or database unreachable")
        .response_header("Retry-After", "Seconds until a retry may succeed")
}

/// Responses of all writes.
fn with_write_responses(spec: OperationSpec) -> OperationSpec {
    let spec = with_problem(with_common_responses(spec, true), StatusCode::NOT_FOUND, "Not found");
    let spec = with_problem(spec, StatusCode::CONFLICT, "Conflict");
    let spec = with_problem(spec, StatusCode::GONE, "Retired");
    let spec = with_problem(
        spec,
        StatusCode::PRECONDITION_FAILED,
        "Precondition failed (`If-Match`, `If-None-Match`)",
    );
    let spec = with_problem(spec, StatusCode::UNPROCESSABLE_ENTITY, "Validation failed; see `pointer`");
    let spec = with_problem(spec, StatusCode::REQUEST_TIMEOUT, "Timeout while reading the body");
    let spec = with_problem(spec, StatusCode::PAYLOAD_TOO_LARGE, "Body too large");
    with_problem(spec, StatusCode::INSUFFICIENT_STORAGE, "Disk full, or quota of the prefix exceeded")
}

fn with_problem(spec: OperationSpec, status: StatusCode, about: &str) -> OperationSpec {
    spec.response(status, about).json_content::<ProblemJson<'_>>("application/problem+json")
}

/// Query parameters of lists.
fn with_paging(spec: OperationSpec) -> OperationSpec {
    spec.query_param("after", "Cursor from `next`", text_schema()).query_param(
        "limit",
        "Maximum number of items, 1 to 1,000; default 100",
        count_schema(),
    )
}

const JSON: &str = "application/json";
