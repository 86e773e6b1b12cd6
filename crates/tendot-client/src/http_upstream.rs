//! Upstream resolver over HTTP (`/api/handles`).

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCEPT, AGE, CACHE_CONTROL, DATE, EXPIRES, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use http::{Request, StatusCode};
use http_body_util::Empty;
use percent_encoding::utf8_percent_encode;
use serde::Deserialize;
use tendot_proto::{Handle, HandleValue, ResponseCode, limits};

use crate::cdn_loop::CDN_LOOP;
use crate::certificate_trust::tls_config_with_roots;
use crate::http_client::{
    BaseUrl, HttpClient, HttpClientSettings, PATH_ENCODE_SET, ResponseBodyError, error_chain, read_body,
    user_agent,
};
use crate::upstream::{LookupOutcome, ResolveRequest, Upstream, UpstreamReply};

/// Maximum size of a response body.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Timeout from the request to the end of the response body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of connecting, shared by all addresses of the host: shorter than [`REQUEST_TIMEOUT`], so that one address that does not
/// respond does not use up the time of the others.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Upstream resolver that serves records as JSON at `/api/handles/`, such as doi.org.
#[derive(Clone, Debug)]
pub struct HttpUpstream {
    base_url: BaseUrl,
    client: HttpClient<Empty<Bytes>>,
}

/// Error of a request to an HTTP upstream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpUpstreamError {
    /// The base URL is invalid.
    #[error("invalid upstream URL `{base_url}`: {reason}")]
    InvalidBaseUrl {
        /// Base URL.
        base_url: String,
        /// Cause.
        reason: String,
    },
    /// The CA certificates cannot be read.
    #[error("invalid CA certificates: {reason}")]
    InvalidCaCertificates {
        /// Cause.
        reason: String,
    },
    /// The name has dot segments, which servers resolve to another path.
    #[error("`{name}` cannot be resolved over HTTP: dot segments (`.`, `..`) are not supported")]
    UnsupportedName {
        /// Requested name.
        name: String,
    },
    /// The response must be signed, but JSON over HTTP has no signature.
    #[error("{base_url} sends no signed responses over HTTP; use the native protocol")]
    NotCertified {
        /// Base URL.
        base_url: String,
    },
    /// The upstream detected a forwarding loop.
    #[error("forwarding loop detected at {base_url}")]
    LoopDetected {
        /// Base URL.
        base_url: String,
    },
    /// The connection failed.
    #[error("request to {base_url} failed: {reason}")]
    Connection {
        /// Base URL.
        base_url: String,
        /// Cause.
        reason: String,
    },
    /// No complete response in time.
    #[error("{base_url} timed out after {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout {
        /// Base URL.
        base_url: String,
    },
    /// The response is invalid.
    #[error("invalid response from {base_url}: {reason}")]
    InvalidResponse {
        /// Base URL.
        base_url: String,
        /// Cause.
        reason: String,
    },
}

/// JSON body of an `/api/handles` response.
#[derive(Deserialize)]
struct HandleApiResponse {
    #[serde(rename = "responseCode")]
    code: u32,
    handle: Option<String>,
    #[serde(default)]
    values: Vec<HandleValue<'static>>,
}

impl HttpUpstream {
    /// Upstream with a base URL such as `https://doi.org`.
    ///
    /// ```
    /// use tendot_client::HttpUpstream;
    ///
    /// assert!(HttpUpstream::new("https://doi.org/").is_ok());
    /// assert!(HttpUpstream::new("doi.org").is_err());
    /// ```
    pub fn new(base_url: &str) -> Result<Self, HttpUpstreamError> {
        let base_url = BaseUrl::parse(base_url).map_err(|reason| HttpUpstreamError::InvalidBaseUrl {
            base_url: base_url.into(),
            reason: reason.into(),
        })?;
        let settings = HttpClientSettings { connect_timeout: CONNECT_TIMEOUT, allows_http2: true, tls: None };
        Ok(Self { base_url, client: settings.build() })
    }

    /// Trusts these certificates (PEM) instead of the public CAs.
    pub fn with_ca_certificates(self, ca_certificates: &[u8]) -> Result<Self, HttpUpstreamError> {
        let tls = tls_config_with_roots(ca_certificates)
            .map_err(|reason| HttpUpstreamError::InvalidCaCertificates { reason })?;
        let settings =
            HttpClientSettings { connect_timeout: CONNECT_TIMEOUT, allows_http2: true, tls: Some(tls) };
        Ok(Self { client: settings.build(), ..self })
    }

