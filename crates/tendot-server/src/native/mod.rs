//! The front door for clients and servers of the Handle System.
//!
//! `listen.rs` has the sockets: `udp.rs` takes datagrams (`datagram_socket.rs`: from where) and `tcp.rs` serves a connection,
//! with `tls.rs` where the peer asks for it; messages inside HTTP come from `http/tunnel.rs`. All of them hand a message to
//! `fair.rs`, which says who has had their share (`rate.rs`) and where hard work is done; `dispatch.rs` opens and reads it,
//! finds out who asks, and answers, often what was answered before (`kept.rs`). What is asked for is named by
//! `operation.rs` and carried out by `carry_out.rs`, with `session.rs`, `status.rs` and `listing.rs` (answers of several
//! messages). `site.rs` is who we are, and `neighbours.rs` asks the other servers of our site, if there are some.

mod carry_out;
mod challenges;
mod datagram_socket;
mod dispatch;
mod fair;
mod kept;
mod listen;
mod listing;
mod metrics;
mod neighbours;
mod operation;
mod rate;
mod reply;
mod session;
mod site;
mod status;
mod tcp;
mod tls;
mod udp;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use challenges::PendingChallenges;
use kept::ResponseCache;
pub use listen::{NativeLimits, NativeSockets, serve};
pub(crate) use metrics::{NativeCollector, NativeMetrics};
pub use neighbours::SitePeerClient;
use rate::NativeRateLimiter;
pub use rate::NativeRateLimits;
pub(crate) use reply::NativeReply;
pub use site::{OwnSite, SiteKeyError};
pub(crate) use status::is_status;
use tendot_proto::Now;
use tendot_proto::auth::{AuthPolicy, SessionLimits, SessionTable};
use tendot_proto::endpoint::Endpoint;
use tendot_registry::Registry;
use tokio::sync::Semaphore;

use crate::tally::ResolutionCounter;

/// Requests at the same time that take hard work; each has a thread, which may also wait for the disk. So many of the other
/// servers of our site, and so many of everybody else.
const MAX_EXPENSIVE_REQUESTS: usize = 64;

/// Bytes of answers that are kept to be given again.
const DEFAULT_RESPONSE_CACHE_BYTES: usize = 16 << 20;

/// Handle protocol service over a registry: shared state and settings.
#[derive(Debug)]
pub struct NativeServer {
    registry: Arc<Registry>,
    site: OwnSite,
    endpoint: Endpoint,
    policy: AuthPolicy,
    challenges: Mutex<PendingChallenges>,
    sessions: Mutex<SessionTable>,
    limiter: Option<NativeRateLimiter>,
    kept: Option<ResponseCache>,
    /// What is counted of resolutions.
    tally: Option<Arc<ResolutionCounter>>,
    /// How many requests that take hard work are under way, and for how many of them it is done at the same time.
    hard: Arc<Semaphore>,
    /// The same for what the other servers of our site ask while somebody waits for them there.
    hard_of_neighbours: Arc<Semaphore>,
    cores: Semaphore,
    metrics: Arc<NativeMetrics>,
    logs_requests: bool,
    start: Instant,
}

impl NativeServer {
    /// Answers from this registry as this site.
    pub fn new(registry: Arc<Registry>, site: OwnSite) -> Self {
        let policy = AuthPolicy::default();
        Self {
            registry,
            endpoint: Endpoint { site_serial: site.site().serial, primary: site.site().is_primary() },
            site,
            policy,
            challenges: Mutex::new(PendingChallenges::new(policy)),
            sessions: Mutex::new(SessionTable::new(SessionLimits::default())),
            limiter: None,
            kept: Some(ResponseCache::new(DEFAULT_RESPONSE_CACHE_BYTES)),
            tally: None,
            hard: Arc::new(Semaphore::new(MAX_EXPENSIVE_REQUESTS)),
            hard_of_neighbours: Arc::new(Semaphore::new(MAX_EXPENSIVE_REQUESTS)),
            cores: Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)),
            metrics: Arc::default(),
            logs_requests: false,
            start: Instant::now(),
        }
    }

    /// Holds back those who ask for more than their share. Nobody is, unless told otherwise.
    #[must_use]
    pub fn rate_limits(mut self, rates: NativeRateLimits) -> Self {
        self.limiter = Some(NativeRateLimiter::new(rates));
        self
    }

    /// Keeps answers to give them again, of so many bytes at most: 16 MiB, unless told otherwise.
    #[must_use]
    pub fn response_cache_size(mut self, bytes: usize) -> Self {
        self.kept = (bytes > 0).then(|| ResponseCache::new(bytes));
        self
    }

    /// Counts resolutions, for reports. They are not, unless told so.
    #[must_use]
    pub fn resolution_counter(mut self, tally: Arc<ResolutionCounter>) -> Self {
        self.tally = Some(tally);
        self
    }

    /// Says whether sessions are made in the group of 1024 bits, which clients of Handle.Net use: they are unless told
    /// otherwise.
    #[must_use]
    pub const fn allow_dh_1024(mut self, is_taken: bool) -> Self {
        self.policy.group_1024 = is_taken;
        self
    }

    /// Says whether each request leaves a line in the log. Failures of our own do in any case.
    #[must_use]
    pub const fn log_requests(mut self, logs: bool) -> Self {
        self.logs_requests = logs;
        self
    }

    /// Who we are.
    pub const fn site(&self) -> &OwnSite {
        &self.site
    }

    pub(crate) fn metrics(&self) -> Arc<NativeMetrics> {
        Arc::clone(&self.metrics)
    }

    fn now(&self) -> Now {
        let unix =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Now { elapsed: self.start.elapsed(), unix }
    }

    /// Where both tables are needed, sessions come first.
    fn lock_sessions(&self) -> MutexGuard<'_, SessionTable> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_challenges(&self) -> MutexGuard<'_, PendingChallenges> {
        self.challenges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
