//! Caching resolver: TTL, negative caching, staleness, coalescing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tendot_client::{
    CacheSettings, CacheStatus, CachedReply, CdnLoop, LookupOutcome, ResolveRequest, Resolver, Upstream,
    UpstreamReply,
};
use tendot_proto::{HandleValue, Ttl};
use tokio::time::{advance, sleep};

/// Replies to a name according to its last segment, and counts requests.
#[derive(Default)]
struct FakeUpstream {
    request_count: AtomicU32,
    is_failing: AtomicBool,
    /// Age of its replies in seconds.
    age: AtomicU32,
    /// Freshness lifetime that it states, in seconds; none if 0.
    max_ttl: AtomicU32,
}

impl Upstream for &FakeUpstream {
    type Error = io::Error;

    async fn resolve(&self, request: &ResolveRequest<'_>) -> Result<UpstreamReply, io::Error> {
        let number = self.request_count.fetch_add(1, Ordering::Relaxed) + 1;
        sleep(Duration::from_millis(100)).await;
        if self.is_failing.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let value = |ttl| {
            vec![HandleValue { ttl, ..HandleValue::new(1, "URL", format!("https://example.org/{number}")) }]
        };
        let outcome = match request.name.rsplit('/').next().unwrap() {
            "none" => LookupOutcome::NotFound,
            "never" => LookupOutcome::Values(value(Ttl::Relative(0))),
            "big" => LookupOutcome::Values(vec![HandleValue::with_data(1, "DESC", vec![0; 100_000])]),
            _ => LookupOutcome::Values(value(Ttl::Relative(600))),
        };
        let age = Duration::from_secs(self.age.load(Ordering::Relaxed).into());
        let max_ttl = Some(self.max_ttl.load(Ordering::Relaxed)).filter(|seconds| *seconds > 0);
        Ok(UpstreamReply {
            outcome,
            age,
            max_ttl: max_ttl.map(|seconds| Duration::from_secs(seconds.into())),
        })
    }
}

impl FakeUpstream {
    fn take_request_count(&self) -> u32 {
        self.request_count.swap(0, Ordering::Relaxed)
    }
}

/// The upstream lives as long as the test program, so that tasks can refer to it.
fn new_resolver() -> (&'static FakeUpstream, Resolver<&'static FakeUpstream>) {
    let upstream = Box::leak(Box::default());
    (upstream, Resolver::new(upstream, CacheSettings::default()))
}

#[tokio::test(start_paused = true)]
async fn cached_until_ttl_expires() {
    let (upstream, resolver) = new_resolver();
    for name in ["10.1000/x", "10.1000/X", "10.1000/x"] {
        assert!(matches!(&*resolver.resolve(name).await.unwrap().outcome, LookupOutcome::Values(_)));
    }
    assert_eq!(upstream.take_request_count(), 1);
    advance(Duration::from_secs(599)).await;
    let reply = resolver.resolve("10.1000/x").await.unwrap();
    assert!(reply.age >= Duration::from_secs(599) && reply.remaining_ttl <= Duration::from_secs(1));
    assert_eq!(upstream.take_request_count(), 0);
    advance(Duration::from_secs(2)).await;
    let reply = resolver.resolve("10.1000/x").await.unwrap();
    assert!(reply.age < Duration::from_secs(1));
    assert_eq!(upstream.take_request_count(), 1);
}

