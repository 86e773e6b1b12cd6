//! HTTP and upstream metrics for `/metrics`: atomic counters, so that a request costs a few additions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::authentication_failures::AuthenticationCollector;
use crate::clock::to_unix_millis;
use crate::connection::ConnectionMetrics;
use crate::guess_throttle::GuessThrottle;
use crate::metrics::{ExternalMetric, LatencyHistogram, encode_counter, encode_gauge};
use crate::native;

/// Kind of a request, the `kind` label of the metrics; the route tables have that of each operation.
///
/// Names and other client-supplied text are never labels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RequestKind {
    Redirect,
    Read,
    Write,
    Page,
    Operations,
    /// Native message inside HTTP, read or write.
    Native,
}

impl RequestKind {
    const LABELS: [(Self, &'static str); 6] = [
        (Self::Redirect, "redirect"),
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Page, "page"),
        (Self::Operations, "operations"),
        (Self::Native, "native"),
    ];

    pub(crate) fn as_str(self) -> &'static str {
        Self::LABELS.get(self as usize).map_or("", |(_, label)| label)
    }
}

/// Status codes with their own label; others are counted under the last one.
const STATUS_LABELS: [u16; 27] = [
    200, 201, 204, 300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 429,
    500, 502, 503, 504, 508, 0,
];

/// Outcome of an upstream query, the `outcome` label.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UpstreamOutcome {
    Found,
    NotFound,
    InvalidResponse,
    Timeout,
    Unreachable,
    Overloaded,
    /// The name cannot be resolved upstream.
    UnsupportedName,
}

/// Labels, in the order of the variants.
const OUTCOME_LABELS: [&str; 7] =
    ["found", "not_found", "invalid_response", "timeout", "unreachable", "overloaded", "unsupported_name"];

/// Metrics of the upstream resolver and its cache.
#[derive(Debug, Default)]
pub(crate) struct UpstreamMetrics {
    /// Whether an upstream resolver is configured.
    pub(crate) is_enabled: AtomicBool,
    pub(crate) hits: AtomicU64,
    pub(crate) coalesced: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) stale: AtomicU64,
    queries: [AtomicU64; OUTCOME_LABELS.len()],
    durations: LatencyHistogram,
}

impl UpstreamMetrics {
    /// Counts a query, and its latency if it was sent.
    pub(crate) fn record_query(&self, outcome: UpstreamOutcome, duration: Option<Duration>) {
        if let Some(queries) = self.queries.get(outcome as usize) {
            queries.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(duration) = duration {
            self.durations.observe(duration);
        }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, number) in [
            ("tendot_upstream_cache_hits", "Upstream cache hits.", &self.hits),
            (
                "tendot_upstream_cache_coalesced",
                "Requests that shared another request's upstream query.",
                &self.coalesced,
            ),
            ("tendot_upstream_cache_misses", "Upstream cache misses.", &self.misses),
            ("tendot_upstream_cache_stale", "Stale entries served because the upstream failed.", &self.stale),
        ] {
            encode_counter(encoder, name, help, number.load(Ordering::Relaxed) as f64)?;
        }
        let (name, help) = ("tendot_upstream_requests", "Upstream queries.");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (outcome, number) in OUTCOME_LABELS.iter().zip(&self.queries) {
            let labels = [("outcome", *outcome)];
            ConstCounter::new(number.load(Ordering::Relaxed)).encode(family.encode_family(&labels)?)?;
        }
        let (name, help) = ("tendot_upstream_request_duration_seconds", "Upstream query duration.");
        self.durations.encode(encoder.encode_descriptor(name, help, None, MetricType::Histogram)?)
    }
}

/// HTTP metrics: requests, latencies, connections.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    requests: [[AtomicU64; STATUS_LABELS.len()]; RequestKind::LABELS.len()],
    durations: [LatencyHistogram; RequestKind::LABELS.len()],
    pub(crate) connections: Arc<ConnectionMetrics>,
    pub(crate) rate_limited: AtomicU64,
    pub(crate) store_head: AtomicU64,
    pub(crate) upstream: UpstreamMetrics,
    start: SystemTime,
}

impl HttpMetrics {
    pub(crate) fn new() -> Self {
        Self {
            requests: Default::default(),
            durations: Default::default(),
            connections: Arc::default(),
            rate_limited: AtomicU64::new(0),
            store_head: AtomicU64::new(0),
            upstream: UpstreamMetrics::default(),
            start: SystemTime::now(),
        }
    }

