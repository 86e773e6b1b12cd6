//! `Authorization` header, and the check for cross-site requests.

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};

use crate::http::authentication::{AuthParams, AuthenticationError};
use crate::http::request::request_head::RequestHead;

/// Credentials of an `Authorization` header: Basic, Bearer or Handle.
pub(crate) enum HttpCredentials<'h> {
    Basic(&'h str),
    Bearer(&'h str),
    Handle(AuthParams),
}

impl<'h> HttpCredentials<'h> {
    /// Parses the `Authorization` header where credentials are accepted; elsewhere it is ignored, as in Handle.Net.
    pub(crate) fn from_request(request: &RequestHead<'h>) -> Result<Option<Self>, AuthenticationError> {
        let header = request.headers.get(AUTHORIZATION).filter(|_| request.accepts_credentials);
        header.map(Self::parse).transpose()
    }

    fn parse(header: &'h HeaderValue) -> Result<Self, AuthenticationError> {
        let malformed = AuthenticationError::Malformed;
        let (scheme, rest) = header.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(malformed)?;
        match scheme.to_ascii_lowercase().as_str() {
            "basic" => Ok(Self::Basic(rest.trim())),
            "bearer" => Ok(Self::Bearer(rest.trim())),
            "handle" => AuthParams::from_header(rest).map(Self::Handle),
            _ => Err(malformed),
        }
    }
}

/// Whether a browser added its user's credentials to a form or script request of another site. Requests of a page's own scripts
/// (`cors`) carry only credentials that the script knows.
pub(crate) fn is_cross_site_credential(headers: &HeaderMap) -> bool {
    let is_any = |name: &str, values: &[&[u8]]| {
        headers.get(name).is_some_and(|value| values.contains(&value.as_bytes()))
    };
    is_any("sec-fetch-site", &[b"cross-site", b"same-site"]) && !is_any("sec-fetch-mode", &[b"cors"])
}
