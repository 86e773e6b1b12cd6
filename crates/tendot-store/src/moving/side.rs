//! What a store has to do beside [`Store`] to be moved from or to.

use std::collections::BTreeMap;

use super::{Mark, MigrationError};
use crate::{Entry, Key, LogEntry, Past, Store, StoreError};

/// Bytes of records that are handed over together, roughly; one more is, whatever its size.
pub(crate) const ROOM: usize = 4 << 20;

/// Names, lines or notes that are handed over together at most.
pub(crate) const TOGETHER: usize = 2_000;

/// A store that is read to be moved, or to be compared with what was.
pub trait Side: Store {
    /// The last numbers that were given.
    fn head(&self) -> impl Future<Output = Result<Head, StoreError>> + Send;

    /// The records of names, in their order: at least the first, fewer than there are names where they are large.
    fn entries(&self, names: &[Key]) -> impl Future<Output = Result<Vec<Option<Entry>>, StoreError>> + Send;

    /// What ever changed under names, oldest first, one name after the other; their keys are in order. From `at` on: after
    /// a line, of the name of that number. Gives where to go on, if there may be more.
    fn pasts(&self, names: &[Key], at: At) -> impl Future<Output = Result<PastPiece, StoreError>> + Send;
}

/// The number of a name, and that of a line of the log, after which its history goes on.
pub(crate) type At = (usize, u64);

/// Changes with the numbers of their names, and where to go on.
pub(crate) type PastPiece = (Vec<(usize, Past)>, Option<At>);

/// A note's key, and what is to stand in it; none if it is to be gone.
pub(crate) type TakenNote = (Box<[u8]>, Option<Box<[u8]>>);

/// The last numbers that a store has given.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Head {
    /// Of a change.
    pub revision: u64,
    /// Of a line of the log.
    pub sequence: u64,
}

/// A store that another one is moved to. Nobody else writes it meanwhile.
pub trait Target {
    /// How it is read.
    type Store: Side;

    /// To read it.
    fn store(&self) -> &Self::Store;

    /// How far it has come, and whether nobody else has written it since; none if nothing was ever moved to it.
    fn mark(&self) -> impl Future<Output = Result<Option<(Mark, bool)>, StoreError>> + Send;

    /// Takes what is in a piece, and how far it has come by that, or nothing.
    fn take(&mut self, piece: &Piece, mark: &Mark) -> impl Future<Output = Result<(), MigrationError>> + Send;
}

/// What is taken together. Whatever is there already is replaced, but for lines of the log, which are not taken twice.
#[derive(Debug, Default)]
pub struct Piece {
    /// Lines that follow the last one of the target.
    pub(crate) lines: Vec<LogEntry>,
    pub(crate) pasts: Vec<MigratedHistoryEntry>,
    pub(crate) records: Vec<(Key, Option<Taken>)>,
    pub(crate) homed: BTreeMap<Key, bool>,
    pub(crate) notes: Vec<TakenNote>,
    pub(crate) size: usize,
}

/// A record to be taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) entry: Entry,
    /// The line of the log that brought its registration, if it has one and that is known.
    pub(crate) brought: Option<u64>,
}

/// A change of a name to be taken.
#[derive(Debug)]
pub(crate) struct MigratedHistoryEntry {
    pub(crate) key: Key,
    pub(crate) past: Past,
    /// Whether it is the first one of the name.
    pub(crate) is_first: bool,
    /// As that of [`Taken`], if there was a record.
    pub(crate) brought: Option<u64>,
}

impl Piece {
    /// Whether it is time to hand it over.
    pub(crate) fn is_full(&self) -> bool {
        let rows = self.lines.len() + self.pasts.len() + self.records.len() + self.notes.len();
        self.size >= ROOM || rows >= 2 * TOGETHER
    }
}

/// The memory that a record takes, roughly.
pub(crate) fn size_of_entry(entry: &Entry) -> usize {
    let values = entry.values.iter().map(|value| size_of_val(value) + value.data.len());
    size_of_val(entry) + entry.name.len() + entry.registration.len() + values.sum::<usize>()
}

/// The same of a change.
pub(crate) fn size_of_past(past: &Past) -> usize {
    let entry = if let crate::Before::Record(entry) = &past.before { size_of_entry(entry) } else { 0 };
    size_of_val(past) + entry
}
