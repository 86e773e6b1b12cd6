//! Failed authentication attempts of both protocols: counted for `/metrics`, and logged at a limited rate.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use crate::guess_throttle::GuessThrottle;
use crate::http::LogSafe;

/// Minimum time between two log lines: an attacker must not fill the log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Result of an attempt that did not authenticate the client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AttemptFailure {
    /// The credential is wrong, or could not be verified.
    Failed,
    /// Too many attempts have failed before; the credential was not verified.
    Throttled,
}

impl AttemptFailure {
    const ALL: [Self; 2] = [Self::Failed, Self::Throttled];

    /// Label in metrics and log lines.
    const fn label(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Throttled => "throttled",
        }
    }
}

/// Counters of failed attempts, and the rate limit of their log lines.
#[derive(Debug)]
pub(crate) struct AuthenticationFailures {
    failed: AtomicU64,
    throttled: AtomicU64,
    start: Instant,
    /// Time of the next log line, in nanoseconds since `start`.
    next_log_nanos: AtomicU64,
    /// Failures since the last log line.
    suppressed: AtomicU64,
}

impl Default for AuthenticationFailures {
    fn default() -> Self {
        Self {
            failed: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
            start: Instant::now(),
            next_log_nanos: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        }
    }
}

impl AuthenticationFailures {
    /// Records a failed attempt to authenticate as `identity`.
    pub(crate) fn record(&self, failure: AttemptFailure, identity: &str, client: Option<IpAddr>) {
        let reason = failure.label();
        self.counter(failure).fetch_add(1, Ordering::Relaxed);
        let Some(suppressed) = self.take_log_line(self.start.elapsed()) else { return };
        let client = client.map(|client| client.to_canonical().to_string()).unwrap_or_default();
        tracing::warn!(identity = %LogSafe(identity), client, reason, suppressed, "authentication failed");
    }

    const fn counter(&self, failure: AttemptFailure) -> &AtomicU64 {
        match failure {
            AttemptFailure::Failed => &self.failed,
            AttemptFailure::Throttled => &self.throttled,
        }
    }

    /// Number of failures without a log line since the last one; `None` if this one gets none, either.
    fn take_log_line(&self, elapsed: Duration) -> Option<u64> {
        let now = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let next = self.next_log_nanos.load(Ordering::Relaxed);
        let following = now.saturating_add(LOG_INTERVAL.as_nanos() as u64);
        let is_due = now >= next
            && self
                .next_log_nanos
                .compare_exchange(next, following, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !is_due {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.suppressed.swap(0, Ordering::Relaxed))
    }

    /// Encodes the counters as OpenMetrics.
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Failed authentication attempts.";
        let mut family =
            encoder.encode_descriptor("tendot_authentication_failures", help, None, MetricType::Counter)?;
        for failure in AttemptFailure::ALL {
            let count = self.counter(failure).load(Ordering::Relaxed);
            ConstCounter::new(count).encode(family.encode_family(&[("reason", failure.label())])?)?;
        }
        Ok(())
    }
}

/// OpenMetrics collector for failed authentication attempts.
#[derive(Debug)]
pub(crate) struct AuthenticationCollector(pub(crate) Arc<GuessThrottle>);

impl Collector for AuthenticationCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.failures.encode(&mut encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_f12_log_lines_are_limited() {
        let failures = AuthenticationFailures::default();
        let line = |milliseconds| failures.take_log_line(Duration::from_millis(milliseconds));
        assert_eq!((line(0), line(1), line(999)), (Some(0), None, None));
        assert_eq!((line(1_000), line(1_500), line(60_000)), (Some(2), None, Some(1)));
    }
}
