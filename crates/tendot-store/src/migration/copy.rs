//! Initial copy, and catch-up by the change log.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;

use super::batch::{
    MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MigratedHistoryEntry, MigratedRecord, history_memory_size,
    record_memory_size,
};
use super::checkpoint::MigrationStage;
use super::history_cursor::HistoryCursor;
use super::snapshot::{RecordAtPosition, SnapshotPosition};
use super::traits::{MigrationSource, MigrationTarget};
use super::{MAX_REMAINING_LOG_ENTRIES, MigrationError, MigrationReport, Migrator};
use crate::model::name_key::storage_key;
use crate::{
    EditKind, HistoryEntry, HistoryOrder, LogEntry, NameKey, PriorState, Store as _, StoreError, StoredRecord,
};

/// Maximum number of history entries that are searched for the one that introduced a registration.
const MAX_TRACKED_ENTRIES: usize = 4;

/// Maximum number of polls for a pending log entry, and delay between them.
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
                let records =
                    read_records(self.source, after.as_ref()).await.map_err(MigrationError::Source)?;
                let Some((last, _)) = records.last() else { break };
                after = Some(last.clone());
                let (names, records): (Vec<_>, Vec<_>) =
                    records.into_iter().map(|(key, record)| (key, Some(record))).unzip();
                self.copy_records_with_history(&names, records, 0).await?;
                self.checkpoint.stage = MigrationStage::Records(after.clone());
                self.flush().await?;
            }
            self.checkpoint.stage = MigrationStage::RemovedNames(0);
        }
        if let MigrationStage::RemovedNames(mut after) = self.checkpoint.stage {
            while let Some(log_entries) = self.read_source_log(after, self.checkpoint.copied_to).await? {
                let removals = log_entries.iter().filter(|log_entry| log_entry.kind == EditKind::Remove);
                self.copy_names(record_names(removals), true, 0).await?;
                after = log_entries.last().map_or(self.checkpoint.copied_to, |last| last.sequence);
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
                    return Err(MigrationError::SourceUnsettled);
                }
                sleep(SETTLE_POLL_DELAY).await;
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
        while let Some(log_entries) = self.read_source_log(after, end).await? {
            for log_entry in &log_entries {
                match log_entry.kind {
                    EditKind::Home | EditKind::Unhome => {
                        // An invalid prefix was never homed.
                        if let Ok(prefix) = NameKey::from_prefix(&log_entry.name) {
                            self.batch.homed.insert(prefix, log_entry.kind == EditKind::Home);
                        }
                    }
                    EditKind::Import => {
                        is_exact = false;
                        self.copy_imported(log_entry.revision).await?;
                    }
                    _ => {}
                }
            }
            // A redaction changes earlier states.
            let is_redaction = |log_entry: &&LogEntry| log_entry.kind == EditKind::Redact;
            let redacted = record_names(log_entries.iter().filter(is_redaction));
            let (whole, changed): (Vec<_>, Vec<_>) =
                record_names(&log_entries).into_iter().partition(|name| redacted.contains(name));
            self.copy_names(whole, false, 0).await?;
            self.copy_names(changed, false, self.copied_histories_to).await?;
            self.flush().await?;
            after = log_entries.last().map_or(end, |last| last.sequence);
        }
        self.checkpoint.copied_to = end;
        self.flush().await?;
        if is_exact {
            // Otherwise names that were changed after an import and after `end` still lack the history entry of the import.
            self.copied_histories_to = end;
        }
        Ok(is_exact)
    }

    /// Copies the records of an import that are unchanged since; the others have later log entries.
    async fn copy_imported(&mut self, revision: u64) -> Result<(), MigrationError> {
        let mut after = None;
        loop {
            let page = self.source.names_at_revision(revision, after.as_ref(), MAX_BATCH_ITEMS).await;
            let page = page.map_err(MigrationError::Source)?;
            let names = page.names.iter().filter_map(|entry| NameKey::new(&entry.name).ok());
            self.copy_names(sort_by_storage_key(names), false, 0).await?;
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Copies the log up to a sequence number and moves the position there.
    pub(super) async fn copy_log(&mut self, end: u64) -> Result<(), MigrationError> {
        let mut after = self.target.store().head().await.map_err(MigrationError::Target)?.sequence;
        while let Some(log_entries) = self.read_source_log(after, end).await? {
            after = log_entries.last().map_or(end, |last| last.sequence);
            self.batch.log_entries = log_entries;
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
        let log_entries =
            self.source.read_log(after, left.min(MAX_BATCH_ITEMS)).await.map_err(MigrationError::Source)?;
        if log_entries.is_empty() {
            let detail = format!("log entry {} missing", after + 1);
            return Err(MigrationError::Source(StoreError::Corrupt { detail }));
        }
        Ok(Some(log_entries))
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

    /// Copies names with sorted keys: all, or only those without a record. The target has their histories up to `base`.
    async fn copy_names(
        &mut self,
        names: Vec<NameKey>,
        only_removed: bool,
        base: u64,
    ) -> Result<(), MigrationError> {
        let mut rest = names;
        while !rest.is_empty() {
            let records = self.source.read_records(&rest).await.map_err(MigrationError::Source)?;
            let later = rest.split_off(records.len().clamp(1, rest.len()));
            let selected =
                rest.into_iter().zip(records).filter(|(_, record)| !only_removed || record.is_none());
            let (names, records): (Vec<_>, Vec<_>) = selected.unzip();
            let whole = self.copy_records_with_history(&names, records, base).await?;
            let records = self.source.read_records(&whole).await.map_err(MigrationError::Source)?;
            // Remaining large records.
            let unread = whole.get(records.len()..).unwrap_or_default().to_vec();
            self.copy_records_with_history(&whole, records, 0).await?;
            self.flush().await?;
            rest = unread;
            rest.extend(later);
        }
        Ok(())
    }

    /// Copies names with sorted keys, with their histories after `base`; `records` are their current records. Returns the names
    /// that have to be copied with their whole histories instead.
    async fn copy_records_with_history(
        &mut self,
        names: &[NameKey],
        records: Vec<Option<StoredRecord>>,
        base: u64,
    ) -> Result<Vec<NameKey>, MigrationError> {
        let mut histories = HistoryCursor::new(self.source, names, base);
        let mut whole = Vec::new();
        for (index, (key, current)) in names.iter().zip(records).enumerate() {
            let mut registration = RegistrationTracker::default();
            let mut previous: Option<u64> = None;
            let mut later = None;
            let mut next = histories.next_for(index).await.map_err(MigrationError::Source)?;
            if base > 0 {
                let Some(start) = self.tracker_at(key, next.as_ref(), base).await? else {
                    whole.push(key.clone());
                    continue;
                };
                (registration, previous) = (start, Some(base));
            }
            while let Some(history_entry) = next {
                if !self.position.includes(&history_entry) {
                    later = Some(history_entry);
                    break;
                }
                let registration_sequence = match &history_entry.prior {
                    PriorState::Record(record) => registration.origin_of(record, previous),
                    PriorState::Absent => None,
                };
                let is_first = previous.is_none();
                previous = Some(history_entry.log_entry.sequence);
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
                next = histories.next_for(index).await.map_err(MigrationError::Source)?;
            }
            match self.position.record_at(current, later) {
                RecordAtPosition::Known(record) => {
                    let migrated = record.map(|record| {
                        self.batch.size += record_memory_size(&record);
                        MigratedRecord {
                            registration_sequence: registration.origin_of(&record, previous),
                            record,
                        }
                    });
                    self.batch.records.push((key.clone(), migrated));
                }
                RecordAtPosition::Undetermined => self.has_undetermined = true,
            }
        }
        Ok(whole)
    }

    /// Tracker of the registrations of a name whose history is copied after `base`, where `first` is the first entry; `None` if
    /// the whole history is needed.
    async fn tracker_at(
        &self,
        key: &NameKey,
        first: Option<&HistoryEntry>,
        base: u64,
    ) -> Result<Option<RegistrationTracker>, MigrationError> {
        // A new name has a short history. Without an entry, the record was not changed since.
        let Some(HistoryEntry { prior: PriorState::Record(record), .. }) = first else { return Ok(None) };
        let bytes = record.registration.clone();
        if bytes.is_empty() {
            return Ok(Some(RegistrationTracker::default()));
        }
        // The registry changes the registration with every write, so that the last entry usually introduced it.
        let order = HistoryOrder::NewestFirst { before: base.saturating_add(1) };
        let earlier = self.source.history(key, order, MAX_TRACKED_ENTRIES).await;
        let earlier = earlier.map_err(MigrationError::Source)?.entries;
        let introduced = earlier.iter().find(|entry| match &entry.prior {
            PriorState::Record(before) => before.registration != bytes,
            PriorState::Absent => true,
        });
        Ok(introduced.map(|entry| RegistrationTracker { bytes, sequence: Some(entry.log_entry.sequence) }))
    }
}

/// Sleeps without blocking other tasks. Works without a runtime, since embedded stores need none.
async fn sleep(duration: Duration) {
    let (sender, receiver) = oneshot::channel();
    let sleep = move || {
        std::thread::sleep(duration);
        // The migration may have been cancelled.
        let _ = sender.send(());
    };
    match std::thread::Builder::new().name("tendot-sleep".into()).spawn(sleep) {
        Ok(_) => drop(receiver.await),
        Err(_) => std::thread::sleep(duration),
    }
}

/// Last registration seen of a name, and the log entry that introduced it.
#[derive(Default)]
struct RegistrationTracker {
    bytes: Box<[u8]>,
    sequence: Option<u64>,
}

impl RegistrationTracker {
    /// Sequence number of the log entry that introduced a record's registration.
    fn origin_of(&mut self, record: &StoredRecord, written_by: Option<u64>) -> Option<u64> {
        if record.registration.is_empty() {
            return None;
        }
        if record.registration != self.bytes {
            *self = Self { bytes: record.registration.clone(), sequence: written_by };
        }
        self.sequence
    }
}

/// Reads the next records after a key.
pub(super) async fn read_records(
    store: &impl MigrationSource,
    after: Option<&NameKey>,
) -> Result<Vec<(NameKey, StoredRecord)>, StoreError> {
    let (mut records, mut size) = (Vec::new(), 0);
    let visit = |record: &StoredRecord| {
        size += record_memory_size(record);
        // Stored names are valid.
        records.extend(NameKey::new(&record.name).ok().map(|key| (key, record.clone())));
        size < MAX_BATCH_BYTES && records.len() < MAX_BATCH_ITEMS
    };
    store.scan_records(None, after, visit).await?;
    Ok(records)
}

/// Names changed by log entries, sorted by key, without duplicates.
pub(super) fn record_names<'l>(log_entries: impl IntoIterator<Item = &'l LogEntry>) -> Vec<NameKey> {
    let changes = log_entries.into_iter().filter(|log_entry| log_entry.kind.is_record_change());
    sort_by_storage_key(changes.filter_map(|log_entry| NameKey::new(&log_entry.name).ok()))
}

fn sort_by_storage_key(names: impl Iterator<Item = NameKey>) -> Vec<NameKey> {
    let sorted: BTreeMap<_, _> = names.map(|key| (storage_key(&key).into_owned(), key)).collect();
    sorted.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn sleep_does_not_block() {
        let mut sleeping = pin!(sleep(Duration::from_millis(20)));
        assert!(sleeping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        pollster::block_on(sleeping);
    }
}
