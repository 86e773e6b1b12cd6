//! HTTP and upstream metrics for `/metrics`: atomic counters, so that a request costs a few additions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use http::{Method, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::native;

/// Kind of a request, the `kind` label of the metrics.
///
/// Names and other client-supplied text are never labels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RequestKind {
    Redirect,
    Read,
    Write,
    Page,
    Operation,
}

impl RequestKind {
    const LABELS: [(Self, &'static str); 5] = [
        (Self::Redirect, "redirect"),
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Page, "page"),
        (Self::Operation, "operation"),
    ];

    pub(crate) fn classify(method: &Method, path: &str) -> Self {
        if path.starts_with("/api/") {
            let homes = *method == Method::POST && path.starts_with("/api/prefixes");
            let writes = homes || matches!(*method, Method::PUT | Method::DELETE);
            return if writes { Self::Write } else { Self::Read };
        }
        if path.starts_with("/hrls/handles") {
            return Self::Read;
        }
        match path {
            "/livez" | "/readyz" | "/metrics" => Self::Operation,
            "/" | "/robots.txt" | "/favicon.ico" | "/favicon.svg" | "/docs" | "/openapi.json" => Self::Page,
            _ if path.starts_with("/static/") => Self::Page,
            _ => Self::Redirect,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        Self::LABELS[self as usize].1
    }
}

/// Status codes with their own label; others are counted under the last one.
const STATUS_LABELS: [u16; 27] = [
    200, 201, 204, 300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 429,
    500, 502, 503, 504, 508, 0,
];

/// Upper bounds of the histogram buckets, in microseconds.
const BUCKETS_MICROS: [u64; 13] =
    [25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000, 1_000_000, 10_000_000];

/// Latency histogram with fixed buckets.
#[derive(Debug, Default)]
pub(crate) struct LatencyHistogram {
    classes: [AtomicU64; BUCKETS_MICROS.len() + 1],
    nanoseconds: AtomicU64,
}

impl LatencyHistogram {
    pub(crate) fn observe(&self, duration: Duration) {
        let class = BUCKETS_MICROS.partition_point(|end| Duration::from_micros(*end) < duration);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Encodes the histogram as OpenMetrics.
    pub(crate) fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let ends = BUCKETS_MICROS.iter().map(|end| *end as f64 / 1e6).chain([f64::INFINITY]);
        let buckets: Vec<_> =
            ends.zip(self.classes.iter().map(|number| number.load(Ordering::Relaxed))).collect();
        let count = buckets.iter().map(|(_, number)| number).sum();
        let sum = self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
        encoder.encode_histogram::<[(&str, &str); 1]>(sum, count, &buckets, None)
    }
}

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
    ["found", "nothing", "bad-answer", "silence", "unreachable", "no-room", "nobody"];

/// Metrics of the upstream resolver and its cache.
#[derive(Debug, Default)]
pub(crate) struct UpstreamMetrics {
    /// Whether an upstream resolver is configured.
    pub(crate) is_there: AtomicBool,
    pub(crate) hits: AtomicU64,
    pub(crate) shared: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) stale: AtomicU64,
    questions: [AtomicU64; OUTCOME_LABELS.len()],
    durations: LatencyHistogram,
}

impl UpstreamMetrics {
    /// Counts a query, and its latency if it was sent.
    pub(crate) fn record_query(&self, outcome: UpstreamOutcome, duration: Option<Duration>) {
        self.questions[outcome as usize].fetch_add(1, Ordering::Relaxed);
        if let Some(duration) = duration {
            self.durations.observe(duration);
        }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, about, number) in [
            ("tendot_upstream_cache_hits", "Answers that had been kept.", &self.hits),
            ("tendot_upstream_cache_shared", "Answers to a question that somebody else asked.", &self.shared),
            ("tendot_upstream_cache_misses", "Answers that were asked for.", &self.misses),
            ("tendot_upstream_cache_stale", "Answers after their time, since nobody answered.", &self.stale),
        ] {
            encode_counter(encoder, name, about, number.load(Ordering::Relaxed) as f64)?;
        }
        let (name, about) = ("tendot_upstream_requests", "Questions to others.");
        let mut family = encoder.encode_descriptor(name, about, None, MetricType::Counter)?;
        for (outcome, number) in OUTCOME_LABELS.iter().zip(&self.questions) {
            let labels = [("outcome", *outcome)];
            ConstCounter::new(number.load(Ordering::Relaxed)).encode(family.encode_family(&labels)?)?;
        }
        let (name, about) = ("tendot_upstream_request_duration_seconds", "From a question to its answer.");
        self.durations.encode(encoder.encode_descriptor(name, about, None, MetricType::Histogram)?)
    }
}

