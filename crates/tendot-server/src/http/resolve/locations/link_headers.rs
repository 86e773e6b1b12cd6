//! `Link` and other response headers from a record.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::header::{HeaderMap, HeaderName, HeaderValue, LINK};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tendot_proto::HandleValue;
use tendot_proto::record::{ExtraHeader, ExtraHeaders, Link, Links, Location, Locations};
use tendot_registry::{UrlFault, link_targets, url_host};

use crate::http::resolve::locations::redirect_target;

/// Maximum number of links, and bytes of all headers that a record adds.
const MAX_LINKS: usize = 64;
const MAX_HEADER_BYTES: usize = 8 << 10;

/// Headers that a record may set besides `Link` and `X-*`; all others are the server's.
const ALLOWED_HEADERS: [&str; 5] =
    ["content-language", "deprecation", "last-modified", "signposting", "sunset"];

/// Parameters that are copied verbatim.
const LINK_PARAMETERS: [&str; 2] = ["hreflang", "media"];

/// Adds the headers that the record's values and locations specify.
pub(crate) fn add_record_headers(
    headers: &mut HeaderMap,
    values: &[HandleValue<'_>],
    locations: &[Locations<'_>],
) {
    let all: Vec<&Location<'_>> = locations.iter().flat_map(|locations| &locations.locations).collect();
    let mut remaining = MAX_HEADER_BYTES;
    let mut append = |name: HeaderName, value: String| {
        if let Some(rest) = remaining.checked_sub(name.as_str().len() + value.len())
            && let Ok(value) = HeaderValue::try_from(value)
        {
            remaining = rest;
            headers.append(name, value);
        }
    };
    for link in all.iter().filter_map(|location| location.link()).take(MAX_LINKS) {
        if let Some(value) = format_link(link, &all) {
            append(LINK, value);
        }
    }
    for value in values.iter().filter(|value| value.has_type("10320/links")) {
        let Ok(links) = Links::from_bytes(&value.data) else { continue };
        for value in links.iter().take(MAX_LINKS).filter_map(|link| format_link(link, &all)) {
            append(LINK, value);
        }
    }
    for value in values.iter().filter(|value| value.has_type("10320/headers")) {
        let Ok(lines) = ExtraHeaders::from_bytes(&value.data) else { continue };
        for line in lines.iter().take(MAX_LINKS) {
            if let ExtraHeader::Field { name, value } = line
                && is_allowed(name)
                && (!name.eq_ignore_ascii_case("link") || has_safe_targets(value))
                && let Ok(name) = HeaderName::try_from(name)
            {
                append(name, value.to_owned());
            }
        }
    }
}

fn is_allowed(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Some of these have an effect on proxies and browsers.
    let has_effect = ["x-accel", "x-frame", "x-content", "x-xss", "x-sendfile", "x-forwarded", "x-real"]
        .iter()
        .any(|start| name.starts_with(start));
    name == "link" || ALLOWED_HEADERS.contains(&&*name) || (name.starts_with("x-") && !has_effect)
}

/// Formats a link (RFC 8288).
fn format_link(link: Link<'_, '_>, locations: &[&Location<'_>]) -> Option<String> {
    let href = linked_address(link.href()?)?;
    let mut out = format!("<{}>; rel={}", href, quoted_string(link.rel())?);
    let anchor = link.anchor().or_else(|| {
        let id = link.anchor_id()?;
        locations.iter().find(|location| location.id() == Some(id))?.href()
    });
    if let Some(anchor) = anchor.and_then(linked_address) {
        let _ = write!(out, "; anchor={}", quoted_string(&anchor)?);
    }
    if let Some(media_type) = link.media_type().and_then(quoted_string) {
        let _ = write!(out, "; type={media_type}");
    }
    for name in LINK_PARAMETERS {
        if let Some(value) = link.attribute(name).and_then(quoted_string) {
            let _ = write!(out, "; {name}={value}");
        }
    }
    if let Some(title) = link.attribute("title") {
        let language = link.attribute("titlelang").unwrap_or_default();
        let plain = quoted_string(title).filter(|_| language.is_empty());
        let _ = match plain {
            Some(title) => write!(out, "; title={title}"),
            // Extended notation (RFC 8187): not ASCII, or with a language.
            None => write!(
                out,
                "; title*=UTF-8'{}'{}",
                utf8_percent_encode(language, NON_ALPHANUMERIC),
                utf8_percent_encode(title, NON_ALPHANUMERIC)
            ),
        };
    }
    Some(out)
}

/// Address for a link; `None` if it cannot be followed, or if its user information may disguise the host.
fn linked_address(address: &str) -> Option<Cow<'_, str>> {
    let address = redirect_target::sanitize(address).ok()?;
    (url_host(&address) != Err(UrlFault::Credentials)).then_some(address)
}

/// Whether all targets of a `Link` field would be allowed as links of another value.
fn has_safe_targets(field: &str) -> bool {
    link_targets(field)
        .is_some_and(|targets| targets.into_iter().all(|target| linked_address(target).is_some()))
}

/// ASCII text as a quoted string (RFC 9110, section 5.6.4).
fn quoted_string(text: &str) -> Option<String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_control());
    is_plain.then(|| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(values: &[HandleValue<'_>], xml: &str) -> Vec<String> {
        let locations = [Locations::from_bytes(xml.as_bytes()).unwrap()];
        let mut headers = HeaderMap::new();
        add_record_headers(&mut headers, values, &locations);
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn links() {
        check("<location href='https://x/'/>", &[]);
        check("<location href='https://x/' rel='item'/>", &["link: <https://x/>; rel=\"item\""]);
        check("<location href='javascript:x' rel='item'/>", &[]);
        check("<location href='https://x@y/' rel='item'/>", &[]);
        check("<location rel='item'/>", &[]);
        check(
            "<location id='1' href='https://a/'/><location href='https://b/' rel='license' anchor-id='1' \
             media-type='text/html' hreflang='de' title='A \"B\"'/>",
            &[
                "link: <https://b/>; rel=\"license\"; anchor=\"https://a/\"; type=\"text/html\"; hreflang=\"de\"; \
               title=\"A \\\"B\\\"\"",
            ],
        );
        check(
            "<location href='https://x/' rel='item' title='Grüße' titlelang='de'/>",
            &["link: <https://x/>; rel=\"item\"; title*=UTF-8'de'Gr%C3%BC%C3%9Fe"],
        );
        check("<location href='https://x/' rel='a&#10;b'/>", &[]);
    }

    #[track_caller]
    fn check(locations: &str, expected: &[&str]) {
        assert_eq!(added(&[], &format!("<locations>{locations}</locations>")), expected, "{locations}");
    }

    #[test]
    fn links_and_headers_values() {
        let links = "<links><location rel='describedby' href='https://x/'/></links>";
        let lines =
            "X-Shelf: 7\nSet-Cookie: a=b\nX-Accel-Redirect: /etc\nLocation: https://evil.net/\n<meta>";
        let values = [HandleValue::new(1, "10320/links", links), HandleValue::new(2, "10320/headers", lines)];
        let found = added(&values, "<locations/>");
        assert_eq!(found, ["link: <https://x/>; rel=\"describedby\"", "x-shelf: 7"]);
    }

    /// Lines of a record follow the rules of its other links.
    #[test]
    fn audit_f17_link_lines_are_checked() {
        let lines = [
            "Link: <https://x/>; rel=\"item\", <https://y/>; rel=\"item\"",
            "Link: <https://x@y/>; rel=\"item\"",
            "link: <https://x/>; rel=\"item\", <javascript:x>; rel=\"item\"",
            "LINK: <//y/>; rel=\"item\"",
            "Link: <https://x/>; title=\"a, <https://y/>",
        ];
        let values = [HandleValue::new(1, "10320/headers", lines.join("\n"))];
        let expected = "link: <https://x/>; rel=\"item\", <https://y/>; rel=\"item\"";
        assert_eq!(added(&values, "<locations/>"), [expected]);
    }

    #[test]
    fn bounded() {
        let many = format!("<locations>{}</locations>", "<location href='https://x/' rel='a'/>".repeat(200));
        assert_eq!(added(&[], &many).len(), 64);
        let long = format!("<location href='https://x/{}' rel='a'/>", "y".repeat(5_000));
        assert_eq!(added(&[], &format!("<locations>{long}{long}</locations>")).len(), 1);
    }
}
