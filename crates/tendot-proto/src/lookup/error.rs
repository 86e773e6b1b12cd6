//! Lookup errors.

use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use crate::auth::{AuthError, CredentialError};
use crate::error::{DecodeError, EncodeError};
use crate::handle::Handle;
use crate::message::{ProtocolVersion, ResponseCode, ResponseMismatch};
use crate::record::InterfaceProtocol;
use crate::transport::tunnel::TunnelError;

/// Lookup failure: kind, handle and failed attempts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LookupError {
    /// Kind of the failure.
    pub kind: LookupErrorKind,
    /// Handle of the failed step: that of the request, or one on the way to it.
    pub handle: Vec<u8>,
    /// Failed attempts of that step.
    pub attempts: Vec<FailedAttempt>,
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Handle::new(&self.handle), self.kind)?;
        for attempt in &self.attempts {
            write!(f, "; {attempt}")?;
        }
        Ok(())
    }
}

impl core::error::Error for LookupError {}

/// Kind of a lookup failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupErrorKind {
    /// Timeout.
    #[error("timed out")]
    TimedOut,
    /// Message limit reached.
    #[error("no response after {sent} messages")]
    MessageLimit {
        /// Number of messages sent.
        sent: u32,
    },
    /// No usable response.
    #[error("no server sent a usable response")]
    NoUsableResponse,
    /// In doubt: a request that must not be repeated was sent, and no usable response arrived. Whether it was executed
    /// is unknown; the same holds after [`TimedOut`](Self::TimedOut).
    #[error("outcome unknown: a server may have executed the request but sent no usable response")]
    InDoubt,
    /// No usable site: no server with an allowed address and a matching interface, or no primary site where one is
    /// required.
    #[error("no usable site")]
    NoUsableSite,
    /// No record with the sites of the handle.
    #[error("service not found")]
    ServiceNotFound,
    /// The handle's service handles form a loop.
    #[error("service reference loop")]
    ServiceLoop,
    /// Too many service handles in a chain.
    #[error("service reference depth exceeds {max}")]
    ServiceDepth {
        /// Maximum.
        max: u32,
    },
    /// Referral loop.
    #[error("referral loop")]
    ReferralLoop,
    /// Too many referrals.
    #[error("more than {max} referrals")]
    ReferralLimit {
        /// Maximum.
        max: u32,
    },
    /// The request cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Failed attempt: server, transport and error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FailedAttempt {
    /// Transport.
    pub transport: InterfaceProtocol,
    /// Server address.
    pub to: SocketAddr,
    /// Error of the attempt.
    pub error: AttemptError,
}

impl fmt::Display for FailedAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}: {}", self.to, self.transport, self.error)
    }
}

/// Reason for which an attempt failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// No response before the lookup ended or continued elsewhere.
    #[error("no response")]
    NoResponse,
    /// The caller could not send, or lost the connection.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// Invalid HTTP tunnel response.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    /// The response exceeds the size limit.
    #[error("response too long")]
    ResponseTooLong,
    /// The response cannot be decoded.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The message is not the response to the request.
    #[error(transparent)]
    Mismatch(#[from] ResponseMismatch),
    /// Response about another handle.
    #[error("handle mismatch")]
    WrongHandle,
    /// Downgrade: the response has a version without SHA-256, although the site announces a newer one.
    #[error("version downgrade: response {found}, site {site}")]
    VersionDowngrade {
        /// Version of the response.
        found: ProtocolVersion,
        /// Version of the site.
        site: ProtocolVersion,
    },
    /// The request digest is missing or wrong.
    #[error("request digest: {0}")]
    Digest(AuthError),
    /// The response is not signed by the queried server.
    #[error("response signature: {0}")]
    Signature(CredentialError),
    /// Verification was requested, but there is no crypto provider.
    #[error("cannot verify the response: no crypto provider")]
    NoCryptoProvider,
    /// The server reports an error.
    #[error("server returned {0}")]
    ServerError(ResponseCode),
}

/// Connection failure reported by the caller. Only `Unreachable` and `WrongPeer` guarantee that nothing was sent.
///
/// After any other error a request that must not be repeated is not sent to another server.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Nothing could be sent.
    #[error("unreachable")]
    Unreachable,
    /// The connection ended before the response was complete.
    #[error("connection closed")]
    Closed,
    /// The TLS peer is not the server named by the site; nothing was sent.
    #[error("TLS peer key mismatch")]
    WrongPeer,
}
