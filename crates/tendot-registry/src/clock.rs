//! The clock of the service: one for all times that are stored or compared with stored ones.
//!
//! With a store that servers share, it is that of the database, so a server with a wrong clock changes nothing. Otherwise it is the
//! clock of the system, except that it never goes back, and does not follow jumps while the service runs: a jump by a day would
//! expire every idempotency key.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tendot_store::Store;

use crate::Registry;

/// Milliseconds by which the system clock may be off before it counts as wrong.
pub const MAX_CLOCK_SKEW_MS: u64 = 60_000;

/// Source of the system time, in milliseconds since 1970.
type SystemClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Clock of a service.
pub(crate) struct ServiceClock {
    system: SystemClock,
    steady: Mutex<SteadyClock>,
}

impl ServiceClock {
    pub(crate) fn new(system: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { steady: Mutex::new(SteadyClock::new(system(), Instant::now())), system: Arc::new(system) }
    }

    /// System time without jumps.
    fn now_ms(&self) -> u64 {
        let mut steady = self.steady.lock().unwrap_or_else(PoisonError::into_inner);
        steady.read((self.system)(), Instant::now())
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
    /// Last time read, and when.
    last_ms: u64,
    read_at: Instant,
}

impl SteadyClock {
    const fn new(system_ms: u64, now: Instant) -> Self {
        Self { last_ms: system_ms, read_at: now }
    }

    /// Current time, given that of the other clock.
    fn read(&mut self, system_ms: u64, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.read_at);
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

fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Registry {
    /// Current time in milliseconds since 1970, for everything that is stored or compared with a stored time: that of the
    /// database, or of the system clock without jumps.
    pub fn now_ms(&self) -> u64 {
        self.rules.store.clock_ms().unwrap_or_else(|| self.clock.now_ms())
    }

    /// Milliseconds by which the system clock is ahead of [`now_ms`](Self::now_ms); negative if it is behind. Beyond
    /// [`MAX_CLOCK_SKEW_MS`] it is wrong, or was set while the service ran.
    pub fn clock_skew_ms(&self) -> i64 {
        let (system, now) = ((self.clock.system)(), self.now_ms());
        let skew = i64::try_from(system.abs_diff(now)).unwrap_or(i64::MAX);
        if system < now { -skew } else { skew }
    }

    /// Replaces the system clock.
    // For tests only: public because they are in other crates.
    #[doc(hidden)]
    #[must_use]
    pub fn with_system_clock(mut self, system: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.clock = ServiceClock::new(system);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    /// Times shown by a clock that starts at an hour, for the times of the system clock after these milliseconds.
    #[track_caller]
    fn check(readings: &[(u64, u64, u64)]) {
        let start = Instant::now();
        let mut clock = SteadyClock::new(HOUR_MS, start);
        for (after_ms, system_ms, expected) in readings {
            assert_eq!(
                clock.read(*system_ms, start + Duration::from_millis(*after_ms)),
                *expected,
                "{after_ms}"
            );
        }
    }

    #[test]
    fn small_corrections_are_followed() {
        check(&[
            (1_000, HOUR_MS + 1_000, HOUR_MS + 1_000),
            (2_000, HOUR_MS + 2_300, HOUR_MS + 2_300),
            // Never back.
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
}
