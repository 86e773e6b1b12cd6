use std::time::Duration;

use tendot_proto::lookup::LookupError;
use tendot_proto::{Body, DecodeError, Outcome, Response, ResponseCode};

use super::origin::Origin;

/// Why a look-up gave no record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// No server gave an answer that could be used.
    #[error(transparent)]
    Lookup(LookupError),
    /// The answer is neither a record nor that there is none.
    #[error("{from} says {code}{}", told(message))]
    Refused {
        /// Who said so.
        from: Origin,
        /// What it said.
        code: ResponseCode,
        /// What it said to people; may be empty.
        message: String,
    },
    /// The answer is none to what was asked.
    #[error("{from} gave an answer that is none: {error}")]
    Malformed {
        /// Who gave it.
        from: Origin,
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

impl From<LookupError> for NativeError {
    fn from(error: LookupError) -> Self {
        Self::Lookup(error)
    }
}

/// What a server said to people, fit for a line.
pub(super) fn told(message: &str) -> String {
    let words: String = message.chars().filter(|c| !c.is_control()).take(200).collect();
    if words.is_empty() { words } else { format!(": {words}") }
}

/// What an error says to people, as text.
pub(super) fn message_of(body: &Body<'_>) -> String {
    match body {
        Body::Response(Response { outcome: Outcome::Failed { message: Some(message) }, .. }) => {
            String::from_utf8_lossy(message).into_owned()
        }
        _ => String::new(),
    }
}
