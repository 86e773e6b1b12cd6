//! Commands of the registry API: planned over a read set, committed with optimistic concurrency control.
//!
//! `read_set` records what a plan has read.

mod read_set;

pub(crate) use read_set::TrackedStore;

use std::sync::Arc;

use tendot_proto::Budget;
use tendot_store::{ChangeSet, CommitError, Edit, Store};

use crate::authorization::Principal;
use crate::{Caller, Registry, RegistryError, codes};

/// Write operation of the registry API; see [`Registry::execute`].
pub trait Command: Sync + sealed::PlanCommand {}

impl<T: Sync + sealed::PlanCommand> Command for T {}

pub(crate) mod sealed {
    use super::{Budget, CommandPlan, Principal, Registry, RegistryError};

    /// Planning step of a command: reads only, returns the edits.
    pub trait PlanCommand {
        /// Result of the command.
        type Output: Send;

        /// Plans the command for a principal at a time in milliseconds since 1970.
        fn plan(
            &self,
            registry: &Registry,
            principal: &Principal,
            now_ms: u64,
            budget: &mut Budget,
        ) -> impl Future<Output = Result<CommandPlan<Self::Output>, RegistryError>> + Send;
    }
}

/// Plan of a command: edits to commit and the result to return.
#[allow(unreachable_pub, reason = "in the signature of a sealed trait")]
pub struct CommandPlan<T> {
    /// Edits to commit; empty if nothing changes.
    pub(crate) edits: Vec<Edit>,
    pub(crate) output: T,
}

impl<T> CommandPlan<T> {
    pub(crate) const fn new(edits: Vec<Edit>, output: T) -> Self {
        Self { edits, output }
    }
}

/// Outcome of an executed command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommandOutcome<T> {
    /// Result of the command.
    pub output: T,
    /// Revision of the commit; `None` if nothing changed.
    pub revision: Option<u64>,
}

/// Maximum number of attempts on write conflicts.
const MAX_COMMIT_ATTEMPTS: u32 = 8;

impl Registry {
    /// Executes a command atomically. Everything that was read for it (token, prefix, name) is a precondition of the commit;
    /// on a conflict the command is planned again.
    pub async fn execute<T: Command>(
        &self,
        command: &T,
        caller: &Caller,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<CommandOutcome<T::Output>, RegistryError> {
        self.execute_with(command, caller, now_ms, budget, |_| Vec::new()).await
    }

    /// Plans a command without committing it.
    pub async fn dry_run<T: Command>(
        &self,
        command: &T,
        caller: &Caller,
        now_ms: u64,
        budget: &mut Budget,
    ) -> Result<T::Output, RegistryError> {
        let principal = self.principal(caller, now_ms, budget).await?;
        Ok(command.plan(self, &principal, now_ms, budget).await?.output)
    }

    /// Executes a command, with edits of aux entries in the same commit, derived from its result.
    pub async fn execute_with<T: Command>(
        &self,
        command: &T,
        caller: &Caller,
        now_ms: u64,
        budget: &mut Budget,
        extra_edits: impl Fn(&T::Output) -> Vec<Edit> + Send + Sync,
    ) -> Result<CommandOutcome<T::Output>, RegistryError> {
        for _ in 0..MAX_COMMIT_ATTEMPTS {
            let tracked = self.begin();
            let principal = tracked.principal(caller, now_ms, budget).await?;
            let author = principal.to_string().into();
            let CommandPlan { edits, output } = command.plan(&tracked, &principal, now_ms, budget).await?;
            let extra_edits = extra_edits(&output);
            if edits.is_empty() && extra_edits.is_empty() {
                return Ok(CommandOutcome { output, revision: None });
            }
            let has_changes = !edits.is_empty();
            let mut all_edits = tracked.store.into_preconditions();
            all_edits.extend(edits);
            all_edits.extend(extra_edits);
            // A concurrent commit used up the quota.
            let Some(reservation) = self.quotas.reserve(&all_edits) else { continue };
            let committed =
                self.store.commit(ChangeSet { author, timestamp_ms: now_ms, edits: all_edits }).await;
            reservation.resolve(&committed);
            match committed {
                Ok(committed) => {
                    return Ok(CommandOutcome {
                        output,
                        revision: has_changes.then_some(committed.revision),
                    });
                }
                Err(
                    CommitError::RecordConflict(_)
                    | CommitError::HomedConflict { .. }
                    | CommitError::AuxConflict { .. },
                ) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let detail = format!("write conflict: data changed during {MAX_COMMIT_ATTEMPTS} attempts; retry");
        Err(RegistryError::new(codes::WRITE_CONFLICT, detail))
    }

    /// Starts an optimistic transaction: a registry over the same store whose reads are tracked.
    pub(crate) fn begin(&self) -> Self {
        Self {
            store: self.store.begin(),
            settings: Arc::clone(&self.settings),
            site_peers: self.site_peers.clone(),
            quotas: Arc::clone(&self.quotas),
        }
    }
}
