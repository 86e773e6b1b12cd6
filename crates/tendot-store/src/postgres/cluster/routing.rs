//! Choice of the host for a read, and retries over hosts.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Cluster;
use super::connection_string::MAX_HOSTS;
use super::host::{ClusterHost, HostState};
use crate::postgres::PostgresStore;
use crate::postgres::error::DatabaseError;

/// Maximum number of rounds over the hosts; reads can be repeated safely.
const MAX_ROUNDS: u32 = 3;

/// Time to wait for a new primary after one was lost, and poll interval.
const PRIMARY_WAIT: Duration = Duration::from_secs(1);

const PRIMARY_POLL_DELAY: Duration = Duration::from_millis(20);

/// Consistency that a read requires.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadConsistency {
    /// The latest state.
    Latest,
    /// The state at this log sequence number or later.
    AtLeast(u64),
}

/// Host chosen for a read, and whether it is current enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTarget<'n> {
    pub(crate) host: &'n ClusterHost,
    /// Whether the host is current enough; otherwise the result may be stale and is the best available.
    pub(crate) is_current: bool,
}

/// Hosts tried for a read, as a bit mask.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct TriedHosts(u64);

// A connection string has at most as many hosts.
const _: () = assert!(MAX_HOSTS <= u64::BITS as usize);

impl TriedHosts {
    const fn contains(self, index: usize) -> bool {
        self.0 & (1 << index) != 0
    }

    const fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Cluster {
    /// Chooses a host that was not tried yet; `None` if there is none.
    pub(crate) fn pick_read_target(
        &self,
        read: ReadConsistency,
        tried: &mut TriedHosts,
    ) -> Option<ReadTarget<'_>> {
        let (index, is_current) = self.select_host(read, *tried)?;
        tried.insert(index);
        Some(ReadTarget { host: self.get(index)?, is_current })
    }

    fn select_host(&self, read: ReadConsistency, tried: TriedHosts) -> Option<(usize, bool)> {
        let candidates = || self.hosts.iter().enumerate().filter(move |(index, _)| !tried.contains(*index));
        if let ReadConsistency::AtLeast(sequence) = read
            && self.use_standbys
        {
            let has_replayed =
                |host: &ClusterHost| host.standby_position().is_some_and(|position| position >= sequence);
            let count = candidates().filter(|(_, host)| has_replayed(host)).count();
            if count > 0 {
                let next_standby = self.next_standby.fetch_add(1, Ordering::Relaxed) % count;
                return candidates()
                    .filter(|(_, host)| has_replayed(host))
                    .nth(next_standby)
                    .map(|(index, _)| (index, true));
            }
        }
        let primary = self.primary_state().host;
        if let Some(primary) = primary.filter(|index| !tried.contains(*index)) {
            return Some((primary, true));
        }
        if !self.use_standbys {
            return None;
        }
        let furthest = candidates().filter_map(|(index, host)| Some((host.standby_position()?, index))).max();
        match (read, furthest) {
            // Without a reachable primary, a stale result is better than none.
            (ReadConsistency::AtLeast(sequence), Some((position, index))) => {
                return Some((index, position >= sequence));
            }
            // Without a primary, a standby that has everything we know of is current.
            (ReadConsistency::Latest, Some((position, index)))
                if primary.is_none() && position >= self.read_fence.known_position() =>
            {
                return Some((index, true));
            }
            (ReadConsistency::Latest, _) => return None,
            (ReadConsistency::AtLeast(_), None) => {}
        }
        candidates()
            .find(|(_, host)| host.observation().state == HostState::Unknown)
            .map(|(index, _)| (index, false))
    }
}

impl PostgresStore {
    /// Tries hosts in turn, in several rounds, until one answers. Errors caused by the request are returned at once.
    pub(crate) async fn try_hosts<'n, T, F>(
        &'n self,
        read: ReadConsistency,
        request: impl Fn(&'n ClusterHost) -> F,
    ) -> Result<(T, bool), DatabaseError>
    where
        F: Future<Output = Result<T, DatabaseError>>,
    {
        let (mut tried, mut rounds, mut last_error) = (TriedHosts::default(), 1, DatabaseError::NoHost);
        let started = Instant::now();
        loop {
            let Some(ReadTarget { host, is_current }) = self.cluster.pick_read_target(read, &mut tried)
            else {
                // The primary may come back in a moment.
                if tried.is_empty() && !self.cluster.is_without_primary() && started.elapsed() < PRIMARY_WAIT
                {
                    sleep(PRIMARY_POLL_DELAY).await;
                    continue;
                }
                if rounds >= MAX_ROUNDS || tried.is_empty() {
                    return Err(last_error);
                }
                (tried, rounds) = (TriedHosts::default(), rounds + 1);
                continue;
            };
            // Boxed: nested in all waiting futures, it exceeds the compiler's recursion limit.
            match Box::pin(request(host)).await {
                Err(error) if error.is_retryable() || error.is_caused_by_host() => {
                    if error.is_caused_by_host() {
                        host.mark_suspect();
                    }
                    last_error = error;
                }
                result => return result.map(|value| (value, is_current)),
            }
        }
    }
}
