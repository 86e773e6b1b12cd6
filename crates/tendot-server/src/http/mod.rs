//! HTTP server: connections, routing, authentication, and the handlers of all endpoints.
//!
//! The folders follow a request. `server/` accepts and serves connections; `middleware/` finds the client's address, limits its rate,
//! and answers from the response cache; `routing/` maps the path to a handler; `request/` parses what the handler reads;
//! `authentication/` turns credentials into a caller; `response/` builds the reply. The handlers are in `resolve/` (redirects),
//! `handle_api/` (Handle.Net's JSON API), `api_v1/` (the registry API), `compat/` (APIs of other services) and `pages/` (HTML).

mod api_v1;
mod authentication;
mod compat;
mod handle_api;
mod health;
mod middleware;
mod pages;
mod request;
mod resolve;
mod response;
mod routing;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use api_v1::changes::log_head::LogHeadTracker;
pub(crate) use api_v1::changes::log_head::last_change;
use api_v1::changes::subscribers::Subscribers;
use authentication::{GuessThrottle, HttpSessionTable};
use bytes::Bytes;
use compat::reverse_lookup::ReverseLookupGate;
pub use health::Readiness;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri};
use hyper::body::Incoming;
use ipnet::IpNet;
use middleware::access_log::LogSafe;
use middleware::client_address::{ConnectionPeer, RemoteClient};
pub use middleware::client_address::{ForwardedBy, ProxyTrust};
pub(crate) use middleware::client_address::{client_network, plain, truncate};
pub(crate) use middleware::metrics::LatencyHistogram;
use middleware::metrics::{ExternalMetric, HttpMetrics, RequestKind};
pub(crate) use middleware::rate_limit::GcraTable;
use middleware::rate_limit::HttpRateLimiter;
pub use middleware::rate_limit::{HttpRateLimits, Rate};
use middleware::request_id::{RequestIdGenerator, X_REQUEST_ID};
use middleware::response_cache::ResponseCache;
use request::body::BodyReader;
use request::percent::RequestSyntaxError;
use request::query::QueryParams;
use request::request_head::RequestHead;
pub use resolve::explain::{ResolutionTrace, TraceOutcome, TraceStep};
pub use resolve::upstream::UpstreamClient;
use resolve::upstream::UpstreamResolver;
use response::reply::{Reply, TEXT, reply};
use routing::routes::Route;
pub use server::listener::{HttpLimits, HttpListener, HttpListeners, serve};
pub use server::tls::{ServerCertificate, TlsError};
use tendot_names::Parser;
use tendot_registry::Registry;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::native::NativeServer;
use crate::resolution_stats::ResolutionCounter;
pub use api_v1::sweep_receipts;

/// Work budget of one request, in steps.
const REQUEST_BUDGET: u32 = 20_000;

/// Default size of the response cache.
const DEFAULT_RESPONSE_CACHE_BYTES: usize = 16 << 20;

/// Timeout for the metric that is read from the store; after it, the previous value is reported.
const STORE_METRIC_TIMEOUT: Duration = Duration::from_millis(500);

/// Lists that are built concurrently; further requests wait.
const MAX_CONCURRENT_LISTS: usize = 2;

/// Maximum size of a submitted form.
const MAX_FORM_BYTES: usize = 64 << 10;

/// HTTP service over a registry: shared state, settings and handlers.
#[derive(Debug)]
pub struct HttpServer {
    registry: Arc<Registry>,
    operator_token: Option<Box<str>>,
    /// Resolver for names that this server is not responsible for.
    upstream_resolver: Option<Box<UpstreamResolver>>,
    trust: ProxyTrust,
    rate_limiter: Option<HttpRateLimiter>,
    response_cache: Option<ResponseCache>,
    /// Resolution statistics.
    resolution_counter: Option<Arc<ResolutionCounter>>,
    body_reader: BodyReader,
    reverse_lookups: ReverseLookupGate,
    request_ids: RequestIdGenerator,
    metrics: Arc<HttpMetrics>,
    external_metrics: Arc<Vec<ExternalMetric>>,
    /// Networks, beside loopback, that may read `/metrics`.
    metrics_allow: Vec<IpNet>,
    logs_requests: bool,
    /// Server for native messages inside HTTP.
    native: Option<Arc<NativeServer>>,
    sessions: HttpSessionTable,
    guess_throttle: GuessThrottle,
    /// Limits concurrent proof verifications to the number of cores.
    cpu_permits: Arc<Semaphore>,
    /// Limits concurrent lists.
    list_permits: Semaphore,
    subscribers: Subscribers,
    /// Locks of the idempotency keys in use.
    key_locks: api_v1::KeyLocks,
    /// Whether the server accepts requests, for `/readyz`.
    is_ready: AtomicBool,
    /// Callback for the readiness of the store.
    readiness_probe: Option<health::ReadinessProbe>,
}

