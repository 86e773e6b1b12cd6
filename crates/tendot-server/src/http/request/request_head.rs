//! Head of a request, as handlers read it.

use std::net::IpAddr;
use std::time::SystemTime;

use http::{HeaderMap, Version, header};

use crate::http::authentication::AuthenticationCell;
use crate::http::pages::ServiceIdentity;
use crate::http::request::query::QueryParams;

/// Head of a request: query, headers, HTTP version and client facts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestHead<'a> {
    /// Query, not decoded.
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) version: Version,
    /// Client address, if known.
    pub(crate) client: Option<IpAddr>,
    /// Whether the client is on loopback.
    pub(crate) is_loopback: bool,
    /// Whether a trusted proxy forwarded the request.
    pub(crate) is_proxied: bool,
    /// Whether credentials are accepted on this connection.
    pub(crate) accepts_credentials: bool,
    /// Client certificate.
    pub(crate) certificate: Option<&'a [u8]>,
    /// Result of the authentication, once it is known.
    pub(crate) authentication: &'a AuthenticationCell,
    /// Operator and resolver, for pages.
    pub(crate) identity: &'a ServiceIdentity,
    /// Time of the request.
    pub(crate) now: SystemTime,
}

/// Whether a request may be answered with slightly stale data: it has no credentials and does not request authoritative data.
pub(crate) fn tolerates_stale(request: &RequestHead<'_>) -> bool {
    let has_credentials =
        request.headers.contains_key(header::AUTHORIZATION) || request.certificate.is_some();
    let is_authoritative = request.query.is_some()
        && QueryParams::parse(request.query).is_ok_and(|parameters| parameters.has("auth"));
    !has_credentials && !is_authoritative
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authoritative_requests_do_not_tolerate_stale_data() {
        let (headers, mut authorized) = (HeaderMap::new(), HeaderMap::new());
        authorized.insert(header::AUTHORIZATION, header::HeaderValue::from_static("Bearer x"));
        let request = |query: Option<&'static str>, headers: &HeaderMap, certificate: Option<&[u8]>| {
            tolerates_stale(&RequestHead {
                query,
                headers,
                version: Version::HTTP_11,
                client: None,
                is_loopback: false,
                is_proxied: false,
                accepts_credentials: true,
                certificate,
                authentication: &AuthenticationCell::default(),
                identity: &ServiceIdentity::default(),
                now: SystemTime::UNIX_EPOCH,
            })
        };
        // Parameters that only contain the word.
        for query in [None, Some(""), Some("author=x"), Some("locatt=auth:1"), Some("a=b&authoritative")] {
            assert!(request(query, &headers, None), "{query:?}");
        }
        for query in ["auth", "auth=true", "%61uth", "a=b&auth=true", "a=b&au%74h"] {
            assert!(!request(Some(query), &headers, None), "{query}");
        }
        assert!(!request(None, &authorized, None));
        assert!(!request(None, &headers, Some(b"certificate")));
    }
}
