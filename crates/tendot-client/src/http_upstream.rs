//! Upstream resolver over HTTP (`/api/handles`).

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AGE, HeaderValue, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tendot_proto::{Handle, HandleValue, ResponseCode, limits};

use crate::cdn_loop::CDN_LOOP;
use crate::http_client::error_chain;
use crate::upstream::{LookupOutcome, ResolveRequest, Upstream, UpstreamReply};

/// Maximum size of a response body.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Timeout from the request to the end of the response body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Characters to percent-encode in a path: all but unreserved ones (RFC 3986) and `/`.
const PATH_ENCODE_SET: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Upstream resolver that serves records as JSON at `/api/handles/`, such as doi.org.
#[derive(Clone, Debug)]
pub struct HttpUpstream {
    /// Base URL without a trailing slash.
    base_url: String,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
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
        let invalid = |reason: &str| HttpUpstreamError::InvalidBaseUrl {
            base_url: base_url.into(),
            reason: reason.into(),
        };
        let uri: Uri = base_url.parse().map_err(|_| invalid("not a valid URL"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(invalid("expected `https://HOST` or `http://HOST`"));
        }
        if uri.query().is_some() {
            return Err(invalid("query string not allowed"));
        }
        // The base URL appears in error pages, so it must not have credentials.
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(invalid("user name not allowed"));
        }
        let connector = HttpsConnectorBuilder::new()
            .with_webpki_roots()
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .build();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .build(connector);
        Ok(Self { base_url: base_url.trim_end_matches('/').into(), client })
    }

    /// Base URL without a trailing slash.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Response body and its `Age`.
    async fn fetch(&self, request: &ResolveRequest<'_>) -> Result<(Bytes, Duration), HttpUpstreamError> {
        let connection_error =
            |reason: String| HttpUpstreamError::Connection { base_url: self.base_url.clone(), reason };
        let invalid_response =
            |reason: String| HttpUpstreamError::InvalidResponse { base_url: self.base_url.clone(), reason };
        let name = utf8_percent_encode(&request.name, PATH_ENCODE_SET);
        let query = if request.is_authoritative { "?auth" } else { "" };
        let mut http_request = Request::get(format!("{}/api/handles/{name}{query}", self.base_url))
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, HeaderValue::from_static(concat!("tendot/", env!("CARGO_PKG_VERSION"))));
        if !request.cdn_loop.is_empty() {
            http_request = http_request.header(CDN_LOOP, &*request.cdn_loop);
        }
        let http_request =
            http_request.body(Empty::new()).map_err(|error| connection_error(error.to_string()))?;
        let response = self.client.request(http_request).await;
        let response = response.map_err(|error| connection_error(error_chain(&error)))?;
        let status = response.status();
        if status == StatusCode::LOOP_DETECTED {
            return Err(HttpUpstreamError::LoopDetected { base_url: self.base_url.clone() });
        }
        // 200 record, 404 not found, 400 not responsible; the body of any other status is not a reply.
        if !status.is_success() && !matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            return Err(invalid_response(format!("unexpected status {status}")));
        }
        let age = response.headers().get(AGE).and_then(|age| age.to_str().ok()?.parse::<u32>().ok());
        let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                invalid_response(format!("response exceeds {MAX_BODY_BYTES} bytes"))
            } else {
                connection_error(error.to_string())
            }
        })?;
        Ok((body.to_bytes(), Duration::from_secs(age.unwrap_or_default().into())))
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
            body.await.map_err(|_| HttpUpstreamError::Timeout { base_url: self.base_url.clone() })??;
        let invalid_response =
            |reason: String| HttpUpstreamError::InvalidResponse { base_url: self.base_url.clone(), reason };
        let mut body: HandleApiResponse =
            serde_json::from_slice(&body).map_err(|error| invalid_response(error.to_string()))?;
        if let Some(other) =
            body.handle.filter(|other| !Handle::from(&**other).eq_ignore_case(Handle::from(name)))
        {
            return Err(invalid_response(format!("response is for another handle: `{other}`")));
        }
        // Drop private values.
        body.values.retain(|value| value.permissions.is_public());
        let bytes: usize = body.values.iter().map(|value| value.data.len() + value.value_type.len()).sum();
        if body.values.len() > limits::MAX_VALUES || bytes > limits::MAX_MESSAGE_LEN {
            return Err(invalid_response(format!(
                "record too large: {} values, {bytes} bytes",
                body.values.len()
            )));
        }
        let outcome = match ResponseCode(body.code) {
            ResponseCode::SUCCESS if body.values.is_empty() => LookupOutcome::NoValues,
            ResponseCode::SUCCESS => LookupOutcome::Values(body.values),
            ResponseCode::VALUES_NOT_FOUND => LookupOutcome::NoValues,
            ResponseCode::HANDLE_NOT_FOUND => LookupOutcome::NotFound,
            ResponseCode::SERVER_NOT_RESPONSIBLE => LookupOutcome::NotResponsible,
            code => return Err(invalid_response(format!("unexpected response code {}", code.0))),
        };
        Ok(UpstreamReply { outcome, age })
    }
}
