use std::fmt;

use tendot_proto::auth::{AuthError, AuthPolicy, ChallengeResponse, PendingChallenge};
use tendot_proto::crypto::CryptoProvider;
use tendot_proto::{Budget, Handle, HandleValue, ValueReference};

use crate::party::TokenIdentity;

/// Caller of an operation, and how it was authenticated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Caller {
    /// Nobody has proved anything.
    Anonymous,
    /// Somebody who has proved to have a key.
    Handle(HandleIdentity),
    /// Somebody who has shown a token.
    Token(TokenIdentity),
    /// Who runs the server: may do everything but read what nobody may read.
    Operator,
}

/// As the log has it.
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
/// The index is always that of the key by which it was proved, also if the client named none: an identity never has a
/// right that was given to another key of the same record.
///
/// ```
/// use tendot_registry::HandleIdentity;
///
/// assert_eq!(HandleIdentity::proven(300, "0.NA/10.1000").unwrap().to_string(), "300:0.NA/10.1000");
/// assert_eq!(HandleIdentity::proven(0, "0.NA/10.1000"), None, "no key has the index 0");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HandleIdentity(ValueReference<'static>);

impl HandleIdentity {
    /// An identity whose proof was checked elsewhere, as in a session; none without the index of its key.
    pub fn proven(index: u32, handle: impl AsRef<[u8]>) -> Option<Self> {
        (index != 0).then(|| Self(ValueReference::new(index, handle.as_ref().to_vec())))
    }

    /// The identity that the answer to a challenge proves.
    ///
    /// `keys` are those of the record that the answer names, see [`Registry::key_values`](crate::Registry::key_values). Whether that
    /// identity may do what it asked for has to be found out first, see
    /// [`Registry::precheck`](crate::Registry::precheck).
    pub fn prove(
        pending: &PendingChallenge,
        answer: &ChallengeResponse<'_>,
        keys: &[HandleValue<'_>],
        policy: &AuthPolicy,
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<Self, AuthError> {
        let index = pending.verify(answer, keys, policy, crypto, work)?;
        Self::proven(index, answer.key_handle.as_bytes()).ok_or(AuthError::Failed)
    }

    /// The record where the key is.
    pub fn handle(&self) -> Handle<'_> {
        self.0.handle()
    }

    pub(crate) fn reference(&self) -> ValueReference<'static> {
        self.0.clone()
    }

    /// The index of the key.
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
    /// The index may be 0 if it is a claim: which key will prove it is not known yet.
    Handle(&'a ValueReference<'a>),
    /// At a time in milliseconds since 1970; 0 for the one at which the token was shown.
    Token(&'a Caller, u64),
    Operator,
}

impl<'a> Claimant<'a> {
    pub(crate) const fn new(caller: &'a Caller) -> Self {
        Self::at_time(caller, 0)
    }

    /// The same, of who has waited since.
    pub(crate) const fn at_time(caller: &'a Caller, at: u64) -> Self {
        match caller {
            Caller::Anonymous => Self::Anonymous,
            Caller::Handle(HandleIdentity(reference)) => Self::Handle(reference),
            Caller::Token(_) => Self::Token(caller, at),
            Caller::Operator => Self::Operator,
        }
    }
}

/// Whether somebody is who a list means: index 0 in the list is any key of the record, and index 0 of a claim may become
/// any.
pub(crate) fn reference_covers(listed: &ValueReference<'_>, who: &ValueReference<'_>) -> bool {
    listed.handle().eq_identity(who.handle())
        && (listed.index == who.index || listed.index == 0 || who.index == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meant() {
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
