//! What the registry does for parties: planned on what is there, and carried out only if all of that still holds.

use std::sync::Arc;

use tendot_proto::Work;
use tendot_store::{Change, CommitError, Edit, Store};

use crate::party::Principal;
use crate::refusal::Reason;
use crate::{Caller, Refusal, Registry};

/// Something that can be asked for, see [`Registry::carry_out`].
pub trait Task: Sync + sealed::Plan {}

impl<T: Sync + sealed::Plan> Task for T {}

pub(crate) mod sealed {
    use super::{Planned, Refusal, Registry, Principal, Work};

    /// How a task is planned.
    pub trait Plan {
        /// What is told of it when it is done.
        type Done: Send;

        /// What it comes to, for who asks, at a time in milliseconds since 1970.
        fn plan(
            &self,
            registry: &Registry,
            standing: &Principal,
            at: u64,
            work: &mut Work,
        ) -> impl Future<Output = Result<Planned<Self::Done>, Refusal>> + Send;
    }
}

/// What a task comes to.
#[allow(unreachable_pub, reason = "in the signature of a sealed trait")]
pub struct Planned<T> {
    /// What is to be done; nothing if all is as it should be.
    pub(crate) edits: Vec<Edit>,
    pub(crate) done: T,
}

impl<T> Planned<T> {
    pub(crate) const fn new(edits: Vec<Edit>, done: T) -> Self {
        Self { edits, done }
    }
}

/// A task that was carried out.
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
    pub async fn carry_out<T: Task>(
        &self,
        task: &T,
        caller: &Caller,
        at: u64,
        work: &mut Work,
    ) -> Result<CommandOutcome<T::Done>, Refusal> {
        self.execute_with(task, caller, at, work, |_| Vec::new()).await
    }

    /// What a task would come to; nothing is done.
    pub async fn dry_run<T: Task>(
        &self,
        task: &T,
        caller: &Caller,
        at: u64,
        work: &mut Work,
    ) -> Result<T::Done, Refusal> {
        let standing = self.standing(caller, at, work).await?;
        Ok(task.plan(self, &standing, at, work).await?.done)
    }

    /// Carries a task out, with edits of notes in the same change, made from what comes of it.
    pub async fn execute_with<T: Task>(
        &self,
        task: &T,
        caller: &Caller,
        at: u64,
        work: &mut Work,
        beside: impl Fn(&T::Done) -> Vec<Edit> + Send + Sync,
    ) -> Result<CommandOutcome<T::Done>, Refusal> {
        for _ in 0..TRIES {
            let tracked = self.begin();
            let standing = tracked.standing(caller, at, work).await?;
            let by = standing.to_string().into();
            let Planned { edits, done } = task.plan(&tracked, &standing, at, work).await?;
            let beside = beside(&done);
            if edits.is_empty() && beside.is_empty() {
                return Ok(CommandOutcome { done, revision: None });
            }
            let changes = !edits.is_empty();
            let mut all = tracked.store.into_preconditions();
            all.extend(edits);
            all.extend(beside);
            // Others were faster in taking the room that there was.
            let Some(claim) = self.quotas.claim(&all) else { continue };
            let committed = self.store.commit(Change { by, at, edits: all }).await;
            claim.end(&committed);
            match committed {
                Ok(committed) => {
                    return Ok(CommandOutcome { done, revision: changes.then_some(committed.revision) });
                }
                Err(CommitError::Conflict(_) | CommitError::Homed { .. } | CommitError::Note { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let detail = format!("what it depends on was changed by others {TRIES} times in the meantime");
        Err(Refusal::new(Reason::Busy, "contended", detail))
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
