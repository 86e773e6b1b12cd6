//! Client of Handle.Net's JSON API (`/api/handles`, `/api/prefixes`, `/api/sessions`).
//!
//! Files in reading order: this one has the operations and sends requests; `session.rs` authenticates with a handle identity;
//! `error.rs` has the error.

mod error;
mod session;

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
pub use error::HandleApiError;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use percent_encoding::utf8_percent_encode;
use serde::{Deserialize, Serialize};
use tendot_proto::{HandleValue, ResponseCode};
use tokio::sync::Mutex;

use crate::certificate_trust::tls_config_with_roots;
use crate::http_client::{
    BaseUrl, HttpClient, HttpClientSettings, PATH_ENCODE_SET, SEGMENT_ENCODE_SET, error_chain, read_body,
    user_agent,
};
use crate::native::{AdminIdentity, ResolveOptions};

/// Maximum size of a response body; a page of names or a large record is smaller.
const MAX_BODY_BYTES: usize = 32 << 20;

/// Timeout from a request to the end of its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Names per page of a list.
const PAGE_SIZE: u32 = 10_000;

/// Credentials of a [`HandleApiClient`].
#[derive(Clone, Debug)]
pub enum HandleApiCredentials {
    /// Public reads only.
    Anonymous,
    /// API token or operator token of a Tendot service.
    Token(String),
    /// Handle identity, proven in a session.
    Identity(AdminIdentity),
}

/// What identifies an HTTPS server.
#[derive(Clone, Copy, Debug)]
pub enum ServerTrust<'a> {
    /// A certificate of a public CA.
    PublicCas,
    /// A certificate in this PEM file, or issued by one in it.
    CaCertificates(&'a [u8]),
    /// The public key of its site record, as in an `HS_PUBKEY` value (`pubkey.bin`). Must be an RSA key.
    PublicKey(&'a [u8]),
}

/// Client that reads and administers records over Handle.Net's JSON API, at Tendot and Handle.Net servers.
///
/// ```no_run
/// use tendot_client::native::AdminIdentity;
/// use tendot_client::{HandleApiClient, HandleApiCredentials, ServerTrust};
/// use tendot_proto::HandleValue;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let identity = AdminIdentity::with_secret_key(301, "0.NA/10.5555", b"example-secret");
/// let credentials = HandleApiCredentials::Identity(identity);
/// let client = HandleApiClient::new("https://handle.example.org", credentials, ServerTrust::PublicCas)?;
/// client.create("10.5555/1", &[HandleValue::new(1, "URL", "https://example.org/")], false).await?;
/// client.close().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct HandleApiClient {
    base_url: BaseUrl,
    credentials: HandleApiCredentials,
    client: HttpClient<Full<Bytes>>,
    /// `Authorization` header of the session, once it is authenticated.
    session: Mutex<Option<HeaderValue>>,
}

/// Status and body of a response.
struct ApiResponse {
    status: StatusCode,
    body: Bytes,
}

/// Body of a response: code, and the result of the operation.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ApiBody {
    response_code: u32,
    message: Option<String>,
    values: Vec<HandleValue<'static>>,
    handles: Vec<String>,
    prefixes: Vec<String>,
}

#[derive(Serialize)]
struct ValuesBody<'a> {
    values: &'a [HandleValue<'a>],
}

impl HandleApiClient {
    /// Client of the server at `base_url`. Credentials are sent over plain HTTP only to loopback addresses.
    pub fn new(
        base_url: &str,
        credentials: HandleApiCredentials,
        trust: ServerTrust<'_>,
    ) -> Result<Self, HandleApiError> {
        let base_url = BaseUrl::parse(base_url).map_err(|reason| HandleApiError::InvalidBaseUrl {
            base_url: base_url.into(),
            reason: reason.into(),
        })?;
        if base_url.is_clear_text() && !matches!(credentials, HandleApiCredentials::Anonymous) {
            return Err(HandleApiError::InsecureTransport { base_url: base_url.to_string() });
        }
        let invalid = |reason| HandleApiError::InvalidServerTrust { reason };
        let tls = match trust {
            ServerTrust::PublicCas => None,
            ServerTrust::CaCertificates(pem) => Some(tls_config_with_roots(pem).map_err(invalid)?),
            ServerTrust::PublicKey(key) => {
                Some(crate::native::pinned_rsa_key_config(key).map_err(|error| invalid(error.to_string()))?)
            }
        };
        let settings = HttpClientSettings { connect_timeout: CONNECT_TIMEOUT, allows_http2: false, tls };
        Ok(Self { base_url, credentials, client: settings.build(), session: Mutex::new(None) })
    }

