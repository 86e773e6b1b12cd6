//! Protocol versions and their negotiation.

use core::fmt;

/// Handle protocol version. Ordered by number; 5.x is an early 2.0 and ranks as such.
///
/// ```
/// use tendot_proto::ProtocolVersion;
///
/// assert!(ProtocolVersion::new(2, 11) > ProtocolVersion::new(2, 3));
/// assert!(ProtocolVersion::new(5, 0) < ProtocolVersion::new(2, 1));
/// assert_eq!(ProtocolVersion::LATEST.to_string(), "2.11");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ProtocolVersion {
    /// Major version.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
}

impl ProtocolVersion {
    /// Newest supported version, that of Handle.Net 9.
    pub const LATEST: Self = Self::new(2, 11);
    /// Oldest supported version. 5.x is treated as this one.
    pub const OLDEST: Self = Self::new(2, 0);
    /// Request digests with an algorithm byte; sessions.
    pub const DIGEST_ALGORITHMS: Self = Self::new(2, 1);
    /// Session setup with a cipher; ciphers with an initialization vector.
    pub const SESSION_CIPHERS: Self = Self::new(2, 4);
    /// Message counters in sessions; codes 7 and 202.
    pub const SESSION_COUNTERS: Self = Self::new(2, 5);
    /// SHA-256, HMAC and PBKDF2; signatures cover the envelope.
    pub const SHA256: Self = Self::new(2, 7);
    /// Signatures cover the suggested version.
    pub const SUGGESTION_SIGNED: Self = Self::new(2, 8);
    /// Transaction requests have a kind.
    pub const REPLICATION_KINDS: Self = Self::new(2, 9);
    /// Prefix referrals for write requests, too.
    pub const PREFIX_REFERRALS: Self = Self::new(2, 10);

    /// Version `major.minor`.
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }

    /// Version to use with a peer whose newest version this is: at most [`LATEST`](Self::LATEST), at least 2.0, and 2.4
    /// instead of 2.5 and 2.6, whose signed bytes overwrite themselves.
    ///
    /// ```
    /// use tendot_proto::ProtocolVersion;
    ///
    /// assert_eq!(ProtocolVersion::new(2, 3).negotiated(), ProtocolVersion::new(2, 3));
    /// assert_eq!(ProtocolVersion::new(2, 6).negotiated(), ProtocolVersion::new(2, 4));
    /// assert_eq!(ProtocolVersion::new(3, 0).negotiated(), ProtocolVersion::LATEST);
    /// assert_eq!(ProtocolVersion::new(5, 0).negotiated(), ProtocolVersion::OLDEST);
    /// assert_eq!(ProtocolVersion::new(0, 0).negotiated(), ProtocolVersion::OLDEST, "0.0 is not supported");
    /// ```
    #[must_use]
    pub fn negotiated(self) -> Self {
        let Self { major, minor } = self;
        match (major, minor) {
            (0 | 1 | 5, _) => Self::OLDEST,
            (2, 5 | 6) => Self::SESSION_CIPHERS,
            _ => self.min(Self::LATEST),
        }
    }

    fn sort_key(self) -> (u8, u8) {
        match self {
            Self { major: 5, .. } => (2, 0),
            Self { major, minor } => (major, minor),
        }
    }
}

impl Ord for ProtocolVersion {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.sort_key()
            .cmp(&other.sort_key())
            .then_with(|| self.major.cmp(&other.major))
            .then_with(|| self.minor.cmp(&other.minor))
    }
}

impl PartialOrd for ProtocolVersion {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiated_versions() {
        for (major, minor, negotiated) in [
            (0, 0, (2, 0)),
            (0, 255, (2, 0)),
            (1, 0, (2, 0)),
            (1, 255, (2, 0)),
            (2, 0, (2, 0)),
            (2, 4, (2, 4)),
            (2, 5, (2, 4)),
            (2, 6, (2, 4)),
            (2, 7, (2, 7)),
            (2, 11, (2, 11)),
            (2, 12, (2, 11)),
            (2, 255, (2, 11)),
            (3, 0, (2, 11)),
            (3, 5, (2, 11)),
            (4, 255, (2, 11)),
            (5, 0, (2, 0)),
            (5, 255, (2, 0)),
            (6, 0, (2, 11)),
            (255, 255, (2, 11)),
        ] {
            let version = ProtocolVersion::new(major, minor);
            assert_eq!(version.negotiated(), ProtocolVersion::new(negotiated.0, negotiated.1), "{version}");
        }
    }
}
