//! Writer thread with group commit: change sets that arrive while a transaction is being made durable are committed together
//! in the next one.

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
    requests: Mutex<Option<Sender<WriteRequest>>>,
    permits: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
    pub(crate) counters: Arc<ChangeCounters>,
}

/// Change set waiting to be committed.
#[derive(Debug)]
struct WriteRequest {
    change: ChangeSet,
    reply: oneshot::Sender<Result<CommitInfo, CommitError>>,
    /// Released when the request is done, even if the caller has gone.
    _permit: OwnedSemaphorePermit,
}

impl WriteQueue {
    pub(crate) fn start(lmdb: Arc<Lmdb>) -> Result<Self, StoreError> {
        let state = WriterLoop::load(lmdb)?;
        let (requests, inbox) = channel();
        let counters = Arc::new(ChangeCounters::new());
        let shared = Arc::clone(&counters);
        let spawned = std::thread::Builder::new()
            .name("tendot-writer".into())
            .spawn(move || state.run(&inbox, &shared));
        let thread = spawned.map_err(|error| StoreError::Backend {
            operation: "starting the writer",
            error: Box::new(error),
        })?;
        let permits = Arc::new(Semaphore::new(MAX_QUEUE_BYTES));
        Ok(Self { requests: Mutex::new(Some(requests)), permits, thread: Some(thread), counters })
    }

    pub(crate) async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        let writer_stopped = || StoreError::ReadOnly { reason: "the writer has stopped".into() };
        let size = change.memory_size().min(MAX_QUEUE_BYTES) as u32;
        let Ok(permits) = Arc::clone(&self.permits).acquire_many_owned(size).await else {
            return Err(writer_stopped().into());
        };
        let (reply, result) = oneshot::channel();
        let sent = {
            let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.as_ref().is_some_and(|requests| {
                requests.send(WriteRequest { change, reply, _permit: permits }).is_ok()
            })
        };
        if !sent {
            return Err(writer_stopped().into());
        }
        result.await.unwrap_or_else(|_| Err(writer_stopped().into()))
    }
}

impl Drop for WriteQueue {
    /// Drains the queue and joins the thread.
    fn drop(&mut self) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writer thread: commits waiting change sets in groups.
pub(crate) struct WriterLoop {
    pub(crate) lmdb: Arc<Lmdb>,
    interner: Interner,
    pub(crate) revision: u64,
    pub(crate) sequence: u64,
    /// Whether LMDB's commit is running. An error before it leaves nothing; an error in it leaves the durable state unknown.
    is_committing: bool,
    /// Reason why writing has stopped: after a failed sync the durable state is unknown.
    failure: Option<String>,
    /// Transactions since the last check for stale readers, which keep old pages from being reused.
    transactions_since_reader_check: u32,
}

impl WriterLoop {
    fn load(lmdb: Arc<Lmdb>) -> Result<Self, StoreError> {
        let txn = lmdb.begin_read()?;
        let interner = Interner::load(&lmdb.databases, &txn)?;
        let (revision, sequence) =
            (lmdb.read_counter(&txn, b"revision")?, lmdb.read_counter(&txn, b"sequence")?);
        drop(txn);
        Ok(Self {
            lmdb,
            interner,
            revision,
            sequence,
            is_committing: false,
            failure: None,
            transactions_since_reader_check: 0,
        })
    }

    fn run(mut self, inbox: &Receiver<WriteRequest>, counters: &ChangeCounters) {
        while let Ok(first) = inbox.recv() {
            let mut edits = first.change.edits.len();
            let mut requests = vec![first];
            while requests.len() < MAX_GROUP_CHANGES
                && edits < MAX_GROUP_EDITS
                && let Ok(request) = inbox.try_recv()
            {
                edits += request.change.edits.len();
                requests.push(request);
            }
            let guard = counters.begin_write(requests.iter().map(|request| &request.change));
            let results = self.commit_group(&mut requests);
            drop(guard);
            for (request, result) in requests.into_iter().zip(results) {
                // The caller may have gone.
                let _ = request.reply.send(result);
            }
        }
    }

    /// Commits the change sets whose preconditions hold, each atomically; returns one result per request.
    fn commit_group(&mut self, requests: &mut [WriteRequest]) -> Vec<Result<CommitInfo, CommitError>> {
        if let Some(reason) = &self.failure {
            let read_only = |_: &WriteRequest| StoreError::ReadOnly { reason: reason.clone() };
            return requests.iter().map(|request| Err(read_only(request).into())).collect();
        }
        let (revision, sequence) = (self.revision, self.sequence);
        self.is_committing = false;
        match self.try_commit_group(requests) {
            Ok(results) => {
                self.interner.commit();
                results
            }
            Err(error) => {
                (self.revision, self.sequence) = (revision, sequence);
                self.interner.rollback();
                let (operation, detail) = ("committing changes", error.to_string());
                let (is_poisoned, is_disk_full) = (self.lmdb.is_poisoned(), is_disk_full(&error));
                if is_poisoned || self.is_committing && !is_disk_full {
                    self.failure = Some(format!("an earlier commit failed ({detail}); reopen the store"));
                }
                if is_poisoned {
                    self.lmdb.read_only_fallback();
                }
                let store_error = || {
                    if is_disk_full {
                        StoreError::DiskFull { operation, detail: detail.clone() }
                    } else {
                        StoreError::Backend { operation, error: detail.clone().into() }
                    }
                };
                requests.iter().map(|_| Err(store_error().into())).collect()
            }
        }
    }

