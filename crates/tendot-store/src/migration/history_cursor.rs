//! Cursor over the histories of many names, fetched in pages.

use std::collections::VecDeque;

use super::traits::{HistoryPosition, MigrationSource};
use crate::{HistoryEntry, NameKey, StoreError};

/// Cursor over the histories of many names, fetched in pages.
pub(super) struct HistoryCursor<'a, S> {
    store: &'a S,
    names: &'a [NameKey],
    fetched: VecDeque<(usize, HistoryEntry)>,
    next: Option<HistoryPosition>,
}

impl<'a, S: MigrationSource> HistoryCursor<'a, S> {
    /// Creates a cursor over names with sorted keys.
    pub(super) fn new(store: &'a S, names: &'a [NameKey]) -> Self {
        let next = (!names.is_empty()).then_some(HistoryPosition { name: 0, after: 0 });
        Self { store, names, fetched: VecDeque::new(), next }
    }

    /// Returns the next history entry of the name with this index; skips the rest of earlier names.
    pub(super) async fn next_for(&mut self, name: usize) -> Result<Option<HistoryEntry>, StoreError> {
        loop {
            while let Some((index, history_entry)) = self.fetched.pop_front() {
                if index == name {
                    return Ok(Some(history_entry));
                }
                if index > name {
                    self.fetched.push_front((index, history_entry));
                    return Ok(None);
                }
            }
            let Some(next) = self.next.filter(|next| next.name <= name) else { return Ok(None) };
            let start = next.max(HistoryPosition { name, after: 0 });
            let batch = self.store.read_histories(self.names, start).await?;
            self.fetched.extend(batch.entries);
            self.next = batch.next;
        }
    }
}
