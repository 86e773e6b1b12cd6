//! Another resolver, asked over HTTP for records as JSON.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderValue, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tendot_proto::{Handle, ResponseCode, Value};

use crate::resolver::{Found, Upstream};

/// Bytes of an answer that are read.
const BYTES: usize = 1 << 20;

/// From the question to the end of the answer.
const TIME: Duration = Duration::from_secs(5);

/// What stands in a path as it is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A resolver that gives records as JSON under `/api/handles/`, as doi.org does.
#[derive(Clone, Debug)]
pub struct HttpUpstream {
    /// Without a slash at its end.
    base: String,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The address is none that can be asked.
    #[error("`{base}` is no address of a resolver: {why}")]
    Base {
        /// The address.
        base: String,
        /// What is wrong with it.
        why: String,
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

#[derive(Deserialize)]
struct Body {
    #[serde(rename = "responseCode")]
    code: u32,
    handle: Option<String>,
    #[serde(default)]
    values: Vec<Value<'static>>,
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
    pub fn new(base: &str) -> Result<Self, HttpError> {
        let wrong = |why: &str| HttpError::Base { base: base.into(), why: why.into() };
        let uri: Uri = base.parse().map_err(|_| wrong("it is not written as one"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(wrong("it has to begin with `https://` or `http://` and a host"));
        }
        if uri.query().is_some() {
            return Err(wrong("it has a `?`"));
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

    async fn body(&self, name: &str) -> Result<Bytes, HttpError> {
        let connection = |why: String| HttpError::Connection { base: self.base.clone(), why };
        let uri = format!("{}/api/handles/{}", self.base, utf8_percent_encode(name, PATH));
        let request = Request::get(uri)
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, HeaderValue::from_static(concat!("tendot/", env!("CARGO_PKG_VERSION"))))
            .body(Empty::new())
            .map_err(|error| connection(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| connection(error.to_string()))?;
        let status = response.status();
        // Records come with 200, and what is not there with 404; all else has no answer in it.
        if !status.is_success() && status.as_u16() != 404 {
            return Err(HttpError::Answer { base: self.base.clone(), why: format!("status {status}") });
        }
        let body = Limited::new(response.into_body(), BYTES).collect().await;
        Ok(body.map_err(|error| connection(error.to_string()))?.to_bytes())
    }
}

impl Upstream for HttpUpstream {
    type Error = HttpError;

    async fn ask(&self, name: &str) -> Result<Found, HttpError> {
        let body = tokio::time::timeout(TIME, self.body(name));
        let body = body.await.map_err(|_| HttpError::Time { base: self.base.clone() })??;
        let wrong = |why: String| HttpError::Answer { base: self.base.clone(), why };
        let body: Body = serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
        if let Some(other) = body.handle.filter(|other| !Handle::from(&**other).is_same(Handle::from(name))) {
            return Err(wrong(format!("it is about `{other}`")));
        }
        match ResponseCode(body.code) {
            ResponseCode::SUCCESS if body.values.is_empty() => Ok(Found::NoValues),
            ResponseCode::SUCCESS => Ok(Found::Values(body.values)),
            ResponseCode::VALUES_NOT_FOUND => Ok(Found::NoValues),
            ResponseCode::HANDLE_NOT_FOUND => Ok(Found::Nothing),
            code => Err(wrong(format!("response code {}", code.0))),
        }
    }
}