/// Context of one request: start time, client, request id and kind.
struct RequestContext {
    started: Instant,
    client: RemoteClient,
    id: HeaderValue,
    kind: RequestKind,
}

impl HttpServer {
    /// Creates a server over this registry, with default settings.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            operator_token: None,
            upstream_resolver: None,
            trust: ProxyTrust::default(),
            rate_limiter: None,
            response_cache: Some(ResponseCache::new(DEFAULT_RESPONSE_CACHE_BYTES)),
            resolution_counter: None,
            body_reader: BodyReader::new(Duration::from_secs(10)),
            reverse_lookups: ReverseLookupGate::new(Duration::from_secs(10)),
            request_ids: RequestIdGenerator::new(),
            metrics: Arc::new(HttpMetrics::new()),
            external_metrics: Arc::default(),
            metrics_allow: Vec::new(),
            logs_requests: false,
            native: None,
            sessions: HttpSessionTable::default(),
            guess_throttle: GuessThrottle::new(),
            cpu_permits: Arc::new(Semaphore::new(
                std::thread::available_parallelism().map_or(1, usize::from),
            )),
            list_permits: Semaphore::new(MAX_CONCURRENT_LISTS),
            subscribers: Subscribers::new(),
            key_locks: api_v1::KeyLocks::default(),
            is_ready: AtomicBool::new(false),
            readiness_probe: None,
        }
    }

    /// Registry that this server uses.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Sets the operator's API token.
    #[must_use]
    pub fn operator_token(mut self, token: impl Into<Box<str>>) -> Self {
        self.operator_token = Some(token.into());
        self
    }

    /// Accepts credentials over plain HTTP from loopback addresses. Default: true.
    #[must_use]
    pub const fn trust_loopback(mut self, trust: bool) -> Self {
        self.trust.loopback = trust;
        self
    }

    /// Sets the trusted proxies, and where plain-text credentials are accepted.
    #[must_use]
    pub fn proxy_trust(mut self, trust: ProxyTrust) -> Self {
        self.trust = trust;
        self
    }

    /// Sets rate limits. Default: none.
    #[must_use]
    pub fn rate_limits(mut self, rates: HttpRateLimits) -> Self {
        self.rate_limiter = Some(HttpRateLimiter::new(rates));
        self
    }

    /// Sets the size of the response cache in bytes; 0 disables it. Default: 16 MiB.
    #[must_use]
    pub fn response_cache_size(mut self, bytes: usize) -> Self {
        self.response_cache = (bytes > 0).then(|| ResponseCache::new(bytes));
        self
    }

    /// Counts resolutions for reports. Default: not counted.
    #[must_use]
    pub fn resolution_counter(mut self, resolution_counter: Arc<ResolutionCounter>) -> Self {
        self.resolution_counter = Some(Arc::clone(&resolution_counter));
        let (name, about) =
            ("tendot_resolutions_not_counted", "Resolutions that are in no report, for want of room.");
        let failures = Arc::clone(&resolution_counter);
        let http =
            self.figure(name, about, true, move || Some(resolution_counter.dropped_resolutions() as f64));
        let (name, about) =
            ("tendot_failures_not_counted", "Names not found that are in no report, for want of room.");
        http.figure(name, about, true, move || Some(failures.dropped_failures() as f64))
    }

    /// Sets the time a request body may take, in addition to one second per kilobyte.
    #[must_use]
    pub const fn body_timeout(mut self, time: Duration) -> Self {
        self.body_reader = BodyReader::new(time);
        self
    }

    /// Sets the timeout of reverse lookups. Default: 10 s.
    #[must_use]
    pub fn reverse_lookup_timeout(mut self, time: Duration) -> Self {
        self.reverse_lookups = ReverseLookupGate::new(time);
        self
    }

    /// Sets the networks, beside loopback, that may read `/metrics`.
    #[must_use]
    pub fn metrics_allow(mut self, networks: Vec<IpNet>) -> Self {
        self.metrics_allow = networks;
        self
    }

    /// Adds a counter (`only_grows`; its name gets the suffix `_total`) or a gauge of another part of the program to
    /// `/metrics`. It is left out while `read` returns `None`.
    #[must_use]
    pub fn figure(
        mut self,
        name: &'static str,
        about: &'static str,
        only_grows: bool,
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        self.add_external_metric(ExternalMetric::new(name, about, only_grows, read));
        self
    }

    /// Adds several gauges that differ in the value of `label`.
    #[must_use]
    pub fn external_gauges(
        mut self,
        name: &'static str,
        about: &'static str,
        label: &'static str,
        read: impl Fn() -> Vec<(String, f64)> + Send + Sync + 'static,
    ) -> Self {
        self.add_external_metric(ExternalMetric::labelled_gauges(name, about, label, read));
        self
    }

    fn add_external_metric(&mut self, figure: ExternalMetric) {
        // The only reference until the server starts.
        if let Some(external_metrics) = Arc::get_mut(&mut self.external_metrics) {
            external_metrics.push(figure);
        }
    }

    /// Enables an access log line per request. Responses with a 5xx status are always logged.
    #[must_use]
    pub const fn log_requests(mut self, logs: bool) -> Self {
        self.logs_requests = logs;
        self
    }

    /// Sets the server for native messages inside HTTP; its site and metrics are published, too.
    #[must_use]
    pub fn native_server(mut self, native: Arc<NativeServer>) -> Self {
        self.native = Some(native);
        self
    }

    /// Sets the callback that reports the readiness of the store in `/readyz`. Default: always ready.
    #[must_use]
    pub fn readiness_probe(mut self, read: impl Fn() -> Readiness + Send + Sync + 'static) -> Self {
        self.readiness_probe = Some(health::ReadinessProbe::new(read));
        self
    }

    /// Sets whether the server accepts requests, for `/readyz`.
    pub fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Relaxed);
    }

    /// Builds the context of a request, and the reply if no lookup is needed: rate limit, too many headers, or cached response.
    fn try_fast_path(
        &self,
        request: &http::Request<Incoming>,
        peer: &ConnectionPeer,
        limits: &HttpLimits,
    ) -> (RequestContext, Option<Reply>) {
        let started = Instant::now();
        let headers = request.headers();
        let client = self.trust.resolve_client(peer, headers);
        let id = self.request_ids.id_for(headers, client.is_proxied);
        let kind = RequestKind::request_kind(request.method(), request.uri().path());
        let mut response = self
            .check_rate_limit(&client, kind, started)
            // For HTTP/2; hyper enforces the limit for HTTP/1.
            .or_else(|| (headers.len() > limits.headers).then(|| header_fields_too_large(limits.headers)))
            .or_else(|| self.cached_response(request));
        let context = RequestContext { started, client, id, kind };
        if let Some(response) = &mut response {
            response::reply::add_common_headers(response.headers_mut());
            if middleware::compression::should_compress(headers, response) {
                middleware::compression::compress_inline(response);
            }
            self.record(&context, request.method(), request.uri(), response);
        }
        (context, response)
    }

    /// Handles a request that the fast path did not answer.
    async fn handle_request(&self, request: http::Request<Incoming>, context: &RequestContext) -> Reply {
        let (parts, body) = request.into_parts();
        let mut response = self.dispatch(&parts, body, &context.client).await;
        response::reply::add_common_headers(response.headers_mut());
        if middleware::compression::should_compress(&parts.headers, &mut response) {
            middleware::compression::compress(&mut response).await;
        }
        self.record(context, &parts.method, &parts.uri, &mut response);
        response
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

    /// Reply to a client that exceeds its rate limit. Health checks are exempt.
    fn check_rate_limit(&self, client: &RemoteClient, kind: RequestKind, now: Instant) -> Option<Reply> {
        let rate_limiter = self
            .rate_limiter
            .as_ref()
            .filter(|rate_limiter| !(client.is_loopback && rate_limiter.is_loopback_exempt()))?;
        // A proxy that hides its clients would be limited for all of them together.
        if kind == RequestKind::Operation || self.is_client_hidden(client) {
            return None;
        }
        let wait = rate_limiter.charge(client.address, now).err()?;
        self.metrics.rate_limited.fetch_add(1, Ordering::Relaxed);
        Some(too_many_requests(wait))
    }

    /// Whether the request came through a trusted proxy that does not report its client.
    fn is_client_hidden(&self, client: &RemoteClient) -> bool {
        client.is_proxied && self.trust.is_trusted_proxy(client.address)
    }

    async fn dispatch(&self, parts: &Parts, body: Incoming, client: &RemoteClient) -> Reply {
        let now = SystemTime::now();
        let path = parts.uri.path();
        let head = RequestHead {
            query: parts.uri.query(),
            headers: &parts.headers,
            version: parts.version,
            client: Some(client.address).filter(|_| !self.is_client_hidden(client)),
            is_loopback: client.is_loopback,
            accepts_credentials: client.accepts_credentials && !is_cross_site_credential(&parts.headers),
            certificate: client.certificate.as_deref(),
        };
        if handle_api::tunnel::is_handle_message(&parts.method, &parts.headers) {
            return self.post_handle_message(body, client).await;
        }
        let Some((route, rest)) = Route::find(path) else {
            return handle_api::unknown_endpoint(&parts.method, path);
        };
        if !route.allows(&parts.method) {
            return method_not_allowed(route, &parts.method, path);
        }
        if parts.method == Method::OPTIONS {
            return options_reply(route);
        }
        let mut response = match route {
            Route::Session => self.session_request(&parts.method, rest, body, &head).await,
            Route::Sessions => self.create_session(body, &head).await,
            Route::Registry(noun) => self.serve_api_v1(noun, &parts.method, rest, body, &head, now).await,
            _ => self.dispatch_method(&parts.method, (route, path, rest), body, client, &head, now).await,
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            self.add_challenge_headers(&mut response, &head).await;
        }
        response
    }

    /// Calls the handler of a route for this method.
    async fn dispatch_method(
        &self,
        method: &Method,
        (route, path, rest): (Route, &str, &str),
        body: Incoming,
        client: &RemoteClient,
        head: &RequestHead<'_>,
        now: SystemTime,
    ) -> Reply {
        if *method == Method::GET || *method == Method::HEAD {
            let answer = async {
                let answer = self.dispatch_get(route, rest, client, head, now).await;
                self.cache_response(path, answer).await
            };
            return if tolerates_stale(head) {
                tendot_store::with_stale_reads(answer).await
            } else {
                answer.await
            };
        }
        match (method, route) {
            (&Method::PUT, _) => return self.put_handle(rest, head, body, now).await,
            (&Method::DELETE, Route::Prefix | Route::Prefixes) => {
                return self.home_prefix(rest, head, false, now).await;
            }
            (&Method::DELETE, _) => return self.delete_handle(rest, head, now).await,
            (_, Route::Home) => return self.post_resolve_form(body, head, now).await,
            _ => {}
        }
        // With POST, parameters may be in the body.
        let query = match self.merge_body_into_query(body, head).await {
            Ok(query) => query,
            Err(refused) => return refused,
        };
        let head = RequestHead { query: Some(&query), ..*head };
        match route {
            Route::Prefixes | Route::Prefix => self.home_prefix(rest, &head, true, now).await,
            _ => self.dispatch_get(route, rest, client, &head, now).await,
        }
    }

    /// Handles `GET /metrics` for permitted clients.
    async fn get_metrics(&self, client: &RemoteClient) -> Reply {
        const OPENMETRICS: HeaderValue =
            HeaderValue::from_static("application/openmetrics-text;version=1.0.0;charset=utf-8");
        if !client.is_loopback && !self.metrics_allow.iter().any(|network| network.contains(&client.address))
        {
            return reply(StatusCode::FORBIDDEN, TEXT, "the figures are not shown to this address\n");
        }
        let known = self.metrics.last_change.load(Ordering::Relaxed);
        // If the store does not respond, the other metrics matter most.
        if let Ok(Ok(last)) = timeout(STORE_METRIC_TIMEOUT, last_change(self.registry.store(), known)).await {
            self.metrics.last_change.store(last, Ordering::Relaxed);
        }
        let mut response = match middleware::metrics::render(
            &self.metrics,
            &self.external_metrics,
            self.native.as_ref().map(|native| native.metrics()),
        ) {
            Ok(printed) => reply(StatusCode::OK, OPENMETRICS, printed),
            Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "the figures can't be printed\n"),
        };
        response::caching::set_private_no_store(response.headers_mut());
        response
    }

    async fn dispatch_get(
        &self,
        route: Route,
        rest: &str,
        client: &RemoteClient,
        request: &RequestHead<'_>,
        now: SystemTime,
    ) -> Reply {
        match route {
            Route::Home => self.get_home_or_search(request).await,
            Route::Live => reply(StatusCode::OK, TEXT, "ok\n"),
            Route::Ready => self.get_readiness(),
            Route::Metrics => self.get_metrics(client).await,
            Route::OpenApi => routing::openapi::get_openapi(request.headers),
            Route::Docs => pages::get_docs(request.headers),
            Route::Robots => reply(StatusCode::OK, TEXT, "User-agent: *\nCrawl-delay: 1\n"),
            Route::Icon => static_file("image/svg+xml", pages::FAVICON),
            Route::Style => static_file("text/css;charset=utf-8", pages::STYLESHEET.as_bytes()),
            Route::OpenUrl => self.open_url(request, now).await,
            Route::Agencies => self.get_doi_agencies(rest, request).await,
            Route::Handle => self.get_handle(rest, request, now).await,
            Route::Handles => self.list_handles(request).await,
            Route::Prefixes | Route::Prefix => self.list_prefixes(request).await,
            Route::Verifications => self.get_verification(rest, request).await,
            // Dispatched earlier.
            Route::Sessions | Route::Session => handle_api::unknown_endpoint(&Method::GET, "/api/sessions"),
            Route::Site => self.get_site(request),
            Route::Reverse | Route::ReverseUnder => self.get_reverse_lookup(rest, request).await,
            Route::History => self.get_history(rest, request).await,
            Route::Metadata => self.get_metadata(rest, request, now).await,
            Route::Changes => self.get_changes(request).await,
            // Dispatched separately.
            Route::Registry(_) => handle_api::unknown_endpoint(&Method::GET, rest),
            Route::Name => self.get_name(rest, request, now).await,
        }
    }

    /// Handles an OpenURL request: resolves the name in `id` or `rft_id`.
    async fn open_url(&self, request: &RequestHead<'_>, now: SystemTime) -> Reply {
        let parameters = match QueryParams::parse(request.query) {
            Ok(parameters) => parameters,
            Err(error) => {
                return pages::syntax_error_page(&error, request.query.unwrap_or_default(), request);
            }
        };
        match parameters.get("id").or_else(|| parameters.get("rft_id")) {
            Some(name) => {
                self.resolve_name(&request::name_path::parse_or_short_doi(name), &parameters, request, now)
                    .await
            }
            None => self.get_home().await,
        }
    }

    async fn post_resolve_form(&self, body: Incoming, request: &RequestHead<'_>, now: SystemTime) -> Reply {
        let body = match self.body_reader.read(body, MAX_FORM_BYTES).await {
            Ok(body) => body,
            Err(error) => return reply(error.status(), TEXT, format!("{error}\n")),
        };
        let text = String::from_utf8_lossy(&body);
        let parameters = match QueryParams::parse(Some(&text)) {
            Ok(parameters) => parameters,
            Err(error) => return pages::syntax_error_page(&error, &text, request),
        };
        match parameters.get("hdl") {
            Some(name) => {
                self.resolve_name(&request::name_path::parse_or_short_doi(name), &parameters, request, now)
                    .await
            }
            None => self.get_home().await,
        }
    }

    /// Handles `GET /`: the home page, or a redirect to the name that was entered in the search box.
    async fn get_home_or_search(&self, request: &RequestHead<'_>) -> Reply {
        // Browsers encode a space in a form as a plus sign.
        let query = request.query.map(|query| query.replace('+', " "));
        match QueryParams::parse(query.as_deref()) {
            Err(error) => pages::syntax_error_page(&error, query.as_deref().unwrap_or_default(), request),
            Ok(parameters) => match parameters.get("text").map(str::trim).filter(|text| !text.is_empty()) {
                Some(text) => resolve::redirect::redirect_to_name(&extract_name(text), request),
                None => self.get_home().await,
            },
        }
    }
}

