//! Writer thread: commits waiting change sets in groups.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use heed::{MdbError, RwTxn};

use super::aux_buffer::{self, AuxBuffer, AuxJournal, BufferedWrites};
use super::format::dictionary::Interner;
use super::format::{checksum, log_entry, record};
use super::lmdb::transaction::is_disk_full;
use super::transaction_view::{PendingWrites, TransactionView};
use super::write_status::{WriteFault, WriterState};
use super::{Lmdb, backend_error, history, registration};
use crate::apply::{PendingLogEntry, WriteSet};
use crate::model::name_key;
use crate::write_queue::{
    CommitResults, WriteInbox, WriteQueue, WriteRequest, reply_all, write_queue, writer_stopped,
};
use crate::{
    ChangeCounters, ChangeSet, CommitError, CommitInfo, EditKind, LogEntry, StoreError, StoreHead, fail_point,
};

/// Number of transactions between two checks for stale readers.
const STALE_READER_CHECK_INTERVAL: u32 = 500;

const OPERATION: &str = "committing changes";

/// Log message when a fault is over.
const WRITABLE_AGAIN: &str = "the store is writable again";

/// Time between two attempts to write again after a failed commit.
const RECOVERY_INTERVAL: Duration = Duration::from_secs(5);

/// Time without a refusal after which a full disk counts as usable although little space is free.
const FULL_DISK_PAUSE: Duration = Duration::from_secs(60);

/// Time between two looks into the queue while writes are refused.
const REFUSED_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Writer thread and the queue to it.
#[derive(Debug)]
pub(crate) struct EmbeddedWriter {
    /// `None` once the store is being closed.
    queue: Option<WriteQueue>,
    thread: Option<JoinHandle<()>>,
    pub(crate) counters: Arc<ChangeCounters>,
    pub(crate) state: Arc<WriterState>,
}

impl EmbeddedWriter {
    pub(crate) fn start(lmdb: Arc<Lmdb>) -> Result<Self, StoreError> {
        let writer = WriterLoop::load(lmdb)?;
        let state = Arc::clone(&writer.state);
        let (queue, inbox) = write_queue();
        let counters = Arc::new(ChangeCounters::new());
        let shared = Arc::clone(&counters);
        let spawned = std::thread::Builder::new()
            .name("tendot-writer".into())
            .spawn(move || writer.run(inbox, &shared));
        let thread = spawned.map_err(|error| StoreError::Backend {
            operation: "starting the writer",
            error: Box::new(error),
        })?;
        Ok(Self { queue: Some(queue), thread: Some(thread), counters, state })
    }

    pub(crate) async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        let queue = self.queue.as_ref().ok_or_else(writer_stopped)?;
        let reservation = queue.reserve(&change).await?;
        queue.send(change, reservation, None)?.await
    }
}

impl Drop for EmbeddedWriter {
    /// Drains the queue and joins the thread.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Failed commit after which writes are refused.
struct WriterFailure {
    reason: String,
    /// Time of the last attempt to write again.
    last_attempt: Instant,
}

/// State of the writer thread.
struct WriterLoop {
    lmdb: Arc<Lmdb>,
    interner: Interner,
    head: StoreHead,
    /// Time of the last log entry; later ones are never earlier.
    timestamp_ms: u64,
    aux_journal: AuxJournal,
    /// Small aux entries that the transaction writes.
    aux_writes: BufferedWrites,
    /// Whether LMDB's commit is running. An error before it leaves nothing; an error in it that poisons LMDB leaves the durable
    /// state unknown.
    is_committing: bool,
    /// Whether the last group ended because of damage; nothing of it was written.
    has_met_damage: bool,
    /// Why writing has stopped: after a failed sync the durable state is unknown.
    failure: Option<WriterFailure>,
    /// Fault that was logged and is not over, and when a request was last refused because of it.
    logged_fault: Option<(WriteFault, Instant)>,
    state: Arc<WriterState>,
    /// Transactions since the last check for stale readers, which keep old pages from being reused.
    transactions_since_reader_check: u32,
    /// Buffer for encoded log entries.
    log_value: Vec<u8>,
}

impl WriterLoop {
    fn load(lmdb: Arc<Lmdb>) -> Result<Self, StoreError> {
        let txn = lmdb.begin_read()?;
        let (interner, head) = (Interner::load(&lmdb.databases, &txn)?, lmdb.read_head(&txn)?);
        let aux_journal = AuxJournal::load(&lmdb, &txn)?;
        drop(txn);
        let timestamp_ms = lmdb.last_timestamp_ms()?;
        check_clock(timestamp_ms);
        Ok(Self {
            lmdb,
            interner,
            head,
            timestamp_ms,
            aux_journal,
            aux_writes: BufferedWrites::new(),
            is_committing: false,
            has_met_damage: false,
            failure: None,
            logged_fault: None,
            state: Arc::default(),
            transactions_since_reader_check: 0,
            log_value: Vec::new(),
        })
    }

