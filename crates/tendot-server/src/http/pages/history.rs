//! History page of a name, newest change first.

use askama::Template;
use http::StatusCode;
use tendot_proto::Handle;
use tendot_registry::registration::DoiStatus;
use tendot_registry::{Caller, HistoryEvent, HistoryEventKind, RecordSnapshot, SnapshotState};
use tendot_store::{EditKind, HistoryOrder};

use crate::http::HttpServer;
use crate::http::api_v1::{format_millis, number};
use crate::http::pages::page_budget::{PageBudget, escape_invisible, truncate_chars};
use crate::http::pages::values::{ValueRow, format_timestamp};
use crate::http::pages::{render, syntax_error_page};
use crate::http::request::percent::RequestSyntaxError;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::lookup::{LookupContext, RecordLookupError};
use crate::http::resolve::redirect::format;
use crate::http::response::reply::Reply;
use crate::maintenance::unix_millis;

/// Changes per page.
const ITEMS: usize = 50;

/// Maximum characters of a title or name.
const MAX_FIELD_CHARS: usize = 200;

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage {
    title: String,
    name: String,
    items: Vec<HistoryRow>,
    /// Change before which the next page begins.
    older: Option<u64>,
    is_first: bool,
    is_short: bool,
    path: String,
}

/// One change as shown.
struct HistoryRow {
    sequence: u64,
    what: &'static str,
    /// Changes other than of values: field, old value, new value.
    turns: Vec<(&'static str, String, String)>,
    /// Time for people, and in machine-readable form.
    at: (String, String),
    by: Option<String>,
    was: PreviousRecord,
}

/// Record before a change.
enum PreviousRecord {
    Nothing,
    Unknown,
    /// Unchanged: only the holder of the name changed.
    Same,
    /// Values, and the number of further ones.
    Record(Vec<ValueRow>, usize),
}

impl HttpServer {
    /// Renders the history page of a name.
    pub(crate) async fn history_page(
        &self,
        name: &str,
        parameters: &QueryParams<'_>,
        request: &RequestHead<'_>,
        context: &mut LookupContext<'_>,
    ) -> Reply {
        let before = match number(parameters, "before") {
            Ok(before) => before.unwrap_or(u64::MAX),
            Err(_) => {
                let query = request.query.unwrap_or_default();
                let at = query.find("before=").unwrap_or_default();
                return syntax_error_page(
                    &RequestSyntaxError::new("query", at, "`before` is no number"),
                    query,
                    request,
                );
            }
        };
        let order = HistoryOrder::NewestFirst { before };
        let handle = Handle::from(name);
        match self
            .registry
            .record_history(handle, order, ITEMS, &Caller::Anonymous, unix_millis(), &mut context.budget)
            .await
        {
            Ok(history) => {
                let is_first = before == u64::MAX;
                render(StatusCode::OK, &HistoryPage::new(name, &history.items, history.next, is_first))
            }
            Err(error) => self.lookup_failed(name, &RecordLookupError::Local(error), request, context).await,
        }
    }
}

impl HistoryPage {
    fn new(name: &str, changes: &[HistoryEvent], next: Option<u64>, is_first: bool) -> Self {
        let mut page_budget = PageBudget::new();
        let items: Vec<HistoryRow> = changes
            .iter()
            .map_while(|event| page_budget.has_room().then(|| HistoryRow::of(event, &mut page_budget)))
            .collect();
        let is_cut = items.len() < changes.len();
        let older = if is_cut { items.last().map(|last| last.sequence) } else { next };
        Self {
            title: escape_invisible(&truncate_chars(name, 80)),
            name: escape_invisible(name),
            items,
            older,
            is_first,
            is_short: page_budget.is_exhausted(),
            path: format(name),
        }
    }
}

impl HistoryRow {
    fn of(event: &HistoryEvent, page_budget: &mut PageBudget) -> Self {
        let at = format_millis(event.time_ms);
        let (what, turns, was) = match &event.kind {
            HistoryEventKind::Changed { kind, before, after } => (
                change_label(*kind, before, after),
                changed_fields(before, after, page_budget),
                PreviousRecord::of(before, page_budget),
            ),
            HistoryEventKind::PrefixTransferred { from, to } => {
                let mut turns = Vec::new();
                push_changed_field(
                    &mut turns,
                    "Registrant",
                    Some(&from.registrant),
                    Some(&to.registrant),
                    page_budget,
                );
                push_changed_field(&mut turns, "Agency", Some(&from.agency), Some(&to.agency), page_budget);
                ("Given to others, with its prefix", turns, PreviousRecord::Same)
            }
        };
        Self {
            sequence: event.sequence,
            what,
            turns,
            at: (format_timestamp(&at), at),
            by: Some(page_budget.line(&event.author)).filter(|by| !by.is_empty()),
            was,
        }
    }
}

/// Label of a change.
fn change_label(kind: EditKind, before: &SnapshotState, after: &SnapshotState) -> &'static str {
    let is_reserved =
        |then: &SnapshotState| matches!(then, SnapshotState::Record(was) if was.state == DoiStatus::Reserved);
    match kind {
        EditKind::Create if is_reserved(after) => "Reserved",
        EditKind::Create => "Registered",
        EditKind::Update if is_reserved(before) && !is_reserved(after) => "Registered, after it was reserved",
        EditKind::Update => "Changed",
        EditKind::Tombstone => "Ended, and not given again",
        EditKind::Remove => "Removed",
        EditKind::Import => "Imported, with others",
        _ => "Something else",
    }
}

