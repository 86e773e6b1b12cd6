//! Write queue and writer task with group commit: change sets that arrive while a transaction is being made durable are
//! committed together in the next one.

pub(crate) mod columns;
pub(crate) mod statements;
pub(crate) mod transaction;
pub(crate) mod write_batch;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::PostgresSettings;
use super::cluster::Cluster;
use super::cluster::host::CommitId;
use super::error::DatabaseError;
use crate::{ChangeSet, CommitError, CommitInfo, StoreError};
use transaction::{CommitResults, CommittedGroup, TxError};

/// Maximum number, size and edits of change sets per transaction.
const MAX_GROUP_CHANGES: usize = 1_024;
const MAX_GROUP_BYTES: usize = 16 << 20;
const MAX_GROUP_EDITS: usize = 8_192;

/// Maximum size of queued and in-flight change sets; further callers wait.
const MAX_QUEUE_BYTES: usize = 64 << 20;

/// Minimum and maximum delay before a retry.
const MIN_BACKOFF: Duration = Duration::from_millis(5);
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// Interval at which waiting callers check their deadline.
const DEADLINE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

const OPERATION: &str = "committing changes";

/// Bounded queue to the writer task, which ends when this is dropped and the queue is drained.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    requests: UnboundedSender<WriteRequest>,
    permits: Arc<Semaphore>,
    cluster: Arc<Cluster>,
    wait_timeout: Duration,
}

/// Change set waiting to be committed.
#[derive(Debug)]
struct WriteRequest {
    change: ChangeSet,
    enqueued_at: Instant,
    /// Claimed by the writer, which commits it, or by the caller, who gives up; the first wins.
    is_claimed: Arc<AtomicBool>,
    reply: oneshot::Sender<Result<CommitInfo, CommitError>>,
    /// Released when the request is done, even if the caller has gone.
    _permit: OwnedSemaphorePermit,
}

impl WriteQueue {
    pub(crate) fn start(cluster: Arc<Cluster>, settings: PostgresSettings) -> Self {
        let (requests, inbox) = unbounded_channel();
        let wait_timeout = settings.wait_timeout;
        tokio::spawn(WriterLoop { cluster: Arc::clone(&cluster), settings }.run(inbox));
        Self { requests, permits: Arc::new(Semaphore::new(MAX_QUEUE_BYTES)), cluster, wait_timeout }
    }

    pub(crate) async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        let writer_stopped = || StoreError::ReadOnly { reason: "the writer has stopped".into() };
        let enqueued_at = Instant::now();
        self.check_deadline(enqueued_at)?;
        let size = change.memory_size().min(MAX_QUEUE_BYTES) as u32;
        let mut permits = pin!(Arc::clone(&self.permits).acquire_many_owned(size));
        let permits = loop {
            match timeout(DEADLINE_CHECK_INTERVAL, &mut permits).await {
                Ok(Ok(permits)) => break permits,
                Ok(Err(_)) => return Err(writer_stopped().into()),
                Err(_) => self.check_deadline(enqueued_at)?,
            }
        };
        let (reply, mut result) = oneshot::channel();
        let is_claimed = Arc::new(AtomicBool::new(false));
        let request = WriteRequest {
            change,
            enqueued_at,
            is_claimed: Arc::clone(&is_claimed),
            reply,
            _permit: permits,
        };
        if self.requests.send(request).is_err() {
            return Err(writer_stopped().into());
        }
        // It may have been sent already.
        let in_doubt = |_| StoreError::InDoubt { reason: "the writer stopped during the commit".into() };
        loop {
            if let Ok(result) = timeout(DEADLINE_CHECK_INTERVAL, &mut result).await {
                return result.map_err(in_doubt)?;
            }
            // A claimed request ends by itself; unclaimed ones wrote nothing.
            if let Err(error) = self.check_deadline(enqueued_at)
                && !is_claimed.swap(true, Ordering::SeqCst)
            {
                return Err(error.into());
            }
        }
    }

    /// Fails a waiting request if the writer is blocked for too long or there is no primary.
    fn check_deadline(&self, enqueued_at: Instant) -> Result<(), StoreError> {
        let error = match () {
            () if self.cluster.is_without_primary() => DatabaseError::NoPrimary,
            () if enqueued_at.elapsed() > self.wait_timeout => DatabaseError::PoolTimeout,
            () => return Ok(()),
        };
        Err(error.into_store_error(OPERATION))
    }
}

/// Writer task: commits waiting change sets in groups and retries.
struct WriterLoop {
    cluster: Arc<Cluster>,
    settings: PostgresSettings,
}

