//! Problems: the only place where an error becomes a status, a code and a title.
//!
//! Handlers return errors of the registry, the store, the upstream resolver, authentication and request bodies; this file
//! decides how clients see them, also their statuses in Handle.Net's API. `codes.rs` has the codes and their meaning,
//! `problem.rs` the form. Plain-text errors have no code: those of connections, the rate limit, the tunnel and sessions are
//! built where they occur.

use http::header::{ALLOW, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use serde_json::json;
use tendot_client::HttpUpstreamError;
use tendot_client::native::ResolveError;
use tendot_names::DoiOrShortDoi;
use tendot_proto::ResponseCode;
use tendot_registry::{Error, ExistingName, RegistryError, RegistryErrorKind, describe_store_error};
use tendot_store::StoreError;

use crate::clock::format_millis;
use crate::http::authentication::AuthenticationError;
use crate::http::compat::reverse_lookup::ReverseLookupError;
use crate::http::handle_api;
use crate::http::middleware::change_guard::RefusedChange;
use crate::http::pages;
use crate::http::request::accept;
use crate::http::request::body::BodyError;
use crate::http::request::percent::RequestSyntaxError;
use crate::http::resolve::requested_name::{NameKind, RequestedName};
use crate::http::resolve::upstream::{UpstreamError, is_timeout};
use crate::http::response::codes;
use crate::http::response::problem::{Problem, capitalize, problem};
use crate::http::response::reply::{Reply, TEXT, reply};
use crate::http::too_many_requests;

/// Form of the errors of an API.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ErrorFormat {
    /// Problem details (RFC 9457).
    Problem,
    /// JSON of Handle.Net's API, with a response code.
    HandleJson,
    Text,
}

impl ErrorFormat {
    /// Reply for a path without an endpoint.
    pub(crate) fn unknown_endpoint(self, method: &Method, path: &str) -> Reply {
        let status = StatusCode::NOT_FOUND;
        match self {
            // An unknown path of an API with text errors is a name.
            Self::Problem | Self::Text => {
                problem(status, codes::UNKNOWN_ENDPOINT, format!("No endpoint {method} {path}."))
                    .hint("See /docs or /openapi.json.")
                    .into()
            }
            Self::HandleJson => {
                let message = format!("Unknown HTTP API endpoint {method} {path}");
                handle_api::error_reply(ResponseCode::PROTOCOL_ERROR, status, &message)
            }
        }
    }

    /// Reply for a method that the endpoint does not have; as JSON if `Accept` prefers it.
    pub(crate) fn method_not_allowed(
        self,
        allowed: HeaderValue,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Reply {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        let methods = allowed.to_str().unwrap_or_default();
        let detail = || format!("Method {method} is not allowed; allowed: {methods}.");
        let mut response = match self {
            Self::Problem => problem(status, codes::METHOD_NOT_ALLOWED, detail()).into(),
            Self::HandleJson => self.unknown_endpoint(method, path),
            Self::Text if accept::prefers_json(headers) => {
                pages::vary_by_accept(problem(status, codes::METHOD_NOT_ALLOWED, detail()).into())
            }
            Self::Text => pages::vary_by_accept(reply(status, TEXT, format!("{}\n", detail()))),
        };
        *response.status_mut() = status;
        response.headers_mut().insert(ALLOW, allowed);
        response
    }

    /// Reply for a path, query or header that cannot be parsed; as JSON if the API or `Accept` wants it.
    pub(crate) fn syntax_error(self, error: &RequestSyntaxError, headers: &HeaderMap) -> Reply {
        self.malformed(&error.to_string(), headers)
    }

    /// Reply for a malformed request; as JSON if the API or `Accept` wants it.
    pub(crate) fn malformed(self, message: &str, headers: &HeaderMap) -> Reply {
        match self {
            Self::Problem => malformed_request(message).into(),
            Self::HandleJson => {
                handle_api::error_reply(ResponseCode::PROTOCOL_ERROR, StatusCode::BAD_REQUEST, message)
            }
            Self::Text if accept::prefers_json(headers) => {
                pages::vary_by_accept(malformed_request(message).into())
            }
            Self::Text => pages::vary_by_accept(reply(StatusCode::BAD_REQUEST, TEXT, format!("{message}\n"))),
        }
    }
}

impl ErrorFormat {
    /// Reply for a change that the browser of another site may have sent.
    pub(crate) fn refused_change(self, refused: &RefusedChange) -> Reply {
        let (status, code, response_code) = match refused {
            RefusedChange::CrossOrigin => {
                (StatusCode::FORBIDDEN, codes::CROSS_ORIGIN, ResponseCode::AUTHENTICATION_FAILED)
            }
            RefusedChange::MediaType(_) => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                codes::UNSUPPORTED_MEDIA_TYPE,
                ResponseCode::PROTOCOL_ERROR,
            ),
        };
        match self {
            Self::Problem | Self::Text => {
                problem(status, code, format!("{}.", capitalize(&refused.to_string()))).into()
            }
            Self::HandleJson => handle_api::error_reply(response_code, status, &refused.to_string()),
        }
    }
}

