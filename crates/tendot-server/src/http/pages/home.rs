//! Home page.

use askama::Template;
use http::StatusCode;
use utoipa::openapi::{HttpMethod, ObjectBuilder, RefOr, Required, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::HttpServer;
use crate::http::pages::{ServiceIdentity, render};
use crate::http::resolve::spec;
use crate::http::response::reply::Reply;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};

/// Maximum number of prefixes that are counted; beyond it, a lower bound is shown.
const MAX_COUNTED_PREFIXES: usize = 1_000;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage<'a> {
    site: &'a ServiceIdentity,
    /// Numbers of names and prefixes, each with its label.
    totals: Vec<(String, &'static str)>,
}

impl HttpServer {
    /// Renders the home page.
    pub(crate) async fn get_home(&self) -> Reply {
        let mut totals = Vec::new();
        if let Ok(Some(names)) = self.registry.count_all_handles().await {
            totals.push((format_thousands(names), if names == 1 { "name" } else { "names" }));
        }
        if let Ok(homed) = self.registry.count_homed_prefixes(MAX_COUNTED_PREFIXES + 1).await {
            let number = format_thousands(homed.min(MAX_COUNTED_PREFIXES) as u64);
            let number = if homed > MAX_COUNTED_PREFIXES { format!("more than {number}") } else { number };
            totals.push((number, if homed == 1 { "prefix" } else { "prefixes" }));
        }
        render(StatusCode::OK, &HomePage { site: &self.resolver.identity, totals })
    }
}

/// Schema only: form of older proxy pages.
struct ResolveFormSchema;

impl PartialSchema for ResolveFormSchema {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .description(Some("Without `hdl`, returns the home page"))
            .property("hdl", text_schema())
            .additional_properties(Some(text_schema()))
            .property_names(Some(text_schema()))
            .into()
    }
}

impl ToSchema for ResolveFormSchema {}

/// OpenAPI spec of `/`.
pub(crate) fn describe() -> PathSpec {
    let get = OperationSpec::new("Get the home page, or resolve the name in a text")
        .tag("Pages")
        .query_param("text", "DOI, handle, URL or citation to resolve", text_schema())
        .example_command("curl -si \"$SERVER/?text=doi:10.5555/DEMO\"")
        .response(StatusCode::OK, "Home page")
        .text_content("text/html")
        .response(StatusCode::SEE_OTHER, "Redirect to the name")
        .response_header("Location", "Path of the name")
        .text_content("text/html")
        .response(StatusCode::BAD_REQUEST, "Malformed request")
        .text_content("text/html")
        .problem_content()
        .response(StatusCode::NOT_FOUND, "No name in the text")
        .text_content("text/html")
        .problem_content();
    let post = OperationSpec::new("Resolve a name from a form")
        .description(
            "Same as `GET /{name}` for the name in `hdl`; the other form fields are its query parameters.",
        )
        .tag("Resolution")
        .example_command("curl -si $SERVER/ -d hdl=10.5555/DEMO")
        .request_body::<ResolveFormSchema>(
            "application/x-www-form-urlencoded",
            "At most 64 KiB",
            Required::False,
        );
    PathSpec::readable(get).with_method(HttpMethod::Post, spec::with_resolution_responses(post))
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
    fn thousands() {
        let formatted = [0, 999, 1_000, 1_234_567].map(super::format_thousands);
        assert_eq!(formatted, ["0", "999", "1,000", "1,234,567"]);
    }
}
