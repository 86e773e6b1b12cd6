//! Batch registration: lines are committed together, and one by one if that fails.

use std::collections::HashMap;

use tendot_proto::Budget;
use tendot_store::{ChangeSet, CommitError, Edit, Store};

use super::batch_plan::{BatchPlanner, LINE_BUDGET};
use crate::registration::RegistrationRequest;
use crate::{Caller, Registry, RegistryError, WriteWarning, codes};

/// Line of a batch.
#[derive(Debug)]
pub struct BatchLine {
    /// Line number, starting with 1.
    pub number: u64,
    /// Parsed request, or the error.
    pub request: Result<RegistrationRequest, RegistryError>,
    /// Name of an invalid line, if it can be read.
    pub name: Option<Box<str>>,
    /// Random bytes for a minted suffix, if there is no name.
    pub random_bytes: [u8; 16],
}

impl BatchLine {
    fn rejected(&self, rejection: &RegistryError) -> BatchLineOutcome {
        let name = self.request.as_ref().map_or(&self.name, |request| &request.name).clone();
        BatchLineOutcome::rejected(self.number, name, rejection.clone_without_source())
    }
}

/// Outcome of a batch line.
#[derive(Debug)]
pub struct BatchLineOutcome {
    /// Line number.
    pub number: u64,
    /// Name in its original spelling, if known.
    pub name: Option<Box<str>>,
    /// Status, or the error.
    pub result: Result<BatchLineStatus, RegistryError>,
    /// Warnings for the caller.
    pub warnings: Vec<WriteWarning>,
}

/// Success status of a batch line.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum BatchLineStatus {
    /// Name created.
    Created,
    /// Name updated.
    Updated,
    /// Nothing changed.
    Unchanged,
}

impl BatchLineStatus {
    /// Name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Maximum number of attempts to commit all lines together; then each line is committed alone.
const MAX_BATCH_ATTEMPTS: u32 = 3;

/// Maximum number of retries for a single line.
const MAX_LINE_RETRIES: u32 = 8;

impl Registry {
    /// Registers or updates the names of all lines and returns their outcomes in order. Valid lines are committed together,
    /// invalid ones change nothing. Authorization is valid at the time of the commit.
    ///
    /// `extra_edits` returns edits of aux entries for the same commit, from the outcomes of the lines in it, which may be a part
    /// of the batch. If a required aux entry has changed, the batch is aborted. With `dry_run` nothing is committed.
    pub async fn execute_batch(
        &self,
        lines: &[BatchLine],
        caller: &Caller,
        now_ms: u64,
        dry_run: bool,
        extra_edits: impl Fn(&[BatchLineOutcome]) -> Vec<Edit> + Send + Sync,
    ) -> Result<Vec<BatchLineOutcome>, RegistryError> {
        for _ in 0..MAX_BATCH_ATTEMPTS {
            match self.try_batch(lines, caller, now_ms, dry_run, &extra_edits).await? {
                BatchAttempt::Committed(outcomes) => return Ok(outcomes),
                BatchAttempt::Conflict => {}
                BatchAttempt::TooLarge(_) => break,
            }
        }
        // Permanent conflicts, or one line too large: that must not block the others.
        let mut outcomes = Vec::with_capacity(lines.len());
        for line in lines {
            outcomes.append(&mut self.execute_line(line, caller, now_ms, dry_run, &extra_edits).await?);
        }
        Ok(outcomes)
    }

    async fn execute_line(
        &self,
        line: &BatchLine,
        caller: &Caller,
        now_ms: u64,
        dry_run: bool,
        extra_edits: &(impl Fn(&[BatchLineOutcome]) -> Vec<Edit> + Send + Sync),
    ) -> Result<Vec<BatchLineOutcome>, RegistryError> {
        let line = std::slice::from_ref(line);
        let mut rejection = RegistryError::new(
            codes::WRITE_CONFLICT,
            "write conflict: the name changed during every attempt; retry",
        );
        for _ in 0..=MAX_LINE_RETRIES {
            match self.try_batch(line, caller, now_ms, dry_run, extra_edits).await? {
                BatchAttempt::Committed(outcomes) => return Ok(outcomes),
                BatchAttempt::Conflict => {}
                BatchAttempt::TooLarge(error) => {
                    rejection = error;
                    break;
                }
            }
        }
        self.reject_all(line, &rejection, caller, now_ms, dry_run, extra_edits).await
    }

