//! Response cache of HTTP: whole responses under the request path, packed into one buffer each.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderMap, HeaderName, HeaderValue, LINK,
    LOCATION, VARY,
};
use http::{Method, StatusCode};
use tendot_store::{NameKey, RecordVersion};

use crate::clock::to_unix_seconds;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::metadata::{MetadataPreference, metadata_over_page};
use crate::http::resolve::requested_name::RequestedName;
use crate::http::resolve::resolver::RecordResolver;
use crate::http::response::caching;
use crate::http::response::reply::Reply;
use crate::response_cache;

/// Longer paths and bodies are rare and would evict many entries.
const MAX_CACHED_PATH_LEN: usize = 512;
const MAX_CACHED_BODY_BYTES: usize = 8 << 10;

/// Marks a reply as cacheable while one stored record keeps its version. A record derived by a template depends on another
/// record, too.
///
/// The version is that of the requested name. For a bare prefix, such as `10.1000`, the record is that of `0.NA/10.1000`; the
/// version covers it, too, because every write under `0.NA` changes the versions of all names.
#[derive(Clone, Debug)]
pub(crate) struct CachePolicy {
    pub(crate) record_version: (NameKey, RecordVersion),
    /// Freshness lifetime in seconds.
    pub(crate) max_age: u64,
    /// Whether metadata is available, so that the reply depends on `Accept`.
    pub(crate) has_metadata: bool,
}

/// Cached responses by path.
pub(crate) type HttpResponseCache = response_cache::ResponseCache<Box<str>, CachedHttpResponse>;

/// Headers that a cacheable response may have.
const CACHED_HEADERS: [HeaderName; 7] = [CONTENT_TYPE, LOCATION, CACHE_CONTROL, EXPIRES, ETAG, VARY, LINK];

/// Header names of a cached response, and the end of each value in its buffer.
#[derive(Debug)]
struct HeaderIndex {
    names: [u8; 8],
    ends: [u16; 8],
    count: usize,
}

/// Status, headers and body of a cached response in one buffer.
#[derive(Debug)]
pub(crate) struct CachedHttpResponse {
    max_age: u64,
    has_metadata: bool,
    status: StatusCode,
    headers: HeaderIndex,
    /// Header values and body.
    bytes: Bytes,
}

impl AsRef<[u8]> for CachedHttpResponse {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl RecordResolver {
    /// Current version of a name's record, if a reply made from it is cacheable.
    pub(crate) fn record_version(
        &self,
        name: &RequestedName<'_>,
        request: &RequestHead<'_>,
    ) -> Option<RecordVersion> {
        self.response_cache.as_ref().filter(|_| is_cacheable_request(request.query, request.headers))?;
        response_cache::record_version(&self.registry, name.key()?)
    }

    /// Cached response to a request, if there is a valid one.
    pub(crate) fn cached_response<B>(&self, request: &http::Request<B>) -> Option<Reply> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_plain = is_read && is_cacheable_request(request.uri().query(), request.headers());
        let response_cache = self.response_cache.as_ref().filter(|_| is_plain)?;
        let entry = response_cache.get(&self.registry, request.uri().path())?;
        let cached = &entry.response;
        if cached.has_metadata && metadata_over_page(request.headers()) != MetadataPreference::NotRequested {
            return None;
        }
        entry.count(self.resolution_counter.as_deref());
        let mut response = Reply::new(cached.status, Bytes::new());
        let headers = response.headers_mut();
        // With room for headers added later.
        headers.reserve(cached.headers.count + 4);
        let mut rest = cached.bytes.clone();
        let mut start = 0;
        for (name, end) in cached.headers.names.iter().zip(cached.headers.ends).take(cached.headers.count) {
            let name = CACHED_HEADERS.get(usize::from(*name))?;
            let value = rest.split_to(usize::from(end - start));
            let value = if name == EXPIRES {
                expires_header(cached.max_age)?
            } else {
                HeaderValue::from_maybe_shared(value).ok()?
            };
            headers.append(name, value);
            start = end;
        }
        let tag = headers.get(ETAG).cloned();
        *response.body_mut() = rest;
        Some(match tag {
            Some(tag) => caching::not_modified_if_match(response, &tag, request.headers()),
            None => response,
        })
    }

    /// Caches a reply if it is cacheable.
    pub(crate) async fn cache_response(&self, path: &str, mut response: Reply) -> Reply {
        let Some(policy) = response.cache_policy.take() else { return response };
        let is_small = path.len() <= MAX_CACHED_PATH_LEN && response.body().len() <= MAX_CACHED_BODY_BYTES;
        let is_complete = matches!(response.status(), StatusCode::OK | StatusCode::FOUND);
        let Some(response_cache) = self.response_cache.as_ref().filter(|_| is_small && is_complete) else {
            return response;
        };
        let CachePolicy { record_version, max_age, has_metadata } = policy;
        if let Some((headers, bytes)) = pack(&response) {
            let cached =
                CachedHttpResponse { max_age, has_metadata, status: response.status(), headers, bytes };
            let counter = self.resolution_counter.as_deref();
            response_cache.insert(&self.registry, counter, record_version, path.into(), cached).await;
        }
        response
    }
}

/// Packs header values and body into one buffer, so that they are one allocation. `None` if the response has an unexpected
/// header.
fn pack(response: &Reply) -> Option<(HeaderIndex, Bytes)> {
    let mut headers = HeaderIndex { names: [0; 8], ends: [0; 8], count: 0 };
    let length: usize = response.headers().values().map(HeaderValue::len).sum();
    let mut all = Vec::with_capacity(length + response.body().len());
    for (name, value) in response.headers() {
        all.extend_from_slice(value.as_bytes());
        *headers.names.get_mut(headers.count)? =
            CACHED_HEADERS.iter().position(|cached| cached == name)? as u8;
        *headers.ends.get_mut(headers.count)? = u16::try_from(all.len()).ok()?;
        headers.count += 1;
    }
    all.extend_from_slice(response.body());
    Some((headers, all.into()))
}

/// Requests with query parameters or credentials are not cacheable.
fn is_cacheable_request(query: Option<&str>, headers: &HeaderMap) -> bool {
    query.is_none() && !headers.contains_key(AUTHORIZATION)
}

/// `Expires` header for a lifetime in seconds; the last one is cached, because many responses share it.
fn expires_header(max_age: u64) -> Option<HeaderValue> {
    thread_local! {
        static LAST_EXPIRES: RefCell<(u64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
    }
    let expiry = SystemTime::now() + Duration::from_secs(max_age);
    let seconds = to_unix_seconds(expiry);
    LAST_EXPIRES.with_borrow_mut(|last| {
        if last.0 != seconds {
            *last = (seconds, HeaderValue::try_from(httpdate::fmt_http_date(expiry)).ok()?);
        }
        Some(last.1.clone())
    })
}
