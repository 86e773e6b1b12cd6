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
        let next = (!names.is_empty()).then_some((0, 0));
        Self { store, names, fetched: VecDeque::new(), next }
    }

    /// Returns the next history entry of the name with this index; skips the rest of earlier names.
    pub(super) async fn next_for(&mut self, name: usize) -> Result<Option<HistoryEntry>, StoreError> {
        loop {
            while let Some((of, history_entry)) = self.fetched.pop_front() {
                if of == name {
                    return Ok(Some(history_entry));
                }
                if of > name {
                    self.fetched.push_front((of, history_entry));
                    return Ok(None);
                }
            }
            let Some(at) = self.next.filter(|(of, _)| *of <= name) else { return Ok(None) };
            let (fetched, next) = self.store.read_histories(self.names, at.max((name, 0))).await?;
            self.fetched.extend(fetched);
            self.next = next;
        }
    }
}
