//! Guard of changes against other web sites: a browser sends the password that its user once entered with requests that any
//! page makes.
//!
//! A page of another origin can make a browser send a form, or text without a preflight request (CORS). So a change needs a
//! documented media type, and with a password (Basic) it must not come from another origin. Tokens and the `Handle` scheme are
//! never added by a browser: for them, also curl's default type and no type are accepted.

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};
use http::uri::Authority;

use crate::http::response::reply::{CSV, NDJSON};

/// Media types of changes: JSON, and those of batches.
const CHANGE_TYPES: [&str; 5] = ["application/json", NDJSON, "application/ndjson", "application/jsonl", CSV];

/// Media type that curl sends unless told otherwise.
const FORM: &str = "application/x-www-form-urlencoded";

/// Reason a change was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum RefusedChange {
    #[error("changes with a password are not accepted from another origin; use an API token")]
    CrossOrigin,
    #[error("the body of a change needs `Content-Type: application/json`, not `{0}`")]
    MediaType(String),
}

/// Checks a change: its media type if it has a body, and its origin if it has a password.
pub(crate) fn check_change(
    headers: &HeaderMap,
    authority: Option<&Authority>,
    has_body: bool,
    is_encrypted: bool,
) -> Result<(), RefusedChange> {
    let mut authorizations = headers.get_all(AUTHORIZATION).iter().peekable();
    if authorizations.peek().is_none() {
        return Ok(());
    }
    let has_password = authorizations.any(|authorization| {
        authorization.as_bytes().get(..5).unwrap_or_default().eq_ignore_ascii_case(b"basic")
    });
    if has_password && !is_same_origin(headers, authority, is_encrypted) {
        return Err(RefusedChange::CrossOrigin);
    }
    if has_body { check_media_type(headers, has_password) } else { Ok(()) }
}

fn check_media_type(headers: &HeaderMap, has_password: bool) -> Result<(), RefusedChange> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (media_type, is_single) = (types.next(), types.next().is_none());
    let text = media_type.and_then(|text| text.to_str().ok()).unwrap_or_default();
    let media_type = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_documented = CHANGE_TYPES.contains(&&*media_type) || media_type.ends_with("+json");
    let is_default = media_type.is_empty() || media_type == FORM;
    if is_single && (is_documented || is_default && !has_password) {
        Ok(())
    } else {
        Err(RefusedChange::MediaType(text.to_owned()))
    }
}

/// Whether a request comes from this origin or from no page: by `Sec-Fetch-Site`, which browsers send over TLS and to
/// loopback, and by `Origin`. Every one that is present must match; an invalid value does not match.
fn is_same_origin(headers: &HeaderMap, authority: Option<&Authority>, is_encrypted: bool) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let host = authority.map(Authority::as_str).or_else(|| headers.get(HOST)?.to_str().ok());
    let mut origins = headers.get_all(ORIGIN).iter();
    sites.all(|site| site == "same-origin" || site == "none")
        && origins.all(|origin| host.is_some_and(|host| is_origin_of(origin, host, is_encrypted)))
}

