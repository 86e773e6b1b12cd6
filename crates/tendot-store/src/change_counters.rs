//! Change counters for cache validation: a response made from a record may be cached while its counters are unchanged.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use crate::{ChangeSet, Edit, NameKey};

/// Number of counters that names are hashed to. Names with the same counter only invalidate each other needlessly.
pub(crate) const NAME_COUNTERS: usize = 4096;

/// Change counters by which a cache detects that a record has changed (seqlock: odd while a commit is in flight).
///
/// While a counter is odd, a commit is in flight, and it is undetermined which state the next read sees.
///
/// ```
/// use tendot_store::{ChangeSet, Edit, Precondition, NameKey, MemoryStore, Store};
///
/// # pollster::block_on(async {
/// let (store, key) = (MemoryStore::new(), NameKey::new("10.1000/1")?);
/// let Some(counters) = store.change_counters() else { return Ok(()) };
/// let Some(version) = counters.version_of(&key) else { return Ok(()) };
/// // Read the record and cache a response made from it. It is valid while the version is current.
/// assert!(counters.is_current(version));
///
/// let put = Edit::Put { name: "10.1000/1".into(), values: Vec::new(), precondition: Precondition::NotTombstone };
/// store.commit(ChangeSet { author: "operator".into(), timestamp_ms: 0, edits: vec![put] }).await?;
/// assert!(!counters.is_current(version));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct ChangeCounters {
    names: Box<[AtomicU64]>,
    /// Counter of homed prefixes and prefix records, on which the responses for all names below depend.
    prefixes: AtomicU64,
    is_shared: bool,
}

/// Change counters of a name, sampled before a read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordVersion {
    counter: usize,
    name: u64,
    prefixes: u64,
}

impl ChangeCounters {
    pub(crate) fn new() -> Self {
        Self {
            names: (0..NAME_COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            prefixes: AtomicU64::new(0),
            is_shared: false,
        }
    }

    /// Counters of a store that other processes write, too.
    #[cfg(feature = "postgres")]
    pub(crate) fn for_shared_store() -> Self {
        Self { is_shared: true, ..Self::new() }
    }

    /// Whether other processes write to the store, so that their changes become known with a delay.
    ///
    /// Then only a read finds the latest state.
    pub const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Samples the counters of a name before it is read; `None` while a commit is in flight.
    pub fn version_of(&self, key: &NameKey) -> Option<RecordVersion> {
        let counter = counter_index(key);
        let version = RecordVersion {
            counter,
            name: self.names.get(counter)?.load(Ordering::SeqCst),
            prefixes: self.prefixes.load(Ordering::SeqCst),
        };
        (version.name.is_multiple_of(2) && version.prefixes.is_multiple_of(2)).then_some(version)
    }

    /// Whether the counters are unchanged, so that a read would return the same record.
    pub fn is_current(&self, version: RecordVersion) -> bool {
        self.names.get(version.counter).is_some_and(|name| name.load(Ordering::SeqCst) == version.name)
            && self.prefixes.load(Ordering::SeqCst) == version.prefixes
    }

    /// Samples the prefix counter; `None` while a commit is in flight.
    pub fn prefix_version(&self) -> Option<u64> {
        Some(self.prefixes.load(Ordering::SeqCst)).filter(|number| number.is_multiple_of(2))
    }

    /// Marks everything that change sets write as in flight until the guard is dropped. Only one guard may exist at a time.
    pub(crate) fn begin_write<'c>(&self, changes: impl IntoIterator<Item = &'c ChangeSet>) -> WriteGuard<'_> {
        let mut guard = WriteGuard { all: self, indexes: Vec::new(), prefixes: false };
        for edit in changes.into_iter().flat_map(|change| &change.edits) {
            if !is_write(edit) {
                continue;
            }
            guard.prefixes |= affects_prefix(edit);
            // An invalid name is rejected later.
            guard.indexes.extend(NameKey::new(edit.name()).ok().map(|key| counter_index(&key)));
        }
        guard.indexes.sort_unstable();
        guard.indexes.dedup();
        guard.flip();
        guard
    }

    /// Records that another process has changed a name or a prefix.
    #[cfg(feature = "postgres")]
    pub(crate) fn bump(&self, key: Option<&NameKey>, is_prefix_change: bool) {
        // By two, which keeps the parity of commits in flight.
        if let Some(number) = key.and_then(|key| self.names.get(counter_index(key))) {
            number.fetch_add(2, Ordering::SeqCst);
        }
        if is_prefix_change {
            self.prefixes.fetch_add(2, Ordering::SeqCst);
        }
    }

    /// Records that another process may have changed any name.
    #[cfg(feature = "postgres")]
    pub(crate) fn bump_all(&self) {
        for number in self.names.iter().chain([&self.prefixes]) {
            number.fetch_add(2, Ordering::SeqCst);
        }
    }
}

