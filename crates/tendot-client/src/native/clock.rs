//! Monotonic and Unix clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tendot_proto::Now;
use tokio::time::Instant;

/// Monotonic clock and Unix clock, as needed for [`Now`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { start: Instant::now() }
    }

    pub(super) fn now(self) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Now { elapsed: self.start.elapsed(), unix }
    }

    /// Instant at which [`Now::elapsed`] reaches `elapsed`.
    pub(super) fn instant_at(self, elapsed: Duration) -> Instant {
        self.start + elapsed
    }
}