    fn run(mut self, mut inbox: WriteInbox, counters: &ChangeCounters) {
        loop {
            let group = match &self.failure {
                None => inbox.blocking_next_group(),
                Some(_) => {
                    self.try_recover();
                    inbox.poll_group()
                }
            };
            let Some(mut requests) = group else { return };
            if requests.is_empty() {
                std::thread::sleep(REFUSED_POLL_INTERVAL);
                continue;
            }
            let guard = counters.begin_write(requests.iter().map(|request| &request.change));
            let results = self.commit_requests(&mut requests);
            drop(guard);
            reply_all(requests, results);
        }
    }

    /// Commits change sets together, or each alone if one of them could take the others with it: it does not fit, or meets damage,
    /// after which LMDB refuses the rest of the transaction.
    fn commit_requests(&mut self, requests: &mut [WriteRequest]) -> CommitResults {
        if requests.len() == 1 {
            return self.commit_group(requests);
        }
        if !self.lmdb.has_low_space() {
            // A commit consumes them.
            let edits: Vec<_> = requests.iter().map(|request| request.change.edits.clone()).collect();
            let results = self.commit_group(requests);
            if !std::mem::take(&mut self.has_met_damage) {
                return results;
            }
            for (request, edits) in requests.iter_mut().zip(edits) {
                request.change.edits = edits;
            }
        }
        let alone = requests.iter_mut().map(std::slice::from_mut);
        alone.flat_map(|request| self.commit_group(request)).collect()
    }

    /// Commits the change sets whose preconditions hold, each atomically; returns one result per request.
    fn commit_group(&mut self, requests: &mut [WriteRequest]) -> CommitResults {
        if let Some(reason) = self.refusal() {
            let refused = |_: &WriteRequest| StoreError::ReadOnly { reason: reason.clone() };
            return requests.iter().map(|request| Err(refused(request).into())).collect();
        }
        let head = self.head;
        (self.is_committing, self.has_met_damage) = (false, false);
        match self.try_commit_group(requests) {
            Ok((results, has_written)) => {
                self.interner.commit();
                // Not acknowledged if the file may have been deleted before the commit.
                match self.lmdb.check_data_file() {
                    Ok(()) => {
                        if has_written {
                            self.state.record_commit();
                        }
                        self.log_recovery(has_written);
                        results
                    }
                    Err(reason) => {
                        self.log_fault(WriteFault::DataFileMissing, &reason);
                        let lost = || CommitError::from(StoreError::InDoubt { reason: reason.clone() });
                        results.into_iter().map(|result| result.and_then(|_| Err(lost()))).collect()
                    }
                }
            }
            Err(error) => {
                self.head = head;
                self.aux_writes.clear();
                self.interner.rollback();
                let detail = error.to_string();
                let (is_poisoned, is_disk_full) = (self.lmdb.is_poisoned(), is_disk_full(&error));
                if is_poisoned || self.is_committing && !is_disk_full {
                    self.stop_writing(&detail, is_poisoned);
                } else if is_disk_full {
                    self.log_fault(WriteFault::DiskFull, &detail);
                }
                self.state.is_disk_full.store(is_disk_full, Ordering::Relaxed);
                if is_poisoned {
                    self.lmdb.read_only_fallback();
                }
                let error = if is_poisoned && self.is_committing {
                    // The meta page may have been written.
                    StoreError::InDoubt { reason: detail }
                } else if is_disk_full {
                    StoreError::DiskFull { operation: OPERATION, detail }
                } else {
                    let error = backend_error(OPERATION, error);
                    self.has_met_damage = !self.is_committing && matches!(error, StoreError::Corrupt { .. });
                    error
                };
                requests.iter().map(|_| Err(error.clone_without_source().into())).collect()
            }
        }
    }

