//! Prefixes are homed and unhomed.

use tendot_proto::{Budget, Handle};
use tendot_store::Edit;

use super::{PlannedWrite, WritePlan};
use crate::list::parse_homed_prefix;
use crate::party::is_reserved_prefix;
use crate::permission::Requirement;
use crate::{Error, Registry, price};

impl Registry {
    pub(super) async fn plan_set_homed(
        &self,
        prefix: Handle<'_>,
        home: bool,
        work: &mut Budget,
    ) -> Result<WritePlan, Error> {
        let name: Box<str> = prefix.to_string().into();
        let prefix = parse_homed_prefix(prefix)?;
        // Parties are no names.
        if prefix.rsplit('/').next().is_some_and(|last| is_reserved_prefix(last.as_bytes())) {
            return Err(Error::Reserved);
        }
        work.charge(price::LOOKUP)?;
        let is_homed = self.store.is_homed(prefix.as_bytes()).await?;
        let edit = if home { Edit::Home { prefix } } else { Edit::Unhome { prefix } };
        let edit = (home != is_homed).then_some(edit);
        let notes = Vec::new();
        let outcome = PlannedWrite { name, replaced: is_homed, edit, beside: None, locks_out: false, notes };
        Ok(WritePlan { needed: Requirement::Server, outcome: Ok(outcome) })
    }
}
