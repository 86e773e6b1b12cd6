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
use http::{Method, Request, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use percent_encoding::utf8_percent_encode;
use serde::Serialize;
use upload::{STALL_TIMEOUT, UploadBody};

use crate::certificate_trust::tls_config_with_roots;
use crate::http_client::{
    BaseUrl, HttpClient, HttpClientSettings, ResponseBodyError, SEGMENT_ENCODE_SET, error_chain, read_body,
    user_agent,
};

/// Maximum size of a response body; a list of a thousand names with metadata is smaller.
const MAX_BODY_BYTES: usize = 64 << 20;

/// Timeout from a request to the end of its response; long, because closing an agency with all its names takes time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Request body: buffered, or streamed from a reader.
type RequestBody = Either<Full<Bytes>, UploadBody>;

/// Client of a service's registry API (`/api/v1`).
#[derive(Clone, Debug)]
pub struct RegistryClient {
    base_url: BaseUrl,
    token: Option<HeaderValue>,
    client: HttpClient<RequestBody>,
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
        let base_url = BaseUrl::parse(base_url).map_err(|reason| RegistryClientError::InvalidBaseUrl {
            base_url: base_url.into(),
            reason: reason.into(),
        })?;
        if token.is_some() && base_url.is_clear_text() {
            return Err(RegistryClientError::InsecureTransport { base_url: base_url.to_string() });
        }
        let token = token.map(|token| {
            let mut header = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| RegistryClientError::InvalidToken)?;
            header.set_sensitive(true);
            Ok(header)
        });
        let tls = ca_certificates
            .map(tls_config_with_roots)
            .transpose()
            .map_err(|reason| RegistryClientError::InvalidCaCertificates { reason })?;
        // HTTP/1 only: a batch streams both ways, over a connection of its own.
        let settings = HttpClientSettings { connect_timeout: CONNECT_TIMEOUT, allows_http2: false, tls };
        Ok(Self { base_url, token: token.transpose()?, client: settings.build() })
    }

    /// Base URL without a trailing slash.
    pub fn base_url(&self) -> &str {
        self.base_url.as_str()
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
    pub async fn delete(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<RegistryReply, RegistryClientError> {
        self.send(self.request(Method::DELETE, path, query), Bytes::new()).await
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
            .header(USER_AGENT, user_agent());
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
        read_body(response, MAX_BODY_BYTES).await.map_err(|error| match error {
            ResponseBodyError::TooLong { .. } => self.invalid_response(error.to_string()),
            ResponseBodyError::Connection(reason) => self.connection_lost(&reason),
        })
    }

    async fn read_problem(&self, response: Response<Incoming>) -> RegistryClientError {
        let status = response.status();
        match self.read_body(response).await.map(|body| serde_json::from_slice::<RegistryProblem>(&body)) {
            Ok(Ok(problem)) if problem.status == status.as_u16() => {
                RegistryClientError::Problem(problem.into())
            }
            Ok(_) => RegistryClientError::UnexpectedStatus { base_url: self.base_url.to_string(), status },
            Err(error) => error,
        }
    }

    fn transport_error(&self, error: &hyper_util::client::legacy::Error) -> RegistryClientError {
        let (base_url, reason) = (self.base_url.to_string(), error_chain(error));
        if error.is_connect() {
            RegistryClientError::Unreachable { base_url, reason }
        } else {
            RegistryClientError::ConnectionLost { base_url, reason }
        }
    }

    fn invalid_request(&self, error: &http::Error) -> RegistryClientError {
        RegistryClientError::InvalidBaseUrl { base_url: self.base_url.to_string(), reason: error.to_string() }
    }

    fn connection_lost(&self, reason: &str) -> RegistryClientError {
        RegistryClientError::ConnectionLost { base_url: self.base_url.to_string(), reason: reason.into() }
    }

    fn stalled(&self) -> RegistryClientError {
        self.connection_lost(&format!("no progress for {} s", STALL_TIMEOUT.as_secs()))
    }

    fn invalid_response(&self, reason: String) -> RegistryClientError {
        RegistryClientError::InvalidResponse { base_url: self.base_url.to_string(), reason }
    }
}

fn to_json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).unwrap_or_default().into()
}
