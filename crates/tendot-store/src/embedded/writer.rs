//! Writer thread with group commit: change sets that arrive during a sync share the next transaction.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use heed::RwTxn;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::format::dictionary::Interner;
use super::format::{checksum, log_entry, record};
use super::lmdb::transaction::is_disk_full;
use super::plan::{LmdbWriteSet, PendingLmdbEntry};
use super::{Lmdb, history, registration};
use crate::model::name_key;
use crate::{ChangeCounters, ChangeSet, CommitError, CommitInfo, EditKind, LogEntry, StoreError, fail_point};

/// Maximum number of change sets per transaction.
const MAX_GROUP_CHANGES: usize = 1_024;

/// Number of edits from which on no further change set is added: each edit may dirty an LMDB page, held in memory until the
/// commit.
const MAX_GROUP_EDITS: usize = 8_192;

/// Maximum size of queued and in-flight change sets; further callers wait.
const MAX_QUEUE_BYTES: usize = 64 << 20;

/// Number of transactions between two checks for stale readers.
const STALE_READER_CHECK_INTERVAL: u32 = 500;

/// Bounded queue to the writer thread.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    /// `None` once the store is closed.
    jobs: Mutex<Option<Sender<WriteRequest>>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
    pub(crate) versions: Arc<ChangeCounters>,
}

#[derive(Debug)]
struct WriteRequest {
    change: ChangeSet,
    reply: oneshot::Sender<Result<CommitInfo, CommitError>>,
    /// Released when the request is done, even if the caller has gone.
    _room: OwnedSemaphorePermit,
}

impl WriteQueue {
    pub(crate) fn start(tables: Arc<Lmdb>) -> Result<Self, StoreError> {
        let state = WriterLoop::load(tables)?;
        let (jobs, inbox) = channel();
        let versions = Arc::new(ChangeCounters::new());
        let shared = Arc::clone(&versions);
        let spawned = std::thread::Builder::new()
            .name("tendot-writer".into())
            .spawn(move || state.run(&inbox, &shared));
        let thread = spawned
            .map_err(|error| StoreError::Failed { doing: "starting the writer", error: Box::new(error) })?;
        let room = Arc::new(Semaphore::new(MAX_QUEUE_BYTES));
        Ok(Self { jobs: Mutex::new(Some(jobs)), room, thread: Some(thread), versions })
    }

    pub(crate) async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        let gone = || StoreError::ReadOnly { why: "its writer has stopped".into() };
        let size = change.memory_size().min(MAX_QUEUE_BYTES) as u32;
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(size).await else {
            return Err(gone().into());
        };
        let (reply, answer) = oneshot::channel();
        let sent = {
            let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.as_ref().is_some_and(|jobs| jobs.send(WriteRequest { change, reply, _room: room }).is_ok())
        };
        if !sent {
            return Err(gone().into());
        }
        answer.await.unwrap_or_else(|_| Err(gone().into()))
    }
}

