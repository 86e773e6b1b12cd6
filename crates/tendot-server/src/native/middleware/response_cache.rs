//! Response cache of the native protocol: whole messages under the bytes of their request.
//!
//! Two fields differ between clients, at the same offsets in request and response: request id and expiration time.

use std::ops::Range;

use tendot_proto::{MessageHeader, Now, OpFlags, Opcode, Request, ResponseCode};
use tendot_store::{NameKey, RecordVersion};

use crate::native::classified_message::ClassifiedMessage;
use crate::native::{NativeReply, NativeServer};
use crate::response_cache;

const REQUEST_ID_BYTES: Range<usize> = 8..12;
const EXPIRATION_BYTES: Range<usize> = 36..40;

/// Longer requests and responses are rare and would evict many entries.
const MAX_CACHED_REQUEST_LEN: usize = 256;
const MAX_CACHED_RESPONSE_LEN: usize = 2 << 10;

/// Cached responses by request.
pub(crate) type NativeResponseCache = response_cache::ResponseCache<Box<[u8]>, Box<[u8]>>;

/// Request bytes with request id and expiration zeroed; the cache key.
struct NormalizedRequest {
    bytes: [u8; MAX_CACHED_REQUEST_LEN],
    length: usize,
}

impl NormalizedRequest {
    /// `None` if the response would depend on the client, or there is none.
    fn new(message: &ClassifiedMessage<'_>) -> Option<Self> {
        let message = Some(message).filter(|message| message.is_cacheable())?.bytes();
        let mut request = Self { bytes: [0; MAX_CACHED_REQUEST_LEN], length: message.len() };
        let bytes = request.bytes.get_mut(..message.len())?;
        bytes.copy_from_slice(message);
        bytes.get_mut(REQUEST_ID_BYTES)?.fill(0);
        bytes.get_mut(EXPIRATION_BYTES)?.fill(0);
        Some(request)
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl NativeServer {
    /// Cached response to a message, if there is a valid one.
    pub(crate) fn cached_response(&self, message: &ClassifiedMessage<'_>, now: Now) -> Option<NativeReply> {
        let response_cache = self.response_cache.as_ref()?;
        let cached = response_cache.get(&self.registry, NormalizedRequest::new(message)?.bytes())?;
        let mut response = cached.response.to_vec();
        response.get_mut(REQUEST_ID_BYTES)?.copy_from_slice(message.bytes().get(REQUEST_ID_BYTES)?);
        response
            .get_mut(EXPIRATION_BYTES)?
            .copy_from_slice(&MessageHeader::default_expiration(now).to_be_bytes());
        cached.count(self.resolution_counter.as_deref());
        Some(NativeReply {
            message: Some(response),
            continuation: None,
            opcode: Opcode::RESOLUTION,
            code: ResponseCode::SUCCESS,
            cost: 0,
            keep_alive: message.has_flag(OpFlags::KEEP_CONNECTION),
            is_stored: true,
        })
    }

    /// Requested record and its current version, if the reply is cacheable.
    pub(crate) fn record_version(
        &self,
        message: &ClassifiedMessage<'_>,
        request: &Request<'_>,
    ) -> Option<(NameKey, RecordVersion)> {
        self.response_cache.as_ref().filter(|_| message.is_cacheable())?;
        let name = NameKey::new(request.handle()?.to_str().ok()?).ok()?;
        let version = response_cache::record_version(&self.registry, &name)?;
        Some((name, version))
    }

    /// Caches a reply if it is cacheable.
    pub(crate) async fn cache_response(
        &self,
        message: &ClassifiedMessage<'_>,
        record: (NameKey, RecordVersion),
        reply: &NativeReply,
    ) {
        let (Some(response_cache), Some(response)) = (&self.response_cache, &reply.message) else { return };
        if reply.is_stored
            && reply.code == ResponseCode::SUCCESS
            && response.len() <= MAX_CACHED_RESPONSE_LEN
            && let Some(request) = NormalizedRequest::new(message).map(|request| request.bytes().into())
        {
            let counter = self.resolution_counter.as_deref();
            response_cache.insert(&self.registry, counter, record, request, response.as_slice().into()).await;
        }
    }
}
