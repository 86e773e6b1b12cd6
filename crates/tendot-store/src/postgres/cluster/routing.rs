//! Choice of the host for a read, and retries over hosts.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Cluster;
use super::host::{ClusterHost, State};
use crate::postgres::PostgresStore;
use crate::postgres::error::DatabaseError;

/// How often is asked again when the way to the server breaks: reading twice does no harm.
const MAX_ATTEMPTS: u32 = 3;

/// How long is waited for a server that was lost just now, and between two looks.
const PRIMARY_WAIT: Duration = Duration::from_secs(1);

const PRIMARY_POLL_DELAY: Duration = Duration::from_millis(20);

/// What is asked of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read {
    /// What is there now.
    Current,
    /// What is there at this line of the log, or later.
    Since(u64),
}

/// Host chosen for a read, and whether it is current enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTarget<'n> {
    pub(crate) node: &'n ClusterHost,
    /// Whether it knows what has to be known; else nobody does who is there, and the answer is the best there is.
    pub(crate) is_sure: bool,
}

impl Cluster {
    /// Whom to ask, of those that were not tried yet; `tried` has a bit for each. None if nobody is left who could answer.
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
            // The primary is not there, or did not answer just now: better an older answer than none.
            (Read::Since(line), Some((known, number))) => return Some((number, known >= line)),
            // Without a primary, a standby that knows all that we know does as well.
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
    /// Asks one server after the other, and all of them again, until one answers. What is wrong with the question is told by the
    /// first.
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
                // One that was lost a moment ago may be back in another.
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
            // On the heap: as part of all the futures that wait for it, it is deeper than the compiler goes.
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
