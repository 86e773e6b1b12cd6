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
    pub parts: u64,
    /// Homed prefixes.
    pub prefixes: u64,
    /// Log entries.
    pub lines: u64,
    /// History entries.
    pub history: u64,
    /// Aux entries.
    pub notes: u64,
    /// Registrations, current and past.
    pub registrations: u64,
    /// Corruption found; at most 1,000 items.
    pub damage: Vec<String>,
    /// Number of corrupt items, including those not listed.
    pub damaged: u64,
}

impl VerifyReport {
    pub(crate) fn report(&mut self, what: impl ToString) {
        self.damaged += 1;
        if self.damage.len() < MAX_REPORTED_ERRORS {
            self.damage.push(what.to_string());
        }
    }

    /// Returns the value, or reports the error.
    pub(crate) fn check<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        match result {
            Ok(right) => Some(right),
            Err(StoreError::Damaged { what }) => {
                self.report(what);
                None
            }
            Err(error) => {
                self.report(error);
                None
            }
        }
    }
}

/// Finds a contradiction between a log entry, the record before it, and the revision of the record after it.
pub(crate) fn find_inconsistency(
    line: &LogEntry,
    before: Option<&StoredRecord>,
    after: Option<u64>,
) -> Option<&'static str> {
    if before.is_some_and(|before| before.revision > line.revision) {
        return Some("what was there before came later");
    }
    match after {
        None if line.kind != EditKind::Remove => Some("what it made is not there"),
        Some(after) if after < line.revision => Some("what was there after it came earlier"),
        _ => None,
    }
}
