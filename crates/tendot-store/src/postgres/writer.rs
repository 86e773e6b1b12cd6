//! Changes, committed together: while one transaction is made durable, the next ones wait and then share one.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::PostgresSettings;
use super::error::Failure;
use super::nodes::Nodes;
use super::transaction::{self, Commit, Done, Results, Trouble};
use crate::{Change, CommitError, Committed, StoreError};

/// Changes that are committed together at most, and their bytes and edits.
const TOGETHER: usize = 1_024;
const BYTES_TOGETHER: usize = 16 << 20;
const EDITS_TOGETHER: usize = 8_192;

/// Bytes of changes that wait or are being committed; who comes then waits before the door.
const WAITING: usize = 64 << 20;

/// How long is waited before something is tried again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

const DOING: &str = "committing changes";

/// The way to the task that writes, which ends when this is dropped and all that was sent is done.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: UnboundedSender<Job>,
    room: Arc<Semaphore>,
    nodes: Arc<Nodes>,
}

#[derive(Debug)]
struct Job {
    change: Change,
    came: Instant,
    reply: oneshot::Sender<Result<Committed, CommitError>>,
    /// Given back when it is done, also if nobody waits for it any more.
    _room: OwnedSemaphorePermit,
}

impl Writer {
    pub(super) fn start(nodes: Arc<Nodes>, settings: PostgresSettings) -> Self {
        let (jobs, inbox) = unbounded_channel();
        tokio::spawn(Writing { nodes: Arc::clone(&nodes), settings }.run(inbox));
        Self { jobs, room: Arc::new(Semaphore::new(WAITING)), nodes }
    }

    pub(super) async fn commit(&self, change: Change) -> Result<Committed, CommitError> {
        let gone = || StoreError::ReadOnly { why: "its writer has stopped".into() };
        if self.nodes.lacks_primary() {
            return Err(Failure::NoPrimary.into_store(DOING).into());
        }
        let size = change.size().min(WAITING) as u32;
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(size).await else {
            return Err(gone().into());
        };
        let (reply, answer) = oneshot::channel();
        if self.jobs.send(Job { change, came: Instant::now(), reply, _room: room }).is_err() {
            return Err(gone().into());
        }
        // It may have been sent to the database already.
        let unheard = |_| StoreError::Unknown { why: "the writer was stopped".into() };
        answer.await.map_err(unheard)?
    }
}

struct Writing {
    nodes: Arc<Nodes>,
    settings: PostgresSettings,
}

impl Writing {
    async fn run(self, mut inbox: UnboundedReceiver<Job>) {
        let mut held = None;
        loop {
            let first = match held.take() {
                Some(job) => job,
                None => match inbox.recv().await {
                    Some(job) => job,
                    None => return,
                },
            };
            let (mut edits, mut bytes) = (first.change.edits.len(), first.change.size());
            let mut jobs = vec![first];
            while jobs.len() < TOGETHER
                && edits < EDITS_TOGETHER
                && let Ok(job) = inbox.try_recv()
            {
                edits += job.change.edits.len();
                bytes += job.change.size();
                if bytes > BYTES_TOGETHER {
                    held = Some(job);
                    break;
                }
                jobs.push(job);
            }
            let changes: Vec<&Change> = jobs.iter().map(|job| &job.change).collect();
            let deadline = jobs.first().map_or_else(Instant::now, |job| job.came) + self.settings.patience;
            let results = self.commit(&changes, deadline).await;
            for (job, result) in jobs.into_iter().zip(results) {
                // Who no longer waits does not need to know.
                let _ = job.reply.send(result);
            }
        }
    }

    /// Commits the changes that can be carried out, each whole or not at all, and tells what became of each.
    async fn commit(&self, changes: &[&Change], deadline: Instant) -> Results {
        let mut pause = FIRST_PAUSE;
        loop {
            // What is made of a record meanwhile is not kept.
            let changing = self.nodes.freshness.versions.changing(changes.iter().copied());
            let why = match self.attempt(changes).await {
                Ok(done) => return self.known(changes, done),
                Err(Trouble::Undone(why)) => why,
                Err(Trouble::Unknown { commit, done, why }) => match self.find_out(&commit).await {
                    Ok(true) => return self.known(changes, done),
                    Ok(false) => why,
                    Err(later) => {
                        let why = format!("{why}; then {later}");
                        return changes
                            .iter()
                            .map(|_| Err(StoreError::Unknown { why: why.clone() }.into()))
                            .collect();
                    }
                },
            };
            // Here it is known that nothing was done, and what is there may be judged anew.
            drop(changing);
            // Others need not suffer from what is wrong with one.
            if changes.len() > 1 && why.is_of_question() {
                let mut results = Vec::with_capacity(changes.len());
                for change in changes {
                    results.append(&mut Box::pin(self.commit(&[change], deadline)).await);
                }
                return results;
            }
            if !why.is_passing() || Instant::now() + pause > deadline || self.nodes.lacks_primary() {
                return refused(changes, why);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// What became of changes that were committed; from now on, who does not know them is not asked for their names.
    fn known(&self, changes: &[&Change], done: Done) -> Results {
        self.nodes.freshness.committed(changes.iter().copied(), done.last);
        done.results
    }

    async fn attempt(&self, changes: &[&Change]) -> Result<Done, Trouble> {
        let node = self.nodes.primary()?;
        let client = node.writing().await.inspect_err(|_| node.suspect())?;
        let tried = transaction::attempt(&client, changes, self.time()).await;
        if tried.is_err() {
            node.suspect();
            // The server ends the transaction when the connection is gone, and nobody gets one that is within.
            drop(Object::take(client));
        }
        tried
    }

    /// Finds out whether a transaction was committed, on other connections, as long as the database can be asked.
    async fn find_out(&self, commit: &Commit) -> Result<bool, Failure> {
        let deadline = Instant::now() + 3 * self.settings.patience;
        let mut pause = FIRST_PAUSE;
        loop {
            let asked = async {
                // Never given back: whoever gives up in the middle leaves it within a transaction.
                let client = Object::take(self.nodes.primary()?.writing().await?);
                transaction::was_committed(&client, commit).await
            };
            let found = timeout(self.time(), asked).await.unwrap_or(Err(Failure::Silent));
            match found {
                Ok(found) => return Ok(found),
                // Whatever it is, nothing else tells: also a standby may yet become the primary.
                Err(error) if Instant::now() + pause > deadline => return Err(error),
                Err(_) => sleep(pause).await,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// After which the server will not answer any more.
    fn time(&self) -> Duration {
        self.settings.statement + self.settings.patience
    }
}

fn refused(changes: &[&Change], why: Failure) -> Results {
    let told = why.to_string();
    let again = |error: &StoreError| match error {
        StoreError::ReadOnly { why } => StoreError::ReadOnly { why: why.clone() },
        StoreError::Full { doing, error } => StoreError::Full { doing, error: error.clone() },
        StoreError::Damaged { what } => StoreError::Damaged { what: what.clone() },
        StoreError::Unreachable { doing, why } => StoreError::Unreachable { doing, why: why.clone() },
        _ => StoreError::Failed { doing: DOING, error: told.clone().into() },
    };
    let error = why.into_store(DOING);
    changes.iter().map(|_| Err(again(&error).into())).collect()
}
