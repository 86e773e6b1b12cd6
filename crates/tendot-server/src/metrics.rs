//! Metrics of both protocols: latency histogram, external metrics, and their encoding as OpenMetrics.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Upper bounds of the histogram buckets, in microseconds.
const BUCKETS_MICROS: [u64; 13] =
    [25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000, 1_000_000, 10_000_000];

/// Latency histogram with fixed buckets.
#[derive(Debug, Default)]
pub(crate) struct LatencyHistogram {
    buckets: [AtomicU64; BUCKETS_MICROS.len() + 1],
    sum_nanos: AtomicU64,
}

impl LatencyHistogram {
    pub(crate) fn observe(&self, duration: Duration) {
        let bucket = BUCKETS_MICROS.partition_point(|bound| Duration::from_micros(*bound) < duration);
        // The last bucket has no bound.
        if let Some(count) = self.buckets.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Encodes the histogram as OpenMetrics.
    pub(crate) fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = BUCKETS_MICROS.iter().map(|bound| *bound as f64 / 1e6).chain([f64::INFINITY]);
        let buckets: Vec<_> =
            bounds.zip(self.buckets.iter().map(|count| count.load(Ordering::Relaxed))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = self.sum_nanos.load(Ordering::Relaxed) as f64 / 1e9;
        encoder.encode_histogram::<[(&str, &str); 1]>(sum, count, &buckets, None)
    }
}

/// Metric whose value another part of the program supplies on each scrape.
pub(crate) struct ExternalMetric {
    name: &'static str,
    help: &'static str,
    source: MetricSource,
}

/// Callback of an external metric: counter, gauge or labelled gauges.
enum MetricSource {
    Counter(Box<dyn Fn() -> Option<f64> + Send + Sync>),
    Gauge(Box<dyn Fn() -> Option<f64> + Send + Sync>),
    /// Gauges with the name of their label.
    Gauges(&'static str, Box<dyn Fn() -> Vec<(String, f64)> + Send + Sync>),
}

impl ExternalMetric {
    /// Creates a counter; its name gets the suffix `_total`.
    pub(crate) fn counter(
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        Self { name, help, source: MetricSource::Counter(Box::new(read)) }
    }

    /// Creates a gauge.
    pub(crate) fn gauge(
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        Self { name, help, source: MetricSource::Gauge(Box::new(read)) }
    }

    /// Creates gauges that differ in the value of a label.
    pub(crate) fn labelled_gauges(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        read: impl Fn() -> Vec<(String, f64)> + Send + Sync + 'static,
    ) -> Self {
        Self { name, help, source: MetricSource::Gauges(label, Box::new(read)) }
    }

    /// Encodes the current value as OpenMetrics.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Self { name, help, source } = self;
        match source {
            MetricSource::Counter(read) => {
                read().map_or(Ok(()), |value| encode_counter(encoder, name, help, value))
            }
            MetricSource::Gauge(read) => {
                read().map_or(Ok(()), |value| encode_gauge(encoder, name, help, value))
            }
            MetricSource::Gauges(label, read) => {
                let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                for (label_value, value) in read() {
                    ConstGauge::new(value).encode(family.encode_family(&[(*label, label_value)])?)?;
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

/// Rewrites OpenMetrics text in the text format of Prometheus (version 0.0.4), where the family of a counter has the name of its
/// sample, `…_total`, and there is no end mark.
pub(crate) fn to_prometheus_text(openmetrics: &str) -> String {
    let counters: Vec<&str> = openmetrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(openmetrics.len() + openmetrics.len() / 8);
    for line in openmetrics.lines() {
        let comment = line.strip_prefix("# ").and_then(|line| line.split_once(' '));
        match comment {
            Some((keyword @ ("TYPE" | "HELP"), rest)) => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let suffix = if counters.contains(&name) { "_total" } else { "" };
                text.extend(["# ", keyword, " ", name, suffix, " ", rest, "\n"]);
            }
            // `# UNIT` and `# EOF` have no counterpart.
            _ if line.starts_with('#') => {}
            _ => text.extend([line, "\n"]),
        }
    }
    text
}

/// Encodes a gauge.
pub(crate) fn encode_gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

/// Encodes a counter.
pub(crate) fn encode_counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> fmt::Result {
    ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
}
