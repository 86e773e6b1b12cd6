//! Cache lifetime of values.

use core::time::Duration;

/// Cache lifetime of a value: relative, absolute, or of unknown kind.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Ttl {
    /// Seconds after resolution.
    Relative(u32),
    /// Expiration as Unix time in seconds.
    Absolute(u32),
    /// Unknown kind, preserved.
    Unknown {
        /// Byte of the kind.
        kind: u8,
        /// Seconds, of unknown meaning.
        seconds: u32,
    },
}

impl Ttl {
    /// Default TTL of a new value: one day.
    pub const DEFAULT: Self = Self::Relative(86_400);

    /// Maximum cache lifetime: two days.
    pub const MAX: Duration = Duration::from_secs(172_800);

    pub(crate) const fn from_wire(kind: u8, seconds: u32) -> Self {
        match kind {
            0 => Self::Relative(seconds),
            1 => Self::Absolute(seconds),
            kind => Self::Unknown { kind, seconds },
        }
    }

    pub(crate) const fn to_wire(self) -> (u8, u32) {
        match self {
            Self::Relative(seconds) => (0, seconds),
            Self::Absolute(seconds) => (1, seconds),
            Self::Unknown { kind, seconds } => (kind, seconds),
        }
    }

    /// Whether a value resolved at `resolved_at` has expired at `now`, both as Unix time in seconds.
    ///
    /// Handle.Net inverts the test for absolute TTLs and never caches such values; here they are cached until their
    /// expiration, at most two days.
    ///
    /// ```
    /// use tendot_proto::Ttl;
    ///
    /// assert!(!Ttl::Relative(60).is_expired(1_000, 1_060));
    /// assert!(Ttl::Relative(60).is_expired(1_000, 1_061));
    /// assert!(Ttl::Relative(0).is_expired(1_000, 1_000), "never cached");
    /// assert!(!Ttl::Absolute(1_060).is_expired(1_000, 1_060));
    /// assert!(Ttl::Absolute(u32::MAX).is_expired(1_000, 1_000 + 172_801), "two days at most");
    /// ```
    pub fn is_expired(self, resolved_at: u64, now: u64) -> bool {
        let age = now.saturating_sub(resolved_at);
        let is_too_old = age > Self::MAX.as_secs();
        match self {
            Self::Relative(seconds) => seconds == 0 || age > u64::from(seconds) || is_too_old,
            Self::Absolute(date) => now > u64::from(date) || is_too_old,
            Self::Unknown { .. } => true,
        }
    }
}
