//! The front door for browsers and programs.
//!
//! `listen.rs` takes connections and `connection.rs` serves one, with `pace.rs`, `head.rs` and `refusal.rs` (what a peer
//! may not do) and `tls.rs`; this file finds out who asks (`client.rs`, and `authenticate/` if they say so), whether too often
//! (`rate.rs`), and what about: `route.rs` has all paths, which `describe.rs` and `openapi.rs` tell of. A name's redirect is in `redirect.rs`,
//! with `form.rs` (how names are written in paths), `places.rs` and `location.rs` (which of several places wins),
//! `negotiate.rs` (what the client would rather have), `address.rs` (what is redirected to) and `link.rs` (what else is
//! said of the thing; `metadata.rs` answers with metadata itself); `explain.rs` tells why it led there, and `near.rs` what may have been meant. Names are looked up in
//! `search.rs`, those that are not kept here by way of `upstream.rs`, and by what they say in `reverse.rs`. A record as JSON is in `api/`, and what people see in
//! `page/`. What is sent along is read in `body.rs`, or line by line in `lines.rs`; an answer is there (`answer.rs`), or made
//! while it is sent (`stream.rs`, `spool.rs`), as for those who follow what changes (`followers.rs`).

mod address;
mod agency;
mod answer;
mod api;
mod authenticate;
mod bad_request;
mod body;
mod caching;
mod certificate;
mod client;
mod client_certificate;
mod compress;
mod connection;
mod describe;
mod explain;
mod followers;
mod form;
mod head;
mod kept;
mod last_change;
mod lines;
mod link;
mod listen;
mod location;
mod metadata;
mod metrics;
mod near;
mod negotiate;
mod openapi;
mod pace;
mod page;
mod parameters;
mod percent;
mod places;
mod rate;
mod readiness;
mod redirect;
mod refusal;
mod registry;
mod request;
mod request_id;
mod reverse;
mod route;
mod search;
mod shown;
mod spool;
mod status;
mod stream;
mod tls;
mod tunnel;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use answer::{Reply, TEXT, reply};
use authenticate::{GuessThrottle, HttpSessionTable};
use bad_request::RequestSyntaxError;
use body::BodyReader;
use bytes::Bytes;
use client::{ConnectionPeer, RemoteClient};
pub use client::{ForwardedBy, ProxyTrust};
pub(crate) use client::{client_network, plain, truncate};
pub use explain::{ResolutionTrace, TraceOutcome, TraceStep};
use followers::Subscribers;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri};
use hyper::body::Incoming;
use ipnet::IpNet;
use kept::ResponseCache;
use last_change::LogHeadTracker;
pub(crate) use last_change::last_change;
pub use listen::{HttpLimits, HttpListener, HttpListeners, serve};
pub(crate) use metrics::LatencyHistogram;
use metrics::{ExternalMetric, HttpMetrics, RequestKind};
use parameters::QueryParams;
pub(crate) use rate::GcraTable;
use rate::HttpRateLimiter;
pub use rate::{HttpRateLimits, Rate};
pub use readiness::Readiness;
use request::RequestHead;
use request_id::{RequestIdGenerator, X_REQUEST_ID};
use reverse::ReverseLookupGate;
use route::Route;
use shown::LogSafe;
use tendot_names::Parser;
use tendot_registry::Registry;
pub use tls::{ServerCertificate, TlsError};
use tokio::sync::Semaphore;
use tokio::time::timeout;
pub use upstream::UpstreamClient;
use upstream::UpstreamResolver;

pub use self::registry::sweep_receipts;
use crate::native::NativeServer;
use crate::tally::ResolutionCounter;

/// Steps that one request may cost.
const REQUEST_BUDGET: u32 = 20_000;

/// Bytes of answers that are kept to be given again.
const DEFAULT_RESPONSE_CACHE_BYTES: usize = 16 << 20;

