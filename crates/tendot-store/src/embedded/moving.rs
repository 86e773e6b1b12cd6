//! What is needed to move from an embedded store, and to one.

use std::path::Path;
use std::sync::Arc;

use heed::RwTxn;

use super::record;
use super::share::Interner;
use super::{Embedded, OpenError, Tables, checksum, failed, history, key, log};
use crate::moving::side::{
    At, Head, PastPiece, Piece, ROOM, Side, TOGETHER, Taken, MigratedHistoryEntry, Target, size_of_entry, size_of_past,
};
use crate::moving::{Mark, MigrationError};
use crate::{Before, EditKind, Entry, Key, HistoryOrder, StoreError, fail_point};

/// The setting that tells how far a store has come that another one is moved to.
pub(super) const MARK: &[u8] = b"moving";

/// The engine's number of the transaction that wrote the mark, and the mark.
pub(super) fn decode(body: &[u8]) -> Option<(u64, Mark)> {
    let (number, mark) = body.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*number), Mark::decode(mark)?))
}

impl Side for Embedded {
    async fn head(&self) -> Result<Head, StoreError> {
        self.read(|tables| {
            let txn = tables.read_txn()?;
            let (revision, sequence) =
                (tables.counter(&txn, b"revision")?, tables.counter(&txn, b"sequence")?);
            Ok(Head { revision, sequence })
        })
    }

    async fn entries(&self, names: &[Key]) -> Result<Vec<Option<Entry>>, StoreError> {
        self.read(|tables| {
            let (txn, mut entries, mut size) = (tables.read_txn()?, Vec::new(), 0);
            for name in names {
                let entry = tables.get(&txn, name)?;
                size += entry.as_ref().map_or(0, size_of_entry);
                entries.push(entry);
                if size >= ROOM {
                    break;
                }
            }
            Ok(entries)
        })
    }

    async fn pasts(&self, names: &[Key], at: At) -> Result<PastPiece, StoreError> {
        self.read(|tables| {
            let (txn, mut pasts, mut size) = (tables.read_txn()?, Vec::new(), 0);
            let (first, mut after) = at;
            for (number, name) in names.iter().enumerate().skip(first) {
                let history = tables.history_in_txn(&txn, name, HistoryOrder::OldestFirst { after }, TOGETHER)?;
                after = 0;
                size += history.items.iter().map(size_of_past).sum::<usize>();
                pasts.extend(history.items.into_iter().map(|past| (number, past)));
                if let Some(next) = history.next {
                    return Ok((pasts, Some((number, next))));
                }
                if size >= ROOM || pasts.len() >= TOGETHER {
                    return Ok((pasts, Some((number + 1, 0))));
                }
            }
            Ok((pasts, None))
        })
    }
}

/// An embedded store that another one is moved to. It is locked as long as this lives.
#[derive(Debug)]
pub struct EmbeddedTarget {
    store: Embedded,
    sharing: Interner,
}

impl Embedded {
    /// Opens the store of a directory to move another one there, and makes both if they are not there. For
    /// [`migrate`](crate::migrate).
    pub fn open_target(directory: &Path) -> Result<EmbeddedTarget, OpenError> {
        let (tables, lock) = Tables::open_unfinished(directory)?;
        let store = |error| OpenError::Store { directory: directory.into(), error };
        let txn = tables.read_txn().map_err(store)?;
        let sharing = Interner::load(&tables.databases, &txn).map_err(store)?;
        drop(txn);
        Ok(EmbeddedTarget { store: Self { tables, writer: None, _lock: Some(lock) }, sharing })
    }
}

impl Target for EmbeddedTarget {
    type Store = Embedded;

    fn store(&self) -> &Embedded {
        &self.store
    }

    async fn mark(&self) -> Result<Option<(Mark, bool)>, StoreError> {
        let tables = &self.store.tables;
        let txn = tables.read_txn()?;
        let Some((number, mark)) = tables.mark(&txn)? else { return Ok(None) };
        let last = tables.counter(&txn, b"transaction")?;
        Ok(Some((mark, number == last)))
    }

    async fn take(&mut self, piece: &Piece, mark: &Mark) -> Result<(), MigrationError> {
        let tables = Arc::clone(&self.store.tables);
        let taken = MigrationWriter { tables: &tables, sharing: &mut self.sharing }.take(piece, mark);
        match taken {
            Ok(()) => self.sharing.keep(),
            Err(_) => self.sharing.forget(),
        }
        taken.map_err(MigrationError::Target)
    }
}

impl Tables {
    /// Refuses a store that is the unfinished copy of another.
    pub(super) fn check_complete(&self, directory: &Path) -> Result<(), OpenError> {
        let mark = self.read_txn().and_then(|txn| self.mark(&txn));
        let mark = mark.map_err(|error| OpenError::Store { directory: directory.into(), error })?;
        match mark {
            Some((_, mark)) if !mark.is_complete() => {
                Err(OpenError::Unfinished { directory: directory.into() })
            }
            _ => Ok(()),
        }
    }

    /// How far a move to this store has come, if there ever was one, and in which transaction that was written.
    fn mark(&self, txn: &heed::RoTxn<'_>) -> Result<Option<(u64, Mark)>, StoreError> {
        let found = self.databases.meta.get(txn, MARK).map_err(|error| failed("reading settings", error))?;
        let Some(value) = found else { return Ok(None) };
        let mark = decode(checksum::open(MARK, value, "setting")?);
        mark.map(Some).ok_or_else(|| checksum::damaged(MARK, "setting", "it is not understood"))
    }
}

