//! How a name led where it did.

use askama::Template;
use http::StatusCode;

use super::text::{Room, beginning, visible};
use super::{by_accept, show};
use crate::http::answer::Answer;
use crate::http::explain::{Explanation, Outcome};
use crate::http::redirect::own_path;

#[derive(Template)]
#[template(path = "explanation.html")]
struct TracePage {
    title: String,
    name: String,
    resolves: bool,
    steps: Vec<Shown>,
    places: Vec<Place>,
    microseconds: u64,
    is_short: bool,
    path: String,
}

struct Shown {
    step: &'static str,
    ok: bool,
    says: String,
    advice: String,
}

struct Place {
    href: String,
    from: String,
    /// What became of it, and by which step.
    fate: String,
    is_chosen: bool,
}

/// The page of an explanation.
pub(crate) fn explanation(explained: &Explanation) -> Answer {
    let mut room = Room::new();
    let mut steps = Vec::new();
    for finding in &explained.steps {
        if !room.has_more() {
            break;
        }
        let advice = finding.advice.as_deref().map(|advice| room.line(advice)).unwrap_or_default();
        steps.push(Shown { step: finding.step, ok: finding.ok, says: room.line(&finding.says), advice });
    }
    let mut places = Vec::new();
    for (number, place) in explained.places.iter().enumerate() {
        if !room.has_more() {
            break;
        }
        let attributes: Vec<String> =
            place.attributes.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let from = match place.index {
            Some(index) => format!("the URL at index {index}, weight {}", place.weight),
            None => attributes.join(", "),
        };
        let (fate, is_chosen) = fate(number, explained);
        places.push(Place {
            href: room.line(&place.href),
            from: room.line(&from),
            fate: room.line(&fate),
            is_chosen,
        });
    }
    by_accept(show(
        StatusCode::OK,
        &TracePage {
            title: visible(&beginning(&explained.name, 80)),
            name: visible(&explained.name),
            resolves: explained.outcome == Outcome::Resolves,
            steps,
            places,
            microseconds: explained.microseconds,
            is_short: room.is_short(),
            path: own_path(&explained.name),
        },
    ))
}

/// What became of a place, and whether it was chosen.
fn fate(number: usize, explained: &Explanation) -> (String, bool) {
    if let Some(step) = explained.choice.iter().find(|step| !step.left.contains(&number)) {
        return (format!("out by {}", step.by), false);
    }
    match explained.choice.iter().find(|step| step.left == [number]) {
        Some(step) => (format!("chosen by {}", step.by), true),
        // Without locations the first address wins, unless it is of a type below.
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
