//! Read set for optimistic concurrency control.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tendot_store::{AnyStore, Edit, NameKey, Store, StoreError, StoredRecord};

/// Store wrapper that records every read, for optimistic concurrency control.
///
/// The write commits with the read set as preconditions, so it takes effect only if nothing it was planned on has changed.
/// The rules read through this type without knowing it, so no read can be forgotten. The budget of the request, which every
/// read is charged to, limits the size of the read set.
///
/// Lists, scans, counts, histories and the log are not tracked: they are the methods of the [`AnyStore`] below.
#[derive(Debug)]
pub(crate) struct TrackedStore {
    store: Arc<AnyStore>,
    /// None outside of a write: reads pass through.
    read_set: Option<Mutex<ReadSet>>,
}

/// Read set: records, homed prefixes and aux entries that were read, with the state that was read.
#[derive(Debug, Default)]
struct ReadSet {
    records: BTreeSet<(NameKey, Option<u64>)>,
    prefixes: BTreeSet<(NameKey, bool)>,
    aux_entries: BTreeSet<AuxState>,
}

/// Key of an aux entry, and its value if it exists.
type AuxState = (Box<[u8]>, Option<Box<[u8]>>);

impl TrackedStore {
    /// Handle without tracking.
    pub(crate) const fn new(store: Arc<AnyStore>) -> Self {
        Self { store, read_set: None }
    }

    /// Handle to the same store with an empty read set.
    pub(crate) fn begin(&self) -> Self {
        Self { store: Arc::clone(&self.store), read_set: Some(Mutex::default()) }
    }

    /// Handle to the same store without tracking.
    pub(crate) fn untracked(&self) -> Self {
        Self { store: Arc::clone(&self.store), read_set: None }
    }

    /// Whether reads are tracked.
    pub(crate) const fn is_tracked(&self) -> bool {
        self.read_set.is_some()
    }

    /// Preconditions: every record, prefix and aux entry is unchanged.
    pub(crate) fn into_preconditions(self) -> Vec<Edit> {
        let Some(read_set) = self.read_set else { return Vec::new() };
        let read_set = read_set.into_inner().unwrap_or_else(PoisonError::into_inner);
        let record =
            |(key, revision): (NameKey, _)| Edit::RequireRevision { name: key.to_string().into(), revision };
        let prefix =
            |(key, is_homed): (NameKey, _)| Edit::RequireHomed { prefix: key.to_string().into(), is_homed };
        let aux_entry = |(key, body)| Edit::RequireAux { key, value: body };
        let records = read_set.records.into_iter().map(record);
        records
            .chain(read_set.prefixes.into_iter().map(prefix))
            .chain(read_set.aux_entries.into_iter().map(aux_entry))
            .collect()
    }

    /// Reads a record, see [`Store::get`].
    pub(crate) async fn get(&self, key: &NameKey) -> Result<Option<StoredRecord>, StoreError> {
        let entry = self.store.get(key).await?;
        if let Some(mut read_set) = self.read_set() {
            let revision = entry.as_ref().map(|entry| entry.revision);
            read_set.records.insert((key.clone(), revision));
        }
        Ok(entry)
    }

    /// Reads whether a prefix is homed, see [`Store::is_homed`].
    pub(crate) async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        let is_homed = self.store.is_homed(prefix).await?;
        if let Some(mut read_set) = self.read_set()
            // An invalid prefix can never be homed and needs no precondition.
            && let Some(key) = str::from_utf8(prefix).ok().and_then(|prefix| NameKey::from_prefix(prefix).ok())
        {
            read_set.prefixes.insert((key, is_homed));
        }
        Ok(is_homed)
    }

    /// Reads an aux entry, see [`Store::get_aux`].
    pub(crate) async fn get_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        let body = self.store.get_aux(key).await?;
        if let Some(mut read_set) = self.read_set() {
            read_set.aux_entries.insert((key.into(), body.clone()));
        }
        Ok(body)
    }

    fn read_set(&self) -> Option<MutexGuard<'_, ReadSet>> {
        let read_set = self.read_set.as_ref()?;
        Some(read_set.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Deref for TrackedStore {
    type Target = AnyStore;

    fn deref(&self) -> &AnyStore {
        &self.store
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_store::{ChangeSet, MemoryStore, Precondition};

    use super::*;

    /// A record that changed between two reads of a transaction must make its commit fail.
    #[test]
    fn changed_record_cannot_satisfy_read_set() {
        let store = TrackedStore::new(Arc::new(MemoryStore::new().into()));
        let commit =
            |edits| block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits }));
        let (key, name) = (NameKey::new("10.1/x").unwrap(), "10.1/x");
        let tracked = store.begin();
        block_on(tracked.get(&key)).unwrap();
        block_on(tracked.get(&key)).unwrap();
        assert_eq!(
            tracked.into_preconditions(),
            [Edit::RequireRevision { name: "10.1/X".into(), revision: None }]
        );

        let tracked = store.begin();
        block_on(tracked.get(&key)).unwrap();
        commit(vec![Edit::Put { name: name.into(), values: vec![], precondition: Precondition::Absent }])
            .unwrap();
        block_on(tracked.get(&key)).unwrap();
        commit(vec![Edit::Remove { name: name.into(), precondition: Precondition::Live }]).unwrap();
        assert!(commit(tracked.into_preconditions()).is_err());
    }

    #[test]
    fn prefixes() {
        let store = TrackedStore::new(Arc::new(MemoryStore::new().into()));
        let tracked = store.begin();
        for prefix in [&b"10.1"[..], b"", b"\xff", &[b'1'; 256]] {
            assert!(!block_on(tracked.is_homed(prefix)).unwrap());
        }
        let expected = [Edit::RequireHomed { prefix: "10.1".into(), is_homed: false }];
        assert_eq!(tracked.into_preconditions(), expected);
    }
}