/// Changes other than of values.
fn changed_fields(
    before: &SnapshotState,
    after: &SnapshotState,
    page_budget: &mut PageBudget,
) -> Vec<(&'static str, String, String)> {
    let snapshot = |then: &SnapshotState| match then {
        SnapshotState::Record(was) => Some((**was).clone()),
        SnapshotState::Absent | SnapshotState::Unknown => None,
    };
    let (before, after) = (snapshot(before), snapshot(after));
    let mut turns = Vec::new();
    let who = |was: &Option<RecordSnapshot>| was.as_ref().and_then(|was| was.registrant.clone());
    // A removal removes all fields.
    if after.is_some() {
        push_changed_field(
            &mut turns,
            "Registrant",
            who(&before).as_deref(),
            who(&after).as_deref(),
            page_budget,
        );
        let text = |was: &Option<RecordSnapshot>| {
            was.as_ref().and_then(|was| Some(was.metadata.as_ref()?.get().to_owned()))
        };
        if text(&before) != text(&after) {
            let title = |was: &Option<RecordSnapshot>| was.as_ref().and_then(RecordSnapshot::title);
            let (old, new) = (title(&before), title(&after));
            if old == new {
                turns.push(("Metadata", String::new(), "changed".into()));
            } else {
                push_changed_field(&mut turns, "Title", old.as_deref(), new.as_deref(), page_budget);
            }
        }
    }
    turns
}

fn push_changed_field(
    turns: &mut Vec<(&'static str, String, String)>,
    label: &'static str,
    before: Option<&str>,
    after: Option<&str>,
    page_budget: &mut PageBudget,
) {
    if before != after {
        let mut line =
            |text: Option<&str>| page_budget.line(&truncate_chars(text.unwrap_or_default(), MAX_FIELD_CHARS));
        turns.push((label, line(before), line(after)));
    }
}

impl PreviousRecord {
    fn of(before: &SnapshotState, page_budget: &mut PageBudget) -> Self {
        match before {
            SnapshotState::Absent => Self::Nothing,
            SnapshotState::Unknown => Self::Unknown,
            SnapshotState::Record(was) => {
                let values = was.values.iter();
                let rows: Vec<ValueRow> = values
                    .map_while(|value| page_budget.has_room().then(|| ValueRow::of(value, page_budget)))
                    .collect();
                let more = was.values.len() - rows.len();
                Self::Record(rows, more)
            }
        }
    }
}
