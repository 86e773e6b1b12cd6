//! The registry of a service, asked at its `/api/v1`: one question at a time, or a batch of any size.

use std::io::{self, Read};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_MATCH, USER_AGENT,
};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::http::error_chain;

/// Bytes of an answer that are read; a list of a thousand names with their metadata has less.
const MAX_BODY_BYTES: usize = 64 << 20;

/// Bytes of a line of a batch's answer.
const MAX_LINE_BYTES: usize = 1 << 20;

/// From a question to the end of its answer. Ending an agency with all that it has takes its time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);

/// How long nothing may move in a batch until it is taken for cut.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that are read from a source at once, and how many such pieces wait to be sent.
const CHUNK_BYTES: usize = 1 << 16;
const MAX_QUEUED_CHUNKS: usize = 4;

/// What stands in a part of a path, or in a query, as it is. A slash in a name does not, so that no part of it is `..`.
const SEGMENT_ENCODE_SET: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Said of answers that were given before.
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Request body: buffered, or streamed from a reader.
type RequestBody = Either<Full<Bytes>, UploadBody>;

/// Client of a service's registry API (`/api/v1`).
#[derive(Clone, Debug)]
pub struct RegistryClient {
    /// Without a slash at its end.
    base: String,
    token: Option<HeaderValue>,
    client: Client<HttpsConnector<HttpConnector>, RequestBody>,
}

/// Successful reply of the registry API.
#[derive(Clone, Debug)]
pub struct RegistryReply {
    /// JSON; empty if there is nothing to say.
    pub body: Bytes,
    /// The revision of what it is about, for [`RegistryClient::put`].
    pub revision: Option<String>,
}

/// Problem details returned by the registry API (RFC 9457).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RegistryProblem {
    /// As in HTTP.
    pub status: u16,
    /// What it is called, for programs.
    pub code: String,
    /// What is wrong, for people.
    pub detail: String,
    /// Where in what was sent, as a JSON pointer.
    pub pointer: Option<String>,
    /// What to do instead.
    pub hint: Option<String>,
    /// The name that is there already.
    pub existing: Option<String>,
    /// Since when it is.
    pub since: Option<String>,
    /// All that is wrong with metadata.
    pub faults: Vec<ProblemFault>,
}

/// One invalid metadata element of a problem: JSON pointer and message.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ProblemFault {
    /// Where, as a JSON pointer.
    pub pointer: String,
    /// What.
    pub message: String,
}

/// Error of a registry API request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryClientError {
    /// The address is none that can be asked.
    #[error("`{base}` is no address of a service: {why}")]
    Base {
        /// The address.
        base: String,
        /// What is wrong with it.
        why: String,
    },
    /// The certificates to be believed cannot be.
    #[error("no certificate can be read: {why}")]
    Certificates {
        /// What is wrong.
        why: String,
    },
    /// The token cannot be sent.
    #[error("the token is none: it has characters that no token has")]
    Token,
    /// The token would be sent for everybody to read.
    #[error("{base} is not on this machine, and without TLS the token could be read on the way")]
    InTheClear {
        /// Who was to be asked.
        base: String,
    },
    /// Nobody is there.
    #[error("{base} can't be reached: {why}")]
    Unreachable {
        /// Who was asked.
        base: String,
        /// What happened.
        why: String,
    },
    /// The connection ended before the answer did.
    #[error("the connection to {base} was cut: {why}")]
    Cut {
        /// Who was asked.
        base: String,
        /// What happened.
        why: String,
    },
    /// The answer is none to what was asked.
    #[error("{base} gave an answer that is none: {why}")]
    Answer {
        /// Who was asked.
        base: String,
        /// What is wrong.
        why: String,
    },
    /// Somebody said no who is not the registry: a proxy before it, or a limit.
    #[error("{base} answered with status {status}")]
    Status {
        /// Who was asked.
        base: String,
        /// As in HTTP.
        status: StatusCode,
    },
    /// What was to be sent cannot be read.
    #[error("{0}")]
    Source(io::Error),
    /// The registry did not do it.
    #[error("{}", .0.detail)]
    Problem(Box<RegistryProblem>),
}

/// Options of a batch upload.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchOptions<'a> {
    /// The lines are rows of a table (CSV) rather than JSON.
    pub is_table: bool,
    /// Only to learn what would be done.
    pub dry_run: bool,
    /// By which the registry knows the batch when it is sent again.
    pub key: Option<&'a str>,
    /// The source may keep us waiting, so that it is no sign of a broken connection when nothing moves.
    pub is_slow: bool,
}

