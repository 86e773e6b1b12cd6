use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tendot_proto::{Handle, Ttl, Value};
use tokio::time::Instant;

use crate::cache::{self, Cache, CacheSettings, Kept};

/// Somebody who can be asked for records.
pub trait Upstream: Send + Sync {
    /// Why there was no answer.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Asks for all values of a record that everybody may read.
    fn ask(&self, name: &str) -> impl Future<Output = Result<Found, Self::Error>> + Send;
}

/// What a name led to elsewhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    /// A record.
    Values(Vec<Value<'static>>),
    /// A record without values for everybody.
    NoValues,
    /// No record.
    Nothing,
}

impl Found {
    /// The memory that it takes, roughly.
    pub(crate) fn size(&self) -> usize {
        let Self::Values(values) = self else { return 0 };
        values.iter().map(|value| size_of_val(value) + value.data.len() + value.value_type.len()).sum()
    }
}

/// An answer, and how old it is.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What was found.
    pub found: Arc<Found>,
    /// How long ago it was asked for; nothing if it was just now.
    pub age: Duration,
    /// Whether its time is over, and it was given because nobody else answered.
    pub is_stale: bool,
}

/// Asks somebody for records, and keeps the answers for as long as they may be kept.
///
/// Many who ask for the same name at once are answered by one question. When nobody answers, what was known is given for
/// a while after its time.
///
/// ```
/// use tendot_client::{CacheSettings, Found, Resolver, Upstream};
/// use tendot_proto::Value;
///
/// struct Library;
/// impl Upstream for Library {
///     type Error = std::io::Error;
///     async fn ask(&self, name: &str) -> Result<Found, std::io::Error> {
///         let is_here = name.eq_ignore_ascii_case("10.1000/1");
///         Ok(if is_here { Found::Values(vec![Value::new(1, "URL", "https://example.org/")]) } else { Found::Nothing })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let resolver = Resolver::new(Library, CacheSettings::default());
/// assert!(matches!(&*resolver.resolve("10.1000/1").await?.found, Found::Values(_)));
/// assert!(matches!(&*resolver.resolve("10.1000/2").await?.found, Found::Nothing));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Resolver<U> {
    upstream: U,
    settings: CacheSettings,
    cache: Cache,
}

impl<U> fmt::Debug for Resolver<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<U: Upstream> Resolver<U> {
    /// Asks `upstream`.
    pub fn new(upstream: U, settings: CacheSettings) -> Self {
        Self { upstream, settings, cache: cache::new(&settings) }
    }

    /// The record of a name, from the cache or from elsewhere.
    pub async fn resolve(&self, name: &str) -> Result<Answer, U::Error> {
        let key: Box<[u8]> = Handle::from(name).folded().into_owned().into();
        let old = self.cache.get(&key);
        if let Some(kept) = old.as_ref().filter(|kept| Instant::now() < kept.until) {
            return Ok(self.answer(kept));
        }
        if old.is_some() {
            // Only one of those who wait finds nothing here, and asks.
            self.cache.remove_if(&key, |kept| Instant::now() >= kept.until);
        }
        let guard = match self.cache.get_value_or_guard_async(&key).await {
            Ok(kept) => return Ok(self.answer(&kept)),
            Err(guard) => guard,
        };
        let now = Instant::now();
        let kept = match (self.upstream.ask(name).await, old) {
            (Ok(found), _) => {
                let until = now + self.time(&found);
                Kept { found: Arc::new(found), since: now, until, end: until + self.settings.stale }
            }
            (Err(_), Some(old)) if now < old.end => {
                Kept { until: (now + self.settings.retry).min(old.end), ..old }
            }
            (Err(error), _) => return Err(error),
        };
        let answer = self.answer(&kept);
        // The guard is lost only if the place was given up meanwhile; then others ask anew.
        let _ = guard.insert(kept);
        Ok(answer)
    }

    fn answer(&self, kept: &Kept) -> Answer {
        let now = Instant::now();
        let over = kept.end.checked_sub(self.settings.stale);
        Answer {
            found: Arc::clone(&kept.found),
            age: now.saturating_duration_since(kept.since),
            is_stale: over.is_some_and(|over| now > over),
        }
    }

    /// How long an answer may be kept.
    fn time(&self, found: &Found) -> Duration {
        let Found::Values(values) = found else { return self.settings.nothing };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let seconds = |value: &Value<'_>| match value.ttl {
            Ttl::Relative(seconds) => u64::from(seconds),
            Ttl::Absolute(date) => u64::from(date).saturating_sub(now),
            Ttl::Other { .. } => 0,
        };
        let shortest = values.iter().map(seconds).min().unwrap_or_default();
        Duration::from_secs(shortest).min(self.settings.longest)
    }
}
