//! Static files: stylesheet and icon.

use bytes::Bytes;
use http::StatusCode;
use http::header::{self, HeaderValue};

use crate::http::response::reply::{Reply, reply};
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

/// OpenAPI spec of the favicon.
pub(crate) fn describe_favicon() -> PathSpec {
    PathSpec::readable(OperationSpec::text("Pages", "Get the favicon", "Favicon", "image/svg+xml"))
}

/// OpenAPI spec of the stylesheet.
pub(crate) fn describe_stylesheet() -> PathSpec {
    PathSpec::readable(OperationSpec::text("Pages", "Get the stylesheet", "Stylesheet", "text/css"))
}

pub(crate) fn static_file(media_type: &'static str, body: &'static [u8]) -> Reply {
    let mut response = reply(StatusCode::OK, HeaderValue::from_static(media_type), Bytes::from_static(body));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    response
}
