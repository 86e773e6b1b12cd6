//! Provider, policy and budget of an authentication.

use super::policy::AuthPolicy;
use crate::budget::Budget;
use crate::crypto::CryptoProvider;

/// Cryptography provider, accepted algorithms and work budget of cryptographic operations.
///
/// ```
/// use tendot_proto::Budget;
/// use tendot_proto::auth::{AuthContext, AuthPolicy, ClientKeyExchange, DhGroup, SessionError};
/// use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
///
/// let mut budget = Budget::PER_REQUEST;
/// let mut context = AuthContext::new(&AwsLcProvider, AuthPolicy::default(), &mut budget);
/// assert!(ClientKeyExchange::new(DhGroup::Modp2048, &mut SystemRandom, &mut context).is_ok());
///
/// let mut budget = Budget::new(10);
/// let mut context = AuthContext::new(&AwsLcProvider, AuthPolicy::default(), &mut budget);
/// let rejected = ClientKeyExchange::new(DhGroup::Modp2048, &mut SystemRandom, &mut context);
/// assert!(matches!(rejected, Err(SessionError::Budget(_))));
/// ```
#[derive(Debug)]
pub struct AuthContext<'a> {
    /// Cryptography provider.
    pub provider: &'a dyn CryptoProvider,
    /// Accepted algorithms.
    pub policy: AuthPolicy,
    /// Work budget of the request.
    pub budget: &'a mut Budget,
}

impl<'a> AuthContext<'a> {
    /// Context of one request.
    pub const fn new(provider: &'a dyn CryptoProvider, policy: AuthPolicy, budget: &'a mut Budget) -> Self {
        Self { provider, policy, budget }
    }
}

/// Context of one operation in unit tests, with the default policy or this one.
#[cfg(all(test, feature = "crypto"))]
macro_rules! auth_context {
    () => {
        auth_context!($crate::auth::AuthPolicy::default())
    };
    ($policy:expr) => {
        &mut $crate::auth::AuthContext::new(
            &$crate::crypto::AwsLcProvider,
            $policy,
            &mut $crate::Budget::PER_REQUEST.clone(),
        )
    };
}
#[cfg(all(test, feature = "crypto"))]
pub(crate) use auth_context;
