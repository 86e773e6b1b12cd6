//! Request targets of HTTP/1 with characters that a URI cannot contain.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Maximum bytes of a target in a redirect.
const MAX_ENCODED_BYTES: usize = 64 << 10;

/// Reason a request target is not accepted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum TargetFault {
    /// The client should send this target: percent-encoded (RFC 9112, section 3).
    Encodable(EncodedTarget),
    Invalid(Cow<'static, str>),
}

/// Redirect to the percent-encoded form of a request target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EncodedTarget {
    pub(crate) target: String,
    pub(crate) method: RedirectedMethod,
}

/// Method of a request that is redirected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RedirectedMethod {
    Get,
    /// Same status as GET, without a body.
    Head,
    /// After 301, clients may send `POST` again as `GET` (RFC 9110, section 15.4.2), so that the status is 308.
    Other,
}

impl EncodedTarget {
    fn new(target: String, method: &[u8]) -> Self {
        let method = match method {
            b"GET" => RedirectedMethod::Get,
            b"HEAD" => RedirectedMethod::Head,
            _ => RedirectedMethod::Other,
        };
        Self { target, method }
    }
}

/// Checks the target of a request line.
///
/// The HTTP library rejects `<`, `>` and the grave accent, and drops everything from `#` on. All four occur in names, so that
/// the client is redirected to the encoded target. Text that is not UTF-8 is rejected. All other characters are read as they
/// stand.
pub(crate) fn check_request_line(line: &[u8]) -> Result<(), TargetFault> {
    // Branch-free, so that the loop is vectorized.
    let is_checked =
        |byte: u8| (byte == b'<') | (byte == b'>') | (byte == b'`') | (byte == b'#') | (byte >= 0x80);
    let spaces = memchr::memchr_iter(b' ', line).take(3).count();
    if spaces < 3 && !line.iter().fold(false, |found, byte| found | is_checked(*byte)) {
        return Ok(());
    }
    if let Some(reason) = describe_fault(line) {
        return Err(TargetFault::Invalid(reason));
    }
    let Some((method, target, Some(version))) = split_line(line) else { return Ok(()) };
    // All other lines are rejected by the HTTP library, perhaps as soon as it reads a part of them.
    let is_valid =
        is_token(method) && target.first() == Some(&b'/') && matches!(version, b"HTTP/1.1\r" | b"HTTP/1.0\r");
    if !is_valid || !target.iter().any(|byte| matches!(byte, b'<' | b'>' | b'`' | b'#')) {
        return Ok(());
    }
    if let Some(offset) = target.iter().position(u8::is_ascii_control) {
        return Err(TargetFault::Invalid(
            format!("control character at byte {offset} of the request target").into(),
        ));
    }
    let target = encode(target);
    if target.len() > MAX_ENCODED_BYTES {
        return Err(TargetFault::Invalid("request target is not percent-encoded".into()));
    }
    Err(TargetFault::Encodable(EncodedTarget::new(target, method)))
}

/// Whether a text is a token (RFC 9110, section 5.6.2), as methods are.
fn is_token(text: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_token)
}

/// Fault of a request line, of which the end may be missing: hyper rejects some lines before they are complete.
pub(crate) fn describe_fault(line: &[u8]) -> Option<Cow<'static, str>> {
    let (_, target, version) = split_line(line)?;
    if let Err(error) = std::str::from_utf8(target)
        // The last character may be incomplete.
        && (version.is_some() || error.error_len().is_some())
    {
        let offset = error.valid_up_to();
        return Some(format!("invalid UTF-8 at byte {offset} of the request target").into());
    }
    let version = version?;
    let is_version = version.iter().zip(b"HTTP/").all(|(found, expected)| found == expected);
    let offset = target.len();
    (!is_version).then(|| format!("space at byte {offset} of the request target; encode it as `%20`").into())
}

/// Method, target and version of a request line.
type RequestLine<'l> = (&'l [u8], &'l [u8], Option<&'l [u8]>);

/// Parts of a request line; `None` without a method.
fn split_line(line: &[u8]) -> Option<RequestLine<'_>> {
    let (method, rest) = split_at_space(line)?;
    Some(match split_at_space(rest) {
        Some((target, version)) => (method, target, Some(version)),
        None => (method, rest, None),
    })
}

fn split_at_space(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b' ', text)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Percent-encodes the characters of a target that a URI cannot contain; existing triplets stay.
fn encode(target: &[u8]) -> String {
    let after_slashes = target.iter().skip_while(|byte| **byte == b'/');
    // Two slashes would begin a host name, and browsers read a backslash as a slash.
    let mut encoded = String::from("/");
    for byte in after_slashes {
        match byte {
            b'<' | b'>' | b'`' | b'#' | b'"' | b'\\' | b'^' | b'{' | b'|' | b'}' | 0..=b' ' | 0x7f.. => {
                let _ = write!(encoded, "%{byte:02X}");
            }
            _ => encoded.push(char::from(*byte)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let check = |line: &str, expected: Result<(), &str>| {
            let found = check_request_line(line.as_bytes()).map_err(|fault| match fault {
                TargetFault::Encodable(encoded) => encoded.target,
                TargetFault::Invalid(reason) => format!("! {reason}"),
            });
            assert_eq!(found.as_ref().copied().map_err(String::as_str), expected, "{line}");
        };
        for accepted in ["/", "/a?b", "/a\"\\^{|}[]'~", "/é", "*", "http://a/<"] {
            check(&format!("GET {accepted} HTTP/1.1\r"), Ok(()));
        }
        check("GET / HTTP/1.1\r", Ok(()));
        check("garbage`", Ok(()));
        check("GET /a<\r", Ok(()));
        check("GET /a< HTTP/1.\r", Ok(()));
        check("GET /a< HTTP/2.0\r", Ok(()));
        check("G(T /a< HTTP/1.1\r", Ok(()));
        check("GET` /a HTTP/1.1\r", Ok(()));
        check("GET /a<b>?c`d#é%20 HTTP/1.1\r", Err("/a%3Cb%3E?c%60d%23%C3%A9%20"));
        check("GET //evil.net/< HTTP/1.1\r", Err("/evil.net/%3C"));
        check("GET /\\evil.net/< HTTP/1.1\r", Err("/%5Cevil.net/%3C"));
        check("GET /a\u{7f}< HTTP/1.1\r", Err("! control character at byte 2 of the request target"));
        check("GET /a#\t HTTP/1.1\r", Err("! control character at byte 3 of the request target"));
        check("GET /a b< HTTP/1.1\r", Err("! space at byte 2 of the request target; encode it as `%20`"));
        let long = format!("GET /{} HTTP/1.1\r", "<".repeat(MAX_ENCODED_BYTES / 3 + 1));
        check(&long, Err("! request target is not percent-encoded"));
        assert_eq!(describe_fault(b"GET /caf\xc3"), None);
        assert!(describe_fault(b"GET /caf\xc3 ").is_some());
        assert!(describe_fault(b"GET /caf\xe9x").is_some());
        assert!(describe_fault(b"GET /a b").is_some());
        assert_eq!(describe_fault(b"GET /a HT"), None);
        let latin1 = check_request_line(b"GET /caf\xe9 HTTP/1.1\r");
        let reason = "invalid UTF-8 at byte 4 of the request target";
        assert_eq!(latin1, Err(TargetFault::Invalid(reason.into())));
    }
}
