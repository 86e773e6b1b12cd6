//! Page of a resolution trace (`?explain`).

use askama::Template;
use http::StatusCode;

use crate::http::pages::page_budget::{PageBudget, escape_invisible, truncate_chars};
use crate::http::pages::{render, vary_by_accept};
use crate::http::resolve::explain::{ResolutionTrace, TraceOutcome};
use crate::http::resolve::redirect::format;
use crate::http::response::reply::Reply;

/// Page of a resolution trace.
#[derive(Template)]
#[template(path = "trace.html")]
struct TracePage {
    title: String,
    name: String,
    resolves: bool,
    steps: Vec<TraceStepRow>,
    places: Vec<LocationRow>,
    microseconds: u64,
    is_short: bool,
    path: String,
}

/// Step as shown.
struct TraceStepRow {
    step: &'static str,
    ok: bool,
    says: String,
    advice: String,
}

/// Redirect candidate as shown, with its selection result.
struct LocationRow {
    href: String,
    from: String,
    /// Selection result, with the step that decided it.
    fate: String,
    is_chosen: bool,
}

/// Renders the page of a trace.
pub(crate) fn trace_page(explained: &ResolutionTrace) -> Reply {
    let mut page_budget = PageBudget::new();
    let mut steps = Vec::new();
    for finding in &explained.steps {
        if !page_budget.has_room() {
            break;
        }
        let advice = finding.advice.as_deref().map(|advice| page_budget.line(advice)).unwrap_or_default();
        steps.push(TraceStepRow {
            step: finding.step,
            ok: finding.ok,
            says: page_budget.line(&finding.says),
            advice,
        });
    }
    let mut places = Vec::new();
    for (number, place) in explained.places.iter().enumerate() {
        if !page_budget.has_room() {
            break;
        }
        let attributes: Vec<String> =
            place.attributes.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let from = match place.index {
            Some(index) => format!("the URL at index {index}, weight {}", place.weight),
            None => attributes.join(", "),
        };
        let (fate, is_chosen) = selection_result(number, explained);
        places.push(LocationRow {
            href: page_budget.line(&place.href),
            from: page_budget.line(&from),
            fate: page_budget.line(&fate),
            is_chosen,
        });
    }
    vary_by_accept(render(
        StatusCode::OK,
        &TracePage {
            title: escape_invisible(&truncate_chars(&explained.name, 80)),
            name: escape_invisible(&explained.name),
            resolves: explained.outcome == TraceOutcome::Resolves,
            steps,
            places,
            microseconds: explained.microseconds,
            is_short: page_budget.is_exhausted(),
            path: format(&explained.name),
        },
    ))
}

/// Selection result of a candidate, and whether it was selected.
fn selection_result(number: usize, explained: &ResolutionTrace) -> (String, bool) {
    if let Some(step) = explained.choice.iter().find(|step| !step.remaining.contains(&number)) {
        return (format!("out by {}", step.method), false);
    }
    match explained.choice.iter().find(|step| step.remaining == [number]) {
        Some(step) => (format!("chosen by {}", step.method), true),
        // Without locations, the first `URL` value wins, unless it is of a subtype.
        None if explained.choice.is_empty() => {
            let first = explained.places.iter().position(|place| place.weight > 0.0).unwrap_or_default();
            if first == number {
                ("chosen, as the first".into(), true)
            } else {
                ("not the first".into(), false)
            }
        }
        None => ("left".into(), false),
    }
}
