//! Choice of the host for a read, and retries over hosts.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Cluster;
use super::host::{ClusterHost, State};
use crate::postgres::PostgresStore;
use crate::postgres::error::DatabaseError;

/// Maximum number of rounds over the hosts; reads can be repeated safely.
const MAX_ATTEMPTS: u32 = 3;

/// Time to wait for a new primary after one was lost, and poll interval.
const PRIMARY_WAIT: Duration = Duration::from_secs(1);

const PRIMARY_POLL_DELAY: Duration = Duration::from_millis(20);

/// Consistency that a read requires.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read {
    /// The latest state.
    Current,
    /// The state at this log sequence number or later.
    Since(u64),
}

/// Host chosen for a read, and whether it is current enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTarget<'n> {
    pub(crate) node: &'n ClusterHost,
    /// Whether the host is current enough; otherwise the result may be stale and is the best available.
    pub(crate) is_sure: bool,
}

impl Cluster {
    /// Chooses a host that was not tried yet (`tried` is a bit mask); `None` if there is none.
    pub(crate) fn pick_read_target(&self, read: Read, tried: &mut u64) -> Option<ReadTarget<'_>> {
        let (number, is_sure) = self.select_host(read, *tried)?;
        *tried |= 1 << number;
        Some(ReadTarget { node: self.get(number)?, is_sure })
    }

    fn select_host(&self, read: Read, tried: u64) -> Option<(usize, bool)> {
        let left = || self.all.iter().enumerate().filter(move |(number, _)| tried & (1 << number) == 0);
        if let Read::Since(line) = read
            && self.asks_standbys
        {
            let knowing = |node: &ClusterHost| node.standby_position().is_some_and(|known| known >= line);
            let number = left().filter(|(_, node)| knowing(node)).count();
            if number > 0 {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) % number;
                return left().filter(|(_, node)| knowing(node)).nth(turn).map(|(number, _)| (number, true));
            }
        }
        let lead = self.primary_state().number;
        if let Some(lead) = lead.filter(|number| tried & (1 << number) == 0) {
            return Some((lead, true));
        }
        if !self.asks_standbys {
            return None;
        }
        let most = left().filter_map(|(number, node)| Some((node.standby_position()?, number))).max();
        match (read, most) {
            // Without a reachable primary, a stale result is better than none.
            (Read::Since(line), Some((known, number))) => return Some((number, known >= line)),
            // Without a primary, a standby that has everything we know of is current.
            (Read::Current, Some((known, number)))
                if lead.is_none() && known >= self.freshness.known_position() =>
            {
                return Some((number, true));
            }
            (Read::Current, _) => return None,
            (Read::Since(_), None) => {}
        }
        left().find(|(_, node)| node.observation().state == State::Unsure).map(|(number, _)| (number, false))
    }
}

impl PostgresStore {
    /// Tries hosts in turn, in several rounds, until one answers. Errors caused by the request are returned at once.
    pub(crate) async fn try_hosts<'n, T, F>(
        &'n self,
        read: Read,
        ask: impl Fn(&'n ClusterHost) -> F,
    ) -> Result<(T, bool), DatabaseError>
    where
        F: Future<Output = Result<T, DatabaseError>>,
    {
        let (mut tried, mut rounds, mut why) = (0, 1, DatabaseError::Gone);
        let begun = Instant::now();
        loop {
            let Some(ReadTarget { node, is_sure }) = self.nodes.pick_read_target(read, &mut tried) else {
                // The primary may come back in a moment.
                if tried == 0 && !self.nodes.is_without_primary() && begun.elapsed() < PRIMARY_WAIT {
                    sleep(PRIMARY_POLL_DELAY).await;
                    continue;
                }
                if rounds >= MAX_ATTEMPTS || tried == 0 {
                    return Err(why);
                }
                (tried, rounds) = (0, rounds + 1);
                continue;
            };
            // Boxed: nested in all waiting futures, it exceeds the compiler's recursion limit.
            match Box::pin(ask(node)).await {
                Err(error) if error.is_retryable() || error.is_caused_by_host() => {
                    if error.is_caused_by_host() {
                        node.mark_suspect();
                    }
                    why = error;
                }
                answer => return answer.map(|answer| (answer, is_sure)),
            }
        }
    }
}