/// Extracts a name from pasted text: a name in any form, a name within the text, or the text as it is.
fn extract_name(pasted: &str) -> String {
    if let Ok(reading) = Parser::lenient().parse(pasted) {
        return reading.into_identifier().as_str().to_owned();
    }
    let found = tendot_names::find_iter(pasted.as_bytes()).next().map(|found| found.name.to_string());
    found.unwrap_or_else(|| request::name_path::parse_or_short_doi(pasted).into_owned())
}

fn static_file(kind: &'static str, body: &'static [u8]) -> Reply {
    let mut response = reply(StatusCode::OK, HeaderValue::from_static(kind), Bytes::from_static(body));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    response
}

fn options_reply(route: Route) -> Reply {
    let mut response = reply(StatusCode::OK, TEXT, "");
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, route.methods());
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, route.methods());
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

fn method_not_allowed(route: Route, method: &Method, path: &str) -> Reply {
    let mut response = match path.starts_with("/api/") {
        true if path.starts_with("/api/v1/") => {
            let allowed = route.methods();
            let detail = format!("{method} is not done here, but {}.", allowed.to_str().unwrap_or_default());
            pages::problem(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail).into()
        }
        true => handle_api::unknown_endpoint(method, path),
        false => reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "this is not done here\n"),
    };
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(header::ALLOW, route.methods());
    response
}

