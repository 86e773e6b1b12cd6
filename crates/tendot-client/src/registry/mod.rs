//! Client of the registry API (`/api/v1`).
//!
//! Files in reading order: this one sends single requests; `error.rs` has the client error and problem details, `batch.rs`
//! uploads batches, `upload.rs` is the streamed request body of a batch.

mod batch;
mod error;
mod upload;

use std::time::Duration;

pub use batch::{BatchOptions, BatchResultStream};
use bytes::Bytes;
pub use error::{ProblemFault, RegistryClientError, RegistryProblem};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH, USER_AGENT};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use upload::{STALL_TIMEOUT, UploadBody};

use crate::http_client::{error_chain, is_loopback_host, tls_config_with_roots};

/// Maximum size of a response body; a list of a thousand names with metadata is smaller.
const MAX_BODY_BYTES: usize = 64 << 20;

/// Timeout from a request to the end of its response; long, because closing an agency with all its names takes time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Characters to percent-encode in a path segment or query value: all but unreserved ones (RFC 3986).
///
/// A `/` in a name is encoded, too, so that no segment is `..`.
const SEGMENT_ENCODE_SET: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Request body: buffered, or streamed from a reader.
type RequestBody = Either<Full<Bytes>, UploadBody>;

/// Client of a service's registry API (`/api/v1`).
#[derive(Clone, Debug)]
pub struct RegistryClient {
    /// Base URL without a trailing slash.
    base_url: String,
    token: Option<HeaderValue>,
    client: Client<HttpsConnector<HttpConnector>, RequestBody>,
}

/// Successful reply of the registry API.
#[derive(Clone, Debug)]
pub struct RegistryReply {
    /// JSON body; may be empty.
    pub body: Bytes,
    /// Revision (`ETag`) of the resource, for [`RegistryClient::put`].
    pub revision: Option<String>,
}

