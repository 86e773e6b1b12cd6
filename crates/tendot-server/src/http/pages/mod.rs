//! HTML pages. Record contents are untrusted: the templates escape them, `page_budget.rs` bounds them and escapes control
//! characters, and only URLs that `redirect_target.rs` accepts become links.
//!
//! In reading order:
//!
//! - `home.rs`, `docs.rs`: home page, API reference
//! - `record.rs`: record of a name, with `registration.rs` (registry data) and `values.rs` (handle values)
//! - `history.rs`, `trace.rs`, `problem.rs`: history of a name, resolution trace, error pages
//! - `party_names.rs`: names of parties and authors instead of ids
//! - `page_budget.rs`, `code_spans.rs`: bounded text, code in messages
//! - `identity.rs`: operator and resolver that pages show
//! - `static_files.rs`: stylesheet, icon, `robots.txt`, `security.txt`

mod code_spans;
mod docs;
mod history;
mod home;
mod identity;
mod page_budget;
mod party_names;
mod problem;
mod record;
mod registration;
mod static_files;
mod trace;
mod values;

use std::future::ready;

use askama::Template;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};

use crate::http::middleware::metrics::RequestKind;
use crate::http::resolve::locations::selection::{CandidateSource, RedirectCandidate};
use crate::http::response::caching::ClientDependence;
use crate::http::response::errors::ErrorFormat;
use crate::http::response::reply::{HTML, PAGE_SECURITY_HEADERS, Reply, TEXT, reply};
use crate::http::routing::endpoint::{Access, Api, ApiEndpoint, Handler, Operation};
use crate::http::routing::openapi;
use static_files::static_file;

pub use identity::ServiceIdentity;
pub(crate) use problem::{
    alias_loop, invalid_name, no_identifier, no_name_in_text, prefix_inactive, syntax_error_page,
};
pub(crate) use registration::RegistrationDetails;
pub(crate) use trace::trace_page;
pub(crate) use values::shown_values;

/// Pages that do not belong to a name, and static files.
pub(crate) static API: Api = Api {
    root: None,
    errors: ErrorFormat::Text,
    endpoints: &[
        ApiEndpoint::new(
            &["/openapi.json"],
            openapi::describe,
            &[page(|_, call| Box::pin(ready(openapi::get_openapi(call.head.headers))))],
        ),
        ApiEndpoint::new(
            &["/docs"],
            docs::describe,
            &[page(|server, call| {
                let page = docs::get_docs(call.head.headers, call.head.identity, &server.docs_page);
                Box::pin(ready(page))
            })],
        ),
        ApiEndpoint::new(
            &["/"],
            home::describe,
            &[
                page(|server, call| Box::pin(server.get_home_or_search(call.head))),
                Operation::post(|server, call| Box::pin(server.post_resolve_form(call.body, call.head)))
                    .kind(RequestKind::Redirect)
                    .access(Access::Public),
            ],
        ),
        ApiEndpoint::new(
            &["/robots.txt"],
            static_files::describe_robots,
            &[page(|_, _| Box::pin(ready(reply(StatusCode::OK, TEXT, static_files::ROBOTS))))],
        ),
        ApiEndpoint::new(
            &["/.well-known/security.txt"],
            static_files::describe_security_txt,
            &[page(|server, _| Box::pin(ready(server.get_security_txt())))],
        ),
        ApiEndpoint::new(
            &["/favicon.ico", "/favicon.svg"],
            static_files::describe_favicon,
            &[page(|_, call| Box::pin(ready(static_files::get_icon(call.head.identity))))],
        ),
        ApiEndpoint::new(
            &["/static/style.css"],
            static_files::describe_stylesheet,
            &[page(|_, _| {
                let stylesheet = Bytes::from_static(static_files::STYLESHEET.as_bytes());
                Box::pin(ready(static_file("text/css;charset=utf-8", stylesheet)))
            })],
        ),
    ],
};

const fn page(handler: Handler) -> Operation {
    Operation::get(handler).kind(RequestKind::Page)
}

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
    ClientDependence::ACCEPT.add_vary(response.headers_mut());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
