//! Errors of resolution and administration.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tendot_proto::auth::{AuthError, SessionError};
use tendot_proto::lookup::LookupError;
use tendot_proto::{DecodeError, EncodeError, MessageBody, Response, ResponseCode, ResponseData};

use super::stream::TransportAddress;

/// Error of resolving a name over the native protocol.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// No server sent a usable response.
    #[error(transparent)]
    Lookup(LookupError),
    /// The server returned an error response code.
    #[error("{server} returned {code}{}", format_server_message(message))]
    ErrorResponse {
        /// Server.
        server: TransportAddress,
        /// Response code.
        code: ResponseCode,
        /// Error message of the server; may be empty.
        message: String,
    },
    /// The response cannot be decoded.
    #[error("invalid response from {server}: {error}")]
    InvalidResponse {
        /// Server.
        server: TransportAddress,
        /// Cause.
        error: DecodeError,
    },
    /// The lookup received more bytes than allowed.
    #[error("lookup received more than {limit} bytes")]
    TooManyBytes {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// Too many lookups are in flight.
    #[error("too many concurrent lookups; waited {} s", .waited.as_secs())]
    Busy {
        /// Time that the lookup waited.
        waited: Duration,
    },
}

impl From<LookupError> for ResolveError {
    fn from(error: LookupError) -> Self {
        Self::Lookup(error)
    }
}

/// Error of an administration operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The site has no administration interface over TCP or HTTP (lists: TCP only).
    #[error("the server has no suitable administration interface")]
    NoAdminInterface,
    /// Cannot connect; nothing was sent.
    #[error("cannot connect to {address}: {error}")]
    Unreachable {
        /// Address of the server.
        address: SocketAddr,
        /// Cause.
        error: io::Error,
    },
    /// The server may have applied the change, but its response is missing or invalid.
    #[error("outcome unknown: no valid response from {server}: {reason}")]
    OutcomeUnknown {
        /// Server.
        server: TransportAddress,
        /// Cause.
        reason: String,
    },
    /// The server returned an error; after `SESSION_TIMEOUT` and `INVALID_SESSION_KEY` the session is closed.
    #[error("{server} returned {code}{}", format_server_message(message))]
    ErrorResponse {
        /// Server.
        server: TransportAddress,
        /// Response code.
        code: ResponseCode,
        /// Error message of the server; may be empty.
        message: String,
    },
    /// There is no valid challenge response, or sending one would be unsafe.
    #[error("authentication failed: {0}")]
    Authentication(#[from] AuthError),
    /// There is no session, or it failed.
    #[error("session error: {0}")]
    Session(#[from] SessionError),
    /// The site has no public key, so a session could not be authenticated.
    #[error("cannot open a session: the server's public key is unknown")]
    UnknownServerKey,
    /// The request cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The response cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// Maximum length of a server's message in an error, in characters.
const MAX_MESSAGE_CHARS: usize = 200;

/// Server's message as a suffix of one line, without control characters.
pub(super) fn format_server_message(message: &str) -> String {
    let text: String = message.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE_CHARS).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

/// Message of an error response, or an empty string.
pub(super) fn server_message(body: &MessageBody<'_>) -> String {
    match body {
        MessageBody::Response(Response { data: ResponseData::Error { message: Some(message) }, .. }) => {
            String::from_utf8_lossy(message).into_owned()
        }
        _ => String::new(),
    }
}