/// One transaction.
struct MigrationWriter<'a> {
    tables: &'a Tables,
    sharing: &'a mut Interner,
}

impl MigrationWriter<'_> {
    fn take(&mut self, piece: &Piece, mark: &Mark) -> Result<(), StoreError> {
        let tables = self.tables;
        let doing = "writing what is moved";
        let writing = |error| failed(doing, error);
        fail_point::pass("move: before a transaction");
        let mut txn = tables.env.write_txn().map_err(writing)?;
        let mut sequence = tables.counter(&txn, b"sequence")?;
        let mut revision = tables.counter(&txn, b"revision")?;
        for line in piece.lines.iter().filter(|line| line.sequence > sequence) {
            log::append(tables, &mut txn, line).map_err(writing)?;
        }
        if let Some(last) = piece.lines.last() {
            (sequence, revision) = (sequence.max(last.sequence), revision.max(last.revision));
        }
        for past in &piece.pasts {
            self.past(&mut txn, past)?;
        }
        for (key, taken) in &piece.records {
            self.record(&mut txn, key, taken.as_ref())?;
        }
        let databases = tables.databases;
        for (prefix, is_homed) in &piece.homed {
            if *is_homed {
                let mut value = Vec::new();
                checksum::seal(prefix.as_bytes(), &mut value);
                databases.homed.put(&mut txn, prefix.as_bytes(), &value).map_err(writing)?;
            } else {
                databases.homed.delete(&mut txn, prefix.as_bytes()).map_err(writing)?;
            }
        }
        for (key, body) in &piece.notes {
            // Only stores that are opened for reading can be without.
            let Some(notes) = databases.notes else { continue };
            if let Some(body) = body {
                let mut value = body.to_vec();
                checksum::seal(key, &mut value);
                notes.put(&mut txn, key, &value).map_err(writing)?;
            } else {
                notes.delete(&mut txn, key).map_err(writing)?;
            }
        }
        self.sharing.write(&databases, &mut txn).map_err(writing)?;
        tables.write_counter(&mut txn, b"sequence", sequence).map_err(writing)?;
        tables.write_counter(&mut txn, b"revision", revision).map_err(writing)?;
        let mut value = [&(txn.id() as u64).to_le_bytes()[..], &mark.encode()].concat();
        checksum::seal(MARK, &mut value);
        databases.meta.put(&mut txn, MARK, &value).map_err(writing)?;
        fail_point::pass("move: before the engine commits");
        tables.commit(txn).map_err(writing)?;
        fail_point::pass("move: after a transaction");
        Ok(())
    }

    fn past(&mut self, txn: &mut RwTxn<'_>, taken: &MigratedHistoryEntry) -> Result<(), StoreError> {
        let record_key = key::record_key(&taken.key);
        let line = &taken.past.line;
        let old = match &taken.past.before {
            Before::Unknown => {
                // All lines up to there that have no entry tell the same.
                let since = self.tables.counter(txn, history::SINCE)?.max(line.sequence);
                let put = self.tables.write_counter(txn, history::SINCE, since);
                return put.map_err(|error| failed("writing the history", error));
            }
            Before::Nothing if self.is_implicit_creation(txn, taken)? => return Ok(()),
            Before::Nothing => Vec::new(),
            Before::Record(entry) => self.encode(txn, &record_key, entry, taken.brought)?,
        };
        let put = history::put(self.tables, txn, &record_key, line.sequence, &old);
        put.map_err(|error| failed("writing the history", error))
    }

    /// Whether it is found without an entry that a record came to be: see `history.rs`.
    fn is_implicit_creation(&self, txn: &RwTxn<'_>, taken: &MigratedHistoryEntry) -> Result<bool, StoreError> {
        let line = &taken.past.line;
        if line.kind != EditKind::Create {
            return Ok(true);
        }
        // Not if it would have to be looked for among the lines of a large change.
        let far = self.tables.line(txn, line.sequence.saturating_add(history::LINES as u64))?;
        Ok(taken.is_first && far.is_none_or(|far| far.revision != line.revision))
    }

    fn record(&mut self, txn: &mut RwTxn<'_>, key: &Key, taken: Option<&Taken>) -> Result<(), StoreError> {
        let record_key = key::record_key(key);
        let writing = |error| failed("writing a record", error);
        let records = self.tables.databases.records;
        let Some(Taken { entry, brought }) = taken else {
            return records.delete(txn, &record_key).map(|_| ()).map_err(writing);
        };
        let mut value = self.encode(txn, &record_key, entry, *brought)?;
        checksum::seal(&record_key, &mut value);
        records.put(txn, &record_key, &value).map_err(writing)
    }

    /// A record without its checksum; its registration is written.
    fn encode(
        &mut self,
        txn: &mut RwTxn<'_>,
        record_key: &[u8],
        entry: &Entry,
        brought: Option<u64>,
    ) -> Result<Vec<u8>, StoreError> {
        if !entry.registration.is_empty() {
            let unknown = || checksum::damaged(record_key, "record", "no change tells of its registration");
            let number = brought.ok_or_else(unknown)?.to_be_bytes();
            let mut value = entry.registration.to_vec();
            checksum::seal(&number, &mut value);
            // Only stores that are opened for reading can be without.
            if let Some(registrations) = self.tables.databases.registrations {
                let put = registrations.put(txn, &number, &value);
                put.map_err(|error| failed("writing a registration", error))?;
            }
        }
        let Entry { name, revision, state, values, .. } = entry;
        let is_shortened = key::is_shortened(record_key);
        Ok(record::encode_values(name, *revision, *state, values, brought, is_shortened, self.sharing))
    }
}
