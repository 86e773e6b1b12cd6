//! Answers that are the same for everybody as long as a record is the same, kept to be given again.
//!
//! Most requests are for few names. For these nothing is read, decided or written again: what is kept is the answer itself,
//! under the path as it was asked for, with the version that the record had before it was read.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{AUTHORIZATION, ETAG, EXPIRES, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tendot_store::{Key, State, Store, Version};

use super::answer::Answer;
use super::request::Request;
use super::{Http, caching};

/// Paths and bodies that are longer are rare, and would take the place of many.
const LONGEST_PATH: usize = 512;
const LARGEST_BODY: usize = 8 << 10;

/// Says of an answer that it depends on nothing but this record, and for how long others may keep it.
#[derive(Clone, Debug)]
pub(super) struct Lasting {
    pub(super) record: (Key, Version),
    pub(super) seconds: u64,
}

/// The answers, by path.
#[derive(Debug)]
pub(super) struct Kept(Cache<Box<str>, Arc<One>, Bytewise>);

#[derive(Debug)]
struct One {
    version: Version,
    seconds: u64,
    status: StatusCode,
    /// All but those that depend on the time.
    headers: Box<[(HeaderName, HeaderValue)]>,
    body: Bytes,
}

#[derive(Clone, Debug)]
struct Bytewise;

impl Weighter<Box<str>, Arc<One>> for Bytewise {
    fn weight(&self, path: &Box<str>, one: &Arc<One>) -> u64 {
        let headers: usize = one.headers.iter().map(|header| size_of_val(header) + header.1.len()).sum();
        // And the table's own, and what each piece of memory costs beside its bytes.
        (path.len() + headers + one.body.len() + size_of::<One>() + 192) as u64
    }
}

impl Kept {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Cache::with_weighter(bytes / 1024, bytes as u64, Bytewise))
    }
}

impl<S: Store> Http<S> {
    /// The version that a name's record has now, if an answer that is made of it could be kept.
    pub(super) fn version(&self, name: &str, request: &Request<'_>) -> Option<(Key, Version)> {
        self.kept.as_ref().filter(|_| can_be_kept(request))?;
        let key = Key::new(name).ok()?;
        let version = self.registry.store().versions()?.of(&key)?;
        Some((key, version))
    }

    /// The answer to a request for a path, if it is kept and still right.
    pub(super) fn kept(&self, path: &str, request: &Request<'_>, now: SystemTime) -> Option<Answer> {
        let one = self.kept.as_ref().filter(|_| can_be_kept(request))?.0.get(path)?;
        if !self.registry.store().versions()?.is_current(one.version) {
            return None;
        }
        let mut response = Response::new(one.body.clone());
        *response.status_mut() = one.status;
        let headers = response.headers_mut();
        headers.reserve(16);
        for (name, value) in &one.headers {
            headers.append(name, value.clone());
        }
        headers.extend(expires(now + Duration::from_secs(one.seconds)).map(|expires| (EXPIRES, expires)));
        let tag = headers.get(ETAG).cloned();
        Some(match tag {
            Some(tag) => caching::spare(response, &tag, request.headers),
            None => response,
        })
    }

    /// Keeps an answer if it can be given again.
    pub(super) async fn keep(&self, path: &str, mut response: Answer) -> Answer {
        let Some(lasting) = response.extensions_mut().remove::<Lasting>() else { return response };
        let is_small = path.len() <= LONGEST_PATH && response.body().len() <= LARGEST_BODY;
        let is_whole = matches!(response.status(), StatusCode::OK | StatusCode::FOUND);
        let Some(kept) = self.kept.as_ref().filter(|_| is_small && is_whole) else { return response };
        // Made by a template, it would depend on another record.
        let (key, version) = lasting.record;
        let is_own = self.registry.store().get(&key).await;
        if !is_own.is_ok_and(|entry| entry.is_some_and(|entry| entry.state == State::Live)) {
            return response;
        }
        let headers = response.headers().iter().filter(|(name, _)| *name != EXPIRES);
        let one = One {
            version,
            seconds: lasting.seconds,
            status: response.status(),
            headers: headers.map(|(name, value)| (name.clone(), value.clone())).collect(),
            body: response.body().clone(),
        };
        kept.0.insert(path.into(), Arc::new(one));
        response
    }
}

/// Parameters and credentials make a request one of its own.
fn can_be_kept(request: &Request<'_>) -> bool {
    request.query.is_none() && !request.headers.contains_key(AUTHORIZATION)
}

/// The time as a header. Many answers of one second end at the same.
fn expires(at: SystemTime) -> Option<HeaderValue> {
    thread_local! {
        static LAST: RefCell<(u64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
    }
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    LAST.with_borrow_mut(|last| {
        if last.0 != seconds {
            *last = (seconds, HeaderValue::try_from(httpdate::fmt_http_date(at)).ok()?);
        }
        Some(last.1.clone())
    })
}
