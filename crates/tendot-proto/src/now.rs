//! Current time as an argument.

use core::time::Duration;

/// Current time, supplied by the caller: monotonic and wall clock.
///
/// Wall clocks can jump, so there are two readings: `elapsed` for timeouts, `unix` for dates of the protocol.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Now {
    /// Monotonic time since a fixed moment, for example the start of the program.
    pub elapsed: Duration,
    /// Unix time in seconds.
    pub unix: u64,
}

impl Now {
    /// Unix time in 32 bits, as on the wire; saturates in February 2106.
    pub fn unix_u32(self) -> u32 {
        u32::try_from(self.unix).unwrap_or(u32::MAX)
    }
}