    /// Counts a completed request.
    pub(crate) fn record_request(&self, kind: RequestKind, status: StatusCode, duration: Duration) {
        let status = STATUS_LABELS
            .iter()
            .position(|label| *label == status.as_u16())
            .unwrap_or(STATUS_LABELS.len() - 1);
        if let Some(requests) = self.requests.get(kind as usize).and_then(|statuses| statuses.get(status)) {
            requests.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(durations) = self.durations.get(kind as usize) {
            durations.observe(duration);
        }
    }
}

/// Renders all metrics as OpenMetrics text.
pub(crate) fn render(
    metrics: &Arc<HttpMetrics>,
    external_metrics: &Arc<Vec<ExternalMetric>>,
    native: Option<Arc<native::NativeMetrics>>,
    guess_throttle: &Arc<GuessThrottle>,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(HttpCollector(Arc::clone(metrics), Arc::clone(external_metrics))));
    registry.register_collector(Box::new(AuthenticationCollector(Arc::clone(guess_throttle))));
    if let Some(native) = native {
        registry.register_collector(Box::new(native::NativeCollector(native)));
    }
    let mut rendered = String::new();
    text::encode(&mut rendered, &registry)?;
    Ok(rendered)
}

/// OpenMetrics collector for the HTTP metrics.
#[derive(Debug)]
struct HttpCollector(Arc<HttpMetrics>, Arc<Vec<ExternalMetric>>);

impl Collector for HttpCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(metrics, external_metrics) = self;
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);

        let (name, help) = ("tendot_build_info", "Build information.");
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(1_i64).encode(family.encode_family(&version)?)?;

        encode_gauge(
            &mut encoder,
            "process_start_time_seconds",
            "Start time of the process.",
            to_unix_millis(metrics.start) as f64 / 1_000.0,
        )?;
        metrics.connections.encode(&mut encoder, "tendot_http_connections")?;
        let head = read(&metrics.store_head) as f64;
        encode_gauge(
            &mut encoder,
            "tendot_store_head_sequence",
            "Sequence number of the last log entry.",
            head,
        )?;
        encode_counter(
            &mut encoder,
            "tendot_http_rate_limited",
            "Requests rejected by the rate limit.",
            read(&metrics.rate_limited) as f64,
        )?;
        external_metrics.iter().try_for_each(|metric| metric.encode(&mut encoder))?;

        let (name, help) = ("tendot_http_requests", "HTTP requests.");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for ((_, kind), statuses) in RequestKind::LABELS.iter().zip(&metrics.requests) {
            for (status, number) in STATUS_LABELS.iter().zip(statuses).filter(|(_, number)| read(number) > 0)
            {
                let status = if *status == 0 { "other".to_owned() } else { status.to_string() };
                let labels = [("kind", (*kind).to_owned()), ("code", status)];
                ConstCounter::new(read(number)).encode(family.encode_family(&labels)?)?;
            }
        }

        let (name, help) = ("tendot_http_request_duration_seconds", "Request duration.");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for ((_, kind), durations) in RequestKind::LABELS.iter().zip(&metrics.durations) {
            durations.encode(family.encode_family(&[("kind", *kind)])?)?;
        }
        if metrics.upstream.is_enabled.load(Ordering::Relaxed) {
            metrics.upstream.encode(&mut encoder)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_kinds() {
        for (number, (kind, _)) in RequestKind::LABELS.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
    }

    #[test]
    fn renders_openmetrics() {
        let metrics = Arc::new(HttpMetrics::new());
        metrics.record_request(RequestKind::Redirect, StatusCode::FOUND, Duration::from_micros(25));
        metrics.record_request(RequestKind::Redirect, StatusCode::FOUND, Duration::from_micros(26));
        metrics.record_request(RequestKind::Read, StatusCode::IM_A_TEAPOT, Duration::from_secs(100));
        let external_metrics =
            [ExternalMetric::counter("x", "y", || Some(3.0)), ExternalMetric::gauge("z", "y", || None)];
        let external_metrics = Arc::new(Vec::from(external_metrics));
        let text = render(&metrics, &external_metrics, None, &Arc::new(GuessThrottle::new())).unwrap();
        for line in [
            "tendot_http_requests_total{kind=\"redirect\",code=\"302\"} 2",
            "tendot_http_requests_total{kind=\"read\",code=\"other\"} 1",
            "tendot_http_request_duration_seconds_bucket{le=\"0.000025\",kind=\"redirect\"} 1",
            "tendot_http_request_duration_seconds_bucket{le=\"0.00005\",kind=\"redirect\"} 2",
            "tendot_http_request_duration_seconds_bucket{le=\"10.0\",kind=\"read\"} 0",
            "tendot_http_request_duration_seconds_bucket{le=\"+Inf\",kind=\"read\"} 1",
            "tendot_http_request_duration_seconds_count{kind=\"read\"} 1",
            "x_total 3.0",
            "# EOF",
        ] {
            assert!(text.lines().any(|rendered| rendered == line), "{line}\n{text}");
        }
        assert!(!text.contains("\nz "));
    }
}