/// HTTP metrics: requests, latencies, connections.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    requests: [[AtomicU64; STATUS_LABELS.len()]; RequestKind::LABELS.len()],
    durations: [LatencyHistogram; RequestKind::LABELS.len()],
    pub(crate) connections: AtomicI64,
    pub(crate) accepted: AtomicU64,
    /// Connections closed because their client had too many.
    pub(crate) turned_away: AtomicU64,
    pub(crate) rate_limited: AtomicU64,
    pub(crate) last_change: AtomicU64,
    pub(crate) upstream: UpstreamMetrics,
    start: SystemTime,
}

impl HttpMetrics {
    pub(crate) fn new() -> Self {
        Self {
            requests: Default::default(),
            durations: Default::default(),
            connections: AtomicI64::new(0),
            accepted: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            rate_limited: AtomicU64::new(0),
            last_change: AtomicU64::new(0),
            upstream: UpstreamMetrics::default(),
            start: SystemTime::now(),
        }
    }

    /// Counts a completed request.
    pub(crate) fn record_request(&self, kind: RequestKind, status: StatusCode, duration: Duration) {
        let status =
            STATUS_LABELS.iter().position(|one| *one == status.as_u16()).unwrap_or(STATUS_LABELS.len() - 1);
        self.requests[kind as usize][status].fetch_add(1, Ordering::Relaxed);
        self.durations[kind as usize].observe(duration);
    }
}

/// Metric whose value another part of the program supplies on each scrape.
pub(crate) struct ExternalMetric {
    name: &'static str,
    about: &'static str,
    read: MetricSource,
}

/// Callback of an external metric: counter, gauge or labelled gauges.
enum MetricSource {
    Counter(Box<dyn Fn() -> Option<f64> + Send + Sync>),
    Gauge(Box<dyn Fn() -> Option<f64> + Send + Sync>),
    /// Gauges with the name of their label.
    Gauges(&'static str, Box<dyn Fn() -> Vec<(String, f64)> + Send + Sync>),
}

impl ExternalMetric {
    /// Creates a counter (its name gets the suffix `_total`) or a gauge.
    pub(crate) fn new(
        name: &'static str,
        about: &'static str,
        is_counter: bool,
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        let read = Box::new(read);
        Self {
            name,
            about,
            read: if is_counter { MetricSource::Counter(read) } else { MetricSource::Gauge(read) },
        }
    }

