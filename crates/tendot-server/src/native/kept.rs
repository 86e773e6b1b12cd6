//! Answers that are the same for everybody as long as a record is the same, kept to be given again, as those of HTTP are.
//!
//! What is kept is the whole message, under the bytes of its question. Two things differ from one asker to the next, at the
//! same places of question and answer: the number of the request, and the time when it ends.

use std::ops::Range;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tendot_proto::{Message, MessageBody, MessageHeader, Now, OpFlags, Opcode, ResponseCode};
use tendot_store::{NameKey, RecordStatus, RecordVersion, Store};

use super::fair::is_public_read;
use super::{NativeReply, NativeServer};
use crate::tally::CounterKey;

const REQUEST_ID_BYTES: Range<usize> = 8..12;
const EXPIRATION_BYTES: Range<usize> = 36..40;

/// Questions and answers that are longer are rare, and would take the place of many.
const MAX_CACHED_REQUEST_LEN: usize = 256;
const MAX_CACHED_RESPONSE_LEN: usize = 2 << 10;

/// The answers, by question.
#[derive(Debug)]
pub(super) struct ResponseCache(Cache<Box<[u8]>, Arc<One>, ByteWeighter>);

#[derive(Debug)]
struct One {
    version: RecordVersion,
    /// As what it is counted, if it is.
    counted: Option<CounterKey>,
    answer: Box<[u8]>,
}

#[derive(Clone, Debug)]
struct ByteWeighter;

impl Weighter<Box<[u8]>, Arc<One>> for ByteWeighter {
    fn weight(&self, question: &Box<[u8]>, one: &Arc<One>) -> u64 {
        // And the table's own, and what each piece of memory costs beside its bytes.
        (question.len() + one.answer.len() + size_of::<One>() + 192) as u64
    }
}

impl ResponseCache {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Cache::with_weighter(bytes / 768, bytes as u64, ByteWeighter))
    }
}

/// Request bytes with request id and expiration zeroed; the cache key.
struct NormalizedRequest {
    bytes: [u8; MAX_CACHED_REQUEST_LEN],
    length: usize,
}

impl NormalizedRequest {
    /// None if the answer would be somebody's own, or nobody's.
    fn from_message(message: &[u8]) -> Option<Self> {
        let mut question = Self { bytes: [0; MAX_CACHED_REQUEST_LEN], length: message.len() };
        let bytes = question.bytes.get_mut(..message.len())?;
        bytes.copy_from_slice(message);
        bytes.get_mut(REQUEST_ID_BYTES)?.fill(0);
        bytes.get_mut(EXPIRATION_BYTES)?.fill(0);
        is_public_read(message).then_some(question)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl NativeServer {
    /// The answer to a message, if it is kept and still right.
    pub(super) fn cached_response(&self, message: &[u8], now: Now) -> Option<NativeReply> {
        let kept = self.kept.as_ref()?;
        let one = kept.0.get(NormalizedRequest::from_message(message)?.bytes())?;
        if !self.registry.store().change_counters()?.is_current(one.version) {
            return None;
        }
        let mut answer = one.answer.to_vec();
        answer.get_mut(REQUEST_ID_BYTES)?.copy_from_slice(message.get(REQUEST_ID_BYTES)?);
        answer
            .get_mut(EXPIRATION_BYTES)?
            .copy_from_slice(&MessageHeader::default_expiration(now).to_be_bytes());
        if let (Some(tally), Some(counted)) = (&self.tally, one.counted) {
            tally.count_key(counted);
        }
        Some(NativeReply {
            message: Some(answer),
            more: None,
            opcode: Opcode::RESOLUTION,
            code: ResponseCode::SUCCESS,
            cost: 0,
        })
    }

    /// The record that a message asks for and the version that it has now, if the answer could be kept.
    pub(super) fn record_version(&self, message: &[u8]) -> Option<(NameKey, RecordVersion)> {
        self.kept.as_ref().filter(|_| is_public_read(message))?;
        let message = Message::from_bytes(message).ok()?;
        let MessageBody::Request(request) = message.body else { return None };
        // The digest is of the request as it came.
        if message.header.opcode != Opcode::RESOLUTION || message.header.flags.has(OpFlags::REQUEST_DIGEST) {
            return None;
        }
        let key = NameKey::new(str::from_utf8(request.handle()?.as_bytes()).ok()?).ok()?;
        let version = self.registry.store().change_counters()?.version_of(&key)?;
        Some((key, version))
    }

    /// Keeps an answer if it can be given again.
    pub(super) async fn cache_response(
        &self,
        message: &[u8],
        record: (NameKey, RecordVersion),
        reply: &NativeReply,
    ) {
        let (Some(kept), Some(answer)) = (&self.kept, &reply.message) else { return };
        if reply.code != ResponseCode::SUCCESS || answer.len() > MAX_CACHED_RESPONSE_LEN {
            return;
        }
        // Made by a template, it would depend on another record.
        let (key, version) = record;
        let is_own = self.registry.store().get(&key).await;
        if !is_own.is_ok_and(|entry| entry.is_some_and(|entry| entry.state == RecordStatus::Live)) {
            return;
        }
        if let Some(question) = NormalizedRequest::from_message(message) {
            let counted = match &self.tally {
                Some(tally) => tally.key_for(&self.registry, &key).await,
                None => None,
            };
            let one = One { version, counted, answer: answer.as_slice().into() };
            kept.0.insert(question.bytes().into(), Arc::new(one));
        }
    }
}
