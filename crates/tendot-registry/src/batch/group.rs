//! Commits a group of lines: together, and one by one if that fails.

use core::net::IpAddr;

use tendot_proto::Budget;
use tendot_store::{Edit, StoreError};
use tokio::task::yield_now;

use super::journal::GroupJournal;
use super::line::{BatchLine, BatchLineOutcome};
use super::plan::{BatchPlanner, LINE_BUDGET};
use super::retry::RetryJournal;
use crate::command::{CommitOutcome, CommitPlanner, MAX_COMMIT_ATTEMPTS, PlannedCommit, WriteConflict};
use crate::rules::Rules;
use crate::{Caller, IdempotencyKey, LogAuthor, Registry, RegistryError, codes};

/// Group of lines to register or update together.
#[derive(Clone, Copy, Debug)]
pub struct BatchGroup<'a> {
    /// Lines in order.
    pub lines: &'a [BatchLine],
    /// Caller of the batch.
    pub caller: &'a Caller,
    /// Address of the client, for the change log.
    pub client: Option<IpAddr>,
    /// Time of the commit, in milliseconds since 1970.
    pub now_ms: u64,
    /// Journal of the batch, if it has an idempotency key.
    pub journal: Option<&'a GroupJournal<'a>>,
}

impl BatchGroup<'_> {
    fn reject_all(&self, rejection: &RegistryError) -> Vec<BatchLineOutcome> {
        self.lines.iter().map(|line| line.rejected(rejection)).collect()
    }
}

/// Journal of lines that are executed, or tried again.
#[derive(Clone, Copy)]
pub(super) enum LineJournal<'a> {
    Group(&'a GroupJournal<'a>),
    Retry(RetryJournal<'a>),
}

/// Maximum number of attempts to commit all lines together; then each line is committed alone.
const MAX_GROUP_ATTEMPTS: u32 = 3;

impl Registry {
    /// Registers or updates the names of all lines and returns their outcomes in order. Valid lines are committed together,
    /// invalid ones change nothing. Authorization is valid at the time of the commit.
    ///
    /// The outcomes are journaled in the same commit, which may be of a part of the lines. If another run has taken over the
    /// batch, it is aborted.
    pub async fn execute_batch(&self, group: BatchGroup<'_>) -> Result<Vec<BatchLineOutcome>, RegistryError> {
        let journal = group.journal.map(LineJournal::Group);
        let has_blocked_lines =
            group.journal.is_some_and(|entry| entry.journal.has_blocked_lines(group.lines));
        if !has_blocked_lines && let Some(outcomes) = self.commit_together(group, journal).await? {
            return Ok(outcomes);
        }
        let mut outcomes = Vec::with_capacity(group.lines.len());
        for line in group.lines {
            let lines = std::slice::from_ref(line);
            outcomes.append(&mut self.execute_line(BatchGroup { lines, ..group }, journal).await?);
        }
        Ok(outcomes)
    }

    /// Commits all lines together. `None` after permanent conflicts, or if one line is too large for the store or its disk, which
    /// must not block the others.
    pub(super) async fn commit_together(
        &self,
        group: BatchGroup<'_>,
        journal: Option<LineJournal<'_>>,
    ) -> Result<Option<Vec<BatchLineOutcome>>, RegistryError> {
        match self.commit_planned(&mut GroupCommit::new(group, journal, MAX_GROUP_ATTEMPTS)).await? {
            CommitOutcome::Committed(outcomes, _) => Ok(Some(outcomes)),
            CommitOutcome::ExtraConflict { .. } => Err(IdempotencyKey::in_use_error()),
            CommitOutcome::Conflict { .. } | CommitOutcome::DoesNotFit(_) => Ok(None),
        }
    }

    /// Plans all lines of a batch without committing them.
    pub async fn dry_run_batch(
        &self,
        lines: &[BatchLine],
        caller: &Caller,
        now_ms: u64,
    ) -> Result<Vec<BatchLineOutcome>, RegistryError> {
        let group = BatchGroup { lines, caller, client: None, now_ms, journal: None };
        let planned = GroupCommit::new(group, None, 1).plan(&self.rules.untracked()).await?;
        Ok(planned.output)
    }

