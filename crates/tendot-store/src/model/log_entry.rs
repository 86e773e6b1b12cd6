//! Log entry, its kind and the kind codes.

use crate::ChainLink;

/// Entry of the change log: one edit that was committed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogEntry {
    /// Sequence number: 1, 2, 3, … without gaps.
    pub sequence: u64,
    /// Revision of its change set.
    pub revision: u64,
    /// Time in milliseconds since the Unix epoch.
    pub timestamp_ms: u64,
    /// Author.
    pub author: Box<str>,
    /// Kind of the edit.
    pub kind: EditKind,
    /// Name or prefix in its first spelling; empty for an import.
    pub name: Box<str>,
    /// Number of records: 1, except for an import. The names of an import are those of its revision, see
    /// [`Store::names_at_revision`](crate::Store::names_at_revision).
    pub record_count: u64,
    /// Link of the audit chain.
    pub link: ChainLink,
}

impl LogEntry {
    /// Creates an entry about one record or prefix that is not in the log yet.
    pub(crate) fn new(
        author: &str,
        timestamp_ms: u64,
        revision: u64,
        kind: EditKind,
        name: Box<str>,
    ) -> Self {
        let (author, link) = (author.into(), ChainLink::default());
        Self { sequence: 0, revision, timestamp_ms, author, kind, name, record_count: 1, link }
    }
}

/// Kind of a log entry.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum EditKind {
    /// A record was created.
    Create,
    /// The values or the registration of a record were replaced.
    Update,
    /// A record became a tombstone.
    Tombstone,
    /// A record was removed.
    Remove,
    /// A prefix was homed.
    Home,
    /// The homing of a prefix ended.
    Unhome,
    /// Records were created or updated by a bulk import.
    Import,
    /// The prior states of a record were redacted.
    Redact,
}

impl EditKind {
    /// Name of the kind, as in the change feed and in exports of the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Tombstone => "tombstone",
            Self::Remove => "remove",
            Self::Home => "home",
            Self::Unhome => "unhome",
            Self::Import => "import",
            Self::Redact => "redact",
        }
    }

    /// Kind with this name; `None` if the name is unknown.
    ///
    /// ```
    /// use tendot_store::EditKind;
    ///
    /// assert_eq!(EditKind::from_name("import"), Some(EditKind::Import));
    /// assert_eq!(EditKind::from_name("other"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        (1..).map_while(Self::from_code).find(|kind| kind.as_str() == name)
    }

    /// Code of the kind in stored data; codes never change.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Create => 1,
            Self::Update => 2,
            Self::Tombstone => 3,
            Self::Remove => 4,
            Self::Home => 5,
            Self::Unhome => 6,
            Self::Import => 7,
            Self::Redact => 8,
        }
    }

    /// Kind with this code; `None` if the code is unknown.
    pub(crate) const fn from_code(code: u64) -> Option<Self> {
        Some(match code {
            1 => Self::Create,
            2 => Self::Update,
            3 => Self::Tombstone,
            4 => Self::Remove,
            5 => Self::Home,
            6 => Self::Unhome,
            7 => Self::Import,
            8 => Self::Redact,
            _ => return None,
        })
    }

    /// Whether a log entry of this kind changes exactly one record.
    pub(crate) const fn is_record_change(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Tombstone | Self::Remove | Self::Redact)
    }
}
