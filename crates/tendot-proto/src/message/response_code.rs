use super::ProtocolVersion;
use super::code_points::code_points;

/// Response code (RFC 3652, 2.2.2). Unknown codes are preserved; 0 marks a request.
///
/// Unknown numbers are kept, so that they can be passed on. 0 stands in requests.
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
    /// None: this is a request.
    PER_REQUEST = 0, "RC_RESERVED";
    /// The request was carried out.
    SUCCESS = 1, "RC_SUCCESS";
    /// The server failed.
    ERROR = 2, "RC_ERROR";
    /// The server has too much to do.
    SERVER_TOO_BUSY = 3, "RC_SERVER_TOO_BUSY";
    /// The message is malformed, or came where such messages are not taken.
    PROTOCOL_ERROR = 4, "RC_PROTOCOL_ERROR";
    /// The server does not do this.
    OPERATION_NOT_SUPPORTED = 5, "RC_OPERATION_NOT_SUPPORTED";
    /// The request was passed on too often.
    RECURSION_COUNT_TOO_HIGH = 6, "RC_RECURSION_COUNT_TOO_HIGH";
    /// The server only reads at present; since 2.5, see [`ResponseCode::for_version`].
    SERVER_BACKUP = 7, "RC_SERVER_BACKUP";
    /// No record exists under this name.
    HANDLE_NOT_FOUND = 100, "RC_HANDLE_NOT_FOUND";
    /// A record exists under this name.
    HANDLE_ALREADY_EXISTS = 101, "RC_HANDLE_ALREADY_EXISTS";
    /// This cannot be the name of a record.
    INVALID_HANDLE = 102, "RC_INVALID_HANDLE";
    /// The record has no value of this kind.
    VALUES_NOT_FOUND = 200, "RC_VALUES_NOT_FOUND";
    /// The record has a value of this index.
    VALUE_ALREADY_EXISTS = 201, "RC_VALUE_ALREADY_EXISTS";
    /// This cannot be a value of a record; since 2.5, see [`ResponseCode::for_version`].
    INVALID_VALUE = 202, "RC_INVALID_VALUE";
    /// The client knows an old site.
    OUT_OF_DATE_SITE_INFO = 300, "RC_OUT_OF_DATE_SITE_INFO";
    /// The server does not keep this name.
    SERVER_NOT_RESPONSIBLE = 301, "RC_SERVER_NOT_RESP";
    /// Another service keeps this name.
    SERVICE_REFERRAL = 302, "RC_SERVICE_REFERRAL";
    /// Another service keeps this derived prefix.
    PREFIX_REFERRAL = 303, "RC_PREFIX_REFERRAL";
    /// This is no administrator with the rights.
    INVALID_ADMIN = 400, "RC_INVALID_ADMIN";
    /// Nobody may do this.
    INSUFFICIENT_PERMISSIONS = 401, "RC_INSUFFICIENT_PERMISSIONS";
    /// Prove first who you are: the response is a challenge.
    AUTHENTICATION_NEEDED = 402, "RC_AUTHENTICATION_NEEDED";
    /// You are not who you say.
    AUTHENTICATION_FAILED = 403, "RC_AUTHENTICATION_FAILED";
    /// A proof of this kind is not taken.
    INVALID_CREDENTIAL = 404, "RC_INVALID_CREDENTIAL";
    /// The challenge is over.
    AUTHENTICATION_TIMEOUT = 405, "RC_AUTHEN_TIMEOUT";
    /// It could not be found out who you are.
    AUTHENTICATION_ERROR = 406, "RC_AUTHEN_ERROR";
    /// There is no such session, or no longer.
    SESSION_TIMEOUT = 500, "RC_SESSION_TIMEOUT";
    /// No session could be made, or the message could not be decrypted.
    SESSION_FAILED = 501, "RC_SESSION_FAILED";
    /// The message was not authenticated with the key of its session.
    INVALID_SESSION_KEY = 502, "RC_INVALID_SESSION_KEY";
    /// Never sent.
    NEED_RSA_KEY = 503, "RC_NEED_RSAKEY_FOR_SESSIONEXCHANGE";
    /// Never sent.
    INVALID_SESSION_SETUP = 504, "RC_INVALID_SESSIONSETUP_REQUEST";
    /// The message was seen before.
    SESSION_MESSAGE_REJECTED = 505, "RC_SESSION_MESSAGE_REJECTED";
}

impl ResponseCode {
    /// Whether the body is a message for people: all but success, referrals and challenges, and codes that nobody
    /// knows.
    pub const fn is_error(self) -> bool {
        !matches!(self.0, 0 | 1 | 302 | 303 | 402)
    }

    /// The code as a peer of `version` understands it: before 2.5 there was 303 where there is 7 now, and 201 where
    /// there is 202.
    pub fn for_peer_version(self, version: ProtocolVersion) -> Self {
        match self {
            Self::SERVER_BACKUP if version < ProtocolVersion::SESSION_COUNTERS => Self::PREFIX_REFERRAL,
            Self::INVALID_VALUE if version < ProtocolVersion::SESSION_COUNTERS => Self::VALUE_ALREADY_EXISTS,
            code => code,
        }
    }
}
