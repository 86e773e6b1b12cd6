//! Authorization before the authentication response is verified.

use tendot_proto::{Budget, Handle, ValueReference};

use crate::authorization::{Claimant, Requirement};
use crate::party::Scope;
use crate::resolve::RecordLookup;
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
    /// Authorizes a claimed identity before its authentication response is verified, so that responses can be guessed only
    /// for identities that are authorized.
    ///
    /// Index 0 stands for any key of the record: the check passes if one of them is authorized. The operation authorizes the
    /// verified key again.
    pub async fn precheck(
        &self,
        operation: &HandleOperation<'_>,
        claim: &ValueReference<'_>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let requirement = match operation {
            HandleOperation::Resolve(query) => match self.rules.lookup_record(query, budget).await? {
                RecordLookup::Found { requirement, .. } => requirement,
                RecordLookup::Referral(_) => return Ok(()),
            },
            // The result and the time do not matter for the requirement.
            HandleOperation::Write(write) => self.rules.plan_write(write, 0, budget).await?.requirement,
            HandleOperation::List(prefix) => self.rules.plan_listing(*prefix, budget).await?.requirement,
            HandleOperation::ListHomed => Requirement::ServerAdmin,
        };
        let name = match operation {
            HandleOperation::Resolve(query) => Some(query.handle),
            HandleOperation::Write(write) => write.name(),
            HandleOperation::List(prefix) => {
                return self
                    .rules
                    .authorize_list(*prefix, &requirement, Claimant::Handle(claim), budget)
                    .await;
            }
            HandleOperation::ListHomed => None,
        };
        // Scopes apply to tokens only.
        self.rules.authorize_for_name(name, &requirement, Claimant::Handle(claim), Scope::Read, budget).await
    }
}