/// How long is waited for the one figure that the store has to tell; after that, it is what it was the last time.
const STORE_METRIC_TIMEOUT: Duration = Duration::from_millis(500);

/// Lists that are made at the same time; others wait.
const MAX_CONCURRENT_LISTS: usize = 2;

/// Bytes of a form that is sent.
const MAX_FORM_BYTES: usize = 64 << 10;

/// HTTP service over a registry: shared state, settings and handlers.
#[derive(Debug)]
pub struct HttpServer {
    registry: Arc<Registry>,
    operator_token: Option<Box<str>>,
    /// Names that are not kept here.
    foreign: Option<Box<UpstreamResolver>>,
    trust: ProxyTrust,
    limiter: Option<HttpRateLimiter>,
    kept: Option<ResponseCache>,
    /// What is counted of resolutions.
    tally: Option<Arc<ResolutionCounter>>,
    bodies: BodyReader,
    searches: ReverseLookupGate,
    ids: RequestIdGenerator,
    metrics: Arc<HttpMetrics>,
    figures: Arc<Vec<ExternalMetric>>,
    /// Who may see the figures, beside this machine.
    metrics_for: Vec<IpNet>,
    logs_requests: bool,
    /// For messages of the Handle System inside HTTP.
    native: Option<Arc<NativeServer>>,
    sessions: HttpSessionTable,
    attempts: GuessThrottle,
    /// For proofs, which take long.
    cores: Arc<Semaphore>,
    /// For lists, which may take longer.
    lists: Semaphore,
    followers: Subscribers,
    /// Batches that are under way.
    turns: registry::KeyLocks,
    /// Whether requests are answered as they should be.
    ready: AtomicBool,
    /// What the store is ready for.
    readiness: Option<readiness::ReadinessProbe>,
}

/// Context of one request: start time, client, request id and kind.
struct RequestContext {
    begun: Instant,
    client: RemoteClient,
    id: HeaderValue,
    kind: RequestKind,
}

