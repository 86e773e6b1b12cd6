//! Authenticated sessions of both protocols, as the operator sees them.

use std::time::Duration;

/// Authenticated session, without anything that could be used in its place.
#[derive(Clone, Debug)]
pub(crate) struct SessionInfo {
    /// Id for the operator; not that of the protocol, which may be a credential.
    pub(crate) id: String,
    pub(crate) protocol: &'static str,
    /// Authenticated identity, `INDEX:HANDLE`.
    pub(crate) identity: String,
    /// Time since the session was created, time since its last use, and time until it expires without further use.
    pub(crate) age: Duration,
    pub(crate) idle: Duration,
    pub(crate) remaining: Duration,
}