impl RegistryClient {
    /// Client of the service at `base_url`, with an API token. `ca_certificates` (PEM) replace the public CAs.
    ///
    /// ```
    /// use tendot_client::RegistryClient;
    ///
    /// assert!(RegistryClient::new("http://127.0.0.1:8080", Some("secret"), None).is_ok());
    /// assert!(RegistryClient::new("https://registry.example.org/", Some("secret"), None).is_ok());
    /// // A token is not sent to another host over plain HTTP.
    /// assert!(RegistryClient::new("http://registry.example.org/", Some("secret"), None).is_err());
    /// ```
    pub fn new(
        base_url: &str,
        token: Option<&str>,
        ca_certificates: Option<&[u8]>,
    ) -> Result<Self, RegistryClientError> {
        let invalid = |reason: &str| RegistryClientError::InvalidBaseUrl {
            base_url: base_url.into(),
            reason: reason.into(),
        };
        let uri: Uri = base_url.parse().map_err(|_| invalid("not a valid URL"))?;
        let host = uri.host().unwrap_or_default();
        if !matches!(uri.scheme_str(), Some("http" | "https")) || host.is_empty() {
            return Err(invalid("expected `https://HOST` or `http://HOST`"));
        }
        if uri.query().is_some() {
            return Err(invalid("query string not allowed"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(invalid("user name not allowed; use a token"));
        }
        let base_url = base_url.trim_end_matches('/').to_owned();
        if token.is_some() && uri.scheme_str() == Some("http") && !is_loopback_host(host) {
            return Err(RegistryClientError::InsecureTransport { base_url });
        }
        let token = token.map(|token| {
            let mut header = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| RegistryClientError::InvalidToken)?;
            header.set_sensitive(true);
            Ok(header)
        });
        let builder = match ca_certificates {
            None => HttpsConnectorBuilder::new().with_webpki_roots(),
            Some(pem) => {
                let config = tls_config_with_roots(pem)
                    .map_err(|reason| RegistryClientError::InvalidCaCertificates { reason })?;
                HttpsConnectorBuilder::new().with_tls_config(config)
            }
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(Duration::from_secs(15)));
        let connector = builder.https_or_http().enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(Self { base_url, token: token.transpose()?, client })
    }

    /// Base URL without a trailing slash.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Whether requests carry a token.
    pub const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Reads a resource: path segments after `/api/v1`, and query parameters.
    pub async fn get(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<RegistryReply, RegistryClientError> {
        self.send(self.request(Method::GET, path, query), Bytes::new()).await
    }

    /// Creates a resource.
    pub async fn post(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        body: &impl Serialize,
    ) -> Result<RegistryReply, RegistryClientError> {
        self.send(self.request(Method::POST, path, query), to_json(body)).await
    }

    /// Updates a resource; with a revision, only if it is still current (`If-Match`).
    pub async fn put(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        body: &impl Serialize,
        revision: Option<&str>,
    ) -> Result<RegistryReply, RegistryClientError> {
        let mut request = self.request(Method::PUT, path, query);
        if let Some(revision) = revision {
            request = request.header(IF_MATCH, revision);
        }
        self.send(request, to_json(body)).await
    }

    /// Deletes a resource.
    pub async fn delete(&self, path: &[&str]) -> Result<RegistryReply, RegistryClientError> {
        self.send(self.request(Method::DELETE, path, &[]), Bytes::new()).await
    }

    fn request(&self, method: Method, path: &[&str], query: &[(&str, &str)]) -> http::request::Builder {
        let mut url = format!("{}/api/v1", self.base_url);
        for segment in path {
            url += &format!("/{}", utf8_percent_encode(segment, SEGMENT_ENCODE_SET));
        }
        for (index, (name, value)) in query.iter().enumerate() {
            let separator = if index == 0 { '?' } else { '&' };
            url += &format!("{separator}{name}={}", utf8_percent_encode(value, SEGMENT_ENCODE_SET));
        }
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .header(ACCEPT, "application/json, application/problem+json, application/x-ndjson")
            .header(USER_AGENT, concat!("tendot/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        request
    }

    async fn send(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<RegistryReply, RegistryClientError> {
        let request =
            if body.is_empty() { request } else { request.header(CONTENT_TYPE, "application/json") };
        let request =
            request.body(Either::Left(Full::new(body))).map_err(|error| self.invalid_request(&error))?;
        let reply = async {
            let response =
                self.client.request(request).await.map_err(|error| self.transport_error(&error))?;
            if !response.status().is_success() {
                return Err(self.read_problem(response).await);
            }
            let revision = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(Into::into);
            Ok(RegistryReply { body: self.read_body(response).await?, revision })
        };
        let timed_out =
            || self.connection_lost(&format!("no response within {} s", REQUEST_TIMEOUT.as_secs()));
        tokio::time::timeout(REQUEST_TIMEOUT, reply).await.unwrap_or_else(|_| Err(timed_out()))
    }

    async fn read_body(&self, response: Response<Incoming>) -> Result<Bytes, RegistryClientError> {
        let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                self.invalid_response(format!("response exceeds {MAX_BODY_BYTES} bytes"))
            } else {
                self.connection_lost(&error_chain(&*error))
            }
        })?;
        Ok(body.to_bytes())
    }

    async fn read_problem(&self, response: Response<Incoming>) -> RegistryClientError {
        let status = response.status();
        match self.read_body(response).await.map(|body| serde_json::from_slice::<RegistryProblem>(&body)) {
            Ok(Ok(problem)) if problem.status == status.as_u16() => {
                RegistryClientError::Problem(problem.into())
            }
            Ok(_) => RegistryClientError::UnexpectedStatus { base_url: self.base_url.clone(), status },
            Err(error) => error,
        }
    }

    fn transport_error(&self, error: &hyper_util::client::legacy::Error) -> RegistryClientError {
        let (base_url, reason) = (self.base_url.clone(), error_chain(error));
        if error.is_connect() {
            RegistryClientError::Unreachable { base_url, reason }
        } else {
            RegistryClientError::ConnectionLost { base_url, reason }
        }
    }

    fn invalid_request(&self, error: &http::Error) -> RegistryClientError {
        RegistryClientError::InvalidBaseUrl { base_url: self.base_url.clone(), reason: error.to_string() }
    }

    fn connection_lost(&self, reason: &str) -> RegistryClientError {
        RegistryClientError::ConnectionLost { base_url: self.base_url.clone(), reason: reason.into() }
    }

    fn stalled(&self) -> RegistryClientError {
        self.connection_lost(&format!("no progress for {} s", STALL_TIMEOUT.as_secs()))
    }

    fn invalid_response(&self, reason: String) -> RegistryClientError {
        RegistryClientError::InvalidResponse { base_url: self.base_url.clone(), reason }
    }
}

fn to_json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).unwrap_or_default().into()
}
