//! `HttpServer`: shared state and settings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use ipnet::IpNet;
use tendot_proto::trust::TrustAnchors;
use tendot_registry::Registry;
use tokio::sync::Semaphore;

use crate::http::api_v1::changes::subscribers::Subscribers;
use crate::http::authentication::Authenticator;
use crate::http::compat::reverse_lookup::ReverseLookupGate;
use crate::http::health::{Readiness, ReadinessProbe};
use crate::http::middleware::client_address::ProxyTrust;
use crate::http::middleware::metrics::HttpMetrics;
use crate::http::middleware::rate_limit::{HttpRateLimiter, HttpRateLimits};
use crate::http::middleware::request_id::RequestIdGenerator;
use crate::http::middleware::response_cache::HttpResponseCache;
use crate::http::pages::ServiceIdentity;
use crate::http::request::body::BodyReader;
use crate::http::resolve::locations::country::CountryDatabase;
use crate::http::resolve::resolver::RecordResolver;
use crate::metrics::ExternalMetric;
use crate::native::NativeServer;
use crate::resolution_stats::ResolutionCounter;

/// Lists that are built concurrently; further requests wait.
const MAX_CONCURRENT_LISTS: usize = 2;

/// HTTP service over a registry: shared state, settings and handlers.
#[derive(Debug)]
pub struct HttpServer {
    pub(super) registry: Arc<Registry>,
    /// Credentials to callers.
    pub(super) authenticator: Authenticator,
    /// Names to records and redirects.
    pub(super) resolver: RecordResolver,
    pub(super) proxy_trust: ProxyTrust,
    /// Whether an untrusted proxy on loopback was logged.
    pub(super) has_warned_of_proxy: AtomicBool,
    /// `Strict-Transport-Security` of responses over TLS.
    pub(super) hsts: Option<HeaderValue>,
    /// Text of `/.well-known/security.txt`.
    pub(super) security_txt: RwLock<Option<Bytes>>,
    pub(super) rate_limiter: Option<HttpRateLimiter>,
    pub(super) body_reader: BodyReader,
    pub(super) reverse_lookups: ReverseLookupGate,
    pub(super) request_ids: RequestIdGenerator,
    pub(super) metrics: Arc<HttpMetrics>,
    pub(super) external_metrics: Arc<Vec<ExternalMetric>>,
    /// Networks, beside loopback, that may read `/metrics`.
    pub(super) metrics_allow: Vec<IpNet>,
    pub(super) logs_requests: bool,
    /// API reference with the name of the operator, rendered at the first request.
    pub(super) docs_page: OnceLock<Bytes>,
    /// Server for native messages inside HTTP.
    pub(super) native_server: Option<Arc<NativeServer>>,
    /// Limits concurrent lists.
    pub(super) list_permits: Semaphore,
    pub(super) subscribers: Subscribers,
    /// Whether the server accepts requests, for `/readyz`.
    pub(super) is_ready: AtomicBool,
    /// Callback for the readiness of the store.
    pub(super) readiness_probe: Option<ReadinessProbe>,
}

