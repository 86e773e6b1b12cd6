use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use crate::{
    Before, Change, CommitError, Committed, Conflict, Counted, Edit, EditKind, Entry, History, Key, Listed,
    Logged, Note, Order, Past, Piece, State, Store, StoreError, Versions, history,
};

/// A store that is gone with the process: for trying things out, and as the measure of the others.
#[derive(Debug, Default)]
pub struct Memory {
    tables: RwLock<Tables>,
    versions: Versions,
}

#[derive(Debug, Default)]
struct Tables {
    records: BTreeMap<Key, Entry>,
    homed: BTreeSet<Key>,
    notes: BTreeMap<Box<[u8]>, Box<[u8]>>,
    log: Vec<Logged>,
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
        if prefix.len() > Key::LONGEST_PREFIX {
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
        if prefix.len() > Key::LONGEST_PREFIX {
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
        if prefix.is_some_and(|prefix| prefix.len() > Key::LONGEST_PREFIX) {
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

    async fn commit(&self, change: Change) -> Result<Committed, CommitError> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let _changing = self.versions.changing([&change]);
        tables.commit(change)
    }

    fn versions(&self) -> Option<&Versions> {
        Some(&self.versions)
    }

    async fn history(&self, key: &Key, order: Order, limit: usize) -> Result<History, StoreError> {
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

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Logged>, StoreError> {
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

    fn history(&self, key: &Key, order: Order, limit: usize) -> History {
        let (mut history, mut room) = (History::default(), history::ROOM);
        let none = BTreeMap::new();
        let entries = self.history.get(key).unwrap_or(&none).iter();
        let mut entries: Vec<_> = entries.filter(|(sequence, _)| order.has(**sequence)).collect();
        if matches!(order, Order::NewestFirst { .. }) {
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

    fn commit(&mut self, change: Change) -> Result<Committed, CommitError> {
        let revision = self.revision + 1;
        // An edit sees what those before it did; none is seen by anybody else until all have been.
        let mut edited: BTreeMap<Key, Option<Entry>> = BTreeMap::new();
        let mut homed: BTreeMap<Key, bool> = BTreeMap::new();
        let mut notes: BTreeMap<Box<[u8]>, Option<Box<[u8]>>> = BTreeMap::new();
        let mut done = Vec::new();
        for (number, edit) in change.edits.into_iter().enumerate() {
            let edit = match edit {
                Edit::PutNote { key, .. } | Edit::RemoveNote { key } | Edit::RequireNote { key, .. }
                    if !Key::is_note(&key) =>
                {
                    return Err(CommitError::Note { edit: number });
                }
                Edit::PutNote { key, body } => {
                    notes.insert(key, Some(body));
                    continue;
                }
                Edit::RemoveNote { key } => {
                    notes.insert(key, None);
                    continue;
                }
                Edit::RequireNote { key, body } => {
                    let there = notes.get(&key).map_or_else(|| self.notes.get(&key), Option::as_ref);
                    if there != body.as_ref() {
                        return Err(CommitError::Note { edit: number });
                    }
                    continue;
                }
                edit => edit,
            };
            let key = edit.key().map_err(|error| CommitError::Name { edit: number, error })?;
            if let Edit::RequireHomed { prefix, is_homed: expected } = edit {
                let is_homed = homed.get(&key).copied().unwrap_or_else(|| self.homed.contains(&key));
                if is_homed != expected {
                    return Err(CommitError::Homed { edit: number, prefix, is_homed });
                }
                continue;
            }
            let there = edited.get(&key).map_or_else(|| self.records.get(&key), Option::as_ref);
            if !edit.is_met(there.map(|entry| (entry.revision, entry.state))) {
                let there = there.map(|entry| (entry.name.clone(), entry.revision, entry.state));
                return Err(Conflict { edit: number, name: edit.name().into(), there }.into());
            }
            let before = there.map_or(Before::Nothing, |entry| {
                Before::Record(history::without_secrets(entry).unwrap_or_else(|| entry.clone()))
            });
            let spelled = there.map(|entry| entry.name.clone());
            let known = there.map(|entry| entry.registration.clone()).unwrap_or_default();
            let (kind, name, entry) = match edit {
                Edit::Put { .. } | Edit::Register { .. } => {
                    let kind = if spelled.is_some() { EditKind::Update } else { EditKind::Create };
                    let (name, values, registration) = match edit {
                        Edit::Register { name, values, registration, .. } => (name, values, registration),
                        Edit::Put { name, values, .. } => (name, values, known),
                        _ => continue,
                    };
                    let name = spelled.unwrap_or(name);
                    let entry =
                        Entry { name: name.clone(), revision, state: State::Live, values, registration };
                    (kind, name, Some(Some(entry)))
                }
                Edit::Tombstone { name, .. } => {
                    let values = there.map(|entry| entry.values.clone()).unwrap_or_default();
                    let name = spelled.unwrap_or(name);
                    let state = State::Tombstone;
                    let entry = Entry { name: name.clone(), revision, state, values, registration: known };
                    (EditKind::Tombstone, name, Some(Some(entry)))
                }
                Edit::Remove { name, .. } => (EditKind::Remove, spelled.unwrap_or(name), Some(None)),
                Edit::Home { prefix } => {
                    homed.insert(key.clone(), true);
                    (EditKind::Home, prefix, None)
                }
                Edit::Unhome { prefix } => {
                    homed.insert(key.clone(), false);
                    (EditKind::Unhome, prefix, None)
                }
                _ => continue,
            };
            let mut past = None;
            if let Some(entry) = entry {
                past = Some((key.clone(), before));
                edited.insert(key, entry);
            }
            done.push((kind, name, past));
        }
        for (key, body) in notes {
            match body {
                Some(body) => self.notes.insert(key, body),
                None => self.notes.remove(&key),
            };
        }
        if done.is_empty() {
            return Ok(Committed { revision: self.revision });
        }
        for (key, entry) in edited {
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
        for (kind, name, past) in done {
            let sequence = self.log.len() as u64 + 1;
            if let Some((key, before)) = past {
                self.history.entry(key).or_default().insert(sequence, before);
            }
            let (at, by) = (change.at, change.by.clone());
            self.log.push(Logged { sequence, revision, at, by, kind, name, count: 1 });
        }
        self.revision = revision;
        Ok(Committed { revision })
    }
}
