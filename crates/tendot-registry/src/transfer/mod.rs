//! Transfers of names, prefixes and agencies: proposed by the giving side, accepted by the receiving side.
//!
//! In reading order: this file has the types and queries, `commands` proposes and decides, `apply` has the edits.

mod apply;
mod commands;

pub use commands::{DecideTransfer, ProposeTransfer};

use std::iter;

use serde::{Deserialize, Serialize};
use tendot_proto::Budget;

use crate::authorization::{ActingRole, Principal};
use crate::party::{Registrant, RegistryObject, RegistryObjectKind, Scope, Versioned};
use crate::rules::RecordReader;
use crate::{CallContext, Registry, RegistryError, ResultPage};

/// Maximum number of names in one transfer.
pub const MAX_TRANSFER_NAMES: usize = 10_000;

/// Maximum number of names of a transfer in a list.
const LISTED_NAMES: usize = 10;

/// Maximum number of owners of one transfer that are looked up for a list.
const MAX_LOOKED_UP_OWNERS: usize = 500;

/// Transfer of names, a prefix or an agency.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Transfer {
    /// Id of the transfer.
    pub id: Box<str>,
    /// Subject of the transfer.
    #[serde(flatten)]
    pub subject: TransferSubject,
    /// Giving side without duplicates: ids of registrants, or the code of an agency.
    pub from: Vec<Box<str>>,
    /// Receiving side: id of a registrant, or code of an agency.
    pub to: Box<str>,
    /// State of the transfer.
    pub state: TransferState,
    /// Time of the proposal, in milliseconds since 1970.
    #[serde(rename = "proposed")]
    pub proposed_ms: u64,
    /// Author of the proposal, as logged.
    #[serde(rename = "by")]
    pub proposed_by: Box<str>,
    /// Id of the token of the proposer, which must be valid at acceptance; `None` for other credentials.
    #[serde(default, rename = "token", skip_serializing_if = "Option::is_none")]
    pub proposed_with: Option<Box<str>>,
    /// Time until which the proposal can be accepted, in milliseconds since 1970.
    #[serde(default, rename = "expires", skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// Time of the decision, in milliseconds since 1970.
    #[serde(default, rename = "decided", skip_serializing_if = "Option::is_none")]
    pub decided_ms: Option<u64>,
}

/// Transfer in a list, with its first names only.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TransferListItem {
    /// Transfer with its first names only; [`Registry::get_transfer`] has all of them.
    pub transfer: Transfer,
    /// Number of names in a transfer of names.
    pub count: Option<usize>,
}

impl TransferListItem {
    fn from_transfer(mut transfer: Transfer) -> Self {
        let mut count = None;
        if let TransferSubject::Names(names) = &mut transfer.subject {
            count = Some(names.len());
            names.truncate(LISTED_NAMES);
            names.shrink_to_fit();
        }
        Self { transfer, count }
    }
}

impl RegistryObject for Transfer {
    const KIND: RegistryObjectKind = RegistryObjectKind::Transfer;

    fn id(&self) -> &str {
        &self.id
    }
}

impl Transfer {
    /// State at a time in milliseconds since 1970.
    pub fn state_at(&self, now_ms: u64) -> TransferState {
        match self.state {
            TransferState::Proposed if self.expires_ms.is_some_and(|expiry| expiry <= now_ms) => {
                TransferState::Expired
            }
            state => state,
        }
    }

    /// Whether the principal is on the giving and the receiving side, if that can be decided without a lookup of registrants.
    fn sides_without_lookup(&self, principal: &Principal) -> Option<(bool, bool)> {
        match (&principal.role, &self.subject) {
            (ActingRole::Operator, _) => Some((true, true)),
            (_, TransferSubject::Agency(code)) => {
                Some((principal.is_for_agency(code), principal.is_for_agency(&self.to)))
            }
            (ActingRole::Registrant(id), _) => {
                Some((self.from.contains(id), self.to.eq_ignore_ascii_case(id)))
            }
            (ActingRole::Anonymous, _) => Some((false, false)),
            (ActingRole::Agency(_) | ActingRole::Handle(_), _) => None,
        }
    }
}