/// HTTP status of a response code of the Handle protocol. 401 is used only where credentials would be accepted.
pub(crate) const fn status_for(code: ResponseCode, accepts_credentials: bool) -> StatusCode {
    match code {
        ResponseCode::SUCCESS | ResponseCode::VALUES_NOT_FOUND => StatusCode::OK,
        ResponseCode::HANDLE_NOT_FOUND => StatusCode::NOT_FOUND,
        ResponseCode::HANDLE_ALREADY_EXISTS | ResponseCode::VALUE_ALREADY_EXISTS => StatusCode::CONFLICT,
        ResponseCode::INVALID_HANDLE
        | ResponseCode::INVALID_VALUE
        | ResponseCode::PROTOCOL_ERROR
        | ResponseCode::SERVER_NOT_RESPONSIBLE => StatusCode::BAD_REQUEST,
        ResponseCode::SERVICE_REFERRAL | ResponseCode::PREFIX_REFERRAL => StatusCode::MULTIPLE_CHOICES,
        ResponseCode::AUTHENTICATION_NEEDED => unauthenticated_status(accepts_credentials).0,
        ResponseCode(400..=499) => StatusCode::FORBIDDEN,
        ResponseCode::SERVER_TOO_BUSY | ResponseCode::SERVER_BACKUP => StatusCode::SERVICE_UNAVAILABLE,
        ResponseCode::OPERATION_NOT_SUPPORTED => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// HTTP status of an error in Handle.Net's API. Response code 2 always has status 500.
pub(crate) const fn error_status(error: &Error, accepts_credentials: bool) -> StatusCode {
    match error {
        Error::Store(store_error) if !matches!(error.response_code(), ResponseCode::ERROR) => {
            status_for_kind(describe_store_error(store_error).0.kind)
        }
        error => status_for(error.response_code(), accepts_credentials),
    }
}

/// HTTP status of a failed write in Handle.Net's API. Missing values are a client error only in writes.
pub(crate) const fn write_status(error: &Error, accepts_credentials: bool) -> StatusCode {
    match error.response_code() {
        ResponseCode::VALUES_NOT_FOUND => StatusCode::BAD_REQUEST,
        _ => error_status(error, accepts_credentials),
    }
}

/// HTTP status and error code of missing or invalid credentials: 401 only where credentials would be accepted. Elsewhere they
/// were not examined.
const fn unauthenticated_status(accepts_credentials: bool) -> (StatusCode, &'static str) {
    if accepts_credentials {
        (StatusCode::UNAUTHORIZED, codes::UNAUTHENTICATED)
    } else {
        (StatusCode::FORBIDDEN, codes::INSECURE_TRANSPORT)
    }
}

/// HTTP status of a registry error.
const fn status_for_kind(kind: RegistryErrorKind) -> StatusCode {
    match kind {
        RegistryErrorKind::Malformed => StatusCode::BAD_REQUEST,
        RegistryErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        RegistryErrorKind::Forbidden => StatusCode::FORBIDDEN,
        RegistryErrorKind::NotFound => StatusCode::NOT_FOUND,
        RegistryErrorKind::Conflict => StatusCode::CONFLICT,
        RegistryErrorKind::Gone => StatusCode::GONE,
        RegistryErrorKind::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
        RegistryErrorKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        RegistryErrorKind::LimitReached => StatusCode::INSUFFICIENT_STORAGE,
        RegistryErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        RegistryErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// HTTP status of a registry error, as a number, for the documentation of error codes.
pub const fn registry_error_status(kind: RegistryErrorKind) -> u16 {
    status_for_kind(kind).as_u16()
}

impl BodyError {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge { .. } | Self::DecompressionRatio { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Malformed | Self::InvalidUtf8 { .. } => StatusCode::BAD_REQUEST,
            Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Error code of the problem.
    const fn code(self) -> &'static str {
        match self {
            Self::TooLarge { .. } => codes::TOO_LARGE,
            Self::Timeout => codes::REQUEST_TIMEOUT,
            Self::Overloaded => codes::OVERLOADED,
            Self::UnsupportedEncoding => codes::UNSUPPORTED_MEDIA_TYPE,
            Self::DecompressionRatio { .. } => codes::DECOMPRESSION_RATIO,
            Self::Malformed | Self::InvalidUtf8 { .. } => codes::MALFORMED,
        }
    }
}

impl UpstreamError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Http(HttpUpstreamError::Timeout { .. }) | Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Http(HttpUpstreamError::LoopDetected { .. }) | Self::Loop => StatusCode::LOOP_DETECTED,
            Self::Native(error) if is_timeout(error) => StatusCode::GATEWAY_TIMEOUT,
            Self::Native(ResolveError::Busy { .. }) | Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Self::CertificateLookup(error) => error.status(),
            Self::Http(_) | Self::Native(_) | Self::TooManyQueries | Self::Untrusted(_) => {
                StatusCode::BAD_GATEWAY
            }
        }
    }

    /// Error code of the problem.
    pub(crate) fn code(&self) -> &'static str {
        match self.status() {
            StatusCode::GATEWAY_TIMEOUT => codes::UPSTREAM_TIMEOUT,
            StatusCode::LOOP_DETECTED => codes::UPSTREAM_LOOP,
            StatusCode::SERVICE_UNAVAILABLE => codes::UPSTREAM_OVERLOADED,
            _ => codes::UPSTREAM_FAILED,
        }
    }
}

