//! Initial copy, and catch-up by the change log.

use std::collections::BTreeMap;
use std::time::Duration;

use super::batch::{
    MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MigratedHistoryEntry, MigratedRecord, history_memory_size,
    record_memory_size,
};
use super::checkpoint::MigrationStage;
use super::history_cursor::HistoryCursor;
use super::snapshot::{RecordAtPosition, SnapshotPosition};
use super::traits::{MigrationSource, MigrationTarget};
use super::{MAX_REMAINING_LOG_ENTRIES, MigrationError, MigrationReport, Migrator};
use crate::model::history::is_record_change;
use crate::model::name_key::storage_key;
use crate::{EditKind, LogEntry, NameKey, PriorState, StoreError, StoredRecord};

/// Number of polls for a pending log entry, and delay between them.
const MAX_SETTLE_ATTEMPTS: u32 = 600;
const SETTLE_POLL_DELAY: Duration = Duration::from_millis(50);

impl<S: MigrationSource, T: MigrationTarget, P: FnMut(&MigrationReport) + Send> Migrator<'_, S, T, P> {
    /// Initial copy: log entries, prefixes, records, and histories of removed names.
    pub(super) async fn copy_initial(&mut self) -> Result<(), MigrationError> {
        self.copy_log(self.checkpoint.copied_to).await?;
        if let MigrationStage::Records(mut after) = self.checkpoint.stage.clone() {
            if after.is_none() {
                self.copy_homed().await?;
            }
            loop {
                let entries =
                    read_records(self.source, after.as_ref()).await.map_err(MigrationError::Source)?;
                let Some((last, _)) = entries.last() else { break };
                after = Some(last.clone());
                let (names, entries): (Vec<_>, Vec<_>) =
                    entries.into_iter().map(|(key, entry)| (key, Some(entry))).unzip();
                self.copy_records_with_history(&names, entries).await?;
                self.checkpoint.stage = MigrationStage::Records(after.clone());
                self.flush().await?;
            }
            self.checkpoint.stage = MigrationStage::RemovedNames(0);
        }
        if let MigrationStage::RemovedNames(mut after) = self.checkpoint.stage {
            while let Some(lines) = self.read_source_log(after, self.checkpoint.copied_to).await? {
                let removed = lines.iter().filter(|line| line.kind == EditKind::Remove);
                self.copy_names(record_names(removed), true).await?;
                after = lines.last().map_or(self.checkpoint.copied_to, |line| line.sequence);
                self.checkpoint.stage = MigrationStage::RemovedNames(after);
                self.flush().await?;
            }
            self.checkpoint.stage = MigrationStage::CatchingUp;
            self.flush().await?;
        }
        Ok(())
    }

    /// Catches up by the change log until few entries are left; then the target has the source's state at one log position.
    pub(super) async fn catch_up(&mut self) -> Result<(), MigrationError> {
        let mut waited = 0;
        loop {
            let end = self.source.head().await.map_err(MigrationError::Source)?.sequence;
            let new = end.saturating_sub(self.checkpoint.copied_to);
            if new == 0 && !self.has_undetermined {
                return self.copy_log(self.checkpoint.copied_to).await;
            }
            if new == 0 {
                waited += 1;
                if waited > MAX_SETTLE_ATTEMPTS {
                    return Err(MigrationError::Restless);
                }
                std::thread::sleep(SETTLE_POLL_DELAY);
                continue;
            }
            self.has_undetermined = false;
            let is_exact = self.catch_up_to(end).await?;
            if is_exact && !self.has_undetermined && new < MAX_REMAINING_LOG_ENTRIES {
                return Ok(());
            }
        }
    }

    /// Copies changes up to a sequence number. Returns whether no name was skipped because of later changes.
    async fn catch_up_to(&mut self, end: u64) -> Result<bool, MigrationError> {
        self.copy_log(end).await?;
        let (mut after, mut is_exact) = (self.checkpoint.copied_to, true);
        while let Some(lines) = self.read_source_log(after, end).await? {
            for line in &lines {
                match line.kind {
                    EditKind::Home | EditKind::Unhome => {
                        // An invalid prefix was never homed.
                        if let Ok(prefix) = NameKey::from_prefix(&line.name) {
                            self.batch.homed.insert(prefix, line.kind == EditKind::Home);
                        }
                    }
                    EditKind::Import => {
                        is_exact = false;
                        self.copy_imported(line.revision).await?;
                    }
                    _ => {}
                }
            }
            self.copy_names(record_names(&lines), false).await?;
            self.flush().await?;
            after = lines.last().map_or(end, |line| line.sequence);
        }
        self.checkpoint.copied_to = end;
        self.flush().await?;
        Ok(is_exact)
    }

    /// Copies the records of an import that are unchanged since; the others have later log entries.
    async fn copy_imported(&mut self, revision: u64) -> Result<(), MigrationError> {
        let mut after = None;
        loop {
            let page = self.source.names_at_revision(revision, after.as_ref(), MAX_BATCH_ITEMS).await;
            let page = page.map_err(MigrationError::Source)?;
            let names = page.names.iter().filter_map(|listed| NameKey::new(&listed.name).ok());
            self.copy_names(sort_by_storage_key(names), false).await?;
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Copies the log up to a sequence number and moves the position there.
    pub(super) async fn copy_log(&mut self, end: u64) -> Result<(), MigrationError> {
        let mut after = self.target.store().head().await.map_err(MigrationError::Target)?.sequence;
        while let Some(lines) = self.read_source_log(after, end).await? {
            after = lines.last().map_or(end, |line| line.sequence);
            self.batch.log_entries = lines;
            self.flush().await?;
        }
        let head = self.target.store().head().await.map_err(MigrationError::Target)?;
        self.position = SnapshotPosition { sequence: end, revision: head.revision };
        Ok(())
    }

    /// Reads the next log entries of the source up to `end`; `None` if there are none.
    pub(super) async fn read_source_log(
        &self,
        after: u64,
        end: u64,
    ) -> Result<Option<Vec<LogEntry>>, MigrationError> {
        let left = usize::try_from(end.saturating_sub(after)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(None);
        }
        let lines =
            self.source.read_log(after, left.min(MAX_BATCH_ITEMS)).await.map_err(MigrationError::Source)?;
        if lines.is_empty() {
            let what = format!("the log has no line {}", after + 1);
            return Err(MigrationError::Source(StoreError::Damaged { what }));
        }
        Ok(Some(lines))
    }

    async fn copy_homed(&mut self) -> Result<(), MigrationError> {
        let mut after: Option<Box<str>> = None;
        loop {
            let homed = self.source.list_homed(after.as_deref().map(str::as_bytes), MAX_BATCH_ITEMS).await;
            let homed = homed.map_err(MigrationError::Source)?;
            self.batch
                .homed
                .extend(homed.iter().filter_map(|prefix| Some((NameKey::from_prefix(prefix).ok()?, true))));
            self.flush().await?;
            after = homed.into_iter().last();
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Copies names with sorted keys: all, or only those without a record.
    async fn copy_names(&mut self, names: Vec<NameKey>, only_removed: bool) -> Result<(), MigrationError> {
        let mut rest = names;
        while !rest.is_empty() {
            let entries = self.source.read_records(&rest).await.map_err(MigrationError::Source)?;
            let later = rest.split_off(entries.len().clamp(1, rest.len()));
            let known = rest.into_iter().zip(entries).filter(|(_, entry)| !only_removed || entry.is_none());
            let (names, entries): (Vec<_>, Vec<_>) = known.unzip();
            self.copy_records_with_history(&names, entries).await?;
            self.flush().await?;
            rest = later;
        }
        Ok(())
    }

    /// Copies names with sorted keys, with their histories; `entries` are their current records.
    async fn copy_records_with_history(
        &mut self,
        names: &[NameKey],
        entries: Vec<Option<StoredRecord>>,
    ) -> Result<(), MigrationError> {
        let mut histories = HistoryCursor::new(self.source, names);
        for (number, (key, now)) in names.iter().zip(entries).enumerate() {
            let mut registration = RegistrationTracker::default();
            let mut previous: Option<u64> = None;
            let mut later = None;
            while let Some(history_entry) =
                histories.next_for(number).await.map_err(MigrationError::Source)?
            {
                if !self.position.includes(&history_entry) {
                    later = Some(history_entry);
                    break;
                }
                let registration_sequence = match &history_entry.before {
                    PriorState::Record(entry) => registration.origin_of(entry, previous),
                    _ => None,
                };
                let is_first = previous.is_none();
                previous = Some(history_entry.line.sequence);
                self.batch.size += history_memory_size(&history_entry);
                self.batch.history.push(MigratedHistoryEntry {
                    key: key.clone(),
                    history_entry,
                    is_first,
                    registration_sequence,
                });
                if self.batch.is_full() {
                    self.flush().await?;
                }
            }
            match self.position.record_at(now, later) {
                RecordAtPosition::Known(entry) => {
                    let migrated = entry.map(|entry| {
                        self.batch.size += record_memory_size(&entry);
                        MigratedRecord {
                            registration_sequence: registration.origin_of(&entry, previous),
                            entry,
                        }
                    });
                    self.batch.records.push((key.clone(), migrated));
                }
                RecordAtPosition::Undetermined => self.has_undetermined = true,
            }
        }
        Ok(())
    }
}

/// Last registration seen of a name, and the log entry that introduced it.
#[derive(Default)]
struct RegistrationTracker {
    bytes: Box<[u8]>,
    line: Option<u64>,
}

impl RegistrationTracker {
    /// Sequence number of the log entry that introduced a record's registration.
    fn origin_of(&mut self, entry: &StoredRecord, made: Option<u64>) -> Option<u64> {
        if entry.registration.is_empty() {
            return None;
        }
        if entry.registration != self.bytes {
            *self = Self { bytes: entry.registration.clone(), line: made };
        }
        self.line
    }
}

/// Reads the next records after a key.
pub(super) async fn read_records(
    store: &impl MigrationSource,
    after: Option<&NameKey>,
) -> Result<Vec<(NameKey, StoredRecord)>, StoreError> {
    let (mut entries, mut size) = (Vec::new(), 0);
    let seen = |entry: &StoredRecord| {
        size += record_memory_size(entry);
        // Stored names are valid.
        entries.extend(NameKey::new(&entry.name).ok().map(|key| (key, entry.clone())));
        size < MAX_BATCH_BYTES && entries.len() < MAX_BATCH_ITEMS
    };
    store.scan_records(None, after, seen).await?;
    Ok(entries)
}

/// Names changed by log entries, sorted by key, without duplicates.
pub(super) fn record_names<'l>(lines: impl IntoIterator<Item = &'l LogEntry>) -> Vec<NameKey> {
    let lines = lines.into_iter().filter(|line| is_record_change(line.kind));
    sort_by_storage_key(lines.filter_map(|line| NameKey::new(&line.name).ok()))
}

fn sort_by_storage_key(names: impl Iterator<Item = NameKey>) -> Vec<NameKey> {
    let sorted: BTreeMap<_, _> = names.map(|key| (storage_key(&key).into_owned(), key)).collect();
    sorted.into_values().collect()
}
