//! Compares source and target at the log position of the target.

use super::batch::MAX_BATCH_ITEMS;
use super::copy::{read_records, record_names};
use super::history_cursor::HistoryCursor;
use super::snapshot::RecordAtPosition;
use super::traits::{MigrationSource, MigrationTarget};
use super::{MigrationError, MigrationReport, Migrator};
use crate::model::name_key::storage_key;
use crate::{EditKind, LogEntry, NameKey, Store as _, StoredRecord};

/// Maximum number of retries for names that change meanwhile.
const MAX_COMPARE_ATTEMPTS: u32 = 100;

/// Current record of one name in source and target.
struct RecordPair {
    key: NameKey,
    source: Option<StoredRecord>,
    target: Option<StoredRecord>,
}

impl<S: MigrationSource, T: MigrationTarget, P: FnMut(&MigrationReport) + Send> Migrator<'_, S, T, P> {
    /// Compares everything not compared yet, and advances the checkpoint if there are no differences.
    pub(super) async fn compare(&mut self) -> Result<(), MigrationError> {
        // Later changes are compared in the next round.
        let (from, end) = (self.checkpoint.compared_to, self.checkpoint.copied_to);
        let is_all = from == 0 || self.has_import(from, end).await?;
        self.compare_log(if is_all { 0 } else { from }, end, is_all).await?;
        if is_all {
            self.compare_records().await?;
        }
        self.compare_homed().await?;
        if self.report.difference_count == 0 {
            self.checkpoint.compared_to = end;
            self.flush().await?;
        }
        Ok(())
    }

    /// Whether the log has an import: its entry does not list the names.
    async fn has_import(&self, mut after: u64, end: u64) -> Result<bool, MigrationError> {
        while let Some(log_entries) = self.read_source_log(after, end).await? {
            if log_entries.iter().any(|log_entry| log_entry.kind == EditKind::Import) {
                return Ok(true);
            }
            after = log_entries.last().map_or(end, |last| last.sequence);
        }
        Ok(false)
    }

    /// Compares log entries and their names: all, or only removed ones, since the others are compared by `compare_records`.
    async fn compare_log(
        &mut self,
        mut after: u64,
        end: u64,
        only_removed: bool,
    ) -> Result<(), MigrationError> {
        let base = after;
        while let Some(source) = self.read_source_log(after, end).await? {
            let target =
                self.target.store().read_log(after, source.len()).await.map_err(MigrationError::Target)?;
            for (index, log_entry) in source.iter().enumerate() {
                if target.get(index) != Some(log_entry) {
                    self.report_difference(format!("log entry {}", log_entry.sequence));
                }
            }
            let is_wanted = |kind| !only_removed || kind == EditKind::Remove;
            let names = record_names(source.iter().filter(|log_entry| is_wanted(log_entry.kind)));
            // Earlier entries have been compared, unless they were redacted.
            let is_redaction = |log_entry: &&LogEntry| log_entry.kind == EditKind::Redact;
            let redacted = record_names(source.iter().filter(is_redaction));
            let (whole, changed): (Vec<_>, Vec<_>) =
                names.into_iter().partition(|name| redacted.contains(name));
            self.compare_names(whole, only_removed, 0).await?;
            self.compare_names(changed, only_removed, base).await?;
            after = source.last().map_or(end, |last| last.sequence);
        }
        Ok(())
    }

    /// Compares all records and their histories.
    async fn compare_records(&mut self) -> Result<(), MigrationError> {
        let mut after: Option<NameKey> = None;
        loop {
            let source = read_records(self.source, after.as_ref()).await.map_err(MigrationError::Source)?;
            let target =
                read_records(self.target.store(), after.as_ref()).await.map_err(MigrationError::Target)?;
            // Both have been read up to here.
            let last = |records: &[(NameKey, StoredRecord)]| records.last().map(|(key, _)| key.clone());
            let ends = [last(&source), last(&target)].into_iter().flatten();
            let Some(end) = ends.min_by(|a, b| storage_key(a).cmp(&storage_key(b))) else { return Ok(()) };
            let end_key = storage_key(&end).into_owned();
            // If one store is at its end, the rest of the other is compared.
            let is_cut = !source.is_empty() && !target.is_empty();
            let within = |(key, _): &(NameKey, StoredRecord)| !is_cut || *storage_key(key) <= *end_key;
            let (source, target) = (source.into_iter().filter(within), target.into_iter().filter(within));
            let pairs = pair_by_key(source, target);
            after = pairs.last().map(|pair| pair.key.clone());
            self.compare_pairs(pairs, 0).await?;
        }
    }

    async fn compare_names(
        &mut self,
        names: Vec<NameKey>,
        only_removed: bool,
        base: u64,
    ) -> Result<(), MigrationError> {
        let mut rest = names;
        while !rest.is_empty() {
            let source = self.source.read_records(&rest).await.map_err(MigrationError::Source)?;
            let target = self.target.store().read_records(&rest).await.map_err(MigrationError::Target)?;
            let later = rest.split_off(source.len().min(target.len()).clamp(1, rest.len()));
            let both = rest.into_iter().zip(source.into_iter().zip(target));
            let pairs = both.map(|(key, (source, target))| RecordPair { key, source, target });
            let is_wanted = |pair: &RecordPair| !only_removed || pair.source.is_none();
            self.compare_pairs(pairs.filter(is_wanted).collect(), base).await?;
            rest = later;
        }
        Ok(())
    }

    /// Compares names with their histories after `base`; names that changed meanwhile are compared again after catch-up.
    async fn compare_pairs(&mut self, pairs: Vec<RecordPair>, base: u64) -> Result<(), MigrationError> {
        self.report.compared += pairs.len() as u64;
        let mut undetermined = self.compare_determined(pairs, base).await?;
        for _ in 0..MAX_COMPARE_ATTEMPTS {
            if undetermined.is_empty() {
                (self.progress)(&self.report);
                return Ok(());
            }
            self.has_undetermined = true;
            self.catch_up().await?;
            let mut again = Vec::new();
            for key in undetermined {
                let name = std::slice::from_ref(&key);
                let source =
                    self.source.read_records(name).await.map_err(MigrationError::Source)?.pop().flatten();
                let target = self
                    .target
                    .store()
                    .read_records(name)
                    .await
                    .map_err(MigrationError::Target)?
                    .pop()
                    .flatten();
                again.extend(self.compare_determined(vec![RecordPair { key, source, target }], base).await?);
            }
            undetermined = again;
        }
        Err(MigrationError::SourceUnsettled)
    }

    /// Compares names; returns those whose state is undetermined.
    async fn compare_determined(
        &mut self,
        pairs: Vec<RecordPair>,
        base: u64,
    ) -> Result<Vec<NameKey>, MigrationError> {
        let names: Vec<NameKey> = pairs.iter().map(|pair| pair.key.clone()).collect();
        let mut differences = Vec::new();
        let mut undetermined = Vec::new();
        let (mut source, mut target) = (
            HistoryCursor::new(self.source, &names, base),
            HistoryCursor::new(self.target.store(), &names, base),
        );
        for (index, pair) in pairs.into_iter().enumerate() {
            let mut later = None;
            let mut first_difference = None;
            loop {
                let history_entry = source.next_for(index).await.map_err(MigrationError::Source)?;
                let is_later = history_entry
                    .as_ref()
                    .is_some_and(|history_entry| !self.position.includes(history_entry));
                let target_entry = target.next_for(index).await.map_err(MigrationError::Target)?;
                let expected = if is_later { None } else { history_entry.as_ref() };
                if expected != target_entry.as_ref() && first_difference.is_none() {
                    first_difference = expected
                        .or(target_entry.as_ref())
                        .map(|history_entry| history_entry.log_entry.sequence);
                }
                if is_later {
                    later = history_entry;
                    break;
                }
                if history_entry.is_none() {
                    break;
                }
            }
            let expected = match self.position.record_at(pair.source, later) {
                RecordAtPosition::Known(expected) => expected,
                RecordAtPosition::Undetermined => {
                    undetermined.push(pair.key);
                    continue;
                }
            };
            if first_difference.is_none() && expected == pair.target {
                continue;
            }
            if self.is_redacted_later(&pair.key).await? {
                undetermined.push(pair.key);
                continue;
            }
            if let Some(sequence) = first_difference {
                differences.push(format!("history of `{}` at log entry {sequence}", pair.key));
            }
            let detail = match (expected, pair.target) {
                (expected, target) if expected == target => continue,
                (Some(_), Some(_)) => "",
                (Some(_), None) => ": missing in the target",
                _ => ": not in the source",
            };
            differences.push(format!("record `{}`{detail}", pair.key));
        }
        differences.into_iter().for_each(|difference| self.report_difference(difference));
        Ok(undetermined)
    }

    /// Whether the history of a name was redacted after the position: that changes states before it.
    async fn is_redacted_later(&self, key: &NameKey) -> Result<bool, MigrationError> {
        let end = self.source.head().await.map_err(MigrationError::Source)?.sequence;
        let mut after = self.position.sequence;
        while let Some(log_entries) = self.read_source_log(after, end).await? {
            let redactions = log_entries.iter().filter(|log_entry| log_entry.kind == EditKind::Redact);
            if record_names(redactions).contains(key) {
                return Ok(true);
            }
            after = log_entries.last().map_or(end, |last| last.sequence);
        }
        Ok(false)
    }

    /// Compares the homed prefixes; again if they changed meanwhile.
    async fn compare_homed(&mut self) -> Result<(), MigrationError> {
        for attempts in 1.. {
            let Some(prefix) = self.first_homed_difference().await? else { break };
            let end = self.checkpoint.copied_to;
            self.catch_up().await?;
            if self.checkpoint.copied_to == end || attempts > MAX_COMPARE_ATTEMPTS {
                self.report_difference(format!("homing of prefix `{prefix}`"));
                break;
            }
        }
        Ok(())
    }

    /// Returns the first prefix that is homed in one store only.
    async fn first_homed_difference(&self) -> Result<Option<Box<str>>, MigrationError> {
        let mut after: Option<Box<str>> = None;
        loop {
            let from = after.as_deref().map(str::as_bytes);
            let source =
                self.source.list_homed(from, MAX_BATCH_ITEMS).await.map_err(MigrationError::Source)?;
            let target = self
                .target
                .store()
                .list_homed(from, MAX_BATCH_ITEMS)
                .await
                .map_err(MigrationError::Target)?;
            if source != target {
                let missing = source.iter().find(|prefix| !target.contains(prefix));
                return Ok(missing
                    .or_else(|| target.iter().find(|prefix| !source.contains(prefix)))
                    .cloned());
            }
            after = source.into_iter().last();
            if after.is_none() {
                return Ok(None);
            }
        }
    }
}

/// Pairs records of both stores by name, in key order.
fn pair_by_key(
    source: impl Iterator<Item = (NameKey, StoredRecord)>,
    target: impl Iterator<Item = (NameKey, StoredRecord)>,
) -> Vec<RecordPair> {
    let (mut source, mut target) = (source.peekable(), target.peekable());
    let mut pairs = Vec::new();
    loop {
        let order = match (source.peek(), target.peek()) {
            (Some((a, _)), Some((b, _))) => storage_key(a).cmp(&storage_key(b)),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return pairs,
        };
        let source_item = if order.is_le() { source.next() } else { None };
        let target_item = if order.is_ge() { target.next() } else { None };
        let key = source_item.as_ref().or(target_item.as_ref()).map(|(key, _)| key.clone());
        let (source, target) = (source_item.map(|(_, record)| record), target_item.map(|(_, record)| record));
        pairs.extend(key.map(|key| RecordPair { key, source, target }));
    }
}
