//! Commands that propose and decide transfers.

use tendot_proto::{Budget, HandleValue, ValueReference};
use tendot_store::Edit;

use super::apply::TransferPlan;
use super::{Transfer, TransferState, TransferSubject};
use crate::authorization::{ActingRole, Principal};
use crate::call::handle_timestamp;
use crate::command::CommandPlan;
use crate::command::sealed::CommandPlanner;
use crate::party::{RegistryObjectKind, Scope, Versioned, generate_id, proposal_key, put_edit};
use crate::rules::Rules;
use crate::{CallContext, RegistryError, RegistryErrorKind, codes};

impl Rules {
    /// Principal of the proposer at the time of acceptance. Fails if the credential of the proposal is no longer valid.
    async fn proposer(
        &self,
        transfer: &Transfer,
        call: &mut CallContext<'_>,
    ) -> Result<Principal, RegistryError> {
        let invalid = |detail: &str| {
            RegistryError::new(codes::PROPOSER_INVALID, detail).with_hint("propose the transfer again")
        };
        if let Some(token) = &transfer.proposed_with {
            let principal = self.token_principal(token, call.now_ms, call.budget).await;
            let principal = principal.map_err(|error| match error.kind {
                RegistryErrorKind::Unauthenticated => invalid("the token of the proposal is no longer valid"),
                _ => error,
            })?;
            principal.check_scope(Scope::Transfer)?;
            return Ok(principal);
        }
        let principal = Principal::from_log(&transfer.proposed_by);
        if let ActingRole::Handle(identity) = &principal.role
            && !self.has_key(identity, transfer.proposed_ms, call.budget).await?
        {
            return Err(invalid("the key of the proposal was removed"));
        }
        Ok(principal)
    }

    /// Whether a record still has the key that an identity had at a time; also true if another service has the record.
    async fn has_key(
        &self,
        identity: &ValueReference<'_>,
        time_ms: u64,
        budget: &mut Budget,
    ) -> Result<bool, RegistryError> {
        let Ok(name) = identity.handle().to_str() else { return Ok(false) };
        let Some(entry) = self.get_record(name, budget).await? else {
            return Ok(self.check_server_responsible(identity.handle(), budget).await.is_err());
        };
        // A value keeps its timestamp while it is unchanged.
        let is_key = |value: &HandleValue<'_>| {
            value.index == identity.index
                && value.timestamp <= handle_timestamp(time_ms)
                && (value.has_type("HS_SECKEY") || value.has_type("HS_PUBKEY"))
        };
        Ok(entry.values.iter().any(is_key))
    }
}

/// Command: propose a transfer; the operator may force it.
#[derive(Clone, Debug)]
pub struct ProposeTransfer {
    /// See [`Transfer::subject`].
    pub subject: TransferSubject,
    /// See [`Transfer::to`].
    pub to: Box<str>,
    /// Whether the transfer is applied without acceptance; operator only.
    pub force: bool,
    /// Random bytes for the id.
    pub random_bytes: [u8; 16],
}

/// Command: accept or decline a transfer.
#[derive(Clone, Debug)]
pub struct DecideTransfer {
    /// Id of the transfer.
    pub id: Box<str>,
    /// Whether the transfer is accepted or declined.
    pub accept: bool,
}

impl CommandPlanner for ProposeTransfer {
    type Output = Transfer;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<Transfer>, RegistryError> {
        principal.check_scope(Scope::Transfer)?;
        if self.force && !principal.is_operator() {
            return Err(
                RegistryError::forbidden("only the operator can force a transfer").with_pointer("/force")
            );
        }
        let TransferPlan { from, mut edits } =
            rules.plan_transfer(&self.subject, &self.to, principal, call).await?;
        let mut transfer = Transfer {
            id: generate_id(&self.random_bytes).into(),
            subject: self.subject.clone(),
            from,
            to: self.to.clone(),
            state: TransferState::Proposed,
            proposed_ms: call.now_ms,
            proposed_by: principal.to_string().into(),
            proposed_with: principal.token().map(|token| token.id.clone()),
            expires_ms: Some(call.now_ms.saturating_add(rules.settings.transfer_proposal_ttl_ms)),
            decided_ms: None,
        };
        if self.force {
            (transfer.state, transfer.decided_ms) = (TransferState::Completed, Some(call.now_ms));
            transfer.expires_ms = None;
        } else {
            edits.clear();
            if let Some(token) = &transfer.proposed_with {
                edits.push(Edit::PutAux { key: proposal_key(token, &transfer.id), value: Box::default() });
            }
        }
        edits.push(put_edit(&transfer, None));
        Ok(CommandPlan::new(edits, transfer))
    }
}

impl CommandPlanner for DecideTransfer {
    type Output = Transfer;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<Transfer>, RegistryError> {
        principal.check_scope(Scope::Transfer)?;
        let not_found = || RegistryError::not_found(RegistryObjectKind::Transfer.as_str(), &self.id);
        let Versioned { value: mut transfer, revision } =
            rules.get_object::<Transfer>(&self.id, call.budget).await?;
        let (gives, receives) = rules.sides(&transfer, principal, call.budget).await?;
        if !gives && !receives {
            return Err(not_found());
        }
        transfer.subject.check_prefixes(principal)?;
        match transfer.state_at(call.now_ms) {
            TransferState::Proposed => {}
            TransferState::Expired if !self.accept => {}
            TransferState::Expired => {
                let detail = "the proposal has expired";
                return Err(RegistryError::new(codes::PROPOSAL_EXPIRED, detail)
                    .with_hint("propose the transfer again"));
            }
            // Repeated decisions are idempotent.
            TransferState::Completed if self.accept => return Ok(CommandPlan::new(Vec::new(), transfer)),
            TransferState::Declined if !self.accept => return Ok(CommandPlan::new(Vec::new(), transfer)),
            _ => {
                let detail = "transfer is already decided";
                return Err(RegistryError::new(codes::ALREADY_DECIDED, detail));
            }
        }
        if self.accept && !receives {
            return Err(RegistryError::forbidden("only the recipient can accept a transfer"));
        }
        let mut edits = Vec::new();
        if self.accept {
            // The proposer must still be authorized to transfer the subject.
            let proposer = rules.proposer(&transfer, call).await?;
            let changed = || {
                let detail = "ownership changed since the proposal";
                RegistryError::new(codes::OWNERSHIP_CHANGED, detail).with_hint("propose the transfer again")
            };
            let planned = rules.plan_transfer(&transfer.subject, &transfer.to, &proposer, call).await;
            let planned = planned.map_err(|rejection| match rejection.kind {
                RegistryErrorKind::Forbidden => changed(),
                _ => rejection,
            })?;
            if planned.from != transfer.from {
                return Err(changed());
            }
            edits = planned.edits;
        }
        transfer.state = if self.accept { TransferState::Completed } else { TransferState::Declined };
        transfer.decided_ms = Some(call.now_ms);
        if let Some(token) = &transfer.proposed_with {
            edits.push(Edit::RemoveAux { key: proposal_key(token, &transfer.id) });
        }
        edits.push(put_edit(&transfer, Some(revision)));
        Ok(CommandPlan::new(edits, transfer))
    }
}