impl AuthenticationError {
    /// Reply to an error that says nothing about the credentials: they were not examined, or cannot be read.
    pub(crate) fn early_reply(self) -> Option<Reply> {
        match self {
            Self::Throttled(wait) => Some(too_many_requests(wait)),
            Self::Unavailable => {
                let detail = "Authentication is temporarily unavailable. Retry later.";
                Some(problem(StatusCode::SERVICE_UNAVAILABLE, codes::STORE_UNAVAILABLE, detail).into())
            }
            Self::InvalidUtf8 { .. } => Some(malformed_request(&self.to_string()).into()),
            _ => None,
        }
    }
}

/// Reply for failed authentication, for programs.
pub(crate) fn authentication_failed(error: AuthenticationError, accepts_credentials: bool) -> Reply {
    error.early_reply().unwrap_or_else(|| {
        let detail = format!("{}.", capitalize(&error.to_string()));
        unauthenticated(accepts_credentials, detail).into()
    })
}

/// Problem for missing or invalid credentials.
fn unauthenticated(accepts_credentials: bool, detail: String) -> Box<Problem<'static>> {
    for_connection(problem(StatusCode::UNAUTHORIZED, codes::UNAUTHENTICATED, detail), accepts_credentials)
}

/// Reason why credentials were ignored on a connection, and the remedy.
const INSECURE_TRANSPORT_DETAIL: &str = "Authentication is required, but credentials are ignored on this connection: it is plain HTTP, \
                                         a proxy that is not trusted or did not report HTTPS, or a cross-site request.";
