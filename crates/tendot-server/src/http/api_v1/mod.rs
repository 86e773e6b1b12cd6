//! The registry API, `/api/v1`: one file or folder per resource. Errors are problem details (RFC 9457); the rules,
//! authorization included, are those of `tendot_registry`.

mod batch;
pub(crate) mod changes;
mod dois;
mod history;
mod idempotency;
mod metadata;
pub(crate) mod parties;
mod reports;
mod schemas;

pub(super) use idempotency::KeyLocks;

use std::time::SystemTime;

use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, LOCATION};
use http::{HeaderMap, Method, StatusCode};
use hyper::body::Incoming;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tendot_proto::Budget;
use tendot_registry::report::ReportKind;
use tendot_registry::{Caller, RegistryError, RegistryErrorKind};

use crate::http::pages::{self, Problem, ProblemJson, problem};
use crate::http::request::conditional::{WritePrecondition, json_with_revision};
use crate::http::request::percent;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::response::caching;
use crate::http::response::reply::{self, Reply, reply};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, count_schema, text_schema};
use crate::http::{HttpServer, REQUEST_BUDGET};
pub(crate) use changes::endpoint::describe as describe_changes;
pub(crate) use history::{describe as describe_history, format_millis, number};
pub(crate) use metadata::{MetadataSchema, describe as describe_metadata, describe_types};

pub use idempotency::sweep_receipts;

/// Resource of the registry API.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Resource {
    Agencies,
    Agency,
    Registrants,
    Registrant,
    Prefixes,
    Prefix,
    Tokens,
    Token,
    Dois,
    Batch,
    Doi,
    Transfers,
    Transfer,
    AcceptTransfer,
    DeclineTransfer,
    ReportSummary,
    Report(ReportKind),
}

impl Resource {
    /// Allowed methods.
    pub(super) const fn methods(self) -> &'static str {
        match self {
            Self::Agencies
            | Self::Registrants
            | Self::Prefixes
            | Self::Tokens
            | Self::Dois
            | Self::Transfers => "GET, HEAD, OPTIONS, POST",
            Self::Agency | Self::Registrant | Self::Prefix => "GET, HEAD, OPTIONS, PUT",
            Self::Doi => "GET, HEAD, OPTIONS, PUT, DELETE",
            Self::Token => "OPTIONS, DELETE",
            Self::Transfer | Self::ReportSummary | Self::Report(_) => "GET, HEAD, OPTIONS",
            Self::Batch | Self::AcceptTransfer | Self::DeclineTransfer => "OPTIONS, POST",
        }
    }

    pub(super) fn describe(self) -> PathSpec {
        match self {
            Self::Agencies => parties::agencies::describe(),
            Self::Agency => parties::agencies::describe_one(),
            Self::Registrants => parties::registrants::describe(),
            Self::Registrant => parties::registrants::describe_one(),
            Self::Prefixes => parties::prefixes::describe(),
            Self::Prefix => parties::prefixes::describe_one(),
            Self::Tokens => parties::tokens::describe(),
            Self::Token => parties::tokens::describe_one(),
            Self::Dois => dois::describe(),
            Self::Batch => batch::endpoint::describe(),
            Self::Doi => dois::describe_one(),
            Self::Transfers => parties::transfers::describe(),
            Self::Transfer => parties::transfers::describe_one(),
            Self::AcceptTransfer => parties::transfers::describe_decision(true),
            Self::DeclineTransfer => parties::transfers::describe_decision(false),
            Self::ReportSummary => reports::describe_summary(),
            Self::Report(report) => reports::describe(report),
        }
    }
}

/// Result of a handler of the registry API.
pub(crate) type ApiResult = Result<Reply, Box<ApiError>>;

/// Error of a registry request: a problem, or a finished reply.
pub(crate) enum ApiError {
    Problem(Box<Problem<'static>>),
    Reply(Reply),
}

impl From<Box<Problem<'static>>> for Box<ApiError> {
    fn from(problem: Box<Problem<'static>>) -> Self {
        Self::new(ApiError::Problem(problem))
    }
}

impl From<RegistryError> for Box<ApiError> {
    fn from(refusal: RegistryError) -> Self {
        problem_for_registry_error(&refusal).into()
    }
}

/// Maximum size of a request body.
const MAX_BODY_BYTES: usize = 2 << 20;

/// Default and maximum page size of lists.
const DEFAULT_PAGE_SIZE: usize = 100;
const MAX_PAGE_SIZE: usize = 1_000;

/// Parsed and authenticated request to the registry API.
pub(crate) struct ApiRequest<'a> {
    head: &'a RequestHead<'a>,
    caller: Caller,
    /// Current Unix time in milliseconds.
    at: u64,
    /// Path parameter, decoded.
    rest: String,
    parameters: QueryParams<'a>,
}

