//! Smoothed response times of servers.

use std::net::IpAddr;
use std::time::Duration;

use quick_cache::sync::Cache;
use tendot_proto::lookup::RttEstimates;
use tokio::time::Instant;

/// Smoothed response times of servers, and the servers to prefer.
#[derive(Debug)]
pub(super) struct RttTable {
    estimates: Cache<IpAddr, RttEstimate>,
    preferred: Vec<IpAddr>,
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

    /// Penalty of servers that are not preferred; larger than the random part of the order.
    const NON_PREFERRED_PENALTY: Duration = Duration::from_secs(1);

    pub(super) fn new(preferred: Vec<IpAddr>) -> Self {
        Self { estimates: Cache::new(Self::MAX_SERVERS), preferred }
    }

    /// Records a response time: smoothed RTT = 3/4 old + 1/4 new.
    pub(super) fn record(&self, server: IpAddr, sample: Duration) {
        let old = self.decayed_rtt(server).unwrap_or(sample);
        let rtt = old.saturating_mul(3).saturating_add(sample) / 4;
        self.estimates.insert(server, RttEstimate { rtt, updated_at: Instant::now() });
    }

    /// Estimate after exponential decay since its last update.
    fn decayed_rtt(&self, server: IpAddr) -> Option<Duration> {
        let estimate = self.estimates.get(&server)?;
        let half_lives = estimate.updated_at.elapsed().as_secs_f64() / Self::HALF_LIFE.as_secs_f64();
        Some(estimate.rtt.mul_f64(0.5_f64.powf(half_lives)))
    }
}

impl RttEstimates for RttTable {
    fn rtt(&self, server: IpAddr) -> Option<Duration> {
        let rtt = self.decayed_rtt(server);
        if self.preferred.is_empty() || self.preferred.contains(&server) {
            return rtt;
        }
        Some(rtt.unwrap_or_default().saturating_add(Self::NON_PREFERRED_PENALTY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[tokio::test(start_paused = true)]
    async fn rtt_is_smoothed_and_decays() {
        let rtt_table = RttTable::new(Vec::new());
        assert_eq!(rtt_table.rtt(ONE), None);
        rtt_table.record(ONE, Duration::from_millis(80));
        assert_eq!(rtt_table.rtt(ONE), Some(Duration::from_millis(80)));
        rtt_table.record(ONE, Duration::from_millis(400));
        assert_eq!(rtt_table.rtt(ONE), Some(Duration::from_millis(160)));
        tokio::time::advance(RttTable::HALF_LIFE).await;
        assert_eq!(rtt_table.rtt(ONE), Some(Duration::from_millis(80)));
        assert_eq!(rtt_table.rtt(TWO), None);
    }

    #[tokio::test(start_paused = true)]
    async fn preferred_servers_come_first() {
        let rtt_table = RttTable::new(vec![TWO]);
        assert_eq!(rtt_table.rtt(ONE), Some(RttTable::NON_PREFERRED_PENALTY));
        assert_eq!(rtt_table.rtt(TWO), None);
        rtt_table.record(TWO, Duration::from_millis(80));
        assert_eq!(rtt_table.rtt(TWO), Some(Duration::from_millis(80)));
    }
}
