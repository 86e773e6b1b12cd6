//! Names of registrants, agencies and authors on pages; their ids are for the API.

use std::collections::BTreeMap;

use tendot_registry::{CallContext, Caller, HistoryEvent, HistoryEventKind, SnapshotState};

use crate::http::resolve::lookup::LookupContext;
use crate::http::resolve::resolver::RecordResolver;

/// Maximum number of parties that are looked up for one page.
const MAX_LOOKUPS: usize = 50;

/// Registrant whose name is not known.
pub(super) const UNKNOWN_REGISTRANT: &str = "unknown registrant";

/// Agency whose name is not known.
pub(super) const UNKNOWN_AGENCY: &str = "unknown agency";

/// Public names of registrants and agencies, by id and code.
#[derive(Debug, Default)]
pub(super) struct PartyNames {
    registrants: BTreeMap<Box<str>, Option<String>>,
    agencies: BTreeMap<Box<str>, Option<String>>,
}

impl PartyNames {
    /// Name of a registrant, or a phrase without its id.
    pub(super) fn registrant(&self, id: &str) -> &str {
        self.registrants.get(id).and_then(Option::as_deref).unwrap_or(UNKNOWN_REGISTRANT)
    }

    /// Name of an agency, or a phrase without its code.
    pub(super) fn agency(&self, code: &str) -> &str {
        self.agencies.get(code).and_then(Option::as_deref).unwrap_or(UNKNOWN_AGENCY)
    }

    /// Author of a change, as visitors read it; empty if it is not public.
    pub(super) fn author(&self, principal: &str) -> String {
        let name = |party: &str| match party.split_once(':') {
            Some(("registrant", id)) => Some(self.registrant(id).to_owned()),
            Some(("agency", code)) => Some(self.agency(code).to_owned()),
            // A handle identity, such as `300:0.NA/10.1000`.
            Some((_, handle)) => {
                let subject = handle.split_once('/').filter(|(start, _)| start.eq_ignore_ascii_case("0.NA"));
                Some(format!("the administrator of {}", subject.map_or(handle, |(_, prefix)| prefix)))
            }
            None => None,
        };
        match principal {
            "" => String::new(),
            "operator" => "the operator of this service".into(),
            "import" => "an import".into(),
            principal => name(principal).unwrap_or_else(|| "this service".into()),
        }
    }

    /// Adds the parties of a list of changes, without their names.
    fn collect(changes: &[HistoryEvent]) -> Self {
        let mut names = Self::default();
        for event in changes {
            match event.author.principal.split_once(':') {
                Some(("registrant", id)) => names.add_registrant(id),
                Some(("agency", code)) => names.add_agency(code),
                _ => {}
            }
            match &event.kind {
                HistoryEventKind::Changed { before, after, .. } => {
                    for state in [before, after] {
                        if let SnapshotState::Record(snapshot) = state
                            && let Some(id) = &snapshot.registrant
                        {
                            names.add_registrant(id);
                        }
                    }
                }
                HistoryEventKind::PrefixTransferred { from, to } => {
                    for holder in [from, to] {
                        names.add_registrant(&holder.registrant);
                        names.add_agency(&holder.agency);
                    }
                }
            }
        }
        names
    }

    fn add_registrant(&mut self, id: &str) {
        self.registrants.entry(id.into()).or_default();
    }

    fn add_agency(&mut self, code: &str) {
        self.agencies.entry(code.into()).or_default();
    }
}

impl RecordResolver {
    /// Names of the parties of a list of changes.
    pub(super) async fn party_names(
        &self,
        changes: &[HistoryEvent],
        context: &mut LookupContext<'_>,
    ) -> PartyNames {
        let mut names = PartyNames::collect(changes);
        for (id, name) in names.registrants.iter_mut().take(MAX_LOOKUPS) {
            let call = CallContext::new(&Caller::Anonymous, self.registry.now_ms(), &mut context.budget);
            *name = self.registry.get_registrant(id, call).await.ok().map(|found| found.value.name.into());
        }
        for (code, name) in names.agencies.iter_mut().take(MAX_LOOKUPS) {
            let agency = self.registry.get_agency(code, &mut context.budget).await;
            *name = agency.ok().map(|found| found.value.name.into());
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authors_have_no_ids() {
        let names = PartyNames {
            registrants: BTreeMap::from([("333333333333".into(), Some("A press".into()))]),
            agencies: BTreeMap::from([("ALPHA".into(), Some("Agency A".into()))]),
        };
        for (principal, expected) in [
            ("registrant:333333333333", "A press"),
            ("registrant:444444444444", UNKNOWN_REGISTRANT),
            ("agency:ALPHA", "Agency A"),
            ("agency:BETA", UNKNOWN_AGENCY),
            ("300:0.NA/10.5555", "the administrator of 10.5555"),
            ("301:10.5555/ADMIN", "the administrator of 10.5555/ADMIN"),
            ("operator", "the operator of this service"),
            ("import", "an import"),
            ("statistics", "this service"),
            ("", ""),
        ] {
            assert_eq!(names.author(principal), expected, "{principal}");
        }
    }
}
