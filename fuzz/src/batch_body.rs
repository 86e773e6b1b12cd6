//! Bodies of batches, as JSON lines, CSV or gzip: every line that is answered has a number and an outcome.
//!
//! Bits of the first byte: CSV, gzip; the second byte says where the body is divided. Nothing is registered.

use serde_json::Value;

use crate::http_service::{TOKEN, exchange, first_status};

pub(crate) fn check(bytes: &[u8]) {
    let Some(([form, division], body)) = bytes.split_first_chunk() else { return };
    let media_type = if form & 1 == 0 { "application/x-ndjson" } else { "text/csv" };
    let encoding = if form & 2 == 0 { "identity" } else { "gzip" };
    let head = format!(
        "POST /api/v1/dois/batch?dry-run HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: {media_type}\r\n\
         Content-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let (first, second) = body.split_at(usize::from(*division).min(body.len()));
    let received = exchange(&[head.as_bytes(), first, second]);
    let status = first_status(&received).expect("a response");
    if status != 200 {
        return;
    }
    let text = str::from_utf8(&received).expect("a response in UTF-8");
    let (_, results) = text.split_once("\r\n\r\n").expect("the end of the head");
    let mut last = 0;
    for line in results.lines() {
        let result: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let Some(number) = result["line"].as_u64() else { continue };
        assert!(number > last, "{number} after {last}");
        last = number;
        assert!(result["status"].is_string(), "{line}");
    }
}
