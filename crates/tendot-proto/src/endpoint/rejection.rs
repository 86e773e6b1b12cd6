//! Rejected bytes: reason, response code and error response.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::auth::SessionError;
use crate::error::DecodeError;
use crate::message::{MessageHeader, Opcode, ProtocolVersion, ResponseCode};
use crate::transport::FrameError;

/// Rejected bytes: the reason and the encoded error response, if one may be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rejection {
    pub(super) reason: RejectionReason,
    pub(super) opcode: Opcode,
    pub(super) response: Option<Vec<u8>>,
}

impl Rejection {
    pub(super) fn without_response(header: Option<MessageHeader>, reason: RejectionReason) -> Self {
        Self { reason, opcode: header.map_or(Opcode::RESERVED, |header| header.opcode), response: None }
    }

    /// Reason of the rejection.
    pub const fn reason(&self) -> &RejectionReason {
        &self.reason
    }

    /// Opcode of the request; [`Opcode::RESERVED`] if it could not be decoded.
    pub const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Response code, whether a response is sent or not.
    pub const fn response_code(&self) -> ResponseCode {
        self.reason.response_code()
    }

    /// Encoded error response; none if no response may be sent.
    pub fn response(&self) -> Option<&[u8]> {
        self.response.as_deref()
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl core::error::Error for Rejection {}

/// Reason of a [`Rejection`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectionReason {
    /// Malformed message.
    #[error("{0}")]
    Malformed(DecodeError),
    /// Stream that cannot be split into messages.
    #[error("{0}")]
    FrameTooLong(FrameError),
    /// A response instead of a request.
    #[error("not a request")]
    NotARequest,
    /// Encrypted and not decrypted before, or compressed, which is not supported.
    #[error("encrypted message without session")]
    Encrypted,
    /// Rejected by the session.
    #[error("{0}")]
    Session(SessionError),
    /// Unknown operation code.
    #[error("unknown opcode {0}")]
    UnknownOpcode(Opcode),
    /// Admin operation over UDP, where the source address is not verified.
    #[error("admin operations are not accepted over UDP; use TCP or HTTP")]
    AdminOverUdp,
    /// The response is too large for UDP, where the source address is not verified. Handle.Net's client takes the code for a
    /// failure of this transport, and connects over TCP at once.
    #[error("response too large for UDP; use TCP")]
    TcpRequired,
    /// The client supports only versions with broken authentication.
    #[error("admin operations require protocol version 2.1 or later; client offers {0}")]
    VersionTooOld(ProtocolVersion),
    /// Invalid handle or values.
    #[error("{0}")]
    Invalid(InvalidRequest),
}

impl RejectionReason {
    /// Response code.
    pub const fn response_code(&self) -> ResponseCode {
        match self {
            Self::TcpRequired => ResponseCode::ERROR,
            Self::UnknownOpcode(_) => ResponseCode::OPERATION_NOT_SUPPORTED,
            Self::Invalid(invalid) => invalid.code,
            Self::Session(error) => error.response_code(),
            _ => ResponseCode::PROTOCOL_ERROR,
        }
    }
}

/// Invalid handle or values: response code and message.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidRequest {
    code: ResponseCode,
    message: String,
}

impl InvalidRequest {
    pub(super) const fn new(code: ResponseCode, message: String) -> Self {
        Self { code, message }
    }

    /// Response code.
    pub const fn response_code(&self) -> ResponseCode {
        self.code
    }
}
