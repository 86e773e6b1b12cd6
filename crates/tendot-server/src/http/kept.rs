//! Answers that are the same for everybody as long as a record is the same, kept to be given again.
//!
//! Most requests are for few names. For these nothing is read, decided or written again: what is kept is the answer itself,
//! under the path as it was asked for, with the version that the record had before it was read.

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
use tendot_store::{NameKey, RecordStatus, RecordVersion, Store};

use super::answer::Reply;
use super::negotiate::{self, MetadataPreference};
use super::request::RequestHead;
use super::{HttpServer, caching};
use crate::tally::CounterKey;

/// Paths and bodies that are longer are rare, and would take the place of many.
const MAX_CACHED_PATH_LEN: usize = 512;
const MAX_CACHED_BODY_BYTES: usize = 8 << 10;

/// Marks a reply as cacheable while one record keeps its version.
#[derive(Clone, Debug)]
pub(super) struct CachePolicy {
    pub(super) record: (NameKey, RecordVersion),
    pub(super) seconds: u64,
    /// Whether it is only for those who do not want metadata instead.
    pub(super) has_metadata: bool,
}

/// The answers, by path.
#[derive(Debug)]
pub(super) struct ResponseCache(Cache<Box<str>, Arc<HttpResponse>, ByteWeighter>);

/// The headers that such answers have.
const CACHED_HEADERS: [HeaderName; 7] = [CONTENT_TYPE, LOCATION, CACHE_CONTROL, EXPIRES, ETAG, VARY, LINK];

/// Header names of a cached response, and the end of each value in its buffer.
#[derive(Debug)]
struct HeaderIndex {
    names: [u8; 8],
    ends: [u16; 8],
    number: usize,
}

/// Status, headers and body of a cached response in one buffer.
#[derive(Debug)]
struct HttpResponse {
    version: RecordVersion,
    seconds: u64,
    has_metadata: bool,
    status: StatusCode,
    /// As what it is counted, if it is.
    counted: Option<CounterKey>,
    headers: HeaderIndex,
    /// The values of the headers, and the body.
    bytes: Bytes,
}

#[derive(Clone, Debug)]
struct ByteWeighter;

impl Weighter<Box<str>, Arc<HttpResponse>> for ByteWeighter {
    fn weight(&self, path: &Box<str>, one: &Arc<HttpResponse>) -> u64 {
        // And the table's own, and what each piece of memory costs beside its bytes.
        (path.len() + one.bytes.len() + size_of::<HttpResponse>() + 192) as u64
    }
}

impl ResponseCache {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Cache::with_weighter(bytes / 1024, bytes as u64, ByteWeighter))
    }
}

impl HttpServer {
    /// The version that a name's record has now, if an answer that is made of it could be kept.
    pub(super) fn record_version(
        &self,
        name: &str,
        request: &RequestHead<'_>,
    ) -> Option<(NameKey, RecordVersion)> {
        self.kept.as_ref().filter(|_| is_cacheable_request(request.query, request.headers))?;
        let key = NameKey::new(name).ok()?;
        let version = self.registry.store().change_counters()?.version_of(&key)?;
        Some((key, version))
    }

    /// The answer to a request, if it is kept and still right.
    pub(super) fn cached_response<B>(&self, request: &http::Request<B>) -> Option<Reply> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_plain = is_read && is_cacheable_request(request.uri().query(), request.headers());
        let one = self.kept.as_ref().filter(|_| is_plain)?.0.get(request.uri().path())?;
        if !self.registry.store().change_counters()?.is_current(one.version) {
            return None;
        }
        if one.has_metadata && negotiate::metadata_over_page(request.headers()) != MetadataPreference::None {
            return None;
        }
        if let (Some(tally), Some(counted)) = (&self.tally, one.counted) {
            tally.count_key(counted);
        }
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = one.status;
        let headers = response.headers_mut();
        // Those that are added later, too.
        headers.reserve(one.headers.number + 4);
        let mut rest = one.bytes.clone();
        let mut begin = 0;
        for (name, end) in one.headers.names.iter().zip(one.headers.ends).take(one.headers.number) {
            let name = CACHED_HEADERS.get(usize::from(*name))?;
            let value = rest.split_to(usize::from(end - begin));
            let value = if name == EXPIRES {
                expires_header(one.seconds)?
            } else {
                HeaderValue::from_maybe_shared(value).ok()?
            };
            headers.append(name, value);
            begin = end;
        }
        let tag = headers.get(ETAG).cloned();
        *response.body_mut() = rest;
        Some(match tag {
            Some(tag) => caching::not_modified_if_match(response, &tag, request.headers()),
            None => response,
        })
    }

    /// Keeps an answer if it can be given again.
    pub(super) async fn cache_response(&self, path: &str, mut response: Reply) -> Reply {
        let Some(lasting) = response.extensions_mut().remove::<CachePolicy>() else { return response };
        let is_small = path.len() <= MAX_CACHED_PATH_LEN && response.body().len() <= MAX_CACHED_BODY_BYTES;
        let is_whole = matches!(response.status(), StatusCode::OK | StatusCode::FOUND);
        let Some(kept) = self.kept.as_ref().filter(|_| is_small && is_whole) else { return response };
        // Made by a template, it would depend on another record.
        let (key, version) = lasting.record;
        let is_own = self.registry.store().get(&key).await;
        if !is_own.is_ok_and(|entry| entry.is_some_and(|entry| entry.state == RecordStatus::Live)) {
            return response;
        }
        if let Some((headers, bytes)) = pack(&response) {
            let counted = match &self.tally {
                Some(tally) => tally.key_for(&self.registry, &key).await,
                None => None,
            };
            let CachePolicy { seconds, has_metadata, .. } = lasting;
            let status = response.status();
            let one = HttpResponse { version, seconds, has_metadata, status, counted, headers, bytes };
            kept.0.insert(path.into(), Arc::new(one));
        }
        response
    }
}

/// The headers and the body of an answer, side by side in memory: read at once, and freed at once. None if it has a header
/// that is not known here.
fn pack(response: &Reply) -> Option<(HeaderIndex, Bytes)> {
    let mut headers = HeaderIndex { names: [0; 8], ends: [0; 8], number: 0 };
    let length: usize = response.headers().values().map(HeaderValue::len).sum();
    let mut all = Vec::with_capacity(length + response.body().len());
    for (name, value) in response.headers() {
        all.extend_from_slice(value.as_bytes());
        *headers.names.get_mut(headers.number)? =
            CACHED_HEADERS.iter().position(|known| known == name)? as u8;
        *headers.ends.get_mut(headers.number)? = u16::try_from(all.len()).ok()?;
        headers.number += 1;
    }
    all.extend_from_slice(response.body());
    Some((headers, all.into()))
}

/// Parameters and credentials make a request one of its own.
fn is_cacheable_request(query: Option<&str>, headers: &HeaderMap) -> bool {
    query.is_none() && !headers.contains_key(AUTHORIZATION)
}

/// The time after so many seconds, as a header. Many answers of one second end at the same.
fn expires_header(seconds: u64) -> Option<HeaderValue> {
    thread_local! {
        static LAST_EXPIRES: RefCell<(u64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
    }
    let at = SystemTime::now() + Duration::from_secs(seconds);
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    LAST_EXPIRES.with_borrow_mut(|last| {
        if last.0 != seconds {
            *last = (seconds, HeaderValue::try_from(httpdate::fmt_http_date(at)).ok()?);
        }
        Some(last.1.clone())
    })
}
