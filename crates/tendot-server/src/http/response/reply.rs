//! Replies, media types and common headers.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use tokio::sync::mpsc;

use crate::http::authentication::{AuthenticationError, HttpSessionId};
use crate::http::middleware::metrics::RequestKind;
use crate::http::middleware::response_cache::CachePolicy;

/// Reply of a handler: status, headers and body, and facts for the middleware.
#[derive(Debug)]
pub(crate) struct Reply {
    response: Response<Bytes>,
    /// Source of a streamed body; the body in memory is empty then.
    pub(crate) stream: Option<mpsc::Receiver<Bytes>>,
    /// Whether and how long the reply is cacheable.
    pub(crate) cache_policy: Option<CachePolicy>,
    /// Failed authentication, for the challenge of a 401 reply.
    pub(crate) auth_error: Option<AuthenticationError>,
    /// Session of the request, for the challenge of a 401 reply.
    pub(crate) session_id: Option<HttpSessionId>,
}

impl Reply {
    /// Reply without headers.
    pub(crate) fn new(status: StatusCode, body: impl Into<Bytes>) -> Self {
        let mut response = Response::new(body.into());
        *response.status_mut() = status;
        Self { response, stream: None, cache_policy: None, auth_error: None, session_id: None }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn status_mut(&mut self) -> &mut StatusCode {
        self.response.status_mut()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    pub(crate) fn headers_mut(&mut self) -> &mut HeaderMap {
        self.response.headers_mut()
    }

    /// Body in memory.
    pub(crate) fn body(&self) -> &Bytes {
        self.response.body()
    }

    pub(crate) fn body_mut(&mut self) -> &mut Bytes {
        self.response.body_mut()
    }

    /// Removes the body, for HEAD; its length stays in `Content-Length`.
    pub(crate) fn remove_body(&mut self) {
        let body = std::mem::take(self.body_mut());
        if !body.is_empty() {
            self.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        self.stream = None;
    }

    /// Response with the body in memory, and the source of a streamed body.
    pub(crate) fn into_response(self) -> (Response<Bytes>, Option<mpsc::Receiver<Bytes>>) {
        (self.response, self.stream)
    }
}

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json;charset=utf-8");
pub(crate) const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
pub(crate) const HTML: HeaderValue = HeaderValue::from_static("text/html;charset=utf-8");
pub(crate) const TEXT: HeaderValue = HeaderValue::from_static("text/plain;charset=utf-8");

/// Media types of streamed responses and batches.
pub(crate) const NDJSON: &str = "application/x-ndjson";
pub(crate) const CSV: &str = "text/csv";
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// Builds a reply.
pub(crate) fn reply(status: StatusCode, media_type: HeaderValue, body: impl Into<Bytes>) -> Reply {
    let mut response = Reply::new(status, body);
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

/// Adds `Retry-After`, for overload or an unreachable database.
pub(crate) fn add_retry_after(headers: &mut HeaderMap) {
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
}

/// Adds the headers of every reply: CORS without credentials, `nosniff`, and `no-cache` for a reply without `Cache-Control`, which
/// caches would store by their own rules.
///
/// The endpoints for operators have no CORS headers: what a browser on their network may read is not for every page in it.
pub(crate) fn add_common_headers(headers: &mut HeaderMap, kind: RequestKind) {
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    if kind != RequestKind::Operations {
        const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
        let is_challenge = headers.contains_key(header::WWW_AUTHENTICATE);
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            if is_challenge { EXPOSED_HEADERS_401 } else { EXPOSED_HEADERS },
        );
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("ETag, Link, Location, Retry-After, X-Request-Id");

const EXPOSED_HEADERS_401: HeaderValue = HeaderValue::from_static("WWW-Authenticate, X-Request-Id");

/// Content security policy and referrer policy of pages.
pub(crate) const PAGE_SECURITY_HEADERS: [(HeaderName, HeaderValue); 2] = [
    (
        header::CONTENT_SECURITY_POLICY,
        // Chromium applies `form-action` to redirects of a form's response, too: with `'self'` alone, the search box would not
        // work.
        HeaderValue::from_static(
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self' http: https:; \
             base-uri 'none'; frame-ancestors 'none'",
        ),
    ),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];
