//! Error of a request to the handle API.

use http::StatusCode;
use tendot_proto::ResponseCode;
use tendot_proto::auth::AuthError;

/// Error of a request to the handle API.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandleApiError {
    /// The base URL is invalid.
    #[error("invalid server URL `{base_url}`: {reason}")]
    InvalidBaseUrl {
        /// Base URL.
        base_url: String,
        /// Cause.
        reason: String,
    },
    /// The certificates or the key that identify the server are invalid.
    #[error("invalid CA certificates or server key: {reason}")]
    InvalidServerTrust {
        /// Cause.
        reason: String,
    },
    /// The token has characters that a header cannot carry.
    #[error("invalid token: contains characters not allowed in a header")]
    InvalidToken,
    /// Credentials would be sent to another host over plain HTTP.
    #[error("refusing to send credentials to {base_url} over plain HTTP; use `https://`")]
    InsecureTransport {
        /// Base URL.
        base_url: String,
    },
    /// Cannot connect; nothing was sent.
    #[error("cannot connect to {base_url}: {reason}")]
    Unreachable {
        /// Base URL.
        base_url: String,
        /// Cause.
        reason: String,
    },
    /// The server may have executed the request, but its response is missing or invalid.
    #[error("outcome unknown: no valid response from {base_url}: {reason}")]
    OutcomeUnknown {
        /// Base URL.
        base_url: String,
        /// Cause.
        reason: String,
    },
    /// The proof for the server's nonce cannot be computed.
    #[error("authentication failed: {0}")]
    Proof(#[from] AuthError),
    /// The server rejected the credentials.
    #[error("authentication failed: {message}")]
    AuthenticationFailed {
        /// Message of the server.
        message: String,
    },
    /// The server returned an error.
    #[error("{base_url} returned {code} (status {}){}", status.as_u16(), format_message(message))]
    ErrorResponse {
        /// Base URL.
        base_url: String,
        /// Response code of the Handle protocol.
        code: ResponseCode,
        /// HTTP status.
        status: StatusCode,
        /// Message of the server; may be empty.
        message: String,
    },
}

/// Maximum length of a server's message in an error, in characters.
const MAX_MESSAGE_CHARS: usize = 200;

/// Message as a suffix of one line, without control characters.
fn format_message(message: &str) -> String {
    let text: String = message.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE_CHARS).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}
