//! Names in request paths, in all forms that DOI proxies accept.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tendot_names::{ShortDoi, strip_handle_form};

use crate::http::request::percent::{self, RequestSyntaxError};
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;

/// Characters encoded in a name within a path.
const PATH_ENCODE_SET: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Name in a decoded path, without leading slashes and the prefix of its written form.
pub(crate) fn parse(path: &str) -> Cow<'_, str> {
    strip_handle_form(path.trim_start_matches('/'))
}

/// Name to redirect; a word of ASCII letters or digits is a shortDOI, `10/abcde`.
pub(crate) fn parse_or_short_doi(path: &str) -> Cow<'_, str> {
    let name = parse(path);
    ShortDoi::from_code(&name).map_or(name, |short| Cow::Owned(short.into_string()))
}

/// Whether text without a scheme can be a name: a prefix and a slash, or a prefix alone. The prefix of other text, such as a
/// title, a URL or the metadata of a query, has spaces, `scheme:`, or `key=`.
pub(crate) fn is_bare_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, _)) => {
            !prefix.is_empty() && !prefix.contains([':', '=', '&']) && !prefix.contains(char::is_whitespace)
        }
        None => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'),
    }
}

/// Parses the name in a path, and the query.
pub(crate) fn parse_name_and_query<'a>(
    path: &'a str,
    request: &RequestHead<'a>,
) -> Result<(Cow<'a, str>, QueryParams<'a>), RequestSyntaxError> {
    Ok((percent::decode_text(path, "path")?, QueryParams::parse(request.query)?))
}

/// Path of a name on this server, percent-encoded.
pub(crate) fn format(name: &str) -> String {
    // Two slashes would begin a host name.
    let mut path = String::from("/");
    let mut rest = name.trim_start_matches('/');
    // Browsers remove `.` and `..` segments, so the slash beside them is encoded.
    let is_dot_segment = |segment: &str| matches!(segment, "." | "..");
    while let Some((segment, after)) = rest.split_once('/') {
        path.extend(utf8_percent_encode(segment, PATH_ENCODE_SET));
        path.push_str(if is_dot_segment(segment) || is_dot_segment(after) { "%2F" } else { "/" });
        rest = after;
    }
    path.extend(utf8_percent_encode(rest, PATH_ENCODE_SET));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_forms() {
        check("/10.1000/182", "10.1000/182");
        check("//10.1000/182", "10.1000/182");
        check("/10.1000//182", "10.1000//182");
        check("/10.1000/182/", "10.1000/182/");
        check("/doi:10.1000/182", "10.1000/182");
        check("/DOI:10.1000/182", "10.1000/182");
        check("/doi: 10.1000/182", "10.1000/182");
        check("/hdl:20.500/x", "20.500/x");
        check("/info:doi/10.1000/182", "10.1000/182");
        check("/info:hdl/20.500/x", "20.500/x");
        check("/urn:doi:10.1000/182", "10.1000/182");
        check("/urn:doi:10.1000:182", "10.1000/182");
        check("/urn:doi:10.1000:1:8/2", "10.1000/1:8/2");
        check("/urn:doi:10.1000/1:82", "10.1000/1:82");
        check("/urn:eidr:10.5240:7791-8534-2C23-9030-8610-5", "10.5240/7791-8534-2C23-9030-8610-5");
        check("/urn:hdl:20.500:x", "20.500/x");
        check("/https://doi.org/10.1000/182", "10.1000/182");
        check("/doi.org/10.1000/182", "doi.org/10.1000/182");
        check("/abc", "abc");
        check("/10.1000", "10.1000");
        check("/", "");
        check("/é:x/y", "é:x/y");
    }

    #[track_caller]
    fn check(path: &str, expected: &str) {
        assert_eq!(parse(path), expected, "{path}");
    }

    #[test]
    fn short_dois() {
        assert_eq!(parse_or_short_doi("/abcde"), "10/abcde");
        assert_eq!(parse_or_short_doi("/10/abcde"), "10/abcde");
        assert_eq!(parse_or_short_doi("/doi:abcde"), "10/abcde");
        assert_eq!(parse_or_short_doi("/10.1000"), "10.1000");
        assert_eq!(parse_or_short_doi("/"), "");
        assert_eq!(parse_or_short_doi("/Self-organized criticality"), "Self-organized criticality");
        assert_eq!(parse_or_short_doi("/é"), "é");
    }

    #[test]
    fn bare_names() {
        for name in ["10.1000/182", "20.500/a b", "0.NA/10.1", "dk/x", "10.1000/", "10.1000", "4263537"] {
            assert!(is_bare_name(name), "{name}");
        }
        for text in
            ["", "/x", "Self-organized criticality", "a b/c", "https://example.org/x", "id=10.1/x", "login"]
        {
            assert!(!is_bare_name(text), "{text}");
        }
    }

    #[test]
    fn paths_of_names() {
        assert_eq!(format("10.1/a b%?#é"), "/10.1/a%20b%25%3F%23%C3%A9");
        assert_eq!(format("//example.org/x"), "/example.org/x");
        assert_eq!(format("10.1/a/../b/./c/.."), "/10.1/a/..%2Fb/.%2Fc%2F..");
        assert_eq!(format("10.1//x/"), "/10.1//x/");
    }
}