    /// Base URL without a trailing slash.
    pub fn base_url(&self) -> &str {
        self.base_url.as_str()
    }

    /// Reads the selected values of a record that these credentials may read.
    pub async fn resolve(
        &self,
        name: &str,
        options: &ResolveOptions,
    ) -> Result<Vec<HandleValue<'static>>, HandleApiError> {
        let mut query = Vec::new();
        query.extend(options.types.iter().map(|value_type| ("type", value_type.clone())));
        query.extend(options.indexes.iter().map(|index| ("index", index.to_string())));
        if options.is_authoritative {
            query.push(("auth", "true".into()));
        }
        let body = self.send(Method::GET, &self.handle_path(name, &query), None).await?;
        if body.response_code == ResponseCode::VALUES_NOT_FOUND.0 || body.values.is_empty() {
            let (code, status) = (ResponseCode::VALUES_NOT_FOUND, StatusCode::OK);
            return Err(self.error_response(code, status, body.message));
        }
        Ok(body.values)
    }

    /// Creates a record; an existing one is replaced only if `overwrite`.
    pub async fn create(
        &self,
        name: &str,
        values: &[HandleValue<'_>],
        overwrite: bool,
    ) -> Result<(), HandleApiError> {
        let query = [("overwrite", overwrite.to_string())];
        self.send(Method::PUT, &self.handle_path(name, &query), Some(to_body(values))).await.map(drop)
    }

    /// Adds values to a record; values at the same indexes are replaced only if `overwrite`. Without values, nothing is sent.
    pub async fn add_values(
        &self,
        name: &str,
        values: &[HandleValue<'_>],
        overwrite: bool,
    ) -> Result<(), HandleApiError> {
        // Without an index, the request would replace the whole record.
        if values.is_empty() {
            return Ok(());
        }
        let mut query = vec![("overwrite", overwrite.to_string())];
        query.extend(values.iter().map(|value| ("index", value.index.to_string())));
        self.send(Method::PUT, &self.handle_path(name, &query), Some(to_body(values))).await.map(drop)
    }

    /// Replaces the values at their indexes, which must exist. The API has no such operation, so they are read first.
    pub async fn modify_values(&self, name: &str, values: &[HandleValue<'_>]) -> Result<(), HandleApiError> {
        let indexes: Vec<u32> = values.iter().map(|value| value.index).collect();
        let options = ResolveOptions { indexes, is_authoritative: true, ..ResolveOptions::default() };
        let existing = self.resolve(name, &options).await?;
        let is_missing = |value: &&HandleValue<'_>| existing.iter().all(|old| old.index != value.index);
        if let Some(value) = values.iter().find(is_missing) {
            let message = format!("there is no value with index {}", value.index);
            let code = ResponseCode::VALUES_NOT_FOUND;
            return Err(self.error_response(code, StatusCode::BAD_REQUEST, Some(message)));
        }
        self.add_values(name, values, true).await
    }

    /// Removes the values at these indexes. Without indexes, nothing is sent.
    pub async fn remove_values(&self, name: &str, indexes: &[u32]) -> Result<(), HandleApiError> {
        // Without an index, the request would delete the whole record.
        if indexes.is_empty() {
            return Ok(());
        }
        let query: Vec<_> = indexes.iter().map(|index| ("index", index.to_string())).collect();
        self.send(Method::DELETE, &self.handle_path(name, &query), None).await.map(drop)
    }

    /// Deletes a record.
    pub async fn delete(&self, name: &str) -> Result<(), HandleApiError> {
        self.send(Method::DELETE, &self.handle_path(name, &[]), None).await.map(drop)
    }

    /// Calls `on_handle` for each handle under a prefix until it returns `Break`.
    pub async fn list_handles(
        &self,
        prefix: &str,
        on_handle: impl FnMut(&str) -> ControlFlow<()> + Send,
    ) -> Result<(), HandleApiError> {
        let prefix = format!("prefix={}&", utf8_percent_encode(prefix, SEGMENT_ENCODE_SET));
        self.list(&format!("/api/handles?{prefix}"), on_handle).await
    }

    /// Calls `on_handle` for each prefix homed at the server until it returns `Break`.
    pub async fn list_homed_prefixes(
        &self,
        on_handle: impl FnMut(&str) -> ControlFlow<()> + Send,
    ) -> Result<(), HandleApiError> {
        self.list("/api/prefixes?", on_handle).await
    }

    async fn list(
        &self,
        path: &str,
        mut on_handle: impl FnMut(&str) -> ControlFlow<()> + Send,
    ) -> Result<(), HandleApiError> {
        for page in 0_u32.. {
            let path = format!("{path}page={page}&pageSize={PAGE_SIZE}");
            let body = self.send(Method::GET, &path, None).await?;
            let names = if body.handles.is_empty() { body.prefixes } else { body.handles };
            let is_done = names.iter().try_for_each(|name| on_handle(name)).is_break();
            if is_done || names.len() < PAGE_SIZE as usize {
                break;
            }
        }
        Ok(())
    }

    /// Makes the server responsible for a prefix, `10.1000` or `0.NA/10.1000`.
    pub async fn home_prefix(&self, prefix: &str) -> Result<(), HandleApiError> {
        self.send(Method::POST, &prefix_path(prefix), None).await.map(drop)
    }

    /// Ends the responsibility of the server for a prefix.
    pub async fn unhome_prefix(&self, prefix: &str) -> Result<(), HandleApiError> {
        self.send(Method::DELETE, &prefix_path(prefix), None).await.map(drop)
    }

    /// Ends the session, if there is one. Errors are ignored: the server ends it later.
    pub async fn close(&self) {
        if let Some(header) = self.session.lock().await.take() {
            let _ = self.send_once(Method::DELETE, "/api/sessions/this", Some(&header), None).await;
        }
    }

    fn handle_path(&self, name: &str, query: &[(&str, String)]) -> String {
        let mut path = format!("/api/handles/{}", encode_name(name));
        for (number, (key, value)) in query.iter().enumerate() {
            let separator = if number == 0 { '?' } else { '&' };
            let _ = write!(path, "{separator}{key}={}", utf8_percent_encode(value, SEGMENT_ENCODE_SET));
        }
        path
    }

    /// Sends an authenticated request; requires a success, or for a read a record without matching values.
    async fn send(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<ApiBody, HandleApiError> {
        let (header, is_reused) = self.authorization().await?;
        let mut response = self.send_once(method.clone(), path, header.as_ref(), body.clone()).await?;
        // The session ended; the request was not executed.
        if is_reused && response.status == StatusCode::UNAUTHORIZED {
            *self.session.lock().await = None;
            let (header, _) = self.authorization().await?;
            response = self.send_once(method.clone(), path, header.as_ref(), body).await?;
        }
        let parsed: ApiBody = match serde_json::from_slice(&response.body) {
            Ok(parsed) => parsed,
            Err(_) if response.status == StatusCode::UNAUTHORIZED => {
                return Err(HandleApiError::AuthenticationFailed { message: "credentials rejected".into() });
            }
            Err(error) if response.status.is_success() => {
                return Err(self.outcome_unknown(error.to_string()));
            }
            // A proxy lost the response of the server.
            Err(_) if matches!(response.status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT) => {
                return Err(self.outcome_unknown(format!("status {}", response.status)));
            }
            Err(_) => {
                let code = code_for_status(response.status);
                return Err(self.error_response(code, response.status, None));
            }
        };
        let code = match parsed.response_code {
            // Not a response of the handle API.
            0 if response.status.is_success() => {
                return Err(self.outcome_unknown("response without a response code".into()));
            }
            0 => code_for_status(response.status),
            code => ResponseCode(code),
        };
        match code {
            ResponseCode::SUCCESS => Ok(parsed),
            ResponseCode::VALUES_NOT_FOUND if method == Method::GET => Ok(parsed),
            ResponseCode::AUTHENTICATION_FAILED => Err(HandleApiError::AuthenticationFailed {
                message: parsed.message.unwrap_or_else(|| "credentials rejected".into()),
            }),
            code => Err(self.error_response(code, response.status, parsed.message)),
        }
    }

    /// `Authorization` header, and whether it is that of a session opened before.
    async fn authorization(&self) -> Result<(Option<HeaderValue>, bool), HandleApiError> {
        match &self.credentials {
            HandleApiCredentials::Anonymous => Ok((None, false)),
            HandleApiCredentials::Token(token) => {
                let mut header = HeaderValue::try_from(format!("Bearer {token}"))
                    .map_err(|_| HandleApiError::InvalidToken)?;
                header.set_sensitive(true);
                Ok((Some(header), false))
            }
            HandleApiCredentials::Identity(identity) => {
                let mut session = self.session.lock().await;
                if let Some(header) = &*session {
                    return Ok((Some(header.clone()), true));
                }
                let header = self.authenticate(identity).await?;
                *session = Some(header.clone());
                Ok((Some(header), false))
            }
        }
    }

    /// Sends one request and reads the response.
    async fn send_once(
        &self,
        method: Method,
        path: &str,
        authorization: Option<&HeaderValue>,
        body: Option<Bytes>,
    ) -> Result<ApiResponse, HandleApiError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base_url))
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, user_agent());
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let request = request.body(Full::new(body.unwrap_or_default())).map_err(|error| {
            HandleApiError::InvalidBaseUrl { base_url: self.base_url.to_string(), reason: error.to_string() }
        })?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| {
                let reason = error_chain(&error);
                match error.is_connect() {
                    true => HandleApiError::Unreachable { base_url: self.base_url.to_string(), reason },
                    false => self.outcome_unknown(reason),
                }
            })?;
            let status = response.status();
            let body = read_body(response, MAX_BODY_BYTES).await;
            let body = body.map_err(|error| self.outcome_unknown(error.to_string()))?;
            Ok(ApiResponse { status, body })
        };
        let timed_out =
            |_| self.outcome_unknown(format!("no response within {} s", REQUEST_TIMEOUT.as_secs()));
        tokio::time::timeout(REQUEST_TIMEOUT, exchange).await.map_err(timed_out)?
    }

    fn outcome_unknown(&self, reason: String) -> HandleApiError {
        HandleApiError::OutcomeUnknown { base_url: self.base_url.to_string(), reason }
    }

    fn error_response(
        &self,
        code: ResponseCode,
        status: StatusCode,
        message: Option<String>,
    ) -> HandleApiError {
        let base_url = self.base_url.to_string();
        HandleApiError::ErrorResponse { base_url, code, status, message: message.unwrap_or_default() }
    }
}

