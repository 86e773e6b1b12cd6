//! Static files: stylesheet, icon, `robots.txt` and `security.txt`.

use std::sync::PoisonError;

use bytes::Bytes;
use http::StatusCode;
use http::header::{self, HeaderValue};

use crate::http::HttpServer;
use crate::http::pages::ServiceIdentity;
use crate::http::response::reply::{Reply, TEXT, reply};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec};

/// Stylesheet of all pages.
pub(crate) const STYLESHEET: &str = include_str!("../../../assets/style.css");

pub(crate) const FAVICON: &[u8] = include_bytes!("../../../assets/favicon.svg");

/// `robots.txt`.
pub(crate) const ROBOTS: &str = "User-agent: *\nCrawl-delay: 1\n";

/// OpenAPI spec of `/robots.txt`.
pub(crate) fn describe_robots() -> PathSpec {
    PathSpec::readable(OperationSpec::text("Pages", "Get robots.txt", "Crawler rules", "text/plain"))
}

/// OpenAPI spec of `/.well-known/security.txt`.
pub(crate) fn describe_security_txt() -> PathSpec {
    let about = "How to report vulnerabilities (RFC 9116)";
    PathSpec::readable(
        OperationSpec::text("Pages", "Get security.txt", about, "text/plain")
            .response(StatusCode::NOT_FOUND, "Not configured")
            .text_content("text/plain"),
    )
}

impl HttpServer {
    /// Handles `GET /.well-known/security.txt`.
    pub(crate) fn get_security_txt(&self) -> Reply {
        match &*self.security_txt.read().unwrap_or_else(PoisonError::into_inner) {
            Some(text) => reply(StatusCode::OK, TEXT, text.clone()),
            None => reply(StatusCode::NOT_FOUND, TEXT, "this server has no security.txt\n"),
        }
    }
}

/// OpenAPI spec of the favicon.
pub(crate) fn describe_favicon() -> PathSpec {
    PathSpec::readable(OperationSpec::text("Pages", "Get the favicon", "Favicon", "image/svg+xml"))
}

/// OpenAPI spec of the stylesheet.
pub(crate) fn describe_stylesheet() -> PathSpec {
    PathSpec::readable(OperationSpec::text("Pages", "Get the stylesheet", "Stylesheet", "text/css"))
}

/// Icon of the pages: the logo of the operator, or that of Tendot.
pub(crate) fn get_icon(site: &ServiceIdentity) -> Reply {
    match &site.logo {
        Some((media_type, image)) => static_file(media_type, image.clone()),
        None => static_file("image/svg+xml", Bytes::from_static(FAVICON)),
    }
}

pub(crate) fn static_file(media_type: &'static str, body: Bytes) -> Reply {
    let mut response = reply(StatusCode::OK, HeaderValue::from_static(media_type), body);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    response
}