    /// Reason why writes are refused now.
    fn refusal(&mut self) -> Option<String> {
        if let Some(failure) = &self.failure {
            return Some(failure.reason.clone());
        }
        let reason = self.lmdb.check_data_file().err()?;
        self.log_fault(WriteFault::DataFileMissing, &reason);
        Some(reason)
    }

    /// Logs a fault when it begins.
    fn log_fault(&mut self, fault: WriteFault, reason: &str) {
        if self.logged_fault.is_none_or(|(logged, _)| logged != fault) {
            match fault {
                WriteFault::DiskFull => {
                    tracing::error!(
                        reason,
                        "the disk is full: changes that do not fit are refused; free space"
                    );
                }
                _ => tracing::error!(
                    reason,
                    "the store cannot be written; move its data file back, or stop the service and restore a backup"
                ),
            }
        }
        self.logged_fault = Some((fault, Instant::now()));
    }

    /// Logs that a fault is over.
    fn log_recovery(&mut self, has_written: bool) {
        let is_over = match self.logged_fault {
            None => false,
            // Small changes may fit while large ones do not.
            Some((WriteFault::DiskFull, refused)) => {
                has_written && (refused.elapsed() >= FULL_DISK_PAUSE || self.lmdb.has_disk_space())
            }
            Some(_) => true,
        };
        if is_over {
            self.logged_fault = None;
            tracing::info!("{WRITABLE_AGAIN}");
        }
    }

    /// Refuses further writes.
    fn stop_writing(&mut self, detail: &str, is_poisoned: bool) {
        let reason = format!("an earlier commit failed ({detail}); reopen the store");
        if is_poisoned {
            tracing::error!(
                error = detail,
                "the disk failed during a commit: the store is read-only; check the disk, restart the service, run `tendot verify`"
            );
        } else {
            tracing::error!(
                error = detail,
                "commit failed: the store is read-only and tries to write again every 5 seconds; check the disk"
            );
        }
        self.failure = Some(WriterFailure { reason, last_attempt: Instant::now() });
        self.state.has_failed.store(true, Ordering::Relaxed);
    }

    /// Accepts writes again if an empty commit succeeds. What failed was rolled back, and its pages are written again when they are
    /// used; only if LMDB could not write its meta page, the store has to be opened again.
    fn try_recover(&mut self) {
        let Some(failure) = &mut self.failure else { return };
        if failure.last_attempt.elapsed() < RECOVERY_INTERVAL || self.lmdb.is_poisoned() {
            return;
        }
        failure.last_attempt = Instant::now();
        if self.lmdb.check_data_file().is_ok() && self.lmdb.commit_both_states().is_ok() {
            tracing::info!("{WRITABLE_AGAIN}");
            self.failure = None;
            self.state.has_failed.store(false, Ordering::Relaxed);
        }
    }

    /// Commits a group; also returns whether anything was written.
    fn try_commit_group(
        &mut self,
        requests: &mut [WriteRequest],
    ) -> Result<(CommitResults, bool), heed::Error> {
        let lmdb = Arc::clone(&self.lmdb);
        fail_point::hit("commit-before-txn");
        let mut txn = lmdb.env.write_txn()?;
        let mut results = Vec::with_capacity(requests.len());
        let (mut has_writes, empty_buffer) = (false, AuxBuffer::default());
        let is_group = requests.len() > 1;
        for WriteRequest { change, .. } in requests {
            let edits = std::mem::take(&mut change.edits);
            let buffer = lmdb.aux_buffer();
            let aux = (&self.aux_writes, buffer.as_deref().unwrap_or(&empty_buffer));
            let mut view = TransactionView::new(&lmdb, &txn, aux, self.head.sequence, edits.len());
            let result = match WriteSet::compute(&mut view, edits, self.head.revision + 1) {
                Ok(writes) if writes.is_empty() => Ok(CommitInfo { revision: self.head.revision }),
                Ok(writes) => {
                    has_writes = true;
                    let pending = view.into_pending();
                    drop(buffer);
                    self.write_changes(&mut txn, change, writes, pending)?;
                    // Later change sets of this transaction may read these records.
                    self.interner.write_new(&lmdb.databases, &mut txn)?;
                    Ok(CommitInfo { revision: self.head.revision })
                }
                Err(CommitError::Store(StoreError::Corrupt { .. })) if is_group => {
                    return Err(MdbError::Corrupted.into());
                }
                Err(error) => Err(error),
            };
            results.push(result);
        }
        if has_writes {
            lmdb.write_head(&mut txn, &self.head)?;
            let mut aux_journal = self.aux_journal.clone();
            aux_journal.write(&lmdb, &mut txn, &self.aux_writes)?;
            self.is_committing = true;
            fail_point::hit("commit-before-lmdb-commit");
            lmdb.commit(txn)?;
            fail_point::hit("commit-before-reply");
            self.is_committing = false;
            aux_journal.publish(&lmdb, std::mem::take(&mut self.aux_writes));
            self.aux_journal = aux_journal;
        }
        self.transactions_since_reader_check += 1;
        if self.transactions_since_reader_check >= STALE_READER_CHECK_INTERVAL {
            self.transactions_since_reader_check = 0;
            // On failure the next check does it.
            let _ = lmdb.env.clear_stale_readers();
        }
        Ok((results, has_writes))
    }

