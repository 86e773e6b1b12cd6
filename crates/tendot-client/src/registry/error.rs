//! Error of a registry API request and problem details (RFC 9457).

use std::io;

use http::StatusCode;
use serde::Deserialize;

/// Problem details returned by the registry API (RFC 9457).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RegistryProblem {
    /// HTTP status.
    pub status: u16,
    /// Stable error code.
    pub code: String,
    /// Explanation for people.
    pub detail: String,
    /// JSON pointer to the invalid part of the request.
    pub pointer: Option<String>,
    /// Suggested fix.
    pub hint: Option<String>,
    /// Name that is already registered.
    pub existing: Option<String>,
    /// Time of that registration.
    pub since: Option<String>,
    /// Metadata errors.
    pub faults: Vec<ProblemFault>,
}

/// One invalid metadata element of a problem: JSON pointer and message.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ProblemFault {
    /// JSON pointer to the element.
    pub pointer: String,
    /// Explanation for people.
    pub message: String,
}

/// Error of a registry API request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryClientError {
    /// The base URL is invalid.
    #[error("`{base}` is no address of a service: {why}")]
    Base {
        /// Base URL.
        base: String,
        /// Cause.
        why: String,
    },
    /// The CA certificates cannot be read.
    #[error("no certificate can be read: {why}")]
    Certificates {
        /// Cause.
        why: String,
    },
    /// The token has characters that a header cannot carry.
    #[error("the token is none: it has characters that no token has")]
    Token,
    /// The token would be sent to another host over plain HTTP.
    #[error("{base} is not on this machine, and without TLS the token could be read on the way")]
    InTheClear {
        /// Base URL.
        base: String,
    },
    /// The server cannot be reached.
    #[error("{base} can't be reached: {why}")]
    Unreachable {
        /// Base URL.
        base: String,
        /// Cause.
        why: String,
    },
    /// The connection ended before the response did.
    #[error("the connection to {base} was cut: {why}")]
    Cut {
        /// Base URL.
        base: String,
        /// Cause.
        why: String,
    },
    /// The response is invalid.
    #[error("{base} gave an answer that is none: {why}")]
    Answer {
        /// Base URL.
        base: String,
        /// Cause.
        why: String,
    },
    /// Error status without problem details, such as from a proxy.
    #[error("{base} answered with status {status}")]
    Status {
        /// Base URL.
        base: String,
        /// HTTP status.
        status: StatusCode,
    },
    /// The source of the batch cannot be read.
    #[error("{0}")]
    Source(io::Error),
    /// The registry rejected the request.
    #[error("{}", .0.detail)]
    Problem(Box<RegistryProblem>),
}

impl RegistryClientError {
    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Cut { .. } | Self::Unreachable { .. } => true,
            Self::Problem(problem) => is_transient_status(problem.status),
            Self::Status { status, .. } => is_transient_status(status.as_u16()),
            _ => false,
        }
    }
}

const fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 502 | 503 | 504)
}