const INSECURE_TRANSPORT_HINT: &str = "use HTTPS; behind a proxy, list its address in `http.trusted_proxies` and let it send \
                                       `X-Forwarded-Proto: https`";

/// Problem as it is sent on this connection: where credentials are not accepted, 401 becomes 403.
pub(crate) fn for_connection(problem: Box<Problem<'_>>, accepts_credentials: bool) -> Box<Problem<'_>> {
    if problem.status() == StatusCode::UNAUTHORIZED && !accepts_credentials {
        let (status, code) = unauthenticated_status(accepts_credentials);
        let mut problem = problem.with_status(status).with_code(code).hint(INSECURE_TRANSPORT_HINT);
        problem.detail = INSECURE_TRANSPORT_DETAIL.into();
        problem
    } else {
        problem
    }
}

/// Problem for an error of the registry API.
pub(crate) fn problem_for_registry_error(error: &RegistryError) -> Box<Problem<'static>> {
    if let Some(cause) = &error.source {
        tracing::error!(error = %cause, "store error");
    }
    let mut problem = problem(status_for_kind(error.kind), error.code, error.detail.clone());
    if let Some(pointer) = &error.pointer {
        problem = problem.pointer(&**pointer);
    }
    if let Some(hint) = &error.hint {
        problem = problem.hint(&**hint);
    }
    if let Some(ExistingName { name, registered_ms: since }) = &error.existing {
        problem = problem.member("existing", &**name);
        if let Some(since) = since {
            problem = problem.member("since", format_millis(*since));
        }
    }
    if !error.faults.is_empty() {
        problem = problem.member("faults", json!(error.faults));
    }
    problem
}

/// Problem for a rejected request body.
pub(crate) fn problem_for_body(error: BodyError) -> Box<Problem<'static>> {
    problem(error.status(), error.code(), error.to_string())
}

/// Problem for a store failure; the cause is only logged.
pub(crate) fn problem_for_store(error: &StoreError) -> Box<Problem<'static>> {
    tracing::error!(%error, "store error");
    let (spec, message) = describe_store_error(error);
    let advice = if matches!(error, StoreError::InDoubt { .. }) { "" } else { " Retry later." };
    let detail = format!("{}.{advice}", capitalize(message));
    problem(status_for_kind(spec.kind), spec.code, detail).title("Server error")
}

/// Problem for an error that does not depend on a name.
pub(crate) fn problem_for_error(error: &Error) -> Box<Problem<'static>> {
    let sentence = || format!("{}.", capitalize(&error.to_string()));
    let status = status_for(error.response_code(), false);
    match error {
        Error::Registry(error) => problem_for_registry_error(error),
        Error::Store(error) => problem_for_store(error),
        Error::BudgetExceeded(_) => {
            let detail = "The request exceeds the work limit.";
            problem(StatusCode::SERVICE_UNAVAILABLE, codes::BUDGET_EXCEEDED, detail)
                .title("Request too expensive")
        }
        Error::Name(_) => problem(status, codes::INVALID_NAME, sentence()),
        Error::Retired => {
            let detail = "It no longer resolves, and it will not be reused.";
            problem(StatusCode::GONE, codes::RETIRED, detail).title("This name is retired")
        }
        Error::ValuesNotFound => {
            let detail = "The record has no public values that match the request.";
            problem(StatusCode::NOT_FOUND, codes::NO_VALUES, detail).title("No public values")
        }
        Error::NotFound => {
            let detail = "This server is responsible for the prefix, but has no record of this name.";
            problem(status, codes::NOT_FOUND, detail).title("Name not found")
        }
        Error::NotResponsible { .. } => problem(StatusCode::NOT_FOUND, codes::NOT_RESPONSIBLE, sentence())
            .title("Not responsible for this prefix"),
        Error::OtherServer => {
            let detail = "Another server of this site is responsible for it.";
            problem(StatusCode::NOT_FOUND, codes::NOT_RESPONSIBLE, detail)
                .title("Not responsible for this name")
        }
        _ if status == StatusCode::INTERNAL_SERVER_ERROR => {
            problem(status, codes::STORE_FAILED, sentence()).title("Server error")
        }
        _ => problem(status, codes::UNSUPPORTED, sentence()).title("Not supported"),
    }
}

