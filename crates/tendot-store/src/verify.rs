//! Result of a verification, and checks shared by the stores.

use crate::{EditKind, LogEntry, StoreError, StoredRecord};

/// Maximum number of reported errors; further ones are only counted.
const MAX_REPORTED_ERRORS: usize = 1_000;

/// Result of a verification: counts, and the corruption found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VerifyReport {
    /// Live records.
    pub records: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Dictionary entries.
    pub dictionary_entries: u64,
    /// Homed prefixes.
    pub homed_prefixes: u64,
    /// Log entries.
    pub log_entries: u64,
    /// History entries.
    pub history_entries: u64,
    /// Aux entries.
    pub aux_entries: u64,
    /// Registrations, current and past.
    pub registrations: u64,
    /// Descriptions of the corruption found; at most 1,000.
    pub errors: Vec<String>,
    /// Number of corrupt items, including those not listed.
    pub error_count: u64,
}

impl VerifyReport {
    pub(crate) fn add_error(&mut self, error: impl ToString) {
        self.error_count += 1;
        if self.errors.len() < MAX_REPORTED_ERRORS {
            self.errors.push(error.to_string());
        }
    }

    /// Returns the value, or reports the error.
    pub(crate) fn check<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(StoreError::Corrupt { detail }) => {
                self.add_error(detail);
                None
            }
            Err(error) => {
                self.add_error(error);
                None
            }
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
