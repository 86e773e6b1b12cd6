//! Change set, edits, preconditions and size limits.

use tendot_proto::HandleValue;

use crate::{CommitError, NameKey, NameKeyError, RecordStatus};

/// Maximum size of a record (values in wire form, plus registration) or of an aux entry.
pub(crate) const MAX_RECORD_BYTES: usize = 4 << 20;

/// Change set: edits that are committed in one transaction, or not at all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChangeSet {
    /// Author, for the log and audits.
    pub author: Box<str>,
    /// Time in milliseconds since the Unix epoch. Change sets are ordered by revision, not by time.
    pub timestamp_ms: u64,
    /// Edits in order; each sees the effects of those before it. A change set with preconditions only gets no revision of its
    /// own.
    pub edits: Vec<Edit>,
}

impl ChangeSet {
    /// Number of edits that are not preconditions.
    pub(crate) fn write_count(&self) -> usize {
        self.edits.iter().filter(|edit| !edit.is_precondition()).count()
    }

    /// Approximate memory size in bytes.
    pub(crate) fn memory_size(&self) -> usize {
        let content = |edit: &Edit| match edit {
            Edit::Put { values, .. } => values_memory_size(values),
            Edit::Register { values, registration, .. } => values_memory_size(values) + registration.len(),
            Edit::Redact { mark, registration, prior_registration, history, .. } => {
                let registrations =
                    history.iter().map(|(_, registration)| size_of::<u64>() + registration.len());
                let current = registration.len() + prior_registration.len();
                values_memory_size(std::slice::from_ref(mark)) + current + registrations.sum::<usize>()
            }
            Edit::PutAux { key, value } => key.len() + value.len(),
            Edit::RemoveAux { key } | Edit::AdjustCounter { key, .. } => key.len(),
            Edit::RequireAux { key, value } => key.len() + value.as_ref().map_or(0, |value| value.len()),
            _ => 0,
        };
        let edits = self.edits.iter().map(|edit| size_of_val(edit) + edit.name().len() + content(edit));
        size_of_val(self) + self.author.len() + edits.sum::<usize>()
    }
}

fn values_memory_size(values: &[HandleValue<'_>]) -> usize {
    let size = |value: &HandleValue<'_>| size_of_val(value) + value.data.len() + value.value_type.len();
    values.iter().map(size).sum()
}

/// One operation of a change set: a write or a precondition.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Edit {
    /// Replaces all values of a record; its spelling and registration stay.
    Put {
        /// Name of the record.
        name: Box<str>,
        /// New values, in order.
        values: Vec<HandleValue<'static>>,
        /// Precondition on the current record.
        precondition: Precondition,
    },
    /// Replaces all values and the registration of a record.
    Register {
        /// Name of the record.
        name: Box<str>,
        /// New values, in order.
        values: Vec<HandleValue<'static>>,
        /// New registration; see [`StoredRecord::registration`](crate::StoredRecord::registration).
        registration: Box<[u8]>,
        /// Precondition on the current record.
        precondition: Precondition,
    },
    /// Makes a record a tombstone: the name never resolves again. Its last values and its registration stay.
    Tombstone {
        /// Name of the record.
        name: Box<str>,
        /// Precondition on the current record.
        precondition: Precondition,
    },
    /// Removes a record; its name may be registered again. Log and history stay.
    Remove {
        /// Name of the record.
        name: Box<str>,
        /// Precondition on the current record.
        precondition: Precondition,
    },
    /// Redacts the history of a record: replaces the values of its prior states by a mark, and their registrations. Log entries,
    /// and with them the audit chain, stay. The record gets a new revision, also as a tombstone; a removed name has only its
    /// history redacted.
    ///
    /// The caller requires the revision that it read ([`Edit::RequireRevision`]), so that no prior state is missing.
    Redact {
        /// Name of the record.
        name: Box<str>,
        /// Value that replaces those of each prior state.
        mark: HandleValue<'static>,
        /// Whether the values of the record itself are replaced, too.
        redacts_current: bool,
        /// New registration of the record.
        registration: Box<[u8]>,
        /// Registration of the state before this edit, in the history.
        prior_registration: Box<[u8]>,
        /// Prior states to redact: sequence number of the log entry, and new registration. Others stay.
        history: Vec<(u64, Box<[u8]>)>,
    },
    /// Homes a prefix here.
    Home {
        /// The prefix, such as `10.1000`; or `0.NA/0.NA/10.1000` for the prefixes derived from it.
        prefix: Box<str>,
    },
    /// Ends the homing of a prefix; its records stay.
    Unhome {
        /// The prefix, without a slash.
        prefix: Box<str>,
    },
    /// Precondition: the record of a name still has the revision that was read. Writes nothing and is not logged.
    RequireRevision {
        /// Name of the record.
        name: Box<str>,
        /// Expected revision of the record or tombstone; `None` if there must be no record.
        revision: Option<u64>,
    },
    /// Precondition: a prefix is still homed or not homed. Writes nothing.
    RequireHomed {
        /// The prefix.
        prefix: Box<str>,
        /// Expected state.
        is_homed: bool,
    },
    /// Writes an aux entry. Aux entries have no history, revision or log entry.
    PutAux {
        /// Key: 1 to [`AuxEntry::MAX_KEY_LEN`](crate::AuxEntry::MAX_KEY_LEN) bytes.
        key: Box<[u8]>,
        /// New value.
        value: Box<[u8]>,
    },
    /// Removes an aux entry.
    RemoveAux {
        /// Key of the aux entry.
        key: Box<[u8]>,
    },
    /// Adds to and subtracts from the [`AuxCounter`](crate::AuxCounter) in an aux entry. Unlike a precondition on its value, this
    /// does not conflict with other change sets that adjust the counter, as long as the limit is kept.
    ///
    /// Fails with [`CommitError::AuxConflict`] if something is added and the count would exceed the limit. Without an entry, it
    /// fails if there is a limit, and otherwise does nothing.
    AdjustCounter {
        /// Key of the aux entry.
        key: Box<[u8]>,
        /// Amount to add.
        added: u64,
        /// Amount to subtract.
        subtracted: u64,
        /// Maximum count.
        limit: Option<u64>,
    },
    /// Precondition: an aux entry still has the value that was read.
    RequireAux {
        /// Key of the aux entry.
        key: Box<[u8]>,
        /// Expected value; `None` if there must be no entry.
        value: Option<Box<[u8]>>,
    },
}

