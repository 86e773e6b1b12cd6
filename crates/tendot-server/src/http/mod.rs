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

use answer::{Answer, TEXT, answer};
use authenticate::{GuessThrottle, Sessions};
use bad_request::RequestSyntaxError;
use body::BodyReader;
use bytes::Bytes;
use client::{Client, ConnectionPeer};
pub use client::{ForwardedBy, ProxyTrust};
pub(crate) use client::{host, masked, plain};
pub use explain::{Explanation, Finding, Outcome};
use followers::Subscribers;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri};
use hyper::body::Incoming;
use ipnet::IpNet;
use kept::Kept;
use last_change::LogHeadTracker;
pub(crate) use last_change::last_change;
pub use listen::{Limits, Listener, HttpListeners, listen};
pub(crate) use metrics::LatencyHistogram;
use metrics::{ExternalMetric, Kind, Metrics};
use parameters::Parameters;
use rate::Limiter;
pub(crate) use rate::Table;
pub use rate::{Rate, Rates};
pub use readiness::Readiness;
use request::Request;
use request_id::{X_REQUEST_ID, RequestIdGenerator};
use reverse::ReverseLookupGate;
use route::Route;
use shown::Shown;
use tendot_names::Parser;
use tendot_registry::Registry;
pub use tls::{Tls, TlsError};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use upstream::Foreign;
pub use upstream::Upstream;

pub use self::registry::sweep_receipts;
use crate::native::Native;
use crate::tally::Tally;

/// Steps that one request may cost.
const WORK: u32 = 20_000;

/// Bytes of answers that are kept to be given again.
const KEPT: usize = 16 << 20;

/// How long is waited for the one figure that the store has to tell; after that, it is what it was the last time.
const STORE_METRIC_TIMEOUT: Duration = Duration::from_millis(500);

/// Lists that are made at the same time; others wait.
const MAX_CONCURRENT_LISTS: usize = 2;

/// Bytes of a form that is sent.
const FORM: usize = 64 << 10;

/// The answers to HTTP requests, over a registry.
#[derive(Debug)]
pub struct Http {
    registry: Arc<Registry>,
    operator_token: Option<Box<str>>,
    /// Names that are not kept here.
    foreign: Option<Box<Foreign>>,
    trust: ProxyTrust,
    limiter: Option<Limiter>,
    kept: Option<Kept>,
    /// What is counted of resolutions.
    tally: Option<Arc<Tally>>,
    bodies: BodyReader,
    searches: ReverseLookupGate,
    ids: RequestIdGenerator,
    metrics: Arc<Metrics>,
    figures: Arc<Vec<ExternalMetric>>,
    /// Who may see the figures, beside this machine.
    metrics_for: Vec<IpNet>,
    logs_requests: bool,
    /// For messages of the Handle System inside HTTP.
    native: Option<Arc<Native>>,
    sessions: Sessions,
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
    readiness: Option<readiness::Asking>,
}

/// A request that is being answered: since when, who asks, and what about.
struct Asked {
    begun: Instant,
    client: Client,
    id: HeaderValue,
    kind: Kind,
}

impl Http {
    /// Answers from this registry.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            operator_token: None,
            foreign: None,
            trust: ProxyTrust::default(),
            limiter: None,
            kept: Some(Kept::new(KEPT)),
            tally: None,
            bodies: BodyReader::new(Duration::from_secs(10)),
            searches: ReverseLookupGate::new(Duration::from_secs(10)),
            ids: RequestIdGenerator::new(),
            metrics: Arc::new(Metrics::new()),
            figures: Arc::default(),
            metrics_for: Vec::new(),
            logs_requests: false,
            native: None,
            sessions: Sessions::default(),
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
    pub fn trust(mut self, trust: ProxyTrust) -> Self {
        self.trust = trust;
        self
    }

    /// Holds clients back that ask too often. Nobody is, unless told otherwise.
    #[must_use]
    pub fn rates(mut self, rates: Rates) -> Self {
        self.limiter = Some(Limiter::new(rates));
        self
    }

    /// Keeps answers to give them again, of so many bytes at most: 16 MiB, unless told otherwise.
    #[must_use]
    pub fn keeps(mut self, bytes: usize) -> Self {
        self.kept = (bytes > 0).then(|| Kept::new(bytes));
        self
    }