/// Subject of a transfer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TransferSubject {
    /// Names, to a registrant.
    Names(Vec<Box<str>>),
    /// Prefix with all names that have no explicit owner, to a registrant.
    Prefix(Box<str>),
    /// All registrants of an agency with their holdings, to another agency. The agency is closed.
    Agency(Box<str>),
}

impl TransferSubject {
    /// Fails if the token is restricted to other prefixes.
    pub(super) fn check_prefixes(&self, principal: &Principal) -> Result<(), RegistryError> {
        let prefix_of =
            |name: &str| name.split_once('/').map_or_else(String::new, |(prefix, _)| prefix.into());
        match self {
            Self::Names(names) => names.iter().try_for_each(|name| principal.check_prefix(&prefix_of(name))),
            Self::Prefix(prefix) => principal.check_prefix(prefix),
            Self::Agency(_) => principal.check_all_prefixes(),
        }
    }
}

/// State of a transfer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TransferState {
    /// Proposed: waits for the receiving side.
    Proposed,
    /// Completed.
    #[serde(rename = "done")]
    Completed,
    /// Declined or withdrawn.
    Declined,
    /// Proposed and never decided. Not stored: see [`Transfer::state_at`].
    #[serde(skip_deserializing)]
    Expired,
}

impl Registry {
    /// Gets a transfer. Visible to both sides.
    pub async fn get_transfer(
        &self,
        id: &str,
        mut call: CallContext<'_>,
    ) -> Result<Versioned<Transfer>, RegistryError> {
        let principal = self.rules.principal(&mut call).await?;
        principal.check_scope(Scope::Read)?;
        let object = self.rules.get_object::<Transfer>(id, call.budget).await?;
        let (gives, receives) = self.rules.sides(&object.value, &principal, call.budget).await?;
        if gives || receives {
            Ok(object)
        } else {
            Err(RegistryError::not_found(RegistryObjectKind::Transfer.as_str(), id))
        }
    }

    /// Lists the transfers of the principal, in either direction. There may be fewer than requested although more follow.
    pub async fn list_transfers(
        &self,
        after: Option<&str>,
        limit: usize,
        mut call: CallContext<'_>,
    ) -> Result<ResultPage<TransferListItem>, RegistryError> {
        let principal = self.rules.principal(&mut call).await?;
        principal.check_scope(Scope::Read)?;
        let item = |object: Versioned<Transfer>| {
            let registrants = match object.value.sides_without_lookup(&principal) {
                Some((false, false)) => return None,
                Some(_) => Vec::new(),
                None => iter::once(&object.value.to)
                    .chain(object.value.from.iter().take(MAX_LOOKED_UP_OWNERS))
                    .cloned()
                    .collect(),
            };
            Some((TransferListItem::from_transfer(object.value), registrants))
        };
        Ok(self.rules.list_objects_for(after, limit, &principal, call.budget, item).await?)
    }
}

impl RecordReader {
    /// Whether the principal is on the giving and the receiving side.
    pub(super) async fn sides(
        &self,
        transfer: &Transfer,
        principal: &Principal,
        budget: &mut Budget,
    ) -> Result<(bool, bool), RegistryError> {
        if let Some(known) = transfer.sides_without_lookup(principal) {
            return Ok(known);
        }
        let to = self.find_object::<Registrant>(&transfer.to, budget).await?;
        let receives = to.is_some_and(|to| principal.is_for_registrant(&to.value));
        for id in &transfer.from {
            let from = self.find_object::<Registrant>(id, budget).await?;
            if from.is_some_and(|from| principal.is_for_registrant(&from.value)) {
                return Ok((true, receives));
            }
        }
        Ok((false, receives))
    }
}
