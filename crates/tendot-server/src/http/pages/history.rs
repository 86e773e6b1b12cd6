//! History page of a name, newest change first.

use askama::Template;
use http::StatusCode;
use tendot_registry::registration::DoiStatus;
use tendot_registry::{CallContext, Caller, HistoryEvent, HistoryEventKind, RecordSnapshot, SnapshotState};
use tendot_store::{EditKind, HistoryOrder};

use crate::clock::format_millis;
use crate::http::pages::page_budget::{PageBudget, escape_invisible, truncate_chars};
use crate::http::pages::party_names::PartyNames;
use crate::http::pages::values::{ValueRow, format_timestamp, shown_values};
use crate::http::pages::{ServiceIdentity, render, syntax_error_page};
use crate::http::request::name_path;
use crate::http::request::percent::RequestSyntaxError;
use crate::http::request::query::number;
use crate::http::resolve::lookup::{LookupContext, RecordLookupError};
use crate::http::resolve::redirect::NameRequest;
use crate::http::resolve::resolver::RecordResolver;
use crate::http::response::reply::Reply;

/// Changes per page.
const PAGE_SIZE: usize = 50;

/// Maximum characters of a title or name.
const MAX_FIELD_CHARS: usize = 200;

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage<'a> {
    site: &'a ServiceIdentity,
    title: String,
    name: String,
    items: Vec<HistoryRow>,
    /// Sequence number before which the next page begins.
    next_before: Option<u64>,
    is_first: bool,
    is_truncated: bool,
    path: String,
}

/// One change as shown.
struct HistoryRow {
    sequence: u64,
    label: &'static str,
    /// Changed fields other than values: name, old value, new value.
    changed_fields: Vec<(&'static str, String, String)>,
    /// Time of the change: formatted, and as RFC 3339.
    at: (String, String),
    by: Option<String>,
    previous: PreviousRecord,
}

/// Record before a change.
enum PreviousRecord {
    None,
    /// Only the registrant and the agency changed.
    Unchanged,
    /// Values, and the number of further ones.
    Record(Vec<ValueRow>, usize),
    /// Values and metadata were removed: reason.
    Redacted(String),
}

impl RecordResolver {
    /// Renders the history page of a name.
    pub(crate) async fn history_page(
        &self,
        request: NameRequest<'_>,
        context: &mut LookupContext<'_>,
    ) -> Reply {
        let NameRequest { name, parameters, head } = request;
        let before = match number(parameters, "before") {
            Ok(before) => before.unwrap_or(u64::MAX),
            Err(_) => {
                let query = head.query.unwrap_or_default();
                let at = query.find("before=").unwrap_or_default();
                return syntax_error_page(
                    &RequestSyntaxError::new("query", at, "invalid number in `before`"),
                    query,
                    head,
                );
            }
        };
        let order = HistoryOrder::NewestFirst { before };
        let handle = name.handle();
        let call = CallContext::new(&Caller::Anonymous, self.registry.now_ms(), &mut context.budget);
        match self.registry.record_history(handle, order, PAGE_SIZE, call).await {
            Ok(history) => {
                let is_first = before == u64::MAX;
                let names = self.party_names(&history.items, context).await;
                let (items, next) = (&history.items, history.next);
                let page = HistoryPage::new(&self.identity, name.as_str(), items, &names, next, is_first);
                render(StatusCode::OK, &page)
            }
            Err(error) => self.lookup_failed(name, &RecordLookupError::Local(error), head, context).await,
        }
    }
}

impl<'a> HistoryPage<'a> {
    fn new(
        site: &'a ServiceIdentity,
        name: &str,
        changes: &[HistoryEvent],
        names: &PartyNames,
        next: Option<u64>,
        is_first: bool,
    ) -> Self {
        let mut page_budget = PageBudget::new();
        let items: Vec<HistoryRow> = changes
            .iter()
            .map_while(|event| page_budget.has_room().then(|| HistoryRow::of(event, names, &mut page_budget)))
            .collect();
        let is_incomplete = items.len() < changes.len();
        let next_before = if is_incomplete { items.last().map(|last| last.sequence) } else { next };
        Self {
            site,
            title: escape_invisible(&truncate_chars(name, 80)),
            name: escape_invisible(name),
            items,
            next_before,
            is_first,
            is_truncated: page_budget.is_exhausted(),
            path: name_path::format(name),
        }
    }
}

impl HistoryRow {
    fn of(event: &HistoryEvent, names: &PartyNames, page_budget: &mut PageBudget) -> Self {
        let at = format_millis(event.time_ms);
        let (label, changed_fields, previous) = match &event.kind {
            HistoryEventKind::Changed { kind, before, after } => (
                change_label(*kind, before, after),
                changed_fields(before, after, names, page_budget),
                PreviousRecord::of(before, page_budget),
            ),
            HistoryEventKind::PrefixTransferred { from, to } => {
                let mut fields = Vec::new();
                if from.registrant != to.registrant {
                    let (from, to) = (names.registrant(&from.registrant), names.registrant(&to.registrant));
                    fields.push(changed_field("Registrant", Some(from), Some(to), page_budget));
                }
                if from.agency != to.agency {
                    let (from, to) = (names.agency(&from.agency), names.agency(&to.agency));
                    fields.push(changed_field("Agency", Some(from), Some(to), page_budget));
                }
                ("Transferred with its prefix", fields, PreviousRecord::Unchanged)
            }
        };
        Self {
            sequence: event.sequence,
            label,
            changed_fields,
            at: (format_timestamp(&at), at),
            by: Some(page_budget.line(&names.author(&event.author.principal))).filter(|by| !by.is_empty()),
            previous,
        }
    }
}

/// Label of a change.
fn change_label(kind: EditKind, before: &SnapshotState, after: &SnapshotState) -> &'static str {
    let is_reserved = |then: &SnapshotState| matches!(then, SnapshotState::Record(snapshot) if snapshot.state == DoiStatus::Reserved);
    match kind {
        EditKind::Create if is_reserved(after) => "Reserved",
        EditKind::Create => "Created",
        EditKind::Update if is_reserved(before) && !is_reserved(after) => "Reserved name registered",
        EditKind::Update => "Updated",
        EditKind::Tombstone => "Retired",
        EditKind::Remove => "Removed",
        EditKind::Import => "Imported",
        EditKind::Redact => "History redacted",
        _ => "Other",
    }
}

