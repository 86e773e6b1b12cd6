//! Response codes.

use super::ProtocolVersion;
use super::code_points::code_points;

/// Response code (RFC 3652, 2.2.2). Unknown codes are preserved; 0 marks a request.
///
/// ```
/// use tendot_proto::ResponseCode;
///
/// assert_eq!(ResponseCode::HANDLE_NOT_FOUND.to_string(), "RC_HANDLE_NOT_FOUND");
/// assert!(ResponseCode::HANDLE_NOT_FOUND.is_error());
/// assert!(!ResponseCode::PREFIX_REFERRAL.is_error());
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ResponseCode(pub u32);

code_points! {
    ResponseCode:
    /// No response code: the message is a request.
    REQUEST = 0, "RC_RESERVED";
    /// Success.
    SUCCESS = 1, "RC_SUCCESS";
    /// Server error.
    ERROR = 2, "RC_ERROR";
    /// Server overloaded.
    SERVER_TOO_BUSY = 3, "RC_SERVER_TOO_BUSY";
    /// Malformed message, or not allowed on this transport.
    PROTOCOL_ERROR = 4, "RC_PROTOCOL_ERROR";
    /// Operation not supported.
    OPERATION_NOT_SUPPORTED = 5, "RC_OPERATION_NOT_SUPPORTED";
    /// Request forwarded too often.
    RECURSION_COUNT_TOO_HIGH = 6, "RC_RECURSION_COUNT_TOO_HIGH";
    /// Server is read-only during a backup; since 2.5, see [`ResponseCode::for_peer_version`].
    SERVER_BACKUP = 7, "RC_SERVER_BACKUP";
    /// Handle not found.
    HANDLE_NOT_FOUND = 100, "RC_HANDLE_NOT_FOUND";
    /// Handle already exists.
    HANDLE_ALREADY_EXISTS = 101, "RC_HANDLE_ALREADY_EXISTS";
    /// Invalid handle.
    INVALID_HANDLE = 102, "RC_INVALID_HANDLE";
    /// The record has no matching value.
    VALUES_NOT_FOUND = 200, "RC_VALUES_NOT_FOUND";
    /// A value with this index already exists.
    VALUE_ALREADY_EXISTS = 201, "RC_VALUE_ALREADY_EXISTS";
    /// Invalid value; since 2.5, see [`ResponseCode::for_peer_version`].
    INVALID_VALUE = 202, "RC_INVALID_VALUE";
    /// The client's site information is out of date.
    OUT_OF_DATE_SITE_INFO = 300, "RC_OUT_OF_DATE_SITE_INFO";
    /// The server is not responsible for this handle.
    SERVER_NOT_RESPONSIBLE = 301, "RC_SERVER_NOT_RESP";
    /// Referral to another service.
    SERVICE_REFERRAL = 302, "RC_SERVICE_REFERRAL";
    /// Referral of a derived prefix to another service.
    PREFIX_REFERRAL = 303, "RC_PREFIX_REFERRAL";
    /// Not an administrator with the required permissions.
    INVALID_ADMIN = 400, "RC_INVALID_ADMIN";
    /// Operation not permitted.
    INSUFFICIENT_PERMISSIONS = 401, "RC_INSUFFICIENT_PERMISSIONS";
    /// Authentication required: the response is a challenge.
    AUTHENTICATION_NEEDED = 402, "RC_AUTHENTICATION_NEEDED";
    /// Authentication failed.
    AUTHENTICATION_FAILED = 403, "RC_AUTHENTICATION_FAILED";
    /// Credential type not accepted.
    INVALID_CREDENTIAL = 404, "RC_INVALID_CREDENTIAL";
    /// Challenge expired.
    AUTHENTICATION_TIMEOUT = 405, "RC_AUTHEN_TIMEOUT";
    /// Authentication could not be completed.
    AUTHENTICATION_ERROR = 406, "RC_AUTHEN_ERROR";
    /// Session unknown or expired.
    SESSION_TIMEOUT = 500, "RC_SESSION_TIMEOUT";
    /// Session setup or decryption failed.
    SESSION_FAILED = 501, "RC_SESSION_FAILED";
    /// Message not authenticated with the session key.
    INVALID_SESSION_KEY = 502, "RC_INVALID_SESSION_KEY";
    /// Never sent.
    NEED_RSA_KEY = 503, "RC_NEED_RSAKEY_FOR_SESSIONEXCHANGE";
    /// Never sent.
    INVALID_SESSION_SETUP = 504, "RC_INVALID_SESSIONSETUP_REQUEST";
    /// Replayed message.
    SESSION_MESSAGE_REJECTED = 505, "RC_SESSION_MESSAGE_REJECTED";
}

impl ResponseCode {
    /// Whether the body is an error message: all but success, referrals, challenges and unknown codes.
    pub const fn is_error(self) -> bool {
        !matches!(self.0, 0 | 1 | 302 | 303 | 402)
    }

    /// Code for a peer of `version`: before 2.5, 303 was used instead of 7, and 201 instead of 202.
    pub fn for_peer_version(self, version: ProtocolVersion) -> Self {
        match self {
            Self::SERVER_BACKUP if version < ProtocolVersion::SESSION_COUNTERS => Self::PREFIX_REFERRAL,
            Self::INVALID_VALUE if version < ProtocolVersion::SESSION_COUNTERS => Self::VALUE_ALREADY_EXISTS,
            code => code,
        }
    }
}
