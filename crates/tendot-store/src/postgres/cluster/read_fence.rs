//! Read fence: log position that a standby must have replayed, per name counter.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::change_counters::{ChangeCounters, NAME_COUNTERS, affects_prefix, counter_index};
use crate::{ChangeSet, EditKind, LogEntry, NameKey};

/// Read fence: log position that a standby must have replayed before it may serve a name.
#[derive(Debug)]
pub(crate) struct ReadFence {
    pub(crate) counters: ChangeCounters,
    /// Required sequence number per name counter.
    name_positions: Box<[AtomicU64]>,
    /// Required sequence number for homed prefixes.
    prefix_position: AtomicU64,
    /// Required sequence number for everything.
    global_position: AtomicU64,
    /// Last log sequence number known to this process.
    known_position: AtomicU64,
}

impl ReadFence {
    pub(crate) fn new() -> Self {
        Self {
            counters: ChangeCounters::for_shared_store(),
            name_positions: (0..NAME_COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            prefix_position: AtomicU64::new(0),
            global_position: AtomicU64::new(0),
            known_position: AtomicU64::new(0),
        }
    }

    /// Sequence number that a host must have replayed to serve a record.
    pub(crate) fn position_for_name(&self, key: &NameKey) -> u64 {
        let own = self
            .name_positions
            .get(counter_index(key))
            .map_or(u64::MAX, |position| position.load(Ordering::SeqCst));
        own.max(self.global_position.load(Ordering::SeqCst))
    }

    /// Sequence number that a host must have replayed to serve homed prefixes.
    pub(crate) fn position_for_prefixes(&self) -> u64 {
        self.prefix_position.load(Ordering::SeqCst).max(self.global_position.load(Ordering::SeqCst))
    }

    /// Last log sequence number known to this process.
    pub(crate) fn known_position(&self) -> u64 {
        self.known_position.load(Ordering::SeqCst)
    }

    /// Records commits of this process, while their change counters are marked as in flight.
    pub(crate) fn record_commit<'c>(&self, changes: impl IntoIterator<Item = &'c ChangeSet>, last: u64) {
        for edit in changes.into_iter().flat_map(|change| &change.edits) {
            self.raise(edit.name(), affects_prefix(edit), last);
        }
        self.known_position.fetch_max(last, Ordering::SeqCst);
    }

    /// Records a log entry. The position is raised before the change counters, so that a reader of the new version never uses a
    /// stale host.
    pub(crate) fn record_log_entry(&self, log_entry: &LogEntry) {
        if log_entry.kind == EditKind::Import {
            self.global_position.fetch_max(log_entry.sequence, Ordering::SeqCst);
            self.counters.bump_all();
        } else {
            let is_prefix_change = matches!(log_entry.kind, EditKind::Home | EditKind::Unhome)
                || crate::change_counters::is_prefix_record(&log_entry.name);
            self.raise(&log_entry.name, is_prefix_change, log_entry.sequence);
            self.counters.bump(NameKey::new(&log_entry.name).ok().as_ref(), is_prefix_change);
        }
        self.known_position.fetch_max(log_entry.sequence, Ordering::SeqCst);
    }

    /// Resets all positions: anything may have changed. With `is_same`, the log is the same one, and commits made here meanwhile
    /// may be further.
    pub(crate) fn reset(&self, last: u64, is_same: bool) {
        for position in self.name_positions.iter().chain([
            &self.prefix_position,
            &self.global_position,
            &self.known_position,
        ]) {
            if is_same {
                position.fetch_max(last, Ordering::SeqCst);
            } else {
                position.store(last, Ordering::SeqCst);
            }
        }
        self.counters.bump_all();
    }

    fn raise(&self, name: &str, is_prefix_change: bool, sequence: u64) {
        if let Some(position) =
            NameKey::new(name).ok().and_then(|key| self.name_positions.get(counter_index(&key)))
        {
            position.fetch_max(sequence, Ordering::SeqCst);
        }
        if is_prefix_change {
            self.prefix_position.fetch_max(sequence, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edit, Precondition};

    fn log_entry(sequence: u64, kind: EditKind, name: &str) -> LogEntry {
        LogEntry { sequence, ..LogEntry::new("test", 0, sequence, kind, name.into()) }
    }

    #[test]
    fn log_entries_raise_fence() {
        check(EditKind::Update, "10.1/a", (true, false));
        check(EditKind::Create, "10.1/A", (true, false));
        check(EditKind::Remove, "10.1/other", (false, false));
        check(EditKind::Home, "10.1", (true, true));
        check(EditKind::Unhome, "10.1", (true, true));
        check(EditKind::Update, "0.na/10.1", (true, true));
        check(EditKind::Import, "", (true, true));
    }

    /// Checks whether a log entry affects a name, and whether it affects prefixes.
    #[track_caller]
    fn check(kind: EditKind, name: &str, (affects_name, is_prefix_change): (bool, bool)) {
        let (read_fence, key) = (ReadFence::new(), NameKey::new("10.1/a").unwrap());
        let before = read_fence.counters.version_of(&key).unwrap();
        read_fence.record_log_entry(&log_entry(7, kind, name));
        assert_eq!(read_fence.counters.is_current(before), !affects_name, "{kind:?} {name}");
        assert_eq!(read_fence.position_for_prefixes() == 7, is_prefix_change, "{kind:?} {name}");
        assert_eq!(read_fence.known_position(), 7);
        assert!(read_fence.counters.version_of(&key).is_some(), "no commit is in flight");
    }

    #[test]
    fn own_commits_raise_fence() {
        let read_fence = ReadFence::new();
        let edits = vec![Edit::Put {
            name: "10.1/a".into(),
            values: Vec::new(),
            precondition: Precondition::NotTombstone,
        }];
        read_fence.record_commit([&ChangeSet { author: "test".into(), timestamp_ms: 0, edits }], 5);
        assert_eq!(read_fence.position_for_name(&NameKey::new("10.1/A").unwrap()), 5);
        assert_eq!(read_fence.position_for_name(&NameKey::new("10.1/b").unwrap()), 0);
        assert_eq!((read_fence.position_for_prefixes(), read_fence.known_position()), (0, 5));
        read_fence.reset(4, true);
        assert_eq!(read_fence.position_for_name(&NameKey::new("10.1/A").unwrap()), 5);
        assert_eq!(read_fence.position_for_name(&NameKey::new("10.1/b").unwrap()), 4);
        // Part of the log was lost.
        read_fence.reset(3, false);
        assert_eq!(read_fence.position_for_name(&NameKey::new("10.1/A").unwrap()), 3);
        assert_eq!(read_fence.known_position(), 3);
    }
}
