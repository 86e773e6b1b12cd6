use std::net::IpAddr;
use std::time::Duration;

use quick_cache::sync::Cache;
use tendot_proto::lookup::ResponseTimes;
use tokio::time::Instant;

/// How fast servers answered, of as many as are worth remembering, and which of them are to be asked first.
#[derive(Debug)]
pub(super) struct Times {
    measured: Cache<IpAddr, Measured>,
    preferred: Vec<IpAddr>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    time: Duration,
    at: Instant,
}

impl Times {
    const SERVERS: usize = 4_096;

    /// After so long a time counts half, so that a server that was slow once is tried again.
    const HALF_LIFE: Duration = Duration::from_secs(300);

    /// What those who are not preferred are taken to be slower by: more than chance adds.
    const NOT_PREFERRED: Duration = Duration::from_secs(1);

    pub(super) fn new(preferred: Vec<IpAddr>) -> Self {
        Self { measured: Cache::new(Self::SERVERS), preferred }
    }

    /// Takes a new measurement: a quarter of it counts, and three quarters of what was known.
    pub(super) fn measured(&self, server: IpAddr, time: Duration) {
        let known = self.recent(server).unwrap_or(time);
        let time = known.saturating_mul(3).saturating_add(time) / 4;
        self.measured.insert(server, Measured { time, at: Instant::now() });
    }

    fn recent(&self, server: IpAddr) -> Option<Duration> {
        let known = self.measured.get(&server)?;
        let lives = known.at.elapsed().as_secs_f64() / Self::HALF_LIFE.as_secs_f64();
        Some(known.time.mul_f64(0.5_f64.powf(lives)))
    }
}

impl ResponseTimes for Times {
    fn of(&self, server: IpAddr) -> Option<Duration> {
        let known = self.recent(server);
        if self.preferred.is_empty() || self.preferred.contains(&server) {
            return known;
        }
        Some(known.unwrap_or_default().saturating_add(Self::NOT_PREFERRED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered() {
        let times = Times::new(Vec::new());
        assert_eq!(times.of(ONE), None);
        times.measured(ONE, Duration::from_millis(80));
        assert_eq!(times.of(ONE), Some(Duration::from_millis(80)));
        times.measured(ONE, Duration::from_millis(400));
        assert_eq!(times.of(ONE), Some(Duration::from_millis(160)));
        tokio::time::advance(Times::HALF_LIFE).await;
        assert_eq!(times.of(ONE), Some(Duration::from_millis(80)));
        assert_eq!(times.of(TWO), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_preferred() {
        let times = Times::new(vec![TWO]);
        assert_eq!(times.of(ONE), Some(Times::NOT_PREFERRED));
        assert_eq!(times.of(TWO), None);
        times.measured(TWO, Duration::from_millis(80));
        assert_eq!(times.of(TWO), Some(Duration::from_millis(80)));
    }
}
