//! Record page: redirect target, written forms and values.

use askama::Template;
use http::StatusCode;
use http::header::LOCATION;
use tendot_names::{DoiOrShortDoi, OutputForm};
use tendot_proto::HandleValue;

use crate::http::pages::code_spans::CodeSpans;
use crate::http::pages::home::format_thousands;
use crate::http::pages::page_budget::{PageBudget, escape_invisible, truncate_chars};
use crate::http::pages::registration::{RegistrationCard, RegistrationDetails};
use crate::http::pages::values::{ValueRow, shown_values};
use crate::http::pages::{ServiceIdentity, render};
use crate::http::request::name_path;
use crate::http::resolve::lookup::{FoundRecord, LookupContext};
use crate::http::resolve::redirect::RedirectOutcome;
use crate::http::resolve::requested_name::{NameKind, RequestedName};
use crate::http::resolve::resolver::RecordResolver;
use crate::http::resolve::signature::SignatureStatus;
use crate::http::response::problem::capitalize;
use crate::http::response::reply::Reply;

/// Maximum number of faults of a signature that are shown.
const MAX_SHOWN_FAULTS: usize = 20;

/// Maximum number of names of a prefix that are counted; beyond it, a lower bound is shown.
const MAX_COUNTED_NAMES: usize = 10_000;

#[derive(Template)]
#[template(path = "record.html")]
struct RecordPage<'a> {
    site: &'a ServiceIdentity,
    title: String,
    name: String,
    kind: &'static str,
    /// Source of the record, if it came from upstream.
    origin: Option<String>,
    /// Aliases that lead to this name: path of the alias record, and name.
    aliases: Vec<(String, String)>,
    target: RecordTarget,
    signature: Option<SignatureCard>,
    registration: Option<RegistrationCard>,
    /// Description of a prefix.
    prefix: Option<String>,
    forms: Vec<(String, String)>,
    rows: Vec<ValueRow>,
    /// Number of values not shown.
    more: usize,
    is_truncated: bool,
    path: String,
}

/// Signatures of a record as shown.
struct SignatureCard {
    is_trusted: bool,
    text: CodeSpans,
    faults: Vec<CodeSpans>,
}

impl SignatureCard {
    fn new(status: &SignatureStatus) -> Self {
        let mut page_budget = PageBudget::new();
        Self {
            is_trusted: status.trusted,
            text: CodeSpans::new(page_budget.line(&capitalize(&status.describe()))),
            faults: status
                .faults
                .iter()
                .take(MAX_SHOWN_FAULTS)
                .map(|fault| CodeSpans::new(page_budget.line(fault)))
                .collect(),
        }
    }
}

/// Redirect target of a record, or why there is none.
enum RecordTarget {
    Redirect {
        status: u16,
        text: String,
        link: Option<String>,
    },
    /// The redirect target is not allowed, or the prefix is inactive: the reason.
    Rejected(CodeSpans),
    /// Alias loop: the name that this one is an alias of.
    AliasLoop(String),
    None,
}

impl RecordResolver {
    /// Renders the page of a record with its redirect outcome, and the aliases that led to it.
    pub(crate) async fn record_page(
        &self,
        name: &RequestedName<'_>,
        record: &FoundRecord,
        outcome: &RedirectOutcome,
        aliases: &[String],
        context: &mut LookupContext<'_>,
    ) -> Reply {
        let signature = self.verify_signatures(name.as_str(), context).await;
        let origin = record.provenance.map(|provenance| provenance.describe(self.upstream_name()));
        let prefix = match name.kind() {
            NameKind::Prefix(prefix) => Some(self.describe_prefix(prefix).await),
            _ => None,
        };
        let is_local = record.provenance.is_none();
        let details = if is_local { self.registration_details(name.as_str()).await } else { None };
        let mut page =
            RecordPage::new(&self.identity, name, &record.values, outcome, prefix, origin, details.as_ref());
        let mut page_budget = PageBudget::new();
        page.aliases =
            aliases.iter().map(|alias| (name_path::format(alias), page_budget.line(alias))).collect();
        page.signature = signature.map(|status| SignatureCard::new(&status));
        render(StatusCode::OK, &page)
    }

    /// Describes this server's relation to a prefix.
    pub(super) async fn describe_prefix(&self, prefix: &str) -> String {
        match self.registry.is_homed_prefix(prefix).await {
            Ok(true) => {}
            Ok(false) => return "This server is not responsible for the prefix.".into(),
            Err(_) => return "The store is unavailable.".into(),
        }
        match self.registry.count_names(prefix, MAX_COUNTED_NAMES).await {
            Ok(counted) if counted.next.is_some() => {
                let names = format_thousands(counted.live);
                format!("This server is responsible for the prefix, which has more than {names} names.")
            }
            Ok(counted) if counted.live == 1 => {
                "This server is responsible for the prefix, which has one name.".into()
            }
            Ok(counted) => {
                let names = format_thousands(counted.live);
                format!("This server is responsible for the prefix, which has {names} names.")
            }
            Err(_) => "This server is responsible for the prefix.".into(),
        }
    }
}

