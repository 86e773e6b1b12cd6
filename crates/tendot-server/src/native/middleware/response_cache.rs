//! Response cache of the native protocol, for replies that are identical for all clients while one record is unchanged.
//!
//! The whole message is cached under the bytes of its request. Two fields differ between clients, at the same offsets in
//! request and response: request id and expiration time.

use std::ops::Range;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tendot_proto::{Message, MessageBody, MessageHeader, Now, OpFlags, Opcode, ResponseCode};
use tendot_store::{NameKey, RecordStatus, RecordVersion, Store};

use crate::native::middleware::admission::is_public_read;
use crate::native::{NativeReply, NativeServer};
use crate::resolution_stats::CounterKey;

const REQUEST_ID_BYTES: Range<usize> = 8..12;
const EXPIRATION_BYTES: Range<usize> = 36..40;

/// Longer requests and responses are rare and would evict many entries.
const MAX_CACHED_REQUEST_LEN: usize = 256;
const MAX_CACHED_RESPONSE_LEN: usize = 2 << 10;

/// Cached responses by request.
#[derive(Debug)]
pub(crate) struct ResponseCache(Cache<Box<[u8]>, Arc<CachedResponse>, ByteWeighter>);

/// Cached response with its record version and counter key.
#[derive(Debug)]
struct CachedResponse {
    version: RecordVersion,
    /// Counter key of the name, if it is counted.
    counter_key: Option<CounterKey>,
    message: Box<[u8]>,
}

#[derive(Clone, Debug)]
struct ByteWeighter;

impl Weighter<Box<[u8]>, Arc<CachedResponse>> for ByteWeighter {
    fn weight(&self, request: &Box<[u8]>, cached: &Arc<CachedResponse>) -> u64 {
        // Plus the cache's own overhead and that of the allocations.
        (request.len() + cached.message.len() + size_of::<CachedResponse>() + 192) as u64
    }
}

impl ResponseCache {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Cache::with_weighter(bytes / 768, bytes as u64, ByteWeighter))
    }
}

/// Request bytes with request id and expiration zeroed; the cache key.
struct NormalizedRequest {
    bytes: [u8; MAX_CACHED_REQUEST_LEN],
    length: usize,
}

impl NormalizedRequest {
    /// `None` if the response would depend on the client, or there is none.
    fn from_message(message: &[u8]) -> Option<Self> {
        let mut request = Self { bytes: [0; MAX_CACHED_REQUEST_LEN], length: message.len() };
        let bytes = request.bytes.get_mut(..message.len())?;
        bytes.copy_from_slice(message);
        bytes.get_mut(REQUEST_ID_BYTES)?.fill(0);
        bytes.get_mut(EXPIRATION_BYTES)?.fill(0);
        is_public_read(message).then_some(request)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl NativeServer {
    /// Cached response to a message, if there is a valid one.
    pub(crate) fn cached_response(&self, message: &[u8], now: Now) -> Option<NativeReply> {
        let response_cache = self.response_cache.as_ref()?;
        let cached = response_cache.0.get(NormalizedRequest::from_message(message)?.bytes())?;
        if !self.registry.store().change_counters()?.is_current(cached.version) {
            return None;
        }
        let mut response = cached.message.to_vec();
        response.get_mut(REQUEST_ID_BYTES)?.copy_from_slice(message.get(REQUEST_ID_BYTES)?);
        response
            .get_mut(EXPIRATION_BYTES)?
            .copy_from_slice(&MessageHeader::default_expiration(now).to_be_bytes());
        if let (Some(resolution_counter), Some(counter_key)) = (&self.resolution_counter, cached.counter_key)
        {
            resolution_counter.count_key(counter_key);
        }
        Some(NativeReply {
            message: Some(response),
            continuation: None,
            opcode: Opcode::RESOLUTION,
            code: ResponseCode::SUCCESS,
            cost: 0,
        })
    }

    /// Requested record and its current version, if the reply is cacheable.
    pub(crate) fn record_version(&self, message: &[u8]) -> Option<(NameKey, RecordVersion)> {
        self.response_cache.as_ref().filter(|_| is_public_read(message))?;
        let message = Message::from_bytes(message).ok()?;
        let MessageBody::Request(request) = message.body else { return None };
        // A request digest covers the request id.
        if message.header.opcode != Opcode::RESOLUTION
            || message.header.flags.contains(OpFlags::REQUEST_DIGEST)
        {
            return None;
        }
        let key = NameKey::new(str::from_utf8(request.handle()?.as_bytes()).ok()?).ok()?;
        let version = self.registry.store().change_counters()?.version_of(&key)?;
        Some((key, version))
    }

    /// Caches a reply if it is cacheable.
    pub(crate) async fn cache_response(
        &self,
        message: &[u8],
        record: (NameKey, RecordVersion),
        reply: &NativeReply,
    ) {
        let (Some(response_cache), Some(response)) = (&self.response_cache, &reply.message) else { return };
        if reply.code != ResponseCode::SUCCESS || response.len() > MAX_CACHED_RESPONSE_LEN {
            return;
        }
        // A record generated by a template depends on another record.
        let (key, version) = record;
        let own = self.registry.store().get(&key).await;
        if !own.is_ok_and(|entry| entry.is_some_and(|entry| entry.status == RecordStatus::Live)) {
            return;
        }
        if let Some(request) = NormalizedRequest::from_message(message) {
            let counter_key = match &self.resolution_counter {
                Some(resolution_counter) => resolution_counter.key_for(&self.registry, &key).await,
                None => None,
            };
            let cached = CachedResponse { version, counter_key, message: response.as_slice().into() };
            response_cache.0.insert(request.bytes().into(), Arc::new(cached));
        }
    }
}
