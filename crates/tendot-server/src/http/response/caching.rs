//! Cache headers: `Cache-Control`, `Vary`, `Cache-Status`, `ETag`, and 304 responses.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, ETAG, EXPIRES, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, VARY};
use tendot_client::CacheStatus;
use tendot_proto::{HandleValue, Ttl};
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::to_unix_seconds;
use crate::http::resolve::lookup::Provenance;
use crate::http::resolve::upstream::UpstreamError;
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

/// Request data beside the URL that a reply depends on. The only place that decides whether shared caches may store a reply, and
/// for which requests they may reuse it (RFC 9111, sections 3.5 and 4.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct ClientDependence {
    /// `Accept`.
    pub(crate) accept: bool,
    /// `User-Agent`.
    pub(crate) user_agent: bool,
    /// `Accept-Language`.
    pub(crate) language: bool,
    /// `Authorization`.
    pub(crate) authorization: bool,
    /// Address or country of the client, or a random choice: no header names it, so only the client's own cache may store the
    /// reply.
    pub(crate) is_private: bool,
}

impl ClientDependence {
    /// Identical for all clients.
    pub(crate) const NONE: Self =
        Self { accept: false, user_agent: false, language: false, authorization: false, is_private: false };

    /// Chosen by `Accept`.
    pub(crate) const ACCEPT: Self = Self { accept: true, ..Self::NONE };

    /// Authenticated clients receive another reply.
    pub(crate) const AUTHORIZATION: Self = Self { authorization: true, ..Self::NONE };

    /// Dependence on everything that either depends on.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self {
            accept: self.accept || other.accept,
            user_agent: self.user_agent || other.user_agent,
            language: self.language || other.language,
            authorization: self.authorization || other.authorization,
            is_private: self.is_private || other.is_private,
        }
    }

    /// Adds the headers to `Vary`.
    pub(crate) fn add_vary(self, headers: &mut HeaderMap) {
        let names = [
            (self.accept, "Accept"),
            (self.user_agent, "User-Agent"),
            (self.language, "Accept-Language"),
            (self.authorization, "Authorization"),
        ];
        let names: Vec<&str> = names.into_iter().filter_map(|(is, name)| is.then_some(name)).collect();
        if let Ok(vary) = HeaderValue::try_from(names.join(", "))
            && !vary.is_empty()
        {
            headers.append(VARY, vary);
        }
    }
}

/// Sets `Cache-Control`, `Expires`, `Vary` and, for upstream data, `Cache-Status`: how long a reply may be reused, and for whom.
///
/// The lifetime is what remains of the values that the reply is made from. There is no `Age`: the reply is made by this server,
/// and some caches add an age to the lifetime instead of subtracting it.
pub(crate) fn set_freshness(
    headers: &mut HeaderMap,
    ttl_seconds: u64,
    provenance: Option<Provenance>,
    dependence: ClientDependence,
    now: SystemTime,
) {
    let remaining = match provenance {
        Some(Provenance { stale_seconds: Some(_), .. }) => 0,
        Some(provenance) => ttl_seconds.min(provenance.fresh_seconds),
        None => ttl_seconds,
    };
    let control = match (remaining, dependence.is_private) {
        (0, false) => "no-cache".to_owned(),
        (0, true) => "private, no-cache".to_owned(),
        (_, false) => format!("public, max-age={remaining}"),
        (_, true) => format!("private, max-age={remaining}"),
    };
    // Caches of HTTP/1.0 do not know `private`.
    let shared = if dependence.is_private { 0 } else { remaining };
    let expires = httpdate::fmt_http_date(now + Duration::from_secs(shared));
    headers.extend(HeaderValue::try_from(control).map(|value| (CACHE_CONTROL, value)));
    headers.extend(HeaderValue::try_from(expires).map(|value| (EXPIRES, value)));
    dependence.add_vary(headers);
    if let Some(provenance) = provenance {
        add_cache_status(headers, provenance);
    }
}

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Adds `Cache-Status` (RFC 9211) to a reply that contains upstream data. A negative TTL marks stale data served because the
/// upstream is unavailable.
pub(crate) fn add_cache_status(headers: &mut HeaderMap, provenance: Provenance) {
    let status = match (provenance.stale_seconds, provenance.cache_status) {
        (Some(stale), _) => format!("tendot; hit; ttl=-{}", stale.max(1)),
        (None, CacheStatus::Hit) => format!("tendot; hit; ttl={}", provenance.fresh_seconds),
        (None, CacheStatus::Coalesced) => "tendot; fwd=miss; collapsed".into(),
        (None, CacheStatus::Miss) => "tendot; fwd=miss".into(),
    };
    headers.extend(HeaderValue::try_from(status).map(|value| (CACHE_STATUS, value)));
}

/// Adds `Cache-Status` to a reply for which the upstream failed; `detail` is the error code.
pub(crate) fn add_upstream_failure(headers: &mut HeaderMap, error: &UpstreamError) {
    let status = format!("tendot; fwd=miss; detail={}", error.code());
    headers.extend(HeaderValue::try_from(status).map(|value| (CACHE_STATUS, value)));
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
    fn freshness() {
        let upstream = |cache_status, fresh_seconds, stale_seconds| {
            Some(Provenance { cache_status, age_seconds: 1_329, fresh_seconds, stale_seconds })
        };
        let private = ClientDependence { is_private: true, language: true, ..ClientDependence::ACCEPT };
        let none = ClientDependence::NONE;
        for (ttl, provenance, dependence, expected) in [
            (60, None, none, "public, max-age=60 | 60 |  | "),
            (0, None, none, "no-cache | 0 |  | "),
            (60, None, private, "private, max-age=60 | 0 | Accept, Accept-Language | "),
            (0, None, private, "private, no-cache | 0 | Accept, Accept-Language | "),
            (60, None, ClientDependence::AUTHORIZATION, "public, max-age=60 | 60 | Authorization | "),
            (600, upstream(CacheStatus::Hit, 3, None), none, "public, max-age=3 | 3 |  | tendot; hit; ttl=3"),
            (3, upstream(CacheStatus::Miss, 600, None), none, "public, max-age=3 | 3 |  | tendot; fwd=miss"),
            (600, upstream(CacheStatus::Hit, 0, Some(9)), none, "no-cache | 0 |  | tendot; hit; ttl=-9"),
        ] {
            let mut headers = HeaderMap::new();
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
            set_freshness(&mut headers, ttl, provenance, dependence, now);
            let text =
                |name: HeaderName| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
            let expires = httpdate::parse_http_date(&text(EXPIRES)).unwrap().duration_since(now).unwrap();
            let found = format!(
                "{} | {} | {} | {}",
                text(CACHE_CONTROL),
                expires.as_secs(),
                text(VARY),
                text(CACHE_STATUS)
            );
            assert_eq!(found, expected);
            assert_eq!(headers.get("age"), None);
        }
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
