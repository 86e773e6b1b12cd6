//! What the registry does for parties: planned on what is there, and carried out only if all of that still holds.

use std::sync::Arc;

use tendot_proto::Budget;
use tendot_store::{ChangeSet, CommitError, Edit, Store};

use crate::party::Principal;
use crate::refusal::RegistryErrorKind;
use crate::{Caller, Registry, RegistryError};

/// Write operation of the registry API; see [`Registry::execute`].
pub trait Command: Sync + sealed::Plan {}

impl<T: Sync + sealed::Plan> Command for T {}

pub(crate) mod sealed {
    use super::{Budget, CommandPlan, Principal, Registry, RegistryError};

    /// How a task is planned.
    pub trait Plan {
        /// What is told of it when it is done.
        type Output: Send;

        /// What it comes to, for who asks, at a time in milliseconds since 1970.
        fn plan(
            &self,
            registry: &Registry,
            standing: &Principal,
            at: u64,
            work: &mut Budget,
        ) -> impl Future<Output = Result<CommandPlan<Self::Output>, RegistryError>> + Send;
    }
}

/// Plan of a command: edits to commit and the result to return.
#[allow(unreachable_pub, reason = "in the signature of a sealed trait")]
pub struct CommandPlan<T> {
    /// What is to be done; nothing if all is as it should be.
    pub(crate) edits: Vec<Edit>,
    pub(crate) done: T,
}

impl<T> CommandPlan<T> {
    pub(crate) const fn new(edits: Vec<Edit>, done: T) -> Self {
        Self { edits, done }
    }
}

/// Outcome of an executed command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommandOutcome<T> {
    /// What came of it.
    pub done: T,
    /// The revision of what was changed; none if nothing had to be.
    pub revision: Option<u64>,
}

/// How often a task is planned while others are faster.
const TRIES: u32 = 8;

impl Registry {
    /// Carries out a task, all of it or nothing. What was looked at for it, be it a token, a prefix or a name, has to be the
    /// same when it is committed; if it is not, the task is planned again.
    pub async fn execute<T: Command>(
        &self,
        task: &T,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<CommandOutcome<T::Output>, RegistryError> {
        self.execute_with(task, caller, at, work, |_| Vec::new()).await
    }

    /// What a task would come to; nothing is done.
    pub async fn dry_run<T: Command>(
        &self,
        task: &T,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
    ) -> Result<T::Output, RegistryError> {
        let standing = self.principal(caller, at, work).await?;
        Ok(task.plan(self, &standing, at, work).await?.done)
    }

    /// Carries a task out, with edits of notes in the same change, made from what comes of it.
    pub async fn execute_with<T: Command>(
        &self,
        task: &T,
        caller: &Caller,
        at: u64,
        work: &mut Budget,
        beside: impl Fn(&T::Output) -> Vec<Edit> + Send + Sync,
    ) -> Result<CommandOutcome<T::Output>, RegistryError> {
        for _ in 0..TRIES {
            let tracked = self.begin();
            let standing = tracked.principal(caller, at, work).await?;
            let by = standing.to_string().into();
            let CommandPlan { edits, done } = task.plan(&tracked, &standing, at, work).await?;
            let beside = beside(&done);
            if edits.is_empty() && beside.is_empty() {
                return Ok(CommandOutcome { done, revision: None });
            }
            let changes = !edits.is_empty();
            let mut all = tracked.store.into_preconditions();
            all.extend(edits);
            all.extend(beside);
            // Others were faster in taking the room that there was.
            let Some(claim) = self.quotas.reserve(&all) else { continue };
            let committed = self.store.commit(ChangeSet { by, at, edits: all }).await;
            claim.resolve(&committed);
            match committed {
                Ok(committed) => {
                    return Ok(CommandOutcome { done, revision: changes.then_some(committed.revision) });
                }
                Err(CommitError::Conflict(_) | CommitError::Homed { .. } | CommitError::Note { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let detail = format!("what it depends on was changed by others {TRIES} times in the meantime");
        Err(RegistryError::new(RegistryErrorKind::Busy, "contended", detail))
    }

    /// Starts an optimistic transaction: a registry over the same store whose reads are tracked.
    pub(crate) fn begin(&self) -> Self {
        Self {
            store: self.store.begin(),
            settings: Arc::clone(&self.settings),
            neighbours: self.neighbours.clone(),
            quotas: Arc::clone(&self.quotas),
        }
    }
}
