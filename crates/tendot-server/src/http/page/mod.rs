//! What people see. Everything in a record is a stranger's: the templates escape it, `text.rs` makes visible what is not and
//! bounds it, and nothing is a link but what `address.rs` takes.
//!
//! `record.rs` shows a record, with `value.rs` for its values and `registration.rs` for what the registry knows, and `history.rs` what it was before; `problem.rs` says why there is none, for programs, too;
//! `explanation.rs` how a name led where it did; `home.rs` is the first page, and `docs.rs` describes the interface.

mod docs;
mod explanation;
mod history;
mod home;
mod problem;
mod record;
mod registration;
mod text;
mod value;

use askama::Template;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue, VARY};

use super::answer::{HTML, PAGE_SECURITY_HEADERS, Reply, reply};
use super::location::{CandidateSource, RedirectCandidate};

pub(crate) use docs::get_docs;
pub(crate) use explanation::trace_page;
pub(crate) use home::describe as describe_home;
pub(crate) use problem::{
    Problem, ProblemJson, alias_loop, prefix_inactive, problem, problem_for_store, problem_of_caller,
    problem_of_name, problem_of_request, syntax_error_page,
};

/// The stylesheet of all pages.
pub(crate) const STYLESHEET: &str = include_str!("style.css");

pub(crate) const FAVICON: &[u8] = include_bytes!("favicon.svg");

/// HTML body of a redirect.
#[derive(Template)]
#[template(path = "link.html")]
struct RedirectBody<'a> {
    address: &'a str,
}

/// The body of a redirect.
pub(crate) fn redirect_body(address: &str) -> Bytes {
    RedirectBody { address }.render().unwrap_or_default().into()
}

/// Locations as XML (`action=showurls`).
#[derive(Template)]
#[template(path = "places.xml")]
struct LocationsXml<'a> {
    places: Vec<Vec<(&'a str, &'a str)>>,
}

/// The places of a record, as XML.
pub(crate) fn locations_xml(candidates: &[RedirectCandidate<'_>]) -> Reply {
    let weights: Vec<String> = candidates.iter().map(|candidate| candidate.weight.to_string()).collect();
    let weighed = candidates.iter().zip(&weights);
    let page =
        LocationsXml { places: weighed.map(|(candidate, weight)| attributes(candidate, weight)).collect() };
    let kind = HeaderValue::from_static("text/xml;charset=utf-8");
    reply(StatusCode::OK, kind, page.render().unwrap_or_default())
}

fn attributes<'c>(candidate: &'c RedirectCandidate<'_>, weight: &'c str) -> Vec<(&'c str, &'c str)> {
    match candidate.origin {
        CandidateSource::Url(_) => vec![("mode", "legacy"), ("weight", weight), ("href", &candidate.href)],
        CandidateSource::Location(location) => {
            let given = location.attributes().filter(|(name, _)| *name != "href");
            given.chain([("href", &*candidate.href)]).collect()
        }
    }
}

fn render(status: StatusCode, page: &impl Template) -> Reply {
    let Ok(body) = page.render() else { return reply(StatusCode::INTERNAL_SERVER_ERROR, HTML, "") };
    let mut response = reply(status, HTML, body);
    response.headers_mut().extend(PAGE_SECURITY_HEADERS);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Says that the answer is the one that the client would rather have, and not for later.
pub(crate) fn vary_by_accept(mut response: Reply) -> Reply {
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