    /// Base URL without a trailing slash.
    pub fn base_url(&self) -> &str {
        self.base_url.as_str()
    }

    fn connection_error(&self, reason: String) -> HttpUpstreamError {
        HttpUpstreamError::Connection { base_url: self.base_url.to_string(), reason }
    }

    fn invalid_response(&self, reason: String) -> HttpUpstreamError {
        HttpUpstreamError::InvalidResponse { base_url: self.base_url.to_string(), reason }
    }

    /// Response body, its `Age`, and its remaining freshness lifetime if the upstream states one.
    async fn fetch(
        &self,
        request: &ResolveRequest<'_>,
    ) -> Result<(Bytes, Duration, Option<Duration>), HttpUpstreamError> {
        let name = utf8_percent_encode(&request.name, PATH_ENCODE_SET);
        let query = if request.is_authoritative { "?auth" } else { "" };
        let mut http_request = Request::get(format!("{}/api/handles/{name}{query}", self.base_url))
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, user_agent());
        let cdn_loop = request.cdn_loop.as_str();
        if !cdn_loop.is_empty() {
            http_request = http_request.header(CDN_LOOP, cdn_loop);
        }
        let http_request =
            http_request.body(Empty::new()).map_err(|error| self.connection_error(error.to_string()))?;
        let response = self.client.request(http_request).await;
        let response = response.map_err(|error| self.connection_error(error_chain(&error)))?;
        let status = response.status();
        if status == StatusCode::LOOP_DETECTED || reports_loop(response.headers()) {
            return Err(HttpUpstreamError::LoopDetected { base_url: self.base_url.to_string() });
        }
        // 200 record, 404 not found, 400 not responsible; the body of any other status is not a reply.
        if !status.is_success() && !matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            return Err(self.invalid_response(format!("unexpected status {status}")));
        }
        let age = response.headers().get(AGE).and_then(|age| age.to_str().ok()?.parse::<u32>().ok());
        let age = Duration::from_secs(age.unwrap_or_default().into());
        let max_ttl = freshness_lifetime(response.headers(), SystemTime::now())
            .map(|lifetime| lifetime.saturating_sub(age));
        let body = read_body(response, MAX_BODY_BYTES).await.map_err(|error| match error {
            ResponseBodyError::TooLong { .. } => self.invalid_response(error.to_string()),
            ResponseBodyError::Connection(reason) => self.connection_error(reason),
        })?;
        Ok((body, age, max_ttl))
    }
}

impl Upstream for HttpUpstream {
    type Error = HttpUpstreamError;

    async fn resolve(&self, request: &ResolveRequest<'_>) -> Result<UpstreamReply, HttpUpstreamError> {
        let name = &*request.name;
        if name.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(HttpUpstreamError::UnsupportedName { name: name.into() });
        }
        if request.is_certified {
            return Err(HttpUpstreamError::NotCertified { base_url: self.base_url.to_string() });
        }
        let body = tokio::time::timeout(REQUEST_TIMEOUT, self.fetch(request));
        let (body, age, max_ttl) =
            body.await.map_err(|_| HttpUpstreamError::Timeout { base_url: self.base_url.to_string() })??;
        let mut body: HandleApiResponse =
            serde_json::from_slice(&body).map_err(|error| self.invalid_response(error.to_string()))?;
        if let Some(other) =
            body.handle.filter(|other| !Handle::from(&**other).eq_ignore_case(Handle::from(name)))
        {
            return Err(self.invalid_response(format!("response is for another handle: `{other}`")));
        }
        // Drop private values.
        body.values.retain(|value| value.is_public());
        let bytes: usize = body.values.iter().map(|value| value.data.len() + value.value_type.len()).sum();
        if body.values.len() > limits::MAX_VALUES || bytes > limits::MAX_MESSAGE_LEN {
            return Err(self
                .invalid_response(format!("record too large: {} values, {bytes} bytes", body.values.len())));
        }
        let outcome = match ResponseCode(body.code) {
            ResponseCode::SUCCESS if body.values.is_empty() => LookupOutcome::NoValues,
            ResponseCode::SUCCESS => LookupOutcome::Values(body.values),
            ResponseCode::VALUES_NOT_FOUND => LookupOutcome::NoValues,
            ResponseCode::HANDLE_NOT_FOUND => LookupOutcome::NotFound,
            ResponseCode::SERVER_NOT_RESPONSIBLE => LookupOutcome::NotResponsible,
            code => return Err(self.invalid_response(format!("unexpected response code {}", code.0))),
        };
        Ok(UpstreamReply { outcome, age, max_ttl })
    }
}

