//! Stored record and its status.

use tendot_proto::HandleValue;

/// Record as stored: name in its first spelling, revision, status, values and registration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredRecord {
    /// Name in its first spelling.
    pub name: Box<str>,
    /// Revision of the change set that wrote it; see [`Precondition::AtRevision`](crate::Precondition::AtRevision).
    pub revision: u64,
    /// Live or tombstone.
    pub status: RecordStatus,
    /// Values in the order given; a tombstone has the last ones of the record.
    pub values: Vec<HandleValue<'static>>,
    /// Registration: opaque bytes of the registry; empty if there is none.
    pub registration: Box<[u8]>,
}

/// Whether a record is live or a tombstone.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RecordStatus {
    /// The name resolves.
    Live,
    /// The name is retired: it never resolves and is never registered again.
    Tombstone,
}
