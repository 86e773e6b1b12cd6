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
    #[error("{from} says {code}{}", format_server_message(message))]
    Refused {
        /// Server.
        from: TransportAddress,
        /// Response code.
        code: ResponseCode,
        /// Error message of the server; may be empty.
        message: String,
    },
    /// The response cannot be decoded.
    #[error("{from} gave an answer that is none: {error}")]
    Malformed {
        /// Server.
        from: TransportAddress,
        /// Cause.
        error: DecodeError,
    },
    /// The lookup received more bytes than allowed.
    #[error("more than {limit} bytes came before there was an answer")]
    TooMuch {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// Too many lookups are in flight.
    #[error("too many look-ups for {} s", .waited.as_secs())]
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
    #[error("the server takes no administration that way")]
    NoInterface,
    /// Cannot connect; nothing was sent.
    #[error("{to} cannot be reached: {error}")]
    Unreachable {
        /// Address of the server.
        to: SocketAddr,
        /// Cause.
        error: io::Error,
    },
    /// The server may have applied the change, but its response is missing or invalid.
    #[error("{from} may have done it, but gave no usable answer: {why}")]
    Uncertain {
        /// Server.
        from: TransportAddress,
        /// Cause.
        why: String,
    },
    /// The server returned an error; after `SESSION_TIMEOUT` and `INVALID_SESSION_KEY` the session is closed.
    #[error("{from} says {code}{}", format_server_message(message))]
    Refused {
        /// Server.
        from: TransportAddress,
        /// Response code.
        code: ResponseCode,
        /// Error message of the server; may be empty.
        message: String,
    },
    /// The challenge cannot or must not be answered.
    #[error("no proof is given: {0}")]
    Authentication(#[from] AuthError),
    /// There is no session, or it failed.
    #[error("the session: {0}")]
    Session(#[from] SessionError),
    /// The site has no public key, so a session could not be authenticated.
    #[error("no session with a server whose key is not known")]
    NoKey,
    /// The request cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The response cannot be decoded.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
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
