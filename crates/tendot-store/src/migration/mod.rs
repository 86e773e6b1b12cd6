//! Store-to-store migration while the source is written.
//!
//! `copy` copies everything once and then catches up by the change log; `compare` compares names, log and histories; `aux` handles
//! aux entries, which are not logged. The target is always brought to the state the source had at one log position (`snapshot`),
//! so neither copying nor comparing blocks writers. Each batch stores a checkpoint in its transaction; a killed migration resumes.

mod aux;
pub(crate) mod batch;
mod checkpoint;
mod compare;
mod copy;
mod history_cursor;
mod snapshot;
pub(crate) mod traits;

use batch::MigrationBatch;
pub(crate) use checkpoint::Checkpoint;
use checkpoint::MigrationStage;
use snapshot::SnapshotPosition;
use traits::{MigrationSource, MigrationTarget};

use crate::{Store as _, StoreError};

/// Lines of the log that are left for the next time: somebody writes, and there will always be some.
const MAX_REMAINING_LOG_ENTRIES: u64 = 500;

/// What to do about a store that is not whole.
#[cfg(feature = "postgres")]
pub(crate) const RESUME_HINT: &str = "the same `tendot migrate` again goes on where it was stopped";

/// Differences that are told one by one; the rest is counted.
const MAX_REPORTED_DIFFERENCES: usize = 100;

/// Migrates a store to another one while the source may be written to: copy, catch up, compare.
///
/// Others may write the source meanwhile. What was interrupted goes on; what was finished is brought up to date, and then only
/// what is new is compared, unless `compare_all` says otherwise. `progress` is told now and then how far it is.
///
/// ```
/// use tendot_store::{ChangeSet, Edit, EmbeddedStore, Store, migrate};
///
/// # pollster::block_on(async {
/// let folder = tempfile::tempdir()?;
/// let source = EmbeddedStore::open(&folder.path().join("source"))?;
/// let home = Edit::Home { prefix: "10.1000".into() };
/// source.commit(ChangeSet { by: "operator".into(), at: 1_700_000_000_000, edits: vec![home] }).await?;
///
/// let mut target = EmbeddedStore::open_target(&folder.path().join("target"))?;
/// let moved = migrate(&source, &mut target, false, |_| {}).await?;
/// assert_eq!((moved.sequence, moved.different), (1, 0));
/// drop(target);
/// assert!(EmbeddedStore::open(&folder.path().join("target"))?.is_homed(b"10.1000").await?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub async fn migrate<S: MigrationSource, T: MigrationTarget>(
    source: &S,
    target: &mut T,
    compare_all: bool,
    progress: impl FnMut(&MigrationReport) + Send,
) -> Result<MigrationReport, MigrationError> {
    let mut mover = Migrator::start(source, target, progress).await?;
    if compare_all {
        mover.mark.verified = 0;
    }
    mover.copy_initial().await?;
    loop {
        mover.catch_up().await?;
        // What is in notes tells of records: so those come after them.
        mover.copy_aux().await?;
        mover.catch_up().await?;
        // Comparing everything takes a while, in which much may have changed.
        let (compared, end) = (mover.mark.verified, mover.mark.followed);
        mover.compare().await?;
        let is_near = compared > 0 && end - compared < MAX_REMAINING_LOG_ENTRIES || end == 0;
        // While they were compared, some may have been copied once more.
        if mover.moved.different > 0 || is_near && mover.mark.followed == end {
            break;
        }
    }
    mover.finish().await
}

/// Progress and result of a migration.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MigrationReport {
    /// Where it began, if not at the beginning.
    pub resumed: Option<PreviousRun>,
    /// The line of the log up to which the target is the source.
    pub sequence: u64,
    /// The change that this line belongs to.
    pub revision: u64,
    /// Records that were copied, or removed; some perhaps twice, since they changed meanwhile.
    pub records: u64,
    /// Lines of the log that were copied.
    pub lines: u64,
    /// Changes with what was there before them that were copied.
    pub history: u64,
    /// Notes that were copied, or removed.
    pub notes: u64,
    /// Names that were compared, with their histories.
    pub compared: u64,
    /// Notes that were others once more when they were compared: somebody writes them.
    pub restless_notes: u64,
    /// What is not the same though nobody changed it, what and where; at most 100.
    pub differences: Vec<String>,
    /// How much that is in all.
    pub different: u64,
}

/// How an earlier migration into this target ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PreviousRun {
    /// An earlier one was interrupted.
    Interrupted,
    /// An earlier one was finished at this line of the log.
    Finished(u64),
}

/// State of one running migration.
struct Migrator<'a, S, T, P> {
    source: &'a S,
    target: &'a mut T,
    mark: Checkpoint,
    /// Up to where the source is looked at.
    limit: SnapshotPosition,
    /// What waits to be taken.
    piece: MigrationBatch,
    /// Whether the state of a name could not be told, since there is a later line, or will be.
    is_unsettled: bool,
    moved: MigrationReport,
    progress: P,
}

