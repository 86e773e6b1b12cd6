//! Caller of an operation: authenticated, or claimed.

use std::fmt;

use tendot_proto::auth::{AuthContext, AuthError, ChallengeResponse, PendingChallenge};
use tendot_proto::{Handle, HandleValue, ValueReference};

use crate::party::TokenIdentity;

/// Caller of an operation, and how it was authenticated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Caller {
    /// Not authenticated.
    Anonymous,
    /// Authenticated by a key of a handle record.
    Handle(HandleIdentity),
    /// Authenticated by an API token.
    Token(TokenIdentity),
    /// Operator of the server: authorized for everything except reading unreadable values.
    Operator,
}

/// Format of the author in the change log.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("anonymous"),
            Self::Handle(identity) => identity.fmt(f),
            Self::Token(identity) => identity.fmt(f),
            Self::Operator => f.write_str("operator"),
        }
    }
}

/// Handle identity proven by a key, such as `300:0.NA/10.1000`: the key's index and its record.
///
/// The index is always that of the key that was verified, even if the client sent index 0. So an identity never gets a
/// permission granted to another key of the same record.
///
/// ```
/// use tendot_registry::HandleIdentity;
///
/// assert_eq!(HandleIdentity::from_proof(300, "0.NA/10.1000").unwrap().to_string(), "300:0.NA/10.1000");
/// assert_eq!(HandleIdentity::from_proof(0, "0.NA/10.1000"), None, "no key has the index 0");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HandleIdentity(ValueReference<'static>);

impl HandleIdentity {
    /// Identity that was verified elsewhere, such as in a session; `None` for index 0.
    pub fn from_proof(index: u32, handle: impl AsRef<[u8]>) -> Option<Self> {
        (index != 0).then(|| Self(ValueReference::new(index, handle.as_ref().to_vec())))
    }

    /// Verifies the response to a challenge and returns the proven identity.
    ///
    /// `keys` are the key values of the record named in the response, see
    /// [`Registry::key_values`](crate::Registry::key_values). Call [`Registry::precheck`](crate::Registry::precheck) first to
    /// find out whether that identity is authorized.
    pub fn verify(
        pending: &PendingChallenge,
        response: &ChallengeResponse<'_>,
        keys: &[HandleValue<'_>],
        context: &mut AuthContext<'_>,
    ) -> Result<Self, AuthError> {
        let index = pending.verify(response, keys, context)?;
        Self::from_proof(index, response.key_handle.as_bytes()).ok_or(AuthError::Failed)
    }

    /// Handle of the record with the key.
    pub fn handle(&self) -> Handle<'_> {
        self.0.handle()
    }

    pub(crate) fn reference(&self) -> ValueReference<'static> {
        self.0.clone()
    }

    /// Index of the key value.
    pub const fn index(&self) -> u32 {
        self.0.index
    }
}

impl fmt::Display for HandleIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Caller as authorization sees it: proven, or only claimed before the proof is verified.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claimant<'a> {
    Anonymous,
    /// Index 0 in an unverified claim: the key is not known yet.
    Handle(&'a ValueReference<'a>),
    /// Token and the time at which it must be valid, in milliseconds since 1970; `None` for the time of authentication.
    Token(&'a Caller, Option<u64>),
    Operator,
}

impl<'a> Claimant<'a> {
    /// Claimant whose token was valid when it was authenticated: enough for a read.
    pub(crate) const fn authenticated(caller: &'a Caller) -> Self {
        Self::with_token_time(caller, None)
    }

    /// Claimant whose token must be valid at time `now_ms`.
    pub(crate) const fn at_time(caller: &'a Caller, now_ms: u64) -> Self {
        Self::with_token_time(caller, Some(now_ms))
    }

    const fn with_token_time(caller: &'a Caller, now_ms: Option<u64>) -> Self {
        match caller {
            Caller::Anonymous => Self::Anonymous,
            Caller::Handle(HandleIdentity(reference)) => Self::Handle(reference),
            Caller::Token(_) => Self::Token(caller, now_ms),
            Caller::Operator => Self::Operator,
        }
    }
}

/// Whether a listed reference covers an identity. Index 0 in the list matches any key of the record; index 0 in a claim
/// matches any listed index.
pub(crate) fn reference_covers(listed: &ValueReference<'_>, identity: &ValueReference<'_>) -> bool {
    listed.handle().eq_identity(identity.handle())
        && (listed.index == identity.index || listed.index == 0 || identity.index == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage() {
        check("300:0.NA/10.1", "300:0.NA/10.1", true);
        check("300:0.NA/10.1", "301:0.NA/10.1", false);
        check("0:0.NA/10.1", "301:0.NA/10.1", true);
        check("300:0.NA/10.1", "0:0.NA/10.1", true);
        check("0:0.NA/10.1", "0:0.NA/10.1", true);
        check("300:0.na/10.a", "300:0.NA/10.A", true);
        check("300:10.A/x", "300:10.a/x", true);
        check("300:10.1/x", "300:10.1/X", false);
        check("0:0.NA/10.1", "300:0.NA/10.1.2", false);
        check("0:0.NA/10.1", "300:0.NA/10", false);
    }

    #[track_caller]
    fn check(listed: &str, who: &str, expected: bool) {
        assert_eq!(
            reference_covers(&ValueReference::parse(listed), &ValueReference::parse(who)),
            expected,
            "{listed} {who}"
        );
    }
}