/// Whether an origin has this host and port. `http` does not match a request over TLS; `https` matches a request without TLS,
/// because a proxy may have terminated TLS.
fn is_origin_of(origin: &HeaderValue, host: &str, is_encrypted: bool) -> bool {
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let Some((scheme, authority)) = origin else { return false };
    let default_port = match scheme.to_ascii_lowercase().as_str() {
        "https" => ":443",
        "http" if !is_encrypted => ":80",
        _ => return false,
    };
    let without_default =
        |authority: &str| authority.strip_suffix(default_port).unwrap_or(authority).to_ascii_lowercase();
    !host.is_empty() && without_default(authority) == without_default(host)
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    const JSON: &str = "Content-Type: application/json";
    const BASIC: &str = "Authorization: Basic eDp5";
    const BEARER: &str = "Authorization: Bearer token";

    fn check(lines: &[&str], has_body: bool) -> Result<(), RefusedChange> {
        let mut headers = HeaderMap::new();
        headers.append(HOST, HeaderValue::from_static("doi.example.org:8080"));
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        check_change(&headers, None, has_body, false)
    }

    #[test]
    fn audit_f9_origins() {
        for same in [
            "Origin: http://doi.example.org:8080",
            "Origin: HTTPS://DOI.example.org:8080",
            "Sec-Fetch-Site: same-origin",
            "Sec-Fetch-Site: none",
            "Accept: */*",
        ] {
            assert_eq!(check(&[BASIC, same], false), Ok(()), "{same}");
        }
        for other in [
            "Origin: http://doi.example.org:8081",
            "Origin: http://doi.example.org",
            "Origin: http://example.net",
            "Origin: null",
            "Origin: doi.example.org:8080",
            "Origin: //doi.example.org:8080",
            "Origin: ://doi.example.org:8080",
            "Origin: ftp://doi.example.org:8080",
            "Origin: moz-extension://doi.example.org:8080",
            "Origin: http://doi.example.org:8080/",
            "Origin: http://x@doi.example.org:8080",
            "Origin: http://doi.example.org:8080 http://example.net",
            "Origin: http:doi.example.org:8080",
            "Origin: ",
            "Sec-Fetch-Site: same-site",
            "Sec-Fetch-Site: cross-site",
        ] {
            for scheme in [BASIC, "Authorization: BASIC eDp5"] {
                assert_eq!(check(&[scheme, other], false), Err(RefusedChange::CrossOrigin), "{other}");
                assert_eq!(check(&[scheme, JSON, other], true), Err(RefusedChange::CrossOrigin), "{other}");
            }
            // No browser adds a token.
            assert_eq!(check(&[BEARER, JSON, other], true), Ok(()), "{other}");
        }
        let both = ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"];
        assert_eq!(check(&[BASIC, both[0], both[1]], false), Err(RefusedChange::CrossOrigin));
        let origin = HeaderValue::from_static("https://doi.example.org");
        assert!(is_origin_of(&origin, "doi.example.org:443", true));
        assert!(!is_origin_of(&origin, "doi.example.org:80", true));
        // A page without TLS is another origin, also at the default ports, which `Host` does not have.
        let plain = HeaderValue::from_static("http://doi.example.org");
        assert!(
            is_origin_of(&plain, "doi.example.org", false) && !is_origin_of(&plain, "doi.example.org", true)
        );
    }

    /// Contradictory and invalid headers are rejected.
    #[test]
    fn audit_f9_both_headers_count() {
        let same = ["Sec-Fetch-Site: same-origin", "Origin: http://doi.example.org:8080"];
        assert_eq!(check(&[BASIC, same[0], same[1]], false), Ok(()));
        for (site, origin) in [
            (same[0], "Origin: null"),
            (same[0], "Origin: http://example.net"),
            ("Sec-Fetch-Site: none", "Origin: garbage"),
            ("Sec-Fetch-Site: garbage", same[1]),
            ("Sec-Fetch-Site: ", same[1]),
        ] {
            let refused = Err(RefusedChange::CrossOrigin);
            assert_eq!(check(&[BASIC, site, origin], false), refused, "{site}, {origin}");
        }
        // A second `Authorization` does not hide the password.
        assert_eq!(check(&[BEARER, BASIC, "Origin: null"], false), Err(RefusedChange::CrossOrigin));
    }

    #[test]
    fn audit_f9_media_types() {
        for (media_type, with_password, with_token) in [
            ("application/json", true, true),
            ("Application/JSON; charset=utf-8", true, true),
            ("application/problem+json", true, true),
            ("application/x-ndjson", true, true),
            ("text/csv", true, true),
            ("application/x-www-form-urlencoded", false, true),
            ("text/plain", false, false),
            ("text/plain; application/json", false, false),
            ("multipart/form-data; boundary=x", false, false),
        ] {
            let line = format!("Content-Type: {media_type}");
            assert_eq!(check(&[BASIC, &line], true).is_ok(), with_password, "{media_type}");
            assert_eq!(check(&[BEARER, &line], true).is_ok(), with_token, "{media_type}");
            assert_eq!(check(&[BASIC, &line], false), Ok(()));
            assert_eq!(check(&[&line], true), Ok(()), "anonymous");
        }
        assert!(check(&[BASIC], true).is_err() && check(&[BEARER], true).is_ok());
        assert!(check(&[BASIC, JSON, "Content-Type: text/plain"], true).is_err());
    }
}
