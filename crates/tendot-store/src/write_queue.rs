//! Bounded queue of change sets, from which a writer takes groups: change sets that arrive while a transaction is being made
//! durable are committed together in the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{ChangeSet, CommitError, CommitInfo, StoreError};

/// Maximum number of change sets per transaction.
const MAX_GROUP_CHANGES: usize = 1_024;

/// Number of writes from which on no further change set is added: each may dirty a page, held in memory until the commit.
const MAX_GROUP_WRITES: usize = 8_192;

/// Maximum size of a transaction; a larger change set is committed alone.
const MAX_GROUP_BYTES: usize = 16 << 20;

/// Maximum size of queued and in-flight change sets; further callers wait.
const MAX_QUEUE_BYTES: usize = 64 << 20;

/// Result of each change set of a group.
pub(crate) type CommitResults = Vec<Result<CommitInfo, CommitError>>;

/// Creates a queue.
pub(crate) fn write_queue() -> (WriteQueue, WriteInbox) {
    let (requests, receiver) = unbounded_channel();
    let permits = Arc::new(Semaphore::new(MAX_QUEUE_BYTES));
    (WriteQueue { requests, permits }, WriteInbox { receiver, postponed: None })
}

/// Callers' end of the queue. The writer ends when this is dropped and the queue is drained.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    requests: UnboundedSender<WriteRequest>,
    permits: Arc<Semaphore>,
}

impl WriteQueue {
    /// Waits for capacity in the queue.
    pub(crate) async fn reserve(&self, change: &ChangeSet) -> Result<Reservation, StoreError> {
        let size = change.memory_size().min(MAX_QUEUE_BYTES);
        let permit = Arc::clone(&self.permits).acquire_many_owned(size as u32).await;
        permit.map(|permit| Reservation { size, _permit: permit }).map_err(|_| writer_stopped())
    }

    /// Sends a change set to the writer; the future returns the result.
    pub(crate) fn send(
        &self,
        change: ChangeSet,
        reservation: Reservation,
        claim: Option<Claim>,
    ) -> Result<impl Future<Output = Result<CommitInfo, CommitError>> + use<>, StoreError> {
        let (reply, result) = oneshot::channel();
        let request = WriteRequest { change, claim, reply, reservation };
        self.requests.send(request).map_err(|_| writer_stopped())?;
        // Without a reply, the writer may have stopped before, during or after the commit.
        let in_doubt = || StoreError::InDoubt { reason: "the writer stopped during the commit".into() };
        Ok(async move { result.await.unwrap_or_else(|_| Err(in_doubt().into())) })
    }
}

pub(crate) fn writer_stopped() -> StoreError {
    StoreError::ReadOnly { reason: "the writer has stopped".into() }
}

/// Reserved capacity of the queue. Released when the request is done, even if the caller has gone.
#[derive(Debug)]
pub(crate) struct Reservation {
    size: usize,
    _permit: OwnedSemaphorePermit,
}

/// Claim on a request: taken by the writer to commit it, or by the caller to abandon it; the first wins.
#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "only callers of PostgreSQL abandon requests")
)]
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) enqueued_at: Instant,
    is_taken: Arc<AtomicBool>,
}

#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "only callers of PostgreSQL abandon requests")
)]
impl Claim {
    pub(crate) fn new(enqueued_at: Instant) -> Self {
        Self { enqueued_at, is_taken: Arc::default() }
    }

    /// Claims the request; false if the other side has.
    pub(crate) fn take(&self) -> bool {
        !self.is_taken.swap(true, Ordering::SeqCst)
    }
}

/// Change set waiting to be committed.
#[derive(Debug)]
pub(crate) struct WriteRequest {
    pub(crate) change: ChangeSet,
    /// `None` if the caller never abandons the request.
    pub(crate) claim: Option<Claim>,
    reply: oneshot::Sender<Result<CommitInfo, CommitError>>,
    reservation: Reservation,
}

impl WriteRequest {
    fn is_claimed_by_writer(&self) -> bool {
        self.claim.as_ref().is_none_or(Claim::take)
    }
}

/// Sends each caller its result.
pub(crate) fn reply_all(requests: Vec<WriteRequest>, results: CommitResults) {
    for (request, result) in requests.into_iter().zip(results) {
        // The caller may have gone.
        let _ = request.reply.send(result);
    }
}

/// Writer's end of the queue.
#[derive(Debug)]
pub(crate) struct WriteInbox {
    receiver: UnboundedReceiver<WriteRequest>,
    /// Request that did not fit into the last group.
    postponed: Option<WriteRequest>,
}

