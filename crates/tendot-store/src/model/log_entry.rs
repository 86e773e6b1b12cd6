//! Log entry, its kind and the kind codes.

/// Entry of the change log: one edit that was committed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogEntry {
    /// The number of the line: 1, 2, 3 …
    pub sequence: u64,
    /// The number of the change that it belongs to.
    pub revision: u64,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// By whom.
    pub by: Box<str>,
    /// What was done.
    pub kind: EditKind,
    /// The name or prefix that it is about, as it was first spelled; empty for an import.
    pub name: Box<str>,
    /// How many records: 1, but for an import. Those of an import are the records that have its revision, see
    /// [`Store::names_at_revision`](crate::Store::names_at_revision).
    pub count: u64,
}

/// Kind of a log entry.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum EditKind {
    /// A record came to be.
    Create,
    /// A record got other values.
    Update,
    /// A name will not resolve again.
    Tombstone,
    /// A record was removed.
    Remove,
    /// A prefix is kept here.
    Home,
    /// A prefix is no longer kept here.
    Unhome,
    /// Many records came to be or got other values, in one run.
    Import,
}

/// The numbers of kinds, for ever.
pub(crate) const KINDS: [(u64, EditKind); 7] = [
    (1, EditKind::Create),
    (2, EditKind::Update),
    (3, EditKind::Tombstone),
    (4, EditKind::Remove),
    (5, EditKind::Home),
    (6, EditKind::Unhome),
    (7, EditKind::Import),
];
