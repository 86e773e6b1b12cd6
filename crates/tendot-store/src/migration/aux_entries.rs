//! Copies aux entries. Their changes are not logged, so all are compared and those that differ are copied.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::batch::AuxChange;
use super::traits::{MigrationSource, MigrationTarget};
use super::{MigrationError, MigrationReport, Migrator};
use crate::{AuxEntry, StoreError};

/// Maximum number of rounds: entries may change meanwhile.
const MAX_AUX_ROUNDS: u32 = 3;

/// Aux entries per page; each may have some megabytes.
const AUX_PAGE_LEN: usize = 64;

impl<S: MigrationSource, T: MigrationTarget, P: FnMut(&MigrationReport) + Send> Migrator<'_, S, T, P> {
    /// Copies aux entries until the target equals the source.
    pub(super) async fn copy_aux(&mut self) -> Result<(), MigrationError> {
        for _ in 0..MAX_AUX_ROUNDS {
            self.report.concurrently_changed = self.copy_changed_aux().await?;
            if self.report.concurrently_changed == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Copies the entries that differ; returns their number.
    async fn copy_changed_aux(&mut self) -> Result<u64, MigrationError> {
        let (mut source, mut target) = (AuxCursor::default(), AuxCursor::default());
        let mut changed = 0;
        loop {
            source.fetch(self.source).await.map_err(MigrationError::Source)?;
            target.fetch(self.target.store()).await.map_err(MigrationError::Target)?;
            let order = match (source.fetched.front(), target.fetched.front()) {
                (None, None) => break,
                (Some(source), Some(target)) => source.key.cmp(&target.key),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            let source_item = if order.is_le() { source.fetched.pop_front() } else { None };
            let target_item = if order.is_ge() { target.fetched.pop_front() } else { None };
            if source_item == target_item {
                continue;
            }
            changed += 1;
            let change = match (source_item, target_item) {
                (Some(AuxEntry { key, value }), _) => AuxChange { key, value: Some(value) },
                (None, Some(AuxEntry { key, .. })) => AuxChange { key, value: None },
                (None, None) => continue,
            };
            self.batch.size += change.key.len() + change.value.as_ref().map_or(0, |value| value.len());
            self.batch.aux.push(change);
            if self.batch.is_full() {
                self.flush().await?;
            }
        }
        self.flush().await?;
        Ok(changed)
    }
}

/// Cursor over the aux entries of one store.
#[derive(Default)]
struct AuxCursor {
    fetched: VecDeque<AuxEntry>,
    after: Option<Box<[u8]>>,
    is_done: bool,
}

impl AuxCursor {
    /// Fetches the next page if the current one is used up.
    async fn fetch(&mut self, store: &impl MigrationSource) -> Result<(), StoreError> {
        if self.fetched.is_empty() && !self.is_done {
            let page = store.list_aux(b"", self.after.as_deref(), AUX_PAGE_LEN).await?;
            self.is_done = page.len() < AUX_PAGE_LEN;
            self.after = page.last().map(|entry| entry.key.clone());
            self.fetched = page.into();
        }
        Ok(())
    }
}