impl WriteInbox {
    /// Waits for change sets and returns a group of them; `None` when the queue is closed and drained. Blocks the thread.
    pub(crate) fn blocking_next_group(&mut self) -> Option<Vec<WriteRequest>> {
        loop {
            let group = self.take_group();
            if !group.is_empty() {
                return Some(group);
            }
            self.postponed = Some(self.receiver.blocking_recv()?);
        }
    }

    /// Returns a group of waiting change sets, possibly empty; `None` when the queue is closed and drained.
    pub(crate) fn poll_group(&mut self) -> Option<Vec<WriteRequest>> {
        let is_closed = self.receiver.is_closed();
        let group = self.take_group();
        (!group.is_empty() || !is_closed).then_some(group)
    }

    /// Waits for change sets and returns a group of them; `None` when the queue is closed and drained.
    #[cfg(feature = "postgres")]
    pub(crate) async fn next_group(&mut self) -> Option<Vec<WriteRequest>> {
        loop {
            let group = self.take_group();
            if !group.is_empty() {
                return Some(group);
            }
            self.postponed = Some(self.receiver.recv().await?);
        }
    }

    /// Takes waiting requests that are not abandoned, up to the limits of a group.
    fn take_group(&mut self) -> Vec<WriteRequest> {
        let (mut group, mut writes, mut bytes) = (Vec::new(), 0, 0);
        while group.len() < MAX_GROUP_CHANGES
            && writes < MAX_GROUP_WRITES
            && let Some(request) = self.postponed.take().or_else(|| self.receiver.try_recv().ok())
        {
            let size = request.reservation.size;
            if !group.is_empty() && bytes + size > MAX_GROUP_BYTES {
                self.postponed = Some(request);
                break;
            }
            if request.is_claimed_by_writer() {
                writes += request.change.write_count();
                bytes += size;
                group.push(request);
            }
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;

    use super::*;
    use crate::Edit;

    fn change(edits: usize, bytes: usize) -> ChangeSet {
        let edit = Edit::PutAux { key: b"key".as_slice().into(), value: vec![0; bytes].into() };
        ChangeSet { author: "test".into(), timestamp_ms: 0, edits: vec![edit; edits] }
    }

    fn send(
        queue: &WriteQueue,
        change: ChangeSet,
    ) -> impl Future<Output = Result<CommitInfo, CommitError>> + use<> {
        let reservation = block_on(queue.reserve(&change)).unwrap();
        queue.send(change, reservation, None).unwrap()
    }

    fn group_lengths(mut inbox: WriteInbox) -> Vec<usize> {
        std::iter::from_fn(|| inbox.blocking_next_group().map(|group| group.len())).collect()
    }

    #[test]
    fn groups_are_bounded() {
        check(&vec![(1, 0); MAX_GROUP_CHANGES + 2], &[MAX_GROUP_CHANGES, 2]);
        check(&[(MAX_GROUP_WRITES, 0), (1, 0), (1, 0)], &[1, 2]);
        check(&[(1, 0), (MAX_GROUP_WRITES, 0), (1, 0)], &[2, 1]);
        // Larger than a group: alone, and nothing is lost.
        check(&[(1, 0), (1, MAX_GROUP_BYTES + 1), (1, 0)], &[1, 1, 1]);
        check(&[], &[]);
    }

    /// Checks the sizes of the groups made of change sets with these numbers of edits and bytes.
    #[track_caller]
    fn check(changes: &[(usize, usize)], expected: &[usize]) {
        let (queue, inbox) = write_queue();
        let _results: Vec<_> =
            changes.iter().map(|(edits, bytes)| send(&queue, change(*edits, *bytes))).collect();
        drop(queue);
        assert_eq!(group_lengths(inbox), expected);
    }

    /// A request that the writer dropped without a reply may have been committed.
    #[test]
    fn dropped_requests_are_in_doubt() {
        let (queue, mut inbox) = write_queue();
        let result = send(&queue, change(1, 0));
        assert_eq!(inbox.blocking_next_group().map(|group| group.len()), Some(1));
        let error = block_on(result).unwrap_err();
        assert!(matches!(error, CommitError::Store(StoreError::InDoubt { .. })), "{error}");
    }

    /// A request whose caller has abandoned it is not committed.
    #[cfg(feature = "postgres")]
    #[test]
    fn abandoned_requests_are_skipped() {
        let (queue, mut inbox) = write_queue();
        let claims = [(); 3].map(|()| Claim::new(Instant::now()));
        for claim in &claims {
            let reservation = block_on(queue.reserve(&change(1, 0))).unwrap();
            drop(queue.send(change(1, 0), reservation, Some(claim.clone())).unwrap());
        }
        assert!(claims[0].take() && claims[2].take());
        assert_eq!(block_on(inbox.next_group()).map(|group| group.len()), Some(1));
        assert!(!claims[1].take(), "the writer has it");
        drop(queue);
        assert!(block_on(inbox.next_group()).is_none());
    }
}