impl<'a, S: MigrationSource, T: MigrationTarget, P: FnMut(&MigrationReport) + Send> Migrator<'a, S, T, P> {
    /// Finds out whether the target is empty or was begun by us, from this source.
    async fn start(source: &'a S, target: &'a mut T, progress: P) -> Result<Self, MigrationError> {
        let head = source.head().await.map_err(MigrationError::Source)?;
        let found = target.checkpoint().await.map_err(MigrationError::Target)?;
        let (mut moved, is_new) = (MigrationReport::default(), found.is_none());
        let mark = match found {
            Some((_, false)) => return Err(MigrationError::Written),
            Some((mut mark, true)) => {
                let last = target.store().head().await.map_err(MigrationError::Target)?.sequence;
                let ours = target.store().read_log(last.saturating_sub(1), 1).await;
                let theirs =
                    source.read_log(last.saturating_sub(1), 1).await.map_err(MigrationError::Source)?;
                let is_same = last == 0 || ours.map_err(MigrationError::Target)? == theirs;
                if !is_same || mark.followed > head.sequence {
                    return Err(MigrationError::OtherSource);
                }
                moved.resumed = Some(match mark.stage {
                    MigrationStage::Complete => PreviousRun::Finished(mark.followed),
                    _ => PreviousRun::Interrupted,
                });
                if mark.is_complete() {
                    mark.stage = MigrationStage::Following;
                }
                mark
            }
            None if is_store_empty(target.store()).await.map_err(MigrationError::Target)? => {
                Checkpoint { followed: head.sequence, verified: 0, stage: MigrationStage::Records(None) }
            }
            None => return Err(MigrationError::Occupied),
        };
        let (limit, piece) = (SnapshotPosition { sequence: 0, revision: 0 }, MigrationBatch::default());
        let mut mover = Self { source, target, mark, limit, piece, is_unsettled: false, moved, progress };
        if is_new {
            mover.flush().await?;
        }
        Ok(mover)
    }

    /// Hands over what waits, and how far that is.
    async fn flush(&mut self) -> Result<(), MigrationError> {
        let piece = std::mem::take(&mut self.piece);
        self.target.write_batch(&piece, &self.mark).await?;
        self.moved.lines += piece.lines.len() as u64;
        self.moved.history += piece.pasts.len() as u64;
        self.moved.records += piece.records.len() as u64;
        self.moved.notes += piece.notes.len() as u64;
        (self.progress)(&self.moved);
        Ok(())
    }

    /// Says that the target is whole, if it is.
    async fn finish(mut self) -> Result<MigrationReport, MigrationError> {
        let theirs = self.source.head().await.map_err(MigrationError::Source)?;
        let ours = self.target.store().head().await.map_err(MigrationError::Target)?;
        if ours.sequence != self.mark.followed
            || theirs.sequence == ours.sequence && theirs.revision != ours.revision
        {
            self.report_difference(format!(
                "the last numbers: {theirs:?} in the source, {ours:?} in the target"
            ));
        }
        (self.moved.sequence, self.moved.revision) = (ours.sequence, ours.revision);
        if self.moved.different == 0 {
            self.mark.stage = MigrationStage::Complete;
            self.flush().await?;
        }
        Ok(self.moved)
    }

    fn report_difference(&mut self, what: String) {
        self.moved.different += 1;
        if self.moved.differences.len() < MAX_REPORTED_DIFFERENCES {
            self.moved.differences.push(what);
        }
    }
}

/// Whether there is nothing in a store.
async fn is_store_empty(store: &impl MigrationSource) -> Result<bool, StoreError> {
    let mut has_records = false;
    let seen = |_: &_| {
        has_records = true;
        false
    };
    store.scan_records(None, None, seen).await?;
    Ok(!has_records
        && store.read_log(0, 1).await?.is_empty()
        && store.list_aux(b"", None, 1).await?.is_empty()
        && store.list_homed(None, 1).await?.is_empty())
}

/// Reason why a migration stopped. The target keeps its checkpoint, so it can be resumed.
///
/// What is there of it stays, and the same again goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// There is something in the target.
    #[error("there is something in the target already")]
    Occupied,
    /// Somebody else wrote the target.
    #[error("the target was written by somebody else since it was copied")]
    Written,
    /// The target is a copy of something else.
    #[error("the target is the copy of another store, or of another state of this one")]
    OtherSource,
    /// It cannot be told what some names were at a line of the log.
    #[error("the source does not come to rest: an import is under way, or was interrupted")]
    Restless,
    /// The source could not be read.
    #[error("the source: {0}")]
    Source(#[source] StoreError),
    /// The target could not be read or written.
    #[error("the target: {0}")]
    Target(#[source] StoreError),
}