impl Edit {
    /// Name or prefix that the edit refers to; empty for aux edits.
    pub fn name(&self) -> &str {
        match self {
            Self::Put { name, .. }
            | Self::Register { name, .. }
            | Self::Tombstone { name, .. }
            | Self::Remove { name, .. }
            | Self::Redact { name, .. }
            | Self::RequireRevision { name, .. } => name,
            Self::Home { prefix } | Self::Unhome { prefix } | Self::RequireHomed { prefix, .. } => prefix,
            Self::PutAux { .. }
            | Self::RemoveAux { .. }
            | Self::AdjustCounter { .. }
            | Self::RequireAux { .. } => "",
        }
    }

    /// Whether the edit writes nothing.
    pub(crate) const fn is_precondition(&self) -> bool {
        matches!(self, Self::RequireRevision { .. } | Self::RequireHomed { .. } | Self::RequireAux { .. })
    }

    /// Comparison key of the edit's name or prefix.
    pub fn name_key(&self) -> Result<NameKey, NameKeyError> {
        match self {
            Self::Home { .. } | Self::Unhome { .. } | Self::RequireHomed { .. } => {
                NameKey::from_prefix(self.name())
            }
            _ => NameKey::new(self.name()),
        }
    }
}

/// Precondition of a write on the current record (compare-and-set).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Precondition {
    /// A live record or none; a tombstone fails.
    NotTombstone,
    /// No record and no tombstone: the name is new.
    Absent,
    /// A live record of any revision.
    Live,
    /// A live record of this revision.
    AtRevision(u64),
}

impl Precondition {
    /// Whether the precondition holds for the current record.
    pub(crate) fn is_satisfied_by(self, current: Option<(u64, RecordStatus)>) -> bool {
        match (self, current) {
            (Self::NotTombstone | Self::Absent, None) => true,
            (Self::NotTombstone | Self::Live, Some((_, status))) => status == RecordStatus::Live,
            (Self::AtRevision(expected), Some((revision, status))) => {
                expected == revision && status == RecordStatus::Live
            }
            _ => false,
        }
    }
}

/// Result of a durable commit: the revision it was given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommitInfo {
    /// Revision of the change set and of all records it wrote; that of the last change set if it wrote no record.
    pub revision: u64,
}

/// Checks that values and registration, or the value of an aux entry, are within [`MAX_RECORD_BYTES`].
pub(crate) fn check_size(
    edit: usize,
    values: &[HandleValue<'_>],
    registration: &[u8],
) -> Result<(), CommitError> {
    let length = values.iter().map(encoded_len).sum::<usize>() + registration.len();
    if length > MAX_RECORD_BYTES {
        return Err(CommitError::TooLarge { edit, length, limit: MAX_RECORD_BYTES });
    }
    Ok(())
}

/// Size of a value in wire form.
fn encoded_len(value: &HandleValue<'_>) -> usize {
    let references = value.references.iter().map(|reference| 8 + reference.handle.len());
    26 + value.value_type.len() + value.data.len() + references.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use tendot_proto::ValueReference;

    use super::*;

    #[test]
    fn encoded_len_matches_wire_form() {
        let references = vec![ValueReference::new(1, &b"0.NA/10.1"[..]), ValueReference::new(2, &b""[..])];
        let value = HandleValue { references, ..HandleValue::new(1, "URL", "https://example.org/") };
        assert_eq!(encoded_len(&value), value.to_bytes().len());
    }
}
