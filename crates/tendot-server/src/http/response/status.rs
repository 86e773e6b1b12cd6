//! HTTP statuses: of Handle response codes, as in Handle.Net's API, and of registry errors.

use http::StatusCode;
use tendot_proto::ResponseCode;
use tendot_registry::RegistryErrorKind;

use crate::http::response::codes;

/// HTTP status of a response code. 401 is used only where credentials would be accepted.
pub(crate) const fn status_for(code: ResponseCode, accepts_credentials: bool) -> StatusCode {
    match code {
        ResponseCode::SUCCESS | ResponseCode::VALUES_NOT_FOUND => StatusCode::OK,
        ResponseCode::HANDLE_NOT_FOUND => StatusCode::NOT_FOUND,
        ResponseCode::HANDLE_ALREADY_EXISTS | ResponseCode::VALUE_ALREADY_EXISTS => StatusCode::CONFLICT,
        ResponseCode::INVALID_HANDLE
        | ResponseCode::INVALID_VALUE
        | ResponseCode::PROTOCOL_ERROR
        | ResponseCode::SERVER_NOT_RESPONSIBLE => StatusCode::BAD_REQUEST,
        ResponseCode::SERVICE_REFERRAL | ResponseCode::PREFIX_REFERRAL => StatusCode::MULTIPLE_CHOICES,
        ResponseCode::AUTHENTICATION_NEEDED if accepts_credentials => StatusCode::UNAUTHORIZED,
        ResponseCode(400..=499) => StatusCode::FORBIDDEN,
        ResponseCode::SERVER_TOO_BUSY | ResponseCode::SERVER_BACKUP => StatusCode::SERVICE_UNAVAILABLE,
        ResponseCode::OPERATION_NOT_SUPPORTED => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// HTTP status of missing or invalid credentials: 401 only where credentials would be accepted.
pub(crate) const fn unauthenticated_status(accepts_credentials: bool) -> StatusCode {
    if accepts_credentials { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN }
}

/// Error code of missing or invalid credentials, for [`unauthenticated_status`].
pub(crate) const fn unauthenticated_code(accepts_credentials: bool) -> &'static str {
    if accepts_credentials { codes::UNAUTHENTICATED } else { codes::INSECURE_TRANSPORT }
}

/// HTTP status of a registry error.
pub(crate) const fn status_for_kind(kind: RegistryErrorKind) -> StatusCode {
    match kind {
        RegistryErrorKind::Malformed => StatusCode::BAD_REQUEST,
        RegistryErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        RegistryErrorKind::Forbidden => StatusCode::FORBIDDEN,
        RegistryErrorKind::NotFound => StatusCode::NOT_FOUND,
        RegistryErrorKind::Conflict => StatusCode::CONFLICT,
        RegistryErrorKind::Gone => StatusCode::GONE,
        RegistryErrorKind::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
        RegistryErrorKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        RegistryErrorKind::LimitReached => StatusCode::INSUFFICIENT_STORAGE,
        RegistryErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        RegistryErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// HTTP status of a registry error, as a number, for the documentation of error codes.
pub const fn registry_error_status(kind: RegistryErrorKind) -> u16 {
    status_for_kind(kind).as_u16()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        let found = |code, accepts_credentials| status_for(ResponseCode(code), accepts_credentials).as_u16();
        let expected =
            [(1, 200), (2, 500), (3, 503), (4, 400), (5, 501), (7, 503), (100, 404), (101, 409), (102, 400)];
        for (code, status) in expected {
            assert_eq!(found(code, true), status, "{code}");
        }
        for (code, status) in
            [(200, 200), (201, 409), (202, 400), (301, 400), (302, 300), (303, 300), (400, 403)]
        {
            assert_eq!(found(code, true), status, "{code}");
        }
        assert_eq!((found(402, true), found(402, false), found(403, true)), (401, 403, 403));
    }
}
