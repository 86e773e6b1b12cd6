//! What a write is judged by.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tendot_store::{
    Change, CommitError, Committed, Counted, Edit, Entry, History, Key, Listed, Logged, Note, Order, Piece,
    Store, StoreError,
};

/// A store that remembers which records, prefixes and notes were looked up in it, and what was found: what is decided by them
/// is to be carried out only if all of it still holds. The rules know nothing of it, so no lookup can be forgotten.
///
/// Each lookup has been paid for, so there are only as many as a request may cost.
#[derive(Debug)]
pub(crate) struct Consulted<'s, S> {
    store: &'s S,
    found: Mutex<Found>,
}

/// What stood in a note, if there was one.
type Body = Option<Box<[u8]>>;

/// Sets of what was found, not maps: of a record that changed between two lookups both states are required, which no
/// store can meet.
#[derive(Debug, Default)]
struct Found {
    records: BTreeSet<(Key, Option<u64>)>,
    prefixes: BTreeSet<(Key, bool)>,
    notes: BTreeSet<(Box<[u8]>, Body)>,
}

impl<'s, S: Store> Consulted<'s, S> {
    pub(crate) fn new(store: &'s S) -> Self {
        Self { store, found: Mutex::default() }
    }

    /// That everything is still as it was found.
    pub(crate) fn requirements(self) -> Vec<Edit> {
        let found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let record = |(key, revision): (Key, _)| Edit::Require { name: key.to_string().into(), revision };
        let prefix =
            |(key, is_homed): (Key, _)| Edit::RequireHomed { prefix: key.to_string().into(), is_homed };
        let note = |(key, body)| Edit::RequireNote { key, body };
        let records = found.records.into_iter().map(record);
        records
            .chain(found.prefixes.into_iter().map(prefix))
            .chain(found.notes.into_iter().map(note))
            .collect()
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Store for Consulted<'_, S> {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        let entry = self.store.get(key).await?;
        let revision = entry.as_ref().map(|entry| entry.revision);
        self.found().records.insert((key.clone(), revision));
        Ok(entry)
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        let is_homed = self.store.is_homed(prefix).await?;
        // What cannot be homed never will be.
        if let Some(key) = str::from_utf8(prefix).ok().and_then(|prefix| Key::of_prefix(prefix).ok()) {
            self.found().prefixes.insert((key, is_homed));
        }
        Ok(is_homed)
    }

    async fn list(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        self.store.list(prefix, after, limit).await
    }

    async fn count_under(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Counted, StoreError> {
        self.store.count_under(prefix, after, limit).await
    }

    async fn visit(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&Key>,
        visit: impl FnMut(&Entry) -> bool + Send,
    ) -> Result<(), StoreError> {
        self.store.visit(prefix, after, visit).await
    }

    async fn homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        self.store.homed(after, limit).await
    }

    async fn commit(&self, change: Change) -> Result<Committed, CommitError> {
        self.store.commit(change).await
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Logged>, StoreError> {
        self.store.changes(after, limit).await
    }

    async fn history(&self, key: &Key, order: Order, limit: usize) -> Result<History, StoreError> {
        self.store.history(key, order, limit).await
    }

    async fn note(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        let body = self.store.note(key).await?;
        self.found().notes.insert((key.into(), body.clone()));
        Ok(body)
    }

    async fn notes(
        &self,
        beginning: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Note>, StoreError> {
        self.store.notes(beginning, after, limit).await
    }

    async fn of_revision(
        &self,
        revision: u64,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Piece, StoreError> {
        self.store.of_revision(revision, after, limit).await
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_store::{Expect, Memory};

    use super::*;

    /// A record that was there at one lookup and not at the next was judged by two states, and neither holds.
    #[test]
    fn two_states_are_none() {
        let store = Memory::new();
        let commit = |edits| block_on(store.commit(Change { by: "test".into(), at: 0, edits }));
        let (key, name) = (Key::new("10.1/x").unwrap(), "10.1/x");
        let consulted = Consulted::new(&store);
        block_on(consulted.get(&key)).unwrap();
        block_on(consulted.get(&key)).unwrap();
        assert_eq!(consulted.requirements(), [Edit::Require { name: "10.1/X".into(), revision: None }]);

        let consulted = Consulted::new(&store);
        block_on(consulted.get(&key)).unwrap();
        commit(vec![Edit::Put { name: name.into(), values: vec![], expect: Expect::Absent }]).unwrap();
        block_on(consulted.get(&key)).unwrap();
        commit(vec![Edit::Remove { name: name.into(), expect: Expect::Live }]).unwrap();
        assert!(commit(consulted.requirements()).is_err());
    }

    #[test]
    fn prefixes() {
        let store = Memory::new();
        let consulted = Consulted::new(&store);
        for prefix in [&b"10.1"[..], b"", b"\xff", &[b'1'; 256]] {
            assert!(!block_on(consulted.is_homed(prefix)).unwrap());
        }
        let expected = [Edit::RequireHomed { prefix: "10.1".into(), is_homed: false }];
        assert_eq!(consulted.requirements(), expected);
    }
}
