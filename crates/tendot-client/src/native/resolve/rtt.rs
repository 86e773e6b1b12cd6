//! Smoothed response times of servers.

use std::net::IpAddr;
use std::time::Duration;

use quick_cache::sync::Cache;
use tendot_proto::lookup::RttEstimates;
use tokio::time::Instant;

/// Smoothed response times of servers.
#[derive(Debug)]
pub(super) struct RttTable {
    estimates: Cache<IpAddr, RttEstimate>,
}

/// Smoothed response time and when it was updated.
#[derive(Clone, Copy, Debug)]
struct RttEstimate {
    rtt: Duration,
    updated_at: Instant,
}

impl RttTable {
    const MAX_SERVERS: usize = 4_096;

    /// Half-life of an estimate: it decays, so that a server that was slow once is tried again.
    const HALF_LIFE: Duration = Duration::from_secs(300);

    pub(super) fn new() -> Self {
        Self { estimates: Cache::new(Self::MAX_SERVERS) }
    }

    /// Records a response time: smoothed RTT = 3/4 old + 1/4 new.
    pub(super) fn record(&self, server: IpAddr, sample: Duration) {
        let old = self.rtt(server).unwrap_or(sample);
        let rtt = old.saturating_mul(3).saturating_add(sample) / 4;
        self.estimates.insert(server, RttEstimate { rtt, updated_at: Instant::now() });
    }
}

impl RttEstimates for RttTable {
    /// Estimate after exponential decay since its last update.
    fn rtt(&self, server: IpAddr) -> Option<Duration> {
        let estimate = self.estimates.get(&server)?;
        let half_lives = estimate.updated_at.elapsed().as_secs_f64() / Self::HALF_LIFE.as_secs_f64();
        Some(estimate.rtt.mul_f64(0.5_f64.powf(half_lives)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[tokio::test(start_paused = true)]
    async fn rtt_is_smoothed_and_decays() {
        let rtt_table = RttTable::new();
        assert_eq!(rtt_table.rtt(ONE), None);
        rtt_table.record(ONE, Duration::from_millis(80));
        assert_eq!(rtt_table.rtt(ONE), Some(Duration::from_millis(80)));
        rtt_table.record(ONE, Duration::from_millis(400));
        assert_eq!(rtt_table.rtt(ONE), Some(Duration::from_millis(160)));
        tokio::time::advance(RttTable::HALF_LIFE).await;
        assert_eq!(rtt_table.rtt(ONE), Some(Duration::from_millis(80)));
        assert_eq!(rtt_table.rtt(TWO), None);
    }
}
