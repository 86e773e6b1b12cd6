//! Home page.

use askama::Template;
use http::StatusCode;
use tendot_store::Store;
use utoipa::openapi::{HttpMethod, ObjectBuilder, RefOr, Required, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::HttpServer;
use crate::http::pages::{ProblemJson, render};
use crate::http::resolve::redirect;
use crate::http::response::reply::Reply;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};

/// Prefixes that are counted; beyond that, a lower bound is shown.
const MAX_COUNTED_PREFIXES: usize = 1_000;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    figures: Vec<(String, &'static str)>,
}

impl HttpServer {
    /// Home page with the search box.
    pub(crate) async fn get_home(&self) -> Reply {
        let mut figures = Vec::new();
        if let Ok(Some(names)) = self.registry.count_all_handles().await {
            figures.push((format_thousands(names), if names == 1 { "name" } else { "names" }));
        }
        if let Ok(homed) = self.registry.store().list_homed(None, MAX_COUNTED_PREFIXES + 1).await {
            let number = format_thousands(homed.len().min(MAX_COUNTED_PREFIXES) as u64);
            let number =
                if homed.len() > MAX_COUNTED_PREFIXES { format!("more than {number}") } else { number };
            figures.push((number, if homed.len() == 1 { "prefix" } else { "prefixes" }));
        }
        render(StatusCode::OK, &HomePage { figures })
    }
}

/// Schema only: form of older proxy pages.
struct ResolveFormSchema;

impl PartialSchema for ResolveFormSchema {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .description(Some("Without `hdl`, the answer is the first page"))
            .property("hdl", text_schema())
            .additional_properties(Some(text_schema()))
            .property_names(Some(text_schema()))
            .into()
    }
}

impl ToSchema for ResolveFormSchema {}

/// OpenAPI spec of `/`.
pub(crate) fn describe() -> PathSpec {
    let bad = "What was sent is not written as it should be";
    let context = OperationSpec::new("The page with one box, or the way to what was typed into it")
        .tag("Pages")
        .query_param("text", "A name, an address or a whole citation", text_schema())
        .example_command("curl -si \"$SERVER/?text=doi:10.5555/DEMO\"")
        .response(StatusCode::OK, "The page")
        .text_content("text/html")
        .response(StatusCode::SEE_OTHER, "The way to the path of the name")
        .response_header("Location", "The path")
        .text_content("text/html")
        .response(StatusCode::BAD_REQUEST, bad)
        .text_content("text/html")
        .json_content::<ProblemJson<'_>>("application/problem+json");
    let send = OperationSpec::new("Where a name leads that comes in a form")
        .description(
            "As `GET /{name}` for the name in `hdl`, with the form's other fields as its parameters.",
        )
        .tag("Names")
        .example_command("curl -si $SERVER/ -d hdl=10.5555/DEMO")
        .request_body::<ResolveFormSchema>(
            "application/x-www-form-urlencoded",
            "At most 64 KiB",
            Required::False,
        );
    PathSpec::readable(context).with_method(HttpMethod::Post, redirect::with_resolution_responses(send))
}

/// Formats a number as `1,234,567`.
pub(super) fn format_thousands(number: u64) -> String {
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
        let grouped = [0, 999, 1_000, 1_234_567].map(super::format_thousands);
        assert_eq!(grouped, ["0", "999", "1,000", "1,234,567"]);
    }
}
