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
struct ExplanationPage {
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
    /// The last step of the choice that left it.
    left_by: String,
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
        // What was left by no step was left out by the first.
        let left_by = explained.choice.iter().rfind(|step| step.left.contains(&number));
        let chosen = explained.choice.last().is_some_and(|step| step.left == [number]);
        places.push(Place {
            href: room.line(&place.href),
            from: room.line(&from),
            left_by: left_by.map(|step| room.line(&step.by)).unwrap_or_default(),
            is_chosen: chosen || explained.places.len() == 1,
        });
    }
    by_accept(show(
        StatusCode::OK,
        &ExplanationPage {
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
