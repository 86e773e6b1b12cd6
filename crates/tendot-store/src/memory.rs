use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use crate::prepare::{Line, Prepared, There};
use crate::{
    Before, Change, CommitError, CommitInfo, Counted, Entry, History, Key, Listed, LogEntry, Note, HistoryOrder, Past,
    Piece, State, Store, StoreError, ChangeCounters, history,
};

/// A store that is gone with the process: for trying things out, and as the measure of the others.
#[derive(Debug, Default)]
pub struct Memory {
    tables: RwLock<Tables>,
    versions: ChangeCounters,
}

#[derive(Debug, Default)]
struct Tables {
    records: BTreeMap<Key, Entry>,
    homed: BTreeSet<Key>,
    notes: BTreeMap<Box<[u8]>, Box<[u8]>>,
    log: Vec<LogEntry>,
    /// By the numbers of their lines, what was there before.
    history: BTreeMap<Key, BTreeMap<u64, Before>>,
    revision: u64,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn read<T>(&self, read: impl FnOnce(&Tables) -> T) -> T {
        // No call panics between two changes of the tables, so they are whole even then.
        read(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for Memory {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        Ok(self.read(|tables| tables.records.get(key).cloned()))
    }

    async fn list(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        if prefix.len() > Key::MAX_PREFIX_LEN {
            return Ok(Vec::new());
        }
        Ok(self.read(|tables| {
            let under = tables.after(after).filter(|(key, _)| key.prefix().eq_ignore_ascii_case(prefix));
            under.take(limit).map(|(_, entry)| listed(entry)).collect()
        }))
    }

    async fn count_under(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Counted, StoreError> {
        if prefix.len() > Key::MAX_PREFIX_LEN {
            return Ok(Counted::default());
        }
        Ok(self.read(|tables| {
            let under = tables.after(after).filter(|(key, _)| key.prefix().eq_ignore_ascii_case(prefix));
            let mut counted = Counted::default();
            for (number, (key, entry)) in (1..=limit.max(1)).zip(under) {
                counted.live += u64::from(entry.state == State::Live);
                counted.next = (number >= limit).then(|| key.clone());
            }
            counted
        }))
    }

    async fn visit(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&Key>,
        mut visit: impl FnMut(&Entry) -> bool + Send,
    ) -> Result<(), StoreError> {
        if prefix.is_some_and(|prefix| prefix.len() > Key::MAX_PREFIX_LEN) {
            return Ok(());
        }
        self.read(|tables| {
            let is_under = |key: &Key| prefix.is_none_or(|prefix| key.prefix().eq_ignore_ascii_case(prefix));
            let mut under = tables.after(after).filter(|(key, _)| is_under(key));
            while under.next().is_some_and(|(_, entry)| visit(entry)) {}
        });
        Ok(())
    }

    async fn of_revision(
        &self,
        revision: u64,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Piece, StoreError> {
        Ok(self.read(|tables| {
            let mut piece = Piece::default();
            let of_it = tables.after(after).filter(|(_, entry)| entry.revision == revision);
            for (key, entry) in of_it.take(limit.max(1)) {
                piece.names.push(listed(entry));
                piece.next = (piece.names.len() >= limit).then(|| key.clone());
            }
            piece
        }))
    }

    async fn size(&self) -> Result<Option<u64>, StoreError> {
        Ok(Some(self.read(|tables| tables.records.len() as u64)))
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        let Some(key) = std::str::from_utf8(prefix).ok().and_then(|prefix| Key::of_prefix(prefix).ok())
        else {
            return Ok(false);
        };
        Ok(self.read(|tables| tables.homed.contains(&key)))
    }

    async fn homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        let after = after.map(<[u8]>::to_ascii_uppercase).unwrap_or_default();
        Ok(self.read(|tables| {
            let later = tables.homed.iter().filter(|homed| homed.as_bytes() > &*after);
            later.take(limit).map(|homed| homed.to_string().into()).collect()
        }))
    }

    async fn commit(&self, change: Change) -> Result<CommitInfo, CommitError> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let _changing = self.versions.changing([&change]);
        tables.commit(change)
    }

    fn versions(&self) -> Option<&ChangeCounters> {
        Some(&self.versions)
    }

    async fn history(&self, key: &Key, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        Ok(self.read(|tables| tables.history(key, order, limit)))
    }

    async fn note(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        Ok(self.read(|tables| tables.notes.get(key).cloned()))
    }

    async fn notes(
        &self,
        beginning: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Note>, StoreError> {
        let from = match after {
            Some(after) if after >= beginning => Bound::Excluded(after),
            _ => Bound::Included(beginning),
        };
        Ok(self.read(|tables| {
            let later = tables.notes.range::<[u8], _>((from, Bound::Unbounded));
            let notes = later.take_while(|(key, _)| key.starts_with(beginning)).take(limit);
            notes.map(|(key, body)| (key.clone(), body.clone())).collect()
        }))
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(self.read(|tables| tables.log.iter().skip(after).take(limit).cloned().collect()))
    }
}

fn listed(entry: &Entry) -> Listed {
    Listed { name: entry.name.clone(), state: entry.state }
}

impl Tables {
    /// The records after a key, in order.
    fn after(&self, after: Option<&Key>) -> btree_map::Range<'_, Key, Entry> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.records.range((from, Bound::Unbounded))
    }

    fn history(&self, key: &Key, order: HistoryOrder, limit: usize) -> History {
        let (mut history, mut room) = (History::default(), history::ROOM);
        let none = BTreeMap::new();
        let entries = self.history.get(key).unwrap_or(&none).iter();
        let mut entries: Vec<_> = entries.filter(|(sequence, _)| order.has(**sequence)).collect();
        if matches!(order, HistoryOrder::NewestFirst { .. }) {
            entries.reverse();
        }
        for (sequence, before) in entries {
            let line = usize::try_from(*sequence - 1).ok().and_then(|at| self.log.get(at));
            let past = line.map(|line| Past { line: line.clone(), before: before.clone() });
            if !past.is_none_or(|past| history.add(past, limit, &mut room)) {
                break;
            }
        }
        history
    }

    fn commit(&mut self, change: Change) -> Result<CommitInfo, CommitError> {
        let revision = self.revision + 1;
        let Prepared { records, homed, notes, lines } = Prepared::new(self, &change, revision)?;
        for (key, body) in notes {
            match body {
                Some(body) => self.notes.insert(key, body),
                None => self.notes.remove(&key),
            };
        }
        if lines.is_empty() {
            return Ok(CommitInfo { revision: self.revision });
        }
        for (key, entry) in records {
            match entry {
                Some(entry) => self.records.insert(key, entry),
                None => self.records.remove(&key),
            };
        }
        for (prefix, is_homed) in homed {
            if is_homed {
                self.homed.insert(prefix)
            } else {
                self.homed.remove(&prefix)
            };
        }
        for Line { kind, name, past } in lines {
            let sequence = self.log.len() as u64 + 1;
            if let Some((key, before)) = past {
                self.history.entry(key).or_default().insert(sequence, before);
            }
            let (at, by) = (change.at, change.by.clone());
            self.log.push(LogEntry { sequence, revision, at, by, kind, name, count: 1 });
        }
        self.revision = revision;
        Ok(CommitInfo { revision })
    }
}

impl There for Tables {
    fn record(&self, key: &Key) -> Option<&Entry> {
        self.records.get(key)
    }

    fn is_homed(&self, prefix: &Key) -> bool {
        self.homed.contains(prefix)
    }

    fn note(&self, key: &[u8]) -> Option<&[u8]> {
        self.notes.get(key).map(|body| &**body)
    }
}
