use tendot_proto::{Budget, Handle, ValueReference};

use crate::caller::Claimant;
use crate::party::Scope;
use crate::permission::Requirement;
use crate::resolve::Found;
use crate::{Error, HandleWrite, Registry, ResolveQuery};

/// Operation of the Handle protocol, for [`Registry::precheck`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HandleOperation<'a> {
    /// [`Registry::resolve`].
    Resolve(ResolveQuery<'a>),
    /// [`Registry::write`].
    Write(HandleWrite<'a>),
    /// [`Registry::list_handles`] of a prefix.
    List(Handle<'a>),
    /// [`Registry::list_homed_prefixes`].
    ListHomed,
}

impl Registry {
    /// Whether somebody could do this if they prove to be who they say: what is to be found out before a proof is
    /// looked at, so that proofs can be tried out only against those who have rights.
    ///
    /// An index of 0 is any key of the record. It passes if one of them has the right; which one it is shows the proof,
    /// and the operation itself asks again.
    pub async fn precheck(
        &self,
        operation: &HandleOperation<'_>,
        claim: &ValueReference<'_>,
        work: &mut Budget,
    ) -> Result<(), Error> {
        let needed = match operation {
            HandleOperation::Resolve(query) => match self.lookup_record(query, work).await? {
                Found::Here { needed, .. } => needed,
                Found::Elsewhere(_) => return Ok(()),
            },
            // What it would come to, and when, is not asked yet.
            HandleOperation::Write(write) => self.plan_write(write, 0, work).await?.needed,
            HandleOperation::List(prefix) => self.plan_listing(*prefix, work).await?.needed,
            HandleOperation::ListHomed => Requirement::Server,
        };
        let name = match operation {
            HandleOperation::Resolve(query) => Some(query.name),
            HandleOperation::Write(write) => write.name(),
            HandleOperation::List(prefix) => {
                return self.authorize_list(*prefix, &needed, Claimant::Handle(claim), work).await;
            }
            HandleOperation::ListHomed => None,
        };
        // The scope is one of tokens, and a claim is none.
        self.authorize_for_name(name, &needed, Claimant::Handle(claim), Scope::Read, work).await
    }
}
