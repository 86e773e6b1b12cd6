//! The front door for browsers and programs.
//!
//! `listen.rs` takes connections, and this file finds out what a request is about. A name's redirect is in `redirect.rs`,
//! with `form.rs` (how names are written in paths), `places.rs` and `location.rs` (which of several places wins),
//! `negotiate.rs` (what the client would rather have) and `address.rs` (what is redirected to); `explain.rs` tells why it
//! led there, and `near.rs` what may have been meant. A record as JSON is in `api/`, and what people see in `page/`.

mod address;
mod answer;
mod api;
mod authenticate;
mod bad_request;
mod caching;
mod explain;
mod form;
mod listen;
mod location;
mod near;
mod negotiate;
mod page;
mod parameters;
mod percent;
mod places;
mod redirect;
mod request;
mod status;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use answer::{Answer, TEXT, answer};
use bad_request::BadRequest;
use bytes::Bytes;
pub use explain::{Explanation, Finding, Outcome};
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
pub use listen::{Limits, listen};
use parameters::Parameters;
use request::Request;
use tendot_names::Reader;
use tendot_registry::Registry;
use tendot_store::Store;

/// Steps that one request may cost.
const WORK: u32 = 20_000;

/// Bytes of a form that is sent.
const FORM: usize = 64 << 10;

/// The answers to HTTP requests, over a registry.
#[derive(Debug)]
pub struct Http<S> {
    registry: Arc<Registry<S>>,
    operator_token: Option<Box<str>>,
    trust_loopback: bool,
    /// Whether requests are answered as they should be.
    ready: AtomicBool,
}

impl<S: Store> Http<S> {
    /// Answers from this registry.
    pub const fn new(registry: Arc<Registry<S>>) -> Self {
        Self { registry, operator_token: None, trust_loopback: true, ready: AtomicBool::new(false) }
    }

    /// The registry.
    pub fn registry(&self) -> &Registry<S> {
        &self.registry
    }

    /// Takes this token for the operator's.
    #[must_use]
    pub fn operator_token(mut self, token: impl Into<Box<str>>) -> Self {
        self.operator_token = Some(token.into());
        self
    }

    /// Says whether passwords and tokens are taken from this machine without TLS: they are unless told otherwise.
    #[must_use]
    pub const fn trust_loopback(mut self, trust: bool) -> Self {
        self.trust_loopback = trust;
        self
    }

    /// Says whether the service takes requests, for `/readyz`.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    async fn answer(&self, request: http::Request<Incoming>, client: Option<IpAddr>) -> Answer {
        let now = SystemTime::now();
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let asked = Request {
            query: parts.uri.query(),
            headers: &parts.headers,
            version: parts.version,
            client,
            takes_credentials: self.trust_loopback && client.is_some_and(|client| client.is_loopback()),
        };
        let mut response = match (&parts.method, path) {
            (&Method::GET | &Method::HEAD, _) => self.get(path, &asked, now).await,
            (&Method::OPTIONS, _) => options(),
            (&Method::POST, "/") => self.post(body, &asked, now).await,
            (method, path) => match (method, path.strip_prefix("/api/handles/")) {
                (&Method::PUT, Some(name)) => self.put_handle(name, &asked, body, now).await,
                (&Method::DELETE, Some(name)) => self.delete_handle(name, &asked, now).await,
                (&Method::POST, Some(name)) => self.get_handle(name, &asked, now).await,
                _ => not_allowed(),
            },
        };
        answer::finish(response.headers_mut());
        response
    }

    async fn get(&self, path: &str, request: &Request<'_>, now: SystemTime) -> Answer {
        if let Some(name) = path.strip_prefix("/api/handles/") {
            return self.get_handle(name, request, now).await;
        }
        match path {
            "/" => self.search(request).await,
            "/livez" => answer(StatusCode::OK, TEXT, "ok\n"),
            "/readyz" if self.ready.load(Ordering::Relaxed) => answer(StatusCode::OK, TEXT, "ready\n"),
            "/readyz" => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, "not ready\n"),
            "/robots.txt" => answer(StatusCode::OK, TEXT, "User-agent: *\nCrawl-delay: 1\n"),
            "/favicon.ico" | "/favicon.svg" => fixed("image/svg+xml", page::ICON),
            "/static/style.css" => fixed("text/css;charset=utf-8", page::STYLE.as_bytes()),
            "/resolve" | "/openurl" => self.open_url(request, now).await,
            _ if path.starts_with("/api/") => api::unknown(&Method::GET, path),
            _ => self.redirect(path, request, now).await,
        }
    }

    /// Answers what another program sends along: the name in `id` or `rft_id`.
    async fn open_url(&self, request: &Request<'_>, now: SystemTime) -> Answer {
        let parameters = match Parameters::parse(request.query) {
            Ok(parameters) => parameters,
            Err(error) => return page::bad_request(&error, request.query.unwrap_or_default(), request),
        };
        match parameters.get("id").or_else(|| parameters.get("rft_id")) {
            Some(name) => self.redirect_name(&form::name_or_short(name), &parameters, request, now).await,
            None => self.home().await,
        }
    }

    async fn post(&self, body: Incoming, request: &Request<'_>, now: SystemTime) -> Answer {
        let Ok(body) = Limited::new(body, FORM).collect().await else {
            return answer(StatusCode::PAYLOAD_TOO_LARGE, TEXT, format!("at most {FORM} bytes are read\n"));
        };
        let body = body.to_bytes();
        let text = String::from_utf8_lossy(&body);
        let parameters = match Parameters::parse(Some(&text)) {
            Ok(parameters) => parameters,
            Err(error) => return page::bad_request(&error, &text, request),
        };
        match parameters.get("hdl") {
            Some(name) => self.redirect_name(&form::name_or_short(name), &parameters, request, now).await,
            None => self.home().await,
        }
    }

    /// Answers what somebody typed or pasted into the box: the way to the path of the name in it.
    async fn search(&self, request: &Request<'_>) -> Answer {
        // In what browsers make of a form, a plus sign is a space.
        let query = request.query.map(|query| query.replace('+', " "));
        match Parameters::parse(query.as_deref()) {
            Err(error) => page::bad_request(&error, query.as_deref().unwrap_or_default(), request),
            Ok(parameters) => match parameters.get("text").map(str::trim).filter(|text| !text.is_empty()) {
                Some(text) => redirect::to_own_path(&name_pasted(text), request),
                None => self.home().await,
            },
        }
    }
}

/// The name in what somebody pasted: written in any form, or somewhere in a text; else all of it.
fn name_pasted(pasted: &str) -> String {
    if let Ok(reading) = Reader::lenient().read(pasted) {
        return reading.into_target().as_str().to_owned();
    }
    let found = tendot_names::find_iter(pasted.as_bytes()).next().map(|found| found.name.to_string());
    found.unwrap_or_else(|| form::name_or_short(pasted).into_owned())
}

fn fixed(kind: &'static str, body: &'static [u8]) -> Answer {
    let mut response = answer(StatusCode::OK, HeaderValue::from_static(kind), Bytes::from_static(body));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    response
}

const ALLOWED: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS, POST, PUT, DELETE");

fn options() -> Answer {
    let mut response = answer(StatusCode::OK, TEXT, "");
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, ALLOWED);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

fn not_allowed() -> Answer {
    let mut response = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "this is not done here\n");
    response.headers_mut().insert(header::ALLOW, ALLOWED);
    response
}
