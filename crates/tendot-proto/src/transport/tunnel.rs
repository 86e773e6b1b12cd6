//! HTTP tunnel: messages as `POST` bodies of type `application/x-hdl-message`.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::handle::Handle;

/// Media type of requests and responses.
pub const CONTENT_TYPE: &str = "application/x-hdl-message";

/// Maximum length of the head of a response, in bytes.
pub const MAX_RESPONSE_HEAD_LEN: usize = 16_384;

/// Maximum number of headers of a response.
const MAX_RESPONSE_HEADERS: usize = 64;

/// Whether a media type (`Content-Type`, or `Accept` with one type) is that of messages. Parameters are ignored.
///
/// ```
/// use tendot_proto::tunnel::is_message_type;
///
/// assert!(is_message_type("Application/X-HDL-Message; charset=x"));
/// assert!(!is_message_type("text/html"));
/// ```
pub fn is_message_type(content_type: &str) -> bool {
    content_type.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(CONTENT_TYPE))
}

/// Head of an HTTP request with a message of `length` bytes, including the empty line.
///
/// `host` and `path` come from untrusted records. Invalid characters are percent-encoded in the path; a host with such
/// characters is left empty, which HTTP allows (RFC 9110, 7.2).
///
/// ```
/// use tendot_proto::{Handle, tunnel::request_head};
///
/// let head = request_head("192.0.2.1:8000", "", Handle::from("10.1000/1"), 69);
/// assert!(head.starts_with("POST /10.1000%2F1 HTTP/1.1\r\nHost: 192.0.2.1:8000\r\n"));
/// assert!(head.ends_with("Content-Length: 69\r\n\r\n"));
/// ```
pub fn request_head(host: &str, path: &str, handle: Handle<'_>, length: usize) -> String {
    let mut head = "POST ".to_string();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        head.push('/');
        percent_encode(&mut head, segment.as_bytes());
    }
    head.push('/');
    percent_encode(&mut head, handle.as_bytes());
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
    let host = if host.bytes().all(allowed) { host } else { "" };
    // Writing to a `String` cannot fail.
    let _ = write!(
        head,
        " HTTP/1.1\r\nHost: {host}\r\nAccept: {CONTENT_TYPE}\r\nContent-Type: {CONTENT_TYPE}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    head
}

