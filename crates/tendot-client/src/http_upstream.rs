//! Upstream resolver over HTTP (`/api/handles`).

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AGE, HeaderValue, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::Empty;
use percent_encoding::utf8_percent_encode;
use serde::Deserialize;
use tendot_proto::{Handle, HandleValue, ResponseCode, limits};

use crate::cdn_loop::CDN_LOOP;
use crate::certificate_trust::tls_config_with_roots;
use crate::http_client::{
    BaseUrl, BodyError, HttpClient, HttpClientSettings, PATH_ENCODE_SET, error_chain, read_body, user_agent,
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
    /// The upstream detected a forwarding loop (status 508).
    #[error("forwarding loop detected at {base_url} (status 508)")]
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

    /// Response body and its `Age`.
    async fn fetch(&self, request: &ResolveRequest<'_>) -> Result<(Bytes, Duration), HttpUpstreamError> {
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
        if status == StatusCode::LOOP_DETECTED {
            return Err(HttpUpstreamError::LoopDetected { base_url: self.base_url.to_string() });
        }
        // 200 record, 404 not found, 400 not responsible; the body of any other status is not a reply.
        if !status.is_success() && !matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            return Err(self.invalid_response(format!("unexpected status {status}")));
        }
        let age = response.headers().get(AGE).and_then(|age| age.to_str().ok()?.parse::<u32>().ok());
        let body = read_body(response, MAX_BODY_BYTES).await.map_err(|error| match error {
            BodyError::TooLong { .. } => self.invalid_response(error.to_string()),
            BodyError::Connection(reason) => self.connection_error(reason),
        })?;
        Ok((body, Duration::from_secs(age.unwrap_or_default().into())))
    }
}

impl Upstream for HttpUpstream {
    type Error = HttpUpstreamError;

    async fn resolve(&self, request: &ResolveRequest<'_>) -> Result<UpstreamReply, HttpUpstreamError> {
        let name = &*request.name;
        if name.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(HttpUpstreamError::UnsupportedName { name: name.into() });
        }
        let body = tokio::time::timeout(REQUEST_TIMEOUT, self.fetch(request));
        let (body, age) =
            body.await.map_err(|_| HttpUpstreamError::Timeout { base_url: self.base_url.to_string() })??;
        let mut body: HandleApiResponse =
            serde_json::from_slice(&body).map_err(|error| self.invalid_response(error.to_string()))?;
        if let Some(other) =
            body.handle.filter(|other| !Handle::from(&**other).eq_ignore_case(Handle::from(name)))
        {
            return Err(self.invalid_response(format!("response is for another handle: `{other}`")));
        }
        // Drop private values.
        body.values.retain(|value| value.permissions.is_public());
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
        Ok(UpstreamReply { outcome, age })
    }
}
