//! Page of a resolution trace (`?explain`).

use askama::Template;
use http::StatusCode;

use crate::http::pages::code_spans::CodeSpans;
use crate::http::pages::page_budget::{PageBudget, escape_invisible, truncate_chars};
use crate::http::pages::{ServiceIdentity, render, vary_by_accept};
use crate::http::request::name_path;
use crate::http::resolve::trace::{ResolutionTrace, TraceOutcome};
use crate::http::response::reply::Reply;

/// Page of a resolution trace.
#[derive(Template)]
#[template(path = "trace.html")]
struct TracePage<'a> {
    site: &'a ServiceIdentity,
    title: String,
    name: String,
    resolves: bool,
    steps: Vec<TraceStepRow>,
    locations: Vec<LocationRow>,
    is_truncated: bool,
    path: String,
}

/// Step as shown.
struct TraceStepRow {
    step: &'static str,
    ok: bool,
    message: CodeSpans,
    /// Suggested action, or empty.
    hint: CodeSpans,
}

/// Redirect candidate as shown, with its selection result.
struct LocationRow {
    href: String,
    attributes: String,
    /// Selection result, with the step that decided it.
    result: String,
    is_selected: bool,
}

/// Renders the page of a trace.
pub(crate) fn trace_page(trace: &ResolutionTrace, site: &ServiceIdentity) -> Reply {
    let mut page_budget = PageBudget::new();
    let (mut steps, name) = (Vec::new(), escape_invisible(&trace.name));
    for step in &trace.steps {
        if !page_budget.has_room() {
            break;
        }
        let hint = step.hint.as_deref().map(|hint| page_budget.line(hint)).unwrap_or_default();
        steps.push(TraceStepRow {
            step: step.step,
            ok: step.ok,
            message: CodeSpans::about(&name, page_budget.line(&step.message)),
            hint: CodeSpans::about(&name, hint),
        });
    }
    let mut locations = Vec::new();
    for (number, location) in trace.locations.iter().enumerate() {
        if !page_budget.has_room() {
            break;
        }
        let attributes = match location.index {
            Some(index) => format!("URL value {index}, weight {}", location.weight),
            None => {
                let attributes = location.attributes.iter().map(|(name, value)| format!("{name} {value}"));
                attributes.collect::<Vec<_>>().join(", ")
            }
        };
        let (result, is_selected) = selection_result(number, trace);
        locations.push(LocationRow {
            href: page_budget.line(&location.href),
            attributes: page_budget.line(&attributes),
            result: page_budget.line(&result),
            is_selected,
        });
    }
    vary_by_accept(render(
        StatusCode::OK,
        &TracePage {
            site,
            title: escape_invisible(&truncate_chars(&trace.name, 80)),
            name,
            resolves: trace.outcome == TraceOutcome::Resolves,
            steps,
            locations,
            is_truncated: page_budget.is_exhausted(),
            path: name_path::format(&trace.name),
        },
    ))
}

/// Selection result of a candidate, and whether it was selected.
fn selection_result(number: usize, trace: &ResolutionTrace) -> (String, bool) {
    if let Some(step) = trace.selection.iter().find(|step| !step.remaining.contains(&number)) {
        return (format!("not selected ({})", step.method), false);
    }
    match trace.selection.iter().find(|step| step.remaining == [number]) {
        Some(step) => (format!("selected ({})", step.method), true),
        // Without locations, the first `URL` value wins, unless it is of a subtype.
        None if trace.selection.is_empty() => {
            let first = trace.locations.iter().position(|location| location.weight > 0.0).unwrap_or_default();
            if first == number {
                ("selected (first URL)".into(), true)
            } else {
                ("not selected".into(), false)
            }
        }
        None => ("remaining".into(), false),
    }
}
