//! Bodies for hyper's own 4xx responses, which have neither a body nor a request id.

use std::time::SystemTime;

use bytes::Bytes;
use http::HeaderValue;

use crate::http::server::listener::HttpLimits;
use crate::http::server::request_target::{EncodedTarget, RedirectedMethod};
use crate::http::server::smuggling_guard::HeadFault;

/// Maximum length of hyper's own error responses.
const MAX_HYPER_ERROR_LEN: usize = 256;

/// Maximum length of path and query.
const MAX_PATH_LEN: usize = (u16::MAX - 1) as usize;

/// Offset of a response of hyper's own in the written bytes. It is the last one of a connection; the server's responses have
/// other headers, and none of its bodies ends with an empty line.
pub(crate) fn find_hyper_error(written: &[u8]) -> Option<usize> {
    if !written.ends_with(b"\r\n\r\n") {
        return None;
    }
    let tail = written.len().saturating_sub(MAX_HYPER_ERROR_LEN);
    let at = tail + memchr::memmem::rfind(written.get(tail..)?, b"HTTP/1.")?;
    let (status, mut lines) = split_head(written.get(at..)?)?;
    // `100 Continue` is hyper's own, too, and has no headers.
    let is_client_error = status.split(' ').nth(1).is_some_and(|status| status.starts_with('4'));
    (is_client_error && lines.all(|line| HYPER_ERROR_HEADERS.iter().any(|header| line.starts_with(header))))
        .then_some(at)
}

/// Headers of hyper's own error responses.
const HYPER_ERROR_HEADERS: [&str; 3] = ["connection: close", "content-length: 0", "date: "];

/// Splits a head into status line and header lines.
fn split_head(head: &[u8]) -> Option<(&str, impl Iterator<Item = &str>)> {
    let mut lines = str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?.split("\r\n");
    Some((lines.next()?, lines))
}

/// Adds a body with the reason, as far as known, and the request id.
pub(crate) fn add_body(
    response: &[u8],
    fault: Option<&HeadFault>,
    limits: &HttpLimits,
    id: &HeaderValue,
) -> Bytes {
    let Some((status, lines)) = split_head(response) else { return Bytes::copy_from_slice(response) };
    let reason = match (status.split(' ').nth(1), fault) {
        (Some("414"), _) => format!("the request target exceeds {MAX_PATH_LEN} bytes"),
        (Some("431"), _) => {
            let (fields, bytes) = (limits.max_headers, limits.max_header_bytes);
            format!("the request head exceeds {fields} header fields or {bytes} bytes")
        }
        (_, Some(fault)) => format!("malformed request head: {fault}"),
        (_, None) => {
            "malformed request head: expected `METHOD TARGET HTTP/1.1` and `name: value` lines".into()
        }
    };
    let id = id.to_str().unwrap_or_default();
    let mut with_body = format!(
        "{status}\r\ncontent-type: text/plain;charset=utf-8\r\nx-content-type-options: nosniff\r\n\
         access-control-allow-origin: *\r\ncache-control: no-store\r\nx-request-id: {id}\r\n"
    );
    for line in lines.filter(|line| !line.starts_with("content-length")) {
        with_body += line;
        with_body += "\r\n";
    }
    with_body += &format!("content-length: {}\r\n\r\n{reason}\n", reason.len() + 1);
    with_body.into()
}

/// Redirect to the percent-encoded target, instead of hyper's own 400.
pub(crate) fn redirect(redirect: &EncodedTarget, id: &HeaderValue) -> Bytes {
    let EncodedTarget { target, method } = redirect;
    let status = match method {
        RedirectedMethod::Get | RedirectedMethod::Head => "301 Moved Permanently",
        RedirectedMethod::Other => "308 Permanent Redirect",
    };
    let id = id.to_str().unwrap_or_default();
    let body = format!("the request target is not percent-encoded; use {target}\n");
    let head = format!(
        "HTTP/1.1 {status}\r\nlocation: {target}\r\ncontent-type: text/plain;charset=utf-8\r\n\
         x-content-type-options: nosniff\r\naccess-control-allow-origin: *\r\n\
         access-control-expose-headers: Location, X-Request-Id\r\ncache-control: no-store\r\nx-request-id: {id}\r\n\
         connection: close\r\ndate: {}\r\ncontent-length: {}\r\n\r\n",
        httpdate::fmt_http_date(SystemTime::now()),
        body.len()
    );
    if *method == RedirectedMethod::Head { head.into() } else { (head + &body).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYPER_ERROR: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\
                              date: Mon, 16 Nov 2026 04:48:24 GMT\r\n\r\n";

    #[test]
    fn finds_hyper_errors() {
        let before = "HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\nx-request-id: 1\r\n\r\n";
        assert_eq!(find_hyper_error(HYPER_ERROR.as_bytes()), Some(0));
        assert_eq!(find_hyper_error(format!("{before}{HYPER_ERROR}").as_bytes()), Some(before.len()));
        assert_eq!(
            find_hyper_error(format!("{}{HYPER_ERROR}", before.repeat(9)).as_bytes()),
            Some(9 * before.len())
        );
        assert_eq!(find_hyper_error(before.as_bytes()), None);
        assert_eq!(find_hyper_error(format!("{HYPER_ERROR}{before}").as_bytes()), None);
        assert_eq!(find_hyper_error(format!("{HYPER_ERROR}x").as_bytes()), None);
        assert_eq!(
            find_hyper_error(b"HTTP/1.1 400 Bad Request\r\nx-request-id: 1\r\ncontent-length: 0\r\n\r\n"),
            None
        );
        assert_eq!(find_hyper_error(b"HTTP/1.1 100 Continue\r\n\r\n"), None);
        assert_eq!(find_hyper_error(b"\r\n\r\n"), None);
        assert_eq!(find_hyper_error(b""), None);
    }

    #[test]
    fn adds_body_to_hyper_errors() {
        let add_body = |response: &str, fault: Option<HeadFault>| {
            let response = add_body(
                response.as_bytes(),
                fault.as_ref(),
                &HttpLimits::default(),
                &HeaderValue::from_static("abc"),
            );
            String::from_utf8(response.to_vec()).unwrap()
        };
        let response =
            add_body(HYPER_ERROR, Some(HeadFault { line: 2, reason: "line ends without CR".into() }));
        assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{response}");
        assert!(
            response.contains("\r\nx-request-id: abc\r\n") && response.contains("\r\nconnection: close\r\n")
        );
        let body = "malformed request head: line 2: line ends without CR\n";
        assert!(
            response.ends_with(&format!("\r\ncontent-length: {}\r\n\r\n{body}", body.len())),
            "{response}"
        );
        assert_eq!(response.matches("content-length").count(), 1);
        assert!(
            add_body(&HYPER_ERROR.replace("400", "414"), None)
                .ends_with("the request target exceeds 65534 bytes\n")
        );
    }
}
