//! Caching resolver with request coalescing.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::{EntryAction, EntryResult};
use tendot_proto::Handle;
use tokio::time::Instant;

use crate::cache::{CacheSettings, CachedLookup, LookupCache, lookup_cache};
use crate::upstream::{LookupOutcome, ResolveRequest, Upstream};

/// Reply of the caching resolver: outcome, cache status, age and remaining TTL.
#[derive(Clone, Debug)]
pub struct CachedReply {
    /// Outcome of the lookup.
    pub outcome: Arc<LookupOutcome>,
    /// Whether it came from the cache.
    pub cache_status: CacheStatus,
    /// Time since the authoritative server sent it.
    pub age: Duration,
    /// Remaining TTL; zero if expired.
    pub remaining_ttl: Duration,
    /// Time since expiry, if it is served stale.
    pub stale_for: Option<Duration>,
}

/// Cache status of a reply.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum CacheStatus {
    /// Served from the cache.
    Hit,
    /// Shared the response of a concurrent request.
    Coalesced,
    /// Fetched from the upstream.
    Miss,
}

/// Caching resolver in front of an [`Upstream`].
///
/// Concurrent requests for one name are coalesced into one upstream request, which continues if the callers go away. When the
/// upstream fails, an expired reply is served for [`CacheSettings::stale_if_error`] (RFC 5861); failures are cached for
/// [`CacheSettings::error_ttl`] (RFC 9520).
///
/// ```
/// use tendot_client::{CacheSettings, LookupOutcome, ResolveRequest, Resolver, Upstream, UpstreamReply};
/// use tendot_proto::HandleValue;
///
/// struct FixedRecords;
/// impl Upstream for FixedRecords {
///     type Error = std::io::Error;
///     async fn resolve(&self, request: &ResolveRequest<'_>) -> Result<UpstreamReply, std::io::Error> {
///         let outcome = match &*request.name {
///             "10.1000/1" => LookupOutcome::Values(vec![HandleValue::new(1, "URL", "https://example.org/")]),
///             _ => LookupOutcome::NotFound,
///         };
///         Ok(outcome.into())
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let resolver = Resolver::new(FixedRecords, CacheSettings::default());
/// assert!(matches!(&*resolver.resolve("10.1000/1").await?.outcome, LookupOutcome::Values(_)));
/// assert!(matches!(&*resolver.resolve("10.1000/2").await?.outcome, LookupOutcome::NotFound));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Resolver<U: Upstream>(Arc<ResolverInner<U>>);

/// Shared state of all clones of a resolver.
struct ResolverInner<U: Upstream> {
    upstream: U,
    settings: CacheSettings,
    cache: LookupCache<U::Error>,
}