/// Reason for a name of another service, if this server has no upstream resolver.
pub(crate) const NO_UPSTREAM_REASON: &str =
    "Another service may be responsible; this server has no upstream resolver.";

/// Problem for a failed lookup of a name, with the likely reasons.
pub(crate) fn problem_for_lookup(name: &RequestedName<'_>, error: &Error) -> Problem<'static> {
    let text = name.as_str();
    match (error, name.kind()) {
        (_, NameKind::Empty) => {
            let detail = "A name is a prefix, a slash and a suffix, such as 10.1000/182.";
            *problem(StatusCode::BAD_REQUEST, codes::MISSING_NAME, detail)
        }
        (Error::NotFound | Error::NotResponsible { .. } | Error::OtherServer, NameKind::Prefix(_)) => {
            Problem {
                reasons: vec!["The slash and the suffix are missing; they may have been cut off."],
                ..*problem(StatusCode::NOT_FOUND, codes::MISSING_SUFFIX, "").title("Prefix without suffix")
            }
        }
        (Error::NotResponsible { .. }, NameKind::Doi(DoiOrShortDoi::ShortDoi(_))) => {
            let detail = "A shortDOI is an alias of a DOI. Only the DOI Foundation's resolver knows it.";
            let problem = problem(StatusCode::NOT_FOUND, codes::SHORT_DOI, detail);
            Problem { links_resolver: true, ..*problem.title("shortDOI not available here") }
        }
        (Error::NotResponsible { .. }, _) => Problem {
            reasons: vec![NO_UPSTREAM_REASON, "The prefix may be misspelled."],
            links_resolver: true,
            ..*problem_for_error(error)
        },
        (Error::OtherServer, _) => Problem { links_resolver: true, ..*problem_for_error(error) },
        (Error::NotFound, _) if text.ends_with('/') && text.matches('/').count() == 1 => {
            let detail = "The suffix after the slash is empty; it may have been cut off.";
            *problem(StatusCode::NOT_FOUND, codes::EMPTY_SUFFIX, detail)
        }
        (Error::NotFound, _) => Problem {
            reasons: vec![
                "The source that you copied it from may be wrong.",
                "It may have been copied with an extra or missing character, such as a full stop or a bracket.",
                "It may not be registered yet; ask the publisher.",
            ],
            ..*problem_for_error(error)
        },
        _ => *problem_for_error(error),
    }
}

/// Problem for a path that is no endpoint, and that is not read as a name of another service.
pub(crate) fn unknown_path<'a>(path: &'a str, name: &RequestedName<'_>) -> Problem<'a> {
    let is_short_doi = matches!(name.kind(), NameKind::Doi(DoiOrShortDoi::ShortDoi(_)));
    let detail = format!("`{path}` is neither a page of this server nor a name that it knows.");
    Problem {
        name: path,
        reasons: if is_short_doi {
            vec!["It may be a shortDOI, which only the DOI Foundation's resolver knows."]
        } else {
            Vec::new()
        },
        links_resolver: is_short_doi,
        ..*problem(StatusCode::NOT_FOUND, codes::UNKNOWN_ENDPOINT, detail).title("Page not found")
    }
}

/// Reply for a failed lookup, for programs.
pub(crate) fn lookup_failed(name: &RequestedName<'_>, error: &Error, accepts_credentials: bool) -> Reply {
    let mut problem = Problem { name: name.as_str(), ..problem_for_lookup(name, error) };
    if problem.detail.is_empty() {
        problem.detail = format!("{}.", capitalize(&error.to_string()));
    }
    for_connection(Box::new(problem), accepts_credentials).into()
}

/// Problem for a failed query of the upstream resolver.
pub(crate) fn problem_for_upstream(error: &UpstreamError, upstream: &str) -> Problem<'static> {
    let detail =
        format!("Another service is responsible for it, but {}. Retry later.", error.public_message());
    let problem = problem(error.status(), error.code(), detail).title("Upstream resolver failed");
    Problem {
        reasons: vec!["The name may be valid; the upstream resolver sent no usable response."],
        links_resolver: true,
        ..*problem.member("upstream", upstream)
    }
}

