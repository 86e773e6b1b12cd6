//! gzip compression of responses.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::StatusCode;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, VARY,
};

use crate::http::response::reply::Reply;

/// Minimum body size for compression.
const MIN_COMPRESS_BYTES: usize = 1 << 10;

/// Body size from which compression runs on a blocking thread.
const MIN_OFFLOAD_BYTES: usize = 64 << 10;

const GZIP_LEVEL: Compression = Compression::new(5);

/// Whether to compress a response: it is worth it, and the client accepts gzip. Adds `Vary` if the encoding is negotiable.
pub(crate) fn should_compress(request: &HeaderMap, response: &mut Reply) -> bool {
    // A 304 stands for a response that may have been compressed; its own headers do not show that.
    let is_not_modified = response.status() == StatusCode::NOT_MODIFIED;
    let is_compressible = response.body().len() >= MIN_COMPRESS_BYTES
        && is_text(response.headers())
        && !is_private(response.headers());
    if is_not_modified || is_compressible {
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    is_compressible && accepts_gzip(request)
}

/// Compresses a response, large ones on a blocking thread.
pub(crate) async fn compress(response: &mut Reply) {
    if response.body().len() < MIN_OFFLOAD_BYTES {
        return compress_inline(response);
    }
    let body = response.body().clone();
    let compressed = tokio::task::spawn_blocking(move || gzip(&body)).await;
    replace_body(response, compressed.ok().flatten());
}

/// Compresses a small response inline.
pub(crate) fn compress_inline(response: &mut Reply) {
    let compressed = gzip(response.body());
    replace_body(response, compressed);
}

fn replace_body(response: &mut Reply, compressed: Option<Vec<u8>>) {
    let Some(compressed) = compressed.filter(|smaller| smaller.len() < response.body().len()) else { return };
    *response.body_mut() = compressed.into();
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    // A compressed representation has a weak ETag (RFC 9110, section 8.8.1).
    if let Some(tag) =
        headers.get(ETAG).and_then(|tag| tag.to_str().ok()).filter(|tag| !tag.starts_with("W/"))
        && let Ok(weak) = HeaderValue::try_from(format!("W/{tag}"))
    {
        headers.insert(ETAG, weak);
    }
}

fn gzip(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 3), GZIP_LEVEL);
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

fn is_text(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media_type.starts_with("text/")
        || ["application/json", "application/problem+json", "application/javascript", "image/svg+xml"]
            .iter()
            .any(|text_type| media_type.starts_with(text_type))
}

/// Private responses are never compressed (BREACH).
fn is_private(headers: &HeaderMap) -> bool {
    headers.get(CACHE_CONTROL).is_some_and(|control| control.as_bytes().starts_with(b"private"))
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    let lines = request.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).take(32).any(|entry| {
        let (coding, rest) = entry.split_once(';').unwrap_or((entry, ""));
        let quality = rest.trim().strip_prefix("q=").map_or(1.0, |text| text.parse().unwrap_or(0.0));
        coding.trim().eq_ignore_ascii_case("gzip") && quality > 0.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_encoding() {
        check("gzip", true);
        check("br, GZIP;q=0.5", true);
        check("gzip;q=0", false);
        check("gzip;q=x", false);
        check("*", false);
        check("identity", false);
        check("", false);
    }

    #[track_caller]
    fn check(accepted: &str, expected: bool) {
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_str(accepted).unwrap())]);
        assert_eq!(accepts_gzip(&headers), expected, "{accepted}");
    }
}
