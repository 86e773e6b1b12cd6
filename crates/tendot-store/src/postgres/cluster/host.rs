//! One database host: connection pools and observed state.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{Object, Pool};
use tokio::sync::Notify;

use super::pipelined_pool::PipelinedPool;
use super::timeline::{HostTimeline, Timeline};
use crate::postgres::error::{DatabaseError, with_timeout};

/// One database host: connection pools and observed state.
#[derive(Debug)]
pub(crate) struct ClusterHost {
    pub(crate) index: usize,
    /// Address for display: `host:port`.
    pub(crate) address: String,
    /// Pool for lists and scans; exclusive connections.
    pub(crate) read_pool: Pool,
    /// Shared connections for single records.
    pub(crate) pipelined_pool: PipelinedPool,
    /// Connection of the writer.
    pub(crate) write_pool: Pool,
    /// Connection of the monitor.
    pub(crate) monitor_pool: Pool,
    pub(crate) observation: Mutex<HostObservation>,
    /// Makes the monitor poll now.
    pub(crate) poll_now: Notify,
    /// Cancels waiting requests when the host is unreachable.
    pub(crate) abandoned: Notify,
}

/// Last observation of a host.
#[derive(Clone, Debug)]
pub(crate) struct HostObservation {
    pub(crate) state: HostState,
    /// When it was last caught up with the primary.
    pub(crate) caught_up_at: Instant,
    /// Last commit of a standby; the primary must have it, too, before the standby serves reads.
    pub(crate) last_commit: Option<CommitId>,
    pub(crate) is_confirmed: bool,
    /// Last commit confirmed by a primary; without a primary, a standby that returns and still has it serves reads again.
    pub(crate) confirmed_commit: Option<CommitId>,
    /// Timeline reported by the host.
    pub(crate) timeline: HostTimeline,
}

/// Identity of a committed transaction: number and random id.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct CommitId {
    pub(crate) number: i64,
    pub(crate) id: String,
}

/// Observed state of a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HostState {
    /// Unknown: not polled yet, or a request just failed.
    Unknown,
    /// Unreachable in the last poll.
    Unreachable,
    /// Standby that has replayed the log up to this sequence number.
    Standby(u64),
    /// Primary with this last log sequence number.
    Primary(u64),
}

/// Answer of a host to a status query.
#[derive(Debug)]
pub(crate) struct HostStatus {
    pub(crate) is_primary: bool,
    /// Last log sequence number.
    pub(crate) sequence: u64,
    pub(crate) last_commit: Option<CommitId>,
    /// Whether it has a commit that the last known primary had.
    pub(crate) is_confirmed: bool,
    /// Timeline reported by the host.
    pub(crate) timeline: HostTimeline,
    /// Highest timeline that a server has recorded in its tables.
    pub(crate) recorded_timeline: Option<Timeline>,
    /// Clock of the host in milliseconds since 1970, and when it was read.
    pub(crate) clock_ms: u64,
    pub(crate) measured_at: Instant,
}

impl ClusterHost {
    pub(crate) fn observation(&self) -> MutexGuard<'_, HostObservation> {
        self.observation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replayed log position of a standby that may serve reads.
    pub(crate) fn standby_position(&self) -> Option<u64> {
        let observation = self.observation();
        match observation.state {
            HostState::Standby(sequence) if observation.is_confirmed => Some(sequence),
            _ => None,
        }
    }

    /// Awaits a request; fails on timeout, or when the host becomes unreachable.
    pub(crate) async fn with_timeout<T, E>(
        &self,
        duration: Duration,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, DatabaseError>
    where
        DatabaseError: From<E>,
    {
        tokio::select! {
            biased;
            result = with_timeout(duration, request) => result,
            () = self.abandoned.notified() => Err(DatabaseError::Timeout),
        }
    }

    pub(crate) async fn read_connection(&self) -> Result<Object, DatabaseError> {
        Ok(self.read_pool.get().await?)
    }

    pub(crate) async fn write_connection(&self) -> Result<Object, DatabaseError> {
        Ok(self.write_pool.get().await?)
    }

    pub(crate) async fn monitor_connection(&self) -> Result<Object, DatabaseError> {
        Ok(self.monitor_pool.get().await?)
    }

    /// Records a failed request: the monitor polls at once, and until then other hosts are preferred.
    pub(crate) fn mark_suspect(&self) {
        let mut observation = self.observation();
        if matches!(observation.state, HostState::Standby(_)) {
            observation.state = HostState::Unknown;
        }
        drop(observation);
        self.poll_now.notify_one();
    }
}
