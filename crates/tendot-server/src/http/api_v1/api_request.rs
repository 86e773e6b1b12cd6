//! Parsed request to the registry API, its errors, and the reading of its body.

use bytes::Bytes;
use http::header::HeaderName;
use serde::de::DeserializeOwned;
use tendot_proto::Budget;
use tendot_registry::{CallContext, Caller, Error, RegistryError};

use crate::http::api_v1::query_parameters::check_query_parameters;
use crate::http::request::body::RequestBody;
use crate::http::request::conditional::WritePrecondition;
use crate::http::request::percent;
use crate::http::request::query::{QueryParams, number};
use crate::http::request::request_head::RequestHead;
use crate::http::response::errors::{
    authentication_failed, for_connection, malformed_request, precondition_failed, problem_for_body,
    problem_for_registry_error,
};
use crate::http::response::problem::Problem;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::{Call, RequestMethod};
use crate::http::{HttpServer, REQUEST_BUDGET};

/// Maximum size of a request body.
const MAX_BODY_BYTES: usize = 2 << 20;

/// Default and maximum page size of lists.
const DEFAULT_PAGE_SIZE: usize = 100;
const MAX_PAGE_SIZE: usize = 1_000;

/// Work budget of a request.
pub(super) const fn request_budget() -> Budget {
    Budget::new(REQUEST_BUDGET)
}

/// Idempotency key header.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Parsed and authenticated request to the registry API.
pub(crate) struct ApiRequest<'a> {
    pub(super) head: &'a RequestHead<'a>,
    pub(super) caller: Caller,
    /// Current Unix time in milliseconds.
    pub(super) now_ms: u64,
    /// Path parameter, decoded.
    pub(super) path_param: String,
    pub(super) parameters: QueryParams<'a>,
}

impl ApiRequest<'_> {
    /// Call context of an operation of the registry.
    pub(super) const fn call<'b>(&'b self, budget: &'b mut Budget) -> CallContext<'b> {
        CallContext::new(&self.caller, self.now_ms, budget).from_client(self.head.client)
    }

    /// Start and length of the requested page.
    pub(super) fn page_params(&self) -> Result<(Option<&str>, usize), Box<ApiError>> {
        let limit = number(&self.parameters, "limit").map_err(|reason| malformed(&reason))?;
        let limit = limit
            .map_or(DEFAULT_PAGE_SIZE, |limit| usize::try_from(limit).unwrap_or(MAX_PAGE_SIZE))
            .clamp(1, MAX_PAGE_SIZE);
        Ok((self.parameters.get("after").filter(|after| !after.is_empty()), limit))
    }

    /// Precondition of a write.
    pub(super) fn precondition(&self) -> Result<WritePrecondition, Box<ApiError>> {
        Ok(WritePrecondition::from_headers(self.head.headers)?)
    }

    /// Revision required by `If-Match`.
    pub(super) fn expected_revision(&self) -> Result<Option<u64>, Box<ApiError>> {
        match self.precondition()? {
            WritePrecondition::Revision(revision) => Ok(Some(revision)),
            WritePrecondition::Any | WritePrecondition::Present => Ok(None),
            WritePrecondition::Absent => Err(precondition_failed().into()),
        }
    }
}

/// Result of a handler of the registry API.
pub(crate) type ApiResult = Result<Reply, Box<ApiError>>;

/// Error of a registry request: a problem, or a finished reply.
pub(crate) enum ApiError {
    Problem(Box<Problem<'static>>),
    Reply(Box<Reply>),
}

impl From<Box<Problem<'static>>> for Box<ApiError> {
    fn from(problem: Box<Problem<'static>>) -> Self {
        Self::new(ApiError::Problem(problem))
    }
}

impl From<RegistryError> for Box<ApiError> {
    fn from(error: RegistryError) -> Self {
        problem_for_registry_error(&error).into()
    }
}

impl HttpServer {
    /// Parses and authenticates a request.
    pub(super) async fn parse_api_request<'a>(
        &self,
        call: Call<'a>,
    ) -> Result<(ApiRequest<'a>, RequestBody), Box<ApiError>> {
        let Call { head, endpoint, method, path_param, body, .. } = call;
        let path_param =
            percent::decode_text(path_param, "path").map_err(|error| malformed(&error.to_string()))?;
        let parameters = QueryParams::parse(head.query).map_err(|error| malformed(&error.to_string()))?;
        let (caller, body) = self.authenticator.admit_body(body, head).await.map_err(|error| {
            let reply = authentication_failed(error, head.accepts_credentials);
            Box::new(ApiError::Reply(Box::new(reply)))
        })?;
        // Before its body is read. Reads are decided by the registry, which does not disclose what exists.
        if method != RequestMethod::Get && caller == Caller::Anonymous {
            return Err(RegistryError::from(Error::AuthenticationRequired).into());
        }
        check_query_parameters(endpoint, method, &parameters)?;
        let now_ms = self.registry.now_ms();
        let path_param = path_param.into_owned();
        Ok((ApiRequest { head, caller, now_ms, path_param, parameters }, body))
    }

    /// Reads a JSON body.
    pub(super) async fn read_json<T: DeserializeOwned>(&self, body: RequestBody) -> Result<T, Box<ApiError>> {
        parse_json(&self.read_json_bytes(body).await?)
    }

    /// Reads a body of at most `MAX_BODY_BYTES`.
    pub(super) async fn read_json_bytes(&self, body: RequestBody) -> Result<Bytes, Box<ApiError>> {
        let body = self.body_reader.read_text(body, MAX_BODY_BYTES).await;
        Ok(body.map_err(problem_for_body)?.into())
    }
}

/// Parses a JSON object.
pub(super) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Box<ApiError>> {
    // serde would accept an array as the members in order.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| *byte == b'[') {
        return Err(malformed("expected a JSON object, found an array"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let pointer = json_pointer(error.path());
        let problem = malformed_request(&error.inner().to_string());
        Box::<ApiError>::from(if pointer.is_empty() { problem } else { problem.pointer(pointer) })
    })?;
    reader.end().map_err(|error| malformed(&error.to_string()))?;
    Ok(value)
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

/// Error for a malformed request.
pub(super) fn malformed(reason: &str) -> Box<ApiError> {
    malformed_request(reason).into()
}

/// Reply with the result of a handler.
pub(super) fn api_reply(result: ApiResult, accepts_credentials: bool) -> Reply {
    match result.map_err(|error| *error) {
        Ok(reply) => reply,
        Err(ApiError::Reply(reply)) => *reply,
        Err(ApiError::Problem(problem)) => for_connection(problem, accepts_credentials).into(),
    }
}
