//! Prefixes are homed and unhomed.

use tendot_proto::{Handle, Work};
use tendot_store::Edit;

use super::{Outcome, Plan};
use crate::list::homed;
use crate::party::is_reserved_prefix;
use crate::permission::Requirement;
use crate::{Error, Registry, price};

impl Registry {
    pub(super) async fn plan_set_homed(
        &self,
        prefix: Handle<'_>,
        home: bool,
        work: &mut Work,
    ) -> Result<Plan, Error> {
        let name: Box<str> = prefix.to_string().into();
        let prefix = homed(prefix)?;
        // Parties are no names.
        if prefix.rsplit('/').next().is_some_and(|last| is_reserved_prefix(last.as_bytes())) {
            return Err(Error::Reserved);
        }
        work.spend(price::LOOKUP)?;
        let is_homed = self.store.is_homed(prefix.as_bytes()).await?;
        let edit = if home { Edit::Home { prefix } } else { Edit::Unhome { prefix } };
        let edit = (home != is_homed).then_some(edit);
        let notes = Vec::new();
        let outcome = Outcome { name, replaced: is_homed, edit, beside: None, locks_out: false, notes };
        Ok(Plan { needed: Requirement::Server, outcome: Ok(outcome) })
    }
}