/// Reply 429 with `Retry-After`.
fn too_many_requests(wait: Duration) -> Reply {
    let mut response = reply(StatusCode::TOO_MANY_REQUESTS, TEXT, "you ask too often; wait a little\n");
    let seconds = wait.as_secs() + 1;
    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn header_fields_too_large(limit: usize) -> Reply {
    reply(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, TEXT, format!("at most {limit} headers are read\n"))
}

/// Whether a request may be answered with slightly stale data: it has no credentials and does not ask for revalidation.
fn tolerates_stale(request: &RequestHead<'_>) -> bool {
    let is_known = request.headers.contains_key(header::AUTHORIZATION) || request.certificate.is_some();
    !is_known && !request.query.is_some_and(|query| query.contains("auth"))
}

/// Whether a browser added its user's credentials to a form or script request of another site. Requests of a page's own scripts
/// (`cors`) carry only credentials that the script knows.
fn is_cross_site_credential(headers: &HeaderMap) -> bool {
    let is = |name: &str, words: &[&[u8]]| {
        headers.get(name).is_some_and(|value| words.contains(&value.as_bytes()))
    };
    is("sec-fetch-site", &[b"cross-site", b"same-site"]) && !is("sec-fetch-mode", &[b"cors"])
}

/// Path for the log, with session ids redacted: a session id is a credential.
fn redacted_path(path: &str) -> &str {
    if path.starts_with("/api/sessions/") { "/api/sessions/…" } else { path }
}

/// Writes the access log line. Queries and headers are left out: they may be private.
fn log_request(context: &RequestContext, method: &Method, uri: &Uri, response: &Reply, duration: Duration) {
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                target: "tendot::request",
                $level,
                method = %LogSafe(method.as_str()),
                path = %LogSafe(redacted_path(uri.path())),
                kind = context.kind.as_str(),
                status = response.status().as_u16(),
                bytes = response.body().len(),
                duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
                client = %context.client.address,
                id = context.id.to_str().unwrap_or_default(),
                "answered"
            )
        };
    }
    if response.status().is_server_error() {
        line!(tracing::Level::ERROR);
    } else {
        line!(tracing::Level::INFO);
    }
}