/// Whether an edit changes a record or a homed prefix.
const fn is_write(edit: &Edit) -> bool {
    matches!(
        edit,
        Edit::Home { .. }
            | Edit::Unhome { .. }
            | Edit::Put { .. }
            | Edit::Register { .. }
            | Edit::Tombstone { .. }
            | Edit::Remove { .. }
            | Edit::Redact { .. }
    )
}

/// Whether an edit affects the responses for all names of a prefix.
pub(crate) fn affects_prefix(edit: &Edit) -> bool {
    matches!(edit, Edit::Home { .. } | Edit::Unhome { .. }) || is_write(edit) && is_prefix_record(edit.name())
}

/// Whether a name is that of a prefix record (`0.NA/…`).
pub(crate) fn is_prefix_record(name: &str) -> bool {
    name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("0.NA/"))
}

pub(crate) fn counter_index(key: &NameKey) -> usize {
    xxh3_64(key.as_bytes()) as usize % NAME_COUNTERS
}

impl fmt::Debug for ChangeCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeCounters").field("prefixes", &self.prefixes).finish_non_exhaustive()
    }
}

impl Default for ChangeCounters {
    fn default() -> Self {
        Self::new()
    }
}

/// Guard that marks counters as being written; dropped when the commit has ended.
#[derive(Debug)]
pub(crate) struct WriteGuard<'v> {
    all: &'v ChangeCounters,
    /// Indexes of the name counters.
    indexes: Vec<usize>,
    prefixes: bool,
}

impl WriteGuard<'_> {
    fn flip(&self) {
        for counter in self.indexes.iter().filter_map(|index| self.all.names.get(*index)) {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        if self.prefixes {
            self.all.prefixes.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.flip();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precondition;

    #[test]
    fn edits_bump_their_counters() {
        let put = |name: &str| Edit::Put {
            name: name.into(),
            values: Vec::new(),
            precondition: Precondition::NotTombstone,
        };
        check(&[put("10.1/a")], "10.1/A", true);
        check(&[put("10.1/b")], "10.1/a", false);
        check(&[put("10.1/a"), put("10.1/A")], "10.1/a", true);
        check(
            &[Edit::Remove { name: "10.1/a".into(), precondition: Precondition::NotTombstone }],
            "10.1/a",
            true,
        );
        check(
            &[Edit::Tombstone { name: "10.1/a".into(), precondition: Precondition::NotTombstone }],
            "10.1/a",
            true,
        );
        check(&[Edit::Home { prefix: "10.2".into() }], "10.1/a", true);
        check(&[Edit::Unhome { prefix: "10.2".into() }], "10.1/a", true);
        check(&[put("0.na/10.1")], "10.1/a", true);
        check(&[put("0.NB/10.1")], "10.1/a", false);
        check(&[Edit::RequireRevision { name: "10.1/a".into(), revision: None }], "10.1/a", false);
        check(&[Edit::RequireHomed { prefix: "10.1".into(), is_homed: true }], "10.1/a", false);
    }

    #[track_caller]
    fn check(edits: &[Edit], name: &str, expected: bool) {
        let (counters, key) = (ChangeCounters::new(), NameKey::new(name).unwrap());
        let change = ChangeSet { author: "test".into(), timestamp_ms: 0, edits: edits.to_vec() };
        let before = counters.version_of(&key).unwrap();
        let guard = counters.begin_write([&change]);
        assert_eq!(counters.version_of(&key).is_none(), expected, "{edits:?} in flight");
        assert_eq!(counters.is_current(before), !expected, "{edits:?} in flight");
        drop(guard);
        assert!(counters.version_of(&key).is_some(), "{edits:?} committed");
        assert_eq!(counters.is_current(before), !expected, "{edits:?} committed");
    }
}
