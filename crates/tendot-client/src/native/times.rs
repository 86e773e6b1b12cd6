use std::net::IpAddr;
use std::time::Duration;

use quick_cache::sync::Cache;
use tendot_proto::lookup::RttEstimates;
use tokio::time::Instant;

/// Smoothed response times of servers, and the servers to prefer.
#[derive(Debug)]
pub(super) struct RttTable {
    measured: Cache<IpAddr, RttEstimate>,
    preferred: Vec<IpAddr>,
}

/// Smoothed response time and when it was updated.
#[derive(Clone, Copy, Debug)]
struct RttEstimate {
    time: Duration,
    at: Instant,
}

impl RttTable {
    const MAX_SERVERS: usize = 4_096;

    /// After so long a time counts half, so that a server that was slow once is tried again.
    const HALF_LIFE: Duration = Duration::from_secs(300);

    /// What those who are not preferred are taken to be slower by: more than chance adds.
    const NON_PREFERRED_PENALTY: Duration = Duration::from_secs(1);

    pub(super) fn new(preferred: Vec<IpAddr>) -> Self {
        Self { measured: Cache::new(Self::MAX_SERVERS), preferred }
    }

    /// Records a response time: smoothed RTT = 3/4 old + 1/4 new.
    pub(super) fn record(&self, server: IpAddr, time: Duration) {
        let known = self.decayed_rtt(server).unwrap_or(time);
        let time = known.saturating_mul(3).saturating_add(time) / 4;
        self.measured.insert(server, RttEstimate { time, at: Instant::now() });
    }

    fn decayed_rtt(&self, server: IpAddr) -> Option<Duration> {
        let known = self.measured.get(&server)?;
        let lives = known.at.elapsed().as_secs_f64() / Self::HALF_LIFE.as_secs_f64();
        Some(known.time.mul_f64(0.5_f64.powf(lives)))
    }
}

impl RttEstimates for RttTable {
    fn rtt(&self, server: IpAddr) -> Option<Duration> {
        let known = self.decayed_rtt(server);
        if self.preferred.is_empty() || self.preferred.contains(&server) {
            return known;
        }
        Some(known.unwrap_or_default().saturating_add(Self::NON_PREFERRED_PENALTY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered() {
        let times = RttTable::new(Vec::new());
        assert_eq!(times.rtt(ONE), None);
        times.record(ONE, Duration::from_millis(80));
        assert_eq!(times.rtt(ONE), Some(Duration::from_millis(80)));
        times.record(ONE, Duration::from_millis(400));
        assert_eq!(times.rtt(ONE), Some(Duration::from_millis(160)));
        tokio::time::advance(RttTable::HALF_LIFE).await;
        assert_eq!(times.rtt(ONE), Some(Duration::from_millis(80)));
        assert_eq!(times.rtt(TWO), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_preferred() {
        let times = RttTable::new(vec![TWO]);
        assert_eq!(times.rtt(ONE), Some(RttTable::NON_PREFERRED_PENALTY));
        assert_eq!(times.rtt(TWO), None);
        times.record(TWO, Duration::from_millis(80));
        assert_eq!(times.rtt(TWO), Some(Duration::from_millis(80)));
    }
}
