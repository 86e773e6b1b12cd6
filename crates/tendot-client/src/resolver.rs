use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quick_cache::sync::{EntryAction, EntryResult};
use tendot_proto::{Handle, HandleValue, Ttl};
use tokio::time::Instant;

use crate::ResolveRequest;
use crate::cache::{self, CacheSettings, CachedLookup, LookupCache};

/// Source of handle records outside this process, such as an upstream resolver.
pub trait Upstream: Send + Sync {
    /// Why there was no answer.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Asks for all values of a record that everybody may read.
    fn ask(&self, name: &str) -> impl Future<Output = Result<LookupOutcome, Self::Error>> + Send;

    /// The same for a question that says more than a name, and an answer that may be old.
    fn reply(
        &self,
        question: &ResolveRequest<'_>,
    ) -> impl Future<Output = Result<UpstreamReply, Self::Error>> + Send {
        async { self.ask(&question.name).await.map(UpstreamReply::from) }
    }
}

/// Outcome of a lookup: values, no public values, not found, not responsible.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LookupOutcome {
    /// A record.
    Values(Vec<HandleValue<'static>>),
    /// A record without values for everybody.
    NoValues,
    /// No record.
    Nothing,
    /// Names under its prefix are kept somewhere else again, and nobody said where.
    NotKept,
}

impl LookupOutcome {
    /// Approximate memory use in bytes.
    pub(crate) fn memory_size(&self) -> usize {
        let Self::Values(values) = self else { return 0 };
        let of_references = |value: &HandleValue<'_>| -> usize {
            value.references.iter().map(|reference| size_of_val(reference) + reference.handle.len()).sum()
        };
        values
            .iter()
            .map(|value| {
                size_of_val(value) + value.data.len() + value.value_type.len() + of_references(value)
            })
            .sum()
    }
}

/// Reply of an upstream: the outcome and its age.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UpstreamReply {
    /// What was found.
    pub found: LookupOutcome,
    /// How long they had kept it.
    pub age: Duration,
}

impl From<LookupOutcome> for UpstreamReply {
    fn from(found: LookupOutcome) -> Self {
        Self { found, age: Duration::ZERO }
    }
}

/// Reply of the caching resolver: outcome, cache status, age and remaining TTL.
#[derive(Clone, Debug)]
pub struct CachedReply {
    /// What was found.
    pub found: Arc<LookupOutcome>,
    /// How it was come by.
    pub source: CacheStatus,
    /// How long ago who keeps the record said it.
    pub age: Duration,
    /// How long it may still be kept; nothing if its time is over.
    pub fresh: Duration,
    /// For how long its time has been over, if it was given because nobody else answered.
    pub stale: Option<Duration>,
}

/// Cache status of a reply.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum CacheStatus {
    /// It had been kept.
    Kept,
    /// Somebody had just asked the same, and both got the answer.
    Shared,
    /// It was asked for.
    Asked,
}

