//! Result of a verification, and checks shared by the stores.

use crate::{EditKind, LogEntry, StoreError, StoredRecord};

/// Damage that is told one by one; the rest is counted.
const MAX_REPORTED_ERRORS: usize = 1_000;

/// Result of a verification: counts, and the corruption found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VerifyReport {
    /// Records that resolve.
    pub records: u64,
    /// Names that have been ended.
    pub tombstones: u64,
    /// What records share.
    pub parts: u64,
    /// Homed prefixes.
    pub prefixes: u64,
    /// Lines of the log.
    pub lines: u64,
    /// Changes with what was there before them.
    pub history: u64,
    /// Notes.
    pub notes: u64,
    /// What the registry knows of names, or knew.
    pub registrations: u64,
    /// Damage, what and where; at most 1,000.
    pub damage: Vec<String>,
    /// How much damage there is in all.
    pub damaged: u64,
}

impl VerifyReport {
    pub(crate) fn report(&mut self, what: impl ToString) {
        self.damaged += 1;
        if self.damage.len() < MAX_REPORTED_ERRORS {
            self.damage.push(what.to_string());
        }
    }

    /// Keeps what is right, and tells of what is not.
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

/// What is wrong with a change, by what was there before, and the revision of what was there after it.
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
