//! Record page: redirect target, written forms and values.

use askama::Template;
use http::StatusCode;
use http::header::LOCATION;
use tendot_names::{DoiOrShortDoi, OutputForm};
use tendot_proto::HandleValue;
use tendot_store::Store;

use crate::http::HttpServer;
use crate::http::pages::home::format_thousands;
use crate::http::pages::page_budget::{PageBudget, escape_invisible, truncate_chars};
use crate::http::pages::registration::{RegistrationCard, RegistrationDetails};
use crate::http::pages::render;
use crate::http::pages::values::ValueRow;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::explain::{NameKind, public_url};
use crate::http::resolve::lookup::LookupContext;
use crate::http::resolve::redirect::{RedirectOutcome, format};
use crate::http::response::reply::Reply;

/// Names under a prefix that are counted; beyond that, a lower bound is shown.
const MAX_COUNTED_NAMES: usize = 10_000;

#[derive(Template)]
#[template(path = "record.html")]
struct RecordPage {
    title: String,
    name: String,
    kind: &'static str,
    /// Source of the record, if it came from upstream.
    origin: Option<String>,
    leads: RecordTarget,
    registration: Option<RegistrationCard>,
    /// Description of a prefix.
    prefix: Option<String>,
    forms: Vec<(String, String)>,
    rows: Vec<ValueRow>,
    /// Number of values not shown.
    more: usize,
    is_short: bool,
    path: String,
}

/// Redirect target of a record, or why there is none.
enum RecordTarget {
    To { status: u16, text: String, address: Option<String> },
    NotFollowed(String),
    Endless(String),
    Nowhere,
}

impl HttpServer {
    /// Renders the page of a record with its redirect outcome.
    pub(crate) async fn record_page(
        &self,
        name: &str,
        parameters: &QueryParams<'_>,
        outcome: &RedirectOutcome,
        request: &RequestHead<'_>,
        context: &mut LookupContext<'_>,
    ) -> Reply {
        // Uses the cached record that was just fetched.
        context.is_authoritative = false;
        match self.lookup_values(name, parameters, context).await {
            Ok((values, provenance)) => {
                let origin = provenance.map(|provenance| provenance.describe(self.upstream_name()));
                let prefix = match NameKind::classify(name) {
                    NameKind::Prefix(prefix) => Some(self.describe_prefix(prefix).await),
                    _ => None,
                };
                let known = if provenance.is_none() { self.registration_details(name).await } else { None };
                render(
                    StatusCode::OK,
                    &RecordPage::new(name, &values, outcome, prefix, origin, known.as_ref()),
                )
            }
            Err(error) => self.lookup_failed(name, &error, request, context).await,
        }
    }

    /// Describes this server's relation to a prefix.
    pub(super) async fn describe_prefix(&self, prefix: &str) -> String {
        let store = self.registry.store();
        match store.is_homed(prefix.as_bytes()).await {
            Ok(true) => {}
            Ok(false) => return "Names under this prefix are not kept here.".into(),
            Err(_) => {
                return "Whether names under this prefix are kept here can't be told at present.".into();
            }
        }
        match store.count_names(prefix.as_bytes(), None, MAX_COUNTED_NAMES).await {
            Ok(counted) if counted.next.is_some() => {
                format!(
                    "Names under this prefix are kept here, more than {}.",
                    format_thousands(counted.live)
                )
            }
            Ok(counted) if counted.live == 1 => "Names under this prefix are kept here, one so far.".into(),
            Ok(counted) => {
                format!("Names under this prefix are kept here, {} so far.", format_thousands(counted.live))
            }
            Err(_) => "Names under this prefix are kept here.".into(),
        }
    }
}

