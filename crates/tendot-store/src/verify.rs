//! Result of a verification, and checks shared by the stores.

use crate::{EditKind, LogEntry, RecordStatus, StoreError, StoreHead, StoredRecord};

/// Maximum number of reported errors; further ones are only counted.
const MAX_REPORTED_ERRORS: usize = 1_000;

/// Result of a verification: counts, and the corruption found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VerifyReport {
    /// Live records.
    pub records: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Values of the live records.
    pub values: u64,
    /// Dictionary entries.
    pub dictionary_entries: u64,
    /// Homed prefixes.
    pub homed_prefixes: u64,
    /// Log entries.
    pub log_entries: u64,
    /// Changes in the histories of all names.
    pub history_entries: u64,
    /// Aux entries.
    pub aux_entries: u64,
    /// Names with a registration.
    pub registrations: u64,
    /// Descriptions of the corruption found; at most 1,000.
    pub errors: Vec<String>,
    /// Number of corrupt items, including those not listed.
    pub error_count: u64,
    /// Names whose records are corrupt; at most 1,000.
    pub damaged_names: Vec<Box<str>>,
    /// Number of corrupt items that are name hashes, which can be recomputed from the records.
    pub name_hash_errors: u64,
}

impl VerifyReport {
    /// Adds a description of corruption.
    pub fn add_error(&mut self, error: impl ToString) {
        self.error_count += 1;
        if self.errors.len() < MAX_REPORTED_ERRORS {
            self.errors.push(error.to_string());
        }
    }

    /// Adds a name whose record is corrupt.
    pub(crate) fn add_damaged_name(&mut self, name: &str) {
        if self.damaged_names.len() < MAX_REPORTED_ERRORS {
            self.damaged_names.push(name.into());
        }
    }

    /// Adds a description of a corrupt name hash.
    pub(crate) fn add_name_hash_error(&mut self, error: impl ToString) {
        self.name_hash_errors += 1;
        self.add_error(error);
    }

    /// Counts a record, and the change that made it, see [`HistoryCounter`].
    pub(crate) fn count_record(&mut self, record: &StoredRecord) {
        match record.status {
            RecordStatus::Live => {
                self.records += 1;
                self.values += record.values.len() as u64;
            }
            RecordStatus::Tombstone => self.tombstones += 1,
        }
        self.history_entries += 1;
        self.registrations += u64::from(!record.registration.is_empty());
    }

    /// Returns the value, or reports the error.
    pub(crate) fn check<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.add_error(error.detail());
                None
            }
        }
    }
}

/// Counts changes in histories, including creations without a history entry.
///
/// A record counts as one change when it is read; the entries of its name then correct that.
#[derive(Debug, Default)]
pub(crate) struct HistoryCounter {
    name: Vec<u8>,
    /// Whether the name has a record after the last entry that was counted.
    is_present: bool,
    /// Whether it has a record now.
    is_counted: bool,
}

impl HistoryCounter {
    /// Counts an entry; they come name by name, oldest first. `has_record` is called for each name.
    pub(crate) fn count(
        &mut self,
        report: &mut VerifyReport,
        name: &[u8],
        (kind, has_prior): (EditKind, bool),
        has_record: impl FnOnce() -> bool,
    ) {
        if self.name != name {
            self.finish(report);
            *self = Self { name: name.into(), is_present: false, is_counted: has_record() };
        }
        let is_created = has_prior && !self.is_present;
        report.history_entries += 1 + u64::from(is_created);
        self.is_present = match kind {
            EditKind::Remove => false,
            EditKind::Redact => has_prior,
            _ => true,
        };
    }

    /// Ends the history of the last name.
    pub(crate) fn finish(&mut self, report: &mut VerifyReport) {
        let is_counted_twice = std::mem::take(&mut self.is_counted) && self.is_present;
        report.history_entries = report.history_entries.saturating_sub(is_counted_twice.into());
    }
}

/// Checks the change log entry by entry: sequence numbers, revisions and the audit chain.
#[derive(Debug, Default)]
pub struct LogVerifier {
    /// Last entry that was checked.
    last: StoreHead,
    /// Whether the hash of the last entry is unknown, because it is missing or unreadable.
    is_broken: bool,
}

impl LogVerifier {
    /// Verifier of a part of the log, after this sequence number. The hash of the entry before is not known.
    pub fn starting_after(sequence: u64) -> Self {
        Self { last: StoreHead { sequence, ..StoreHead::default() }, is_broken: sequence > 0 }
    }

    /// Sequence number of the last entry that was checked.
    pub(crate) const fn sequence(&self) -> u64 {
        self.last.sequence
    }

    /// Checks the next entry, or reports why it cannot be decoded.
    pub fn check(&mut self, report: &mut VerifyReport, sequence: u64, entry: Result<LogEntry, String>) {
        report.log_entries += 1;
        let expected = self.last.sequence.saturating_add(1);
        if sequence != expected {
            report.add_error(format!("log entry {expected} missing, found {sequence}"));
        }
        self.is_broken |= sequence != expected;
        self.last.sequence = sequence;
        let entry = match entry {
            Ok(entry) => entry,
            Err(fault) => {
                report.add_error(format!("log entry {sequence}: {fault}"));
                self.is_broken = true;
                return;
            }
        };
        if entry.revision < self.last.revision {
            report.add_error(format!("log entry {sequence}: revision decreases"));
        }
        if entry.link.content_digest != entry.compute_content_digest() {
            report.add_error(format!("log entry {sequence}: content does not match its digest"));
        }
        if !self.is_broken && entry.link.previous_hash != self.last.log_hash {
            report.add_error(format!(
                "log entry {sequence}: previous hash does not match log entry {}",
                expected - 1
            ));
        }
        self.is_broken = false;
        self.last = StoreHead { revision: entry.revision, sequence, log_hash: entry.link.hash() };
    }

    /// Checks the end of the log, unless entries were appended since.
    pub(crate) fn check_head(&self, report: &mut VerifyReport, head: &StoreHead) {
        if head.sequence == self.last.sequence && !self.is_broken && head.log_hash != self.last.log_hash {
            report.add_error(format!("last log entry {}: hash does not match the head", head.sequence));
        }
    }
}

/// Finds a contradiction between a log entry, the prior record, and the revision of the resulting record.
pub(crate) fn find_inconsistency(
    log_entry: &LogEntry,
    prior: Option<&StoredRecord>,
    resulting_revision: Option<u64>,
) -> Option<&'static str> {
    if prior.is_some_and(|prior| prior.revision > log_entry.revision) {
        return Some("prior state is newer than the change");
    }
    match resulting_revision {
        None if log_entry.kind != EditKind::Remove => Some("resulting record is missing"),
        Some(revision) if revision < log_entry.revision => Some("resulting record is older than the change"),
        _ => None,
    }
}