impl HttpServer {
    /// Creates a server over this registry, with default settings.
    pub fn new(registry: Arc<Registry>) -> Self {
        let metrics = Arc::new(HttpMetrics::new());
        Self {
            authenticator: Authenticator::new(Arc::clone(&registry)),
            resolver: RecordResolver::new(Arc::clone(&registry), Arc::clone(&metrics)),
            registry,
            proxy_trust: ProxyTrust::default(),
            has_warned_of_proxy: AtomicBool::new(false),
            hsts: None,
            security_txt: RwLock::default(),
            rate_limiter: None,
            body_reader: BodyReader::new(Duration::from_secs(10)),
            reverse_lookups: ReverseLookupGate::new(Duration::from_secs(10)),
            request_ids: RequestIdGenerator::new(),
            metrics,
            external_metrics: Arc::default(),
            metrics_allow: Vec::new(),
            logs_requests: false,
            docs_page: OnceLock::new(),
            native_server: None,
            list_permits: Semaphore::new(MAX_CONCURRENT_LISTS),
            subscribers: Subscribers::new(),
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
    pub fn operator_token(self, token: impl Into<Box<str>>) -> Self {
        self.replace_operator_token(token);
        self
    }

    /// Replaces the operator's API token; the old one is rejected from now on.
    pub fn replace_operator_token(&self, token: impl Into<Box<str>>) {
        let mut current = self.authenticator.operator_token.write().unwrap_or_else(PoisonError::into_inner);
        *current = Some(token.into());
    }

    /// Sets the trusted proxies, and whether clients on loopback are trusted.
    #[must_use]
    pub fn proxy_trust(mut self, trust: ProxyTrust) -> Self {
        self.proxy_trust = trust;
        self
    }

    /// Serves this text at `/.well-known/security.txt` (RFC 9116). Default: 404.
    #[must_use]
    pub fn security_txt(self, text: impl Into<Bytes>) -> Self {
        self.replace_security_txt(text);
        self
    }

    /// Replaces the text at `/.well-known/security.txt`.
    pub fn replace_security_txt(&self, text: impl Into<Bytes>) {
        *self.security_txt.write().unwrap_or_else(PoisonError::into_inner) = Some(text.into());
    }

    /// Sends `Strict-Transport-Security` (RFC 6797) with this `max-age` in responses over TLS. Default: not sent.
    #[must_use]
    pub fn hsts_max_age(mut self, max_age: Duration) -> Self {
        self.hsts = HeaderValue::try_from(format!("max-age={}", max_age.as_secs())).ok();
        self
    }

    /// Sets rate limits. Default: none.
    #[must_use]
    pub fn rate_limits(mut self, limits: HttpRateLimits) -> Self {
        self.rate_limiter = Some(HttpRateLimiter::new(limits));
        self
    }

    /// Sets the size of the response cache in bytes; 0 disables it. Default: 16 MiB.
    #[must_use]
    pub fn response_cache_size(mut self, bytes: usize) -> Self {
        self.resolver.response_cache = (bytes > 0).then(|| HttpResponseCache::new(bytes));
        self
    }

    /// Finds the country of clients, for the choice of a location, in this database; it is replaced when its file changes.
    /// Default: none.
    #[must_use]
    pub fn country_database(mut self, database: CountryDatabase) -> Self {
        self.resolver.country_sources.database = Some(Arc::new(database));
        self
    }

    /// Takes the country of clients from this header of trusted proxies. Default: none.
    #[must_use]
    pub fn country_header(mut self, name: HeaderName) -> Self {
        self.resolver.country_sources.header = Some(name);
        self
    }

    /// Sets the operator and the resolvers that pages name. Default: Tendot, doi.org and hdl.handle.net.
    #[must_use]
    pub fn identity(mut self, identity: ServiceIdentity) -> Self {
        self.resolver.identity = identity;
        self
    }

    /// Sets the query parameters that prefer a location attribute of the same name, as `locatt=NAME:VALUE` does. Default: none.
    #[must_use]
    pub fn location_parameters(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.resolver.location_parameters = names.into_iter().map(Into::into).collect();
        self
    }

    /// Country database, for watching its file.
    pub(super) fn watched_country_database(&self) -> Option<Arc<CountryDatabase>> {
        self.resolver.country_sources.database.clone()
    }

    /// Counts resolutions for reports. Default: not counted.
    #[must_use]
    pub fn resolution_counter(mut self, resolution_counter: Arc<ResolutionCounter>) -> Self {
        self.resolver.resolution_counter = Some(Arc::clone(&resolution_counter));
        let failures = Arc::clone(&resolution_counter);
        self.external_counter(
            "tendot_stats_resolutions_dropped",
            "Resolutions not counted because the table was full.",
            move || Some(resolution_counter.dropped_resolutions() as f64),
        )
        .external_counter(
            "tendot_stats_failures_dropped",
            "Failed resolutions not counted because the table was full.",
            move || Some(failures.dropped_failures() as f64),
        )
    }

    /// Sets the time a request body may take, in addition to one second per kilobyte.
    #[must_use]
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_reader = BodyReader::new(timeout);
        self
    }

    /// Sets the trust anchors of signed records. Default: the root of the Handle System.
    #[must_use]
    pub fn trust_anchors(mut self, anchors: TrustAnchors) -> Self {
        self.resolver.trust_anchors = Arc::new(anchors);
        self
    }

    /// Sets whether records from the [`upstream`](Self::upstream), which is set after this, must be signed. Default: no.
    #[must_use]
    pub const fn require_signed_upstream(mut self, is_required: bool) -> Self {
        self.resolver.requires_signed_upstream = is_required;
        self
    }

    /// Sets the timeout of reverse lookups. Default: 10 s.
    #[must_use]
    pub fn reverse_lookup_timeout(mut self, timeout: Duration) -> Self {
        self.reverse_lookups = ReverseLookupGate::new(timeout);
        self
    }

    /// Sets the networks, beside loopback, that may read `/metrics`.
    #[must_use]
    pub fn metrics_allow(mut self, networks: Vec<IpNet>) -> Self {
        self.metrics_allow = networks;
        self
    }

    /// Adds a counter of another part of the program to `/metrics`; its name gets the suffix `_total`. It is omitted while
    /// `read` returns `None`.
    #[must_use]
    pub fn external_counter(
        mut self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        self.add_external_metric(ExternalMetric::counter(name, help, read));
        self
    }

    /// Adds a gauge of another part of the program to `/metrics`. It is omitted while `read` returns `None`.
    #[must_use]
    pub fn external_gauge(
        mut self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        self.add_external_metric(ExternalMetric::gauge(name, help, read));
        self
    }

    /// Adds several gauges that differ in the value of `label`.
    #[must_use]
    pub fn external_gauges(
        mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        read: impl Fn() -> Vec<(String, f64)> + Send + Sync + 'static,
    ) -> Self {
        self.add_external_metric(ExternalMetric::labelled_gauges(name, help, label, read));
        self
    }

    fn add_external_metric(&mut self, metric: ExternalMetric) {
        // The only reference until the server starts.
        if let Some(external_metrics) = Arc::get_mut(&mut self.external_metrics) {
            external_metrics.push(metric);
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
        self.authenticator.native_server = Some(Arc::clone(&native));
        self.authenticator.guess_throttle = Arc::clone(&native.guess_throttle);
        self.native_server = Some(native);
        self
    }

    /// Sets the callback that reports the readiness of the store in `/readyz`. Default: always ready.
    #[must_use]
    pub fn readiness_probe(mut self, read: impl Fn() -> Readiness + Send + Sync + 'static) -> Self {
        self.readiness_probe = Some(ReadinessProbe::new(read));
        self
    }

    /// Sets whether the server accepts requests, for `/readyz`.
    pub fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Relaxed);
    }
}
