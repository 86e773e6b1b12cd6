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
    #[error("invalid server URL `{base_url}`: {reason}")]
    InvalidBaseUrl {
        /// Base URL.
        base_url: String,
        /// Cause.
        reason: String,
    },
    /// The CA certificates cannot be read.
    #[error("invalid CA certificates: {reason}")]
    InvalidCaCertificates {
        /// Cause.
        reason: String,
    },
    /// The token has characters that a header cannot carry.
    #[error("invalid token: contains characters not allowed in a header")]
    InvalidToken,
    /// The token would be sent to another host over plain HTTP.
    #[error("refusing to send the token to {base_url} over plain HTTP; use `https://`")]
    InsecureTransport {
        /// Base URL.
        base_url: String,
    },
    /// The server cannot be reached.
    #[error("cannot connect to {base_url}: {reason}")]
    Unreachable {
        /// Base URL.
        base_url: String,
        /// Cause.
        reason: String,
    },
    /// The connection ended before the response did.
    #[error("connection to {base_url} lost: {reason}")]
    ConnectionLost {
        /// Base URL.
        base_url: String,
        /// Cause.
        reason: String,
    },
    /// The response is invalid.
    #[error("invalid response from {base_url}: {reason}")]
    InvalidResponse {
        /// Base URL.
        base_url: String,
        /// Cause.
        reason: String,
    },
    /// Error status without problem details, such as from a proxy.
    #[error("unexpected status {status} from {base_url}")]
    UnexpectedStatus {
        /// Base URL.
        base_url: String,
        /// HTTP status.
        status: StatusCode,
    },
    /// The source of the batch cannot be read.
    #[error("cannot read the input: {0}")]
    ReadSource(io::Error),
    /// The registry rejected the request.
    #[error("{}", .0.detail)]
    Problem(Box<RegistryProblem>),
}

impl RegistryClientError {
    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::ConnectionLost { .. } | Self::Unreachable { .. } => true,
            Self::Problem(problem) => is_transient_status(problem.status),
            Self::UnexpectedStatus { status, .. } => is_transient_status(status.as_u16()),
            _ => false,
        }
    }
}

const fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 502 | 503 | 504)
}
