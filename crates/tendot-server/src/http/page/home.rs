//! The first page.

use askama::Template;
use http::StatusCode;
use tendot_store::Store;
use utoipa::openapi::{HttpMethod, ObjectBuilder, RefOr, Required, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{ProblemJson, show};
use crate::http::Http;
use crate::http::answer::Answer;
use crate::http::describe::{Described, Doing, text};
use crate::http::redirect;

/// Prefixes that are counted; more are more than that.
const PREFIXES: usize = 1_000;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    figures: Vec<(String, &'static str)>,
}

impl Http {
    /// The page with one box that takes anything.
    pub(crate) async fn home(&self) -> Answer {
        let mut figures = Vec::new();
        if let Ok(Some(names)) = self.registry.size().await {
            figures.push((grouped(names), if names == 1 { "name" } else { "names" }));
        }
        if let Ok(homed) = self.registry.store().homed(None, PREFIXES + 1).await {
            let number = grouped(homed.len().min(PREFIXES) as u64);
            let number = if homed.len() > PREFIXES { format!("more than {number}") } else { number };
            figures.push((number, if homed.len() == 1 { "prefix" } else { "prefixes" }));
        }
        show(StatusCode::OK, &HomePage { figures })
    }
}

/// The form that old pages of proxies send: a name in `hdl`, and parameters.
struct ResolveFormSchema;

impl PartialSchema for ResolveFormSchema {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .description(Some("Without `hdl`, the answer is the first page"))
            .property("hdl", text())
            .additional_properties(Some(text()))
            .property_names(Some(text()))
            .into()
    }
}

impl ToSchema for ResolveFormSchema {}

/// What is done at `/`.
pub(crate) fn describe() -> Described {
    let bad = "What was sent is not written as it should be";
    let search = Doing::new("The page with one box, or the way to what was typed into it")
        .group("Pages")
        .query_param("text", "A name, an address or a whole citation", text())
        .sample("curl -si \"$SERVER/?text=doi:10.5555/DEMO\"")
        .answer(StatusCode::OK, "The page")
        .text("text/html")
        .answer(StatusCode::SEE_OTHER, "The way to the path of the name")
        .header("Location", "The path")
        .text("text/html")
        .answer(StatusCode::BAD_REQUEST, bad)
        .text("text/html")
        .json::<ProblemJson<'_>>("application/problem+json");
    let send = Doing::new("Where a name leads that comes in a form")
        .about("As `GET /{name}` for the name in `hdl`, with the form's other fields as its parameters.")
        .group("Names")
        .sample("curl -si $SERVER/ -d hdl=10.5555/DEMO")
        .body::<ResolveFormSchema>("application/x-www-form-urlencoded", "At most 64 KiB", Required::False);
    Described::read(search).and(HttpMethod::Post, redirect::answers(send))
}

/// `1,234,567`
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn grouped() {
        let grouped = [0, 999, 1_000, 1_234_567].map(super::grouped);
        assert_eq!(grouped, ["0", "999", "1,000", "1,234,567"]);
    }
}
