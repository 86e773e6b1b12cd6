//! Store-to-store migration while the source is written.
//!
//! `traits` is implemented by stores, `batch` and `checkpoint` are written to the target. `copy` copies everything once and then
//! catches up by the change log; `compare` compares names, log and histories; both read histories through `history_cursor`;
//! `aux_entries` handles aux entries, which are not logged. The target is always brought to the state the source had at one log
//! position (`snapshot`), so neither copying nor comparing blocks writers. Each batch stores a checkpoint in its transaction; a killed
//! migration resumes.

mod aux_entries;
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

/// Number of new log entries at which catching up ends: while the source is written, there are always some.
const MAX_REMAINING_LOG_ENTRIES: u64 = 500;

/// Hint for a store whose migration is incomplete.
#[cfg(feature = "postgres")]
pub(crate) const RESUME_HINT: &str = "run the same `tendot migrate` command again to resume";

/// Maximum number of reported differences; further ones are only counted.
const MAX_REPORTED_DIFFERENCES: usize = 100;

/// Migrates a store to another one while the source may be written to: copy, catch up, compare.
///
/// An interrupted migration resumes. A completed one is brought up to date, and only new changes are compared, unless
/// `compare_all` is set. `progress` is called now and then.
///
/// ```
/// use tendot_store::{ChangeSet, Edit, EmbeddedStore, Store, migrate};
///
/// # pollster::block_on(async {
/// let directory = tempfile::tempdir()?;
/// let source = EmbeddedStore::open(&directory.path().join("source"))?;
/// let home = Edit::Home { prefix: "10.1000".into() };
/// source.commit(ChangeSet { author: "operator".into(), timestamp_ms: 1_700_000_000_000, edits: vec![home] }).await?;
///
/// let mut target = EmbeddedStore::open_target(&directory.path().join("target"))?;
/// let report = migrate(&source, &mut target, false, |_| {}).await?;
/// assert_eq!((report.sequence, report.difference_count), (1, 0));
/// drop(target);
/// assert!(EmbeddedStore::open(&directory.path().join("target"))?.is_homed(b"10.1000").await?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub async fn migrate<S: MigrationSource, T: MigrationTarget>(
    source: &S,
    target: &mut T,
    compare_all: bool,
    progress: impl FnMut(&MigrationReport) + Send,
) -> Result<MigrationReport, MigrationError> {
    let mut migrator = Migrator::start(source, target, progress).await?;
    if compare_all {
        migrator.checkpoint.compared_to = 0;
    }
    migrator.copy_initial().await?;
    loop {
        migrator.catch_up().await?;
        // Aux entries refer to records, so records are caught up after them.
        migrator.copy_aux().await?;
        migrator.catch_up().await?;
        // Much may change during a full comparison.
        let (compared, end) = (migrator.checkpoint.compared_to, migrator.checkpoint.copied_to);
        migrator.compare().await?;
        let is_near = compared > 0 && end - compared < MAX_REMAINING_LOG_ENTRIES || end == 0;
        // Records may have been copied again during the comparison.
        if migrator.report.difference_count > 0 || is_near && migrator.checkpoint.copied_to == end {
            break;
        }
    }
    migrator.finish().await
}

/// Progress and result of a migration.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MigrationReport {
    /// Previous migration into this target, if there was one.
    pub previous_run: Option<PreviousRun>,
    /// Log sequence number up to which the target equals the source.
    pub sequence: u64,
    /// Revision at this position.
    pub revision: u64,
    /// Records copied or removed; those that changed meanwhile may count twice.
    pub records: u64,
    /// Log entries copied.
    pub log_entries: u64,
    /// History entries copied.
    pub history_entries: u64,
    /// Aux entries copied or removed.
    pub aux_entries: u64,
    /// Names compared, with their histories.
    pub compared: u64,
    /// Aux entries that still differed in the last round, because they are written concurrently.
    pub concurrently_changed: u64,
    /// Differences between source and target; at most 100.
    pub differences: Vec<String>,
    /// Number of differences, including those not listed.
    pub difference_count: u64,
}

/// How an earlier migration into this target ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PreviousRun {
    /// It was interrupted.
    Interrupted,
    /// It was completed at this log sequence number.
    Completed(u64),
}

/// State of one running migration.
struct Migrator<'a, S, T, P> {
    source: &'a S,
    target: &'a mut T,
    checkpoint: Checkpoint,
    /// Log position at which the source is read.
    position: SnapshotPosition,
    /// Batch being filled.
    batch: MigrationBatch,
    /// Log sequence number up to which the histories of all names are in the target; 0 before the first catch-up: the initial
    /// copy has no histories of names that were removed meanwhile.
    copied_histories_to: u64,
    /// Whether the state of a name at the position could not be determined, because of a later log entry, written or pending.
    has_undetermined: bool,
    report: MigrationReport,
    progress: P,
}

