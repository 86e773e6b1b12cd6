//! Time as an argument.

use core::time::Duration;

/// Current time, supplied by the caller: monotonic and wall clock.
///
/// Two readings are needed, since a wall clock may jump: waiting is measured with `elapsed`, and dates of the protocol
/// are compared with `unix`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Now {
    /// Time since a moment that stays the same while the program runs; never goes back.
    pub elapsed: Duration,
    /// Seconds since 1970.
    pub unix: u64,
}

impl Now {
    /// The date as the protocol writes it: 32 bits, so everything after February 2106 is the last second that fits.
    pub fn unix_u32(self) -> u32 {
        u32::try_from(self.unix).unwrap_or(u32::MAX)
    }
}