    fn write_changes(
        &mut self,
        txn: &mut RwTxn<'_>,
        change: &ChangeSet,
        mut writes: WriteSet<Option<u64>>,
        pending: PendingWrites,
    ) -> Result<(), heed::Error> {
        let databases = self.lmdb.databases;
        self.head.revision = writes.next_revision(self.head.revision);
        self.write_history(txn, &mut writes.log_entries)?;
        let PendingWrites { registrations, redacted_registrations, redacted_states } = pending;
        for (sequence, registration) in redacted_registrations {
            registration::redact(&self.lmdb, txn, sequence, &registration)?;
        }
        for (storage_key, sequence, state) in redacted_states {
            let is_hashed_key = name_key::is_hashed_key(&storage_key);
            let body = record::encode(&state, is_hashed_key, &mut self.interner);
            history::write_entry(&self.lmdb, txn, &storage_key, sequence, &body)?;
        }
        for (sequence, registration) in registrations {
            registration::append(&self.lmdb, txn, sequence, &registration)?;
        }
        for (key, record) in &writes.records {
            let storage_key = name_key::storage_key(key);
            match record {
                Some(record) => {
                    let is_hashed_key = name_key::is_hashed_key(&storage_key);
                    let mut value = record::encode(record, is_hashed_key, &mut self.interner);
                    checksum::append(&storage_key, &mut value);
                    self.lmdb.put_record(txn, &storage_key, &value)?;
                }
                None => self.lmdb.delete_record(txn, &storage_key)?,
            }
        }
        for (prefix, is_homed) in &writes.homed {
            self.lmdb.write_homed(txn, prefix, *is_homed)?;
        }
        for (key, value) in writes.aux {
            if let Some(value) = value.as_deref().filter(|value| aux_buffer::is_large(value)) {
                self.lmdb.write_aux(txn, &key, Some(value))?;
            } else if value.is_none() && databases.aux.get(txn, &key)?.is_some_and(aux_buffer::is_large) {
                // Its space is free at once, and lists need not skip it.
                self.lmdb.write_aux(txn, &key, None)?;
            }
            aux_buffer::add_write(&mut self.aux_writes, key, value);
        }
        fail_point::hit("commit-after-records");
        let ChangeSet { author, timestamp_ms, .. } = change;
        if !writes.log_entries.is_empty() {
            self.timestamp_ms = self.timestamp_ms.max(*timestamp_ms);
        }
        let mut log_entry =
            LogEntry::new(author, self.timestamp_ms, self.head.revision, EditKind::Create, Box::default());
        for PendingLogEntry { kind, name, .. } in writes.log_entries {
            (log_entry.kind, log_entry.name) = (kind, name);
            self.head.append(&mut log_entry, &mut self.log_value);
            log_entry::append(&self.lmdb, txn, &log_entry, &mut self.log_value)?;
        }
        fail_point::hit("commit-after-log");
        Ok(())
    }

