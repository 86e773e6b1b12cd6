//! Writer task with group commit, and the queue to it.
//!
//! In reading order:
//!
//! - `transaction`: one write transaction in two round trips
//! - `write_batch`: state and writes of a transaction
//! - `statements`: SQL statements
//! - `columns`: rows as column arrays

pub(crate) mod columns;
pub(crate) mod statements;
pub(crate) mod transaction;
pub(crate) mod write_batch;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::{Instant, sleep};

use super::PostgresSettings;
use super::cluster::Cluster;
use super::cluster::host::CommitId;
use super::error::DatabaseError;
use crate::write_queue::{Claim, CommitResults, WriteInbox, WriteQueue, reply_all, write_queue};
use crate::{ChangeSet, CommitError, CommitInfo, StoreError};
use transaction::{CommittedGroup, TxError};

/// Minimum and maximum delay before a retry.
const MIN_BACKOFF: Duration = Duration::from_millis(5);
const MAX_BACKOFF: Duration = Duration::from_millis(500);

const OPERATION: &str = "committing changes";

/// Writer task, which ends when this is dropped and the queue is drained.
#[derive(Debug)]
pub(crate) struct PostgresWriter {
    queue: WriteQueue,
    cluster: Arc<Cluster>,
    wait_timeout: Duration,
}

impl PostgresWriter {
    pub(crate) fn start(cluster: Arc<Cluster>, settings: PostgresSettings) -> Self {
        let (queue, inbox) = write_queue();
        let wait_timeout = settings.wait_timeout;
        tokio::spawn(WriterLoop { cluster: Arc::clone(&cluster), settings }.run(inbox));
        Self { queue, cluster, wait_timeout }
    }

    pub(crate) async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        let claim = Claim::new(std::time::Instant::now());
        let mut abandoned = pin!(self.wait_abandoned());
        let reservation = tokio::select! {
            biased;
            error = &mut abandoned => return Err(error.into()),
            reservation = self.queue.reserve(&change) => reservation?,
        };
        let mut result = pin!(self.queue.send(change, reservation, Some(claim.clone()))?);
        tokio::select! {
            biased;
            result = &mut result => result,
            // A claimed request ends by itself; unclaimed ones wrote nothing.
            error = &mut abandoned => if claim.take() { Err(error.into()) } else { result.await },
        }
    }

    /// Completes when a request should not wait any longer: the writer is blocked for too long, or there is no primary.
    async fn wait_abandoned(&self) -> StoreError {
        let error = tokio::select! {
            biased;
            () = self.cluster.wait_without_primary() => DatabaseError::NoPrimary,
            () = sleep(self.wait_timeout) => DatabaseError::PoolTimeout,
        };
        error.into_store_error(OPERATION)
    }
}

/// Writer task: commits waiting change sets in groups and retries.
struct WriterLoop {
    cluster: Arc<Cluster>,
    settings: PostgresSettings,
}

impl WriterLoop {
    async fn run(self, mut inbox: WriteInbox) {
        while let Some(requests) = inbox.next_group().await {
            let changes: Vec<&ChangeSet> = requests.iter().map(|request| &request.change).collect();
            let first = requests.first().and_then(|request| request.claim.as_ref());
            let enqueued_at = first.map_or_else(Instant::now, |claim| claim.enqueued_at.into());
            let deadline = enqueued_at + self.settings.wait_timeout;
            let results = self.commit_group(&changes, deadline).await;
            reply_all(requests, results);
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
                    transaction::is_committed(&client, commit, &self.cluster).await
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

/// Returns the same error for every change set.
fn reject_all(changes: &[&ChangeSet], error: DatabaseError) -> CommitResults {
    let error = error.into_store_error(OPERATION);
    changes.iter().map(|_| Err(error.clone_without_source().into())).collect()
}