impl RegistryClient {
    /// The registry of the service at an address.
    ///
    /// `trusted` are certificates in PEM to be believed instead of those of public authorities.
    ///
    /// ```
    /// use tendot_client::RegistryClient;
    ///
    /// assert!(RegistryClient::new("http://127.0.0.1:8080", Some("secret"), None).is_ok());
    /// assert!(RegistryClient::new("https://registry.example.org/", Some("secret"), None).is_ok());
    /// // Everybody on the way could read the token.
    /// assert!(RegistryClient::new("http://registry.example.org/", Some("secret"), None).is_err());
    /// ```
    pub fn new(base: &str, token: Option<&str>, trusted: Option<&[u8]>) -> Result<Self, RegistryClientError> {
        let wrong = |why: &str| RegistryClientError::Base { base: base.into(), why: why.into() };
        let uri: Uri = base.parse().map_err(|_| wrong("it is not written as one"))?;
        let host = uri.host().unwrap_or_default();
        if !matches!(uri.scheme_str(), Some("http" | "https")) || host.is_empty() {
            return Err(wrong("it has to begin with `https://` or `http://` and a host"));
        }
        if uri.query().is_some() {
            return Err(wrong("it has a `?`"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong("it has a user name; credentials are a token"));
        }
        let base = base.trim_end_matches('/').to_owned();
        if token.is_some() && uri.scheme_str() == Some("http") && !is_loopback_host(host) {
            return Err(RegistryClientError::InTheClear { base });
        }
        let token = token.map(|token| {
            let mut header =
                HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| RegistryClientError::Token)?;
            header.set_sensitive(true);
            Ok(header)
        });
        let builder = match trusted {
            None => HttpsConnectorBuilder::new().with_webpki_roots(),
            Some(pem) => HttpsConnectorBuilder::new().with_tls_config(tls_config_with_roots(pem)?),
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(Duration::from_secs(15)));
        let connector = builder.https_or_http().enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(Self { base, token: token.transpose()?, client })
    }

    /// Its address, as it was given.
    pub fn base_url(&self) -> &str {
        &self.base
    }

    /// Whether requests carry a token.
    pub const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Reads something: the parts of its path after `/api/v1`, and what is asked of it.
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

    /// Ends something.
    pub async fn delete(&self, path: &[&str]) -> Result<RegistryReply, RegistryClientError> {
        self.send(self.request(Method::DELETE, path, &[]), Bytes::new()).await
    }

    /// Uploads a batch and streams its results while it is sent.
    pub async fn batch(
        &self,
        options: &BatchOptions<'_>,
        source: impl Read + Send + 'static,
    ) -> Result<BatchResultStream, RegistryClientError> {
        let query: &[_] = if options.dry_run { &[("dry-run", "true")] } else { &[] };
        let kind = if options.is_table { "text/csv" } else { "application/x-ndjson" };
        let mut request = self.request(Method::POST, &["dois", "batch"], query).header(CONTENT_TYPE, kind);
        if let Some(key) = options.key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        let watch = Arc::new(UploadProgress::default());
        let pieces = UploadBody::spawn(source, Arc::clone(&watch));
        let request = request.body(Either::Right(pieces)).map_err(|error| self.invalid_request(&error))?;
        let patience = StallTimeout { watch, is_slow: options.is_slow };
        let answered = patience.run(self.client.request(request)).await;
        let answered = answered.ok_or_else(|| self.stalled())?;
        let response = answered.map_err(|error| {
            patience.watch.take_read_error().unwrap_or_else(|| self.transport_error(&error))
        })?;
        if response.status() != StatusCode::OK {
            return Err(self.read_problem(response).await);
        }
        let is_repeated = response.headers().contains_key(IDEMPOTENCY_REPLAYED);
        let body = response.into_body();
        Ok(BatchResultStream { client: self.clone(), body, read: BytesMut::new(), patience, is_repeated })
    }

    fn request(&self, method: Method, path: &[&str], query: &[(&str, &str)]) -> http::request::Builder {
        let mut address = format!("{}/api/v1", self.base);
        for part in path {
            address += &format!("/{}", utf8_percent_encode(part, SEGMENT_ENCODE_SET));
        }
        for (number, (name, value)) in query.iter().enumerate() {
            let sign = if number == 0 { '?' } else { '&' };
            address += &format!("{sign}{name}={}", utf8_percent_encode(value, SEGMENT_ENCODE_SET));
        }
        let mut request = Request::builder()
            .method(method)
            .uri(address)
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
        let answered = async {
            let response =
                self.client.request(request).await.map_err(|error| self.transport_error(&error))?;
            if !response.status().is_success() {
                return Err(self.read_problem(response).await);
            }
            let revision = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(Into::into);
            Ok(RegistryReply { body: self.read_body(response).await?, revision })
        };
        let cut =
            || self.connection_lost(&format!("there was no answer within {} s", REQUEST_TIMEOUT.as_secs()));
        tokio::time::timeout(REQUEST_TIMEOUT, answered).await.unwrap_or_else(|_| Err(cut()))
    }

