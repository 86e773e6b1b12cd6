//! Lookup errors.

use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use crate::auth::{AuthError, CredentialError};
use crate::error::{DecodeError, EncodeError};
use crate::handle::Handle;
use crate::message::{ProtocolVersion, ResponseCode};
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
    #[error("no answer in time")]
    Time,
    /// Message limit reached.
    #[error("no answer to {sent} messages")]
    Messages {
        /// Number of messages sent.
        sent: u32,
    },
    /// No usable response.
    #[error("no server gave a usable answer")]
    NoAnswer,
    /// In doubt: a request that must not be repeated was sent, and no usable response arrived. Whether it was executed
    /// is unknown; the same holds after [`Time`](Self::Time).
    #[error("a server may have done it, but gave no usable answer")]
    Uncertain,
    /// No usable site: no server with an allowed address and a matching interface, or no primary site where one is
    /// required.
    #[error("no site to ask")]
    NoSite,
    /// No record with the sites of the handle.
    #[error("the service is not found")]
    ServiceNotFound,
    /// The handle's service handles form a loop.
    #[error("its service is found only through itself")]
    ServiceLoop,
    /// Too many service handles in a chain.
    #[error("its service is more than {limit} records away")]
    ServiceDepth {
        /// Maximum.
        limit: u32,
    },
    /// Referral loop.
    #[error("referred back to a server that had referred")]
    ReferralLoop,
    /// Too many referrals.
    #[error("referred more than {limit} times")]
    Referrals {
        /// Maximum.
        limit: u32,
    },
    /// The request cannot be encoded.
    #[error(transparent)]
    Question(#[from] EncodeError),
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
    #[error("no answer")]
    Silent,
    /// The caller could not send, or lost the connection.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// Invalid HTTP tunnel response.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    /// The response exceeds the size limit.
    #[error("the answer is too long")]
    TooLong,
    /// The response cannot be decoded.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The message is a request.
    #[error("the answer is a request")]
    NotAResponse,
    /// Response with the wrong request id.
    #[error("the answer is to request {found:#x}")]
    RequestId {
        /// Request id of the response.
        found: u32,
    },
    /// Response with the wrong opcode.
    #[error("the answer is to operation {found}")]
    Opcode {
        /// Opcode of the response.
        found: u32,
    },
    /// Response about another handle.
    #[error("the answer is about another handle")]
    OtherHandle,
    /// Expired response.
    #[error("the answer ended at {expiration}, {late} seconds ago")]
    Expired {
        /// Expiration as Unix time in seconds.
        expiration: u32,
        /// Seconds since the expiration.
        late: u64,
    },
    /// Downgrade: the response has a version without SHA-256, although the site announces a newer one.
    #[error("the answer is in version {found}, the site speaks {site}")]
    Version {
        /// Version of the response.
        found: ProtocolVersion,
        /// Version of the site.
        site: ProtocolVersion,
    },
    /// The request digest is missing or wrong.
    #[error("the digest in the answer: {0}")]
    Digest(AuthError),
    /// The response is not signed by the queried server.
    #[error("the signature of the answer: {0}")]
    Signature(CredentialError),
    /// Verification was requested, but there is no crypto provider.
    #[error("the answer cannot be checked without cryptography")]
    Unchecked,
    /// The server reports an error.
    #[error("the server says {0}")]
    Code(ResponseCode),
}

/// Connection failure reported by the caller. Only `Unreachable` and `Insecure` guarantee that nothing was sent.
///
/// After any other error a request that must not be repeated is not sent to another server.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Nothing could be sent.
    #[error("cannot be reached")]
    Unreachable,
    /// The connection ended before the response was complete.
    #[error("the connection was closed")]
    Closed,
    /// The TLS peer is not the server named by the site; nothing was sent.
    #[error("the connection is to somebody else")]
    Insecure,
}