impl ApiRequest<'_> {
    /// Start and length of the requested page.
    fn page_params(&self) -> Result<(Option<&str>, usize), Box<ApiError>> {
        let limit = number(&self.parameters, "limit").map_err(|why| malformed(&why))?;
        let limit = limit
            .map_or(DEFAULT_PAGE_SIZE, |limit| usize::try_from(limit).unwrap_or(MAX_PAGE_SIZE))
            .clamp(1, MAX_PAGE_SIZE);
        Ok((self.parameters.get("after").filter(|after| !after.is_empty()), limit))
    }

    fn precondition(&self) -> Result<WritePrecondition, Box<ApiError>> {
        Ok(WritePrecondition::from_headers(self.head.headers)?)
    }

    /// Revision required by `If-Match`.
    fn expected_revision(&self) -> Result<Option<u64>, Box<ApiError>> {
        match self.precondition()? {
            WritePrecondition::Revision(revision) => Ok(Some(revision)),
            WritePrecondition::Any | WritePrecondition::Present => Ok(None),
            WritePrecondition::Absent => {
                let detail = "There is something, and it was to be changed only if there was nothing.";
                Err(problem(StatusCode::PRECONDITION_FAILED, "changed", detail).into())
            }
        }
    }
}

impl HttpServer {
    /// Handles a request to the registry API.
    pub(super) async fn serve_api_v1(
        &self,
        noun: Resource,
        method: &Method,
        rest: &str,
        body: Incoming,
        request: &RequestHead<'_>,
        now: SystemTime,
    ) -> Reply {
        let answered = self.dispatch_api_v1(noun, method, rest, body, request, now).await;
        match answered.map_err(|wrong| *wrong) {
            Ok(answer) => answer,
            Err(ApiError::Reply(answer)) => answer,
            Err(ApiError::Problem(problem)) => problem.into(),
        }
    }

    async fn dispatch_api_v1(
        &self,
        noun: Resource,
        method: &Method,
        rest: &str,
        body: Incoming,
        request: &RequestHead<'_>,
        now: SystemTime,
    ) -> ApiResult {
        let rest = percent::decode_text(rest, "path").map_err(|error| malformed(&error.to_string()))?;
        let parameters = QueryParams::parse(request.query).map_err(|error| malformed(&error.to_string()))?;
        let caller = self.authenticate(request).await.map_err(|error| {
            Box::new(ApiError::Reply(pages::problem_of_caller(error, request.accepts_credentials)))
        })?;
        let at = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        let api_request = ApiRequest { head: request, caller, at, rest: rest.into_owned(), parameters };
        let reads = *method == Method::GET || *method == Method::HEAD;
        let answered = match (noun, reads) {
            (Resource::Agencies, true) => self.list_agencies(&api_request).await,
            (Resource::Agencies, false) => self.create_agency(&api_request, body).await,
            (Resource::Agency, true) => self.get_agency(&api_request).await,
            (Resource::Agency, false) => self.update_agency(&api_request, body).await,
            (Resource::Registrants, true) => self.list_registrants(&api_request).await,
            (Resource::Registrants, false) => self.create_registrant(&api_request, body).await,
            (Resource::Registrant, true) => self.get_registrant(&api_request).await,
            (Resource::Registrant, false) => self.update_registrant(&api_request, body).await,
            (Resource::Prefixes, true) => self.list_allocated_prefixes(&api_request).await,
            (Resource::Prefixes, false) => self.allocate_prefix(&api_request, body).await,
            (Resource::Prefix, true) => self.get_prefix(&api_request).await,
            (Resource::Prefix, false) => self.update_prefix(&api_request, body).await,
            (Resource::Tokens, true) => self.list_tokens(&api_request).await,
            (Resource::Tokens, false) => self.create_token(&api_request, body).await,
            (Resource::Token, _) => self.revoke_token(&api_request).await,
            (Resource::Dois, true) => self.list_dois(&api_request).await,
            (Resource::Dois, false) => self.register_doi(&api_request, body).await,
            (Resource::Batch, _) => self.post_batch(api_request, body).await,
            (Resource::Doi, true) => self.get_doi(&api_request).await,
            (Resource::Doi, false) if *method == Method::PUT => self.update_doi(&api_request, body).await,
            (Resource::Doi, false) => self.retire_doi(&api_request).await,
            (Resource::Transfers, true) => self.list_transfers(&api_request).await,
            (Resource::Transfers, false) => self.propose_transfer(&api_request, body).await,
            (Resource::Transfer, _) => self.get_transfer(&api_request).await,
            (Resource::AcceptTransfer, _) => self.decide_transfer(&api_request, true).await,
            (Resource::DeclineTransfer, _) => self.decide_transfer(&api_request, false).await,
            (Resource::ReportSummary, _) => self.get_report_summary(&api_request).await,
            (Resource::Report(report), _) => self.get_report(report, api_request).await,
        };
        // Credentials that are not accepted on this connection were not examined: 403 instead of 401.
        answered.map_err(|wrong| match *wrong {
            ApiError::Problem(problem)
                if problem.status() == StatusCode::UNAUTHORIZED && !request.accepts_credentials =>
            {
                problem.with_status(StatusCode::FORBIDDEN).into()
            }
            wrong => Box::new(wrong),
        })
    }