impl RecordPage {
    fn new(
        name: &str,
        values: &[HandleValue<'_>],
        outcome: &RedirectOutcome,
        prefix: Option<String>,
        origin: Option<String>,
        known: Option<&RegistrationDetails>,
    ) -> Self {
        let mut page_budget = PageBudget::new();
        let read = NameKind::classify(name);
        let kind = match &read {
            NameKind::Doi(DoiOrShortDoi::Doi(_)) => "DOI name",
            NameKind::Doi(DoiOrShortDoi::ShortDoi(_)) => "shortDOI",
            NameKind::Prefix(_) => "Prefix",
            NameKind::Handle | NameKind::Empty => "Handle",
        };
        let leads = RecordTarget::of(outcome, &mut page_budget);
        let registration = known.map(|known| RegistrationCard::new(known, &mut page_budget));
        let forms = written_forms(name, &read, &mut page_budget);
        let rows: Vec<ValueRow> = values
            .iter()
            .map_while(|value| page_budget.has_room().then(|| ValueRow::of(value, &mut page_budget)))
            .collect();
        Self {
            title: escape_invisible(&truncate_chars(name, 80)),
            name: escape_invisible(name),
            kind,
            origin,
            leads,
            registration,
            prefix,
            forms,
            more: values.len() - rows.len(),
            is_short: page_budget.is_exhausted(),
            rows,
            path: format(name),
        }
    }
}

impl RecordTarget {
    fn of(outcome: &RedirectOutcome, page_budget: &mut PageBudget) -> Self {
        match outcome {
            RedirectOutcome::Redirect(answer) => {
                let location = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
                location.map_or(Self::Nowhere, |location| Self::To {
                    status: answer.status().as_u16(),
                    text: page_budget.line(location),
                    address: page_budget.url(location),
                })
            }
            // A client that requests the record page does not want metadata.
            RedirectOutcome::ShowRecord(None)
            | RedirectOutcome::Metadata(..)
            | RedirectOutcome::NotAcceptable => Self::Nowhere,
            RedirectOutcome::ShowRecord(Some(error)) => Self::NotFollowed(error.to_string()),
            RedirectOutcome::PrefixInactive(says) => {
                Self::NotFollowed(format!("its prefix is not served at present {}", page_budget.line(says)))
            }
            RedirectOutcome::AliasLoop(chain) => {
                Self::Endless(page_budget.line(chain.first().map_or("", |name| name)))
            }
        }
    }
}

/// Written forms of a name, to copy; duplicates are left out.
fn written_forms(name: &str, read: &NameKind<'_>, page_budget: &mut PageBudget) -> Vec<(String, String)> {
    let written: Vec<(&str, String)> = match read {
        NameKind::Doi(target) => WRITTEN_FORMS
            .iter()
            .filter_map(|(form, label)| Some((*label, target.format(*form)?.to_string())))
            .collect(),
        _ => {
            let address = public_url(name).map(|address| ("Address", address));
            address.into_iter().chain([("Name", name.to_owned())]).collect()
        }
    };
    let mut forms: Vec<(String, String)> = Vec::new();
    for (label, text) in written {
        match forms.iter_mut().find(|(_, known)| *known == text) {
            Some((labels, _)) => *labels = format!("{labels}, {label}"),
            None if page_budget.has_room() => forms.push((label.into(), page_budget.line(&text))),
            None => break,
        }
    }
    forms
}

const WRITTEN_FORMS: [(OutputForm, &str); 13] = [
    (OutputForm::Url, "Address"),
    (OutputForm::UrlMinimal, "the shortest"),
    (OutputForm::UrlFull, "all encoded"),
    (OutputForm::Bare, "Name"),
    (OutputForm::Canonical, "for comparing"),
    (OutputForm::Display, "In print"),
    (OutputForm::Uri, "URI"),
    (OutputForm::Uri202411, "URI of 2024-11"),
    (OutputForm::Uri2003, "URI of 2003"),
    (OutputForm::Urn, "URN"),
    (OutputForm::Info, "info URI"),
    (OutputForm::Eidr, "EIDR"),
    (OutputForm::Html, "HTML"),
];