/// Whether the upstream reports a forwarding loop: its own status is 500, because its response code is 2.
fn reports_loop(headers: &HeaderMap) -> bool {
    const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
    let lines = headers.get_all(CACHE_STATUS).iter().filter_map(|line| line.to_str().ok());
    let mut parameters = lines.flat_map(|line| line.split([';', ',']));
    parameters.any(|parameter| parameter.trim() == "detail=upstream-loop")
}

/// Freshness lifetime (RFC 9111, section 4.2.1): `s-maxage` or `max-age` in `Cache-Control`, or else `Expires` minus `Date`; zero
/// if the response must not be reused. `None` if it states nothing; the TTLs of the values apply alone then.
fn freshness_lifetime(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let mut max_age = None;
    let mut shared_max_age = None;
    for directive in lines.flat_map(|line| line.split(',')) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        // A larger number means the maximum (RFC 9111, section 1.2.2); an invalid one means stale.
        let seconds = || {
            let value = value.trim().trim_matches('"');
            let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let seconds = if is_number { value.parse().unwrap_or(u32::MAX) } else { 0 };
            Some(Duration::from_secs(seconds.into()))
        };
        match name.trim().to_ascii_lowercase().as_str() {
            "no-cache" | "no-store" => return Some(Duration::ZERO),
            "max-age" => max_age = max_age.or_else(seconds),
            "s-maxage" => shared_max_age = shared_max_age.or_else(seconds),
            _ => {}
        }
    }
    shared_max_age.or(max_age).or_else(|| expiry(headers, now))
}

/// Lifetime in `Expires`. An invalid date, such as `0`, is in the past (RFC 9111, section 5.3).
fn expiry(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let date = |value: &HeaderValue| httpdate::parse_http_date(value.to_str().ok()?).ok();
    let expires = date(headers.get(EXPIRES)?);
    let sent = headers.get(DATE).and_then(date).unwrap_or(now);
    Some(expires.and_then(|expires| expires.duration_since(sent).ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_lifetimes() {
        for (control, expected) in [
            ("", None),
            ("public", None),
            ("public, max-age=3", Some(3)),
            ("Max-Age = \"7\"", Some(7)),
            ("max-age=60, s-maxage=5", Some(5)),
            ("max-age=60, no-cache", Some(0)),
            ("private, no-store", Some(0)),
            ("max-age=x", Some(0)),
            ("max-age=99999999999999999999", Some(u32::MAX.into())),
        ] {
            let headers = HeaderMap::from_iter([(CACHE_CONTROL, control.parse().unwrap())]);
            let found = freshness_lifetime(&headers, SystemTime::UNIX_EPOCH);
            assert_eq!(found, expected.map(Duration::from_secs), "{control}");
        }
        assert_eq!(freshness_lifetime(&HeaderMap::new(), SystemTime::UNIX_EPOCH), None);
    }

    #[test]
    fn expiry_dates() {
        let (sent, later) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:37 GMT");
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:50:07 GMT").unwrap();
        for (control, date, expires, expected) in [
            ("", Some(sent), later, 60),
            ("", None, later, 30),
            ("public", Some(later), sent, 0),
            ("", Some(sent), "0", 0),
            ("max-age=5", Some(sent), later, 5),
            ("no-cache", Some(sent), later, 0),
        ] {
            let mut headers = HeaderMap::from_iter([(CACHE_CONTROL, control.parse().unwrap())]);
            headers.insert(EXPIRES, expires.parse().unwrap());
            headers.extend(date.map(|date| (DATE, HeaderValue::from_static(date))));
            let found = freshness_lifetime(&headers, now);
            assert_eq!(found, Some(Duration::from_secs(expected)), "{control} {date:?} {expires}");
        }
    }

    #[test]
    fn loops_in_cache_status() {
        const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
        for (status, expected) in [
            ("tendot; fwd=miss", false),
            ("tendot; detail=upstream-loop", true),
            ("edge; fwd=miss, tendot; fwd=miss; detail=upstream-loop", true),
            ("tendot; detail=upstream-loops", false),
        ] {
            let headers = HeaderMap::from_iter([(CACHE_STATUS, status.parse().unwrap())]);
            assert_eq!(reports_loop(&headers), expected, "{status}");
        }
    }
}
