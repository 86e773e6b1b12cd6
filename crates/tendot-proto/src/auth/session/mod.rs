//! Sessions: shared key, message counters and their table on a server.
//!
//! Reading order: this file, `key`, `replay_window`, `key_exchange` with `dh_group`, `table`.

mod dh_group;
mod key;
mod key_exchange;
mod replay_window;
mod table;

use alloc::vec::Vec;

pub use dh_group::DhGroup;
pub use key::SessionKey;
pub use key_exchange::{ClientKeyExchange, ServerKeyExchange};
use replay_window::ReplayWindow;
pub use table::{ServerSession, SessionLimits, SessionTable};

use super::context::AuthContext;
use super::credential::{CredentialError, add_mac, verify_message_mac};
use crate::budget::BudgetExceeded;
use crate::error::EncodeError;
use crate::message::{Envelope, MessageParts, Opcode, ResponseCode};

/// One side of a session: key, send counter and replay window.
#[derive(Debug)]
pub struct Session {
    id: u32,
    role: SessionRole,
    key: SessionKey,
    /// Counter of the last message sent.
    send_counter: u32,
    replay_window: ReplayWindow,
}

/// Role in a session. Both sides share one key, so reflected messages must be rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SessionRole {
    /// Sends requests, receives responses.
    Client,
    /// Sends responses, receives requests.
    Server,
}

impl Session {
    pub(super) const fn new(id: u32, role: SessionRole, key: SessionKey) -> Self {
        Self { id, role, key, send_counter: 0, replay_window: ReplayWindow::EMPTY }
    }

    /// Session id in the envelopes of its messages.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Session key.
    pub const fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Appends a MAC to a complete message, with the next counter. A retransmitted message needs a new MAC.
    pub fn add_mac(
        &mut self,
        message: &mut Vec<u8>,
        context: &mut AuthContext<'_>,
    ) -> Result<(), SessionError> {
        // Handle.Net reads counters as signed.
        let counter = self.send_counter.checked_add(1).filter(|counter| *counter <= i32::MAX as u32);
        let counter = counter.ok_or(SessionError::CountersExhausted)?;
        let envelope = Envelope::from_bytes(message).map_err(CredentialError::from)?;
        if envelope.session_id != self.id {
            return Err(SessionError::UnknownSession);
        }
        add_mac(message, &self.key, counter, context)?;
        self.send_counter = counter;
        Ok(())
    }

    /// Verifies that a message comes from the other side, is authentic and is not replayed.
    ///
    /// Counter 0 is rejected; Handle.Net's server accepts it any number of times, but all clients that can set up a
    /// session here count from 1.
    pub fn verify(
        &mut self,
        parts: &MessageParts<'_>,
        context: &mut AuthContext<'_>,
    ) -> Result<(), SessionError> {
        if parts.envelope.session_id != self.id {
            return Err(SessionError::UnknownSession);
        }
        if parts.header.is_request() != (self.role == SessionRole::Server) {
            return Err(SessionError::WrongDirection);
        }
        let counter = verify_message_mac(parts, &self.key, context)?;
        // Only after the MAC: a forged message must not consume counters.
        if self.replay_window.accept(counter) { Ok(()) } else { Err(SessionError::Replayed { counter }) }
    }

    /// Decrypts a message and verifies it as [`verify`](Self::verify) does.
    ///
    /// Handle.Net's client sends challenge responses without a MAC, encrypted or not: the response is a proof itself,
    /// and is accepted once. Such a message is accepted only while the session `has_pending_challenge`; otherwise
    /// modified ciphertexts that look like one would be a decryption oracle. For the same reason all faults but replays
    /// and an exceeded budget are one error.
    pub fn open(
        &mut self,
        message: &[u8],
        has_pending_challenge: bool,
        context: &mut AuthContext<'_>,
    ) -> Result<Vec<u8>, SessionError> {
        let plain = self.key.decrypt(message, context)?;
        let verified =
            MessageParts::split(&plain).map_err(|_| SessionError::DecryptionFailed).and_then(|parts| {
                if has_pending_challenge
                    && self.role == SessionRole::Server
                    && is_challenge_response_without_mac(&parts)
                {
                    return Ok(());
                }
                self.verify(&parts, context)
            });
        match verified {
            Ok(()) => Ok(plain),
            Err(error @ (SessionError::Replayed { .. } | SessionError::Budget(_))) => Err(error),
            Err(_) => Err(SessionError::DecryptionFailed),
        }
    }
}

/// Whether a message is a challenge response without a MAC.
pub(super) fn is_challenge_response_without_mac(parts: &MessageParts<'_>) -> bool {
    let is_challenge_response =
        parts.header.opcode == Opcode::CHALLENGE_RESPONSE && parts.header.is_request();
    is_challenge_response && matches!(parts.credential_bytes, [] | [0, 0, 0, 0])
}

/// Session error.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Unknown or expired session.
    #[error("unknown or expired session")]
    UnknownSession,
    /// The session setup is refused: unsupported option or invalid response.
    #[error("session refused: {reason}")]
    Refused {
        /// Description of the option or fault.
        reason: &'static str,
    },
    /// Decryption or authentication of an encrypted message failed.
    #[error("decryption failed")]
    DecryptionFailed,
    /// Replayed message, or too far behind the window.
    #[error("message replayed or outside the window (counter {counter})")]
    Replayed {
        /// Message counter.
        counter: u32,
    },
    /// All message counters are used.
    #[error("session counter exhausted")]
    CountersExhausted,
    /// Message in the wrong direction: this side sends such messages.
    #[error("wrong message direction")]
    WrongDirection,
    /// Missing or wrong credential.
    #[error(transparent)]
    Credential(CredentialError),
    /// The message exceeds the size limit.
    #[error(transparent)]
    TooLong(#[from] EncodeError),
    /// Work budget exceeded.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
}

impl SessionError {
    /// Response code of a server.
    pub const fn response_code(&self) -> ResponseCode {
        match self {
            Self::UnknownSession | Self::CountersExhausted => ResponseCode::SESSION_TIMEOUT,
            Self::Refused { .. } | Self::DecryptionFailed => ResponseCode::SESSION_FAILED,
            Self::Replayed { .. } => ResponseCode::SESSION_MESSAGE_REJECTED,
            Self::WrongDirection => ResponseCode::PROTOCOL_ERROR,
            Self::Credential(CredentialError::Missing) => ResponseCode::INVALID_CREDENTIAL,
            Self::Credential(CredentialError::Malformed(_)) => ResponseCode::PROTOCOL_ERROR,
            Self::Credential(_) => ResponseCode::INVALID_SESSION_KEY,
            Self::TooLong(_) => ResponseCode::ERROR,
            Self::Budget(_) => ResponseCode::SERVER_TOO_BUSY,
        }
    }
}

impl From<CredentialError> for SessionError {
    fn from(error: CredentialError) -> Self {
        match error {
            CredentialError::Budget(exceeded) => Self::Budget(exceeded),
            CredentialError::TooLong(error) => Self::TooLong(error),
            error => Self::Credential(error),
        }
    }
}
