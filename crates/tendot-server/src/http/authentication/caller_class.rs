//! Class of a caller, by which shared resources are divided.

use tendot_registry::Caller;

use crate::authenticated_key::canonical_handle;

/// Class of a caller.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum CallerClass {
    Operator,
    Anonymous,
    /// Agency, registrant or handle, regardless of the token or key.
    Identity(String),
}

impl CallerClass {
    pub(crate) fn of(caller: &Caller) -> Self {
        match caller {
            Caller::Operator => Self::Operator,
            Caller::Token(token) if token.is_operator() => Self::Operator,
            Caller::Anonymous => Self::Anonymous,
            Caller::Token(token) => Self::Identity(token.party()),
            Caller::Handle(identity) => Self::Identity(canonical_handle(identity.handle())),
        }
    }
}
