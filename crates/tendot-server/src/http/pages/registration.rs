//! Registry data of a name: registrant, dates and metadata.

use tendot_proto::{Budget, Handle};
use tendot_registry::metadata::ExtensionSummary;
use tendot_registry::registration::{DoiRecord, DoiStatus};
use tendot_registry::{CallContext, Caller};
use tendot_store::HistoryOrder;

use crate::clock::format_millis;
use crate::http::REQUEST_BUDGET;
use crate::http::pages::page_budget::{PageBudget, truncate_chars};
use crate::http::pages::party_names::{UNKNOWN_AGENCY, UNKNOWN_REGISTRANT};
use crate::http::pages::values::format_timestamp;
use crate::http::request::name_path;
use crate::http::resolve::metadata::METADATA_FORMATS;
use crate::http::resolve::resolver::RecordResolver;

/// Maximum number of creators shown.
const MAX_CREATORS: usize = 6;

/// Maximum number of metadata extensions shown.
const MAX_EXTENSIONS: usize = 20;

/// Maximum characters of a title or name.
const MAX_TEXT_CHARS: usize = 400;

/// Registry data of a name: registration, registrant, agency.
#[derive(Debug, Default)]
pub(crate) struct RegistrationDetails {
    registration: Option<DoiRecord>,
    /// Name of the registrant.
    registrant: Option<String>,
    /// Name of the agency.
    agency: Option<String>,
    /// Retirement time in milliseconds, if the name is retired.
    pub(crate) retired_at: Option<u64>,
}

impl RegistrationDetails {
    /// Title from the metadata.
    pub(crate) fn title(&self) -> Option<String> {
        Some(self.registration.as_ref()?.citation_summary()?.title)
    }

    /// Id and name of the registrant.
    pub(crate) fn registrant(&self) -> Option<(&str, Option<&str>)> {
        Some((&self.registration.as_ref()?.registrant, self.registrant.as_deref()))
    }
}

/// Registry data as shown.
#[derive(Debug)]
pub(super) struct RegistrationCard {
    pub(super) state: &'static str,
    pub(super) title: Option<String>,
    pub(super) creators: Option<String>,
    pub(super) rows: Vec<RegistrationRow>,
    /// Metadata formats and their links.
    pub(super) formats: Vec<(&'static str, String)>,
}

/// One labelled row of the card.
#[derive(Debug)]
pub(super) struct RegistrationRow {
    pub(super) label: &'static str,
    pub(super) text: String,
    pub(super) date: Option<String>,
}

impl RecordResolver {
    /// Public registry data of a name that is or was registered.
    pub(crate) async fn registration_details(&self, name: &str) -> Option<RegistrationDetails> {
        let budget = &mut Budget::new(REQUEST_BUDGET);
        let registration = self.public_registration(name, budget).await.ok()??;
        let call = CallContext::new(&Caller::Anonymous, self.registry.now_ms(), budget);
        let registrant = self.registry.get_registrant(&registration.registrant, call).await;
        let agency = self.registry.get_agency(&registration.agency, budget).await;
        Some(RegistrationDetails {
            registrant: registrant.ok().map(|held| held.value.name.into()),
            agency: agency.ok().map(|held| held.value.name.into()),
            retired_at: registration.retired_ms,
            registration: Some(registration),
        })
    }

    /// Public registry data of a retired name; if it was not registered here, the retirement time from its history.
    pub(crate) async fn retired_details(&self, name: &str) -> RegistrationDetails {
        if let Some(details) = self.registration_details(name).await {
            return details;
        }
        let (handle, order) = (Handle::from(name), HistoryOrder::NewestFirst { before: u64::MAX });
        let last = self
            .registry
            .record_history(
                handle,
                order,
                1,
                CallContext::new(
                    &Caller::Anonymous,
                    self.registry.now_ms(),
                    &mut Budget::new(REQUEST_BUDGET),
                ),
            )
            .await;
        let retired_at =
            last.ok().and_then(|last| last.items.first().map(|event| event.time_ms)).filter(|at| *at > 0);
        RegistrationDetails { retired_at, ..RegistrationDetails::default() }
    }
}

impl RegistrationCard {
    pub(super) fn new(details: &RegistrationDetails, page_budget: &mut PageBudget) -> Self {
        let mut rows = Vec::new();
        let registration = details.registration.as_ref();
        let summary = registration.and_then(DoiRecord::citation_summary);
        let mut line = |text: &str| page_budget.line(&truncate_chars(text, MAX_TEXT_CHARS));
        let mut add = |label, text: Option<String>| {
            rows.extend(text.map(|text| RegistrationRow { label, text, date: None }));
        };
        // Internal ids are not shown on pages.
        let party = |name: &Option<String>, unknown: &str| name.as_deref().unwrap_or(unknown).to_owned();
        let non_empty = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (mut title, mut creators) = (None, None);
        if let Some(summary) = &summary {
            title = non_empty(&summary.title).map(|title| line(&title));
            let first = summary.creators.iter().take(MAX_CREATORS).cloned().collect::<Vec<_>>().join("; ");
            let more = summary.creators.len().saturating_sub(MAX_CREATORS);
            let listed = if more > 0 { format!("{first} and {more} more") } else { first };
            creators = non_empty(&listed).map(|creators| line(&creators));
            add("Type", non_empty(&summary.kind).map(|kind| line(&kind)));
            add("Created", summary.date.as_deref().map(&mut line));
            add("Publisher", summary.publisher.as_deref().map(&mut line));
            for extension in summary.extensions.iter().take(MAX_EXTENSIONS) {
                let ExtensionSummary { namespace, name, text } = extension;
                let text = if text.is_empty() { String::new() } else { format!(": {text}") };
                add("Extension", Some(line(&format!("{name}{text} ({namespace})"))));
            }
        }
        add("Registrant", registration.map(|_| line(&party(&details.registrant, UNKNOWN_REGISTRANT))));
        add("Agency", registration.map(|_| line(&party(&details.agency, UNKNOWN_AGENCY))));
        let mut add_date = |label, at: Option<u64>| {
            let at = at.filter(|at| *at > 0).map(format_millis);
            rows.extend(at.map(|at| RegistrationRow { label, text: format_timestamp(&at), date: Some(at) }));
        };
        add_date("Registered", registration.map(|doi| doi.created_ms));
        add_date(
            "Modified",
            registration.filter(|doi| doi.updated_ms != doi.created_ms).map(|doi| doi.updated_ms),
        );
        add_date("Retired", details.retired_at);
        let state = registration.map_or(DoiStatus::Retired, |doi| doi.state);
        let path = registration.filter(|_| summary.is_some()).map(|doi| name_path::format(&doi.name));
        let formats = path.map(|path| {
            let link = |(name, label, _): &(&str, &'static str, _)| {
                (*label, format!("/api/v1/metadata{path}?format={name}"))
            };
            METADATA_FORMATS.iter().map(link).collect()
        });
        Self {
            state: match state {
                DoiStatus::Reserved => "Reserved",
                DoiStatus::Registered => "Registered",
                DoiStatus::Retired | DoiStatus::Deleted => "Retired",
            },
            title,
            creators,
            rows,
            formats: formats.unwrap_or_default(),
        }
    }
}
