//! Tests that every store must pass, each on an empty store.
//!
//! In reading order:
//!
//! - `records`, `names`: records; lists, scans and counts of names
//! - `preconditions`: preconditions of edits
//! - `registrations`, `aux_entries`: registrations; aux entries and counters
//! - `history`, `log`: history entries; change log and change counters
//! - `counting_store`: store that counts lookups

mod aux_entries;
mod counting_store;
mod history;
mod log;
mod names;
mod preconditions;
mod records;
mod registrations;

pub use aux_entries::{aux_counters, aux_entries, aux_paging, required_aux};
pub use counting_store::CountingStore;
pub use history::{history, history_paging, history_redaction, history_redacts_secrets};
pub use log::{audit_chain, change_counters, change_log, names_at_revision, times_never_decrease};
pub use names::{count_names, homed_prefixes, list_names, scan_records, seek_names, unusual_names};
pub use preconditions::{preconditions, required_revisions, requirements_are_not_logged};
pub use records::{
    change_sets_are_atomic, names_ignore_ascii_case, record_round_trip, record_size_limit,
    removed_names_can_be_recreated, tombstones_are_final,
};
pub use registrations::{history_keeps_registrations, registrations};

use tendot_proto::HandleValue;

use crate::{ChangeSet, CommitError, Edit, NameKey, Precondition, RecordStatus, Store};

/// Declares one test per function of the suite: `store_test_suite!(block_on, MemoryStore::new())`. The second expression creates
/// an empty store.
#[macro_export]
macro_rules! store_test_suite {
    ($block_on:expr, $store:expr) => {
        $crate::store_test_suite! { @each $block_on, $store,
            names_ignore_ascii_case
            record_round_trip
            record_size_limit
            change_sets_are_atomic
            tombstones_are_final
            removed_names_can_be_recreated
            preconditions
            required_revisions
            requirements_are_not_logged
            list_names
            seek_names
            scan_records
            homed_prefixes
            unusual_names
            count_names
            change_log
            times_never_decrease
            audit_chain
            names_at_revision
            change_counters
            history
            history_paging
            history_redacts_secrets
            history_redaction
            registrations
            history_keeps_registrations
            aux_entries
            aux_paging
            required_aux
            aux_counters
        }
    };
    (@each $block_on:expr, $store:expr, $($test:ident)*) => {
        $(#[test]
        fn $test() {
            $block_on($crate::test_suite::$test(&$store));
        })*
    };
}

fn key(name: &str) -> NameKey {
    NameKey::new(name).unwrap()
}

fn put(name: &str, data: &str, precondition: Precondition) -> Edit {
    Edit::Put { name: name.into(), values: vec![HandleValue::new(1, "URL", data.to_owned())], precondition }
}

async fn commit(store: &impl Store, edits: Vec<Edit>) -> Result<u64, CommitError> {
    let change = ChangeSet { author: "tester".into(), timestamp_ms: 1_700_000_000_000, edits };
    store.commit(change).await.map(|committed| committed.revision)
}

async fn data(store: &impl Store, name: &str) -> Option<String> {
    let entry = store.get(&key(name)).await.unwrap()?;
    Some(String::from_utf8(entry.values[0].data.to_vec()).unwrap())
}

/// The revision and status that conflicted with a precondition; `None` if there was no record.
#[track_caller]
fn conflict<T: std::fmt::Debug>(result: Result<T, CommitError>) -> Option<(u64, RecordStatus)> {
    match result.unwrap_err() {
        CommitError::RecordConflict(conflict) => {
            conflict.current.map(|current| (current.revision, current.status))
        }
        other => panic!("{other}"),
    }
}

fn tombstone(name: &str) -> Edit {
    Edit::Tombstone { name: name.into(), precondition: Precondition::Live }
}

#[cfg(test)]
mod tests {
    mod memory {
        crate::store_test_suite!(pollster::block_on, crate::MemoryStore::new());
    }

    mod embedded {
        use std::ops::Deref;

        use tempfile::TempDir;
        use tendot_testing::ram_dir;

        use crate::EmbeddedStore;

        /// A store that is closed before its directory is removed.
        struct TempStore {
            store: EmbeddedStore,
            _directory: TempDir,
        }

        impl TempStore {
            fn new() -> Self {
                let directory = ram_dir();
                Self { store: EmbeddedStore::open(directory.path()).unwrap(), _directory: directory }
            }
        }

        impl Deref for TempStore {
            type Target = EmbeddedStore;

            fn deref(&self) -> &EmbeddedStore {
                &self.store
            }
        }

        crate::store_test_suite!(pollster::block_on, *TempStore::new());
    }
}