/// Percent-encodes all but the unreserved characters of RFC 3986, 2.3.
fn percent_encode(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(char::from(*byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Strips the line break that some implementations send before the message.
///
/// ```
/// use tendot_proto::tunnel::strip_leading_newline;
///
/// assert_eq!(strip_leading_newline(b"\r\n\x02\x0b"), b"\x02\x0b");
/// assert_eq!(strip_leading_newline(b"\x02\x0b\r\n"), b"\x02\x0b\r\n");
/// ```
pub fn strip_leading_newline(body: &[u8]) -> &[u8] {
    let body = body.strip_prefix(b"\r").unwrap_or(body);
    body.strip_prefix(b"\n").unwrap_or(body)
}

/// Offset of the body of an HTTP response, once the head is complete; none before.
///
/// The status is ignored, as in Handle.Net's client: the result is in the message.
fn find_response_body(received: &[u8]) -> Result<Option<usize>, TunnelError> {
    if !b"HTTP/1.".starts_with(received.get(..7).unwrap_or(received)) {
        return Err(TunnelError::NotHttp);
    }
    let window = received.get(..MAX_RESPONSE_HEAD_LEN).unwrap_or(received);
    let mut headers = [httparse::EMPTY_HEADER; MAX_RESPONSE_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let mut parser = httparse::ParserConfig::default();
    parser.ignore_invalid_headers_in_responses(true);
    let body = match parser.parse_response(&mut response, window) {
        Ok(httparse::Status::Complete(body)) => body,
        Ok(httparse::Status::Partial) if window.len() < MAX_RESPONSE_HEAD_LEN => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(TunnelError::HeadTooLong);
        }
        Err(_) => return Err(TunnelError::NotHttp),
    };
    let status = response.code.unwrap_or_default();
    let values = |name: &'static str| {
        let found = response.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        found.filter_map(|header| core::str::from_utf8(header.value).ok())
    };
    let mut codings = values("transfer-encoding").chain(values("content-encoding"));
    if codings.any(|coding| !coding.trim().eq_ignore_ascii_case("identity")) {
        return Err(TunnelError::Encoded { status });
    }
    if !values("content-type").any(is_message_type) {
        return Err(TunnelError::NotAMessage { status });
    }
    Ok(Some(body))
}

/// Incremental parser of the head of an HTTP tunnel response; scans every byte once.
///
/// ```
/// use tendot_proto::tunnel::{ResponseHead, TunnelError};
///
/// let mut head = ResponseHead::default();
/// assert_eq!(head.push(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-hdl-"), Ok(None));
/// assert_eq!(head.push(b"message\r\n\r\n\x02\x0b"), Ok(Some(&b"\x02\x0b"[..])));
///
/// let page = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n";
/// assert_eq!(ResponseHead::default().push(page), Err(TunnelError::NotAMessage { status: 404 }));
/// ```
#[derive(Debug, Default)]
pub struct ResponseHead {
    bytes: Vec<u8>,
    /// Bytes already searched for the end. The head may arrive byte by byte, and each byte is scanned once.
    searched: usize,
    /// Offset of the body, once known.
    body: Option<usize>,
}

impl ResponseHead {
    /// Appends received bytes. Once the head is complete, returns the start of the message, without the line break that
    /// some implementations send before it; pass all further bytes elsewhere.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<&[u8]>, TunnelError> {
        self.bytes.extend_from_slice(bytes);
        if self.body.is_none() {
            let is_complete = self.scan_for_end() || self.bytes.len() >= MAX_RESPONSE_HEAD_LEN;
            // Input that is not HTTP is detected at once; its end may never arrive.
            let start = if is_complete { None } else { self.bytes.get(..b"HTTP/1.".len()) };
            self.body = find_response_body(start.unwrap_or(&self.bytes))?;
        }
        // The line break may arrive in two parts.
        let body = self.body.and_then(|body| self.bytes.get(body..)).filter(|body| body.len() >= 2);
        Ok(body.map(strip_leading_newline))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether an empty line ends in the bytes not searched yet.
    fn scan_for_end(&mut self) -> bool {
        let searched = core::mem::replace(&mut self.searched, self.bytes.len());
        let new = self.bytes.iter().enumerate().skip(searched);
        new.filter(|(_, byte)| **byte == b'\n').any(|(offset, _)| {
            let before = self.bytes.get(..offset).unwrap_or_default();
            before.ends_with(b"\n") || before.ends_with(b"\n\r")
        })
    }
}

/// HTTP response that carries no message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// Not HTTP/1.
    #[error("response is not HTTP/1")]
    NotHttp,
    /// The head does not end within [`MAX_RESPONSE_HEAD_LEN`] bytes.
    #[error("response head exceeds {MAX_RESPONSE_HEAD_LEN} bytes")]
    HeadTooLong,
    /// Another content type, for example an HTML page.
    #[error("unexpected response: status {status}, content type is not {CONTENT_TYPE}")]
    NotAMessage {
        /// HTTP status.
        status: u16,
    },
    /// A content or transfer coding, which the protocol does not support.
    #[error("unsupported response: status {status}, compressed or chunked")]
    Encoded {
        /// HTTP status.
        status: u16,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_heads() {
        let head = |host, path, handle: &str| request_head(host, path, Handle::from(handle), 5);
        assert!(
            head("a.b", "x/y/", "10.1/ü?")
                .starts_with("POST /x/y/10.1%2F%C3%BC%3F HTTP/1.1\r\nHost: a.b\r\n")
        );
        assert!(
            head("[2001:db8::1]:8000", "/", "1/2")
                .starts_with("POST /1%2F2 HTTP/1.1\r\nHost: [2001:db8::1]:8000\r\n")
        );
        // Neither host nor path of a record can end the line.
        let hostile = head("a\r\nX: y", "p HTTP/1.1\r\nX: y", "1/2");
        assert_eq!(hostile.lines().count(), 6, "{hostile}");
        assert!(hostile.contains("\r\nHost: \r\n"));
    }

    #[test]
    fn response_heads() {
        check("HTTP/1.0 500 x\ncontent-type:application/x-hdl-message;a=b\n\n", Ok(Some(59)));
        check("HTTP/1.1 200 OK\r\nContent-Type: application/x-hdl-message\r\n", Ok(None));
        check("HTTP/1.1 200 OK\r\nServer: \u{fc}\r\n\r\n", Err(TunnelError::NotAMessage { status: 200 }));
        check("HTT", Ok(None));
        check("", Ok(None));
        check("\u{2}\u{b}", Err(TunnelError::NotHttp));
        check("HTTP/1.1 abc\r\n\r\n", Err(TunnelError::NotHttp));
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            Err(TunnelError::Encoded { status: 200 }),
        );
        check(&("HTTP/1.1 200 OK\r\n".to_string() + &"a: b\r\n".repeat(4000)), Err(TunnelError::HeadTooLong));
    }

    #[track_caller]
    fn check(received: &str, body: Result<Option<usize>, TunnelError>) {
        assert_eq!(find_response_body(received.as_bytes()), body, "{received}");
    }

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-hdl-message\r\n\r\n";

    /// The result does not depend on how the input is split.
    #[test]
    fn head_in_parts() {
        let old = b"HTTP/1.0 500 x\nContent-Type: application/x-hdl-message\n\n";
        for head in [HEAD, old] {
            let received = [head, b"\r\n", &[2; 30]].concat();
            for size in 1..=received.len() {
                let mut parts = ResponseHead::default();
                let mut body = None;
                for (index, part) in received.chunks(size).enumerate() {
                    body = parts.push(part).unwrap().map(<[u8]>::to_vec);
                    let received_len = (size * (index + 1)).min(received.len());
                    assert_eq!(body.is_some(), received_len >= head.len() + 2, "{size} {received_len}");
                }
                assert_eq!(body.unwrap(), [2; 30], "{size}");
            }
        }
        for other in [&b"SSH-2.0"[..], b"HTTP/2", b"\n"] {
            assert_eq!(ResponseHead::default().push(other), Err(TunnelError::NotHttp));
        }
    }

    /// An end written into bytes already searched is not found: nothing is scanned twice.
    #[test]
    fn head_is_scanned_once() {
        let mut head = ResponseHead::default();
        head.push(HEAD.get(..40).unwrap()).unwrap();
        head.bytes[15..19].copy_from_slice(b"\r\n\r\n");
        assert_eq!(head.push(HEAD.get(40..50).unwrap()), Ok(None));
    }
}
