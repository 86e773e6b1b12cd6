//! Response cache for replies that are identical for all clients while one record is unchanged.
//!
//! Most requests are for few names. Their whole response is cached under the request path, with the version of the record
//! before it was read; it is valid while the record keeps that version.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderMap, HeaderName, HeaderValue, LINK,
    LOCATION, VARY,
};
use http::{Method, Response, StatusCode};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tendot_store::{NameKey, RecordVersion};

use crate::http::HttpServer;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::metadata::{MetadataPreference, metadata_over_page};
use crate::http::response::caching;
use crate::http::response::reply::Reply;
use crate::resolution_stats::CounterKey;

/// Longer paths and bodies are rare and would evict many entries.
const MAX_CACHED_PATH_LEN: usize = 512;
const MAX_CACHED_BODY_BYTES: usize = 8 << 10;

/// Marks a reply as cacheable while one record keeps its version.
#[derive(Clone, Debug)]
pub(crate) struct CachePolicy {
    pub(crate) record_version: (NameKey, RecordVersion),
    /// Freshness lifetime in seconds.
    pub(crate) max_age: u64,
    /// Whether metadata is available, so that the reply depends on `Accept`.
    pub(crate) has_metadata: bool,
}

/// Cached responses by path.
#[derive(Debug)]
pub(crate) struct ResponseCache(Cache<Box<str>, Arc<HttpResponse>, ByteWeighter>);

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
struct HttpResponse {
    version: RecordVersion,
    max_age: u64,
    has_metadata: bool,
    status: StatusCode,
    /// Counter key of the name, if it is counted.
    counter_key: Option<CounterKey>,
    headers: HeaderIndex,
    /// Header values and body.
    bytes: Bytes,
}

#[derive(Clone, Debug)]
struct ByteWeighter;

impl Weighter<Box<str>, Arc<HttpResponse>> for ByteWeighter {
    fn weight(&self, path: &Box<str>, cached: &Arc<HttpResponse>) -> u64 {
        // Plus the cache's own overhead and that of the allocations.
        (path.len() + cached.bytes.len() + size_of::<HttpResponse>() + 192) as u64
    }
}

impl ResponseCache {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Cache::with_weighter(bytes / 1024, bytes as u64, ByteWeighter))
    }
}

impl HttpServer {
    /// Current version of a name's record, if a reply made from it is cacheable.
    pub(crate) fn record_version(
        &self,
        name: &str,
        request: &RequestHead<'_>,
    ) -> Option<(NameKey, RecordVersion)> {
        self.response_cache.as_ref().filter(|_| is_cacheable_request(request.query, request.headers))?;
        let key = NameKey::new(name).ok()?;
        let version = self.registry.change_counters()?.version_of(&key)?;
        Some((key, version))
    }

    /// Cached response to a request, if there is a valid one.
    pub(crate) fn cached_response<B>(&self, request: &http::Request<B>) -> Option<Reply> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_plain = is_read && is_cacheable_request(request.uri().query(), request.headers());
        let cached = self.response_cache.as_ref().filter(|_| is_plain)?.0.get(request.uri().path())?;
        if !self.registry.change_counters()?.is_current(cached.version) {
            return None;
        }
        if cached.has_metadata && metadata_over_page(request.headers()) != MetadataPreference::NotRequested {
            return None;
        }
        if let (Some(resolution_counter), Some(counter_key)) = (&self.resolution_counter, cached.counter_key)
        {
            resolution_counter.count_key(counter_key);
        }
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = cached.status;
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
        let Some(policy) = response.extensions_mut().remove::<CachePolicy>() else { return response };
        let is_small = path.len() <= MAX_CACHED_PATH_LEN && response.body().len() <= MAX_CACHED_BODY_BYTES;
        let is_complete = matches!(response.status(), StatusCode::OK | StatusCode::FOUND);
        let Some(response_cache) = self.response_cache.as_ref().filter(|_| is_small && is_complete) else {
            return response;
        };
        // A record generated by a template depends on another record.
        let (key, version) = policy.record_version;
        if !self.registry.has_live_record(&key).await.unwrap_or_default() {
            return response;
        }
        if let Some((headers, bytes)) = pack(&response) {
            let counter_key = match &self.resolution_counter {
                Some(resolution_counter) => resolution_counter.key_for(&self.registry, &key).await,
                None => None,
            };
            let CachePolicy { max_age, has_metadata, .. } = policy;
            let status = response.status();
            let cached = HttpResponse { version, max_age, has_metadata, status, counter_key, headers, bytes };
            response_cache.0.insert(path.into(), Arc::new(cached));
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
    let seconds = expiry.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    LAST_EXPIRES.with_borrow_mut(|last| {
        if last.0 != seconds {
            *last = (seconds, HeaderValue::try_from(httpdate::fmt_http_date(expiry)).ok()?);
        }
        Some(last.1.clone())
    })
}