impl Drop for WriteQueue {
    /// Drains the queue and joins the thread.
    fn drop(&mut self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// State of the writer thread.
pub(crate) struct WriterLoop {
    pub(crate) tables: Arc<Lmdb>,
    sharing: Interner,
    pub(crate) revision: u64,
    pub(crate) sequence: u64,
    /// Whether LMDB's commit is running. An error before it leaves nothing; an error in it leaves the durable state unknown.
    is_committing: bool,
    /// Reason why writing has stopped: after a failed sync the durable state is unknown.
    broken: Option<String>,
    /// Transactions since the last check for stale readers, which keep old pages from being reused.
    since_clearing: u32,
}

impl WriterLoop {
    fn load(tables: Arc<Lmdb>) -> Result<Self, StoreError> {
        let txn = tables.begin_read()?;
        let sharing = Interner::load(&tables.databases, &txn)?;
        let (revision, sequence) =
            (tables.read_counter(&txn, b"revision")?, tables.read_counter(&txn, b"sequence")?);
        drop(txn);
        Ok(Self {
            tables,
            sharing,
            revision,
            sequence,
            is_committing: false,
            broken: None,
            since_clearing: 0,
        })
    }

    fn run(mut self, inbox: &Receiver<WriteRequest>, versions: &ChangeCounters) {
        while let Ok(first) = inbox.recv() {
            let mut edits = first.change.edits.len();
            let mut jobs = vec![first];
            while jobs.len() < MAX_GROUP_CHANGES
                && edits < MAX_GROUP_EDITS
                && let Ok(job) = inbox.try_recv()
            {
                edits += job.change.edits.len();
                jobs.push(job);
            }
            let changing = versions.begin_write(jobs.iter().map(|job| &job.change));
            let results = self.commit_group(&mut jobs);
            drop(changing);
            for (job, result) in jobs.into_iter().zip(results) {
                // The caller may have gone.
                let _ = job.reply.send(result);
            }
        }
    }

    /// Commits the change sets whose preconditions hold, each atomically; returns one result per request.
    fn commit_group(&mut self, jobs: &mut [WriteRequest]) -> Vec<Result<CommitInfo, CommitError>> {
        if let Some(why) = &self.broken {
            let why = why.clone();
            return jobs.iter().map(|_| Err(StoreError::ReadOnly { why: why.clone() }.into())).collect();
        }
        let before = (self.revision, self.sequence);
        self.is_committing = false;
        match self.try_commit_group(jobs) {
            Ok(results) => {
                self.sharing.commit();
                results
            }
            Err(error) => {
                (self.revision, self.sequence) = before;
                self.sharing.rollback();
                let why = error.to_string();
                let is_lost = self.tables.is_poisoned();
                if is_lost || self.is_committing && !is_disk_full(&error) {
                    self.broken = Some(format!("an earlier change could not be made durable ({why})"));
                }
                if is_lost {
                    self.tables.read_only_fallback();
                }
                let doing = "committing changes";
                let is_full = is_disk_full(&error);
                let failed = || {
                    if is_full {
                        StoreError::Full { doing, error: why.clone() }
                    } else {
                        StoreError::Failed { doing, error: why.clone().into() }
                    }
                };
                jobs.iter().map(|_| Err(failed().into())).collect()
            }
        }
    }

    fn try_commit_group(
        &mut self,
        jobs: &mut [WriteRequest],
    ) -> Result<Vec<Result<CommitInfo, CommitError>>, heed::Error> {
        let tables = Arc::clone(&self.tables);
        fail_point::hit("commit: before the transaction");
        let mut txn = tables.env.write_txn()?;
        let mut results = Vec::with_capacity(jobs.len());
        let mut changed = false;
        for job in jobs {
            let result = match self.plan_changes(&txn, &mut job.change) {
                Ok(prepared) if prepared.is_empty() => Ok(CommitInfo { revision: self.revision }),
                Ok(prepared) => {
                    changed = true;
                    self.write_changes(&mut txn, &job.change, prepared)?;
                    // Later change sets of this transaction may read these records.
                    self.sharing.write_new(&tables.databases, &mut txn)?;
                    Ok(CommitInfo { revision: self.revision })
                }
                Err(error) => Err(error),
            };
            results.push(result);
        }
        if changed {
            tables.write_counter(&mut txn, b"revision", self.revision)?;
            tables.write_counter(&mut txn, b"sequence", self.sequence)?;
            self.is_committing = true;
            fail_point::hit("commit: before the engine commits");
            tables.commit(txn)?;
            fail_point::hit("commit: before the answer");
            self.is_committing = false;
        }
        self.since_clearing += 1;
        if self.since_clearing >= STALE_READER_CHECK_INTERVAL {
            self.since_clearing = 0;
            // On failure the next check does it.
            let _ = tables.env.clear_stale_readers();
        }
        Ok(results)
    }

    fn write_changes(
        &mut self,
        txn: &mut RwTxn<'_>,
        change: &ChangeSet,
        mut prepared: LmdbWriteSet,
    ) -> Result<(), heed::Error> {
        let databases = self.tables.databases;
        self.write_history(txn, &mut prepared.lines)?;
        for (number, registration) in prepared.registrations {
            registration::append(&self.tables, txn, number, &registration)?;
        }
        for (key, record) in &prepared.records {
            let record_key = name_key::storage_key(key);
            match record {
                Some(record) => {
                    let is_shortened = name_key::is_hashed_key(&record_key);
                    let mut value = record::encode(record, is_shortened, &mut self.sharing);
                    checksum::append(&record_key, &mut value);
                    databases.records.put(txn, &record_key, &value)?;
                }
                None => {
                    databases.records.delete(txn, &record_key)?;
                }
            }
        }
        for (prefix, is_homed) in &prepared.homed {
            if *is_homed {
                let mut value = Vec::new();
                checksum::append(prefix.as_bytes(), &mut value);
                databases.homed.put(txn, prefix.as_bytes(), &value)?;
            } else {
                databases.homed.delete(txn, prefix.as_bytes())?;
            }
        }
        for (key, body) in prepared.notes {
            // Only read-only stores of earlier versions lack it.
            let Some(notes) = databases.notes else { continue };
            match body {
                Some(body) => {
                    let mut value = body.into_vec();
                    checksum::append(&key, &mut value);
                    notes.put(txn, &key, &value)?;
                }
                None => {
                    notes.delete(txn, &key)?;
                }
            }
        }
        fail_point::hit("commit: the records are written");
        // A change set of aux edits only gets no revision.
        self.revision += u64::from(!prepared.lines.is_empty());
        let (sequence, revision, at, by) = (self.sequence, self.revision, change.at, change.by.clone());
        let (kind, name) = (EditKind::Create, Box::default());
        let mut logged = LogEntry { sequence, revision, at, by, kind, name, count: 1 };
        for PendingLmdbEntry { kind, name, .. } in prepared.lines {
            logged = LogEntry { sequence: logged.sequence + 1, kind, name, ..logged };
            log_entry::append(&self.tables, txn, &logged)?;
        }
        self.sequence = logged.sequence;
        fail_point::hit("commit: the log is written");
        Ok(())
    }

    /// Writes the history entries of a change set.
    fn write_history(
        &mut self,
        txn: &mut RwTxn<'_>,
        lines: &mut [PendingLmdbEntry],
    ) -> Result<(), heed::Error> {
        for (line, sequence) in lines.iter_mut().zip(self.sequence + 1..) {
            let Some((key, record)) = line.old.take() else { continue };
            let record_key = name_key::storage_key(&key);
            let old = match record {
                Some(record) => {
                    history::encode_replaced(&self.tables, txn, &record_key, record, &mut self.sharing)?
                }
                None => Vec::new(),
            };
            history::write_entry(&self.tables, txn, &record_key, sequence, &old)?;
        }
        fail_point::hit("commit: the history is written");
        Ok(())
    }
}