    async fn try_batch(
        &self,
        lines: &[BatchLine],
        caller: &Caller,
        now_ms: u64,
        dry_run: bool,
        extra_edits: &(impl Fn(&[BatchLineOutcome]) -> Vec<Edit> + Send + Sync),
    ) -> Result<BatchAttempt, RegistryError> {
        let tracked = self.begin();
        let principal = match tracked.principal(caller, now_ms, &mut Budget::new(LINE_BUDGET)).await {
            Ok(principal) => principal,
            Err(rejection) if rejection.source.is_some() => return Err(rejection),
            // If the principal is no longer valid, every line is rejected.
            Err(rejection) => {
                return self
                    .reject_all(lines, &rejection, caller, now_ms, dry_run, extra_edits)
                    .await
                    .map(BatchAttempt::Committed);
            }
        };
        let mut planner = BatchPlanner {
            tracked: &tracked,
            untracked: self,
            principal: &principal,
            now_ms,
            line_count: lines.len(),
            allocations: HashMap::new(),
            owners: HashMap::new(),
            remaining: HashMap::new(),
            planned: Vec::new(),
            planned_by_key: HashMap::new(),
        };
        let mut outcomes = Vec::with_capacity(lines.len());
        for line in lines {
            let outcome = match &line.request {
                Ok(request) => planner.plan_line(line.number, request, &line.random_bytes).await?,
                Err(rejection) => line.rejected(rejection),
            };
            outcomes.push(outcome);
        }
        if dry_run {
            return Ok(BatchAttempt::Committed(outcomes));
        }
        let mut edits: Vec<Edit> = planner.planned.into_iter().map(|planned| planned.edit).collect();
        let extra_edits = extra_edits(&outcomes);
        if edits.is_empty() && extra_edits.is_empty() {
            return Ok(BatchAttempt::Committed(outcomes));
        }
        let mut all_edits = tracked.store.into_preconditions();
        all_edits.append(&mut edits);
        let extra_start = all_edits.len();
        all_edits.extend(extra_edits);
        // A concurrent commit used up the quota.
        let Some(reservation) = self.quotas.reserve(&all_edits) else { return Ok(BatchAttempt::Conflict) };
        let committed = self
            .store
            .commit(ChangeSet {
                author: principal.to_string().into(),
                timestamp_ms: now_ms,
                edits: all_edits,
            })
            .await;
        reservation.resolve(&committed);
        match committed {
            Ok(_) => Ok(BatchAttempt::Committed(outcomes)),
            // A previous request with the same batch is still running: committing here would execute it twice.
            Err(CommitError::AuxConflict { edit }) if edit >= extra_start => {
                let detail = "the same batch is already in progress";
                Err(RegistryError::new(codes::WRITE_CONFLICT, detail))
            }
            Err(
                CommitError::RecordConflict(_)
                | CommitError::HomedConflict { .. }
                | CommitError::AuxConflict { .. },
            ) => Ok(BatchAttempt::Conflict),
            Err(error @ CommitError::TooLarge { .. }) => Ok(BatchAttempt::TooLarge(error.into())),
            Err(error) => Err(error.into()),
        }
    }

    async fn reject_all(
        &self,
        lines: &[BatchLine],
        rejection: &RegistryError,
        caller: &Caller,
        now_ms: u64,
        dry_run: bool,
        extra_edits: &(impl Fn(&[BatchLineOutcome]) -> Vec<Edit> + Send + Sync),
    ) -> Result<Vec<BatchLineOutcome>, RegistryError> {
        let outcomes: Vec<_> = lines.iter().map(|line| line.rejected(rejection)).collect();
        let edits = extra_edits(&outcomes);
        if !dry_run && !edits.is_empty() {
            self.store
                .commit(ChangeSet { author: caller.to_string().into(), timestamp_ms: now_ms, edits })
                .await?;
        }
        Ok(outcomes)
    }
}

/// Result of one attempt to commit lines together.
enum BatchAttempt {
    Committed(Vec<BatchLineOutcome>),
    /// Write conflict.
    Conflict,
    /// A line or the aux entry of the batch is too large to store.
    TooLarge(RegistryError),
}

impl BatchLineOutcome {
    pub(super) fn rejected(number: u64, name: Option<Box<str>>, rejection: RegistryError) -> Self {
        Self { number, name, result: Err(rejection), warnings: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use tendot_store::MemoryStore;

    use super::*;
    use crate::party::{AllocatePrefix, CreateAgency, CreateRegistrant, PrefixPolicy};
    use crate::{RegistryErrorKind, RegistrySettings};

    /// Two requests with the same batch, the first of which was disconnected and is still running, must not mint two names.
    #[test]
    fn concurrent_duplicate_batch_is_rejected() {
        pollster::block_on(async {
            let registry = Registry::new(MemoryStore::new(), RegistrySettings::default());
            let operator = Caller::Operator;
            let mut budget = Budget::new(1_000_000);
            let (code, name): (Box<str>, Box<str>) = ("LIB".into(), "Library".into());
            let command = CreateAgency {
                code,
                name,
                metadata_policy: Default::default(),
                prefix_range: None,
                locations: None,
            };
            registry.execute(&command, &operator, 1, &mut budget).await.unwrap();
            let agency = Some("LIB".into());
            let command = CreateRegistrant {
                agency,
                name: "Press".into(),
                contact: None,
                admins: Vec::new(),
                random_bytes: [7; 16],
            };
            let registrant = registry.execute(&command, &operator, 1, &mut budget).await.unwrap().output.id;
            let command =
                AllocatePrefix { registrant, prefix: None, is_test: false, policy: PrefixPolicy::default() };
            registry.execute(&command, &operator, 1, &mut budget).await.unwrap();

            let request =
                RegistrationRequest::from_json(br#"{"prefix": "10.70000", "url": "https://example.org/"}"#)
                    .unwrap();
            let line = |random| {
                [BatchLine {
                    number: 1,
                    request: Ok(request.clone()),
                    name: None,
                    random_bytes: [random; 16],
                }]
            };
            let key: Box<[u8]> = b"receipt/x"[..].into();
            let extra_edits = |_: &[BatchLineOutcome]| {
                let done: Box<[u8]> = b"done"[..].into();
                vec![
                    Edit::RequireAux { key: key.clone(), value: None },
                    Edit::PutAux { key: key.clone(), value: done },
                ]
            };
            let first = registry.execute_batch(&line(1), &operator, 2, false, extra_edits).await.unwrap();
            assert!(matches!(first[0].result, Ok(BatchLineStatus::Created)));
            let second =
                registry.execute_batch(&line(2), &operator, 2, false, extra_edits).await.unwrap_err();
            assert_eq!((second.code, second.kind), ("write-conflict", RegistryErrorKind::Unavailable));
            let names =
                registry.list_dois(Some("10.70000"), None, None, 9, &operator, 3, &mut budget).await.unwrap();
            assert_eq!(names.items.len(), 1);
        });
    }
}