    /// Counts resolutions, for reports. They are not, unless told so.
    #[must_use]
    pub fn tally(mut self, tally: Arc<Tally>) -> Self {
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
    pub fn metrics_for(mut self, networks: Vec<IpNet>) -> Self {
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
    pub fn figures(
        mut self,
        name: &'static str,
        about: &'static str,
        label: &'static str,
        read: impl Fn() -> Vec<(String, f64)> + Send + Sync + 'static,
    ) -> Self {
        self.add_external_metric(ExternalMetric::several(name, about, label, read));
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
    pub const fn logs_requests(mut self, logs: bool) -> Self {
        self.logs_requests = logs;
        self
    }

    /// Takes messages of the Handle System inside HTTP, too, and tells of its site and numbers.
    #[must_use]
    pub fn native(mut self, native: Arc<Native>) -> Self {
        self.native = Some(native);
        self
    }

    /// Tells in `/readyz` what the store is ready for. It is always ready for everything, unless told otherwise.
    #[must_use]
    pub fn readiness(mut self, read: impl Fn() -> Readiness + Send + Sync + 'static) -> Self {
        self.readiness = Some(readiness::Asking::new(read));
        self
    }

    /// Says whether the service takes requests, for `/readyz`.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// Begins to answer a request, and answers it if nothing has to be looked up for it.
    fn begin(
        &self,
        request: &http::Request<Incoming>,
        peer: &ConnectionPeer,
        limits: &Limits,
    ) -> (Asked, Option<Answer>) {
        let begun = Instant::now();
        let headers = request.headers();
        let client = self.trust.client(peer, headers);
        let id = self.ids.of(headers, client.is_proxied);
        let kind = Kind::of(request.method(), request.uri().path());
        let mut response = self
            .check_rate_limit(&client, kind, begun)
            // HTTP/1 does not come so far with too many.
            .or_else(|| (headers.len() > limits.headers).then(|| too_many_headers(limits.headers)))
            .or_else(|| self.kept(request));
        let asked = Asked { begun, client, id, kind };
        if let Some(response) = &mut response {
            answer::finish(response.headers_mut());
            if compress::should_compress(headers, response) {
                compress::at_once(response);
            }
            self.end(&asked, request.method(), request.uri(), response);
        }
        (asked, response)
    }

    /// Answers a request that has begun.
    async fn answer(&self, request: http::Request<Incoming>, asked: &Asked) -> Answer {
        let (parts, body) = request.into_parts();
        let mut response = self.route(&parts, body, &asked.client).await;
        answer::finish(response.headers_mut());
        if compress::should_compress(&parts.headers, &mut response) {
            compress::compress(&mut response).await;
        }
        self.end(asked, &parts.method, &parts.uri, &mut response);
        response
    }

    /// Counts an answer, tells of it, and gives it its name.
    fn end(&self, asked: &Asked, method: &Method, uri: &Uri, response: &mut Answer) {
        let (status, took) = (response.status(), asked.begun.elapsed());
        self.metrics.count(asked.kind, status, took);
        if self.logs_requests || status.is_server_error() {
            log(asked, method, uri, response, took);
        }
        response.headers_mut().insert(X_REQUEST_ID, asked.id.clone());
    }

    /// The answer to somebody who asks too often. Those who look whether we live are not held back.
    fn check_rate_limit(&self, client: &Client, kind: Kind, now: Instant) -> Option<Answer> {
        let limiter =
            self.limiter.as_ref().filter(|limiter| !(client.is_here && limiter.is_loopback_exempt()))?;
        // A proxy that does not say whom it asks for would be held back for all of them.
        if kind == Kind::Operation || self.is_unknown(client) {
            return None;
        }
        let wait = limiter.count(client.address, now).err()?;
        self.metrics.rate_limited.fetch_add(1, Ordering::Relaxed);
        Some(too_often(wait))
    }

    /// Whether a proxy does not say whom it asks for.
    fn is_unknown(&self, client: &Client) -> bool {
        client.is_proxied && self.trust.is_trusted_proxy(client.address)
    }

    async fn route(&self, parts: &Parts, body: Incoming, client: &Client) -> Answer {
        let now = SystemTime::now();
        let path = parts.uri.path();
        let asked = Request {
            query: parts.uri.query(),
            headers: &parts.headers,
            version: parts.version,
            client: Some(client.address).filter(|_| !self.is_unknown(client)),
            is_here: client.is_here,
            takes_credentials: client.takes_credentials && !are_lent(&parts.headers),
            certificate: client.certificate.as_deref(),
        };
        if tunnel::is_message(&parts.method, &parts.headers) {
            return self.tunnel(body, client).await;
        }
        let Some((route, rest)) = Route::of(path) else { return api::unknown(&parts.method, path) };
        if !route.has(&parts.method) {
            return not_allowed(route, &parts.method, path);
        }
        if parts.method == Method::OPTIONS {
            return options(route);
        }
        let mut response = match route {
            Route::Session => self.session_request(&parts.method, rest, body, &asked).await,
            Route::Sessions => self.create_session(body, &asked).await,
            Route::Registry(noun) => self.serve_api_v1(noun, &parts.method, rest, body, &asked, now).await,
            _ => self.act(&parts.method, (route, path, rest), body, client, &asked, now).await,
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            self.challenge(&mut response, &asked).await;
        }
        response
    }

    /// Carries out what is done at a path by this method.
    async fn act(
        &self,
        method: &Method,
        (route, path, rest): (Route, &str, &str),
        body: Incoming,
        client: &Client,
        asked: &Request<'_>,
        now: SystemTime,
    ) -> Answer {
        if *method == Method::GET || *method == Method::HEAD {
            let answer = async {
                let answer = self.get(route, rest, client, asked, now).await;
                self.keep(path, answer).await
            };
            return if is_easygoing(asked) { tendot_store::recent(answer).await } else { answer.await };
        }
        match (method, route) {
            (&Method::PUT, _) => return self.put_handle(rest, asked, body, now).await,
            (&Method::DELETE, Route::Prefix | Route::Prefixes) => {
                return self.home_prefix(rest, asked, false, now).await;
            }
            (&Method::DELETE, _) => return self.delete_handle(rest, asked, now).await,
            (_, Route::Home) => return self.post(body, asked, now).await,
            _ => {}
        }
        // By POST, what stands in the query elsewhere may stand in the body.
        let query = match self.merge_body_into_query(body, asked).await {
            Ok(query) => query,
            Err(refused) => return refused,
        };
        let asked = Request { query: Some(&query), ..*asked };
        match route {
            Route::Prefixes | Route::Prefix => self.home_prefix(rest, &asked, true, now).await,
            _ => self.get(route, rest, client, &asked, now).await,
        }
    }

    /// Answers `GET /metrics`, to those whom it concerns.
    async fn get_metrics(&self, client: &Client) -> Answer {
        const KIND: HeaderValue =
            HeaderValue::from_static("application/openmetrics-text;version=1.0.0;charset=utf-8");
        if !client.is_here && !self.metrics_for.iter().any(|network| network.contains(&client.address)) {
            return answer(StatusCode::FORBIDDEN, TEXT, "the figures are not shown to this address\n");
        }
        let known = self.metrics.last_change.load(Ordering::Relaxed);
        // When the store does not answer, the other figures are wanted most.
        if let Ok(Ok(last)) = timeout(STORE_METRIC_TIMEOUT, last_change(self.registry.store(), known)).await {
            self.metrics.last_change.store(last, Ordering::Relaxed);
        }
        let mut response = match metrics::print(
            &self.metrics,
            &self.figures,
            self.native.as_ref().map(|native| native.metrics()),
        ) {
            Ok(printed) => answer(StatusCode::OK, KIND, printed),
            Err(_) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "the figures can't be printed\n"),
        };
        caching::set_private_no_store(response.headers_mut());
        response
    }

    async fn get(
        &self,
        route: Route,
        rest: &str,
        client: &Client,
        request: &Request<'_>,
        now: SystemTime,
    ) -> Answer {
        match route {
            Route::Home => self.search(request).await,
            Route::Live => answer(StatusCode::OK, TEXT, "ok\n"),
            Route::Ready => self.get_readiness(),
            Route::Metrics => self.get_metrics(client).await,
            Route::OpenApi => openapi::show(request.headers),
            Route::Docs => page::docs(request.headers),
            Route::Robots => answer(StatusCode::OK, TEXT, "User-agent: *\nCrawl-delay: 1\n"),
            Route::Icon => fixed("image/svg+xml", page::FAVICON),
            Route::Style => fixed("text/css;charset=utf-8", page::STYLESHEET.as_bytes()),
            Route::OpenUrl => self.open_url(request, now).await,
            Route::Agencies => self.agencies(rest, request).await,
            Route::Handle => self.get_handle(rest, request, now).await,
            Route::Handles => self.list_handles(request).await,
            Route::Prefixes | Route::Prefix => self.list_prefixes(request).await,
            Route::Verifications => self.get_verification(rest, request).await,
            // They are answered before.
            Route::Sessions | Route::Session => api::unknown(&Method::GET, "/api/sessions"),
            Route::Site => self.get_site(request),
            Route::Reverse | Route::ReverseUnder => self.reverse(rest, request).await,
            Route::History => self.get_history(rest, request).await,
            Route::Metadata => self.get_metadata(rest, request, now).await,
            Route::Changes => self.get_changes(request).await,
            // They have a way of their own.
            Route::Registry(_) => api::unknown(&Method::GET, rest),
            Route::Name => self.redirect(rest, request, now).await,
        }
    }

    /// Answers what another program sends along: the name in `id` or `rft_id`.
    async fn open_url(&self, request: &Request<'_>, now: SystemTime) -> Answer {
        let parameters = match Parameters::parse(request.query) {
            Ok(parameters) => parameters,
            Err(error) => return page::bad_request(&error, request.query.unwrap_or_default(), request),
        };
        match parameters.get("id").or_else(|| parameters.get("rft_id")) {
            Some(name) => self.resolve_name(&form::parse_or_short_doi(name), &parameters, request, now).await,
            None => self.home().await,
        }
    }

    async fn post(&self, body: Incoming, request: &Request<'_>, now: SystemTime) -> Answer {
        let body = match self.bodies.read(body, FORM).await {
            Ok(body) => body,
            Err(error) => return answer(error.status(), TEXT, format!("{error}\n")),
        };
        let text = String::from_utf8_lossy(&body);
        let parameters = match Parameters::parse(Some(&text)) {
            Ok(parameters) => parameters,
            Err(error) => return page::bad_request(&error, &text, request),
        };
        match parameters.get("hdl") {
            Some(name) => self.resolve_name(&form::parse_or_short_doi(name), &parameters, request, now).await,
            None => self.home().await,
        }
    }

    /// Answers what somebody typed or pasted into the box: the way to the path of the name in it.
    async fn search(&self, request: &Request<'_>) -> Answer {
        // In what browsers make of a form, a plus sign is a space.
        let query = request.query.map(|query| query.replace('+', " "));
        match Parameters::parse(query.as_deref()) {
            Err(error) => page::bad_request(&error, query.as_deref().unwrap_or_default(), request),
            Ok(parameters) => match parameters.get("text").map(str::trim).filter(|text| !text.is_empty()) {
                Some(text) => redirect::redirect_to_name(&name_pasted(text), request),
                None => self.home().await,
            },
        }
    }
}

/// The name in what somebody pasted: written in any form, or somewhere in a text; else all of it.
fn name_pasted(pasted: &str) -> String {
    if let Ok(reading) = Parser::lenient().parse(pasted) {
        return reading.into_identifier().as_str().to_owned();
    }
    let found = tendot_names::find_iter(pasted.as_bytes()).next().map(|found| found.name.to_string());
    found.unwrap_or_else(|| form::parse_or_short_doi(pasted).into_owned())
}

fn fixed(kind: &'static str, body: &'static [u8]) -> Answer {
    let mut response = answer(StatusCode::OK, HeaderValue::from_static(kind), Bytes::from_static(body));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    response
}

fn options(route: Route) -> Answer {
    let mut response = answer(StatusCode::OK, TEXT, "");
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, route.methods());
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, route.methods());
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

fn not_allowed(route: Route, method: &Method, path: &str) -> Answer {
    let mut response = match path.starts_with("/api/") {
        true if path.starts_with("/api/v1/") => {
            let allowed = route.methods();
            let detail = format!("{method} is not done here, but {}.", allowed.to_str().unwrap_or_default());
            page::problem(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail).into()
        }
        true => api::unknown(method, path),
        false => answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "this is not done here\n"),
    };
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(header::ALLOW, route.methods());
    response
}

/// The answer to somebody who has to wait.
fn too_often(wait: Duration) -> Answer {
    let mut response = answer(StatusCode::TOO_MANY_REQUESTS, TEXT, "you ask too often; wait a little\n");
    let seconds = wait.as_secs() + 1;
    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn too_many_headers(limit: usize) -> Answer {
    answer(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, TEXT, format!("at most {limit} headers are read\n"))
}

/// Whether a browser has added the credentials of whoever sits there to what the page of another site asks for: a form, or a
/// script. What a page asks for by a script of its own has those that the script knows.
/// Whether a question may be answered with what was there a moment ago: nobody who is known asks it, and nobody who wants to know
/// what is there now.
fn is_easygoing(request: &Request<'_>) -> bool {
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
fn log(asked: &Asked, method: &Method, uri: &Uri, response: &Answer, took: Duration) {
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                target: "tendot::request",
                $level,
                method = %Shown(method.as_str()),
                path = %Shown(redacted_path(uri.path())),
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
