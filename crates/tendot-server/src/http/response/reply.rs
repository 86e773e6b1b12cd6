//! Replies, media types and common headers.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

/// Reply with its whole body in memory.
pub(crate) type Reply = Response<Bytes>;

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
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

/// Adds `Retry-After`, for overload or an unreachable database.
pub(crate) fn add_retry_after(headers: &mut HeaderMap) {
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
}

/// Adds the headers of every reply: CORS without credentials, and `nosniff`.
pub(crate) fn add_common_headers(headers: &mut HeaderMap) {
    const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
    let is_challenge = headers.contains_key(header::WWW_AUTHENTICATE);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        if is_challenge { EXPOSED_HEADERS_401 } else { EXPOSED_HEADERS },
    );
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
