//! Monotonic wall clock: follows the system clock but not its jumps, for stores without a clock of their own.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Milliseconds by which the system clock may be off before it counts as wrong.
pub const MAX_CLOCK_SKEW_MS: u64 = 60_000;

/// Source of the system time, in milliseconds since 1970.
type SystemClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// System clock that never goes back, and does not follow jumps while the service runs: a jump by a day would expire every
/// idempotency key.
pub struct ServiceClock {
    system: SystemClock,
    steady: Mutex<SteadyClock>,
}

impl ServiceClock {
    /// Clock that follows a source of the system time, in milliseconds since 1970.
    pub fn new(system: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { steady: Mutex::new(SteadyClock::new(system(), uptime())), system: Arc::new(system) }
    }

    /// Current time without jumps, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        let mut steady = self.steady.lock().unwrap_or_else(PoisonError::into_inner);
        steady.read((self.system)(), uptime())
    }

    /// Time of the system, in milliseconds since 1970.
    pub fn system_ms(&self) -> u64 {
        (self.system)()
    }
}

impl Default for ServiceClock {
    fn default() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }
}

impl fmt::Debug for ServiceClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServiceClock").field("steady", &self.steady).finish_non_exhaustive()
    }
}

/// Clock that follows another one, but not its jumps.
#[derive(Clone, Copy, Debug)]
struct SteadyClock {
    /// Last time read, and the uptime when it was read.
    last_ms: u64,
    read_at: Duration,
}

impl SteadyClock {
    const fn new(system_ms: u64, now: Duration) -> Self {
        Self { last_ms: system_ms, read_at: now }
    }

    /// Current time, given that of the other clock and the uptime.
    fn read(&mut self, system_ms: u64, now: Duration) -> u64 {
        let elapsed = now.saturating_sub(self.read_at);
        let expected = self.last_ms.saturating_add(to_millis(elapsed));
        let has_jumped = system_ms.abs_diff(expected) > MAX_CLOCK_SKEW_MS;
        let next = if has_jumped { expected } else { system_ms.max(self.last_ms) };
        // Fractions of a millisecond must not be lost when it is read often.
        if next > self.last_ms {
            (self.last_ms, self.read_at) = (next, now);
        }
        next
    }
}

/// Time since the system was started, including the time in which it was suspended: after that, the system clock is right although it
/// is ahead of `Instant`.
#[cfg(target_os = "linux")]
fn uptime() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// Time since the first call.
#[cfg(not(target_os = "linux"))]
fn uptime() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    /// Times shown by a clock that starts at an hour, for the times of the system clock after these milliseconds.
    #[track_caller]
    fn check(readings: &[(u64, u64, u64)]) {
        let start = Duration::from_secs(1_000);
        let mut clock = SteadyClock::new(HOUR_MS, start);
        for (after_ms, system_ms, expected) in readings {
            let now = start + Duration::from_millis(*after_ms);
            assert_eq!(clock.read(*system_ms, now), *expected, "{after_ms}");
        }
    }

    #[test]
    fn small_corrections_are_followed() {
        check(&[
            (1_000, HOUR_MS + 1_000, HOUR_MS + 1_000),
            (2_000, HOUR_MS + 2_300, HOUR_MS + 2_300),
            // Time never decreases.
            (2_100, HOUR_MS + 1_900, HOUR_MS + 2_300),
            (3_000, HOUR_MS + 2_900, HOUR_MS + 2_900),
        ]);
    }

    #[test]
    fn jumps_are_not_followed() {
        for jumped in [26 * HOUR_MS, 0] {
            check(&[
                (1_000, HOUR_MS + 1_000, HOUR_MS + 1_000),
                (2_000, jumped, HOUR_MS + 2_000),
                (9_000, jumped + 7_000, HOUR_MS + 9_000),
                (10_000, HOUR_MS + 10_000, HOUR_MS + 10_000),
            ]);
        }
    }

    /// Set in a child process with another uptime.
    #[cfg(target_os = "linux")]
    const CHILD_VAR: &str = "TENDOT_TEST_UPTIME";

    /// Seconds by which the uptime of the child process differs, as after a suspension.
    #[cfg(target_os = "linux")]
    const SUSPENDED_SECONDS: u64 = 7_200;

    /// The time in which the system is suspended counts: in a time namespace, only the clock that includes it is moved.
    #[cfg(target_os = "linux")]
    #[test]
    fn suspended_time_counts() {
        let seconds = |output: &std::process::Output| -> u64 {
            let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
            let line = tendot_testing::emitted_lines(&stdout).next().map(str::to_owned);
            line.and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{stdout}"))
        };
        let child = || {
            let mut child = tendot_testing::child_test("service_clock::tests::child_emits_uptime");
            child.env(CHILD_VAR, "1");
            child
        };
        let child_args = child();
        let mut moved = std::process::Command::new("unshare");
        moved.args(["--map-root-user", "--time", "--boottime", &SUSPENDED_SECONDS.to_string(), "--fork"]);
        moved.arg(child_args.get_program()).args(child_args.get_args()).env(CHILD_VAR, "1");
        let before = seconds(&child().output().unwrap());
        let after = seconds(&moved.output().unwrap());
        assert!((SUSPENDED_SECONDS..SUSPENDED_SECONDS + 600).contains(&(after - before)), "{before} {after}");
    }

    /// Child process: prints the uptime in seconds.
    #[cfg(target_os = "linux")]
    #[test]
    fn child_emits_uptime() {
        if std::env::var_os(CHILD_VAR).is_some() {
            tendot_testing::emit(&uptime().as_secs().to_string());
        }
    }
}
