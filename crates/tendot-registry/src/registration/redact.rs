//! Command that redacts the history of a DOI.

use serde::{Deserialize, Serialize};
use tendot_proto::{Handle, HandleValue};
use tendot_store::{Edit, HistoryOrder, NameKey, PriorState, RecordStatus, Store, StoredRecord};

use super::new_name::parse_doi;
use crate::authorization::Principal;
use crate::call::handle_timestamp;
use crate::command::CommandPlan;
use crate::command::sealed::CommandPlanner;
use crate::party::Scope;
use crate::prefix::AllocationCache;
use crate::registration::{Registration, has_metadata};
use crate::rules::Rules;
use crate::validate::check_text;
use crate::{CallContext, Error, RegistryError, codes, cost};

/// Type of the value that replaces those of a redacted state; only redactions write it.
pub(crate) const REDACTION_TYPE: &str = "0.TENDOT/REDACTED";

/// Maximum length of the reason, in bytes.
const MAX_REASON_BYTES: usize = 500;

/// Prior states read per page, and redacted by one command.
const STATES_PER_PAGE: usize = 100;
const MAX_REDACTED_STATES: usize = 20_000;

/// Command: remove personal data from the history of a DOI. Agency or operator.
///
/// Values and metadata of all earlier states are removed; author, time and kind of each change, and with them the audit chain,
/// stay. The current state stays, too, except of a retired name, which cannot be updated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedactDoi {
    /// Name whose history is redacted.
    pub name: Box<str>,
    /// Reason, which is public.
    pub reason: Box<str>,
}

/// Result of a redaction.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Redaction {
    /// Name in its original spelling.
    pub name: Box<str>,
    /// Number of states whose content was removed.
    pub redacted_states: usize,
    /// Time, author and reason.
    pub mark: RedactionMark,
}

/// Mark of a redacted state.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RedactionMark {
    /// Time of the redaction, in milliseconds since 1970.
    #[serde(rename = "at")]
    pub time_ms: u64,
    /// Author of the redaction.
    #[serde(rename = "by")]
    pub author: Box<str>,
    /// Reason.
    pub reason: Box<str>,
}

impl RedactionMark {
    /// Mark of a state; `None` if the state is not redacted.
    pub(crate) fn of_values(values: &[HandleValue<'_>]) -> Option<Self> {
        match values {
            [value] if value.has_type(REDACTION_TYPE) => serde_json::from_slice(&value.data).ok(),
            _ => None,
        }
    }

    fn to_value(&self) -> HandleValue<'static> {
        let data = serde_json::to_string(self).unwrap_or_default();
        HandleValue { timestamp: handle_timestamp(self.time_ms), ..HandleValue::new(1, REDACTION_TYPE, data) }
    }
}

impl CommandPlanner for RedactDoi {
    type Output = Redaction;

    async fn plan(
        &self,
        rules: &Rules,
        principal: &Principal,
        call: &mut CallContext<'_>,
    ) -> Result<CommandPlan<Redaction>, RegistryError> {
        principal.check_scope(Scope::Administer)?;
        check_text(&self.reason, "/reason", MAX_REASON_BYTES)?;
        let budget = &mut *call.budget;
        let not_found = || RegistryError::not_found("DOI", &self.name);
        let prefix = parse_doi(&self.name, &rules.settings)?.prefix();
        principal.check_prefix(prefix)?;
        let mut allocations = AllocationCache::new(rules);
        let Some(allocation) = allocations.allocation(prefix, budget).await? else { return Err(not_found()) };
        let prefix_agency = allocation.agency.code.clone();
        // A deleted name has a history, too.
        let current = match allocations.load_name(&self.name, principal, budget).await? {
            Some((_, entry, registration)) => {
                let owner = allocations.owner(prefix, &registration, budget).await?;
                let (_, owner) = owner.ok_or_else(not_found)?;
                principal.check_agency(&owner.agency, Scope::Administer)?;
                Some(entry)
            }
            // The same error for a name that is hidden and one that does not exist.
            None => {
                principal.check_agency(&prefix_agency, Scope::Administer)?;
                if rules.get_record(&self.name, budget).await?.is_some() {
                    return Err(not_found());
                }
                None
            }
        };
        rules.check_server_responsible(Handle::from(&*self.name), budget).await?;
        let key = NameKey::new(&self.name).map_err(|_| not_found())?;
        // A change after the record was read fails the commit, which is then planned again.
        let (mut history, mut has_history, mut after) = (Vec::new(), false, 0);
        loop {
            budget.charge(cost::LOOKUP).map_err(Error::from)?;
            let page = rules.store.history(&key, HistoryOrder::OldestFirst { after }, STATES_PER_PAGE).await;
            let page = page.map_err(Error::from)?;
            for entry in page.entries {
                has_history = true;
                let PriorState::Record(state) = entry.prior else { continue };
                if !is_redacted(&state) {
                    history.push((entry.log_entry.sequence, redacted_registration(&state)?));
                }
            }
            if history.len() > MAX_REDACTED_STATES {
                let detail = format!("more than {MAX_REDACTED_STATES} states to redact");
                return Err(RegistryError::invalid(codes::TOO_MANY, "/name", detail));
            }
            let Some(next) = page.next else { break };
            after = next;
        }
        if current.is_none() && !has_history {
            return Err(not_found());
        }
        let mark = RedactionMark {
            time_ms: call.now_ms,
            author: principal.to_string().into(),
            reason: self.reason.clone(),
        };
        let is_retired =
            |entry: &StoredRecord| entry.status == RecordStatus::Tombstone && !is_redacted(entry);
        let redacts_current = current.as_ref().is_some_and(is_retired);
        let redacted_states = history.len() + usize::from(redacts_current);
        let name = current.as_ref().map_or_else(|| self.name.clone(), |entry| entry.name.clone());
        let redaction = Redaction { name: name.clone(), redacted_states, mark };
        if redacted_states == 0 {
            return Ok(CommandPlan::new(Vec::new(), redaction));
        }
        let prior_registration = current.as_ref().map(redacted_registration).transpose()?.unwrap_or_default();
        let registration = match current {
            Some(entry) if !redacts_current => entry.registration,
            _ => prior_registration.clone(),
        };
        let mark = redaction.mark.to_value();
        let edit = Edit::Redact { name, mark, redacts_current, registration, prior_registration, history };
        Ok(CommandPlan::new(vec![edit], redaction))
    }
}

/// Whether nothing is left to redact. An import can write values that look like a mark, but not remove metadata.
fn is_redacted(state: &StoredRecord) -> bool {
    RedactionMark::of_values(&state.values).is_some() && !has_metadata(state)
}

/// Registration of a state without its metadata.
fn redacted_registration(state: &StoredRecord) -> Result<Box<[u8]>, RegistryError> {
    if state.registration.is_empty() {
        return Ok(Box::default());
    }
    let registration = Registration::of_record(state)?;
    Ok(Registration { issue: None, metadata: None, ..registration }.to_bytes())
}
