use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tendot_proto::auth::{AuthError, SessionError};
use tendot_proto::lookup::LookupError;
use tendot_proto::{DecodeError, EncodeError, MessageBody, Response, ResponseCode, ResponseData};

use super::origin::TransportAddress;

/// Error of resolving a name over the native protocol.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// No server gave an answer that could be used.
    #[error(transparent)]
    Lookup(LookupError),
    /// The answer is neither a record nor that there is none.
    #[error("{from} says {code}{}", format_server_message(message))]
    Refused {
        /// Who said so.
        from: TransportAddress,
        /// What it said.
        code: ResponseCode,
        /// What it said to people; may be empty.
        message: String,
    },
    /// The answer is none to what was asked.
    #[error("{from} gave an answer that is none: {error}")]
    Malformed {
        /// Who gave it.
        from: TransportAddress,
        /// What is wrong.
        error: DecodeError,
    },
    /// More came than one look-up may take in.
    #[error("more than {limit} bytes came before there was an answer")]
    TooMuch {
        /// How many bytes are taken in.
        limit: usize,
    },
    /// So many look-ups were under way that this one could not begin in time.
    #[error("too many look-ups for {} s", .waited.as_secs())]
    Busy {
        /// How long it waited.
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
    /// The server's site says nothing of administration over TCP or HTTP; a list comes over TCP only.
    #[error("the server takes no administration that way")]
    NoInterface,
    /// Nothing was sent.
    #[error("{to} cannot be reached: {error}")]
    Unreachable {
        /// Where it was tried.
        to: SocketAddr,
        /// What happened.
        error: io::Error,
    },
    /// The server may have done it, but gave no answer that can be believed.
    #[error("{from} may have done it, but gave no usable answer: {why}")]
    Uncertain {
        /// Who was asked.
        from: TransportAddress,
        /// What is wrong with the answer.
        why: String,
    },
    /// The server did not do it.
    #[error("{from} says {code}{}", format_server_message(message))]
    Refused {
        /// Who was asked.
        from: TransportAddress,
        /// What it said. After `SESSION_TIMEOUT` and `INVALID_SESSION_KEY` there is no session any more.
        code: ResponseCode,
        /// What it said to people; may be empty.
        message: String,
    },
    /// The server wants a proof that is not to be given, or cannot be.
    #[error("no proof is given: {0}")]
    Authentication(#[from] AuthError),
    /// There is no session, or it came to its end.
    #[error("the session: {0}")]
    Session(#[from] SessionError),
    /// The server's site has no key, so that anybody could be at the other end of a session.
    #[error("no session with a server whose key is not known")]
    NoKey,
    /// The request cannot be sent.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The response cannot be read.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
}

/// What a server said to people, fit for a line.
pub(super) fn format_server_message(message: &str) -> String {
    let words: String = message.chars().filter(|c| !c.is_control()).take(200).collect();
    if words.is_empty() { words } else { format!(": {words}") }
}

/// What an error says to people, as text.
pub(super) fn server_message(body: &MessageBody<'_>) -> String {
    match body {
        MessageBody::Response(Response {
            outcome: ResponseData::Failed { message: Some(message) }, ..
        }) => String::from_utf8_lossy(message).into_owned(),
        _ => String::new(),
    }
}
