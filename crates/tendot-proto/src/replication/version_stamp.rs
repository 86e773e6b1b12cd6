//! Version stamps for conflict resolution between primaries.

use crate::now::Now;

/// Version stamp for conflict resolution between primaries: time, then source priority.
///
/// The later one wins; at the same time, the one with the higher priority.
///
/// ```
/// use tendot_proto::replication::VersionStamp;
///
/// let stored = VersionStamp { time_millis: 5_000, priority: 2 };
/// assert!(VersionStamp { time_millis: 5_000, priority: 2 }.supersedes(Some(stored)), "repeating a change is harmless");
/// assert!(VersionStamp { time_millis: 5_000, priority: 3 }.supersedes(Some(stored)));
/// assert!(!VersionStamp { time_millis: 5_000, priority: 1 }.supersedes(Some(stored)));
/// assert!(!VersionStamp { time_millis: 4_999, priority: 9 }.supersedes(Some(stored)));
/// assert!(VersionStamp { time_millis: 0, priority: 0 }.supersedes(None));
/// ```
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct VersionStamp {
    /// Unix time in milliseconds.
    pub time_millis: i64,
    /// Index of the value with the source's site.
    pub priority: i32,
}

impl VersionStamp {
    /// Whether a change with this stamp is applied over the stored one.
    pub fn supersedes(self, stored: Option<Self>) -> bool {
        stored.is_none_or(|stored| self >= stored)
    }

    /// Stamp of a local change: now, but always after the stored one, even if clocks disagree.
    ///
    /// ```
    /// use tendot_proto::Now;
    /// use tendot_proto::replication::VersionStamp;
    ///
    /// let now = Now { elapsed: Default::default(), unix: 5 };
    /// assert_eq!(VersionStamp::next_local(now, 1, None).time_millis, 5_000);
    /// assert_eq!(VersionStamp::next_local(now, 1, Some(VersionStamp { time_millis: 9_000, priority: 2 })).time_millis, 9_001);
    /// ```
    pub fn next_local(now: Now, priority: i32, stored: Option<Self>) -> Self {
        let after = stored.map_or(i64::MIN, |stored| stored.time_millis.saturating_add(1));
        Self { time_millis: unix_millis(now).max(after), priority }
    }
}

/// Unix time in milliseconds.
pub(super) fn unix_millis(now: Now) -> i64 {
    i64::try_from(now.unix).unwrap_or(i64::MAX).saturating_mul(1000)
}
