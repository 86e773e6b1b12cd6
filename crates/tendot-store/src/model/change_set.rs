//! Change set, edits, preconditions and size limits.

use tendot_proto::HandleValue;

use crate::{CommitError, NameKey, NameKeyError, RecordStatus};

/// Bytes of the values of one record at most, as they stand in messages, and of its registration; or of a note.
pub(crate) const MAX_RECORD_BYTES: usize = 4 << 20;

/// Change set: edits that are committed in one transaction, or not at all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChangeSet {
    /// Who makes it, for the log and the audit.
    pub by: Box<str>,
    /// When, in milliseconds since 1970. The order of changes is that of their numbers, not of their times.
    pub at: u64,
    /// What is to be done, in order. Each edit sees what those before it did. Requirements alone come to nothing: such a
    /// change gets no number of its own.
    pub edits: Vec<Edit>,
}

impl ChangeSet {
    /// The memory that it takes, roughly.
    pub(crate) fn memory_size(&self) -> usize {
        let values = |edit: &Edit| match edit {
            Edit::Put { values, .. } => values_memory_size(values),
            Edit::Register { values, registration, .. } => values_memory_size(values) + registration.len(),
            Edit::PutNote { key, body } => key.len() + body.len(),
            Edit::RemoveNote { key } => key.len(),
            Edit::RequireNote { key, body } => key.len() + body.as_ref().map_or(0, |body| body.len()),
            _ => 0,
        };
        let edits = self.edits.iter().map(|edit| size_of_val(edit) + edit.name().len() + values(edit));
        size_of_val(self) + self.by.len() + edits.sum::<usize>()
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
    /// A record is to have these values and no others. If the name has been spelled before, that spelling stays; and so does
    /// what the registry knows of it.
    Put {
        /// The name.
        name: Box<str>,
        /// The values, in order.
        values: Vec<HandleValue<'static>>,
        /// What has to be there before.
        expect: Precondition,
    },
    /// The same, and what the registry knows of the name is to be this.
    Register {
        /// The name.
        name: Box<str>,
        /// The values, in order.
        values: Vec<HandleValue<'static>>,
        /// See [`StoredRecord::registration`](crate::StoredRecord::registration).
        registration: Box<[u8]>,
        /// What has to be there before.
        expect: Precondition,
    },
    /// A name is never to resolve again. Its last values stay, and what the registry knows of it.
    Tombstone {
        /// The name.
        name: Box<str>,
        /// What has to be there before.
        expect: Precondition,
    },
    /// A record is to be removed, and its name may be given again. The log keeps that it was.
    Remove {
        /// The name.
        name: Box<str>,
        /// What has to be there before.
        expect: Precondition,
    },
    /// Names under a prefix are to be kept here.
    Home {
        /// The prefix, as `10.1000`; or, for the prefixes derived from one, `0.NA/0.NA/10.1000`.
        prefix: Box<str>,
    },
    /// Names under a prefix are no longer to be kept here. Records stay as they are.
    Unhome {
        /// The prefix, without a slash.
        prefix: Box<str>,
    },
    /// What is under a name has to be what was read there, or nothing of the change is carried out. Writes nothing, not
    /// even into the log.
    Require {
        /// The name.
        name: Box<str>,
        /// The revision of what was read, be it a record or a tombstone; none if there was nothing.
        revision: Option<u64>,
    },
    /// A prefix has to be homed or not, as it was read. Writes nothing either.
    RequireHomed {
        /// The prefix.
        prefix: Box<str>,
        /// Whether it was.
        is_homed: bool,
    },
    /// A note is to be this. Notes are no records: they have no history, no revision and no line in the log.
    PutNote {
        /// At most [`NameKey::MAX_KEY_LEN`] bytes, at least one.
        key: Box<[u8]>,
        /// What is to stand there.
        body: Box<[u8]>,
    },
    /// A note is to be gone.
    RemoveNote {
        /// Its key.
        key: Box<[u8]>,
    },
    /// A note has to be what was read, or nothing of the change is carried out.
    RequireNote {
        /// Its key.
        key: Box<[u8]>,
        /// What was read; none if there was none.
        body: Option<Box<[u8]>>,
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
            | Self::Require { name, .. } => name,
            Self::Home { prefix } | Self::Unhome { prefix } | Self::RequireHomed { prefix, .. } => prefix,
            Self::PutNote { .. } | Self::RemoveNote { .. } | Self::RequireNote { .. } => "",
        }
    }

    /// Whether the edit refers to an aux entry.
    pub const fn is_aux(&self) -> bool {
        matches!(self, Self::PutNote { .. } | Self::RemoveNote { .. } | Self::RequireNote { .. })
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

    /// Whether what is under the name, if anything is, is what has to be there before.
    pub(crate) fn is_satisfied_by(&self, there: Option<(u64, RecordStatus)>) -> bool {
        match self {
            Self::Put { expect, .. }
            | Self::Register { expect, .. }
            | Self::Tombstone { expect, .. }
            | Self::Remove { expect, .. } => expect.is_satisfied_by(there),
            Self::Require { revision, .. } => there.map(|(revision, _)| revision) == *revision,
            _ => true,
        }
    }
}

/// Precondition of a write on the current record (compare-and-set).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Precondition {
    /// Anything or nothing, but no tombstone.
    Any,
    /// Nothing, not even a tombstone: the name is new.
    Absent,
    /// A record that resolves, whatever it is.
    Live,
    /// A record that has not changed since this revision.
    Revision(u64),
}

impl Precondition {
    /// Whether what is there, if anything is, is what was expected.
    fn is_satisfied_by(self, there: Option<(u64, RecordStatus)>) -> bool {
        match (self, there) {
            (Self::Any | Self::Absent, None) => true,
            (Self::Any | Self::Live, Some((_, state))) => state == RecordStatus::Live,
            (Self::Revision(expected), Some((revision, state))) => {
                expected == revision && state == RecordStatus::Live
            }
            _ => false,
        }
    }
}

/// Result of a durable commit: the revision it was given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommitInfo {
    /// Its number, which is the revision of all records that it touched; that of the last change if it touched nothing.
    pub revision: u64,
}

/// Refuses what is too large to be kept.
pub(crate) fn check_size(edit: &Edit, number: usize) -> Result<(), CommitError> {
    let length = match edit {
        Edit::Put { values, .. } => values.iter().map(encoded_len).sum(),
        Edit::Register { values, registration, .. } => {
            values.iter().map(encoded_len).sum::<usize>() + registration.len()
        }
        Edit::PutNote { body, .. } => body.len(),
        _ => 0,
    };
    if length > MAX_RECORD_BYTES {
        return Err(CommitError::TooLarge { edit: number, length, limit: MAX_RECORD_BYTES });
    }
    Ok(())
}

/// The bytes of a value, as it stands in messages.
fn encoded_len(value: &HandleValue<'_>) -> usize {
    let references = value.references.iter().map(|reference| 8 + reference.handle.len());
    26 + value.value_type.len() + value.data.len() + references.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use tendot_proto::ValueReference;

    use super::*;

    #[test]
    fn lengths() {
        let references = vec![ValueReference::new(1, &b"0.NA/10.1"[..]), ValueReference::new(2, &b""[..])];
        let value = HandleValue { references, ..HandleValue::new(1, "URL", "https://example.org/") };
        assert_eq!(encoded_len(&value), value.to_bytes().len());
    }
}
