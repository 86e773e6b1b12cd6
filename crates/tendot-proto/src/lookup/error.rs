use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use crate::auth::{AuthError, CredentialError};
use crate::error::{DecodeError, EncodeError};
use crate::handle::Handle;
use crate::message::{ProtocolVersion, ResponseCode};
use crate::record::InterfaceProtocol;
use crate::tunnel::TunnelError;

/// Lookup failure: kind, handle and failed attempts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LookupError {
    /// What went wrong.
    pub kind: LookupErrorKind,
    /// The handle that was being asked for: the one of the question, or one on the way to it.
    pub handle: Vec<u8>,
    /// Who was asked for it, and what came of it.
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
    /// The time was over.
    #[error("no answer in time")]
    Time,
    /// The messages were used up.
    #[error("no answer to {sent} messages")]
    Messages {
        /// How many were sent.
        sent: u32,
    },
    /// Nobody gave an answer that could be used.
    #[error("no server gave a usable answer")]
    NoAnswer,
    /// The question must not be repeated, and a server that may have got it gave no usable answer. Whether it was done
    /// is not known; nor is it after [`Time`](Self::Time).
    #[error("a server may have done it, but gave no usable answer")]
    Uncertain,
    /// There is no site that could be asked: none with a server that has an address where we may ask and takes such
    /// requests, or no primary one where that is needed.
    #[error("no site to ask")]
    NoSite,
    /// No record says who keeps the name.
    #[error("the service is not found")]
    ServiceNotFound,
    /// The way to the name leads through itself.
    #[error("its service is found only through itself")]
    ServiceLoop,
    /// The way to the name is too long.
    #[error("its service is more than {limit} records away")]
    ServiceDepth {
        /// How long it may be.
        limit: u32,
    },
    /// Sites refer to one another.
    #[error("referred back to a server that had referred")]
    ReferralLoop,
    /// Referred too often.
    #[error("referred more than {limit} times")]
    Referrals {
        /// How often is allowed.
        limit: u32,
    },
    /// The question cannot be sent.
    #[error(transparent)]
    Question(#[from] EncodeError),
}

/// Failed attempt: server, transport and error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FailedAttempt {
    /// How the server was asked.
    pub transport: InterfaceProtocol,
    /// Where it was asked.
    pub to: SocketAddr,
    /// What was wrong.
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
    /// No answer yet, when the lookup ended or went on without it.
    #[error("no answer")]
    Silent,
    /// The caller could not send, or lost the connection.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The answer is not HTTP with a message in it.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    /// The answer is longer than any may be.
    #[error("the answer is too long")]
    TooLong,
    /// The answer cannot be read.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The answer is a request.
    #[error("the answer is a request")]
    NotAResponse,
    /// The answer is to another request.
    #[error("the answer is to request {found:#x}")]
    RequestId {
        /// The number of that request.
        found: u32,
    },
    /// The answer is to another operation.
    #[error("the answer is to operation {found}")]
    Opcode {
        /// The operation.
        found: u32,
    },
    /// The answer is about another name.
    #[error("the answer is about another handle")]
    OtherHandle,
    /// The answer is no longer to be believed.
    #[error("the answer ended at {expiration}, {late} seconds ago")]
    Expired {
        /// Until when it was, in seconds since 1970.
        expiration: u32,
        /// How long that is ago.
        late: u64,
    },
    /// The answer is in a version that has no SHA-256, though its site says that the server knows it.
    #[error("the answer is in version {found}, the site speaks {site}")]
    Version {
        /// The version of the answer.
        found: ProtocolVersion,
        /// That of the site.
        site: ProtocolVersion,
    },
    /// The answer does not have the digest of the request.
    #[error("the digest in the answer: {0}")]
    Digest(AuthError),
    /// The answer is not signed by the server that was asked.
    #[error("the signature of the answer: {0}")]
    Signature(CredentialError),
    /// A digest or signature was asked for, and there is no cryptography to check it with.
    #[error("the answer cannot be checked without cryptography")]
    Unchecked,
    /// The server failed.
    #[error("the server says {0}")]
    Code(ResponseCode),
}

/// Connection failure reported by the caller. Only `Unreachable` and `WrongPeer` guarantee that nothing was sent.
///
/// Unless it says that nothing was sent, as `Unreachable` and `Insecure` do, a question that must not be repeated is asked of
/// nobody else.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Nothing could be sent.
    #[error("cannot be reached")]
    Unreachable,
    /// The connection ended before a whole answer came.
    #[error("the connection was closed")]
    Closed,
    /// The other side of a TLS connection is not the server that the site names, and nothing was sent to it.
    #[error("the connection is to somebody else")]
    Insecure,
}