    fn try_commit_group(
        &mut self,
        requests: &mut [WriteRequest],
    ) -> Result<Vec<Result<CommitInfo, CommitError>>, heed::Error> {
        let lmdb = Arc::clone(&self.lmdb);
        fail_point::hit("commit-before-txn");
        let mut txn = lmdb.env.write_txn()?;
        let mut results = Vec::with_capacity(requests.len());
        let mut has_writes = false;
        for request in requests {
            let result = match self.plan_changes(&txn, &mut request.change) {
                Ok(write_set) if write_set.is_empty() => Ok(CommitInfo { revision: self.revision }),
                Ok(write_set) => {
                    has_writes = true;
                    self.write_changes(&mut txn, &request.change, write_set)?;
                    // Later change sets of this transaction may read these records.
                    self.interner.write_new(&lmdb.databases, &mut txn)?;
                    Ok(CommitInfo { revision: self.revision })
                }
                Err(error) => Err(error),
            };
            results.push(result);
        }
        if has_writes {
            lmdb.write_counter(&mut txn, b"revision", self.revision)?;
            lmdb.write_counter(&mut txn, b"sequence", self.sequence)?;
            self.is_committing = true;
            fail_point::hit("commit-before-lmdb-commit");
            lmdb.commit(txn)?;
            fail_point::hit("commit-before-reply");
            self.is_committing = false;
        }
        self.transactions_since_reader_check += 1;
        if self.transactions_since_reader_check >= STALE_READER_CHECK_INTERVAL {
            self.transactions_since_reader_check = 0;
            // On failure the next check does it.
            let _ = lmdb.env.clear_stale_readers();
        }
        Ok(results)
    }

    fn write_changes(
        &mut self,
        txn: &mut RwTxn<'_>,
        change: &ChangeSet,
        mut write_set: LmdbWriteSet,
    ) -> Result<(), heed::Error> {
        let databases = self.lmdb.databases;
        self.write_history(txn, &mut write_set.log_entries)?;
        for (sequence, registration) in write_set.registrations {
            registration::append(&self.lmdb, txn, sequence, &registration)?;
        }
        for (key, record) in &write_set.records {
            let storage_key = name_key::storage_key(key);
            match record {
                Some(record) => {
                    let is_hashed_key = name_key::is_hashed_key(&storage_key);
                    let mut value = record::encode(record, is_hashed_key, &mut self.interner);
                    checksum::append(&storage_key, &mut value);
                    databases.records.put(txn, &storage_key, &value)?;
                }
                None => {
                    databases.records.delete(txn, &storage_key)?;
                }
            }
        }
        for (prefix, is_homed) in &write_set.homed {
            if *is_homed {
                let mut value = Vec::new();
                checksum::append(prefix.as_bytes(), &mut value);
                databases.homed.put(txn, prefix.as_bytes(), &value)?;
            } else {
                databases.homed.delete(txn, prefix.as_bytes())?;
            }
        }
        for (key, value) in write_set.aux {
            match value {
                Some(value) => {
                    let mut value = value.into_vec();
                    checksum::append(&key, &mut value);
                    databases.aux.put(txn, &key, &value)?;
                }
                None => {
                    databases.aux.delete(txn, &key)?;
                }
            }
        }
        fail_point::hit("commit-after-records");
        // A change set of aux edits only gets no revision.
        self.revision += u64::from(!write_set.log_entries.is_empty());
        let mut log_entry = LogEntry {
            sequence: self.sequence,
            revision: self.revision,
            timestamp_ms: change.timestamp_ms,
            author: change.author.clone(),
            kind: EditKind::Create,
            name: Box::default(),
            record_count: 1,
        };
        for PendingLmdbEntry { kind, name, .. } in write_set.log_entries {
            log_entry = LogEntry { sequence: log_entry.sequence + 1, kind, name, ..log_entry };
            log_entry::append(&self.lmdb, txn, &log_entry)?;
        }
        self.sequence = log_entry.sequence;
        fail_point::hit("commit-after-log");
        Ok(())
    }

    /// Writes the history entries of a change set.
    fn write_history(
        &mut self,
        txn: &mut RwTxn<'_>,
        log_entries: &mut [PendingLmdbEntry],
    ) -> Result<(), heed::Error> {
        for (log_entry, sequence) in log_entries.iter_mut().zip(self.sequence + 1..) {
            let Some((key, record)) = log_entry.replaced.take() else { continue };
            let storage_key = name_key::storage_key(&key);
            let replaced = match record {
                Some(record) => {
                    history::encode_replaced(&self.lmdb, txn, &storage_key, record, &mut self.interner)?
                }
                None => Vec::new(),
            };
            history::write_entry(&self.lmdb, txn, &storage_key, sequence, &replaced)?;
        }
        fail_point::hit("commit-after-history");
        Ok(())
    }
}
