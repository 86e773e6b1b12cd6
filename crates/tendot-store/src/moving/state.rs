//! What was under a name when the log had so many lines, though it may have changed since.

use crate::{Before, Entry, Past};

/// What was there.
#[derive(Debug)]
pub(super) enum Then {
    /// This, or nothing.
    Known(Option<Entry>),
    /// That cannot be told now: there is a later line about it, or will be one. When that has been reached, it can.
    Unsettled,
}

/// Up to where a source is looked at: a line of the log, and the revision of the change that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) sequence: u64,
    pub(super) revision: u64,
}

impl Limit {
    pub(super) const fn has(self, past: &Past) -> bool {
        past.line.sequence <= self.sequence
    }

    /// What was there, by what is there now, or was a moment ago, and the first change after the limit, if there is one by now.
    pub(super) fn then(self, now: Option<Entry>, later: Option<Past>) -> Then {
        match (later.map(|past| past.before), now) {
            // The records of an import that is under way are there before its line.
            (None, Some(entry)) if entry.revision > self.revision => Then::Unsettled,
            (None, now) => Then::Known(now),
            (Some(Before::Nothing), _) => Then::Known(None),
            // Secrets are not in histories.
            (Some(Before::Record(entry)), _) if !entry.values.iter().any(|v| v.has_type("HS_SECKEY")) => {
                Then::Known(Some(entry))
            }
            (Some(_), _) => Then::Unsettled,
        }
    }
}
