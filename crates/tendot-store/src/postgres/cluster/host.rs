//! One database host: connection pools and observed state.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{Object, Pool};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::pipelined_pool::PipelinedPool;
use crate::postgres::error::DatabaseError;

/// One database host: connection pools and observed state.
#[derive(Debug)]
pub(crate) struct ClusterHost {
    pub(crate) number: usize,
    pub(crate) place: String,
    /// Connections for what takes longer, each for one at a time.
    pub(crate) readers: Pool,
    /// Connections for single records.
    pub(crate) shared: PipelinedPool,
    /// The connection that writes.
    pub(crate) writing: Pool,
    /// The connection of who watches it.
    pub(crate) watching: Pool,
    pub(crate) seen: Mutex<HostObservation>,
    /// Wakes who watches it.
    pub(crate) wake: Notify,
    /// Nobody is to wait for it any longer.
    pub(crate) given_up: Notify,
}

/// Last observation of a host.
#[derive(Clone, Debug)]
pub(crate) struct HostObservation {
    pub(crate) state: State,
    /// When it last knew all that the primary was known to have.
    pub(crate) level: Instant,
    /// The last transaction that a standby knows, which the primary has to know, too, before the standby is asked.
    pub(crate) commit: Option<Commit>,
    pub(crate) is_confirmed: bool,
    /// The last one that a primary knew, too: while there is none, a standby that was away and still has it is asked again.
    pub(crate) confirmed: Option<Commit>,
}

/// The number of a transaction, and by what it is told from others of this number.
pub(crate) type Commit = (i64, String);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    /// It was not asked yet, or did not answer just now.
    Unsure,
    /// It was asked whether it is there, and was not.
    Gone,
    /// It answers, and has come to this line of the log.
    Standby(u64),
    Primary(u64),
}

/// Answer of a host to a status query.
#[derive(Debug)]
pub(crate) struct HostStatus {
    pub(crate) takes_changes: bool,
    pub(crate) line: u64,
    pub(crate) commit: Option<Commit>,
    /// Whether it knows a transaction of the last primary that was seen.
    pub(crate) is_confirmed: bool,
}

impl ClusterHost {
    pub(crate) fn observation(&self) -> MutexGuard<'_, HostObservation> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far a standby has come that may be asked.
    pub(crate) fn standby_position(&self) -> Option<u64> {
        let seen = self.observation();
        match seen.state {
            State::Standby(line) if seen.is_confirmed => Some(line),
            _ => None,
        }
    }

    /// What it answers, in time and unless it is given up.
    pub(crate) async fn within<T, E>(
        &self,
        time: Duration,
        asked: impl Future<Output = Result<T, E>>,
    ) -> Result<T, DatabaseError>
    where
        DatabaseError: From<E>,
    {
        tokio::select! {
            biased;
            answer = timeout(time, asked) => Ok(answer.map_err(|_| DatabaseError::Silent)??),
            () = self.given_up.notified() => Err(DatabaseError::Silent),
        }
    }

    pub(crate) async fn read_connection(&self) -> Result<Object, DatabaseError> {
        Ok(self.readers.get().await?)
    }

    pub(crate) async fn write_connection(&self) -> Result<Object, DatabaseError> {
        Ok(self.writing.get().await?)
    }

    pub(crate) async fn monitor_connection(&self) -> Result<Object, DatabaseError> {
        Ok(self.watching.get().await?)
    }

    /// It did not answer. Who watches it looks at once; until then others are asked before it.
    pub(crate) fn mark_suspect(&self) {
        let mut seen = self.observation();
        if matches!(seen.state, State::Standby(_)) {
            seen.state = State::Unsure;
        }
        drop(seen);
        self.wake.notify_one();
    }
}
