use super::secret_key::SecretKeyMacSet;

/// Algorithms accepted from peers and offered to them. The default is what is safe and works with Handle.Net 9.
///
/// The default is what is safe and still spoken by Handle.Net 9.
///
/// ```
/// use tendot_proto::auth::{AuthPolicy, SecretKeyMac};
///
/// let policy = AuthPolicy::default();
/// assert!(policy.secret_keys.contains(SecretKeyMac::Pbkdf2));
/// assert!(!policy.sha1);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AuthPolicy {
    /// The forms of an answer by secret key.
    pub secret_keys: SecretKeyMacSet,
    /// SHA-1 in signatures and in digests of requests, for peers older than 2.7. Needs the feature `legacy`.
    pub sha1: bool,
    /// MD5 in digests of requests, for servers older than 2.1. Needs the feature `legacy`.
    pub md5: bool,
    /// Signatures by RSA keys of 1024 to 2047 bits. Needs the feature `legacy`.
    pub short_rsa_keys: bool,
    /// Sessions in the group of 1024 bits, which is what clients of the deployed software use.
    pub group_1024: bool,
}

impl Default for AuthPolicy {
    fn default() -> Self {
        Self {
            secret_keys: SecretKeyMacSet::DEFAULT,
            sha1: false,
            md5: false,
            short_rsa_keys: false,
            group_1024: true,
        }
    }
}
