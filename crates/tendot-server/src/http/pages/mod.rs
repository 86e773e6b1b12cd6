//! HTML pages. Record contents are untrusted: the templates escape them, `page_budget.rs` bounds them and escapes control
//! characters, and only URLs that `redirect_target.rs` accepts become links.

mod docs;
mod history;
mod home;
mod page_budget;
mod problem;
mod record;
mod registration;
pub(crate) mod static_files;
mod trace;
mod values;

use askama::Template;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue, VARY};

use crate::http::resolve::locations::selection::{CandidateSource, RedirectCandidate};
use crate::http::response::reply::{HTML, PAGE_SECURITY_HEADERS, Reply, reply};

pub(crate) use docs::get_docs;
pub(crate) use home::describe as describe_home;
pub(crate) use problem::{alias_loop, prefix_inactive, syntax_error_page};
pub(crate) use registration::RegistrationDetails;
pub(crate) use trace::trace_page;

pub(crate) use crate::http::response::errors::{
    problem_for_store, problem_of_caller, problem_of_name, problem_of_request,
};
pub(crate) use crate::http::response::problem::{Problem, ProblemJson, problem};

/// HTML body of a redirect.
#[derive(Template)]
#[template(path = "redirect.html")]
struct RedirectBody<'a> {
    url: &'a str,
}

/// Renders the body of a redirect.
pub(crate) fn redirect_body(url: &str) -> Bytes {
    RedirectBody { url }.render().unwrap_or_default().into()
}

/// Locations as XML (`action=showurls`).
#[derive(Template)]
#[template(path = "locations.xml")]
struct LocationsXml<'a> {
    locations: Vec<Vec<(&'a str, &'a str)>>,
}

/// Renders the locations of a record as XML.
pub(crate) fn locations_xml(candidates: &[RedirectCandidate<'_>]) -> Reply {
    let weights: Vec<String> = candidates.iter().map(|candidate| candidate.weight.to_string()).collect();
    let weighted = candidates.iter().zip(&weights);
    let locations = weighted.map(|(candidate, weight)| attributes(candidate, weight)).collect();
    let media_type = HeaderValue::from_static("text/xml;charset=utf-8");
    reply(StatusCode::OK, media_type, LocationsXml { locations }.render().unwrap_or_default())
}

/// XML attributes of a location.
fn attributes<'c>(candidate: &'c RedirectCandidate<'_>, weight: &'c str) -> Vec<(&'c str, &'c str)> {
    match candidate.origin {
        CandidateSource::UrlValue(_) => {
            vec![("mode", "legacy"), ("weight", weight), ("href", &candidate.href)]
        }
        CandidateSource::Location(location) => {
            let others = location.attributes().filter(|(name, _)| *name != "href");
            others.chain([("href", &*candidate.href)]).collect()
        }
    }
}

/// Reply with a rendered page and its security headers.
fn render(status: StatusCode, page: &impl Template) -> Reply {
    let Ok(body) = page.render() else { return reply(StatusCode::INTERNAL_SERVER_ERROR, HTML, "") };
    let mut response = reply(status, HTML, body);
    response.headers_mut().extend(PAGE_SECURITY_HEADERS);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Adds `Vary: Accept` and `Cache-Control: no-cache`.
pub(crate) fn vary_by_accept(mut response: Reply) -> Reply {
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