    /// Creates gauges that differ in the value of a label.
    pub(crate) fn labelled_gauges(
        name: &'static str,
        about: &'static str,
        label: &'static str,
        read: impl Fn() -> Vec<(String, f64)> + Send + Sync + 'static,
    ) -> Self {
        Self { name, about, read: MetricSource::Gauges(label, Box::new(read)) }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Self { name, about, read } = self;
        match read {
            MetricSource::Counter(read) => {
                read().map_or(Ok(()), |number| encode_counter(encoder, name, about, number))
            }
            MetricSource::Gauge(read) => {
                read().map_or(Ok(()), |number| encode_gauge(encoder, name, about, number))
            }
            MetricSource::Gauges(label, read) => {
                let mut family = encoder.encode_descriptor(name, about, None, MetricType::Gauge)?;
                for (value, number) in read() {
                    ConstGauge::new(number).encode(family.encode_family(&[(*label, value)])?)?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for ExternalMetric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// Renders all metrics as OpenMetrics text.
pub(crate) fn render(
    metrics: &Arc<HttpMetrics>,
    external_metrics: &Arc<Vec<ExternalMetric>>,
    native: Option<Arc<native::NativeMetrics>>,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(HttpCollector(Arc::clone(metrics), Arc::clone(external_metrics))));
    if let Some(native) = native {
        registry.register_collector(Box::new(native::NativeCollector(native)));
    }
    let mut printed = String::new();
    text::encode(&mut printed, &registry)?;
    Ok(printed)
}

/// OpenMetrics collector for the HTTP metrics.
#[derive(Debug)]
struct HttpCollector(Arc<HttpMetrics>, Arc<Vec<ExternalMetric>>);

impl Collector for HttpCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(metrics, external_metrics) = self;
        let seconds = |time: SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
        };
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);

        let (name, about) = ("tendot_build_info", "The program that answers.");
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        let mut family = encoder.encode_descriptor(name, about, None, MetricType::Gauge)?;
        ConstGauge::new(1_i64).encode(family.encode_family(&version)?)?;

        encode_gauge(
            &mut encoder,
            "process_start_time_seconds",
            "When it was started.",
            seconds(metrics.start),
        )?;
        let connections = metrics.connections.load(Ordering::Relaxed) as f64;
        encode_gauge(&mut encoder, "tendot_http_connections", "Connections that are open.", connections)?;
        let last = read(&metrics.last_change) as f64;
        encode_gauge(
            &mut encoder,
            "tendot_store_last_change",
            "Number of the last change of the store.",
            last,
        )?;
        for (name, about, number) in [
            ("tendot_http_connections_accepted", "Connections that were taken.", &metrics.accepted),
            (
                "tendot_http_connections_turned_away",
                "Connections that were one too many of a client.",
                &metrics.turned_away,
            ),
            (
                "tendot_http_rate_limited",
                "Requests that were one too many of a client.",
                &metrics.rate_limited,
            ),
        ] {
            encode_counter(&mut encoder, name, about, read(number) as f64)?;
        }
        external_metrics.iter().try_for_each(|figure| figure.encode(&mut encoder))?;

        let (name, about) = ("tendot_http_requests", "Requests that were answered.");
        let mut family = encoder.encode_descriptor(name, about, None, MetricType::Counter)?;
        for ((_, kind), statuses) in RequestKind::LABELS.iter().zip(&metrics.requests) {
            for (status, number) in STATUS_LABELS.iter().zip(statuses).filter(|(_, number)| read(number) > 0)
            {
                let status = if *status == 0 { "other".to_owned() } else { status.to_string() };
                let labels = [("kind", (*kind).to_owned()), ("code", status)];
                ConstCounter::new(read(number)).encode(family.encode_family(&labels)?)?;
            }
        }

        let (name, about) = ("tendot_http_request_duration_seconds", "From a request's head to its answer.");
        let mut family = encoder.encode_descriptor(name, about, None, MetricType::Histogram)?;
        for ((_, kind), durations) in RequestKind::LABELS.iter().zip(&metrics.durations) {
            durations.encode(family.encode_family(&[("kind", *kind)])?)?;
        }
        if metrics.upstream.is_there.load(Ordering::Relaxed) {
            metrics.upstream.encode(&mut encoder)?;
        }
        Ok(())
    }
}

fn encode_gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, about: &str, value: f64) -> fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, about, None, MetricType::Gauge)?)
}

fn encode_counter(encoder: &mut DescriptorEncoder<'_>, name: &str, about: &str, value: f64) -> fmt::Result {
    ConstCounter::new(value).encode(encoder.encode_descriptor(name, about, None, MetricType::Counter)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        for (number, (kind, _)) in RequestKind::LABELS.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
        assert_eq!(RequestKind::classify(&Method::GET, "/10.1000/182"), RequestKind::Redirect);
        assert_eq!(RequestKind::classify(&Method::GET, "/api/handles/10.1000/182"), RequestKind::Read);
        assert_eq!(RequestKind::classify(&Method::PUT, "/api/handles/10.1000/182"), RequestKind::Write);
        assert_eq!(RequestKind::classify(&Method::GET, "/livez"), RequestKind::Operation);
    }

    #[test]
    fn printed() {
        let metrics = Arc::new(HttpMetrics::new());
        metrics.record_request(RequestKind::Redirect, StatusCode::FOUND, Duration::from_micros(25));
        metrics.record_request(RequestKind::Redirect, StatusCode::FOUND, Duration::from_micros(26));
        metrics.record_request(RequestKind::Read, StatusCode::IM_A_TEAPOT, Duration::from_secs(100));
        let external_metrics = [
            ExternalMetric::new("x", "y", true, || Some(3.0)),
            ExternalMetric::new("z", "y", false, || None),
        ];
        let external_metrics = Arc::new(Vec::from(external_metrics));
        let text = render(&metrics, &external_metrics, None).unwrap();
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
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(!text.contains("\nz "));
    }
}