impl HttpServer {
    /// Answers from this registry.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            operator_token: None,
            foreign: None,
            trust: ProxyTrust::default(),
            limiter: None,
            kept: Some(ResponseCache::new(DEFAULT_RESPONSE_CACHE_BYTES)),
            tally: None,
            bodies: BodyReader::new(Duration::from_secs(10)),
            searches: ReverseLookupGate::new(Duration::from_secs(10)),
            ids: RequestIdGenerator::new(),
            metrics: Arc::new(HttpMetrics::new()),
            figures: Arc::default(),
            metrics_for: Vec::new(),
            logs_requests: false,
            native: None,
            sessions: HttpSessionTable::default(),
            attempts: GuessThrottle::new(),
            cores: Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from))),
            lists: Semaphore::new(MAX_CONCURRENT_LISTS),
            followers: Subscribers::new(),
            turns: registry::KeyLocks::default(),
            ready: AtomicBool::new(false),
            readiness: None,
        }
    }

    /// The registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Takes this token for the operator's.
    #[must_use]
    pub fn operator_token(mut self, token: impl Into<Box<str>>) -> Self {
        self.operator_token = Some(token.into());
        self
    }

    /// Says whether passwords and tokens are taken from this machine without TLS: they are unless told otherwise.
    #[must_use]
    pub const fn trust_loopback(mut self, trust: bool) -> Self {
        self.trust.loopback = trust;
        self
    }

    /// Says who is believed, and what.
    #[must_use]
    pub fn proxy_trust(mut self, trust: ProxyTrust) -> Self {
        self.trust = trust;
        self
    }

    /// Holds clients back that ask too often. Nobody is, unless told otherwise.
    #[must_use]
    pub fn rate_limits(mut self, rates: HttpRateLimits) -> Self {
        self.limiter = Some(HttpRateLimiter::new(rates));
        self
    }

    /// Keeps answers to give them again, of so many bytes at most: 16 MiB, unless told otherwise.
    #[must_use]
    pub fn response_cache_size(mut self, bytes: usize) -> Self {
        self.kept = (bytes > 0).then(|| ResponseCache::new(bytes));
        self
    }

    /// Counts resolutions, for reports. They are not, unless told so.
    #[must_use]
    pub fn resolution_counter(mut self, tally: Arc<ResolutionCounter>) -> Self {
        self.tally = Some(Arc::clone(&tally));
        let (name, about) =
            ("tendot_resolutions_not_counted", "Resolutions that are in no report, for want of room.");
        let failures = Arc::clone(&tally);
        let http = self.figure(name, about, true, move || Some(tally.dropped_resolutions() as f64));
        let (name, about) =
            ("tendot_failures_not_counted", "Names not found that are in no report, for want of room.");
        http.figure(name, about, true, move || Some(failures.dropped_failures() as f64))
    }

    /// The body of a request has to come within this time, and a second for each kilobyte.
    #[must_use]
    pub const fn body_timeout(mut self, time: Duration) -> Self {
        self.bodies = BodyReader::new(time);
        self
    }

    /// Names are looked up by what their records say for this long at most: 10 s, unless told otherwise.
    #[must_use]
    pub fn reverse_lookup_timeout(mut self, time: Duration) -> Self {
        self.searches = ReverseLookupGate::new(time);
        self
    }

    /// Shows `/metrics` to these, beside this machine.
    #[must_use]
    pub fn metrics_allow(mut self, networks: Vec<IpNet>) -> Self {
        self.metrics_for = networks;
        self
    }

    /// Shows a number of another part of the program among the metrics; none if it is not known. The name of one that only
    /// grows gets `_total` at its end.
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

    /// The same for several numbers of a kind that grow and shrink, which `label` tells apart.
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
        // Nobody else has them before the service begins.
        if let Some(figures) = Arc::get_mut(&mut self.figures) {
            figures.push(figure);
        }
    }

    /// Says whether each request leaves a line in the log. Failures of our own do in any case.
    #[must_use]
    pub const fn log_requests(mut self, logs: bool) -> Self {
        self.logs_requests = logs;
        self
    }

    /// Takes messages of the Handle System inside HTTP, too, and tells of its site and numbers.
    #[must_use]
    pub fn native_server(mut self, native: Arc<NativeServer>) -> Self {
        self.native = Some(native);
        self
    }

    /// Tells in `/readyz` what the store is ready for. It is always ready for everything, unless told otherwise.
    #[must_use]
    pub fn readiness_probe(mut self, read: impl Fn() -> Readiness + Send + Sync + 'static) -> Self {
        self.readiness = Some(readiness::ReadinessProbe::new(read));
        self
    }

    /// Says whether the service takes requests, for `/readyz`.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// Begins to answer a request, and answers it if nothing has to be looked up for it.
    fn try_fast_path(
        &self,
        request: &http::Request<Incoming>,
        peer: &ConnectionPeer,
        limits: &HttpLimits,
    ) -> (RequestContext, Option<Reply>) {
        let begun = Instant::now();
        let headers = request.headers();
        let client = self.trust.resolve_client(peer, headers);
        let id = self.ids.id_for(headers, client.is_proxied);
        let kind = RequestKind::request_kind(request.method(), request.uri().path());
        let mut response = self
            .check_rate_limit(&client, kind, begun)
            // HTTP/1 does not come so far with too many.
            .or_else(|| (headers.len() > limits.headers).then(|| header_fields_too_large(limits.headers)))
            .or_else(|| self.cached_response(request));
        let asked = RequestContext { begun, client, id, kind };
        if let Some(response) = &mut response {
            answer::add_common_headers(response.headers_mut());
            if compress::should_compress(headers, response) {
                compress::compress_inline(response);
            }
            self.record(&asked, request.method(), request.uri(), response);
        }
        (asked, response)
    }

    /// Answers a request that has begun.
    async fn handle_request(&self, request: http::Request<Incoming>, asked: &RequestContext) -> Reply {
        let (parts, body) = request.into_parts();
        let mut response = self.dispatch(&parts, body, &asked.client).await;
        answer::add_common_headers(response.headers_mut());
        if compress::should_compress(&parts.headers, &mut response) {
            compress::compress(&mut response).await;
        }
        self.record(asked, &parts.method, &parts.uri, &mut response);
        response
    }

    /// Counts an answer, tells of it, and gives it its name.
    fn record(&self, asked: &RequestContext, method: &Method, uri: &Uri, response: &mut Reply) {
        let (status, took) = (response.status(), asked.begun.elapsed());
        self.metrics.record_request(asked.kind, status, took);
        if self.logs_requests || status.is_server_error() {
            log_request(asked, method, uri, response, took);
        }
        response.headers_mut().insert(X_REQUEST_ID, asked.id.clone());
    }

    /// The answer to somebody who asks too often. Those who look whether we live are not held back.
    fn check_rate_limit(&self, client: &RemoteClient, kind: RequestKind, now: Instant) -> Option<Reply> {
        let limiter =
            self.limiter.as_ref().filter(|limiter| !(client.is_here && limiter.is_loopback_exempt()))?;
        // A proxy that does not say whom it asks for would be held back for all of them.
        if kind == RequestKind::Operation || self.is_client_hidden(client) {
            return None;
        }
        let wait = limiter.charge(client.address, now).err()?;
        self.metrics.rate_limited.fetch_add(1, Ordering::Relaxed);
        Some(too_many_requests(wait))
    }

    /// Whether a proxy does not say whom it asks for.
    fn is_client_hidden(&self, client: &RemoteClient) -> bool {
        client.is_proxied && self.trust.is_trusted_proxy(client.address)
    }

    async fn dispatch(&self, parts: &Parts, body: Incoming, client: &RemoteClient) -> Reply {
        let now = SystemTime::now();
        let path = parts.uri.path();
        let asked = RequestHead {
            query: parts.uri.query(),
            headers: &parts.headers,
            version: parts.version,
            client: Some(client.address).filter(|_| !self.is_client_hidden(client)),
            is_here: client.is_here,
            takes_credentials: client.takes_credentials && !are_lent(&parts.headers),
            certificate: client.certificate.as_deref(),
        };
        if tunnel::is_handle_message(&parts.method, &parts.headers) {
            return self.post_handle_message(body, client).await;
        }
        let Some((route, rest)) = Route::find(path) else {
            return api::unknown_endpoint(&parts.method, path);
        };
        if !route.allows(&parts.method) {
            return method_not_allowed(route, &parts.method, path);
        }
        if parts.method == Method::OPTIONS {
            return options_reply(route);
        }
        let mut response = match route {
            Route::Session => self.session_request(&parts.method, rest, body, &asked).await,
            Route::Sessions => self.create_session(body, &asked).await,
            Route::Registry(noun) => self.serve_api_v1(noun, &parts.method, rest, body, &asked, now).await,
            _ => self.dispatch_method(&parts.method, (route, path, rest), body, client, &asked, now).await,
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            self.add_challenge_headers(&mut response, &asked).await;
        }
        response
    }

    /// Carries out what is done at a path by this method.
    async fn dispatch_method(
        &self,
        method: &Method,
        (route, path, rest): (Route, &str, &str),
        body: Incoming,
        client: &RemoteClient,
        asked: &RequestHead<'_>,
        now: SystemTime,
    ) -> Reply {
        if *method == Method::GET || *method == Method::HEAD {
            let answer = async {
                let answer = self.dispatch_get(route, rest, client, asked, now).await;
                self.cache_response(path, answer).await
            };
            return if tolerates_stale(asked) {
                tendot_store::with_stale_reads(answer).await
            } else {
                answer.await
            };
        }
        match (method, route) {
            (&Method::PUT, _) => return self.put_handle(rest, asked, body, now).await,
            (&Method::DELETE, Route::Prefix | Route::Prefixes) => {
                return self.home_prefix(rest, asked, false, now).await;
            }
            (&Method::DELETE, _) => return self.delete_handle(rest, asked, now).await,
            (_, Route::Home) => return self.post_resolve_form(body, asked, now).await,
            _ => {}
        }
        // By POST, what stands in the query elsewhere may stand in the body.
        let query = match self.merge_body_into_query(body, asked).await {
            Ok(query) => query,
            Err(refused) => return refused,
        };
        let asked = RequestHead { query: Some(&query), ..*asked };
        match route {
            Route::Prefixes | Route::Prefix => self.home_prefix(rest, &asked, true, now).await,
            _ => self.dispatch_get(route, rest, client, &asked, now).await,
        }
    }

    /// Answers `GET /metrics`, to those whom it concerns.
    async fn get_metrics(&self, client: &RemoteClient) -> Reply {
        const OPENMETRICS: HeaderValue =
            HeaderValue::from_static("application/openmetrics-text;version=1.0.0;charset=utf-8");
        if !client.is_here && !self.metrics_for.iter().any(|network| network.contains(&client.address)) {
            return reply(StatusCode::FORBIDDEN, TEXT, "the figures are not shown to this address\n");
        }
        let known = self.metrics.last_change.load(Ordering::Relaxed);
        // When the store does not answer, the other figures are wanted most.
        if let Ok(Ok(last)) = timeout(STORE_METRIC_TIMEOUT, last_change(self.registry.store(), known)).await {
            self.metrics.last_change.store(last, Ordering::Relaxed);
        }
        let mut response = match metrics::render(
            &self.metrics,
            &self.figures,
            self.native.as_ref().map(|native| native.metrics()),
        ) {
            Ok(printed) => reply(StatusCode::OK, OPENMETRICS, printed),
            Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "the figures can't be printed\n"),
        };
        caching::set_private_no_store(response.headers_mut());
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
            Route::OpenApi => openapi::get_openapi(request.headers),
            Route::Docs => page::get_docs(request.headers),
            Route::Robots => reply(StatusCode::OK, TEXT, "User-agent: *\nCrawl-delay: 1\n"),
            Route::Icon => static_file("image/svg+xml", page::FAVICON),
            Route::Style => static_file("text/css;charset=utf-8", page::STYLESHEET.as_bytes()),
            Route::OpenUrl => self.open_url(request, now).await,
            Route::Agencies => self.get_doi_agencies(rest, request).await,
            Route::Handle => self.get_handle(rest, request, now).await,
            Route::Handles => self.list_handles(request).await,
            Route::Prefixes | Route::Prefix => self.list_prefixes(request).await,
            Route::Verifications => self.get_verification(rest, request).await,
            // They are answered before.
            Route::Sessions | Route::Session => api::unknown_endpoint(&Method::GET, "/api/sessions"),
            Route::Site => self.get_site(request),
            Route::Reverse | Route::ReverseUnder => self.get_reverse_lookup(rest, request).await,
            Route::History => self.get_history(rest, request).await,
            Route::Metadata => self.get_metadata(rest, request, now).await,
            Route::Changes => self.get_changes(request).await,
            // They have a way of their own.
            Route::Registry(_) => api::unknown_endpoint(&Method::GET, rest),
            Route::Name => self.get_name(rest, request, now).await,
        }
    }

    /// Answers what another program sends along: the name in `id` or `rft_id`.
    async fn open_url(&self, request: &RequestHead<'_>, now: SystemTime) -> Reply {
        let parameters = match QueryParams::parse(request.query) {
            Ok(parameters) => parameters,
            Err(error) => return page::syntax_error_page(&error, request.query.unwrap_or_default(), request),
        };
        match parameters.get("id").or_else(|| parameters.get("rft_id")) {
            Some(name) => self.resolve_name(&form::parse_or_short_doi(name), &parameters, request, now).await,
            None => self.get_home().await,
        }
    }

    async fn post_resolve_form(&self, body: Incoming, request: &RequestHead<'_>, now: SystemTime) -> Reply {
        let body = match self.bodies.read(body, MAX_FORM_BYTES).await {
            Ok(body) => body,
            Err(error) => return reply(error.status(), TEXT, format!("{error}\n")),
        };
        let text = String::from_utf8_lossy(&body);
        let parameters = match QueryParams::parse(Some(&text)) {
            Ok(parameters) => parameters,
            Err(error) => return page::syntax_error_page(&error, &text, request),
        };
        match parameters.get("hdl") {
            Some(name) => self.resolve_name(&form::parse_or_short_doi(name), &parameters, request, now).await,
            None => self.get_home().await,
        }
    }

    /// Answers what somebody typed or pasted into the box: the way to the path of the name in it.
    async fn get_home_or_search(&self, request: &RequestHead<'_>) -> Reply {
        // In what browsers make of a form, a plus sign is a space.
        let query = request.query.map(|query| query.replace('+', " "));
        match QueryParams::parse(query.as_deref()) {
            Err(error) => page::syntax_error_page(&error, query.as_deref().unwrap_or_default(), request),
            Ok(parameters) => match parameters.get("text").map(str::trim).filter(|text| !text.is_empty()) {
                Some(text) => redirect::redirect_to_name(&extract_name(text), request),
                None => self.get_home().await,
            },
        }
    }
}

