//! The registry API, `/api/v1`: one file or folder per resource. Errors are problem details (RFC 9457); the rules,
//! authorization included, are those of `tendot_registry`.
//!
//! Replies and OpenAPI fragments that the resources share are here. In reading order:
//!
//! - `endpoints.rs`: table of all endpoints
//! - `query_parameters.rs`: query parameters of each operation
//! - `api_request.rs`: parsed request and its errors
//! - `idempotency.rs`: idempotency keys and replayed replies
//! - `dois.rs`, `batch/`: one DOI, many DOIs
//! - `parties/`: agencies, registrants, prefixes, tokens, transfers
//! - `metadata.rs`, `history.rs`, `redactions.rs`: metadata and history of a name, redaction of its history
//! - `changes/`, `reports.rs`: change feed, reports on a prefix
//! - `sessions.rs`: authenticated sessions
//! - `schemas.rs`: OpenAPI schemas

mod api_request;
mod batch;
pub(crate) mod changes;
mod dois;
mod endpoints;
mod history;
mod idempotency;
mod metadata;
pub(crate) mod parties;
mod query_parameters;
mod redactions;
mod reports;
mod schemas;
mod sessions;

use api_request::{ApiError, ApiRequest, ApiResult, malformed, parse_json, request_budget};
pub(super) use endpoints::API;
use http::header::{HeaderValue, LOCATION};
use http::{HeaderMap, StatusCode};
pub(crate) use metadata::{MetadataSchema, describe_types};
use serde::Serialize;
use tendot_registry::Caller;
use utoipa::openapi::schema::{ArrayBuilder, Type};
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::clock::format_millis;
use crate::http::request::conditional::json_with_revision;
use crate::http::request::query::number;
use crate::http::response::caching;
use crate::http::response::errors::problem_for_registry_error;
use crate::http::response::reply::{self, Reply, reply};
use crate::http::routing::operation_spec::{OperationSpec, count_schema, text_schema};

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

/// Item of a list: name and description of the schema of its pages.
trait ListItem: ToSchema {
    const LIST_NAME: &'static str;
    const LIST_DESCRIPTION: &'static str;
}

impl<T: ListItem> PartialSchema for ListJson<T> {
    fn schema() -> RefOr<Schema> {
        let next = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("Cursor of the next page, for `after`; absent on the last page"));
        ObjectBuilder::new()
            .property("items", ArrayBuilder::new().items(Ref::from_schema_name(T::name())))
            .property("next", next)
            .required("items")
            .description(Some(T::LIST_DESCRIPTION))
            .into()
    }
}

impl<T: ListItem> ToSchema for ListJson<T> {
    fn name() -> std::borrow::Cow<'static, str> {
        T::LIST_NAME.into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

/// Reply with one page of a list; only authenticated callers read lists.
fn list_reply<T: Serialize>(items: Vec<T>, next: Option<Box<str>>) -> Reply {
    let json = serde_json::to_vec(&ListJson { items, next }).unwrap_or_default();
    let mut response = reply(StatusCode::OK, reply::JSON, json);
    caching::set_private_no_store(response.headers_mut());
    response
}

/// Responses of all operations.
fn with_common_responses(spec: OperationSpec) -> OperationSpec {
    spec.tag("Registry")
        .problem(StatusCode::BAD_REQUEST, "Malformed request")
        .authentication_problems(
            "Authentication required or failed",
            "Forbidden, or credentials not accepted on this connection",
        )
        .server_problems("Server busy, or database unreachable")
        .response_header("Retry-After", "Seconds until a retry may succeed")
}

/// Responses of all writes.
fn with_write_responses(spec: OperationSpec) -> OperationSpec {
    with_common_responses(spec)
        .problem(StatusCode::NOT_FOUND, "Not found")
        .problem(StatusCode::CONFLICT, "Conflict")
        .problem(StatusCode::GONE, "Retired")
        .problem(StatusCode::PRECONDITION_FAILED, "Precondition failed (`If-Match`, `If-None-Match`)")
        .problem(StatusCode::UNPROCESSABLE_ENTITY, "Validation failed; see `pointer`")
        .problem(StatusCode::REQUEST_TIMEOUT, "Timeout while reading the body")
        .problem(StatusCode::PAYLOAD_TOO_LARGE, "Body too large")
        .problem(StatusCode::INSUFFICIENT_STORAGE, "Disk full, or quota of the prefix exceeded")
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