    /// Reads a JSON body.
    async fn read_json<T: DeserializeOwned>(&self, body: Incoming) -> Result<T, Box<ApiError>> {
        let bytes = self.read_json_bytes(body).await?;
        // serde would accept an array as the members in order.
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| *byte == b'[') {
            return Err(malformed("a list, where an object was expected"));
        }
        let mut reader = serde_json::Deserializer::from_slice(&bytes);
        let form = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let pointer = json_pointer(error.path());
            let problem = problem(StatusCode::BAD_REQUEST, "malformed", error.inner().to_string());
            Box::<ApiError>::from(if pointer.is_empty() { problem } else { problem.pointer(pointer) })
        })?;
        reader.end().map_err(|error| problem(StatusCode::BAD_REQUEST, "malformed", error.to_string()))?;
        Ok(form)
    }

    async fn read_json_bytes(&self, body: Incoming) -> Result<bytes::Bytes, Box<ApiError>> {
        let read = self.body_reader.read(body, MAX_BODY_BYTES).await;
        Ok(read.map_err(|error| problem(error.status(), error.code(), error.to_string()))?)
    }
}

/// Path in a document as a JSON pointer.
fn json_pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer += &format!("/{index}"),
            Segment::Map { key } => pointer += &format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

fn malformed(why: &str) -> Box<ApiError> {
    problem(StatusCode::BAD_REQUEST, "malformed", why).into()
}

/// Random bytes for new ids and secrets.
fn random<const N: usize>() -> Result<[u8; N], Box<ApiError>> {
    let mut bytes = [0; N];
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => {
            let detail = "the system has no randomness";
            Err(problem(StatusCode::INTERNAL_SERVER_ERROR, "no-randomness", detail).into())
        }
    }
}

/// Problem for a registry error.
pub(super) fn problem_for_registry_error(refusal: &RegistryError) -> Box<Problem<'static>> {
    if let Some(error) = &refusal.failure {
        tracing::error!(%error, "the store failed");
    }
    let mut problem = problem(status_for_kind(refusal.reason), refusal.code, refusal.detail.clone());
    if let Some(pointer) = &refusal.pointer {
        problem = problem.pointer(&**pointer);
    }
    if let Some(hint) = &refusal.hint {
        problem = problem.hint(&**hint);
    }
    if let Some((name, since)) = &refusal.existing {
        problem = problem.member("existing", &**name);
        if let Some(since) = since {
            problem = problem.member("since", format_millis(*since));
        }
    }
    if !refusal.faults.is_empty() {
        problem = problem.member("faults", json!(refusal.faults));
    }
    problem
}

const fn status_for_kind(reason: RegistryErrorKind) -> StatusCode {
    match reason {
        RegistryErrorKind::Malformed => StatusCode::BAD_REQUEST,
        RegistryErrorKind::Unknown => StatusCode::UNAUTHORIZED,
        RegistryErrorKind::Forbidden => StatusCode::FORBIDDEN,
        RegistryErrorKind::NotFound => StatusCode::NOT_FOUND,
        RegistryErrorKind::Conflict => StatusCode::CONFLICT,
        RegistryErrorKind::Gone => StatusCode::GONE,
        RegistryErrorKind::Precondition => StatusCode::PRECONDITION_FAILED,
        RegistryErrorKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        RegistryErrorKind::Full => StatusCode::INSUFFICIENT_STORAGE,
        RegistryErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        RegistryErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

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
    next: Option<String>,
}

fn list_reply<T: Serialize>(items: Vec<T>, next: Option<String>) -> Reply {
    let json = serde_json::to_vec(&ListJson { items, next }).unwrap_or_default();
    let mut response = reply(StatusCode::OK, reply::JSON, json);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Work budget of a request.
const fn request_budget() -> Budget {
    Budget::new(REQUEST_BUDGET)
}

/// Idempotency key header.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

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