    /// Writes the history entries of a change set.
    fn write_history(
        &mut self,
        txn: &mut RwTxn<'_>,
        log_entries: &mut [PendingLogEntry<Option<u64>>],
    ) -> Result<(), heed::Error> {
        for (log_entry, sequence) in log_entries.iter_mut().zip(self.head.sequence + 1..) {
            let Some((key, record)) = log_entry.prior.take() else { continue };
            let storage_key = name_key::storage_key(&key);
            let replaced = match record {
                // Not the stored bytes.
                Some(record) if log_entry.kind == EditKind::Redact => {
                    record::encode(&record, name_key::is_hashed_key(&storage_key), &mut self.interner)
                }
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

/// Logs that the system clock is behind the last change: either it is wrong now, or it was then. Logs the age of the last change if it
/// is long ago: a clock that is ahead is not recognized otherwise.
fn check_clock(last_change_ms: u64) {
    /// Milliseconds by which clocks differ without being wrong.
    const TOLERANCE_MS: u128 = 60_000;
    const HOUR_MS: u128 = 3_600_000;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let behind_ms = u128::from(last_change_ms).saturating_sub(now.as_millis());
    let age_ms = now.as_millis().saturating_sub(last_change_ms.into());
    if last_change_ms > 0 && age_ms >= HOUR_MS {
        tracing::info!(
            hours = age_ms / HOUR_MS,
            "age of the last change; if it was not that long ago, the system clock is ahead: correct it and restart the service"
        );
    }
    if behind_ms > TOLERANCE_MS {
        tracing::warn!(
            seconds = behind_ms / 1_000,
            "system clock is behind the last change; new changes get the timestamp of the last one until the clock catches up; \
             check time synchronization"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pollster::block_on;
    use tendot_proto::HandleValue;
    use tendot_testing::ram_dir;

    use super::*;
    use crate::{Edit, EmbeddedStore, Precondition, Store as _};

    const NAMES: usize = 300;
    const PAGE_BYTES: usize = 4_096;

    fn name(number: usize) -> String {
        format!("10.1/NAME-{number:05}")
    }

    fn put(numbers: impl Iterator<Item = usize>, data: &str) -> ChangeSet {
        let edit = |number| Edit::Put {
            name: name(number).into(),
            values: vec![HandleValue::new(1, "URL", data.to_owned())],
            precondition: Precondition::NotTombstone,
        };
        ChangeSet { author: "test".into(), timestamp_ms: 1, edits: numbers.map(edit).collect() }
    }

    /// Makes the pages with a name unusable: LMDB ends a transaction that meets one.
    fn damage_pages(directory: &Path, number: usize) {
        let path = directory.join("data.mdb");
        let mut bytes = std::fs::read(&path).unwrap();
        let name = name(number);
        let mut damaged = 0;
        for page in bytes.chunks_exact_mut(PAGE_BYTES) {
            if page.windows(name.len()).any(|window| window == name.as_bytes()) {
                // The page type.
                page[10..12].fill(0);
                damaged += 1;
            }
        }
        assert!(damaged > 0);
        std::fs::write(path, bytes).unwrap();
    }

    /// A change set that meets a damaged page is refused as such, and the others of its group are committed.
    #[test]
    fn damage_refuses_one_change_set_of_a_group() {
        let directory = ram_dir();
        let store = EmbeddedStore::open(directory.path()).unwrap();
        block_on(store.commit(put(0..NAMES, "old"))).unwrap();
        drop(store);
        damage_pages(directory.path(), NAMES / 2);
        let (lmdb, _lock) = Lmdb::open(directory.path()).unwrap();
        let mut writer = WriterLoop::load(Arc::clone(&lmdb)).unwrap();
        let (queue, mut inbox) = write_queue();
        let mut results = Vec::new();
        for number in [0, NAMES / 2, NAMES - 1] {
            let change = put(number..=number, "new");
            let reservation = block_on(queue.reserve(&change)).unwrap();
            results.push(queue.send(change, reservation, None).unwrap());
        }
        let mut requests = inbox.blocking_next_group().unwrap();
        assert_eq!(requests.len(), results.len());
        let committed = writer.commit_requests(&mut requests);
        let [Ok(first), Err(CommitError::Store(StoreError::Corrupt { .. })), Ok(last)] = &committed[..]
        else {
            panic!("{committed:?}")
        };
        assert_eq!(last.revision, first.revision + 1);
        let log = lmdb.read_log(NAMES as u64, 10).unwrap();
        let names: Vec<&str> = log.iter().map(|log_entry| &*log_entry.name).collect();
        assert_eq!(names, [name(0), name(NAMES - 1)]);
    }
}
