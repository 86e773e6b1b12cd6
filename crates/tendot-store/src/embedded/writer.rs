//! Changes, committed together: while one transaction is made durable, the next ones wait and then share a sync.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use heed::RwTxn;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::commit::is_full;
use super::share::Sharing;
use super::{Tables, checksum, history, key, log, record};
use crate::{
    Change, CommitError, Committed, Conflict, Edit, EditKind, Entry, Key, Logged, State, StoreError,
    Versions, fail_point,
};

/// Changes that are committed together at most.
const TOGETHER: usize = 1_024;

/// Bytes of changes that wait or are being committed; who comes then waits before the door.
const WAITING: usize = 64 << 20;

/// Transactions after which killed readers are looked for.
const CLEARING: u32 = 500;

/// Bytes of the values of one record at most, as they stand in messages.
pub(super) const RECORD: usize = 4 << 20;

/// The thread that writes, and the way to it.
#[derive(Debug)]
pub(super) struct Writer {
    /// None when the store is closed.
    jobs: Mutex<Option<Sender<Job>>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
    pub(super) versions: Arc<Versions>,
}

#[derive(Debug)]
struct Job {
    change: Change,
    reply: oneshot::Sender<Result<Committed, CommitError>>,
    /// Given back when it is done, also if nobody waits for it any more.
    _room: OwnedSemaphorePermit,
}

impl Writer {
    pub(super) fn start(tables: Arc<Tables>) -> Result<Self, StoreError> {
        let state = Writing::load(tables)?;
        let (jobs, inbox) = channel();
        let versions = Arc::new(Versions::new());
        let shared = Arc::clone(&versions);
        let spawned = std::thread::Builder::new()
            .name("tendot-writer".into())
            .spawn(move || state.run(&inbox, &shared));
        let thread = spawned
            .map_err(|error| StoreError::Failed { doing: "starting the writer", error: Box::new(error) })?;
        let room = Arc::new(Semaphore::new(WAITING));
        Ok(Self { jobs: Mutex::new(Some(jobs)), room, thread: Some(thread), versions })
    }

    pub(super) async fn commit(&self, change: Change) -> Result<Committed, CommitError> {
        let gone = || StoreError::ReadOnly { why: "its writer has stopped".into() };
        let size = change.size().min(WAITING) as u32;
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(size).await else {
            return Err(gone().into());
        };
        let (reply, answer) = oneshot::channel();
        let sent = {
            let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.as_ref().is_some_and(|jobs| jobs.send(Job { change, reply, _room: room }).is_ok())
        };
        if !sent {
            return Err(gone().into());
        }
        answer.await.unwrap_or_else(|_| Err(gone().into()))
    }
}

