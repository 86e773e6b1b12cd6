//! Redirect targets: the URL of a record, made safe for `Location`.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use url::Url;

/// Schemes that redirects may lead to. Other URLs are shown as text: they could run in a browser, or read local files.
pub(crate) const REDIRECT_SCHEMES: [&str; 5] = ["http", "https", "ftp", "ftps", "mailto"];

/// Characters encoded in a URL: all that RFC 3986 does not allow. A percent sign stays, since it may begin an escape.
const URL_ENCODE_SET: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Reason a URL cannot be a redirect target.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("the URL has control characters")]
    ControlCharacter,
    #[error("the URL scheme is not allowed")]
    UnsupportedScheme,
    #[error("the URL host is invalid")]
    InvalidHost,
}

/// URL for `Location`: trimmed, host in ASCII, other characters encoded as needed.
pub(crate) fn sanitize(stored: &str) -> Result<Cow<'_, str>, TargetError> {
    let address = stored.trim();
    if address.contains(char::is_control) {
        return Err(TargetError::ControlCharacter);
    }
    let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
    if !REDIRECT_SCHEMES.iter().any(|allowed| scheme.eq_ignore_ascii_case(allowed)) {
        return Err(TargetError::UnsupportedScheme);
    }
    // Fast path: nearly all need no change.
    if address.bytes().all(|byte| {
        byte.is_ascii()
            && !matches!(byte, b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
    }) {
        return Ok(Cow::Borrowed(address));
    }
    let (before, host, after) = split_host(address);
    let host = if host.is_ascii() {
        Cow::Borrowed(host)
    } else {
        Cow::Owned(url::Host::parse(host).map_err(|_| TargetError::InvalidHost)?.to_string())
    };
    let encoded = |text| utf8_percent_encode(text, URL_ENCODE_SET);
    // As in browsers. Encoded, it would become part of the host, and an `@` behind it would end user information.
    let (port, path) = after.split_at(after.find(['/', '?', '#', '\\']).unwrap_or(after.len()));
    let (slash, path) = path.strip_prefix('\\').map_or(("", path), |rest| ("/", rest));
    let target = format!("{}{}{}{slash}{}", encoded(before), encoded(&host), encoded(port), encoded(path));
    // Encoding must not lead to another host.
    let host_of = |address: &str| Url::parse(address).ok()?.host().map(|host| host.to_owned());
    if host_of(address) == host_of(&target) { Ok(Cow::Owned(target)) } else { Err(TargetError::InvalidHost) }
}

/// Splits a URL before and after its host.
fn split_host(address: &str) -> (&str, &str, &str) {
    let Some(start) = address.find("://").map(|at| at + 3) else { return (address, "", "") };
    let end = address[start..].find(['/', '?', '#', '\\']).map_or(address.len(), |at| start + at);
    let start = address[start..end].rfind('@').map_or(start, |at| start + at + 1);
    let end = address[start..end].rfind(':').map_or(end, |at| start + at);
    (&address[..start], &address[start..end], &address[end..])
}

/// URL with a suffix; `None` if that would change the host or is not plain text.
pub(crate) fn append_suffix(address: &str, suffix: &str) -> Option<String> {
    // A leading backslash would be sent as a slash, and so end the host.
    if suffix.contains(char::is_control) || suffix.starts_with('\\') {
        return None;
    }
    let extended = sanitize(&format!("{address}{suffix}")).ok()?.into_owned();
    let (original, appended) = (Url::parse(address).ok()?, Url::parse(&extended).ok()?);
    let authority = |url: &Url| {
        let origin =
            (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default());
        (origin, url.username().to_owned(), url.password().map(str::to_owned))
    };
    (original.has_host() && authority(&original) == authority(&appended)).then_some(extended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sanitizes() {
        check("https://example.org/one", Ok("https://example.org/one"));
        check("  https://example.org/ \t", Ok("https://example.org/"));
        check("https://example.org/a b?x=1&y=%20", Ok("https://example.org/a%20b?x=1&y=%20"));
        check("https://example.org/例", Ok("https://example.org/%E4%BE%8B"));
        check("https://bücher.example/x", Ok("https://xn--bcher-kva.example/x"));
        check("https://me@bücher.example:8443/ü", Ok("https://me@xn--bcher-kva.example:8443/%C3%BC"));
        check("https://example.org/<a>\"^`{|}\\", Ok("https://example.org/%3Ca%3E%22%5E%60%7B%7C%7D%5C"));
        check("HTTPS://EXAMPLE.org", Ok("HTTPS://EXAMPLE.org"));
        check("http://[::1]:80/", Ok("http://[::1]:80/"));
        check("mailto:me@example.org", Ok("mailto:me@example.org"));
        check("ftp://example.org/", Ok("ftp://example.org/"));
        check("https://x/\r\nSet-Cookie:a=1", Err(TargetError::ControlCharacter));
        check("https://x/\0", Err(TargetError::ControlCharacter));
        check("https://x/\u{85}y", Err(TargetError::ControlCharacter));
        check("java\tscript:alert(1)", Err(TargetError::ControlCharacter));
        check(" javascript:alert(1)", Err(TargetError::UnsupportedScheme));
        check("JaVaScript:alert(1)", Err(TargetError::UnsupportedScheme));
        check("data:text/html,x", Err(TargetError::UnsupportedScheme));
        check("vbscript:x", Err(TargetError::UnsupportedScheme));
        check("file:///etc/passwd", Err(TargetError::UnsupportedScheme));
        check("//example.org/", Err(TargetError::UnsupportedScheme));
        check("example.org", Err(TargetError::UnsupportedScheme));
        check("", Err(TargetError::UnsupportedScheme));
        check("https://example.org\\@evil.example/x", Ok("https://example.org/@evil.example/x"));
        check("https://example.org:81\\x\\y", Ok("https://example.org:81/x%5Cy"));
        check("https://a\u{3000}b\u{ff0f}é/x", Err(TargetError::InvalidHost));
    }

    #[track_caller]
    fn check(stored: &str, expected: Result<&str, TargetError>) {
        assert_eq!(sanitize(stored).as_deref().map_err(|error| *error), expected, "{stored:?}");
    }

    #[test]
    fn appends_suffixes() {
        appends("https://example.org/one", "/x/y", Some("https://example.org/one/x/y"));
        appends("https://example.org/one", "?a=b c", Some("https://example.org/one?a=b%20c"));
        appends("https://example.org/one?a", "&b", Some("https://example.org/one?a&b"));
        appends("https://example.org", "/x", Some("https://example.org/x"));
        appends("https://example.org", "//evil.net", Some("https://example.org//evil.net"));
        appends("https://example.org/", "../x", Some("https://example.org/../x"));
        appends("https://example.org", ".evil.net", None);
        appends("https://example.org", "@evil.net", None);
        appends("https://example.org", ":81", None);
        appends("https://example.org", ":443/x", Some("https://example.org:443/x"));
        appends("https://example.org", "\\.evil.net", None);
        appends("https://example.org/", "\r\nX: y", None);
        appends("mailto:me@example.org", "?subject=x", None);
    }

    #[track_caller]
    fn appends(address: &str, suffix: &str, expected: Option<&str>) {
        assert_eq!(append_suffix(address, suffix).as_deref(), expected, "{address} {suffix:?}");
    }
}
