//! Changes, committed together: while one transaction is made durable, the next ones wait and then share a sync.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use heed::RwTxn;
use tendot_proto::HandleValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::commit::is_disk_full;
use super::record::{self, DiskRecord, RecordHeader};
use super::share::Interner;
use super::{Lmdb, checksum, history, key, log, registration};
use crate::{
    ChangeCounters, ChangeSet, CommitError, CommitInfo, Edit, EditKind, LogEntry, NameKey, RecordConflict,
    RecordStatus, StoreError, StoredRecord, fail_point,
};

/// Changes that are committed together at most.
const MAX_GROUP_CHANGES: usize = 1_024;

/// Edits of these, after which no further change is added: each may take a page of the engine, in memory until the end.
const MAX_GROUP_EDITS: usize = 8_192;

/// Bytes of changes that wait or are being committed; who comes then waits before the door.
const MAX_QUEUE_BYTES: usize = 64 << 20;

/// Transactions after which killed readers are looked for.
const STALE_READER_CHECK_INTERVAL: u32 = 500;

/// Bytes of the values of one record at most, as they stand in messages, and of its registration; or of a note.
pub(super) const MAX_RECORD_BYTES: usize = 4 << 20;

/// The thread that writes, and the way to it.
#[derive(Debug)]
pub(super) struct WriteQueue {
    /// None when the store is closed.
    jobs: Mutex<Option<Sender<WriteRequest>>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
    pub(super) versions: Arc<ChangeCounters>,
}

#[derive(Debug)]
struct WriteRequest {
    change: ChangeSet,
    reply: oneshot::Sender<Result<CommitInfo, CommitError>>,
    /// Given back when it is done, also if nobody waits for it any more.
    _room: OwnedSemaphorePermit,
}

impl WriteQueue {
    pub(super) fn start(tables: Arc<Lmdb>) -> Result<Self, StoreError> {
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

    pub(super) async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
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
    /// Waits until all that was sent is done.
    fn drop(&mut self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the writer knows.
struct WriterLoop {
    tables: Arc<Lmdb>,
    sharing: Interner,
    revision: u64,
    sequence: u64,
    /// Whether a transaction is being made durable. What fails before that comes to nothing; what fails then may or may
    /// not be on the disk.
    is_committing: bool,
    /// Why nothing is written any more: after a sync that failed nobody knows what is on the disk.
    broken: Option<String>,
    /// Transactions since readers that were killed were last looked for: they keep old pages from being used again.
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
                // Who no longer waits does not need to know.
                let _ = job.reply.send(result);
            }
        }
    }