impl WriterLoop {
    async fn run(self, mut inbox: UnboundedReceiver<WriteRequest>) {
        let mut postponed = None;
        loop {
            let first = match postponed.take() {
                Some(request) => request,
                None => match inbox.recv().await {
                    Some(request) => request,
                    None => return,
                },
            };
            if !first.claim() {
                continue;
            }
            let (mut edits, mut bytes) = (first.change.edits.len(), first.change.memory_size());
            let mut requests = vec![first];
            while requests.len() < MAX_GROUP_CHANGES
                && edits < MAX_GROUP_EDITS
                && let Ok(request) = inbox.try_recv()
            {
                edits += request.change.edits.len();
                bytes += request.change.memory_size();
                if bytes > MAX_GROUP_BYTES {
                    postponed = Some(request);
                    break;
                }
                if request.claim() {
                    requests.push(request);
                }
            }
            let changes: Vec<&ChangeSet> = requests.iter().map(|request| &request.change).collect();
            let deadline = requests.first().map_or_else(Instant::now, |request| request.enqueued_at)
                + self.settings.wait_timeout;
            let results = self.commit_group(&changes, deadline).await;
            for (request, result) in requests.into_iter().zip(results) {
                // The caller may have gone.
                let _ = request.reply.send(result);
            }
        }
    }

    /// Commits the change sets whose preconditions hold, each atomically; returns one result per change set.
    async fn commit_group(&self, changes: &[&ChangeSet], deadline: Instant) -> CommitResults {
        let mut backoff = MIN_BACKOFF;
        loop {
            // Responses made meanwhile are not cached.
            let guard = self.cluster.read_fence.counters.begin_write(changes.iter().copied());
            let error = match self.try_commit(changes).await {
                Ok(group) => return self.record_committed(changes, group),
                Err(TxError::RolledBack(error)) => error,
                Err(TxError::InDoubt { commit, group, error }) => {
                    match self.resolve_in_doubt(&commit).await {
                        Ok(true) => return self.record_committed(changes, group),
                        Ok(false) => error,
                        Err(later) => {
                            let reason = format!("{error}; outcome check failed: {later}");
                            let in_doubt = || StoreError::InDoubt { reason: reason.clone() };
                            return changes.iter().map(|_| Err(in_doubt().into())).collect();
                        }
                    }
                }
            };
            // Nothing was written, so the counters may be current again.
            drop(guard);
            // Retry one by one: a faulty change set must not fail the others.
            if changes.len() > 1 && error.is_caused_by_request() {
                let mut results = Vec::with_capacity(changes.len());
                for change in changes {
                    results.append(&mut Box::pin(self.commit_group(&[change], deadline)).await);
                }
                return results;
            }
            if !error.is_retryable()
                || Instant::now() + backoff > deadline
                || self.cluster.is_without_primary()
            {
                return reject_all(changes, error);
            }
            sleep(backoff).await;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }

    /// Records committed change sets in the read fence and returns their results.
    fn record_committed(&self, changes: &[&ChangeSet], group: CommittedGroup) -> CommitResults {
        self.cluster.read_fence.record_commit(changes.iter().copied(), group.last_sequence);
        group.results
    }

    async fn try_commit(&self, changes: &[&ChangeSet]) -> Result<CommittedGroup, TxError> {
        // The server cancels requests before this timeout.
        let primary =
            self.cluster.primary_handle(self.settings.statement_timeout + self.settings.wait_timeout)?;
        let host = primary.host;
        let client = primary
            .with_timeout(host.write_connection())
            .await
            .flatten()
            .inspect_err(|_| host.mark_suspect())?;
        let result = transaction::try_commit_group(&client, changes, &primary).await;
        if result.is_err() {
            host.mark_suspect();
            // Closing the connection rolls back; it must not return to the pool inside a transaction.
            drop(Object::take(client));
        }
        result
    }

    /// Resolves an in-doubt transaction on new connections, until the deadline.
    async fn resolve_in_doubt(&self, commit: &CommitId) -> Result<bool, DatabaseError> {
        let deadline = Instant::now() + 3 * self.settings.wait_timeout;
        let mut backoff = MIN_BACKOFF;
        loop {
            let check = async {
                let primary = self.cluster.primary_handle(self.settings.wait_timeout)?;
                let is_committed = async {
                    // Not returned to the pool: a cancelled request leaves it inside a transaction.
                    let client = Object::take(primary.host.write_connection().await?);
                    transaction::is_committed(&client, commit).await
                };
                primary.with_timeout(is_committed).await.flatten()
            };
            match check.await {
                Ok(is_committed) => return Ok(is_committed),
                // Any error is retried: a standby may yet become primary.
                Err(error) if Instant::now() + backoff > deadline => return Err(error),
                Err(_) => sleep(backoff).await,
            }
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }
}

impl WriteRequest {
    /// Claims the request; false if the caller has given up.
    fn claim(&self) -> bool {
        !self.is_claimed.swap(true, Ordering::SeqCst)
    }
}

/// Returns the same error for every change set.
fn reject_all(changes: &[&ChangeSet], error: DatabaseError) -> CommitResults {
    let message = error.to_string();
    let copy = |error: &StoreError| match error {
        StoreError::ReadOnly { reason } => StoreError::ReadOnly { reason: reason.clone() },
        StoreError::DiskFull { operation, detail } => {
            StoreError::DiskFull { operation, detail: detail.clone() }
        }
        StoreError::Corrupt { detail } => StoreError::Corrupt { detail: detail.clone() },
        StoreError::Unavailable { operation, reason } => {
            StoreError::Unavailable { operation, reason: reason.clone() }
        }
        _ => StoreError::Backend { operation: OPERATION, error: message.clone().into() },
    };
    let error = error.into_store_error(OPERATION);
    changes.iter().map(|_| Err(copy(&error).into())).collect()
}