impl Drop for Writer {
    /// Waits until all that was sent is done.
    fn drop(&mut self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the writer knows.
struct Writing {
    tables: Arc<Tables>,
    sharing: Sharing,
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

impl Writing {
    fn load(tables: Arc<Tables>) -> Result<Self, StoreError> {
        let txn = tables.read_txn()?;
        let sharing = Sharing::load(&tables.databases, &txn)?;
        let (revision, sequence) = (tables.counter(&txn, b"revision")?, tables.counter(&txn, b"sequence")?);
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

    fn run(mut self, inbox: &Receiver<Job>, versions: &Versions) {
        while let Ok(first) = inbox.recv() {
            let mut jobs = vec![first];
            jobs.extend(inbox.try_iter().take(TOGETHER - 1));
            let changing = versions.changing(jobs.iter().map(|job| &job.change));
            let results = self.commit(&mut jobs);
            drop(changing);
            for (job, result) in jobs.into_iter().zip(results) {
                // Who no longer waits does not need to know.
                let _ = job.reply.send(result);
            }
        }
    }

    /// Commits the changes that can be carried out, each whole or not at all, and tells what became of each.
    fn commit(&mut self, jobs: &mut [Job]) -> Vec<Result<Committed, CommitError>> {
        if let Some(why) = &self.broken {
            let why = why.clone();
            return jobs.iter().map(|_| Err(StoreError::ReadOnly { why: why.clone() }.into())).collect();
        }
        let before = (self.revision, self.sequence);
        self.is_committing = false;
        match self.try_commit(jobs) {
            Ok(results) => {
                self.sharing.keep();
                results
            }
            Err(error) => {
                (self.revision, self.sequence) = before;
                self.sharing.forget();
                let why = error.to_string();
                let is_lost = self.tables.is_lost();
                if is_lost || self.is_committing && !is_full(&error) {
                    self.broken = Some(format!("an earlier change could not be made durable ({why})"));
                }
                if is_lost {
                    self.tables.standby();
                }
                let doing = "committing changes";
                let is_full = is_full(&error);
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

    fn try_commit(&mut self, jobs: &mut [Job]) -> Result<Vec<Result<Committed, CommitError>>, heed::Error> {
        let tables = Arc::clone(&self.tables);
        fail_point::pass("commit: before the transaction");
        let mut txn = tables.env.write_txn()?;
        let mut results = Vec::with_capacity(jobs.len());
        let mut changed = false;
        for job in jobs {
            let result = match self.prepare(&txn, &mut job.change) {
                Ok(prepared) if prepared.is_nothing() => Ok(Committed { revision: self.revision }),
                Ok(prepared) => {
                    changed = true;
                    self.write(&mut txn, &job.change, prepared)?;
                    // What comes next in this transaction may have to read these records.
                    self.sharing.write(&tables.databases, &mut txn)?;
                    Ok(Committed { revision: self.revision })
                }
                Err(error) => Err(error),
            };
            results.push(result);
        }
        if changed {
            tables.put_counter(&mut txn, b"revision", self.revision)?;
            tables.put_counter(&mut txn, b"sequence", self.sequence)?;
            self.is_committing = true;
            fail_point::pass("commit: before the engine commits");
            tables.commit(txn)?;
            fail_point::pass("commit: before the answer");
            self.is_committing = false;
        }
        self.since_clearing += 1;
        if self.since_clearing >= CLEARING {
            self.since_clearing = 0;
            // The next time will do as well.
            let _ = tables.env.clear_stale_readers();
        }
        Ok(results)
    }

    /// Finds out what a change comes to, edit by edit; nothing is written yet.
    fn prepare(&self, txn: &RwTxn<'_>, change: &mut Change) -> Result<Prepared, CommitError> {
        let revision = self.revision + 1;
        let mut prepared = Prepared::default();
        for (number, edit) in change.edits.iter_mut().enumerate() {
            if edit.is_of_note() {
                self.prepare_note(txn, &mut prepared, edit, number)?;
                continue;
            }
            let key = edit.key().map_err(|error| CommitError::Name { edit: number, error })?;
            let kind = match edit {
                Edit::RequireHomed { prefix, is_homed: expected } => {
                    let prepared = prepared.homed.get(&key).copied();
                    let is_homed = prepared.map_or_else(|| self.tables.has_homed(txn, key.as_bytes()), Ok)?;
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
                    prepared.lines.push(Line { kind, name: edit.name().into(), old: None });
                    continue;
                }
                // A requirement has no kind: nothing is done.
                Edit::Tombstone { .. } => EditKind::Tombstone,
                Edit::Remove { .. } => EditKind::Remove,
                _ => EditKind::Update,
            };
            let with_values = !matches!(edit, Edit::Require { .. });
            let there = self.there(txn, &prepared, &key, with_values)?;
            if !edit.is_met(there.as_ref().map(|entry| (entry.revision, entry.state))) {
                let there = there.map(|entry| (entry.name, entry.revision, entry.state));
                return Err(Conflict { edit: number, name: edit.name().into(), there }.into());
            }
            if matches!(edit, Edit::Require { .. }) {
                continue;
            }
            let name = there.as_ref().map_or_else(|| edit.name().into(), |entry| entry.name.clone());
            let kind = if kind == EditKind::Update && there.is_none() { EditKind::Create } else { kind };
            let entry = match edit {
                Edit::Put { .. } | Edit::Register { .. } => {
                    let (values, registration) = match edit {
                        Edit::Register { values, registration, .. } => {
                            (std::mem::take(values), std::mem::take(registration))
                        }
                        Edit::Put { values, .. } => (std::mem::take(values), known(there.as_ref())),
                        _ => continue,
                    };
                    let length =
                        values.iter().map(|value| value.to_bytes().len()).sum::<usize>() + registration.len();
                    if length > RECORD {
                        return Err(CommitError::TooLarge { edit: number, length, limit: RECORD });
                    }
                    Some(Entry { name: name.clone(), revision, state: State::Live, values, registration })
                }
                Edit::Tombstone { .. } => {
                    let values = there.as_ref().map(|entry| entry.values.clone()).unwrap_or_default();
                    let (state, registration) = (State::Tombstone, known(there.as_ref()));
                    Some(Entry { name: name.clone(), revision, state, values, registration })
                }
                _ => None,
            };
            prepared.records.insert(key.clone(), entry);
            prepared.lines.push(Line { kind, name, old: Some((key, there)) });
        }
        Ok(prepared)
    }

    fn prepare_note(
        &self,
        txn: &RwTxn<'_>,
        prepared: &mut Prepared,
        edit: &mut Edit,
        number: usize,
    ) -> Result<(), CommitError> {
        match edit {
            Edit::PutNote { key, body } if Key::is_note(key) => {
                prepared.notes.insert(std::mem::take(key), Some(std::mem::take(body)));
            }
            Edit::RemoveNote { key } if Key::is_note(key) => {
                prepared.notes.insert(std::mem::take(key), None);
            }
            Edit::RequireNote { key, body } if Key::is_note(key) => {
                let prepared = prepared.notes.get(key).cloned();
                let there = prepared.map_or_else(|| self.tables.note(txn, key), Ok)?;
                if there != *body {
                    return Err(CommitError::Note { edit: number });
                }
            }
            _ => return Err(CommitError::Note { edit: number }),
        }
        Ok(())
    }

    /// What is under a name for an edit that comes after those prepared; its values only if they are wanted.
    fn there(
        &self,
        txn: &RwTxn<'_>,
        prepared: &Prepared,
        key: &Key,
        with_values: bool,
    ) -> Result<Option<Entry>, StoreError> {
        if let Some(entry) = prepared.records.get(key) {
            return Ok(entry.clone());
        }
        if with_values {
            return self.tables.get_uncommitted(txn, key);
        }
        let head = self.tables.head(txn, &key::record_key(key))?;
        Ok(head.map(|head| Entry {
            name: head.name,
            revision: head.revision,
            state: head.state,
            values: Vec::new(),
            registration: Box::default(),
        }))
    }

    fn write(&mut self, txn: &mut RwTxn<'_>, change: &Change, prepared: Prepared) -> Result<(), heed::Error> {
        let databases = self.tables.databases;
        self.write_history(txn, &prepared.lines)?;
        for (key, entry) in &prepared.records {
            let record_key = key::record_key(key);
            match entry {
                Some(entry) => {
                    let is_shortened = key::is_shortened(&record_key);
                    let mut value = record::encode(entry, is_shortened, &mut self.sharing);
                    checksum::seal(&record_key, &mut value);
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
                checksum::seal(prefix.as_bytes(), &mut value);
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
                    checksum::seal(&key, &mut value);
                    notes.put(txn, &key, &value)?;
                }
                None => {
                    notes.delete(txn, &key)?;
                }
            }
        }
        fail_point::pass("commit: the records are written");
        // What is only in notes has no number.
        self.revision += u64::from(!prepared.lines.is_empty());
        for Line { kind, name, .. } in prepared.lines {
            self.sequence += 1;
            let (sequence, revision) = (self.sequence, self.revision);
            let (at, by) = (change.at, change.by.clone());
            log::append(&self.tables, txn, &Logged { sequence, revision, at, by, kind, name, count: 1 })?;
        }
        fail_point::pass("commit: the log is written");
        Ok(())
    }

    /// Writes what the lines of a change are about to replace.
    fn write_history(&mut self, txn: &mut RwTxn<'_>, lines: &[Line]) -> Result<(), heed::Error> {
        for (number, (line, sequence)) in lines.iter().zip(self.sequence + 1..).enumerate() {
            let Some((key, entry)) = &line.old else { continue };
            // A record that came to be is found by its revision: most deposits are that, and cost nothing more. Not so if
            // the revision tells of another line, too, or if there are many to look through.
            let is_of_key = |line: &Line| line.old.as_ref().is_some_and(|(other, _)| other == key);
            if line.kind == EditKind::Create
                && lines.len() <= history::LINES
                && !lines.iter().take(number).any(is_of_key)
            {
                continue;
            }
            let record_key = key::record_key(key);
            let old = match entry {
                Some(entry) => history::old(&self.tables, txn, &record_key, entry, &mut self.sharing)?,
                None => Vec::new(),
            };
            history::put(&self.tables, txn, &record_key, sequence, &old)?;
        }
        fail_point::pass("commit: the history is written");
        Ok(())
    }
}

/// What a change comes to.
#[derive(Debug, Default)]
struct Prepared {
    records: BTreeMap<Key, Option<Entry>>,
    homed: BTreeMap<Key, bool>,
    notes: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    lines: Vec<Line>,
}

impl Prepared {
    /// Whether there is nothing to be done.
    fn is_nothing(&self) -> bool {
        self.lines.is_empty() && self.notes.is_empty()
    }
}

/// What the registry knows of what is there.
fn known(there: Option<&Entry>) -> Box<[u8]> {
    there.map(|entry| entry.registration.clone()).unwrap_or_default()
}

/// A line of the log, and of the record that it is about the key and what is there before, if it is about one.
#[derive(Debug)]
struct Line {
    kind: EditKind,
    name: Box<str>,
    old: Option<(Key, Option<Entry>)>,
}