impl<'a, S: MigrationSource, T: MigrationTarget, P: FnMut(&MigrationReport) + Send> Migrator<'a, S, T, P> {
    /// Starts or resumes a migration: checks that the target is empty or has a checkpoint of this source.
    async fn start(source: &'a S, target: &'a mut T, progress: P) -> Result<Self, MigrationError> {
        let head = source.head().await.map_err(MigrationError::Source)?;
        let found = target.checkpoint().await.map_err(MigrationError::Target)?;
        let (mut report, is_new) = (MigrationReport::default(), found.is_none());
        let checkpoint = match found {
            Some((_, false)) => return Err(MigrationError::TargetModified),
            Some((mut checkpoint, true)) => {
                let last = target.store().head().await.map_err(MigrationError::Target)?;
                let copied = source.read_log(last.sequence.saturating_sub(1), 1).await;
                let copied = copied.map_err(MigrationError::Source)?.pop().map(|entry| entry.link.hash());
                // The hash covers the whole log before it.
                let is_same = last.sequence == 0 || copied == Some(last.log_hash);
                if !is_same || checkpoint.copied_to > head.sequence {
                    return Err(MigrationError::SourceMismatch);
                }
                report.previous_run = Some(match checkpoint.stage {
                    MigrationStage::Complete => PreviousRun::Completed(checkpoint.copied_to),
                    _ => PreviousRun::Interrupted,
                });
                if checkpoint.is_complete() {
                    checkpoint.stage = MigrationStage::CatchingUp;
                }
                checkpoint
            }
            None if is_store_empty(target.store()).await.map_err(MigrationError::Target)? => {
                Checkpoint { copied_to: head.sequence, compared_to: 0, stage: MigrationStage::Records(None) }
            }
            None => return Err(MigrationError::TargetNotEmpty),
        };
        let (position, batch) = (SnapshotPosition { sequence: 0, revision: 0 }, MigrationBatch::default());
        let copied_histories_to = match report.previous_run {
            Some(PreviousRun::Completed(sequence)) => sequence,
            _ => 0,
        };
        let mut migrator = Self {
            source,
            target,
            checkpoint,
            position,
            batch,
            copied_histories_to,
            has_undetermined: false,
            report,
            progress,
        };
        if is_new {
            migrator.flush().await?;
        }
        Ok(migrator)
    }

    /// Writes the batch with the checkpoint.
    async fn flush(&mut self) -> Result<(), MigrationError> {
        let batch = std::mem::take(&mut self.batch);
        self.target.write_batch(&batch, &self.checkpoint).await?;
        self.report.log_entries += batch.log_entries.len() as u64;
        self.report.history_entries += batch.history.len() as u64;
        self.report.records += batch.records.len() as u64;
        self.report.aux_entries += batch.aux.len() as u64;
        (self.progress)(&self.report);
        Ok(())
    }

    /// Marks the target as complete if there are no differences.
    async fn finish(mut self) -> Result<MigrationReport, MigrationError> {
        let source_head = self.source.head().await.map_err(MigrationError::Source)?;
        let target_head = self.target.store().head().await.map_err(MigrationError::Target)?;
        if target_head.sequence != self.checkpoint.copied_to
            || source_head.sequence == target_head.sequence && source_head != target_head
        {
            self.report_difference(format!("head: {source_head} in the source, {target_head} in the target"));
        }
        (self.report.sequence, self.report.revision) = (target_head.sequence, target_head.revision);
        if self.report.difference_count == 0 {
            self.checkpoint.stage = MigrationStage::Complete;
            self.flush().await?;
        }
        Ok(self.report)
    }

    fn report_difference(&mut self, difference: String) {
        self.report.difference_count += 1;
        if self.report.differences.len() < MAX_REPORTED_DIFFERENCES {
            self.report.differences.push(difference);
        }
    }
}

/// Whether a store is empty.
async fn is_store_empty(store: &impl MigrationSource) -> Result<bool, StoreError> {
    let mut has_records = false;
    let visit = |_: &_| {
        has_records = true;
        false
    };
    store.scan_records(None, None, visit).await?;
    Ok(!has_records
        && store.read_log(0, 1).await?.is_empty()
        && store.list_aux(b"", None, 1).await?.is_empty()
        && store.list_homed(None, 1).await?.is_empty())
}

/// Reason why a migration stopped. The target keeps its checkpoint, so it can be resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// The target is not empty.
    #[error("target store is not empty")]
    TargetNotEmpty,
    /// The target was modified by others since the last migration.
    #[error("target store was modified after the last migration")]
    TargetModified,
    /// The target was migrated from another source.
    #[error("target store was migrated from another source, or from another state of this one")]
    SourceMismatch,
    /// The state of some names at the log position stays undetermined.
    #[error("source store did not settle: an import is running or was interrupted")]
    SourceUnsettled,
    /// The source could not be read.
    #[error("source store: {0}")]
    Source(#[source] StoreError),
    /// The target could not be read or written.
    #[error("target store: {0}")]
    Target(#[source] StoreError),
}
