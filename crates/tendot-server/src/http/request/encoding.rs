//! UTF-8 is the only encoding of paths, queries and headers: text in another one is rejected, never replaced.

use std::borrow::Cow;

use http::header::{COOKIE, HeaderName, REFERER, USER_AGENT};
use http::{HeaderMap, Uri};

use crate::http::request::percent::{self, INVALID_UTF8, RequestSyntaxError};

/// Headers that are not interpreted as text: other programs decide their content, such as the cookies of another service of
/// the same host.
const OPAQUE_HEADERS: [HeaderName; 3] = [COOKIE, REFERER, USER_AGENT];

/// Checks that path and query are UTF-8 after percent-decoding. Other syntax errors are left to the handler.
pub(crate) fn check_target(uri: &Uri) -> Result<(), RequestSyntaxError> {
    for (text, part) in [(Some(uri.path()), "path"), (uri.query(), "query")] {
        let Some(text) = text.filter(|text| has_encoded_byte(text)) else { continue };
        match percent::decode_text(text, part) {
            Err(error) if error.reason == INVALID_UTF8 => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a percent-encoded byte is not ASCII: most targets, such as those with `%2F`, need not be decoded.
fn has_encoded_byte(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'%', bytes).any(|at| {
        bytes.get(at + 1).is_some_and(|digit| matches!(digit, b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F'))
    })
}

/// Checks that header values are UTF-8.
pub(crate) fn check_headers(headers: &HeaderMap) -> Result<(), RequestSyntaxError> {
    // Nearly all values are ASCII.
    if headers.values().all(|value| value.as_bytes().is_ascii()) {
        return Ok(());
    }
    let checked = headers.iter().filter(|(name, _)| !OPAQUE_HEADERS.contains(name));
    for (name, value) in checked {
        if let Err(error) = str::from_utf8(value.as_bytes()) {
            let part = Cow::Owned(format!("header `{name}`"));
            return Err(RequestSyntaxError { part, offset: error.valid_up_to(), reason: INVALID_UTF8 });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn targets() {
        let check = |target: &str, expected: Result<(), &str>| {
            let found = check_target(&target.parse().unwrap()).map_err(|error| error.to_string());
            assert_eq!(found.as_ref().copied().map_err(String::as_str), expected, "{target}");
        };
        check("/10.1/caf%C3%A9?x=%C3%A9", Ok(()));
        check("/10.1/100%?x=%", Ok(()));
        check("/10.1/caf%E9", Err("invalid UTF-8 at byte 9 of the path"));
        check("/docs?x=%C3%A9&y=%E9", Err("invalid UTF-8 at byte 11 of the query"));
    }

    #[test]
    fn headers() {
        let check = |name: HeaderName, value: &[u8], expected: Result<(), &str>| {
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_bytes(value).unwrap())]);
            let found = check_headers(&headers).map_err(|error| error.to_string());
            assert_eq!(found.as_ref().copied().map_err(String::as_str), expected, "{value:?}");
        };
        check(http::header::ACCEPT, "é".as_bytes(), Ok(()));
        check(http::header::ACCEPT, b"a\xe9", Err("invalid UTF-8 at byte 1 of the header `accept`"));
        check(COOKIE, b"a\xe9", Ok(()));
    }
}
