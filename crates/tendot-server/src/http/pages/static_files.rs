//! Static files: stylesheet and icon.

use bytes::Bytes;
use http::StatusCode;
use http::header::{self, HeaderValue};

use crate::http::response::reply::{Reply, reply};

/// Stylesheet of all pages.
pub(crate) const STYLESHEET: &str = include_str!("../../../assets/style.css");

pub(crate) const FAVICON: &[u8] = include_bytes!("../../../assets/favicon.svg");

pub(crate) fn static_file(media_type: &'static str, body: &'static [u8]) -> Reply {
    let mut response = reply(StatusCode::OK, HeaderValue::from_static(media_type), Bytes::from_static(body));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    response
}
