use tendot_proto::{Handle, Reference, Work};

use crate::caller::Asker;
use crate::party::Scope;
use crate::permission::Requirement;
use crate::resolve::Found;
use crate::{Error, ResolveQuery, Registry, Write};

/// Anything that can be asked for, for [`Registry::precheck`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// [`Registry::resolve`].
    Resolve(ResolveQuery<'a>),
    /// [`Registry::write`].
    Write(Write<'a>),
    /// [`Registry::list`] of a prefix.
    List(Handle<'a>),
    /// [`Registry::list_homed`].
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
        operation: &Operation<'_>,
        claim: &Reference<'_>,
        work: &mut Work,
    ) -> Result<(), Error> {
        let needed = match operation {
            Operation::Resolve(query) => match self.find(query, work).await? {
                Found::Here { needed, .. } => needed,
                Found::Elsewhere(_) => return Ok(()),
            },
            // What it would come to, and when, is not asked yet.
            Operation::Write(write) => self.plan(write, 0, work).await?.needed,
            Operation::List(prefix) => self.listing(*prefix, work).await?.needed,
            Operation::ListHomed => Requirement::Server,
        };
        let name = match operation {
            Operation::Resolve(query) => Some(query.name),
            Operation::Write(write) => write.name(),
            Operation::List(prefix) => {
                return self.authorize_list(*prefix, &needed, Asker::Handle(claim), work).await;
            }
            Operation::ListHomed => None,
        };
        // The scope is one of tokens, and a claim is none.
        self.authorize_for_name(name, &needed, Asker::Handle(claim), Scope::Read, work).await
    }
}
