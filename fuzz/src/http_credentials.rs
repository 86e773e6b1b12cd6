//! `Authorization` and `Cookie`: no value is accepted except the operator's token, and cookies never count.
//!
//! The first line is the value of `Authorization`, the rest that of `Cookie`.

use crate::http_service::{TOKEN, contains, exchange, first_status};

pub(crate) fn check(bytes: &[u8]) {
    let mut lines = bytes.splitn(2, |byte| *byte == b'\n');
    let (authorization, cookie) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    for target in ["/api/v1/tokens", "/api/handles/10.5555/ONE?auth", "/api/sessions/this"] {
        let received = exchange(&[&request(target, b"Authorization", authorization)]);
        let status = first_status(&received).expect("a response");
        let is_public = target.contains("ONE") || contains(&received, br#""authenticated":false"#);
        let is_token = contains(authorization, TOKEN.as_bytes());
        assert!(status >= 400 || is_public || is_token, "{target}: {}", String::from_utf8_lossy(&received));
    }
    let received = exchange(&[&request("/api/v1/tokens", b"Cookie", cookie)]);
    let status = first_status(&received).expect("a response");
    assert!(matches!(status, 400 | 401 | 431), "{}", String::from_utf8_lossy(&received));
}

/// Request with this header; characters that would end the header are omitted.
fn request(target: &str, name: &[u8], value: &[u8]) -> Vec<u8> {
    let start = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n");
    let value: Vec<u8> = value.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    [start.as_bytes(), name, b": ", &value, b"\r\n\r\n"].concat()
}