fn to_body(values: &[HandleValue<'_>]) -> Bytes {
    serde_json::to_vec(&ValuesBody { values }).unwrap_or_default().into()
}

fn prefix_path(prefix: &str) -> String {
    format!("/api/prefixes/{}", encode_name(prefix))
}

/// Name in a path. Slashes are encoded only where a segment would be lost, because some servers reject encoded ones.
fn encode_name(name: &str) -> String {
    let is_plain = name.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
    let encode_set = if is_plain { PATH_ENCODE_SET } else { SEGMENT_ENCODE_SET };
    utf8_percent_encode(name, encode_set).to_string()
}

/// Response code of an error response without one.
fn code_for_status(status: StatusCode) -> ResponseCode {
    match status {
        StatusCode::UNAUTHORIZED => ResponseCode::AUTHENTICATION_NEEDED,
        StatusCode::FORBIDDEN => ResponseCode::INSUFFICIENT_PERMISSIONS,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => ResponseCode::SERVER_TOO_BUSY,
        status if status.is_client_error() => ResponseCode::PROTOCOL_ERROR,
        _ => ResponseCode::ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths() {
        let check = |name: &str, expected: &str| assert_eq!(encode_name(name), expected);
        check("10.5555/a b/c", "10.5555/a%20b/c");
        check("10.5555/a%2Fb?c#d", "10.5555/a%252Fb%3Fc%23d");
        check("10.5555/../x", "10.5555%2F..%2Fx");
        check("10.5555/a//b", "10.5555%2Fa%2F%2Fb");
        check("10.5555/é", "10.5555/%C3%A9");
    }

    /// In the API, a change of no values is one of the whole record.
    #[tokio::test]
    async fn empty_changes_are_not_sent() {
        let credentials = HandleApiCredentials::Anonymous;
        let client = HandleApiClient::new("http://127.0.0.1:1", credentials, ServerTrust::PublicCas).unwrap();
        client.remove_values("10.5555/1", &[]).await.unwrap();
        client.add_values("10.5555/1", &[], true).await.unwrap();
        assert!(client.delete("10.5555/1").await.is_err(), "there is no server");
    }

    #[test]
    fn credentials_need_tls() {
        let client = |url: &str, credentials| HandleApiClient::new(url, credentials, ServerTrust::PublicCas);
        let token = || HandleApiCredentials::Token("secret".into());
        assert!(client("http://127.0.0.1:8080", token()).is_ok());
        assert!(client("https://example.org", token()).is_ok());
        let error = client("http://example.org", token()).unwrap_err();
        assert!(matches!(error, HandleApiError::InsecureTransport { .. }), "{error}");
        assert!(client("http://example.org", HandleApiCredentials::Anonymous).is_ok());
    }
}