    /// Commits the changes that can be carried out, each whole or not at all, and tells what became of each.
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
                    // What comes next in this transaction may have to read these records.
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
            // The next time will do as well.
            let _ = tables.env.clear_stale_readers();
        }
        Ok(results)
    }

    /// Finds out what a change comes to, edit by edit; nothing is written yet.
    fn plan_changes(&self, txn: &RwTxn<'_>, change: &mut ChangeSet) -> Result<LmdbWriteSet, CommitError> {
        let revision = self.revision + 1;
        let mut prepared = LmdbWriteSet::default();
        let is_large = change.edits.len() > history::LINES;
        for (number, edit) in change.edits.iter_mut().enumerate() {
            if edit.is_aux() {
                self.plan_aux(txn, &mut prepared, edit, number)?;
                continue;
            }
            let key = edit.name_key().map_err(|error| CommitError::Name { edit: number, error })?;
            let kind = match edit {
                Edit::RequireHomed { prefix, is_homed: expected } => {
                    let prepared = prepared.homed.get(&key).copied();
                    let is_homed =
                        prepared.map_or_else(|| self.tables.contains_homed(txn, key.as_bytes()), Ok)?;
                    if is_homed != *expected {
                        let prefix = std::mem::take(prefix);
                        return Err(CommitError::Homed { edit: number, prefix, is_homed });
                    }
                    continue;
                }
                Edit::Home { .. } | Edit::Unhome { .. } => {
                    let is_homed = matches!(edit, Edit::Home { .. });
                    prepared.homed.insert(key, is_homed);
                    let kind = if is_homed { EditKind::Home } else { EditKind::Unhome };
                    prepared.lines.push(PendingLmdbEntry { kind, name: take_name(edit), old: None });
                    continue;
                }
                // A requirement has no kind: nothing is done.
                Edit::Tombstone { .. } => EditKind::Tombstone,
                Edit::Remove { .. } => EditKind::Remove,
                _ => EditKind::Update,
            };
            let with_values = !matches!(edit, Edit::Require { .. });
            let earlier = prepared.records.get(&key);
            let is_first = earlier.is_none();
            let there = earlier.cloned().map_or_else(|| self.current_record(txn, &key, with_values), Ok)?;
            if !edit.is_satisfied_by(there.as_ref().map(|there| (there.entry.revision, there.entry.state))) {
                let there = there.map(|there| (there.entry.name, there.entry.revision, there.entry.state));
                return Err(RecordConflict { edit: number, name: edit.name().into(), there }.into());
            }
            if matches!(edit, Edit::Require { .. }) {
                continue;
            }
            let name = there.as_ref().map_or_else(|| take_name(edit), |there| there.entry.name.clone());
            let kind = if kind == EditKind::Update && there.is_none() { EditKind::Create } else { kind };
            check_size(edit, number)?;
            let known = there.as_ref().and_then(|there| there.registration);
            let put = match edit {
                Edit::Put { values, .. } => Some((RecordStatus::Live, std::mem::take(values), known)),
                Edit::Register { values, registration, .. } => {
                    let registration = std::mem::take(registration);
                    let values = std::mem::take(values);
                    Some((RecordStatus::Live, values, self.plan_registration(&mut prepared, registration)))
                }
                Edit::Tombstone { .. } => {
                    let values = there.as_ref().map(|there| there.entry.values.clone()).unwrap_or_default();
                    Some((RecordStatus::Tombstone, values, known))
                }
                _ => None,
            };
            let record = put.map(|(state, values, registration)| {
                let entry = StoredRecord {
                    name: name.clone(),
                    revision,
                    state,
                    values,
                    registration: Box::default(),
                };
                DiskRecord { entry, registration }
            });
            // A record that came to be is found by its revision: most deposits are that, and cost nothing more. Not so if
            // the revision tells of another line, too, or if there are many to look through.
            let needs_entry = kind != EditKind::Create || !is_first || is_large;
            let old = needs_entry.then(|| (key.clone(), there));
            prepared.records.insert(key, record);
            prepared.lines.push(PendingLmdbEntry { kind, name, old });
        }
        Ok(prepared)
    }

    fn plan_aux(
        &self,
        txn: &RwTxn<'_>,
        prepared: &mut LmdbWriteSet,
        edit: &mut Edit,
        number: usize,
    ) -> Result<(), CommitError> {
        check_size(edit, number)?;
        match edit {
            Edit::PutNote { key, body } if NameKey::is_valid_key(key) => {
                prepared.notes.insert(std::mem::take(key), Some(std::mem::take(body)));
            }
            Edit::RemoveNote { key } if NameKey::is_valid_key(key) => {
                prepared.notes.insert(std::mem::take(key), None);
            }
            Edit::RequireNote { key, body } if NameKey::is_valid_key(key) => {
                let prepared = prepared.notes.get(key).cloned();
                let there = prepared.map_or_else(|| self.tables.get_aux(txn, key), Ok)?;
                if there != *body {
                    return Err(CommitError::Note { edit: number });
                }
            }
            _ => return Err(CommitError::Note { edit: number }),
        }
        Ok(())
    }

    /// The number of a registration that comes with the next line; none if there is nothing in it.
    fn plan_registration(&self, prepared: &mut LmdbWriteSet, registration: Box<[u8]>) -> Option<u64> {
        let number = self.sequence + 1 + prepared.lines.len() as u64;
        (!registration.is_empty()).then(|| {
            prepared.registrations.push((number, registration));
            number
        })
    }

    /// What is under a name; its values only if they are wanted.
    fn current_record(
        &self,
        txn: &RwTxn<'_>,
        key: &NameKey,
        with_values: bool,
    ) -> Result<Option<DiskRecord>, StoreError> {
        if with_values {
            return self.tables.get_disk_record_in_write(txn, key);
        }
        let head = self.tables.record_header(txn, &key::storage_key(key))?;
        Ok(head.map(|head| {
            let RecordHeader { name, decode_revision: revision, state, registration, .. } = head;
            let entry =
                StoredRecord { name, revision, state, values: Vec::new(), registration: Box::default() };
            DiskRecord { entry, registration }
        }))
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
            let record_key = key::storage_key(key);
            match record {
                Some(record) => {
                    let is_shortened = key::is_hashed_key(&record_key);
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
            // Only stores that are opened for reading can be without.
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
        // What is only in notes has no number.
        self.revision += u64::from(!prepared.lines.is_empty());
        let (sequence, revision, at, by) = (self.sequence, self.revision, change.at, change.by.clone());
        let (kind, name) = (EditKind::Create, Box::default());
        let mut logged = LogEntry { sequence, revision, at, by, kind, name, count: 1 };
        for PendingLmdbEntry { kind, name, .. } in prepared.lines {
            logged = LogEntry { sequence: logged.sequence + 1, kind, name, ..logged };
            log::append(&self.tables, txn, &logged)?;
        }
        self.sequence = logged.sequence;
        fail_point::hit("commit: the log is written");
        Ok(())
    }

    /// Writes what the lines of a change are about to replace.
    fn write_history(
        &mut self,
        txn: &mut RwTxn<'_>,
        lines: &mut [PendingLmdbEntry],
    ) -> Result<(), heed::Error> {
        for (line, sequence) in lines.iter_mut().zip(self.sequence + 1..) {
            let Some((key, record)) = line.old.take() else { continue };
            let record_key = key::storage_key(&key);
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

/// Writes of a change set, before they are put into LMDB.
#[derive(Debug, Default)]
struct LmdbWriteSet {
    records: BTreeMap<NameKey, Option<DiskRecord>>,
    /// By the numbers of their lines.
    registrations: Vec<(u64, Box<[u8]>)>,
    homed: BTreeMap<NameKey, bool>,
    notes: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    lines: Vec<PendingLmdbEntry>,
}

impl LmdbWriteSet {
    /// Whether there is nothing to be done.
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.notes.is_empty()
    }
}

/// Log entry to be appended, with the replaced record if the history needs it.
#[derive(Debug)]
struct PendingLmdbEntry {
    kind: EditKind,
    name: Box<str>,
    old: Option<(NameKey, Option<DiskRecord>)>,
}

/// Takes the name of an edit that is no longer needed.
fn take_name(edit: &mut Edit) -> Box<str> {
    match edit {
        Edit::Put { name, .. }
        | Edit::Register { name, .. }
        | Edit::Tombstone { name, .. }
        | Edit::Remove { name, .. }
        | Edit::Home { prefix: name }
        | Edit::Unhome { prefix: name } => std::mem::take(name),
        _ => edit.name().into(),
    }
}

/// Refuses what is too large to be kept.
pub(crate) fn check_size(edit: &Edit, number: usize) -> Result<(), CommitError> {
    let length = match edit {
        Edit::Put { values, .. } => values.iter().map(encoded_len).sum(),
        Edit::Register { values, registration, .. } => {
            values.iter().map(encoded_len).sum::<usize>() + registration.len()
        }
        Edit::PutNote { body, .. } => body.len(),
        _ => 0,
    };
    if length > MAX_RECORD_BYTES {
        return Err(CommitError::TooLarge { edit: number, length, limit: MAX_RECORD_BYTES });
    }
    Ok(())
}

/// The bytes of a value, as it stands in messages.
fn encoded_len(value: &HandleValue<'_>) -> usize {
    let references = value.references.iter().map(|reference| 8 + reference.handle.len());
    26 + value.value_type.len() + value.data.len() + references.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use tendot_proto::ValueReference;

    use super::*;

    #[test]
    fn lengths() {
        let references = vec![ValueReference::new(1, &b"0.NA/10.1"[..]), ValueReference::new(2, &b""[..])];
        let value = HandleValue { references, ..HandleValue::new(1, "URL", "https://example.org/") };
        assert_eq!(encoded_len(&value), value.to_bytes().len());
    }
}