/// Problem for a malformed request.
pub(crate) fn malformed_request(message: &str) -> Box<Problem<'static>> {
    problem(StatusCode::BAD_REQUEST, codes::MALFORMED, format!("{}.", capitalize(message)))
}

/// Problem for an invalid `If-Match` or `If-None-Match`.
pub(crate) fn invalid_precondition(reason: &str) -> Box<Problem<'static>> {
    problem(StatusCode::BAD_REQUEST, codes::INVALID_PRECONDITION, format!("{reason}."))
}

/// Problem for a resource that exists, although `If-None-Match: *` was sent.
pub(crate) fn precondition_failed() -> Box<Problem<'static>> {
    let detail = "The resource exists, but `If-None-Match: *` was given.";
    problem(StatusCode::PRECONDITION_FAILED, codes::PRECONDITION_FAILED, detail)
}

/// Problem of a name that is already registered, as a failed precondition: `If-None-Match: *` was sent.
pub(crate) fn as_precondition_failed(problem: Box<Problem<'_>>) -> Box<Problem<'_>> {
    if problem.code() == tendot_registry::codes::ALREADY_REGISTERED.code {
        problem.with_status(StatusCode::PRECONDITION_FAILED)
    } else {
        problem
    }
}

/// Problem for a request body of an unsupported media type.
pub(crate) fn unsupported_media_type(detail: String) -> Box<Problem<'static>> {
    problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, codes::UNSUPPORTED_MEDIA_TYPE, detail)
}

/// Problem for `name` in a body that differs from the path.
pub(crate) fn name_mismatch() -> Box<Problem<'static>> {
    let detail = "`name` in the body differs from the path";
    problem(StatusCode::UNPROCESSABLE_ENTITY, codes::NAME_MISMATCH, detail).pointer("/name")
}

/// Problem for an invalid timestamp at this position of the body.
pub(crate) fn invalid_timestamp(text: &str, pointer: &str) -> Box<Problem<'static>> {
    let detail = format!("invalid timestamp `{text}`; use RFC 3339, such as 2027-01-31T12:00:00Z");
    problem(StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_TIMESTAMP, detail).pointer(pointer)
}

/// Problem for a name without metadata.
pub(crate) fn no_metadata(name: &str) -> Box<Problem<'static>> {
    problem(StatusCode::NOT_FOUND, codes::NO_METADATA, format!("`{name}` has no metadata."))
}

/// Problem for stored metadata that cannot be parsed.
pub(crate) fn unreadable_metadata() -> Box<Problem<'static>> {
    let detail = "The stored metadata is unreadable.";
    problem(StatusCode::INTERNAL_SERVER_ERROR, codes::STORE_FAILED, detail)
}

/// Problem for a name whose metadata is not available in an acceptable format.
pub(crate) fn not_acceptable(name: &str, media_types: Vec<&str>) -> Box<Problem<'static>> {
    let detail = format!("No metadata format of `{name}` matches `Accept`.");
    problem(StatusCode::NOT_ACCEPTABLE, codes::NOT_ACCEPTABLE, detail)
        .hint("use one of `types`, or `*/*`")
        .member("types", media_types)
}

/// Problem for a name that cannot be parsed.
pub(crate) fn invalid_name(error: &tendot_names::Error) -> Box<Problem<'static>> {
    problem(StatusCode::BAD_REQUEST, codes::INVALID_NAME, format!("{}.", capitalize(&error.to_string())))
}

