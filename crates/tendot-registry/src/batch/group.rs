//! Commits a group of lines: together, and one by one if that fails.

use tendot_proto::Budget;
use tendot_store::Edit;

use super::journal::JournalEntry;
use super::line::{BatchLine, BatchLineOutcome};
use super::plan::{BatchPlanner, LINE_BUDGET};
use crate::command::{CommitOutcome, PlanCommit, PlannedCommit, WriteConflict};
use crate::rules::Rules;
use crate::{Caller, Registry, RegistryError, codes};

/// Group of lines to register or update together.
#[derive(Clone, Copy, Debug)]
pub struct BatchGroup<'a> {
    /// Lines in order.
    pub lines: &'a [BatchLine],
    /// Caller of the batch.
    pub caller: &'a Caller,
    /// Time of the commit, in milliseconds since 1970.
    pub now_ms: u64,
    /// Journal of the batch, if it has an idempotency key.
    pub journal: Option<&'a JournalEntry<'a>>,
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
        match self.commit_planned(&mut GroupCommit::<MAX_GROUP_ATTEMPTS> { group, rejection: None }).await? {
            CommitOutcome::Committed(outcomes, _) => return Ok(outcomes),
            CommitOutcome::ExtraConflict => return Err(already_in_progress()),
            // Permanent conflicts, or one line too large: that must not block the others.
            CommitOutcome::Conflict | CommitOutcome::TooLarge(_) => {}
        }
        let mut outcomes = Vec::with_capacity(group.lines.len());
        for line in group.lines {
            let lines = std::slice::from_ref(line);
            outcomes.append(&mut self.execute_line(BatchGroup { lines, ..group }).await?);
        }
        Ok(outcomes)
    }

    /// Plans all lines of a batch without committing them.
    pub async fn dry_run_batch(
        &self,
        lines: &[BatchLine],
        caller: &Caller,
        now_ms: u64,
    ) -> Result<Vec<BatchLineOutcome>, RegistryError> {
        let group = BatchGroup { lines, caller, now_ms, journal: None };
        let planned = GroupCommit::<1> { group, rejection: None }.plan(&self.rules.begin()).await?;
        Ok(planned.output)
    }

    /// Executes a single line. If it cannot be committed, it is rejected, and that is journaled.
    async fn execute_line(&self, group: BatchGroup<'_>) -> Result<Vec<BatchLineOutcome>, RegistryError> {
        let mut commit = GroupCommit::<{ crate::command::MAX_COMMIT_ATTEMPTS }> { group, rejection: None };
        for _ in 0..2 {
            commit.rejection = Some(match self.commit_planned(&mut commit).await? {
                CommitOutcome::Committed(outcomes, _) => return Ok(outcomes),
                CommitOutcome::ExtraConflict => return Err(already_in_progress()),
                CommitOutcome::Conflict => WriteConflict.into(),
                CommitOutcome::TooLarge(error) => error.into(),
            });
        }
        Err(commit.rejection.unwrap_or_else(|| WriteConflict.into()))
    }
}

fn already_in_progress() -> RegistryError {
    RegistryError::new(codes::KEY_IN_USE, "the same batch is already in progress")
}

/// Group of lines in the commit loop.
struct GroupCommit<'a, const MAX_ATTEMPTS: u32> {
    group: BatchGroup<'a>,
    /// Reject every line with this error instead of planning it.
    rejection: Option<RegistryError>,
}

impl<const MAX_ATTEMPTS: u32> PlanCommit for GroupCommit<'_, MAX_ATTEMPTS> {
    type Output = Vec<BatchLineOutcome>;
    type Error = RegistryError;

    const MAX_ATTEMPTS: u32 = MAX_ATTEMPTS;

    async fn plan(&mut self, rules: &Rules) -> Result<PlannedCommit<Self::Output>, RegistryError> {
        let BatchGroup { lines, caller, now_ms, journal } = self.group;
        let reject_all =
            |rejection: &RegistryError| lines.iter().map(|line| line.rejected(rejection)).collect();
        let mut author = caller.to_string().into();
        let mut edits = Vec::new();
        let outcomes = match &self.rejection {
            Some(rejection) => reject_all(rejection),
            None => match rules.principal_at(caller, Some(now_ms), &mut Budget::new(LINE_BUDGET)).await {
                Err(rejection) if rejection.source.is_some() => return Err(rejection),
                // If the principal is no longer valid, every line is rejected.
                Err(rejection) => reject_all(&rejection),
                Ok(principal) => {
                    author = principal.to_string().into();
                    let mut planner = BatchPlanner::new(rules, &principal, now_ms, lines.len());
                    let mut outcomes = Vec::with_capacity(lines.len());
                    for line in lines {
                        outcomes.push(match &line.request {
                            Ok(request) => planner.plan_line(line, request).await?,
                            Err(rejection) => line.rejected(rejection),
                        });
                    }
                    edits = planner.into_edits();
                    outcomes
                }
            },
        };
        let extra_edits: Vec<Edit> = journal.map(|journal| journal.edits(&outcomes)).unwrap_or_default();
        Ok(PlannedCommit { author, now_ms, edits, extra_edits, output: outcomes })
    }
}