/// A record is not cached for longer than the upstream states, even if the TTLs of its values are longer.
#[tokio::test(start_paused = true)]
async fn cached_at_most_as_long_as_the_upstream_states() {
    let (upstream, resolver) = new_resolver();
    upstream.max_ttl.store(3, Ordering::Relaxed);
    let reply = resolver.resolve("10.1000/x").await.unwrap();
    assert!(reply.remaining_ttl <= Duration::from_secs(3), "{reply:?}");
    advance(Duration::from_secs(4)).await;
    resolver.resolve("10.1000/x").await.unwrap();
    assert_eq!(upstream.take_request_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn negative_ttl_and_zero_ttl() {
    let (upstream, resolver) = new_resolver();
    for _ in 0..3 {
        assert_eq!(*resolver.resolve("10.1000/none").await.unwrap().outcome, LookupOutcome::NotFound);
    }
    assert_eq!(upstream.take_request_count(), 1);
    advance(Duration::from_secs(61)).await;
    resolver.resolve("10.1000/none").await.unwrap();
    assert_eq!(upstream.take_request_count(), 1);
    for _ in 0..3 {
        resolver.resolve("10.1000/never").await.unwrap();
    }
    assert_eq!(upstream.take_request_count(), 3);
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_are_coalesced() {
    let (upstream, resolver) = new_resolver();
    for round in 0..2 {
        let requests = (0..50).map(|_| resolver.resolve("10.1000/x"));
        let mut requests: Vec<_> = requests.map(Box::pin).collect();
        // All start before the first reply.
        let start_all = std::future::poll_fn(|context| {
            let pending = requests.iter_mut().map(|request| request.as_mut().poll(context).is_pending());
            let pending = pending.filter(|pending| *pending).count();
            assert_eq!(pending, 50);
            std::task::Poll::Ready(())
        });
        start_all.await;
        for request in requests {
            request.await.unwrap();
        }
        assert_eq!(upstream.take_request_count(), 1, "round {round}");
        advance(Duration::from_secs(601)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn serves_stale_on_upstream_error() {
    let (upstream, resolver) = new_resolver();
    resolver.resolve("10.1000/x").await.unwrap();
    upstream.is_failing.store(true, Ordering::Relaxed);
    upstream.take_request_count();
    assert!(resolver.resolve("10.1000/y").await.is_err());
    advance(Duration::from_secs(700)).await;
    let reply = resolver.resolve("10.1000/x").await.unwrap();
    assert!(reply.stale_for >= Some(Duration::from_secs(100)) && reply.age >= Duration::from_secs(700));
    // A failing upstream is not queried again at once.
    upstream.take_request_count();
    assert!(resolver.resolve("10.1000/x").await.unwrap().stale_for.is_some());
    assert_eq!(upstream.take_request_count(), 0);
    advance(Duration::from_secs(11)).await;
    assert!(resolver.resolve("10.1000/x").await.unwrap().stale_for.is_some());
    assert_eq!(upstream.take_request_count(), 1);
    // Staleness is limited.
    advance(Duration::from_secs(86_400 + 600)).await;
    assert!(resolver.resolve("10.1000/x").await.is_err());
    upstream.is_failing.store(false, Ordering::Relaxed);
    advance(Duration::from_secs(6)).await;
    assert_eq!(resolver.resolve("10.1000/x").await.unwrap().stale_for, None);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let (upstream, _) = new_resolver();
    let settings = CacheSettings { max_bytes: 1 << 20, ..CacheSettings::default() };
    let resolver = Resolver::new(upstream, settings);
    for number in 0..200 {
        resolver.resolve(&*format!("10.1000/{number}/big")).await.unwrap();
    }
    upstream.take_request_count();
    for number in 0..200 {
        resolver.resolve(&*format!("10.1000/{number}/big")).await.unwrap();
    }
    assert!(upstream.take_request_count() >= 190, "20 MB do not fit into 1 MB");
    assert!(resolver.cache_bytes() <= 1 << 20 && resolver.cache_entries() < 12, "{}", resolver.cache_bytes());
    // Many small entries and negative entries count as well.
    for number in 0..10_000 {
        resolver.resolve(&*format!("10.1000/{number}/none")).await.unwrap();
    }
    assert!(
        resolver.cache_bytes() <= 1 << 20 && resolver.cache_entries() < 5_000,
        "{}",
        resolver.cache_entries()
    );
}

#[tokio::test(start_paused = true)]
async fn not_found_is_never_served_stale() {
    let (upstream, resolver) = new_resolver();
    resolver.resolve("10.1000/none").await.unwrap();
    upstream.is_failing.store(true, Ordering::Relaxed);
    assert!(resolver.resolve("10.1000/none").await.is_ok());
    advance(Duration::from_secs(61)).await;
    assert!(resolver.resolve("10.1000/none").await.is_err());
}

/// All waiting callers get the same failure, and later ones too until it expires.
#[tokio::test(start_paused = true)]
async fn failures_are_coalesced_and_cached() {
    let (upstream, resolver) = new_resolver();
    upstream.is_failing.store(true, Ordering::Relaxed);
    let requests: Vec<_> = (0..50).map(|_| spawn(&resolver, "10.1000/x".into())).collect();
    for request in requests {
        assert!(request.await.unwrap().is_err());
    }
    assert!(resolver.resolve("10.1000/x").await.is_err());
    assert_eq!(upstream.take_request_count(), 1);
    advance(Duration::from_secs(6)).await;
    upstream.is_failing.store(false, Ordering::Relaxed);
    assert!(resolver.resolve("10.1000/x").await.is_ok());
}

/// A reply with TTL 0 still serves all callers that wait for it.
#[tokio::test(start_paused = true)]
async fn zero_ttl_is_coalesced() {
    let (upstream, resolver) = new_resolver();
    let requests: Vec<_> = (0..50).map(|_| spawn(&resolver, "10.1000/never".into())).collect();
    for request in requests {
        let reply = request.await.unwrap().unwrap();
        assert_eq!((reply.stale_for, reply.remaining_ttl), (None, Duration::ZERO));
    }
    assert_eq!(upstream.take_request_count(), 1);
}

/// The stale reply stays available, too.
#[tokio::test(start_paused = true)]
async fn cancelled_caller_does_not_cancel_request() {
    let (upstream, resolver) = new_resolver();
    resolver.resolve("10.1000/x").await.unwrap();
    advance(Duration::from_secs(700)).await;
    upstream.is_failing.store(true, Ordering::Relaxed);
    let request = spawn(&resolver, "10.1000/x".into());
    sleep(Duration::from_millis(50)).await;
    request.abort();
    sleep(Duration::from_millis(10)).await;
    assert!(resolver.resolve("10.1000/x").await.unwrap().stale_for.is_some());
    assert_eq!(upstream.take_request_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn authoritative_bypasses_cache() {
    let (upstream, resolver) = new_resolver();
    let authoritative = || ResolveRequest { is_authoritative: true, ..ResolveRequest::from("10.1000/x") };
    assert_eq!(resolver.resolve(authoritative()).await.unwrap().cache_status, CacheStatus::Miss);
    assert_eq!(resolver.resolve("10.1000/x").await.unwrap().cache_status, CacheStatus::Hit);
    assert_eq!(resolver.resolve(authoritative()).await.unwrap().cache_status, CacheStatus::Miss);
    assert_eq!(upstream.take_request_count(), 2);
    // The authoritative reply replaces the cached one.
    let cached = resolver.resolve("10.1000/x").await.unwrap();
    assert!(format!("{:?}", cached.outcome).contains("example.org/2"), "{cached:?}");
    // Stale replies are not authoritative.
    upstream.is_failing.store(true, Ordering::Relaxed);
    assert!(resolver.resolve(authoritative()).await.is_err());
    assert_eq!(resolver.resolve("10.1000/x").await.unwrap().cache_status, CacheStatus::Hit);
}

/// Two services that forward the same request to each other do not wait for each other.
#[tokio::test(start_paused = true)]
async fn forwarded_requests_are_not_coalesced() {
    let (upstream, resolver) = new_resolver();
    let first = spawn(&resolver, "10.1000/x".into());
    sleep(Duration::from_millis(50)).await;
    let cdn_loop = CdnLoop::forward([&b"tendot-a"[..]], "tendot-b").unwrap();
    let forwarded = ResolveRequest { cdn_loop, ..ResolveRequest::from("10.1000/x") };
    let second = spawn(&resolver, forwarded.clone());
    assert_eq!(first.await.unwrap().unwrap().cache_status, CacheStatus::Miss);
    assert_eq!(second.await.unwrap().unwrap().cache_status, CacheStatus::Miss);
    assert_eq!(upstream.take_request_count(), 2);
    assert_eq!(resolver.resolve(forwarded).await.unwrap().cache_status, CacheStatus::Hit);
}

/// A reply that another cache has stored is cached for the rest of its TTL.
#[tokio::test(start_paused = true)]
async fn age_reduces_ttl() {
    let (upstream, resolver) = new_resolver();
    upstream.age.store(500, Ordering::Relaxed);
    let reply = resolver.resolve("10.1000/x").await.unwrap();
    assert_eq!((reply.age.as_secs(), reply.remaining_ttl.as_secs()), (500, 100));
    advance(Duration::from_secs(101)).await;
    resolver.resolve("10.1000/x").await.unwrap();
    assert_eq!(upstream.take_request_count(), 2);
}

/// Resolvers in a chain do not add up their negative TTLs.
#[tokio::test(start_paused = true)]
async fn age_reduces_negative_ttl() {
    let (upstream, resolver) = new_resolver();
    upstream.age.store(50, Ordering::Relaxed);
    let reply = resolver.resolve("10.1000/none").await.unwrap();
    assert_eq!((reply.age.as_secs(), reply.remaining_ttl.as_secs()), (50, 10));
    advance(Duration::from_secs(11)).await;
    upstream.age.store(61, Ordering::Relaxed);
    assert_eq!(resolver.resolve("10.1000/none").await.unwrap().remaining_ttl, Duration::ZERO);
    assert_eq!(upstream.take_request_count(), 2);
}

fn spawn(
    resolver: &Resolver<&'static FakeUpstream>,
    request: ResolveRequest<'static>,
) -> tokio::task::JoinHandle<Result<CachedReply, Arc<io::Error>>> {
    let resolver = resolver.clone();
    tokio::spawn(async move { resolver.resolve(request).await })
}