/// Problem for an OpenURL request without a DOI or handle.
pub(crate) fn no_identifier() -> Box<Problem<'static>> {
    let detail = "The OpenURL request has no DOI or handle in `id`, `rft_id` or `rft.doi`. Search by metadata is not \
                  supported.";
    problem(StatusCode::NOT_FOUND, codes::NO_IDENTIFIER, detail).title("No identifier in the request")
}

/// Problem for text of the search box without a DOI or handle.
pub(crate) fn no_name_in_text() -> Box<Problem<'static>> {
    let detail = "This text has no DOI or handle. Search by title or author is not supported.";
    problem(StatusCode::NOT_FOUND, codes::NO_IDENTIFIER, detail).title("No name in the text")
}

/// Problem for an alias loop, or for a chain of too many aliases.
pub(crate) fn alias_loop(name: &str, chain: &[String]) -> Box<Problem<'static>> {
    let detail = format!(
        "The aliases form a loop, or a chain that is too long: {name} → {}. Change one of these records.",
        chain.join(" → ")
    );
    problem(StatusCode::LOOP_DETECTED, codes::ALIAS_LOOP, detail)
}

/// Problem for a name whose prefix is inactive, with the message of the prefix record.
pub(crate) fn prefix_inactive(message: String) -> Box<Problem<'static>> {
    problem(StatusCode::NOT_FOUND, codes::PREFIX_INACTIVE, message).title("This prefix is inactive")
}

/// Problem for too many concurrent requests of a kind.
pub(crate) fn overloaded(detail: &str) -> Box<Problem<'static>> {
    problem(StatusCode::SERVICE_UNAVAILABLE, codes::OVERLOADED, detail)
}