/// Caching resolver in front of an [`Upstream`].
///
/// Concurrent requests for one name are coalesced into one upstream request, which continues if the callers go away. When the
/// upstream fails, an expired reply is served until `stale_if_error` has passed (RFC 8767); failures are cached for `error_ttl`
/// (RFC 9520).
///
/// Many who ask for the same name at once are answered by one question, which goes on if they leave. When nobody answers,
/// what was known is given for a while after its time; if nothing was, that is kept shortly, too.
///
/// ```
/// use tendot_client::{CacheSettings, LookupOutcome, Resolver, Upstream};
/// use tendot_proto::HandleValue;
///
/// struct Library;
/// impl Upstream for Library {
///     type Error = std::io::Error;
///     async fn ask(&self, name: &str) -> Result<LookupOutcome, std::io::Error> {
///         let is_here = name.eq_ignore_ascii_case("10.1000/1");
///         Ok(if is_here { LookupOutcome::Values(vec![HandleValue::new(1, "URL", "https://example.org/")]) } else { LookupOutcome::Nothing })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let resolver = Resolver::new(Library, CacheSettings::default());
/// assert!(matches!(&*resolver.resolve("10.1000/1").await?.found, LookupOutcome::Values(_)));
/// assert!(matches!(&*resolver.resolve("10.1000/2").await?.found, LookupOutcome::Nothing));
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
        Self(Arc::new(ResolverInner { upstream, settings, cache: cache::new(&settings) }))
    }

    /// Whom it asks.
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

    /// What is kept for a name, be it that nobody answered; nobody is asked.
    pub fn kept(&self, name: &str) -> Option<Result<CachedReply, Arc<U::Error>>> {
        self.0.kept(&Handle::from(name).canonical())
    }

    /// Resolves a name from the cache or the upstream.
    pub async fn resolve<'q>(
        &self,
        question: impl Into<ResolveRequest<'q>> + Send,
    ) -> Result<CachedReply, Arc<U::Error>> {
        let question: ResolveRequest<'q> = question.into();
        let key: Box<[u8]> = Handle::from(&*question.name).canonical().into_owned().into();
        let now = Instant::now();
        if !question.is_authoritative
            && let Some(kept) = self.0.kept(&key)
        {
            return kept;
        }
        let (inner, question) = (Arc::clone(&self.0), question.into_owned());
        // The answer is worth having, and an old one must not get lost, even if who asked leaves.
        let asked = tokio::spawn(async move {
            if question.is_authoritative || question.is_forwarded() {
                inner.resolve_directly(key, &question).await
            } else {
                inner.resolve_coalesced(key, &question, now).await
            }
        });
        match asked.await {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime ends, and all of us with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

impl<U: Upstream> ResolverInner<U> {
    fn kept(&self, key: &[u8]) -> Option<Result<CachedReply, Arc<U::Error>>> {
        let kept = self.cache.get(key).filter(|kept| Instant::now() < kept.until)?;
        Some(kept.reply(CacheStatus::Kept))
    }

    /// Sends the request, or waits for a concurrent one.
    async fn resolve_coalesced(
        &self,
        key: Box<[u8]>,
        question: &ResolveRequest<'_>,
        begun: Instant,
    ) -> Result<CachedReply, Arc<U::Error>> {
        let entry = self.cache.entry_async(&key, |_, kept| {
            // What came while this one waited is good enough, be it that it may not be kept.
            if Instant::now() < kept.until || kept.heard > begun {
                EntryAction::Retain(kept.clone())
            } else {
                EntryAction::ReplaceWithGuard
            }
        });
        let (guard, old) = match entry.await {
            EntryResult::Retained(kept) => return kept.reply(CacheStatus::Shared),
            EntryResult::Replaced(guard, old) => (guard, Some(old)),
            EntryResult::Vacant(guard) => (guard, None),
            // Neither is ever asked for.
            EntryResult::Removed(..) | EntryResult::Timeout => {
                return self.resolve_directly(key, question).await;
            }
        };
        let reply = self.upstream.reply(question).await;
        let now = Instant::now();
        let kept = match (reply, old) {
            (Ok(reply), _) => self.from_reply(reply, now),
            (Err(_), Some(old)) if old.outcome.is_ok() && now < old.end => {
                CachedLookup { heard: now, until: (now + self.settings.retry).min(old.end), ..old }
            }
            (Err(error), _) => {
                let until = now + self.settings.retry;
                CachedLookup {
                    outcome: Err(Arc::new(error)),
                    since: now,
                    over: now,
                    heard: now,
                    until,
                    end: until,
                }
            }
        };
        let answer = kept.reply(CacheStatus::Asked);
        // The guard is lost only if the place was given up meanwhile; then others ask anew.
        let _ = guard.insert(kept);
        answer
    }

    /// Sends the request without waiting for others: a forwarded request could deadlock with its origin, and an authoritative one
    /// must not reuse a reply.
    ///
    /// Another service may be waiting for this answer while it is waited for here, and who wants it from its source is not
    /// content with what others asked for before.
    async fn resolve_directly(
        &self,
        key: Box<[u8]>,
        question: &ResolveRequest<'_>,
    ) -> Result<CachedReply, Arc<U::Error>> {
        match self.upstream.reply(question).await {
            Ok(reply) => {
                let kept = self.from_reply(reply, Instant::now());
                let answer = kept.reply(CacheStatus::Asked);
                self.cache.insert(key, kept);
                answer
            }
            Err(error) => {
                let old = self.cache.get(&key).filter(|old| Instant::now() < old.end);
                match old.filter(|old| old.outcome.is_ok() && !question.is_authoritative) {
                    Some(old) => old.reply(CacheStatus::Kept),
                    None => Err(Arc::new(error)),
                }
            }
        }
    }

    fn from_reply(&self, reply: UpstreamReply, now: Instant) -> CachedLookup<U::Error> {
        let over = now + self.ttl_of(&reply);
        // That there is nothing is soon no longer true, and nobody is helped by it.
        let stale = if matches!(reply.found, LookupOutcome::Values(_)) {
            self.settings.stale
        } else {
            Duration::ZERO
        };
        CachedLookup {
            outcome: Ok(Arc::new(reply.found)),
            since: now.checked_sub(reply.age).unwrap_or(now),
            over,
            heard: now,
            until: over,
            end: over + stale,
        }
    }

    /// Remaining TTL of a reply: the smallest TTL of its values, minus its age.
    fn ttl_of(&self, UpstreamReply { found, age }: &UpstreamReply) -> Duration {
        let LookupOutcome::Values(values) = found else { return self.settings.nothing };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let seconds = |value: &HandleValue<'_>| match value.ttl {
            Ttl::Relative(seconds) => u64::from(seconds).saturating_sub(age.as_secs()),
            Ttl::Absolute(date) => u64::from(date).saturating_sub(now),
            Ttl::Other { .. } => 0,
        };
        let shortest = values.iter().map(seconds).min().unwrap_or_default();
        Duration::from_secs(shortest).min(self.settings.longest)
    }
}

impl<E> CachedLookup<E> {
    fn reply(&self, source: CacheStatus) -> Result<CachedReply, Arc<E>> {
        let now = Instant::now();
        // What has just come may be used once, be it that it may not be kept.
        let is_old = self.heard > self.over || source == CacheStatus::Kept;
        Ok(CachedReply {
            found: self.outcome.clone()?,
            source,
            age: now.saturating_duration_since(self.since),
            fresh: self.over.saturating_duration_since(now),
            stale: now.checked_duration_since(self.over).filter(|_| is_old),
        })
    }
}