    /// Executes a single line. If it cannot be committed, it is rejected, and that is journaled, unless the disk has no space for that
    /// either: then the line is executed when the batch is sent again. The batch is aborted if these lines become too many to resume it.
    pub(super) async fn execute_line(
        &self,
        group: BatchGroup<'_>,
        journal: Option<LineJournal<'_>>,
    ) -> Result<Vec<BatchLineOutcome>, RegistryError> {
        if let Some(entry) = group.journal.filter(|entry| entry.journal.has_blocked_lines(group.lines)) {
            let earlier = RegistryError::new(
                codes::DISK_FULL,
                "skipped: an earlier line for this name failed because the disk was full",
            );
            return if entry.block_lines(group.lines) {
                Ok(group.reject_all(&earlier))
            } else {
                Err(earlier)
            };
        }
        let mut commit = GroupCommit::new(group, journal, MAX_COMMIT_ATTEMPTS);
        loop {
            let rejection: RegistryError = match self.commit_planned(&mut commit).await? {
                CommitOutcome::Committed(outcomes, _) => return Ok(outcomes),
                CommitOutcome::ExtraConflict { .. } => return Err(IdempotencyKey::in_use_error()),
                CommitOutcome::Conflict { attempts } => WriteConflict { attempts }.into(),
                CommitOutcome::DoesNotFit(error) => error.into(),
            };
            let Some(first) = &commit.rejection else {
                commit.rejection = Some(rejection);
                continue;
            };
            let is_disk_full = matches!(rejection.source, Some(StoreError::DiskFull { .. }));
            let is_blocked =
                is_disk_full && group.journal.is_some_and(|entry| entry.block_lines(group.lines));
            return if is_blocked { Ok(group.reject_all(first)) } else { Err(rejection) };
        }
    }
}

/// Group of lines in the commit loop.
struct GroupCommit<'a> {
    group: BatchGroup<'a>,
    journal: Option<LineJournal<'a>>,
    max_attempts: u32,
    /// Reject every line with this error instead of planning it.
    rejection: Option<RegistryError>,
}

impl<'a> GroupCommit<'a> {
    const fn new(group: BatchGroup<'a>, journal: Option<LineJournal<'a>>, max_attempts: u32) -> Self {
        Self { group, journal, max_attempts, rejection: None }
    }
}

impl CommitPlanner for GroupCommit<'_> {
    type Output = Vec<BatchLineOutcome>;
    type Error = RegistryError;

    fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    async fn plan(&mut self, rules: &Rules) -> Result<PlannedCommit<Self::Output>, RegistryError> {
        let BatchGroup { lines, caller, client, now_ms, .. } = self.group;
        let reject_all = |rejection: &RegistryError| self.group.reject_all(rejection);
        let mut principal_name = caller.to_string();
        let mut edits = Vec::new();
        let outcomes = match &self.rejection {
            Some(rejection) => reject_all(rejection),
            None => match rules.principal_at(caller, Some(now_ms), &mut Budget::new(LINE_BUDGET)).await {
                Err(rejection) if rejection.source.is_some() => return Err(rejection),
                // If the principal is no longer valid, every line is rejected.
                Err(rejection) => reject_all(&rejection),
                Ok(principal) => {
                    principal_name = principal.to_string();
                    let mut planner = BatchPlanner::new(rules, &principal, now_ms);
                    let mut outcomes = Vec::with_capacity(lines.len());
                    for line in lines {
                        outcomes.push(match &line.request {
                            Ok(request) => planner.plan_line(line, request).await?,
                            Err(rejection) => line.rejected(rejection),
                        });
                        // A local store never yields: let other tasks run.
                        yield_now().await;
                    }
                    edits = planner.into_edits();
                    outcomes
                }
            },
        };
        let extra_edits: Vec<Edit> = match self.journal {
            Some(LineJournal::Group(journal)) => journal.edits(lines, &outcomes),
            Some(LineJournal::Retry(journal)) => journal.edits(&outcomes),
            None => Vec::new(),
        };
        let author = LogAuthor::new(&principal_name, caller, client).to_string().into();
        Ok(PlannedCommit { author, now_ms, edits, extra_edits, output: outcomes })
    }
}