impl<'a> RecordPage<'a> {
    fn new(
        site: &'a ServiceIdentity,
        name: &RequestedName<'_>,
        values: &[HandleValue<'_>],
        outcome: &RedirectOutcome,
        prefix: Option<String>,
        origin: Option<String>,
        details: Option<&RegistrationDetails>,
    ) -> Self {
        let mut page_budget = PageBudget::new();
        let name_kind = name.kind();
        let kind = match &name_kind {
            NameKind::Doi(DoiOrShortDoi::Doi(_)) => "DOI",
            NameKind::Doi(DoiOrShortDoi::ShortDoi(_)) => "shortDOI",
            NameKind::Prefix(_) => "Prefix",
            NameKind::Handle | NameKind::Empty => "Handle",
        };
        let target = RecordTarget::from_outcome(outcome, &mut page_budget);
        let registration = details.map(|details| RegistrationCard::new(details, &mut page_budget));
        let forms = written_forms(site, name, &name_kind, origin.is_none(), &mut page_budget);
        let shown = shown_values(values);
        let rows: Vec<ValueRow> = shown
            .iter()
            .map_while(|value| page_budget.has_room().then(|| ValueRow::of(value, &mut page_budget)))
            .collect();
        Self {
            site,
            title: escape_invisible(&truncate_chars(name.as_str(), 80)),
            name: escape_invisible(name.as_str()),
            kind,
            origin,
            aliases: Vec::new(),
            target,
            signature: None,
            registration,
            prefix,
            forms,
            more: shown.len() - rows.len(),
            is_truncated: page_budget.is_exhausted(),
            rows,
            path: name.path(),
        }
    }
}

impl RecordTarget {
    fn from_outcome(outcome: &RedirectOutcome, page_budget: &mut PageBudget) -> Self {
        match outcome {
            RedirectOutcome::Redirect(response) => {
                let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
                location.map_or(Self::None, |location| Self::Redirect {
                    status: response.status().as_u16(),
                    text: page_budget.line(location),
                    link: page_budget.url(location),
                })
            }
            // A client that requests the record page does not want metadata.
            RedirectOutcome::ShowRecord(None)
            | RedirectOutcome::Metadata(..)
            | RedirectOutcome::NotAcceptable => Self::None,
            RedirectOutcome::ShowRecord(Some(error)) => Self::Rejected(CodeSpans::new(error.to_string())),
            RedirectOutcome::PrefixInactive(message) => {
                Self::Rejected(CodeSpans::new(match message.trim_end_matches('.') {
                    "" => "the prefix is inactive".into(),
                    message => format!("the prefix is inactive: {}", page_budget.line(message)),
                }))
            }
            RedirectOutcome::AliasLoop(chain) => {
                Self::AliasLoop(page_budget.line(chain.first().map_or("", |name| name)))
            }
        }
    }
}

/// Written forms of a name, with their labels; equal forms share a row.
fn written_forms(
    site: &ServiceIdentity,
    name: &RequestedName<'_>,
    kind: &NameKind<'_>,
    is_local: bool,
    page_budget: &mut PageBudget,
) -> Vec<(String, String)> {
    // doi.org does not resolve the names of a service with a resolver of its own.
    let own_url = if is_local { site.public_url(name.as_str()) } else { None };
    let own_url = own_url.filter(|_| !matches!(kind, NameKind::Prefix(_) | NameKind::Empty));
    let written: Vec<(&str, String)> = match kind {
        NameKind::Doi(identifier) => {
            let omitted: &[OutputForm] = if own_url.is_some() { &DOI_ORG_FORMS } else { &[] };
            let forms = WRITTEN_FORMS.iter().filter(|(form, _)| !omitted.contains(form));
            let forms =
                forms.filter_map(|(form, label)| Some((*label, identifier.format(*form)?.to_string())));
            own_url.map(|url| ("URL", url)).into_iter().chain(forms).collect()
        }
        _ => {
            let url = own_url.or_else(|| site.resolver_url(name)).map(|url| ("URL", url));
            let label = if matches!(kind, NameKind::Prefix(_)) { "Prefix" } else { "Handle" };
            url.into_iter().chain([(label, name.as_str().to_owned())]).collect()
        }
    };
    let mut forms: Vec<(String, String)> = Vec::new();
    for (label, text) in written {
        match forms.iter_mut().find(|(_, form)| *form == text) {
            Some((labels, _)) => *labels = format!("{labels}, {label}"),
            None if page_budget.has_room() => forms.push((capitalize(label), page_budget.line(&text))),
            None => break,
        }
    }
    forms
}

/// Forms with the address of doi.org.
const DOI_ORG_FORMS: [OutputForm; 4] =
    [OutputForm::Url, OutputForm::UrlMinimal, OutputForm::UrlFull, OutputForm::Html];

const WRITTEN_FORMS: [(OutputForm, &str); 13] = [
    (OutputForm::Url, "URL"),
    (OutputForm::UrlMinimal, "minimal URL"),
    (OutputForm::UrlFull, "fully encoded URL"),
    (OutputForm::Bare, "DOI"),
    (OutputForm::Canonical, "canonical form"),
    (OutputForm::Display, "display form"),
    (OutputForm::Uri, "URI"),
    (OutputForm::Uri202411, "URI (2024-11)"),
    (OutputForm::Uri2003, "URI (2003)"),
    (OutputForm::Urn, "URN"),
    (OutputForm::Info, "URI (info)"),
    (OutputForm::Eidr, "EIDR"),
    (OutputForm::Html, "HTML"),
];
