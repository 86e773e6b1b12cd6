//! Cached lookups: TTL, staleness, size limit.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};
use tendot_proto::{HandleValue, Ttl};
use tokio::time::Instant;

use crate::resolver::{CacheStatus, CachedReply};
use crate::upstream::{LookupOutcome, UpstreamReply};

/// Size and TTL limits of the resolver cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheSettings {
    /// Maximum size of all cached replies, in bytes.
    pub max_bytes: u64,
    /// Upper limit of every TTL.
    pub max_ttl: Duration,
    /// TTL of "not found".
    pub negative_ttl: Duration,
    /// How long an expired reply may be served while the upstream fails (RFC 5861).
    pub stale_if_error: Duration,
    /// How long a failure is cached (RFC 9520, section 3.2).
    pub error_ttl: Duration,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            max_bytes: 32 << 20,
            max_ttl: Duration::from_secs(86_400),
            negative_ttl: Duration::from_secs(60),
            stale_if_error: Duration::from_secs(86_400),
            error_ttl: Duration::from_secs(5),
        }
    }
}

impl CacheSettings {
    /// Remaining TTL of a reply: the smallest TTL of its values minus its age, at most what the upstream states, or
    /// [`negative_ttl`](Self::negative_ttl).
    fn ttl_of(&self, UpstreamReply { outcome, age, max_ttl }: &UpstreamReply) -> Duration {
        let LookupOutcome::Values(values) = outcome else { return self.negative_ttl.saturating_sub(*age) };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let seconds = |value: &HandleValue<'_>| match value.ttl {
            Ttl::Relative(seconds) => u64::from(seconds).saturating_sub(age.as_secs()),
            Ttl::Absolute(date) => u64::from(date).saturating_sub(now),
            Ttl::Unknown { .. } => 0,
        };
        let shortest = values.iter().map(seconds).min().unwrap_or_default();
        Duration::from_secs(shortest).min(self.max_ttl).min(max_ttl.unwrap_or(Duration::MAX))
    }
}

/// Cached result of a lookup, successful or failed.
#[derive(Debug)]
pub(crate) struct CachedLookup<E> {
    outcome: Result<Arc<LookupOutcome>, Arc<E>>,
    /// Time at which the authoritative server sent it: now minus its age when it was fetched.
    issued_at: Instant,
    /// End of its TTL.
    expires_at: Instant,
    /// Time of the last upstream request, successful or failed.
    fetched_at: Instant,
    /// Earliest time of the next upstream request.
    retry_at: Instant,
    /// End of stale replies.
    discard_at: Instant,
}

impl<E> CachedLookup<E> {
    /// Cache entry of a reply, with its TTL and the time for which it may be served stale.
    pub(crate) fn from_reply(reply: UpstreamReply, settings: &CacheSettings, now: Instant) -> Self {
        let expires_at = now + settings.ttl_of(&reply);
        // "Not found" is never served stale.
        let stale = if matches!(reply.outcome, LookupOutcome::Values(_)) {
            settings.stale_if_error
        } else {
            Duration::ZERO
        };
        Self {
            outcome: Ok(Arc::new(reply.outcome)),
            issued_at: now.checked_sub(reply.age).unwrap_or(now),
            expires_at,
            fetched_at: now,
            retry_at: expires_at,
            discard_at: expires_at + stale,
        }
    }

    /// Cache entry of a failure (RFC 9520).
    pub(crate) fn from_error(error: E, settings: &CacheSettings, now: Instant) -> Self {
        let retry_at = now + settings.error_ttl;
        Self {
            outcome: Err(Arc::new(error)),
            issued_at: now,
            expires_at: now,
            fetched_at: now,
            retry_at,
            discard_at: retry_at,
        }
    }

    /// Cache entry after another request failed: stale until it is discarded; `None` if it must not be served any more.
    pub(crate) fn extend_stale(&self, settings: &CacheSettings, now: Instant) -> Option<Self> {
        let retry_at = (now + settings.error_ttl).min(self.discard_at);
        self.can_be_stale(now).then(|| Self { fetched_at: now, retry_at, ..self.clone() })
    }

    /// Whether it may be served while the upstream fails, also after its TTL.
    pub(crate) fn can_be_stale(&self, now: Instant) -> bool {
        self.outcome.is_ok() && now < self.discard_at
    }

    /// Whether it is served without another request.
    pub(crate) fn is_current(&self, now: Instant) -> bool {
        now < self.retry_at
    }

    /// Whether the last request ended after `instant`.
    pub(crate) fn is_fetched_after(&self, instant: Instant) -> bool {
        self.fetched_at > instant
    }

    /// Reply from this entry, or the cached error.
    pub(crate) fn reply(&self, cache_status: CacheStatus) -> Result<CachedReply, Arc<E>> {
        let now = Instant::now();
        // A fresh reply may be used once even with TTL 0.
        let is_old = self.fetched_at > self.expires_at || cache_status == CacheStatus::Hit;
        Ok(CachedReply {
            outcome: self.outcome.clone()?,
            cache_status,
            age: now.saturating_duration_since(self.issued_at),
            remaining_ttl: self.expires_at.saturating_duration_since(now),
            stale_for: now.checked_duration_since(self.expires_at).filter(|_| is_old),
        })
    }
}

impl<E> Clone for CachedLookup<E> {
    fn clone(&self) -> Self {
        Self { outcome: self.outcome.clone(), ..*self }
    }
}

/// Cache of lookups by comparison key (upper-case ASCII).
pub(crate) type LookupCache<E> = Cache<Box<[u8]>, CachedLookup<E>, LookupWeighter>;

/// Approximate size of a cache entry in bytes.
#[derive(Clone, Debug)]
pub(crate) struct LookupWeighter;

impl<E> Weighter<Box<[u8]>, CachedLookup<E>> for LookupWeighter {
    fn weight(&self, key: &Box<[u8]>, lookup: &CachedLookup<E>) -> u64 {
        // 256: estimate for an error message, and overhead of an entry.
        let size = lookup.outcome.as_ref().map_or(256, |outcome| outcome.memory_size());
        (key.len() + size + 256) as u64
    }
}

/// Size of a shard of the cache: the largest record fits into one.
const SHARD_BYTES: u64 = 4 << 20;

/// Empty cache of the size in `settings`.
pub(crate) fn lookup_cache<E>(settings: &CacheSettings) -> LookupCache<E> {
    let options = OptionsBuilder::new()
        .estimated_items_capacity(usize::try_from(settings.max_bytes / 1_024).unwrap_or(usize::MAX).max(16))
        .weight_capacity(settings.max_bytes)
        .shards(usize::try_from(settings.max_bytes / SHARD_BYTES).unwrap_or(usize::MAX).clamp(1, 64))
        .build();
    match options {
        Ok(options) => Cache::with_options(options, LookupWeighter, Default::default(), Default::default()),
        Err(_) => Cache::with_weighter(16, settings.max_bytes, LookupWeighter),
    }
}
