//! `NativeServer`: shared state and settings.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tendot_proto::auth::{
    AuthContext, AuthPolicy, SecretKeyMac, SecretKeyMacSet, SessionLimits, SessionTable,
};
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::endpoint::Endpoint;
use tendot_proto::{Budget, Now};
use tendot_registry::Registry;
use tokio::sync::Semaphore;

use crate::clock::to_unix_seconds;
use crate::guess_throttle::GuessThrottle;
use crate::native::authentication::PendingChallenges;
use crate::native::middleware::amplification::{AmplificationLimiter, AmplificationLimits};
use crate::native::middleware::metrics::NativeMetrics;
use crate::native::middleware::rate_limit::{NativeRateLimiter, NativeRateLimits};
use crate::native::middleware::response_cache::NativeResponseCache;
use crate::native::own_site::OwnSite;
use crate::native::sha1_warning::Sha1Warning;
use crate::resolution_stats::ResolutionCounter;
use crate::response_cache::DEFAULT_RESPONSE_CACHE_BYTES;

/// Maximum concurrent expensive requests, separately for other servers of the site and for all other clients. Each has a
/// thread, which may also wait for the disk.
pub(super) const MAX_EXPENSIVE_REQUESTS: usize = 64;

/// Native protocol server over a registry: shared state and settings.
#[derive(Debug)]
pub struct NativeServer {
    pub(super) registry: Arc<Registry>,
    pub(super) site: OwnSite,
    pub(super) endpoint: Endpoint,
    pub(super) policy: AuthPolicy,
    /// Policy of `VERIFY_CHALLENGE`, which may accept SHA-1.
    pub(super) verification_policy: AuthPolicy,
    pub(super) sha1_warning: Sha1Warning,
    pub(super) challenges: Mutex<PendingChallenges>,
    pub(super) sessions: Mutex<SessionTable>,
    /// Limits failed authentication attempts, also those of the HTTP server that carries native messages.
    pub(crate) guess_throttle: Arc<GuessThrottle>,
    pub(super) rate_limiter: Option<NativeRateLimiter>,
    pub(super) amplification: AmplificationLimiter,
    pub(super) response_cache: Option<NativeResponseCache>,
    /// Resolution statistics.
    pub(super) resolution_counter: Option<Arc<ResolutionCounter>>,
    /// Permits for expensive requests; `cpu_permits` limits how many of them run at once.
    pub(super) expensive_permits: Arc<Semaphore>,
    /// Permits for expensive requests of other servers of the site, which have clients waiting there.
    pub(super) peer_permits: Arc<Semaphore>,
    pub(super) cpu_permits: Semaphore,
    pub(super) metrics: Arc<NativeMetrics>,
    pub(super) logs_requests: bool,
    pub(super) start: Instant,
}

impl NativeServer {
    /// Creates a server over this registry for this site, with default settings.
    pub fn new(registry: Arc<Registry>, site: OwnSite) -> Self {
        Self {
            registry,
            endpoint: Endpoint { site_serial: site.site().serial, is_primary: site.site().is_primary() },
            site,
            policy: AuthPolicy::default(),
            verification_policy: AuthPolicy::default(),
            sha1_warning: Sha1Warning::default(),
            challenges: Mutex::new(PendingChallenges::new()),
            sessions: Mutex::new(SessionTable::new(SessionLimits::default())),
            guess_throttle: Arc::new(GuessThrottle::new()),
            rate_limiter: None,
            amplification: AmplificationLimiter::new(AmplificationLimits::default()),
            response_cache: Some(NativeResponseCache::new(DEFAULT_RESPONSE_CACHE_BYTES)),
            resolution_counter: None,
            expensive_permits: Arc::new(Semaphore::new(MAX_EXPENSIVE_REQUESTS)),
            peer_permits: Arc::new(Semaphore::new(MAX_EXPENSIVE_REQUESTS)),
            cpu_permits: Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)),
            metrics: Arc::default(),
            logs_requests: false,
            start: Instant::now(),
        }
    }

    /// Sets rate limits. Default: none.
    #[must_use]
    pub fn rate_limits(mut self, limits: NativeRateLimits) -> Self {
        self.rate_limiter = Some(NativeRateLimiter::new(limits));
        self
    }

    /// Sets the limits on UDP responses to unverified addresses, which always apply. Default: 16,000 bytes.
    #[must_use]
    pub fn amplification_limits(mut self, limits: AmplificationLimits) -> Self {
        self.amplification = AmplificationLimiter::new(limits);
        self
    }

    /// Sets the size of the response cache in bytes; 0 disables it. Default: 16 MiB.
    #[must_use]
    pub fn response_cache_size(mut self, bytes: usize) -> Self {
        self.response_cache = (bytes > 0).then(|| NativeResponseCache::new(bytes));
        self
    }

    /// Counts resolutions for reports. Default: not counted.
    #[must_use]
    pub fn resolution_counter(mut self, resolution_counter: Arc<ResolutionCounter>) -> Self {
        self.resolution_counter = Some(resolution_counter);
        self
    }

    /// Allows sessions with the 1024-bit Diffie-Hellman group, which Handle.Net's clients use. Default: true.
    #[must_use]
    pub const fn allow_dh_1024(mut self, allow: bool) -> Self {
        self.policy.allow_dh_1024 = allow;
        self
    }

    /// Accepts SHA-1 proofs of secret keys in `VERIFY_CHALLENGE`, which Handle.Net's library sends at login. Default: false.
    #[must_use]
    pub const fn allow_sha1(mut self, allow: bool) -> Self {
        if allow {
            self.verification_policy.secret_key_macs = SecretKeyMacSet::DEFAULT.with(SecretKeyMac::Sha1);
        }
        self
    }

    /// Sets how long a session lasts: at most, and without requests. Default: a day, and an hour.
    #[must_use]
    pub fn session_limits(mut self, max_age: Duration, max_idle: Duration) -> Self {
        let limits = SessionLimits { max_age, max_idle, ..SessionLimits::default() };
        self.sessions = Mutex::new(SessionTable::new(limits));
        self
    }

    /// Enables an access log line per request. Internal errors are always logged.
    #[must_use]
    pub const fn log_requests(mut self, logs: bool) -> Self {
        self.logs_requests = logs;
        self
    }

    /// Site of this server.
    pub const fn site(&self) -> &OwnSite {
        &self.site
    }

    pub(crate) fn metrics(&self) -> Arc<NativeMetrics> {
        Arc::clone(&self.metrics)
    }

    pub(super) fn now(&self) -> Now {
        Now { elapsed: self.start.elapsed(), unix: to_unix_seconds(SystemTime::now()) }
    }

    /// Context of the cryptographic operations of a request with this budget.
    pub(super) fn auth<'b>(&self, budget: &'b mut Budget) -> AuthContext<'b> {
        AuthContext::new(&AwsLcProvider, self.policy, budget)
    }

    /// Lock order: sessions before challenges.
    pub(super) fn lock_sessions(&self) -> MutexGuard<'_, SessionTable> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_challenges(&self) -> MutexGuard<'_, PendingChallenges> {
        self.challenges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
