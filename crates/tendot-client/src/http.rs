//! Another resolver, asked over HTTP for records as JSON.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AGE, HeaderName, HeaderValue, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tendot_proto::{Handle, HandleValue, ResponseCode, limits};

use crate::ResolveRequest;
use crate::resolver::{LookupOutcome, Upstream, UpstreamReply};

/// Bytes of an answer that are read.
const BYTES: usize = 1 << 20;

/// From the question to the end of the answer.
const TIME: Duration = Duration::from_secs(5);

/// What stands in a path as it is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The services that a question went through, so that one that is asked again by itself knows.
pub const WAY: HeaderName = HeaderName::from_static("tendot-way");

/// Upstream resolver that serves records as JSON at `/api/handles/`, such as doi.org.
#[derive(Clone, Debug)]
pub struct HttpUpstream {
    /// Without a slash at its end.
    base: String,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

/// Error of a request to an HTTP upstream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpUpstreamError {
    /// The address is none that can be asked.
    #[error("`{base}` is no address of a resolver: {why}")]
    Base {
        /// The address.
        base: String,
        /// What is wrong with it.
        why: String,
    },
    /// The name cannot be asked for: others take `/../` in a path for the way to another.
    #[error("`{name}` can't be asked for over HTTP: it has `.` or `..` between slashes")]
    Name {
        /// The name.
        name: String,
    },
    /// It went in a circle: one of those that the question went through was asked again.
    #[error("{base} passes the question on to who asked it")]
    Circle {
        /// Who was asked.
        base: String,
    },
    /// Nobody answered, or not to the end.
    #[error("{base} could not be asked: {why}")]
    Connection {
        /// Who was asked.
        base: String,
        /// What happened.
        why: String,
    },
    /// It took too long.
    #[error("{base} did not answer within {} s", TIME.as_secs())]
    Time {
        /// Who was asked.
        base: String,
    },
    /// The answer is none to what was asked.
    #[error("{base} gave an answer that is none: {why}")]
    Answer {
        /// Who was asked.
        base: String,
        /// What is wrong.
        why: String,
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
    /// A resolver by its address, such as `https://doi.org`.
    ///
    /// ```
    /// use tendot_client::HttpUpstream;
    ///
    /// assert!(HttpUpstream::new("https://doi.org/").is_ok());
    /// assert!(HttpUpstream::new("doi.org").is_err());
    /// ```
    pub fn new(base: &str) -> Result<Self, HttpUpstreamError> {
        let wrong = |why: &str| HttpUpstreamError::Base { base: base.into(), why: why.into() };
        let uri: Uri = base.parse().map_err(|_| wrong("it is not written as one"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(wrong("it has to begin with `https://` or `http://` and a host"));
        }
        if uri.query().is_some() {
            return Err(wrong("it has a `?`"));
        }
        // Who asks is told the address.
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong("it has a user name"));
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
        Ok(Self { base: base.trim_end_matches('/').into(), client })
    }

    /// Its address, as it was given.
    pub fn base_url(&self) -> &str {
        &self.base
    }

    /// Response body and its `Age`.
    async fn fetch(&self, question: &ResolveRequest<'_>) -> Result<(Bytes, Duration), HttpUpstreamError> {
        let connection = |why: String| HttpUpstreamError::Connection { base: self.base.clone(), why };
        let answer = |why: String| HttpUpstreamError::Answer { base: self.base.clone(), why };
        let name = utf8_percent_encode(&question.name, PATH);
        let query = if question.is_authoritative { "?auth" } else { "" };
        let mut request = Request::get(format!("{}/api/handles/{name}{query}", self.base))
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, HeaderValue::from_static(concat!("tendot/", env!("CARGO_PKG_VERSION"))));
        if !question.way.is_empty() {
            request = request.header(WAY, &*question.way);
        }
        let request = request.body(Empty::new()).map_err(|error| connection(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| connection(error_chain(&error)))?;
        let status = response.status();
        if status == StatusCode::LOOP_DETECTED {
            return Err(HttpUpstreamError::Circle { base: self.base.clone() });
        }
        // Records come with 200, what is not there with 404, and what is kept elsewhere with 400; all else has no answer in
        // it.
        if !status.is_success() && !matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            return Err(answer(format!("status {status}")));
        }
        let age = response.headers().get(AGE).and_then(|age| age.to_str().ok()?.parse::<u32>().ok());
        let body = Limited::new(response.into_body(), BYTES).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                answer(format!("it has more than {BYTES} bytes"))
            } else {
                connection(error.to_string())
            }
        })?;
        Ok((body.to_bytes(), Duration::from_secs(age.unwrap_or_default().into())))
    }
}

impl Upstream for HttpUpstream {
    type Error = HttpUpstreamError;

    async fn ask(&self, name: &str) -> Result<LookupOutcome, HttpUpstreamError> {
        self.reply(&name.into()).await.map(|reply| reply.found)
    }

    async fn reply(&self, question: &ResolveRequest<'_>) -> Result<UpstreamReply, HttpUpstreamError> {
        let name = &*question.name;
        if name.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(HttpUpstreamError::Name { name: name.into() });
        }
        let body = tokio::time::timeout(TIME, self.fetch(question));
        let (body, age) = body.await.map_err(|_| HttpUpstreamError::Time { base: self.base.clone() })??;
        let wrong = |why: String| HttpUpstreamError::Answer { base: self.base.clone(), why };
        let mut body: HandleApiResponse =
            serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
        if let Some(other) =
            body.handle.filter(|other| !Handle::from(&**other).eq_ignore_case(Handle::from(name)))
        {
            return Err(wrong(format!("it is about `{other}`")));
        }
        // What is for others is none of ours.
        body.values.retain(|value| value.permissions.is_public());
        let bytes: usize = body.values.iter().map(|value| value.data.len() + value.value_type.len()).sum();
        if body.values.len() > limits::MAX_VALUES || bytes > limits::MAX_MESSAGE_LEN {
            return Err(wrong(format!("a record of {} values and {bytes} bytes", body.values.len())));
        }
        let found = match ResponseCode(body.code) {
            ResponseCode::SUCCESS if body.values.is_empty() => LookupOutcome::NoValues,
            ResponseCode::SUCCESS => LookupOutcome::Values(body.values),
            ResponseCode::VALUES_NOT_FOUND => LookupOutcome::NoValues,
            ResponseCode::HANDLE_NOT_FOUND => LookupOutcome::Nothing,
            ResponseCode::SERVER_NOT_RESPONSIBLE => LookupOutcome::NotKept,
            code => return Err(wrong(format!("response code {}", code.0))),
        };
        Ok(UpstreamReply { found, age })
    }
}

/// Error message with all its causes.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
