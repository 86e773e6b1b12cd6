//! What a store has to do beside [`Store`] to be moved from or to.

use super::batch::MigrationBatch;
use super::{Checkpoint, MigrationError};
use crate::store::StoreHead;
use crate::{HistoryEntry, NameKey, Store, StoreError, StoredRecord};

/// Store that can be read for a migration or a comparison.
pub trait MigrationSource: Store {
    /// The last numbers that were given.
    fn head(&self) -> impl Future<Output = Result<StoreHead, StoreError>> + Send;

    /// The records of names, in their order: at least the first, fewer than there are names where they are large.
    fn read_records(
        &self,
        names: &[NameKey],
    ) -> impl Future<Output = Result<Vec<Option<StoredRecord>>, StoreError>> + Send;

    /// What ever changed under names, oldest first, one name after the other; their keys are in order. From `at` on: after
    /// a line, of the name of that number. Gives where to go on, if there may be more.
    fn read_histories(
        &self,
        names: &[NameKey],
        at: At,
    ) -> impl Future<Output = Result<PastPiece, StoreError>> + Send;
}

/// The number of a name, and that of a line of the log, after which its history goes on.
pub(crate) type At = (usize, u64);

/// Changes with the numbers of their names, and where to go on.
pub(crate) type PastPiece = (Vec<(usize, HistoryEntry)>, Option<At>);

/// Store that receives a migration; nobody else writes to it meanwhile.
///
/// Nobody else writes it meanwhile.
pub trait MigrationTarget {
    /// How it is read.
    type Store: MigrationSource;

    /// To read it.
    fn store(&self) -> &Self::Store;

    /// How far it has come, and whether nobody else has written it since; none if nothing was ever moved to it.
    fn checkpoint(&self) -> impl Future<Output = Result<Option<(Checkpoint, bool)>, StoreError>> + Send;

    /// Takes what is in a piece, and how far it has come by that, or nothing.
    fn write_batch(
        &mut self,
        piece: &MigrationBatch,
        mark: &Checkpoint,
    ) -> impl Future<Output = Result<(), MigrationError>> + Send;
}
