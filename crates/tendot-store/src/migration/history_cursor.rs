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
    /// Log sequence number after which the histories begin.
    base: u64,
}

impl<'a, S: MigrationSource> HistoryCursor<'a, S> {
    /// Creates a cursor over names with sorted keys, and their histories after a log sequence number.
    pub(super) fn new(store: &'a S, names: &'a [NameKey], base: u64) -> Self {
        let next = (!names.is_empty()).then_some(HistoryPosition::start_of(0, base));
        Self { store, names, fetched: VecDeque::new(), next, base }
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
            let start = next.max(HistoryPosition::start_of(name, self.base));
            let batch = self.store.read_histories(self.names, start).await?;
            self.fetched.extend(batch.entries);
            self.next = batch.next;
        }
    }
}
