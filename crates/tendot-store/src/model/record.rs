//! Stored record and its status.

use tendot_proto::HandleValue;

/// Record as stored: name in its first spelling, revision, status, values and registration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredRecord {
    /// The name as it was first spelled.
    pub name: Box<str>,
    /// The number of the change that made it what it is; see [`Precondition::Revision`](crate::Precondition::Revision).
    pub revision: u64,
    /// Whether it resolves.
    pub state: RecordStatus,
    /// Its values, in the order in which they were given; those of a tombstone are the last ones that it had.
    pub values: Vec<HandleValue<'static>>,
    /// What the registry knows of the name beside its values; empty if nothing. The store does not look into it.
    pub registration: Box<[u8]>,
}

/// Whether a record is live or a tombstone.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RecordStatus {
    /// It does.
    Live,
    /// It did, and is never given again.
    Tombstone,
}