/// Changed fields other than values.
fn changed_fields(
    before: &SnapshotState,
    after: &SnapshotState,
    names: &PartyNames,
    page_budget: &mut PageBudget,
) -> Vec<(&'static str, String, String)> {
    let snapshot = |then: &SnapshotState| match then {
        SnapshotState::Record(snapshot) => Some((**snapshot).clone()),
        SnapshotState::Absent => None,
    };
    let (before, after) = (snapshot(before), snapshot(after));
    let mut fields = Vec::new();
    let registrant = |snapshot: &Option<RecordSnapshot>| {
        snapshot.as_ref().and_then(|snapshot| snapshot.registrant.clone())
    };
    // A removal removes all fields.
    if after.is_some() {
        let (old, new) = (registrant(&before), registrant(&after));
        if old != new {
            let name = |id: Option<&str>| id.map(|id| names.registrant(id));
            let (old, new) = (name(old.as_deref()), name(new.as_deref()));
            fields.push(changed_field("Registrant", old, new, page_budget));
        }
        let metadata = |snapshot: &Option<RecordSnapshot>| {
            snapshot.as_ref().and_then(|snapshot| Some(snapshot.metadata.as_ref()?.get().to_owned()))
        };
        let is_redacted = |snapshot: &Option<RecordSnapshot>| {
            snapshot.as_ref().is_some_and(|snapshot| snapshot.redaction.is_some())
        };
        if metadata(&before) != metadata(&after) && !is_redacted(&before) && !is_redacted(&after) {
            let title = |snapshot: &Option<RecordSnapshot>| snapshot.as_ref().and_then(RecordSnapshot::title);
            let (old, new) = (title(&before), title(&after));
            if old == new {
                fields.push(("Metadata", String::new(), "changed".into()));
            } else {
                fields.push(changed_field("Title", old.as_deref(), new.as_deref(), page_budget));
            }
        }
    }
    fields
}

/// Name, old and new value of a changed field.
fn changed_field(
    label: &'static str,
    before: Option<&str>,
    after: Option<&str>,
    page_budget: &mut PageBudget,
) -> (&'static str, String, String) {
    let mut line =
        |text: Option<&str>| page_budget.line(&truncate_chars(text.unwrap_or_default(), MAX_FIELD_CHARS));
    (label, line(before), line(after))
}

impl PreviousRecord {
    fn of(before: &SnapshotState, page_budget: &mut PageBudget) -> Self {
        match before {
            SnapshotState::Absent => Self::None,
            SnapshotState::Record(snapshot) if snapshot.redaction.is_some() => {
                let reason = snapshot.redaction.as_ref().map_or("", |redaction| &*redaction.reason);
                Self::Redacted(page_budget.line(reason))
            }
            SnapshotState::Record(snapshot) => {
                let shown = shown_values(&snapshot.values);
                let rows: Vec<ValueRow> = shown
                    .iter()
                    .map_while(|value| page_budget.has_room().then(|| ValueRow::of(value, page_budget)))
                    .collect();
                let more = shown.len() - rows.len();
                Self::Record(rows, more)
            }
        }
    }
}
