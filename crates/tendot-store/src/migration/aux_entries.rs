//! Copies aux entries. Their changes are not logged, so all are compared and those that differ are copied.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::traits::{MigrationSource, MigrationTarget};
use super::{MigrationError, MigrationReport, Migrator};
use crate::{Note, StoreError};

/// Maximum number of rounds: entries may change meanwhile.
const MAX_AUX_ROUNDS: u32 = 3;

/// Aux entries per page; each may have some megabytes.
const AUX_PAGE_LEN: usize = 64;

impl<S: MigrationSource, T: MigrationTarget, P: FnMut(&MigrationReport) + Send> Migrator<'_, S, T, P> {
    /// Copies aux entries until the target equals the source.
    pub(super) async fn copy_aux(&mut self) -> Result<(), MigrationError> {
        for _ in 0..MAX_AUX_ROUNDS {
            self.report.restless_notes = self.copy_changed_aux().await?;
            if self.report.restless_notes == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Copies the entries that differ; returns their number.
    async fn copy_changed_aux(&mut self) -> Result<u64, MigrationError> {
        let (mut source, mut target) = (AuxCursor::default(), AuxCursor::default());
        let mut others = 0;
        loop {
            source.fetch(self.source).await.map_err(MigrationError::Source)?;
            target.fetch(self.target.store()).await.map_err(MigrationError::Target)?;
            let order = match (source.fetched.front(), target.fetched.front()) {
                (None, None) => break,
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            let source_item = if order.is_le() { source.fetched.pop_front() } else { None };
            let target_item = if order.is_ge() { target.fetched.pop_front() } else { None };
            if source_item == target_item {
                continue;
            }
            others += 1;
            let change = match (source_item, target_item) {
                (Some((key, body)), _) => (key, Some(body)),
                (None, Some((key, _))) => (key, None),
                (None, None) => continue,
            };
            self.batch.size += change.0.len() + change.1.as_ref().map_or(0, |body| body.len());
            self.batch.aux.push(change);
            if self.batch.is_full() {
                self.flush().await?;
            }
        }
        self.flush().await?;
        Ok(others)
    }
}

/// Cursor over the aux entries of one store.
#[derive(Default)]
struct AuxCursor {
    fetched: VecDeque<Note>,
    after: Option<Box<[u8]>>,
    is_done: bool,
}

impl AuxCursor {
    /// Fetches the next page if the current one is used up.
    async fn fetch(&mut self, store: &impl MigrationSource) -> Result<(), StoreError> {
        if self.fetched.is_empty() && !self.is_done {
            let notes = store.list_aux(b"", self.after.as_deref(), AUX_PAGE_LEN).await?;
            self.is_done = notes.len() < AUX_PAGE_LEN;
            self.after = notes.last().map(|(key, _)| key.clone());
            self.fetched = notes.into();
        }
        Ok(())
    }
}
