//! HTTP client: base URL, connections, bounded bodies, error messages.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use rustls::ClientConfig;

/// Characters to percent-encode in a path segment or query value: all but unreserved ones (RFC 3986).
///
/// A `/` in a name is encoded, too, so that no segment is `..`.
pub(crate) const SEGMENT_ENCODE_SET: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Interval of TCP keep-alive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Characters to percent-encode in a path: all but unreserved ones (RFC 3986) and `/`.
pub(crate) const PATH_ENCODE_SET: &AsciiSet = &SEGMENT_ENCODE_SET.remove(b'/');

/// Idle time after which a pooled connection is closed.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// `User-Agent` of all requests.
pub(crate) fn user_agent() -> HeaderValue {
    HeaderValue::from_static(concat!("tendot/", env!("CARGO_PKG_VERSION")))
}

/// Base URL of a server, `http` or `https`, without user name, query and trailing slash.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct BaseUrl(String);

impl BaseUrl {
    /// Checks a URL; the error is its reason.
    pub(crate) fn parse(url: &str) -> Result<Self, &'static str> {
        let uri: Uri = url.parse().map_err(|_| "not a valid URL")?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err("expected `https://HOST` or `http://HOST`");
        }
        if uri.query().is_some() {
            return Err("query string not allowed");
        }
        // The base URL appears in error pages and messages, so it must not have credentials.
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("user name not allowed");
        }
        Ok(Self(url.trim_end_matches('/').into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether requests can be read on the network: plain HTTP to another host than this one.
    pub(crate) fn is_clear_text(&self) -> bool {
        let uri: Uri = self.0.parse().unwrap_or_default();
        uri.scheme_str() != Some("https") && !uri.host().is_some_and(is_loopback_host)
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a host of a URL is `localhost` or a loopback address.
fn is_loopback_host(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Pooled client for HTTP and HTTPS.
pub(crate) type HttpClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// Settings of an [`HttpClient`].
pub(crate) struct HttpClientSettings {
    /// Limit of connecting to all addresses of the host.
    pub(crate) connect_timeout: Duration,
    /// Whether HTTP/2 may be negotiated.
    pub(crate) allows_http2: bool,
    /// TLS configuration; by default, the public CAs are trusted.
    pub(crate) tls: Option<ClientConfig>,
}

impl HttpClientSettings {
    /// Client with these settings.
    pub(crate) fn build<B>(self) -> HttpClient<B>
    where
        B: Body<Data: Send> + Send,
    {
        let builder = match self.tls {
            None => HttpsConnectorBuilder::new().with_webpki_roots(),
            Some(config) => HttpsConnectorBuilder::new().with_tls_config(config),
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(self.connect_timeout));
        tcp.set_keepalive(Some(KEEPALIVE_INTERVAL));
        let builder = builder.https_or_http().enable_http1();
        let connector = match self.allows_http2 {
            true => builder.enable_http2().wrap_connector(tcp),
            false => builder.wrap_connector(tcp),
        };
        Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .build(connector)
    }
}

/// Error of reading a response body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResponseBodyError {
    #[error("response exceeds {max_bytes} bytes")]
    TooLong { max_bytes: usize },
    #[error("{0}")]
    Connection(String),
}

/// Reads the body of a response.
pub(crate) async fn read_body(
    response: Response<Incoming>,
    max_bytes: usize,
) -> Result<Bytes, ResponseBodyError> {
    match Limited::new(response.into_body(), max_bytes).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ResponseBodyError::TooLong { max_bytes }),
        Err(error) => Err(ResponseBodyError::Connection(error_chain(&*error))),
    }
}

/// Error message with all its causes.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls() {
        check("https://doi.org", Ok("https://doi.org"));
        check("http://127.0.0.1:8080/", Ok("http://127.0.0.1:8080"));
        check("https://example.org/resolver//", Ok("https://example.org/resolver"));
        check("", Err("not a valid URL"));
        check("a b", Err("not a valid URL"));
        check("doi.org", Err("expected `https://HOST` or `http://HOST`"));
        check("ftp://doi.org", Err("expected `https://HOST` or `http://HOST`"));
        check("https://doi.org/?x", Err("query string not allowed"));
        check("https://me:secret@doi.org", Err("user name not allowed"));
    }

    #[track_caller]
    fn check(url: &str, expected: Result<&str, &str>) {
        assert_eq!(BaseUrl::parse(url).as_ref().map(BaseUrl::as_str).map_err(|reason| *reason), expected);
    }

    #[test]
    fn clear_text() {
        for url in ["https://example.org", "http://localhost:1", "http://127.0.0.1", "http://[::1]:8080/x"] {
            assert!(!BaseUrl::parse(url).unwrap().is_clear_text(), "{url}");
        }
        for url in ["http://example.org", "http://10.0.0.1", "http://localhost.example.org", "http://[::2]"] {
            assert!(BaseUrl::parse(url).unwrap().is_clear_text(), "{url}");
        }
    }
}
