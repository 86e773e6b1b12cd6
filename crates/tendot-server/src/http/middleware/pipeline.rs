//! Order of the steps that every request passes: client address, request id, rate limit, response cache, handler, compression,
//! metrics and access log.

use std::sync::atomic::Ordering;
use std::time::Instant;

use http::header::{HOST, HeaderMap, HeaderValue, STRICT_TRANSPORT_SECURITY};
use http::{Method, StatusCode, Uri, Version};
use hyper::body::Incoming;

use crate::http::handle_api::tunnel;
use crate::http::middleware::access_log::log_request;
use crate::http::middleware::client_address::{ConnectionPeer, RemoteClient};
use crate::http::middleware::compression;
use crate::http::middleware::metrics::RequestKind;
use crate::http::middleware::request_id::X_REQUEST_ID;
use crate::http::request::encoding;
use crate::http::response::reply::{self, Reply, TEXT};
use crate::http::routing::routes::Route;
use crate::http::{HttpLimits, HttpServer};

/// Context of one request: start time, client, request id, route and kind.
pub(crate) struct RequestContext {
    pub(crate) started: Instant,
    pub(crate) client: RemoteClient,
    pub(crate) id: HeaderValue,
    pub(crate) route: Route,
    pub(crate) kind: RequestKind,
}

impl HttpServer {
    /// Builds the context of a request, and the reply if no lookup is needed: rate limit, too many or
    /// invalid headers, or cached response.
    pub(crate) fn try_fast_path(
        &self,
        request: &http::Request<Incoming>,
        peer: &ConnectionPeer,
        limits: &HttpLimits,
    ) -> (RequestContext, Option<Reply>) {
        let started = Instant::now();
        let headers = request.headers();
        let client = self.proxy_trust.resolve_client(peer, headers);
        if client.is_untrusted_proxy {
            self.warn_of_untrusted_proxy(&client);
        }
        let id = self.request_ids.id_for(headers, client.is_proxied);
        let route = if tunnel::is_handle_message(request.method(), headers) {
            Route::native_message()
        } else {
            Route::find(request.uri().path())
        };
        let kind = route.request_kind(request.method());
        let mut response = self
            .check_rate_limit(&client, kind, started)
            // For HTTP/2; hyper enforces the limit for HTTP/1.
            .or_else(|| {
                (headers.len() > limits.max_headers).then(|| header_fields_too_large(limits.max_headers))
            })
            .or_else(|| {
                let error = encoding::check_headers(headers).err()?;
                Some(route.api.errors.syntax_error(&error, headers))
            })
            .or_else(|| {
                let error = check_host(request.version(), headers).err()?;
                Some(route.api.errors.malformed(error, headers))
            })
            .or_else(|| self.resolver.cached_response(request));
        let context = RequestContext { started, client, id, route, kind };
        if let Some(response) = &mut response {
            self.add_common_headers(&context, response.headers_mut());
            if compression::should_compress(headers, response) {
                compression::compress_inline(response);
            }
            self.record(&context, request.method(), request.uri(), response);
        }
        (context, response)
    }

    /// Handles a request that the fast path did not answer.
    pub(crate) async fn handle_request(
        &self,
        request: http::Request<Incoming>,
        context: &RequestContext,
    ) -> Reply {
        let (parts, body) = request.into_parts();
        let mut response = self.dispatch(context.route, &parts, body, &context.client).await;
        self.add_common_headers(context, response.headers_mut());
        if compression::should_compress(&parts.headers, &mut response) {
            compression::compress(&mut response).await;
        }
        self.record(context, &parts.method, &parts.uri, &mut response);
        response
    }

    /// Adds the headers of every reply: HSTS over TLS, and those of [`reply::add_common_headers`].
    fn add_common_headers(&self, context: &RequestContext, headers: &mut HeaderMap) {
        reply::add_common_headers(headers, context.kind);
        if let Some(hsts) = self.hsts.as_ref().filter(|_| context.client.is_encrypted) {
            headers.insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
        }
    }

    /// Warns once: all clients of this proxy are one client, and their credentials are rejected.
    fn warn_of_untrusted_proxy(&self, client: &RemoteClient) {
        if !self.has_warned_of_proxy.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                proxy = %client.address,
                "request forwarded by an untrusted proxy on loopback; add it to `http.trusted_proxies`"
            );
        }
    }

    /// Records metrics and the access log line of a request, and adds its request id.
    fn record(&self, context: &RequestContext, method: &Method, uri: &Uri, response: &mut Reply) {
        let (status, duration) = (response.status(), context.started.elapsed());
        self.metrics.record_request(context.kind, status, duration);
        if self.logs_requests || status.is_server_error() {
            log_request(context, method, uri, response, duration);
        }
        response.headers_mut().insert(X_REQUEST_ID, context.id.clone());
    }
}

/// Checks that a request names one host (RFC 9112, section 3.2): proxies and caches must not see another one.
fn check_host(version: Version, headers: &HeaderMap) -> Result<(), &'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_11 => Err("missing `Host` header"),
        (_, Some(_)) => Err("more than one `Host` header"),
        _ => Ok(()),
    }
}

fn header_fields_too_large(limit: usize) -> Reply {
    reply::reply(
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        TEXT,
        format!("more than {limit} header fields\n"),
    )
}