impl<U: Upstream> Clone for Resolver<U> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<U: Upstream> fmt::Debug for Resolver<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl<U: Upstream + 'static> Resolver<U> {
    /// Resolver in front of `upstream`.
    pub fn new(upstream: U, settings: CacheSettings) -> Self {
        Self(Arc::new(ResolverInner { upstream, settings, cache: lookup_cache(&settings) }))
    }

    /// The upstream.
    pub fn upstream(&self) -> &U {
        &self.0.upstream
    }

    /// Number of cached lookups.
    pub fn cache_entries(&self) -> usize {
        self.0.cache.len()
    }

    /// Approximate size of the cache in bytes.
    pub fn cache_bytes(&self) -> u64 {
        self.0.cache.weight()
    }

    /// Cached reply for a name that need not be certified, or its cached error; sends no request.
    pub fn get_cached(&self, name: &str) -> Option<Result<CachedReply, Arc<U::Error>>> {
        self.0.get_cached(&Handle::from(name).canonical())
    }

    /// Resolves a name from the cache or the upstream.
    pub async fn resolve<'q>(
        &self,
        request: impl Into<ResolveRequest<'q>> + Send,
    ) -> Result<CachedReply, Arc<U::Error>> {
        let request: ResolveRequest<'q> = request.into();
        let key = cache_key(&request);
        let now = Instant::now();
        if !request.is_authoritative
            && let Some(cached) = self.0.get_cached(&key)
        {
            return cached;
        }
        let (inner, request) = (Arc::clone(&self.0), request.into_owned());
        // A separate task, so that the reply is cached even if the caller goes away; otherwise the old entry would be lost.
        let task = tokio::spawn(async move {
            if request.is_authoritative || request.is_forwarded() {
                inner.resolve_directly(key, &request).await
            } else {
                inner.resolve_coalesced(key, &request, now).await
            }
        });
        match task.await {
            Ok(reply) => reply,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// Cache key of a request. Certified replies are cached apart from others, under a key that no name in UTF-8 has.
fn cache_key(request: &ResolveRequest<'_>) -> Box<[u8]> {
    let mut key = Handle::from(&*request.name).canonical().into_owned();
    if request.is_certified {
        key.push(0xff);
    }
    key.into()
}

impl<U: Upstream> ResolverInner<U> {
    /// Cached reply or error, unless the upstream has to be queried again.
    fn get_cached(&self, key: &[u8]) -> Option<Result<CachedReply, Arc<U::Error>>> {
        let cached = self.cache.get(key).filter(|cached| cached.is_current(Instant::now()))?;
        Some(cached.reply(CacheStatus::Hit))
    }

    /// Sends the request, or waits for a concurrent one.
    async fn resolve_coalesced(
        &self,
        key: Box<[u8]>,
        request: &ResolveRequest<'_>,
        started: Instant,
    ) -> Result<CachedReply, Arc<U::Error>> {
        let entry = self.cache.entry_async(&key, |_, cached| {
            // A reply fetched while waiting is used even with TTL 0.
            if cached.is_current(Instant::now()) || cached.is_fetched_after(started) {
                EntryAction::Retain(cached.clone())
            } else {
                EntryAction::ReplaceWithGuard
            }
        });
        let (guard, old) = match entry.await {
            EntryResult::Retained(cached) => return cached.reply(CacheStatus::Coalesced),
            EntryResult::Replaced(guard, old) => (guard, Some(old)),
            EntryResult::Vacant(guard) => (guard, None),
            // Unreachable: neither removal nor a timeout is requested.
            EntryResult::Removed(..) | EntryResult::Timeout => {
                return self.resolve_directly(key, request).await;
            }
        };
        let reply = self.upstream.resolve(request).await;
        let now = Instant::now();
        let lookup = match reply {
            Ok(reply) => CachedLookup::from_reply(reply, &self.settings, now),
            Err(error) => old
                .filter(|_| U::allows_stale(&error))
                .and_then(|old| old.extend_stale(&self.settings, now))
                .unwrap_or_else(|| CachedLookup::from_error(error, &self.settings, now)),
        };
        let reply = lookup.reply(CacheStatus::Miss);
        // Fails only if the placeholder was evicted; others then send their own request.
        let _ = guard.insert(lookup);
        reply
    }

    /// Sends the request without waiting for others: a forwarded request could deadlock with its origin, and an authoritative one
    /// must not reuse a reply.
    async fn resolve_directly(
        &self,
        key: Box<[u8]>,
        request: &ResolveRequest<'_>,
    ) -> Result<CachedReply, Arc<U::Error>> {
        match self.upstream.resolve(request).await {
            Ok(reply) => {
                let lookup = CachedLookup::from_reply(reply, &self.settings, Instant::now());
                let reply = lookup.reply(CacheStatus::Miss);
                self.cache.insert(key, lookup);
                reply
            }
            Err(error) => {
                let old = self.cache.get(&key).filter(|old| old.can_be_stale(Instant::now()));
                match old.filter(|_| !request.is_authoritative && U::allows_stale(&error)) {
                    Some(old) => old.reply(CacheStatus::Hit),
                    None => Err(Arc::new(error)),
                }
            }
        }
    }
}
