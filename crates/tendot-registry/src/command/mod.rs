//! Commands of the registry API: planned over a read set, committed with optimistic concurrency control.
//!
//! In reading order: this file has the command and its execution, `commit` the commit loop of every write, `read_set` the
//! read set of a plan, `signing` the signatures of planned records, `signature_renewal` those that expire.

mod commit;
mod read_set;
mod signature_renewal;
mod signing;

pub(crate) use commit::{
    CommitOutcome, CommitPlanner, MAX_COMMIT_ATTEMPTS, PlannedCommit, WriteConflict, is_conflict,
};
pub(crate) use read_set::TrackedStore;
pub use signature_renewal::{RenewalCursor, RenewalPage};
pub use signing::SigningSettings;

use tendot_store::Edit;

use crate::authorization::Principal;
use crate::rules::Rules;
use crate::{CallContext, Registry, RegistryError};

/// Write operation of the registry API; see [`Registry::execute`].
pub trait Command: Sync + sealed::CommandPlanner {}

impl<T: Sync + sealed::CommandPlanner> Command for T {}

pub(crate) mod sealed {
    use super::{CallContext, CommandPlan, Principal, RegistryError, Rules};

    /// Planning step of a command: reads only, returns the edits.
    pub trait CommandPlanner {
        /// Result of the command.
        type Output: Send;

        /// Plans the command for a principal.
        fn plan(
            &self,
            rules: &Rules,
            principal: &Principal,
            call: &mut CallContext<'_>,
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

impl Registry {
    /// Executes a command atomically. Everything that was read for it (token, prefix, name) is a precondition of the commit;
    /// on a conflict the command is planned again.
    pub async fn execute<T: Command>(
        &self,
        command: &T,
        call: CallContext<'_>,
    ) -> Result<CommandOutcome<T::Output>, RegistryError> {
        let outcome = self.execute_with(command, call, |_| Vec::new()).await?;
        let (output, revision) = outcome.into_result::<RegistryError>()?;
        Ok(CommandOutcome { output, revision })
    }

    /// Plans a command without committing it.
    pub async fn dry_run<T: Command>(
        &self,
        command: &T,
        mut call: CallContext<'_>,
    ) -> Result<T::Output, RegistryError> {
        let principal = self.rules.principal(&mut call).await?;
        Ok(command.plan(&self.rules, &principal, &mut call).await?.output)
    }

    /// Executes a command, with edits of aux entries in the same commit, derived from its result.
    pub(crate) async fn execute_with<T: Command>(
        &self,
        command: &T,
        call: CallContext<'_>,
        extra_edits: impl Fn(&T::Output) -> Vec<Edit> + Send + Sync,
    ) -> Result<CommitOutcome<T::Output>, RegistryError> {
        self.commit_planned(&mut CommandCommit { command, call, extra_edits }).await
    }
}

/// Command in the commit loop.
struct CommandCommit<'a, T, F> {
    command: &'a T,
    call: CallContext<'a>,
    extra_edits: F,
}

impl<T: Command, F: Fn(&T::Output) -> Vec<Edit> + Send + Sync> CommitPlanner for CommandCommit<'_, T, F> {
    type Output = T::Output;
    type Error = RegistryError;

    async fn plan(&mut self, rules: &Rules) -> Result<PlannedCommit<T::Output>, RegistryError> {
        let principal = rules.principal(&mut self.call).await?;
        let CommandPlan { edits, output } = self.command.plan(rules, &principal, &mut self.call).await?;
        Ok(PlannedCommit {
            author: self.call.log_author(&principal),
            now_ms: self.call.now_ms,
            edits,
            extra_edits: (self.extra_edits)(&output),
            output,
        })
    }
}
