//! Service clock: the time source for stored timestamps and comparisons with them.
//!
//! With a store that servers share, it is the clock of the database, so a server with a wrong clock has no effect. Otherwise it is
//! a monotonic wall clock.

use tendot_store::{MAX_CLOCK_SKEW_MS, ServiceClock, Store};

use crate::Registry;

impl Registry {
    /// Current time in milliseconds since 1970, for everything that is stored or compared with a stored time: that of the
    /// database, or of the system clock without jumps.
    pub fn now_ms(&self) -> u64 {
        self.rules.store.clock_ms().unwrap_or_else(|| self.clock.now_ms())
    }

    /// Milliseconds by which the system clock is ahead of [`now_ms`](Self::now_ms); negative if it is behind.
    pub fn clock_skew_ms(&self) -> i64 {
        let (system, now) = (self.clock.system_ms(), self.now_ms());
        let skew = i64::try_from(system.abs_diff(now)).unwrap_or(i64::MAX);
        if system < now { -skew } else { skew }
    }

    /// Whether the system clock differs from the service clock by more than the tolerance.
    pub fn has_wrong_system_clock(&self) -> bool {
        self.clock_skew_ms().unsigned_abs() > MAX_CLOCK_SKEW_MS
    }

    /// Replaces the system clock.
    // Public for the tests of other crates.
    #[doc(hidden)]
    #[must_use]
    pub fn with_system_clock(mut self, system: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.clock = ServiceClock::new(system);
        self
    }
}
