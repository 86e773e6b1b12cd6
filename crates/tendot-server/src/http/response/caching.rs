//! Cache headers: `Cache-Control`, `Age`, `Cache-Status`, `ETag`, and 304 responses.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::StatusCode;
use http::header::{AGE, CACHE_CONTROL, ETAG, EXPIRES, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};
use tendot_client::CacheStatus;
use tendot_proto::{HandleValue, Ttl};
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::to_unix_seconds;
use crate::http::resolve::lookup::Provenance;
use crate::http::response::reply::Reply;

/// ETags of a request that are compared.
const MAX_ETAGS: usize = 64;

/// Lowest TTL of these values, in seconds.
pub(crate) fn min_ttl_seconds<'v, 'a: 'v>(
    values: impl IntoIterator<Item = &'v HandleValue<'a>>,
    now: SystemTime,
) -> u64 {
    let now = to_unix_seconds(now);
    let lifetime = |ttl| match ttl {
        Ttl::Relative(seconds) => u64::from(seconds),
        Ttl::Absolute(date) => u64::from(date).saturating_sub(now),
        Ttl::Unknown { .. } => 0,
    };
    let shortest = values.into_iter().map(|value| lifetime(value.ttl)).min();
    shortest.unwrap_or_default().min(Ttl::MAX.as_secs())
}

/// Whether all TTLs are relative, so that the result does not depend on the time.
pub(crate) fn has_only_relative_ttls<'v, 'a: 'v>(
    values: impl IntoIterator<Item = &'v HandleValue<'a>>,
) -> bool {
    values.into_iter().all(|value| !matches!(value.ttl, Ttl::Absolute(_)))
}

/// Sets `Cache-Control: max-age`.
pub(crate) fn set_max_age(headers: &mut HeaderMap, seconds: u64, now: SystemTime) {
    let control = if seconds == 0 { "no-cache".to_owned() } else { format!("public, max-age={seconds}") };
    let expires = httpdate::fmt_http_date(now + Duration::from_secs(seconds));
    headers.extend(HeaderValue::try_from(control).map(|value| (CACHE_CONTROL, value)));
    headers.extend(HeaderValue::try_from(expires).map(|value| (EXPIRES, value)));
}

/// Sets the remaining freshness lifetime of a reply that contains upstream data.
pub(crate) fn set_max_age_with_provenance(
    headers: &mut HeaderMap,
    seconds: u64,
    provenance: Option<Provenance>,
    now: SystemTime,
) {
    let Some(provenance) = provenance else { return set_max_age(headers, seconds, now) };
    let remaining =
        if provenance.stale_seconds.is_some() { 0 } else { seconds.min(provenance.fresh_seconds) };
    set_max_age(headers, remaining, now);
    // Caches subtract the age (RFC 9111, section 4.2).
    if remaining > 0
        && let Ok(control) = HeaderValue::try_from(format!(
            "public, max-age={}",
            remaining.saturating_add(provenance.age_seconds)
        ))
    {
        headers.insert(CACHE_CONTROL, control);
    }
    add_cache_status(headers, provenance);
}

/// Adds `Age` and `Cache-Status` (RFC 9211) to a reply that contains upstream data. A negative TTL marks stale data served
/// because the upstream is unavailable.
pub(crate) fn add_cache_status(headers: &mut HeaderMap, provenance: Provenance) {
    const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
    let status = match (provenance.stale_seconds, provenance.cache_status) {
        (Some(stale), _) => format!("tendot; hit; ttl=-{}", stale.max(1)),
        (None, CacheStatus::Hit) => format!("tendot; hit; ttl={}", provenance.fresh_seconds),
        (None, CacheStatus::Coalesced) => "tendot; fwd=miss; collapsed".into(),
        (None, CacheStatus::Miss) => "tendot; fwd=miss".into(),
    };
    headers.extend(HeaderValue::try_from(status).map(|value| (CACHE_STATUS, value)));
    if provenance.age_seconds > 0 || provenance.cache_status == CacheStatus::Hit {
        headers.insert(AGE, provenance.age_seconds.into());
    }
}

/// Sets `Cache-Control: private, no-store`.
pub(crate) fn set_private_no_store(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
}

/// Adds an ETag; 304 without a body if the client has it.
pub(crate) fn add_etag(mut response: Reply, content: &[u8], request: &HeaderMap) -> Reply {
    let Ok(tag) = HeaderValue::try_from(format!("\"{:016x}\"", xxh3_64(content))) else { return response };
    response.headers_mut().insert(ETAG, tag.clone());
    not_modified_if_match(response, &tag, request)
}

/// Turns a reply into a 304 if the client has this ETag.
pub(crate) fn not_modified_if_match(mut response: Reply, tag: &HeaderValue, request: &HeaderMap) -> Reply {
    if tag.to_str().is_ok_and(|tag| if_none_match_contains(request, tag)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Bytes::new();
        response.headers_mut().remove(http::header::CONTENT_TYPE);
    }
    response
}

fn if_none_match_contains(request: &HeaderMap, tag: &str) -> bool {
    let lines = request.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut tags = lines.flat_map(|line| line.split(',')).take(MAX_ETAGS).map(str::trim);
    tags.any(|listed| listed == "*" || listed.strip_prefix("W/").unwrap_or(listed) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_ttl() {
        check(&[], 0);
        check(&[Ttl::Relative(60)], 60);
        check(&[Ttl::Relative(60), Ttl::Relative(5)], 5);
        check(&[Ttl::Relative(u32::MAX)], 172_800);
        check(&[Ttl::Absolute(1_000_030)], 30);
        check(&[Ttl::Absolute(999_999), Ttl::Relative(5)], 0);
        check(&[Ttl::Unknown { kind: 9, seconds: 60 }], 0);
    }

    #[track_caller]
    fn check(ttls: &[Ttl], expected: u64) {
        let values: Vec<_> =
            ttls.iter().map(|ttl| HandleValue { ttl: *ttl, ..HandleValue::new(1, "URL", "") }).collect();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        assert_eq!(min_ttl_seconds(&values, now), expected, "{ttls:?}");
    }

    #[test]
    fn tags() {
        let status = |if_none_match: &str| {
            let mut request = HeaderMap::new();
            request.insert(IF_NONE_MATCH, if_none_match.parse().unwrap());
            add_etag(Reply::new(StatusCode::OK, "body"), b"body", &request).status()
        };
        let tagged = add_etag(Reply::new(StatusCode::OK, "body"), b"body", &HeaderMap::new());
        let tag = tagged.headers()[ETAG].to_str().unwrap().to_owned();
        assert_eq!((tagged.status(), &**tagged.body()), (StatusCode::OK, &b"body"[..]));
        assert_eq!(status(&tag), StatusCode::NOT_MODIFIED);
        assert_eq!(status(&format!("\"x\", W/{tag}")), StatusCode::NOT_MODIFIED);
        assert_eq!(status("*"), StatusCode::NOT_MODIFIED);
        assert_eq!(status("\"x\""), StatusCode::OK);
        assert_eq!(status(&format!("{}{tag}", "\"x\",".repeat(64))), StatusCode::OK);
    }
}