    async fn read_body(&self, response: Response<Incoming>) -> Result<Bytes, RegistryClientError> {
        let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                self.invalid_response(format!("it has more than {MAX_BODY_BYTES} bytes"))
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
            Ok(_) => RegistryClientError::Status { base: self.base.clone(), status },
            Err(error) => error,
        }
    }

    fn transport_error(&self, error: &hyper_util::client::legacy::Error) -> RegistryClientError {
        let (base, why) = (self.base.clone(), error_chain(error));
        if error.is_connect() {
            RegistryClientError::Unreachable { base, why }
        } else {
            RegistryClientError::Cut { base, why }
        }
    }

    fn invalid_request(&self, error: &http::Error) -> RegistryClientError {
        RegistryClientError::Base { base: self.base.clone(), why: error.to_string() }
    }

    fn connection_lost(&self, why: &str) -> RegistryClientError {
        RegistryClientError::Cut { base: self.base.clone(), why: why.into() }
    }

    fn stalled(&self) -> RegistryClientError {
        self.connection_lost(&format!("nothing moved for {} s", STALL_TIMEOUT.as_secs()))
    }

    fn invalid_response(&self, why: String) -> RegistryClientError {
        RegistryClientError::Answer { base: self.base.clone(), why }
    }
}

impl RegistryClientError {
    /// Whether it may be otherwise when the same is sent again, soon.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Cut { .. } | Self::Unreachable { .. } => true,
            Self::Problem(problem) => is_passing(problem.status),
            Self::Status { status, .. } => is_passing(status.as_u16()),
            _ => false,
        }
    }
}

const fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 502 | 503 | 504)
}

fn to_json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).unwrap_or_default().into()
}

fn is_loopback_host(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// TLS configuration that trusts the CA certificates in `pem`.
fn tls_config_with_roots(pem: &[u8]) -> Result<ClientConfig, RegistryClientError> {
    let wrong = |why: String| RegistryClientError::Certificates { why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("there is none in the file".into()));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| wrong(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Stream of per-line results of a batch; dropping it cancels the batch.
///
/// Dropped, it ends the batch.
#[derive(Debug)]
pub struct BatchResultStream {
    client: RegistryClient,
    body: Incoming,
    /// What has come and was not given yet.
    read: BytesMut,
    patience: StallTimeout,
    is_repeated: bool,
}

impl BatchResultStream {
    /// Whether the batch was executed before and these are the stored results (`Idempotency-Replayed`).
    pub const fn is_replayed(&self) -> bool {
        self.is_repeated
    }

    /// Next line without its line end; `None` at the end.
    pub async fn next_line(&mut self) -> Result<Option<Bytes>, RegistryClientError> {
        let mut searched = 0;
        loop {
            let unsearched = self.read.get(searched..).unwrap_or_default();
            if let Some(end) = unsearched.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(searched + end + 1).freeze();
                return Ok(Some(line.slice(..line.len() - 1)));
            }
            searched = self.read.len();
            if searched > MAX_LINE_BYTES {
                return Err(self
                    .client
                    .invalid_response(format!("a line has more than {MAX_LINE_BYTES} bytes")));
            }
            let frame = self.patience.run(self.body.frame()).await.ok_or_else(|| self.client.stalled())?;
            match frame {
                None if self.read.is_empty() => return Ok(None),
                None => return Err(self.client.invalid_response("its last line has no end".into())),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    let source = self.patience.watch.take_read_error();
                    return Err(source.unwrap_or_else(|| self.client.connection_lost(&error_chain(&error))));
                }
            }
        }
    }
}

/// Progress of an upload, and the error that ended it.
#[derive(Debug, Default)]
struct UploadProgress {
    pieces: AtomicU64,
    failure: Mutex<Option<io::Error>>,
}

impl UploadProgress {
    /// Error of reading the source, if any.
    fn take_read_error(&self) -> Option<RegistryClientError> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().map(RegistryClientError::Source)
    }
}

/// Timeout that restarts while the upload makes progress.
#[derive(Debug)]
struct StallTimeout {
    watch: Arc<UploadProgress>,
    is_slow: bool,
}

impl StallTimeout {
    async fn run<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        let mut what = std::pin::pin!(what);
        loop {
            let before = self.watch.pieces.load(Ordering::Relaxed);
            match tokio::time::timeout(STALL_TIMEOUT, &mut what).await {
                Ok(done) => return Some(done),
                Err(_) if self.is_slow || before != self.watch.pieces.load(Ordering::Relaxed) => {}
                Err(_) => return None,
            }
        }
    }
}

/// Request body read from a blocking source on its own thread.
#[derive(Debug)]
struct UploadBody {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    watch: Arc<UploadProgress>,
}

impl UploadBody {
    fn spawn(mut source: impl Read + Send + 'static, watch: Arc<UploadProgress>) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; CHUNK_BYTES];
                let read = match source.read(&mut piece) {
                    Ok(0) => break,
                    Ok(read) => {
                        piece.truncate(read);
                        Ok(piece.into())
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_last = read.is_err();
                if sender.blocking_send(read).is_err() || is_last {
                    break;
                }
            }
        });
        Self { receiver, watch }
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.receiver.poll_recv(context).map(|piece| match piece? {
            Ok(piece) => {
                self.watch.pieces.fetch_add(1, Ordering::Relaxed);
                Some(Ok(Frame::data(piece)))
            }
            Err(error) => {
                let kind = error.kind();
                *self.watch.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Some(Err(kind.into()))
            }
        })
    }
}