impl ReverseLookupError {
    pub(crate) fn reply(&self, accepts_credentials: bool) -> Reply {
        Reply::from(match self {
            Self::InvalidRequest(reason) => malformed_request(reason),
            Self::NotAuthenticated(error) => {
                if let Some(reply) = error.early_reply() {
                    return reply;
                }
                let detail = format!("{error}. Authenticate as a key such as `300:0.NA/10.1000`.");
                unauthenticated(accepts_credentials, detail)
            }
            Self::Rejected(Error::AuthenticationRequired) => {
                let detail = "Reverse lookup needs permission from the operator (`reverse_lookup.allow`).";
                unauthenticated(accepts_credentials, detail.into())
            }
            Self::Rejected(error @ (Error::Store(_) | Error::BudgetExceeded(_) | Error::Registry(_))) => {
                for_connection(problem_for_error(error), accepts_credentials)
            }
            Self::Rejected(error) => {
                let status = status_for(error.response_code(), accepts_credentials);
                let detail = format!("{error}; see `reverse_lookup.allow`.");
                problem(status, codes::FORBIDDEN, detail)
            }
            Self::Busy => overloaded("Another reverse lookup is running. Retry later.").title("Server busy"),
            Self::Timeout(time_limit) => {
                let detail = format!(
                    "Not all records could be scanned in {time_limit:?}. Limit the lookup to one prefix, or request an \
                     earlier page."
                );
                problem(StatusCode::SERVICE_UNAVAILABLE, codes::BUDGET_EXCEEDED, detail).title("Timeout")
            }
            Self::TooLarge => {
                let detail = "The result is too large; use a smaller `limit`.";
                problem(StatusCode::BAD_REQUEST, codes::TOO_LARGE, detail).title("Result too large")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tendot_registry::ErrorCodeSpec;

    use super::*;

    #[test]
    fn statuses_of_response_codes() {
        let found = |code, accepts_credentials| status_for(ResponseCode(code), accepts_credentials).as_u16();
        let expected =
            [(1, 200), (2, 500), (3, 503), (4, 400), (5, 501), (7, 503), (100, 404), (101, 409), (102, 400)];
        for (code, status) in expected {
            assert_eq!(found(code, true), status, "{code}");
        }
        for (code, status) in
            [(200, 200), (201, 409), (202, 400), (301, 400), (302, 300), (303, 300), (400, 403)]
        {
            assert_eq!(found(code, true), status, "{code}");
        }
        assert_eq!((found(402, true), found(402, false), found(403, true)), (401, 403, 403));
    }

    /// The kind of a registry error decides its status, also behind [`Error::Registry`].
    #[test]
    fn registry_errors_keep_their_status() {
        for (code, status) in [
            (tendot_registry::codes::UNAUTHENTICATED, 401),
            (tendot_registry::codes::FORBIDDEN, 403),
            (tendot_registry::codes::WRITE_CONFLICT, 503),
            (tendot_registry::codes::MALFORMED, 400),
        ] {
            let problem = problem_for_error(&Error::Registry(Box::new(registry_error(code))));
            assert_eq!((problem.code(), problem.status().as_u16()), (code.code, status));
        }
    }

    /// Missing credentials, invalid credentials and an anonymous call of the registry have one title per code.
    #[test]
    fn unauthenticated_titles() {
        for (accepts_credentials, expected) in [
            (true, (401, codes::UNAUTHENTICATED, "Unauthenticated")),
            (false, (403, codes::INSECURE_TRANSPORT, "Insecure transport")),
        ] {
            let error = || Error::Registry(Box::new(registry_error(tendot_registry::codes::UNAUTHENTICATED)));
            let name = RequestedName::new("10.1/x");
            let invalid = AuthenticationError::Failed;
            for reply in [
                Reply::from(for_connection(problem_for_error(&error()), accepts_credentials)),
                lookup_failed(&name, &error(), accepts_credentials),
                authentication_failed(invalid, accepts_credentials),
                ReverseLookupError::NotAuthenticated(invalid).reply(accepts_credentials),
                ReverseLookupError::Rejected(error()).reply(accepts_credentials),
                ReverseLookupError::Rejected(Error::AuthenticationRequired).reply(accepts_credentials),
            ] {
                let json: serde_json::Value = serde_json::from_slice(reply.body()).unwrap();
                let found = (reply.status().as_u16(), json["code"].as_str(), json["title"].as_str());
                assert_eq!(found, (expected.0, Some(expected.1), Some(expected.2)), "{json}");
            }
        }
    }

    /// A malformed request has one title, from the server or from the registry.
    #[test]
    fn malformed_titles() {
        let problem = malformed_request("`limit` must be positive");
        assert_eq!((&*problem.title, &*problem.detail), ("Malformed request", "`limit` must be positive."));
        let rejected = problem_for_registry_error(&registry_error(tendot_registry::codes::MALFORMED));
        assert_eq!(
            (rejected.status, rejected.code, rejected.title),
            (problem.status, problem.code, problem.title)
        );
    }

    fn registry_error(code: &'static ErrorCodeSpec) -> RegistryError {
        RegistryError::new(code, "x")
    }

    /// A store error has one status and one message in all formats; but response code 2 always has status 500.
    #[test]
    fn store_errors() {
        let reason = || String::from("secret");
        for (error, status, code) in [
            (StoreError::DiskFull { operation: "x", detail: reason() }, 507, "disk-full"),
            (StoreError::ReadOnly { reason: reason() }, 503, "store-read-only"),
            (StoreError::Unavailable { operation: "x", reason: reason() }, 503, "store-unavailable"),
            (StoreError::InDoubt { reason: reason() }, 503, "outcome-unknown"),
            (StoreError::Corrupt { detail: reason() }, 500, "corrupt"),
        ] {
            let problem = problem_for_store(&error);
            assert_eq!((problem.status().as_u16(), problem.code()), (status, code));
            let start = capitalize(describe_store_error(&error).1);
            assert!(problem.detail.starts_with(&start) && !problem.detail.contains("secret"), "{problem:?}");
            let error = Error::Store(error);
            // Response code 2 has status 500 in Handle.Net's API.
            let handle_status = if error.response_code() == ResponseCode::ERROR {
                StatusCode::INTERNAL_SERVER_ERROR
            } else {
                problem.status
            };
            assert_eq!(
                (error_status(&error, true), write_status(&error, true)),
                (handle_status, handle_status)
            );
        }
    }
}
