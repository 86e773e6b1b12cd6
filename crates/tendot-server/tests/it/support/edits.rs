//! Edits that tests commit to the store of a server, without the checks of the registry.

use tendot_proto::HandleValue;
use tendot_store::{AnyStore, ChangeSet, Edit, Precondition, Store as _};

/// Creates a record, or replaces its values.
pub(crate) fn put_edit(name: &str, values: Vec<HandleValue<'static>>) -> Edit {
    Edit::Put { name: name.into(), values, precondition: Precondition::NotTombstone }
}

/// Homes a prefix.
pub(crate) fn home_edit(prefix: &str) -> Edit {
    Edit::Home { prefix: prefix.into() }
}

/// Commits edits in one change.
pub(crate) async fn commit(store: &AnyStore, edits: Vec<Edit>) {
    commit_as(store, "test", 0, edits).await;
}

/// Commits edits in one change, with this author and time.
pub(crate) async fn commit_as(store: &AnyStore, author: &str, timestamp_ms: u64, edits: Vec<Edit>) {
    store.commit(ChangeSet { author: author.into(), timestamp_ms, edits }).await.unwrap();
}