/// The name in what somebody pasted: written in any form, or somewhere in a text; else all of it.
fn extract_name(pasted: &str) -> String {
    if let Ok(reading) = Parser::lenient().parse(pasted) {
        return reading.into_identifier().as_str().to_owned();
    }
    let found = tendot_names::find_iter(pasted.as_bytes()).next().map(|found| found.name.to_string());
    found.unwrap_or_else(|| form::parse_or_short_doi(pasted).into_owned())
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
            page::problem(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail).into()
        }
        true => api::unknown_endpoint(method, path),
        false => reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "this is not done here\n"),
    };
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(header::ALLOW, route.methods());
    response
}

/// The answer to somebody who has to wait.
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

/// Whether a browser has added the credentials of whoever sits there to what the page of another site asks for: a form, or a
/// script. What a page asks for by a script of its own has those that the script knows.
/// Whether a question may be answered with what was there a moment ago: nobody who is known asks it, and nobody who wants to know
/// what is there now.
fn tolerates_stale(request: &RequestHead<'_>) -> bool {
    let is_known = request.headers.contains_key(header::AUTHORIZATION) || request.certificate.is_some();
    !is_known && !request.query.is_some_and(|query| query.contains("auth"))
}

fn are_lent(headers: &HeaderMap) -> bool {
    let is = |name: &str, words: &[&[u8]]| {
        headers.get(name).is_some_and(|value| words.contains(&value.as_bytes()))
    };
    is("sec-fetch-site", &[b"cross-site", b"same-site"]) && !is("sec-fetch-mode", &[b"cors"])
}

/// What is told of a path: the name of a session opens it.
fn redacted_path(path: &str) -> &str {
    if path.starts_with("/api/sessions/") { "/api/sessions/…" } else { path }
}

/// Leaves a line. What stands in the query or in headers may be nobody's business.
fn log_request(asked: &RequestContext, method: &Method, uri: &Uri, response: &Reply, took: Duration) {
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                target: "tendot::request",
                $level,
                method = %LogSafe(method.as_str()),
                path = %LogSafe(redacted_path(uri.path())),
                kind = asked.kind.as_str(),
                status = response.status().as_u16(),
                bytes = response.body().len(),
                duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                client = %asked.client.address,
                id = asked.id.to_str().unwrap_or_default(),
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
