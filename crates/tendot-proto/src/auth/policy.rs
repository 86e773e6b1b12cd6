//! Algorithms that are accepted and offered.

use super::challenge::SecretKeyMac;

/// Algorithms accepted from peers and offered to them. The default is safe and works with Handle.Net 9.
///
/// ```
/// use tendot_proto::auth::{AuthPolicy, SecretKeyMac};
///
/// let policy = AuthPolicy::default();
/// assert!(policy.secret_key_macs.contains(SecretKeyMac::Pbkdf2));
/// assert!(!policy.allow_sha1);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AuthPolicy {
    /// Secret-key MAC algorithms.
    pub secret_key_macs: SecretKeyMacSet,
    /// Allow SHA-1 in signatures and request digests, for peers older than 2.7. Needs the feature `legacy-crypto`.
    pub allow_sha1: bool,
    /// Allow MD5 in request digests, for servers older than 2.1. Needs the feature `legacy-crypto`.
    pub allow_md5: bool,
    /// Allow signatures by RSA keys of 1024 to 2047 bits. Needs the feature `legacy-crypto`.
    pub allow_short_rsa_keys: bool,
    /// Allow sessions in the 1024-bit group, which Handle.Net's clients use.
    pub allow_dh_1024: bool,
}

impl Default for AuthPolicy {
    fn default() -> Self {
        Self {
            secret_key_macs: SecretKeyMacSet::DEFAULT,
            allow_sha1: false,
            allow_md5: false,
            allow_short_rsa_keys: false,
            allow_dh_1024: true,
        }
    }
}

/// Set of accepted secret-key MAC algorithms.
///
/// ```
/// use tendot_proto::auth::{SecretKeyMac, SecretKeyMacSet};
///
/// let macs = SecretKeyMacSet::DEFAULT.with(SecretKeyMac::Sha1);
/// assert!(macs.contains(SecretKeyMac::Sha1) && !macs.contains(SecretKeyMac::Md5));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SecretKeyMacSet(u8);

impl SecretKeyMacSet {
    /// Empty set.
    pub const NONE: Self = Self(0);

    /// HMAC-SHA256 and PBKDF2, which all peers support since 2.7.
    pub const DEFAULT: Self = Self::NONE.with(SecretKeyMac::HmacSha256).with(SecretKeyMac::Pbkdf2);

    /// Adds an algorithm.
    #[must_use]
    pub const fn with(self, algorithm: SecretKeyMac) -> Self {
        Self(self.0 | 1 << algorithm as u8)
    }

    /// Whether the algorithm is accepted.
    pub const fn contains(self, algorithm: SecretKeyMac) -> bool {
        self.0 & 1 << algorithm as u8 != 0
    }
}
